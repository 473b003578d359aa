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
			u := newUnlike()
			u.add(v, []*Value{{Address: 32, Call: &Call{}}}, "", nil)
			if u.settle(); v.From.How != tc.want {
				t.Errorf("linked as %q, want %q", v.From.How, tc.want)
			}
		})
	}
}
