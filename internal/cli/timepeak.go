package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/timing"
)

// peaks are the peaks of what is measured, by dtype, measured when they are
// first asked for.
type peaks struct {
	given    reports.Peak // by flags, which win
	measured map[string]reports.Peak
	measure  func(dtype string) (reports.Peak, error) // nil: only what is given
}

// of is the peak for calls of a dtype.
func (p *peaks) of(dtype string) (reports.Peak, error) {
	peak, ok := p.measured[dtype]
	if !ok && p.measure != nil {
		var err error
		if peak, err = p.measure(dtype); err != nil {
			return peak, err
		}
		p.measured[dtype] = peak
	}
	if p.given.Bandwidth > 0 {
		peak.Bandwidth = p.given.Bandwidth
	}
	if p.given.Flops > 0 {
		peak.Flops = p.given.Flops
	}
	return peak, nil
}

// known reports whether there are any.
func (p *peaks) known() bool { return p.measure != nil || p.given != (reports.Peak{}) }

// calibrate measures the clock, and has the peaks of the device or, without one,
// of the reference measured.
func (t *timer) calibrate(ctx context.Context) error {
	w := t.json.text()
	overhead, resolution := timing.ClockOverhead()
	fmt.Fprintf(w, "host clock: reading it adds %s to a run, it ticks every %s\nlast-level cache: %d MiB\n",
		timing.Format(overhead), timing.Format(resolution), timing.CacheSize()>>20)
	line := calibration{Kind: "calibration", Overhead: int64(overhead), Resolution: int64(resolution),
		Cache: timing.CacheSize()}
	t.peaks.measured = map[string]reports.Peak{}
	if t.on != nil {
		t.peaks.measure = func(dtype string) (reports.Peak, error) { return t.devicePeak(ctx, line, dtype) }
		return nil
	}
	peak, err := referencePeak(ctx, t.evict)
	if err != nil {
		return err
	}
	printPeak(w, "float64", peak)
	t.peaks.measure = func(string) (reports.Peak, error) { return peak, nil }
	line.DType, line.Bandwidth, line.Flops, line.Busy = "float64", peak.Bandwidth, peak.Flops, peak.Busy
	return t.json.write(line)
}

// devicePeak is the device's for calls of a dtype; what is not floating has the
// bandwidth of float32 alone.
func (t *timer) devicePeak(ctx context.Context, line calibration, dtype string) (reports.Peak, error) {
	dt, ok := tensor.ParseDType(dtype)
	if !ok || !dt.IsFloat() {
		peak, err := t.peaks.of("float32")
		peak.Flops = 0
		return peak, err
	}
	p, err := t.on.MeasurePeak(ctx, dt, int64(t.evict.Size()))
	if err != nil {
		return reports.Peak{}, err
	}
	peak := reports.Peak{Bandwidth: p.Bandwidth, Flops: p.Flops, Busy: p.Busy}
	printPeak(t.json.text(), dtype, peak)
	line.DType, line.Bandwidth, line.Flops, line.Busy = dtype, peak.Bandwidth, peak.Flops, peak.Busy
	return peak, t.json.write(line)
}

// showPeaks measures the peaks of the usual dtypes, where nothing else is
// measured.
func (t *timer) showPeaks() error {
	if t.on == nil {
		return nil
	}
	for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.BFloat16, tensor.Float16} {
		if _, err := t.peaks.of(dt.String()); err != nil {
			return failed(err)
		}
	}
	return nil
}

// A calibration is the JSON line of what one dtype can reach.
type calibration struct {
	Kind       string  `json:"kind"`
	Overhead   int64   `json:"clock_overhead_ns"`
	Resolution int64   `json:"clock_resolution_ns"`
	Cache      int     `json:"cache_bytes"`
	DType      string  `json:"dtype"`
	Bandwidth  float64 `json:"bytes_per_s"`
	Flops      float64 `json:"flops_per_s"`
	Busy       bool    `json:"busy"`
}

func printPeak(w io.Writer, dtype string, p reports.Peak) {
	busy := ""
	if p.Busy {
		busy = " (other processes were in the way: it may do more)"
	}
	fmt.Fprintf(w, "%s: memory %.2f GB/s, arithmetic %.2f GFLOP/s%s\n", dtype, p.Bandwidth/1e9, p.Flops/1e9, busy)
}

// referencePeak is what the reference can reach on this machine: copies that do
// not fit into the caches, on all processors, read and written bytes counted, and
// the float64 product of matrices that it uses.
func referencePeak(ctx context.Context, evict *timing.Evictor) (reports.Peak, error) {
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
