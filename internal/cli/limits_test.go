package cli

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/optool/optool/internal/quota"
)

// guarded turns the panic of stopped computing into an error, as replay.Guard does.
func guarded[T any](f func() T) func() (T, error) {
	return func() (v T, err error) {
		defer func() {
			if p, ok := recover().(error); ok {
				err = p
			}
		}()
		return f(), nil
	}
}

// TestTimeout: a call that does not end is given up, and the one beside it, which was
// stopped too, is run again.
func TestTimeout(t *testing.T) {
	l := newLimits(0, 50*time.Millisecond)
	defer quota.SetMemory(0)
	var beside atomic.Int32
	started := make(chan struct{})
	start := sync.OnceFunc(func() { close(started) }) // it may be run again if it was stopped for the other one
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := within(context.Background(), l, 0, guarded(func() int {
			start()
			for {
				quota.Check()
			}
		}))
		if late := (*timeoutError)(nil); !errors.As(err, &late) {
			t.Errorf("got %v, want a timeout", err)
		}
	})
	<-started
	v, err := within(context.Background(), l, 0, guarded(func() int {
		if beside.Add(1) == 1 {
			for {
				quota.Check() // until the other one is given up
			}
		}
		return 7
	}))
	wg.Wait()
	// Both began at about the same time: the second may be late too.
	if late := (*timeoutError)(nil); !errors.As(err, &late) && (v != 7 || err != nil || beside.Load() != 2) {
		t.Errorf("the call beside gave %d and %v in %d runs", v, err, beside.Load())
	}
	if quota.Stopped() {
		t.Error("computing is still stopped")
	}
}

// TestAlone: a call whose memory does not suffice beside another is run again alone.
func TestAlone(t *testing.T) {
	l := newLimits(1<<30, 0)
	defer quota.SetMemory(0)
	started, end := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		within(context.Background(), l, 1<<20, func() (int, error) {
			close(started)
			<-end
			return 0, nil
		})
	})
	<-started
	runs := 0
	v, err := within(context.Background(), l, 1<<20, func() (int, error) {
		if runs++; runs == 1 {
			close(end)
			return 0, &quota.MemoryError{Need: 1 << 31, Limit: 1 << 30}
		}
		return runs, nil
	})
	wg.Wait()
	if v != 2 || err != nil {
		t.Errorf("got %d and %v, want the result of the second run", v, err)
	}
}

func TestByteSize(t *testing.T) {
	for s, want := range map[string]int64{"17": 17, "8GiB": 8 << 30, "3 MiB": 3 << 20, "-1": 0, "0": 0, "8GB": 0,
		"9223372036854775807TiB": 0, "": 0} {
		var b byteSize
		err := b.Set(s)
		if (err == nil) != (want > 0) || int64(b) != want {
			t.Errorf("%q: got %d and %v, want %d", s, b, err, want)
		}
	}
}
