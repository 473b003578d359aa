package opcheck_test

import (
	"fmt"
	"math"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opcheck"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

var softsign = opdef.Unary{
	Name:  "softsign",
	Names: "F.softsign",
	Doc:   opdef.Doc{Summary: "Soft sign", Formula: "self / (1 + |self|)"},
	Error: opdef.Error{Class: opdef.Elementwise, ULPs: 2},
	F:     func(x float64) float64 { return x / (1 + math.Abs(x)) },
	DF:    func(x, _ float64) float64 { d := 1 + math.Abs(x); return 1 / (d * d) },
}.Entry()

type squaredDistanceArgs struct {
	Self, Other *tensor.Tensor
	Dim         int
	Keepdim     bool
	Weight      opdef.Scalar
}

var squaredDistance = opdef.Op[squaredDistanceArgs]{
	Schema: "squared_distance(Tensor self, Tensor other, int dim=-1, bool keepdim=False, *, Scalar weight=1) -> Tensor",
	Names:  "nn.functional.squared_distance",
	Doc: opdef.Doc{
		Summary: "Squared distance along a dimension, weighted",
		Formula: "weight * sum((self - other)^2, dim)",
		Notes:   "self and other have the same shape and floating dtype.",
		Source:  "an example",
	},
	Error:  opdef.Error{Class: opdef.Normwise, ULPs: 2},
	Kernel: squaredDistanceKernel,
	Grad:   squaredDistanceGrad,
	Bounds: opdef.Bounds[*squaredDistanceArgs]{
		Scale: squaredDistanceScale,
		Terms: squaredDistanceTerms,
	},
	Cases: squaredDistanceCases,
}.Entry()

func squaredDistanceKernel(a *squaredDistanceArgs) ([]*tensor.Tensor, error) {
	dt := a.Self.DType
	if !dt.IsFloat() || a.Other.DType != dt {
		return nil, opdef.Refuse("other", "want two tensors of one floating dtype, got %s and %s", dt, a.Other.DType)
	}
	if tensor.ShapeString(a.Self.Shape) != tensor.ShapeString(a.Other.Shape) {
		return nil, opdef.Refuse("other", "want the shape of self %s, got %s", tensor.ShapeString(a.Self.Shape),
			tensor.ShapeString(a.Other.Shape))
	}
	dim, err := opdef.Dim("dim", a.Dim, a.Self.Dim())
	if err != nil {
		return nil, err
	}
	w := a.Weight.Float64()
	terms := opdef.Zip(dt, a.Self, a.Other, func(x, y float64) float64 { return w * (x - y) * (x - y) })
	return []*tensor.Tensor{sumAlong(terms, dim, a.Keepdim)}, nil
}

// sumAlong sums over one dimension; a 0-d tensor is its own sum.
func sumAlong(t *tensor.Tensor, dim int, keepdim bool) *tensor.Tensor {
	if t.Dim() == 0 {
		return t
	}
	return opdef.Sum(t.DType, t, []int{dim}, keepdim)
}

func squaredDistanceGrad(a *squaredDistanceArgs, g *opdef.Grad) (opdef.Grads, error) {
	dim, err := opdef.Dim("dim", a.Dim, a.Self.Dim())
	if err != nil {
		return nil, err
	}
	out := g.Out[0] // has the result's shape: put the dimension back, then expand it
	if !a.Keepdim && a.Self.Dim() > 0 {
		out = out.Unsqueeze(dim)
	}
	if out, err = out.Expand(a.Self.Shape...); err != nil {
		return nil, err
	}
	w := a.Weight.Float64()
	part := func(sign float64) *tensor.Tensor {
		return opdef.ZipN(a.Self.DType, a.Self.Shape, func(dst []float64, s [][]float64) {
			for i := range dst {
				dst[i] = sign * 2 * w * (s[1][i] - s[2][i]) * s[0][i]
			}
		}, out, a.Self, a.Other)
	}
	gr := opdef.Grads{}
	if g.Need("self") {
		gr.Set("self", part(1))
	}
	if g.Need("other") {
		gr.Set("other", part(-1))
	}
	return gr, nil
}

// squaredDistanceScale is S: what a float32 device may be wrong by is
// proportional to (|x|+|y|)^2, however close x and y are.
func squaredDistanceScale(a *squaredDistanceArgs, _ []*tensor.Tensor) []*tensor.Tensor {
	dim, err := opdef.Dim("dim", a.Dim, a.Self.Dim())
	if err != nil {
		return nil
	}
	w := math.Abs(a.Weight.Float64())
	s := opdef.Zip(tensor.Float64, opdef.Abs(a.Self), opdef.Abs(a.Other),
		func(x, y float64) float64 { return w * (x + y) * (x + y) })
	return []*tensor.Tensor{sumAlong(s, dim, a.Keepdim)}
}

func squaredDistanceTerms(a *squaredDistanceArgs) int {
	if dim, err := opdef.Dim("dim", a.Dim, a.Self.Dim()); err == nil && a.Self.Dim() > 0 {
		return a.Self.Shape[dim]
	}
	return 1
}

var squaredDistanceCases = opdef.Calls[squaredDistanceArgs](`
	f64[3, 4], f64[3, 4]
	f32[2, 3], f32[2, 3], 0, True, weight=0.5
	bf16[5], bf16[5], 0; f32[], f32[]; f32[0, 3], f32[0, 3], 0
	f64[3, 4]{gaps}, f64[3, 4], 1`)

// A table of two ops, checked as the table of package ops is. The gradient of
// the second is then broken.
var gatedSiLU = compose.Declare(compose.Op[opdef.DimArgs]{
	Schema: "gated_silu(Tensor self, int dim=-1) -> Tensor",
	Doc:    opdef.Doc{Summary: "Gated SiLU", Formula: "silu(a) * b, a and b the halves of self along dim"},
	Cases:  opdef.Calls[opdef.DimArgs]("for T in f64 f32 f16 bf16: T[3, 8]"),
}, compose.Fused, func(g *compose.Graph, a *opdef.DimArgs) compose.Values {
	x := g.Chunk(g.Arg("self", a.Self), 2, a.Dim)
	return compose.Values{g.Mul(g.SiLU(x[0]), x[1])}
})

func Example() {
	table := []*opdef.Entry{softsign, squaredDistance, gatedSiLU}
	reg, err := opdef.NewRegistry(table)
	if err != nil {
		fmt.Println(err)
		return
	}
	suite := &opcheck.Suite{Registry: reg}
	fmt.Println("findings:", len(suite.All()))

	broken := opdef.Op[squaredDistanceArgs]{
		Schema: "squared_distance(Tensor self, Tensor other, int dim=-1, bool keepdim=False, *, Scalar weight=1) -> " +
			"Tensor",
		Doc:    opdef.Doc{Summary: "Squared distance", Source: "an example"},
		Kernel: squaredDistanceKernel,
		Cases:  squaredDistanceCases,
		Grad: func(a *squaredDistanceArgs, g *opdef.Grad) (opdef.Grads, error) {
			gr, err := squaredDistanceGrad(a, g)
			delete(gr, "other")
			return gr, err
		},
	}.Entry()
	only := &opcheck.Suite{Only: []string{"gradients"}}
	for _, f := range only.Entry(broken)[:1] {
		fmt.Println(f.Op, f.Check, f.Detail[:23])
	}
	// Output:
	// findings: 0
	// squared_distance gradients no gradient of other, w
}
