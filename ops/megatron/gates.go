package megatron

import (
	"slices"

	"math"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// Modules of Megatron-LM.
const (
	geluModule   = "megatron.core.fusions.fused_bias_gelu."
	swigluModule = "megatron.core.fusions.fused_bias_swiglu."
	gegluModule  = "megatron.core.fusions.fused_bias_geglu."
	reluModule   = "megatron.core.fusions.fused_weighted_squared_relu."
)

// Their gates are written in torch and fused by its compiler, or not: each step is rounded.

// geluTanh is GELU's approximation, step by step.
func geluTanh(g *compose.Graph, x *compose.Value) *compose.Value {
	cubic := g.Shift(g.Mul(g.Scale(x, 0.044715), x), 1)
	return g.Mul(g.Scale(x, 0.5), g.Shift(g.Tanh(g.Mul(g.Scale(x, 0.79788456), cubic)), 1))
}

// quickGELU is x*sigmoid(1.702*x).
func quickGELU(g *compose.Graph, x *compose.Value) *compose.Value {
	return g.Mul(x, g.Sigmoid(g.Scale(x, 1.702)))
}

// A gate is a function of a half of rows, which the other half is multiplied by.
type gate func(g *compose.Graph, x *compose.Value) *compose.Value

func silu(g *compose.Graph, x *compose.Value) *compose.Value { return g.SiLU(x) }

// gated is act of the first half of rows times the second, which offset is added to. Both are
// first limited to a magnitude of limit, the first from above alone, if there is one.
func gated(g *compose.Graph, x *compose.Value, act gate, limit *float64, offset float64) *compose.Value {
	if n := x.Dim() - 1; n < 0 || x.Shape()[n]%2 != 0 || !x.DType().IsFloat() {
		g.Refuse("input", "want floating rows of an even length, got %s", x.T.Meta())
	}
	dt := x.DType()
	if limit != nil {
		x = g.AtLeast(x, tensor.Float32)
	}
	halves := g.Chunk(x, 2, -1)
	if limit != nil {
		halves[0] = g.Clamp(halves[0], math.Inf(-1), *limit)
		halves[1] = g.Clamp(halves[1], -*limit, *limit)
	}
	if offset != 0 {
		halves[1] = g.Shift(halves[1], offset)
	}
	return g.To(g.Mul(act(g, halves[0]), halves[1]), dt)
}

// biased is x plus bias, if there is one.
func biased(g *compose.Graph, x, bias *compose.Value) *compose.Value {
	if bias == nil {
		return x
	}
	y := g.Add(x, bias)
	if y.T.Numel() != x.T.Numel() {
		g.Refuse("bias", "%s does not fit %s", bias.T.Meta(), x.T.Meta())
	}
	return y
}

// weighted is y times weights, if there are any, in y's dtype.
func weighted(g *compose.Graph, y, weights *compose.Value) *compose.Value {
	if weights == nil {
		return y
	}
	return g.To(g.Mul(y, weights), y.DType())
}

type (
	rowsArgs     struct{ Y *tensor.Tensor }
	biasArgs     struct{ Y, Bias *tensor.Tensor }
	inputArgs    struct{ Input, Bias *tensor.Tensor }
	weightedArgs struct{ Y, Weights *tensor.Tensor }
	reluArgs     struct{ Input, Weights *tensor.Tensor }
	limitArgs    struct {
		Y          *tensor.Tensor
		ClampValue float64
	}
	biasLimitArgs struct {
		Y, Bias    *tensor.Tensor
		ClampValue float64
	}
	weightedLimitArgs struct {
		Y, Weights *tensor.Tensor
		ClampValue float64
	}
	implArgs struct {
		Input, Bias                    *tensor.Tensor
		Fp8InputStore, CpuOffloadInput bool
		ClampValue                     *float64
	}
	functionArgs struct {
		Input                          *tensor.Tensor
		Fp8InputStore, CpuOffloadInput bool
		ClampValue                     *float64
	}
	weightedImplArgs struct {
		Input, Bias, Weights *tensor.Tensor
		Fp8InputStore        bool
		ClampValue           *float64
	}
	weightedFunctionArgs struct {
		Input, Weights *tensor.Tensor
		Fp8InputStore  bool
		ClampValue     *float64
	}
	offsetArgs struct {
		Y            *tensor.Tensor
		LinearOffset float64
	}
	quickImplArgs struct {
		Input, Bias, Weights *tensor.Tensor
		Fp8InputStore        bool
		LinearOffset         float64
		ClampValue           *float64
	}
	engineArgs struct {
		Input     *tensor.Tensor
		Quantizer value.Value
	}
)

// refuseFloat8 refuses inputs that are kept in float8, from which gradients are others.
func refuseFloat8(g *compose.Graph, store bool) {
	if store {
		g.Refuse("fp8_input_store", "gradients of an input kept in float8 are not defined")
	}
}

// declareGate declares a gate of Megatron's.
func declareGate[A any](name, schema, names, formula string, one func(g opdef.Gen, dt tensor.DType) *A,
	of func(g *compose.Graph, a *A) *compose.Value) *opdef.Entry {
	return compose.Declare(compose.Op[A]{Schema: "megatron_" + name + "(" + schema + ") -> Tensor", Names: names,
		Doc: opdef.Doc{Summary: "Activation with a bias or a gate", Formula: formula,
			Notes:  "a and b are the halves of rows. Steps are rounded, as the forms in torch do.",
			Source: "megatron.core.fusions"},
		Cases: func(g opdef.Gen) []*A { return opdef.PerDType(one)(g) },
	}, compose.Fused, func(g *compose.Graph, a *A) compose.Values { return compose.Values{of(g, a)} })
}

// gates are those of Megatron-LM and of Transformer Engine.
func gates() []*opdef.Entry { return slices.Concat(geluGates(), siluGates(), engineGates()) }

const limited = ", after a is limited to clamp_value and |b| too"

// geluGates are made of the tanh form of gelu and of what is quicker.
func geluGates() []*opdef.Entry {
	const gelu = "x/2*(1 + tanh(0.79788456*x*(1 + 0.044715*x^2)))"
	return []*opdef.Entry{
		declareGate("bias_gelu", "Tensor bias, Tensor y", geluModule+"bias_gelu", gelu+", x = y + bias",
			func(g opdef.Gen, dt tensor.DType) *biasArgs {
				return &biasArgs{Bias: g.Normal(dt, 4), Y: g.Normal(dt, 3, 4)}
			},
			func(g *compose.Graph, a *biasArgs) *compose.Value {
				return geluTanh(g, biased(g, g.Arg("y", a.Y), g.Arg("bias", a.Bias)))
			}),
		declareGate("bias_gelu_impl", "Tensor input, Tensor bias", geluModule+"bias_gelu_impl "+geluModule+
			"GeLUFunction.apply", gelu+", x = input + bias",
			func(g opdef.Gen, dt tensor.DType) *inputArgs { return &inputArgs{g.Normal(dt, 3, 4), g.Normal(dt, 4)} },
			func(g *compose.Graph, a *inputArgs) *compose.Value {
				return geluTanh(g, biased(g, g.Arg("input", a.Input), g.Arg("bias", a.Bias)))
			}),
		declareGate("geglu", "Tensor y", gegluModule+"geglu "+gegluModule+"GeGLUFunction.apply", "gelu_tanh(a) * b "+
			"of y",
			func(g opdef.Gen, dt tensor.DType) *rowsArgs { return &rowsArgs{g.Normal(dt, 3, 8)} },
			func(g *compose.Graph, a *rowsArgs) *compose.Value { return gated(g, g.Arg("y", a.Y), geluTanh, nil, 0) }),
		declareGate("bias_geglu", "Tensor bias, Tensor y", gegluModule+"bias_geglu", "gelu_tanh(a) * b of y + bias",
			func(g opdef.Gen, dt tensor.DType) *biasArgs {
				return &biasArgs{Bias: g.Normal(dt, 8), Y: g.Normal(dt, 3, 8)}
			},
			func(g *compose.Graph, a *biasArgs) *compose.Value {
				return gated(g, biased(g, g.Arg("y", a.Y), g.Arg("bias", a.Bias)), geluTanh, nil, 0)
			}),
		declareGate("bias_geglu_impl", "Tensor input, Tensor? bias", gegluModule+"bias_geglu_impl "+gegluModule+
			"BiasGeGLUFunction.apply", "gelu_tanh(a) * b of input + bias",
			func(g opdef.Gen, dt tensor.DType) *inputArgs {
				return &inputArgs{g.Normal(dt, 2, 3, 8), g.Normal(dt, 8)}
			},
			func(g *compose.Graph, a *inputArgs) *compose.Value {
				return gated(g, biased(g, g.Arg("input", a.Input), g.Arg("bias", a.Bias)), geluTanh, nil, 0)
			}),
		declareGate("quick_gelu", "Tensor y", gegluModule+"quick_gelu", "y*sigmoid(1.702*y)",
			func(g opdef.Gen, dt tensor.DType) *rowsArgs { return &rowsArgs{g.Normal(dt, 3, 4)} },
			func(g *compose.Graph, a *rowsArgs) *compose.Value { return quickGELU(g, g.Arg("y", a.Y)) }),
		declareGate("quick_geglu", "Tensor y, float linear_offset=0.0", gegluModule+"quick_geglu",
			"a*sigmoid(1.702*a) * (b + linear_offset) of y",
			func(g opdef.Gen, dt tensor.DType) *offsetArgs { return &offsetArgs{g.Normal(dt, 3, 8), 1} },
			func(g *compose.Graph, a *offsetArgs) *compose.Value {
				return gated(g, g.Arg("y", a.Y), quickGELU, nil, a.LinearOffset)
			}),
		declareGate("weighted_bias_quick_geglu_impl", "Tensor input, Tensor? bias, Tensor weights, "+
			"bool fp8_input_store=False, float linear_offset=0.0, float? clamp_value=None",
			gegluModule+"weighted_bias_quick_geglu_impl",
			"a*sigmoid(1.702*a) * (b + linear_offset) of input + bias, times weights"+limited,
			func(g opdef.Gen, dt tensor.DType) *quickImplArgs {
				return &quickImplArgs{Input: g.Normal(dt, 3, 8), Bias: g.Normal(dt, 8), Weights: g.Normal(dt, 3, 1),
					LinearOffset: 1}
			},
			func(g *compose.Graph, a *quickImplArgs) *compose.Value {
				refuseFloat8(g, a.Fp8InputStore)
				x, bias := g.Arg("input", a.Input), g.Arg("bias", a.Bias)
				if a.ClampValue != nil && bias != nil {
					g.Unsupported("clamp_value", "it is limited before the bias is added, which is not known here")
				}
				y := gated(g, biased(g, x, bias), quickGELU, a.ClampValue, a.LinearOffset)
				return weighted(g, y, g.Arg("weights", a.Weights))
			}),
		declareGate("weighted_squared_relu", "Tensor input, Tensor weights", reluModule+"weighted_squared_relu_impl "+
			reluModule+"weighted_squared_relu", "relu(input)^2 * weights",
			func(g opdef.Gen, dt tensor.DType) *reluArgs {
				return &reluArgs{g.Apart(dt, []float64{0}, 3, 4), g.Normal(dt, 3, 1)}
			},
			func(g *compose.Graph, a *reluArgs) *compose.Value {
				return weighted(g, g.Square(g.ReLU(g.Arg("input", a.Input))), g.Arg("weights", a.Weights))
			}),
	}
}

// siluGates are made of silu.
func siluGates() []*opdef.Entry {
	limit := 1.5
	const swiglu = "silu(a) * b of "
	return []*opdef.Entry{
		declareGate("swiglu", "Tensor y", swigluModule+"swiglu", swiglu+"y",
			func(g opdef.Gen, dt tensor.DType) *rowsArgs { return &rowsArgs{g.Normal(dt, 3, 8)} },
			func(g *compose.Graph, a *rowsArgs) *compose.Value { return gated(g, g.Arg("y", a.Y), silu, nil, 0) }),
		declareGate("bias_swiglu", "Tensor y, Tensor bias", swigluModule+"bias_swiglu", swiglu+"y + bias",
			func(g opdef.Gen, dt tensor.DType) *biasArgs { return &biasArgs{g.Normal(dt, 3, 8), g.Normal(dt, 8)} },
			func(g *compose.Graph, a *biasArgs) *compose.Value {
				return gated(g, biased(g, g.Arg("y", a.Y), g.Arg("bias", a.Bias)), silu, nil, 0)
			}),
		declareGate("weighted_swiglu", "Tensor y, Tensor weights", swigluModule+"weighted_swiglu",
			swiglu+"y, times weights",
			func(g opdef.Gen, dt tensor.DType) *weightedArgs {
				return &weightedArgs{g.Normal(dt, 3, 8), g.Normal(dt, 3, 1)}
			},
			func(g *compose.Graph, a *weightedArgs) *compose.Value {
				return weighted(g, gated(g, g.Arg("y", a.Y), silu, nil, 0), g.Arg("weights", a.Weights))
			}),
		declareGate("clamped_swiglu", "Tensor y, float clamp_value", swigluModule+"clamped_swiglu", swiglu+"y"+limited,
			func(g opdef.Gen, dt tensor.DType) *limitArgs {
				return &limitArgs{g.Apart(dt, ends(limit), 3, 8), limit}
			},
			func(g *compose.Graph, a *limitArgs) *compose.Value {
				return gated(g, g.Arg("y", a.Y), silu, &a.ClampValue, 0)
			}),
		declareGate("bias_clamped_swiglu", "Tensor y, Tensor bias, float clamp_value",
			swigluModule+"bias_clamped_swiglu",
			swiglu+"y + bias"+limited,
			func(g opdef.Gen, dt tensor.DType) *biasLimitArgs {
				return &biasLimitArgs{g.Apart(dt, ends(limit), 3, 8), tensor.Full(dt, []int{8}, 0.0), limit}
			},
			func(g *compose.Graph, a *biasLimitArgs) *compose.Value {
				return gated(g, biased(g, g.Arg("y", a.Y), g.Arg("bias", a.Bias)), silu, &a.ClampValue, 0)
			}),
		declareGate("clamped_weighted_swiglu", "Tensor y, Tensor weights, float clamp_value",
			swigluModule+"clamped_weighted_swiglu", swiglu+"y, times weights"+limited,
			func(g opdef.Gen, dt tensor.DType) *weightedLimitArgs {
				return &weightedLimitArgs{g.Apart(dt, ends(limit), 3, 8), g.Normal(dt, 3, 1), limit}
			},
			func(g *compose.Graph, a *weightedLimitArgs) *compose.Value {
				return weighted(g, gated(g, g.Arg("y", a.Y), silu, &a.ClampValue, 0), g.Arg("weights", a.Weights))
			}),
		declareGate("bias_swiglu_impl", "Tensor input, Tensor? bias, bool fp8_input_store=False, "+
			"bool cpu_offload_input=False, float? clamp_value=None", swigluModule+"bias_swiglu_impl "+swigluModule+
			"BiasSwiGLUFunction.apply", swiglu+"input + bias"+limited,
			func(g opdef.Gen, dt tensor.DType) *implArgs {
				return &implArgs{Input: g.Normal(dt, 2, 3, 8), Bias: g.Normal(dt, 8)}
			},
			func(g *compose.Graph, a *implArgs) *compose.Value {
				refuseFloat8(g, a.Fp8InputStore)
				return gated(g, biased(g, g.Arg("input", a.Input), g.Arg("bias", a.Bias)), silu, a.ClampValue, 0)
			}),
		declareGate("swiglu_function", "Tensor input, bool fp8_input_store=False, bool cpu_offload_input=False, "+
			"float? clamp_value=None", swigluModule+"SwiGLUFunction.apply", swiglu+"input"+limited,
			func(g opdef.Gen, dt tensor.DType) *functionArgs { return &functionArgs{Input: g.Normal(dt, 3, 8)} },
			func(g *compose.Graph, a *functionArgs) *compose.Value {
				refuseFloat8(g, a.Fp8InputStore)
				return gated(g, g.Arg("input", a.Input), silu, a.ClampValue, 0)
			}),
		declareGate("weighted_bias_swiglu_impl", "Tensor input, Tensor? bias, Tensor weights, "+
			"bool fp8_input_store=False, float? clamp_value=None", swigluModule+"weighted_bias_swiglu_impl",
			swiglu+"input, times weights"+limited,
			func(g opdef.Gen, dt tensor.DType) *weightedImplArgs {
				return &weightedImplArgs{Input: g.Normal(dt, 3, 8), Weights: g.Normal(dt, 3, 1)}
			},
			func(g *compose.Graph, a *weightedImplArgs) *compose.Value {
				if refuseFloat8(g, a.Fp8InputStore); a.Bias != nil {
					g.Refuse("bias", "Megatron-LM does not support it")
				}
				g.Arg("bias", nil)
				return weighted(g, gated(g, g.Arg("input", a.Input), silu, a.ClampValue, 0), g.Arg("weights",
					a.Weights))
			}),
		declareGate("weighted_swiglu_function", "Tensor input, Tensor weights, bool fp8_input_store=False, "+
			"float? clamp_value=None", swigluModule+"WeightedSwiGLUFunction.apply", swiglu+"input, times "+
			"weights"+limited,
			func(g opdef.Gen, dt tensor.DType) *weightedFunctionArgs {
				return &weightedFunctionArgs{Input: g.Normal(dt, 3, 8), Weights: g.Normal(dt, 3, 1)}
			},
			func(g *compose.Graph, a *weightedFunctionArgs) *compose.Value {
				refuseFloat8(g, a.Fp8InputStore)
				return weighted(g, gated(g, g.Arg("input", a.Input), silu, a.ClampValue, 0), g.Arg("weights",
					a.Weights))
			}),
	}
}

// engineGates are those of Transformer Engine.
func engineGates() (out []*opdef.Entry) {

	for _, k := range []struct {
		name, formula string
		of            gate
		gated         bool
	}{
		{"gelu", "gelu_tanh(x)", func(g *compose.Graph, x *compose.Value) *compose.Value { return g.GELU(x, true) },
			false},
		{"geglu", "gelu_tanh(a) * b", func(g *compose.Graph, x *compose.Value) *compose.Value {
			return g.GELU(x, true)
		}, true},
		{"qgelu", "x*sigmoid(1.702*x)", quickGELU, false}, {"qgeglu", "a*sigmoid(1.702*a) * b", quickGELU, true},
		{"relu", "max(x, 0)", relu, false}, {"reglu", "max(a, 0) * b", relu, true},
		{"srelu", "max(x, 0)^2", squaredReLU, false}, {"sreglu", "max(a, 0)^2 * b", squaredReLU, true},
		{"silu", "silu(x)", silu, false}, {"swiglu", "silu(a) * b", silu, true},
	} {
		out = append(out, compose.Declare(compose.Op[engineArgs]{
			Schema: "transformer_engine_" + k.name + "(Tensor input, any quantizer) -> Tensor",
			Names:  "transformer_engine_torch." + k.name,
			Doc: opdef.Doc{Summary: "Activation of elements or of the halves (a, b) of rows",
				Formula: k.formula, Notes: "A quantizer is refused.", Source: "transformer_engine, pybind.cpp"},
			Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *engineArgs {
				return &engineArgs{g.Apart(dt, []float64{0}, 3, 8), nil}
			}),
		}, compose.Fused, func(g *compose.Graph, a *engineArgs) compose.Values {
			if a.Quantizer != nil {
				g.Refuse("quantizer", "quantized results are not defined")
			}
			x := g.Arg("input", a.Input)
			wide := g.AtLeast(x, tensor.Float32)
			if !k.gated {
				return compose.Values{g.To(k.of(g, wide), x.DType())}
			}
			return compose.Values{g.To(gated(g, wide, k.of, nil, 0), x.DType())}
		}))
	}
	return out
}

// ends are the kinks of a limit.
func ends(limit float64) []float64 { return []float64{-limit, limit} }

func relu(g *compose.Graph, x *compose.Value) *compose.Value { return g.ReLU(x) }

func squaredReLU(g *compose.Graph, x *compose.Value) *compose.Value { return g.Square(g.ReLU(x)) }
