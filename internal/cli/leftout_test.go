package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
)

// TestStepLeavesOut: a failure that was saved beside the step is counted, and judged, on the screen, in JSON and in
// reports.
func TestStepLeavesOut(t *testing.T) {
	dir := t.TempDir()
	lines, report := filepath.Join(dir, "step.jsonl"), filepath.Join(dir, "step.md")
	var out strings.Builder
	code := cli.Main([]string{"step", "--json", lines, "--markdown", report, "../../fixtures/demo"},
		cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
	if text := strings.Join(strings.Fields(out.String()), " "); code != cli.ExitDiffers ||
		!strings.Contains(text, "WRONG, a failure saved beside the step: torch.nn.functional.gelu/20, output[0]: ") ||
		!strings.Contains(text, "1 capture left out of the step: a failure saved with both sides") {
		t.Errorf("exit %d\n%s", code, text)
	}
	for file, want := range map[string]string{lines: `"left_out":1`,
		report: "### ❌ wrong: a failure saved beside the step: torch.nn.functional.gelu/20"} {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: no %q: %v", file, want, err)
		}
	}
}
