package activation

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type inplaceArgs struct {
	Self    *tensor.Tensor
	Inplace bool

	wrong func(x float64) float64 // in place of the function: a mistake
}

// A mistaken function is what kernels compute in place of one.
type mistaken struct {
	text string
	f    func(x float64) float64
}

// An activation is a function of one element, as an operator that has no argument beside it but inplace.
type activation struct {
	opdef.Unary
	ints  bool // integers become float32 instead of being refused
	wrong []mistaken
}

func (v activation) entry() *opdef.Entry {
	v.NoInts, v.NoBool = !v.ints && v.I == nil, true
	v.Doc.Source = "torch.nn.functional." + v.Name
	p := opdef.UnaryOf(v.Unary, func(a *inplaceArgs) *tensor.Tensor { return a.Self })
	p.Schema = v.Name + "(Tensor self, bool inplace=False) -> Tensor"
	p.Cases = func(g opdef.Gen) []*inplaceArgs { return activationCases(g, v.Kinks, v.C != nil) }
	if v.wrong != nil {
		sound := p.F
		p.F = func(a *inplaceArgs) func(float64) float64 {
			if a.wrong != nil {
				return a.wrong
			}
			return sound(a)
		}
		p.Mistakes = func(a *inplaceArgs) []opdef.Mistake[*inplaceArgs] {
			var out []opdef.Mistake[*inplaceArgs]
			for _, m := range v.wrong {
				out = append(out, opdef.Mistake[*inplaceArgs]{Text: m.text, Plan: func() (*inplaceArgs, error) {
					return &inplaceArgs{a.Self, a.Inplace, m.f}, nil
				}})
			}
			return out
		}
	}
	return p.Entry()
}

func activationCases(g opdef.Gen, kinks []float64, complexToo bool) []*inplaceArgs {
	cs := []*inplaceArgs{
		{g.Apart(tensor.Float64, kinks, 3, 4), false, nil}, {g.Apart(tensor.Float32, kinks, 5), false, nil},
		{g.Apart(tensor.BFloat16, kinks, 2, 3), false, nil},
		{g.Apart(tensor.Float16, kinks, 4), false, nil}, {g.Apart(tensor.Float32, kinks), false, nil},
		{g.Normal(tensor.Float32, 0, 3), false, nil},
		{tensor.New(tensor.Float32, []int{5}, []float64{math.NaN(), math.Inf(1), math.Inf(-1), 50, -50}), false, nil},
	}
	if complexToo {
		cs = append(cs, &inplaceArgs{g.Normal(tensor.Complex128, 3), false, nil})
	}
	return cs
}

// coveredError is that of functions whose derivative is nowhere larger than what DS says.
var coveredError = opdef.Error{Class: opdef.Elementwise,
	Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 4, Covers: true}}

