package cli_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
)

// TestNextNamesTheWrongPath: of several paths the one with the first wrong call is what step is asked to look at, and
// that call what explain is.
func TestNextNamesTheWrongPath(t *testing.T) {
	const sound, wrong = "../../fixtures/hook", "../../step/testdata/scaled"
	want, err := filepath.Abs(wrong)
	if err != nil {
		t.Fatal(err)
	}
	for _, paths := range [][]string{{sound, wrong}, {wrong, sound}} {
		var out, errs bytes.Buffer
		args := append([]string{"replay", "--acc_check", "--quiet", "--out", t.TempDir()}, paths...)
		cli.Main(args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if !strings.Contains(out.String(), " step "+want+"\n") {
			t.Errorf("%v: %q does not name %s", paths, out.String()+errs.String(), want)
		}
		if !strings.Contains(out.String(), " explain "+want+"/") {
			t.Errorf("%v: explain is not offered for a call of %s: %q", paths, want, out.String())
		}
	}
}
