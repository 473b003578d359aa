package spectral

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// stftOps are short-time Fourier transforms. They are no compositions: errors of a
// fast transform are bounded by the norm of a frame, which running error analysis,
// element by element, could only overestimate.
var stftOps = []*opdef.Entry{
	stft,
	opdef.Overload[stftArgs, atenStftArgs]{ // of the dispatcher, from frames that the caller has made
		Schema: "stft.frames(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, " +
			"Tensor? window=None, bool normalized=False, bool? onesided=None, bool? return_complex=None, " +
			"bool? align_to_window=None) -> Tensor",
		Names: "torch.ops.aten.stft", Of: stft,
		To: func(a *atenStftArgs) (*stftArgs, error) {
			return &stftArgs{a.Self, a.NFft, a.HopLength, a.WinLength, a.Window, false, "reflect", a.Normalized,
				a.Onesided, a.ReturnComplex, a.AlignToWindow}, nil
		},
		From: func(a *stftArgs) *atenStftArgs {
			if a.Center {
				return nil
			}
			return &atenStftArgs{a.Self, a.NFft, a.HopLength, a.WinLength, a.Window, a.Normalized, a.Onesided,
				a.ReturnComplex, a.AlignToWindow}
		},
	}.Entry(),
	opdef.Planned[*istftArgs, *overlapAdd]{
		Schema: "istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, " +
			"bool center=True, bool normalized=False, " +
			"bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor",
		Names: "istft functional.istft Tensor.istft",
		Doc: opdef.Doc{Summary: "Inverse of the short-time Fourier transform",
			Formula: "out[s] = sum_t window[k] * ifft(input[:, t])[k] / sum_t window[k]**2, k = s - t*hop_length",
			Notes: "(B, n_fft/2+1, T) gives (B, L); the input may be complex or have a last dimension of real and " +
				"imaginary parts. With center n_fft/2 elements at both ends are cut. " +
				"The sum of squares must not vanish."},
		Error: opdef.Error{Class: opdef.Normwise},
		Traits: opdef.Traits{
			Composite: true, LastView: true,
		},
		Plan:   (*istftArgs).plan,
		Kernel: (*overlapAdd).forward, Grad: (*overlapAdd).backward,
		Bounds: opdef.Bounds[*overlapAdd]{
			Scale: (*overlapAdd).magnitudes,
			Terms: func(o *overlapAdd) int { return o.n },
		},
		Cases: istftCases,
	}.Entry(),
}

// stft computes the Fourier transform of overlapping frames.
var stft = opdef.Planned[*stftArgs, *spectrogram]{
	Schema: "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool " +
		"center=True, str pad_mode='reflect', " +
		"bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> " +
		"Tensor",
	Names: "stft functional.stft Tensor.stft torch.ops.aten.stft.center",
	Doc: opdef.Doc{Summary: "Short-time Fourier transform",
		Formula: "out[w, t] = sum_k window[k] * input[t*hop_length + k] * exp(-2*pi*i*k*w/n_fft)",
		Notes: "(L) or (B, L) gives (B, n_fft/2+1, T), or n_fft frequencies without onesided. With center input " +
			"is padded by n_fft/2 on both sides. " +
			"A window shorter than n_fft is padded with zeros on both sides; with align_to_window so is the input, " +
			"and the window given, not the padded one, begins at t*hop_length. Without return_complex the result " +
			"has a last dimension of real and imaginary parts."},
	Error: opdef.Error{Class: opdef.Normwise},
	Traits: opdef.Traits{
		Composite: true, LastView: true,
	},
	Plan:   (*stftArgs).plan,
	Kernel: (*spectrogram).forward, Grad: (*spectrogram).backward,
	Bounds: opdef.Bounds[*spectrogram]{
		Scale: (*spectrogram).magnitudes,
		Terms: func(s *spectrogram) int { return s.n },
	},
	Cases: stftCases,
}.Entry()

type atenStftArgs struct {
	Self                    *tensor.Tensor
	NFft                    int
	HopLength, WinLength    *int
	Window                  *tensor.Tensor
	Normalized              bool
	Onesided, ReturnComplex *bool
	AlignToWindow           *bool
}

