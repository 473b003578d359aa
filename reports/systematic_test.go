package reports

import (
	"fmt"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
)

// calls are passed results of an operator with these errors.
func calls(dtype string, n int, errors ...Errors) []*Result {
	var out []*Result
	for range n {
		for _, e := range errors {
			out = append(out, &Result{Op: "torch.nn.functional.linear", Phase: "forward", Verdict: verdict.Pass,
				DType: &dtype, Errors: &e})
		}
	}
	return out
}

func TestSystematic(t *testing.T) {
	const eps, low = 0x1p-23, 0x1p-7 // of float32 and bfloat16
	factor := func(f float64) Errors { return Errors{Factor: Num(f * eps), FactorError: Num(eps)} }
	offset := func(f float64) Errors { return Errors{Offset: Num(f), OffsetError: Num(low)} }
	rounding := func(away, up float64, beyond int) Errors {
		return Errors{Inexact: 100, Beyond: beyond, Away: Num(away), Up: Num(up), ULPError: Num(0.1)}
	}
	failed := calls("float32", 300, factor(2))
	for _, r := range failed {
		r.Verdict = verdict.Fail
	}
	for _, tc := range []struct {
		name  string
		calls []*Result
		want  verdict.Verdict
		says  string
	}{
		{"small and the same in 300 calls", calls("float32", 150, factor(1.5), factor(2.5)), verdict.Fail,
			"fail: torch.nn.functional.linear: 300 float32 results pass one by one, but all together they are " +
				"scaled by 1.00000024"},
		{"one of them", calls("float32", 1, factor(2)), verdict.Pass, ""},
		{"too few to tell", calls("float32", 12, factor(2)), verdict.Pass, ""},
		{"to both sides", calls("float32", 150, factor(2), factor(-2)), verdict.Pass, ""},
		{"as sound kernels are", calls("float32", 300, factor(0.2)), verdict.Pass, ""},
		{"of sums that cancel", calls("float32", 300, Errors{Factor: Num(-0.2), FactorError: Num(0.1)}), verdict.Pass, ""},
		{"beside sums that cancel", calls("float32", 150, factor(2), Errors{Factor: Num(-0.2), FactorError: Num(0.1)}),
			verdict.Fail, "scaled by 1.00000024"},
		{"failed by themselves", failed, verdict.Pass, ""},
		{"shifted", calls("bfloat16", 300, offset(0.6*low)), verdict.Fail,
			"300 bfloat16 results pass one by one, but all together they are shifted by 0.00469 of their root mean " +
				"square"},
		{"shifted to both sides", calls("bfloat16", 150, offset(0.4*low), offset(-0.4*low)), verdict.Pass, ""},
		{"shifted as sound kernels are", calls("bfloat16", 300, offset(0.2*low)), verdict.Pass, ""},
		{"toward zero", calls("bfloat16", 100, rounding(-0.5, 0, 0)), verdict.Warn,
			"warn: torch.nn.functional.linear: 100 bfloat16 results pass one by one, but all together they are off " +
				"to one side: inexact elements are 0.50 ulp toward zero from the nearest value"},
		{"up", calls("float32", 100, rounding(0, 0.5, 2)), verdict.Warn, "0.50 ulp up from"},
		{"to either side", calls("bfloat16", 100, rounding(-0.5, 0, 0), rounding(0.5, 0, 0)), verdict.Pass, ""},
		{"off by other errors too", calls("bfloat16", 100, rounding(-0.5, 0, 30)), verdict.Pass, ""},
		{"a dtype without limits", calls("float64", 300, factor(2)), verdict.Pass, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := NewSummary()
			s.FailOn = []verdict.Verdict{verdict.Warn}
			for _, r := range tc.calls {
				s.Add(r)
			}
			got := verdict.Pass
			if found := s.Systematic(); len(found) > 0 {
				got = found[0].Verdict
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if said := strings.Join(s.notes(), "\n"); !strings.Contains(said, tc.says) || (said == "") != (tc.says == "") {
				t.Errorf("notes are %q, want %q", said, tc.says)
			}
			ownFailures := s.Results[verdict.Fail] > 0
			if s.Differs() != (tc.want == verdict.Fail || ownFailures) || s.Unwanted() != (tc.want == verdict.Warn) {
				t.Errorf("differs %t, unwanted %t", s.Differs(), s.Unwanted())
			}
		})
	}
}

// TestCommonLimitsOfDTypes: calls of an operator are taken together in each floating dtype but float8, whose
// roundings hide what they have in common, and float64, in which the reference itself is computed.
func TestCommonLimitsOfDTypes(t *testing.T) {
	for dt := range tensor.DTypes() {
		if !dt.IsFloat() || dt.IsFloat8() || dt == tensor.Float64 {
			continue
		}
		want := dt.Eps()
		if dt.IsHalf() {
			want /= 4
		}
		if got := commonLimits[dt.String()]; got != want {
			t.Errorf("commonLimits (systematic.go) has %g for %s, want %g", got, dt, want)
		}
	}
}

// TestSystematicInReports: what the calls of an operator say only together is among the first lines of reports.
func TestSystematicInReports(t *testing.T) {
	s := NewSummary()
	for i := range 100 {
		n, dt, ulp := 100, "bfloat16", 0.01
		s.Add(&Result{Capture: fmt.Sprint(i), Op: "torch.mul", Phase: "forward", Verdict: verdict.Pass, DType: &dt,
			Numel: &n, Errors: &Errors{Inexact: n, Away: Num(-0.4), Up: Num(0), ULPError: Num(ulp)}})
	}
	rec := &Recording{Summary: s, Results: &Results{}}
	for _, f := range rec.Top() {
		if f.Name == "warning" && strings.Contains(f.Text, "0.40 ulp toward zero") {
			return
		}
	}
	t.Errorf("no warning in %q", rec.Top())
}
