package timed

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/timing"
)

// demo are the tasks of the demo's captures, and a timer of few runs.
func demo(t *testing.T, each bool) (*Timer, *Tasks) {
	t.Helper()
	timer := &Timer{Replay: replay.Options{Registry: ops.Default()}, Evict: timing.NewEvictor(1 << 20),
		Caches: []timing.Cache{timing.Cold, timing.Hot}, Runs: 7, MaxTime: time.Second}
	tasks := &Tasks{Each: each}
	for e, err := range capture.Scan(t.Context(), []string{"../../fixtures/demo"}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		if err := tasks.Add(e, timer.Replay); err != nil {
			t.Fatalf("%s: %v", e.Rel, err)
		}
	}
	if len(tasks.List) < 4 {
		t.Fatalf("%d tasks", len(tasks.List))
	}
	return timer, tasks
}

// TestRun measures every phase with cold and hot caches, in rounds.
func TestRun(t *testing.T) {
	for name, order := range map[string]*rand.Rand{"in turn": nil, "interleaved": rand.New(rand.NewPCG(1, 2))} {
		timer, tasks := demo(t, false)
		timer.Order = order
		some := tasks.List[:4]
		n, backward := 0, false
		for k, err := range timer.Run(t.Context(), some) {
			if err != nil || k.Err != nil {
				t.Fatalf("%s: %s: %v, %v", name, k.Op, err, k.Err)
			}
			if k != some[n] {
				t.Errorf("%s: %s comes as number %d", name, k.Op, n)
			}
			n++
			for i, s := range k.Series {
				backward = backward || s.Phase == "backward"
				if want := timer.Caches[i%2]; s.Series.Cache != want || len(s.Series.Samples) != timer.Runs {
					t.Errorf("%s: %s: series %d has %d samples of %s caches, want %d of %s", name, k.Op, i,
						len(s.Series.Samples), s.Series.Cache, timer.Runs, want)
				}
				if got := s.Series.Samples[timer.Runs-1].Round; got != timer.Rounds()-1 {
					t.Errorf("%s: %s: the last sample is of round %d", name, k.Op, got)
				}
			}
		}
		if n != len(some) || !backward {
			t.Errorf("%s: %d of %d tasks, a backward phase: %v", name, n, len(some), backward)
		}
		c := Covered(tasks.List)
		if c.Measured != 4 || c.MeasuredCalls < 4 || c.Distinct != len(tasks.List) || !(c.ShareOfCalls > 0) ||
			!(c.ShareOfCalls < 1) {
			t.Errorf("%s: %+v", name, c)
		}
		recorded := 0
		for _, n := range c.Recorded {
			recorded += n
		}
		if recorded != c.Captures || recorded <= c.MeasuredCalls {
			t.Errorf("%s: %d calls recorded by op, want all %d", name, recorded, c.Captures)
		}
	}
}

// A fake device has passes that take a fixed time each.
type fake struct {
	replay.Device
	forwardOnly bool
	elapsed     time.Duration
}

func (d *fake) NewTimer(c *replay.DeviceCall, _ int64) (timing.Runner, error) {
	if c.GradOutputs != nil && d.forwardOnly {
		return nil, &replay.CallError{Verdict: verdict.Unsupported, Reason: "no such function"}
	}
	return d, nil
}

func (d *fake) Clock() timing.Clock { return timing.HostClock }

func (d *fake) Sample(_ context.Context, _ timing.Cache, n int) ([]timing.Sample, error) {
	out := make([]timing.Sample, n)
	for i := range out {
		out[i].Elapsed = d.elapsed
	}
	return out, nil
}

// TestAgainst measures two devices in turn, in as many rounds as it takes to tell.
func TestAgainst(t *testing.T) {
	for _, c := range []struct {
		against time.Duration
		runs    int
		rounds  int
		want    timing.Verdict
	}{
		{100 * time.Microsecond, 0, timing.PairRounds[0], timing.Same},
		{90 * time.Microsecond, 0, timing.PairRounds[0], timing.Slower},
		{90 * time.Microsecond, 5, 5, timing.Ambiguous},
		{90 * time.Microsecond, 40, timing.PairRounds[0], timing.Slower},
	} {
		timer, tasks := demo(t, false)
		renewed := 0
		timer.Device = &fake{elapsed: 100 * time.Microsecond}
		timer.Against = &fake{elapsed: c.against}
		timer.Runs, timer.Resolution, timer.Order = c.runs, timing.Resolution, rand.New(rand.NewPCG(1, 2))
		timer.Renew = func() { renewed++ }
		some := tasks.List[:2]
		for k, err := range timer.Run(t.Context(), some) {
			if err != nil || k.Err != nil || len(k.Series) != len(k.Against) || len(k.Series) == 0 {
				t.Fatalf("%s: %v, %v, %d series against %d", k.Op, err, k.Err, len(k.Series), len(k.Against))
			}
			for i, s := range k.Series {
				samples := s.Series.Samples
				got := timing.ComparePair(k.Against[i].Samples, samples, timer.Resolution).Verdict
				if rounds := samples[len(samples)-1].Round + 1; rounds != c.rounds || got != c.want {
					t.Errorf("%v, %d runs: %s after %d rounds, want %s after %d", c.against, c.runs, got, rounds,
						c.want, c.rounds)
				}
				if c.runs > 0 && len(samples) != c.runs {
					t.Errorf("%d runs, want %d", len(samples), c.runs)
				}
			}
		}
		if renewed != c.rounds*len(some) {
			t.Errorf("%d new processes for %d rounds of %d tasks", renewed, c.rounds, len(some))
		}
	}
}

