package step

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
)

// TestNotRun: a call that is not run is linked as it was recorded, no part of the analysis
// computes it, and the exact step goes on from its recorded result.
func TestNotRun(t *testing.T) {
	tooLong := errors.New("takes too long")
	opt := options(t)
	var within atomic.Int64
	opt.Within = func(_ int64, f func() error) error {
		within.Add(1)
		return f()
	}
	var calls []*Call
	for e, err := range capture.Scan(context.Background(), []string{"testdata/clean"}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.ID == 4 { // gelu
			calls = append(calls, NotRun(e, tooLong, opt))
			continue
		}
		calls = append(calls, Read(e, opt))
	}
	tr := New(calls)
	if err := tr.Analyze(context.Background(), opt); err != nil {
		t.Fatal(err)
	}
	s := tr.Processes[0].Steps[0]
	if len(s.Breaks) != 1 || s.Breaks[0].Call.Entry.ID != 4 || s.Breaks[0].Reason != tooLong.Error() {
		t.Errorf("breaks %v, want gelu alone", s.Breaks)
	}
	c := s.Breaks[0].Call
	if c.Verdict != verdict.Error || c.Failed != tooLong.Error() || !math.IsNaN(c.TotalError) || len(c.Readers()) == 0 {
		t.Errorf("gelu: %s, failed %q, total error %v, %d readers", c.Verdict, c.Failed, c.TotalError, len(c.Readers()))
	}
	if math.Abs(s.Exact-s.Captured) > 1e-6 || len(tr.Findings) != 0 || within.Load() == 0 {
		t.Errorf("exact %v, recorded %v, findings %v, %d computations within limits", s.Exact, s.Captured, tr.Findings,
			within.Load())
	}
}

// TestWithin: what goes beyond a limit while a step is analysed costs that call alone.
func TestWithin(t *testing.T) {
	opt := options(t)
	tr := open(t, "clean")
	tr = New(func() (calls []*Call) {
		for _, c := range tr.Calls() {
			calls = append(calls, Read(c.Entry, opt))
		}
		return calls
	}())
	var bytes int64
	for _, c := range tr.Calls() {
		if c.Entry.ID == 2 { // layer norm, of another size than all others
			bytes = c.Entry.Bytes()
		}
	}
	opt.Within = func(n int64, f func() error) error {
		if n == bytes {
			return errors.New("takes too much")
		}
		return replay.Guard(f)
	}
	if err := tr.Analyze(context.Background(), opt); err != nil {
		t.Fatal(err)
	}
	s := tr.Processes[0].Steps[0]
	if len(s.Breaks) != 1 || s.Breaks[0].Call.Entry.ID != 2 || s.Breaks[0].Reason != "takes too much" {
		t.Errorf("breaks %v, want layer norm alone", s.Breaks)
	}
}
