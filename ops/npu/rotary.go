package npu

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

// rotaryModes are alternately given to cases.
var rotaryModes = []string{"half", "interleave", "quarter"}

type rotaryMulArgs struct {
	Self, R1, R2 *tensor.Tensor
	RotaryMode   string
	Rotate       *tensor.Tensor
}

var rotaryMul = compose.Declare(compose.Op[rotaryMulArgs]{
	Schema: "npu_rotary_mul(Tensor self, Tensor r1, Tensor r2, str rotary_mode='half', Tensor? rotate=None) -> Tensor",
	Names:  names("npu_rotary_mul"),
	Doc: opdef.Doc{Summary: "Rotary position embedding",
		Formula: "self*r1 + rotated(self)*r2",
		Notes: "rotated is (-b, a) of the halves (a, b) of the last dimension in mode half, of neighbours in mode " +
			"interleave, and the product with the matrix rotate if that is given. r1 and r2 are broadcast."},
	Cases: func(g opdef.Gen) []*rotaryMulArgs {
		cs := opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *rotaryMulArgs {
			return &rotaryMulArgs{g.Normal(dt, 2, 3, 1, 4), g.Normal(dt, 1, 3, 1, 4), g.Normal(dt, 1, 3, 1, 4),
				rotaryModes[g.Nth%2], nil}
		})(g)
		return append(cs, &rotaryMulArgs{g.Normal(tensor.Float32, 2, 3, 4), g.Normal(tensor.Float32, 1, 3, 4),
			g.Normal(tensor.Float32, 1, 3, 4), "half", g.Normal(tensor.Float32, 4, 4)})
	},
}, compose.Fused, func(g *compose.Graph, a *rotaryMulArgs) compose.Values {
	x, cos, sin, turns := g.Arg("self", a.Self), g.Arg("r1", a.R1), g.Arg("r2", a.R2), g.Arg("rotate", a.Rotate)
	if turns == nil {
		return compose.Values{fused.Rotate(g, x, cos, sin, a.RotaryMode)}
	}
	return compose.Values{g.Add(g.Mul(x, cos), g.Mul(g.Matmul(x, turns), sin))}
})

type applyRotaryArgs struct {
	Query, Key, Cos, Sin *tensor.Tensor
	Layout, RotaryMode   string
}

var applyRotary = compose.Declare(compose.Op[applyRotaryArgs]{
	Schema: "npu_apply_rotary_pos_emb(Tensor query, Tensor key, Tensor cos, Tensor sin, str layout='BSND', " +
		"str rotary_mode='half') -> (Tensor, Tensor)",
	Names: names("npu_apply_rotary_pos_emb"),
	Doc: opdef.Doc{Summary: "Rotary position embedding of queries and keys, in place",
		Formula: "x*cos + rotated(x)*sin of both",
		Notes: "rotated is as in npu_rotary_mul; in mode quarter each half of the last dimension has two halves that " +
			"turn into each other. cos and sin are broadcast, and rotate as many elements of each head as they have. " +
			"layout does not change what is computed."},
	NoGrad: fused.ByInference,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *applyRotaryArgs {
		return &applyRotaryArgs{g.Normal(dt, 2, 3, 2, 6), g.Normal(dt, 2, 3, 1, 6), g.Normal(dt, 2, 3, 1, 4),
			g.Normal(dt, 2, 3, 1, 4), "BSND", rotaryModes[g.Nth%3]}
	}),
}, compose.Fused, func(g *compose.Graph, a *applyRotaryArgs) compose.Values {
	cos, sin := g.Arg("cos", a.Cos), g.Arg("sin", a.Sin)
	var out compose.Values
	for _, x := range []struct {
		name string
		t    *tensor.Tensor
	}{{"query", a.Query}, {"key", a.Key}} {
		y := fused.RotatePart(g, x.name, g.Arg(x.name, x.t), cos, sin, a.RotaryMode)
		g.Update(x.name, y)
		out = append(out, y)
	}
	return out
})
