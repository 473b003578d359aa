package special

import (
	"math"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// besselOps are Bessel and Airy functions.
var besselOps = []*opdef.Entry{
	opdef.Unary{
		Name: "i0", Names: "i0 special.i0 Tensor.i0",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ElementwiseError,
		Doc: opdef.Doc{Summary: "Modified Bessel function of the first kind, order 0",
			Formula: "I0(self), NaN at infinity", Source: "torch.special.i0"},
		F:  atFinite(kernel.BesselI0),
		S:  besselScale,
		DF: func(x, _ float64) float64 { return atFinite(kernel.BesselI1)(x) },
		DS: func(x, _ float64) float64 { return besselScale(x, kernel.BesselI1(x)) },
	}.Entry(),
	opdef.Unary{
		Name: "special_i0e", Names: "special.i0e", Error: elements.ElementwiseError, Saved: true,
		Doc: opdef.Doc{Summary: "Scaled modified Bessel function of the first kind, order 0",
			Formula: "exp(-|self|) * I0(self)"},
		F:  kernel.BesselI0e,
		S:  besselScale,
		DF: func(x, y float64) float64 { return kernel.BesselI1e(x) - kernel.Sign(x)*y },
		DS: func(_, y float64) float64 { return 2 * math.Abs(y) },
	}.Entry(),
	opdef.Unary{
		Name: "special_i1", Names: "special.i1", Error: elements.ElementwiseError,
		Doc: opdef.Doc{Summary: "Modified Bessel function of the first kind, order 1",
			Formula: "I1(self), NaN at infinity"},
		F: atFinite(kernel.BesselI1),
		S: besselScale,
		DF: func(x, _ float64) float64 {
			if math.Abs(x) < 1e-8 {
				return 0.5
			}
			return kernel.BesselI0(x) - kernel.BesselI1(x)/x
		},
		DElse: halfAtNaN,
		DS:    func(x, _ float64) float64 { return 2 * kernel.FiniteAbs(kernel.BesselI0(x)) },
	}.Entry(),
	opdef.Unary{
		Name: "special_i1e", Names: "special.i1e", Error: elements.ElementwiseError,
		Doc: opdef.Doc{Summary: "Scaled modified Bessel function of the first kind, order 1",
			Formula: "exp(-|self|) * I1(self)"},
		F: kernel.BesselI1e,
		S: besselScale,
		DF: func(x, y float64) float64 {
			if math.Abs(x) < 1e-8 {
				return 0.5
			}
			return kernel.BesselI0e(x) - y*(kernel.Sign(x)+1/x)
		},
		DElse: halfAtNaN,
		DS:    func(x, y float64) float64 { return 2*kernel.BesselI0e(x) + math.Abs(y) },
	}.Entry(),
	noGradient("modified_bessel_i0", "Modified Bessel function of the first kind, order 0", "I0(self), NaN at infinity",
		atFinite(kernel.BesselI0), besselScale),
	noGradient("modified_bessel_i1", "Modified Bessel function of the first kind, order 1", "I1(self), NaN at infinity",
		atFinite(kernel.BesselI1), besselScale),
	noGradient("modified_bessel_k0", "Modified Bessel function of the second kind, order 0", "K0(self), NaN below 0",
		func(x float64) float64 { return math.Exp(-x) * kernel.BesselK0e(x) }, besselScale),
	noGradient("modified_bessel_k1", "Modified Bessel function of the second kind, order 1", "K1(self), NaN below 0",
		func(x float64) float64 { return math.Exp(-x) * kernel.BesselK1e(x) }, besselScale),
	noGradient("scaled_modified_bessel_k0", "Scaled modified Bessel function of the second kind, order 0",
		"exp(self) * K0(self), NaN below 0", kernel.BesselK0e, besselScale),
	noGradient("scaled_modified_bessel_k1", "Scaled modified Bessel function of the second kind, order 1",
		"exp(self) * K1(self), NaN below 0", kernel.BesselK1e, besselScale),
	besselWave("bessel_j0", "Bessel function of the first kind, order 0", "J0(self), NaN at infinity", math.J0,
		waveScale),
	besselWave("bessel_j1", "Bessel function of the first kind, order 1", "J1(self), NaN at infinity", math.J1,
		waveScale),
	besselWave("bessel_y0", "Bessel function of the second kind, order 0", "Y0(self), NaN below 0 and at infinity",
		math.Y0, waveScale),
	besselWave("bessel_y1", "Bessel function of the second kind, order 1", "Y1(self), NaN below 0 and at infinity",
		math.Y1, waveScale),
	noGradient("spherical_bessel_j0", "Spherical Bessel function of the first kind, order 0",
		"sin(self) / self, 1 at 0",
		func(x float64) float64 {
			switch {
			case x == 0:
				return 1
			case math.IsInf(x, 0):
				return 0
			}
			return kernel.Sin(x) / x
		}, func(_, _ float64) float64 { return 0 }),
	besselWave("airy_ai", "Airy function", "Ai(self), NaN at infinity", kernel.Airy, func(x, y float64) float64 {
		s := kernel.FiniteAbs(y)
		switch {
		case x < 0:
			s = 2 / (math.SqrtPi * math.Sqrt(math.Sqrt(-x)))
		case x < 2.1: // the difference of two power series
			s = 1
		}
		return (1 + math.Pow(math.Abs(x), 1.5)) * s
	}),
}

// waveScale is the amplitude of a Bessel function times its phase, which is
// rounded.
func waveScale(x, y float64) float64 {
	x = math.Abs(x)
	return max(kernel.FiniteAbs(y), kernel.FiniteAbs((1+x)*min(1, math.Sqrt(2/(math.Pi*x)))))
}

// besselScale: a polynomial is multiplied by an exponential and a root.
func besselScale(_, y float64) float64 { return 2 * kernel.FiniteAbs(y) }

// besselWave declares a function that oscillates, with its amplitude.
func besselWave(name, summary, formula string, f func(float64) float64, scale func(x, y float64) float64) *opdef.Entry {
	return opdef.Pointwise[opdef.UnaryArgs]{
		Schema: "special_" + name + "(Tensor self) -> Tensor", Names: "special." + name,
		Error: elements.ElementwiseError,
		Doc: opdef.Doc{Summary: summary, Formula: formula,
			Notes: "ATen's own kernel is exact to 2e-6 of the amplitude only, in float64 too; float64 results are " +
				"held to that."},
		Self: func(a *opdef.UnaryArgs) *tensor.Tensor { return a.Self },
		F:    func(*opdef.UnaryArgs) func(float64) float64 { return atFinite(f) },
		S: func(a *opdef.UnaryArgs) func(x, y float64) float64 {
			k := 1.0
			if a.Self.DType == tensor.Float64 {
				k = 0x1p29
			}
			return func(x, y float64) float64 { return k * kernel.FiniteAbs(scale(x, y)) }
		},
		Traits: opdef.Traits{NoGrad: "torch defines none for special." + name},
		Cases: opdef.Calls[opdef.UnaryArgs](`
			f64[3, 4]{0.1..20}; f32[5]{0.1..20}; f32[]; f32[0, 3]; i64[5]{-4..4}; bf16[5]{0.1..20}`),
	}.Entry()
}

// atFinite is f, with NaN at infinities as torch has it.
func atFinite(f func(float64) float64) func(float64) float64 {
	return func(x float64) float64 {
		if math.IsInf(x, 0) {
			return math.NaN()
		}
		return f(x)
	}
}

// noGradient declares torch.special.<name>, which torch has no gradient for.
func noGradient(name, summary, formula string, f func(float64) float64, scale func(x, y float64) float64) *opdef.Entry {
	return opdef.Unary{
		Name: "special_" + name, Names: "special." + name, Error: elements.ElementwiseError,
		Doc: opdef.Doc{Summary: summary, Formula: formula},
		F:   f, S: scale,
		Traits: opdef.Traits{NoGrad: "torch defines none for special." + name},
	}.Entry()
}

// halfAtNaN is the slope d at x, but 1/2 at NaN, as torch 1 has it, which asks whether |x| is large.
func halfAtNaN(x, d float64) float64 { return elements.IfElse(x != x, 0.5, d) }
