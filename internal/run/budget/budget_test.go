package budget_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/internal/run/budget"
)

// all takes what is left of an agenda; after is called with each call taken.
func all(calls []budget.Call, a *budget.Agenda, after func(budget.Call)) []string {
	var names []string
	for i, ok := a.Next(); ok; i, ok = a.Next() {
		names = append(names, calls[i].Name)
		after(calls[i])
	}
	return names
}

func TestOrder(t *testing.T) {
	calls := []budget.Call{
		{Name: "mm0", Op: "mm", Kind: "mm large", Cost: 90},
		{Name: "add0", Op: "add", Kind: "add", Cost: 2},
		{Name: "mm1", Op: "mm", Kind: "mm large", Cost: 90},
		{Name: "relu0", Op: "relu", Kind: "relu", Cost: 1},
		{Name: "add1", Op: "add", Kind: "add", Cost: 2},
		{Name: "add2", Op: "add", Kind: "add", Cost: 2},
		{Name: "mm2", Op: "mm", Kind: "mm small", Cost: 3},
	}
	got := all(calls, budget.New(calls), func(budget.Call) {})
	if want := []string{"relu0", "add0", "mm2", "mm0", "mm1"}; !slices.Equal(got[:5], want) {
		t.Errorf("got %v, want %v first: of each kind the first call, then the dearest", got, want)
	}
	if rest := slices.Sorted(slices.Values(got[5:])); !slices.Equal(rest, []string{"add1", "add2"}) {
		t.Errorf("got %v: each call should be taken once", got)
	}
	calls[3].Done, calls[0].Done = true, true
	got = all(calls, budget.New(calls), func(budget.Call) {})
	if want := []string{"add0", "mm2", "mm1"}; !slices.Equal(got[:3], want) || len(got) != 5 {
		t.Errorf("after relu0 and mm0 were done: got %v, want %v first", got, want)
	}
}

// TestFailed: of an operator that failed a few more calls come before all else.
func TestFailed(t *testing.T) {
	var calls []budget.Call
	for i := range 40 {
		op := []string{"good", "bad"}[i%2]
		calls = append(calls, budget.Call{Name: op + string(rune('a'+i)), Op: op, Kind: op, Cost: 1})
	}
	a := budget.New(calls)
	got := all(calls, a, func(c budget.Call) {
		if c.Op == "bad" {
			a.Failed(c.Op)
		}
	})
	n := 0
	for _, name := range got[2:] {
		if !strings.HasPrefix(name, "bad") {
			break
		}
		n++
	}
	if n < 8 || len(got) != len(calls) {
		t.Errorf("got %d calls of the operator at once, %d in all, want 8 and %d: %v", n, len(got), len(calls), got)
	}
}

func TestExcluded(t *testing.T) {
	for _, x := range []struct {
		n, failed int
		want      float64
	}{
		{0, 0, 1}, {1, 0, 0.95}, {1, 1, 1}, {59, 0, 0.0495}, {300, 0, 0.00994},
		{10, 1, 0.3942}, {100, 5, 0.1022}, // tables of the binomial distribution
	} {
		if got := budget.Excluded(x.n, x.failed); math.Abs(got-x.want) > 1e-4*math.Max(1, x.want) {
			t.Errorf("%d of %d failed: got %.5f, want %.5f", x.failed, x.n, got, x.want)
		}
	}
}
