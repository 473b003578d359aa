package compose

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opcheck"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type swigluArgs struct {
	Self *tensor.Tensor
	Dim  int
}

type attentionArgs struct{ Q, K, V *tensor.Tensor }

type maskedArgs struct{ Q, K, V, Mask *tensor.Tensor }

type normArgs struct {
	Input, Weight *tensor.Tensor
	Eps           float64
}

type pairArgs struct{ Self, Other *tensor.Tensor }

func swiglu(g *Graph, a *swigluArgs) Values {
	x := g.Chunk(g.Arg("self", a.Self), 2, a.Dim)
	return Values{g.Mul(g.SiLU(x[0]), x[1])}
}

func plainAttention(g *Graph, a *attentionArgs) Values {
	q, k, v := g.Arg("q", a.Q), g.Arg("k", a.K), g.Arg("v", a.V)
	w := g.Softmax(g.Scale(g.Matmul(q, g.Transpose(k, -1, -2)), 0.25), -1)
	return Values{g.Matmul(w, v), w}
}

// fusedAttention is of queries that stand one key further, see two before and one
// behind, with scores limited, a mask and slopes; keys and values are computed.
func fusedAttention(g *Graph, a *maskedArgs) Values {
	q, k, v := g.Arg("q", a.Q), g.Arg("k", a.K), g.Arg("v", a.V)
	return Values{g.Attention(g.Tanh(q), g.Scale(k, 0.25), g.Exp(v), Scores{Scale: 0.5, Softcap: 2,
		Mask: g.Arg("mask", a.Mask), Slopes: tensor.New(tensor.Float32, []int{2}, []float64{0.5, 0.25}),
		Offset: 1, Before: 2, After: 1})}
}

// rmsNorm computes in float32, as LLaMA does.
func rmsNorm(g *Graph, a *normArgs) Values {
	x := g.Arg("input", a.Input)
	wide := x
	if x.DType().IsReduced() {
		wide = g.To(x, tensor.Float32)
	}
	scale := g.Rsqrt(g.Shift(g.Mean(g.Square(wide), true, -1), a.Eps))
	return Values{g.Mul(g.To(g.Mul(wide, scale), x.DType()), g.Arg("weight", a.Weight))}
}

// various calls what the others do not.
func various(g *Graph, a *pairArgs) Values {
	x, y := g.Arg("self", a.Self), g.Arg("other", a.Other)
	all := g.Cat(0, x, g.Flip(y, 0), g.IndexSelect(x, 0, []int{1, 1, 0}))
	z := g.LogSumExp(all, 1, false)
	top := g.Amax(g.Maximum(x, g.Abs(y)), true, 0)
	m := NewSparseMatrix(2, x.Shape()[1])
	m.Add(0, 0, 0.5, 1)
	m.Add(0, x.Shape()[1]-1, -0.25, 0)
	m.Add(0, 0, 0.25, 0)
	mixed := g.SparseMatmul(m, g.Pow(g.Exp(x), 1.5))
	n := mixed.T.Numel()
	rest := g.Split(g.Put(mixed, []int64{int64(n - 1), 0}, g.Take(g.Sin(y), []int{2}, []int64{1, 0})), []int{1}, 0)
	return Values{g.Sub(g.Cumsum(z, 0), g.Sum(g.Tanh(top), false)), g.Square(rest[0]),
		g.Div(g.Roll(x, 1, 2), g.Add(g.Exp(y), g.Sqrt(g.Square(x))))}
}

// norms divides by a norm whose limit passes the gradient, and takes others.
func norms(g *Graph, a *pairArgs) Values {
	x, y := g.Arg("self", a.Self), g.Arg("other", a.Other)
	norm := g.Norm(g.Add(x, y), 2, true, 1)
	return Values{g.Div(x, g.Overwrite(norm, g.Clamp(norm, 1e-3, 100))), g.Norm(g.Sub(x, y), 3, false, 0, 1),
		g.Norm(g.Mul(x, y), math.Inf(1), false, -1), g.Norm(x, 1, false), g.Norm(g.Exp(y), -2, true, 0)}
}

