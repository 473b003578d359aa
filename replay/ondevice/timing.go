package ondevice

import (
	"context"
	"fmt"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/timing"
)

// A Timer times one pass of a call on the device. It is a timing.MemoryRunner: the
// time of a run is that of its C calls, each measured in the worker around the
// call and the synchronisation of its stream.
type Timer struct {
	device *Device
	plan   *diopi.Plan
	phase  diopi.Phase // Backward, or all others
	flush  int64
	memory timing.Memory
}

// NewTimer returns a timer of a call's forward pass, or of its backward pass.
// Cold runs walk through flush bytes before. It has been tried once then; if the
// device does not carry it out, the error is a *replay.CallError.
func (d *Device) NewTimer(c *replay.DeviceCall, flush int64) (timing.Runner, error) {
	t := &Timer{device: d, phase: diopi.Forward, flush: flush}
	if c.GradOutputs != nil {
		t.phase = diopi.Backward
	}
	p, err := d.Plan(c)
	if err != nil {
		return nil, &replay.CallError{Verdict: verdict.Unsupported, Reason: err.Error()}
	}
	if t.phase == diopi.Backward && p.backward != "" {
		return nil, &replay.CallError{Verdict: verdict.Unsupported, Reason: p.backward}
	}
	t.plan = p.Plan
	res, err := d.library.RunWith(d.ctx, t.plan, devicebridge.Options{})
	if err != nil {
		return nil, err
	}
	for i, c := range t.plan.Calls {
		if m := res.Calls[i].Memory; t.times(c) {
			t.memory.Requests += m.Requests
			t.memory.Peak += m.Bytes
			t.memory.Kept += m.Kept
		}
	}
	return t, ended(res)
}

// times reports whether a call is of the pass.
func (t *Timer) times(c *diopi.Call) bool {
	return (c.Phase == diopi.Backward) == (t.phase == diopi.Backward)
}

// Memory implements timing.MemoryRunner: what the C calls asked the runtime for when they
// were tried. Nothing is given back between them.
func (t *Timer) Memory(context.Context) (*timing.Memory, error) { return &t.memory, nil }

// ended is an error for the first call that did not end well.
func ended(res *devicebridge.Result) error {
	if w := res.Worst(); w != nil {
		v, reason := statusOf(w)
		return &replay.CallError{Verdict: v, Reason: reason}
	}
	return nil
}

// Clock is the host's: the worker's monotonic clock.
func (t *Timer) Clock() timing.Clock { return timing.HostClock }

// Place implements timing.Placer: the thread that calls the library's functions runs on that processor, others that
// it has by now where they like.
func (t *Timer) Place(turn int) { t.device.library.Place(turn) }

// Sample implements timing.Runner.
func (t *Timer) Sample(ctx context.Context, cache timing.Cache, n int) ([]timing.Sample, error) {
	o := devicebridge.Options{Time: &devicebridge.Timing{Runs: n}}
	if cache == timing.Cold {
		o.Time.FlushBytes = t.flush
	}
	res, err := t.device.library.RunWith(ctx, t.plan, o)
	if err != nil {
		return nil, err
	}
	if err := ended(res); err != nil {
		return nil, err
	}
	samples := make([]timing.Sample, n)
	for i, c := range t.plan.Calls {
		if !t.times(c) {
			continue
		}
		runs := res.Calls[i].Runs
		if len(runs) < n {
			return nil, fmt.Errorf("%s: %d of %d runs were measured", c.Function, len(runs), n)
		}
		for k := range samples {
			samples[k].Elapsed += runs[k]
		}
	}
	for k := range samples {
		samples[k].Waited = min(res.Waited[k], samples[k].Elapsed)
	}
	return samples, nil
}
