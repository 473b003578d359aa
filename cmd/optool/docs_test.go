package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/optool/optool/devicebridge"
)

// notRun are documented lines that TestDocumentedCommands does not run, by how
// they begin, with the reason.
var notRun = map[string]string{
	"go ": "builds optool or runs its tests, which CI does",
	"optool replay <directory> --op '.*squared_distance'": "no capture of the operator that the page declares",
	"optool time --device host --calibrate":               "takes half a minute; time.txtar runs --calibrate on the reference",
	"optool time":                                         "names the command, in a sentence",
	"optool device --build-worker":                        "compiles for a minute; a test of devicebridge builds, with less optimisation",
	"optool conformance":                                  "names the command, in a sentence",
	"optool replay --tables call":                         "runs in the folder of a bundle",
}

// excused returns the entry of notRun for a line, if there is one.
func (d documented) excused() (entry string, ok bool) {
	for entry := range notRun {
		if d.line == entry || strings.HasSuffix(entry, " ") && strings.HasPrefix(d.line, entry) {
			return entry, true
		}
	}
	return "", false
}

// placeholders are the words of a documented line that stand for something of the
// user's, and what of TestDocumentedCommands' working directory stands for them.
var placeholders = map[string]string{
	"/opt/venv/bin/python": "torch-double", "PATH...": "op_tools_results", "PATH": "op_tools_results", "CAPTURES": "op_tools_results", "LIBRARY": "./libdiopi_impl.so", "RUN": "run.jsonl",
	"FILE": "run.jsonl", "A": "run1/op_tools_results", "[B]": "run2/op_tools_results", "OLD": "old.jsonl",
	"NEW": "new.jsonl", "...": "gen_case",
	"/opt/vendor/lib/libdiopi_impl.so": "./libdiopi_impl.so", "./new/libdiopi_impl.so": "./libdiopi_impl.so",
	"./old/libdiopi_impl.so": "./libdiopi_impl.so", "libdiopi_impl.so": "./libdiopi_impl.so",
}

// shorter makes a command that measures, or generates all data, do less of it.
var shorter = strings.NewReplacer(
	"optool time --run_times", "optool time --run_times", "optool time ", "optool time --run_times 1 ",
	"--mode gen_data --fname", "--mode gen_data --fname", "--mode gen_data", "--mode gen_data --fname relu")

// A documented line is a command line of a page or of --help. shown is the output that the page shows for it, without
// which any output is right; exit is the exit code that its comment states, -1 if it states none.
type documented struct {
	source, line string
	shown        []string
	exit         int
}

// command is the line as it is run.
func (d documented) command() string {
	words := strings.Split(d.line, " ")
	for i, w := range words {
		if p, ok := placeholders[w]; ok {
			words[i] = p
		}
	}
	return shorter.Replace(strings.Join(words, " "))
}

// isCommand is what lines of commands begin with; mentioned finds them in a text.
var (
	isCommand = regexp.MustCompile(`^(bin/)?optool [a-z]|^make |^go [a-z]`)
	mentioned = regexp.MustCompile("`((?:bin/)?optool\\s[^`]*|make\\s[^`]*|go\\s+[a-z]+\\s[^`]*)`")
	fenced    = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	continued = regexp.MustCompile(`\\\n\s*`)
	comment   = regexp.MustCompile(`\s+# .*`)
	exitCode  = regexp.MustCompile(`(?:exit code|退出码) (\d+)`)
)

// newDocumented is a documented line, with its comment.
func newDocumented(source, line string) documented {
	d := documented{source: source, line: strings.TrimSpace(comment.ReplaceAllString(line, "")), exit: -1}
	if m := exitCode.FindStringSubmatch(comment.FindString(line)); m != nil {
		d.exit, _ = strconv.Atoi(m[1])
	}
	return d
}

// commandsOf are the command lines of a page. In a block of console a command follows "$ ", and its
// output follows it.
func commandsOf(source, text string) []documented {
	var out []documented
	for _, block := range fenced.FindAllStringSubmatch(text, -1) {
		console := block[1] == "console"
		for line := range strings.Lines(continued.ReplaceAllString(block[2], "")) {
			line, prompt := strings.CutPrefix(strings.TrimRight(line, "\n"), "$ ")
			switch {
			case prompt == console && isCommand.MatchString(line):
				out = append(out, newDocumented(source, line))
			case console && !prompt && len(out) > 0:
				out[len(out)-1].shown = append(out[len(out)-1].shown, line)
			}
		}
	}
	for _, m := range mentioned.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		out = append(out, newDocumented(source, strings.Join(strings.Fields(m[1]), " ")))
	}
	return out
}

