package dlinfer

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// quantNotes say how rows are quantized.
const quantNotes = "scale is float32, a number for each row: its largest magnitude over 127 (448 and 57344 of " +
	"float8_e4m3fn and float8_e5m2). Ties are rounded to even."

// ofScale is why results do not follow the dtype of the arguments.
var ofScale = map[string]string{"dtypes": "the dtypes of the results are given"}

type dynamicArgs struct {
	X                *tensor.Tensor
	QuantDtype       tensor.DType
	QuantGranularity *string
}

var dynamicQuant = compose.Declare(compose.Op[dynamicArgs]{
	Schema: "dlinfer_dynamic_quant(Tensor x, dtype quant_dtype, str? quant_granularity=None) -> (Tensor, Tensor)",
	Names:  names("dynamic_quant"),
	Doc: opdef.Doc{Summary: "Quantization of rows with scales of their own",
		Formula: "round(x / scale) as quant_dtype and scale", Notes: quantNotes + " quant_granularity is PER_TOKEN.",
		Source: source("dynamic_quant")},
	NoGrad: fused.ByInference, Exempt: ofScale,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *dynamicArgs {
		token := "PER_TOKEN"
		return &dynamicArgs{g.Normal(dt, 2, 3, 8), tensor.Int8, &token}
	}),
}, compose.Fused, func(g *compose.Graph, a *dynamicArgs) compose.Values {
	if a.QuantGranularity != nil && *a.QuantGranularity != "PER_TOKEN" {
		g.Refuse("quant_granularity", "want PER_TOKEN, got %s", *a.QuantGranularity)
	}
	y, scale := fused.DynamicQuant(g, "x", g.Arg("x", a.X), a.QuantDtype)
	return compose.Values{y, scale}
})

type normQuantArgs struct {
	HiddenStates, Weight *tensor.Tensor
	Epsilon              float64
	QuantDtype           tensor.DType
}

var rmsNormQuant = compose.Declare(compose.Op[normQuantArgs]{
	Schema: "dlinfer_rms_norm_w8a8(Tensor hidden_states, Tensor weight, float epsilon, dtype quant_dtype) -> " +
		"(Tensor, Tensor)", Names: names("rms_norm_w8a8"),
	Doc: opdef.Doc{Summary: "Scaling of rows by their root mean square, quantized",
		Formula: "dynamic_quant(rms_norm(hidden_states, weight, epsilon))", Notes: quantNotes,
		Source: source("rms_norm_w8a8")},
	NoGrad: fused.ByInference, Exempt: ofScale,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *normQuantArgs {
		return &normQuantArgs{g.Normal(dt, 3, 8), g.Normal(dt, 8), 1e-3, tensor.Int8}
	}),
}, compose.Fused, func(g *compose.Graph, a *normQuantArgs) compose.Values {
	x, weight := g.Arg("hidden_states", a.HiddenStates), g.Arg("weight", a.Weight)
	fused.CheckRows(g, x, weight)
	y, _ := fused.RMSNorm(g, x, weight, a.Epsilon, 0)
	q, scale := fused.DynamicQuant(g, "hidden_states", g.To(y, x.DType()), a.QuantDtype)
	return compose.Values{q, scale}
})

type addNormQuantArgs struct {
	HiddenStates, Residual, Weight *tensor.Tensor
	Epsilon                        float64
	QuantDtype                     tensor.DType
}

var addRMSNormQuant = compose.Declare(compose.Op[addNormQuantArgs]{
	Schema: "dlinfer_add_rms_norm_w8a8(Tensor hidden_states, Tensor residual, Tensor weight, float epsilon, " +
		"dtype quant_dtype) -> (Tensor, Tensor, Tensor)", Names: names("add_rms_norm_w8a8"),
	Doc: opdef.Doc{Summary: "Rows added to a residual, scaled by their root mean square and quantized",
		Formula: "dynamic_quant(y) and sum, with y, sum = add_rms_norm(hidden_states, residual, weight, epsilon)",
		Notes:   quantNotes, Source: source("add_rms_norm_w8a8")},
	NoGrad: fused.ByInference, Exempt: ofScale,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *addNormQuantArgs {
		return &addNormQuantArgs{g.Normal(dt, 3, 8), g.Normal(dt, 3, 8), g.Normal(dt, 8), 1e-3, tensor.Int8}
	}),
}, compose.Fused, func(g *compose.Graph, a *addNormQuantArgs) compose.Values {
	y, sum := addedNorm(g, &addNormArgs{a.HiddenStates, a.Residual, a.Weight, a.Epsilon})
	q, scale := fused.DynamicQuant(g, "hidden_states", y, a.QuantDtype)
	return compose.Values{q, scale, sum}
})