// Functions of one element that are steps of compositions too.
var (
	ReLU = opdef.Unary{
		Name: "relu", Names: "relu Tensor.relu F.relu", Traits: opdef.Traits{InPlace: true},
		Doc: opdef.Doc{Summary: "Rectifier", Formula: "max(self, 0)",
			Notes: "The subgradient at 0 is 0. Of -0 it is -0, on a device other than the CPU perhaps 0."},
		Error: elements.ExactError, Kinks: []float64{0},
		F: func(x float64) float64 {
			if x == 0 {
				return x
			}
			return max(x, 0)
		},
		I:  func(x int64) int64 { return max(x, 0) },
		DF: func(x, _ float64) float64 { return elements.OneIf(!(x <= 0)) },
	}
	SiLU = opdef.Unary{
		Name: "silu", Names: "F.silu _C._nn.silu torch_npu.npu_silu torch.ops.npu.npu_silu",
		Traits: opdef.Traits{InPlace: true},
		Doc:    opdef.Doc{Summary: "Sigmoid linear unit", Formula: "self * sigmoid(self)"},
		Error:  coveredError,
		S:      flushedFactor,
		F:      func(x float64) float64 { return x * kernel.Sigmoid(x) },
		Block:  vmath.SiLU,
		C:      func(x complex128) complex128 { return x / (1 + kernel.CExp(-x)) },
		DF:     siluSlope,
		DBlock: ofArgument(vmath.SiLUSlope), OfX: true,
		DC: func(x, _ complex128) complex128 { s := 1 / (1 + kernel.CExp(-x)); return s * (1 + x*(1-s)) },
		DS: func(x, _ float64) float64 { return kernel.Sigmoid(x) * (1 + math.Abs(x)) },
		DSBlock: func(dst, x, _ []float64) {
			vmath.Sigmoid(dst, x)
			for i, s := range dst {
				dst[i] = s * (1 + math.Abs(x[i]))
			}
		},
		Formula: siluFormula, Slope: siluSlopeFormula,
	}
	// GELU and GELUTanh are the functions of gelu, by approximate.
	GELU = opdef.Unary{
		Error: geluError,
		F:     func(x float64) float64 { return x / 2 * math.Erfc(-x/math.Sqrt2) }, Block: vmath.GELU,
		DF: func(x, _ float64) float64 {
			return math.Erfc(-x/math.Sqrt2)/2 + x*kernel.NormalDensity(x)
		},
		DBlock: ofArgument(vmath.GELUSlope), OfX: true,
		S:       func(x, _ float64) float64 { return math.Abs(x) / 2 },
		DS:      func(x, _ float64) float64 { return 0.5 + math.Abs(x)*kernel.NormalDensity(x) },
		DSBlock: ofArgument(vmath.GELUSlopeSize),
		Formula: geluFormula, Slope: geluSlopeFormula,
	}
	GELUTanh = opdef.Unary{
		Error: geluError,
		F:     geluTanhFormula.Sound(), Block: vmath.GELUTanh,
		DF:     func(x, _ float64) float64 { return geluTanhSlopeAt(x) },
		DBlock: geluTanhSlope, OfX: true,
		S:       func(x, _ float64) float64 { return math.Abs(x) / 2 },
		DS:      func(x, _ float64) float64 { return 1 + math.Abs(x) },
		DSBlock: geluTanhSlopeScale,
		Formula: geluTanhFormula, Slope: geluTanhSlopeFormula,
	}
)

var geluError = opdef.Error{Class: opdef.Elementwise, Covers: true,
	Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 4, Covers: true}}

