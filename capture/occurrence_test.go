package capture

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestOccurrence: calls of an operator are counted in each process for itself, by number and not by letters.
func TestOccurrence(t *testing.T) {
	dir := t.TempDir()
	want := map[string]int{"torch.mm/10/2": 1, "torch.mm/10/11": 2, "torch.mm/9/4": 1, "torch.add/10/3": 1}
	for name := range want {
		path := filepath.Join(dir, "op_capture_results", name, "2026-01-02-03-04-05")
		if err := os.MkdirAll(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "input.pth"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for e, err := range Scan(context.Background(), []string{dir}, Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel("op_capture_results", filepath.Dir(e.Rel))
		if n++; e.Occurrence != want[filepath.ToSlash(rel)] {
			t.Errorf("%s: occurrence %d, want %d", e.Rel, e.Occurrence, want[rel])
		}
	}
	if n != len(want) {
		t.Errorf("%d calls, want %d", n, len(want))
	}
}
