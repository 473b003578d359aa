package cli

import (
	"testing"
	"time"
)

// TestBudget checks the order of a budget, and that what comes first leaves time
// for all of its kind.
func TestBudget(t *testing.T) {
	tasks := []*task{
		{op: "add", dtype: "float32", bytes: 1}, {op: "add", dtype: "float32", bytes: 5},
		{op: "mul", dtype: "float32", bytes: 9},
		{op: "add", dtype: "float16", bytes: 2}, {op: "mul", dtype: "float32", bytes: 8},
	}
	b, sorted := newBudget(time.Now().Add(time.Hour), tasks, 0)
	want := []float64{9, 5, 2, 8, 1}
	for i, k := range sorted {
		if k.bytes != want[i] {
			t.Errorf("%d: %s %s of %v bytes, want %v", i, k.op, k.dtype, k.bytes, want[i])
		}
	}
	for i, most := range []time.Duration{20 * time.Minute, 30 * time.Minute, time.Hour, time.Hour} {
		if d, ok := b.allow(i); !ok || d > most || d < most-time.Minute {
			t.Errorf("visit %d may take %v, %v; want about %v", i, d, ok, most)
		}
	}
	if b, _ := newBudget(time.Now().Add(time.Hour), tasks, 2); b.equals != 10 {
		t.Errorf("%d equal visits of 5 tasks in 2 rounds, want 10", b.equals)
	}
	if b, _ := newBudget(time.Now(), tasks, 0); b != nil {
		if _, ok := b.allow(0); ok {
			t.Error("a spent budget allows a visit")
		}
	}
	if d, ok := (*budget)(nil).allow(3); d != 0 || !ok {
		t.Errorf("no budget: %v, %v", d, ok)
	}
}
