package metric

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
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
	// Others are the operators that were not measured one by one, nil if all were; Unmeasured counts such calls.
	Others     *Group
	Unmeasured int
	Exact      *Distribution
	// Value is what Options.Function gives for the recorded result; nil without one.
	Value *float64
	// Imagined are runs that might have been.
	Imagined []Imagined
	Breaks   []step.Break
	// Strays are the calls where exact arithmetic takes another way through the program than was recorded. If there
	// are any, all numbers keep the recorded decisions.
	Strays []step.Break
	// Cuts are inputs that the exact run takes as they were recorded, because calls that were not recorded made them.
	Cuts []*step.Value
	// Padding reports that positions without a distribution read padding: nothing is unknown.
	Padding bool
}

// Options say how the metric is measured.
type Options struct {
	step.Options
	// Tokens are what the positions are to tell; nil for the next tokens of the input.
	Tokens []int64
	// Function, if not nil, is a metric of the user's own.
	Function func(exact, result *tensor.Tensor) (float64, error)
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
	calls := step.Cone(of)
	m.group(calls)
	run := &step.Carry{Of: []*step.Value{of}, Decisions: slices.ContainsFunc(calls, (*step.Call).Decides)}
	for _, g := range m.measured() {
		run.Variations = append(run.Variations, g.alone())
	}
	carried, err := run.Run(ctx, opt.Options)
	if err != nil {
		return nil, err
	}
	m.Breaks, m.Cuts = carried.Breaks, carried.Cuts
	base := carried.Exact[0]
	if run.Decisions {
		exact, err := (&step.Carry{Of: []*step.Value{of}}).Run(ctx, opt.Options)
		if err != nil {
			return nil, err
		}
		if m.Strays = exact.Strays; len(m.Strays) == 0 {
			base = exact.Exact[0]
		}
	}
	if base == nil || carried.Exact[0] == nil {
		return nil, errors.New("the exact value of " + of.Call.String() + " is not known")
	}
	exact, err := NewDistribution(base, opt.Tokens)
	if err != nil {
		return nil, err
	}
	m.Exact, m.Positions, m.Total = exact, exact.Positions, exact.Effect(recorded)
	m.Padding = m.unknownPadding(opt.Options)
	if opt.Function != nil {
		v, err := opt.Function(base, tensor.New(of.DType, of.Shape, recorded))
		if err != nil {
			return nil, err
		}
		m.Value = &v
	}
	kept := exact
	if run.Decisions {
		if kept, err = NewDistribution(carried.Exact[0], opt.Tokens); err != nil {
			return nil, err
		}
		if e := exact.Effect(kept.logits); e.MaxAbs > sameLogits {
			m.Routes = &e
		}
	}
	m.fill(kept, carried.With)
	return m, nil
}

// An Imagined is what a run with some calls computed otherwise would have been.
type Imagined struct {
	Text  string // "torch.matmul exact"
	Calls int    // that are computed otherwise
	Effect
	Why string // why the effect is not known; "" if it is
	// Rerouted counts tokens that go to other experts than recorded, in each layer. The effect is computed with them.
	Rerouted int
	// Kept is the effect with the recorded routes, nil if no token is rerouted; Ties are choices of experts that
	// rounding may decide otherwise in a real run.
	Kept *Effect
	Ties []step.Tie
	// Strays are the calls where the run would have left the recorded way of the program; it keeps the recorded routes.
	Strays []step.Break
}

// Imagine measures a run with some calls computed otherwise, against the exact one.
func (m *Metric) Imagine(ctx context.Context, text string, w step.WhatIf, opt Options) error {
	i, err := w.Result(ctx, m.Of, opt.Options)
	if err != nil {
		return err
	}
	calls := 0
	for _, c := range step.Cone(m.Of) {
		if how, _ := w.Choose(c); how != step.AsRecorded {
			calls++
		}
	}
	out := Imagined{Text: text, Calls: calls, Effect: m.Exact.Effect(float64s(i.Result)), Why: i.Why(),
		Rerouted: i.Rerouted, Ties: i.Ties, Strays: i.Strays}
	if out.Why != "" {
		nan := math.NaN()
		out.Effect = Effect{KL: nan, KLMax: nan, LogProb: nan, LogProbAbs: nan, MaxAbs: nan}
	} else if i.Kept != nil {
		e := m.Exact.Effect(float64s(i.Kept))
		out.Kept = &e
	}
	m.Imagined = append(m.Imagined, out)
	return nil
}

// sameLogits is how far logits of two orders of sums in float64 may be apart.
const sameLogits = 1e-9

// How many calls may be run in all variations together: some for each recording, and some for each of its calls.
// Small recordings are measured call by call; of large ones the calls with the largest errors are.
const (
	effort        = 13000
	effortForCall = 2
)

