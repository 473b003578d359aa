package timing

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A script plays samples back and records how it was asked.
type script struct {
	next   func(i int) time.Duration
	taken  int
	asked  []int
	caches []Cache
	fail   int // sample that fails, 0 for none
	cancel context.CancelFunc
}

var errBroken = errors.New("broken")

func (s *script) Clock() Clock { return DeviceClock }

func (s *script) Sample(ctx context.Context, cache Cache, n int) ([]Sample, error) {
	s.asked, s.caches = append(s.asked, n), append(s.caches, cache)
	var out []Sample
	for range n {
		s.taken++
		switch {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case s.taken == s.fail && s.cancel != nil:
			s.cancel()
			return out, context.Canceled
		case s.taken == s.fail:
			return out, errBroken
		}
		out = append(out, Sample{Elapsed: s.next(s.taken)})
	}
	return out, nil
}

func constant(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

// noisy draws from a normal distribution with a relative standard deviation.
func noisy(mean time.Duration, rel float64) func(int) time.Duration {
	r := rand.New(rand.NewPCG(1, 2))
	return func(int) time.Duration { return time.Duration(float64(mean) * (1 + rel*r.NormFloat64())) }
}

func TestStopReasons(t *testing.T) {
	warm := time.Nanosecond
	drift := func(i int) time.Duration { return time.Millisecond + time.Duration(i*i)*time.Microsecond }
	for _, tc := range []struct {
		name     string
		next     func(int) time.Duration
		opt      Options
		want     StopReason
		least, n int // samples at least, at most
	}{
		{"exact number", noisy(time.Millisecond, 0.5), Options{Runs: 7, Warmup: warm}, StopRuns, 7, 7},
		{"one run", constant(time.Second), Options{Runs: 1, Warmup: warm}, StopRuns, 1, 1},
		{"many runs", constant(time.Microsecond), Options{Runs: 3000, Warmup: warm}, StopRuns, 3000, 3000},
		{"no noise", constant(time.Millisecond), Options{Warmup: warm}, StopNoise, 100, 128},
		{"no noise, slow", constant(300 * time.Millisecond), Options{Warmup: warm}, StopTime, 4, 4},
		{"stable noise", noisy(10*time.Microsecond, 0.05), Options{Warmup: warm}, StopStable, 1000, 20000},
		{"as many as are kept", noisy(time.Microsecond, 0.5), Options{Warmup: warm, MaxRuns: 200},
			StopEnough, 200, 220},
		{"drift", drift, Options{Warmup: warm, MaxTime: time.Second}, StopTime, 20, 1000},
	} {
		s, err := Measure(t.Context(), &script{next: tc.next}, Hot, tc.opt)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if s.Stop != tc.want || len(s.Samples) < tc.least || len(s.Samples) > tc.n {
			t.Errorf("%s: stopped for %q after %d samples, want %q after %d to %d", tc.name, s.Stop, len(s.Samples),
				tc.want, tc.least, tc.n)
		}
		if s.Warmup < 1 || s.Clock != DeviceClock {
			t.Errorf("%s: %d warm-up runs on the %s clock", tc.name, s.Warmup, s.Clock)
		}
	}
}

func TestMeasureErrors(t *testing.T) {
	s, err := Measure(t.Context(), &script{next: constant(1), fail: 1}, Cold, Options{Runs: 3})
	if s != nil || !errors.Is(err, errBroken) {
		t.Errorf("failure while warming up: %v, %v", s, err)
	}
	s, err = Measure(t.Context(), &script{next: constant(1), fail: 3}, Cold, Options{Runs: 3, Warmup: 1})
	if s != nil || !errors.Is(err, errBroken) {
		t.Errorf("failure later: %v, %v", s, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &script{next: constant(1), fail: 6, cancel: cancel}
	s, err = Measure(ctx, r, Cold, Options{Runs: 50, Warmup: 1})
	if !errors.Is(err, context.Canceled) || s == nil || s.Stop != StopCanceled || len(s.Samples) != 4 {
		t.Errorf("interrupted: %+v, %v, want the 4 samples taken", s, err)
	}
	if slices.Contains(r.caches, Hot) {
		t.Errorf("asked for %v, want cold runs only", r.caches)
	}
}

func TestSummary(t *testing.T) {
	s := Summarize(Samples(40, 10, 30, 20))
	want := Summary{N: 4, Min: 10, Q1: 18, Median: 25, Q3: 33, Max: 40, Total: 100, Noise: s.Noise}
	if s != want || math.Abs(s.Noise-12.909944/25) > 1e-6 {
		t.Errorf("%+v, want %+v", s, want)
	}
	one := Summarize(Samples(7))
	if one.Min != 7 || one.Q1 != 7 || one.Median != 7 || one.Q3 != 7 || one.Max != 7 || !math.IsNaN(one.Noise) ||
		!one.Steady() {
		t.Errorf("one sample: %+v", one)
	}
	if (Summary{Q1: 90, Median: 100, Q3: 111}).Steady() || !(Summary{Q1: 95, Median: 100, Q3: 105}).Steady() {
		t.Error("Steady: want a middle half of at most a tenth")
	}
}

func TestFormat(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ns", 999: "999 ns", 1234: "1.234 us", 12345: "12.35 us", 123456: "123.5 us", 1234567: "1.235 ms",
		12 * time.Second: "12.00 s", 2000 * time.Second: "2000 s",
	} {
		if got := Format(d); got != want {
			t.Errorf("Format(%d) = %q, want %q", d, got, want)
		}
	}
}

func series(n int, next func(int) time.Duration) []Sample {
	out := make([]Sample, n)
	for i := range out {
		out[i].Elapsed = next(i)
	}
	return out
}

// inRounds spreads samples evenly over rounds.
func inRounds(s []Sample, rounds int) []Sample {
	for i := range s {
		s[i].Round = i * rounds / len(s)
	}
	return s
}

func TestCompare(t *testing.T) {
	ms := time.Millisecond
	seeded := func(seed uint64, mean time.Duration, rel float64) []Sample {
		r := rand.New(rand.NewPCG(seed, 0))
		return inRounds(series(100,
			func(int) time.Duration { return time.Duration(float64(mean) * (1 + rel*math.Abs(r.NormFloat64()))) }), 10)
	}
	same := func(n, rounds int, d time.Duration) []Sample { return inRounds(series(n, constant(d)), rounds) }
	for _, tc := range []struct {
		name     string
		old, cur []Sample
		want     Verdict
	}{
		{"5 % slower", seeded(1, ms, 0.005), seeded(2, ms*105/100, 0.005), Slower},
		{"5 % faster", seeded(1, ms*105/100, 0.005), seeded(2, ms, 0.005), Faster},
		{"2 % slower", seeded(1, ms, 0.005), seeded(2, ms*102/100, 0.005), Same},
		{"the same", seeded(1, ms, 0.005), seeded(2, ms, 0.005), Same},
		{"the same, very noisy", seeded(1, ms, 0.5), seeded(2, ms, 0.5), Ambiguous},
		{"100 times faster, noisy", seeded(1, 100*ms, 0.2), seeded(2, ms, 0.2), Faster},
		{"500 times slower, very noisy", seeded(1, ms, 0.5), seeded(2, 500*ms, 0.5), Slower},
		{"10 % faster, noisy", seeded(1, ms*110/100, 0.2), seeded(2, ms, 0.2), Ambiguous},
		{"few rounds apart", same(6, 6, ms), same(6, 6, 2*ms), Ambiguous},
		{"rounds enough", same(7, 7, ms), same(7, 7, 2*ms), Slower},
		{"one round each", series(100, constant(ms)), series(100, constant(ms)), Ambiguous},
		{"one sample each", Samples(100), Samples(200), Ambiguous},
		{"too short to measure", same(20, 10, 0), same(20, 10, 5), Ambiguous},
		{"a tick of the clock apart", inRounds(Samples(10, 20, 10, 20, 10, 20, 10, 20), 8),
			inRounds(Samples(20, 20, 20, 20, 20, 20, 20, 20), 8), Ambiguous},
	} {
		if got := Compare(tc.old, tc.cur, Resolution); got.Verdict != tc.want {
			t.Errorf("%s: %+v, want %s", tc.name, got, tc.want)
		} else if (got.Doubt() != "") != (tc.want == Ambiguous) {
			t.Errorf("%s: %s, doubt %q", tc.name, tc.want, got.Doubt())
		}
	}
	// Rounds that agree do not differ too much.
	ticks := Compare(inRounds(Samples(10, 20, 10, 20, 10, 20, 10, 20, 10, 20, 10, 20, 10, 20, 10, 20), 8),
		inRounds(Samples(20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20), 8), Resolution)
	if ticks.Doubt() != between {
		t.Errorf("a tick of the clock apart: %s, doubt %q", ticks.Verdict, ticks.Doubt())
	}
	var a, b []Sample // in turn: longer by 0 to 6 %, so between SAME and SLOWER
	for i := range 25 {
		a = append(a, Sample{Elapsed: ms, Round: i})
		b = append(b, Sample{Elapsed: ms + time.Duration(i%7)*ms/100, Round: i})
	}
	if c := ComparePair(a, b, Resolution); c.Doubt() != between {
		t.Errorf("%s %v, doubt %q", c.Verdict, *c.Interval, c.Doubt())
	}
	c := Compare(same(70, 7, ms), same(70, 7, ms*5/4), Resolution)
	if want := 1.0 / 3432; c.Ratio != 1.25 || math.Abs(c.P-want) > 1e-12 || c.OldFloor.Time != ms ||
		c.NewFloor.Spread != 0 {
		t.Errorf("a quarter slower: %+v, want p %v", c, want)
	}
	if c := Compare(seeded(1, ms, 0.005), seeded(2, ms*102/100, 0.005), 0.01); c.Verdict != Slower {
		t.Errorf("2 %% slower at 1 %%: %+v", c)
	}
}

// TestCompareDisturbed: what the machine did for a while is no difference.
func TestCompareDisturbed(t *testing.T) {
	const us = time.Microsecond
	times := func(s []Sample, wait func(i int) time.Duration) []Sample {
		for i := range s {
			s[i].Waited = wait(i)
			s[i].Elapsed += s[i].Waited
		}
		return inRounds(s, 10)
	}
	calm := func(floor time.Duration) func(int) time.Duration {
		return func(i int) time.Duration { return floor + time.Duration(i*37%100)*time.Nanosecond }
	}
	none := func(int) time.Duration { return 0 }
	old := times(series(50, calm(100*us)), none)
	for _, tc := range []struct {
		name string
		cur  []Sample
		want Verdict
	}{
		{"every run waited for a processor", times(series(50, calm(100*us)),
			func(int) time.Duration { return 20 * us }), Ambiguous},
		{"all but one waited", times(series(50, calm(100*us)),
			func(i int) time.Duration { return 20 * us * time.Duration(min(i, 1)) }), Ambiguous},
		{"slower, and some waited", times(series(50, calm(104*us)),
			func(i int) time.Duration { return 20 * us * time.Duration(i%2) }), Slower},
		{"slower, and most waited", times(series(50, calm(104*us)),
			func(i int) time.Duration { return 20 * us * time.Duration(min(i%5, 1)) }), Slower},
		{"the same, and most waited", times(series(50, calm(100*us)),
			func(i int) time.Duration { return 20 * us * time.Duration(min(i%5, 1)) }), Same},
		{"faster, and none waited", times(series(50, calm(96*us)), none), Faster},
	} {
		if got := Compare(old, tc.cur, Resolution); got.Verdict != tc.want {
			t.Errorf("%s: %+v, want %s", tc.name, got, tc.want)
		}
	}
	// Some rounds in a fast state of the machine, which the other never met.
	mixed := times(series(50, func(i int) time.Duration {
		if i < 20 {
			return calm(100 * us)(i)
		}
		return calm(110 * us)(i)
	}), none)
	slow := times(series(50, calm(110*us)), none)
	if got := Compare(mixed, slow, Resolution); got.Verdict != Ambiguous {
		t.Errorf("a state of the machine: %+v", got)
	}
}

// TestNoFalseAlarm: the same distribution twice is never called slower or faster, with
// states of the machine that last for a round.
func TestNoFalseAlarm(t *testing.T) {
	same := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		likely := r.Float64() // how often a process is lucky
		measure := func() (out []Sample) {
			for round := range MinRounds + r.IntN(MaxRounds-MinRounds) {
				floor := 100e3
				if r.Float64() > likely {
					floor *= 1.05 + r.Float64()/10
				}
				for range 10 {
					out = append(out, Sample{Elapsed: time.Duration(floor * (1 + 0.05*r.ExpFloat64())), Round: round})
				}
			}
			return out
		}
		switch c := Compare(measure(), measure(), Resolution); c.Verdict {
		case Slower, Faster:
			t.Errorf("seed %d, lucky %.2f: %+v", seed, likely, c)
		case Same:
			same++
		}
	}
	if same < 1000 {
		t.Errorf("%d of 2000 are the same", same)
	}
}

// TestDecisive: rounds enough are those with which Compare decides.
func TestDecisive(t *testing.T) {
	for rounds := 1; rounds <= MaxRounds; rounds++ {
		s := inRounds(series(rounds, constant(time.Millisecond)), rounds)
		if got, want := FloorOf(s).Decisive(Resolution), rounds >= MinRounds; got != want {
			t.Errorf("%d equal rounds decide: %v, want %v", rounds, got, want)
		}
	}
	if FloorOf(nil).Decisive(Resolution) {
		t.Error("no rounds decide")
	}
}

func TestHostFunc(t *testing.T) {
	var order []string
	e := NewEvictor(1 << 10)
	h := &HostFunc{
		Run:     func() error { order = append(order, "run"); return nil },
		Restore: func() error { order = append(order, "restore"); return nil },
		Caches:  e,
	}
	samples, err := h.Sample(t.Context(), Cold, 2)
	if err != nil || len(samples) != 2 || strings.Join(order, " ") != "restore run restore run" {
		t.Errorf("%v, %v, in the order %v", samples, err, order)
	}
	if e.Size() != 2<<10 || e.buf[0] != 2 || e.buf[64] != 2 || e.buf[1] != 0 {
		t.Errorf("evictor of %d bytes written %d times", e.Size(), e.buf[0])
	}
	if _, err := h.Sample(t.Context(), Hot, 1); err != nil || e.buf[0] != 2 {
		t.Errorf("hot run evicts: %v", err)
	}
	h.Run = func() error { return errBroken }
	if _, err := h.Sample(t.Context(), Hot, 1); !errors.Is(err, errBroken) {
		t.Errorf("error %v, want that of Run", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := h.Sample(ctx, Hot, 3); len(s) != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel: %v, %v", s, err)
	}
}

func TestCacheSizes(t *testing.T) {
	for s, want := range map[string]int{"512K": 512 << 10, "32M": 32 << 20, "100": 100, "": 0, "x": 0, "-1K": 0} {
		if got := parseSize(s); got != want {
			t.Errorf("parseSize(%q) = %d, want %d", s, got, want)
		}
	}
	if CacheSize() < 1<<10 {
		t.Errorf("CacheSize() = %d", CacheSize())
	}
}

func TestClockOverhead(t *testing.T) {
	overhead, resolution := ClockOverhead()
	if overhead < 0 || resolution <= 0 || resolution > time.Second {
		t.Errorf("overhead %v, resolution %v", overhead, resolution)
	}
}
