package devicebridge

import "testing"

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"cuda 12.1":            "cuda 12.1",
		"two\nlines\r\n":       "two lines",
		"red \x1b[31mtext\a":   "red \uFFFD[31mtext\uFFFD",
		"cut \xe4\xb8":         "cut \uFFFD\uFFFD",
		"昇腾 910\tB":            "昇腾 910 B",
		"\u009bcontrol as one": "\uFFFDcontrol as one",
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}
