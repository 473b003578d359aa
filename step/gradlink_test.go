package step

import "testing"

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