// composed are compositions of the kinds of primitives, as operators.
func composed() map[string]*opdef.Entry {
	doc := opdef.Doc{Summary: "An example", Source: "a test"}
	each := func(f func(dt tensor.DType)) {
		for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.BFloat16, tensor.Float16} {
			f(dt)
		}
	}
	return map[string]*opdef.Entry{
		"swiglu": Declare(Op[swigluArgs]{
			Schema: "swiglu(Tensor self, int dim=-1) -> Tensor", Doc: doc,
			Cases: func(g opdef.Gen) (cs []*swigluArgs) {
				each(func(dt tensor.DType) { cs = append(cs, &swigluArgs{g.Normal(dt, 3, 8), -1}) })
				return append(cs, &swigluArgs{opdef.NonContiguous(g.Normal(tensor.Float64, 4, 3)), 0})
			},
		}, Fused, swiglu),
		"attention": Declare(Op[attentionArgs]{
			Schema: "attention(Tensor q, Tensor k, Tensor v) -> (Tensor, Tensor)", Doc: doc,
			Cases: func(g opdef.Gen) (cs []*attentionArgs) {
				each(func(dt tensor.DType) {
					cs = append(cs, &attentionArgs{g.Normal(dt, 2, 3, 4), g.Normal(dt, 2, 5, 4), g.Normal(dt, 2, 5, 3)})
				})
				return cs
			},
		}, Unfused, plainAttention),
		"fused": Declare(Op[maskedArgs]{
			Schema: "fused(Tensor q, Tensor k, Tensor v, Tensor mask) -> Tensor", Doc: doc,
			Cases: func(g opdef.Gen) (cs []*maskedArgs) {
				each(func(dt tensor.DType) {
					cs = append(cs, &maskedArgs{g.Normal(dt, 3, 2, 4, 5), g.Normal(dt, 2, 5, 5), g.Normal(dt, 2, 5, 3),
						g.Normal(dt, 4, 5)})
				})
				return cs
			},
		}, Fused, fusedAttention),
		"norm": Declare(Op[normArgs]{
			Schema: "norm(Tensor input, Tensor weight, float eps=1e-6) -> Tensor", Doc: doc,
			Cases: func(g opdef.Gen) (cs []*normArgs) {
				each(func(dt tensor.DType) { cs = append(cs, &normArgs{g.Normal(dt, 3, 8), g.Normal(dt, 8), 1e-6}) })
				return cs
			},
		}, Unfused, rmsNorm),
		"norms": Declare(Op[pairArgs]{
			Schema: "norms(Tensor self, Tensor other) -> (Tensor, Tensor, Tensor, Tensor, Tensor)", Doc: doc,
			Cases: func(g opdef.Gen) (cs []*pairArgs) {
				each(func(dt tensor.DType) {
					cs = append(cs, &pairArgs{g.Apart(dt, []float64{0}, 3, 4), g.Distinct(dt, 3, 4)})
				})
				return cs
			},
		}, Fused, norms),
		"various": Declare(Op[pairArgs]{
			Schema: "various(Tensor self, Tensor other) -> (Tensor, Tensor, Tensor)", Doc: doc,
			Cases: func(g opdef.Gen) (cs []*pairArgs) {
				each(func(dt tensor.DType) {
					cs = append(cs, &pairArgs{g.Distinct(dt, 3, 4), g.Apart(dt, []float64{0}, 3, 4)})
				})
				return cs
			},
		}, Fused, various),
	}
}

// TestChecks runs the checks every operator passes, difference quotients among
// them, on compositions.
func TestChecks(t *testing.T) {
	for name, e := range composed() {
		t.Run(name, func(t *testing.T) {
			for _, f := range (&opcheck.Suite{}).Entry(e) {
				t.Error(f)
			}
		})
	}
}

