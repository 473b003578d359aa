package pairs

import (
	"context"
	"testing"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/reports"
)

// TestNameParameters: gradients that differ are named by the operator's argument and the parameter.
func TestNameParameters(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Corresponding(context.Background(), "../testdata/block", "../testdata/block-scaled")
	if err != nil {
		t.Fatal(err)
	}
	c := Comparer{Tolerances: tol, Registry: ops.Default(), Repro: func(Pair) string { return "" }}
	found := map[string]bool{}
	for p := range all {
		if p.Err != nil || p.B == nil {
			continue
		}
		rs, _ := c.Compare(p)
		for _, r := range rs {
			found[r.Op+" "+reports.GradientOf(r.Argument, r.Parameter)] = true
		}
	}
	for _, want := range []string{"torch.nn.functional.linear gradient of weight"} {
		if !found[want] {
			t.Errorf("%q is not among %v", want, found)
		}
	}
}
