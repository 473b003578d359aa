package replay

import (
	"testing"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/replay/causes"
)

// TestMostly: of 100 wrong elements some may still be wrong under a mistake, fewer where a number was fitted to them.
func TestMostly(t *testing.T) {
	with := func(n int) Result { return Result{Compared: &compare.Result{Mismatched: n, MaxULP: 1}} }
	for _, tc := range []struct {
		like string
		left int
		want bool
	}{{"", 5, true}, {"", 6, false}, {"elements", 2, true}, {"elements", 3, false}} {
		if got := mostly(with(tc.left), with(100), causes.Mistake{Like: tc.like}.Few()); got != tc.want {
			t.Errorf("like %q, %d left of 100: %v, want %v", tc.like, tc.left, got, tc.want)
		}
	}
	signs := with(5)
	if signs.Compared.MaxULP = 0; mostly(signs, with(100), causes.Mistake{}.Few()) {
		t.Error("zeros of the other sign count as rounding")
	}
}
