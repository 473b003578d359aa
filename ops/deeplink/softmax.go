package deeplink

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

type softmaxArgs struct {
	Input, Mask   *tensor.Tensor
	Scale         float64
	FixedTriuMask bool
}

// someMask hides four of the scores of three rows.
func someMask() *tensor.Tensor {
	return tensor.New(tensor.Bool, []int{1, 1, 3, 4}, []int64{0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0}).Rounded()
}

const triangleNotes = "With fixed_triu_mask the scores behind the diagonal are hidden, whatever mask holds."

var maskedSoftmax = compose.Declare(compose.Op[softmaxArgs]{
	Schema: "deeplink_ext_scaled_masked_softmax(Tensor input, Tensor mask, float scale, bool fixed_triu_mask) -> " +
		"Tensor",
	Names: names("ascend_speed.ScaledMaskedSoftmax.apply",
		"ascend_speed.scaled_masked_softmax.ScaledMaskedSoftmax.apply"),
	Doc: opdef.Doc{Summary: "Softmax of scaled scores, some of which are hidden",
		Formula: "softmax(where(mask, -10000, scale*input), -1)", Notes: triangleNotes,
		Source: "deeplink_ext.ascend_speed.scaled_masked_softmax"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *softmaxArgs {
		return &softmaxArgs{g.Normal(dt, 2, 2, 3, 4), someMask(), 0.5, g.Nth%2 == 1}
	}),
}, compose.Fused, func(g *compose.Graph, a *softmaxArgs) compose.Values {
	x := g.Arg("input", a.Input)
	y := fused.MaskedSoftmax(g, g.AtLeast(x, tensor.Float32), a.Mask, a.Scale, a.FixedTriuMask)
	return compose.Values{g.To(y, x.DType())}
})

type extSoftmaxArgs struct {
	Out, Input, Mask *tensor.Tensor
	Scale            float64
	FixedTriuMask    bool
}

var extMaskedSoftmax = compose.DeclareInPlace(compose.Op[extSoftmaxArgs]{
	Schema: "deeplink_ext_cpp_scaled_masked_softmax_fwd(Tensor out, Tensor input, Tensor mask, float scale, " +
		"bool fixed_triu_mask) -> ()",
	Names: ext("scaled_masked_softmax_fwd"),
	Doc: opdef.Doc{Summary: "Softmax of scaled scores, some of which are hidden, into out",
		Formula: "out = softmax(where(mask, -10000, scale*input), -1)", Notes: triangleNotes,
		Source: "diopiScaledMaskedSoftmax"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *extSoftmaxArgs {
		return &extSoftmaxArgs{g.Normal(dt, 2, 2, 3, 4), g.Normal(dt, 2, 2, 3, 4), someMask(), 0.5, false}
	}),
}, []string{"out"}, func(g *compose.Graph, a *extSoftmaxArgs) compose.Values {
	x := g.AtLeast(g.Arg("input", a.Input), tensor.Float32)
	return compose.Values{fused.Into(g, "out", a.Out, fused.MaskedSoftmax(g, x, a.Mask, a.Scale, a.FixedTriuMask))}
})

type extSoftmaxBackArgs struct {
	GradInput, GradOutput, Out, Mask *tensor.Tensor
	Scale                            float64
	FixedTriuMask                    bool
}

var extMaskedSoftmaxBackward = compose.DeclareInPlace(compose.Op[extSoftmaxBackArgs]{
	Schema: "deeplink_ext_cpp_scaled_masked_softmax_bwd(Tensor grad_input, Tensor grad_output, Tensor out, " +
		"Tensor mask, float scale, bool fixed_triu_mask) -> ()",
	Names: ext("scaled_masked_softmax_bwd"),
	Doc: opdef.Doc{Summary: "Gradient of scaled_masked_softmax_fwd, into grad_input",
		Formula: "grad_input = where(mask, 0, scale*out*(grad_output - sum(grad_output*out, -1)))",
		Notes:   triangleNotes,
		Source:  "diopiScaledMaskedSoftmaxBackward"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *extSoftmaxBackArgs {
		return &extSoftmaxBackArgs{g.Normal(dt, 2, 2, 3, 4), g.Normal(dt, 2, 2, 3, 4),
			g.Uniform(dt, 0, 0.5, 2, 2, 3, 4), someMask(), 0.5, g.Nth%2 == 1}
	}),
}, []string{"grad_input"}, func(g *compose.Graph, a *extSoftmaxBackArgs) compose.Values {
	up, y := g.AtLeast(g.Arg("grad_output", a.GradOutput), tensor.Float32), g.AtLeast(g.Arg("out", a.Out),
		tensor.Float32)
	fused.CheckSame(g, "out", up, y)
	if y.Dim() == 0 {
		g.Refuse("out", "want at least one dimension")
	}
	terms := g.Mul(up, y)
	back := g.Scale(g.Sub(terms, g.Mul(y, g.Sum(terms, true, -1))), a.Scale)
	back = g.MaskedFill(back, fused.Hidden(g, a.Mask, a.FixedTriuMask), 0)
	return compose.Values{fused.Into(g, "grad_input", a.GradInput, back)}
})
