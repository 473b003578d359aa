package causes

import "testing"

// TestPaired: terms that bind less have brackets.
func TestPaired(t *testing.T) {
	for _, tc := range [][4]string{
		{"%s / %s", "self", "self + 1", "self / (self + 1)"},
		{"%s * %s", "sqrt(self + 1)", "other", "sqrt(self + 1) * other"},
		{"%s - %s", "self", "1 - (self)", "self - (1 - (self))"},
		{"max(%s, %s)", "self", "self + 1", "max(self, self + 1)"},
		{"%s + %s", "self", "other + 1", "self + other + 1"},
	} {
		if got := paired(tc[0], tc[1], tc[2]); got != tc[3] {
			t.Errorf("%s, want %s", got, tc[3])
		}
	}
}
