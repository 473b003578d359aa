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

	"github.com/optool/optool/internal/collector"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/replay"
)

// limits keep calls that run beside each other within the memory of the process,
// and each within a deadline. Computing can only be stopped as a whole (quota.Stop).
// A call that is late is stopped once the calls beside it have ended or are late too. When
// memory runs out all are stopped at once, and those beside are run again.
type limits struct {
	*pool
	timeout time.Duration   // of one call; 0: none
	byFlag  bool            // --timeout sets it
	over    <-chan struct{} // closed when all calls are to end, unless it is nil
}

// by returns limits of the same process for a call that is to end at a time.
func (l *limits) by(end time.Time) *limits {
	return &limits{pool: l.pool, timeout: max(time.Until(end), time.Millisecond), over: l.over}
}

// A pool is what the calls of the process share.
type pool struct {
	total int64 // bytes; 0: no limit known

	mu        sync.Mutex
	changed   sync.Cond
	used      int64         // bytes of the calls that run
	abandoned int64         // bytes of calls that were given up and still compute
	running   int           // calls
	late      int           // of these, those that are late
	alone     chan struct{} // closed when all that run are late; nil if none is
	started   int           // calls ever
	stops     int           // how often computing was stopped
	stopping  bool
}

// limitsOf are those that the flags --memory and --timeout set.
func limitsOf(memory int64, timeout time.Duration) *limits {
	l := newLimits(memory, timeout)
	l.byFlag = true
	return l
}

// newLimits limits the process to so many bytes of memory, 0 for three quarters of what
// is available, and calls to timeout: what does not fit is refused, not killed.
func newLimits(memory int64, timeout time.Duration) *limits {
	l := &limits{pool: &pool{total: cmp.Or(memory, availableMemory()/4*3)}, timeout: timeout}
	// What is freed keeps its addresses: where these are limited (ulimit -v), a run on giants
	// takes four times as many as memory.
	if most := availableAddresses() / 5; most > 0 && (l.total == 0 || most < l.total) {
		l.total = most
	}
	l.changed.L = &l.mu
	quota.SetMemory(l.total)
	if l.total > 0 {
		collector.Limit(l.total)
	}
	return l
}

// A timeoutError says that a call was not done in time.
type timeoutError struct {
	after  time.Duration
	byFlag bool // --timeout allows more
}

func (e *timeoutError) Error() string {
	if e.byFlag {
		return fmt.Sprintf("not done after %v: --timeout allows more", e.after)
	}
	return fmt.Sprintf("not done after %v", e.after)
}

// Is makes it one of the errors that say that a deadline has passed.
func (e *timeoutError) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// errOver says that a call was not done when all were to end.
var errOver = errors.New("the time of the run is over")

// How long computing may take to notice that it is stopped, because a call is to end
// or because the program was interrupted; what takes longer is abandoned. How often
// the memory of a long call is looked at.
var (
	stopGrace      = 5 * time.Second
	interruptGrace = 300 * time.Millisecond
	watchEvery     = 200 * time.Millisecond
)

// within runs f, which computes what a capture of so many bytes on disk asks for,
// within the limits. f is run again if it was stopped for the sake of another call,
// and alone if the memory did not suffice beside others. A panic of f is an error, as
// replay.Guard has it. Beside these and f's own, the error is a *timeoutError, a
// *quota.MemoryError, errOver or ctx's; v is then what f returned when it was stopped.
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
	began, err := l.enter(ctx, need)
	if err != nil {
		return v, err, false
	}
	c := &running[T]{limits: l, done: make(chan outcome[T], 1)}
	go func() {
		var o outcome[T]
		o.err = replay.Guard(func() (err error) {
			o.v, err = f()
			return err
		})
		c.done <- o
	}()
	defer func() {
		l.leave(ctx, need, c.late, c.ended != nil)
		if c.ended == nil {
			go func() {
				<-c.done
				l.forget(need)
			}()
		}
	}()
	grace, over := c.wait(ctx)
	switch {
	case over == nil:
		short := errors.As(c.ended.err, new(*quota.MemoryError))
		return c.ended.v, c.ended.err, l.stoppedSince(began) || short && l.shared(began)
	case c.ended != nil: // late, but before it was stopped
		return c.ended.v, over, false
	}
	l.stop()
	select {
	case o := <-c.done:
		v, c.ended = o.v, &o
	case <-time.After(grace):
	}
	return v, over, errors.As(over, new(*quota.MemoryError)) && l.shared(began)
}

