package npu

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

type confusionArgs struct {
	Self           *tensor.Tensor
	Perm, Shape    []int
	TransposeFirst bool
}

var confusionTranspose = compose.Declare(compose.Op[confusionArgs]{
	Schema: "npu_confusion_transpose(Tensor self, int[] perm, int[] shape, bool transpose_first) -> Tensor",
	Names:  names("npu_confusion_transpose"),
	Doc: opdef.Doc{Summary: "Another shape and order of dimensions",
		Formula: "self.permute(perm).reshape(shape) if transpose_first, else self.reshape(shape).permute(perm)"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *confusionArgs {
		return &confusionArgs{g.Normal(dt, 2, 3, 4), []int{0, 2, 1}, []int{4, 3, 2}, g.Nth%2 == 0}
	}),
}, compose.Fused, func(g *compose.Graph, a *confusionArgs) compose.Values {
	x := g.Arg("self", a.Self)
	for _, n := range a.Shape {
		if n < 0 {
			g.Refuse("shape", "want sizes, got %v", a.Shape)
		}
	}
	permute := func(x *compose.Value) *compose.Value {
		if len(a.Perm) != x.Dim() {
			g.Refuse("perm", "want %d dimensions, got %v", x.Dim(), a.Perm)
		}
		return g.Permute(x, a.Perm...)
	}
	if a.TransposeFirst {
		return compose.Values{g.Reshape(permute(x), a.Shape...)}
	}
	return compose.Values{permute(g.Reshape(x, a.Shape...))}
})

type castArgs struct {
	Self       *tensor.Tensor
	Dtype      tensor.DType
	InputDtype value.Value
}

var dtypeCast = compose.Declare(compose.Op[castArgs]{
	Schema: "npu_dtype_cast(Tensor self, dtype dtype, any input_dtype=None) -> Tensor",
	Names:  names("npu_dtype_cast", "_npu_dtype_cast"),
	Doc:    opdef.Doc{Summary: "Conversion of the dtype", Formula: "self as dtype"},
	Exempt: map[string]string{"dtypes": "the dtype of the result is given"},
	Cases: func(g opdef.Gen) []*castArgs {
		return []*castArgs{{g.Normal(tensor.Float32, 3, 4), tensor.Float16, nil},
			{g.Normal(tensor.BFloat16, 3, 4), tensor.Float32, nil}, {g.Int(tensor.Int32, -9, 9, 3), tensor.Float32,
				nil}}
	},
}, compose.Fused, func(g *compose.Graph, a *castArgs) compose.Values {
	return compose.Values{g.To(g.Arg("self", a.Self), a.Dtype)}
})

type formatArgs struct {
	Self                  *tensor.Tensor
	AclFormat, InputDtype value.Value
	CustomizeDtype        value.Value
}

var formatCast = compose.Declare(compose.Op[formatArgs]{
	Schema: "npu_format_cast(Tensor self, any acl_format, any customize_dtype=None, any input_dtype=None) -> Tensor",
	Names:  names("npu_format_cast"), InPlace: true,
	Doc: opdef.Doc{Summary: "Conversion of the format in memory, which changes no value", Formula: "self"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *formatArgs {
		return &formatArgs{Self: g.Normal(dt, 3, 4), AclFormat: int64(29)}
	}),
}, compose.Fused, func(g *compose.Graph, a *formatArgs) compose.Values {
	return compose.Values{g.Alias(g.Arg("self", a.Self))}
})

type scatterArgs struct{ Self, Indices, Updates *tensor.Tensor }

