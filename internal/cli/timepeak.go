package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/optool/optool/replay/timed"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/timing"
)

// calibrate measures the clock, and has the peaks of the device or, without one,
// of the reference measured.
func (t *timer) calibrate(ctx context.Context) error {
	w := t.json.text()
	overhead, resolution := timing.ClockOverhead()
	fmt.Fprintf(w, "host clock: reading it adds %s to a run, it ticks every %s\nlast-level cache: %d MiB\n",
		timing.Format(overhead), timing.Format(resolution), timing.CacheSize()>>20)
	line := calibration{Kind: "calibration", Overhead: int64(overhead), Resolution: int64(resolution),
		Cache: timing.CacheSize()}
	if t.measuring.Device != nil {
		t.peaks.Measure = func(dtype string) (reports.Peak, error) { return t.devicePeak(ctx, line, dtype) }
		return nil
	}
	peak, err := timed.ReferencePeak(ctx, t.measuring.Evict)
	if err != nil {
		return err
	}
	printPeak(w, "float64", peak)
	t.peaks.Measure = func(string) (reports.Peak, error) { return peak, nil }
	line.DType, line.Bandwidth, line.Flops, line.Busy = "float64", peak.Bandwidth, peak.Flops, peak.Busy
	return t.json.write(line)
}

// devicePeak is the device's for calls of a dtype; what is not floating has the
// bandwidth of float32 alone.
func (t *timer) devicePeak(ctx context.Context, line calibration, dtype string) (reports.Peak, error) {
	dt, ok := tensor.ParseDType(dtype)
	if !ok || !dt.IsFloat() {
		peak, err := t.peaks.Of("float32")
		peak.Flops = 0
		return peak, err
	}
	p, err := t.library.MeasurePeak(ctx, dt, int64(t.measuring.Evict.Size()))
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
	if t.measuring.Device == nil {
		return nil
	}
	for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.BFloat16, tensor.Float16} {
		if _, err := t.peaks.Of(dt.String()); err != nil {
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
