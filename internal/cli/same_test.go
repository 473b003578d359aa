package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
)

// recordings are a folder with a copy of each recording, by its name in the folder.
func recordings(t *testing.T, of map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, from := range of {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestSameAndWrong: a call that gave the same bits in both recordings is judged if others differ, also where the
// recordings differ only behind it. If none differs, none is judged, and nobody says that no call is wrong.
func TestSameAndWrong(t *testing.T) {
	const a, b, wrong = "testdata/rounding/a", "testdata/rounding/b", "testdata/rounding/c"
	before := recordings(t, map[string]string{"1": wrong, "2": a})
	after := recordings(t, map[string]string{"1": wrong, "2": b})
	got := run(t, cli.ExitDiffers, "compare", after, before)
	for _, want := range []string{"none new, 1 call still wrong (torch.nn.functional.gelu), none repaired",
		"wrong in both recordings: "} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	got = run(t, cli.ExitOK, "compare", before, before)
	for _, want := range []string{"calls gave the same in both recordings and were not judged", "No difference in 2 programs"} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "No wrong call") {
		t.Errorf("nothing was judged:\n%s", got)
	}
}

// TestStillWrongResults: what was wrong before and still is counts as wrong in the reports, not as known.
func TestStillWrongResults(t *testing.T) {
	dir := t.TempDir()
	lines, md, html := filepath.Join(dir, "c.jsonl"), filepath.Join(dir, "c.md"), filepath.Join(dir, "c.html")
	run(t, cli.ExitDiffers, "replay", "--json", lines, "--out", dir, "testdata/rounding/c")
	run(t, cli.ExitOK, "compare", "--results", "--markdown", md, "--html", html, lines, lines)
	for _, file := range []string{md, html} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "1 of them still wrong") ||
			!strings.Contains(string(text), "What is wrong") ||
			strings.Contains(string(text), "Known failures") {
			t.Errorf("%s:\n%.2000s", file, text)
		}
	}
}
