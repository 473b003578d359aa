package ontorch

import (
	"context"
	"time"

	"github.com/optool/optool/devicebridge/torchbridge"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/timing"
)

// A timer times one pass of a call on the device.
type timer struct {
	device *Device
	call   *torchbridge.Call
	flush  int64
	clock  timing.Clock
	memory *timing.Memory
}

// NewTimer returns a timer of a call's forward pass, or of its backward pass. Cold runs
// write flush bytes on the device before. It has been tried once then; if the device does
// not carry it out, the error is a *replay.CallError.
func (d *Device) NewTimer(c *replay.DeviceCall, flush int64) (timing.Runner, error) {
	t := &timer{device: d, call: newCall(c, 1).call, flush: flush, clock: timing.HostClock}
	times, err := t.runs(d.ctx, torchbridge.Timing{Runs: 1})
	if err != nil {
		return nil, err
	}
	if times.OnDevice {
		t.clock = timing.DeviceClock
	}
	if m := times.Memory; m != nil {
		t.memory = &timing.Memory{Peak: m.Peak, Kept: m.Kept, Requests: m.Requests}
	}
	return t, nil
}

// Memory implements timing.MemoryRunner by the statistics of the device's allocator when the call
// was tried, nil where it keeps none.
func (t *timer) Memory(context.Context) (*timing.Memory, error) { return t.memory, nil }

// Clock is that of the device's events where it has some, else the host's.
func (t *timer) Clock() timing.Clock { return t.clock }

// Sample implements timing.Runner.
func (t *timer) Sample(ctx context.Context, cache timing.Cache, n int) ([]timing.Sample, error) {
	asked := torchbridge.Timing{Runs: n}
	if cache == timing.Cold {
		asked.FlushBytes = t.flush
	}
	times, err := t.runs(ctx, asked)
	if err != nil {
		return nil, err
	}
	samples := make([]timing.Sample, n)
	for i, r := range times.Runs {
		samples[i].Elapsed = max(r, time.Nanosecond)
	}
	return samples, nil
}

func (t *timer) runs(ctx context.Context, asked torchbridge.Timing) (*torchbridge.Times, error) {
	times, pass, err := t.device.device.Time(ctx, t.call, asked)
	if err != nil {
		return nil, err
	}
	if s := statusOf(pass); s.Verdict != "" {
		return nil, &replay.CallError{Verdict: s.Verdict, Reason: s.Reason}
	}
	return times, nil
}
