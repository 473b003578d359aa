package llm

import (
	"math"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

// FlashInfer's kernels compute in float32 and round once.
//
// Source: flashinfer 0.7.2, include/flashinfer/norm.cuh, activation.cuh, pos_enc.cuh, cascade.cuh.

type infNormArgs struct {
	Input, Weight *tensor.Tensor
	Eps           float64
	EnablePdl     *bool
}

func infNorm(name string, more float64, doc opdef.Doc) *opdef.Entry {
	doc.Source = "flashinfer." + name
	return compose.Declare(compose.Op[infNormArgs]{
		Schema: "flashinfer_" + name + "(Tensor input, Tensor weight, float eps=1e-6, Out? out=None, " +
			"bool? enable_pdl=None) -> Tensor",
		Names: "flashinfer." + name + " flashinfer.norm." + name,
		Doc:   doc,
		Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *infNormArgs {
			return &infNormArgs{Input: g.Normal(dt, 3, 8), Weight: g.Normal(dt, 8), Eps: 1e-3}
		}),
	}, compose.Fused, func(g *compose.Graph, a *infNormArgs) compose.Values {
		x, weight := g.Arg("input", a.Input), g.Arg("weight", a.Weight)
		fused.CheckRows(g, x, weight)
		y, _ := fused.RMSNorm(g, x, weight, a.Eps, more)
		return compose.Values{g.To(y, x.DType())}
	})
}

type infAddNormArgs struct {
	Input, Residual, Weight *tensor.Tensor
	Eps                     float64
	EnablePdl               *bool
}

func infAddNorm(name string, more float64, doc opdef.Doc) *opdef.Entry {
	doc.Source = "flashinfer." + name
	return compose.DeclareInPlace(compose.Op[infAddNormArgs]{
		Schema: "flashinfer_" + name + "(Tensor input, Tensor residual, Tensor weight, float eps=1e-6, " +
			"bool? enable_pdl=None) -> ()",
		Names: "flashinfer." + name + " flashinfer.norm." + name,
		Doc:   doc,
		Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *infAddNormArgs {
			return &infAddNormArgs{Input: g.Normal(dt, 3, 8), Residual: g.Normal(dt, 3, 8), Weight: g.Normal(dt, 8),
				Eps: 1e-3}
		}),
	}, []string{"input", "residual"}, func(g *compose.Graph, a *infAddNormArgs) compose.Values {
		x, residual, weight := g.Arg("input", a.Input), g.Arg("residual", a.Residual), g.Arg("weight", a.Weight)
		fused.CheckRows(g, x, weight)
		sum := fused.Sum(g, "residual", x, residual)
		y, _ := fused.RMSNorm(g, sum, weight, a.Eps, more)
		return compose.Values{g.To(y, x.DType()), g.To(sum, x.DType())}
	})
}

var (
	infRMSNorm = infNorm("rmsnorm", 0, opdef.Doc{Summary: "Scaling of rows by their root mean square",
		Formula: "input / sqrt(mean(input^2) + eps) * weight"})
	infGemmaRMSNorm = infNorm("gemma_rmsnorm", 1, opdef.Doc{
		Summary: "Scaling of rows by their root mean square, as in Gemma",
		Formula: "input / sqrt(mean(input^2) + eps) * (weight + 1)"})
	infFusedAddRMSNorm = infAddNorm("fused_add_rmsnorm", 0, opdef.Doc{
		Summary: "Adds input to residual, and scales the rows of the sum into input",
		Formula: "residual += input, input = residual / sqrt(mean(residual^2) + eps) * weight",
		Notes:   "The sum is scaled before it is rounded."})
	infGemmaFusedAddRMSNorm = infAddNorm("gemma_fused_add_rmsnorm", 1, opdef.Doc{
		Summary: "Adds input to residual, and scales the rows of the sum into input, as in Gemma",
		Formula: "residual += input, input = residual / sqrt(mean(residual^2) + eps) * (weight + 1)",
		Notes:   "The sum is scaled before it is rounded."})
)

type infGateArgs struct {
	Input     *tensor.Tensor
	EnablePdl *bool
}

func infGate(name, formula string, act func(g *compose.Graph, x *compose.Value) *compose.Value) *opdef.Entry {
	return compose.Declare(compose.Op[infGateArgs]{
		Schema: "flashinfer_" + name + "(Tensor input, Out? out=None, bool? enable_pdl=None) -> Tensor",
		Names:  "flashinfer." + name + " flashinfer.activation." + name,
		Doc: opdef.Doc{Summary: "The first half of rows through a gate, times the second",
			Formula: formula + "(a) * b, a and b the halves of the last dimension of input"},
		Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *infGateArgs {
			return &infGateArgs{Input: g.Normal(dt, 3, 8)}
		}),
	}, compose.Fused, func(g *compose.Graph, a *infGateArgs) compose.Values {
		x := g.Arg("input", a.Input)
		if n := x.Dim() - 1; n < 0 || x.Shape()[n]%2 != 0 || !x.DType().IsFloat() {
			g.Refuse("input", "want floating rows of an even length, got %s", a.Input.Meta())
		}
		halves := g.Chunk(g.AtLeast(x, tensor.Float32), 2, -1)
		return compose.Values{g.To(g.Mul(act(g, halves[0]), halves[1]), x.DType())}
	})
}

