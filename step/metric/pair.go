package metric

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/step/pairs"
)

// A Token is a token that both runs gave a log-probability.
type Token struct {
	Position       int // among the tokens of this run
	ID             int64
	This, Other    Score
	ExplainedBy    []*step.Call
	ExplainedSides []step.Side
}

// Difference is the log-probability of this run less that of the other.
func (t *Token) Difference() float64 { return t.This.LogProb - t.Other.LogProb }

// Tie stands for both runs where neither is nearer to its exact value.
const Tie step.Side = "tie"

// Nearer is the run whose log-probability is nearer to its exact one; empty if that is not known of both.
func (t *Token) Nearer() step.Side {
	if x := t.This.Exact - t.Other.Exact; x != x {
		return ""
	}
	d := math.Abs(t.This.LogProb-t.This.Exact) - math.Abs(t.Other.LogProb-t.Other.Exact)
	switch {
	case d != d:
		return ""
	case math.Abs(d) <= sameLogits:
		return Tie
	case d < 0:
		return step.This
	}
	return step.Other
}

// A Cause is calls of one run, of one operator and line, and what their errors do to the tokens.
type Cause struct {
	Side step.Side
	Group
	// Change is the change of each token's log-probability, in the order of Pair.Tokens; MeanAbs is the mean of its
	// absolute values.
	Change  []float64
	MeanAbs float64
	// Error is the root mean square of the calls' relative errors, in units of what one rounding to their dtype
	// leaves at most.
	Error float64
}

// A Pair is two runs of the same tokens.
type Pair struct {
	Tokens []*Token
	Causes []*Cause // the largest first
	// Program is the mean absolute difference of the exact log-probabilities: what the two programs compute
	// otherwise, whatever their precision; NaN if they are not known of both.
	Program float64
	// Strays are the calls where exact arithmetic takes another way through a program than was recorded. If there are
	// any, both exact runs keep their recorded decisions, and Program may be that of other routes.
	Strays   []step.Break
	Findings []*step.Finding
	Sides    [2]*Scores // of this run and of the other
}

// NewPair compares two runs of the same tokens, for example a rollout and a training step. It is nil if the
// results of the two are no log-probabilities of common tokens, or if one of them has a loss.
func NewPair(ctx context.Context, this, other *step.Trace, of string, opt step.Options) (*Pair, error) {
	p := &Pair{}
	if hasLoss(this) || hasLoss(other) {
		return nil, nil
	}
	both := []*step.Trace{this, other}
	for i, t := range both {
		s, err := ScoresOf(ctx, t, of, false, opt)
		if s == nil || err != nil {
			return nil, err
		}
		p.Sides[i] = s
	}
	if p.Strays = slices.Concat(p.Sides[0].Strays, p.Sides[1].Strays); len(p.Strays) > 0 {
		for i, t := range both {
			s, err := ScoresOf(ctx, t, of, true, opt)
			if s == nil || err != nil {
				return nil, err
			}
			p.Sides[i] = s
		}
	}
	return p.measure(ctx, opt)
}

