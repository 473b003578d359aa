package cli_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
)

// TestNextNamesTheWrongPath: of several paths the one with the first wrong call is what step is asked to look at, and
// that call what explain is.
func TestNextNamesTheWrongPath(t *testing.T) {
	const sound, wrong = "../../fixtures/hook", "../../step/testdata/scaled"
	want, err := filepath.Abs(wrong)
	if err != nil {
		t.Fatal(err)
	}
	for _, paths := range [][]string{{sound, wrong}, {wrong, sound}} {
		var out, errs bytes.Buffer
		args := append([]string{"replay", "--acc_check", "--quiet", "--out", t.TempDir()}, paths...)
		cli.Main(args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if !strings.Contains(out.String(), " step "+want+"\n") {
			t.Errorf("%v: %q does not name %s", paths, out.String()+errs.String(), want)
		}
		if !strings.Contains(out.String(), " explain "+want+"/") {
			t.Errorf("%v: explain is not offered for a call of %s: %q", paths, want, out.String())
		}
	}
}

// TestNextRunsTheCall: a wrong call can be computed anew where it was recorded, by the function that the program had in
// the place of torch's; not by one that only the program itself has.
func TestNextRunsTheCall(t *testing.T) {
	for path, want := range map[string]string{"replaced": " replay --device torch:cpu --map-function " +
		"torch.nn.functional.gelu=mymod:fast_gelu /", "rounding/c": ""} {
		var out, errs bytes.Buffer
		cli.Main([]string{"replay", "--out", t.TempDir(), "testdata/" + path},
			cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if got := out.String(); !strings.Contains(got, want) || strings.Contains(got, "computed anew") != (want != "") {
			t.Errorf("%s: got\n%s%s", path, got, errs.String())
		}
	}
}

// TestNextBringsTheFunction: the command that computes a call of an operator that is not torch's anew brings its
// function: by the flags of this run or, if there are none, by a module that the user knows.
func TestNextBringsTheFunction(t *testing.T) {
	file := filepath.Join(t.TempDir(), "wrong.star")
	if err := os.WriteFile(file, []byte("op(\"__main__.my_norm(Tensor x, Tensor w, float eps=1e-6) -> Tensor\", "+
		"lambda x, w, eps: 9 * x)\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]string{
		"": "(MODULE is the Python module that has the function):\n",
		"--map-function=__main__.my_norm=mymod:norm": " --map-function __main__.my_norm=mymod:norm ",
		"--torch-import=mymod":                       " --torch-import mymod "} {
		args := []string{"replay", "--ops", file, "--op", "__main__.my_norm", "--out", t.TempDir()}
		if flags != "" {
			args = append(args, flags)
		}
		var out, errs bytes.Buffer
		cli.Main(append(args, "testdata/replaced"), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		got := out.String()
		if !strings.Contains(got, want) || strings.Contains(got, "MODULE") != (flags == "") {
			t.Errorf("%s: no %q in\n%s%s", flags, want, got, errs.String())
		}
	}
}

// TestNextNamesPython: the command that computes a call anew names the Python that ran the recorded program, where that
// is on this machine and is not the default.
func TestNextNamesPython(t *testing.T) {
	python := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(python, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, executable := range []string{python, "/nowhere/python"} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS("testdata/replaced")); err != nil {
			t.Fatal(err)
		}
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() != "calls.jsonl" {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			const run = `"event":"run",`
			raw = bytes.Replace(raw, []byte(run), []byte(run+`"executable":"`+executable+`",`), 1)
			return os.WriteFile(path, raw, 0o644)
		}); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		cli.Main([]string{"replay", "--out", t.TempDir(), dir},
			cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		got := strings.Contains(out.String(), " replay --device torch:cpu --python "+python+" --map-function ")
		if got != (executable == python) || !strings.Contains(out.String(), "computed anew") {
			t.Errorf("%s: got\n%s%s", executable, out.String(), errs.String())
		}
	}
}

// TestNextOfSoundCalls: where all calls are right by themselves, replay says what it did not look at; not where one is
// wrong, and not where no step was recorded.
func TestNextOfSoundCalls(t *testing.T) {
	const line = "values that changed between calls are found by: "
	for path, want := range map[string]bool{"../../step/testdata/block": true, "../../step/testdata/scaled": false,
		"../../fixtures/captures/encoder": false} {
		var out, errs bytes.Buffer
		cli.Main([]string{"replay", "--acc_check", "--out", t.TempDir(), path},
			cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if got := out.String(); strings.Contains(got, line) != want || want && !strings.HasSuffix(got, "/step/testdata/block\n") {
			t.Errorf("%s: got\n%s%s", path, got, errs.String())
		}
	}
}

// TestNoneWrong: explain and bundle of calls that are all right say what they did not look at.
func TestNoneWrong(t *testing.T) {
	for _, command := range [][]string{{"explain"}, {"bundle", "-o", filepath.Join(t.TempDir(), "bug.zip")}} {
		var out, errs bytes.Buffer
		cli.Main(append(command, "../../step/testdata/block"),
			cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if got := out.String(); !strings.Contains(got, "optool step finds values that changed between calls\n") {
			t.Errorf("%s: got\n%s%s", command[0], got, errs.String())
		}
	}
}

// TestNextOfChange: where a value changed between two calls that are right, running one of them again shows nothing.
func TestNextOfChange(t *testing.T) {
	var out, errs bytes.Buffer
	markdown := filepath.Join(t.TempDir(), "step.md")
	code := cli.Main([]string{"step", "--markdown", markdown, "../../step/testdata/overwritten"},
		cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	report, err := os.ReadFile(markdown)
	if err != nil {
		t.Fatal(err)
	}
	if code != cli.ExitDiffers || !strings.Contains(out.String(), " step --html step.html ") {
		t.Errorf("exit code %d: %s%s", code, out.String(), errs.String())
	}
	const dir = "op_tools_results/op_capture_results/torch."
	want := inOrder("look between these two calls for what writes without being recorded", "send them",
		"    "+dir+"nn.functional.linear/303/6/2026-11-22-14-07-59\n",
		"    "+dir+"Tensor.add/303/7/2026-11-22-14-07-59\n")
	if !want.MatchString(out.String()) {
		t.Errorf("what to do is not said:\n%s", out.String())
	}
	for _, text := range []string{out.String(), string(report)} {
		if strings.Contains(text, " replay --tables ") {
			t.Errorf("a replay is offered:\n%s", text)
		}
	}
	if !strings.Contains(string(report), "- calls: **0 of ") {
		t.Errorf("calls fail:\n%s", report)
	}
}

// TestNextOfSeveralPrograms: of a directory with the recordings of several programs, step is asked to look at that of
// the first wrong call.
func TestNextOfSeveralPrograms(t *testing.T) {
	dir := t.TempDir()
	for name, from := range map[string]string{"sound": "../../fixtures/hook", "wrong": "../../step/testdata/scaled"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	streams := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}
	cli.Main([]string{"replay", "--quiet", "--out", t.TempDir(), dir}, streams)
	if want := " step " + filepath.Join(dir, "wrong") + "\n"; !strings.Contains(out.String(), want) {
		t.Errorf("%q does not name %s", out.String()+errs.String(), want)
	}
}