var scatterNd = compose.Declare(compose.Op[scatterArgs]{
	Schema: "npu_scatter_nd_update(Tensor self, Tensor indices, Tensor updates) -> Tensor",
	Names:  names("npu_scatter_nd_update"), InPlace: true,
	Doc: opdef.Doc{Summary: "Slices of self replaced", Formula: "self[indices[i, 0], ..., indices[i, n-1]] = " +
		"updates[i]",
		Notes: "Of equal indices the last counts; devices may take any of them."},
	NoGrad: "torch_npu has none",
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *scatterArgs {
		at := tensor.New(tensor.Int64, []int{3, 2}, []int64{1, 0, 0, 2, 1, 2}).Rounded()
		return &scatterArgs{g.Normal(dt, 2, 3, 4), at, g.Normal(dt, 3, 4)}
	}),
}, compose.Fused, func(g *compose.Graph, a *scatterArgs) compose.Values {
	x, updates := g.Arg("self", a.Self), g.Arg("updates", a.Updates)
	last := a.Indices.Dim() - 1
	if last < 1 || a.Indices.DType.Kind() != tensor.KindInt || a.Indices.Shape[last] > x.Dim() {
		g.Refuse("indices", "want rows of up to %d integers, got %s", x.Dim(), a.Indices.Meta())
	}
	n := a.Indices.Shape[last]
	want := append(slices.Clone(a.Indices.Shape[:last]), a.Self.Shape[n:]...)
	if !slices.Equal(want, a.Updates.Shape) || a.Updates.DType != a.Self.DType {
		g.Refuse("updates", "want %s[%s], got %s", a.Self.DType, tensor.ShapeString(want), a.Updates.Meta())
	}
	width, count := tensor.Numel(a.Self.Shape[n:]), tensor.Numel(a.Indices.Shape[:last])
	ids, slots := tensor.Data[int64](a.Indices), tensor.Make[int](count)
	for i := range count {
		for d := range n {
			k := ids[i*n+d]
			if k < 0 || k >= int64(a.Self.Shape[d]) {
				g.Refuse("indices", "%d is out of range for size %d", k, a.Self.Shape[d])
			}
			slots[i] = slots[i]*a.Self.Shape[d] + int(k)
		}
	}
	rows := g.Reshape(x, tensor.Numel(a.Self.Shape[:n]), 1, width)
	y := fused.Store(g, "indices", rows, g.Reshape(updates, count, 1, width), slots)
	return compose.Values{g.Reshape(y, a.Self.Shape...)}
})

type gegluArgs struct {
	Self             *tensor.Tensor
	Dim, Approximate int
	ActivateLeft     bool
}

var geglu = compose.Declare(compose.Op[gegluArgs]{
	Schema: "npu_geglu(Tensor self, int dim=-1, int approximate=1, bool activate_left=False) -> (Tensor, Tensor)",
	Names:  names("npu_geglu"),
	Doc: opdef.Doc{Summary: "Gated GELU",
		Formula: "a * gelu(b) and gelu(b), a and b the halves of self along dim; with activate_left gelu(a) * b and " +
			"gelu(a)",
		Notes: "GELU is approximated with tanh if approximate is 1, with erf if it is 0."},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *gegluArgs {
		return &gegluArgs{g.Normal(dt, 3, 8), -1, g.Nth % 2, g.Nth > 1}
	}),
}, compose.Fused, func(g *compose.Graph, a *gegluArgs) compose.Values {
	if a.Approximate != 0 && a.Approximate != 1 {
		g.Refuse("approximate", "want 0 or 1, got %d", a.Approximate)
	}
	x := g.Chunk(g.Arg("self", a.Self), 2, a.Dim)
	if a.ActivateLeft {
		slices.Reverse(x)
	}
	gelu := g.GELU(x[1], a.Approximate == 1)
	return compose.Values{g.Mul(x[0], gelu), gelu}
})

type maskedSoftmaxArgs struct {
	X, Mask       *tensor.Tensor
	Scale         opdef.Scalar
	FixedTriuMask bool
}

var scaledMaskedSoftmax = compose.Declare(compose.Op[maskedSoftmaxArgs]{
	Schema: "npu_scaled_masked_softmax(Tensor x, Tensor mask, Scalar scale=1, bool fixed_triu_mask=False) -> Tensor",
	Names:  names("npu_scaled_masked_softmax"),
	Doc: opdef.Doc{Summary: "Softmax of scaled scores, some of which are hidden",
		Formula: "softmax(where(mask, -10000, scale*x), -1)",
		Notes:   "With fixed_triu_mask the scores behind the diagonal are hidden, whatever mask holds."},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *maskedSoftmaxArgs {
		mask := tensor.New(tensor.Bool, []int{1, 1, 3, 4}, []int64{0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0}).Rounded()
		return &maskedSoftmaxArgs{g.Normal(dt, 2, 2, 3, 4), mask, opdef.Float(0.5), g.Nth == 1}
	}),
}, compose.Fused, func(g *compose.Graph, a *maskedSoftmaxArgs) compose.Values {
	return compose.Values{fused.MaskedSoftmax(g, g.Arg("x", a.X), a.Mask, a.Scale.Float64(), a.FixedTriuMask)}
})

type layerNormArgs struct {
	Input           *tensor.Tensor
	NormalizedShape []int
	Weight, Bias    *tensor.Tensor
	Eps             float64
}

