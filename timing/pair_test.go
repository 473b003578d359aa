package timing

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// pairOf draws rounds of two things of which the second takes ratio times as long. What the
// machine does makes a round of both up to twice as slow, and each process is faster or slower
// by its place in memory.
func pairOf(r *rand.Rand, rounds int, ratio, place float64) (a, b []Sample) {
	for round := range rounds {
		machine := 1 + r.Float64()
		x, y := 1e5*machine*math.Exp(place*r.NormFloat64()), 1e5*machine*ratio*math.Exp(place*r.NormFloat64())
		for range 10 {
			a = append(a, Sample{Elapsed: time.Duration(x * (1 + r.ExpFloat64()/50)), Round: round})
			b = append(b, Sample{Elapsed: time.Duration(y * (1 + r.ExpFloat64()/50)), Round: round})
		}
	}
	return a, b
}

func TestComparePair(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, tc := range []struct {
		ratio, place float64
		rounds       int
		want         Verdict
	}{
		{1, 0.01, 25, Same}, {1.01, 0.01, 100, Same}, {1, 0.05, 160, Same}, {1, 0.05, 15, Ambiguous},
		{1.05, 0.01, 15, Slower}, {1 / 1.05, 0.01, 15, Faster}, {1.1, 0.05, 65, Slower}, {0.9, 0.05, 65, Faster},
		{2, 0.01, 13, Ambiguous}, {2, 0.01, 14, Slower}, {1.03, 0.02, 100, Ambiguous},
	} {
		a, b := pairOf(r, tc.rounds, tc.ratio, tc.place)
		c := ComparePair(a, b, Resolution)
		if c.Verdict != tc.want || math.Abs(c.Ratio/tc.ratio-1) > 2*tc.place {
			t.Errorf("%d rounds, %g times as long, apart by %g by chance: %s, ratio %g in %v; want %s",
				tc.rounds, tc.ratio, tc.place, c.Verdict, c.Ratio, *c.Interval, tc.want)
		}
		if c.Ratio < c.Interval.Low || c.Ratio > c.Interval.High {
			t.Errorf("ratio %g is not in %v", c.Ratio, *c.Interval)
		}
	}
	c := ComparePair(Samples(1), []Sample{{Elapsed: 1, Round: 1}}, Resolution)
	if c.Verdict != Ambiguous || c.Ratio != 0 || c.P != 1 {
		t.Errorf("no round in common: %+v", c)
	}
}

// TestUnlikeRounds: one thing whose rounds take from a hundredth to a hundred times as long is called neither faster
// nor slower, though the interval does not contain 1.
func TestUnlikeRounds(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	apart := 0
	for range 50 {
		var a, b []Sample
		for round := range 25 {
			a = append(a, Sample{Elapsed: time.Duration(1e6 * math.Exp(1.5*r.NormFloat64())), Round: round})
			b = append(b, Sample{Elapsed: 1e5, Round: round})
		}
		c := ComparePair(a, b, Resolution)
		if c.Interval.High < 1 {
			apart++
		}
		if c.Verdict != Ambiguous || c.Doubt() == "" {
			t.Errorf("%s, ratio %g in %v, doubt %q", c.Verdict, c.Ratio, *c.Interval, c.Doubt())
		}
	}
	if apart < 25 {
		t.Errorf("the interval contains 1 in %d of 50 trials: they show nothing", 50-apart)
	}
}

// TestPairsAreRarelyWrong looks at pairs as often as they are looked at while they are
// measured, of things that take equally long or differ by the resolution.
func TestPairsAreRarelyWrong(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const trials = 400
	wrong := 0
	for i := range trials {
		ratio := 1.0
		never := func(v Verdict) bool { return v == Slower || v == Faster }
		if i%2 == 1 {
			ratio, never = 1+1.05*Resolution, func(v Verdict) bool { return v == Same || v == Faster }
		}
		a, b := pairOf(r, PairRounds[len(PairRounds)-1], ratio, 0.03)
		for _, n := range PairRounds {
			c := ComparePair(a[:10*n], b[:10*n], Resolution)
			if never(c.Verdict) {
				wrong++
			}
			if c.Verdict != Ambiguous {
				break
			}
		}
	}
	if wrong > 3 { // 0.4 are expected at most, 4 and more with a probability of 0.001
		t.Errorf("%d of %d pairs were decided wrongly", wrong, trials)
	}
}

