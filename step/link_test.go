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
