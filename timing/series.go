package timing

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A Sample is the time of one run.
type Sample struct {
	Elapsed time.Duration
	// Waited is how long threads of the run were ready but had no processor, summed over all
	// threads. The run lost at most this to others. It is 0 where it is not known, and for runs
	// too short to tell.
	Waited time.Duration
	// Round counts the rounds over all that is measured, from 0. Samples of one
	// round were taken one after the other, by one process.
	Round int
}

// Samples are samples of the given times that nothing disturbed.
func Samples(elapsed ...time.Duration) []Sample {
	out := make([]Sample, len(elapsed))
	for i, d := range elapsed {
		out[i].Elapsed = d
	}
	return out
}

// A Series is all samples of one thing in one state of the caches, in the order
// they were taken.
type Series struct {
	Cache   Cache
	Clock   Clock
	Samples []Sample
	Warmup  int // runs before the first sample
	Stop    StopReason

	total time.Duration
}

// A Summary is what is shown of a series. Quartiles interpolate linearly
// between samples (R's type 7).
type Summary struct {
	N                        int
	Min, Q1, Median, Q3, Max time.Duration
	Total, Waited            time.Duration
	Noise                    float64 // standard deviation over mean; NaN for fewer than two samples
}

// Summary of a series with at least one sample.
func (s *Series) Summary() Summary { return Summarize(s.Samples) }

// Summarize summarizes at least one sample.
func Summarize(samples []Sample) Summary {
	sorted := make([]time.Duration, len(samples))
	var w welford
	var total, waited time.Duration
	for i, s := range samples {
		sorted[i] = s.Elapsed
		w.add(float64(s.Elapsed))
		total += s.Elapsed
		waited += s.Waited
	}
	slices.Sort(sorted)
	return Summary{
		N: len(sorted), Min: sorted[0], Max: sorted[len(sorted)-1], Total: total, Waited: waited, Noise: w.relative(),
		Q1: quantile(sorted, 0.25), Median: quantile(sorted, 0.5), Q3: quantile(sorted, 0.75),
	}
}

func quantile(sorted []time.Duration, p float64) time.Duration {
	at := p * float64(len(sorted)-1)
	lo := int(at)
	if lo+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	a, b := float64(sorted[lo]), float64(sorted[lo+1])
	return time.Duration(math.Round(a + (at-float64(lo))*(b-a)))
}

// Format writes a time with four digits in the unit that suits it: "12.34 us".
func Format(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < time.Millisecond:
		return digits(float64(d)/1e3) + " us"
	case d < time.Second:
		return digits(float64(d)/1e6) + " ms"
	}
	return digits(d.Seconds()) + " s"
}

// digits writes a number of at least 1 with four significant digits, and all digits before the
// point.
func digits(x float64) string {
	switch {
	case x < 10:
		return fmt.Sprintf("%.3f", x)
	case x < 100:
		return fmt.Sprintf("%.2f", x)
	case x < 1000:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// Steady reports whether one number can represent the samples: the middle half lies within a
// tenth of the median (torch.utils.benchmark's limit for a warning).
func (s Summary) Steady() bool { return float64(s.Q3-s.Q1) <= 0.1*float64(s.Median) }

// Disturbed reports whether the runs may have lost more than 2 % of their time
// to other processes.
func (s Summary) Disturbed() bool { return float64(s.Waited) > 0.02*float64(s.Total) }

// Add appends the samples of another series of the same thing, taken later.
func (s *Series) Add(t *Series) {
	s.Samples = append(s.Samples, t.Samples...)
	s.total += t.total
	s.Warmup += t.Warmup
	s.Stop = t.Stop
}
