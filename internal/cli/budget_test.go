package cli

import (
	"math"
	"testing"
	"time"

	"github.com/optool/optool/internal/run/shard"
)

// Large calls are checked in smaller parts where the time would not suffice, unless the user says how.
func TestHurry(t *testing.T) {
	for _, c := range []struct {
		name string
		o    replayOptions
		left time.Duration
		over float64 // of which calls are checked in parts, NaN if none are
	}{
		{"time enough", replayOptions{budget: timeBudget(time.Minute)}, time.Second, sampledByDefault * 1e9},
		{"too little time", replayOptions{budget: timeBudget(time.Minute)}, 1000 * time.Hour, hurried.Over},
		{"--sample", replayOptions{budget: timeBudget(time.Minute), sample: 7}, 1000 * time.Hour, 7e9},
		{"--full", replayOptions{budget: timeBudget(time.Minute), full: true}, 1000 * time.Hour, math.NaN()},
	} {
		over := math.NaN()
		c.o.device = noDevice
		if s := c.o.hurry(c.o.sampling(), shard.Cost(c.left.Microseconds())); s != nil {
			over = s.Over
		}
		if over != c.over && !(over != over && c.over != c.over) {
			t.Errorf("%s: calls of more than %g operations are checked in parts, want %g", c.name, over, c.over)
		}
	}
}
