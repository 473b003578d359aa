package devicebridge

import (
	"os"
	"strings"
	"testing"

	"github.com/optool/optool/devicebridge/diopi"
)

// TestForms: every form but those without an argument has an encoder, and all have a
// case in the worker's decoder.
func TestForms(t *testing.T) {
	decoder, err := os.ReadFile("native/worker/decode.cc")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range diopi.Forms() {
		if name == "" {
			t.Errorf("form %d has no name", i)
		}
		switch form := diopi.Form(i); form {
		case diopi.FormNull, diopi.FormContext, diopi.FormAlloc: // nil, no argument, FormTensor's encoder
		default:
			if encoders[form] == nil {
				t.Errorf("form %s has no encoder", name)
			}
		}
		if !strings.Contains(string(decoder), "case Form::"+name+":") {
			t.Errorf("native/worker/decode.cc has no case for form %s", name)
		}
	}
}

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
