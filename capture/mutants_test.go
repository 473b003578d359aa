package capture

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/fuzzcheck"
)

// TestMutants reads damaged recordings with all kinds of values: each is refused in one
// sentence, or what it holds can be read.
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
			n := fuzzcheck.Mutants(t, 50)
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for range n {
				dir := filepath.Join(t.TempDir(), "mutant")
				if err := os.CopyFS(dir, os.DirFS(root)); err != nil {
					t.Fatal(err)
				}
				rel, how := fuzzcheck.MutateFile(t, r, dir)
				fuzzTree(t, 1<<10, dir)
				if t.Failed() {
					t.Fatalf("%s: %s", rel, how)
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
