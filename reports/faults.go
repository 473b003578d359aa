package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
)

// A Fault is an operator some of whose calls are wrong, or what is wrong between calls or missing, in words for people
// who do not know the program.
type Fault struct {
	Op    string
	Calls string // "2 fail of 14", and in which folders; "no call fails" between calls
	Worst string // the value that is the furthest off, and by how much
	Cause string // what reproduces what is wrong, else what the errors depend on; "" if nothing was found
	Known bool   // all its failures are known
	// Between says that it is no operator, but what happened between calls, or what is missing.
	Between bool
}

// FaultsTitle is the title of a table of faults.
func FaultsTitle(faults []Fault) string {
	if !slices.ContainsFunc(faults, func(f Fault) bool { return !f.Known }) {
		return "Known failures"
	}
	return "What is wrong"
}

// FaultColumns are the titles of a table of faults.
var FaultColumns = []string{"operator", "calls", "worst", "cause or pattern"}

// Cells are the cells of a row of that table.
func (f *Fault) Cells() []string { return []string{f.Op, f.Calls, f.Worst, f.Cause} }

// Faults are what is wrong between calls and what is missing, then the operators some of whose calls are wrong, in the
// order of their first wrong calls, then those of which only known failures are left.
func (rec *Recording) Faults() (faults []Fault) {
	if rec.Overflow || len(rec.Timings) > 0 {
		return nil
	}
	for _, r := range rec.Summary.between {
		faults = append(faults, Fault{Op: "no operator: between " + OneLine(r.Between), Calls: "no call fails",
			Between: true,
			Worst:   strings.TrimSpace(OneLine(r.Target + " " + r.Reason))})
	}
	for _, r := range rec.Summary.lacking {
		if r.Verdict.Differs() {
			faults = append(faults, Fault{Op: OneLine(r.Title()), Calls: "no call fails", Between: true,
				Worst: OneLine(r.Reason)})
		}
	}
	place := func(op string) int {
		if i := slices.Index(rec.wrong, op); i >= 0 {
			return i
		}
		return len(rec.wrong)
	}
	ops := rec.Summary.Ops()
	slices.SortStableFunc(ops, func(a, b *OpSummary) int {
		return cmp.Or(cmp.Compare(btoi(!a.differs()), btoi(!b.differs())), cmp.Compare(place(a.Op), place(b.Op)))
	})
	for _, o := range ops {
		if !o.differs() && o.Counts[verdict.Known] == 0 {
			continue
		}
		w := o.Worst
		worst := w.target() + " " + w.gist()
		if w.RelativeError != nil {
			worst += ", by up to " + percentText(float64(*w.RelativeError)) + " of the largest value"
		}
		faults = append(faults, Fault{Op: Name(o.Op), Calls: o.callsText() + inText(rec.in[o.Op]),
			Cause: rec.causesOf(o.Op), Known: !o.differs(),
			Worst: strings.TrimSpace(OneLine(worst))})
	}
	return faults
}

// shownFolders is how many folders are named each.
const shownFolders = 4

// inText names the folders of wrong calls; "" if there are none.
func inText(folders []string) string {
	if len(folders) == 0 {
		return ""
	}
	names, more := folders, ""
	if n := len(folders) - shownFolders; n > 0 {
		names, more = folders[:shownFolders], fmt.Sprintf(" and %d more", n)
	}
	return ", in " + OneLine(strings.Join(names, ", ")) + more
}

// callsText says how many calls of the operator are wrong, and of how many.
func (o *OpSummary) callsText() string {
	total, parts := 0, []string{}
	for _, v := range verdict.All() {
		n := o.Counts[v]
		if total += n; n > 0 && (v.Differs() || v == verdict.Known) {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	slices.Reverse(parts)
	return strings.Join(parts, ", ") + fmt.Sprintf(" of %d", total)
}

// patternHead begins the text of a pattern where a cause is expected.
const patternHead = "pattern: "

// causesOf are the causes of the wrong calls of an operator that were found, or what their errors depend on.
func (rec *Recording) causesOf(op string) string {
	var causes, patterns []string
	for _, c := range rec.Causes {
		to := &causes
		if c.Pattern {
			to = &patterns
		}
		text := OneLine(c.Text)
		if c.Pattern && !c.Unfinished {
			text = patternHead + text
		}
		if c.Op == op && !slices.Contains(*to, text) {
			*to = append(*to, text)
		}
	}
	if len(causes) == 0 {
		causes = patterns
	}
	return strings.Join(causes[:min(len(causes), shownCauses)], "; ")
}
