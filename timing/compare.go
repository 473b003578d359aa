package timing

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"
)

// A Verdict on two series.
type Verdict string

const (
	Same      Verdict = "SAME"
	Faster    Verdict = "FASTER"
	Slower    Verdict = "SLOWER"
	Ambiguous Verdict = "AMBIGUOUS"
)

// Resolution is the share of the time from which two things can usually be told apart.
const Resolution = 0.03

// Limits of Compare and Decisive.
const (
	waitLimit    = 0.005 // share of its time that a run may have waited for a processor
	low          = 0.05  // quantile of the runs of a round that stands for it
	agreeing     = 4     // rounds that must agree on how fast a thing can be
	agreement    = 0.5   // share of the resolution that they agree within
	significance = 0.001
	farApart     = 4 // how many times what the quickest rounds differ by two unknown floors must be apart
)

// MinRounds are the fewest rounds of each of two series that can differ with the
// significance that Compare wants, MaxRounds those from which more rarely help.
const (
	MinRounds = 7
	MaxRounds = 25
)

// A Floor is how fast a thing can be: the time of the quickest round. Each round has one
// process, one place of code and data in memory and one state of the machine.
type Floor struct {
	Time   time.Duration
	Spread float64 // by how much the fourth quickest round is slower; +Inf for fewer rounds

	rounds []float64 // nanoseconds, ascending
}

// FloorOf finds the floor of a series. Runs that waited for a processor for more than 0.5 % of
// their time show how busy the machine was. They do not count, nor does a round that has only
// such runs.
func FloorOf(samples []Sample) Floor {
	f := Floor{Spread: math.Inf(1), rounds: rounds(samples)}
	slices.Sort(f.rounds)
	if len(f.rounds) > 0 {
		f.Time = time.Duration(f.rounds[0])
	}
	if f.Time > 0 && len(f.rounds) >= agreeing {
		f.Spread = f.rounds[agreeing-1]/f.rounds[0] - 1
	}
	return f
}

// settled reports whether enough rounds agree on the floor to tell differences of resolution.
func (f Floor) settled(resolution float64) bool { return f.Spread <= agreement*resolution }

// Decisive reports whether Compare needs no more rounds than these to tell differences of
// resolution from a series that is measured as well.
func (f Floor) Decisive(resolution float64) bool {
	return f.settled(resolution) && f.missed(float64(f.Time)*(1+resolution), len(f.rounds)) < significance
}

// missed is the probability that n rounds all took longer than limit by chance, if every round
// of both series were equally likely to (Fisher's exact test, one-sided).
func (f Floor) missed(limit float64, n int) float64 {
	within, _ := slices.BinarySearch(f.rounds, limit)
	p, m := 1.0, len(f.rounds)
	for i := range within {
		p *= float64(m-i) / float64(m+n-i)
	}
	return p
}

// A Change is what Compare found.
type Change struct {
	Verdict            Verdict
	Old, New           Summary
	OldFloor, NewFloor Floor
	Ratio              float64 // of the floors, new over old; 0 if one is not known
	// P is the probability that all rounds of the slower missed the floor of the faster by
	// chance; 1 if there are no rounds.
	P float64
	// Interval of the ratio; nil unless the series were measured in turn (ComparePair).
	Interval *Interval
	// OldRound and NewRound are the medians of the rounds of series that were measured in turn.
	OldRound, NewRound time.Duration

	doubt string // why it is ambiguous, beside too few rounds
}

// Compare tells whether the thing measured as cur is slower or faster than old by more
// than the resolution, a share of the time.
//
// Runs of one round share the state of the machine and the places in memory, so they are not
// independent. Other work of the machine can only make them slower. So each round gives one number,
// the low quantile of its runs, and a series gives its floor. A floor is known if the four quickest
// rounds agree on it within half of the resolution. Two known floors within the resolution are the
// same. One is slower if three conditions hold. Its floor is further off than the resolution. The
// floors are known, or the difference is much larger than the difference among their quickest
// rounds. It is improbable (p < 0.001) that all its rounds missed by chance what rounds of the
// other reached. Everything else is ambiguous. Both need at least one sample.
func Compare(old, cur []Sample, resolution float64) Change {
	a, b := FloorOf(old), FloorOf(cur)
	c := Change{Old: Summarize(old), New: Summarize(cur), OldFloor: a, NewFloor: b, P: 1, Verdict: Ambiguous}
	if a.Time <= 0 || b.Time <= 0 {
		return c
	}
	c.Ratio = float64(b.Time) / float64(a.Time)
	c.doubt = differing
	faster, slower, verdict := a, b, Slower
	if b.Time < a.Time {
		faster, slower, verdict = b, a, Faster
	}
	c.P = faster.missed(float64(a.Time+b.Time)/2, len(slower.rounds))
	apart := slower.Time - faster.Time
	unsure := math.Log1p(a.Spread) + math.Log1p(b.Spread) // of the logarithm of the ratio
	settled := a.settled(resolution) && b.settled(resolution)
	switch {
	case float64(apart) <= resolution*float64(faster.Time):
		if settled {
			c.Verdict = Same
		}
	case !settled && math.Log(float64(slower.Time)/float64(faster.Time)) <= farApart*unsure:
	case apart > 2*max(tick(old), tick(cur)) && c.P < significance:
		c.Verdict = verdict
	case settled:
		c.doubt = between
	}
	return c
}

// Doubts of changes.
const (
	differing = "rounds that differ too much"
	between   = "a change that is neither certain nor excluded"
)

// Doubt says why a change is ambiguous, "" of other verdicts.
func (c *Change) Doubt() string {
	old, cur, fewest := len(c.OldFloor.rounds), len(c.NewFloor.rounds), MinRounds
	if c.Interval != nil {
		fewest = minPairRounds
	}
	switch {
	case c.Verdict != Ambiguous:
		return ""
	case min(old, cur) < fewest:
		return fmt.Sprintf("fewer than %d undisturbed rounds", fewest)
	}
	return cmp.Or(c.doubt, differing)
}

func (s Sample) calm() bool { return float64(s.Waited) <= waitLimit*float64(s.Elapsed) }

// rounds are the times of the rounds, in nanoseconds.
func rounds(samples []Sample) []float64 {
	var out []float64
	for _, runs := range calmRounds(samples) {
		out = append(out, float64(quantile(runs, low)))
	}
	return out
}

// calmRounds are the runs of each round that did not wait, ascending; a round all of
// whose runs waited is left out.
func calmRounds(samples []Sample) iter.Seq2[int, []time.Duration] {
	return func(yield func(round int, runs []time.Duration) bool) {
		for i := 0; i < len(samples); {
			var runs []time.Duration
			round := samples[i].Round
			for ; i < len(samples) && samples[i].Round == round; i++ {
				if samples[i].calm() {
					runs = append(runs, samples[i].Elapsed)
				}
			}
			slices.Sort(runs)
			if len(runs) > 0 && !yield(round, runs) {
				return
			}
		}
	}
}

// tick is the smallest difference between runs: not finer than the clock's.
func tick(samples []Sample) time.Duration {
	runs := make([]time.Duration, len(samples))
	for i, s := range samples {
		runs[i] = s.Elapsed
	}
	slices.Sort(runs)
	least := time.Duration(0)
	for i := 1; i < len(runs); i++ {
		if d := runs[i] - runs[i-1]; d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least
}