var (
	infSiluAndMul = infGate("silu_and_mul", "silu",
		(*compose.Graph).SiLU)
	infGeluAndMul = infGate("gelu_and_mul", "gelu",
		func(g *compose.Graph, x *compose.Value) *compose.Value { return g.GELU(x, false) })
	infGeluTanhAndMul = infGate("gelu_tanh_and_mul", "gelu_tanh",
		func(g *compose.Graph, x *compose.Value) *compose.Value { return g.GELU(x, true) })
)

type infSoftmaxArgs struct {
	Logits, Temperature *tensor.Tensor
	EnablePdl           *bool
}

var infSoftmax = compose.Declare(compose.Op[infSoftmaxArgs]{
	Schema: "flashinfer_softmax(Tensor logits, Tensor|Scalar? temperature=None, bool? enable_pdl=None) -> Tensor",
	Names:  "flashinfer.softmax flashinfer.sampling.softmax",
	Doc: opdef.Doc{Summary: "Probabilities of tokens", Formula: "softmax(logits / temperature, -1)",
		Notes:  "temperature is one number, or one for each row. The result is float32.",
		Source: "flashinfer.sampling.softmax"},
	Exempt: map[string]string{"dtypes": "the result is float32 whatever the dtype"},
	Cases: func(g opdef.Gen) []*infSoftmaxArgs {
		return append(opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *infSoftmaxArgs {
			return &infSoftmaxArgs{Logits: g.Normal(dt, 3, 5)}
		})(g), &infSoftmaxArgs{Logits: g.Normal(tensor.Float32, 2, 4),
			Temperature: g.Uniform(tensor.Float32, 0.5, 2, 2)})
	},
}, compose.Fused, func(g *compose.Graph, a *infSoftmaxArgs) compose.Values {
	x := g.Arg("logits", a.Logits)
	fused.CheckRank(g, "logits", x, 2)
	x = g.To(x, tensor.Float32)
	if a.Temperature != nil {
		t := g.Arg("temperature", a.Temperature)
		if t.Dim() == 1 && t.Shape()[0] == x.Shape()[0] {
			t = g.Unsqueeze(t, 1)
		} else if t.Dim() != 0 {
			g.Refuse("temperature", "want a number or %d of them, got %s", x.Shape()[0], a.Temperature.Meta())
		}
		x = g.Div(x, g.To(t, tensor.Float32))
	}
	return compose.Values{g.Softmax(x, -1)}
})

type (
	mergeArgs   struct{ VA, SA, VB, SB *tensor.Tensor }
	mergeInArgs struct{ V, S, VOther, SOther, Mask *tensor.Tensor }
	mergesArgs  struct{ V, S *tensor.Tensor }
)

// merged are the attention over all keys, and log2 of the sum of all exponentials, from
// those over parts of them: v [rows, parts, heads, size], s [rows, parts, heads].
func merged(g *compose.Graph, v, s *compose.Value) compose.Values {
	fused.CheckRank(g, "v", v, 4)
	fused.CheckRank(g, "s", s, 3)
	if !slices.Equal(v.Shape()[:3], s.Shape()) {
		g.Refuse("s", "want %s, as v, got %s", tensor.ShapeString(v.Shape()[:3]), s.T.Meta())
	}
	if s.Shape()[1] == 0 {
		g.Refuse("v", "want at least one part")
	}
	dt := v.DType()
	natural := g.Scale(g.AtLeast(s, tensor.Float32), math.Ln2)
	weights := g.Unsqueeze(g.Softmax(natural, 1), -1)
	out := g.Sum(g.Mul(g.AtLeast(v, tensor.Float32), weights), false, 1)
	return compose.Values{g.To(out, dt), g.To(g.Scale(g.LogSumExp(natural, 1, false), 1/math.Ln2), tensor.Float32)}
}

const mergedNotes = "s are logarithms to base 2 of sums of exponentials, in float32."