// varying are the parts of an output that differ from run to run, and what takes their place.
var varying = []struct {
	part  *regexp.Regexp
	place string
}{
	{regexp.MustCompile(`\S*/optool `), "optool "},
	{regexp.MustCompile(`\b\d+(\.\d+)?( ?)(ns|us|ms|s|KiB|MiB|GiB)\b`), "N$2$3"},
	{regexp.MustCompile(`[ \t]+$`), ""},
}

// notShown is the first line that a page shows and that the output of a command in dir does not have at its place:
// the lines shown are lines of the output, in its order, some left out; "..." in a line is any text.
func notShown(shown []string, output, dir string) (line string, ok bool) {
	same := func(line string) string {
		line = strings.ReplaceAll(line, dir+"/", "")
		for _, v := range varying {
			line = v.part.ReplaceAllString(line, v.place)
		}
		return line
	}
	rest := strings.Split(output, "\n")
	for i := range rest {
		rest[i] = same(rest[i])
	}
	for _, line := range shown {
		if t := strings.TrimSpace(line); t == "" || t == "..." {
			continue
		}
		any := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(same(line)), `\.\.\.`, ".*") + "$")
		at := slices.IndexFunc(rest, any.MatchString)
		if at < 0 {
			return line, true
		}
		rest = rest[at+1:]
	}
	return "", false
}

// TestTranslation: the Chinese README names the same flags, pages and verdicts as the
// English one, and has the same command lines in the same order.
func TestTranslation(t *testing.T) {
	names := regexp.MustCompile("--[a-z][a-z_-]*[a-z]|\\]\\([^)]*\\)|`[a-z]+`")
	read := func(name string) (lines, named []string) {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range commandsOf(name, string(text)) {
			if !strings.HasPrefix(d.line, "go ") { // the Chinese one has a note on module proxies
				lines = append(lines, d.line)
			}
		}
		named = names.FindAllString(fenced.ReplaceAllString(string(text), ""), -1)
		slices.Sort(named)
		return lines, slices.Compact(named)
	}
	lines, named := read("README.md")
	translated, translatedNames := read("README_zh.md")
	if !slices.Equal(lines, translated) {
		t.Errorf("README_zh.md has the commands %q, README.md %q", translated, lines)
	}
	for _, n := range named {
		if n != "](README_zh.md)" && !strings.HasPrefix(n, "](#") && !slices.Contains(translatedNames, n) {
			t.Errorf("README_zh.md does not name %q", n)
		}
	}
}

