package deeplink

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

type normArgs struct {
	X, Weight *tensor.Tensor
	Epsilon   float64
}

var rmsNorm = compose.Declare(compose.Op[normArgs]{
	Schema: "deeplink_ext_rms_norm(Tensor x, Tensor weight, float epsilon) -> Tensor",
	Names: names("easyllm_ops.rms_norm", "easyllm_ops.rms_norm.rms_norm",
		"easyllm_ops.rms_norm_fallback.rms_norm_torch",
		"ascend_speed.RMSNorm.apply", "ascend_speed.rms_norm.RMSNorm.apply"),
	Doc: opdef.Doc{Summary: "Scaling by the root mean square over the dimensions of the weight",
		Formula: "x / sqrt(mean(x^2) + epsilon) * weight"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *normArgs {
		return &normArgs{g.Normal(dt, 3, 8), g.Normal(dt, 8), 1e-3}
	}),
}, compose.Fused, func(g *compose.Graph, a *normArgs) compose.Values {
	x, weight := g.Arg("x", a.X), g.Arg("weight", a.Weight)
	return compose.Values{g.To(g.Mul(normed(g, x, weight, a.Epsilon), weight), x.DType())}
})

// normed is x in at least float32 over its root mean square along the dimensions of weight. The
// forms in torch convert x for the mean and for the product, and so its gradient twice.
func normed(g *compose.Graph, x, weight *compose.Value, eps float64) *compose.Value {
	_, rstd := fused.RMSNorm(g, x, weight, eps, 0)
	return g.Mul(g.AtLeast(x, tensor.Float32), rstd)
}

// mixedNotes say how norms of two dtypes are computed.
const mixedNotes = "normalized_shape is that of the weight. The result has the weight's dtype."

type mixedArgs struct {
	HiddenStates, Weight *tensor.Tensor
	Eps                  float64
	NormalizedShape      []int
}

// mixedDTypes are the dtypes of an argument and of a weight.
var mixedDTypes = [][2]tensor.DType{{tensor.Float64, tensor.Float64}, {tensor.Float32, tensor.Float32},
	{tensor.BFloat16, tensor.Float32}, {tensor.Float32, tensor.BFloat16}, {tensor.Float16, tensor.Float16}}

// weightsDType is why the result does not follow the dtype of every argument.
var weightsDType = map[string]string{"dtypes": "the result has the dtype of the weight"}

// checkNormalized refuses a shape that is not that of the weight.
func checkNormalized(g *compose.Graph, shape []int, weight *compose.Value) {
	if !slices.Equal(shape, weight.Shape()) {
		g.Refuse("normalized_shape", "want the shape of the weight %s, got %v", tensor.ShapeString(weight.Shape()),
			shape)
	}
}

var mixedRMSNorm = compose.Declare(compose.Op[mixedArgs]{
	Schema: "deeplink_ext_mixed_rms_norm(Tensor hidden_states, Tensor weight, float eps, int[] normalized_shape) -> " +
		"Tensor",
	Names: names("interntrain_ops._mixed_rms_norm_dipu._MixedFusedRMSNormFunction.apply"),
	Doc: opdef.Doc{Summary: "Scaling by the root mean square, in the dtype of the weight",
		Formula: "hidden_states / sqrt(mean(hidden_states^2) + eps) * weight", Notes: mixedNotes,
		Source: "deeplink_ext.interntrain_ops.rms_norm"},
	Exempt: weightsDType,
	Cases: func(g opdef.Gen) (cs []*mixedArgs) {
		for _, dt := range mixedDTypes {
			cs = append(cs, &mixedArgs{g.Normal(dt[0], 3, 8), g.Normal(dt[1], 8), 1e-3, []int{8}})
		}
		return cs
	},
}, compose.Fused, func(g *compose.Graph, a *mixedArgs) compose.Values {
	weight := g.Arg("weight", a.Weight)
	checkNormalized(g, a.NormalizedShape, weight)
	y, _ := fused.RMSNorm(g, g.Arg("hidden_states", a.HiddenStates), weight, a.Eps, 0)
	return compose.Values{g.To(y, weight.DType())}
})

