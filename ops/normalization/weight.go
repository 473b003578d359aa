package normalization

import (
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// weightOps are the norms of weights.
var weightOps = []*opdef.Entry{weightNorm, weightNormInterface}

type weightNormArgs struct {
	V, G *tensor.Tensor
	Dim  int
}

// weighted is v times g over the norms of v along all dimensions but dim (-1: along all), in v's
// dtype, and the norms, in at least float32.
func (a *weightNormArgs) weighted(gr *compose.Graph) (w, norms *compose.Value) {
	v, g := gr.Arg("v", a.V), gr.Arg("g", a.G)
	if !v.DType().IsFloat() || v.DType() != g.DType() || v.Dim() == 0 || a.Dim < -1 || a.Dim >= v.Dim() {
		gr.Refuse("v", "want floating tensors of one dtype and a dimension of v, got %s, %s and %d", a.V.Meta(),
			a.G.Meta(), a.Dim)
	}
	var dims []int
	shape := slices.Repeat([]int{1}, v.Dim())
	for d := range v.Dim() {
		if d == a.Dim {
			shape[d] = v.Shape()[d]
		} else {
			dims = append(dims, d)
		}
	}
	if g.T.Numel() != tensor.Numel(shape) {
		gr.Refuse("g", "want shape %s, got %s", tensor.ShapeString(shape), a.G.Meta())
	}
	wide := gr.AtLeast(v, tensor.Float32)
	norms = gr.Abs(wide)
	if len(dims) > 0 {
		norms = gr.Norm(wide, 2, true, dims...)
	}
	w = gr.Mul(wide, gr.Div(gr.Reshape(gr.AtLeast(g, tensor.Float32), shape...), norms))
	return gr.To(w, v.DType()), norms
}

const weightNormFormula = "v * g / |v|, the norms along all dimensions but dim"

func weightNormCases(g opdef.Gen, whole bool) (cs []*weightNormArgs) {
	cs = opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *weightNormArgs {
		return &weightNormArgs{g.Normal(dt, 3, 2, 2), g.Normal(dt, 3, 1, 1), 0}
	})(g)
	cs = append(cs, &weightNormArgs{g.Normal(tensor.Float64, 2, 3), g.Normal(tensor.Float64, 1, 3), 1})
	if whole {
		cs = append(cs, &weightNormArgs{g.Normal(tensor.Float64, 2, 3), g.Normal(tensor.Float64, 1, 1), -1})
	}
	return cs
}

var weightNorm = compose.Declare(compose.Op[weightNormArgs]{
	Schema: "_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor", Names: "_weight_norm",
	Doc: opdef.Doc{Summary: "A weight from its directions and lengths", Formula: weightNormFormula,
		Notes:  "With dim -1 there is one norm. 16-bit weights are computed in float32.",
		Source: "torch.nn.utils.weight_norm"},
	Cases: func(g opdef.Gen) []*weightNormArgs { return weightNormCases(g, true) },
}, compose.Fused, func(g *compose.Graph, a *weightNormArgs) compose.Values {
	w, _ := a.weighted(g)
	return compose.Values{w}
})

var weightNormInterface = compose.Declare(compose.Op[weightNormArgs]{
	Schema: "_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)",
	Names:  "_weight_norm_interface",
	Doc: opdef.Doc{Summary: "A weight from its directions and lengths, and the norms",
		Formula: weightNormFormula + ", |v|",
		Notes:   "dim is the first or the last. Norms are in at least float32 and pass no gradient.",
		Source:  "ATen/native/WeightNorm.cpp"},
	Exempt: map[string]string{"dtypes": "the norms are float32 whatever the dtype",
		"gradients": "the norms pass no gradient"},
	Cases: func(g opdef.Gen) []*weightNormArgs { return weightNormCases(g, false) },
}, compose.Fused, func(g *compose.Graph, a *weightNormArgs) compose.Values {
	if n := a.V.Dim(); a.Dim != 0 && a.Dim != n-1 {
		g.Refuse("dim", "want the first or the last of %d dimensions, got %d", n, a.Dim)
	}
	w, norms := a.weighted(g)
	return compose.Values{w, g.Detach(norms)}
})
