package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/internal/shorttest"
)

// oneLine is a text with single spaces.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// TestRepairedInReports: of two recordings, of which the old one is wrong, the screen says which is which and that only
// faults of the old one are repaired. The page is green, JUnit has no failure, and JSON lines say fail as ever.
func TestRepairedInReports(t *testing.T) {
	a, c := "testdata/rounding/a", "testdata/rounding/c"
	dir := t.TempDir()
	page, junit, lines := filepath.Join(dir, "c.html"), filepath.Join(dir, "c.xml"), filepath.Join(dir, "c.jsonl")
	got := oneLine(run(t, cli.ExitDiffers, "compare", "--html", page, "--junit", junit, "--json", lines, a, c))
	for _, want := range []string{"new: " + a + " (recorded 2026-11-29 18:18:48)", "old: " + c + " (recorded 2026-11-29 18:",
		"order: " + a + " was recorded before " + c + ". Is it the old one? Then take ", "REPAIRED torch.nn.functional.gelu",
		"output[0] repaired, bfloat16", "grad[0] repaired, gradient of self, bfloat16", " 1 repaired, 5 read other values,",
		"exit code 1: the recordings differ, but only because faults of the old one are repaired"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for file, wants := range map[string][]string{
		page:  {`<h1 class="pass">faults: none new, none still wrong, 1 call repaired (torch.nn.functional.gelu)</h1>`},
		junit: {`failures="0"`, "<system-out>repaired: "},
		lines: {`"verdict":"fail","reason":"180 of 256 elements differ`, `"wrong_in":"second"`,
			`"captures_repaired":1`}} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q", file, want)
			}
		}
	}
	got = oneLine(run(t, cli.ExitDiffers, "compare", c, a))
	if strings.Contains(got, "order: ") || !strings.Contains(got, "new: "+c) {
		t.Errorf("the order is right: %s", got)
	}
	got = oneLine(run(t, cli.ExitDiffers, "report", lines))
	if !strings.Contains(got, "REPAIRED torch.nn.functional.gelu") ||
		!strings.Contains(got, "1 repaired, 5 read other") {
		t.Errorf("report: %s", got)
	}
}

// TestKnownOfTwoRecordings: a listed failure that is wrong in both recordings is known, as in replay. A list does not
// lose its lines because calls gave the same and were not judged.
func TestKnownOfTwoRecordings(t *testing.T) {
	const a, b, wrong = "testdata/rounding/a", "testdata/rounding/b", "testdata/rounding/c"
	before := recordings(t, map[string]string{"1": wrong, "2": a})
	after := recordings(t, map[string]string{"1": wrong, "2": b})
	list := filepath.Join(t.TempDir(), "known.txt")
	t.Chdir(t.TempDir()) // what replay saves
	run(t, cli.ExitDiffers, "replay", "--write-known", list, before)
	got := oneLine(run(t, cli.ExitOK, "compare", "--known", list, after, before))
	for _, want := range []string{"1 call still wrong (torch.nn.functional.gelu)", "No wrong call in 2 programs",
		"2 failing values known (", "1 known, 18 skipped"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	got = oneLine(run(t, cli.ExitOK, "compare", "--known", list, before, before))
	if strings.Contains(got, "no longer fail") || strings.Contains(got, "no value of this run") ||
		!strings.Contains(got, "No value differs between the recordings.") {
		t.Errorf("nothing was judged:\n%s", got)
	}
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	small := regexp.MustCompile(`(bound_ratio|max_abs_diff|wrong)=[^ %]*`).ReplaceAll(text, []byte("$1=1e-9"))
	if err := os.WriteFile(list, small, 0o666); err != nil {
		t.Fatal(err)
	}
	run(t, cli.ExitDiffers, "compare", "--known", list, after, before) // far worse than the list says
}

// TestCauseOfGradient: a call of which only gradients are wrong has the cause that replay finds, under the finding that
// comes first in order of execution, not of the files.
func TestCauseOfGradient(t *testing.T) {
	shorttest.Computes(t)
	t.Chdir(unpacked(t, "testdata/twosteps.tar.gz"))
	for paths, want := range map[[2]string]string{{"norm", "torch"}: "elements are multiplied by 0.5\n",
		{"torch", "norm"}: "elements are multiplied by 0.5 (in the old recording)\n"} {
		lines := filepath.Join(t.TempDir(), "c.jsonl")
		got := run(t, cli.ExitDiffers, "compare", "--json", lines, paths[0], paths[1])
		at := strings.Index(got, "First call that differs:")
		if at < 0 || !strings.Contains(got[at:], "  cause    grad[0] reproduced to rounding if at indices 12 to 15 of "+
			"dimension 2: "+want) {
			t.Errorf("%s: no cause in\n%s", paths, got)
		}
		text, err := os.ReadFile(lines)
		if err != nil {
			t.Fatal(err)
		}
		causes := 0
		for line := range strings.Lines(string(text)) {
			var c struct{ Kind, Capture string }
			if err := json.Unmarshal([]byte(line), &c); err != nil {
				t.Fatal(err)
			}
			if c.Kind == "cause" {
				if causes++; !strings.Contains(c.Capture, "layer_norm/7/12/") {
					t.Errorf("%s: a cause of %s", paths, c.Capture)
				}
			}
		}
		if causes != 1 {
			t.Errorf("%s: %d causes in JSON lines", paths, causes)
		}
	}
}
