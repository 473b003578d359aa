package causes

import "testing"

// TestOtherArgument: another number that leaves roundings is told with another argument that explains nearly as much,
// not with another number of its own.
func TestOtherArgument(t *testing.T) {
	cause := func(of string, bits float64, exact bool) *Cause {
		return &Cause{Targets: []string{"output[0]"}, Share: 1, Bits: bits, Exact: exact,
			mistake: &Mistake{Of: of, Argument: true}}
	}
	for _, c := range []struct {
		name   string
		k, r   *Cause
		asGood bool
	}{
		{"another argument", cause("eps", 485, false), cause("lr", 430, false), true},
		{"another argument that explains far less", cause("eps", 485, false), cause("lr", 300, false), false},
		{"an exact number", cause("eps", 485, true), cause("lr", 430, true), false},
		{"the same argument", cause("eps", 485, false), cause("eps", 430, false), false},
		{"no argument", cause("eps", 485, false), cause("", 430, false), false},
	} {
		if is := c.k.asGood(c.r); is != c.asGood {
			t.Errorf("%s: %v", c.name, is)
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