// activationOps are the activation functions of torch.nn.functional.
var activationOps = []*opdef.Entry{
	activation{Unary: ReLU}.entry().AsMovingOnCPU(),
	activation{Unary: opdef.Unary{
		Name: "relu6", Names: "F.relu6", Traits: opdef.Traits{InPlace: true},
		Doc: opdef.Doc{Summary: "Rectifier capped at 6", Formula: "min(max(self, 0), 6)",
			Notes: "The subgradient at 0 and 6 is 0. Of -0 it is -0, on a device other than the CPU perhaps 0."},
		Error: elements.ExactError, Kinks: []float64{0, 6},
		Formula: relu6Formula,
		I:       func(x int64) int64 { return min(max(x, 0), 6) },
		DF:      func(x, _ float64) float64 { return elements.OneIf(!(x <= 0)) * elements.OneIf(!(x >= 6)) },
		DElse:   atNaN(0), // where a kernel asks 0 < x < 6
	}}.entry().AsMovingOnCPU().WithTakenFor("torch.relu"),
	activation{Unary: SiLU}.entry().
		WithTakenFor("torch.nn.functional.hardswish", "torch.nn.functional.gelu", "torch.nn.functional.relu"),
	activation{Unary: opdef.Unary{
		Name: "mish", Names: "F.mish _C._nn.mish torch_npu.npu_mish torch.ops.npu.npu_mish",
		Traits: opdef.Traits{InPlace: true},
		Doc: opdef.Doc{Summary: "Self regularised non-monotonic activation",
			Formula: "self * tanh(softplus(self))"},
		Error: coveredError, S: flushedFactor,
		F: kernel.Mish, Formula: mishFormula,
		DF: func(x, _ float64) float64 { return kernel.MishSlope(x) }, OfX: true,
		DS: func(x, _ float64) float64 {
			t := math.Tanh(kernel.Softplus(x))
			return t + math.Abs(x)*kernel.Sigmoid(x)*(1+t*t)
		},
	}}.entry().WithTakenFor("torch.nn.functional.silu"),
	activation{
		Unary: opdef.Unary{
			Name: "hardswish", Names: "F.hardswish _C._nn.hardswish", Traits: opdef.Traits{InPlace: true},
			Doc: opdef.Doc{Summary: "Piecewise approximation of silu", Formula: "self * min(max(self + 3, 0), 6) / 6",
				Notes: "The gradient at -3 is that of the middle piece, at 3 too."},
			Error: coveredError, Kinks: []float64{-3, 3},
			Formula: hardFormula(true),
			DF: func(x, _ float64) float64 {
				switch {
				case x < -3:
					return 0
				case x <= 3:
					return x/3 + 0.5
				}
				return 1
			},
			DElse: atNaN(math.NaN()),
			DS:    func(x, _ float64) float64 { return min(math.Abs(x)/3, 1) + 0.5 }, OfX: true,
		},
		wrong: []mistaken{
			{"self + 3 is not limited to 6", func(x float64) float64 { return x * max(x+3, 0) / 6 }},
			{"self + 3 is not limited to 0", func(x float64) float64 { return x * min(x+3, 6) / 6 }},
		},
	}.entry().WithTakenFor("torch.nn.functional.silu"),
	activation{Unary: opdef.Unary{
		Name: "hardsigmoid", Names: "F.hardsigmoid _C._nn.hardsigmoid", Traits: opdef.Traits{InPlace: true},
		Doc: opdef.Doc{Summary: "Piecewise approximation of sigmoid", Formula: "min(max(self + 3, 0), 6) / 6",
			Notes: "The subgradient at -3 and 3 is 0; the slope between them is 1/6 rounded to float32, for float64 too."},
		Error: opdef.Error{Class: opdef.Rounded, ULPs: 2}, Kinks: []float64{-3, 3},
		Formula: hardFormula(false),
		DF:      func(x, _ float64) float64 { return elements.IfElse(x > -3 && x < 3, float64(float32(1.0/6)), 0) },
		S:       func(x, _ float64) float64 { return elements.IfElse(math.Abs(x) < 3, 0.5, 0) },
	}}.entry().WithTakenFor("torch.sigmoid"),
	activation{Unary: opdef.Unary{
		Name: "selu", Names: "selu Tensor.selu F.selu", Traits: opdef.Traits{InPlace: true},
		Doc: opdef.Doc{Summary: "Scaled exponential linear unit",
			Formula: "scale*self if self > 0, else scale*alpha*(exp(self) - 1); alpha = 1.6732632423543772, scale = " +
				"1.0507009873554805"},
		Error: elements.ElementwiseError, Kinks: []float64{0},
		Formula: seluFormula,
		DF:      func(x, _ float64) float64 { return eluSlope(x, seluAlpha*seluScale, seluScale, 1) },
		DElse:   atNaN(math.NaN()),
		S:       func(x, _ float64) float64 { return elements.IfElse(x <= 0, seluAlpha*seluScale, 0) },
		DS:      func(x, _ float64) float64 { return elements.IfElse(x <= 0, seluAlpha*seluScale, 0) },
	}}.entry(),
	activation{Unary: opdef.Unary{
		Name: "tanhshrink", Names: "F.tanhshrink",
		Doc:   opdef.Doc{Summary: "Argument minus its hyperbolic tangent", Formula: "self - tanh(self)"},
		Error: elements.ElementwiseError,
		F:     kernel.TanhShrink,
		C:     func(x complex128) complex128 { return x - kernel.CTanh(x) },
		DF:    func(x, _ float64) float64 { t := math.Tanh(x); return t * t },
		DC:    func(x, _ complex128) complex128 { t := kernel.CTanh(x); return t * t },
		S:     func(x, _ float64) float64 { return math.Abs(x) },
		SC:    func(x, y complex128) float64 { return cmplx.Abs(x) + cmplx.Abs(x-y) },
		DS:    func(_, _ float64) float64 { return 1 },
	}, ints: true}.entry().AsComposite(2),
	activation{Unary: opdef.Unary{
		Name: "logsigmoid", Names: "F.logsigmoid _C._nn.log_sigmoid",
		Doc:     opdef.Doc{Summary: "Logarithm of the logistic function", Formula: "-ln(1 + exp(-self))"},
		Error:   elements.ElementwiseError,
		F:       func(x float64) float64 { return min(x, 0) - math.Log1p(math.Exp(-math.Abs(x))) },
		Formula: logSigmoidFormula,
		DF:      func(x, _ float64) float64 { return kernel.Sigmoid(-x) },
		DS:      func(_, _ float64) float64 { return 1 },
	}}.entry(),
	opdef.Op[softsignArgs]{
		Schema: "softsign(Tensor self) -> Tensor", Names: "F.softsign",
		Doc:    opdef.Doc{Summary: "Softer bounded activation", Formula: "self / (1 + |self|)"},
		Error:  elements.ElementwiseError,
		Kernel: softsign,
		Grad:   softsignGrad,
		// The last is a quotient.
		Node: func(a *softsignArgs, g *opdef.Grad) (opdef.Node, error) {
			if !a.Self.DType.IsFloat() {
				return opdef.Node{}, nil
			}
			dt := g.Out[0].DType
			return opdef.Node{Grads: []*tensor.Tensor{
				opdef.Zip(dt, g.Out[0], a.Self, func(g, x float64) float64 { return g / (1 + math.Abs(x)) }),
				opdef.Zip(dt, g.Out[0], a.Self, func(g, x float64) float64 {
					d := 1 + math.Abs(x)
					return -g * x / (d * d)
				})}}, nil
		},
		Traits: opdef.Traits{Composite: true, LastTakes: 2},
		Bounds: opdef.Bounds[*softsignArgs]{
			Scale: func(_ *softsignArgs, outs []*tensor.Tensor) []*tensor.Tensor {
				return []*tensor.Tensor{elements.AbsIfComplex(outs[0])}
			},
			GradScale: func(a *softsignArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return opdef.Grads{"self": {opdef.Abs(g.Out[0])}}, nil
			},
		},
		Cases: opdef.Calls[softsignArgs](`
			f64[3, 4]{apart 0}; f32[5]{apart 0}; bf16[2, 3]{apart 0}; f16[]{apart 0}; f32[0, 3]; c128[3, 2]; c64[4]
			i32[6]{-4..4}`),
	}.Entry(),
	opdef.Pointwise[geluArgs]{
		Schema: `gelu(Tensor self, *, str approximate="none") -> Tensor`, Names: "F.gelu _C._nn.gelu", NoInts: true,
		Doc: opdef.Doc{Summary: "Gaussian error linear unit",
			Formula: "self * Phi(self), or with approximate=\"tanh\" self/2 * (1 + tanh(sqrt(2/pi) * (self + " +
				"0.044715*self**3)))"},
		Error: geluError,
		Self:  func(a *geluArgs) *tensor.Tensor { return a.Self }, Mistakes: (*geluArgs).mistakes, OfX: true,
		Check: func(a *geluArgs) error {
			if a.Approximate != "none" && a.Approximate != "tanh" {
				return opdef.Refuse("approximate", "want none or tanh, got %q", a.Approximate)
			}
			return nil
		},
		Block: func(a *geluArgs) func(dst, src []float64) {
			if a.erf != nil {
				return func(dst, src []float64) {
					for i, x := range src {
						dst[i] = x / 2 * (1 + a.erf(x/math.Sqrt2))
					}
				}
			}
			return a.function().Block
		},
		DBlock:  func(a *geluArgs) func(dst, x, y []float64) { return a.function().DBlock },
		Formula: func(a *geluArgs) opdef.Formula[float64] { return a.function().Formula },
		Slope:   func(a *geluArgs) opdef.Formula[float64] { return a.function().Slope },
		Else: func(*geluArgs) func(x, y float64) float64 {
			return func(x, y float64) float64 { // the formula has infinity times 0, the function has limits
				switch {
				case !math.IsInf(x, 0):
					return y
				case y != y:
					return max(x, 0)
				}
				return math.NaN()
			}
		},
		SBlock:  func(*geluArgs) func(dst, x, y []float64) { return geluScale },
		DSBlock: func(a *geluArgs) func(dst, x, y []float64) { return a.function().DSBlock },
		SLeast:  0.5, DSLeast: 0.5,
		Cases: opdef.Calls[geluArgs](`
			f64[3, 4]{apart}; f32[5]{apart}; bf16[2, 3]{apart}; f16[4]{apart}; f32[]{apart}; f32[0, 3]
			f32[5]{= NaN +Inf -Inf 50 -50}; f64[3, 4]{apart}, approximate='tanh'; f32[5]{apart}, approximate='tanh'
			bf16[2, 3]{apart}, approximate='tanh'; f16[4]{apart}, approximate='tanh'
			f32[]{apart}, approximate='tanh'; f32[0, 3], approximate='tanh'
			f32[5]{= NaN +Inf -Inf 50 -50}, approximate='tanh'`),
	}.Entry().WithTakenFor("megatron.core.fusions.fused_bias_geglu.quick_gelu",
		"torch.nn.functional.silu", "torch.nn.functional.relu"),
	opdef.Pointwise[leakyReLUArgs]{
		Schema: "leaky_relu(Tensor self, Scalar negative_slope=0.01, bool inplace=False) -> Tensor",
		Names:  "F.leaky_relu _C._nn.leaky_relu",
		Traits: opdef.Traits{InPlace: true},
		NoInts: true,
		Doc: opdef.Doc{Summary: "Leaky rectifier", Formula: "self if self > 0, else negative_slope*self",
			Notes: "The gradient at 0 is negative_slope."},
		Error: elements.RoundedError,
		Self:  func(a *leakyReLUArgs) *tensor.Tensor { return a.Self },
		F: func(a *leakyReLUArgs) func(float64) float64 {
			k := elements.ArithmeticValue(a.NegativeSlope, a.Self.DType)
			return func(x float64) float64 { return x * elements.IfElse(x > 0, 1, k) }
		},
		DF: func(a *leakyReLUArgs) func(x, y float64) float64 {
			k := elements.ArithmeticValue(a.NegativeSlope, a.Self.DType)
			return func(x, _ float64) float64 { return elements.IfElse(x > 0, 1, k) }
		},
		Cases: opdef.Calls[leakyReLUArgs](`
			f64[3, 4]{apart 0}; f32[5]{apart 0}, negative_slope=0.2; bf16[2, 3]{apart 0}, negative_slope=-0.5
			f16[4]{apart 0}; f32[]{apart 0}, negative_slope=0.2; f32[0, 3], negative_slope=-0.5
			f32[5]{= NaN +Inf -Inf 50 -50}`),
	}.Entry().WithTakenFor("torch.nn.functional.relu"),
	opdef.Pointwise[eluArgs]{
		Schema: "elu(Tensor self, Scalar alpha=1.0, bool inplace=False) -> Tensor", Names: "F.elu",
		Traits: opdef.Traits{InPlace: true},
		NoInts: true,
		Doc:    opdef.Doc{Summary: "Exponential linear unit", Formula: "self if self > 0, else alpha*(exp(self) - 1)"},
		Error:  elements.ElementwiseError,
		Self:   func(a *eluArgs) *tensor.Tensor { return a.Self },
		Formula: func(a *eluArgs) opdef.Formula[float64] {
			return eluFormula(elements.ArithmeticValue(a.Alpha, a.Self.DType), 1)
		},
		DF: func(a *eluArgs) func(x, y float64) float64 {
			k := elements.ArithmeticValue(a.Alpha, a.Self.DType)
			return func(x, _ float64) float64 { return eluSlope(x, k, 1, 1) }
		},
		DElse: slopeAtNaN[eluArgs](math.NaN()),
		S:     func(a *eluArgs) func(x, y float64) float64 { return eluScale(a.Alpha.Float64()) },
		DS:    func(a *eluArgs) func(x, y float64) float64 { return eluScale(a.Alpha.Float64()) },
		Cases: eluCases,
	}.Entry(),
	opdef.Pointwise[eluArgs]{
		Schema: "celu(Tensor self, Scalar alpha=1.0, bool inplace=False) -> Tensor", Names: "celu Tensor.celu F.celu",
		Traits: opdef.Traits{InPlace: true},
		NoInts: true,
		Doc: opdef.Doc{Summary: "Continuously differentiable exponential linear unit",
			Formula: "self if self > 0, else alpha*(exp(self/alpha) - 1)", Source: "torch.nn.functional.celu"},
		Error: elements.ElementwiseError,
		Self:  func(a *eluArgs) *tensor.Tensor { return a.Self },
		Check: func(a *eluArgs) error {
			if a.Alpha.Float64() == 0 {
				return opdef.Refuse("alpha", "must not be 0")
			}
			return nil
		},
		Formula: func(a *eluArgs) opdef.Formula[float64] {
			k := elements.ArithmeticValue(a.Alpha, a.Self.DType)
			return eluFormula(k, 1/k)
		},
		DF: func(a *eluArgs) func(x, y float64) float64 {
			k := elements.ArithmeticValue(a.Alpha, a.Self.DType)
			in := 1 / float64(float32(k)) // derivatives.yaml: alpha.toFloat()
			return func(x, _ float64) float64 { return eluSlope(x, k, 1, in) }
		},
		DElse: slopeAtNaN[eluArgs](math.NaN()),
		S:     func(a *eluArgs) func(x, y float64) float64 { return eluScale(a.Alpha.Float64()) },
		DS:    func(a *eluArgs) func(x, y float64) float64 { return eluScale(a.Alpha.Float64()) },
		Cases: eluCases,
	}.Entry(),
	opdef.Pointwise[hardtanhArgs]{
		Schema: "hardtanh(Tensor self, Scalar min_val=-1.0, Scalar max_val=1.0, bool inplace=False) -> Tensor",
		Names:  "F.hardtanh _C._nn.hardtanh",
		Traits: opdef.Traits{InPlace: true},
		NoBool: true,
		Doc: opdef.Doc{Summary: "Linear function cut at both ends", Formula: "min(max(self, min_val), max_val)",
			Notes: "The subgradient at both ends is 0."},
		Error: elements.ExactError,
		Self:  func(a *hardtanhArgs) *tensor.Tensor { return a.Self },
		F: func(a *hardtanhArgs) func(float64) float64 {
			lo, hi := a.Self.DType.Round(a.MinVal.Float64()), a.Self.DType.Round(a.MaxVal.Float64())
			return func(x float64) float64 { return min(max(x, lo), hi) }
		},
		I: func(a *hardtanhArgs) func(int64) int64 {
			lo, hi := a.MinVal.Int64(), a.MaxVal.Int64()
			return func(x int64) int64 { return min(max(x, lo), hi) }
		},
		DF: func(a *hardtanhArgs) func(x, y float64) float64 {
			lo, hi := a.MinVal.Float64(), a.MaxVal.Float64()
			return func(x, _ float64) float64 { return elements.IfElse(x <= lo || x >= hi, 0, 1) }
		},
		DElse: slopeAtNaN[hardtanhArgs](0), // where a kernel asks lo < x < hi
		Cases: opdef.Calls[hardtanhArgs](`
			f64[3, 4]{apart -1 -0.5 0.75 1}; f32[5]{apart -1 -0.5 0.75 1}, min_val=-0.5, max_val=0.75
			bf16[2, 3]{apart -1 -0.5 0.75 1}; f16[4]{apart -1 -0.5 0.75 1}, min_val=-0.5, max_val=0.75
			f32[]{apart -1 -0.5 0.75 1}; f32[0, 3], min_val=-0.5, max_val=0.75; f32[5]{= NaN +Inf -Inf 50 -50}`),
	}.Entry(),
	opdef.Pointwise[shrinkArgs]{
		Schema: "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
		Names:  "hardshrink Tensor.hardshrink F.hardshrink", NoInts: true,
		Doc: opdef.Doc{Summary: "Zero within lambd of zero", Formula: "0 if -lambd <= self <= lambd, else self",
			Source: "torch.nn.functional.hardshrink"},
		Error: elements.ExactError,
		Self:  func(a *shrinkArgs) *tensor.Tensor { return a.Self },
		F: func(a *shrinkArgs) func(float64) float64 {
			k := a.Self.DType.Round(a.Lambd.Float64())
			return func(x float64) float64 { return elements.IfElse(x >= -k && x <= k, 0, x) }
		},
		DF: shrinkSlope, DElse: slopeAtNaN[shrinkArgs](0), Jumps: true,
		Cases: shrinkCases,
	}.Entry(),
	opdef.Pointwise[shrinkArgs]{
		Schema: "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", Names: "F.softshrink _C._nn.softshrink",
		NoInts: true,
		Doc: opdef.Doc{Summary: "Shrinks by lambd towards zero",
			Formula: "self - lambd if self > lambd, self + lambd if self < -lambd, else 0",
			Notes:   "NaN gives NaN, or 0 as in torch up to 2.5."},
		Error: opdef.Error{Class: opdef.Rounded, Grad: &opdef.Error{Class: opdef.Exact}},
		Self:  func(a *shrinkArgs) *tensor.Tensor { return a.Self },
		Check: func(a *shrinkArgs) error {
			if a.Lambd.Float64() < 0 {
				return opdef.Refuse("lambd", "must not be negative, got %v", a.Lambd)
			}
			return nil
		},
		F: func(a *shrinkArgs) func(float64) float64 {
			k := elements.ArithmeticValue(a.Lambd, a.Self.DType)
			return func(x float64) float64 {
				switch {
				case x > k:
					return x - k
				case x < -k:
					return x + k
				case x != x:
					return x
				}
				return 0
			}
		},
		Else: func(*shrinkArgs) func(x, y float64) float64 { return atNaN(0) },
		DF:   shrinkSlope, DElse: slopeAtNaN[shrinkArgs](0),
		S: func(a *shrinkArgs) func(x, y float64) float64 {
			k := a.Lambd.Float64()
			return func(_, _ float64) float64 { return k }
		},
		Cases: shrinkCases,
	}.Entry(),
	opdef.Pointwise[softplusArgs]{
		Schema: "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
		Names:  "F.softplus _C._nn.softplus", NoInts: true,
		Doc: opdef.Doc{Summary: "Smooth rectifier",
			Formula: "ln(1 + exp(beta*self)) / beta; self where beta*self > threshold"},
		Error:  elements.ElementwiseError,
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Self:   func(a *softplusArgs) *tensor.Tensor { return a.Self },
		F: func(a *softplusArgs) func(float64) float64 {
			b, t := elements.ArithmeticValue(a.Beta, a.Self.DType), elements.ArithmeticValue(a.Threshold, a.Self.DType)
			return func(x float64) float64 {
				if x*b > t {
					return x
				}
				return kernel.Softplus(x*b) / b
			}
		},
		Formula: softplusFormula,
		DF: func(a *softplusArgs) func(x, y float64) float64 {
			b, t := elements.ArithmeticValue(a.Beta, a.Self.DType), elements.ArithmeticValue(a.Threshold, a.Self.DType)
			return func(x, _ float64) float64 {
				if x*b > t {
					return 1
				}
				return kernel.Sigmoid(x * b)
			}
		},
		// The product in the exponent is rounded.
		S: func(a *softplusArgs) func(x, y float64) float64 {
			b := a.Beta.Float64()
			return func(x, y float64) float64 { return y * (1 + min(math.Abs(x*b), 1000)) }
		},
		DS: func(a *softplusArgs) func(x, y float64) float64 {
			b := a.Beta.Float64()
			return func(x, _ float64) float64 { return kernel.Sigmoid(x*b) * (1 + min(math.Abs(x*b), 1000)) }
		},
		Cases: opdef.Calls[softplusArgs](`
			f64[3, 4]{apart}, beta=1.0; f32[5]{apart}, beta=2.0; bf16[2, 3]{apart}, beta=0.5
			f16[4]{apart}, beta=1.0; f32[]{apart}, beta=2.0; f32[0, 3], beta=0.5
			f32[5]{= NaN +Inf -Inf 50 -50}, beta=1.0`),
	}.Entry(),
	opdef.Pointwise[thresholdArgs]{
		Schema: "threshold(Tensor self, Scalar threshold, Scalar value, bool inplace=False) -> Tensor",
		Names:  "threshold F.threshold",
		Traits: opdef.Traits{InPlace: true},
		NoBool: true,
		Doc: opdef.Doc{Summary: "Replaces elements up to a threshold",
			Formula: "self if self > threshold, else value", Source: "torch.nn.functional.threshold"},
		Error: elements.ExactError,
		Self:  func(a *thresholdArgs) *tensor.Tensor { return a.Self },
		F: func(a *thresholdArgs) func(float64) float64 {
			t, v := a.Self.DType.Round(a.Threshold.Float64()), a.Self.DType.Round(a.Value.Float64())
			return func(x float64) float64 { return elements.IfElse(x <= t, v, x) }
		},
		I: func(a *thresholdArgs) func(int64) int64 {
			t, v := tensor.WrapInt(a.Self.DType, a.Threshold.Int64()), tensor.WrapInt(a.Self.DType, a.Value.Int64())
			return func(x int64) int64 {
				if x <= t {
					return v
				}
				return x
			}
		},
		DF: func(a *thresholdArgs) func(x, y float64) float64 {
			t := a.Self.DType.Round(a.Threshold.Float64())
			return func(x, _ float64) float64 { return elements.IfElse(x <= t, 0, 1) }
		},
		Jumps: true,
		Certain: func(a *thresholdArgs) bool {
			t := a.Threshold.Float64()
			return a.Self.DType.Round(t) == t
		},
		Cases: opdef.Calls[thresholdArgs](`
			f64[3, 4]{apart 0.5}, 0.5, -2.0; f32[5]{apart 0.5}, 0.5, -2.0; bf16[2, 3]{apart 0.5}, 0.5, -2.0
			f16[4]{apart 0.5}, 0.5, -2.0; f32[]{apart 0.5}, 0.5, -2.0; f32[0, 3], 0.5, -2.0
			f32[5]{= NaN +Inf -Inf 50 -50}, 0.5, -2.0`),
	}.Entry(),
}