// measure pairs the tokens of both sides and finds the calls that explain their differences. It is nil if there are no
// common tokens.
func (p *Pair) measure(ctx context.Context, opt step.Options) (*Pair, error) {
	for _, at := range alignTokens(p.Sides[0].Rows, p.Sides[1].Rows) {
		p.Tokens = append(p.Tokens, &Token{Position: len(p.Tokens), ID: at[0].ID, This: *at[0], Other: *at[1]})
	}
	if len(p.Tokens) == 0 {
		return nil, nil
	}
	p.Program = meanAbs(p.Tokens, func(t *Token) float64 { return t.This.Exact - t.Other.Exact })
	for i := range p.Sides {
		if err := p.causes(ctx, i, sideOf(i), opt); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(p.Causes, func(a, b *Cause) int { return cmp.Compare(b.MeanAbs, a.MeanAbs) })
	p.explain()
	return p, p.find(ctx, opt)
}

// sideOf names a place in Pair.Sides.
func sideOf(i int) step.Side {
	if i == 0 {
		return step.This
	}
	return step.Other
}

func hasLoss(t *step.Trace) bool {
	return slices.ContainsFunc(t.Processes, func(p *step.Process) bool { return len(p.Steps) > 0 })
}

// MeanAbs is the mean absolute difference of the log-probabilities.
func (p *Pair) MeanAbs() float64 { return meanAbs(p.Tokens, (*Token).Difference) }

// meanAbs is the mean of the absolute values that are finite; NaN if none is.
func meanAbs(tokens []*Token, of func(*Token) float64) float64 {
	sum, n := 0.0, 0.0
	for _, t := range tokens {
		if x := math.Abs(of(t)); x-x == 0 {
			sum += x
			n++
		}
	}
	return sum / n
}

// NonFinite counts the tokens whose log-probabilities differ by no finite number.
func (p *Pair) NonFinite() (n int) {
	for _, t := range p.Tokens {
		if d := t.Difference(); d-d != 0 {
			n++
		}
	}
	return n
}

// unknown is a finding where tokens have no finite log-probability in one of the runs; nil if all have.
func (p *Pair) unknown() *step.Finding {
	n := p.NonFinite()
	for i, s := range p.Sides {
		for _, t := range p.Tokens {
			if x := [2]Score{t.This, t.Other}[i].LogProb; x-x != 0 && len(s.Of) > 0 {
				v := s.Of[len(s.Of)-1]
				return &step.Finding{Rule: verdict.NonFinite, Call: v.Call, Target: v.Target, Side: sideOf(i),
					Reason: fmt.Sprintf("log-probabilities of %d of %s are NaN or Inf in one of the runs: their difference is "+
						"not known, and not in the numbers", n, reports.Count(len(p.Tokens), "token"))}
			}
		}
	}
	return nil
}

// causes measures what the errors of each operator and line of a run do to the tokens.
func (p *Pair) causes(ctx context.Context, i int, side step.Side, opt step.Options) error {
	s := p.Sides[i]
	byPlace := map[string]*Cause{}
	var all []*Cause
	for _, c := range s.Calls {
		if !(c.LocalError > 0) {
			continue
		}
		at := c.Op + "\n" + c.Entry.Location
		g := byPlace[at]
		if g == nil {
			g = &Cause{Side: side, Group: Group{Name: pairs.Operator(c.Op)}}
			byPlace[at] = g
			all = append(all, g)
		}
		g.Calls = append(g.Calls, c)
		if u := c.DType().Eps() / 2; u > 0 {
			g.Error += (c.LocalError / u) * (c.LocalError / u)
		}
	}
	variations := make([]step.Variation, len(all))
	for k, g := range all {
		g.DType = g.dtype()
		g.Error = math.Sqrt(g.Error / float64(len(g.Calls)))
		variations[k] = g.alone()
	}
	carried, err := (&step.Carry{Of: s.Of, Variations: variations,
		Decisions: slices.ContainsFunc(s.Calls, (*step.Call).Decides)}).Run(ctx, opt)
	if err != nil || slices.Contains(carried.Exact, nil) {
		return err
	}
	exact := s.LogProbs(carried.Exact)
	for k, g := range all {
		now := s.LogProbs(carried.With[k])
		for _, t := range p.Tokens {
			at := t.This.at
			if side == step.Other {
				at = t.Other.at
			}
			d := now[at] - exact[at]
			g.Change = append(g.Change, d)
		}
		changes := g.Change
		g.MeanAbs = meanAbs(p.Tokens, func(*Token) (d float64) {
			d, changes = changes[0], changes[1:]
			return d
		})
	}
	p.Causes = append(p.Causes, all...)
	return nil
}

// explain names the calls that explain the difference of each token: those that move it in its direction most,
// until half of it is explained.
func (p *Pair) explain() {
	const most = 3
	for k, t := range p.Tokens {
		d, left := t.Difference(), math.Abs(t.Difference())/2
		sorted := slices.Clone(p.Causes)
		share := func(c *Cause) float64 {
			x := c.Change[k]
			if c.Side == step.Other {
				x = -x
			}
			if d < 0 {
				x = -x
			}
			return x
		}
		slices.SortStableFunc(sorted, func(a, b *Cause) int { return cmp.Compare(share(b), share(a)) })
		for _, c := range sorted {
			x := share(c)
			if !(x > 0) || !(left > 0) || len(t.ExplainedBy) == most {
				break
			}
			left -= x
			t.ExplainedBy = append(t.ExplainedBy, c.worst())
			t.ExplainedSides = append(t.ExplainedSides, c.Side)
		}
	}
}

// worst is the call with the largest relative error.
func (c *Cause) worst() *step.Call {
	return slices.MaxFunc(c.Calls, func(a, b *step.Call) int { return cmp.Compare(a.LocalError, b.LocalError) })
}

// How much more than one rounding a kernel may be off, on average, and which share of the difference it must make
// to be named: twice where replay has a doubt, more where it has none.
const (
	doubted   = 1.5
	undoubted = 4
	telling   = 0.05
	// programs whose exact log-probabilities differ by less, or by a smaller share of the difference, are one.
	sameProgram      = 1e-6
	sameProgramShare = 0.02
)

// OtherProgram reports that the programs themselves differ, not only their kernels.
func (p *Pair) OtherProgram() bool {
	return p.Program > max(sameProgram, sameProgramShare*p.MeanAbs())
}

// find draws the findings: what the programs compute otherwise, and the kernels that are off by more than
// rounding, the most important first.
func (p *Pair) find(ctx context.Context, opt step.Options) error {
	if f := p.unknown(); f != nil {
		p.Findings = append(p.Findings, f)
	}
	if p.OtherProgram() {
		f := p.weights(opt)
		if len(f) == 0 {
			var err error
			if f, err = p.program(ctx, opt); err != nil {
				return err
			}
		}
		p.Findings = append(p.Findings, f...)
	}
	for _, g := range p.Causes {
		bad := slices.IndexFunc(g.Calls, func(c *step.Call) bool { return c.ForwardVerdict() == verdict.Fail })
		warned := slices.ContainsFunc(g.Calls, func(c *step.Call) bool { return c.ForwardVerdict() == verdict.Warn })
		tells := g.MeanAbs >= telling*p.MeanAbs()
		f := &step.Finding{Rule: verdict.Wrong, Call: g.worst(), Target: "output[0]", Side: g.Side}
		what := fmt.Sprintf("mean change of log-probabilities by %s of this operator and line: %.2g, of %.2g between the runs",
			reports.Count(len(g.Calls), "call"), g.MeanAbs, p.MeanAbs())
		switch {
		case bad >= 0:
			f.Call = g.Calls[bad]
			f.Reason = what + "; " + reasonOf(f.Call)
		case tells && (warned && g.Error > doubted || g.Error > undoubted):
			f.Reason = fmt.Sprintf("%s; they are off by %.2g times what one rounding to %s leaves", what, g.Error,
				g.DType)
		default:
			continue
		}
		p.Findings = append(p.Findings, f)
	}
	return nil
}

// Merge makes the findings of the pair those of this run's trace. Calls of its own that are wrong stay, behind
// them, where no finding names their operator and line. NaN and Inf that only padding has are no finding.
func (p *Pair) Merge(t *step.Trace) {
	if s := p.Sides[0]; s.unknownPadding() {
		t.Findings = slices.DeleteFunc(t.Findings, nonFiniteOf(s.Calls))
	}
	named := map[string]bool{}
	place := func(c *step.Call) string { return c.Op + "\n" + c.Entry.Location }
	for _, f := range p.Findings {
		if f.Side == step.This && f.Rule == verdict.Wrong {
			named[place(f.Call)] = true
		}
	}
	out := slices.Clone(p.Findings)
	for _, f := range t.Findings {
		if f.Rule != verdict.Wrong || !named[place(f.Call)] {
			f.Side = step.This
			out = append(out, f)
		}
	}
	t.Findings = out
}

// reasonOf is what replay says of a call that it fails.
func reasonOf(c *step.Call) string {
	for _, r := range c.Results {
		if r.Verdict == verdict.Fail {
			return r.Reason
		}
	}
	return "it is wrong"
}

// good tells, by call of a side, which share of the rows of its exact results the other side has too, and whether
// these are as many as belong to tokens: the others are padding.
func (p *Pair) good(i int) (share map[*step.Call]float64, good map[*step.Call]bool) {
	others := rowSet{}
	for _, r := range p.Sides[1-i].values {
		others.add(r)
	}
	s := p.Sides[i]
	total, paired := 0, 0 // tokens, and rows of which the other side has some
	has := map[int]bool{}
	for _, t := range p.Tokens {
		has[[]int{t.This.at, t.Other.at}[i]] = true
	}
	for _, r := range s.Rows {
		total += len(r) + 1
		if slices.ContainsFunc(r, func(t Score) bool { return has[t.at] }) {
			paired++
		}
	}
	const slack = 0.95 // results of the last position are often left out
	of := func(n int) float64 { return slack * float64(n) / float64(max(1, total)) }
	valid := of(len(p.Tokens) + paired)
	share, good = map[*step.Call]float64{}, map[*step.Call]bool{}
	for _, c := range s.Calls {
		if x := others.share(s.values[c]); x == x {
			share[c] = x
		}
	}
	if s.read != nil { // the other run may not read the last tokens
		if x, told := share[s.read.Call]; told && x >= of(len(p.Tokens)) {
			valid = min(valid, x)
		}
	}
	for c, x := range share {
		good[c] = x >= valid
	}
	return share, good
}

// program finds what the two programs compute otherwise: on the side whose tokens read what they must not, if only
// one does, or on the side with a call that the other program does not have.
func (p *Pair) program(ctx context.Context, opt step.Options) ([]*step.Finding, error) {
	var leaks [2]string
	for i := range p.Sides {
		var err error
		if leaks[i], err = p.leak(ctx, i, opt); err != nil {
			return nil, err
		}
	}
	i := 0
	if leaks[0] == "" && leaks[1] != "" {
		i = 1
	}
	f := p.departs(i, opt)
	if leaks[i] == "" && f != nil && !p.onlyIn(0, f.Call) {
		if g := p.departs(1, opt); g != nil && p.onlyIn(1, g.Call) {
			i, f = 1, g
		}
	}
	if f == nil || leaks[i] == "" && (p.routed(i, f.Call) || p.Sides[0].inexact() || p.Sides[1].inexact()) {
		return nil, nil
	}
	if leaks[i] != "" {
		f.Reason += "; " + leaks[i]
	}
	return []*step.Finding{f}, nil
}

// onlyIn reports whether the other side of a call has none of its operator, module and line.
func (p *Pair) onlyIn(i int, c *step.Call) bool {
	return !slices.ContainsFunc(p.Sides[1-i].Calls, func(d *step.Call) bool {
		return pairs.Operator(d.Op) == pairs.Operator(c.Op) && d.Entry.Module == c.Entry.Module &&
			d.Entry.Location == c.Entry.Location
	})
}

// routed reports whether what departs at a call of a side may be other routes that the runs recorded, and keep.
func (p *Pair) routed(i int, c *step.Call) bool {
	return len(p.Strays) > 0 && slices.ContainsFunc(p.Sides[i].Calls, func(d *step.Call) bool {
		return d.Decides() && d.Order < c.Order
	})
}

// departs finds where the exact values of a side cease to be those of the other.
func (p *Pair) departs(i int, opt step.Options) *step.Finding {
	share, good := p.good(i)
	s := p.Sides[i]
	recovers := map[*step.Call]bool{}
	readers := map[*step.Call][]*step.Call{}
	for _, c := range s.Calls {
		for _, v := range c.Inputs {
			if w := v.From.Value; w != nil {
				readers[w.Call] = append(readers[w.Call], c)
			}
		}
	}
	for _, c := range slices.Backward(s.Calls) {
		recovers[c] = slices.ContainsFunc(readers[c], func(r *step.Call) bool { return good[r] || recovers[r] })
	}
	candidates := slices.DeleteFunc(slices.Clone(s.Calls), func(c *step.Call) bool {
		_, compared := share[c]
		return good[c] || recovers[c] || !compared || s.told[c] || s.ends(c)
	})
	var lost []*step.Call // from the first value that the other side does not have to one that it has in part
	for _, c := range s.reaching(candidates) {
		lost = append(lost, c)
		if share[c] > 0 {
			break
		}
	}
	if len(lost) == 0 {
		return nil
	}
	f := &step.Finding{Rule: verdict.Diverged, Call: lost[0], Target: "output[0]", Side: sideOf(i),
		Reason: fmt.Sprintf("the programs differ: exact log-probabilities are %.2g apart on average, and from here on "+
			"exact values are not those of the other run", p.Program)}
	weights := p.weightRows(1 - i)
	for _, c := range lost {
		for _, v := range c.Inputs {
			if v.From.How == step.IsLeaf && v.Numel() > 1 && !weights.hasValue(v, opt) {
				f.Call, f.Target = c, v.Target
				f.Reason += "; it reads a value from outside that the other run does not have"
				return f
			}
		}
	}
	return f
}
