package compose_test

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// links are steps of a chain: each reads the value before it more than once.
var links = map[string]func(g *compose.Graph, count opdef.Unary, x *compose.Value) *compose.Value{
	"products": func(g *compose.Graph, count opdef.Unary, x *compose.Value) *compose.Value {
		return g.Add(x, g.Scale(g.Mul(g.Unary("", count, x), x), 0.01))
	},
	"maximum": func(g *compose.Graph, count opdef.Unary, x *compose.Value) *compose.Value {
		return g.Scale(g.Sub(g.Maximum(x, g.Unary("", count, x)), g.Scale(x, 0.5)), 1.5)
	},
	"masks": func(g *compose.Graph, count opdef.Unary, x *compose.Value) *compose.Value {
		positive := g.Derived(opdef.Map(tensor.Bool, x.T, func(x float64) int64 {
			if x > 0 {
				return 1
			}
			return 0
		}), x).T
		return g.Where(positive, g.Unary("", count, x), g.Scale(x, 0.9))
	},
	"means": func(g *compose.Graph, count opdef.Unary, x *compose.Value) *compose.Value {
		y := g.Unary("", count, x)
		return g.Sub(g.Scale(x, 1.25), g.Scale(g.Mean(y, true, -1), 0.25))
	},
	"softmax": func(g *compose.Graph, count opdef.Unary, x *compose.Value) *compose.Value {
		return g.Add(g.Softmax(x, -1), g.Unary("", count, x))
	},
	"views": func(g *compose.Graph, count opdef.Unary, x *compose.Value) *compose.Value {
		return g.Scale(g.Add(g.Transpose(g.Transpose(x, 0, 1), 0, 1), g.Unary("", count, x)), 0.5)
	},
}

// most is how many evaluations an element of a link may take, for values, gradients and
// bounds together; of a chain of 24 links it would be millions if nothing were kept.
const most = 400

// lengths are those of long chains.
var lengths = map[string]int{"products": 1000, "maximum": 100, "masks": 100, "means": 100, "softmax": 100, "views": 100}

// TestChains: values, gradients and the bounds of both of a chain take work in
// proportion to its length, whether elements are asked for all at once or one by one.
func TestChains(t *testing.T) {
	for name, link := range links {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
			t.Run(name+"/"+dt.String(), func(t *testing.T) {
				perLink := func(rows, n int) float64 {
					var evaluated atomic.Int64
					count := opdef.Unary{Error: opdef.Error{Class: opdef.Rounded},
						F: func(x float64) float64 {
							evaluated.Add(1)
							return x
						},
						DF: func(_, _ float64) float64 {
							evaluated.Add(1)
							return 1
						}}
					x := tensor.Full(dt, []int{rows, 8}, 0.25)
					x.RequiresGrad = true
					values, scales := compose.Evaluate(func(g *compose.Graph) *compose.Value {
						v := g.Arg("x", x)
						for range n {
							v = link(g, count, v)
						}
						return v
					}, tensor.Full(dt, x.Shape, 1.0), false)
					for _, ts := range []map[string]*tensor.Tensor{values, scales} {
						for _, of := range []string{"", "x"} {
							if y := tensor.At[float64](ts[of], 7); math.IsNaN(y) {
								t.Fatalf("element 7 of %q is %v", of, y)
							}
							opdef.MaxAbs(ts[of])
						}
					}
					return float64(evaluated.Load()) / float64(n*x.Numel())
				}
				long, rows := lengths[name], 1500
				if underRace {
					long, rows = long/10, rows/10
				}
				for _, c := range []struct{ rows, n int }{{2, 12}, {2, long}, {rows, 6}} {
					if got := perLink(c.rows, c.n); got > most {
						t.Errorf("%d rows, %d links: %.0f evaluations of each element of each link", c.rows, c.n, got)
					}
				}
			})
		}
	}
}

// TestTooManySteps: a composition without end is refused.
func TestTooManySteps(t *testing.T) {
	defer func() {
		if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), "takes more than 131072 steps") {
			t.Errorf("got %v", err)
		}
	}()
	compose.Evaluate(func(g *compose.Graph) *compose.Value {
		x := g.Arg("x", tensor.Scalar(tensor.Float32, 1.0))
		for {
			x = g.Neg(x)
		}
	}, tensor.Scalar(tensor.Float32, 1.0), false)
}