type stftArgs struct {
	Self                    *tensor.Tensor
	NFft                    int
	HopLength, WinLength    *int
	Window                  *tensor.Tensor
	Center                  bool
	PadMode                 string
	Normalized              bool
	Onesided, ReturnComplex *bool
	AlignToWindow           *bool
}

// frames describes how a signal is cut into overlapping frames of n elements.
type frames struct {
	n, hop  int
	window  []complex128 // n elements
	left    int          // zeros before the window given
	given   int          // elements of the window given
	batch   int
	count   int // frames per signal
	scale   float64
	complex bool // the window is complex
}

// newFrames checks what stft and istft have in common.
func newFrames(n int, hop, win *int, w *tensor.Tensor) (*frames, error) {
	f := &frames{n: n, hop: elements.OrElse(hop, n/4), given: elements.OrElse(win, n), scale: 1}
	switch {
	case n < 1:
		return nil, opdef.Refuse("n_fft", "want a positive length, got %d", n)
	case f.hop < 1:
		return nil, opdef.Refuse("hop_length", "want a positive length, got %d", f.hop)
	case f.given < 1 || f.given > n:
		return nil, opdef.Refuse("win_length", "want a length from 1 to n_fft = %d, got %d", n, f.given)
	case w != nil && (w.Dim() != 1 || w.Shape[0] != f.given):
		return nil, opdef.Refuse("window", "want shape [%d], got %s", f.given, tensor.ShapeString(w.Shape))
	case w != nil && !w.DType.IsFloat() && !w.DType.IsComplex():
		return nil, opdef.Refuse("window", "want a floating or complex tensor, got %s", w.DType)
	}
	f.left = (n - f.given) / 2
	f.window = tensor.Make[complex128](n)
	for i := range f.given {
		f.window[f.left+i] = 1
	}
	if w != nil {
		copy(f.window[f.left:], tensor.Data[complex128](w))
		f.complex = w.DType.IsComplex()
	}
	return f, nil
}

// spectrumDType is the complex dtype a signal and its window are transformed
// in; bfloat16 has none.
func spectrumDType(x, window *tensor.Tensor) (tensor.DType, error) {
	dt := x.DType.Real()
	if window != nil {
		dt = tensor.Promote(dt, window.DType.Real())
	}
	if dt == tensor.Invalid || dt.Complex().Real() != dt {
		return dt, opdef.Refuse("self", "no complex dtype holds the spectrum of dtype %s", x.DType)
	}
	return dt.Complex(), nil
}

// each calls do for every frame of every signal, in parallel over signals.
func (f *frames) each(do func(signal, frame int, buf []complex128)) {
	tensor.Parallel(f.batch, 1, func(lo, hi int) {
		buf := tensor.Make[complex128](f.n)
		for b := lo; b < hi; b++ {
			for t := range f.count {
				do(b, t, buf)
			}
		}
	})
}

// windowGrad is the gradient of the window given from that of the padded one.
func (f *frames) windowGrad(w *tensor.Tensor, g []complex128) *tensor.Tensor {
	return tensorOf(w.DType, w.Shape, g[f.left:f.left+f.given])
}

// tensorOf is the tensor of complex values, of their real parts if dt is real.
func tensorOf(dt tensor.DType, shape []int, v []complex128) *tensor.Tensor {
	if dt.IsComplex() {
		return tensor.New(dt, shape, slices.Clone(v))
	}
	re := make([]float64, len(v))
	for i, x := range v {
		re[i] = real(x)
	}
	return tensor.New(dt, shape, re)
}

// pairsOf splits complex values into real and imaginary parts.
func pairsOf(v []complex128) []float64 {
	out := tensor.Make[float64](2 * len(v))
	for i, x := range v {
		out[2*i], out[2*i+1] = real(x), imag(x)
	}
	return out
}

// fromPairs joins real and imaginary parts.
func fromPairs(v []float64) []complex128 {
	out := tensor.Make[complex128](len(v) / 2)
	for i := range out {
		out[i] = complex(v[2*i], v[2*i+1])
	}
	return out
}

