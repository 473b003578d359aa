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
