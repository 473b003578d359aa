package step

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMovedNotFinite: where a wrong gradient is not finite, the screen has the reason why its effect is not known.
func TestMovedNotFinite(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/clean")); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "op_tools_results", "op_capture_results",
		"torch.nn.functional.gelu", "301", "4", "*", "grad_inputs.pth"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	poke(t, files[0], 0, []float64{math.NaN()})
	tr := analyse(t, dir)
	m := tr.First().Without(context.Background(), options(t))
	if !strings.HasSuffix(m.Why, "what it should be follows from a recorded gradient that is not finite") {
		t.Errorf("%s: %+v", tr.First().Call, m)
	}
}
