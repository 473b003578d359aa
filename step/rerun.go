package step

import (
	"cmp"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	found "github.com/optool/optool/reports/results"
)

// A Rerun is what a device made of one pass of a call, beside what was recorded of it.
type Rerun struct {
	Call     *Call           `json:"-"`
	Phase    replay.Phase    `json:"-"`                  // forward or backward
	Recorded verdict.Verdict `json:"recorded,omitempty"` // the worst of the recorded values; "" if there are none
	Verdict  verdict.Verdict `json:"verdict"`            // the worst of the device's
	Target   string          `json:"target,omitempty"`   // of the first value with that verdict
	Reason   string          `json:"reason,omitempty"`
	Standing Standing        `json:"standing,omitempty"`
	// Instead says that the device did not run the function that was recorded in the place of torch's.
	Instead string `json:"instead,omitempty"`
}

// A Standing is how a device stands to what was recorded, where one of them is wrong.
type Standing string

// The standings.
const (
	Repeated    Standing = "repeated"     // wrong in the record and on the device
	NotRepeated Standing = "not_repeated" // wrong in the record alone
	OnlyThere   Standing = "new"          // wrong on the device alone
)

// Reruns count what a device made of the calls of a trace.
type Reruns struct {
	Run    int `json:"run"`     // calls
	NotRun int `json:"not_run"` // calls: random ones, those that the reference or the device does not have
	// Instead names recorded functions that the device did not run, but torch's own.
	Instead []string `json:"instead,omitempty"`
	// Passes by their standing.
	Repeated    int `json:"repeated"`
	NotRepeated int `json:"not_repeated"`
	New         int `json:"new"`

	Wrong  int `json:"-"` // passes that fail, crash or do not come back
	Errors int `json:"-"` // passes that end with an error
}

// Reruns are what became of the passes on the device, as far as they were run there.
func (c *Call) Reruns() []*Rerun {
	var out []*Rerun
	for _, p := range []replay.Phase{replay.Forward, replay.Backward} {
		if r := c.rerunOf(p); r != nil {
			out = append(out, r)
		}
	}
	return out
}

// rerunOf is what became of a pass on the device; nil if it was not run there.
func (c *Call) rerunOf(p replay.Phase) *Rerun {
	if c.Rerun == nil {
		return nil
	}
	results := onDevice(c.Rerun)
	all := worstOf(results)
	worst := *all.of(p)
	if worst == "" {
		return nil
	}
	at := slices.IndexFunc(results, func(x replay.Result) bool { return passOf(x) == p && x.Verdict == worst })
	r := &Rerun{Call: c, Phase: p, Recorded: *c.byPass.of(p), Verdict: worst, Target: results[at].Target,
		Reason: results[at].Reason, Instead: found.Instead(c.Entry, results[at].Functions)}
	switch right := worst == verdict.Pass || worst == verdict.Warn; {
	case r.Recorded == verdict.Fail && worst.Finding():
		r.Standing = Repeated
	case r.Recorded == verdict.Fail && right:
		r.Standing = NotRepeated
	case worst.Finding():
		r.Standing = OnlyThere
	}
	return r
}

// onDevice are the results that are about a device.
func onDevice(o *replay.Outcome) []replay.Result {
	return slices.DeleteFunc(slices.Clone(o.Results), func(r replay.Result) bool { return r.Source != "device" })
}

// passOf is the pass that a result is about: arguments are read after the forward one.
func passOf(r replay.Result) replay.Phase {
	if r.Phase == replay.Input {
		return replay.Forward
	}
	return r.Phase
}

// byPass has a verdict of each pass of a call, "" where there is none.
type byPass struct{ forward, backward verdict.Verdict }

func (b *byPass) of(p replay.Phase) *verdict.Verdict {
	if p == replay.Backward {
		return &b.backward
	}
	return &b.forward
}

// worstOf are the worst verdicts of results.
func worstOf(results []replay.Result) (worst byPass) {
	for _, r := range results {
		of := worst.of(passOf(r))
		*of = verdict.Worse(*of, r.Verdict)
	}
	return worst
}

// Reruns are the passes that are wrong in the record or on the device, in order of the
// calls, and the counts; nil if no device was asked for.
func (t *Trace) Reruns() (wrong []*Rerun, n *Reruns) {
	calls := t.Calls()
	if !slices.ContainsFunc(calls, func(c *Call) bool { return c.Rerun != nil }) {
		return nil, nil
	}
	n = &Reruns{}
	for _, c := range calls {
		ran := false
		for _, r := range c.Reruns() {
			n.count(r)
			if text := c.Op + " was " + r.Instead; r.Instead != "" && !slices.Contains(n.Instead, text) {
				n.Instead = append(n.Instead, text)
			}
			ran = ran || r.Verdict != verdict.Skipped && r.Verdict != verdict.Unsupported
			if r.Standing != "" {
				wrong = append(wrong, r)
			}
		}
		if ran {
			n.Run++
		} else {
			n.NotRun++
		}
	}
	return wrong, n
}

// Plus are the counts of both; nil where neither has a device.
func (n *Reruns) Plus(o *Reruns) *Reruns {
	if n == nil || o == nil {
		return cmp.Or(n, o)
	}
	return &Reruns{Run: n.Run + o.Run, NotRun: n.NotRun + o.NotRun, Repeated: n.Repeated + o.Repeated,
		NotRepeated: n.NotRepeated + o.NotRepeated, New: n.New + o.New, Wrong: n.Wrong + o.Wrong,
		Errors:  n.Errors + o.Errors,
		Instead: slices.Compact(slices.Sorted(slices.Values(slices.Concat(n.Instead, o.Instead))))}
}

func (n *Reruns) count(r *Rerun) {
	switch r.Standing {
	case Repeated:
		n.Repeated++
	case NotRepeated:
		n.NotRepeated++
	case OnlyThere:
		n.New++
	}
	switch {
	case r.Verdict.Differs():
		n.Wrong++
	case r.Verdict == verdict.Error:
		n.Errors++
	}
}