// documentedCommands are those of all pages and of each command's --help.
func documentedCommands(t *testing.T) []documented {
	pages, err := filepath.Glob("../../*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []documented
	for _, page := range append(pages, more...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, commandsOf(filepath.Base(page), string(text))...)
	}
	help := func(args ...string) string {
		text, err := exec.Command("optool", append(args, "--help")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, m := range regexp.MustCompile(`(?m)^  (\w+) {2,}`).FindAllStringSubmatch(help(), -1) {
		if m[1] == "help" || m[1] == "completion" { // cobra's own
			continue
		}
		_, examples, ok := strings.Cut(help(m[1]), "Examples:\n")
		if !ok {
			t.Errorf("optool %s --help has no examples", m[1])
		}
		examples, _, _ = strings.Cut(examples, "\n\n")
		block := "```\n" + regexp.MustCompile(`(?m)^ +`).ReplaceAllString(examples, "") + "\n```\n"
		out = append(out, commandsOf(m[1]+" --help", block)...)
	}
	return out
}

// exits is the exit code of commands that begin so, where it is not 0.
var exits = map[string]int{
	"optool check":     1, // the mask that the softmax gets holds -inf
	"bin/optool check": 1, // and so does the checkpoint
}

// exitOf is the exit code that a command should have.
func (d documented) exitOf(command string) int {
	if d.exit >= 0 {
		return d.exit
	}
	for begin, code := range exits {
		if strings.HasPrefix(command, begin) {
			return code
		}
	}
	return 0
}

// TestDocumentedCommands runs every command line that README, docs and --help
// give, in a directory with what they name, and compares outputs with those that are shown. Of make the target has to
// exist.
func TestDocumentedCommands(t *testing.T) {
	base := t.TempDir()
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", base) // for the locks of devices
	setup := exec.Command("sh", "-e", "testdata/documented.sh")
	setup.Env = append(os.Environ(), "REPO="+repo, "DIR="+base)
	if out, err := setup.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	store, err := serveObjects(filepath.Join(repo, "fixtures/captures/lm-f32"), "training", "step-1000")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	t.Setenv("AWS_ENDPOINT_URL", store.URL)
	bySource := map[string][]documented{}
	for _, d := range documentedCommands(t) {
		bySource[d.source] = append(bySource[d.source], d)
	}
	used := map[string]bool{}
	for source, commands := range bySource {
		dir := t.TempDir()
		if out, err := exec.Command("cp", "-R", base+"/.", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, d := range commands {
			if entry, ok := d.excused(); ok {
				used[entry] = true
				continue
			}
			t.Run(source+"/"+strings.ReplaceAll(d.line, "/", "|"), func(t *testing.T) { d.run(t, repo, dir) })
		}
	}
	for entry := range notRun {
		if !used[entry] {
			t.Errorf("notRun has %q, which is not documented any more", entry)
		}
	}
}

// run runs a documented line in a directory.
func (d documented) run(t *testing.T, repo, dir string) {
	command := d.command()
	if words := strings.Fields(command); words[0] == "make" {
		hasTarget(t, repo, words[1:])
		return
	}
	if strings.HasPrefix(command, "optool view ") && !strings.Contains(command, "--help") {
		serves(t, command, dir)
		return
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), devicebridge.ErrNoDevices.Error()) {
		t.Skip(devicebridge.ErrNoDevices)
	}
	if got, want := cmd.ProcessState.ExitCode(), d.exitOf(command); got != want {
		t.Errorf("%s: exit code %d, want %d: %v\n%s", command, got, want, err, out)
	}
	if line, ok := notShown(d.shown, string(out), dir); ok {
		t.Errorf("%s shows a line that is not printed, or not there:\n%s\nprinted is\n%s", d.source, line, out)
	}
}

// serves runs a command that serves pages until it is interrupted.
func serves(t *testing.T, command, dir string) {
	cmd := exec.Command("sh", "-c", "exec "+command)
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := make([]byte, len("http://127.0.0.1:"))
	_, err = io.ReadFull(out, address)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	rest, _ := io.ReadAll(out)
	if end := cmd.Wait(); err != nil || end != nil || string(address) != "http://127.0.0.1:" {
		t.Errorf("%s: %v, %v, printed %s%s", command, err, end, address, rest)
	}
}

// hasTarget checks that make with these arguments has something to make; it is not
// run, since it builds what is being tested.
func hasTarget(t *testing.T, dir string, args []string) {
	if len(args) > 1 && args[0] == "-C" {
		dir, args = filepath.Join(dir, args[1]), args[2:]
	}
	text, err := os.ReadFile(filepath.Join(dir, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range args {
		if !strings.Contains(arg, "=") && !strings.Contains("\n"+string(text), "\n"+arg+":") {
			t.Errorf("make %s: %s/Makefile has no such target", arg, dir)
		}
	}
}

// TestCommandsOf: fenced lines without their comments, continued ones whole, and
// what a sentence mentions.
func TestCommandsOf(t *testing.T) {
	page := "Run `make x` or `optool ls\nPATH...`, not `ls`:\n```\n$HOME\nbin/optool a --b 'c'   # why\n" +
		"optool d \\\n    e\n```\n```go\noptool := 1\n```\n"
	var got []string
	for _, d := range commandsOf("page", page) {
		got = append(got, d.command())
	}
	want := []string{"bin/optool a --b 'c'", "optool d e", "make x", "optool ls op_tools_results"}
	if !slices.Equal(got, want) {
		t.Errorf("commands %q, want %q", got, want)
	}
}

// TestShownOutput: a console block gives commands, exit codes and outputs, of which lines may be left out but not
// changed, added or exchanged.
func TestShownOutput(t *testing.T) {
	got := commandsOf("page", "```console\n$ optool a   # exit code 1: why\none ... three\n\n$ optool b\n```\n")
	if len(got) != 2 || got[0].line != "optool a" || got[0].exit != 1 || got[1].exit != -1 ||
		!slices.Equal(got[0].shown, []string{"one ... three", ""}) || len(got[1].shown) != 0 {
		t.Errorf("got %+v", got)
	}
	output := "one two three\nrun /tmp/x/bin/optool ls /tmp/d/a\ntook 0.05 s \nlast\n"
	for _, test := range []struct{ shown, missing string }{
		{"one two three\n...\nlast", ""},
		{"one ... three\nrun optool ls a\ntook 1.25 s", ""},
		{"one two", "one two"},
		{"last\none two three", "one two three"},
		{"took 0.05 min", "took 0.05 min"},
	} {
		line, ok := notShown(strings.Split(test.shown, "\n"), output, "/tmp/d")
		if line != test.missing || ok != (line != "") {
			t.Errorf("%q: missing %q, want %q", test.shown, line, test.missing)
		}
	}
}
