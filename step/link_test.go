package step

import (
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
)

// TestLeftByInner: what a call left in its argument is what a call wrote there that it made, also where the reference
// of the outer one differs by rounding.
func TestLeftByInner(t *testing.T) {
	holds := func(sum uint64) fingerprint {
		return fingerprint{sum: sum, block: sum, samples: []uint64{1, 2, 3, sum}}
	}
	value := func(c *Call, kind capture.Kind, sum uint64) *Value {
		return &Value{Call: c, Kind: kind, Target: "input[0]", DType: tensor.Float32, Shape: []int{4}, Stride: []int{1},
			Address: 64, content: holds(sum)}
	}
	call := func(order int, outer *Call) *Call {
		return &Call{Order: order, Verdict: verdict.Pass, Entry: &capture.Entry{}, outer: outer, writes: order < 2}
	}
	outer := call(0, nil)
	inner, reader := call(1, outer), call(2, nil)
	computed := holds(8) // beside 7, which the inner call gave
	left := value(outer, inputKind, 5)
	left.after = &computed
	outer.Inputs = []*Value{left}
	inner.Inputs = []*Value{value(inner, inputKind, 5)}
	inner.Outputs = []*Value{value(inner, outputKind, 7)}
	for sum, changed := range map[uint64]bool{7: false, 9: true} {
		v := value(reader, inputKind, sum)
		reader.Inputs = []*Value{v}
		p := &Process{Calls: []*Call{outer, inner, reader}}
		p.link()
		if (v.latest != nil) != changed {
			t.Errorf("%d: it lies where another value does: %t, want %t", sum, v.latest != nil, changed)
		}
	}
}

// TestResultAtItsAddress: a value is the result that has its elements and lies where it does, and not a transposed view
// of it, also where an inner call that goes on behind its return is the one that wrote there last.
func TestResultAtItsAddress(t *testing.T) {
	value := func(c *Call, kind capture.Kind, sum uint64) *Value {
		return &Value{Call: c, Kind: kind, Target: "input[0]", DType: tensor.Float32, Shape: []int{4, 4},
			Stride: []int{4, 1}, Address: 64, content: fingerprint{sum: sum, block: 7, samples: []uint64{1, 2, 3, sum}}}
	}
	outer := &Call{Order: 0, Entry: &capture.Entry{}}
	inner := &Call{Order: 1, Op: "torch.distributed.irecv", Entry: &capture.Entry{}, outer: outer}
	transposed := &Call{Order: 2, Verdict: verdict.Pass, Entry: &capture.Entry{}}
	reader := &Call{Order: 3, Verdict: verdict.Pass, Entry: &capture.Entry{}}
	received := value(inner, inputKind, 5)
	notYet := fingerprint{sum: 5, block: 5}
	received.after = &notYet
	inner.Inputs = []*Value{received}
	outer.Outputs = []*Value{value(outer, outputKind, 8)}
	transposed.Inputs = []*Value{value(transposed, inputKind, 8)}
	transposed.Outputs = []*Value{value(transposed, outputKind, 9)}
	transposed.Outputs[0].Stride = []int{1, 4}
	v := value(reader, inputKind, 8)
	reader.Inputs = []*Value{v}
	p := &Process{Calls: []*Call{outer, inner, transposed, reader}}
	p.link()
	if w := v.From.Value; w == nil || w.Call != outer {
		t.Errorf("it comes from %v, want the result of the outer call", w)
	}
}
