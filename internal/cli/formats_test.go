package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/verdict"
)

// A fullDisk takes nothing.
type fullDisk struct{}

var errFull = errors.New("no space left on device")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// TestReportFormats: each format writes a run, says where it could not, and is in the
// documents.
func TestReportFormats(t *testing.T) {
	result := &reports.Result{Capture: "a/b", Op: "torch.add", Phase: "forward", Target: "output[0]",
		Verdict: verdict.Fail, Reason: "all of them"}
	exit := 1
	rec := &reports.Recording{Results: reports.ResultsOf(result), Last: []byte("{}"), Summary: reports.NewSummary(),
		Exit: &exit}
	rec.Summary.Add(result)
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range reportFormats {
		t.Run(f.name, func(t *testing.T) {
			if !strings.Contains(string(doc), "| `--"+f.name+"` |") {
				t.Error("docs/formats.md has no row for it")
			}
			if f.file != nil {
				path := filepath.Join(t.TempDir(), "report")
				if err := f.file(path, rec, nil); err != nil {
					t.Fatal(err)
				}
				if info, err := os.Stat(path); err != nil || info.Size() == 0 {
					t.Errorf("%v, %v: nothing was written", info, err)
				}
				if err := f.file(filepath.Join(path, "below", "a file"), rec, nil); err == nil {
					t.Error("a file below a file: no error")
				}
				return
			}
			var b bytes.Buffer
			if err := f.write(&b, rec, nil); err != nil {
				t.Fatal(err)
			}
			if b.Len() == 0 {
				t.Error("nothing was written")
			}
			if err := f.write(fullDisk{}, rec, nil); !errors.Is(err, errFull) {
				t.Errorf("a full disk: %v", err)
			}
		})
	}
}