// A spectrogram is a call of stft with its arguments resolved.
type spectrogram struct {
	*frames
	x, given *tensor.Tensor // signals and window, nil if absent
	length   int            // of a signal
	source   []int          // element of the signal at each position of the padded one, -1 for zero
	freqs    int
	dt       tensor.DType // complex dtype of the result
	pairs    bool         // the result is real
	shape    []int
}

func (a *stftArgs) plan() (*spectrogram, error) {
	x := a.Self
	if !x.DType.IsFloat() && !x.DType.IsComplex() {
		return nil, opdef.Refuse("self", "want a floating or complex tensor, got %s", x.DType)
	}
	if x.Dim() < 1 || x.Dim() > 2 {
		return nil, opdef.Refuse("self", "want 1 or 2 dimensions, got shape %s", tensor.ShapeString(x.Shape))
	}
	f, err := newFrames(a.NFft, a.HopLength, a.WinLength, a.Window)
	if err != nil {
		return nil, err
	}
	s := &spectrogram{frames: f, x: x, given: a.Window, length: x.Shape[x.Dim()-1]}
	f.batch = x.Numel() / max(s.length, 1)
	if a.Center && a.AlignToWindow != nil {
		return nil, opdef.Refuse("align_to_window", "want None with center")
	}
	pad := 0
	if a.Center {
		pad = a.NFft / 2
	}
	if s.source, err = paddedSource(s.length, pad, a.PadMode); err != nil {
		return nil, err
	}
	if a.NFft > len(s.source) {
		return nil, opdef.Refuse("n_fft", "want a length from 1 to that of the signal, %d, got %d",
			len(s.source), a.NFft)
	}
	if elements.OrElse(a.AlignToWindow, false) {
		s.source = slices.Concat(zeros(f.left), s.source, zeros(a.NFft-f.given-f.left))
	}
	f.count = 1 + (len(s.source)-a.NFft)/f.hop
	isComplex := x.DType.IsComplex() || f.complex
	if s.dt, err = spectrumDType(x, a.Window); err != nil {
		return nil, err
	}
	onesided := elements.OrElse(a.Onesided, !isComplex)
	if onesided && isComplex {
		return nil, opdef.Refuse("onesided", "complex input or window has no symmetric spectrum to halve")
	}
	s.pairs = !elements.OrElse(a.ReturnComplex, isComplex)
	if s.freqs = a.NFft; onesided {
		s.freqs = a.NFft/2 + 1
	}
	if a.Normalized {
		f.scale = 1 / math.Sqrt(float64(a.NFft))
	}
	s.shape = append(slices.Clone(x.Shape[:x.Dim()-1]), s.freqs, f.count)
	return s, nil
}

// zeros are the sources of n elements that are zero.
func zeros(n int) []int { return slices.Repeat([]int{-1}, n) }

// paddedSource tells which element of a signal of n is at each position of the
// padded one, -1 for none.
func paddedSource(n, pad int, mode string) ([]int, error) {
	var at func(k int) int
	switch mode {
	case "constant":
		at = func(int) int { return -1 }
	case "reflect":
		if pad > 0 && pad >= n {
			return nil, opdef.Refuse("self", "a signal of %d elements cannot be reflected by n_fft/2 = %d", n, pad)
		}
		at = func(k int) int { return max(-k, min(k, 2*(n-1)-k)) }
	case "replicate":
		at = func(k int) int { return min(max(k, 0), n-1) }
	case "circular":
		if pad > n {
			return nil, opdef.Refuse("self", "a signal of %d elements cannot be continued by n_fft/2 = %d", n, pad)
		}
		at = func(k int) int { return (k + n) % n }
	default:
		return nil, opdef.Refuse("pad_mode", "want constant, reflect, replicate or circular, got %q", mode)
	}
	src := tensor.Make[int](n + 2*pad)
	for i := range src {
		if src[i] = i - pad; i < pad || i >= pad+n {
			src[i] = at(i - pad)
		}
	}
	return src, nil
}

// load fills buf with frame t of signal b of x, not yet multiplied by the
// window.
func (s *spectrogram) load(x []complex128, b, t int, buf []complex128) {
	for k, src := range s.source[t*s.hop : t*s.hop+s.n] {
		if buf[k] = 0; src >= 0 {
			buf[k] = x[b*s.length+src]
		}
	}
}

