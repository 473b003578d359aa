package step

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/shorttest"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// TestMovedNotFinite: where a wrong gradient is not finite, the screen has the reason why its effect is not known.
func TestMovedNotFinite(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/clean")); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "op_tools_results", "op_capture_results",
		"torch.nn.functional.gelu", "301", "4", "*", "grad_inputs.pth"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	poke(t, files[0], 0, []float64{math.NaN()})
	tr := analyse(t, dir)
	m := tr.Without(context.Background(), options(t))
	if !strings.HasSuffix(m.Why, "what it should be follows from a recorded gradient that is not finite") {
		t.Errorf("%s: %+v", tr.First().Call, m)
	}
}

// TestOneKernel: the wrong calls of an operator are one fault, unless different causes were found for them. The numbers
// in a cause may differ.
func TestOneKernel(t *testing.T) {
	shorttest.Computes(t)
	tr := analyse(t, unpack(t, "replaced"))
	s := tr.Processes[0].Steps[0]
	near := func(loss float64) bool { return math.Abs(loss-s.Exact) < 1e-6*s.Exact }
	for _, tc := range []struct {
		first, second string // causes
		pattern       bool   // of the second
		calls, kept   int
	}{
		{"", "", false, 3, 0},
		{"eps is 0.01, not 1e-05", "eps is 0.02, not 1e-05", false, 3, 0},
		{"eps is 0.01, not 1e-05", "", false, 3, 0},
		{"eps is 0.01, not 1e-05", "it has the elements in another order", true, 3, 0},
		{"eps is 0.01, not 1e-05", "it has the elements in another order", false, 2, 1},
	} {
		for i, text := range []string{tc.first, tc.second, ""} {
			tr.Findings[i].Causes = nil
			if text != "" {
				tr.Findings[i].Causes = []reports.Cause{{Text: text, Pattern: tc.pattern && i == 1}}
			}
		}
		m := tr.Without(context.Background(), options(t))
		all, n := tr.Together(context.Background(), m, options(t))
		if m.Calls != tc.calls || m.Kept != tc.kept || near(m.Loss) != (tc.kept == 0) || n != 3 || !near(all.Loss) {
			t.Errorf("%+v: %+v, all %d: %v, want %v", tc, m, n, all.Loss, s.Exact)
		}
	}
}

// TestGradientLost: where no recorded call took on the gradient that a fault made wrong, what the fault does to the
// next loss is not told.
func TestGradientLost(t *testing.T) {
	tr := analyse(t, unpack(t, "argument-returned"))
	for _, c := range tr.Processes[0].Steps[0].Calls {
		if c.Entry.Module == "o" {
			c.GradOutputs = nil
		}
	}
	m := tr.Without(context.Background(), options(t))
	if !strings.Contains(m.Why, "no recorded call took the gradient of input[0] of torch.Tensor.flatten/10 on") ||
		m.Loss == m.Loss {
		t.Errorf("%+v", m)
	}
}

// TestPassesOnAverage: what a wrong gradient does to the next loss passes through a call whose dropped elements are not
// known on average only, and is said to.
func TestPassesOnAverage(t *testing.T) {
	m := analyse(t, unpack(t, "dropped-inside")).Without(context.Background(), options(t))
	if len(m.Averaged) != 2 || len(m.Bridged) > 0 || math.Abs(m.Loss-1.3981523513793945) > 2e-5 {
		t.Errorf("%+v", m)
	}
	m = analyse(t, unpack(t, "dropped-gradient")).Without(context.Background(), options(t))
	if len(m.Averaged)+len(m.Bridged) > 0 {
		t.Errorf("the results show what was dropped: %+v", m)
	}
}

// TestDrawnUntold: nobody knows what a wrong attention with dropout inside would have given, nor what it did to the
// loss. Its recorded result is not taken for the right one.
func TestDrawnUntold(t *testing.T) {
	ctx := context.Background()
	for name, wrong := range map[string]bool{"attention-dropout": true, "attention-dropout-right": false} {
		tr := analyse(t, unpack(t, name))
		p := tr.Processes[0]
		s := p.Steps[0]
		if untold := s.Untold != nil; untold != wrong || math.IsNaN(s.Exact) != wrong {
			t.Errorf("%s: the exact loss is %v, untold: %v", name, s.Exact, s.Untold)
		}
		if m := tr.Without(ctx, options(t)); wrong && (!math.IsNaN(m.Loss) ||
			!strings.Contains(m.Why, "scaled_dot_product_attention/18 cannot be run again: it draws random numbers")) {
			t.Errorf("%s: %+v", name, m)
		}
		for op, known := range map[string]bool{"scaled_dot_product_attention": false, "linear": true} {
			losses, err := p.Losses(ctx, WhatIf{Choose: func(c *Call) (Choice, tensor.DType) {
				if strings.HasSuffix(c.Op, op) {
					return AsExact, tensor.Invalid
				}
				return AsRecorded, tensor.Invalid
			}}, options(t))
			if err != nil {
				t.Fatal(err)
			}
			l := losses[0]
			if (l.Why == "") != known || math.IsNaN(l.Loss) == known ||
				known && (l.Loss == s.Captured || len(l.Averaged) != 1) {
				t.Errorf("%s with %s exact: %+v", name, op, l)
			}
		}
	}
}
