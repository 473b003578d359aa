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

type istftArgs struct {
	Self                 *tensor.Tensor
	NFft                 int
	HopLength, WinLength *int
	Window               *tensor.Tensor
	Center, Normalized   bool
	Onesided             *bool
	Length               *int
	ReturnComplex        bool
}

// An overlapAdd is a call of istft with its arguments resolved.
type overlapAdd struct {
	*frames
	x, given   *tensor.Tensor // spectra and window, nil if absent
	freqs      int
	half       bool // only the first half of the spectrum is read
	start, end int  // of what is returned, in the signal of all frames
	envelope   []complex128
	pairs      bool // the input is real
	dt         tensor.DType
	shape      []int
}

func (a *istftArgs) plan() (*overlapAdd, error) {
	x := a.Self
	o := &overlapAdd{x: x, given: a.Window, pairs: !x.DType.IsComplex()}
	shape := x.Shape
	if o.pairs {
		if !x.DType.IsFloat() || x.Dim() < 1 || shape[x.Dim()-1] != 2 {
			return nil, opdef.Refuse("self", "want complex numbers, or a last dimension of their two parts, got %s",
				x.Meta())
		}
		shape = shape[:x.Dim()-1]
	}
	if len(shape) < 2 || len(shape) > 3 || x.Numel() == 0 {
		return nil, opdef.Refuse("self", "want frequencies and frames, after at most one other dimension, got shape %s",
			tensor.ShapeString(x.Shape))
	}
	f, err := newFrames(a.NFft, a.HopLength, a.WinLength, a.Window)
	if err != nil {
		return nil, err
	}
	o.frames, o.freqs, f.count = f, shape[len(shape)-2], shape[len(shape)-1]
	f.batch = tensor.Numel(shape) / (o.freqs * f.count)
	onesided := elements.OrElse(a.Onesided, o.freqs != a.NFft)
	want := a.NFft
	if onesided {
		want = a.NFft/2 + 1
	}
	switch {
	case o.freqs != want:
		return nil, opdef.Refuse("self", "want %d frequencies, got %d", want, o.freqs)
	case f.hop > f.given:
		return nil, opdef.Refuse("hop_length", "want a length from 1 to win_length = %d, got %d", f.given, f.hop)
	case a.ReturnComplex && onesided:
		return nil, opdef.Refuse("onesided", "a complex signal needs all frequencies")
	case !a.ReturnComplex && f.complex:
		return nil, opdef.Refuse("window", "a complex window needs return_complex=True")
	}
	o.half = !a.ReturnComplex
	if err := o.setEnvelope(a); err != nil {
		return nil, err
	}
	if o.dt, err = spectrumDType(x, a.Window); err != nil {
		return nil, err
	}
	if !a.ReturnComplex {
		o.dt = o.dt.Real()
	}
	o.shape = append(slices.Clone(shape[:len(shape)-2]), max(0, o.end-o.start))
	return o, nil
}

// setEnvelope finds what is returned of the signal, and the sum of the squares of the windows over it.
func (o *overlapAdd) setEnvelope(a *istftArgs) error {
	f := o.frames
	if a.Normalized {
		f.scale = math.Sqrt(float64(a.NFft))
	}
	total := a.NFft + f.hop*(f.count-1)
	o.end = total
	if a.Center {
		o.start, o.end = a.NFft/2, total-a.NFft/2
	}
	if a.Length != nil {
		o.end = o.start + *a.Length
	}
	o.envelope = tensor.Make[complex128](total)
	for t := range f.count {
		for k, w := range f.window {
			o.envelope[t*f.hop+k] += w * w
		}
	}
	for _, e := range o.envelope[min(o.start, total):max(min(o.end, total), min(o.start, total))] {
		if cmplx.Abs(e) < 1e-11 {
			return opdef.Refuse("window", "the squares of overlapping windows add to 0 somewhere")
		}
	}
	return nil
}

func (o *overlapAdd) spectrum() []complex128 {
	if o.pairs {
		return fromPairs(tensor.Data[float64](o.x))
	}
	return tensor.Data[complex128](o.x)
}

// load makes the signal of frame t of batch b in buf, not yet multiplied by the
// window.
func (o *overlapAdd) load(x []complex128, b, t int, buf []complex128) {
	n := o.n
	clear(buf)
	freqs := n
	if o.half {
		freqs = n/2 + 1
	}
	for f := range freqs {
		buf[f] = x[(b*o.freqs+f)*o.count+t] * complex(o.scale/float64(n), 0)
	}
	if o.half { // the other half mirrors the first; what mirrors itself is real
		for f := 1; f < (n+1)/2; f++ {
			buf[n-f] = cmplx.Conj(buf[f])
		}
		buf[0] = complex(real(buf[0]), 0)
		if n%2 == 0 {
			buf[n/2] = complex(real(buf[n/2]), 0)
		}
	}
	kernel.FFT(buf, true)
}

