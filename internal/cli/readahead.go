package cli

import (
	"context"
	"iter"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/files"
)

// How far the disk may be ahead of the calls in work: bytes of their files, and calls; and how
// many files are asked for at once.
const (
	bytesAhead    = 256 << 20
	callsAhead    = 64
	requestsAhead = 8
)

// ahead is how many bytes may be read before they are needed.
func (l *limits) ahead() int64 {
	if l.total == 0 { // nobody knows how much memory there is
		return bytesAhead
	}
	return min(bytesAhead, l.total/8)
}

// readAhead yields calls as they come, while the files of those that follow are being read: who
// computes need not wait for the disk, nor the disk for him. A call of the size of the window
// or more is read alone, as far as the window goes. Calls that are not wanted are not read.
func readAhead(ctx context.Context, calls iter.Seq[found], window int64,
	wanted func(*capture.Entry) bool) iter.Seq[found] {
	type coming struct {
		found
		bytes int64
		read  <-chan struct{} // closed when it was asked for
	}
	return func(yield func(found) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		room := semaphore.NewWeighted(window)
		queue := make(chan coming, callsAhead)
		go func() {
			defer close(queue)
			var requests errgroup.Group
			requests.SetLimit(requestsAhead)
			for f := range calls {
				c := coming{found: f}
				var parts []files.Part
				if f.entry != nil && !f.finished && wanted(f.entry) {
					parts = f.entry.Parts()
					c.bytes = min(files.Bytes(parts), window)
				}
				if room.Acquire(ctx, c.bytes) != nil {
					return
				}
				if c.bytes > 0 {
					c.read = begin(&requests, parts, window)
				}
				select {
				case queue <- c:
				case <-ctx.Done():
					return
				}
			}
		}()
		for c := range queue {
			if c.read != nil {
				select {
				case <-c.read:
				case <-ctx.Done():
				}
			}
			room.Release(c.bytes)
			if !yield(c.found) {
				return
			}
		}
	}
}

// begin asks for parts of files; the channel is closed when all were asked for.
func begin(requests *errgroup.Group, parts []files.Part, limit int64) <-chan struct{} {
	var all sync.WaitGroup
	for _, p := range parts {
		all.Add(1)
		requests.Go(func() error {
			defer all.Done()
			p.Ahead(limit)
			return nil
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	return done
}
