package step

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// TestVacant: what a pipeline computes with uninitialised memory, to know the shapes of results, is no loss, and not
// wrong. What is computed with memory that a message filled is.
func TestVacant(t *testing.T) {
	tr := analyse(t, "parallel/testdata/pipeline")
	if len(tr.Findings) > 0 {
		t.Errorf("found %s %s: %s", tr.Findings[0].Rule, tr.Findings[0].Call, tr.Findings[0].Reason)
	}
	vacant := map[string]int{}
	for _, c := range tr.Processes[1].Calls {
		if c.Vacant() {
			vacant[c.Op]++
		}
	}
	if vacant["torch.nn.functional.linear"] != 1 || vacant["torch.nn.functional.mse_loss"] != 1 {
		t.Errorf("with uninitialised memory: %v", vacant)
	}
	for _, g := range tr.Seen().Gaps {
		if strings.Contains(g.What, "no loss was recorded") {
			t.Errorf("the second stage computes the loss of the first: %s", g.What)
		}
	}
	if n := len(tr.Processes[1].Steps); n != 4 {
		t.Errorf("%d losses, want one for each microbatch", n)
	}
}

// TestUnwritten: what stands in memory that nothing wrote is no difference of two runs, also where it was filled in
// part and moved, until a call computes with it. Different random numbers come behind what has a cause of its own.
func TestUnwritten(t *testing.T) {
	random := "random_/2: the results differ by 1, the inputs by 0: different random numbers"
	for _, tc := range []struct {
		a, b string
		want []string
	}{
		{"unwritten-other", "unwritten", nil},
		{"unwritten-seeds", "unwritten", []string{random}},
		{"unwritten-eps", "unwritten", []string{"layer_norm/7: the results differ by 0.0067, the inputs by 0: eps=1e-05 " +
			"instead of 0.01", random}},
		{"unwritten-computes-other", "unwritten-computes", []string{"mul/9: the results differ by 0.4, the inputs by 0: " +
			"it reads memory that nothing wrote"}},
	} {
		tr := open(t, tc.b)
		if err := tr.Against(context.Background(), open(t, tc.a), options(t)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range tr.Findings {
			got = append(got, f.Call.String()[strings.LastIndex(f.Call.String(), ".")+1:]+": "+f.Reason)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s against %s: %q, want %q", tc.b, tc.a, got, tc.want)
		}
		if apart := tr.Runs.Apart; apart != nil && tc.want == nil {
			t.Errorf("%s against %s: %s of %s is apart", tc.b, tc.a, apart.Target, apart.Call)
		}
	}
}
