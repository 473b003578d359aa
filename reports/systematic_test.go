package reports

import (
	"strings"
	"testing"

	"github.com/optool/optool/verdict"
)

// calls are passed results of an operator whose common factors are these, in eps of
// float32, each with a standard error of one eps.
func calls(factors ...float64) []*Result {
	dtype := "float32"
	out := make([]*Result, len(factors))
	for i, f := range factors {
		out[i] = &Result{Op: "torch.nn.functional.linear", Phase: "forward", Verdict: verdict.Pass, DType: &dtype,
			Errors: &Errors{Factor: Num(f * 0x1p-23), FactorError: Num(0x1p-23)}}
	}
	return out
}

func TestSystematic(t *testing.T) {
	many := func(n int, f ...float64) (all []float64) {
		for range n {
			all = append(all, f...)
		}
		return all
	}
	failed := calls(many(300, 2)...)
	for _, r := range failed {
		r.Verdict = verdict.Fail
	}
	for _, tc := range []struct {
		name  string
		calls []*Result
		want  bool
	}{
		{"small and the same in 300 calls", calls(many(150, 1.5, 2.5)...), true},
		{"one of them", calls(2), false},
		{"too few to tell", calls(many(12, 2)...), false},
		{"to both sides", calls(many(150, 2, -2)...), false},
		{"as sound kernels are", calls(many(300, 0.2)...), false},
		{"failed by themselves", failed, false},
	} {
		s := NewSummary()
		for _, r := range tc.calls {
			s.Add(r)
		}
		found := s.Systematic()
		if (len(found) > 0) != tc.want {
			t.Errorf("%s: found %v, want %t", tc.name, found, tc.want)
		}
		if tc.want && !strings.Contains(strings.Join(s.notes(), "\n"), "300 float32 results pass one by one, but all "+
			"together are scaled by 1.00000024") {
			t.Errorf("%s: notes are %q", tc.name, s.notes())
		}
	}
}
