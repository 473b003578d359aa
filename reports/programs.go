package reports

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/run/folder"
)

// A ProgramSummary says what became of the calls of one of several programs, by the folder that holds its recording.
type ProgramSummary struct {
	Program   string   `json:"program"`
	Calls     int      `json:"calls"`
	Failing   int      `json:"failing"`     // calls
	Between   int      `json:"between"`     // faults between calls
	NotJudged int      `json:"not_judged"`  // calls
	Worst     *string  `json:"worst_op"`    // the operator that is the furthest off; nil if no call fails
	Error     *float64 `json:"worst_error"` // its error, as a part of the largest value; nil if it is not known
	Verdict   string   `json:"verdict"`     // the worst of its calls that were judged, else "not judged"
	counts    map[verdict.Verdict]int
	reading   int // calls that differ since they were given other values
	worst     *Result
}

// notJudged is the verdict of a program none of whose calls was judged.
const notJudged = "not judged"

// maxPrograms is how many programs are told apart.
const maxPrograms = 1024

// otherPrograms is the name that further ones are counted under.
const otherPrograms = "(other folders)"

// noFolder is the name of a program whose calls lie beside the folders of others.
const noFolder = "(no folder)"

// programCount counts calls by program.
type programCount struct {
	set     folder.Programs
	by      map[string]*ProgramSummary
	between map[string]int // faults between calls, by capture
}

// of is the program of a result.
func (c *programCount) of(r *Result) *ProgramSummary {
	name := folder.Program(r.Folder())
	c.set.Add(name, known(r.Rank), r.PID != nil || r.Rank != nil)
	if c.by == nil {
		c.by = map[string]*ProgramSummary{}
	}
	if c.by[name] == nil && len(c.by) >= maxPrograms {
		name = otherPrograms
	}
	p := c.by[name]
	if p == nil {
		p = &ProgramSummary{Program: cmp.Or(name, noFolder), counts: map[verdict.Verdict]int{}}
		c.by[name] = p
	}
	return p
}

// addBetween counts a fault between calls.
func (c *programCount) addBetween(r *Result) {
	if c.between == nil {
		c.between = map[string]int{}
	}
	if len(c.between) < maxPrograms || c.between[r.Capture] > 0 {
		c.between[r.Capture]++
	}
}

// Programs are those whose calls the run has, if they are several: the wrong ones first, those with the most failing
// calls before others.
func (s *Summary) Programs() []*ProgramSummary {
	s.endCapture()
	c := &s.programs
	if !c.set.Several() {
		return nil
	}
	var list []*ProgramSummary
	for _, p := range slices.SortedFunc(maps.Values(c.by), func(a, b *ProgramSummary) int {
		return cmp.Compare(len(b.Program), len(a.Program)) // the longest name that a capture begins with is its program
	}) {
		p.Between = 0
		list = append(list, p)
	}
	for capture, n := range c.between {
		if i := slices.IndexFunc(list, func(p *ProgramSummary) bool {
			return p.Program == noFolder || strings.HasPrefix(capture, p.Program+"/")
		}); i >= 0 {
			list[i].Between += n
		}
	}
	for _, p := range list {
		p.sum(s.Reading() > 0)
	}
	slices.SortFunc(list, func(a, b *ProgramSummary) int {
		return cmp.Or(cmp.Compare(btoi(!a.wrong()), btoi(!b.wrong())), cmp.Compare(b.Failing, a.Failing),
			cmp.Compare(b.Between, a.Between), cmp.Compare(btoi(b.Verdict == notJudged), btoi(a.Verdict == notJudged)),
			cmp.Compare(a.Program, b.Program))
	})
	return list
}

// wrong reports whether a call of the program fails, or something between calls is wrong.
func (p *ProgramSummary) wrong() bool { return p.Failing+p.Between > 0 }

// look keeps a wrong result of the program if it is the worst so far. One that only differs since its call was given
// other values is the worst only if there are no others.
func (p *ProgramSummary) look(r *Result) {
	if v := r.Verdict; !v.Differs() && v != verdict.StillWrong {
		return
	}
	if w := p.worst; w == nil || w.Inherits && !r.Inherits || w.Inherits == r.Inherits && worse(r, w) {
		keep := *r
		p.worst = &keep
	}
}