type manualArgs struct {
	MyInput         *tensor.Tensor
	NormalizedShape []int
	Weight          *tensor.Tensor
	Eps             float64
	AddUnitOffset   bool
}

var manualRMSNorm = compose.Declare(compose.Op[manualArgs]{
	Schema: "deeplink_ext_manual_rms_norm(Tensor my_input, int[] normalized_shape, Tensor weight, float eps, " +
		"bool add_unit_offset=False) -> Tensor",
	Names: names("interntrain_ops.rms_norm_fallback.manual_rms_norm",
		"interntrain_ops._mixed_rms_norm_npu.manual_rms_norm"),
	Doc: opdef.Doc{Summary: "Scaling by the root mean square, in the dtype of the weight",
		Formula: "my_input / sqrt(mean(my_input^2) + eps) * weight",
		Notes: mixedNotes + " What a weight of 16 bits multiplies is rounded to its dtype first. An offset of 1 is " +
			"refused.", Source: "deeplink_ext.interntrain_ops.rms_norm_fallback"},
	Exempt: weightsDType,
	Cases: func(g opdef.Gen) (cs []*manualArgs) {
		for _, dt := range mixedDTypes {
			cs = append(cs, &manualArgs{g.Normal(dt[0], 3, 8), []int{8}, g.Normal(dt[1], 8), 1e-3, false})
		}
		return cs
	},
}, compose.Fused, func(g *compose.Graph, a *manualArgs) compose.Values {
	if a.AddUnitOffset {
		g.Refuse("add_unit_offset", "DeepLinkExt has no offset")
	}
	x, weight := g.Arg("my_input", a.MyInput), g.Arg("weight", a.Weight)
	checkNormalized(g, a.NormalizedShape, weight)
	y := g.To(normed(g, x, weight, a.Eps), weight.DType())
	return compose.Values{g.Mul(y, weight)}
})

type extNormArgs struct {
	Output, InvRms, Input *tensor.Tensor
	NormalizedShape       []int
	Weight, Bias          *tensor.Tensor
	Eps                   float64
}

var extRMSNorm = compose.DeclareInPlace(compose.Op[extNormArgs]{
	Schema: "deeplink_ext_cpp_rms_norm(Tensor output, Tensor inv_rms, Tensor input, int[] normalized_shape, " +
		"Tensor weight, Tensor? bias, float eps) -> ()",
	Names: ext("rms_norm"),
	Doc: opdef.Doc{Summary: "Scaling by the root mean square, into output and inv_rms",
		Formula: "inv_rms = 1/sqrt(mean(input^2) + eps), output = input * inv_rms * weight + bias",
		Notes:   "normalized_shape is that of the weight.", Source: "diopiRMSNorm"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *extNormArgs {
		a := &extNormArgs{g.Normal(dt, 3, 8), g.Normal(sums(dt), 3), g.Normal(dt, 3, 8), []int{8},
			g.Normal(dt, 8), nil, 1e-3}
		if g.Nth == 1 {
			a.Bias = g.Normal(dt, 8)
		}
		return a
	}),
}, []string{"output", "inv_rms"}, func(g *compose.Graph, a *extNormArgs) compose.Values {
	x, weight := g.Arg("input", a.Input), g.Arg("weight", a.Weight)
	checkNormalized(g, a.NormalizedShape, weight)
	y, rstd := fused.RMSNorm(g, x, weight, a.Eps, 0)
	if bias := g.Arg("bias", a.Bias); bias != nil {
		checkNormalized(g, a.NormalizedShape, bias)
		y = g.Add(y, bias)
	}
	return compose.Values{fused.Into(g, "output", a.Output, y),
		fused.Into(g, "inv_rms", a.InvRms, shaped(g, "inv_rms", rstd, a.InvRms))}
})

