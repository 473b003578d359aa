// Package ontorch runs the calls that package replay repeats on a device of PyTorch,
// and says what became of them.
package ontorch

import (
	"context"
	"errors"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge/torchbridge"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// Options of New.
type Options struct {
	Repeat int // runs on the same inputs that must give the same bits; 0 is 1
}

// A Device runs calls on a device of PyTorch. It is a replay.Device and may be used
// from several goroutines.
type Device struct {
	ctx    context.Context // of the run that the device was opened for
	device *torchbridge.Device
	opt    Options
}

// New returns a Device that runs calls until ctx ends.
func New(ctx context.Context, device *torchbridge.Device, opt Options) *Device {
	return &Device{ctx, device, opt}
}

// Run implements replay.Device.
func (d *Device) Run(c *replay.DeviceCall) *replay.DeviceRun {
	run := &replay.DeviceRun{}
	p := newCall(c, d.opt.Repeat)
	res, err := d.device.Run(d.ctx, p.call)
	var unsent *torchbridge.ArgumentError
	switch {
	case err != nil && d.ctx.Err() != nil:
		run.Forward = replay.DeviceStatus{Verdict: verdict.Skipped, Reason: "interrupted"}
	case errors.As(err, &unsent):
		run.Forward = replay.DeviceStatus{Verdict: verdict.Unsupported, Reason: err.Error()}
	case err != nil:
		run.Forward = replay.DeviceStatus{Verdict: verdict.Error, Reason: err.Error()}
	default:
		run.Functions = []string{d.device.Function(c.Call.Name)}
		p.fill(run, c, res)
	}
	return run
}

// A prepared call remembers which argument each tensor of the answer is.
type prepared struct {
	call  *torchbridge.Call
	after []place // of call.Written
	grads []place // of call.Need
}

// A place is an argument, an item of it if that is a list.
type place struct {
	name string
	item int
}

// newCall is a call as the worker is told it.
func newCall(c *replay.DeviceCall, repeat int) *prepared {
	args, kwargs := c.Call.Called()
	p := &prepared{call: &torchbridge.Call{Op: c.Call.Name, Args: args, Kwargs: kwargs, InPlace: c.Call.InPlace(),
		Roles: map[*tensor.Tensor]string{}, GradOutputs: c.GradOutputs, Repeat: repeat}}
	p.call.Absolute = c.Call.CountsInStorage()
	write := func(t *tensor.Tensor, at place) {
		if !slices.Contains(p.call.Written, t) {
			p.call.Written, p.after = append(p.call.Written, t), append(p.after, at)
		}
	}
	ts := c.Call.Tensors()
	if inPlace := c.Call.InPlace() || opdef.IsInPlaceName(c.Call.Name); inPlace && len(ts) > 0 { // views too
		write(ts[0].Tensor, place{ts[0].Name, max(ts[0].Index, 0)})
	} else {
		for _, t := range c.Call.Written() {
			write(t, place{})
		}
	}
	for _, a := range ts {
		p.call.Roles[a.Tensor] = a.Name
		at := place{a.Name, max(a.Index, 0)}
		if _, ok := c.Forward.After[a.Name]; ok {
			write(a.Tensor, at)
		}
		if c.GradOutputs != nil && slices.Contains(c.Need, a.Name) && a.Tensor.RequiresGrad &&
			!slices.Contains(p.call.Need, a.Tensor) {
			p.call.Need, p.grads = append(p.call.Need, a.Tensor), append(p.grads, at)
		}
	}
	return p
}

// fill says in run what became of the call.
func (p *prepared) fill(run *replay.DeviceRun, c *replay.DeviceCall, res *torchbridge.Result) {
	run.Forward, run.Backward = statusOf(res.Forward), statusOf(res.Backward)
	for phase, pass := range map[replay.Phase]torchbridge.Pass{replay.Forward: res.Forward,
		replay.Backward: res.Backward} {
		for _, f := range pass.Faults {
			run.Faults = append(run.Faults, replay.DeviceFault{Phase: phase, Reason: f})
		}
	}
	if run.Forward.Verdict != "" {
		return
	}
	run.Outputs = make([]*tensor.Tensor, len(c.Forward.Outs))
	copy(run.Outputs, res.Outputs)
	if len(run.Outputs) == 0 {
		run.Outputs = res.Outputs // a number, as a tensor
	}
	for _, f := range missing(res.Outputs, c.Forward.Outs) {
		run.Faults = append(run.Faults, replay.DeviceFault{Phase: replay.Forward, Reason: f})
	}
	run.After, run.Grads = p.byName(p.after, res.After), p.byName(p.grads, res.Grads)
}

// byName files tensors under the arguments they belong to.
func (p *prepared) byName(places []place, ts []*tensor.Tensor) map[string][]*tensor.Tensor {
	m := map[string][]*tensor.Tensor{}
	for i, at := range places {
		if i >= len(ts) || at.name == "" {
			continue
		}
		for len(m[at.name]) <= at.item {
			m[at.name] = append(m[at.name], nil)
		}
		m[at.name][at.item] = ts[i]
	}
	return m
}
