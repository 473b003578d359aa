package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// hostile is a text that takes over a terminal that prints it as it is: escape sequences, also of 8 bits
// and as characters, line breaks, and characters that change the direction of text.
const hostile = "=1+1\x1b[2J\x1b]0;title\x07\u009b31m\u202etxt\u2066\r\nfake: pass\t\x00"

// writeHostile writes recorded calls of a program whose names are all hostile, and returns their directory.
func writeHostile(t *testing.T, op string) string {
	t.Helper()
	root := t.TempDir()
	x := tensor.New(tensor.Float32, []int{2}, []float64{1, 2})
	call := func(name, dir, op string, args, out value.Value) {
		dir = filepath.Join(root, "op_tools_results", "op_capture_results", name, "7", dir, "2026-11-20-21-06-02")
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Skip(err)
		}
		in := &value.Dict{Items: []value.Item{{Key: "name", Value: op}, {Key: "args", Value: args},
			{Key: "kwargs", Value: &value.Dict{Items: []value.Item{{Key: hostile, Value: hostile}}}},
			{Key: "identifier", Value: "7"}}}
		given := &value.Dict{Items: []value.Item{{Key: "name", Value: op}, {Key: "args", Value: out},
			{Key: "kwargs", Value: &value.Dict{}}, {Key: "identifier", Value: "7"}}}
		for file, v := range map[string]value.Value{"input.pth": in, "output.pth": given} {
			if err := pthformat.WriteFile(filepath.Join(dir, file), v); err != nil {
				t.Fatal(err)
			}
		}
	}
	call("a\x1b[31m\u202eb", "1", op, value.NewTuple(x, hostile), value.NewTuple(x))
	call("torch.abs", "2", "torch.abs", value.NewTuple(x, hostile), value.NewTuple(x))
	if err := pthformat.WriteFile(filepath.Join(root, "values.pt"), &value.Dict{Items: []value.Item{
		{Key: hostile + op, Value: x}, {Key: "x", Value: hostile}}}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "b\x1b[31m\u202e.pth"), []byte("no"), 0o666); err != nil {
		t.Skip(err)
	}
	return root
}

// TestHostileNames: nothing that stands in a file reaches a terminal but what prints, on the line where it
// belongs, and no text of a file fills the screen.
func TestHostileNames(t *testing.T) {
	const longest = 4000 // of a line, with all the texts that stand on it
	for name, op := range map[string]string{"hostile": "torch." + hostile, "narrow": "torch." + hostile,
		"long": "torch." + strings.Repeat("x", 70_000)} {
		if t.Setenv("COLUMNS", ""); name == "narrow" {
			t.Setenv("COLUMNS", "60")
		}
		root := writeHostile(t, op)
		values := filepath.Join(root, "values.pt")
		work := t.TempDir()
		report := func(name string) string { return filepath.Join(work, name) }
		for _, args := range [][]string{
			{"ls", root}, {"show", root}, {"show", "--values", "4", root}, {"show", "--values", "4", values},
			{"replay", "--out", work, "--tables", root},
			{"replay", "--out", work, "--fail-on", "unsupported,skipped", root},
			{"replay", "--out", work, "--json", report("r.jsonl"), "--csv", report("r.csv"), "--markdown", report("r.md"),
				"--junit", report("r.xml"), "--html", report("r.html"), "--xlsx", report("r.xlsx"), root},
			{"report", report("r.jsonl")}, {"report", "--tables", report("r.jsonl")},
			{"check", "--all", root}, {"check", "--all", values}, {"compare", "--tables", root, root},
			{"compare", "--tables", values, values}, {"step", root}, {"step", "--against", root, root},
			{"step", "--dot", report("s.dot"), "--mermaid", report("s.mmd"), "--html", report("s.html"), root},
			{"explain", root}, {"time", "--run_times", "1", "--out", work, root},
			{"reduce", "--out", report("reduced"), root}, {"bundle", "--out", report("bug.zip"), root},
			{"ls", "--op", "torch", root}, {"ls", "--op", "torch.absx", root}, {"replay", "--op", "=1", root},
			{"explain", "--target", "grad[9]", root}, {"time", "--sort_by", "x", root},
			{"step", "--exact", "torch.absx", root}, {"replay", "--fuse", "torch.abs..torch.absx", "--out", work, root},
		} {
			var out, errs bytes.Buffer
			cli.Main(append(args, "--jobs", "1"), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
			checkText(t, name+" "+strings.Join(args, " "), out.String()+errs.String(), longest)
		}
		for _, file := range []string{"r.csv", "r.md", "r.xml", "r.html", "s.dot", "s.mmd"} {
			text, err := os.ReadFile(report(file))
			if err != nil {
				t.Error(err)
			}
			lines := strings.ReplaceAll(string(text), "\nfake: pass", "") // cells may have some
			checkText(t, name+" "+file, lines, 1<<20)
		}
	}
}

// checkText looks for characters that do not print, and for lines that are too long.
func checkText(t *testing.T, what, text string, longest int) {
	t.Helper()
	for line := range strings.Lines(strings.ReplaceAll(text, "\r\n", "\n")) {
		line = strings.TrimSuffix(line, "\n")
		odd := func(r rune) bool { return !unicode.IsPrint(r) }
		if i := strings.IndexFunc(strings.ToValidUTF8(line, "\x00"), odd); i >= 0 {
			t.Errorf("%.120q: a character that does not print in %.200q", what, line[max(0, i-60):])
			return
		}
		if strings.HasPrefix(line, "fake: pass") {
			t.Errorf("%.120q: a text of a file begins a line", what)
			return
		}
		if len(line) > longest {
			t.Errorf("%.120q: a line of %d bytes: %.100q", what, len(line), line)
			return
		}
	}
}
