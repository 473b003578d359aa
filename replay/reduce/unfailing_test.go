package reduce

import (
	"errors"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
)

// TestUnfailing: only a call that was judged does not fail. Of others it is said what was not judged, and why.
func TestUnfailing(t *testing.T) {
	of := func(v verdict.Verdict, reason string) replay.Result {
		return replay.Result{Target: "output[0]", Verdict: v, Reason: reason}
	}
	for _, c := range []struct {
		results []replay.Result
		want    string
	}{
		{[]replay.Result{of(verdict.Pass, ""), of(verdict.Skipped, "random")}, ErrSound.Error()},
		{[]replay.Result{of(verdict.Pass, ""), of(verdict.Unsupported, "no function")},
			"output[0] was not judged: unsupported: no function"},
		{[]replay.Result{of(verdict.Error, "it cannot run")}, "output[0] was not judged: error: it cannot run"},
		{[]replay.Result{of(verdict.Skipped, "random")}, "nothing of the call was judged: output[0]: skipped: random"},
		{nil, "nothing of the call was judged"},
	} {
		err := unfailing(&replay.Outcome{Results: c.results})
		if err.Error() != c.want || errors.Is(err, ErrSound) != (c.want == ErrSound.Error()) {
			t.Errorf("got %q, want %q", err, c.want)
		}
	}
}
