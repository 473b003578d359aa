package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAbsentPath: every report names a PATH that does not exist, also beside one that does.
func TestAbsentPath(t *testing.T) {
	const recording = "../../fixtures/hook/rank1/4711-2026-11-22-12-00-00"
	for _, paths := range [][]string{{"missing"}, {recording, "missing"}} {
		dir := t.TempDir()
		in := func(name string) string { return filepath.Join(dir, name) }
		run(t, 3, append([]string{"replay", "--quiet", "--out", dir, "--json", in("r.jsonl"), "--junit", in("r.xml"),
			"--markdown", in("r.md"), "--html", in("r.html")}, paths...)...)
		for name, wants := range map[string][]string{
			"r.jsonl": {`"unread":[{"file":"missing","reason":"no such file or directory","absent":true}]`},
			"r.xml":   {`errors="1"`, `<error type="invalid" message="could not be read: missing: no such file or directory"`},
			"r.md":    {"1 path gave no call", "missing: no such file or directory"},
			"r.html":  {"missing: no such file or directory"},
		} {
			b, err := os.ReadFile(in(name))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range wants {
				if !strings.Contains(string(b), want) {
					t.Errorf("%q: %s lacks %q", paths, name, want)
				}
			}
		}
	}
}

// TestNothingSelected: the reports say that the flags select no call. A folder that could be left out is not advised.
func TestNothingSelected(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.md")
	out := run(t, 3, "replay", "--op", "nosuch", "--markdown", file, "../../fixtures/captures/v2")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(b); !strings.Contains(got, "### ⚠️ no call was judged. 1 path gave no call.") ||
		!strings.Contains(got, "is selected; nosuch matches no recorded op") || strings.Contains(out+got, "--where") {
		t.Errorf("%s\n%s", out, got)
	}
}

// TestReportAbove: report of a directory above the runs says where they are.
func TestReportAbove(t *testing.T) {
	dir := t.TempDir()
	for _, machine := range []string{"m1", "m2"} {
		run(t, 0, "replay", "--quiet", "--run", filepath.Join(dir, machine), "../../fixtures/captures/v2")
	}
	want := "optool report " + filepath.Join(dir, "m1") + " " + filepath.Join(dir, "m2")
	if out := run(t, 3, "report", dir); !strings.Contains(out, want) {
		t.Errorf("%q is missing in %s", want, out)
	}
}
