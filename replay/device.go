package replay

import (
	"fmt"
	"slices"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// compareDevicePasses runs the call on the device, as recorded and in the layouts
// of the stress test, and compares what it gives with the reference.
func (r *comparison) compareDevicePasses() {
	if why := r.bound.Random(); why != "" {
		r.addCall(verdict.Skipped, why)
		return
	}
	if len(r.fwd.Outs) == 0 && len(r.fwd.After) == 0 {
		r.addCall(verdict.Skipped, verdict.NoTensorReturned)
		return
	}
	c := r.DeviceCall(true)
	at := len(r.out.Results)
	first := r.passesOn(r.opt.Device, c)
	if rival := r.opt.Against; rival != nil {
		values, from := r.values, len(r.out.Results)
		second := r.passesOn(rival.Device, c)
		r.values = values // of the first device
		for i := from; i < len(r.out.Results); i++ {
			r.out.Results[i].of(rival.Name)
		}
		r.compareDevices(first, second)
	}
	for i := at; i < len(r.out.Results); i++ {
		r.out.Results[i].Source = "device"
	}
}

// passesOn runs the call on a device, as recorded and in other layouts, and compares. The
// values are those of the call as recorded.
func (r *comparison) passesOn(d Device, c *DeviceCall) []deviceValue {
	r.device, r.deviceValues = d, nil
	ran := r.runOnDevice(c, "")
	values := r.deviceValues
	if r.opt.Stress && ran {
		r.stress(c)
	}
	return values
}

// runOnDevice reports whether the forward pass ran.
func (r *comparison) runOnDevice(c *DeviceCall, layout string) bool {
	at := len(r.out.Results)
	run := r.device.Run(c)
	defer func() {
		for i := at; i < len(r.out.Results); i++ {
			r.out.Results[i].Layout, r.out.Results[i].Functions = layout, run.Functions
		}
	}()
	if layout == "" {
		r.out.Converted = r.out.Converted || run.Converted
		if r.out.Casts == nil { // of a second device they are the same
			r.castRows(run.Casts)
		}
	}
	if s := run.Forward; s.Verdict != "" {
		r.addCall(s.Verdict, s.Reason)
		return false
	}
	recorded := c
	c = r.asRounded(recorded, run, Forward)
	r.compareDeviceOutputs(c, recorded, run)
	r.compareDeviceArguments(c, run)
	if c.GradOutputs != nil {
		if s := run.Backward; s.Verdict != "" {
			r.addPhase(Backward, s.Verdict, s.Reason)
		} else {
			r.compareDeviceGradients(r.asRounded(recorded, run, Backward), recorded, run)
		}
	}
	for _, f := range run.Faults {
		r.addPhase(f.Phase, verdict.Fail, f.Reason)
	}
	switch {
	case len(r.out.Results) > at:
	case len(run.Functions) == 0:
		r.addCall(verdict.Skipped, verdict.NoDeviceCall)
	default:
		r.addCall(verdict.Unsupported, "the device gives none of the results")
	}
	return true
}

// asRounded is the call on the values that the device was given for a pass after
// conversions to a coarser dtype, with the results that the reference has for them.
func (r *comparison) asRounded(c *DeviceCall, run *DeviceRun, p Phase) *DeviceCall {
	rounded, _ := run.rounded(p)
	if len(rounded) == 0 {
		return c
	}
	done := map[*tensor.Tensor]*tensor.Tensor{} // the same tensor stays the same
	round := func(t *tensor.Tensor) *tensor.Tensor {
		to, ok := rounded[t]
		if !ok {
			return t
		}
		if done[t] == nil {
			u := *opdef.Cast(opdef.Cast(t, to).Rounded(), t.DType).Rounded()
			u.RequiresGrad = t.RequiresGrad
			done[t] = &u
		}
		return done[t]
	}
	d := *c
	d.Call = c.Call.Map(func(a opdef.Arg) *tensor.Tensor { return round(a.Tensor) })
	var err error
	if d.Forward, err = d.Call.Forward(); err != nil { // a value that only the exact argument has
		return c
	}
	d.GradOutputs = slices.Clone(c.GradOutputs)
	for i, g := range d.GradOutputs {
		if g != nil {
			d.GradOutputs[i] = round(g)
		}
	}
	return &d
}

// compareDeviceOutputs compares the results of c. The witness is about those of the call
// as it was recorded.
func (r *comparison) compareDeviceOutputs(c, asRecorded *DeviceCall, run *DeviceRun) {
	outs := run.Outputs
	_, precision := run.rounded(Forward)
	at := len(r.out.Results)
	recorded := tensorsOf(flatten(r.Record.Output))
	var got, want []value.Value
	failed := false
	given := make([]*tensor.Tensor, len(c.Forward.Outs))
	for i, w := range c.Forward.Outs {
		if i >= len(outs) || outs[i] == nil {
			continue
		}
		got, want = append(got, outs[i]), append(want, w)
		given[i] = outs[i]
		res := r.compareDevice(leaf(Forward, "output", i, len(c.Forward.Outs)), outs[i], w,
			c.Call.OutBound(c.Forward, i),
			precision)
		if asRecorded.Forward == r.fwd && i < len(recorded) && slices.Equal(recorded[i].Shape, w.Shape) &&
			slices.Equal(outs[i].Shape, w.Shape) {
			r.witness(res, outs[i], recorded[i], r.fwd.Outs[i])
		}
		failed = failed || res.Verdict == verdict.Fail
	}
	if failed {
		r.accept(r.out.Results[at:], got, want)
	}
	r.keep(given, c.Forward.Outs, at)
	if r.values.Output == nil && c == asRecorded && len(got) == len(c.Forward.Outs) {
		r.values.RecordedOutput, r.values.Output = got, want
	}
}

// compareDevice adds a comparison. A dtype that is not torch's is a failure: the
// next op would compute with it.
func (r *comparison) compareDevice(l label, got, want *tensor.Tensor, b opdef.Bound, precision tensor.DType) *Result {
	res := r.compareValue(l, got, want, b, precision)
	if got.DType != want.DType && res.Verdict != verdict.Fail {
		res.Verdict, res.Reason = verdict.Fail, fmt.Sprintf("dtype is %s, want %s", got.DType, want.DType)
	}
	if r.opt.Against != nil && res.Compared != nil {
		r.deviceValues = append(r.deviceValues, deviceValue{len(r.out.Results) - 1, got, want})
	}
	return res
}

func (r *comparison) witness(res *Result, got, recorded, want *tensor.Tensor) {
	if res.Compared == nil || !got.DType.Computable() || !recorded.DType.Computable() {
		return
	}
	res.Witness = newWitness(compare.RMSE(got, want), compare.RMSE(recorded, want), res.Compared.OpTools.Atol)
}

func (r *comparison) compareDeviceArguments(c *DeviceCall, run *DeviceRun) {
	_, precision := run.rounded(Forward)
	for _, a := range c.Call.Tensors() {
		got, want := run.After[a.Name], c.Forward.After[a.Name]
		i := max(a.Index, 0)
		if i >= len(want) || want[i] == nil || i >= len(got) || got[i] == nil {
			continue
		}
		res := r.compareDevice(keyword(a.String()), got[i], want[i], c.Call.AfterBound(a.Name, i, want[i]), precision)
		if res.Verdict != verdict.Pass {
			res.Parameter = r.Record.ParameterName(r.recorded(a.Tensor))
		}
	}
}

// recordedGradient is the recorded gradient of one of the arguments that want one; nil where none was recorded, or it
// may be that of another operator.
func (r *comparison) recordedGradient(a opdef.Arg, wanted []opdef.Arg) *tensor.Tensor {
	saved, at := flatten(r.Record.GradInputs), -1
	if r.Record.ByOpTools {
		if len(saved) == len(wanted) && !r.bound.Entry.Composite {
			at = slices.IndexFunc(wanted, func(b opdef.Arg) bool { return a.Name == b.Name && a.Index == b.Index })
		}
	} else if inputs := r.Record.Inputs(); len(inputs) == len(saved) {
		at = slices.Index(inputs, r.recorded(a.Tensor))
	}
	if at < 0 {
		return nil
	}
	if t, ok := saved[at].(*tensor.Tensor); ok && slices.Equal(t.Shape, a.Tensor.Shape) {
		return t
	}
	return nil
}

// wantGradients are the arguments that want a gradient of a device, in order.
func (c *Call) wantGradients() (wanted []opdef.Arg) {
	for _, a := range c.bound.Tensors() {
		if c.need[a.Name] && a.Tensor.RequiresGrad {
			wanted = append(wanted, a)
		}
	}
	return wanted
}

// compareDeviceGradients compares the gradients of c, numbered as the arguments that want one.
func (r *comparison) compareDeviceGradients(c, asRecorded *DeviceCall, run *DeviceRun) {
	grads := run.Grads
	_, precision := run.rounded(Backward)
	need := map[string]bool{}
	for _, name := range c.Need {
		need[name] = true
	}
	want, err := c.Call.Backward(c.Forward, c.GradOutputs, need)
	if err != nil {
		r.addPhase(Backward, verdict.Error, err.Error())
		return
	}
	kept := r.keeping(c.Call, c.Forward, c.GradOutputs, need)
	wanted := r.wantGradients()
	r.arguments = argumentsOf(wanted)
	given, due := make([]value.Value, len(wanted)), make([]value.Value, len(wanted))
	for i, a := range wanted {
		k := max(a.Index, 0)
		if k >= len(want[a.Name]) || want[a.Name][k] == nil {
			continue
		}
		if k >= len(grads[a.Name]) || grads[a.Name][k] == nil {
			r.add(leaf(Backward, "grad", i, len(wanted)), verdict.Unsupported,
				fmt.Sprintf("the device gives no gradient of %q", a.Name), nil)
			continue
		}
		given[i], due[i] = grads[a.Name][k], want[a.Name][k]
		compare := func(c *DeviceCall, want opdef.Grads) *Result {
			return r.compareDevice(leaf(Backward, "grad", i, len(wanted)), grads[a.Name][k], want[a.Name][k],
				c.Call.GradBound(c.Forward, c.GradOutputs, want, a.Name, k), precision)
		}
		res := compare(c, want)
		if recorded := r.recordedGradient(a, wanted); c == asRecorded && recorded != nil &&
			slices.Equal(given[i].(*tensor.Tensor).Shape, recorded.Shape) {
			r.witness(res, grads[a.Name][k], recorded, want[a.Name][k])
		}
		r.orOfKept(res, kept, func(call *opdef.Call, grads opdef.Grads) *Result {
			n, d := len(r.deviceValues), *c
			defer func() { r.deviceValues = r.deviceValues[:n] }()
			d.Call = call
			return compare(&d, grads)
		})
	}
	if r.values.GradInputs == nil && c == asRecorded {
		r.values.RecordedGradInputs, r.values.GradInputs = given, due
		r.values.RecordedGradOutputs = r.Record.GradOutputs
	}
}

func (r *comparison) castRows(casts []DeviceCast) {
	args := flatten(append(slices.Clone(r.Record.Args), value.Value(r.Record.Kwargs)))
	for _, c := range casts {
		target := fmt.Sprintf("output[%d]", c.Output)
		if c.Argument != nil {
			at := slices.IndexFunc(args, func(v value.Value) bool { return v == value.Value(c.Argument) })
			target = fmt.Sprintf("input[%d]", at)
		}
		r.out.Casts = append(r.out.Casts, CastRow{target, fmt.Sprintf("torch.%s -> torch.%s", c.From, c.To), c.Config})
	}
}
