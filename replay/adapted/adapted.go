// Package adapted runs calls on any device as op_tools' settings ask: ops that fall back
// to the CPU are not run, arguments go to the device in other dtypes.
package adapted

import (
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// Options of New.
type Options struct {
	// Fallback reports whether an op runs on the CPU instead, by its public name; nil: none.
	Fallback func(op string) bool
	// Casts are the dtypes that arguments of an op are converted to before it, its
	// results back after it, by public name. Nil converts nothing, nor does a nil
	// result. Views and ops that are about dtypes are left alone.
	Casts func(op string) *Casts
}

// device is a device with Options.
type device struct {
	on  replay.Device
	opt Options
}

// New returns a device that runs calls on another.
func New(on replay.Device, opt Options) replay.Device {
	if opt.Fallback == nil && opt.Casts == nil {
		return on
	}
	return &device{on, opt}
}

// Run implements replay.Device.
func (d *device) Run(c *replay.DeviceCall) *replay.DeviceRun {
	if d.opt.Fallback != nil && d.opt.Fallback(c.Call.Name) {
		return &replay.DeviceRun{Forward: replay.DeviceStatus{Verdict: verdict.Skipped, Reason: verdict.FallsBack}}
	}
	if d.opt.Casts == nil {
		return d.on.Run(c)
	}
	table := d.opt.Casts(c.Call.Name)
	if table == nil || leftAlone(c.Call) {
		return d.on.Run(c)
	}
	x := newConversion(c, table)
	run := d.on.Run(x.call)
	if run.Forward.Verdict == verdict.Unsupported && len(run.Functions) == 0 { // it was not sent
		return run
	}
	x.back(run, c)
	return run
}

// leftAlone says that nothing is cast for a call: a method that op_tools takes for
// a view or a conversion, or a call that is told a dtype.
func leftAlone(c *opdef.Call) bool {
	told := false
	c.MapDTypes(func(dt tensor.DType) tensor.DType {
		told = true
		return dt
	})
	return told || c.Uncast()
}

// A conversion is a call whose arguments have other dtypes.
type conversion struct {
	call  *replay.DeviceCall
	casts map[tensor.DType]tensor.DType // of the dtypes that arguments had
	rows  []replay.DeviceCast           // of arguments and results
}

func newConversion(c *replay.DeviceCall, table *Casts) *conversion {
	// A result is cast back where an argument of its dtype was cast.
	x := &conversion{casts: map[tensor.DType]tensor.DType{}}
	for _, a := range c.Call.Tensors() {
		if dt, ok := table.To[a.Tensor.DType]; ok && !a.Tensor.Wrapped {
			x.casts[a.Tensor.DType] = dt
		}
	}
	call, f := *c, *c.Forward
	call.Call = c.Call.Map(func(a opdef.Arg) *tensor.Tensor {
		u := x.to(a.Tensor)
		if u != a.Tensor {
			x.rows = append(x.rows, replay.DeviceCast{Argument: a.Tensor, From: a.Tensor.DType, To: u.DType,
				Config: table.Config})
		}
		return u
	})
	f.Outs = make([]*tensor.Tensor, len(c.Forward.Outs))
	for i, t := range c.Forward.Outs {
		if t == nil {
			continue
		}
		f.Outs[i] = t
		if dt, ok := x.casts[t.DType]; ok {
			f.Outs[i] = opdef.Cast(t, dt)
			x.rows = append(x.rows, replay.DeviceCast{Output: i, From: dt, To: t.DType, Config: table.Config})
		}
	}
	call.Forward, call.GradOutputs = &f, nil
	for _, g := range c.GradOutputs {
		call.GradOutputs = append(call.GradOutputs, x.to(g))
	}
	x.call = &call
	return x
}

// to converts what goes to the device.
func (x *conversion) to(t *tensor.Tensor) *tensor.Tensor {
	if t == nil || t.Wrapped {
		return t
	}
	dt, ok := x.casts[t.DType]
	if !ok || dt == t.DType {
		return t
	}
	u := opdef.Cast(t, dt).Rounded()
	u.RequiresGrad = t.RequiresGrad
	return u
}

// back converts what the device gave to the dtypes of the call as it was recorded, and says
// in run what conversions were made.
func (x *conversion) back(run *replay.DeviceRun, c *replay.DeviceCall) {
	run.Casts = x.rows
	for _, r := range x.rows {
		if r.Argument == nil { // a result, back from the dtype it was computed in
			run.Round(replay.Forward, nil, r.To, r.From)
		} else {
			run.Round(replay.Forward, r.Argument, r.From, r.To)
		}
	}
	for i, g := range c.GradOutputs {
		if u := x.call.GradOutputs[i]; u != g {
			run.Round(replay.Backward, g, g.DType, u.DType)
		}
	}
	for i, t := range run.Outputs {
		if t != nil && i < len(c.Forward.Outs) && c.Forward.Outs[i] != nil {
			run.Outputs[i] = x.from(t, c.Forward.Outs[i].DType)
		}
	}
	for _, a := range c.Call.Tensors() {
		for _, ts := range [][]*tensor.Tensor{run.After[a.Name], run.Grads[a.Name]} {
			if i := max(a.Index, 0); i < len(ts) && ts[i] != nil {
				ts[i] = x.from(ts[i], a.Tensor.DType)
			}
		}
	}
}

// from converts what was computed in the dtype that want was cast to. A dtype that no cast
// explains is left for the comparison to see.
func (x *conversion) from(t *tensor.Tensor, want tensor.DType) *tensor.Tensor {
	if to, ok := x.casts[want]; !ok || t.DType != to || t.DType == want {
		return t
	}
	return opdef.Cast(t, want).Rounded()
}
