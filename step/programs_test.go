package step

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// A truth is what bench/steps.py knows of a program that it recorded.
type truth struct {
	First *struct {
		Rules              []string
		Op, Target, Module string
	}
	Findings int // how many there are, if that is what the program is about
	Losses   []struct{ Captured, Exact float64 }
	// Partial is how many gradients are no finding, but a gap: a part of the sum, or of the elements, is another one.
	Partial int
	// Unexplained is how many values are a gap since no recorded call made them, if that is what the program is about.
	Unexplained int
	// Without is the loss of a step in a run without the fault, which shows before it, or in its forward pass. Calls is
	// how many calls of the kernel are wrong, 0 for one.
	Without *struct {
		Step, Calls int
		Loss        float64
	}
	// Untold is why it cannot be told what the first fault does to the next loss.
	Untold string
	// Together is that loss in a run without any of the faults before it.
	Together *struct {
		Loss   float64
		Faults int
	}
}

// unpack unpacks a recording of testdata/programs and returns its directory.
func unpack(t *testing.T, name string) string {
	t.Helper()
	packed, err := os.ReadFile("testdata/programs/" + name + ".tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, name)
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		data, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPrograms: the first finding and each loss of the programs that bench/steps.py recorded; nothing is found where
// nothing is wrong.
func TestPrograms(t *testing.T) {
	all, err := filepath.Glob("testdata/programs/*.step.json")
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for i, path := range all {
		if testing.Short() && i%8 > 0 {
			continue // programs differ in values, not in goroutines
		}
		name := strings.TrimSuffix(filepath.Base(path), ".step.json")
		t.Run(name, func(t *testing.T) {
			var want truth
			raw, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(raw, &want)
			}
			if err != nil {
				t.Fatal(err)
			}
			tr := analyse(t, unpack(t, name))
			want.check(t, tr)
			partial := 0
			for _, g := range tr.Seen().Gaps {
				if strings.Contains(g.What, "but not the sum of what the calls that read the parameter gave") {
					partial = g.N
				}
			}
			if partial != want.Partial {
				t.Errorf("%d gradients are not the sum, want %d", partial, want.Partial)
			}
			if n := tr.Seen().Unexplained; want.Unexplained > 0 && n != want.Unexplained {
				t.Errorf("%d values are unexplained, want %d", n, want.Unexplained)
			}
			steps := tr.Processes[0].Steps
			if len(steps) != len(want.Losses) {
				t.Fatalf("%d losses, want %d", len(steps), len(want.Losses))
			}
			for i, w := range want.Losses {
				s := steps[i]
				if math.Abs(s.Captured-w.Captured) > 1e-6*math.Abs(w.Captured) ||
					math.Abs(s.Exact-w.Exact) > 1e-6*math.Abs(w.Exact) {
					t.Errorf("loss %d is %v, exact %v; want %v, exact %v", i, s.Captured, s.Exact, w.Captured, w.Exact)
				}
			}
			if want.Untold != "" {
				m := tr.Without(context.Background(), options(t))
				if !strings.Contains(m.Why, want.Untold) || m.Loss == m.Loss {
					t.Errorf("without the fault %+v, want %q", m, want.Untold)
				}
			}
			if w := want.Without; w != nil {
				f := tr.First()
				m := tr.Without(context.Background(), options(t))
				if m.Step == nil || m.Step.Number != w.Step || math.Abs(m.Loss-w.Loss) > 1e-6*w.Loss ||
					m.Step != f.Call.Step && !(m.Update > 0) || m.Calls != max(1, w.Calls) {
					t.Errorf("without the fault %+v, want %+v", m, *w)
				}
				if off := math.Abs(m.Loss - w.Loss); off > m.RoundsBy() {
					t.Errorf("without the fault %v, off by %.2g, more than %.2g", m.Loss, off, m.RoundsBy())
				}
				all, n := tr.Together(context.Background(), m, options(t))
				if w := want.Together; w != nil && (n != w.Faults || !(math.Abs(all.Loss-w.Loss) <= 1e-6*w.Loss)) {
					t.Errorf("without all %d faults %+v, want %+v", n, all, *w)
				}
			}
		})
	}
}

// check compares the first finding.
func (want truth) check(t *testing.T, tr *Trace) {
	if want.First == nil {
		for _, f := range tr.Findings {
			t.Errorf("finding %s %s %s: %s", f.Rule, f.Call, f.Target, f.Reason)
		}
		return
	}
	if len(tr.Findings) == 0 {
		t.Fatal("nothing was found")
	}
	if n := len(tr.Findings); want.Findings > 0 && n != want.Findings {
		t.Errorf("%d findings, want %d", n, want.Findings)
	}
	f, w := tr.Findings[0], want.First
	if f.Rule != verdict.Rule(w.Rules[len(w.Rules)-1]) || !strings.HasSuffix(f.Call.Op, w.Op) ||
		w.Target != "" && f.Target != w.Target || w.Module != "" && f.Call.Entry.Module != w.Module {
		t.Errorf("first finding %s %s %s in %q: %s; want %+v", f.Rule, f.Call, f.Target, f.Call.Entry.Module, f.Reason,
			*w)
	}
}

// TestPredicted: the effects of all calls add up to what rounding did to the loss, also of what autocast rounds inside
// of calls, and of dropout.
func TestPredicted(t *testing.T) {
	s := analyse(t, unpack(t, "autocast-dropout")).Processes[0].Steps[0]
	if off := s.Captured - s.Exact; math.Abs(s.Predicted-off) > 0.05*math.Abs(off) {
		t.Errorf("the effects add up to %g, want %g", s.Predicted, off)
	}
}

// TestGradientNamed: a wrong gradient is named by the operator's argument and the parameter.
func TestGradientNamed(t *testing.T) {
	f := analyse(t, unpack(t, "embedding-function")).First()
	if got, want := f.GradientOf(), "gradient of weight (tok.weight)"; got != want {
		t.Errorf("%s of %s is the %q, want %q", f.Target, f.Call, got, want)
	}
}
