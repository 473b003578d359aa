package timing

import (
	"math"
	"time"

	"github.com/aclements/go-moremath/stats"
)

// A Verdict on two series.
type Verdict string

const (
	Same      Verdict = "SAME"
	Faster    Verdict = "FASTER"
	Slower    Verdict = "SLOWER"
	Ambiguous Verdict = "AMBIGUOUS"
)

// Limits of Compare: those of NVBench's comparison, and the usual level of
// significance.
const (
	gapLimit     = 0.005 // intervals are apart from this share of the smaller median on
	centreLimit  = 0.005 // medians are the same up to this share
	overlapLimit = 0.5   // share of the shorter interval that the other covers
	spreadLimit  = 0.02  // interval over median of series that can be called the same
	significance = 0.01
)

// Rounds are the fewest blocks of each series that can differ with the
// significance that Compare wants.
const Rounds = 5

// A Change is what Compare found.
type Change struct {
	Verdict  Verdict
	Old, New Summary
	Ratio    float64 // median of new over median of old
	// between the fastest of the slower and nearly all of the faster, over the old median; negative: they overlap
	Gap float64
	P   float64 // of the Mann-Whitney U test on the medians of blocks, two-sided; NaN if it cannot be made
	// OldCalm and NewCalm are how many of the samples did not wait for a processor.
	OldCalm, NewCalm int
}

// Compare tells whether the thing measured as cur is slower or faster than old.
//
// Samples taken one after the other share the state of the machine, so they are
// not independent: a series is judged by its blocks, which are its rounds, or
// the fifths of a series of fewer than five. What is slower must be so
// everywhere: its fastest run takes 0.5 % longer than three quarters of the runs
// in every block of the other, and the medians of the blocks differ with
// p < 0.01, which takes five blocks each and all of them apart. Runs that had to
// wait for a processor, for more than 0.5 % of their time, tell how busy the
// machine was: a block is judged by the others if it has any, and the fastest
// run is one that did not wait, or else counts without its wait.
//
// Two are the same if their medians differ by at most 0.5 %, half of one
// interval from minimum to third quartile lies in the other and neither is wider
// than 2 %, or if the test cannot tell at least 20 samples each apart and the
// medians are within 2 %. Everything else is ambiguous. Both need at least one
// sample.
func Compare(old, cur []Sample) Change {
	c := Change{Old: Summarize(old), New: Summarize(cur), P: math.NaN()}
	a, b := c.Old, c.New
	if a.Median <= 0 || b.Median <= 0 {
		c.Verdict = Ambiguous
		return c
	}
	c.Ratio = float64(b.Median) / float64(a.Median)
	slower := b.Median > a.Median
	if slower {
		c.Gap = float64(fastest(cur)-mostly(old)) / float64(a.Median)
	} else {
		c.Gap = float64(fastest(old)-mostly(cur)) / float64(a.Median)
	}
	c.P = differ(medians(old), medians(cur))
	c.OldCalm, c.NewCalm = len(calm(old)), len(calm(cur))
	switch apart := c.Gap >= gapLimit && c.P < significance; {
	case apart && slower:
		c.Verdict = Slower
	case apart && b.Median < a.Median:
		c.Verdict = Faster
	case math.Abs(c.Ratio-1) <= centreLimit && overlap(a, b) >= overlapLimit && spread(a) <= spreadLimit &&
		spread(b) <= spreadLimit:
		c.Verdict = Same
	case min(a.N, b.N) >= 20 && math.Abs(c.Ratio-1) <= spreadLimit &&
		!(differ(floats(old), floats(cur)) < significance):
		c.Verdict = Same
	default:
		c.Verdict = Ambiguous
	}
	return c
}

// differ is the p-value of the Mann-Whitney U test, NaN if it cannot be made.
func differ(x, y []float64) float64 {
	u, err := stats.MannWhitneyUTest(x, y, stats.LocationDiffers)
	if err != nil {
		return math.NaN()
	}
	return u.P
}

// calm are the samples that waited for less than what counts as a difference.
func calm(samples []Sample) (out []Sample) {
	for _, s := range samples {
		if s.calm() {
			out = append(out, s)
		}
	}
	return out
}

func (s Sample) calm() bool { return float64(s.Waited) <= gapLimit*float64(s.Elapsed) }

// calmBlocks are the blocks of a series, without the runs that waited where
// others did not.
func calmBlocks(samples []Sample) [][]Sample {
	out := inBlocks(samples)
	for i, b := range out {
		if c := calm(b); len(c) > 0 {
			out[i] = c
		}
	}
	return out
}

// inBlocks splits a series by its rounds, or into fifths if it has fewer than
// five.
func inBlocks(samples []Sample) [][]Sample {
	var out [][]Sample
	for i, s := range samples {
		if i == 0 || s.Round != samples[i-1].Round {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], s)
	}
	if len(out) >= Rounds {
		return out
	}
	out = out[:0]
	n := min(Rounds, len(samples))
	for i := range n {
		out = append(out, samples[i*len(samples)/n:(i+1)*len(samples)/n])
	}
	return out
}

func medians(samples []Sample) []float64 {
	var out []float64
	for _, b := range calmBlocks(samples) {
		out = append(out, float64(Summarize(b).Median))
	}
	return out
}

// mostly is the time that three quarters of the runs kept to in every block.
func mostly(samples []Sample) time.Duration {
	var most time.Duration
	for _, b := range calmBlocks(samples) {
		most = max(most, Summarize(b).Q3)
	}
	return most
}

// fastest is the time of the fastest run that did not wait; if all did, of the
// fastest without its wait.
func fastest(samples []Sample) time.Duration {
	if c := calm(samples); len(c) > 0 {
		return Summarize(c).Min
	}
	least := samples[0].Elapsed
	for _, s := range samples {
		least = min(least, s.Elapsed-s.Waited)
	}
	return least
}

// overlap is the share of the shorter interval [min, q3] that the other covers;
// 1 for an interval of no length inside the other.
func overlap(a, b Summary) float64 {
	shared := min(a.Q3, b.Q3) - max(a.Min, b.Min)
	shorter := min(a.Q3-a.Min, b.Q3-b.Min)
	switch {
	case shared < 0:
		return 0
	case shorter == 0:
		return 1
	}
	return float64(shared) / float64(shorter)
}

func spread(s Summary) float64 { return float64(s.Q3-s.Min) / float64(s.Median) }

func floats(samples []Sample) []float64 {
	out := make([]float64, len(samples))
	for i, s := range samples {
		out[i] = float64(s.Elapsed)
	}
	return out
}
