package npu

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

type geluArgs struct {
	Self        *tensor.Tensor
	Approximate string
}

var gelu = compose.Declare(compose.Op[geluArgs]{
	Schema: "npu_gelu(Tensor self, str approximate='none') -> Tensor", Names: names("npu_gelu"),
	Doc: opdef.Doc{Summary: "Gaussian error linear unit", Formula: "self * Phi(self), by erf or by tanh"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *geluArgs {
		return &geluArgs{g.Normal(dt, 3, 4), []string{"tanh", "none"}[g.Nth%2]}
	}),
}, compose.Fused, func(g *compose.Graph, a *geluArgs) compose.Values {
	if a.Approximate != "none" && a.Approximate != "tanh" {
		g.Refuse("approximate", "want none or tanh, got %q", a.Approximate)
	}
	return compose.Values{g.GELU(g.Arg("self", a.Self), a.Approximate == "tanh")}
})

type labelsArgs struct{ Features, Labels *tensor.Tensor }

var softmaxCrossEntropy = compose.Declare(compose.Op[labelsArgs]{
	Schema: "npu_softmax_cross_entropy_with_logits(Tensor features, Tensor labels) -> Tensor",
	Names:  names("npu_softmax_cross_entropy_with_logits"),
	Doc: opdef.Doc{Summary: "Cross entropy of the softmax of rows and labels",
		Formula: "-sum(labels * log_softmax(features)) of each row",
		Notes:   "Both are (rows, classes)."},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *labelsArgs {
		return &labelsArgs{g.Normal(dt, 3, 5), g.Uniform(dt, 0, 1, 3, 5)}
	}),
}, compose.Fused, func(g *compose.Graph, a *labelsArgs) compose.Values {
	x, labels := g.Arg("features", a.Features), g.Arg("labels", a.Labels)
	fused.CheckRank(g, "features", x, 2)
	if !slices.Equal(x.Shape(), labels.Shape()) || !x.DType().IsFloat() || x.DType() != labels.DType() {
		g.Refuse("labels", "want the shape and the dtype of %s, got %s", a.Features.Meta(), a.Labels.Meta())
	}
	logs := g.LogSoftmax(g.AtLeast(x, tensor.Float32), -1)
	loss := g.Neg(g.Sum(g.Mul(g.AtLeast(labels, tensor.Float32), logs), false, 1))
	return compose.Values{g.To(loss, x.DType())}
})

type groupNormArgs struct {
	Input, Weight, Bias *tensor.Tensor
	Group               int
	Eps                 float64
}

var groupNormSiLU = compose.Declare(compose.Op[groupNormArgs]{
	Schema: "npu_group_norm_silu(Tensor input, Tensor? weight, Tensor? bias, int group, float eps=1e-5) -> " +
		"(Tensor, Tensor, Tensor)",
	Names: names("npu_group_norm_silu"),
	Doc: opdef.Doc{Summary: "SiLU of what groups of channels are normalized to",
		Formula: "silu((input - mean) * rstd * weight + bias), rstd = 1/sqrt(var + eps)",
		Notes: "input is (N, C, *), weight and bias (C), mean and rstd (N, group) in the dtype of input; var is the " +
			"mean square of the differences."},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *groupNormArgs {
		return &groupNormArgs{g.Normal(dt, 2, 4, 3), g.Normal(dt, 4), g.Normal(dt, 4), 2, 1e-3}
	}),
}, compose.Fused, func(g *compose.Graph, a *groupNormArgs) compose.Values {
	x := g.Arg("input", a.Input)
	shape := x.Shape()
	if len(shape) < 2 || !x.DType().IsFloat() {
		g.Refuse("input", "want floating numbers of 2 dimensions or more, got %s", a.Input.Meta())
	}
	channels := shape[1]
	if a.Group < 1 || channels%a.Group != 0 {
		g.Refuse("group", "want a divisor of %d channels, got %d", channels, a.Group)
	}
	each := tensor.Numel(shape[2:])
	rows := g.Reshape(x, shape[0], a.Group, channels/a.Group*each)
	y, mean, rstd := fused.Centred(g, rows, rows.Shape()[2:], a.Eps)
	y = g.Reshape(y, shape[0], channels, each)
	perChannel := func(name string, t *tensor.Tensor) *compose.Value {
		if t.Dim() != 1 || t.Shape[0] != channels {
			g.Refuse(name, "want %d elements, got %s", channels, t.Meta())
		}
		return g.Reshape(g.AtLeast(g.Arg(name, t), tensor.Float32), channels, 1)
	}
	if a.Weight != nil {
		y = g.Mul(y, perChannel("weight", a.Weight))
	}
	if a.Bias != nil {
		y = g.Add(y, perChannel("bias", a.Bias))
	}
	statistic := func(v *compose.Value) *compose.Value {
		return g.To(g.Reshape(v, shape[0], a.Group), x.DType())
	}
	return compose.Values{g.To(g.Reshape(g.SiLU(y), shape...), x.DType()), statistic(mean), statistic(rstd)}
})

type permArgs struct {
	Self              *tensor.Tensor
	Perm              []int
	RequireContiguous bool
}

var transpose = compose.Declare(compose.Op[permArgs]{
	Schema: "npu_transpose(Tensor self, int[] perm, bool require_contiguous=True) -> Tensor",
	Names:  names("npu_transpose"),
	Doc:    opdef.Doc{Summary: "Dimensions in another order", Formula: "self.permute(perm)"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *permArgs {
		return &permArgs{g.Normal(dt, 2, 3, 4), []int{2, 0, 1}, true}
	}),
}, compose.Fused, func(g *compose.Graph, a *permArgs) compose.Values {
	seen := slices.Sorted(slices.Values(a.Perm))
	for d, p := range seen {
		if len(seen) != a.Self.Dim() || d != p {
			g.Refuse("perm", "%v is no order of %d dimensions", a.Perm, a.Self.Dim())
		}
	}
	return compose.Values{g.Permute(g.Arg("self", a.Self), a.Perm...)}
})

type boxArgs struct {
	Self          *tensor.Tensor
	Offsets, Size []int
}

var slice = compose.Declare(compose.Op[boxArgs]{
	Schema: "npu_slice(Tensor self, int[] offsets, int[] size) -> Tensor", Names: names("npu_slice"),
	Doc: opdef.Doc{Summary: "A box of a tensor",
		Formula: "self[offsets[0] : offsets[0]+size[0], ...]"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *boxArgs {
		return &boxArgs{g.Normal(dt, 3, 5), []int{1, 0}, []int{2, 3}}
	}),
}, compose.Fused, func(g *compose.Graph, a *boxArgs) compose.Values {
	x := g.Arg("self", a.Self)
	if len(a.Offsets) != x.Dim() || len(a.Size) != x.Dim() {
		g.Refuse("offsets", "want %d offsets and sizes, got %v and %v", x.Dim(), a.Offsets, a.Size)
	}
	for d, from := range a.Offsets {
		if n := a.Size[d]; from < 0 || n < 0 || from > a.Self.Shape[d]-n {
			g.Refuse("size", "%d elements from %d are not in dimension %d of %s", n, from, d, a.Self.Meta())
		}
		x = g.Narrow(x, d, from, a.Size[d])
	}
	return compose.Values{x}
})