func TestSignedRank(t *testing.T) {
	// Hollander, Wolfe, Chicken, table A.4: P(T >= 25) for n = 7 is 0.039, P(T >= 47) for n = 10 0.024.
	for _, tc := range []struct {
		n, t int
		want float64
	}{{7, 28 - 25, 0.039}, {10, 55 - 47, 0.024}, {3, 0, 0.125}, {1, 1, 1}, {160, 160 * 161 / 2, 1}} {
		if got := signedRank(tc.n)[tc.t]; math.Abs(got-tc.want) > 6e-4 {
			t.Errorf("n = %d: P(T <= %d) = %.4f, want %.3f", tc.n, tc.t, got, tc.want)
		}
	}
}

// turns notes in which order two runners ran.
type turns struct {
	script
	name string
	log  *[]string
}

func (r *turns) Sample(ctx context.Context, cache Cache, n int) ([]Sample, error) {
	s, err := r.script.Sample(ctx, cache, n)
	for range s {
		*r.log = append(*r.log, r.name)
	}
	return s, err
}

// placed notes for what turn it was told to run.
type placed struct {
	script
	turns []int
}

func (r *placed) Place(turn int) { r.turns = append(r.turns, turn) }

// TestPlaces: both run on the same processor, another in the next round.
func TestPlaces(t *testing.T) {
	a, b := &placed{script: script{next: constant(1)}}, &placed{script: script{next: constant(1)}}
	for round := range 3 {
		opt := Options{Runs: 1, Warmup: 1, Round: round}
		if _, err := MeasurePair(t.Context(), [2]Runner{a, b}, Cold, opt); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int{0, 1, 2}; !slices.Equal(a.turns, want) || !slices.Equal(b.turns, want) {
		t.Errorf("told to run in turns %v and %v, want %v", a.turns, b.turns, want)
	}
}

func TestMeasurePair(t *testing.T) {
	for _, tc := range []struct {
		cache Cache
		round int
		want  []string
	}{
		{Cold, 0, []string{"a", "b", "a", "b", "b", "a", "a", "b"}},
		{Cold, 1, []string{"b", "a", "b", "a", "a", "b", "b", "a"}},
		{Hot, 0, []string{"a", "b", "a", "a", "a", "b", "b", "b"}},
		{Hot, 1, []string{"b", "a", "b", "b", "b", "a", "a", "a"}},
	} {
		var log []string
		a, b := &turns{script{next: constant(100)}, "a", &log}, &turns{script{next: constant(200)}, "b", &log}
		pair := [2]Runner{a, b}
		s, err := MeasurePair(t.Context(), pair, tc.cache, Options{Runs: 3, Warmup: 1, Round: tc.round})
		if err != nil || !slices.Equal(log, tc.want) {
			t.Fatalf("%s, round %d: runs %v, %v, want %v", tc.cache, tc.round, log, err, tc.want)
		}
		for i, each := range []time.Duration{100, 200} {
			if m := s[i].Summary(); m.N != 3 || m.Median != each || s[i].Stop != StopRuns || s[i].Warmup != 1 ||
				s[i].Samples[2].Round != tc.round || s[i].Cache != tc.cache || s[i].Clock != DeviceClock {
				t.Errorf("%s: series %d is %+v", tc.cache, i, s[i])
			}
		}
	}
	quick, slow := &script{next: constant(time.Microsecond)}, &script{next: constant(time.Millisecond)}
	s, err := MeasurePair(t.Context(), [2]Runner{quick, slow}, Hot, Options{Warmup: 1, MaxTime: 20 * time.Millisecond})
	if err != nil || len(s[0].Samples) != len(s[1].Samples) || s[1].Stop != StopTime || s[0].Stop != StopTime {
		t.Errorf("one of them spends the time: %+v, %v", s, err)
	}
}

func TestMeasurePairErrors(t *testing.T) {
	good := func() *script { return &script{next: constant(1)} }
	for _, fail := range []int{1, 3} {
		for _, pair := range [][2]Runner{{good(), &script{next: constant(1), fail: fail}},
			{&script{next: constant(1), fail: fail}, good()}} {
			s, err := MeasurePair(t.Context(), pair, Cold, Options{Runs: 9, Warmup: 1})
			if !errors.Is(err, errBroken) || s[0] != nil || s[1] != nil {
				t.Errorf("run %d fails: %v, %v", fail, s, err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &script{next: constant(1), fail: 6, cancel: cancel}
	s, err := MeasurePair(ctx, [2]Runner{good(), r}, Cold, Options{Runs: 50, Warmup: 1})
	if !errors.Is(err, context.Canceled) || s[0] == nil || len(s[0].Samples) != 4 || len(s[1].Samples) != 4 ||
		s[0].Stop != StopCanceled {
		t.Errorf("interrupted: %+v, %v, want the 4 samples of each that both have", s, err)
	}
}
