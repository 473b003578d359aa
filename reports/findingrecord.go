package reports

import (
	"fmt"

	"github.com/optool/optool/compare/verdict"
)

// A Place names a value of a recorded call in records.
type Place struct {
	Capture string `json:"capture"`
	Target  string `json:"target"`
	// Op and Verdict are of the first wrong call of one run; "" where two recordings part.
	Op      string          `json:"op,omitempty"`
	Verdict verdict.Verdict `json:"verdict,omitempty"`
}

// A FindingRecord is what calls recorded together show, of one run or of two, as
// JSON lines have it.
type FindingRecord struct {
	Kind    string       `json:"kind"` // "finding"
	Rule    verdict.Rule `json:"rule"`
	Capture string       `json:"capture"`
	Target  string       `json:"target"`
	// From is where the value came from; of two recordings compared value by value,
	// the partner's. It is null where there is none.
	From     *Place `json:"from"`
	Op       string `json:"op"`
	Peer     string `json:"peer,omitempty"` // the other run's call
	Module   string `json:"module,omitempty"`
	Location string `json:"location,omitempty"`
	// Parameter is the name of the parameter that the value is, or whose gradient or state it is.
	Parameter string `json:"parameter,omitempty"`

	Side string `json:"side,omitempty"` // of two runs: this, or against
	// WrongIn says of two runs in which the value is wrong by itself: first (this one), second (the other), both.
	WrongIn WrongIn `json:"wrong_in,omitempty"`
	Phase   string  `json:"phase,omitempty"` // forward or backward, of a step
	Cause   string  `json:"cause,omitempty"` // the likeliest mistake that reproduces the value
	// Unfinished says that no cause was found yet: see Cause.
	Unfinished bool `json:"unfinished,omitempty"`

	Reason   string `json:"reason"`
	Parallel string `json:"parallel,omitempty"` // of what ranks do together: the kind of mistake
	Ranks    []int  `json:"ranks,omitempty"`
}

// In is the record for people: what and where, the path of the capture unbroken, and why.
func (f *FindingRecord) In(st Style) string {
	s := fmt.Sprintf("%s  %s  %s %s", f.Rule, f.Op, f.Capture, f.Target)
	if f.Module != "" {
		s += "  in " + f.Module
	}
	if f.Location != "" {
		s += "  at " + f.Location
	}
	return OneLine(s) + "\n  " + st.Wrap(OneLine(f.Reason), 2)
}
