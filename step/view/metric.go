package view

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/step/metric"
)

// Metric writes what errors do to logits: the whole, the operators, the calls, runs that might have been.
func Metric(w io.Writer, m *metric.Metric, st reports.Style) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s of %s: %s\n", m.Of.Target, m.Of.Call, effectText(m.Total, m.Positions))
	if m.Padding {
		fmt.Fprintf(&b, "%s without finite logits: they read padding\n", reports.Count(m.Total.NonFinite, "position"))
	}
	if m.Value != nil {
		fmt.Fprintf(&b, "metric: %.6g\n", *m.Value)
	}
	if len(m.Total.Flips) > 0 {
		fmt.Fprintf(&b, "another token is the most likely at position %s\n", positionsText(m.Total.Flips))
	}
	if n := len(m.Strays); n > 0 {
		fmt.Fprintf(&b, "exact arithmetic chooses other routes, which lead to calls that were not recorded (first at %s: %s); "+
			"all numbers keep the recorded routes\n", m.Strays[0].Call, m.Strays[0].Reason)
	}
	if m.Routes != nil {
		fmt.Fprintf(&b, "decisions (routes, masks) that rounding changed make a KL of %.3g alone; the tables keep the "+
			"recorded ones\n", m.Routes.KL)
	}
	if first := m.First(); first != nil && m.Total.KL > 0 {
		fmt.Fprintf(&b, "%s in %s makes %.0f %% of the KL alone\n", first.Name, first.DType, 100*first.KL/m.Total.KL)
	}
	for _, x := range m.Imagined {
		imaginedTo(&b, x, m.Positions)
	}
	b.WriteString(breakText(m.Breaks, ""))
	b.WriteString(cutText(m.Cuts, ""))
	paragraphsTo(w, b.String(), st)
	if err := groupsTo(w, st, "operator alone", m.ByOp, m.Others); err != nil {
		return err
	}
	if err := groupsTo(w, st, "call alone", m.ByCall, nil); err != nil {
		return err
	}
	if len(m.ByModule) > 1 {
		return groupsTo(w, st, "module alone", m.ByModule, nil)
	}
	return nil
}

// imaginedTo writes what a run that might have been would differ by.
func imaginedTo(b *strings.Builder, x metric.Imagined, positions int) {
	if x.Why != "" {
		fmt.Fprintf(b, "what it would have been with %s cannot be told: %s\n", x.Text, x.Why)
		return
	}
	fmt.Fprintf(b, "with %s it would have been: %s\n", x.Text, effectText(x.Effect, positions))
	if len(x.Strays) > 0 {
		fmt.Fprintf(b, "  its routes would lead to calls that were not recorded (first at %s: %s); this keeps the "+
			"recorded routes\n", x.Strays[0].Call, x.Strays[0].Reason)
	}
	if x.Rerouted > 0 {
		fmt.Fprintf(b, "  %s would go to other experts; this is recomputed, but a real run may change other routes\n",
			reports.Count(x.Rerouted, "token"))
	}
	if x.Kept != nil {
		fmt.Fprintf(b, "  with the recorded routes: KL %.3g\n", x.Kept.KL)
	}
	if n := len(x.Ties); n > 0 {
		t := slices.MinFunc(x.Ties, func(a, b step.Tie) int { return cmp.Compare(a.Margin, b.Margin) })
		fmt.Fprintf(b, "  %s of experts within rounding, closest at %s, row %d (margin %.2g): a real run may decide "+
			"otherwise, and its KL then differs by any factor\n",
			reports.Count(n, "choice"), t.Call, t.Row, t.Margin)
	}
}

// groupsTo lists what the errors of groups of calls do alone, and those of all others together if they are not nil.
func groupsTo(w io.Writer, st reports.Style, title string, gs []*metric.Group, others *metric.Group) error {
	if len(gs) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	l := reports.NewListing(w, st.Width, title, "dtype", "calls", "KL", "log-prob", "flips")
	l.Names(0)
	for _, col := range []int{2, 3, 4, 5} {
		l.Right(col)
	}
	shown := gs[:min(len(gs), listed)]
	row := func(g *metric.Group) error {
		return l.Add(g.Name, g.DType, fmt.Sprint(len(g.Calls)), figure("%.3g", g.KL), signed(g.LogProb),
			fmt.Sprint(len(g.Flips)))
	}
	for _, g := range shown {
		if err := row(g); err != nil {
			return err
		}
	}
	if n := len(gs) - len(shown); n > 0 {
		l.Line(fmt.Sprintf("and %d more", n))
	}
	if others != nil {
		if err := row(others); err != nil {
			return err
		}
	}
	return l.Flush()
}

