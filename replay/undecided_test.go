package replay_test

import (
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestSpreadOfEqualElements: the mean of equal numbers may be rounded, so that their variance is not 0 but
// its square, and the gradient of their deviation a quotient of roundings.
func TestSpreadOfEqualElements(t *testing.T) {
	const n = 50
	equal := make([]float64, n)
	for i := range equal {
		equal[i] = tensor.Float32.Round(0.1)
	}
	x := func() value.Value { return needsGrad(stored(tensor.Float32, []int{n}, equal...)) }
	one := func(v float64) value.Value { return stored(tensor.Float32, nil, v) }
	grads := func(v float64) value.Value {
		all := make([]float64, n)
		for i := range all {
			all[i] = v
		}
		return stored(tensor.Float32, []int{n}, all...)
	}
	for _, tc := range []struct {
		name      string
		out, grad float64
		wrong     string // the target that fails
	}{
		{"torch.var", 2e-16, 1e-10, ""}, {"torch.var", 2e-10, 0, "output[0]"}, {"torch.var", 0, 1e-3, "grad[0]"},
		{"torch.std", 2e-8, 0.02, ""}, {"torch.std", 1e-3, 0, "output[0]"}, {"torch.std", 0, 0.3, "grad[0]"},
	} {
		made := map[capture.Kind]*capture.Record{
			capture.Input: {Args: []value.Value{x()}}, capture.Output: {Args: []value.Value{one(tc.out)}},
			capture.GradOutputs: {Args: []value.Value{one(1)}},
			capture.GradInputs:  {Args: []value.Value{grads(tc.grad)}},
		}
		for k, rec := range made {
			rec.Name, rec.Identifier, rec.Kwargs = tc.name, tc.name+"/"+k.String(), &value.Dict{}
		}
		results := replay.Of(capture.Made(made), options(t)).Compare().Results
		if len(results) != 2 {
			t.Errorf("%s: %d results", tc.name, len(results))
		}
		for _, res := range results {
			if failed := res.Verdict == verdict.Fail; failed != (res.Target == tc.wrong) {
				t.Errorf("%s of equal elements, %g and gradient %g: %s is %s: %s", tc.name, tc.out, tc.grad, res.Target,
					res.Verdict, res.Reason)
			}
		}
	}
}

// TestDrawnZeros: results of nothing but zeros prove little, whatever was drawn.
func TestDrawnZeros(t *testing.T) {
	for _, tc := range []struct {
		kept float64
		want verdict.Verdict
	}{{2, verdict.Pass}, {0, verdict.Mistrusted}} {
		const dropout = "torch.nn.functional.dropout"
		made := map[capture.Kind]*capture.Record{
			capture.Input:  {Args: []value.Value{stored(tensor.Float32, []int{4}, 1, 1, 1, 1)}},
			capture.Output: {Args: []value.Value{stored(tensor.Float32, []int{4}, 0, tc.kept, 0, 0)}},
		}
		for k, rec := range made {
			rec.Name, rec.Identifier, rec.Kwargs = dropout, dropout+"/"+k.String(), &value.Dict{}
		}
		results := replay.Of(capture.Made(made), options(t)).Compare().Results
		if len(results) != 1 || results[0].Verdict != tc.want {
			t.Errorf("kept elements of %g: %+v, want %s", tc.kept, results, tc.want)
		}
	}
}
