package pairs

import (
	"context"
	"path"
	"strings"
	"testing"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// TestUndetermined: what stands in memory that nothing wrote is no difference, also where it was filled in part and
// moved, until a call computes with it. Different random numbers are told apart from what has a cause of its own.
func TestUndetermined(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	reg := ops.Default()
	c := Comparer{Tolerances: tol, Repro: func(Pair) string { return "" }, Registry: reg}
	random := "torch.Tensor.random_.2 output[0] different random numbers: the generators had other states"
	for _, tc := range []struct {
		a, b string
		want []string
	}{
		{"unwritten", "unwritten-other", nil},
		{"unwritten", "unwritten-seeds", []string{random}},
		{"unwritten", "unwritten-eps", []string{"torch.nn.functional.layer_norm.7 input.eps this argument differs: " +
			"1e-05 against 0.01", random}},
		{"unwritten-computes", "unwritten-computes-other", []string{"torch.Tensor.mul.9 output[0] the call reads memory " +
			"that nothing wrote (input[0]), and no other argument differs: 24 of 32 elements"}},
	} {
		all, err := Corresponding(context.Background(), "../testdata/"+tc.a, "../testdata/"+tc.b)
		if err != nil {
			t.Fatal(err)
		}
		d, u := Divergence{}, Undetermined{Registry: reg}
		failed := false
		for pair := range all {
			rs, apart := c.Compare(pair)
			u.Look(pair, rs, apart)
			d.Add(pair, rs, apart)
			failed = failed || fails(rs)
		}
		var got []string
		for _, f := range d.Findings() {
			got = append(got, path.Base(f.Capture)+" "+f.Target+" "+f.Reason)
		}
		same := len(got) == len(tc.want) && failed == (len(got) > 0)
		for i := 0; same && i < len(got); i++ {
			same = strings.HasPrefix(got[i], tc.want[i])
		}
		if !same {
			t.Errorf("%s and %s part at %q, want %q; a value fails: %t", tc.a, tc.b, got, tc.want, failed)
		}
	}
}

// TestGivenExplains: an argument that differs by more than rounding in some elements explains a result that differs no
// more, though both are within the rounding of the dtype as a whole.
func TestGivenExplains(t *testing.T) {
	far := func(relative float64) *Difference {
		both := [2]tensor.DType{tensor.BFloat16, tensor.BFloat16}
		return &Difference{DTypes: both, Relative: relative, Largest: relative}
	}
	for given, want := range map[verdict.Verdict]bool{verdict.Fail: false, verdict.Pass: true} {
		in := &reports.Result{Phase: "input", Target: "input[0]", Verdict: given, DType: new(string)}
		out := &reports.Result{Phase: "forward", Target: "output[0]", Verdict: verdict.Fail, DType: new(string)}
		rs := []*reports.Result{in, out}
		c := &compared{results: rs, given: 1, unit: tensor.BFloat16.Eps() / 2,
			apart: map[*reports.Result]*Difference{in: far(0.0030), out: far(0.0032)}}
		if c.look(nil); (c.result != nil) != want {
			t.Errorf("an input that is %s: the call is blamed: %t, want %t", given, c.result != nil, want)
		}
	}
}
