package timing

import (
	"math"
	"time"
)

// A stopRule decides when there are enough samples, in constant time for each.
type stopRule struct {
	samples welford
	window  [stableWindow]float64
	seen    int
}

const (
	stableWindow = 64   // estimates that must agree
	stableSpread = 0.05 // relative standard deviation up to which they do
)

func (r *stopRule) add(d time.Duration) { r.samples.add(float64(d)) }

// stop returns why no more samples are wanted, "" while they are. Elapsed is the
// time since the first sample was asked for.
func (r *stopRule) stop(opt Options, s *Series, elapsed time.Duration) StopReason {
	n := len(s.Samples)
	if opt.Runs > 0 {
		if n >= opt.Runs {
			return StopRuns
		}
		return ""
	}
	if max(s.total, elapsed) >= opt.MaxTime {
		return StopTime
	}
	if opt.MaxRuns > 0 && n >= opt.MaxRuns {
		return StopEnough
	}
	noise := r.samples.relative()
	if n < 2 || math.IsNaN(noise) {
		return ""
	}
	r.window[r.seen%stableWindow] = noise
	r.seen++
	if n < opt.MinRuns || s.total < opt.MinTime {
		return ""
	}
	if noise < opt.Noise {
		return StopNoise
	}
	if r.seen < stableWindow {
		return ""
	}
	var w welford
	for _, x := range r.window {
		w.add(x)
	}
	if w.relative() < stableSpread {
		return StopStable
	}
	return ""
}

// A welford keeps mean and variance of a stream (Welford 1962).
type welford struct {
	n    int
	mean float64
	m2   float64
}

func (w *welford) add(x float64) {
	w.n++
	d := x - w.mean
	w.mean += d / float64(w.n)
	w.m2 += d * (x - w.mean)
}

// relative is the standard deviation over the mean; NaN for fewer than two.
func (w *welford) relative() float64 {
	if w.n < 2 || w.mean == 0 {
		return math.NaN()
	}
	return math.Sqrt(w.m2/float64(w.n-1)) / w.mean
}
