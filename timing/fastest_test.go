package timing

import (
	"context"
	"errors"
	"testing"
	"time"
)

// given is a Runner that returns given samples, then the last for ever.
type given struct {
	samples []Sample
	calls   int
	err     error
}

func (g *given) Clock() Clock { return HostClock }

func (g *given) Sample(context.Context, Cache, int) ([]Sample, error) {
	s := g.samples[min(g.calls, len(g.samples)-1)]
	g.calls++
	return []Sample{s}, g.err
}

func TestFastest(t *testing.T) {
	calm := &given{samples: Samples(1, 90, 80, 100)} // the first is a warm-up
	if d, ok, err := Fastest(t.Context(), calm, Hot, time.Hour); d != 80 || !ok || err != nil ||
		calm.calls != 1+fastestRuns {
		t.Errorf("calm: %v, %v, %v after %d runs; want 80 ns, true after %d", d, ok, err, calm.calls, 1+fastestRuns)
	}
	busy := &given{samples: []Sample{{Elapsed: 100, Waited: 50}}}
	if d, ok, err := Fastest(t.Context(), busy, Hot, 0); d != 100 || ok || err != nil {
		t.Errorf("busy: %v, %v, %v; want 100 ns, false", d, ok, err)
	}
	broken := &given{samples: Samples(1), err: errors.New("no device")}
	if _, _, err := Fastest(t.Context(), broken, Hot, 0); err == nil {
		t.Error("no error of a runner that fails")
	}
}
