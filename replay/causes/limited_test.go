package causes

import (
	"math"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestLimitedWithGradient: where results are limited no gradient flows back, and it does elsewhere.
func TestLimitedWithGradient(t *testing.T) {
	c, outs := searched(t, "torch.tanh", rows(3, 9, 20))
	end := ending{"results are limited to 0.5 from above", func(x float64) float64 { return min(x, 0.5) }}
	if m := c.endingWithGradient(end, []Wrong{{Target: "output[0]"}}); m.Make != nil {
		t.Error("it is tried though no gradient fails")
	}
	m := c.endingWithGradient(end, []Wrong{{Target: "output[0]"}, {Target: "grad[0]"}})
	if !m.OnlyHere {
		t.Error("it is compared with other mistakes on other operands, of which it has no results")
	}
	way, err := m.Make()
	if err != nil {
		t.Fatal(err)
	}
	incoming := tensor.Full(tensor.Float32, []int{9, 20}, 3.0)
	got, result := elements(way.Alter(Incoming, incoming)), elements(way.Alter("output[0]", outs[0]))
	limited := 0
	for i, y := range elements(outs[0]) {
		want := 3.0
		if y > 0.5 {
			want = 0
			limited++
		}
		if got[i] != want || result[i] != math.Min(y, 0.5) {
			t.Fatalf("element %d of %v: gradient %v, result %v", i, y, got[i], result[i])
		}
	}
	if limited == 0 || limited == 180 {
		t.Errorf("%d are limited", limited)
	}
}

// TestOneNumberDue: one number where another one is due is a factor, also of a number that its dtype does not have.
func TestOneNumberDue(t *testing.T) {
	due, got := tensor.Full(tensor.Float64, []int{33}, 1.0/693), tensor.Full(tensor.Float32, []int{33}, 0.9/693)
	if text := unwritten(got.Rounded(), due); text != "" {
		t.Errorf("says %q", text)
	}
	v := elements(due)
	v[7] = 0.5
	if text := unwritten(got.Rounded(), tensor.New(tensor.Float64, []int{33}, v)); text == "" {
		t.Error("says nothing where another number is due")
	}
}
