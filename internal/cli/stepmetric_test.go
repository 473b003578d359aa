package cli

import (
	"strings"
	"testing"

	"github.com/optool/optool/step"
)

// TestRefusedTokens: tokens that are none of the vocabulary are not ignored.
func TestRefusedTokens(t *testing.T) {
	of := &step.Value{Shape: []int{2, 4}}
	for want, tokens := range map[string][]int64{"": {0, 3, -100}, "is empty": {}, "4 is no token": {4},
		"-5 is no token": {1, -5}} {
		err := checkTokens(tokens, of)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", tokens, err, want)
		}
	}
	if _, err := numbersIn([]any{1.0, 1.5}); err == nil {
		t.Error("1.5 is a token")
	}
}

// TestImaginedOfNone: an imagined run of no operator, or of one that was not recorded, is refused.
func TestImaginedOfNone(t *testing.T) {
	c := &step.Call{Op: "torch.add"}
	tr := &step.Trace{Processes: []*step.Process{{Calls: []*step.Call{c}}}}
	for _, tc := range []struct {
		o  stepOptions
		ok bool
	}{
		{stepOptions{exact: []string{"torch.add"}}, true}, {stepOptions{in: []string{"float32=torch.add"}}, true},
		{stepOptions{exact: []string{"torch.sub", "torch.mul"}}, false}, {stepOptions{exact: []string{"torch.add,torch.mul"}},
			false}, {stepOptions{in: []string{"float32=torch.add,torch.mul"}}, false}, {stepOptions{in: []string{"float32="}}, false},
		{stepOptions{in: []string{"float32=torch.mul"}}, false},
	} {
		runs, err := tc.o.imagined()
		if err == nil {
			err = met(runs, tr)
		}
		if (err == nil) != tc.ok {
			t.Errorf("%v %v: %v", tc.o.exact, tc.o.in, err)
		}
	}
}
