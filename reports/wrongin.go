package reports

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
)

// WrongIn says in which of two recordings, of which the first is compared with the second, a value is wrong by itself.
type WrongIn string

// The recordings in which a value is wrong.
const (
	WrongInFirst  WrongIn = "first"  // a new fault
	WrongInSecond WrongIn = "second" // a fault that the first recording has no more
	WrongInBoth   WrongIn = "both"
)

// wrongInWords name what became of the faults, the worst first.
var wrongInWords = []struct {
	in   WrongIn
	word string
}{{WrongInFirst, "new"}, {WrongInBoth, "still wrong"}, {WrongInSecond, "repaired"}}

// InWhich says in which of two recordings a value is wrong: in the first, the second, both or, "", none.
func InWhich(first, second bool) WrongIn {
	switch {
	case first && second:
		return WrongInBoth
	case first:
		return WrongInFirst
	case second:
		return WrongInSecond
	}
	return ""
}

// Word says what became of a fault: "repaired". It is "" if nobody can tell.
func (in WrongIn) Word() string {
	for _, w := range wrongInWords {
		if w.in == in {
			return w.word
		}
	}
	return ""
}

// WorseIn is the worse of what became of two values of a call, "" if nobody can tell of either.
func WorseIn(a, b WrongIn) WrongIn {
	for _, w := range wrongInWords {
		if a == w.in || b == w.in {
			return w.in
		}
	}
	return ""
}

// WrongIn says in which of two recordings the call is wrong: a value that only the first one has wrong makes it new,
// one that both have wrong makes it still wrong.
func (f *Finding) WrongIn() (in WrongIn) {
	for _, r := range f.Results {
		in = WorseIn(in, r.WrongIn)
	}
	return in
}

// Repair makes a value that fails repaired if only the second recording has it wrong. JSON lines call it fail, for the
// recordings differ: see recorded.
func (r *Result) Repair() {
	if r.WrongIn == WrongInSecond && r.Verdict == verdict.Fail {
		r.Verdict = verdict.Repaired
	}
}

// recorded is the result as JSON lines have it.
func (r *Result) recorded() *Result {
	if r == nil || r.Verdict != verdict.Repaired {
		return r
	}
	fails := *r
	fails.Verdict = verdict.Fail
	return &fails
}

// recorded is the op as JSON lines have it: repaired captures are in both counts.
func (o *OpSummary) recorded() *OpSummary {
	if o.Counts[verdict.Repaired] == 0 {
		return o
	}
	is := *o
	is.Counts, is.Worst = maps.Clone(o.Counts), o.Worst.recorded()
	is.Counts[verdict.Fail] += o.Counts[verdict.Repaired]
	return &is
}

// wrongInNote says in which of two recordings the call is wrong, and where the second one has it.
func (f *Finding) wrongInNote() string {
	in := f.WrongIn()
	partner := ""
	for _, r := range f.Results {
		if r.Partner != "" {
			partner = " (" + r.Partner + ")"
		}
	}
	switch in {
	case WrongInFirst:
		return "new: wrong in the new recording, right in the old one" + partner
	case WrongInBoth:
		return "still wrong: in the new recording and in the old one" + partner
	case WrongInSecond:
		return "repaired: right in the new recording, wrong in the old one" + partner
	}
	return ""
}

// Faulty counts the calls of two recordings that are wrong by themselves, by what became of them and by operator.
type Faulty map[WrongIn]map[string]int

// Add counts a call.
func (n Faulty) Add(f *Finding) { n.Count(f.Results[0].Op, f.WrongIn()) }

// Count counts a call of an operator; "" counts nothing.
func (n Faulty) Count(op string, in WrongIn) {
	if in == "" {
		return
	}
	if n[in] == nil {
		n[in] = map[string]int{}
	}
	n[in][op]++
}

// shownFaulty is how many operators are named.
const shownFaulty = 4

// String is what became of the calls: "none new, 8 calls still wrong (a.b), 4 calls repaired (c.d)". It is "" where no
// call is wrong.
func (n Faulty) String() string {
	if len(n) == 0 {
		return ""
	}
	var parts []string
	for _, w := range wrongInWords {
		total := 0
		ops := slices.SortedFunc(maps.Keys(n[w.in]), func(a, b string) int {
			if d := n[w.in][b] - n[w.in][a]; d != 0 {
				return d
			}
			return strings.Compare(a, b)
		})
		for _, k := range n[w.in] {
			total += k
		}
		text := "none " + w.word
		if total > 0 {
			names := ops[:min(len(ops), shownFaulty)]
			more := ""
			if k := len(ops) - len(names); k > 0 {
				more = fmt.Sprintf(" and %d more", k)
			}
			text = fmt.Sprintf("%s %s (%s%s)", Count(total, "call"), w.word, OneLine(strings.Join(names, ", ")),
				more)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
