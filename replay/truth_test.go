package replay_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
)

// TestTruth replays calls whose results neither optool nor torch made; fixtures/truth/README.md says who did.
func TestTruth(t *testing.T) {
	dir := t.TempDir()
	unpack(t, "../fixtures/truth/captures.tar.gz", dir)
	counts := map[verdict.Verdict]int{}
	for _, e := range entries(t, dir) {
		for _, r := range replay.Run(e, options(t)).Results {
			switch counts[r.Verdict]++; r.Verdict {
			case verdict.Pass, verdict.Warn, verdict.Mistrusted:
			default:
				t.Errorf("%s: %s %s: %s", e.Rel, r.Target, r.Verdict, r.Reason)
			}
		}
	}
	if n := counts[verdict.Pass]; n < 220 {
		t.Errorf("%d values pass: %v", n, counts)
	}
}

// unpack writes the files of a compressed tape archive below dir.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
