package capture

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestLeaves names tensors in lists, keywords and dictionaries, and counts what is no tensor.
func TestLeaves(t *testing.T) {
	x := tensor.Scalar(tensor.Float32, 1.0)
	args := []value.Value{x, value.NewList(int64(3), x), &value.Dict{Items: []value.Item{{Key: "a", Value: x}}}}
	kwargs := &value.Dict{Items: []value.Item{{Key: "out", Value: value.NewTuple(x, x)}, {Key: "w", Value: x}}}
	ls, err := Leaves(args, kwargs)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range ls {
		got = append(got, fmt.Sprintf("%d %s %s", l.Number, l.Path, l.Target("input")))
	}
	if want := []string{"0 args[0] input[0]", "2 args[1][1] input[2]", "4  input[4]", "5 kwargs.out[0] input.out[0]",
		"6 kwargs.out[1] input.out[1]", "7 kwargs.w input.w"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLeavesOfLoop: a list that holds itself, as in a damaged file, has no leaves, and no arguments share memory there.
func TestLeavesOfLoop(t *testing.T) {
	loop, x := value.NewList(nil), tensor.Scalar(tensor.Float32, 1.0)
	loop.Items[0] = loop
	for _, c := range []*Call{{Args: []value.Value{x, loop}, Kwargs: &value.Dict{}},
		{Args: []value.Value{x}, Kwargs: &value.Dict{Items: []value.Item{{Key: "out", Value: loop}}}}} {
		if ls, err := c.Leaves(Input); !errors.Is(err, value.ErrLoop) || ls != nil {
			t.Errorf("%d leaves, %v, want none and %v", len(ls), err, value.ErrLoop)
		}
		c.share(map[string]Memory{"args[0]": {Address: "16"}, "args[1][0]": {Address: "16"}})
	}
}
