package timing

import (
	"context"
	"time"
)

// fastestRuns are the runs that nothing disturbed from which Fastest takes one.
const fastestRuns = 7

// Fastest returns the time of the fastest of some runs of r, after at most about
// the given time. Calm is false if all had to wait for a processor: without
// other processes it would be faster.
func Fastest(ctx context.Context, r Runner, cache Cache, atMost time.Duration) (least time.Duration, calm bool,
	err error) {
	if _, err := r.Sample(ctx, cache, 1); err != nil { // the first is slow
		return 0, false, err
	}
	for n, end := 0, time.Now().Add(atMost); n < fastestRuns; {
		samples, err := r.Sample(ctx, cache, 1)
		if err != nil {
			return 0, false, err
		}
		s := samples[0]
		if s.calm() {
			n, calm = n+1, true
		}
		if least == 0 || s.Elapsed < least {
			least = s.Elapsed
		}
		if time.Now().After(end) {
			break
		}
	}
	return least, calm, nil
}
