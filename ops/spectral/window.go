package spectral

import (
	"math"

	"github.com/optool/optool/ops/creation"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// windowOps are window functions for spectra and the frequencies of those.
var windowOps = []*opdef.Entry{
	windowOp("bartlett_window", "", "Triangular window", "1 - |2*n/N - 1|",
		func(*windowArgs) window {
			return window{func(t float64) float64 { return 1 - math.Abs(2*t-1) }, func(float64) float64 { return 1 }}
		}),
	windowOp("hann_window", "", "Hann window", "(1 - cos(2*pi*n/N)) / 2",
		func(*windowArgs) window { return cosines(0.5, -0.5, 0) }),
	windowOp("blackman_window", "", "Blackman window", "0.42 - 0.5*cos(2*pi*n/N) + 0.08*cos(4*pi*n/N)",
		func(*windowArgs) window { return cosines(0.42, -0.5, 0.08) }),
	windowOp("hamming_window", "float alpha=0.54, float beta=0.46, ", "Hamming window", "alpha - beta*cos(2*pi*n/N)",
		func(a *hammingArgs) window { return cosines(a.Alpha, -a.Beta, 0) }),
	windowOp("kaiser_window", "float beta=12.0, ", "Kaiser window", "I0(beta*sqrt(1 - (2*n/N - 1)**2)) / I0(beta)",
		kaiser),
	frequencies("fftfreq", "Frequencies of the elements of a discrete Fourier transform",
		"[0, 1, ..., (n-1)//2, -(n//2), ..., -1] / (n*d)", false),
	frequencies("rfftfreq", "Frequencies of the elements of a discrete Fourier transform of real numbers",
		"[0, 1, ..., n//2] / (n*d)", true),
}

type (
	windowArgs struct {
		WindowLength int
		Periodic     bool
		Dtype        *tensor.DType
	}
	hammingArgs struct {
		windowArgs
		Alpha, Beta float64
	}
	kaiserArgs struct {
		windowArgs
		Beta float64
	}
	frequencyArgs struct {
		N     int
		D     float64
		Dtype *tensor.DType
	}
)

// A window is a function of the position n/N in [0, 1], and its scale: the sum
// of the magnitudes of its terms.
type window struct{ at, scale func(t float64) float64 }

// cosines is a + b*cos(2*pi*t) + c*cos(4*pi*t).
func cosines(a, b, c float64) window {
	s := math.Abs(a) + 2*math.Pi*(math.Abs(b)+2*math.Abs(c)) // the angles are rounded
	return window{
		func(t float64) float64 { return a + b*math.Cos(2*math.Pi*t) + c*math.Cos(4*math.Pi*t) },
		func(float64) float64 { return s },
	}
}

func kaiser(a *kaiserArgs) window {
	at := func(t float64) (z, y float64) {
		z = a.Beta * math.Sqrt(max(0, 4*t*(1-t)))
		return z, kernel.BesselI0e(z) / kernel.BesselI0e(a.Beta) * math.Exp(math.Abs(z)-math.Abs(a.Beta))
	}
	return window{
		func(t float64) float64 { _, y := at(t); return y },
		func(t float64) float64 { // what is under the root is rounded
			z, y := at(t)
			return y * (1 + math.Abs(a.Beta) + kernel.FiniteAbs(a.Beta*a.Beta/z))
		},
	}
}

func (a *windowArgs) window() *windowArgs { return a }

// floatingDType is the dtype of a created floating tensor.
func floatingDType(dt *tensor.DType) (tensor.DType, error) {
	switch {
	case dt == nil:
		return tensor.DefaultDType, nil
	case !dt.IsFloat():
		return *dt, opdef.Refuse("dtype", "want a floating dtype, got %s", *dt)
	}
	return *dt, nil
}

// sample evaluates f at the positions of the window; a window of one element
// is 1.
func (a *windowArgs) sample(f func(t float64) float64) (*tensor.Tensor, error) {
	dt, err := floatingDType(a.Dtype)
	if err != nil {
		return nil, err
	}
	if a.WindowLength < 0 {
		return nil, opdef.Refuse("window_length", "want a length that is not negative, got %d", a.WindowLength)
	}
	v := tensor.Make[float64](a.WindowLength)
	n := a.WindowLength
	if !a.Periodic {
		n--
	}
	for i := range v {
		if v[i] = 1; len(v) > 1 {
			v[i] = f(float64(i) / float64(n))
		}
	}
	return tensor.New(dt, []int{len(v)}, v), nil
}

// windowOp declares torch.<name>; params are further parameters.
func windowOp[A any, P interface {
	*A
	window() *windowArgs
}](name, params, summary, formula string, f func(a *A) window) *opdef.Entry {
	return opdef.Op[A]{
		Schema: name + "(int window_length, bool periodic=True, " + params + "*, dtype? dtype=None" +
			creation.OptionParams,
		Names: name,
		Doc: opdef.Doc{Summary: summary, Formula: formula,
			Notes: "N is window_length, one less if not periodic. The only element of a window of length 1 is 1."},
		Error:  elements.ElementwiseError,
		Traits: opdef.Traits{NoGrad: elements.NoDifferentiableArgument},
		Kernel: func(a *A) ([]*tensor.Tensor, error) {
			t, err := P(a).window().sample(f(a).at)
			return []*tensor.Tensor{t}, err
		},
		Bounds: opdef.Bounds[*A]{
			Scale: func(a *A, _ []*tensor.Tensor) []*tensor.Tensor {
				return []*tensor.Tensor{opdef.Must(P(a).window().sample(f(a).scale)).WithDType(tensor.Float64)}
			},
		},
		Cases: opdef.Calls[A](`
			8; 8, periodic=False; 7, dtype=f64; 5, periodic=False, dtype=bf16; 1; 0; 2, periodic=False, dtype=f64`),
	}.Entry()
}

// frequencies declares torch.fft.<name>: of half a spectrum or of all of it.
func frequencies(name, summary, formula string, half bool) *opdef.Entry {
	return opdef.Op[frequencyArgs]{
		Schema: "fft_" + name + "(int n, float d=1.0, *, dtype? dtype=None" + creation.OptionParams,
		Names:  "fft." + name,
		Doc:    opdef.Doc{Summary: summary, Formula: formula},
		Error:  opdef.Error{Class: opdef.Rounded, ULPs: 2},
		Traits: opdef.Traits{NoGrad: elements.NoDifferentiableArgument},
		Kernel: func(a *frequencyArgs) ([]*tensor.Tensor, error) {
			dt, err := floatingDType(a.Dtype)
			if err != nil {
				return nil, err
			}
			if a.N < 0 {
				return nil, opdef.Refuse("n", "want a length that is not negative, got %d", a.N)
			}
			n := a.N
			if half {
				n = a.N/2 + 1
			}
			v := tensor.Make[float64](n)
			for i := range v {
				k := i
				if !half && i >= (n+1)/2 {
					k -= n
				}
				v[i] = float64(k) / (float64(a.N) * a.D)
			}
			return elements.Result(tensor.New(dt, []int{n}, v))
		},
		Cases: opdef.Calls[frequencyArgs](`5; 6, d=0.5, dtype=f64; 2; 8, d=2.0`),
	}.Entry()
}
