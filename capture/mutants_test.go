package capture

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mutants is how many damaged versions of each recording are read.
const mutants = 200

// mutate damages bytes: single ones, a cut, a piece taken out or repeated, a number
// that nothing has, a word of JSON.
func mutate(r *rand.Rand, b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	b = bytes.Clone(b)
	at := r.IntN(len(b))
	to := min(len(b), at+1+r.IntN(200))
	words := []string{"-1", "9223372036854775807", "99999999999999999999", "1e999", "NaN", "null", "{}", "[", "]", `"`,
		"../../", "\x00", "\xff"}
	word := []byte(words[r.IntN(len(words))])
	switch r.IntN(5) {
	case 0:
		for range 1 + r.IntN(8) {
			b[r.IntN(len(b))] = byte(r.IntN(256))
		}
		return b
	case 1:
		return b[:at]
	case 2:
		return append(b[:at], b[to:]...)
	case 3:
		return append(b[:to:to], b[at:]...)
	}
	digits := func(c byte) bool { return c >= '0' && c <= '9' }
	end := at
	for end < len(b) && digits(b[end]) {
		end++
	}
	return append(append(b[:at:at], word...), b[end:]...)
}

// TestMutants reads damaged recordings of every producer: each is refused in one
// sentence that names a file or a call, or what it holds can be read.
func TestMutants(t *testing.T) {
	sglangTree := func() string {
		root := t.TempDir()
		save(t, filepath.Join(root, "step=1___rank=0___dump_index=1___name=x___layer_id=1.pt"),
			dict("value", floats(1, 2), "meta", dict("dims", "t h[tp]")))
		save(t, filepath.Join(root, "TP0_PP0_Rank0_pid1/Pass00001.pt"), dict("a", floats(3), "b", floats(4)))
		return root
	}
	for name, root := range map[string]string{
		"msprobe":    msprobeTree(t, msprobeSample),
		"flashinfer": flashInferTree(t, "completed"),
		"flashinfer-trace": traceTree(t, traceDefinitionText,
			strings.Replace(traceWorkloadText, "PATH", "blob/w.safetensors", 1)),
		"sglang": sglangTree(),
	} {
		t.Run(name, func(t *testing.T) {
			var paths []string
			err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					paths = append(paths, path)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1, 2))
			for range mutants {
				path := paths[r.IntN(len(paths))]
				sound, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				damaged := mutate(r, sound)
				if err := os.WriteFile(path, damaged, 0o666); err != nil {
					t.Fatal(err)
				}
				fuzzTree(t, len(damaged), root)
				if t.Failed() {
					t.Fatalf("%s: %q", path, damaged)
				}
				if err := os.WriteFile(path, sound, 0o666); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
