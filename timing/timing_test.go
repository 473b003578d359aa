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

func TestCompare(t *testing.T) {
	ms := time.Millisecond
	seeded := func(seed uint64, mean time.Duration, rel float64) []Sample {
		r := rand.New(rand.NewPCG(seed, 0))
		return series(100,
			func(int) time.Duration { return time.Duration(float64(mean) * (1 + rel*math.Abs(r.NormFloat64()))) })
	}
	for _, tc := range []struct {
		name     string
		old, cur []Sample
		want     Verdict
	}{
		{"3 % slower", seeded(1, ms, 0.005), seeded(2, ms*103/100, 0.005), Slower},
		{"3 % faster", seeded(1, ms*103/100, 0.005), seeded(2, ms, 0.005), Faster},
		{"the same", seeded(1, ms, 0.005), seeded(2, ms, 0.005), Same},
		{"the same, noisy", seeded(1, ms, 0.1), seeded(2, ms, 0.1), Same},
		{"slower within the noise", seeded(1, ms, 0.1), seeded(2, ms*103/100, 0.1), Ambiguous},
		{"few samples apart", Samples(100, 101), Samples(200, 201), Ambiguous},
		{"one sample each", Samples(100), Samples(200), Ambiguous},
		{"too short to measure", Samples(0, 0), Samples(5, 6), Ambiguous},
		{"identical samples", series(30, constant(ms)), series(30, constant(ms)), Same},
		{"identical samples apart", series(30, constant(ms)), series(30, constant(2*ms)), Slower},
	} {
		if got := Compare(tc.old, tc.cur); got.Verdict != tc.want {
			t.Errorf("%s: %s (gap %.4f, p %.3g), want %s", tc.name, got.Verdict, got.Gap, got.P, tc.want)
		}
	}
	c := Compare(seeded(1, ms, 0.005), seeded(2, ms*103/100, 0.005))
	if c.Ratio < 1.02 || c.Ratio > 1.04 || c.Gap < 0.005 || math.Abs(c.P-2.0/252) > 1e-9 {
		t.Errorf("3 %% slower: ratio %v, gap %v, p %v", c.Ratio, c.Gap, c.P)
	}
}

// TestCompareDisturbed: what the machine did for a while is no difference.
func TestCompareDisturbed(t *testing.T) {
	const us = time.Microsecond
	times := func(s []Sample, rounds int, wait func(i int) time.Duration) []Sample {
		for i := range s {
			s[i].Round, s[i].Waited = i*rounds/len(s), wait(i)
			s[i].Elapsed += s[i].Waited
		}
		return s
	}
	calm := func(floor time.Duration) func(int) time.Duration {
		return func(i int) time.Duration { return floor + time.Duration(i*37%100)*time.Nanosecond }
	}
	none := func(int) time.Duration { return 0 }
	old := times(series(50, calm(100*us)), 5, none)
	for _, tc := range []struct {
		name string
		cur  []Sample
		want Verdict
	}{
		{"every run waited for a processor", times(series(50, calm(100*us)), 5,
			func(int) time.Duration { return 20 * us }), Ambiguous},
		{"all but one waited", times(series(50, calm(100*us)), 5,
			func(i int) time.Duration { return 20 * us * time.Duration(min(i, 1)) }), Ambiguous},
		{"slower, and some waited", times(series(50, calm(104*us)), 5,
			func(i int) time.Duration { return 20 * us * time.Duration(i%2) }), Slower},
		{"slower, and most waited", times(series(50, calm(104*us)), 5,
			func(i int) time.Duration { return 20 * us * time.Duration(min(i%5, 1)) }), Slower},
		{"the same, and most waited", times(series(50, calm(100*us)), 5,
			func(i int) time.Duration { return 20 * us * time.Duration(min(i%5, 1)) }), Ambiguous},
		{"faster, and none waited", times(series(50, calm(96*us)), 5, none), Faster},
	} {
		if got := Compare(old, tc.cur); got.Verdict != tc.want {
			t.Errorf("%s: %s (gap %.4f, p %.3g), want %s", tc.name, got.Verdict, got.Gap, got.P, tc.want)
		}
	}
	// One round in another state, at the pace of what it is compared with.
	mixed := times(series(50, func(i int) time.Duration {
		if i < 10 {
			return calm(110 * us)(i)
		}
		return calm(100 * us)(i)
	}), 5, none)
	slow := times(series(50, calm(110*us)), 5, none)
	for _, rounds := range []int{5, 1} {
		for i := range mixed {
			mixed[i].Round, slow[i].Round = i*rounds/50, i*rounds/50
		}
		if got := Compare(mixed, slow); got.Verdict != Ambiguous {
			t.Errorf("a state of the machine in %d rounds: %s (gap %.4f, p %.3g)", rounds, got.Verdict, got.Gap, got.P)
		}
	}
	if got := Compare(slow[:4], old[:4]); got.Verdict != Ambiguous {
		t.Errorf("four samples each: %s, want what five blocks would need", got.Verdict)
	}
	if got := Compare(slow[:5], old[:5]); got.Verdict != Faster {
		t.Errorf("five samples each: %s", got.Verdict)
	}
}

// TestNoFalseAlarm: the same distribution twice is never called slower or faster.
func TestNoFalseAlarm(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		draw := func(int) time.Duration { // a floor with a long tail, as machines have
			return 100*time.Microsecond + time.Duration(r.ExpFloat64()*float64(5*time.Microsecond))
		}
		if c := Compare(series(50, draw), series(50, draw)); c.Verdict == Slower || c.Verdict == Faster {
			t.Errorf("seed %d: %s (gap %v, p %v)", seed, c.Verdict, c.Gap, c.P)
		}
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
