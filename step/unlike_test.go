package step

import (
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/tensor"
)

// TestUnlikeUnexplained: what an update reads and no call gives is unexplained, though no other gradient is explained
// there. What the update writes is its state.
func TestUnlikeUnexplained(t *testing.T) {
	for name, tc := range map[string]struct {
		result uint64 // address of what the call returns
		want   Source
	}{
		"gradient": {128, IsOutside},
		"state":    {64, IsLeaf},
	} {
		t.Run(name, func(t *testing.T) {
			v := &Value{Kind: inputKind, Target: "input[1]", DType: tensor.Float32, Shape: []int{4}, Address: 64,
				item: -1}
			v.From = Link{How: IsLeaf}
			v.Call = &Call{Op: "torch.Tensor.add_", Entry: &capture.Entry{}, Inputs: []*Value{v},
				Outputs: []*Value{{Kind: outputKind, Address: tc.result}}}
			u := newUnlike(map[argument]*count{})
			u.add(v, []*Value{{Address: 32, Call: &Call{}}}, "", nil)
			u.sort()
			if u.settle(); v.From.How != tc.want {
				t.Errorf("linked as %q, want %q", v.From.How, tc.want)
			}
		})
	}
}

// TestSettleGradient: an input of an update that holds part of a recorded gradient is that gradient, changed, if it is
// known where it lies. Else calls of which nothing is known may have added to it.
func TestSettleGradient(t *testing.T) {
	for address, want := range map[uint64]Source{64: IsChanged, 0: IsOutside} {
		g, v := floats(1, 2, 3, 4, 5, 6, 7, 8), floats(1, 2, 3, 4, 5, 6, 70, 80)
		v.Address = address
		g.Call = &Call{Entry: &capture.Entry{}}
		v.Call = g.Call
		like := map[form]*gradients{}
		group(like, g.form(), g)
		v.settleGradient(nil, like[v.form()])
		if v.From.How != want {
			t.Errorf("at address %d: linked as %q, want %q", address, v.From.How, want)
		}
	}
}
