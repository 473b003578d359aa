package step

import (
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/tensor"
)

// TestIsState: a value is state of an optimizer from the third step on too, whether the step before returned it or left
// it in its argument, as fused optimizers do. Gradients at one address are no state.
func TestIsState(t *testing.T) {
	for _, tc := range []struct {
		name string
		made *Value // what the step before read at the address
		want bool
	}{
		{"returned", &Value{Kind: outputKind}, true},
		{"left in the argument", &Value{Kind: inputKind, after: &fingerprint{}}, true},
		{"gradient", &Value{Kind: capture.GradInputs}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			read := func(from *Value) *Value {
				v := &Value{Kind: inputKind, Target: "input[42]", DType: tensor.Float32, Shape: []int{4}, Address: 64}
				v.From.Value = from
				v.Call = &Call{Op: "torch._fused_adamw_", Inputs: []*Value{v}}
				return v
			}
			before, v := &Step{Tail: []*Call{read(tc.made).Call}}, read(nil)
			before.indexTail()
			if got := newUpdater(&Step{}, nil).isState(v, before); got != tc.want {
				t.Errorf("state: %v, want %v", got, tc.want)
			}
		})
	}
}
