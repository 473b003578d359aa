package kernel

import (
	"math"
	"math/bits"
	"math/cmplx"
	"sync"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/optool/optool/internal/quota"
)

// A transform computes the unscaled discrete Fourier transform of sequences of
// one length; it is used by one goroutine at a time.
type transform interface {
	// Coefficients stores the transform of seq in dst, Sequence that with the
	// other sign of the exponent; dst may be seq.
	Coefficients(dst, seq []complex128) []complex128
	Sequence(dst, seq []complex128) []complex128
}

// plans keeps transforms by length.
var plans sync.Map // int -> *sync.Pool

// FFT replaces x by its discrete Fourier transform, unscaled; inverse flips the
// sign of the exponent. It takes O(n log n) for every length.
func FFT(x []complex128, inverse bool) {
	n := len(x)
	if n == 0 {
		return
	}
	p, ok := plans.Load(n)
	if !ok {
		p, _ = plans.LoadOrStore(n, &sync.Pool{New: func() any { return newTransform(n) }})
	}
	pool := p.(*sync.Pool)
	t := pool.Get().(transform)
	if inverse {
		t.Sequence(x, x)
	} else {
		t.Coefficients(x, x)
	}
	pool.Put(t)
}

// Limits of gonum's FFTPACK: its work grows with the prime factors, and it holds
// 13 of them (4 counts as one).
const (
	largestPrime  = 64
	largestFactor = 13
)

func newTransform(n int) transform {
	prime, count := factors(n)
	if prime <= largestPrime && count <= largestFactor {
		return fourier.NewCmplxFFT(n)
	}
	return newChirp(n)
}

// factors returns the largest prime factor of n and the number of factors, two
// factors 2 counted as one.
func factors(n int) (largest, count int) {
	twos := bits.TrailingZeros(uint(n))
	n >>= twos
	if count = (twos + 1) / 2; twos > 0 {
		largest = 2
	}
	for p := 3; p*p <= n; p += 2 {
		for n%p == 0 {
			n, largest, count = n/p, p, count+1
		}
	}
	if n > 1 {
		largest, count = n, count+1
	}
	return largest, count
}

// A chirp is a transform of any length n as a convolution with a chirp
// exp(i*pi*k*k/n), which transforms of a power of two compute (Bluestein).
type chirp struct {
	w        []complex128 // exp(-i*pi*k*k/n), k < n
	spectrum []complex128 // of the chirp that is convolved with, over its length
	buf      []complex128
	fft      *fourier.CmplxFFT
}

func newChirp(n int) *chirp {
	m := 1 << bits.Len(uint(2*n-2)) // at least 2n-1
	c := &chirp{w: quota.Make[complex128](n), spectrum: quota.Make[complex128](m), buf: quota.Make[complex128](m),
		fft: fourier.NewCmplxFFT(m)}
	sq := 0 // k*k mod 2n: the angle stays exact
	for k := range c.w {
		sin, cos := math.Sincos(math.Pi * float64(sq) / float64(n))
		c.w[k] = complex(cos, -sin)
		sq = (sq + 2*k + 1) % (2 * n)
		c.spectrum[k] = complex(cos/float64(m), sin/float64(m))
		if k > 0 {
			c.spectrum[m-k] = c.spectrum[k]
		}
	}
	c.fft.Coefficients(c.spectrum, c.spectrum)
	return c
}

func (c *chirp) Coefficients(dst, seq []complex128) []complex128 {
	for k, w := range c.w {
		c.buf[k] = seq[k] * w
	}
	clear(c.buf[len(c.w):])
	c.fft.Coefficients(c.buf, c.buf)
	for k, s := range c.spectrum {
		c.buf[k] *= s
	}
	c.fft.Sequence(c.buf, c.buf)
	for k, w := range c.w {
		dst[k] = c.buf[k] * w
	}
	return dst
}

// Sequence is the conjugate of the transform of the conjugate.
func (c *chirp) Sequence(dst, seq []complex128) []complex128 {
	for k, x := range seq {
		dst[k] = cmplx.Conj(x)
	}
	c.Coefficients(dst, dst)
	for k, x := range dst {
		dst[k] = cmplx.Conj(x)
	}
	return dst
}
