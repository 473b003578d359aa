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

// TestSignatures: functions one after the other are no expression if fewer of them give the same.
func TestSignatures(t *testing.T) {
	all := functions(single)
	texts := map[string]bool{}
	chained(all, "x", func(e expression) bool { texts[e.text()] = true; return true })
	for text, want := range map[string]bool{"exp(x) - 1": true, "log(exp(x))": false, "x + 1": true,
		"-(-(x) - 1)": false, "x + 0.5 + 0.5": false, "square(exp(log(x)))": true, "1 - (-(x))": false} {
		if texts[text] != want {
			t.Errorf("%q: %v, want %v", text, texts[text], want)
		}
	}
}
