package reports

import (
	"slices"
	"time"

	"github.com/optool/optool/compare/verdict"
)

// A Night is a run of the past.
type Night struct {
	Start   time.Time
	Results []*Result
}

// nightFormat is how the start of a run is written: names sort by time.
const nightFormat = "2006-01-02 15:04"

// Date is when the run began.
func (n *Night) Date() string { return n.Start.Format(nightFormat) }

// FailingOps are the operators whose values fail, or are known to, in the new run.
func FailingOps(changes []ResultChange) map[string]bool {
	ops := map[string]bool{}
	for i := range changes {
		if changes[i].fails() {
			ops[changes[i].New.Op] = true
		}
	}
	return ops
}

func (c *ResultChange) fails() bool { return c.New != nil && c.New.fails() }

// fails reports whether r is a failure, known or not.
func (r *Result) fails() bool { return r.Finding() || r.Verdict == verdict.Known }

// of are the results of these operators.
func (n *Night) of(ops map[string]bool) (some []*Result) {
	for _, r := range n.Results {
		if ops[r.Op] {
			some = append(some, r)
		}
	}
	return some
}

// History says of the failures among changes since when they fail: in the nights before the new run without a break,
// from the last night on in which the value was right. Nights without the value, or that did not judge it, say nothing.
// Nights need only the results of FailingOps.
func History(changes []ResultChange, nights []*Night, now *Night) {
	nights = slices.SortedStableFunc(slices.Values(nights), func(a, b *Night) int { return b.Start.Compare(a.Start) })
	before := make([]map[*Result]*Result, len(nights))
	ops := FailingOps(changes)
	for i, n := range nights {
		before[i] = Partners(n.of(ops), now.of(ops))
	}
	for i := range changes {
		c := &changes[i]
		if !c.fails() {
			continue
		}
		c.Since = now.Date()
		for k, n := range nights {
			r := before[k][c.New]
			if r == nil {
				continue
			}
			if r.fails() {
				c.Since = n.Date()
			} else if r.Verdict == verdict.Pass || r.Verdict == verdict.Warn {
				c.LastRight = n.Date()
				break
			}
		}
	}
}

// SinceText says since when a value fails; "" if no earlier run tells.
func (c *ResultChange) SinceText() string {
	return sinceText(c.Since, c.LastRight)
}

func sinceText(since, right string) string {
	switch {
	case since == "":
		return ""
	case right == "":
		return "since " + since + ", not judged before"
	}
	return "since " + since + ", last right " + right
}
