package kernel

import (
	"sync"

	"gonum.org/v1/gonum/dsp/fourier"
)

// plans keeps transforms by length; each is used by one goroutine at a time.
var plans sync.Map // int -> *sync.Pool

// FFT replaces x by its discrete Fourier transform, unscaled; inverse flips the
// sign of the exponent.
func FFT(x []complex128, inverse bool) {
	n := len(x)
	if n == 0 {
		return
	}
	p, ok := plans.Load(n)
	if !ok {
		p, _ = plans.LoadOrStore(n, &sync.Pool{New: func() any { return fourier.NewCmplxFFT(n) }})
	}
	pool := p.(*sync.Pool)
	t := pool.Get().(*fourier.CmplxFFT)
	if inverse {
		t.Sequence(x, x)
	} else {
		t.Coefficients(x, x)
	}
	pool.Put(t)
}
