package reports

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/optool/optool/compare/verdict"
)

// An Unjudged counts the values that a run did not judge, and why. What the reasons say of one
// value only (numbers, names, files) is left out of them, so that there are few.
type Unjudged struct {
	NotJudged int     `json:"not_judged"`
	Reasons   Reasons `json:"reasons"`

	ops map[string]map[string]int // by reason, how many values are of each of the first maxOps operators
}

// Reasons are how many values were not judged for each reason.
type Reasons map[string]int

// MarshalJSON implements json.Marshaler: no reasons are an empty object.
func (r Reasons) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]int(r))
}

const (
	maxReasons    = 48 // that are told apart; values with further ones are otherReason
	shownReasons  = 3
	longestReason = 80 // in characters
	otherReason   = "other reasons"
	unknownOp     = "unknown op"
)

// Add counts r and reports true, unless it was judged. Cases whose data was only written are not judged by nature.
func (u *Unjudged) Add(r *Result) bool {
	why := unjudged(r)
	if why == "" || r.Generated != nil {
		return false
	}
	u.Count(why, r.Op, 1)
	return true
}

// Count counts n values of an operator, "" for none, that were not judged for this reason.
func (u *Unjudged) Count(why, op string, n int) {
	if u.Reasons == nil {
		u.Reasons = Reasons{}
	}
	if u.ops == nil {
		u.ops = map[string]map[string]int{}
	}
	if _, known := u.Reasons[why]; !known && len(u.Reasons) >= maxReasons {
		why = otherReason
	}
	u.NotJudged += n
	u.Reasons[why] += n
	if u.ops[why] == nil {
		u.ops[why] = map[string]int{}
	}
	if _, known := u.ops[why][op]; op != "" && (known || len(u.ops[why]) < maxOps) {
		u.ops[why][op] += n
	}
}

// Join counts what another one counted.
func (u *Unjudged) Join(v *Unjudged) {
	for why, n := range v.Reasons {
		for op, k := range v.ops[why] {
			u.Count(why, op, k)
			n -= k
		}
		if n > 0 {
			u.Count(why, "", n)
		}
	}
}

// clone is a copy that counts apart.
func (u *Unjudged) clone() *Unjudged {
	c := &Unjudged{NotJudged: u.NotJudged, Reasons: maps.Clone(u.Reasons), ops: map[string]map[string]int{}}
	for why, ops := range u.ops {
		c.ops[why] = maps.Clone(ops)
	}
	return c
}

// String says how many values were not judged, and the most frequent reasons; "" if all were.
func (u *Unjudged) String() string {
	if u.NotJudged == 0 {
		return ""
	}
	return fmt.Sprintf("%s not judged: %s", Count(u.NotJudged, "value"), u.why())
}

// why are the most frequent reasons.
func (u *Unjudged) why() string {
	reasons := byCount(u.Reasons)
	var parts []string
	rest := 0
	for i, why := range reasons {
		if i >= shownReasons {
			rest += u.Reasons[why]
			continue
		}
		count, of := strconv.Itoa(u.Reasons[why]), u.of(why)
		switch {
		case len(reasons) == 1: // the count is that of all
			count = of
		case of != "":
			count += " of " + of
		}
		text := OneLine(why)
		if count != "" {
			text += " (" + count + ")"
		}
		parts = append(parts, text)
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%s (%d)", Count(len(reasons)-shownReasons, "other reason"), rest))
	}
	text := strings.Join(parts, ", ")
	if u.Reasons[unknownOp] > 0 {
		text += "; optool explain PATH prints a line that declares an unknown op for --ops FILE"
	}
	return text
}

// of names the operators whose values were not judged for a reason, if they are known.
func (u *Unjudged) of(why string) string {
	ops, known := byCount(u.ops[why]), 0
	for _, n := range u.ops[why] {
		known += n
	}
	if len(ops) == 0 || known < u.Reasons[why] {
		return ""
	}
	text := truncate(OneLine(ops[0]), longestReason)
	if len(ops) > 1 {
		text += " and " + Count(len(ops)-1, "other op")
	}
	return text
}

// unjudged is why r was not judged, apart from what only r has; "" if it was.
func unjudged(r *Result) string {
	switch r.Verdict {
	case verdict.Pass, verdict.Warn, verdict.Repaired, verdict.Known, verdict.StillWrong, verdict.Fail,
		verdict.Timeout, verdict.Crash:
		return ""
	case verdict.Error:
		return "could not be computed"
	case verdict.Invalid:
		if r.Unwritten {
			return "torch saved nothing into the file"
		}
		return "a file could not be read"
	}
	why := truncate(verdict.General(r.Reason), longestReason)
	switch {
	case why == "":
		return string(r.Verdict)
	case r.Verdict == verdict.Mistrusted:
		return "mistrusted: " + why
	}
	return why
}
