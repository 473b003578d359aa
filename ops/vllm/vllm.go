// Package vllm declares the kernels of vLLM, those of its modules _C, _moe_C and
// _C_cache_ops, and those of SGLang's sgl_kernel that choose experts. Nearly all write to tensors that
// are given and return nothing, and compute in float32. Arguments that a version added at the end have
// the default that says what earlier ones did.
//
// Source: the schemas of vLLM 0.8 to 0.30, csrc/libtorch_stable/torch_bindings.cpp, csrc/torch_bindings.cpp
// and their like in moe; SGLang 0.5, sgl-kernel/csrc/common_extension.cc.
package vllm

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

// Table lists the operators of the package.
func Table() []*opdef.Entry {
	return append([]*opdef.Entry{rmsNorm, fusedAddRMSNorm, rotary, reshapeAndCache, reshapeAndCacheFlash, pagedV1,
		pagedV2, topkSoftmax, topkSigmoid, topkSoftplusSqrt, groupedTopk, groupedTopkBiased, moeSum, alignBlocks,
		sglTopkSoftmax, sglTopkSoftmaxEarlier, sglTopkSigmoid}, gates()...)
}

// kernel declares a kernel of a module that writes its results to the arguments outs; what
// of returns is of their shapes, in any floating dtype.
func kernel[A any](module, name, schema string, outs []string, doc opdef.Doc, cases func(g opdef.Gen) []*A,
	of func(g *compose.Graph, a *A) compose.Values) *opdef.Entry {
	doc.Source = "torch.ops." + module + "." + name
	return compose.DeclareInPlace(compose.Op[A]{Schema: "vllm_" + name + "(" + schema + ") -> ()",
		Names: "torch.ops." + module + "." + name + " vllm._custom_ops." + name, Doc: doc, Cases: cases}, outs, of)
}

type normArgs struct {
	Result, Input, Weight *tensor.Tensor
	Epsilon               float64
}

var rmsNorm = kernel("_C", "rms_norm", "Tensor result, Tensor input, Tensor? weight, float epsilon",
	[]string{"result"}, opdef.Doc{Summary: "Scaling of rows by their root mean square, into result",
		Formula: "result = input / sqrt(mean(input^2) + epsilon) * weight"},
	opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *normArgs {
		a := &normArgs{g.Normal(dt, 3, 8), g.Normal(dt, 3, 8), g.Normal(dt, 8), 1e-3}
		if g.Nth == 1 {
			a.Weight = nil
		}
		return a
	}),
	func(g *compose.Graph, a *normArgs) compose.Values {
		x := g.Arg("input", a.Input)
		weight := rowWeight(g, x, a.Weight)
		// The kernel rounds the scaled row before it is weighed.
		ones := g.Full(x.DType(), weight.Shape(), 1)
		y, _ := fused.RMSNorm(g, x, ones, a.Epsilon, 0)
		return compose.Values{fused.Into(g, "result", a.Result, g.Mul(g.To(y, x.DType()), weight))}
	})

// rowWeight is the argument weight of rows x, ones where it is not given.
func rowWeight(g *compose.Graph, x *compose.Value, t *tensor.Tensor) *compose.Value {
	weight := g.Arg("weight", t)
	if weight == nil {
		if x.Dim() == 0 || !x.DType().IsFloat() {
			g.Refuse("input", "want floating rows, got %s", x.T.Meta())
		}
		return g.Full(x.DType(), x.Shape()[x.Dim()-1:], 1)
	}
	fused.CheckRows(g, x, weight)
	return weight
}

type addNormArgs struct {
	Input, Residual, Weight *tensor.Tensor
	Epsilon                 float64
}

var fusedAddRMSNorm = kernel("_C", "fused_add_rms_norm",
	"Tensor input, Tensor residual, Tensor? weight, float epsilon", []string{"input", "residual"},
	opdef.Doc{Summary: "Adds input to residual, and scales the rows of the sum into input",
		Formula: "residual += input, input = residual / sqrt(mean(residual^2) + epsilon) * weight"},
	opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *addNormArgs {
		return &addNormArgs{g.Normal(dt, 3, 8), g.Normal(dt, 3, 8), g.Normal(dt, 8), 1e-3}
	}),
	func(g *compose.Graph, a *addNormArgs) compose.Values {
		x := g.Arg("input", a.Input)
		weight := rowWeight(g, x, a.Weight)
		sum := g.To(fused.Sum(g, "residual", x, g.Arg("residual", a.Residual)), x.DType())
		ones := g.Full(x.DType(), weight.Shape(), 1)
		y, _ := fused.RMSNorm(g, sum, ones, a.Epsilon, 0)
		return compose.Values{g.To(g.Mul(g.To(y, x.DType()), weight), x.DType()), sum}
	})

