package cli

import (
	"context"
	"iter"

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
// or more is read alone, as far as the window goes. Calls that are not wanted are not read. A call is
// not waited for: who reads its files waits for them, within the limits of that call.
func readAhead(ctx context.Context, calls iter.Seq[found], window int64,
	wanted func(*capture.Entry) bool) iter.Seq[found] {
	type coming struct {
		found
		bytes int64
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
				for _, p := range parts {
					requests.Go(func() error {
						p.Ahead(window)
						return nil
					})
				}
				select {
				case queue <- c:
				case <-ctx.Done():
					return
				}
			}
		}()
		for c := range queue {
			room.Release(c.bytes)
			if !yield(c.found) {
				return
			}
		}
	}
}
