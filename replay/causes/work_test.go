package causes

import (
	"testing"
	"time"
)

// TestWork: a search ends after as much work on any machine, of a larger call later, and says so.
func TestWork(t *testing.T) {
	runs := func(run float64, tensors int, a *Allowance, one func(*Work)) (n int) {
		w := NewWork(run, 1000, tensors, a)
		for ; !w.Over(); n++ {
			one(w)
		}
		if w.End(); !a.Short {
			t.Error("a search that ended early does not say so")
		}
		return n
	}
	if n := runs(0, 1, &Allowance{}, (*Work).Glance); n < 8000 || n > 8200 {
		t.Errorf("%d looks at few elements, want about 8,100", n)
	}
	if n := runs(1<<40, 1, &Allowance{}, (*Work).Whole); n < wholeRuns || n > wholeRuns+1 {
		t.Errorf("%d runs of a large call, want %d", n, wholeRuns)
	}
	if n := runs(0, 1, &Allowance{Most: 100 * glanceWork}, (*Work).Glance); n < 90 || n > 100 {
		t.Errorf("%d looks in the work of 100", n)
	}
	if n := runs(0, 20_000, &Allowance{}, (*Work).Glance); n > 110 {
		t.Errorf("%d looks at few elements of a list of 20,000 tensors", n)
	}
	if n := runs(0, 1, &Allowance{Until: time.Now().Add(-time.Second)}, (*Work).Glance); n != 0 {
		t.Errorf("%d looks after the deadline", n)
	}
	(*Work)(nil).Whole() // is not limited
}

// TestBudget: the searches of a run take a tenth of what its comparisons take, however many findings there are.
func TestBudget(t *testing.T) {
	var b Budget
	b.Compared(1 << 40)
	total := 0.0
	for findings := 8; findings > 0; findings-- {
		a := b.Allow(findings)
		b.Spend(a.Most)
		total += a.Most
	}
	if want := 0.1 * (1 << 40); total < 0.99*want || total > 1.01*want {
		t.Errorf("all searches take %g, want %g", total, want)
	}
	if a := (&Budget{}).Allow(2); a.Most != leastBudget/2 {
		t.Errorf("a search of a short run takes %g", a.Most)
	}
}
