package deeplink

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

type rotaryArgs struct {
	X, Cos, Sin          *tensor.Tensor
	Interleaved, InPlace bool
}

// upTo are the positions 0 to n of each of batch sequences.
func upTo(batch, n int) []int {
	out := tensor.Make[int](batch * n)
	for i := range out {
		out[i] = i % n
	}
	return out
}

// turned is x [..., positions, heads, size] with each head turned by the angles of its position.
func turned(g *compose.Graph, name string, x, cos, sin *compose.Value, interleaved bool) *compose.Value {
	if x.Dim() < 3 {
		g.Refuse(name, "want at least 3 dimensions, got %s", x.T.Meta())
	}
	lead := x.Dim() - 3
	return fused.RotateAt(g, name, x, cos, sin, upTo(tensor.Numel(x.Shape()[:lead]), x.Shape()[lead]), interleaved)
}

const rotaryNotes = "Pairs are of one place in both halves of as many elements as cos and sin have angles for, " +
	"twice, " +
	"or neighbours if interleaved; what is behind stays. Row i of cos and sin is position i."

var rotary = compose.Declare(compose.Op[rotaryArgs]{
	Schema: "deeplink_ext_rotary_embedding(Tensor x, Tensor cos, Tensor sin, bool interleaved=False, " +
		"bool in_place=False) -> Tensor",
	Names: names("internevo_ops.ApplyRotaryEmb.apply", "internevo_ops.rotary_embedding.ApplyRotaryEmb.apply",
		"internevo_ops.rotary_embedding_fallback.ApplyRotaryEmbTorch.apply",
		"interntrain_ops.ApplyRotaryEmb.apply", "interntrain_ops.rotary_embedding.ApplyRotaryEmb.apply",
		"interntrain_ops.rotary_embedding_fallback.ApplyRotaryEmbTorch.apply"),
	Doc: opdef.Doc{Summary: "Rotary position embedding",
		Formula: "(a*cos - b*sin, b*cos + a*sin) for pairs (a, b) of each head",
		Notes:   "x is (..., positions, heads, size), cos and sin are (positions, pairs). " + rotaryNotes,
		Source:  "deeplink_ext.internevo_ops.rotary_embedding"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *rotaryArgs {
		cos, sin := elements.Detached(g.Uniform(dt, -1, 1, 4, 2)), elements.Detached(g.Uniform(dt, -1, 1, 4, 2))
		return &rotaryArgs{g.Normal(dt, 2, 3, 2, 4+g.Nth%2), cos, sin, g.Nth > 1, false}
	}),
}, compose.Fused, func(g *compose.Graph, a *rotaryArgs) compose.Values {
	y := turned(g, "x", g.Arg("x", a.X), g.Detach(g.Arg("cos", a.Cos)), g.Detach(g.Arg("sin", a.Sin)), a.Interleaved)
	if a.InPlace {
		g.Update("x", y)
	}
	return compose.Values{y}
})

type qkvArgs struct {
	Qkv, Cos, Sin, CosK, SinK *tensor.Tensor
	Interleaved               bool
}

