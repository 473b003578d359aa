package cli

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// TestOrdered checks that results come in the order of the items although they
// are finished in another.
func TestOrdered(t *testing.T) {
	items := make([]int, 200)
	for i := range items {
		items[i] = i
	}
	var got []int
	err := ordered(context.Background(), 4, slices.Values(items),
		func(i int) int {
			if i%4 == 0 {
				time.Sleep(time.Millisecond)
			}
			return i * i
		},
		func(r int) error { got = append(got, r); return nil })
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range got {
		if r != i*i {
			t.Fatalf("result %d is %d, want %d", i, r, i*i)
		}
	}
	if len(got) != len(items) {
		t.Errorf("%d results, want %d", len(got), len(items))
	}
}

// endless yields numbers without end.
func endless(yield func(int) bool) {
	for i := 0; yield(i); i++ {
	}
}

func TestOrderedStops(t *testing.T) {
	same := func(i int) int { return i }

	boom := errors.New("boom")
	emitted := 0
	err := ordered(context.Background(), 2, endless, same, func(int) error {
		if emitted++; emitted == 5 {
			return boom
		}
		return nil
	})
	if err != boom || emitted != 5 {
		t.Errorf("error of emit: got %v after %d results, want boom after 5", err, emitted)
	}

	ctx, cancel := context.WithCancel(context.Background())
	var started atomic.Int64
	emitted = 0
	err = ordered(ctx, 2, endless, func(i int) int { started.Add(1); return i }, func(int) error {
		if emitted++; emitted == 5 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
	if int64(emitted) != started.Load() {
		t.Errorf("cancelled: %d results of %d calls that were started", emitted, started.Load())
	}

	defer func() {
		if r := recover(); r != "broken" {
			t.Errorf("panic of work: recovered %v, want broken", r)
		}
	}()
	_ = ordered(context.Background(), 2, endless, func(i int) int { panic("broken") }, func(int) error { return nil })
}

// TestQuote: what does not print reaches neither the terminal nor is lost.
func TestQuote(t *testing.T) {
	for s, want := range map[string]string{
		"a/b-1":        "a/b-1",
		"":             "''",
		"a b":          "'a b'",
		"it's":         `'it'\''s'`,
		"字":            "'字'",
		"x \x1b[31m\n": `$'x \033[31m\012'`,
		"'\\\n\xff":    `$'\'\\\012\377'`,
	} {
		if got := quote(s); got != want {
			t.Errorf("quote(%q) = %s, want %s", s, got, want)
		}
	}
}

// TestVariables: a command to repeat has the variables that decide what it finds,
// and no others.
func TestVariables(t *testing.T) {
	got := variables([]string{"PATH=/bin", "OP_FALLBACK_LIST=", "OP_AUTOCOMPARE_LIST=torch.add", "OP_CAPTURE_LIST=a",
		"OP_FALLBACK_DISABLE_LIST=a b", "ADD_AUTOCOMPARE_ERROR_TOLERANCE_FLOAT16=1,0", "a-b_OP_DTYPE_CAST_DICT=x",
		"AUTOCOMPARE_ERROR_TOLERANCE=1,0"}, "AUTOCOMPARE")
	want := []string{"ADD_AUTOCOMPARE_ERROR_TOLERANCE_FLOAT16=1,0", "AUTOCOMPARE_ERROR_TOLERANCE=1,0",
		"OP_AUTOCOMPARE_LIST=torch.add", "OP_FALLBACK_DISABLE_LIST='a b'"}
	if !slices.Equal(got, want) {
		t.Errorf("variables = %q, want %q", got, want)
	}
}
