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

// A Device runs calls on something other than the reference.
type Device interface {
	Run(c *DeviceCall) *DeviceRun
}

// A DeviceCall is what a Device is to do.
type DeviceCall struct {
	Call *opdef.Call
	// Forward is what the reference gave: it tells dtypes and shapes of results.
	Forward *opdef.Forward
	// GradOutputs are the gradients of the results, nil for one that has none; nil
	// altogether for a forward pass alone.
	GradOutputs []*tensor.Tensor
	// Need are the arguments whose gradients are wanted, by schema name.
	Need []string
	// OutputsTransposed asks for results in memory laid out with the first
	// dimension running fastest.
	OutputsTransposed bool
	// OutputsStrided asks for results with gaps between their elements where an argument
	// has some; else they are dense, as PyTorch makes them.
	OutputsStrided bool
}

// A DeviceRun is what a Device did.
type DeviceRun struct {
	Functions []string // of the library that were called
	// Forward and Backward say how the passes ended.
	Forward, Backward DeviceStatus
	Outputs           []*tensor.Tensor            // like Forward.Outs; nil for a result the device does not give
	After             map[string][]*tensor.Tensor // arguments that were changed, by schema name
	Grads             map[string][]*tensor.Tensor // by schema name
	Faults            []DeviceFault
	Casts             []DeviceCast
	Converted         bool // arguments got the dtypes or layouts that the library wants
	// Rounded are the conversions to a coarser floating dtype. The device is judged
	// as having computed in it, on what it was given.
	Rounded []DeviceRounding
}

// A DeviceRounding is a conversion for a pass to a coarser floating dtype: of an
// argument or the gradient of a result before it, or of something it computes.
type DeviceRounding struct {
	Phase  Phase
	Tensor *tensor.Tensor // nil for what it computes
	To     tensor.DType
}

// Round notes a conversion for a pass, of an argument, of the gradient of a result, or of
// what is computed (nil), if it is to a coarser floating dtype.
func (d *DeviceRun) Round(p Phase, t *tensor.Tensor, from, to tensor.DType) {
	if from.Eps() != 0 && from.Eps() < to.Eps() {
		d.Rounded = append(d.Rounded, DeviceRounding{Phase: p, Tensor: t, To: to})
	}
}

// rounded says in what dtype what is known before a pass was given to the device,
// and the coarsest dtype that it computed in; the zero value if that is as recorded.
func (d *DeviceRun) rounded(p Phase) (given map[*tensor.Tensor]tensor.DType, precision tensor.DType) {
	given = map[*tensor.Tensor]tensor.DType{}
	for _, x := range d.Rounded {
		if x.Phase != Forward && x.Phase != p {
			continue
		}
		if x.Tensor != nil {
			given[x.Tensor] = x.To
		}
		if precision == tensor.Invalid || precision.Eps() < x.To.Eps() {
			precision = x.To.Real()
		}
	}
	return given, precision
}

// A DeviceCast is a conversion that was asked for: of an argument before the
// call, or of a result back after it.
type DeviceCast struct {
	Argument *tensor.Tensor // nil for a result
	Output   int
	From, To tensor.DType
	Config   string // what asked for it
}

// A CastRow is op_tools' row of a conversion.
type CastRow struct{ Target, Action, Config string }

// A DeviceStatus is the zero value for a pass that ran, else why it did not.
type DeviceStatus struct {
	Verdict verdict.Verdict // unsupported, fail, crash, timeout, error, skipped
	Reason  string
}

// A CallError says that a device does not carry out a call that is to be measured: it
// has no function for it, or the function fails, dies or does not come back.
type CallError struct {
	Verdict verdict.Verdict
	Reason  string
}

func (e *CallError) Error() string { return e.Reason }

// A DeviceFault is something an operator must not do: write outside of its
// results, change its inputs, give other bits for the same inputs.
type DeviceFault struct {
	Phase  Phase
	Reason string
}

// A Witness compares the device with what was recorded, both against the
// reference.
type Witness struct {
	Device, Recorded float64 // root mean squared errors
	Verdict          string  // better, same, worse
}

// witnessFactor is how many times one error must exceed the other, and tolerance
// share what it may do so anyhow: PyTorch's rule for compiled against eager results.
const (
	witnessFactor    = 3
	witnessTolerance = 0.1 // of atol
)

func newWitness(device, recorded, atol float64) *Witness {
	w := &Witness{Device: device, Recorded: recorded, Verdict: "same"}
	slack := witnessTolerance * atol
	switch {
	case !(device <= witnessFactor*recorded+slack):
		w.Verdict = "worse"
	case recorded > witnessFactor*device+slack:
		w.Verdict = "better"
	}
	return w
}

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
			r.compareDeviceGradients(r.asRounded(recorded, run, Backward), run)
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
	for i, w := range c.Forward.Outs {
		if i >= len(outs) || outs[i] == nil {
			continue
		}
		got, want = append(got, outs[i]), append(want, w)
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
		r.compareDevice(keyword(a.Name), got[i], want[i], c.Call.AfterBound(a.Name, i, want[i]), precision)
	}
}

// compareDeviceGradients compares the gradients, numbered as the arguments that want one.
func (r *comparison) compareDeviceGradients(c *DeviceCall, run *DeviceRun) {
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
	var wanted []opdef.Arg
	for _, a := range c.Call.Tensors() {
		if need[a.Name] && a.Tensor.RequiresGrad {
			wanted = append(wanted, a)
		}
	}
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
		r.compareDevice(leaf(Backward, "grad", i, len(wanted)), grads[a.Name][k], want[a.Name][k],
			c.Call.GradBound(c.Forward, c.GradOutputs, want, a.Name, k), precision)
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
