package timing

import (
	"math"
	"slices"
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

// A Change is what Compare found.
type Change struct {
	Verdict  Verdict
	Old, New Summary
	Ratio    float64 // median of new over median of old
	Gap      float64 // between the intervals [min, q3], over the old median; negative: they overlap
	P        float64 // of the Mann-Whitney U test, two-sided; NaN if it cannot be made
}

// Compare tells whether the thing measured as cur is slower or faster than old:
// the intervals from minimum to third quartile have a gap of at least 0.5 % and
// the samples differ with p < 0.01. They are the same if the medians differ by
// at most 0.5 %, half of one interval lies in the other and neither is wider
// than 2 %, or if they are indistinguishable by the test with at least 20
// samples each and medians within 2 %. Everything else is ambiguous. Both need
// at least one sample.
func Compare(old, cur []time.Duration) Change {
	c := Change{Old: Summarize(old), New: Summarize(cur), P: math.NaN()}
	a, b := c.Old, c.New
	if a.Median <= 0 || b.Median <= 0 {
		c.Verdict = Ambiguous
		return c
	}
	c.Ratio = float64(b.Median) / float64(a.Median)
	c.Gap = float64(max(a.Min, b.Min)-min(a.Q3, b.Q3)) / float64(a.Median)
	if u, err := stats.MannWhitneyUTest(floats(old), floats(cur), stats.LocationDiffers); err == nil {
		c.P = u.P
	}
	differ := c.P < significance
	switch {
	case c.Gap >= gapLimit && differ && b.Median > a.Median:
		c.Verdict = Slower
	case c.Gap >= gapLimit && differ && b.Median < a.Median:
		c.Verdict = Faster
	case math.Abs(c.Ratio-1) <= centreLimit && overlap(a, b) >= overlapLimit && spread(a) <= spreadLimit && spread(b) <= spreadLimit:
		c.Verdict = Same
	case !differ && min(a.N, b.N) >= 20 && math.Abs(c.Ratio-1) <= spreadLimit:
		c.Verdict = Same
	default:
		c.Verdict = Ambiguous
	}
	return c
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

func floats(ds []time.Duration) []float64 {
	out := make([]float64, len(ds))
	for i, d := range ds {
		out[i] = float64(d)
	}
	slices.Sort(out)
	return out
}
