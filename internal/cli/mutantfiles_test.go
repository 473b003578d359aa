package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/internal/shorttest"
)

// An input is a directory of files that commands read, and these commands. SOUND stands for the
// directory, DIR for a copy of which one file is damaged, OUT for an empty one.
type input struct {
	from     string                         // a directory of this module
	write    func(t *testing.T, dir string) // writes it, where from is ""
	suffixes []string                       // of the files that are damaged; none: all
	commands []string
}

// inputs are those that TestMutants has none of: files of values, logs, journals, settings.
var inputs = map[string]input{
	"distcp": {from: "pthformat/testdata/objects/a/dcp", commands: []string{"compare SOUND DIR", "check DIR",
		"show DIR", "show --json --sha256 DIR", "ls DIR"}},
	"objects": {from: "pthformat/testdata/objects/a", commands: []string{"compare SOUND DIR", "check DIR",
		"show --json --sha256 DIR"}},
	"arrays": {from: "pthformat/testdata/arrays", commands: []string{"compare SOUND DIR", "check DIR",
		"show --json --sha256 DIR"}},
	"torch": {from: "pthformat/testdata/torch", commands: []string{"compare SOUND DIR", "check DIR",
		"show --values 3 DIR"}},
	"precision": {from: "step/pairs/testdata/precision", commands: []string{
		"compare SOUND/float32 DIR/bfloat16", "compare DIR/leaky SOUND/float32",
		"compare --rows SOUND/float32 DIR/float32", "step DIR/float32 --against SOUND/float32"}},
	"ranks": {from: "step/parallel/testdata/tensor", commands: []string{"step DIR", "replay DIR --out OUT",
		"ls --json DIR", "bundle DIR -o OUT/b.zip"}},
	"levels": {from: "step/metric/testdata/levels", commands: []string{"compare DIR/tree DIR/log.txt",
		"compare SOUND/tree DIR/wrong.txt", "compare DIR/tree DIR/statistics_log"}},
	"logs": {write: writeLogs, commands: []string{"compare SOUND/a.txt DIR/a.txt", "compare DIR/a.json SOUND/a.txt",
		"compare DIR/titan.txt SOUND/titan.txt", "compare DIR/scopes.txt SOUND/scopes2.txt"}},
	"demo": {from: "fixtures/demo", commands: []string{"bundle DIR -o OUT/b.zip",
		"reduce DIR --timeout 1s -o OUT/small", "explain --all DIR",
		"replay DIR --save-reference OUT/reference --out OUT --html OUT/r.html --junit OUT/r.xml"}},
	"journal": {write: writeJournal, commands: []string{"report DIR/run.jsonl --html OUT/r.html --csv OUT/r.csv",
		"report DIR/run.jsonl --markdown OUT/r.md --junit OUT/r.xml", "compare --results SOUND/run.jsonl DIR/run.jsonl",
		"compare --results DIR/run.jsonl SOUND/run.jsonl", "compare --time SOUND/time.jsonl DIR/time.jsonl",
		"report DIR/time.jsonl --junit OUT/r.xml"}},
	"run directory": {write: writeRun, commands: []string{"report DIR/run --html OUT/r.html",
		"replay ../../fixtures/hook --run DIR/run --resume",
		"compare --results SOUND/run/run.jsonl DIR/run/run.jsonl"}},
	"settings": {write: writeSettings, commands: []string{
		"replay ../../fixtures/hook --out OUT --tolerances DIR/tolerances.yaml", "compare SOUND/a DIR/b --map DIR/map.txt",
		"replay ../../fixtures/hook --out OUT --ops DIR/ops.star",
		"step ../../step/parallel/testdata/tensor --layout DIR/layout.txt"}},
	"conformance": {write: writeConformance, commands: []string{
		"conformance --mode run_test --device none --cache_dir DIR --test_result_path= --error_report OUT/e.csv", "show DIR",
		"conformance --mode gen_case --cache_dir DIR --case_output_dir OUT"}},
}

// fill names the directories of a command.
func fill(command, sound, dir, out string) []string {
	return strings.Fields(strings.NewReplacer("SOUND", sound, "DIR", dir, "OUT", out).Replace(command))
}

