package causes

import (
	"testing"
	"time"
)

// TestWork: a search ends after as much work on any machine, of a larger call later; a deadline that is over ends it.
func TestWork(t *testing.T) {
	runs := func(flops float64, until time.Time, one func(*Work)) (n int) {
		for w := NewWork(flops, 1000, until); !w.Over(); n++ {
			one(w)
		}
		return n
	}
	later := time.Now().Add(time.Hour)
	if n := runs(0, later, (*Work).Glance); n < 2000 || n > 3000 {
		t.Errorf("%d looks at few elements, want about 2,048", n)
	}
	if n := runs(1<<40, later, (*Work).Whole); n < wholeRuns || n > wholeRuns+1 {
		t.Errorf("%d runs of a large call, want %d", n, wholeRuns)
	}
	if n := runs(0, time.Now().Add(-time.Second), (*Work).Glance); n != 0 {
		t.Errorf("%d looks after the deadline", n)
	}
	(*Work)(nil).Whole() // is not limited
}
