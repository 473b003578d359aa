package reports

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/optool/optool/compare/verdict"
)

// A Night is a run of the past. Its results are read when they are needed, so that those of many nights are not in
// memory together.
type Night struct {
	Name     string // its file
	Start    time.Time
	Recorded time.Time // when the last of its recordings began; zero if their paths do not say
	Part     bool      // it did not look at all calls
	Results  iter.Seq[*Result]

	marks marks
	age   int // how many nights later began the new one
}

// Night is a run as others see it.
func (rec *Recording) Night(name string, part bool) *Night {
	return &Night{Name: name, Start: rec.Run.Start, Recorded: rec.start, Part: part, Results: rec.Results.All(),
		marks: rec.marks}
}

// nightFormat is how a date is written.
const nightFormat = "2006-01-02 15:04"

// Date is when the night was recorded. If that is not known, it is when the run began that judged it.
func (n *Night) Date() string {
	switch {
	case n == nil:
		return ""
	case n.Recorded.IsZero():
		return n.Start.Format(nightFormat)
	}
	return n.Recorded.Format(nightFormat)
}

// Judged is when the run began.
func (n *Night) Judged() string { return n.Start.Format(nightFormat) }

// String names the night's file, with its date.
func (n *Night) String() string {
	if n.Recorded.IsZero() {
		return n.Name + ", judged " + n.Date()
	}
	return n.Name + ", recorded " + n.Date()
}

// name is that of the file, "" of no night.
func (n *Night) name() string {
	if n == nil {
		return ""
	}
	return n.Name
}

// Past are the nights before now, the latest first: by when they were recorded, if all say it, else in the order given,
// in which old is the first. Those that were recorded after now are left out, and old if it is a copy of one between.
func Past(old, now *Night, between []*Night) []*Night {
	past := slices.Clone(between)
	slices.Reverse(past)
	if !slices.ContainsFunc(between, func(n *Night) bool { return n.Start.Equal(old.Start) }) {
		past = append(past, old)
	}
	unknown := func(n *Night) bool { return n.Recorded.IsZero() }
	if !unknown(now) && !slices.ContainsFunc(past, unknown) {
		past = slices.DeleteFunc(past, func(n *Night) bool { return n.Recorded.After(now.Recorded) })
		slices.SortStableFunc(past, func(a, b *Night) int { return b.Recorded.Compare(a.Recorded) })
	}
	for i, n := range past {
		n.age = 1 + i
	}
	return past
}

func (c *ResultChange) fails() bool { return c.New != nil && c.New.fails() }

// fails reports whether r is a failure, known or not.
func (r *Result) fails() bool { return r.Finding() || r.Verdict.Wrong() }

// History says of the failures among the changes from old to now since when they fail: in the nights without a break,
// from the last night on in which the value was right. Nights without the value, or that did not judge it, say nothing.
// It says of what is gone since when: no night since then had it that looked at all calls. Values belong together as
// they do in ResultChanges.
func History(changes []ResultChange, old, now *Night, between []*Night) {
	past := Past(old, now, between)
	before, results := slices.Collect(old.Results), slices.Collect(now.Results)
	anyGone, told := false, map[*ResultChange]bool{}
	for i := range changes {
		switch c := &changes[i]; {
		case c.fails():
			c.Since = now
		case c.Change == Gone:
			c.Since, anyGone = now, true
		default:
			told[c] = true
		}
	}
	for _, n := range past {
		night, seen := before, map[*Result]bool{}
		if n != old {
			night = slices.Collect(n.Results)
		}
		switch {
		case n == old:
			for _, r := range before {
				seen[r] = true
			}
		case anyGone:
			for _, r := range pair(before, night).of {
				seen[r] = true
			}
		}
		had := pair(night, results).of
		for i := range changes {
			if c := &changes[i]; !told[c] {
				told[c] = c.tell(n, had[c.New], seen[c.Old])
			}
		}
	}
}

// tell adds what the night before those that were told says: of the value of the new run, which was r, and whether it
// had the value of the old one. It reports whether nothing older matters.
func (c *ResultChange) tell(n *Night, r *Result, seen bool) (last bool) {
	switch {
	case c.Change == Gone && seen:
		c.LastSeen = n
		return true
	case c.Change == Gone && !n.Part:
		c.Since = n
	case r == nil:
	case r.fails():
		c.Since = n
	case r.Verdict == verdict.Pass || r.Verdict == verdict.Warn:
		c.LastRight = n
		return true
	}
	return false
}

// SinceText says since when a value fails or is gone; "" if no earlier run tells.
func (c *ResultChange) SinceText() string {
	if c.Change == Gone && c.LastSeen != nil {
		return "missing since " + c.Since.String() + "; last seen in " + c.LastSeen.Name
	}
	return sinceText(c.Since, c.LastRight)
}

func sinceText(since, right *Night) string {
	switch {
	case since == nil:
		return ""
	case right == nil:
		return "wrong since " + since.String() + "; none of these runs judged it before"
	}
	return "wrong since " + since.String() + "; last right in " + right.Name
}

// marks have for each operator how its worst call was in a night.
type marks map[string]byte

// Marks, the worst first. What is not there has none.
const markOrder = "xk.?"

func (m marks) add(r *Result) {
	mark := byte('?')
	switch {
	case r.ofNoCall():
		return
	case r.Finding() || r.Verdict == verdict.StillWrong:
		mark = 'x'
	case r.Verdict == verdict.Known:
		mark = 'k'
	case r.Verdict == verdict.Pass || r.Verdict == verdict.Warn || r.Verdict == verdict.Repaired:
		mark = '.'
	}
	if was := m[r.Op]; was == 0 || strings.IndexByte(markOrder, mark) < strings.IndexByte(markOrder, was) {
		m[r.Op] = mark
	}
}

// maxTimeline is how many operators Timeline shows at most.
const maxTimeline = 20

// Timeline shows of the operators that were ever wrong how they were in each night, with one character a night. past
// are the nights before now, the latest first, and results those of now. There is none without an operator.
func Timeline(past []*Night, now *Night, results []*Result) (lines []Fact) {
	nights := append([]*Night{{marks: marks{}}}, past...)
	for _, r := range results {
		nights[0].marks.add(r)
	}
	slices.Reverse(nights)
	wrong := map[string]bool{}
	for _, n := range nights {
		for op, mark := range n.marks {
			if mark == 'x' || mark == 'k' {
				wrong[op] = true
			}
		}
	}
	ops := slices.Sorted(maps.Keys(wrong))
	if len(ops) == 0 {
		return nil
	}
	lines = append(lines, Fact{"run by run", fmt.Sprintf("%d runs, from %s to %s: x wrong, k known, . right, ? not "+
		"judged, - not there", len(nights), past[len(past)-1], now)})
	for i, op := range ops {
		if i == maxTimeline {
			return append(lines, Fact{"run by run", Count(len(ops)-i, "more operator") + " that were wrong"})
		}
		var line []byte
		for _, n := range nights {
			line = append(line, cmp.Or(n.marks[op], '-'))
		}
		lines = append(lines, Fact{string(line), Name(op)})
	}
	return lines
}