var layerNormEval = compose.Declare(compose.Op[layerNormArgs]{
	Schema: "npu_layer_norm_eval(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, " +
		"float eps=1e-05) -> Tensor", Names: names("npu_layer_norm_eval"),
	Doc: opdef.Doc{Summary: "Normalisation over the last dimensions",
		Formula: "(input - mean) / sqrt(var + eps) * weight + bias over the dimensions of normalized_shape"},
	NoGrad: "torch_npu has none",
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *layerNormArgs {
		if g.Nth == 1 {
			return &layerNormArgs{g.Normal(dt, 2, 3, 4), []int{3, 4}, nil, nil, 1e-5}
		}
		return &layerNormArgs{g.Normal(dt, 3, 8), []int{8}, g.Normal(dt, 8), g.Normal(dt, 8), 1e-5}
	}),
}, compose.Fused, func(g *compose.Graph, a *layerNormArgs) compose.Values {
	x := g.Arg("input", a.Input)
	y, _, _ := fused.Centred(g, x, a.NormalizedShape, a.Eps)
	y = fused.Affine(g, y, g.Arg("weight", a.Weight), g.Arg("bias", a.Bias), a.NormalizedShape)
	return compose.Values{g.To(y, x.DType())}
})

type adamArgs struct {
	Beta1Power, Beta2Power, Lr, WeightDecay, Beta1, Beta2, Epsilon opdef.Scalar
	Grad, MaxGradNorm                                              *tensor.Tensor
	Amsgrad, Maximize                                              *bool
	Out                                                            []*tensor.Tensor
}

var applyAdamW = compose.Declare(compose.Op[adamArgs]{
	Schema: "npu_apply_adam_w(Scalar beta1_power, Scalar beta2_power, Scalar lr, Scalar weight_decay, Scalar beta1, " +
		"Scalar beta2, Scalar epsilon, Tensor grad, Tensor? max_grad_norm, bool? amsgrad, bool? maximize, *, " +
		"Tensor[] out) -> (Tensor, Tensor, Tensor)", Names: names("npu_apply_adam_w"),
	Doc: opdef.Doc{Summary: "A step of AdamW, in place",
		Formula: "m = beta1*m + (1 - beta1)*grad, v = beta2*v + (1 - beta2)*grad^2, var = var*(1 - lr*weight_decay) " +
			"- " +
			"lr*m/(1 - beta1_power*beta1) / (sqrt(v/(1 - beta2_power*beta2)) + epsilon)",
		Notes: "out holds var, m and v before the step. With amsgrad the larger of v and max_grad_norm is taken " +
			"under the " +
			"root; maximize turns grad round."},
	NoGrad: "it is a step of an optimizer",
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *adamArgs {
		yes := true
		f := opdef.Float
		a := &adamArgs{f(0.81), f(0.98), f(0.01), f(0.1), f(0.9), f(0.99), f(1e-3), g.Normal(dt, 3, 4), nil,
			nil, nil,
			[]*tensor.Tensor{g.Normal(dt, 3, 4), g.Normal(dt, 3, 4), g.Uniform(dt, 0.1, 1, 3, 4)}}
		if g.Nth == 1 {
			a.Amsgrad, a.Maximize, a.MaxGradNorm = &yes, &yes, g.Uniform(dt, 0.1, 1, 3, 4)
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *adamArgs) compose.Values {
	out := g.Args("out", a.Out)
	if len(out) != 3 {
		g.Refuse("out", "want var, m and v, got %d tensors", len(out))
	}
	grad := g.AtLeast(g.Arg("grad", a.Grad), tensor.Float32)
	if a.Maximize != nil && *a.Maximize {
		grad = g.Neg(grad)
	}
	var top *compose.Value
	if a.Amsgrad != nil && *a.Amsgrad {
		if top = g.Arg("max_grad_norm", a.MaxGradNorm); top == nil {
			g.Refuse("max_grad_norm", "want the largest squares so far, of shape %s", tensor.ShapeString(grad.Shape()))
		}
	}
	beta1, beta2 := a.Beta1.Float64(), a.Beta2.Float64()
	step := fused.AdamW{Beta1: beta1, Beta2: beta2, Power1: a.Beta1Power.Float64() * beta1,
		Power2: a.Beta2Power.Float64() * beta2, Lr: a.Lr.Float64(), Decay: a.WeightDecay.Float64(),
		Eps: a.Epsilon.Float64()}
	results := step.Step(g, out[0], out[1], out[2], top, grad)[:3]
	for _, r := range results {
		g.Update("out", r)
	}
	return results
})
