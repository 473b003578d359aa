package cli

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/replay"
)

// TestTimeout: a call that does not end is given up, and the one beside it, which is in time,
// runs once.
func TestTimeout(t *testing.T) {
	l := newLimits(0, 0)
	defer quota.SetMemory(0)
	started, isLate := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		<-started
		_, err := within(context.Background(), l.by(time.Now()), 0, func() (int, error) {
			for {
				quota.Check()
			}
		})
		if late := (*timeoutError)(nil); !errors.As(err, &late) {
			t.Errorf("got %v, want a timeout", err)
		}
	})
	wg.Go(func() { // until the other call is late
		for {
			l.mu.Lock()
			late := l.late
			l.mu.Unlock()
			if late > 0 {
				close(isLate)
				return
			}
			runtime.Gosched()
		}
	})
	runs := 0
	v, err := within(context.Background(), l, 0, func() (int, error) {
		if runs++; runs > 1 {
			return runs, nil
		}
		close(started)
		<-isLate
		quota.Check()
		return 7, nil
	})
	wg.Wait()
	if v != 7 || err != nil || runs != 1 {
		t.Errorf("the call beside gave %d and %v in %d runs", v, err, runs)
	}
	if quota.Stopped() {
		t.Error("computing is still stopped")
	}
}

// TestAllLate: calls that are all late are all stopped, and what they have by then is kept.
func TestAllLate(t *testing.T) {
	l := newLimits(0, time.Millisecond)
	defer quota.SetMemory(0)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			v, err := within(context.Background(), l, 0, func() (int, error) {
				return 5, replay.Guard(func() error {
					for {
						quota.Check()
					}
				})
			})
			if late := (*timeoutError)(nil); !errors.As(err, &late) || v != 5 {
				t.Errorf("got %d and %v, want 5 and a timeout", v, err)
			}
		})
	}
	wg.Wait()
	if quota.Stopped() || l.running != 0 || l.late != 0 {
		t.Errorf("stopped %v, %d run, %d late, want none", quota.Stopped(), l.running, l.late)
	}
}

// TestPanics: a call that panics, also for want of memory, is an error and costs nothing else.
func TestPanics(t *testing.T) {
	l := newLimits(1<<30, 0)
	defer quota.SetMemory(0)
	for _, want := range []error{&quota.MemoryError{Need: 1 << 31, Limit: 1 << 30}, errors.New("a bug")} {
		_, err := within(context.Background(), l, 1<<20, func() (int, error) { panic(want) })
		if err == nil || !strings.Contains(err.Error(), want.Error()) {
			t.Errorf("got error %v, want %v", err, want)
		}
	}
	if l.used != 0 || l.running != 0 {
		t.Errorf("%d bytes of %d calls are still taken", l.used, l.running)
	}
}

// TestAbandoned: the memory of a call that was given up stays taken until it ends. A call that
// needs more than is left begins when no other runs.
func TestAbandoned(t *testing.T) {
	l := newLimits(1<<30, 0)
	defer quota.SetMemory(0)
	ctx := context.Background()
	enter := func(need int64) {
		t.Helper()
		if _, err := l.enter(ctx, need); err != nil {
			t.Fatal(err)
		}
	}
	enter(1 << 29)
	l.leave(ctx, 1<<29, false, false)
	enter(1 << 29) // half is left
	if l.fits(1) {
		t.Error("a byte more fits beside it")
	}
	l.leave(ctx, 1<<29, false, true)
	enter(1 << 30) // more than is left, with no other
	l.leave(ctx, 1<<30, false, true)
	l.forget(1 << 29)
	enter(1 << 29)
	enter(1 << 29)
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
	for s, want := range map[string]int64{"67108864": 64 << 20, "8GiB": 8 << 30, "300 MiB": 300 << 20, "-1": 0, "0": 0,
		"8GB": 8e9, "9223372036854775807TiB": 0, "": 0, "17": 0, "1KB": 0, "8 apples": 0} {
		var b byteSize
		err := b.Set(s)
		if (err == nil) != (want > 0) || int64(b) != want {
			t.Errorf("%q: got %d and %v, want %d", s, b, err, want)
		}
	}
	if err := new(byteSize).Set("1KB"); err == nil || err.Error() != "1KB is too small: optool needs at least 64MiB" {
		t.Errorf("1KB: %v", err)
	}
}