// The constants of selu as torch spells them.
const (
	seluAlpha = 1.6732632423543772848170429916717
	seluScale = 1.0507009873554804934193349852946
)

type softsignArgs struct{ Self *tensor.Tensor }

type geluArgs struct {
	Self        *tensor.Tensor
	Approximate string

	erf func(x float64) float64 // a mistake
}

func (a *geluArgs) function() opdef.Unary {
	if a.Approximate == "tanh" {
		return GELUTanh
	}
	return GELU
}

// mistakes are approximations of the error function, with an error of up to 2.5e-5 and 1.5e-7.
func (a *geluArgs) mistakes() []opdef.Mistake[*geluArgs] {
	var out []opdef.Mistake[*geluArgs]
	for _, f := range []struct {
		number       string // in Abramowitz and Stegun, Handbook of Mathematical Functions
		p            float64
		coefficients []float64
	}{
		{"7.1.25", 0.47047, []float64{0.3480242, -0.0958798, 0.7478556}},
		{"7.1.26", 0.3275911, []float64{0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429}},
	} {
		out = append(out, opdef.Mistake[*geluArgs]{
			Text: "the error function is approximated by Abramowitz and Stegun's formula " + f.number,
			Plan: func() (*geluArgs, error) {
				return &geluArgs{a.Self, "none", func(x float64) float64 {
					t, sum := 1/(1+f.p*math.Abs(x)), 0.0
					for _, c := range slices.Backward(f.coefficients) {
						sum = (sum + c) * t
					}
					return math.Copysign(1-sum*math.Exp(-x*x), x)
				}}, nil
			}})
	}
	return out
}

