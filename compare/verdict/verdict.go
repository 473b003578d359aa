// Package verdict is the closed set of outcomes that optool knows: of comparing
// one value, and of a call, a capture or a run, whose outcome is the worst of
// its parts.
package verdict

import (
	"slices"
	"strings"
)

// A Verdict is the outcome of a comparison, as it is written to files.
type Verdict string

// The verdicts. See All for their order.
const (
	Skipped     Verdict = "skipped"     // not compared, for a Reason or one that the operator declares
	Mistrusted  Verdict = "mistrusted"  // compared, but the comparison proves little
	Pass        Verdict = "pass"        // equal, or off by rounding
	Warn        Verdict = "warn"        // off by the rounding of a low-precision accumulator
	Unsupported Verdict = "unsupported" // op, argument or dtype not known
	Repaired    Verdict = "repaired"    // right, and a failure in the recording compared with
	Known       Verdict = "known"       // a failure that the list of known failures has
	StillWrong  Verdict = "still wrong" // a failure that the run or recording compared with has, too
	Fail        Verdict = "fail"        // off by more than rounding
	Invalid     Verdict = "invalid"     // unreadable or inconsistent input
	Error       Verdict = "error"       // could not be computed
	Timeout     Verdict = "timeout"
	Crash       Verdict = "crash"
)

// Rank is the place of v in All, -1 if it is none.
func (v Verdict) Rank() int { return slices.Index(ranked, v) }

var ranked = []Verdict{Skipped, Mistrusted, Pass, Warn, Unsupported, Repaired, Known, StillWrong, Fail, Invalid, Error,
	Timeout, Crash}

// All lists the verdicts from best to worst.
func All() []Verdict { return slices.Clone(ranked) }

// List is verdicts as flags have them: unsupported,skipped.
func List(vs []Verdict) string {
	var names []string
	for _, v := range vs {
		names = append(names, string(v))
	}
	return strings.Join(names, ",")
}

// Key is the name of v as a field of JSON lines.
func (v Verdict) Key() string { return strings.ReplaceAll(string(v), " ", "_") }

// Worse returns the worse of two verdicts, in the order of All; the empty verdict
// is better than all. A skipped or mistrusted part does not hide one that passed.
func Worse(a, b Verdict) Verdict {
	if b.Rank() > a.Rank() {
		return b
	}
	return a
}

// Differs reports whether v is a difference or a device's failure.
func (v Verdict) Differs() bool { return v == Fail || v == Timeout || v == Crash }

// Wrong reports whether v is of a wrong value, be it new or not.
func (v Verdict) Wrong() bool { return v.Differs() || v == StillWrong || v == Known }

// Finding reports whether v is of something that its reader has to look at.
func (v Verdict) Finding() bool {
	switch v {
	case Pass, Warn, Mistrusted, Skipped, Unsupported, Repaired, Known, StillWrong:
		return false
	}
	return true
}