func (s *spectrogram) forward() ([]*tensor.Tensor, error) {
	x := tensor.Data[complex128](s.x)
	out := tensor.Make[complex128](tensor.Numel(s.shape))
	s.each(func(b, t int, buf []complex128) {
		s.load(x, b, t, buf)
		for k, w := range s.window {
			buf[k] *= w * complex(s.scale, 0)
		}
		kernel.FFT(buf, false)
		for f := range s.freqs {
			out[(b*s.freqs+f)*s.count+t] = buf[f]
		}
	})
	if s.pairs {
		return elements.Result(tensor.New(s.dt.Real(), append(slices.Clone(s.shape), 2), pairsOf(out)))
	}
	return elements.Result(tensor.New(s.dt, s.shape, out))
}

func (s *spectrogram) backward(g *opdef.Grad) (opdef.Grads, error) {
	var up []complex128
	if s.pairs {
		up = fromPairs(tensor.Data[float64](g.Out[0]))
	} else {
		up = tensor.Data[complex128](g.Out[0])
	}
	x := tensor.Data[complex128](s.x)
	gx := tensor.Make[complex128](s.x.Numel())
	perSignal := tensor.Make[[]complex128](s.batch)
	s.each(func(b, t int, buf []complex128) {
		clear(buf)
		for f := range s.freqs {
			buf[f] = up[(b*s.freqs+f)*s.count+t]
		}
		kernel.FFT(buf, true)
		if perSignal[b] == nil {
			perSignal[b] = tensor.Make[complex128](s.n)
		}
		for k, src := range s.source[t*s.hop : t*s.hop+s.n] {
			if src < 0 {
				continue
			}
			v := buf[k] * complex(s.scale, 0)
			perSignal[b][k] += v * cmplx.Conj(x[b*s.length+src])
			gx[b*s.length+src] += v * cmplx.Conj(s.window[k])
		}
	})
	gr := opdef.Grads{"self": {tensorOf(s.x.DType, s.x.Shape, gx)}}
	if s.given != nil {
		gr.Set("window", s.windowGrad(s.given, sumOver(perSignal, s.n)))
	}
	return gr, nil
}

// sumOver adds the rows that there are.
func sumOver(rows [][]complex128, n int) []complex128 {
	sum := tensor.Make[complex128](n)
	for _, r := range rows {
		for k, v := range r {
			sum[k] += v
		}
	}
	return sum
}

// magnitudes: the elements of a frame's spectrum are made of the same magnitudes.
func (s *spectrogram) magnitudes(outs []*tensor.Tensor) []*tensor.Tensor {
	x := tensor.Data[complex128](s.x)
	sums := tensor.Make[float64](s.batch * s.count)
	s.each(func(b, t int, buf []complex128) {
		s.load(x, b, t, buf)
		for k, w := range s.window {
			sums[b*s.count+t] += cmplx.Abs(buf[k]*w) * s.scale
		}
	})
	shape := slices.Concat(s.shape[:len(s.shape)-2], []int{1, s.count})
	t := tensor.New(tensor.Float64, shape, sums)
	if s.pairs {
		t = t.Unsqueeze(t.Dim())
	}
	return []*tensor.Tensor{opdef.Must(t.Expand(outs[0].Shape...))}
}

var stftCases = opdef.Calls[stftArgs](`
	f64[12], 6, return_complex=True
	f64[2, 11], 6, hop_length=2, win_length=5, window=f64[5]{0.5..1}, pad_mode='constant', normalized=True,
	return_complex=True; f32[2, 9], 5, hop_length=2, center=False, onesided=False, return_complex=False
	f64[9], 4, hop_length=2, window=c128[4], pad_mode='circular'; c128[2, 8], 4, hop_length=2, pad_mode='replicate'
	f64[2, 9], 5, hop_length=5, win_length=2, window=f64[2]{0.5..1}, center=False, return_complex=False
	f64[2, 9], 8, hop_length=2, win_length=5, window=f64[5]{0.5..1}, center=False, return_complex=True,
	align_to_window=True`)