type leakyReLUArgs struct {
	Self          *tensor.Tensor
	NegativeSlope opdef.Scalar
	Inplace       bool
}

type eluArgs struct {
	Self    *tensor.Tensor
	Alpha   opdef.Scalar
	Inplace bool
}

type hardtanhArgs struct {
	Self           *tensor.Tensor
	MinVal, MaxVal opdef.Scalar
	Inplace        bool
}

type shrinkArgs struct {
	Self  *tensor.Tensor
	Lambd opdef.Scalar
}

type softplusArgs struct {
	Self            *tensor.Tensor
	Beta, Threshold opdef.Scalar
}

type thresholdArgs struct {
	Self             *tensor.Tensor
	Threshold, Value opdef.Scalar
	Inplace          bool
}

// flushedFactor is S of a product of x and a factor that underflows before the product does, in float32 or float64: a
// number that is nothing beside every normal result.
func flushedFactor(x, _ float64) float64 { return kernel.FiniteAbs(x) * 0x1p-105 }

// slopeAtNaN is a derivative that has value at NaN: kernels that compute several elements at a time choose otherwise
// there than those that compute one.
func slopeAtNaN[A any](value float64) func(*A) func(x, d float64) float64 {
	return func(*A) func(x, d float64) float64 { return atNaN(value) }
}

// atNaN gives value at NaN, and what is there otherwise.
func atNaN(value float64) func(x, is float64) float64 {
	return func(x, is float64) float64 { return elements.IfElse(x != x, value, is) }
}
