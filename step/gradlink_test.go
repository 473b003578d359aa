package step

import (
	"testing"

	"github.com/optool/optool/capture"
)

// TestOfOuter: what a call was given and hands on is the same leaf, though the recorder knows only the outer one as a
// parameter.
func TestOfOuter(t *testing.T) {
	p, s := &Process{}, &Step{}
	reading := func(c *Call, address uint64, sum uint64) *Value {
		v := &Value{Call: c, Kind: inputKind, RequiresGrad: true, Address: address, Shape: []int{4}}
		v.content.sum, v.From.How = sum, IsLeaf
		c.Inputs = append(c.Inputs, v)
		return v
	}
	outer := &Call{Process: p, Step: s}
	inner := &Call{Process: p, Step: s, Order: 1, outer: outer}
	p.Calls = []*Call{outer, inner}
	reading(outer, 64, 1).Parameter = true
	same, moved, other := reading(inner, 64, 1), reading(inner, 128, 1), reading(inner, 64, 2)
	p.nameLeaves()
	for _, tc := range []struct {
		name string
		v    *Value
		want Source
	}{{"handed on", same, IsLeaf}, {"elsewhere", moved, IsOutside}, {"other elements", other, IsOutside}} {
		if tc.v.From.How != tc.want {
			t.Errorf("%s: %v (%s), want %v", tc.name, tc.v.From.How, tc.v.From.Role, tc.want)
		}
	}
}

// TestThere: a call reads no gradient that came later. Recorders that do not know the order leave all of them.
func TestThere(t *testing.T) {
	at := func(order, gradient int) *Call {
		return &Call{Entry: &capture.Entry{Order: order, GradientOrder: gradient}}
	}
	for _, tc := range []struct{ reader, gradient, want int }{{5, 4, 1}, {5, 6, 0}, {5, 0, 1}, {-1, 0, 1}, {-1, 6, 1}} {
		g := &Value{Call: at(0, tc.gradient)}
		if n := len(at(tc.reader, 0).there([]*Value{g})); n != tc.want {
			t.Errorf("call %d has %d gradients of place %d, want %d", tc.reader, n, tc.gradient, tc.want)
		}
	}
}
