package timed

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/optool/optool/capture"
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