type linearQuantArgs struct {
	A, B, RmsScale, LinearScale *tensor.Tensor
	OutDtype, QuantDtype        tensor.DType
	Bias                        *tensor.Tensor
}

var linearQuant = compose.Declare(compose.Op[linearQuantArgs]{
	Schema: "dlinfer_linear_w8a8(Tensor a, Tensor b, Tensor rms_scale, Tensor linear_scale, dtype out_dtype, " +
		"dtype quant_dtype, Tensor? bias=None) -> Tensor", Names: names("linear_w8a8"),
	Doc: opdef.Doc{Summary: "Linear map of quantized rows by a quantized weight",
		Formula: "a b^T * rms_scale * linear_scale + bias",
		Notes: "rms_scale has a number for each row of a, linear_scale one for each of b, in any shape. A bias of " +
			"integers is added before the scales. Sums of int8 are exact.", Source: source("linear_w8a8")},
	NoGrad: fused.ByInference, Exempt: ofScale,
	Cases: func(g opdef.Gen) []*linearQuantArgs {
		a, b := g.Int(tensor.Int8, -128, 127, 1, 3, 8), g.Int(tensor.Int8, -128, 127, 4, 8)
		rows, columns := g.Uniform(tensor.Float32, 0.01, 0.02, 1, 3), g.Uniform(tensor.Float32, 0.01, 0.02, 4, 1)
		return []*linearQuantArgs{{a, b, rows, columns, tensor.Float16, tensor.Int8, nil},
			{a, b, rows, columns, tensor.BFloat16, tensor.Int8, g.Normal(tensor.BFloat16, 4)},
			{a, b, rows, columns, tensor.Float32, tensor.Int8, g.Int(tensor.Int32, -99, 99, 4)}}
	},
}, compose.Fused, func(g *compose.Graph, a *linearQuantArgs) compose.Values {
	b, bias := g.Arg("b", a.B), g.Arg("bias", a.Bias)
	if b.Dim() != 2 {
		g.Refuse("b", "want a matrix, got %s", a.B.Meta())
	}
	y := fused.QuantizedMatmul(g, g.Arg("a", a.A), g.Transpose(b, 0, 1), g.Arg("linear_scale", a.LinearScale),
		g.Arg("rms_scale", a.RmsScale), bias)
	return compose.Values{g.To(y, a.OutDtype)}
})

type weightQuantArgs struct {
	X1, X2, Scale, Offset, Bias *tensor.Tensor
	AllReduce                   value.Value
	GroupSize                   *int
}

var weightQuantMatmul = compose.Declare(compose.Op[weightQuantArgs]{
	Schema: "dlinfer_weight_quant_matmul(Tensor x1, Tensor x2, Tensor scale, Tensor? offset=None, " +
		"Tensor? bias=None, any all_reduce=None, int? group_size=0) -> Tensor", Names: names("weight_quant_matmul"),
	Doc: opdef.Doc{Summary: "Matrix product with a quantized weight", Formula: "x1 ((x2 + offset)*scale) + bias",
		Notes:  fused.WeightNotes + " all_reduce, a sum over processes, is refused.",
		Source: source("weight_quant_matmul")},
	NoGrad: fused.ByInference, Exempt: map[string]string{"dtypes": "the weight holds integers"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *weightQuantArgs {
		n := 4
		a := &weightQuantArgs{X1: g.Normal(dt, 3, 8), X2: g.Int(tensor.Int8, -9, 9, 8, 5), Scale: g.Normal(dt, 5),
			Offset: g.Normal(dt, 5), Bias: g.Normal(dt, 5)}
		if dt == tensor.Float16 {
			a.Scale, a.Offset, a.GroupSize = g.Normal(dt, 2, 5), g.Normal(dt, 2, 5), &n
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *weightQuantArgs) compose.Values {
	if reduce, _ := a.AllReduce.(bool); reduce {
		g.Unsupported("all_reduce", "a sum over processes is not known from one of them")
	}
	group, offset := 0, a.Offset
	if a.GroupSize != nil {
		group = *a.GroupSize
	}
	if offset != nil && offset.Numel() == 0 {
		offset = nil
	}
	return compose.Values{fused.WeightQuantMatmul(g, g.Arg("x1", a.X1), g.Arg("x2", a.X2), g.Arg("scale", a.Scale),
		g.Arg("offset", offset), g.Arg("bias", a.Bias), group)}
})
