package compose_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
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

// TestUnseenKeys: to leave out keys that no query of a block sees makes no difference, also where one is NaN, or a
// query, which all gradients show.
func TestUnseenKeys(t *testing.T) {
	const rows, keys, size = 300, 280, 4
	for _, tc := range []struct {
		name                  string
		offset, before, after int
		spoil                 func(q, k, v []float64)
	}{
		{"causal", 0, -1, 0, nil},
		{"window", 5, 20, 3, nil},
		{"nothing seen", -3, -1, 0, nil},
		{"key", 0, -1, 0, func(_, k, _ []float64) { k[200*size] = math.NaN() }},
		{"value", 0, -1, 0, func(_, _, v []float64) { v[200*size] = math.Inf(1) }},
		{"query", 0, -1, 0, func(q, _, _ []float64) { q[40*size] = math.NaN() }},
	} {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
			gen := opdef.Gen{R: rand.New(rand.NewPCG(4, 2))}
			draw := func(n int) []float64 { return tensor.Data[float64](gen.Normal(dt, 2, n, size)) }
			q, k, v := draw(rows), draw(keys), draw(keys)
			if tc.spoil != nil {
				tc.spoil(q, k, v)
			}
			up := gen.Normal(dt, 2, rows, size)
			run := func(masked bool) (values, scales map[string]*tensor.Tensor) {
				return compose.Evaluate(func(g *compose.Graph) *compose.Value {
					s := compose.Everything(0.5)
					s.Offset, s.Before, s.After = tc.offset, tc.before, tc.after
					if masked { // by nothing, but of masks all keys count
						s.Mask = g.Full(tensor.Float64, []int{rows, keys}, 0)
					}
					of := func(name string, n int, x []float64) *compose.Value {
						a := tensor.New(dt, []int{2, n, size}, x)
						a.RequiresGrad = true
						return g.Arg(name, a)
					}
					return g.Attention(of("q", rows, q), of("k", keys, k), of("v", keys, v), s)
				}, up, false)
			}
			values, scales := run(false)
			wantValues, wantScales := run(true)
			for name := range wantValues {
				for _, p := range [][2]*tensor.Tensor{{values[name], wantValues[name]},
					{scales[name], wantScales[name]}} {
					want := tensor.Data[float64](p[1])
					for i, x := range tensor.Data[float64](p[0]) {
						if y := want[i]; !(math.Abs(x-y) <= 1e-11*math.Abs(y)+1e-13 || x == y || x != x && y != y) {
							t.Fatalf("%s, %s: %q: element %d is %g, with a mask %g", tc.name, dt, name, i, x, y)
						}
					}
				}
			}
		}
	}
}
