package explanation_test

import (
	"strings"
	"testing"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/explanation"
)

// TestUnexplained: a wrong value without a cause says so, one with a cause does not.
func TestUnexplained(t *testing.T) {
	const none = "cause: none of the mistakes"
	for _, c := range []struct {
		causes []reports.Cause
		want   bool
	}{
		{nil, true},
		{[]reports.Cause{{Text: "each row has a factor of its own", Pattern: true}}, true},
		{[]reports.Cause{{Text: "eps is left out"}}, false},
	} {
		var b strings.Builder
		x := &explanation.Explanation{Result: &reports.Result{}, Unexplained: true, Causes: c.causes}
		if err := x.Write(&b, reports.Style{Width: 100}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), none) != c.want {
			t.Errorf("with the causes %v:\n%s", c.causes, b.String())
		}
	}
}

// TestSettled: a table in which each element is within what is allowed says why the value fails all the same.
func TestSettled(t *testing.T) {
	dtype, reference := "bfloat16", "float64"
	for _, settled := range []bool{true, false} {
		x := &explanation.Explanation{Result: &reports.Result{DType: &dtype, Reference: &reference}, Settled: settled}
		says := strings.Contains(x.Judgement(reports.Style{}), "No element is off by more than a result computed in bfloat16")
		if says != settled {
			t.Errorf("settled %v: %s", settled, x.Judgement(reports.Style{}))
		}
	}
}
