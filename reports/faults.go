package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
)

// A Fault is an operator some of whose calls are wrong, or what is wrong between calls or missing, in words for people
// who do not know the program.
type Fault struct {
	Op    string
	Calls string // "2 fail of 14"; "no call fails" between calls
	Worst string // the value that is the furthest off, and by how much
	Cause string // what reproduces what is wrong, else what the errors depend on; "" if nothing was found
	Known bool   // all its failures are known
	// Between says that it is no operator, but what happened between calls, or what is missing.
	Between bool
	// In are the folders of its failing calls, and On the devices that recorded them where the run has several; "" if
	// there are none.
	In, On string
	// OfTwo says that it is of two recordings.
	OfTwo bool
	// Repaired says that it has no failures but those that only the second of two recordings has.
	Repaired bool
}

// FaultsTitle is the title of a table of faults.
func FaultsTitle(faults []Fault) string {
	switch {
	case !slices.ContainsFunc(faults, func(f Fault) bool { return !f.Repaired }):
		return "What is repaired"
	case slices.ContainsFunc(faults, func(f Fault) bool { return f.OfTwo }):
		return "What differs between the recordings, or is wrong in both"
	}
	if !slices.ContainsFunc(faults, func(f Fault) bool { return !f.Known }) {
		return "Known failures"
	}
	if len(faults) > 1 {
		return "What is wrong, the largest error first"
	}
	return "What is wrong"
}

// FaultTable is a table of faults, the titles first. It has a column for folders and one for devices if there are any.
func FaultTable(faults []Fault) (rows [][]string) {
	in := slices.ContainsFunc(faults, func(f Fault) bool { return f.In != "" })
	on := slices.ContainsFunc(faults, func(f Fault) bool { return f.On != "" })
	add := func(op, folder, device string, others ...string) {
		row := []string{op}
		if in {
			row = append(row, folder)
		}
		if on {
			row = append(row, device)
		}
		rows = append(rows, append(row, others...))
	}
	add("operator", "folder", "device", "calls", "worst", "cause or pattern")
	for _, f := range faults {
		add(f.Op, f.In, f.On, f.Calls, f.Worst, f.Cause)
	}
	return rows
}

// where says in which folders and on which devices calls fail; "" if that is not told.
func (f *Fault) where() (text string) {
	if f.In != "" {
		text = ", in " + f.In
	}
	if f.On != "" {
		text += ", recorded on " + f.On
	}
	return text
}

// Faults are what is wrong between calls and what is missing, then the operators some of whose calls are wrong: crashes
// and the like, then those with the largest errors first, by the part of the largest correct value, and by the order of
// their first wrong calls where errors are alike. Those of which only known failures are left come last. Where calls of
// others are wrong by themselves, operators whose calls only read other values are none.
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
		return cmp.Or(cmp.Compare(btoi(!a.differs()), btoi(!b.differs())),
			cmp.Compare(b.Worst.Verdict.Rank(), a.Worst.Verdict.Rank()),
			cmp.Compare(b.Worst.size(), a.Worst.size()), cmp.Compare(place(a.Op), place(b.Op)))
	})
	for _, o := range ops {
		reads := rec.Summary.Reading() > 0 && o.onlyReads()
		still := o.Counts[verdict.StillWrong] > 0
		repaired := o.Counts[verdict.Repaired] > 0
		if (!o.differs() || reads) && o.Counts[verdict.Known] == 0 && !still && !repaired {
			continue
		}
		w := o.Worst
		worst := w.target() + " " + w.gist()
		if w.RelativeError != nil {
			worst += ", by up to " + percentText(float64(*w.RelativeError)) + " of the largest value"
		}
		faults = append(faults, Fault{Op: Name(o.Op) + replacedBy(w),
			Calls: o.callsText(rec.among[o.Op], rec.Summary.Reading() > 0), In: namesText(rec.in[o.Op]),
			On: namesText(rec.on[o.Op]), Cause: cmp.Or(rec.causesOf(o.Op), w.patternText(), rec.missing(o.Op)),
			Known: !o.differs() && !still && !repaired, OfTwo: repaired || rec.Summary.Same != nil,
			Repaired: repaired && (!o.differs() || reads) && !still && o.Counts[verdict.Known] == 0,
			Worst:    strings.TrimSpace(OneLine(worst))})
	}
	return faults
}

// onlyReads reports whether all calls of the operator that differ do so because they were given other values.
func (o *OpSummary) onlyReads() bool {
	n := 0
	for v, k := range o.Counts {
		if v.Differs() {
			n += k
		}
	}
	return n > 0 && n == o.reading
}

// replacedBy names the program's function in the place of torch's, whose author has to look at it unless a device ran
// another one; "" if torch's was recorded.
func replacedBy(r *Result) string {
	switch {
	case r.Replaced == "":
		return ""
	case r.Instead != "":
		return ", recorded with " + Name(r.Replaced) + ", which was not run"
	case r.ReplacedAt == "":
		return ", replaced by " + Name(r.Replaced)
	}
	return ", replaced by " + Name(r.Replaced) + " of " + OneLine(r.ReplacedAt)
}

// size is the error of a value as a part of the largest correct one; infinite if it is not known.
func (r *Result) size() float64 {
	if r.RelativeError == nil {
		return math.Inf(1)
	}
	return float64(*r.RelativeError)
}

// shownFolders is how many folders, and how many devices, are named each.
const shownFolders = 4

// namesText are the first names of a list, and how many more there are.
func namesText(names []string) string {
	more := ""
	if n := len(names) - shownFolders; n > 0 {
		names, more = names[:shownFolders], fmt.Sprintf(" and %d more", n)
	}
	return OneLine(strings.Join(names, ", ")) + more
}

// callsText says how many calls of the operator are wrong, and of how many in the folders of these; 0: of all.
// Calls that recorded calls of other functions made are told apart, as are those that only read other values where
// others are wrong.
func (o *OpSummary) callsText(among int, apart bool) string {
	total, parts := 0, []string{}
	reading := 0
	if apart {
		reading = o.reading
	}
	for _, v := range verdict.All() {
		n := o.Counts[v]
		total += n
		if v == verdict.Fail {
			n -= reading
		}
		if n > 0 && (v.Wrong() || v == verdict.Repaired) {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	slices.Reverse(parts)
	if reading > 0 {
		parts = append(parts, fmt.Sprintf("%d only read other values", reading))
	}
	text := strings.Join(parts, ", ")
	if among == total { // no folder is left out
		among = 0
	}
	switch {
	case o.inside > 0 && among == 0 && o.inside == total:
		return text + fmt.Sprintf(" of %d, all made inside of other recorded calls", total)
	case o.inside > 0 && among == 0:
		return text + fmt.Sprintf(" of %d, and %d made inside of other recorded calls", total-o.inside, o.inside)
	}
	return text + fmt.Sprintf(" of %d", cmp.Or(among, total))
}

// patternText is the pattern of a value's errors as a cause; "" if there is none.
func (r *Result) patternText() string {
	if pattern := r.pattern(); pattern != "" {
		return patternHead + OneLine(pattern)
	}
	return ""
}

// missing says of an operator without a cause whether one was sought; "" if the run sought none at all.
func (rec *Recording) missing(op string) string {
	switch {
	case rec.Summary.NoCause == nil:
		return ""
	case slices.ContainsFunc(rec.Summary.NoCause, func(p Place) bool { return p.Op == op }):
		return NoneFound
	}
	return notSought
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