// outcome is what a call gave.
type outcome[T any] struct {
	v   T
	err error
}

// running is a call within limits.
type running[T any] struct {
	*limits
	done  chan outcome[T]
	ended *outcome[T] // nil while it runs
	late  bool
}

// wait waits until the call has ended, or until it is over: then over says why, and grace how long the call may take to
// notice that it is stopped. A call that is late waits until those beside it have ended or are late too, and may end
// itself meanwhile.
func (c *running[T]) wait(ctx context.Context) (grace time.Duration, over error) {
	var deadline <-chan time.Time
	if c.timeout > 0 {
		timer := time.NewTimer(c.timeout)
		defer timer.Stop()
		deadline = timer.C
	}
	watch := time.NewTicker(watchEvery)
	defer watch.Stop()
	for {
		select {
		case o := <-c.done:
			c.ended = &o
			return 0, nil
		case <-deadline:
			c.late = true
			return c.waitForOthers(ctx)
		case <-watch.C:
			if live := liveMemory(); c.total > 0 && live > c.total {
				return stopGrace, &quota.MemoryError{Need: live, Limit: c.total}
			}
		case <-c.over:
			return interruptGrace, errOver
		case <-ctx.Done():
			return interruptGrace, ctx.Err()
		}
	}
}

// waitForOthers is wait for a call that is late.
func (c *running[T]) waitForOthers(ctx context.Context) (grace time.Duration, over error) {
	over = &timeoutError{c.timeout, c.byFlag}
	select {
	case <-c.othersDone():
	case o := <-c.done:
		c.ended = &o
	case <-c.limits.over:
	case <-ctx.Done():
		return interruptGrace, ctx.Err()
	}
	return stopGrace, over
}

// A beginning is what was going on when a call began.
type beginning struct{ running, started, stops int }

// enter begins a call that needs so many bytes, once they are free and the calls that are to be
// stopped have ended. A call that needs more than there is begins when no other runs.
func (p *pool) enter(ctx context.Context, need int64) (beginning, error) {
	defer context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})()
	p.mu.Lock()
	defer p.mu.Unlock()
	for ctx.Err() == nil && (p.stopping || p.late > 0 || !p.fits(need)) {
		p.changed.Wait()
	}
	if err := ctx.Err(); err != nil {
		return beginning{}, err
	}
	p.used += need
	p.running++
	p.started++
	return beginning{p.running, p.started, p.stops}, nil
}

// fits reports whether a call that needs so many bytes may run beside those that do.
func (p *pool) fits(need int64) bool {
	return p.total == 0 || p.used == 0 || p.used+need <= p.total-p.abandoned
}

// leave ends a call that entered with so many bytes. They stay taken if it has not ended but was
// given up, until forget.
func (p *pool) leave(ctx context.Context, need int64, late, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.used -= need
	if !ended {
		p.abandoned += need
	}
	if late {
		p.late--
	}
	p.tellAlone()
	if p.stopping && p.running == 0 {
		p.stopping = false
		if ctx.Err() == nil {
			quota.Resume()
		}
	}
	p.changed.Broadcast()
}

// othersDone says that the caller is late. The channel is closed when all calls that run are late:
// then none is stopped for the sake of another.
func (p *pool) othersDone() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.late++; p.alone == nil {
		p.alone = make(chan struct{})
	}
	alone := p.alone
	p.tellAlone()
	return alone
}

func (p *pool) tellAlone() {
	if p.alone != nil && p.running == p.late {
		close(p.alone)
		p.alone = nil
	}
}

// stop stops all that computes.
func (p *pool) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
	p.stops++
	quota.Stop()
}

// forget gives back the memory of a call that was given up and has ended.
func (p *pool) forget(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abandoned -= bytes
	p.changed.Broadcast()
}

// stoppedSince reports whether computing was stopped after a call began.
func (p *pool) stoppedSince(b beginning) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stops != b.stops
}

// shared reports whether another call ran beside one that began so.
func (p *pool) shared(b beginning) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.running > 1 || p.started != b.started
}

// liveMemory is how many bytes were in use after the last garbage collection.
func liveMemory() int64 {
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
