package value

import (
	"errors"
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
)

func TestOpen(t *testing.T) {
	x := tensor.Scalar(tensor.Float32, 1.0)
	with := tensor.Scalar(tensor.Float32, 2.0)
	with.Attrs = []Part{{"scale", x}}
	loop := NewList(int64(1))
	loop.Items = append(loop.Items, loop)
	net := &Opaque{Global: "Net", Parts: []Part{{"layers", NewList(&Opaque{Global: "Linear",
		Parts: []Part{{"weight", x}}})}, {"(0)", "made with"}, {"[3]", true}}}
	for _, tc := range []struct {
		name, at string
		v        Value
		want     []string
	}{
		{"alone", "", int64(1), []string{"value"}},
		{"dict", "", &Dict{Items: []Item{{"a", &Dict{Items: []Item{{int64(0), x}}}}, {"b", NewTuple(x, x)}}},
			[]string{"a.0", "b[0]", "b[1]"}},
		{"object", "", net, []string{"value", "layers[0]", "layers[0].weight", "(0)", "[3]"}},
		{"object at a place", "input[0]", net, []string{"input[0]", "input[0].layers[0]", "input[0].layers[0].weight",
			"input[0](0)", "input[0][3]"}},
		{"attributes", "w", with, []string{"w", "w.scale"}},
		{"keys without a name", "", &Dict{Items: []Item{{x, "v"}}}, []string{"[key 0]", "[value 0]"}},
		{"two of a name", "", &Dict{Items: []Item{{int64(1), x}, {"1", x}}}, []string{"1", "1 #2"}},
		{"itself", "l", loop, []string{"l[0]", "l[1]"}},
		{"size", "s", &Sequence{Kind: Tuple, Class: "torch.Size", Items: []Value{int64(1)}}, []string{"s"}},
	} {
		all, err := Open(tc.at, tc.v)
		var got []string
		for _, n := range all {
			got = append(got, n.Name)
		}
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, %v, want %q", tc.name, got, err, tc.want)
		}
	}
	bomb := NewList(int64(1))
	for range 40 {
		bomb = NewList(bomb, bomb)
	}
	if _, err := Open("", bomb); !errors.Is(err, ErrTooMany) {
		t.Errorf("2^40 values: error %v", err)
	}
}
