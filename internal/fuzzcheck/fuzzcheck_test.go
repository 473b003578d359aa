package fuzzcheck

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A recorder notes what a check reports.
type recorder struct {
	testing.TB
	said string
}

func (*recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.said += fmt.Sprintf(format, args...) }

func TestSentence(t *testing.T) {
	for text, want := range map[string]string{
		"a.pth: offset 12: opcode 0x8c is cut off": "", "want one of a, b, ...": "",
		"": "is empty", " space": "is empty", "two\nlines": "control", "\x1b[31mred": "control", "caf\xe9": "UTF-8",
		"Failed.": "full stop",
	} {
		r := &recorder{}
		Sentence(r, errors.New(text))
		if want == "" && r.said != "" || !strings.Contains(r.said, want) {
			t.Errorf("%q: said %q, want %q", text, r.said, want)
		}
	}
	Sentence(t, nil)
}

var kept []byte

func TestBounded(t *testing.T) {
	for _, tc := range []struct {
		takes int
		want  string
	}{{1 << 10, ""}, {fixed + 10<<20, ""}, {fixed + 400<<20, "1048576 bytes take"}} {
		r := &recorder{}
		Bounded(r, 1<<20, 100, func() { kept = make([]byte, tc.takes) })
		if tc.want == "" && r.said != "" || !strings.Contains(r.said, tc.want) {
			t.Errorf("%d bytes: said %q, want %q", tc.takes, r.said, tc.want)
		}
	}
	kept = nil
}