// shaped is x in the shape of t, which has as many elements.
func shaped(g *compose.Graph, name string, x *compose.Value, t *tensor.Tensor) *compose.Value {
	if t.Numel() != x.T.Numel() {
		g.Refuse(name, "want %d numbers, got %s", x.T.Numel(), t.Meta())
	}
	return g.Reshape(x, t.Shape...)
}

type extNormBackArgs struct {
	GradInput, GradWeight, GradBias, GradOutput, Input, Weight, Bias, InvRms *tensor.Tensor
	NormalizedShape                                                          []int
	Eps                                                                      float64
}

var extRMSNormBackward = compose.DeclareInPlace(compose.Op[extNormBackArgs]{
	Schema: "deeplink_ext_cpp_rms_norm_backward(Tensor grad_input, Tensor grad_weight, Tensor? grad_bias, " +
		"Tensor grad_output, Tensor input, Tensor weight, Tensor? bias, Tensor inv_rms, int[] normalized_shape, " +
		"float eps) -> ()",
	Names: ext("rms_norm_backward"),
	Doc: opdef.Doc{Summary: "Gradients of scaling by the root mean square, into grad_input, grad_weight, grad_bias",
		Formula: "grad_input = inv_rms*(h - n*mean(h*n)), grad_weight = sum(grad_output*n), n = input*inv_rms, h = " +
			"grad_output*weight",
		Notes: "eps is part of inv_rms.", Source: "diopiRMSNormBackward"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *extNormBackArgs {
		a := &extNormBackArgs{GradInput: g.Normal(dt, 3, 8), GradWeight: g.Normal(dt, 8),
			GradOutput: g.Normal(dt, 3, 8), Input: g.Normal(dt, 3, 8), Weight: g.Normal(dt, 8),
			InvRms: g.Uniform(sums(dt), 0.5, 1.5, 3), NormalizedShape: []int{8}, Eps: 1e-3}
		if g.Nth == 1 {
			a.Bias, a.GradBias = g.Normal(dt, 8), g.Normal(dt, 8)
		}
		return a
	}),
}, []string{"grad_input", "grad_weight", "grad_bias"}, func(g *compose.Graph, a *extNormBackArgs) compose.Values {
	wide := func(name string, t *tensor.Tensor) *compose.Value { return g.AtLeast(g.Arg(name, t), tensor.Float32) }
	x, up, weight := wide("input", a.Input), wide("grad_output", a.GradOutput), wide("weight", a.Weight)
	checkNormalized(g, a.NormalizedShape, weight)
	lead := x.Dim() - weight.Dim()
	if lead < 0 || !slices.Equal(x.Shape(), up.Shape()) || !slices.Equal(x.Shape()[lead:], weight.Shape()) {
		g.Refuse("grad_output", "%s, input %s and weight %s do not fit", a.GradOutput.Meta(), a.Input.Meta(),
			a.Weight.Meta())
	}
	rows := tensor.Numel(x.Shape()[:lead])
	flat := func(v *compose.Value) *compose.Value { return g.Reshape(v, rows, weight.T.Numel()) }
	rstd := shaped(g, "inv_rms", wide("inv_rms", a.InvRms), tensor.Full(tensor.Float32, []int{rows, 1}, 0.0))
	norm, grad := g.Mul(flat(x), rstd), flat(up)
	h := g.Mul(grad, g.Reshape(weight, weight.T.Numel()))
	back := g.Mul(rstd, g.Sub(h, g.Mul(norm, g.Mean(g.Mul(h, norm), true, 1))))
	out := compose.Values{fused.Into(g, "grad_input", a.GradInput, g.Reshape(back, x.Shape()...)),
		fused.Into(g, "grad_weight", a.GradWeight, g.Reshape(g.Sum(g.Mul(grad, norm), false, 0), weight.Shape()...))}
	if a.GradBias != nil {
		out = append(out, fused.Into(g, "grad_bias", a.GradBias, g.Reshape(g.Sum(grad, false, 0), weight.Shape()...)))
	}
	return out
})

// sums is the dtype that norms of dt are computed in.
func sums(dt tensor.DType) tensor.DType {
	if dt.IsReduced() {
		return tensor.Float32
	}
	return dt
}
