package reports

import (
	"iter"
	"slices"
	"time"

	"github.com/optool/optool/compare/verdict"
)

// A Night is a run of the past. Its results are read when they are needed, so that those of many nights are not in
// memory together.
type Night struct {
	Start   time.Time
	Part    bool // it did not look at all calls
	Results iter.Seq[*Result]
}

// nightFormat is how the start of a run is written: names sort by time.
const nightFormat = "2006-01-02 15:04"

// Date is when the run began, which judged the calls: they may have been recorded long before.
func (n *Night) Date() string { return n.Start.Format(nightFormat) }

func (c *ResultChange) fails() bool { return c.New != nil && c.New.fails() }

// fails reports whether r is a failure, known or not.
func (r *Result) fails() bool { return r.Finding() || r.Verdict == verdict.Known }

// History says of the failures among the changes from old to now since when they fail: in the nights without a break,
// from the last night on in which the value was right. Nights without the value, or that did not judge it, say nothing.
// It says of what is gone since when: no night since then had it that looked at all calls. Values belong together as
// they do in ResultChanges.
func History(changes []ResultChange, old, now *Night, between []*Night) {
	before, results := slices.Collect(old.Results), slices.Collect(now.Results)
	anyGone, told := false, map[*ResultChange]bool{}
	for i := range changes {
		switch c := &changes[i]; {
		case c.fails():
			c.Since = now.Date()
		case c.Change == Gone:
			c.Since, anyGone = now.Date(), true
		default:
			told[c] = true
		}
	}
	nights := append(slices.Clone(between), old)
	slices.SortStableFunc(nights, func(a, b *Night) int { return b.Start.Compare(a.Start) })
	for _, n := range nights {
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
		c.LastSeen = n.Date()
		return true
	case c.Change == Gone && !n.Part:
		c.Since = n.Date()
	case r == nil:
	case r.fails():
		c.Since = n.Date()
	case r.Verdict == verdict.Pass || r.Verdict == verdict.Warn:
		c.LastRight = n.Date()
		return true
	}
	return false
}

// SinceText says since when a value fails or is gone; "" if no earlier run tells.
func (c *ResultChange) SinceText() string {
	if c.Change == Gone && c.LastSeen != "" {
		return "missing since " + c.Since + ", last seen " + c.LastSeen
	}
	return sinceText(c.Since, c.LastRight)
}

func sinceText(since, right string) string {
	switch {
	case since == "":
		return ""
	case right == "":
		return "judged wrong since " + since + ", the first of these runs that judged it"
	}
	return "judged wrong since " + since + ", last judged right on " + right
}
