package cli

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/optool/optool/internal/quota"
)

// ordered applies work to the items of in, jobs at a time, and passes the
// results to emit in the order of the items, from the calling goroutine. At
// most four results per job wait for an earlier one, so memory is bounded.
//
// When ctx is done no further item is started; results of items that were
// started are still emitted if they come soon and were not stopped on their way, and
// the error is ctx's. An error of emit ends it the same way. A panic of work reaches
// the caller.
func ordered[T, R any](ctx context.Context, jobs int, in iter.Seq[T], work func(T) R, emit func(R) error) error {
	type slot struct {
		item   T
		result R
		panic  any
		void   bool // computing was stopped under it
		done   chan struct{}
	}
	stop := make(chan struct{})
	var once sync.Once
	halt := func() { once.Do(func() { close(stop) }) }
	defer halt()

	queue := make(chan *slot)           // to the workers
	pending := make(chan *slot, 4*jobs) // to the caller, in order
	go func() {
		defer close(pending)
		defer close(queue)
		for item := range in {
			s := &slot{item: item, done: make(chan struct{})}
			select {
			case <-stop:
				return
			case <-ctx.Done():
				return
			case pending <- s:
			}
			queue <- s
		}
	}()
	for range jobs {
		go func() {
			for s := range queue {
				func() {
					defer close(s.done)
					defer func() {
						if s.panic = recover(); s.panic == quota.ErrStopped {
							s.panic, s.void = nil, true
						}
					}()
					s.result = work(s.item)
					s.void = ctx.Err() != nil && quota.Stopped()
				}()
			}
		}()
	}
	late := make(chan struct{})
	defer context.AfterFunc(ctx, func() { time.AfterFunc(2*interruptGrace, func() { close(late) }) })()
	var failure error
	for {
		var s *slot
		select {
		case s = <-pending:
		case <-late:
			return ctx.Err()
		}
		if s == nil {
			break
		}
		select {
		case <-s.done:
		case <-late:
			return ctx.Err()
		}
		switch {
		case s.panic != nil:
			panic(s.panic)
		case s.void || failure != nil:
			continue
		}
		if failure = emit(s.result); failure != nil {
			halt()
		}
	}
	if failure != nil {
		return failure
	}
	return ctx.Err()
}
