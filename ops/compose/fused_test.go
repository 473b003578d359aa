package compose_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A fused is an operator with kernels of its own, and its composition of the
// arguments x.
type fused struct {
	op    string
	args  func(g opdef.Gen, dt tensor.DType) []value.Value
	names []string // of the floating tensors among args
	run   func(g *compose.Graph, x []*compose.Value) *compose.Value
}

// classes are the targets of cross_entropy.
var classes = tensor.New(tensor.Int64, []int{5}, []int64{3, 0, 6, 1, 3})

var fusedOps = []fused{
	{"torch.nn.functional.softmax", rows(), []string{"input"},
		func(g *compose.Graph, x []*compose.Value) *compose.Value {
			e := g.Exp(g.Sub(x[0], g.Detach(g.Amax(x[0], true, -1))))
			return g.Div(e, g.Sum(e, true, -1))
		}},
	{"torch.nn.functional.log_softmax", rows(), []string{"input"},
		func(g *compose.Graph, x []*compose.Value) *compose.Value {
			x0 := g.Sub(x[0], g.Detach(g.Amax(x[0], true, -1)))
			return g.Sub(x0, g.Log(g.Sum(g.Exp(x0), true, -1)))
		}},
	{"torch.nn.functional.layer_norm", func(g opdef.Gen, dt tensor.DType) []value.Value {
		return []value.Value{g.Uniform(dt, 4, 6, 6, 32), value.NewList(int64(32)), g.Normal(dt, 32), g.Normal(dt, 32)}
	}, []string{"input", "weight", "bias"}, func(g *compose.Graph, x []*compose.Value) *compose.Value {
		return g.Add(g.Mul(normalised(g, x[0], -1), x[1]), x[2])
	}},
	{"torch.nn.functional.group_norm", func(g opdef.Gen, dt tensor.DType) []value.Value {
		return []value.Value{g.Uniform(dt, 4, 6, 2, 6, 5), int64(3), g.Normal(dt, 6), g.Normal(dt, 6)}
	}, []string{"input", "weight", "bias"}, func(g *compose.Graph, x []*compose.Value) *compose.Value {
		y := g.Reshape(normalised(g, g.Reshape(x[0], 2, 3, 10), -1), 2, 6, 5)
		return g.Add(g.Mul(y, g.Unsqueeze(x[1], 1)), g.Unsqueeze(x[2], 1))
	}},
	{"torch.nn.functional.batch_norm", func(g opdef.Gen, dt tensor.DType) []value.Value {
		return []value.Value{g.Uniform(dt, 4, 6, 4, 3, 8), nil, nil, g.Normal(dt, 3), g.Normal(dt, 3), true}
	}, []string{"input", "weight", "bias"}, func(g *compose.Graph, x []*compose.Value) *compose.Value {
		return g.Add(g.Mul(normalised(g, x[0], 0, 2), g.Unsqueeze(x[1], 1)), g.Unsqueeze(x[2], 1))
	}},
	{"torch.nn.functional.group_norm", func(g opdef.Gen, dt tensor.DType) []value.Value {
		return []value.Value{g.Uniform(dt, 4, 6, 2, 6, 20), int64(3), g.Normal(dt, 6), g.Normal(dt, 6)}
	}, []string{"input", "weight", "bias"}, func(g *compose.Graph, x []*compose.Value) *compose.Value {
		y := g.Reshape(normalised(g, g.Reshape(x[0], 2, 3, 40), -1), 2, 6, 20)
		return g.Add(g.Mul(y, g.Unsqueeze(x[1], 1)), g.Unsqueeze(x[2], 1))
	}},
	{"torch.nn.functional.group_norm", func(g opdef.Gen, dt tensor.DType) []value.Value {
		return []value.Value{g.Uniform(dt, 4, 6, 3, 36), int64(2), g.Normal(dt, 36), g.Normal(dt, 36)}
	}, []string{"input", "weight", "bias"}, func(g *compose.Graph, x []*compose.Value) *compose.Value {
		y := g.Reshape(normalised(g, g.Reshape(x[0], 3, 2, 18), -1), 3, 36)
		return g.Add(g.Mul(y, x[1]), x[2])
	}},
	{"torch.nn.functional.batch_norm", func(g opdef.Gen, dt tensor.DType) []value.Value {
		return []value.Value{g.Uniform(dt, 4, 6, 4, 3, 20), nil, nil, g.Normal(dt, 3), g.Normal(dt, 3), true}
	}, []string{"input", "weight", "bias"}, func(g *compose.Graph, x []*compose.Value) *compose.Value {
		return g.Add(g.Mul(normalised(g, x[0], 0, 2), g.Unsqueeze(x[1], 1)), g.Unsqueeze(x[2], 1))
	}},
	{"torch.nn.functional.rms_norm", func(g opdef.Gen, dt tensor.DType) []value.Value {
		return []value.Value{g.Normal(dt, 6, 32), value.NewList(int64(32)), g.Normal(dt, 32), 1e-5}
	}, []string{"input", "weight"}, func(g *compose.Graph, x []*compose.Value) *compose.Value {
		return g.Mul(g.Mul(x[0], g.Rsqrt(g.Shift(g.Mean(g.Square(x[0]), true, -1), 1e-5))), x[1])
	}},
	{"torch.nn.functional.conv2d", func(g opdef.Gen, dt tensor.DType) []value.Value {
		return []value.Value{g.Normal(dt, 2, 3, 6, 5), g.Normal(dt, 4, 3, 3, 2), g.Normal(dt, 4)}
	}, []string{"input", "weight", "bias"}, func(g *compose.Graph, x []*compose.Value) *compose.Value {
		var parts []*compose.Value
		for i := range 3 {
			for j := range 2 {
				parts = append(parts, g.Narrow(g.Narrow(x[0], 2, i, 4), 3, j, 4))
			}
		}
		patches := g.Reshape(g.Stack(2, parts...), 2, 3*3*2, 4*4)
		y := g.Reshape(g.Matmul(g.Reshape(x[1], 4, 3*3*2), patches), 2, 4, 4, 4)
		return g.Add(y, g.Reshape(x[2], 4, 1, 1))
	}},
	{"torch.nn.functional.cross_entropy", func(g opdef.Gen, dt tensor.DType) []value.Value {
		return []value.Value{g.Normal(dt, 5, 7), classes}
	}, []string{"input"}, func(g *compose.Graph, x []*compose.Value) *compose.Value {
		return g.Neg(g.Mean(g.Gather(g.LogSoftmax(x[0], 1), 1, classes.Unsqueeze(1)), false))
	}},
	{"torch.nn.functional.scaled_dot_product_attention", func(g opdef.Gen, dt tensor.DType) []value.Value {
		return []value.Value{g.Normal(dt, 2, 5, 8), g.Normal(dt, 2, 7, 8), g.Normal(dt, 2, 7, 4)}
	}, []string{"query", "key", "value"}, func(g *compose.Graph, x []*compose.Value) *compose.Value {
		w := g.Softmax(g.Scale(g.Matmul(x[0], g.Transpose(x[1], -1, -2)), 1/math.Sqrt(8)), -1)
		return g.Matmul(w, x[2])
	}},
}

