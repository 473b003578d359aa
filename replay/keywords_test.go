package replay

import (
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestArgumentAt: an argument is found by its place among the positional ones, and by its name.
func TestArgumentAt(t *testing.T) {
	x, y := tensor.Full(tensor.Float32, []int{1}, 1.0), tensor.Full(tensor.Float32, []int{1}, 2.0)
	args, kwargs := []value.Value{int64(3), x}, &value.Dict{Items: []value.Item{{Key: "out", Value: y}}}
	for target, want := range map[string]*tensor.Tensor{"input[1]": x, "input.out": y, "input[0]": nil,
		"input.p": nil} {
		if got, ok := argumentAt(target, args, kwargs); got != want || ok != (want != nil) {
			t.Errorf("%s: %v", target, got)
		}
	}
	if _, ok := argumentAt("input.out", args, nil); ok {
		t.Error("there are no keyword arguments")
	}
}
