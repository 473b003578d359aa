// Package fuzzcheck is what every fuzz target asks of a parser beyond that it
// does not panic: that it refuses input with one sentence, and that the memory
// and the time it takes are bounded by the size of the input. It also damages
// files for tests that read whole recordings.
package fuzzcheck

import (
	"os"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// Sentence reports an error that is not one sentence that a terminal can show:
// empty, with line breaks or other control characters, or with a full stop at
// its end.
func Sentence(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		if why := wrong(err.Error()); why != "" {
			t.Errorf("the error %s: %q", why, err)
		}
	}
}

func wrong(s string) string {
	switch {
	case strings.TrimSpace(s) != s || s == "":
		return "is empty or has space around it"
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "has control characters"
	case strings.HasSuffix(s, ".") && !strings.HasSuffix(s, "..."):
		return "ends in a full stop"
	}
	return ""
}

const (
	// fixed is the memory that any input may take: tables that are built once,
	// and what other goroutines of the test take meanwhile.
	fixed = 16 << 20
	// usual is the time that any input may take, on a busy machine.
	usual = 20 * time.Second
)

// patience is the time that any input may take: OPTOOL_PATIENCE, such as 5m, for long runs on a machine
// that does other work too.
func patience(t testing.TB) time.Duration {
	t.Helper()
	env := os.Getenv("OPTOOL_PATIENCE")
	if env == "" {
		return usual
	}
	d, err := time.ParseDuration(env)
	if err != nil {
		t.Fatalf("OPTOOL_PATIENCE: %v", err)
	}
	return d
}

// Bounded runs parse on an input of so many bytes and reports it if parse
// allocates more than perByte bytes for each of them, beyond a fixed amount, or
// does not come back in time.
func Bounded(t testing.TB, size, perByte int, parse func()) {
	t.Helper()
	before, start := allocated(), time.Now()
	parse()
	if took := time.Since(start); took > patience(t) {
		t.Errorf("%d bytes take %v", size, took)
	}
	if got, most := allocated()-before, uint64(fixed+size*perByte); got > most {
		t.Errorf("%d bytes take %d bytes of memory, want at most %d", size, got, most)
	}
}

// allocated is the memory that this process has taken so far, also what it has
// given back.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
