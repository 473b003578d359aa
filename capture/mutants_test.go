package capture

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/fuzzcheck"
)

// recordings gives a small one of each other recorder.
func recordings(t *testing.T) map[Layout]string {
	values := t.TempDir()
	save(t, filepath.Join(values, "step=1___rank=0___dump_index=1___name=x___layer_id=1.pt"),
		dict("value", floats(1, 2), "meta", dict("dims", "t h[tp]")))
	passes := t.TempDir()
	save(t, filepath.Join(passes, "TP0_PP0_Rank0_pid1/Pass00001.pt"), dict("a", floats(3), "b", floats(4)))
	return map[Layout]string{
		MSProbe:    msprobeTree(t, msprobeSample),
		FlashInfer: flashInferTree(t, "completed"),
		FlashInferTrace: traceTree(t, traceDefinitionText,
			strings.Replace(traceWorkloadText, "PATH", "blob/w.safetensors", 1)),
		SGLang: values,
		Pass:   passes,
		Hook:   "../fixtures/hook/rank1",
	}
}

// TestMutants reads damaged recordings of every other recorder: each is refused in one
// sentence, or what it holds can be read.
func TestMutants(t *testing.T) {
	trees := recordings(t)
	for l := MSProbe; l < numLayouts; l++ {
		root := trees[l]
		if root == "" {
			t.Errorf("recordings has none of layout %s (%d); one that paths tell stands before msprobe", l, l)
			continue
		}
		for e, err := range Scan(t.Context(), []string{root}, Options{}) {
			if err != nil || e.Layout != l {
				t.Fatalf("the recording of layout %s has %v, %v", l, e, err)
			}
		}
		name := l.String()
		t.Run(name, func(t *testing.T) {
			n := fuzzcheck.Mutants(t, 50)
			r := rand.New(rand.NewPCG(1+fuzzcheck.Seed(t), uint64(n)))
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