// group decides which calls are measured together. Operators and calls with the largest relative errors come
// first; the other operators are measured as one group, and the other calls are not measured by themselves.
func (m *Metric) group(calls []*step.Call) {
	left := effort + effortForCall*len(calls)
	cost := map[*step.Call]int{} // calls from this one on
	var faulty []*step.Call
	for i, c := range calls {
		cost[c] = len(calls) - i
		if c.LocalError > 0 {
			faulty = append(faulty, c)
		}
	}
	by := func(name func(*step.Call) string) []*Group {
		byName := map[string]*Group{}
		var out []*Group
		for _, c := range faulty {
			n := name(c)
			g := byName[n]
			if g == nil {
				g = &Group{Name: n}
				byName[n] = g
				out = append(out, g)
			}
			g.Calls = append(g.Calls, c)
		}
		for _, g := range out {
			g.DType = g.dtype()
		}
		slices.SortStableFunc(out, func(a, b *Group) int { return cmp.Compare(b.weight(), a.weight()) })
		return out
	}
	var rest *Group
	for i, g := range by(func(c *step.Call) string { return reports.Name(c.Op) }) {
		if left -= cost[g.Calls[0]]; left > effort/2 || i < 3 {
			m.ByOp = append(m.ByOp, g)
			continue
		}
		if rest == nil {
			rest = &Group{Name: "others"}
		}
		rest.Calls = append(rest.Calls, g.Calls...)
	}
	if rest != nil {
		m.Others = rest
	}
	m.ByDType = by(dtypeOf)
	for _, g := range m.ByDType {
		left -= cost[g.Calls[0]]
	}
	for _, g := range by((*step.Call).String) {
		if left -= cost[g.Calls[0]]; left < 0 {
			m.Unmeasured++
			continue
		}
		m.ByCall = append(m.ByCall, g)
	}
	if m.Unmeasured == 0 {
		m.ByModule = by(func(c *step.Call) string { return c.Entry.Module })
	}
}

// weight is how large the relative errors of a group's calls are together.
func (g *Group) weight() (square float64) {
	for _, c := range g.Calls {
		square += c.LocalError * c.LocalError
	}
	return square
}

// dtype is that of the calls with the largest relative errors together.
func (g *Group) dtype() (most string) {
	weight := map[string]float64{}
	for _, c := range g.Calls {
		dt := dtypeOf(c)
		weight[dt] += c.LocalError * c.LocalError
		if weight[dt] > weight[most] || most == "" {
			most = dt
		}
	}
	return most
}

// measured are the groups that are run by themselves.
func (m *Metric) measured() []*Group {
	out := slices.Concat(m.ByOp, m.ByDType, m.ByCall)
	if m.Others != nil {
		out = append(out, m.Others)
	}
	return out
}

// fill takes the results of the groups' runs. Modules are the sums of their calls.
func (m *Metric) fill(kept *Distribution, with [][]*tensor.Tensor) {
	sum := slices.Clone(kept.logits)
	add := func(to, now []float64) {
		for k := range to {
			if d := now[k] - kept.logits[k]; d-d == 0 {
				to[k] += d
			}
		}
	}
	ops := len(m.ByOp)
	modules := map[string][]float64{}
	for i, g := range m.measured() {
		now := float64s(with[i][0])
		g.Effect = kept.Effect(now)
		switch {
		case i < ops || g == m.Others:
			add(sum, now)
		case i >= ops+len(m.ByDType) && len(m.ByModule) > 0:
			at := g.Calls[0].Entry.Module
			if modules[at] == nil {
				modules[at] = slices.Clone(kept.logits)
			}
			add(modules[at], now)
		}
	}
	for _, g := range m.ByModule {
		g.Effect = kept.Effect(modules[g.Name])
	}
	if len(m.ByModule) == 1 && m.ByModule[0].Name == "" {
		m.ByModule = nil // none was recorded
	}
	m.Predicted = kept.Effect(sum).KL
	for _, gs := range [][]*Group{m.ByOp, m.ByCall, m.ByModule, m.ByDType} {
		slices.SortStableFunc(gs, func(a, b *Group) int { return cmp.Compare(b.KL, a.KL) })
	}
}

// First is the operator whose errors alone do most; nil if none has errors.
func (m *Metric) First() *Group {
	if len(m.ByOp) == 0 {
		return nil
	}
	return m.ByOp[0]
}

func dtypeOf(c *step.Call) string {
	if dt := c.DType(); dt.Computable() {
		return dt.String()
	}
	return ""
}

// NonFinite counts the positions of tokens that have no distribution.
func (m *Metric) NonFinite() int {
	if m.Padding {
		return 0
	}
	return m.Total.NonFinite
}

// unknownPadding reports whether there are positions without a distribution, and all of them read padding.
func (m *Metric) unknownPadding(opt step.Options) bool {
	read := tokensRead(step.Cone(m.Of), m.Of)
	if m.Total.NonFinite == 0 || read == nil || read.Numel() != m.Positions {
		return false
	}
	ids, n := read.Whole(opt), lastSize(read)
	return len(ids) == m.Positions && onlyPadding(len(ids)/n, func(int) int { return n },
		func(r, k int) (int64, bool) { return ids[r*n+k], m.Total.nonFinite[r*n+k] })
}

// Merge makes a finding about positions without a distribution the first of the trace. Where these are padding, NaN
// and Inf that calls make of it are no finding either.
func (m *Metric) Merge(t *step.Trace) {
	switch {
	case m.Padding:
		t.Findings = slices.DeleteFunc(t.Findings, nonFiniteOf(step.Cone(m.Of)))
	case m.Total.NonFinite > 0:
		t.Findings = slices.Insert(t.Findings, 0, &step.Finding{Rule: verdict.NonFinite, Call: m.Of.Call,
			Target: m.Of.Target, Reason: fmt.Sprintf("logits of %d of %s are NaN or Inf: what errors do there is not known, "+
				"and not in the numbers", m.Total.NonFinite, reports.Count(m.Positions, "position"))})
	}
}

// nonFiniteOf reports findings about NaN or Inf that one of the calls made.
func nonFiniteOf(calls []*step.Call) func(f *step.Finding) bool {
	return func(f *step.Finding) bool { return f.Rule == verdict.NonFinite && slices.Contains(calls, f.Call) }
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
