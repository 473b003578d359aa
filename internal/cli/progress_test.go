package cli

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestProgressLine: how far a command is, by bytes where they are known.
func TestProgressLine(t *testing.T) {
	p := &progress{name: "replay", noun: "capture", started: time.Now().Add(-time.Minute)}
	if got, want := p.line(), "replay: 0 captures"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.expect(4, 0)
	p.add(false, 10)
	if got, want := p.line(), "replay: 1 of 4 captures, about 3m0s left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.expect(4, 20)
	p.add(true, 5)
	p.current = "torch.\x1bmm"
	want := `replay: 2 of 4 captures, 15 B of 20 B, 1 finding, about 20s left, at torch.\x1bmm`
	if got := p.line(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.add(false, 5)
	if got, want := p.line(), `replay: 3 of 4 captures, 20 B of 20 B, 1 finding, at torch.\x1bmm`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestProgressShown: the log of a build is told, a pipe is not.
func TestProgressShown(t *testing.T) {
	for _, tc := range []struct {
		ci    string
		quiet bool
		want  bool
	}{{"", false, false}, {"false", false, false}, {"true", false, true}, {"true", true, false}} {
		t.Setenv("CI", tc.ci)
		var b strings.Builder
		a := &app{Streams: Streams{Err: &b}, quiet: tc.quiet}
		p := a.newProgress("check", "capture")
		if p.shown() != tc.want {
			t.Errorf("CI=%q, quiet %t: shown %t, want %t", tc.ci, tc.quiet, p.shown(), tc.want)
		}
		p.add(false, 1)
		p.warn(a, errors.New("seen"))
		p.end()
		p.end()
		if got, want := b.String(), "optool: seen\n"; got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	}
}
