package metric

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
)

// A Group is calls and what their errors alone do to the result.
type Group struct {
	Name  string // of the operator, module or dtype; of a single call, as step prints it
	DType string // of the results
	Calls []*step.Call
	Effect
}

// A Metric is what the errors of calls do to a result.
type Metric struct {
	Of        *step.Value
	Positions int
	// Total is recorded against exact.
	Total Effect
	// Routes is what whole numbers that the recorded run decided otherwise than exact arithmetic (routes of
	// experts, masks) do alone; nil if they are the same. Groups are measured with the recorded ones.
	Routes *Effect
	// Predicted is the KL of the effects of all operators added up.
	Predicted float64

	ByOp, ByCall, ByModule, ByDType []*Group
	Breaks                          []step.Break
}

// Options say how the metric is measured.
type Options struct {
	step.Options
	// Tokens are what the positions are to tell; nil for the next tokens of the input.
	Tokens []int64
}

// Measure measures what the errors of the calls that a result depends on do to it.
func Measure(ctx context.Context, of *step.Value, opt Options) (*Metric, error) {
	if opt.Tokens == nil {
		opt.Tokens = Next(of, opt.Options)
	}
	recorded := of.Floats(opt.Options)
	if recorded == nil {
		return nil, errors.New("the elements of " + of.Target + " of " + of.Call.String() + " were not recorded")
	}
	m := &Metric{Of: of}
	base, err := (&step.Carry{Of: []*step.Value{of}}).Run(ctx, opt.Options)
	if err != nil {
		return nil, err
	}
	m.Breaks = base.Breaks
	if base.Exact[0] == nil {
		return nil, errors.New("the exact value of " + of.Call.String() + " is not known")
	}
	exact, err := NewDistribution(base.Exact[0], opt.Tokens)
	if err != nil {
		return nil, err
	}
	m.Positions = exact.Positions
	m.Total = exact.Effect(recorded)

	groups := func(name func(*step.Call) string) []*Group {
		byName := map[string]*Group{}
		var out []*Group
		for _, c := range base.Calls {
			if !(c.LocalError > 0) {
				continue
			}
			n := name(c)
			g := byName[n]
			if g == nil {
				g = &Group{Name: n}
				byName[n] = g
				out = append(out, g)
			}
			g.Calls = append(g.Calls, c)
			g.DType = cmp.Or(g.DType, dtypeOf(c))
		}
		return out
	}
	m.ByOp = groups(func(c *step.Call) string { return reports.Name(c.Op) })
	m.ByCall = groups((*step.Call).String)
	var variations []step.Variation
	all := append(slices.Clone(m.ByOp), m.ByCall...)
	for _, g := range all {
		variations = append(variations, g.alone())
	}
	carried, err := (&step.Carry{Of: []*step.Value{of}, Variations: variations, Decisions: true}).Run(ctx, opt.Options)
	if err != nil {
		return nil, err
	}
	kept, err := NewDistribution(carried.Exact[0], opt.Tokens)
	if err != nil {
		return nil, err
	}
	if e := exact.Effect(float64s(carried.Exact[0])); e.KL > 0 || e.MaxAbs > 1e-9 {
		m.Routes = &e
	}
	sum := slices.Clone(kept.logits)
	for i, g := range all {
		now := float64s(carried.With[i][0])
		g.Effect = kept.Effect(now)
		if i < len(m.ByOp) {
			for k := range sum {
				if d := now[k] - kept.logits[k]; d-d == 0 {
					sum[k] += d
				}
			}
		}
	}
	m.Predicted = exact.Effect(sum).KL
	byKL := func(a, b *Group) int { return cmp.Compare(b.KL, a.KL) }
	slices.SortStableFunc(m.ByOp, byKL)
	slices.SortStableFunc(m.ByCall, byKL)
	return m, nil
}

func dtypeOf(c *step.Call) string {
	if dt := c.DType(); dt.Computable() {
		return dt.String()
	}
	return ""
}

// Known reports whether log-probabilities were measured.
func (e Effect) Known() bool { return !math.IsNaN(e.LogProb) }

// alone is the run with the errors of the group's calls.
func (g *Group) alone() step.Variation {
	has := map[*step.Call]bool{}
	for _, c := range g.Calls {
		has[c] = true
	}
	return step.Variation{Errors: func(c *step.Call) bool { return has[c] }}
}