var rotaryQKV = compose.Declare(compose.Op[qkvArgs]{
	Schema: "deeplink_ext_rotary_embedding_qkv(Tensor qkv, Tensor cos, Tensor sin, Tensor? cos_k=None, " +
		"Tensor? sin_k=None, bool interleaved=False) -> Tensor",
	Names: names("interntrain_ops.ApplyRotaryEmbQKV_.apply",
		"interntrain_ops.rotary_embedding.ApplyRotaryEmbQKV_.apply",
		"interntrain_ops.rotary_embedding_fallback.ApplyRotaryEmbQKV_Torch.apply"),
	Doc: opdef.Doc{Summary: "Rotary position embedding of queries and keys in one tensor with values, in place",
		Formula: "(a*cos - b*sin, b*cos + a*sin) for pairs (a, b) of each head of queries and keys",
		Notes: "qkv is (batch, positions, 3, heads, size) or (positions, 3, heads, size), cos and sin are " +
			"(positions, " +
			"pairs); keys have angles of their own with cos_k and sin_k. " + rotaryNotes,
		Source: "deeplink_ext.interntrain_ops.rotary_embedding"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *qkvArgs {
		angles := func() *tensor.Tensor { return elements.Detached(g.Uniform(dt, -1, 1, 3, 2)) }
		a := &qkvArgs{Qkv: g.Normal(dt, 2, 3, 3, 2, 4), Cos: angles(), Sin: angles(), Interleaved: g.Nth%2 == 1}
		if g.Nth > 1 {
			a.Qkv, a.CosK, a.SinK = g.Normal(dt, 3, 3, 2, 5), angles(), angles()
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *qkvArgs) compose.Values {
	qkv := g.Arg("qkv", a.Qkv)
	dim := qkv.Dim() - 3
	if dim != 1 && dim != 2 || qkv.Shape()[dim] != 3 {
		g.Refuse("qkv", "want (batch, positions, 3, heads, size) or (positions, 3, heads, size), got %s", a.Qkv.Meta())
	}
	parts := g.Chunk(qkv, 3, dim)
	angles := [][]*compose.Value{{g.Arg("cos", a.Cos), g.Arg("sin", a.Sin)}, {g.Arg("cos_k", a.CosK),
		g.Arg("sin_k", a.SinK)}}
	for i, own := range angles {
		for k, c := range own {
			if c == nil {
				own[k] = angles[0][k]
			}
		}
		y := turned(g, "qkv", g.Squeeze(parts[i], dim), g.Detach(own[0]), g.Detach(own[1]), a.Interleaved)
		parts[i] = g.Unsqueeze(y, dim)
	}
	y := g.Cat(dim, parts...)
	g.Update("qkv", y)
	return compose.Values{y}
})

type rowsArgs struct{ X, Cos, Sin *tensor.Tensor }

// rotateRows declares a form of the rotation with an angle for each element: in x's dtype, or wide.
func rotateRows(schema string, names string, wide bool, notes string) *opdef.Entry {
	return compose.Declare(compose.Op[rowsArgs]{
		Schema: schema + "(Tensor x, Tensor cos, Tensor sin) -> Tensor",
		Names:  names,
		Doc: opdef.Doc{Summary: "Rotary position embedding with an angle for each element",
			Formula: "x*cos + (-b, a)*sin, (a, b) the halves of the last dimension of x",
			Notes:   "cos and sin are broadcast; both halves of their rows are equal. " + notes,
			Source:  "deeplink_ext.ascend_speed.rotary_embedding"},
		Exempt: map[string]string{"dtypes": "a result may be float32 whatever the dtype"},
		Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *rowsArgs {
			twice := func() *tensor.Tensor {
				half := tensor.Data[float64](g.Uniform(dt, -1, 1, 3, 1, 1, 2))
				var v []float64
				for i := 0; i < len(half); i += 2 {
					v = append(v, half[i], half[i+1], half[i], half[i+1])
				}
				return tensor.New(dt, []int{3, 1, 1, 4}, v).Rounded()
			}
			return &rowsArgs{g.Normal(dt, 3, 2, 2, 4), twice(), twice()}
		}),
	}, compose.Fused, func(g *compose.Graph, a *rowsArgs) compose.Values {
		x := g.Arg("x", a.X)
		angles := func(name string, t *tensor.Tensor) *compose.Value {
			return g.AtLeast(g.Detach(g.Arg(name, t)), tensor.Float32)
		}
		y := fused.Rotate(g, g.AtLeast(x, tensor.Float32), angles("cos", a.Cos), angles("sin", a.Sin), "half")
		if !wide {
			y = g.To(y, x.DType())
		}
		return compose.Values{y}
	})
}

var (
	rotaryRows = rotateRows("deeplink_ext_rotary_embedding_rows", names("ascend_speed.RotaryEmbedding.apply",
		"ascend_speed.rotary_embedding.RotaryEmbedding.apply"), false, "The result has x's dtype.")
	rotaryRowsTorch = rotateRows("deeplink_ext_rotary_embedding_torch",
		names("ascend_speed.rotary_embedding_fallback.RotaryEmbeddingTorch.apply"), true,
		"The result is in at least float32.")
)

type extRotaryArgs struct {
	Output, Input, Cos, Sin *tensor.Tensor
	Conj, Interleaved       bool
}

var extRotary = compose.DeclareInPlace(compose.Op[extRotaryArgs]{
	Schema: "deeplink_ext_cpp_apply_rotary(Tensor output, Tensor input, Tensor cos, Tensor sin, bool conj, " +
		"bool interleaved) -> ()",
	Names: ext("apply_rotary"),
	Doc: opdef.Doc{Summary: "Rotation of pairs of elements, into output",
		Formula: "output = (a*cos - b*sin, b*cos + a*sin) for pairs (a, b) of the last dimension of input",
		Notes: "cos and sin are broadcast to the pairs, of one place in both halves, or neighbours if interleaved; " +
			"conj turns back.", Source: "diopiRotaryEmbedding"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *extRotaryArgs {
		return &extRotaryArgs{g.Normal(dt, 2, 3, 2, 4), g.Normal(dt, 2, 3, 2, 4), g.Uniform(dt, -1, 1, 3, 1, 2),
			g.Uniform(dt, -1, 1, 3, 1, 2), g.Nth%2 == 1, g.Nth > 1}
	}),
}, []string{"output"}, func(g *compose.Graph, a *extRotaryArgs) compose.Values {
	y := fused.RotatedBy(g, "input", g.Arg("input", a.Input), g.Arg("cos", a.Cos), g.Arg("sin", a.Sin), a.Conj,
		a.Interleaved)
	return compose.Values{fused.Into(g, "output", a.Output, y)}
})
