package step

import (
	"testing"

	"github.com/optool/optool/tensor"
)

// TestUnreadView: a view that only a call with out= reads computes nothing with what was there before, nor do views
// of it.
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
	view := &Call{Order: 1}
	view.Outputs = []*Value{{Call: view, DType: tensor.Float32, Shape: []int{4}, Stride: []int{1}, Address: 64}}
	reads := &Value{Call: view, Target: "input[0]", Kind: inputKind, Address: 64, Shape: []int{4}, Stride: []int{1},
		DType: tensor.Float32}
	view.Inputs = []*Value{reads}
	c := &Call{Inputs: []*Value{{Address: 64, DType: tensor.Float32, Shape: []int{4}, Stride: []int{1}}}}
	c.Outputs = []*Value{{Call: c, DType: tensor.Float32, Shape: []int{4}, Stride: []int{1}, Address: 64,
		readers: []*Value{reads}}}
	if !c.unreadView() {
		t.Error("a view that only another view reads counts as read")
	}
	view.Outputs[0].readers = []*Value{{Call: &Call{}, Target: "input[0]"}}
	if c.unreadView() {
		t.Error("a view of which a call reads a view counts as unread")
	}
}
