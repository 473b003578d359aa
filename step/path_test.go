package step

import (
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// TestStatisticsReach: changed running statistics make what batch norm leaves there wrong, and its result only in
// evaluation, where it leaves nothing.
func TestStatisticsReach(t *testing.T) {
	for name, tc := range map[string]struct {
		after *fingerprint
		reach int
		way   int
	}{
		"training":   {&fingerprint{}, 1, 0},
		"evaluation": {nil, 3, 3},
	} {
		norm, act, loss, later := &Call{Op: "torch.nn.functional.batch_norm"}, &Call{}, &Call{}, &Call{}
		read := func(c *Call) *Value { return &Value{Kind: inputKind, Call: c} }
		mean := &Value{Kind: inputKind, Call: norm, Target: "input[1]", after: tc.after}
		mean.readers = []*Value{read(later)}
		norm.Inputs = []*Value{mean}
		norm.Outputs = []*Value{{Kind: outputKind, Call: norm, readers: []*Value{read(act)}}}
		act.Outputs = []*Value{{Kind: outputKind, Call: act, readers: []*Value{read(loss)}}}
		f := &Finding{Rule: verdict.Changed, Call: norm, Target: "input[1]"}
		if got, way := f.Reach(), f.Way(loss); got != tc.reach || len(way) != tc.way {
			t.Errorf("%s: %d calls are reached, want %d; the way is %v", name, got, tc.reach, way)
		}
	}
}
