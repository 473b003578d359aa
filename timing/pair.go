package timing

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sort"
	"time"
)

// PairRounds are the numbers of rounds after which pairs of series are looked at, to see
// whether more are needed. Each look is as rarely wrong as it takes for all of them
// together to be wrong as rarely as Compare.
var PairRounds = []int{15, 25, 40, 65, 100, 160}

// MeasurePair takes samples of two runners in turn, in batches that one and the other
// begin alternately, on the same processor, so that whatever the machine does meanwhile meets both. The options
// are for each. An error comes with what was measured of both before, nils if that is nothing.
func MeasurePair(ctx context.Context, pair [2]Runner, cache Cache, opt Options) ([2]*Series, error) {
	opt = opt.withDefaults()
	var series [2]*Series
	first := opt.Round % 2 // so that it is no difference either which of two processes starts first
	for _, i := range []int{first, 1 - first} {
		series[i] = &Series{Cache: cache, Clock: pair[i].Clock()}
		if _, err := warmUp(ctx, pair[i], cache, opt, series[i]); err != nil {
			return [2]*Series{}, err
		}
	}
	for _, r := range pair {
		if p, ok := r.(Placer); ok {
			p.Place(opt.Round)
		}
	}
	var rules [2]stopRule
	for began := time.Now(); ; first = 1 - first {
		n := pairBatch(opt, cache, series[0], time.Since(began))
		for _, i := range []int{first, 1 - first} {
			if err := series[i].take(ctx, pair[i], n, opt, &rules[i]); err != nil {
				return cutPair(series, err), err
			}
		}
		elapsed := time.Since(began) / 2 // on each
		a, b := rules[0].stop(opt, series[0], elapsed), rules[1].stop(opt, series[1], elapsed)
		if a == StopTime || b == StopTime || a != "" && b != "" {
			series[0].Stop, series[1].Stop = cmp.Or(a, b), cmp.Or(b, a)
			return series, nil
		}
	}
}

// A Placer is a Runner that can be told on which processor to run: the one of a turn, of as many as
// there are one after the other. One processor is often slower than another for a while.
type Placer interface{ Place(turn int) }

// pairBatch is how many runs of each to ask for at once. With cold caches that is one: each
// starts from the same, whatever ran before. With hot runs, those of the other thing have
// changed the caches, so it is the same number as for one thing.
func pairBatch(opt Options, cache Cache, s *Series, spent time.Duration) int {
	if cache == Cold {
		return 1
	}
	var each time.Duration // of a run of both
	if n := len(s.Samples); n > 0 {
		each = spent / time.Duration(n)
	}
	return batch(opt, s, each, 2*opt.MaxTime-spent)
}

// cutPair are the samples that were taken of both when err ended it.
func cutPair(series [2]*Series, err error) [2]*Series {
	n := min(len(series[0].Samples), len(series[1].Samples))
	if !errors.Is(err, context.Canceled) || n == 0 {
		return [2]*Series{}
	}
	for _, s := range series {
		s.Samples, s.Stop = s.Samples[:n], StopCanceled
	}
	return series
}

// An Interval holds the ratio of two times, new over old, but for chance.
type Interval struct{ Low, High float64 }

// minPairRounds are the fewest rounds of ComparePair that have an interval.
const minPairRounds = 14

