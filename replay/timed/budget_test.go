package timed

import (
	"testing"
	"time"
)

// TestBudget checks the order of a budget, and that what comes first leaves time
// for all of its kind.
func TestBudget(t *testing.T) {
	tasks := []*Task{
		{Op: "add", DType: "float32", Bytes: 1}, {Op: "add", DType: "float32", Bytes: 5},
		{Op: "mul", DType: "float32", Bytes: 9},
		{Op: "add", DType: "float16", Bytes: 2}, {Op: "mul", DType: "float32", Bytes: 8},
	}
	b, sorted := NewBudget(time.Now().Add(time.Hour), tasks, 0)
	want := []float64{9, 5, 2, 8, 1}
	for i, k := range sorted {
		if k.Bytes != want[i] {
			t.Errorf("%d: %s %s of %v bytes, want %v", i, k.Op, k.DType, k.Bytes, want[i])
		}
	}
	for i, most := range []time.Duration{20 * time.Minute, 30 * time.Minute, time.Hour, time.Hour} {
		if d, ok := b.allow(i); !ok || d > most || d < most-time.Minute {
			t.Errorf("visit %d may take %v, %v; want about %v", i, d, ok, most)
		}
	}
	if b, _ := NewBudget(time.Now().Add(time.Hour), tasks, 2); b.equals != 10 {
		t.Errorf("%d equal visits of 5 tasks in 2 rounds, want 10", b.equals)
	}
	if b, _ := NewBudget(time.Now(), tasks, 0); b != nil {
		if _, ok := b.allow(0); ok {
			t.Error("a spent budget allows a visit")
		}
	}
	if d, ok := (*Budget)(nil).allow(3); d != 0 || !ok {
		t.Errorf("no budget: %v, %v", d, ok)
	}
}
