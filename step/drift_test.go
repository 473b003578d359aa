package step

import (
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestDominating: a call whose rounding moves the loss many times as much as that of any other is drift, unless it
// moves the loss by no more than its own rounding.
func TestDominating(t *testing.T) {
	call := func(effect float64) *Call {
		return &Call{Effect: effect, LocalError: 1e-7, Outputs: []*Value{{DType: tensor.Float32}}}
	}
	for _, tc := range []struct {
		exact   float64
		effects []float64
		want    string
	}{
		{1, []float64{1e-6, 2e-8}, "50 times as much as that of any other call"},
		{1, []float64{1e-6, 2e-7}, ""},
		{1, []float64{1e-7, 2e-9}, ""},    // it moves the loss by its own rounding
		{0.01, []float64{5e-8, 2e-9}, ""}, // terms of a divergence are larger than it
		{1, []float64{4e-6, 2e-6}, "amplifies it 40 times"},
	} {
		s := &Step{Loss: call(0), Exact: tc.exact, Captured: 1}
		for _, e := range tc.effects {
			s.Calls = append(s.Calls, call(e))
		}
		got := s.drift(nil)
		if (len(got) > 0) != (tc.want != "") || len(got) > 0 && !strings.Contains(got[0].Reason, tc.want) {
			t.Errorf("effects %v: got %v, want %q", tc.effects, got, tc.want)
		}
	}
}

// TestLossOf16Bits: a loss in 16 bits is a drift, since these cannot hold it.
func TestLossOf16Bits(t *testing.T) {
	loss := &Call{Effect: 0.0156, LocalError: 0.002, Outputs: []*Value{{DType: tensor.BFloat16}}}
	s := &Step{Loss: loss, Calls: []*Call{loss}, Exact: 3.6, Captured: 3.6}
	if got := s.drift(nil); len(got) != 1 {
		t.Errorf("got %d findings, want 1", len(got))
	}
}

// TestDifferentiated: a value whose gradient a later loss is computed from is no loss that drifts.
func TestDifferentiated(t *testing.T) {
	p := &Process{}
	s := &Step{Loss: &Call{Order: 1, Process: p, Effect: 1e-3, Outputs: []*Value{{DType: tensor.Float32}}}, Exact: 1,
		Captured: 1}
	content := fingerprint{sum: 7}
	s.Loss.Grads = []*Value{{DType: tensor.BFloat16, Shape: []int{8}, content: content}}
	s.Calls = []*Call{s.Loss}
	if len(s.drift(nil)) == 0 {
		t.Error("a loss that rounding moves by many times itself does not drift")
	}
	reader := &Call{Order: 2, GradOutputs: []*Value{{}}}
	reader.Inputs = []*Value{{DType: tensor.BFloat16, Shape: []int{8}, content: content, RequiresGrad: true}}
	p.Calls = []*Call{s.Loss, reader}
	if got := s.drift(p.lastReads()); len(got) > 0 {
		t.Errorf("drift %v of a value that is differentiated", got)
	}
}