// rows are arguments of functions of rows.
func rows() func(g opdef.Gen, dt tensor.DType) []value.Value {
	return func(g opdef.Gen, dt tensor.DType) []value.Value { return []value.Value{g.Normal(dt, 6, 32), int64(-1)} }
}

// normalised is (x - mean)/sqrt(var + 1e-5) over dims.
func normalised(g *compose.Graph, x *compose.Value, dims ...int) *compose.Value {
	d := g.Sub(x, g.Mean(x, true, dims...))
	return g.Mul(d, g.Rsqrt(g.Shift(g.Mean(g.Square(d), true, dims...), 1e-5)))
}

// TestFused holds operators whose kernels and bounds are written by hand against
// their composition: results and gradients are the same, and what a sound device
// computes is within both bounds. The device runs the composition in at least
// float32, every value rounded.
func TestFused(t *testing.T) {
	tolerances, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fusedOps {
		for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.BFloat16, tensor.Float16} {
			t.Run(f.op+"/"+dt.String(), func(t *testing.T) {
				gen := opdef.Gen{R: rand.New(rand.NewPCG(3, 4))}
				args := f.args(gen, dt)
				call, err := ops.Default().Bind(f.op, args, nil)
				if err != nil {
					t.Fatal(err)
				}
				fw, err := call.Forward()
				if err != nil {
					t.Fatal(err)
				}
				up := gen.Normal(dt, fw.Outs[0].Shape...)
				out := make([]*tensor.Tensor, len(fw.Outs))
				out[0] = up
				grads, err := call.Backward(fw, out, nil)
				if err != nil {
					t.Fatal(err)
				}
				run := func(g *compose.Graph) *compose.Value {
					var x []*compose.Value
					for _, a := range args {
						if a, ok := a.(*tensor.Tensor); ok && a.DType.IsFloat() {
							x = append(x, g.AtLeast(g.Arg(f.names[len(x)], a), tensor.Float32))
						}
					}
					return g.To(f.run(g, x), dt)
				}
				want, scales := compose.Evaluate(run, up, false)
				got, _ := compose.Evaluate(run, up, true)
				for _, name := range slices.Sorted(maps.Keys(want)) {
					own, bound := fw.Outs[0], call.OutBound(fw, 0)
					if name != "" {
						own, bound = grads[name][0], call.GradBound(fw, out, grads, name, 0)
					}
					sameNumbers(t, name, own, want[name])
					byHand := compare.Model{ULPs: bound.ULPs, Scale: bound.Scale, Covers: bound.Covers,
						Terms: bound.Terms, Coarse: bound.Coarse}
					derived := compare.Model{ULPs: 2, Terms: 1, Coarse: true,
						Scale: func() *tensor.Tensor { return scales[name] }}
					tol, _ := tolerances.For(f.op, "", "output", dt)
					for _, m := range []struct {
						bound string
						model compare.Model
					}{{"the bound by hand", byHand}, {"the composition's bound", derived}} {
						if r := compare.Check(got[name].Rounded(), own, m.model, tol, nil); r.Verdict == verdict.Fail {
							t.Errorf("%q: a sound device is outside of %s: %s", name, m.bound, r.Reason)
						}
					}
				}
			})
		}
	}
}

// sameNumbers compares two computations in float64.
func sameNumbers(t *testing.T, name string, a, b *tensor.Tensor) {
	t.Helper()
	x, y, largest := tensor.Data[float64](a), tensor.Data[float64](b), opdef.MaxAbs(a)
	if !slices.Equal(a.Shape, b.Shape) || a.DType != b.DType {
		t.Fatalf("%q: %s, its composition %s", name, a.Meta(), b.Meta())
	}
	for i := range x {
		if !(math.Abs(x[i]-y[i]) <= 1e-12*largest) {
			t.Fatalf("%q: element %d is %v, of its composition %v", name, i, x[i], y[i])
		}
	}
}
