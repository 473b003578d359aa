package causes

import "testing"

// TestFurther: further findings share what is left evenly, none has less than leastShare, and they end with the budget.
func TestFurther(t *testing.T) {
	var b Budget
	b.Spend(leastBudget)
	if a := b.Further(4, 0); a == nil || a.Most != furtherBudget/4 {
		t.Errorf("%+v, want a quarter of what is left", a)
	}
	n := 0
	for ; n < 1000; n++ {
		a := b.Further(1000-n, 0)
		if a == nil {
			break
		}
		if a.Most < leastShare {
			t.Fatalf("search %d has %g", n, a.Most)
		}
		b.Spend(a.Most)
	}
	if n != furtherBudget/leastShare {
		t.Errorf("%d searches, want %d", n, furtherBudget/leastShare)
	}
}
