package reference

import (
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Yield is what a device of operators gives for a case.
type Yield struct {
	Reference
	// InPlace is what the in-place form gives, nil where the case wants none or the
	// operator has none; InPlaceErr is why it gives nothing.
	InPlace    value.Value
	InPlaceErr error
	Faults     []replay.DeviceFault
}

// A DeviceError is how a call ended that the device did not carry out.
type DeviceError struct {
	Phase   replay.Phase
	Verdict verdict.Verdict
	Reason  string
}

func (e *DeviceError) Error() string { return e.Reason }

// ComputeOn is Compute on a device, which is given the operators' calls that the case is
// made of, one after the other. Random functions run forward alone.
func ComputeOn(d replay.Device, c *configs.Case, kwargs *value.Dict, cotangents Cotangents) (*Yield, error) {
	m := &machine{device: d}
	p := &pipe{on: m}
	ref, err := p.compute(c, kwargs, cotangents, nil)
	y := &Yield{}
	if err == nil {
		y.Reference = *ref
		if c.InPlace() && len(p.stages) == 1 {
			y.InPlace, y.InPlaceErr = m.inPlace(p.stages[0].call)
		}
	}
	y.Faults = m.faults
	return y, err
}

// counterparts are functions that compute what others compute which no module of Python has.
var counterparts = map[string]string{"diopi.sgd": "torch._fused_sgd_"}

// A machine computes calls on a device.
type machine struct {
	device replay.Device
	faults []replay.DeviceFault
}

// forward gives the device's results in the place of those of f.
func (m *machine) forward(c *opdef.Call, f *opdef.Forward) (*opdef.Forward, error) {
	run, err := m.run(&replay.DeviceCall{Call: c.Unwritten(), Forward: f})
	if err != nil {
		return nil, err
	}
	g := *f
	g.Outs, g.After = run.Outputs, run.After
	if len(f.Outs) == 0 && len(f.After) == 0 { // a number
		if len(run.Outputs) != 1 {
			return nil, &DeviceError{replay.Forward, verdict.Unsupported, c.Name + " gives no number"}
		}
		g.Outs, g.Value = nil, run.Outputs[0]
	}
	return &g, nil
}

// backward are the gradients of the arguments that want one; the device runs both passes.
func (m *machine) backward(c *opdef.Call, f *opdef.Forward, from []*tensor.Tensor) (opdef.Grads, error) {
	dc := &replay.DeviceCall{Call: c.Unwritten(), Forward: f, GradOutputs: from}
	for _, a := range c.Tensors() {
		if a.Tensor.RequiresGrad && !slices.Contains(dc.Need, a.Name) {
			dc.Need = append(dc.Need, a.Name)
		}
	}
	run, err := m.run(dc)
	if err != nil {
		return nil, err
	}
	if s := run.Backward; s.Verdict != "" {
		return nil, &DeviceError{replay.Backward, s.Verdict, s.Reason}
	}
	return run.Grads, nil
}

// inPlace runs the in-place form of a call, if there is one.
func (m *machine) inPlace(c *opdef.Call) (value.Value, error) {
	i := slices.IndexFunc(c.Entry.Names, func(name string) bool {
		return strings.HasPrefix(name, "torch.Tensor.") && opdef.IsInPlaceName(name)
	})
	if !c.Entry.InPlace || i < 0 || c.InPlace() {
		return nil, nil
	}
	d := c.Unwritten().As(c.Entry.Names[i])
	f, err := d.Forward()
	if err != nil { // its dtype or shape does not fit into the argument
		return nil, nil
	}
	run, err := m.run(&replay.DeviceCall{Call: d, Forward: f})
	if err != nil || len(run.Outputs) == 0 || run.Outputs[0] == nil {
		return nil, err
	}
	return run.Outputs[0], nil
}

// run carries out a call; an error is a DeviceError about its forward pass.
func (m *machine) run(c *replay.DeviceCall) (*replay.DeviceRun, error) {
	if name := counterparts[c.Call.Name]; name != "" {
		c.Call = c.Call.As(name)
	}
	run := m.device.Run(c)
	m.faults = append(m.faults, run.Faults...)
	if s := run.Forward; s.Verdict != "" {
		return nil, &DeviceError{replay.Forward, s.Verdict, s.Reason}
	}
	return run, nil
}