// kept is the part of the frame that starts at position at which is returned:
// the elements of the frame and where they go.
func (o *overlapAdd) kept(at int) (from, to, first int) {
	from, to = max(0, o.start-at), min(o.n, o.end-at)
	return from, max(from, to), at + from - o.start
}

func (o *overlapAdd) forward() ([]*tensor.Tensor, error) {
	x := o.spectrum()
	length := o.shape[len(o.shape)-1]
	out := tensor.Make[complex128](tensor.Numel(o.shape))
	o.each(func(b, t int, buf []complex128) {
		o.load(x, b, t, buf)
		from, to, first := o.kept(t * o.hop)
		for k := from; k < to; k++ {
			out[b*length+first+k-from] += buf[k] * o.window[k] / o.envelope[t*o.hop+k]
		}
	})
	return elements.Result(tensorOf(o.dt, o.shape, out))
}

func (o *overlapAdd) backward(g *opdef.Grad) (opdef.Grads, error) {
	x, up, y := o.spectrum(), tensor.Data[complex128](g.Out[0]), tensor.Data[complex128](g.Outs[0])
	length := o.shape[len(o.shape)-1]
	gx := tensor.Make[complex128](len(x))
	perSignal := tensor.Make[[]complex128](o.batch)
	o.each(func(b, t int, buf []complex128) {
		if perSignal[b] == nil {
			perSignal[b] = tensor.Make[complex128](o.n)
		}
		from, to, first := o.kept(t * o.hop)
		o.load(x, b, t, buf)
		for k := range buf {
			frame := buf[k]
			if buf[k] = 0; k < from || k >= to {
				continue
			}
			// The result is num/envelope, num linear and envelope quadratic in the
			// window.
			at := b*length + first + k - from
			v := up[at] / cmplx.Conj(o.envelope[t*o.hop+k])
			perSignal[b][k] += v * cmplx.Conj(frame-2*o.window[k]*y[at])
			buf[k] = v * cmplx.Conj(o.window[k])
			if o.half {
				buf[k] = complex(real(buf[k]), 0)
			}
		}
		kernel.FFT(buf, false)
		for f := range o.freqs {
			v := buf[f] * complex(o.scale/float64(o.n), 0)
			switch {
			case o.half && f > o.n/2:
				v = 0
			case o.half && f > 0 && 2*f != o.n: // stands for its mirror image too
				v *= 2
			}
			gx[(b*o.freqs+f)*o.count+t] = v
		}
	})
	gr := opdef.Grads{}
	if o.pairs {
		gr.Set("self", tensor.New(o.x.DType, o.x.Shape, pairsOf(gx)))
	} else {
		gr.Set("self", tensor.New(o.x.DType, o.x.Shape, gx))
	}
	if o.given != nil {
		gr.Set("window", o.windowGrad(o.given, sumOver(perSignal, o.n)))
	}
	return gr, nil
}

// magnitudes: every element of a frame is made of all of its frequencies.
func (o *overlapAdd) magnitudes([]*tensor.Tensor) []*tensor.Tensor {
	x := o.spectrum()
	length := o.shape[len(o.shape)-1]
	out := tensor.Make[float64](tensor.Numel(o.shape))
	o.each(func(b, t int, _ []complex128) {
		sum := 0.0
		for f := range o.freqs {
			sum += cmplx.Abs(x[(b*o.freqs+f)*o.count+t])
		}
		if sum *= o.scale / float64(o.n); o.half {
			sum *= 2
		}
		from, to, first := o.kept(t * o.hop)
		for k := from; k < to; k++ {
			out[b*length+first+k-from] += sum * cmplx.Abs(o.window[k]/o.envelope[t*o.hop+k])
		}
	})
	return []*tensor.Tensor{tensor.New(tensor.Float64, o.shape, out)}
}

var istftCases = opdef.Calls[istftArgs](`
	c128[4, 5], 6; f64[2, 4, 3, 2], 6, hop_length=2, win_length=5, window=f64[5]{0.5..1}, normalized=True
	f32[2, 5, 4, 2], 5, hop_length=2, center=False, onesided=False
	c128[5, 4], 5, hop_length=2, window=c128[5]{0.5..1}, center=False, return_complex=True
	c128[2, 6, 3], 6, hop_length=2, window=f64[6]{0.5..1}, length=5, return_complex=True
	f64[2, 4, 3, 2], 6, hop_length=2, center=False, length=11`)
