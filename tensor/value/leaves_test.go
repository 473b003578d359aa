package value

import (
	"errors"
	"testing"
)

func TestLeaves(t *testing.T) {
	shared := NewList(int64(1), nil)
	got, err := Leaves([]Value{
		shared, NewTuple(shared, "x"), &Dict{Items: []Item{{Key: "k", Value: true}}}, nil,
	})
	if want := "(1, None, 1, None, 'x', 'k', True, None)"; err != nil || Repr(NewTuple(got...)) != want {
		t.Errorf("Leaves = %s, %v, want %s", Repr(NewTuple(got...)), err, want)
	}

	loop := NewList()
	loop.Items = append(loop.Items, loop)
	if _, err := Leaves([]Value{loop}); !errors.Is(err, ErrLoop) {
		t.Errorf("Leaves of a list that holds itself: error %v", err)
	}
	for name, bomb := range map[string]*Sequence{"values": NewList(int64(1)), "empty lists": NewList()} {
		for range 40 {
			bomb = NewList(bomb, bomb)
		}
		if _, err := Leaves([]Value{bomb}); !errors.Is(err, ErrTooMany) {
			t.Errorf("Leaves of 2^40 %s: error %v", name, err)
		}
	}
}
