package capture

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestExported: what the hook exports of a call beside op_tools' files is known of it, as in the recording itself.
func TestExported(t *testing.T) {
	root := t.TempDir()
	for dir, said := range map[string]string{
		"torch.mul/4242/7/2024-09-25-16-41-35": `{"step": 3, "within": 5, "module": "a.b", "location": "train.py:9",
			"torch": "2.5.0"}`,
		"torch.add/4242/8/2024-09-25-16-41-35": "damaged",
	} {
		dir = filepath.Join(root, dir)
		err := os.MkdirAll(dir, 0o755)
		for name, text := range map[string]string{"input.pth": "", callFile: said} {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for e, err := range Scan(t.Context(), []string{root}, Options{}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Op == "torch.add" && (e.Within != -1 || e.Step != -1 || e.Module != ""):
			t.Errorf("got %+v, want nothing of a damaged file", e)
		case e.Op == "torch.mul" && (e.Within != 5 || e.Step != 3 || e.Module != "a.b" || e.Location != "train.py:9" ||
			e.Torch != "2.5.0" || e.Autocast == nil):
			t.Errorf("got %+v, want what the file says", e)
		}
	}
}
