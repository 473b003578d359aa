package timed

import (
	"context"
	"runtime"
	"sync"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/timing"
)

// Peaks are the most that what is measured can reach, by dtype, measured when they are
// first asked for.
type Peaks struct {
	Given   reports.Peak                             // wins over what is measured
	Measure func(dtype string) (reports.Peak, error) // nil: only what is given

	measured map[string]reports.Peak
}

// Of is the peak for calls of a dtype.
func (p *Peaks) Of(dtype string) (reports.Peak, error) {
	peak, ok := p.measured[dtype]
	if !ok && p.Measure != nil {
		var err error
		if peak, err = p.Measure(dtype); err != nil {
			return peak, err
		}
		if p.measured == nil {
			p.measured = map[string]reports.Peak{}
		}
		p.measured[dtype] = peak
	}
	if p.Given.Bandwidth > 0 {
		peak.Bandwidth = p.Given.Bandwidth
	}
	if p.Given.Flops > 0 {
		peak.Flops = p.Given.Flops
	}
	return peak, nil
}

// Known reports whether there are any.
func (p *Peaks) Known() bool { return p.Measure != nil || p.Given != (reports.Peak{}) }

// ReferencePeak is what the reference can reach on this machine: copies that do
// not fit into the caches, on all processors, read and written bytes counted, and
// the float64 product of matrices that it uses.
func ReferencePeak(ctx context.Context, evict *timing.Evictor) (reports.Peak, error) {
	const atMost = 2 * time.Second
	n := 4 * timing.CacheSize()
	src, dst := make([]byte, n), make([]byte, n)
	for i := range src {
		src[i] = byte(i)
	}
	workers := runtime.GOMAXPROCS(0)
	copies := func() error {
		var wg sync.WaitGroup
		for w := range workers {
			lo, hi := n/workers*w, n/workers*(w+1)
			wg.Go(func() { copy(dst[lo:hi], src[lo:hi]) })
		}
		wg.Wait()
		return nil
	}
	const side = 768
	m := func() blas64.General {
		g := blas64.General{Rows: side, Cols: side, Stride: side, Data: make([]float64, side*side)}
		for i := range g.Data {
			g.Data[i] = float64(i % 7)
		}
		return g
	}
	a, b, c := m(), m(), m()
	product := func() error {
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, a, b, 0, c)
		return nil
	}
	copied, calm, err := timing.Fastest(ctx, &timing.HostFunc{Run: copies, Caches: evict}, timing.Hot, atMost)
	if err != nil {
		return reports.Peak{}, err
	}
	multiplied, calmToo, err := timing.Fastest(ctx, &timing.HostFunc{Run: product, Caches: evict}, timing.Hot, atMost)
	return reports.Peak{
		Bandwidth: 2 * float64(n) / copied.Seconds(), Flops: 2 * side * side * side / multiplied.Seconds(),
		Busy: !calm || !calmToo,
	}, err
}
