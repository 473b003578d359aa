package step

import (
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
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
			if got := newUpdater(&Step{}, nil, nil).isState(v, before); got != tc.want {
				t.Errorf("state: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestGivenTwice: the gradient of a parameter through a function of the program and the calls that it makes counts
// once: that of the function if it was judged.
func TestGivenTwice(t *testing.T) {
	for _, tc := range []struct {
		outer, inner verdict.Verdict
		want         string
	}{
		{verdict.Pass, verdict.Unsupported, "outer"},
		{verdict.Pass, verdict.Pass, "outer"},
		{verdict.Unsupported, verdict.Pass, "inner"},
		{verdict.Unsupported, verdict.Unsupported, "inner"},
	} {
		s := &Step{}
		call := func(op string, of *Call, v verdict.Verdict, at uint64) *Call {
			c := &Call{Entry: &capture.Entry{}, Op: op, outer: of, Step: s, Verdict: v, GradOutputs: []*Value{{}}}
			c.Inputs = []*Value{{Call: c, Parameter: true, RequiresGrad: true, Address: at}}
			s.Calls = append(s.Calls, c)
			return c
		}
		outer := call("outer", nil, tc.outer, 64)
		call("inner", outer, tc.inner, 64)
		call("other", outer, tc.inner, 128)
		s.root = outer
		got := ""
		for _, v := range (&Process{Calls: s.Calls, Steps: []*Step{s}}).parameterReadings()[0] {
			got += v.Call.Op + " "
		}
		if want := tc.want + " other "; got != want {
			t.Errorf("outer %s, inner %s: readings of %q, want %q", tc.outer, tc.inner, got, want)
		}
	}
}

// TestUnread: why it is not known which gradient an update read.
func TestUnread(t *testing.T) {
	for _, tc := range []struct {
		name    string
		from    Link
		writes  bool
		another bool // the call reads the gradient of another parameter
		want    string
	}{
		{"other ranks", Link{How: IsOutside, Role: "collective"}, true, false, "that a collective changed"},
		{"changed", Link{How: IsOutside}, true, false, "is not the sum of the gradients that the recorded calls gave"},
		{"not updated", Link{How: IsLeaf}, false, true, "no recorded call updates input.weight of norm/7"},
		{"not read", Link{How: IsLeaf}, true, true, "no recorded call behind the loss reads"},
	} {
		s := &Step{}
		norm := &Call{Entry: &capture.Entry{Name: capture.Name{ID: 7}}, Op: "norm"}
		reading := &Value{Call: norm, Target: "input.weight", Address: 64}
		add := &Call{Entry: &capture.Entry{}, Op: "torch.Tensor.add_", Step: s, Order: 1}
		weight := &Value{Call: add, Kind: inputKind, Target: "input[0]", Address: 64, Shape: []int{4}, item: -1}
		if tc.writes {
			weight.after = &fingerprint{}
		}
		v := &Value{Call: add, Kind: inputKind, Target: "input[1]", Address: 256, Shape: []int{4}, item: -1,
			From: tc.from}
		if add.Inputs = []*Value{weight, v}; tc.another {
			add.Inputs = add.Inputs[:1]
		}
		s.Tail = []*Call{add}
		err := newUpdater(s, map[uint64][]*Value{64: {reading}}, nil).unread(64)
		if !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "input.weight of norm/7") {
			t.Errorf("%s: %v, want %q in it", tc.name, err, tc.want)
		}
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
			newUpdater(now, nil, nil).checkState(v)
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
			if got := newUpdater(c.Step, nil, nil).isState(v, before); got != tc.want {
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
			newUpdater(s, map[uint64][]*Value{64: {reading}, 128: nil}, nil).releaseKept(p.updated())
			if v.kept != tc.want || (v.From.How == IsChanged) == tc.want {
				t.Errorf("kept: %v, %s, want %v", v.kept, v.From.How, tc.want)
			}
		})
	}
}

// TestGradientIsNoState: a gradient that lies where the step before had another result, and that the same call divides
// in place in both steps, is no state: its parameter has no other gradient.
func TestGradientIsNoState(t *testing.T) {
	call := func(s *Step, order int, from *Value) *Value {
		value := func(target string, at uint64) *Value {
			return &Value{Kind: inputKind, Target: target, DType: tensor.Float32, Shape: []int{4}, Address: at,
				after: &fingerprint{}}
		}
		weight, v := value("input[0]", 256), value("input[1]", 64)
		v.From.Value = from
		v.Call = &Call{Entry: &capture.Entry{}, Op: "torch._foreach_div_", Order: order, Step: s,
			Inputs: []*Value{weight, v}}
		weight.Call = v.Call
		s.Tail = append(s.Tail, v.Call)
		s.indexTail()
		return v
	}
	before, now := &Step{Number: 0}, &Step{Number: 1}
	call(before, 1, &Value{Kind: outputKind})
	v := call(now, 2, &Value{Kind: capture.GradInputs})
	u := newUpdater(now, map[uint64][]*Value{256: {v.Call.Inputs[0]}}, nil)
	if u.isState(v, before) {
		t.Error("the only gradient of a parameter is state")
	}
}