// Tokens writes what two runs of the same tokens differ by, and what makes it.
func Tokens(w io.Writer, p *metric.Pair, st reports.Style) error {
	r := p.Record()
	var b strings.Builder
	if r.NonFinite == r.Tokens {
		paragraphsTo(w, fmt.Sprintf("\n%s in both runs: none has finite log-probabilities in both\n",
			reports.Count(r.Tokens, "token")), st)
		return nil
	}
	if r.NonFinite > 0 {
		fmt.Fprintf(&b, "\n%s without a finite log-probability in one of the runs: not in the numbers below\n",
			reports.Count(r.NonFinite, "token"))
	}
	fmt.Fprintf(&b, "\n%s in both runs: log-probabilities differ by %.3g on average, %.3g at most (position %d)\n",
		reports.Count(r.Tokens-r.NonFinite, "token"), p.MeanAbs(), float64(*r.MaxAbs), r.Worst)
	fmt.Fprintf(&b, "importance ratios %.4g to %.4g, %.3g %% beyond 1 ± 0.2; KL (k3) %.3g\n", float64(*r.RatioMin),
		float64(*r.RatioMax), 100*float64(*r.Clipped), float64(*r.K3))
	if p.Program == p.Program {
		fmt.Fprintf(&b, "this run is nearer to its exact value at %s, the other at %d",
			reports.Count(r.Nearer[string(step.This)], "token"), r.Nearer[string(step.Other)])
		if n := r.Nearer[string(metric.Tie)]; n > 0 {
			fmt.Fprintf(&b, "; both are as near at %d", n)
		}
		b.WriteString("\n")
	}
	switch {
	case p.Program != p.Program && len(p.Causes) == 0:
		b.WriteString("the files hold log-probabilities and no calls: record both runs with the recorder (optool hook) to " +
			"see which calls make the difference\n")
	case p.Program != p.Program:
		b.WriteString("the other run is a file of log-probabilities without calls: only this run can be explained\n")
	case len(p.Strays) > 0:
		fmt.Fprintf(&b, "exact arithmetic chooses other routes, which lead to calls that were not recorded (first at %s: "+
			"%s); exact values keep the routes that each run recorded, and are %.3g apart on average\n",
			p.Strays[0].Call, p.Strays[0].Reason, p.Program)
	case p.OtherProgram():
		fmt.Fprintf(&b, "the programs themselves differ: exact log-probabilities are %.3g apart on average\n",
			p.Program)
	default:
		fmt.Fprintf(&b, "the programs compute the same: exact log-probabilities are %.3g apart on average\n",
			p.Program)
	}
	for i, of := range []string{" of this run", " of the other run"} {
		if s := p.Sides[i]; s != nil {
			b.WriteString(cutText(s.Cuts, of) + breakText(s.Breaks, of))
		}
	}
	paragraphsTo(w, b.String(), st)
	if len(p.Causes) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	l := reports.NewListing(w, st.Width, "side", "operator alone", "line", "dtype", "calls", "moves by")
	l.Names(1)
	l.Names(2)
	l.Right(4)
	l.Right(5)
	for i, c := range r.Causes {
		if i == 2*listed {
			l.Line(fmt.Sprintf("and %d more", len(r.Causes)-i))
			break
		}
		if err := l.Add(string(c.Side), c.Op, c.Location, c.DType, fmt.Sprint(c.Calls),
			fmt.Sprintf("%.3g", float64(*c.MeanAbs))); err != nil {
			return err
		}
	}
	return l.Flush()
}

// cutText says where the exact run takes what was recorded, because calls that were not recorded made it.
func cutText(cuts []*step.Value, of string) string {
	if len(cuts) == 0 {
		return ""
	}
	return fmt.Sprintf("no recorded call made %s that the result%s depends on (first %s of %s): the exact run takes what "+
		"was recorded there, and errors before that are not in these numbers\n", reports.Count(len(cuts), "value"), of,
		cuts[0].Target, cuts[0].Call)
}

// breakText says which calls the exact run could not compute.
func breakText(breaks []step.Break, of string) string {
	if len(breaks) == 0 {
		return ""
	}
	return fmt.Sprintf("%s%s could not be computed exactly and were taken as recorded, first %s: %s\n",
		reports.Count(len(breaks), "call"), of, breaks[0].Call, breaks[0].Reason)
}

func effectText(e metric.Effect, positions int) string {
	if e.NonFinite == positions {
		return "no position has finite logits"
	}
	s := fmt.Sprintf("KL %.3g on average over %s, %.3g at most", e.KL,
		reports.Count(positions-e.NonFinite, "position"), e.KLMax)
	if e.Known() {
		s += fmt.Sprintf("; log-probability of the tokens %s (%.3g absolute)", signed(e.LogProb), e.LogProbAbs)
	}
	return s + fmt.Sprintf("; %s; largest change %.3g", reports.Count(len(e.Flips), "flip"), e.MaxAbs)
}

func signed(x float64) string { return figure("%+.3g", x) }

// figure is a number of a table, a dash where it is not known.
func figure(format string, x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf(format, x)
}

// positionsText lists the first numbers.
func positionsText(all []int) string {
	const most = 8
	var out []string
	for i, n := range all {
		if i == most {
			out = append(out, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		out = append(out, fmt.Sprint(n))
	}
	return strings.Join(out, ", ")
}

func paragraphsTo(w io.Writer, text string, st reports.Style) {
	var b strings.Builder
	paragraphs(&b, text, st)
	_, _ = io.WriteString(w, b.String())
}
