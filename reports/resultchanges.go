package reports

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/optool/optool/compare/verdict"
)

// A ResultChange is how what was said of a value changed between two runs: Old or New
// is nil where only the other run has the value.
type ResultChange struct {
	Old, New *Result
	Change   Change
}

// A Change is the direction of a change.
type Change string

// The changes.
const (
	Worse    Change = "worse"
	Better   Change = "better"
	Added    Change = "new"
	Gone     Change = "gone"
	StaysBad Change = "still" // a finding in both
)

// wanted orders verdicts by how much one would want to have them; what was compared
// before and is not any more got worse.
var wanted = []verdict.Verdict{verdict.Pass, verdict.Warn, verdict.Mistrusted, verdict.Skipped, verdict.Unsupported,
	verdict.Fail, verdict.Invalid, verdict.Error, verdict.Timeout, verdict.Crash}

// ResultChanges compares two runs value by value, and leaves out what is as good as it
// was. Values belong together as Partners says. What got worse comes first, in the order
// of the new run, and then what is new and a finding.
func ResultChanges(old, cur []*Result) []ResultChange {
	partner, taken := Partners(old, cur), map[*Result]bool{}
	var changes []ResultChange
	for _, r := range cur {
		c := ResultChange{Old: partner[r], New: r}
		taken[c.Old] = true
		switch o := partner[r]; {
		case o == nil:
			c.Change = Added
		case o.Verdict == r.Verdict && !r.Finding():
			continue
		case o.Verdict == r.Verdict:
			c.Change = StaysBad
		case slices.Index(wanted, r.Verdict) > slices.Index(wanted, o.Verdict):
			c.Change = Worse
		default:
			c.Change = Better
		}
		changes = append(changes, c)
	}
	for _, r := range old {
		if !taken[r] {
			changes = append(changes, ResultChange{Old: r, Change: Gone})
		}
	}
	order := []Change{Worse, Better, Added, Gone, StaysBad}
	slices.SortStableFunc(changes, func(a, b ResultChange) int {
		return cmp.Or(cmp.Compare(btoi(!a.Regressed()), btoi(!b.Regressed())),
			cmp.Compare(slices.Index(order, a.Change), slices.Index(order, b.Change)))
	})
	return changes
}

// Regressed reports whether the new run is worse for this: a value got worse, or is new and a finding.
func (c *ResultChange) Regressed() bool {
	return c.Change == Worse || c.Change == Added && c.New.Finding()
}

// Result is the new result or, of what is gone, the old one.
func (c *ResultChange) Result() *Result { return cmp.Or(c.New, c.Old) }

// Verdicts are the verdicts of both runs, "" where there is none.
func (c *ResultChange) Verdicts() (old, cur verdict.Verdict) {
	if c.Old != nil {
		old = c.Old.Verdict
	}
	if c.New != nil {
		cur = c.New.Verdict
	}
	return old, cur
}

// ID is the number of the call, and the one that it had in the old run where that is another; "" where there is none.
func (c *ResultChange) ID() string {
	id := c.Result().ForwardID
	switch old := c.oldID(); {
	case id == nil:
		return ""
	case old == nil:
		return strconv.Itoa(*id)
	default:
		return fmt.Sprintf("%d (was %d)", *id, *old)
	}
}

// oldID is the number of the call in the old run where the new run has another, else nil.
func (c *ResultChange) oldID() *int {
	if c.Old == nil || c.New == nil || compareKnown(c.Old.ForwardID, c.New.ForwardID) == 0 {
		return nil
	}
	return c.Old.ForwardID
}

// MarshalJSON gives the JSON line.
func (c *ResultChange) MarshalJSON() ([]byte, error) {
	r := c.Result()
	old, cur := c.Verdicts()
	return json.Marshal(struct {
		Kind      string          `json:"kind"`
		Change    Change          `json:"change"`
		Capture   string          `json:"capture"`
		Op        string          `json:"op"`
		ForwardID *int            `json:"forward_id"`
		OldID     *int            `json:"old_forward_id,omitempty"`
		Phase     string          `json:"phase"`
		Target    string          `json:"target"`
		Old       verdict.Verdict `json:"old_verdict"`
		New       verdict.Verdict `json:"new_verdict"`
		Reason    string          `json:"reason"`
	}{"result_change", c.Change, r.Capture, r.Op, r.ForwardID, c.oldID(), r.Phase, r.Target, old, cur, r.Reason})
}
