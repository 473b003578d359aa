package reports

import (
	"fmt"
	"strings"
)

// Same counts the calls that gave the same in two recordings. Such calls may be wrong in both.
type Same struct {
	Calls     int            `json:"calls"`
	NotJudged int            `json:"not_judged"` // those that were not judged by themselves
	ops       map[string]int // of these
}

// Add counts a call.
func (n *Same) Add(op string, judged bool) {
	if n.Calls++; judged {
		return
	}
	if n.ops == nil {
		n.ops = map[string]int{}
	}
	n.NotJudged++
	n.ops[op]++
}

// shownSame is of how many operators the calls are counted that were not judged.
const shownSame = 4

// String says how many calls were not judged; "" of none.
func (n *Same) String() string {
	switch {
	case n.NotJudged == 0:
		return ""
	case n.NotJudged == n.Calls:
		return fmt.Sprintf("%s gave the same in both recordings and %s not judged: what is wrong in both is not seen",
			Count(n.Calls, "call"), wasOrWere(n.Calls))
	}
	_, ops := tally(n.ops)
	more := ""
	if k := len(ops) - shownSame; k > 0 {
		ops, more = ops[:shownSame], fmt.Sprintf(" and %d more", k)
	}
	return fmt.Sprintf("%d of %s that gave the same in both recordings: %s%s", n.NotJudged, Count(n.Calls, "call"),
		strings.Join(ops, ", "), more)
}

func wasOrWere(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// noneWrong is what is said of programs none of whose calls was found wrong.
func (s *Summary) noneWrong() string {
	switch n := s.Same; {
	case n == nil || n.NotJudged == 0:
		return "No wrong call"
	case n.NotJudged == n.Calls:
		return "No difference"
	}
	return "No wrong call among those judged"
}