// sum fills in what follows from the counts. Calls that only read other values do not fail if they are told apart.
func (p *ProgramSummary) sum(apart bool) {
	p.Calls, p.Failing, p.NotJudged, p.Worst, p.Error, p.Verdict = 0, 0, 0, nil, nil, notJudged
	rank := -1
	for v, n := range p.counts {
		p.Calls += n
		if apart && v == verdict.Fail {
			n -= p.reading
		}
		switch {
		case v.Differs() || v == verdict.StillWrong:
			p.Failing += n
		case v == verdict.Skipped || v == verdict.Mistrusted || v == verdict.Unsupported:
			p.NotJudged += n
			continue
		}
		if n > 0 && v.Rank() > rank {
			rank, p.Verdict = v.Rank(), string(v)
		}
	}
	if p.Between > 0 && p.Failing == 0 {
		p.Verdict = string(verdict.Fail)
	}
	if w := p.worst; w != nil && p.Failing > 0 {
		p.Worst = &w.Op
		if w.RelativeError != nil {
			x := float64(*w.RelativeError)
			p.Error = &x
		}
	}
}

// worstText names what is the furthest off.
func (p *ProgramSummary) worstText() string {
	switch {
	case p.Worst != nil:
		return opName(*p.Worst)
	case p.Between > 0:
		return Count(p.Between, "fault") + " between calls"
	}
	return ""
}

// ProgramsText answers in a phrase whether all programs are right; "" if there is only one.
func (s *Summary) ProgramsText() string {
	list := s.Programs()
	if len(list) == 0 {
		return ""
	}
	wrong, unjudged := 0, 0
	for _, p := range list {
		if p.wrong() {
			wrong++
		} else if p.Verdict == notJudged || p.Verdict == string(verdict.Invalid) || p.Verdict == string(verdict.Error) {
			unjudged++
		}
	}
	text := fmt.Sprintf("Wrong calls in %d of %d programs", wrong, len(list))
	if wrong == 0 {
		text = fmt.Sprintf("%s in %d programs", s.noneWrong(), len(list))
	}
	if unjudged > 0 {
		text += fmt.Sprintf(", %d not judged", unjudged)
	}
	return text
}

// ProgramTable is a table of the programs, the titles first; nil if there is only one.
func (s *Summary) ProgramTable() (rows [][]string) {
	for i, p := range s.Programs() {
		if i == 0 {
			rows = append(rows, []string{"program", "verdict", "calls", "failing", notJudged, "worst operator"})
		}
		rows = append(rows, []string{OneLine(p.Program), p.Verdict, strconv.Itoa(p.Calls), strconv.Itoa(p.Failing),
			strconv.Itoa(p.NotJudged), p.worstText()})
	}
	return rows
}

const (
	shownPrograms = 20  // programs that a screen lists
	shownWrong    = 100 // of those with wrong calls
)

// WritePrograms prints a table of the programs, if the run has several.
func (s *Summary) WritePrograms(w io.Writer, st Style) error {
	rows := s.ProgramTable()
	if len(rows) == 0 || st.Quiet {
		return nil
	}
	fmt.Fprintf(w, "%s:\n\n", st.Wrap(s.ProgramsText(), 0))
	l := NewListing(w, st.Width, rows[0]...)
	l.Names(5)
	for i := 2; i <= 4; i++ {
		l.Right(i)
	}
	l.Whole(1)
	wrong := 0
	for _, p := range s.Programs() {
		wrong += btoi(p.wrong())
	}
	for i, row := range rows[1:] {
		if i >= shownPrograms && (i >= wrong || i >= shownWrong) {
			more := fmt.Sprintf("... and %d more", len(rows)-1-i)
			if left := wrong - i; left > 0 {
				more += fmt.Sprintf(", %d of them with wrong calls", left)
			}
			l.Line(more)
			break
		}
		if err := l.Add(row...); err != nil {
			return err
		}
	}
	if err := l.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}
