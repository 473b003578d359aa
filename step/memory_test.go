package step

import (
	"testing"

	"github.com/optool/optool/tensor"
)

// TestWrites: the last write that has memory in common with a value, of several at one address, within others, and
// beside them.
func TestWrites(t *testing.T) {
	at := func(order int, address uint64, n int) *Value {
		return &Value{Call: &Call{Order: order}, Address: address, DType: tensor.Float32, Shape: []int{n},
			Stride: []int{1}}
	}
	var ws writes
	for _, v := range []*Value{at(1, 1000, 100), at(2, 1040, 4), at(3, 2000, 8), at(4, 2000, 4), at(5, 2000, 4)} {
		ws.add(v)
	}
	for _, tc := range []struct {
		v    *Value
		want int // the order of the call, 0 if there is none
	}{
		{at(9, 1000, 4), 1}, {at(9, 1040, 4), 2}, {at(9, 1048, 1), 2}, {at(9, 1056, 4), 1}, {at(9, 900, 10), 0},
		{at(9, 900, 200), 2}, {at(9, 2000, 1), 5}, {at(9, 2016, 4), 3}, {at(9, 2032, 4), 0},
	} {
		got := 0
		if w := ws.last(tc.v); w != nil {
			got = w.Call.Order
		}
		if got != tc.want {
			t.Errorf("%d, %d elements: written by call %d, want %d", tc.v.Address, tc.v.Shape[0], got, tc.want)
		}
	}
	if len(ws) != 4 {
		t.Errorf("%d writes are kept, want 4: the last of equal ones", len(ws))
	}
}

// TestWrittenMemory: what was written in place is forgotten only where its own memory is written again, not that of a
// larger tensor which lay there before.
func TestWrittenMemory(t *testing.T) {
	at := func(address uint64, n int) *Value {
		return &Value{DType: tensor.Float32, Shape: []int{n}, Stride: []int{1}, Address: address}
	}
	var m memory
	gradient := at(1000, 8)
	m.overwrite(at(1000, 16)) // free since
	m.name(gradient)
	m.replace(gradient)
	m.overwrite(at(1032, 4))
	if r := m.at(1000); r == nil || r.names[0] != gradient {
		t.Error("what was written at 1000 was forgotten")
	}
}

// TestMemoryOfShorter: what was read where something longer had been freed stays known when a call makes a value in the
// rest of that memory.
func TestMemoryOfShorter(t *testing.T) {
	of := func(address uint64, n int) *Value {
		return &Value{Address: address, DType: tensor.Float32, Shape: []int{n}, Stride: []int{1}}
	}
	m, gradient := &memory{}, of(64, 8)
	m.overwrite(of(64, 32))
	m.name(gradient)
	m.overwrite(of(64+4*16, 4))
	if r := m.at(64); r == nil || len(r.names) != 1 || r.names[0] != gradient || r.end != gradient.end() {
		t.Errorf("what lies there is %+v, want the gradient alone", r)
	}
}