var infMergeState = compose.Declare(compose.Op[mergeArgs]{
	Schema: "flashinfer_merge_state(Tensor v_a, Tensor s_a, Tensor v_b, Tensor s_b) -> (Tensor, Tensor)",
	Names:  "flashinfer.merge_state flashinfer.cascade.merge_state",
	Doc: opdef.Doc{Summary: "Attention over two sets of keys from that over each",
		Formula: "(2^s_a v_a + 2^s_b v_b) / (2^s_a + 2^s_b), log2(2^s_a + 2^s_b)",
		Notes:   "v is (rows, heads, size), s (rows, heads). " + mergedNotes},
	Exempt: map[string]string{"dtypes": "the second result is float32 whatever the dtype"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *mergeArgs {
		return &mergeArgs{g.Normal(dt, 3, 2, 4), g.Normal(tensor.Float32, 3, 2), g.Normal(dt, 3, 2, 4),
			g.Normal(tensor.Float32, 3, 2)}
	}),
}, compose.Fused, func(g *compose.Graph, a *mergeArgs) compose.Values {
	return mergedTwo(g, g.Arg("v_a", a.VA), g.Arg("s_a", a.SA), g.Arg("v_b", a.VB), g.Arg("s_b", a.SB))
})

// mergedTwo is merged of two parts, v [rows, heads, size] and s [rows, heads].
func mergedTwo(g *compose.Graph, va, sa, vb, sb *compose.Value) compose.Values {
	fused.CheckRank(g, "v", va, 3)
	fused.CheckRank(g, "s", sa, 2)
	if !slices.Equal(va.Shape(), vb.Shape()) || !slices.Equal(sa.Shape(), sb.Shape()) || va.DType() != vb.DType() {
		g.Refuse("v", "want two of the same shapes and dtype, got %s and %s, %s and %s", va.T.Meta(), sa.T.Meta(),
			vb.T.Meta(), sb.T.Meta())
	}
	return merged(g, g.Stack(1, va, vb), g.Stack(1, sa, sb))
}

var infMergeStateInPlace = compose.DeclareInPlace(compose.Op[mergeInArgs]{
	Schema: "flashinfer_merge_state_in_place(Tensor v, Tensor s, Tensor v_other, Tensor s_other, " +
		"Tensor? mask=None) -> ()",
	Names: "flashinfer.merge_state_in_place flashinfer.cascade.merge_state_in_place",
	Doc: opdef.Doc{Summary: "Attention over two sets of keys from that over each, into the first",
		Formula: "v = (2^s v + 2^s_other v_other) / (2^s + 2^s_other), s = log2(2^s + 2^s_other)",
		Notes: "v is (rows, heads, size), s (rows, heads), mask (rows): where it is false a row stays as it is. " +
			mergedNotes},
	Exempt: map[string]string{"dtypes": "the second result is float32 whatever the dtype"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *mergeInArgs {
		a := &mergeInArgs{g.Normal(dt, 3, 2, 4), g.Normal(tensor.Float32, 3, 2), g.Normal(dt, 3, 2, 4),
			g.Normal(tensor.Float32, 3, 2), nil}
		if g.Nth%2 == 0 {
			a.Mask = tensor.New(tensor.Bool, []int{3}, []int64{1, 0, 1})
		}
		return a
	}),
}, []string{"v", "s"}, func(g *compose.Graph, a *mergeInArgs) compose.Values {
	v, s := g.Arg("v", a.V), g.Arg("s", a.S)
	out := mergedTwo(g, v, s, g.Arg("v_other", a.VOther), g.Arg("s_other", a.SOther))
	if m := a.Mask; m != nil {
		if rows := v.Shape()[0]; m.Dim() != 1 || m.Shape[0] != rows {
			g.Refuse("mask", "want %d elements, got %s", rows, m.Meta())
		}
		column := m.Reshape(m.Shape[0], 1)
		out[0] = g.Where(column.Reshape(m.Shape[0], 1, 1), out[0], v)
		out[1] = g.Where(column, out[1], s)
	}
	return out
})

var infMergeStates = compose.Declare(compose.Op[mergesArgs]{
	Schema: "flashinfer_merge_states(Tensor v, Tensor s) -> (Tensor, Tensor)",
	Names:  "flashinfer.merge_states flashinfer.cascade.merge_states",
	Doc: opdef.Doc{Summary: "Attention over sets of keys from that over each",
		Formula: "sum_i 2^s_i v_i / sum_i 2^s_i, log2(sum_i 2^s_i)",
		Notes:   "v is (rows, sets, heads, size), s (rows, sets, heads). " + mergedNotes},
	Exempt: map[string]string{"dtypes": "the second result is float32 whatever the dtype"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *mergesArgs {
		return &mergesArgs{g.Normal(dt, 3, 4, 2, 4), g.Normal(tensor.Float32, 3, 4, 2)}
	}),
}, compose.Fused, func(g *compose.Graph, a *mergesArgs) compose.Values {
	return merged(g, g.Arg("v", a.V), g.Arg("s", a.S))
})
