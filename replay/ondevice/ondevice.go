// Package ondevice runs the calls that package replay repeats on a device
// library: it turns a call into C calls and says what became of it.
package ondevice

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/devicebridge/diopi/mapping"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// Options of New.
type Options struct {
	Repeat int // runs on the same inputs that must give the same bits; 0 is 1
	// Convert says which tensors the library wants in another dtype or layout; nil
	// is none.
	Convert *diopi.ConvertConfig
}

// A Device runs calls on a library. It is a replay.Device and may be used from
// several goroutines.
type Device struct {
	ctx     context.Context // of the run that the device was opened for
	library *devicebridge.Device
	opt     Options
	exports func(function string) bool // of the library
}

// New returns a Device that runs calls on a library until ctx ends.
func New(ctx context.Context, library *devicebridge.Device, opt Options) *Device {
	has := map[string]bool{}
	for _, f := range library.Info().Functions {
		has[f] = true
	}
	return &Device{ctx: ctx, library: library, opt: opt, exports: func(f string) bool { return has[f] }}
}

// Run implements replay.Device.
func (d *Device) Run(c *replay.DeviceCall) *replay.DeviceRun {
	run := &replay.DeviceRun{}
	p, err := d.Plan(c)
	if err != nil {
		run.Forward = replay.DeviceStatus{Verdict: verdict.Unsupported, Reason: err.Error()}
		return run
	}
	run.Converted = p.changed
	p.round(run)
	res, err := d.library.RunWith(d.ctx, p.Plan, devicebridge.Options{Repeat: d.opt.Repeat})
	if err != nil && d.ctx.Err() != nil {
		run.Forward = replay.DeviceStatus{Verdict: verdict.Skipped, Reason: "interrupted"}
		return run
	}
	if err != nil {
		run.Forward = replay.DeviceStatus{Verdict: verdict.Error, Reason: err.Error()}
		return run
	}
	p.fill(run, res)
	return run
}

// A Prepared is a call as the C calls that carry it out.
type Prepared struct {
	Plan *diopi.Plan

	call     *replay.DeviceCall
	args     map[string]string // schema names of the recipe's keywords
	backward string            // why there are no backward calls, where they were wanted
	// converted are the changes of dtype that Options.Convert makes in the plan.
	converted []diopi.Conversion
	changed   bool // by Options.Convert, layouts too
}

// Plan says which C calls carry out a call. The error says why it cannot run on
// a device.
func (d *Device) Plan(c *replay.DeviceCall) (*Prepared, error) {
	p := &Prepared{call: c}
	dc, err := mapping.NewCase(c.Call, c.Forward, c.GradOutputs, c.Need)
	if err != nil && len(c.Need) > 0 { // without gradients it may run
		p.backward = err.Error()
		dc, err = mapping.NewCase(c.Call, c.Forward, nil, nil)
	}
	if err != nil {
		return nil, err
	}
	dc.Case.DenseResults = !c.OutputsStrided
	if p.Plan, err = dc.Recipe.Plan(dc.Case); err != nil {
		return nil, err
	}
	p.args = dc.Args
	if c.OutputsTransposed {
		for _, a := range p.Plan.Outputs {
			if t, ok := a.(*diopi.Tensor); ok && t.Value == nil {
				t.Stride = columnMajor(t.Shape)
			}
		}
	}
	before := len(p.Plan.Calls)
	p.Plan, p.converted = d.opt.Convert.Apply(p.Plan, d.exports)
	p.changed = len(p.Plan.Calls) > before
	return p, nil
}

// Functions are the C functions that would carry out the forward pass of a call on
// a library that offers all. The error says why none can.
func Functions(c *replay.DeviceCall) ([]string, error) {
	mc, err := mapping.NewCase(c.Call, c.Forward, nil, nil)
	if err != nil {
		return nil, err
	}
	plan, err := mc.Recipe.Plan(mc.Case)
	if err != nil {
		return nil, err
	}
	return functions(plan), nil
}

// functions are the C functions that a plan calls, each once, in some passes or in all.
func functions(plan *diopi.Plan, of ...diopi.Phase) []string {
	var names []string
	for _, c := range plan.Calls {
		if len(of) > 0 && !slices.Contains(of, c.Phase) {
			continue
		}
		if !slices.Contains(names, c.Function) {
			names = append(names, c.Function)
		}
	}
	return names
}

func columnMajor(shape []int) []int {
	s, n := make([]int, len(shape)), 1
	for i, d := range shape {
		s[i] = n
		n *= max(d, 1)
	}
	return s
}

