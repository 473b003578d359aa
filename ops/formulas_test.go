package ops_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/optool/optool/internal/shorttest"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/formulas"
	"github.com/optool/optool/tensor"
)

// TestFormulas: a formula gives what its operator does, where nothing overflows, and each has a call among the
// generated ones and mistakes that can be computed.
func TestFormulas(t *testing.T) {
	shorttest.Computes(t)
	tried, made := map[string]int{}, map[string]int{}
	for _, e := range ops.Default().Entries() {
		for i, c := range e.Cases(rand.New(rand.NewPCG(1, 2))) {
			f, err := c.Forward()
			if err != nil || len(f.Outs) == 0 || !f.Outs[0].DType.IsFloat() {
				continue
			}
			form := ops.Default().Formula(c)
			if form == nil {
				continue
			}
			g, err := form.Forward()
			if err != nil {
				continue // it takes not all calls
			}
			for k, y := range g.Outs {
				x := f.Outs[k]
				if x.Meta() != y.Meta() {
					t.Errorf("%s, case %d: %s, want %s", e.Op(), i, y.Meta(), x.Meta())
					continue
				}
				for at := range x.Numel() {
					v, w := tensor.At[float64](y, at), tensor.At[float64](x, at)
					if math.IsNaN(v) || math.IsInf(v, 0) || math.IsNaN(w) || math.IsInf(w, 0) {
						continue
					}
					if tried[form.Entry.Op()]++; math.Abs(v-w) > 1e-6*max(1, math.Abs(w)) {
						t.Errorf("%s, case %d: %g, want %g", e.Op(), i, v, w)
						break
					}
				}
			}
			made[form.Entry.Op()] += len(form.Variations())
			for _, m := range form.Mistakes() {
				if wrong, err := m.Plan(); err == nil {
					if _, err := wrong.Forward(); err != nil {
						t.Logf("%s: %s: forward %v", form.Entry.Op(), m.Text, err)
					} else {
						made[form.Entry.Op()+": "+m.Text]++
						made[form.Entry.Op()]++
					}
				} else {
					made[form.Entry.Op()+": "+m.Text] += 0
					t.Logf("%s: %s: %v", form.Entry.Op(), m.Text, err)
				}
			}
		}
	}
	for _, e := range formulas.Entries() {
		if tried[e.Op()] == 0 || made[e.Op()] == 0 {
			t.Errorf("%s: %d elements compared, %d mistakes", e.Op(), tried[e.Op()], made[e.Op()])
		}
	}
	for text, n := range made {
		if n == 0 && !strings.Contains(text, ": reduction is ") && !strings.Contains(text, "the other dimension") &&
			!strings.Contains(text, ": the sum of tiles of ") { // of any size
			t.Errorf("%s is computed in no case", text)
		}
	}
}
