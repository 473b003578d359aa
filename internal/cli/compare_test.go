package cli_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
)

// unpacked is a directory with the files of an archive.
func unpacked(t *testing.T, archive string) string {
	t.Helper()
	packed, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(files)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestWriters: where two runs were given different parameters, compare names the calls that wrote them. The update of a
// gradient that is rounding noise is no finding: the bias of a convolution before a batch norm. If the calls
// are judged, nothing is left of it: each is right. updates.tar.gz holds
// train.py, which made it: a run, one without mkldnn, and one with the weight decay of Adam in AdamW.
func TestWriters(t *testing.T) {
	dir := unpacked(t, "../../step/pairs/testdata/updates.tar.gz")
	// rewritten is a copy of a recording whose log is another.
	rewritten := func(name, of string, log func([]byte) []byte) {
		copied := filepath.Join(dir, name)
		if err := os.CopyFS(copied, os.DirFS(filepath.Join(dir, of))); err != nil {
			t.Fatal(err)
		}
		logs, err := filepath.Glob(filepath.Join(copied, "rank0", "*", "calls.jsonl"))
		if err != nil || len(logs) != 1 {
			t.Fatal(logs, err)
		}
		text, err := os.ReadFile(logs[0])
		if err == nil {
			err = os.WriteFile(logs[0], log(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rewritten("blind", "coupled", func(log []byte) []byte { // without addresses
		return regexp.MustCompile(`"ptr":\d+,`).ReplaceAll(log, nil)
	})
	for _, of := range []string{"plain", "coupled"} { // without the first step
		rewritten(of+"-late", of, func(log []byte) []byte {
			return regexp.MustCompile(`(?m)^.*"id":(\d|1\d|2[0-7])\b.*\n`).ReplaceAll(log, nil)
		})
	}
	const noise = "torch._fused_adamw_/27 (train.py:23) wrote it in both recordings. That is no finding: the last gradient " +
		"of this input, grad[2] of torch.nn.functional.conv2d/1 (train.py:20), is within its rounding error of zero"
	for _, tc := range []struct {
		a, b, says string
		diverged   bool
	}{
		{"plain", "native", "The recordings differ only by rounding of float32: 4 calls differ", false},
		{"native", "plain", "The recordings differ only by rounding of float32: 4 calls differ", false},
		{"plain", "native", noise, false},
		{"native", "plain", noise, false},
		{"plain", "coupled", "torch._fused_adamw_/27 (train.py:23) wrote it in the new recording, " +
			"torch._fused_adam_/27 (train.py:12) in the old one", true},
		{"coupled", "native", "torch._fused_adam_/27 (train.py:12) wrote it in the new recording, " +
			"torch._fused_adamw_/27 (train.py:23) in the old one", true},
		{"plain", "blind", "no recorded call is known to have written it", true},
		{"plain-late", "coupled-late", "no recorded call wrote it, and step 1 is the first that was recorded", true},
	} {
		var out bytes.Buffer
		restore := func() {}
		if tc.says == noise { // of so many pairs that none is judged
			restore = cli.SetMostPairs(1)
		}
		cli.Main([]string{"compare", filepath.Join(dir, tc.a), filepath.Join(dir, tc.b)},
			cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
		restore()
		if diverged := strings.Contains(out.String(), "diverged"); diverged != tc.diverged ||
			!strings.Contains(out.String(), tc.says) {
			t.Errorf("compare %s %s: diverged %v, want %v and %q:\n%s", tc.a, tc.b, diverged, tc.diverged, tc.says,
				out.String())
		}
		if strings.HasPrefix(tc.says, "The recordings") {
			continue
		}
		if !strings.Contains(out.String(), "\nREADS OTHER VALUES") ||
			strings.Contains(out.String(), "\nFAIL  torch.nn.functional.conv2d, id 29") {
			t.Errorf("compare %s %s: conv2d/29 only reads other values:\n%s", tc.a, tc.b, out.String())
		}
		if tc.diverged && tc.b != "blind" &&
			!strings.Contains(out.String(), "conv2d.29 input[1]") { // not the bias: its gradient is noise
			t.Errorf("compare %s %s: the weight is not named:\n%s", tc.a, tc.b, out.String())
		}
	}
}
