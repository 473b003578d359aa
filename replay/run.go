package replay

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Run replays one capture. It never panics and always gives at least one result.
func Run(e *capture.Entry, opt Options) *Outcome {
	c := Open(e, opt)
	defer c.Close()
	return c.Compare()
}

// Compare runs the call and compares what was recorded with it, or what a device
// gives. It never panics and always gives at least one result. The outcome owns
// what it says; Values has the tensors behind it.
func (c *Call) Compare() *Outcome {
	r := &comparison{Call: c, out: &Outcome{Op: c.Op}}
	r.guard(r.run)
	r.skipParts()
	_ = Guard(func() error { r.compareSides(); return nil }) // an unreadable copy is compare's to report
	c.values = r.values
	r.out.NotFinite = c.notFinite()
	_ = Guard(func() error { c.retryWarnings(r.out); return nil })
	if r.out.toleranceDecided() {
		plain := *c
		plain.opt.Tolerances, plain.opt.Runs = nil, 1 // the reference ran already, as often as it is to
		d := &comparison{Call: &plain, out: &Outcome{Op: c.Op}}
		d.guard(d.run)
		plain.values = d.values
		_ = Guard(func() error { plain.retryWarnings(d.out); return nil })
		r.out.note(d.out)
	}
	return r.out
}

// On compares what a device gives with the reference, as Compare does with Options.Device.
// Values stay those of Compare.
func (c *Call) On(d Device) *Outcome {
	on := *c
	on.opt.Device = d
	return on.Compare()
}

// toleranceDecided reports whether a tolerance that was asked for decided any verdict.
func (o *Outcome) toleranceDecided() bool {
	return slices.ContainsFunc(o.Results, func(r Result) bool { return r.Compared != nil && r.Compared.Setting != "" })
}

// note says in the results where their verdicts differ from those of the same call
// without tolerances that were asked for.
func (o *Outcome) note(plain *Outcome) {
	for i := range o.Results {
		r := &o.Results[i]
		if r.Compared == nil || r.Compared.Setting == "" {
			continue
		}
		k := slices.IndexFunc(plain.Results, func(p Result) bool {
			return p.Phase == r.Phase && p.Target == r.Target && p.Layout == r.Layout && p.Device == r.Device
		})
		if k >= 0 && plain.Results[k].Verdict != r.Verdict {
			r.Default, r.Setting = plain.Results[k].Verdict, r.Compared.Setting
		}
	}
}

// Values are the tensors that Compare compared, until Close. Reading them can
// panic: use Guard.
func (c *Call) Values() Values { return c.values }

func (r *comparison) run() {
	if r.Record.Err(capture.Input) == nil && r.loadErr != nil {
		for _, k := range capture.Kinds() { // a broken file: say so, then do what can be done
			var fe *capture.FileError
			if errors.As(r.Record.Err(k), &fe) {
				r.addInvalid(fe)
			}
		}
	}
	if r.err != nil {
		r.addStop(r.err)
		return
	}
	r.compareCall()
	r.sayVersion()
	r.tryReadings()
}

// skipParts skips the results that differ where values are parts of DTensors: the result's part need not follow
// from the parts of the arguments, which the call may have moved between processes.
func (r *comparison) skipParts() {
	if r.Record == nil || r.Record.Placed == "" || r.opt.Device != nil {
		return
	}
	for i := range r.out.Results {
		switch res := &r.out.Results[i]; res.Verdict {
		case verdict.Fail, verdict.Warn, verdict.Error:
			res.Verdict = verdict.Skipped
			res.Reason = "only this process's parts of DTensors (" + r.Record.Placed + ") were recorded"
		}
	}
}

// compareCall runs the bound call and compares.
func (r *comparison) compareCall() {
	if r.fwd == nil {
		if r.misshaped() {
			return
		}
		if err := r.start(); err != nil {
			r.addRefusal(err)
			return
		}
	}
	for range r.opt.Runs - 1 {
		if err := r.repeatForward(); err != nil {
			r.addCall(verdict.Error, err.Error())
			return
		}
	}
	if r.opt.Device != nil {
		r.compareDevicePasses()
		r.nameGradients()
		return
	}
	if r.Record.Err(capture.Output) != nil {
		if r.loadErr == nil {
			r.addCall(verdict.Skipped, cmp.Or(r.raised(), r.noResult()))
		}
	} else {
		r.compareResults()
	}
	if !r.opt.ForwardOnly && r.Record.Has(capture.GradInputs) && r.Record.Has(capture.GradOutputs) {
		r.guard(r.compareGradients)
		r.nameGradients()
	}
	if len(r.out.Results) == 0 {
		r.addCall(verdict.Skipped, verdict.NothingReturned)
	}
}

// lazyShapeLimit: where an argument has more elements, shapes are compared before any element is computed.
const lazyShapeLimit = 1 << 24

// misshaped adds a failure where the recorded result has not the shape that is known beforehand, of a
// call that takes long to compute.
func (r *comparison) misshaped() bool {
	shape, known := r.bound.Shape()
	if !known || r.opt.Device != nil || r.Record.Err(capture.Output) != nil ||
		!slices.ContainsFunc(r.bound.Tensors(), func(a opdef.Arg) bool { return a.Tensor.Numel() > lazyShapeLimit }) {
		return false
	}
	got, ok := append(flatten(r.Record.Output), nil)[0].(*tensor.Tensor)
	if !ok || slices.Equal(got.Shape, shape) {
		return false
	}
	r.compareValue(leaf(Forward, "output", 0, len(flatten(r.Record.Output))), got, tensor.Full(got.DType, shape, 0.0),
		opdef.Bound{}, tensor.Invalid)
	return true
}

// repeatForward runs the forward pass once more and demands the same bits.
func (r *comparison) repeatForward() error {
	f, err := r.bound.Forward()
	if err != nil {
		return err
	}
	for i, t := range f.Outs {
		if !bytes.Equal(t.AppendBytes(nil), r.fwd.Outs[i].AppendBytes(nil)) {
			return fmt.Errorf("output %d of the reference differs between two runs", i)
		}
	}
	return nil
}
