// Package dlinfer declares the operators of dlinfer, through which LLM engines reach
// the devices of several vendors: dlinfer/ops/llm.py. What they share with other
// libraries is in ops/internal/fused.
package dlinfer

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

// Table lists the operators of the package.
func Table() []*opdef.Entry {
	return []*opdef.Entry{rmsNorm, addRMSNorm, rotary, siluAndMul, fillKVCache, fillContiguous, cacheLen, transdata,
		prefill, fusedAttention, incre, decode, pagedPrefill, dynamicQuant, rmsNormQuant, addRMSNormQuant, linearQuant,
		weightQuantMatmul, gating, fusedMoe, linear}
}

// names are those under which captures show a function of dlinfer's.
func names(name string) string {
	return "dlinfer.ops." + name + " dlinfer.ops.llm." + name + " torch.ops.dlinfer." + name
}

// source is where a function of dlinfer's is documented.
func source(name string) string { return "dlinfer.ops.llm." + name }

type normArgs struct {
	HiddenStates, Weight *tensor.Tensor
	Epsilon              float64
}

var rmsNorm = compose.Declare(compose.Op[normArgs]{
	Schema: "dlinfer_rms_norm(Tensor hidden_states, Tensor weight, float epsilon) -> Tensor", Names: names("rms_norm"),
	Doc: opdef.Doc{Summary: "Scaling of rows by their root mean square",
		Formula: "hidden_states / sqrt(mean(hidden_states^2) + epsilon) * weight", Source: source("rms_norm")},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *normArgs {
		return &normArgs{g.Normal(dt, 3, 8), g.Normal(dt, 8), 1e-3}
	}),
}, compose.Fused, func(g *compose.Graph, a *normArgs) compose.Values {
	x, weight := g.Arg("hidden_states", a.HiddenStates), g.Arg("weight", a.Weight)
	fused.CheckRows(g, x, weight)
	y, _ := fused.RMSNorm(g, x, weight, a.Epsilon, 0)
	return compose.Values{g.To(y, x.DType())}
})

type addNormArgs struct {
	HiddenStates, Residual, Weight *tensor.Tensor
	Epsilon                        float64
}

var addRMSNorm = compose.Declare(compose.Op[addNormArgs]{
	Schema: "dlinfer_add_rms_norm(Tensor hidden_states, Tensor residual, Tensor weight, float epsilon) -> " +
		"(Tensor, Tensor)", Names: names("add_rms_norm"),
	Doc: opdef.Doc{Summary: "Rows added to a residual, and scaled by their root mean square",
		Formula: "sum / sqrt(mean(sum^2) + epsilon) * weight and sum = hidden_states + residual",
		Source:  source("add_rms_norm")},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *addNormArgs {
		return &addNormArgs{g.Normal(dt, 3, 8), g.Normal(dt, 3, 8), g.Normal(dt, 8), 1e-3}
	}),
}, compose.Fused, func(g *compose.Graph, a *addNormArgs) compose.Values {
	y, sum := addedNorm(g, a)
	return compose.Values{y, sum}
})

// addedNorm is the scaled sum and the sum, in the dtype of the argument.
func addedNorm(g *compose.Graph, a *addNormArgs) (y, sum *compose.Value) {
	x, weight := g.Arg("hidden_states", a.HiddenStates), g.Arg("weight", a.Weight)
	fused.CheckRows(g, x, weight)
	sum = g.To(fused.Sum(g, "residual", x, g.Arg("residual", a.Residual)), x.DType())
	y, _ = fused.RMSNorm(g, sum, weight, a.Epsilon, 0)
	return g.To(y, x.DType()), sum
}

type rotaryArgs struct{ Query, Key, Cos, Sin *tensor.Tensor }

var rotary = compose.Declare(compose.Op[rotaryArgs]{
	Schema: "dlinfer_apply_rotary_pos_emb(Tensor query, Tensor key, Tensor cos, Tensor sin) -> (Tensor, Tensor)",
	Names:  names("apply_rotary_pos_emb"),
	Doc: opdef.Doc{Summary: "Rotary position embedding of queries and keys",
		Formula: "x*cos + (-b, a)*sin of each head x, a and b the halves of as many elements as cos has",
		Notes: "query and key are (..., heads, size) of the same rows; cos and sin hold a number for each row and " +
			"element to rotate, in any shape. Elements of a head behind these stay.",
		Source: source("apply_rotary_pos_emb")},
	Cases: func(g opdef.Gen) []*rotaryArgs {
		cs := opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *rotaryArgs {
			return &rotaryArgs{g.Normal(dt, 3, 2, 4), g.Normal(dt, 3, 1, 4), g.Uniform(dt, -1, 1, 3, 4),
				g.Uniform(dt, -1, 1, 3, 4)}
		})(g)
		dt := tensor.Float32
		return append(cs, &rotaryArgs{g.Normal(dt, 1, 3, 2, 6), g.Normal(dt, 1, 3, 2, 6),
			g.Uniform(dt, -1, 1, 1, 3, 1, 4), g.Uniform(dt, -1, 1, 1, 3, 1, 4)})
	},
}, compose.Fused, func(g *compose.Graph, a *rotaryArgs) compose.Values {
	cos, sin := g.Arg("cos", a.Cos), g.Arg("sin", a.Sin)
	turn := func(name string, t *tensor.Tensor) *compose.Value {
		x := g.Arg(name, t)
		if x.Dim() < 3 || !x.DType().IsFloat() {
			g.Refuse(name, "want floating heads of rows, got %s", t.Meta())
		}
		rows, shape := tensor.Numel(t.Shape[:x.Dim()-2]), []int{}
		shape = append(append(shape, t.Shape[:x.Dim()-2]...), 1, 0)
		of := func(name string, c *compose.Value) *compose.Value {
			if c.Dim() == 0 || c.T.Numel() != rows*c.Shape()[c.Dim()-1] {
				g.Refuse(name, "want a number for each element to rotate of %d rows, got %s", rows, c.T.Meta())
			}
			shape[len(shape)-1] = c.Shape()[c.Dim()-1]
			return g.Reshape(c, shape...)
		}
		return fused.RotatePart(g, name, x, of("cos", cos), of("sin", sin), "half")
	}
	return compose.Values{turn("query", a.Query), turn("key", a.Key)}
})

type gateArgs struct {
	InputTensor *tensor.Tensor
	Dim         int
}

var siluAndMul = compose.Declare(compose.Op[gateArgs]{
	Schema: "dlinfer_silu_and_mul(Tensor input_tensor, int dim=-1) -> Tensor", Names: names("silu_and_mul"),
	Doc: opdef.Doc{Summary: "Gated SiLU", Formula: "silu(a) * b, a and b the halves of input_tensor along dim",
		Source: source("silu_and_mul")},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *gateArgs {
		return &gateArgs{g.Normal(dt, 3, 8), -1}
	}),
}, compose.Fused, func(g *compose.Graph, a *gateArgs) compose.Values {
	x := g.Chunk(g.Arg("input_tensor", a.InputTensor), 2, a.Dim)
	return compose.Values{g.Mul(g.SiLU(x[0]), x[1])}
})
