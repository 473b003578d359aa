package step

import (
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/tensor"
)

// TestIsState: a value is state of an optimizer from the third step on too, whether the step before returned it or left
// it in its argument, as fused optimizers do. Gradients at one address are no state.
func TestIsState(t *testing.T) {
	for _, tc := range []struct {
		name string
		made *Value // what the step before read at the address
		want bool
	}{
		{"returned", &Value{Kind: outputKind}, true},
		{"left in the argument", &Value{Kind: inputKind, after: &fingerprint{}}, true},
		{"gradient", &Value{Kind: capture.GradInputs}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			read := func(from *Value) *Value {
				v := &Value{Kind: inputKind, Target: "input[42]", DType: tensor.Float32, Shape: []int{4}, Address: 64}
				v.From.Value = from
				v.Call = &Call{Op: "torch._fused_adamw_", Inputs: []*Value{v}}
				return v
			}
			before, v := &Step{Tail: []*Call{read(tc.made).Call}}, read(nil)
			before.indexTail()
			if got := newUpdater(&Step{}, nil).isState(v, before); got != tc.want {
				t.Errorf("state: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestSavedIsNoState: what a call of a backward pass reads, such as the mean that layer norm saved, is no state of an
// optimizer, even where the same line read a result at that address in the step before.
func TestSavedIsNoState(t *testing.T) {
	for _, tc := range []struct {
		name string
		gave int // where the backward pass ended
		want Source
	}{
		{"in the backward pass", 10, IsLeaf},
		{"behind it", 3, IsChanged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, now := &Step{Number: 0}, &Step{Number: 1, gave: tc.gave}
			reads := func(s *Step, from *Value) *Value {
				c := &Call{Entry: &capture.Entry{Order: 5}, Op: "torch.Tensor.sub", Step: s, Order: 1}
				v := &Value{Call: c, Kind: inputKind, Target: "input[1]", DType: tensor.Float32, Shape: []int{8},
					Stride: []int{1}, Address: 64, item: -1, From: Link{How: IsLeaf, Value: from}}
				c.Inputs, s.Tail = []*Value{v}, []*Call{c}
				return v
			}
			mean := &Value{Call: &Call{Step: before, Order: 1}, Kind: outputKind, Target: "output[0]"}
			reads(before, mean)
			before.indexTail()
			v := reads(now, nil)
			v.latest = mean
			newUpdater(now, nil).checkState(v)
			if v.From.How != tc.want {
				t.Errorf("it is %s, want %s", v.From.How, tc.want)
			}
		})
	}
}

// TestIsNewState: state that the step before only made is state if most others that are written with it are kept. A
// gradient that is only read is none, even at the address of a former result.
func TestIsNewState(t *testing.T) {
	before := &Step{}
	update := func(number int) *Call {
		s := &Step{Number: number}
		c := &Call{Op: "torch._foreach_mul_", Step: s, Order: 1}
		for i := range 6 {
			v := &Value{Call: c, Kind: inputKind, Target: "input[" + string(rune('0'+i)) + "]", DType: tensor.Float32,
				Shape: []int{8}, Stride: []int{1}, Address: uint64(64 * (i + 1)), item: i, after: &fingerprint{}}
			made := &Call{Op: "torch.clone", Step: before, Order: 2}
			v.From.Value = &Value{Call: made, Kind: outputKind}
			c.Inputs = append(c.Inputs, v)
		}
		return c
	}
	before.Tail = []*Call{{Step: before, Order: 2}}
	for _, tc := range []struct {
		name                  string
		kept, gradient, write bool
		want                  bool
	}{
		{"new state", true, false, true, true},
		{"nothing is kept", false, false, true, false},
		{"gradient", true, true, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := update(1)
			v := c.Inputs[0]
			v.From.Value = nil
			for _, w := range c.Inputs[1:] {
				if !tc.kept {
					w.From.Value = nil
				}
			}
			if tc.gradient {
				v.From.Value = &Value{Kind: capture.GradInputs}
				before.Tail = append(before.Tail, update(0))
			}
			if !tc.write {
				v.after = nil
			}
			before.indexTail()
			if got := newUpdater(c.Step, nil).isState(v, before); got != tc.want {
				t.Errorf("state: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestReleaseKept: a gradient holds what earlier backward passes left if no recorded call writes its parameter, but
// calls write others.
func TestReleaseKept(t *testing.T) {
	for _, tc := range []struct {
		name    string
		written []uint64
		want    bool
	}{
		{"another parameter is updated", []uint64{128}, true},
		{"its parameter is updated", []uint64{64, 128}, false},
		{"nothing is updated", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &Step{Number: 0}
			norm := &Call{Entry: &capture.Entry{}, Op: "torch._foreach_norm", Step: s, Order: 1}
			reading := &Value{Kind: inputKind, Address: 64}
			v := &Value{Call: norm, Kind: inputKind, Address: 256, From: Link{How: IsChanged, Value: reading}}
			norm.Inputs = []*Value{v}
			s.Tail = []*Call{norm}
			for _, at := range tc.written {
				c := &Call{Entry: &capture.Entry{}, Op: "torch.Tensor.add_", Step: s, Order: 2}
				c.Inputs = []*Value{{Call: c, Address: at, after: &fingerprint{}}}
				s.Tail = append(s.Tail, c)
			}
			p := &Process{Steps: []*Step{s}}
			newUpdater(s, map[uint64][]*Value{64: {reading}, 128: nil}).releaseKept(p.updated())
			if v.kept != tc.want || (v.From.How == IsChanged) == tc.want {
				t.Errorf("kept: %v, %s, want %v", v.kept, v.From.How, tc.want)
			}
		})
	}
}