type gateArgs struct{ Result, Input *tensor.Tensor }

// gates are products of the halves of rows, one of them through a function.
func gates() (out []*opdef.Entry) {
	type gate struct {
		name, formula string
		of            func(g *compose.Graph, a, b *compose.Value) *compose.Value
	}
	for _, k := range []gate{
		{"silu_and_mul", "silu(a) * b", func(g *compose.Graph, a, b *compose.Value) *compose.Value {
			return g.Mul(g.SiLU(a), b)
		}},
		{"mul_and_silu", "a * silu(b)", func(g *compose.Graph, a, b *compose.Value) *compose.Value {
			return g.Mul(a, g.SiLU(b))
		}},
		{"gelu_and_mul", "gelu(a) * b", func(g *compose.Graph, a, b *compose.Value) *compose.Value {
			return g.Mul(g.GELU(a, false), b)
		}},
		{"gelu_tanh_and_mul", "gelu_tanh(a) * b", func(g *compose.Graph, a, b *compose.Value) *compose.Value {
			return g.Mul(g.GELU(a, true), b)
		}},
	} {
		out = append(out, kernel("_C", k.name, "Tensor result, Tensor input", []string{"result"},
			opdef.Doc{Summary: "The product of the halves of rows, one through a gate, into result",
				Formula: "result = " + k.formula + ", a and b the halves of the last dimension of input"},
			opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *gateArgs {
				return &gateArgs{g.Normal(dt, 3, 4), g.Normal(dt, 3, 8)}
			}),
			func(g *compose.Graph, a *gateArgs) compose.Values {
				x := g.Arg("input", a.Input)
				if n := x.Dim() - 1; n < 0 || x.Shape()[n]%2 != 0 || !x.DType().IsFloat() {
					g.Refuse("input", "want floating rows of an even length, got %s", a.Input.Meta())
				}
				halves := g.Chunk(g.AtLeast(x, tensor.Float32), 2, -1)
				return compose.Values{fused.Into(g, "result", a.Result, k.of(g, halves[0], halves[1]))}
			}))
	}
	return out
}

type rotaryArgs struct {
	Positions, Query, Key *tensor.Tensor
	HeadSize              int
	CosSinCache           *tensor.Tensor
	IsNeox                bool
	RopeDimOffset         int
	Inverse               bool
}

var rotary = kernel("_C", "rotary_embedding", "Tensor positions, Tensor query, Tensor? key, int head_size, "+
	"Tensor cos_sin_cache, bool is_neox, int rope_dim_offset=0, bool inverse=False", []string{"query", "key"},
	opdef.Doc{Summary: "Rotary position embedding of queries and keys, in place",
		Formula: "(a*cos - b*sin, b*cos + a*sin) for pairs (a, b) of each head",
		Notes: "query and key hold rows of heads of head_size, in any shape with the rows of positions first; " +
			"cos_sin_cache is (positions, 2*pairs), the cosines of a position and then its sines. Pairs are of one " +
			"place in both halves of as many elements with is_neox, else neighbours; they begin at rope_dim_offset. " +
			"inverse turns back."},
	func(g opdef.Gen) []*rotaryArgs {
		i := 0
		return opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *rotaryArgs {
			i++
			a := &rotaryArgs{fused.Integers(3, 0, 1), g.Normal(dt, 3, 12), g.Normal(dt, 3, 6), 6,
				g.Uniform(dt, -1, 1, 5, 4), i%2 == 0, i % 2, i == 2}
			if i == 3 {
				a.Query, a.Key, a.CosSinCache = g.Normal(dt, 3, 2, 6), nil, g.Uniform(dt, -1, 1, 5, 6)
				a.RopeDimOffset = 0
			}
			return a
		})(g)
	},
	func(g *compose.Graph, a *rotaryArgs) compose.Values {
		positions := fused.Ints(g, "positions", a.Positions.Reshape(a.Positions.Numel()))
		turn := func(name string, t *tensor.Tensor) *compose.Value {
			cache := g.Arg("cos_sin_cache", a.CosSinCache)
			return fused.RotatedParts(g, name, t, a.HeadSize, a.RopeDimOffset, cache, positions, !a.IsNeox, a.Inverse)
		}
		out := compose.Values{turn("query", a.Query)}
		if a.Key != nil {
			out = append(out, turn("key", a.Key))
		}
		return out
	})
