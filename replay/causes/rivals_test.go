package causes

import "testing"

// TestNumberByChance: where roundings are left, another number of an argument, which may fit them by chance, goes
// behind a mistake that explains nearly as much; of two numbers the one that explains more is told.
func TestNumberByChance(t *testing.T) {
	cause := func(bits float64, number, exact bool) Cause {
		return Cause{Targets: []string{"output[0]"}, Share: 1, Bits: bits, Number: number, Exact: exact}
	}
	for _, c := range []struct {
		name          string
		first, second Cause
	}{
		{"a number by chance", cause(430, false, false), cause(485, true, false)},
		{"a number that explains far more", cause(485, true, false), cause(300, false, false)},
		{"an exact number", cause(485, true, true), cause(430, false, true)},
		{"two numbers", cause(485, true, false), cause(430, true, false)},
	} {
		if c.first.compare(c.second) >= 0 || c.second.compare(c.first) <= 0 {
			t.Errorf("%s: the order is %d", c.name, c.first.compare(c.second))
		}
	}
}

// TestApartOften: a few elements in the middle between two numbers are no difference, some that are rounded to other
// numbers are.
func TestApartOften(t *testing.T) {
	x, y := make([]float64, 100), make([]float64, 100)
	for i := range x {
		x[i] = 1 + float64(i)/128
		y[i] = x[i]
	}
	y[3] += 1.0 / 128
	if apartOften(x, y) {
		t.Error("one of 100 elements is a difference")
	}
	for i := range 5 {
		y[10*i] += 1.0 / 512
	}
	if !apartOften(x, y) || apartAnywhere(x[10:], y[10:]) {
		t.Error("five of 100 elements are none, or far apart")
	}
}
