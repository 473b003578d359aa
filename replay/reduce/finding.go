package reduce

import (
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/causes"
)

// A finding is what a smaller call has to show besides that it fails: what the recorded call shows to those who repair
// the kernel.
type finding struct {
	byElement bool          // an element of the value is wrong by itself, as programs of a bundle compare
	cause     *causes.Cause // of the value; nil: none was found
}

// findingOf is the finding of a call that was compared, about one of its results. Of several causes it has one of the
// kind that is likely.
func (r *reducer) findingOf(call *replay.Call, o *replay.Outcome, res *replay.Result, likely string) finding {
	f := finding{byElement: call.ByElement(res)}
	for _, c := range call.Causes(o, &causes.Allowance{Until: r.until}) {
		if !c.Pattern && slices.Contains(c.Targets, res.Target) && (f.cause == nil || sameKind(c.Text, likely)) {
			f.cause = &c
		}
	}
	return f
}

// shows reports whether a call that fails shows what the recorded call shows.
func (r *reducer) shows(call *replay.Call, o *replay.Outcome, res *replay.Result) bool {
	if r.finding.cause == nil {
		return !r.finding.byElement || call.ByElement(res)
	}
	f := r.findingOf(call, o, res, r.finding.cause.Text)
	return (f.byElement || !r.finding.byElement) && f.cause != nil && sameKind(f.cause.Text, r.finding.cause.Text)
}

// sameKind reports whether two causes are the same mistake, of calls of other sizes: "the last 4 of the 100 terms of
// each sum are left out", "the last of the 7 terms of each sum is left out".
func sameKind(a, b string) bool { return kindOf(a) == kindOf(b) }

// kindOf is the text of a cause without its numbers, and without the words that go with them.
func kindOf(text string) string {
	var kept []string
	for _, w := range strings.Fields(text) {
		switch w = strings.Trim(w, ",;:()"); w {
		case "the", "of", "is", "are", "a", "an":
			continue
		}
		if _, err := strconv.ParseFloat(w, 64); err != nil {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, " ")
}
