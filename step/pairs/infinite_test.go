package pairs

import (
	"math"
	"slices"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// TestBehindMask: a tensor that holds infinities, such as scores behind a mask of -inf, is judged by its finite
// elements, as it is without them. An infinity on one side only, or with another sign, is a difference that no
// precision explains.
func TestBehindMask(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	inf := math.Inf(1)
	fine := []float64{1, -2.04, 3.05, 0.508}
	coarse := []float64{1, -2, 3, 0.5}
	for _, tc := range []struct {
		got, want []float64 // behind the others
		explained bool
	}{
		{nil, nil, true},
		{[]float64{-inf, inf, -inf, math.NaN()}, []float64{-inf, inf, -inf, math.NaN()}, true},
		{[]float64{-inf}, []float64{-1e4}, false},
		{[]float64{1}, []float64{-inf}, false},
		{[]float64{-inf}, []float64{inf}, false},
		{[]float64{math.NaN()}, []float64{1}, false},
		{[]float64{-inf, 3}, []float64{-inf, 5}, false}, // one element stands out
	} {
		g := slices.Concat(coarse, tc.got, coarse)
		w := slices.Concat(fine, tc.want, fine)
		c := Comparer{Tolerances: tol}.of(Pair{A: &capture.Entry{}, B: &capture.Entry{}})
		c.locate = func(*reports.Result) {}
		c.leaf("forward", "output[0]", "output", tensor.New(tensor.BFloat16, []int{len(g)}, g).Rounded(),
			tensor.New(tensor.Float32, []int{len(w)}, w).Rounded())
		r := c.results[0]
		d := c.apart[r]
		if r.Verdict != verdict.Fail || d == nil {
			t.Fatalf("%v and %v: %s, %+v", tc.got, tc.want, r.Verdict, d)
		}
		if tc.explained && (math.Abs(d.Relative-0.0168) > 1e-3 || math.Abs(d.Largest-0.0052) > 1e-3) {
			t.Errorf("%v and %v: %+v", tc.got, tc.want, d)
		}
		p := Precision{Fine: tensor.Float32, Coarse: tensor.BFloat16}
		p.Explain(Pair{A: &capture.Entry{}, B: &capture.Entry{}}, c.results, c.apart)
		if got := r.Verdict == verdict.Pass; got != tc.explained {
			t.Errorf("%v and %v: %s: %s", tc.got, tc.want, r.Verdict, r.Reason)
		}
	}
	one := tensor.New(tensor.Float32, []int{2}, []float64{-inf, math.NaN()}).Rounded()
	var d Difference
	if d.measure(one, one); d.Relative != 0 || d.Largest != 0 {
		t.Errorf("no finite element: %+v", d)
	}
}

// TestAlikeBehindMask: two calls are alike whose results hold the same infinities.
func TestAlikeBehindMask(t *testing.T) {
	call := func(values ...float64) *placed {
		return &placed{Entry: &capture.Entry{}, operator: "masked_fill", shapes: []string{"[3]"}, values: values}
	}
	inf := math.Inf(1)
	a := call(-inf, 1, 2)
	if !a.alike(call(-inf, 1, 2.01)) || a.alike(call(-inf, 2, -1)) || a.alike(call(0, 1, 2)) ||
		a.alike(call(inf, 1, 2)) {
		t.Error("calls with infinities in their results")
	}
}
