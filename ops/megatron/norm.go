package megatron

import (
	"strings"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

// A normKind is one of apex' norms: of layers or by the root mean square, with a weight (and
// a bias) or without, the result in the dtype of the argument or of the weight.
type normKind struct{ rms, affine, mixed bool }

var normKinds = []normKind{{affine: true}, {}, {rms: true, affine: true}, {rms: true}, {affine: true, mixed: true},
	{rms: true, affine: true, mixed: true}}

// normArgs are the arguments of all norms, of which a kind has some.
type normArgs struct {
	Input, Weight, Bias *tensor.Tensor
	NormalizedShape     []int
	Eps                 float64
	MemoryEfficient     bool
}

type (
	affineArgs struct {
		Input, Weight, Bias *tensor.Tensor
		NormalizedShape     []int
		Eps                 float64
		MemoryEfficient     bool
	}
	weightArgs struct {
		Input, Weight   *tensor.Tensor
		NormalizedShape []int
		Eps             float64
		MemoryEfficient bool
	}
	plainArgs struct {
		Input           *tensor.Tensor
		NormalizedShape []int
		Eps             float64
		MemoryEfficient bool
	}
	rawAffineArgs struct {
		Input           *tensor.Tensor
		NormalizedShape []int
		Weight, Bias    *tensor.Tensor
		Eps             float64
	}
	rawWeightArgs struct {
		Input           *tensor.Tensor
		NormalizedShape []int
		Weight          *tensor.Tensor
		Eps             float64
	}
	rawPlainArgs struct {
		Input           *tensor.Tensor
		NormalizedShape []int
		Eps             float64
	}
)

func (a *affineArgs) all() *normArgs {
	return &normArgs{a.Input, a.Weight, a.Bias, a.NormalizedShape, a.Eps, a.MemoryEfficient}
}

func (a *weightArgs) all() *normArgs {
	return &normArgs{a.Input, a.Weight, nil, a.NormalizedShape, a.Eps, a.MemoryEfficient}
}

func (a *plainArgs) all() *normArgs {
	return &normArgs{Input: a.Input, NormalizedShape: a.NormalizedShape, Eps: a.Eps, MemoryEfficient: a.MemoryEfficient}
}

func (a *rawAffineArgs) all() *normArgs {
	return &normArgs{Input: a.Input, Weight: a.Weight, Bias: a.Bias, NormalizedShape: a.NormalizedShape, Eps: a.Eps}
}

func (a *rawWeightArgs) all() *normArgs {
	return &normArgs{Input: a.Input, Weight: a.Weight, NormalizedShape: a.NormalizedShape, Eps: a.Eps}
}

func (a *rawPlainArgs) all() *normArgs {
	return &normArgs{Input: a.Input, NormalizedShape: a.NormalizedShape, Eps: a.Eps}
}

// compute are the result of the norm, and what the kernels keep: the means and the reciprocals
// of the deviations of rows, or of the roots.
func (k normKind) compute(g *compose.Graph, a *normArgs) compose.Values {
	x := g.Arg("input", a.Input)
	var weight, bias *compose.Value
	if k.affine {
		if weight = g.Arg("weight", a.Weight); !k.rms {
			bias = g.Arg("bias", a.Bias)
		}
	}
	var y, mean, rstd *compose.Value
	if k.rms {
		y, rstd = fused.Normed(g, x, a.NormalizedShape, a.Eps)
	} else {
		y, mean, rstd = fused.Centred(g, x, a.NormalizedShape, a.Eps)
	}
	y = fused.Affine(g, y, weight, bias, a.NormalizedShape)
	dt := x.DType()
	if k.mixed {
		dt = weight.DType()
	}
	out := compose.Values{g.To(y, dt)}
	if !k.rms {
		out = append(out, g.Reshape(mean, mean.T.Numel()))
	}
	return append(out, g.Reshape(rstd, rstd.T.Numel()))
}

// names are those of the functions of the kind, of its kernels, and of the operator.
func (k normKind) names() (function, kernel, op string) {
	pick := func(yes bool, a, b string) string {
		if yes {
			return a
		}
		return b
	}
	base, class := pick(k.rms, "fused_rms_norm", "fused_layer_norm"), pick(k.rms, "FusedRMSNorm", "FusedLayerNorm")
	op = pick(k.mixed, "mixed_dtype_", "") + base + pick(k.affine, "_affine", "")
	class += pick(k.affine, "Affine", "") + pick(k.mixed, "MixedDtypes", "") + "Function.apply"
	kernel = pick(k.rms, "rms_", "") + "forward" + pick(k.affine, "_affine", "") + pick(k.mixed, "_mixed_dtypes", "")
	const module = "apex.normalization.fused_layer_norm."
	function = strings.Join([]string{module + op, module + class, "apex.normalization." + op}, " ")
	kernel = "fused_layer_norm_cuda." + kernel
	if !k.mixed {
		kernel += " torch.ops.apex." + op + "_fwd"
	}
	return function, kernel, "apex_" + op
}

// cases are arguments of the kind.
func (k normKind) cases(g opdef.Gen) (out []*normArgs) {
	for _, dt := range [][2]tensor.DType{{tensor.Float64, tensor.Float64}, {tensor.Float32, tensor.Float32},
		{tensor.BFloat16, tensor.BFloat16}, {tensor.Float16, tensor.Float32}} {
		if !k.mixed {
			dt[1] = dt[0]
		}
		a := &normArgs{Input: g.Normal(dt[0], 3, 2, 4), NormalizedShape: []int{2, 4}, Eps: 1e-3}
		if k.affine {
			if a.Weight = g.Normal(dt[1], 2, 4); !k.rms {
				a.Bias = g.Normal(dt[1], 2, 4)
			}
		}
		out = append(out, a)
	}
	return out
}

// doc documents the norm.
func (k normKind) doc(notes string) opdef.Doc {
	d := opdef.Doc{Summary: "Normalisation over the last dimensions",
		Formula: "(input - mean) / sqrt(var + eps) over the dimensions of normalized_shape",
		Notes:   "memory_efficient does not change the result." + notes, Source: "apex.normalization.fused_layer_norm"}
	if k.rms {
		d.Summary = "Scaling by the root mean square over the last dimensions"
		d.Formula = "input / sqrt(mean(input^2) + eps) over the dimensions of normalized_shape"
	}
	if k.affine {
		d.Formula += ", times weight"
		if !k.rms {
			d.Formula += ", plus bias"
		}
	}
	if k.mixed {
		d.Notes += " The result has the dtype of weight."
	}
	return d
}

// declareNorm declares a norm of kind k as a function, or, if raw, as its kernel, which returns
// what the gradient needs too.
func declareNorm[A any, P interface {
	*A
	all() *normArgs
}](k normKind, schema string, raw bool, of func(a *normArgs) *A) *opdef.Entry {
	function, kernel, op := k.names()
	o := compose.Op[A]{Schema: op + schema + " -> Tensor", Names: function, Doc: k.doc("")}
	if raw {
		o.Schema, o.Names = op+"_forward"+schema+" -> (Tensor, Tensor, Tensor)", kernel
		o.Doc = k.doc(" The other results are the means and the reciprocals of the deviations of rows, in float32.")
		o.Exempt = map[string]string{"dtypes": "some results are float32 whatever the dtype"}
		if k.rms {
			o.Schema = op + "_forward" + schema + " -> (Tensor, Tensor)"
			o.Doc = k.doc(" The other result is the reciprocals of the roots of rows, in float32.")
		}
	} else if k.mixed {
		o.Exempt = map[string]string{"dtypes": "the result has the dtype of the weight"}
	}
	o.Cases = func(g opdef.Gen) (cs []*A) {
		for _, a := range k.cases(g) {
			cs = append(cs, of(a))
		}
		return cs
	}
	return compose.Declare(o, compose.Fused, func(g *compose.Graph, a *A) compose.Values {
		out := k.compute(g, P(a).all())
		if !raw {
			out = out[:1]
		}
		return out
	})
}

// norms lists apex' norms and their kernels.
func norms() (out []*opdef.Entry) {
	const tail, rawTail = "int[] normalized_shape, float eps=1e-6, bool memory_efficient=False)", ", float eps)"
	const x = "(Tensor input, "
	for _, k := range normKinds {
		switch {
		case !k.affine:
			out = append(out, declareNorm(k, x+tail, false, func(a *normArgs) *plainArgs {
				return &plainArgs{Input: a.Input, NormalizedShape: a.NormalizedShape, Eps: a.Eps}
			}), declareNorm(k, x+"int[] normalized_shape"+rawTail, true, func(a *normArgs) *rawPlainArgs {
				return &rawPlainArgs{a.Input, a.NormalizedShape, a.Eps}
			}))
		case k.rms:
			out = append(out, declareNorm(k, x+"Tensor weight, "+tail, false, func(a *normArgs) *weightArgs {
				return &weightArgs{Input: a.Input, Weight: a.Weight, NormalizedShape: a.NormalizedShape, Eps: a.Eps}
			}), declareNorm(k, x+"int[] normalized_shape, Tensor weight"+rawTail, true,
				func(a *normArgs) *rawWeightArgs {
					return &rawWeightArgs{a.Input, a.NormalizedShape, a.Weight, a.Eps}
				}))
		default:
			out = append(out, declareNorm(k, x+"Tensor weight, Tensor bias, "+tail, false,
				func(a *normArgs) *affineArgs {
					return &affineArgs{Input: a.Input, Weight: a.Weight, Bias: a.Bias,
						NormalizedShape: a.NormalizedShape, Eps: a.Eps}
				}), declareNorm(k, x+"int[] normalized_shape, Tensor weight, Tensor bias"+rawTail, true,
				func(a *normArgs) *rawAffineArgs {
					return &rawAffineArgs{a.Input, a.NormalizedShape, a.Weight, a.Bias, a.Eps}
				}))
		}
	}
	return out
}
