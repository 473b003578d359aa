package step

import (
	"math"
	"testing"

	"github.com/optool/optool/capture"
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

// TestViewedWhole: a buffer that is read through views of all its elements, which lie where it does, is still known.
func TestViewedWhole(t *testing.T) {
	for name, change := range map[string]bool{"changed": true, "kept": false} {
		p := &Process{}
		read := func(s *Step, x ...float64) *Value {
			value := func(c *Call, kind capture.Kind, name string) *Value {
				return &Value{Call: c, Kind: kind, DType: tensor.Float64, Shape: []int{len(x)}, Stride: []int{1},
					Address: 64, named: name, content: newFingerprint(tensor.New(tensor.Float64, []int{len(x)}, x))}
			}
			add := func(op, name string) *Value {
				n := len(p.Calls)
				c := &Call{Op: op, Step: s, Process: p, Order: n, Entry: &capture.Entry{Name: capture.Name{ID: n}}}
				c.Inputs, c.Outputs = []*Value{value(c, inputKind, name)}, []*Value{value(c, outputKind, "")}
				p.Calls = append(p.Calls, c)
				return c.Inputs[0]
			}
			first := add("torch.Tensor.detach", "net.cos")
			add("torch.Tensor.__getitem__", "")
			return first
		}
		x, y := []float64{1, 2, 3, 4, 5, 6}, []float64{6, 1, 2, 3, 4, 5}
		if !change {
			y = x
		}
		before := read(&Step{Number: 0}, x...)
		v := read(&Step{Number: 1}, y...)
		p.link()
		p.findScalars()
		if got := v.From.How == IsChanged && v.From.Value == before; got != change {
			t.Errorf("%s: linked by %s to %s", name, v.From.How, v.From.Value.name())
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
