package cli_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
)

// TestStaleKnown: --fail-on stale fails a run and a comparison of runs while a line of the list no longer fails, and
// needs a list. Runs are read packed, and a directory without one is told how to make it.
func TestStaleKnown(t *testing.T) {
	dir := t.TempDir()
	run := func(want int, says string, args ...string) {
		t.Helper()
		var text bytes.Buffer
		if code := cli.Main(args, cli.Streams{In: strings.NewReader(""), Out: &text, Err: &text}); code != want ||
			!strings.Contains(text.String(), says) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", args, code, want, says, &text)
		}
	}
	captures, lines := "../../fixtures/captures/v2", filepath.Join(dir, "run.jsonl")
	run(cli.ExitOK, "pass", "replay", "--out", dir, "--json", lines, captures)
	known, packed := filepath.Join(dir, "known.txt"), filepath.Join(dir, "run.jsonl.gz")
	text, err := os.ReadFile(lines)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{known: []byte("* output*\n"), packed: b.Bytes()} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(cli.ExitOK, "remove line 1", "replay", "--out", dir, "--known", known, captures)
	run(cli.ExitDiffers, "1 line no longer fails", "replay", "--out", dir, "--known", known,
		"--fail-on", "stale", captures)
	run(cli.ExitUsage, "--fail-on stale needs --known", "replay", "--fail-on", "stale", captures)
	run(cli.ExitUsage, "--fail-on gone is for compare --results", "replay", "--fail-on", "gone", captures)
	run(cli.ExitDiffers, "remove line 1", "compare", "--results", "--known", known, "--fail-on", "stale", packed, lines)
	run(cli.ExitOK, "0 judged worse", "compare", "--results", packed, lines)
	run(cli.ExitFailed, "optool replay --json FILE", "compare", "--results", captures, lines)
}