// ComparePair is Compare for series whose rounds MeasurePair took. Other work of the machine
// affects both sides of a round. So the ratios of the rounds spread evenly about the ratio of
// the two things. Ratio is Hodges and Lehmann's estimate of it, the median of the means of all
// pairs of rounds, Interval that of Wilcoxon's signed-rank test, and P its p-value for no
// difference at all (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3.1 to 3.3).
//
// Two are the same if the interval is within the resolution. One is slower if the interval
// holds no ratio of 1 and the estimate is beyond the resolution. Everything else is
// ambiguous, as are fewer than 14 rounds, which have no interval. So is an interval whose ends
// are more than a factor of two apart: rounds that differ so much are of no one thing, and the
// test takes them for independent. So are medians of rounds whose ratio is outside the interval.
func ComparePair(old, cur []Sample, resolution float64) Change {
	c := Change{Old: Summarize(old), New: Summarize(cur), OldFloor: FloorOf(old), NewFloor: FloorOf(cur), P: 1,
		Verdict: Ambiguous, Interval: &Interval{0, math.Inf(1)}}
	ratios, rounds := pairRatios(old, cur)
	c.OldRound, c.NewRound = middle(rounds[0]), middle(rounds[1])
	means := walshMeans(ratios)
	n := len(means)
	if n == 0 {
		return c
	}
	estimate := (means[(n-1)/2] + means[n/2]) / 2
	c.Ratio = math.Exp(estimate)
	atMost := signedRank(len(ratios))
	above := n - sort.SearchFloat64s(means, 0)
	c.P = min(1, 2*atMost[min(above, n-above)])
	beyond := sort.SearchFloat64s(atMost, significance/float64(2*len(PairRounds))) - 1
	if beyond < 0 {
		return c
	}
	low, high, limit := means[beyond], means[n-1-beyond], math.Log1p(resolution)
	c.Interval = &Interval{math.Exp(low), math.Exp(high)}
	medians := math.Log(float64(c.NewRound) / float64(c.OldRound))
	c.doubt = between
	switch {
	case high-low > math.Log(widest) || medians < low-limit || medians > high+limit:
		c.doubt = differing
	case -limit <= low && high <= limit:
		c.Verdict = Same
	case low > 0 && estimate > limit:
		c.Verdict = Slower
	case high < 0 && estimate < -limit:
		c.Verdict = Faster
	}
	return c
}

// walshMeans are the means of all pairs of values, of each with itself too, ascending.
func walshMeans(values []float64) []float64 {
	means := make([]float64, 0, len(values)*(len(values)+1)/2)
	for i, x := range values {
		for _, y := range values[i:] {
			means = append(means, (x+y)/2)
		}
	}
	slices.Sort(means)
	return means
}

// signedRank are the probabilities that Wilcoxon's statistic of n values is at most 0, 1,
// ..., n (n+1)/2, if each value is as probably above as below 0.
func signedRank(n int) []float64 {
	p := make([]float64, n*(n+1)/2+1)
	p[0] = 1
	for rank := 1; rank <= n; rank++ { // each is in the sum with probability 1/2
		for sum := len(p) - 1; sum >= 0; sum-- {
			p[sum] /= 2
			if sum >= rank {
				p[sum] += p[sum-rank] / 2
			}
		}
	}
	for sum := 1; sum < len(p); sum++ {
		p[sum] += p[sum-1]
	}
	return p
}

// widest is how many times the low end of an interval its high end may be.
const widest = 2

// pairRatios are the logarithms of the ratios of the rounds that have calm runs on both sides, and these rounds.
func pairRatios(old, cur []Sample) (ratios []float64, rounds [2][]float64) {
	a, b := quickHalves(old), quickHalves(cur)
	for round, x := range a {
		if y := b[round]; x > 0 && y > 0 {
			ratios = append(ratios, math.Log(y/x))
			rounds[0], rounds[1] = append(rounds[0], x), append(rounds[1], y)
		}
	}
	return ratios, rounds
}

// middle is the median of times, 0 of none.
func middle(times []float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return time.Duration(math.Round((times[(len(times)-1)/2] + times[len(times)/2]) / 2))
}

// quickHalves are, by round, the means of the quicker half of the runs that did not wait.
// Disturbances only make runs slower, and a mean is finer than the clock's ticks.
func quickHalves(samples []Sample) map[int]float64 {
	means := map[int]float64{}
	for round, runs := range calmRounds(samples) {
		runs = runs[:(len(runs)+1)/2]
		sum := time.Duration(0)
		for _, d := range runs {
			sum += d
		}
		means[round] = float64(sum) / float64(len(runs))
	}
	return means
}
