package step

import (
	"testing"

	"github.com/optool/optool/capture"
)

// TestAddedInPlace: a gradient that autograd added up in place, unless ranks exchange values.
func TestAddedInPlace(t *testing.T) {
	for op, want := range map[string]bool{"torch.add": true, "torch.distributed.all_reduce": false} {
		c := &Call{Op: "torch.mul"}
		c.Process = &Process{Calls: []*Call{c, {Op: op}}}
		c.Process.findExchanges()
		r := &Value{Call: c, Kind: inputKind, Target: "input[0]"}
		c.Inputs = []*Value{r}
		c.Grads = []*Value{{Call: c, Target: "grad[0]", Address: 8, version: 0}}
		v := &Value{Call: c, Kind: capture.GradOutputs, Address: 8, version: 1}
		if got := v.addedInPlace([]*Value{r, r}); got != want {
			t.Errorf("%s: %v", op, got)
		}
	}
}
