package view

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
)

// A Program is one of several that were recorded below one directory, each of which is judged by itself.
type Program struct {
	Name  string
	Trace *step.Trace
	Extra Extra // its Next has the command that shows its own screen
}

// SortPrograms puts the worst first: the wrong ones by how far the first fault moves the loss, then those with another
// finding, those that could not be judged, and the sound ones; else by name.
func SortPrograms(ps []*Program) {
	rank := func(p *Program) int {
		return slices.Index([]verdict.Verdict{verdict.Fail, verdict.Warn, verdict.Skipped, verdict.Pass},
			judge(p.Trace).verdict)
	}
	slices.SortStableFunc(ps, func(a, b *Program) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.moves(), a.moves()), cmp.Compare(a.Name, b.Name))
	})
}

// moves is how far the first fault moves a loss, relative to that; -1 if it is not known.
func (p *Program) moves() float64 {
	w := p.Extra.Without
	if w.Step == nil || math.IsNaN(w.Loss) {
		return -1
	}
	by := math.Abs(w.Step.Captured - w.Loss)
	if math.IsNaN(by) {
		return math.Inf(1)
	}
	return by / cmp.Or(math.Abs(w.Loss), 1)
}

// programsText counts programs by what they come to: "4 programs, each judged by itself: 1 wrong, 3 without a finding".
func programsText(ps []*Program) string {
	n := map[verdict.Verdict]int{}
	for _, p := range ps {
		n[judge(p.Trace).verdict]++
	}
	var parts []string
	for _, k := range []struct {
		v    verdict.Verdict
		name string
	}{{verdict.Fail, "wrong"}, {verdict.Warn, "to look at"}, {verdict.Skipped, "not judged"},
		{verdict.Pass, "with nothing found wrong"}} {
		if n[k.v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[k.v], k.name))
		}
	}
	return fmt.Sprintf("%s, each judged by itself: %s", reports.Count(len(ps), "program"), strings.Join(parts, ", "))
}

// Programs writes what there is to know of several programs, the worst first: a table, then a section for each that is
// not sound.
func Programs(w io.Writer, ps []*Program, st reports.Style) error {
	if _, err := fmt.Fprintf(w, "%s\n\n", st.Wrap(programsText(ps), 0)); err != nil {
		return err
	}
	l := reports.NewListing(w, st.Width, "program", "calls", "result")
	l.Whole(0)
	l.Right(1)
	l.Wrap()
	for _, p := range ps {
		if err := l.Add(p.Name, fmt.Sprint(len(p.Trace.Calls())), judge(p.Trace).text); err != nil {
			return err
		}
	}
	if err := l.Flush(); err != nil {
		return err
	}
	sound := ""
	for _, p := range ps {
		if judge(p.Trace).verdict == verdict.Pass {
			sound = cmp.Or(sound, p.Extra.Next[0])
			continue
		}
		if _, err := io.WriteString(w, p.section()); err != nil {
			return err
		}
	}
	if sound != "" {
		_, err := fmt.Fprintf(w, "\nthe details of a program with nothing found wrong:\n  %s\n", reports.Command(sound))
		return err
	}
	return nil
}

// section says what is wrong with a program, what that does to its loss, and the command that shows the rest.
func (p *Program) section() string {
	t, x := p.Trace, p.Extra
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s:\n", reports.OneLine(p.Name))
	first := t.First()
	switch {
	case first != nil:
		written(&b, t, first, x)
		if n := len(t.Findings) - 1; n > 0 {
			fmt.Fprintf(&b, "  and %s\n", reports.Count(n, "further finding"))
		}
	case len(t.SavedWrong()) > 0:
		fmt.Fprintf(&b, "  %s\n", x.Style.Wrap(saved(t.SavedWrong()[0]), 2))
	default:
		fmt.Fprintf(&b, "  %s\n", x.Style.Wrap(nothing(t), 2))
		for _, f := range t.Findings[:min(1, len(t.Findings))] {
			written(&b, t, f, x)
		}
	}
	if s := t.MainStep(); s != nil && first != nil {
		var moves strings.Builder
		fmt.Fprintf(&moves, "loss %.9g recorded\n", s.Captured)
		without(&moves, s, x)
		for line := range strings.Lines(moves.String()) {
			fmt.Fprintf(&b, "  %s\n", x.Style.Wrap(reports.OneLine(strings.TrimSuffix(line, "\n")), 4))
		}
	}
	fmt.Fprintf(&b, "  next: %s\n", reports.Command(x.Next[0]))
	return b.String()
}

// ProgramFacts are what reports say first of several programs.
func ProgramFacts(ps []*Program) []reports.Fact {
	facts := []reports.Fact{{Name: "step", Text: programsText(ps)}}
	for _, p := range ps {
		facts = append(facts, reports.Fact{Name: "program " + p.Name, Text: reports.OneLine(judge(p.Trace).text)})
	}
	return facts
}

// A ProgramRecord is what the summary of several programs says of one.
type ProgramRecord struct {
	Program string           `json:"program"`
	Result  string           `json:"result"` // in a sentence
	Verdict verdict.Verdict  `json:"verdict"`
	Calls   int              `json:"calls"`
	Loss    *step.LossRecord `json:"loss"`
	First   *reports.Place   `json:"first"`
}

// ProgramsSummary is the summary of several programs: the first fault and the loss are those of the worst one.
type ProgramsSummary struct {
	*step.SummaryRecord
	Programs []ProgramRecord `json:"programs"`
}

// SummarizePrograms makes the last record of several programs, the worst of which comes first.
func SummarizePrograms(ps []*Program) *ProgramsSummary {
	all := &ProgramsSummary{}
	for _, p := range ps {
		s := p.Trace.Summary()
		j := judge(p.Trace)
		all.Programs = append(all.Programs, ProgramRecord{p.Name, j.text, j.verdict, s.Calls, s.Loss, s.First})
		if all.SummaryRecord == nil {
			all.SummaryRecord = s
			continue
		}
		all.Calls += s.Calls
		all.Losses = append(all.Losses, s.Losses...)
		all.Layout = append(all.Layout, s.Layout...)
		all.Seen.Add(s.Seen)
		all.Device = all.Device.Plus(s.Device)
	}
	return all
}
