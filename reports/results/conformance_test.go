package results

import (
	"slices"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/diopi_conformance"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/diopi_conformance/kitcheck"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

func TestKnown(t *testing.T) {
	if Known(-1) != nil || *Known(0) != 0 {
		t.Error("Known(-1) is not nil, or Known(0) not 0")
	}
}

func TestPhase(t *testing.T) {
	for k, want := range map[capture.Kind][2]string{
		capture.Input: {"input", "input"}, capture.After: {"input", "input"}, capture.Output: {"forward", "output"},
		capture.GradInputs: {"backward", "grad"}, capture.GradOutputs: {"backward", "grad_output"},
	} {
		if phase, target := Phase(k); [2]string{phase, target} != want {
			t.Errorf("Phase(%s) = %s, %s, want %s", k, phase, target, want)
		}
	}
}

func TestConformance(t *testing.T) {
	c := &configs.Case{Name: "relu::relu_0.pth", Item: &value.Dict{}}
	f := Conformance{Source: "device", Repro: "again"}
	got := f.Of(c, []conformance.Result{
		{Result: kitcheck.Result{WorstIndex: 3, Actual: 1.0, Expected: 2.0, Numel: 9, Mismatched: 2,
			Want: tensor.New(tensor.Float32, []int{9}, make([]float64, 9)), Reason: "differs"},
			Phase: "forward", Verdict: verdict.Fail, Atol: 0.5, Converted: "input float64->float32"},
		{Result: kitcheck.Result{WorstIndex: -1}, Phase: "backward", Verdict: verdict.Pass, Converted: "x"},
	})
	if r := got[0]; r.Capture != c.Name || r.Verdict != verdict.Fail || *r.Rule != "kit" || *r.Numel != 9 ||
		*r.Mismatch != 2 || *r.ATol != 0.5 || !slices.Equal(r.Worst, []int{3}) || string(r.Expected) != "2" ||
		r.Reason != "differs; converted: input float64->float32" || *r.Source != "device" || *r.Repro != "again" {
		t.Errorf("failure: %+v", r)
	}
	if r := got[1]; r.Verdict != verdict.Pass || r.Reason != "" || r.Worst != nil || r.DType != nil {
		t.Errorf("pass without a result: %+v", r)
	}
	f.Strict = true
	if r := f.Of(c, []conformance.Result{{Result: kitcheck.Result{Want: tensor.Scalar(tensor.Int64, int64(1)),
		WorstIndex: -1}}})[0]; *r.Rule != "strict" || r.Shape == nil || r.Worst != nil {
		t.Errorf("strict: %+v", r)
	}
	if r := f.LeftOut(c, "why"); r.Verdict != verdict.Skipped || r.Reason != "why" || r.Phase != "forward" {
		t.Errorf("left out: %+v", r)
	}
}
