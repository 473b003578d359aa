package ops_test

import (
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/tensor"
)

// TestMistakes: what operators declare as mistakes of kernels can be computed for every
// generated call, has the results' shapes, and is not what is due.
func TestMistakes(t *testing.T) {
	tried := 0
	for _, e := range ops.Default().Entries() {
		differs := map[string]bool{} // by text without numbers: mistakes of some calls change nothing
		for i, c := range e.Cases(rand.New(rand.NewPCG(1, 2))) {
			f, err := c.Forward()
			if err != nil {
				continue
			}
			for _, m := range c.Mistakes() {
				tried++
				wrong, err := m.Plan()
				if err != nil {
					t.Errorf("%s, case %d: %s: %v", e.Op(), i, m.Text, err)
					continue
				}
				g, err := wrong.Forward()
				if err != nil {
					t.Errorf("%s, case %d: %s: %v", e.Op(), i, m.Text, err)
					continue
				}
				for k, y := range g.Outs {
					if x := f.Outs[k]; x.Meta() != y.Meta() {
						t.Errorf("%s, case %d: %s: %s, want %s", e.Op(), i, m.Text, y.Meta(), x.Meta())
					} else {
						differs[e.Op()] = differs[e.Op()] || !same(x, y)
					}
				}
			}
		}
		for op, d := range differs {
			if !d {
				t.Errorf("%s: no mistake changes anything", op)
			}
		}
	}
	if tried == 0 {
		t.Error("no operator declares a mistake")
	}
}

func same(x, y *tensor.Tensor) bool {
	a, b := tensor.Data[float64](opdef.Cast(x, tensor.Float64)), tensor.Data[float64](opdef.Cast(y, tensor.Float64))
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
