package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/optool/optool/internal/collector"
	"github.com/optool/optool/internal/quota"
)

// limits keep calls that run beside each other within the memory of the process,
// and each within a deadline. Computing can only be stopped as a whole (quota.Stop):
// when one call is to end, those beside it are run again.
type limits struct {
	timeout time.Duration       // of one call; 0: none
	sem     *semaphore.Weighted // of bytes; nil: no limit known
	total   int64
	over    <-chan struct{} // closed when all calls are to end, unless it is nil

	mu       sync.Mutex
	resumed  sync.Cond
	running  int
	started  int // calls ever
	stops    int // how often computing was stopped
	stopping bool
}

// newLimits limits the process to so many bytes of memory, 0 for three quarters of what
// is available, and calls to timeout: what does not fit is refused, not killed.
func newLimits(memory int64, timeout time.Duration) *limits {
	l := &limits{timeout: timeout, total: cmp.Or(memory, availableMemory()/4*3)}
	// What is freed keeps its addresses: where these are limited (ulimit -v), a run on giants
	// takes four times as many as memory.
	if most := availableAddresses() / 5; most > 0 && (l.total == 0 || most < l.total) {
		l.total = most
	}
	l.resumed.L = &l.mu
	quota.SetMemory(l.total)
	if l.total > 0 {
		l.sem = semaphore.NewWeighted(l.total)
		collector.Limit(l.total)
	}
	return l
}

// A timeoutError says that a call was not done in time.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("not done after %v on the reference: --timeout allows more", e.after)
}

// errOver says that a call was not done when all were to end.
var errOver = errors.New("the time of the run is over")

// How long computing may take to notice that it is stopped, because a call is to end
// or because the program was interrupted; what takes longer is abandoned. How often
// the memory of a long call is looked at.
const (
	stopGrace      = 5 * time.Second
	interruptGrace = 300 * time.Millisecond
	watchEvery     = 200 * time.Millisecond
)

// within runs f, which computes what a capture of so many bytes on disk asks for,
// within the limits. f is run again if it was stopped for the sake of another call,
// and alone if the memory did not suffice beside others. Beside f's own, the error
// is a *timeoutError, a *quota.MemoryError, errOver or ctx's.
func within[T any](ctx context.Context, l *limits, bytes int64, f func() (T, error)) (v T, err error) {
	// Widened to float64, a bfloat16 operand takes four times its size, and results
	// and gradients as much again.
	need, again := min(8*bytes, l.total), true
	for again && ctx.Err() == nil {
		v, err, again = once(ctx, l, need, f)
		if errors.As(err, new(*quota.MemoryError)) {
			need = l.total
		}
	}
	if again {
		err = ctx.Err()
	}
	return v, err
}

// once runs f once; again asks for another run.
func once[T any](ctx context.Context, l *limits, need int64, f func() (T, error)) (v T, err error, again bool) {
	if l.sem != nil {
		if err := l.sem.Acquire(ctx, need); err != nil {
			return v, err, false
		}
		defer l.sem.Release(need)
	}
	began := l.enter()
	defer l.leave(ctx)
	type outcome struct {
		v     T
		err   error
		panic any
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			o.panic = recover()
			done <- o
		}()
		o.v, o.err = f()
	}()
	var deadline <-chan time.Time
	if l.timeout > 0 {
		timer := time.NewTimer(l.timeout)
		defer timer.Stop()
		deadline = timer.C
	}
	watch := time.NewTicker(watchEvery)
	defer watch.Stop()
	var over error
	grace := stopGrace
	for over == nil {
		select {
		case o := <-done:
			if o.panic != nil {
				panic(o.panic)
			}
			short := errors.As(o.err, new(*quota.MemoryError))
			return o.v, o.err, l.stoppedSince(began) || short && l.shared(began)
		case <-deadline:
			over = &timeoutError{l.timeout}
		case <-watch.C:
			if live := l.liveMemory(); l.total > 0 && live > l.total {
				over = &quota.MemoryError{Need: live, Limit: l.total}
			}
		case <-l.over:
			over, grace = errOver, interruptGrace
		case <-ctx.Done():
			over, grace = ctx.Err(), interruptGrace
		}
	}
	l.stop()
	select {
	case <-done:
	case <-time.After(grace):
	}
	return v, over, errors.As(over, new(*quota.MemoryError)) && l.shared(began)
}

// A beginning is what was going on when a call began.
type beginning struct{ running, started, stops int }

func (l *limits) enter() beginning {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.stopping {
		l.resumed.Wait()
	}
	l.running++
	l.started++
	return beginning{l.running, l.started, l.stops}
}

func (l *limits) leave(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	if l.stopping && l.running == 0 {
		l.stopping = false
		if ctx.Err() == nil {
			quota.Resume()
		}
		l.resumed.Broadcast()
	}
}

func (l *limits) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopping = true
	l.stops++
	quota.Stop()
}

// stoppedSince reports whether computing was stopped after a call began.
func (l *limits) stoppedSince(b beginning) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stops != b.stops
}

// shared reports whether another call ran beside one that began so.
func (l *limits) shared(b beginning) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return b.running > 1 || l.started != b.started
}

// liveMemory is how many bytes were in use after the last garbage collection.
func (l *limits) liveMemory() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64()) - collector.Untouched()
}

// availableMemory is how many bytes the process can use without being killed:
// the kernel's estimate of available memory, or what is left of the control
// group's limit if that is less; 0 if neither is known.
func availableMemory() int64 {
	var avail int64
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		sc := bufio.NewScanner(bytes.NewReader(b))
		for sc.Scan() {
			if rest, ok := strings.CutPrefix(sc.Text(), "MemAvailable:"); ok {
				kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				if err == nil {
					avail = kb << 10
				}
			}
		}
	}
	limit, ok1 := readInt("/sys/fs/cgroup/memory.max")
	used, ok2 := readInt("/sys/fs/cgroup/memory.current")
	if left := limit - used; ok1 && ok2 && left > 0 && (avail == 0 || left < avail) {
		return left
	}
	return avail
}

func readInt(path string) (int64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	v, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return v, err == nil
}