// TestAgainstLacks: what only one of two devices has is not measured.
func TestAgainstLacks(t *testing.T) {
	timer, tasks := demo(t, false)
	timer.Device = &fake{elapsed: time.Microsecond}
	i := slices.IndexFunc(tasks.List, func(k *Task) bool { return k.Op == "torch.nn.functional.softmax" })
	timer.Against = &fake{elapsed: time.Microsecond, forwardOnly: true}
	for k, err := range timer.Run(t.Context(), tasks.List[i:i+1]) {
		var lacking *replay.CallError
		if err != nil || len(k.Series) != 2 || len(k.Against) != 2 || !errors.As(k.NoBackward, &lacking) ||
			!strings.HasPrefix(k.NoBackward.Error(), "the device that it is measured against: ") {
			t.Errorf("%v, %d series against %d, no backward pass: %v", err, len(k.Series), len(k.Against), k.NoBackward)
		}
	}
}

// TestEach counts calls that do the same work, unless each is to be measured.
func TestEach(t *testing.T) {
	timer, once := demo(t, false)
	_, each := demo(t, true)
	again := *once
	for _, k := range each.List {
		if err := again.Add(k.Entry, timer.Replay); err != nil {
			t.Fatal(err)
		}
	}
	if len(again.List) != len(once.List) {
		t.Errorf("%d kinds of work become %d", len(once.List), len(again.List))
	}
	if got, want := Covered(again.List).Captures, 2*len(each.List); got != want {
		t.Errorf("%d captures, want %d", got, want)
	}
}

// TestFinished: a task has rounds until all its series are known well enough or its time is
// spent, and all that are asked for.
func TestFinished(t *testing.T) {
	series := []*reports.Timing{{}, {}}
	for _, c := range []struct {
		name string
		runs int
		task Task
		want bool
	}{
		{"not begun", 0, Task{spent: time.Hour}, false},
		{"one to be known better", 0, Task{Series: series, enough: []bool{true, false}}, false},
		{"all known", 0, Task{Series: series, enough: []bool{true, true}}, true},
		{"slow", 0, Task{Series: series, enough: []bool{true, false}, spent: 5 * time.Second}, true},
		{"slow, but runs are asked for", 9, Task{Series: series, enough: []bool{true, true}, spent: time.Hour}, false},
	} {
		timer := &Timer{Runs: c.runs, MaxTime: time.Second}
		if got := timer.finished(&c.task); got != c.want {
			t.Errorf("%s: finished %v, want %v", c.name, got, c.want)
		}
	}
}

// TestStops ends with the budget, with an error of Before and with the context.
func TestStops(t *testing.T) {
	timer, tasks := demo(t, false)
	var list []*Task
	timer.Budget, list = NewBudget(time.Now(), tasks.List, 0)
	for k := range timer.Run(t.Context(), list) {
		t.Errorf("%s is measured without time", k.Op)
	}
	timer.Budget = nil
	refused := errors.New("refused")
	timer.Before = func(context.Context, *Task) error { return refused }
	for k, err := range timer.Run(t.Context(), list) {
		if err != refused || len(k.Series) > 0 {
			t.Errorf("%s: %v, %d series", k.Op, err, len(k.Series))
		}
	}
	timer.Before = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, order := range []*rand.Rand{nil, rand.New(rand.NewPCG(1, 2))} {
		timer.Order = order
		var last error
		for _, last = range timer.Run(ctx, list) {
		}
		if last != context.Canceled {
			t.Errorf("a run that is cancelled ends with %v", last)
		}
	}
}

func TestPeaks(t *testing.T) {
	asked := 0
	p := Peaks{Measure: func(string) (reports.Peak, error) {
		asked++
		return reports.Peak{Bandwidth: 1e9, Flops: 2e9}, nil
	}}
	if !p.Known() || (&Peaks{}).Known() {
		t.Error("peaks are known that are measured or given, and no others")
	}
	for range 2 {
		if got, err := p.Of("float32"); err != nil || got.Bandwidth != 1e9 || asked != 1 {
			t.Errorf("%+v, %v, measured %d times", got, err, asked)
		}
	}
	p.Given.Bandwidth = 5e9
	if got, _ := p.Of("float32"); got.Bandwidth != 5e9 || got.Flops != 2e9 {
		t.Errorf("%+v with a bandwidth given", got)
	}
}
