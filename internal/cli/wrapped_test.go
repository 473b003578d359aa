package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
)

// TestWrapped: a program wraps torch's layer_norm by functools.wraps, and changes its input. The calls inside are
// right, so nothing is found; but every command says that the wrapper was not judged.
func TestWrapped(t *testing.T) {
	const not = "torch.nn.functional.layer_norm is wrapped by __main__.layer_norm (wrapped_train.py:13): what it " +
		"does around torch's own was not judged"
	const told = not + `; record with wrap=["torch.nn.functional.layer_norm"] to judge it`
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	run := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := cli.Main(args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}); code != 0 {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out.String(), errs.String())
		}
		return out.String()
	}
	replayed := run("replay", "--out", dir, "--json", in("r.jsonl"), "--junit", in("r.xml"), "--markdown", in("r.md"),
		"--html", in("r.html"), "testdata/wrapped")
	stepped := run("step", "--json", in("s.jsonl"), "--html", in("s.html"), "testdata/wrapped")
	reported := run("report", in("r.jsonl"))
	for what, text := range map[string]string{"replay": replayed, "step": stepped, "report": reported} {
		if !strings.Contains(text, told) {
			t.Errorf("%s: %q is missing in\n%s", what, told, text)
		}
	}
	want := "Nothing found wrong in what could be judged. Largest gaps: " + not + " (first torch.Tensor.mul/3)."
	if !strings.Contains(stepped, want) || strings.Contains(stepped, "Nothing is wrong") {
		t.Errorf("%q is missing in\n%s", want, stepped)
	}
	for _, name := range []string{"r.jsonl", "r.xml", "r.md", "r.html", "s.jsonl", "s.html"} {
		data, err := os.ReadFile(in(name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.ReplaceAll(string(data), `\_`, "_"), "__main__.layer_norm (wrapped_train.py:13)") {
			t.Errorf("%s does not name the wrapper", name)
		}
	}
	// A call that the wrapper did not make is judged whole.
	linear := run("replay", "--out", dir, "--op", "torch.nn.functional.linear", "testdata/wrapped")
	if strings.Contains(linear, "is wrapped") {
		t.Errorf("linear: %s", linear)
	}
}
