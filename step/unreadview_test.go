package step

import (
	"testing"

	"github.com/optool/optool/tensor"
)

// TestUnreadView: a view that only a call with out= reads computes nothing with what was there before.
func TestUnreadView(t *testing.T) {
	for target, want := range map[string]bool{"input.out[0]": true, "input[0]": false} {
		c := &Call{}
		value := func(target string) *Value {
			return &Value{Call: c, Target: target, DType: tensor.Float32, Shape: []int{4}, Stride: []int{1},
				Address: 64}
		}
		c.Inputs, c.Outputs = []*Value{value("input[0]")}, []*Value{value("output[0]")}
		c.Outputs[0].readers = []*Value{value(target)}
		if got := c.unreadView(); got != want {
			t.Errorf("read as %s: got %v, want %v", target, got, want)
		}
	}
}