// TestBounds runs compositions as a device would, every value rounded to its
// dtype: results and gradients stay within their bounds, which are not much
// larger than the errors seen.
func TestBounds(t *testing.T) {
	for _, tc := range []struct {
		name string
		run  func(g *Graph, gen opdef.Gen, dt tensor.DType) Values
		most float64 // of the bound, in errors seen at worst
	}{
		{"swiglu", func(g *Graph, gen opdef.Gen, dt tensor.DType) Values {
			return swiglu(g, &swigluArgs{gen.Normal(dt, 64, 128), -1})
		}, 40},
		{"attention", func(g *Graph, gen opdef.Gen, dt tensor.DType) Values {
			return plainAttention(g, &attentionArgs{gen.Normal(dt, 4, 16, 8), gen.Normal(dt, 4, 32, 8),
				gen.Normal(dt, 4, 32, 8)})
		}, 400},
		{"fused", func(g *Graph, gen opdef.Gen, dt tensor.DType) Values {
			return fusedAttention(g, &maskedArgs{gen.Normal(dt, 3, 2, 32, 8), gen.Normal(dt, 2, 48, 8),
				gen.Normal(dt, 2, 48, 8), gen.Normal(dt, 32, 48)})
		}, 600},
		{"norm", func(g *Graph, gen opdef.Gen, dt tensor.DType) Values {
			return rmsNorm(g, &normArgs{gen.Normal(dt, 32, 256), gen.Normal(dt, 256), 1e-6})
		}, 400},
		{"norms", func(g *Graph, gen opdef.Gen, dt tensor.DType) Values {
			return norms(g, &pairArgs{gen.Normal(dt, 16, 32), gen.Normal(dt, 16, 32)})
		}, 1000},
		{"various", func(g *Graph, gen opdef.Gen, dt tensor.DType) Values {
			return various(g, &pairArgs{gen.Normal(dt, 16, 32), gen.Normal(dt, 16, 32)})
		}, 400},
	} {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16, tensor.Float16} {
			t.Run(tc.name+"/"+dt.String(), func(t *testing.T) {
				values := func(g *Graph) (vs Values) {
					gen := opdef.Gen{R: rand.New(rand.NewPCG(1, 2))}
					vs = tc.run(g, gen, dt)
					up := make([]*Value, len(vs))
					for i, v := range vs {
						up[i] = g.Const(gen.Normal(dt, v.Shape()...))
					}
					grads := g.gradients(vs, up)
					for _, a := range g.args {
						vs = append(vs, grads[a.leaf.position])
					}
					return vs
				}
				exact := &Graph{}
				device := &Graph{store: func(t *tensor.Tensor) *tensor.Tensor {
					if t.DType.IsFloat() {
						return t.Rounded()
					}
					return t
				}}
				want, got := values(exact), values(device)
				for i, v := range want {
					x, y, s := tensor.Data[float64](v.T), tensor.Data[float64](got[i].T),
						tensor.Data[float64](exact.scale(v))
					worst := 0.0
					for j := range x {
						off := math.Abs(y[j] - x[j])
						allowed := 2*dt.ULP(x[j]) + exact.unit()*s[j]
						if off > allowed {
							t.Fatalf("value %d, element %d: %g, exactly %g: off by %g, bound %g", i, j, y[j], x[j],
								off, allowed)
						}
						worst = max(worst, off/allowed)
					}
					if worst*tc.most < 1 {
						t.Errorf("value %d: the worst error is %.2g of its bound", i, worst)
					}
					t.Logf("value %d: the worst error is %.2g of its bound", i, worst)
				}
			})
		}
	}
}

// TestNode: what op_tools records of a composed operator's gradients is what the
// last of torch's primitives received, a mean being one.
func TestNode(t *testing.T) {
	x := tensor.New(tensor.Float64, []int{2, 2}, []float64{1, 2, 3, 4})
	x.RequiresGrad = true
	up := tensor.Scalar(tensor.Float64, 8.0)
	for _, tc := range []struct {
		name string
		last func(g *Graph, x *Value) *Value
		want []float64 // of the first input, nil: none
		n    int
		weak string
	}{
		{"mean", func(g *Graph, x *Value) *Value { return g.Mean(x, false) }, []float64{2, 2, 2, 2}, 1,
			elements.SpreadOnly},
		{"sum", func(g *Graph, x *Value) *Value { return g.Sum(x, false) }, []float64{8, 8, 8, 8}, 1,
			elements.SpreadOnly},
		{"number", func(g *Graph, x *Value) *Value { return g.Scale(g.Sum(x, false), 0.5) }, []float64{4}, 2, ""},
		{"view", func(g *Graph, x *Value) *Value { return g.Reshape(g.Select(g.Select(x, 0, 0), 0, 1), 1) },
			[]float64{8}, 1, elements.ReshapedOnly},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := &Graph{double: true}
			out := tc.last(g, g.Square(g.Arg("self", x)))
			seed := up
			if out.Dim() > 0 {
				seed = up.Reshape(out.Shape()...)
			}
			n, err := (&Call{graph: g, outs: Values{out}}).node(&opdef.Grad{Out: []*tensor.Tensor{seed}})
			if err != nil || len(n.Grads) != tc.n || n.Weak != tc.weak {
				t.Fatalf("%d gradients, weak %q, want %d, %q", len(n.Grads), n.Weak, tc.n, tc.weak)
			}
			if got := tensor.Data[float64](n.Grads[0]); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestNormAtZero: an element that is 0 gets no gradient of a norm, whatever it
// does to others.
func TestNormAtZero(t *testing.T) {
	for _, p := range []float64{math.Inf(-1), -2, -1, 0, 0.5, 1, 2, 3, math.Inf(1)} {
		x := tensor.New(tensor.Float64, []int{3}, []float64{0, -2, 3})
		x.RequiresGrad = true
		g := &Graph{double: true}
		in := g.Arg("self", x)
		norm := g.Norm(in, p, false)
		grad := g.gradients(Values{norm}, []*Value{g.Full(tensor.Float64, nil, 1)})[in.position]
		d := []float64{0, 0, 0}
		if grad != nil {
			d = tensor.Data[float64](grad.T)
		}
		if d[0] != 0 || d[1] != d[1] || p < 0 && d[1] != 0 {
			t.Errorf("order %v: the norm is %v, its gradient %v", p, norm.T.Item(), d)
		}
	}
}