// fill says in run what became of the plan.
func (p *Prepared) fill(run *replay.DeviceRun, res *devicebridge.Result) {
	run.Functions, run.OfBackward = functions(p.Plan), functions(p.Plan, diopi.Backward)
	for i, c := range p.Plan.Calls {
		status := &run.Forward
		if c.Phase == diopi.Backward {
			status = &run.Backward
		}
		if r := &res.Calls[i]; r.Status != devicebridge.OK && status.Verdict == "" {
			status.Verdict, status.Reason = statusOf(r)
			status.Refused = status.Verdict == verdict.Unsupported && r.Reason != "the library has no "+r.Function
		}
	}
	if p.backward != "" {
		run.Backward = replay.DeviceStatus{Verdict: verdict.Skipped, Reason: p.backward}
	}
	for _, f := range res.Findings {
		phase := replay.Forward
		if p.Plan.Calls[f.Call].Phase == diopi.Backward {
			phase = replay.Backward
		}
		run.Faults = append(run.Faults, replay.DeviceFault{Phase: phase, Reason: p.Plan.Calls[f.Call].Function + ": " +
			f.String()})
	}
	if run.Forward.Verdict != "" {
		return
	}
	run.Outputs = p.outputs(res)
	for i, a := range p.results() {
		if alloc, ok := a.(*diopi.Alloc); ok && i < len(run.Outputs) && run.Outputs[i] == nil {
			run.Faults = append(run.Faults, replay.DeviceFault{Phase: replay.Forward, Reason: p.maker(alloc) +
				": it stores no tensor for " + alloc.Role})
		}
	}
	run.After = p.after(res)
	run.Grads = map[string][]*tensor.Tensor{}
	for _, g := range p.Plan.Grads {
		keyword, item := split(g.Name)
		name := p.args[keyword]
		t, ok := res.Tensor(g.Arg)
		if !ok || name == "" {
			continue
		}
		if g.Sum != nil {
			t = opdef.SumTo(t, g.Sum).Rounded()
		}
		list := run.Grads[name]
		for len(list) <= item {
			list = append(list, nil)
		}
		list[item] = t
		run.Grads[name] = list
	}
}

// maker is the function that makes a tensor.
func (p *Prepared) maker(a *diopi.Alloc) string {
	for _, c := range p.Plan.Calls {
		for _, arg := range c.Args {
			if arg == diopi.Arg(a) {
				return c.Function
			}
		}
	}
	return ""
}

// results are what holds the results: what the in-place calls write where there
// are any.
func (p *Prepared) results() []diopi.Arg {
	if p.Plan.InPlace != nil && p.call.Forward.Written {
		return []diopi.Arg{p.Plan.InPlace}
	}
	return p.Plan.Outputs
}

// outputs are the results; nil for those that the plan or the library does not give.
func (p *Prepared) outputs(res *devicebridge.Result) []*tensor.Tensor {
	args := p.results()
	outs := make([]*tensor.Tensor, len(p.call.Forward.Outs))
	for i := range outs {
		if i >= len(args) || args[i] == nil {
			continue
		}
		if t, ok := res.Tensor(args[i]); ok {
			outs[i] = t
		} else if o, ok := args[i].(*diopi.Out); ok {
			v, _ := res.Out(o)
			outs[i], _ = tensor.FromNumber(v)
		}
	}
	return outs
}

// after are the arguments that the op changes besides returning results.
func (p *Prepared) after(res *devicebridge.Result) map[string][]*tensor.Tensor {
	if len(p.call.Forward.After) == 0 {
		return nil
	}
	after := map[string][]*tensor.Tensor{}
	for _, c := range p.Plan.Calls {
		for _, a := range c.Args {
			t, ok := a.(*diopi.Tensor)
			if !ok || t.Value == nil {
				continue
			}
			keyword, item := split(t.Role)
			name := p.args[keyword]
			if _, changes := p.call.Forward.After[name]; !changes {
				continue
			}
			if now, ok := res.Tensor(t); ok {
				list := after[name]
				for len(list) <= item {
					list = append(list, nil)
				}
				list[item] = now
				after[name] = list
			}
		}
	}
	return after
}

// split takes "tensors[1]" apart; what has no index is item 0.
func split(role string) (keyword string, item int) {
	keyword, rest, ok := strings.Cut(role, "[")
	if ok {
		item, _ = strconv.Atoi(strings.TrimSuffix(rest, "]"))
	}
	return keyword, item
}

// round says in run what conversions to a coarser floating dtype the plan makes.
func (p *Prepared) round(run *replay.DeviceRun) {
	for _, c := range p.converted {
		phase := replay.Forward
		if c.Phase == diopi.Backward {
			phase = replay.Backward
		}
		run.Round(phase, c.Tensor.Value, c.From, c.To)
	}
}

// verdict is what a call that did not end well means.
func statusOf(r *devicebridge.CallResult) (verdict.Verdict, string) {
	reason := r.Reason
	if !strings.Contains(reason, r.Function) {
		reason = r.Function + ": " + reason
	}
	switch r.Status {
	case devicebridge.Unsupported:
		return verdict.Unsupported, reason
	case devicebridge.Threw, devicebridge.Crashed, devicebridge.Exited:
		return verdict.Crash, reason
	case devicebridge.TimedOut:
		return verdict.Timeout, reason
	case devicebridge.NotRun:
		return verdict.Skipped, reason
	}
	return verdict.Fail, reason
}
