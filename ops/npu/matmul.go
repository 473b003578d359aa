package npu

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// quantised is why results do not follow the dtype of the arguments.
var quantised = map[string]string{"dtypes": "integers are quantized numbers, and the dtypes of results are given"}

type linearArgs struct{ Input, Weight, Bias *tensor.Tensor }

var linear = compose.Declare(compose.Op[linearArgs]{
	Schema: "npu_linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", Names: names("npu_linear"),
	Doc: opdef.Doc{Summary: "Linear map", Formula: "input weight^T + bias"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *linearArgs {
		return &linearArgs{g.Normal(dt, 3, 4), g.Normal(dt, 2, 4), g.Normal(dt, 2)}
	}),
}, compose.Fused, func(g *compose.Graph, a *linearArgs) compose.Values {
	return compose.Values{g.Linear(g.Arg("input", a.Input), g.Arg("weight", a.Weight), g.Arg("bias", a.Bias))}
})

type quantMatmulArgs struct {
	X1, X2, Scale, Offset, PertokenScale, Bias *tensor.Tensor
	OutputDtype                                *tensor.DType
	GroupSizes                                 []int
}

// finished is y in the dtype that a result is given in, int8 if none is.
func finished(g *compose.Graph, y, offset *compose.Value, dt *tensor.DType) *compose.Value {
	if offset != nil {
		y = g.Add(y, g.To(g.Reshape(offset, offset.T.Numel()), tensor.Float32))
	}
	switch {
	case dt == nil || *dt == tensor.Int8:
		return g.Quantize(y, tensor.Int8, -128, 127)
	case !dt.IsFloat():
		g.Refuse("output_dtype", "want int8 or a floating dtype, got %s", *dt)
	}
	return g.To(y, *dt)
}

var quantMatmul = compose.Declare(compose.Op[quantMatmulArgs]{
	Schema: "npu_quant_matmul(Tensor x1, Tensor x2, Tensor scale, *, Tensor? offset=None, " +
		"Tensor? pertoken_scale=None, Tensor? bias=None, dtype? output_dtype=None, int[]? group_sizes=None) -> Tensor",
	Names: names("npu_quant_matmul"),
	Doc: opdef.Doc{Summary: "Matrix product of quantized numbers",
		Formula: "(x1 x2)*scale*pertoken_scale + bias + offset, as output_dtype",
		Notes: "A bias of integers is added before the scales. scale has one number or one for each column, " +
			"pertoken_scale one for each row. The result is int8 by default, ties rounded to even. Sums of int8 are " +
			"exact. Scales packed in int64 and group_sizes are refused."},
	NoGrad: fused.ByInference, Exempt: quantised,
	Cases: func(g opdef.Gen) []*quantMatmulArgs {
		a, b := g.Int(tensor.Int8, -128, 127, 3, 8), g.Int(tensor.Int8, -128, 127, 8, 4)
		half, brain := tensor.Float16, tensor.BFloat16
		scale, rows := g.Uniform(tensor.Float32, 0.001, 0.002, 4), g.Uniform(tensor.Float32, 0.5, 1, 3)
		return []*quantMatmulArgs{{X1: a, X2: b, Scale: scale}, {X1: a, X2: b, Scale: scale,
			Offset: g.Normal(tensor.Float32, 4)}, {X1: a, X2: b, Scale: scale, PertokenScale: rows, OutputDtype: &half,
			Bias: g.Int(tensor.Int32, -99, 99, 4)}, {X1: a, X2: b, Scale: g.Uniform(tensor.BFloat16, 0.001, 0.002, 1),
			OutputDtype: &brain, Bias: g.Normal(tensor.BFloat16, 4)}}
	},
}, compose.Fused, func(g *compose.Graph, a *quantMatmulArgs) compose.Values {
	if a.Scale.DType == tensor.Int64 || slices.ContainsFunc(a.GroupSizes, func(n int) bool { return n > 1 }) {
		g.Unsupported("scale", "packed scales and scales of groups are not supported")
	}
	y := fused.QuantizedMatmul(g, g.Arg("x1", a.X1), g.Arg("x2", a.X2), g.Arg("scale", a.Scale),
		g.Arg("pertoken_scale", a.PertokenScale), g.Arg("bias", a.Bias))
	return compose.Values{finished(g, y, g.Arg("offset", a.Offset), a.OutputDtype)}
})

type weightQuantArgs struct {
	X, Weight, AntiquantScale, AntiquantOffset, QuantScale, QuantOffset, Bias *tensor.Tensor
	AntiquantGroupSize, InnerPrecise                                          int
	WeightDtype                                                               value.Value
}

