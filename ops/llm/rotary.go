package llm

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

type rotaryArgs struct {
	Input, Cos, Sin   *tensor.Tensor
	Conj, Interleaved bool
}

var rotaryEmb = compose.Declare(compose.Op[rotaryArgs]{
	Schema: "rotary_emb(Tensor input, Tensor cos, Tensor sin, bool conj=False, bool interleaved=False) -> Tensor",
	Names:  "diopi.rotary_emb",
	Doc: opdef.Doc{Summary: "Rotation of pairs of elements by the angles of their position",
		Formula: "(x1*cos - x2*sin, x2*cos + x1*sin) with x1 and x2 the halves of the last dimension",
		Notes: "cos and sin are broadcast to the halves; conj rotates back. The pairs are neighbours if interleaved. " +
			"Computed in at least float32.",
		Source: "diopiRotaryEmbedding"},
	Cases: func(g opdef.Gen) (cs []*rotaryArgs) {
		for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.BFloat16} {
			for _, conj := range []bool{false, true} {
				cs = append(cs, &rotaryArgs{g.Normal(dt, 2, 3, 2, 6), g.Uniform(dt, -1, 1, 3, 1, 3),
					g.Uniform(dt, -1, 1, 3, 1, 3), conj, conj})
			}
		}
		return cs
	},
}, compose.Fused, func(g *compose.Graph, a *rotaryArgs) compose.Values {
	return compose.Values{fused.RotatedBy(g, "input", g.Arg("input", a.Input), g.Arg("cos", a.Cos),
		g.Arg("sin", a.Sin), a.Conj, a.Interleaved)}
})

type rotaryV2Args struct {
	Query, Key, Cos, Sin *tensor.Tensor
	Dim                  int
}

var rotaryEmbV2 = compose.Declare(compose.Op[rotaryV2Args]{
	Schema: "rotary_emb_v2(Tensor query, Tensor key, Tensor cos, Tensor sin, int dim) -> (Tensor, Tensor)",
	Names:  "diopi.rotary_emb_v2",
	Doc: opdef.Doc{Summary: "Rotation of queries and keys by the angles of their positions",
		Formula: "x*cos + (-x2, x1)*sin for each head x = (x1, x2) of dim elements",
		Notes:   "Rows hold one head after the other.", Source: "diopiRotaryEmbeddingV2"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *rotaryV2Args {
		return &rotaryV2Args{g.Normal(dt, 3, 8), g.Normal(dt, 3, 4), g.Uniform(dt, -1, 1, 3, 1, 4),
			g.Uniform(dt, -1, 1, 3, 1, 4), 4}
	}),
}, compose.Fused, func(g *compose.Graph, a *rotaryV2Args) compose.Values {
	cos, sin := g.Arg("cos", a.Cos), g.Arg("sin", a.Sin)
	rotate := func(name string, t *tensor.Tensor) *compose.Value {
		x := g.Arg(name, t)
		if x.Dim() != 2 || a.Dim < 2 || a.Dim%2 != 0 || x.Shape()[1]%a.Dim != 0 {
			g.Refuse(name, "want rows of heads of an even size, %d, got %s", a.Dim, t.Meta())
		}
		heads := g.Reshape(x, x.Shape()[0], x.Shape()[1]/a.Dim, a.Dim)
		halves := g.Chunk(heads, 2, -1)
		turned := g.Cat(-1, g.Neg(halves[1]), halves[0])
		return g.Reshape(g.Add(g.Mul(heads, cos), g.Mul(turned, sin)), x.Shape()...)
	}
	return compose.Values{rotate("query", a.Query), rotate("key", a.Key)}
})
