package cli_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestSavedSize: of a call that should have given 4 GiB, but recorded three elements, the 4 GiB are
// not written.
func TestSavedSize(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	record := func(name string, args ...value.Value) {
		save(t, dict("name", "torch.Tensor.expand", "args", value.NewTuple(args...), "kwargs", &value.Dict{},
			"identifier", "1/2026-11-23-10-00-00/"+name), dir, "torch.Tensor.expand", "7", "1", "2026-11-23-10-00-00",
			name+".pth")
	}
	record("input", tensor.Full(tensor.Float32, []int{1}, 2.), int64(1<<30))
	record("output", tensor.Full(tensor.Float32, []int{3}, 2.))
	var text strings.Builder
	code := cli.Main([]string{"replay", "--acc_check", "--out", out, dir},
		cli.Streams{In: strings.NewReader(""), Out: &text, Err: &text})
	if code != cli.ExitDiffers || !strings.Contains(text.String(), "shape is [3], want [1073741824]") {
		t.Errorf("exit code %d, want %d:\n%s", code, cli.ExitDiffers, &text)
	}
	var saved []string
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := os.Stat(path)
		if err == nil && info.Size() > 1<<20 {
			t.Errorf("%s has %d bytes", path, info.Size())
		}
		if filepath.Ext(path) == ".pth" {
			saved = append(saved, filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path)))
		}
		return err
	})
	if got := strings.Join(saved, " "); err != nil || got != "cpu/input.pth device/input.pth device/output.pth" {
		t.Errorf("saved %s, %v", got, err)
	}
}