var weightQuantMatmul = compose.Declare(compose.Op[weightQuantArgs]{
	Schema: "npu_weight_quant_batchmatmul(Tensor x, Tensor weight, Tensor antiquant_scale, " +
		"Tensor? antiquant_offset=None, Tensor? quant_scale=None, Tensor? quant_offset=None, Tensor? bias=None, " +
		"int antiquant_group_size=0, int inner_precise=0, any weight_dtype=None) -> Tensor",
	Names: names("npu_weight_quant_batchmatmul"),
	Doc: opdef.Doc{Summary: "Matrix product with a quantized weight",
		Formula: "x ((weight + antiquant_offset)*antiquant_scale) + bias; with quant_scale round(that*quant_scale + " +
			"quant_offset) as int8",
		Notes: fused.WeightNotes},
	NoGrad: fused.ByInference, Exempt: quantised,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *weightQuantArgs {
		a := &weightQuantArgs{X: g.Normal(dt, 3, 8), Weight: g.Int(tensor.Int8, -9, 9, 8, 8),
			AntiquantScale: g.Normal(dt, 8), AntiquantOffset: g.Normal(dt, 8), Bias: g.Normal(dt, 8)}
		switch g.Nth {
		case 1:
			a.AntiquantScale, a.AntiquantOffset, a.AntiquantGroupSize = g.Normal(dt, 2, 8), g.Normal(dt, 2, 8), 4
		case 2:
			a.Weight, a.AntiquantOffset = g.Int(tensor.Int32, -1<<31, 1<<31-1, 8, 1), nil
		case 3:
			a.QuantScale, a.QuantOffset = g.Uniform(tensor.Float32, 0.5, 1, 8), g.Normal(tensor.Float32, 8)
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *weightQuantArgs) compose.Values {
	y := fused.WeightQuantMatmul(g, g.Arg("x", a.X), g.Arg("weight", a.Weight), g.Arg("antiquant_scale",
		a.AntiquantScale), g.Arg("antiquant_offset", a.AntiquantOffset), g.Arg("bias", a.Bias), a.AntiquantGroupSize)
	if a.QuantScale == nil {
		return compose.Values{y}
	}
	scale := g.Arg("quant_scale", a.QuantScale)
	y = g.Mul(g.To(y, tensor.Float32), g.To(g.Reshape(scale, scale.T.Numel()), tensor.Float32))
	return compose.Values{finished(g, y, g.Arg("quant_offset", a.QuantOffset), nil)}
})

type groupedArgs struct {
	X, Weight, Bias, Scale, Offset, AntiquantScale, AntiquantOffset, PerTokenScale []*tensor.Tensor
	GroupList                                                                      value.Value
	ActivationInput, ActivationQuantScale, ActivationQuantOffset                   []*tensor.Tensor
	SplitItem, GroupType, GroupListType, ActType                                   *int
	TuningConfig                                                                   []int
	OutputDtype                                                                    *tensor.DType
}

var groupedMatmul = compose.Declare(compose.Op[groupedArgs]{
	Schema: "npu_grouped_matmul(Tensor[] x, Tensor[] weight, *, Tensor[]? bias=None, Tensor[]? scale=None, " +
		"Tensor[]? offset=None, Tensor[]? antiquant_scale=None, Tensor[]? antiquant_offset=None, " +
		"Tensor[]? per_token_scale=None, any group_list=None, Tensor[]? activation_input=None, " +
		"Tensor[]? activation_quant_scale=None, Tensor[]? activation_quant_offset=None, int? split_item=0, " +
		"int? group_type=None, int? group_list_type=0, int? act_type=0, int[]? tuning_config=None, " +
		"dtype? output_dtype=None) -> Tensor[]", Names: names("npu_grouped_matmul"),
	Doc: opdef.Doc{Summary: "Products of groups of matrices",
		Formula: "x_i weight_i + bias_i; of int8 (x_i weight_i)*scale_i*per_token_scale_i + bias_i; of quantized " +
			"weights " +
			"x_i ((weight_i + antiquant_offset_i)*antiquant_scale_i) + bias_i",
		Notes: "The items of x are multiplied by those of weight; one x with a group_list is split into rows, or " +
			"with " +
			"group_type 2 into columns, at the ends that the list has, or with group_list_type 1 by these numbers. " +
			"One " +
			"weight holds those of all groups along its first dimension. split_item 2 and 3 give one tensor. A bias " +
			"of " +
			"integers is added before the scales. offset, activations and act_type are refused."},
	Exempt: map[string]string{"dtypes": "integers are quantized numbers"},
	Cases: func(g opdef.Gen) (cs []*groupedArgs) {
		two, one := 2, 1
		for i, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
			a := &groupedArgs{X: []*tensor.Tensor{g.Normal(dt, 5, 4)}, Weight: []*tensor.Tensor{g.Normal(dt, 2, 4, 3)},
				GroupList: fused.Integers(2, 5), SplitItem: &two}
			switch i {
			case 1:
				a.Weight = []*tensor.Tensor{g.Normal(dt, 4, 3), g.Normal(dt, 4, 3)}
				a.GroupList, a.GroupListType = value.NewList(int64(2), int64(3)), &one
				a.Bias = []*tensor.Tensor{g.Normal(dt, 3), g.Normal(dt, 3)}
			case 2:
				a = &groupedArgs{X: []*tensor.Tensor{g.Normal(dt, 2, 4), g.Normal(dt, 3, 2)},
					Weight: []*tensor.Tensor{g.Normal(dt, 4, 3), g.Normal(dt, 2, 3)}}
			}
			cs = append(cs, a)
		}
		half := tensor.Float16
		return append(cs, &groupedArgs{X: []*tensor.Tensor{g.Int(tensor.Int8, -99, 99, 5, 4)},
			Weight:        []*tensor.Tensor{g.Int(tensor.Int8, -99, 99, 2, 4, 3)},
			Scale:         []*tensor.Tensor{g.Uniform(tensor.Float32, 0.001, 0.002, 2, 3)},
			PerTokenScale: []*tensor.Tensor{g.Uniform(tensor.Float32, 0.5, 1, 5)}, GroupList: fused.Integers(2, 5),
			SplitItem: &two, OutputDtype: &half})
	},
}, compose.Fused, func(g *compose.Graph, a *groupedArgs) compose.Values {
	if len(a.Offset)+len(a.ActivationInput)+len(a.ActivationQuantScale)+len(a.ActivationQuantOffset) > 0 ||
		a.ActType != nil && *a.ActType != 0 {
		g.Unsupported("act_type", "offsets and activations are not supported")
	}
	set := func(p *int) int {
		if p == nil {
			return 0
		}
		return *p
	}
	xs, weights := g.Args("x", a.X), g.Args("weight", a.Weight)
	if len(xs) == 0 || len(weights) == 0 {
		g.Refuse("x", "want at least one matrix")
	}
	byColumns := set(a.GroupType) == 2
	groups := len(weights)
	if len(weights) == 1 && weights[0].Dim() == 3 {
		groups = weights[0].Shape()[0]
	}
	tokens := g.Args("per_token_scale", a.PerTokenScale)
	if list := fused.IntsOf(g, "group_list", a.GroupList); list != nil && len(xs) == 1 {
		dim := 0
		if byColumns {
			dim, groups = 1, len(list)
		}
		if len(list) != groups || xs[0].Dim() != 2 {
			g.Refuse("group_list", "want %d groups of a matrix, got %v of %s", groups, list, a.X[0].Meta())
		}
		lengths := list
		if n := xs[0].Shape()[dim]; set(a.GroupListType) == 0 {
			lengths = ends(g, "group_list", list, n)
			lengths = append(lengths, make([]int, groups-len(lengths))...)
		}
		total := 0
		for _, n := range lengths {
			if total += n; n < 0 || total > xs[0].Shape()[dim] {
				g.Refuse("group_list", "%v are not groups of %s", list, a.X[0].Meta())
			}
		}
		if byColumns && len(weights) == 1 {
			if weights[0].Dim() != 2 {
				g.Refuse("weight", "want a matrix, got %s", a.Weight[0].Meta())
			}
			weights = g.Split(weights[0], lengths, 0)
		}
		if len(tokens) == 1 {
			tokens = g.Split(g.Reshape(tokens[0], tokens[0].T.Numel()), lengths, 0)
		}
		xs = g.Split(xs[0], lengths, dim)
	}
	if len(xs) != groups {
		g.Refuse("x", "want %d matrices, as of weight, got %d", groups, len(xs))
	}
	// part is item i of a list, or row i of its only one.
	part := func(list []*compose.Value, i int) *compose.Value {
		switch {
		case len(list) == 0:
			return nil
		case len(list) == groups && groups > 1 || list[0].Dim() < 2 && groups == 1:
			return list[i]
		case list[0].Dim() == 0 || i >= list[0].Shape()[0]:
			g.Refuse("weight", "group %d is not in %s", i, list[0].T.Meta())
		}
		return g.Select(list[0], 0, i)
	}
	biases, scales := g.Args("bias", a.Bias), g.Args("scale", a.Scale)
	antiScales, antiOffsets := g.Args("antiquant_scale", a.AntiquantScale), g.Args("antiquant_offset",
		a.AntiquantOffset)
	var out []*compose.Value
	for i, x := range xs {
		w, bias := weights[min(i, len(weights)-1)], part(biases, i)
		if w.Dim() == 3 && len(weights) == 1 {
			w = g.Select(w, 0, i)
		}
		var y *compose.Value
		switch {
		case len(scales) > 0:
			var rows *compose.Value
			if len(tokens) > 0 {
				rows = tokens[min(i, len(tokens)-1)]
			}
			y = finished(g, fused.QuantizedMatmul(g, x, w, part(scales, i), rows, bias), nil, a.OutputDtype)
		case len(antiScales) > 0:
			y = fused.WeightQuantMatmul(g, x, w, part(antiScales, i), part(antiOffsets, i), bias, 0)
		default:
			if y = g.Matmul(x, w); bias != nil {
				y = g.To(g.Add(y, bias), x.DType())
			}
			if a.OutputDtype != nil {
				y = g.To(y, *a.OutputDtype)
			}
		}
		out = append(out, y)
	}
	switch {
	case byColumns:
		return compose.Values{g.Stack(0, out...)}
	case set(a.SplitItem) >= 2:
		return compose.Values{g.Cat(0, out...)}
	}
	return out
})

type dynamicQuantArgs struct {
	Input, SmoothScales, GroupIndex *tensor.Tensor
	DstType                         *tensor.DType
	QuantMode                       string
	DstTypeMax                      float64
}

var dynamicQuant = compose.Declare(compose.Op[dynamicQuantArgs]{
	Schema: "npu_dynamic_quant(Tensor input, *, Tensor? smooth_scales=None, Tensor? group_index=None, " +
		"dtype? dst_type=None, str quant_mode='pertoken', float dst_type_max=0.0) -> (Tensor, Tensor)",
	Names: names("npu_dynamic_quant"),
	Doc: opdef.Doc{Summary: "Quantization of rows with scales of their own",
		Formula: "round(x / scale) as dst_type and scale = max(|x|)/127 of each row, x = input*smooth_scales",
		Notes: "scale is float32; of float8_e4m3fn and float8_e5m2 the largest magnitudes are 448 and 57344. With a " +
			"group_index, the ends of groups of rows, each group has its own smooth_scales. Ties are rounded to " +
			"even. " +
			"Other modes than pertoken and quint4x2 are refused."},
	NoGrad: fused.ByInference, Exempt: quantised,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *dynamicQuantArgs {
		a := &dynamicQuantArgs{Input: g.Normal(dt, 4, 8), QuantMode: "pertoken"}
		switch g.Nth {
		case 1:
			a.SmoothScales = g.Normal(dt, 8)
		case 2:
			a.SmoothScales, a.GroupIndex = g.Normal(dt, 2, 8), fused.Integers(1, 4)
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *dynamicQuantArgs) compose.Values {
	if a.QuantMode != "pertoken" || a.DstTypeMax != 0 {
		g.Refuse("quant_mode", "want pertoken and the limits of the dtype, got %s", a.QuantMode)
	}
	x, smooth, dt := g.Arg("input", a.Input), g.Arg("smooth_scales", a.SmoothScales), tensor.Int8
	if a.DstType != nil {
		dt = *a.DstType
	}
	if x.Dim() < 2 || !x.DType().IsFloat() {
		g.Refuse("input", "want floating rows, got %s", a.Input.Meta())
	}
	if smooth != nil && a.GroupIndex != nil {
		rows := tensor.Numel(x.Shape()[:x.Dim()-1])
		lengths := ends(g, "group_index", fused.Ints(g, "group_index", a.GroupIndex), rows)
		var of []int
		for i, n := range lengths {
			of = append(of, slices.Repeat([]int{i}, n)...)
		}
		if len(of) != rows || smooth.Dim() != 2 {
			g.Refuse("group_index", "want groups of all of %d rows", rows)
		}
		smooth = g.Reshape(g.IndexSelect(smooth, 0, of), x.Shape()...)
	}
	if x = g.AtLeast(x, tensor.Float32); smooth != nil {
		x = g.Mul(x, g.AtLeast(smooth, tensor.Float32))
	}
	y, scale := fused.DynamicQuant(g, "input", x, dt)
	return compose.Values{y, scale}
})
