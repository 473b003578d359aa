package step

import (
	"fmt"
	"slices"
	"testing"
)

// TestRunAgain: which calls checkpointing ran again with other random numbers, and of what. Draws of the next batch, of
// a hook, or on the same line of another block are none, and no wrong gradient makes them one.
func TestRunAgain(t *testing.T) {
	for _, tc := range []struct {
		name string
		want []string
	}{
		{"batches-in-place", []string{"wrong torch.nn.functional.embedding/42 grad[1]",
			"wrong torch.nn.functional.embedding/191 grad[1]"}},
		{"checkpoint-wrong-dropout", []string{"wrong torch.nn.functional.dropout/8 grad[0]",
			"wrong torch.nn.functional.dropout/130 grad[0]"}},
		{"depth-checkpointed", nil},
		{"depth-reentrant", nil},
		{"depth-redrawn", []string{"changed torch.rand/26 output[0] of torch.rand/15",
			"changed torch.rand/31 output[0] of torch.rand/8", "changed torch.rand/126 output[0] of torch.rand/115",
			"changed torch.rand/131 output[0] of torch.rand/108"}},
		{"depth-reentrant-redrawn", []string{"changed torch.rand/28 output[0] of torch.rand/15",
			"changed torch.rand/37 output[0] of torch.rand/8", "changed torch.rand/136 output[0] of torch.rand/123",
			"changed torch.rand/145 output[0] of torch.rand/116"}},
		{"stochastic-rounding", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := analyse(t, unpack(t, tc.name))
			var got []string
			for _, f := range tr.Findings {
				s := fmt.Sprintf("%s %s %s", f.Rule, f.Call, f.Target)
				if f.From != nil {
					s += fmt.Sprintf(" of %s", f.From.Call)
				}
				got = append(got, s)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("findings %q, want %q", got, tc.want)
			}
			if n := tr.Seen().Unexplained; n > 0 {
				t.Errorf("%d values are unexplained: views of a batch that calls wrote", n)
			}
		})
	}
}
