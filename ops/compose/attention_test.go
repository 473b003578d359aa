package compose_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

// TestAttentionInBlocks: results and bounds that are too large to be held are those of results
// that are, whichever elements are asked for.
func TestAttentionInBlocks(t *testing.T) {
	for _, rows := range []int{1, 5, 128, 130, 300} {
		gen := opdef.Gen{R: rand.New(rand.NewPCG(1, uint64(rows)))}
		q, k, v := gen.Normal(tensor.Float32, 2, 3, rows, 4), gen.Normal(tensor.Float32, 3, 7, 4),
			gen.Normal(tensor.Float32, 2, 3, 7, 5)
		run := func(g *compose.Graph) *compose.Value {
			s := compose.Everything(0.5)
			s.After = 2
			return g.Attention(g.Tanh(g.Arg("q", q)), g.Arg("k", k), g.Arg("v", v), s)
		}
		up := tensor.Full(tensor.Float32, []int{2, 3, rows, 5}, 1.0)
		held, heldScales := compose.Evaluate(run, up, false)
		compose.HoldingNothing(func() {
			blocks, scales := compose.Evaluate(run, up, false)
			for _, pair := range [][2]*tensor.Tensor{{held[""], blocks[""]}, {heldScales[""], scales[""]}} {
				want := tensor.Data[float64](pair[0])
				for n := range 40 {
					lo := gen.R.IntN(len(want))
					got := make([]float64, 1+gen.R.IntN(min(len(want)-lo, 20*n+1)))
					tensor.Load(pair[1], lo, got)
					for i, x := range got { // sums may be in another order
						if y := want[lo+i]; !(math.Abs(x-y) <= 1e-13*math.Abs(y)+1e-16) {
							t.Fatalf("%d queries: element %d of %d from %d is %g, of the whole %g", rows, i, len(got),
								lo, x, y)
						}
					}
				}
			}
		})
	}
}
