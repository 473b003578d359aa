package timing

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Cache says in which state the caches are when a run begins.
type Cache string

const (
	Cold Cache = "cold" // evicted after the inputs were put in place
	Hot  Cache = "hot"  // as the run before left them
)

// Clock says what measured the time.
type Clock string

const (
	HostClock   Clock = "host"   // the host's monotonic clock around a run that was waited for
	DeviceClock Clock = "device" // events of the device
)

// A Runner is something that can be timed.
type Runner interface {
	// Sample runs n times and returns the time of each run. Inputs that a run
	// changes are restored, and with Cold the caches evicted, before each run and
	// outside of its time. It may return fewer samples with an error.
	Sample(ctx context.Context, cache Cache, n int) ([]Sample, error)
	Clock() Clock
}

// Options of Measure. The zero value stops on noise, after at most a second.
type Options struct {
	Runs    int           // take exactly so many samples; 0: until the stop rule holds
	Warmup  time.Duration // run at least once and at least so long before; 0 means 20 ms
	MaxTime time.Duration // of the runs that count, with what is done between them; 0 means 1 s
	MinRuns int           // before noise may stop it; 0 means 10
	MaxRuns int           // that are worth keeping of what is quick; 0 means no limit
	MinTime time.Duration // before noise may stop it; 0 means MaxTime/10
	Noise   float64       // relative noise that is small enough; 0 means 0.005
	Round   int           // that the samples belong to
}

func (o Options) withDefaults() Options {
	if o.Warmup == 0 {
		o.Warmup = 20 * time.Millisecond
	}
	if o.MaxTime == 0 {
		o.MaxTime = time.Second
	}
	if o.MinRuns == 0 {
		o.MinRuns = 10
	}
	if o.MinTime == 0 {
		o.MinTime = o.MaxTime / 10
	}
	if o.Noise == 0 {
		o.Noise = 0.005
	}
	return o
}

// StopReason says why Measure took no more samples.
type StopReason string

const (
	StopRuns     StopReason = "run_times"    // the number of runs asked for
	StopNoise    StopReason = "noise"        // relative noise below the limit
	StopStable   StopReason = "stable noise" // relative noise no longer changes
	StopTime     StopReason = "time"         // the time is spent
	StopEnough   StopReason = "enough runs"  // as many as are worth keeping
	StopCanceled StopReason = "interrupted"
)

// Measure takes samples of r. An error comes with what was measured before, nil
// if that is nothing.
func Measure(ctx context.Context, r Runner, cache Cache, opt Options) (*Series, error) {
	opt = opt.withDefaults()
	s := &Series{Cache: cache, Clock: r.Clock()}
	each, err := warmUp(ctx, r, cache, opt, s)
	if err != nil {
		return nil, err
	}
	var rule stopRule
	began := time.Now()
	for {
		spent := max(s.total, time.Since(began))
		if len(s.Samples) > 0 {
			each = spent / time.Duration(len(s.Samples))
		}
		err := s.take(ctx, r, batch(opt, s, each, opt.MaxTime-spent), opt, &rule)
		switch {
		case errors.Is(err, context.Canceled) && len(s.Samples) > 0:
			s.Stop = StopCanceled
			return s, err
		case err != nil:
			return nil, err
		}
		if s.Stop = rule.stop(opt, s, time.Since(began)); s.Stop != "" {
			return s, nil
		}
	}
}

// take adds n samples of r, or as many as there are before an error.
func (s *Series) take(ctx context.Context, r Runner, n int, opt Options, rule *stopRule) error {
	samples, err := r.Sample(ctx, s.Cache, n)
	for _, x := range samples {
		x.Round = opt.Round
		s.Samples = append(s.Samples, x)
		s.total += x.Elapsed
		rule.add(x.Elapsed)
	}
	if err == nil && len(samples) != n {
		err = fmt.Errorf("timing: %d samples of %d", len(samples), n)
	}
	return err
}

// warmUp runs r for a while and returns about how long a run takes, with what is
// done before it.
func warmUp(ctx context.Context, r Runner, cache Cache, opt Options, s *Series) (time.Duration, error) {
	start := time.Now()
	for n := 1; ; n *= 2 {
		began := time.Now()
		samples, err := r.Sample(ctx, cache, n)
		if err != nil {
			return 0, err
		}
		s.Warmup += n
		last := max(samples[len(samples)-1].Elapsed, time.Since(began)/time.Duration(n))
		if time.Since(start) >= opt.Warmup || opt.Runs > 0 && s.Warmup >= opt.Runs {
			return last, nil
		}
	}
}

// batch is how many samples to ask for at once: few enough that the stop rule
// is looked at in time, many enough that asking costs little, no more than are
// wanted. A run takes each, and left is the time that is left.
func batch(opt Options, s *Series, each, left time.Duration) int {
	if opt.Runs > 0 {
		return min(opt.Runs-len(s.Samples), batchMax)
	}
	n := max(opt.MinRuns-len(s.Samples), checkEvery)
	if opt.MaxRuns > 0 {
		n = min(n, max(1, opt.MaxRuns-len(s.Samples)))
	}
	if each > 0 {
		n = min(n, max(1, int(left/each)))
	}
	return n
}

const (
	batchMax   = 1024
	checkEvery = 16 // samples between two looks at the noise, as in NVBench
)
