package step

import (
	"math"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestIsStill: a number is known to be the tensor that lay at its address if its writes are counted, it has a name, or
// nothing has read it; memory that may be another tensor's now says nothing.
func TestIsStill(t *testing.T) {
	s := &Step{}
	call := &Call{Step: s}
	value := func(version int, name string) *Value {
		return &Value{Kind: inputKind, Call: call, version: version, named: name}
	}
	result := func(readers ...*Value) *Value {
		return &Value{Kind: outputKind, Call: call, readers: readers}
	}
	left := func(v *Value) *Value { v.after = &fingerprint{}; return v }
	parameter := func(v *Value) *Value { v.RequiresGrad = true; return v }
	for _, tc := range []struct {
		name string
		v, w *Value
		want bool
	}{
		{"written before", value(2, ""), value(2, ""), true},
		{"written in between", value(3, ""), value(2, ""), false},
		{"new", value(0, ""), value(0, ""), false},
		{"not recorded", value(-1, ""), value(-1, ""), false},
		{"buffer", value(0, "weight"), value(0, "weight"), true},
		{"other buffer", value(0, "weight"), value(0, "scale"), false},
		{"left in the argument", value(3, ""), left(value(2, "")), true},
		{"left by a fused optimizer", value(2, ""), left(value(2, "")), true},
		{"parameter, written by no recorded call", parameter(value(1, "t")), value(1, "t"), false},
		{"result that nothing read", value(0, ""), result(), true},
		{"result that was read", value(0, ""), result(value(0, "")), false},
	} {
		if got := tc.v.isStill(tc.w); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestTellsApart: a single number is no gradient of its own if many calls give it.
func TestTellsApart(t *testing.T) {
	for _, tc := range []struct {
		x    []float64
		want bool
	}{
		{[]float64{0.25}, true}, {[]float64{1}, false}, {[]float64{-1}, false}, {[]float64{0}, false},
		{[]float64{math.NaN()}, false}, {[]float64{1, 2}, false}, {[]float64{1, 2, 3, 4}, true},
		{[]float64{2, 2, 2, 2}, false},
	} {
		v := &Value{DType: tensor.Float64, Shape: []int{len(tc.x)},
			content: newFingerprint(tensor.New(tensor.Float64, []int{len(tc.x)}, tc.x))}
		if got := v.tellsApart(); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.x, got, tc.want)
		}
	}
}