// TestMutantInputs gives the commands damaged files of values, logs, journals and settings. They neither panic nor hang
// nor take much memory, and what they refuse they refuse in sentences.
func TestMutantInputs(t *testing.T) {
	shorttest.Computes(t)
	for name, in := range inputs {
		t.Run(name, func(t *testing.T) {
			n := fuzzcheck.Mutants(t, 3)
			root := t.TempDir()
			sound, dir, out := filepath.Join(root, "sound"), filepath.Join(root, "m"), filepath.Join(root, "out")
			if in.write != nil {
				in.write(t, sound)
			} else if err := os.CopyFS(sound, os.DirFS(filepath.Join("../..", in.from))); err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1+fuzzcheck.Seed(t), uint64(n)))
			codes := map[int]int{}
			for _, command := range in.commands {
				args := fill(command, sound, sound, out)
				if code := sentences(t, args...); code == cli.ExitUsage {
					t.Fatalf("%q gives %d for sound files", args, code)
				}
			}
			for i := range n {
				if err := os.CopyFS(dir, os.DirFS(sound)); err != nil {
					t.Fatal(err)
				}
				rel, how := fuzzcheck.MutateFile(t, r, dir, in.suffixes...)
				what := fmt.Sprintf("mutant %d of %d: %s: %s", i, n, rel, how)
				fuzzcheck.Returns(t, what, func() {
					for _, command := range in.commands {
						args := fill(command, sound, dir, out)
						fuzzcheck.Bounded(t, 1, 1<<30, func() { codes[sentences(t, args...)]++ })
						if err := os.RemoveAll(out); err != nil {
							t.Error(err)
						}
						if err := os.MkdirAll(out, 0o777); err != nil {
							t.Error(err)
						}
					}
				})
				if t.Failed() {
					t.Fatalf("%s", what)
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("exit codes: %v", codes)
		})
	}
}

// sentences runs a command, whose exit code is one that it may have and whose errors are sentences.
func sentences(t *testing.T, args ...string) int {
	t.Helper()
	var out, errs bytes.Buffer
	streams := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}
	code := cli.Main(append(args, "--quiet", "--jobs", "1"), streams)
	if !slices.Contains([]int{cli.ExitOK, cli.ExitDiffers, cli.ExitUsage, cli.ExitFailed, cli.ExitInterrupted}, code) {
		t.Errorf("%q gives %d: %s", args, code, errs.String())
	}
	for line := range strings.Lines(errs.String()) {
		fuzzcheck.Sentence(t, errors.New(strings.TrimSuffix(line, "\n")))
	}
	if strings.Contains(out.String()+errs.String(), "internal error") {
		t.Errorf("%q: %s", args, errs.String())
	}
	return code
}

// writeLogs takes the logs of the script that compares them.
func writeLogs(t *testing.T, dir string) {
	a, err := txtar.ParseFile("../../cmd/optool/testdata/script/comparelogs.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Files {
		write(t, string(f.Data), dir, f.Name)
	}
}

func writeJournal(t *testing.T, dir string) {
	must(t, os.MkdirAll(dir, 0o777))
	sentences(t, "replay", "../../fixtures/demo", "--json", filepath.Join(dir, "run.jsonl"), "--out", t.TempDir())
	sentences(t, "time", "../../fixtures/hook", "--run_times", "2", "--json", filepath.Join(dir, "time.jsonl"), "--out",
		t.TempDir())
}

func writeRun(t *testing.T, dir string) {
	sentences(t, "replay", "../../fixtures/hook", "--run", filepath.Join(dir, "run"))
}

func writeSettings(t *testing.T, dir string) {
	writeSafetensorsFile(t, filepath.Join(dir, "a"), 0)
	writeSafetensorsFile(t, filepath.Join(dir, "b"), 0)
	write(t, "a.* -> a.*\na.bias -> a.weight\n", dir, "map.txt")
	write(t, "default: {ulp: 4}\ndtype:\n  bfloat16: {ulp: 2}\nop:\n  torch.nn.functional.linear: {atol: 1e-3}\n"+
		"output:\n  torch.sort:\n    output[1]: {atol: 0, rtol: 0}\n", dir, "tolerances.yaml")
	write(t, "mesh tp=2\nup tp=S(0)\ndown tp=S(1)\n* R\n", dir, "layout.txt")
	star, err := filepath.Glob("../../fixtures/custom-ops/*.star")
	must(t, err)
	b, err := os.ReadFile(star[0])
	must(t, err)
	write(t, string(b), dir, "ops.star")
}

func writeConformance(t *testing.T, dir string) {
	sentences(t, "conformance", "--mode", "gen_data", "--fname", "relu", "--cache_dir", dir)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
