// Package devicecheck runs the checks of package opcheck on a device library: one
// suite for the reference and for devices.
package devicecheck

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/ops/opcheck"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// Suite is the suite of checks for a device: values under the error model, layouts,
// forms of calls and writing in place.
func Suite(d replay.Device, registry *opdef.Registry) *opcheck.Suite {
	return &opcheck.Suite{Runner: &Runner{Device: d}, Rounds: true, Registry: registry,
		Only: []string{"cases", "reference", "inputs", "binding", "inplace"}}
}

// A Runner runs calls on a device. It is an opcheck.Runner: what the device cannot
// run is an opcheck.UnsupportedError.
type Runner struct {
	Device replay.Device
	// Plain is the processor of PyTorch with its own functions, nil if the device is none of PyTorch: what these
	// refuse, too, is no fault of the device.
	Plain replay.Device

	mu                sync.Mutex // a check that takes too long runs on
	last              *replay.DeviceRun
	absent            map[string]bool // names of operators for which the device has no function
	forward, backward []string        // functions that were called: see Called
}

// Called implements opcheck.Namer. Of a call that was not sent to the device, no function was called.
func (r *Runner) Called() (forward, backward []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	forward, backward = r.forward, r.backward
	r.forward, r.backward = nil, nil
	return forward, backward
}

// Last implements opcheck.Namer.
func (r *Runner) Last() (forward, backward []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ofLast()
}

func (r *Runner) ofLast() (forward, backward []string) {
	if r.last == nil {
		return nil, nil
	}
	forward = slices.DeleteFunc(slices.Clone(r.last.Functions), func(f string) bool {
		return slices.Contains(r.last.OfBackward, f)
	})
	return forward, r.last.OfBackward
}

// called takes note of the functions of a run.
func (r *Runner) called(run *replay.DeviceRun) {
	add := func(to *[]string, names []string) {
		for _, f := range names {
			if !slices.Contains(*to, f) {
				*to = append(*to, f)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = run
	forward, backward := r.ofLast()
	add(&r.forward, forward)
	add(&r.backward, backward)
}

// Forward runs the call on the device; the results have its dtypes, values and
// strides. Calls that torch refuses are refused by the reference.
func (r *Runner) Forward(c *opdef.Call) (*opdef.Forward, error) {
	f, err := c.Forward()
	if err != nil {
		return nil, err
	}
	run, err := r.run(&replay.DeviceCall{Call: c, Forward: f})
	if err != nil {
		return nil, err
	}
	got := *f
	got.Outs, got.After = nil, nil
	for i, t := range run.Outputs[:min(len(run.Outputs), len(f.Outs))] { // a setter has no results
		if t == nil && f.Outs[i].Numel() == 0 {
			return nil, lacks("the result has no elements, so no function was called")
		}
		if t == nil {
			return nil, lacks("the device gives no result %d", i)
		}
		got.Outs = append(got.Outs, t)
	}
	if len(got.Outs) < len(f.Outs) {
		return nil, lacks("the device gives %d of %d results", len(got.Outs), len(f.Outs))
	}
	if len(run.After) > 0 {
		got.After = run.After
	}
	return &got, nil
}

// Backward runs both passes of the call on the device.
func (r *Runner) Backward(c *opdef.Call, _ *opdef.Forward, out []*tensor.Tensor, need map[string]bool) (opdef.Grads,
	error) {
	f, err := c.Forward()
	if err != nil {
		return nil, err
	}
	dc := &replay.DeviceCall{Call: c, Forward: f, GradOutputs: out}
	asked := map[string]bool{}
	for _, a := range c.Tensors() {
		wanted := a.Tensor.RequiresGrad && (need == nil || need[a.Name])
		if wanted && !asked[a.Name] {
			asked[a.Name] = true
			dc.Need = append(dc.Need, a.Name)
		}
	}
	run, err := r.run(dc)
	if err != nil {
		return nil, err
	}
	if s := run.Backward; s.Verdict != "" {
		return nil, statusError(s)
	}
	return run.Grads, nil
}

func (r *Runner) run(c *replay.DeviceCall) (*replay.DeviceRun, error) {
	run := r.runNamed(c)
	r.called(run)
	if s := run.Forward; s.Verdict != "" {
		return nil, statusError(s)
	}
	if len(run.Faults) > 0 {
		return nil, fmt.Errorf("%s", run.Faults[0].Reason)
	}
	return run, nil
}

// runNamed runs a call by its name, or by the first other name of its operator that the device has.
func (r *Runner) runNamed(c *replay.DeviceCall) *replay.DeviceRun {
	var first *replay.DeviceRun
	for _, name := range otherNames(c.Call) {
		if r.lacksName(name) && (name != c.Call.Name || len(c.Call.Entry.Names) > 1) {
			continue
		}
		named := *c
		named.Call = c.Call.As(name)
		run := r.Device.Run(&named)
		if fewer := r.without(run, &named); fewer != nil {
			named = *fewer
			run = r.Device.Run(fewer)
		}
		if !run.Forward.Absent {
			r.excuse(run, &named)
			return run
		}
		if first == nil {
			first = run
		}
		r.mu.Lock()
		if r.absent == nil {
			r.absent = map[string]bool{}
		}
		r.absent[name] = true
		r.mu.Unlock()
	}
	if first == nil {
		first = r.Device.Run(c)
	}
	return first
}

// excuse takes an error of a pass for a refusal of its arguments if PyTorch's own function gives one for them, too.
func (r *Runner) excuse(run *replay.DeviceRun, c *replay.DeviceCall) {
	failed := func(s replay.DeviceStatus) bool { return s.Verdict == verdict.Error && !lacksArgument(s.Reason) }
	if r.Plain == nil || c.Call.Entry.Place != "" || !failed(run.Forward) && !failed(run.Backward) {
		return
	}
	plain := r.Plain.Run(c)
	for s, p := range map[*replay.DeviceStatus]replay.DeviceStatus{&run.Forward: plain.Forward,
		&run.Backward: plain.Backward} {
		if failed(*s) && (failed(p) || failed(plain.Forward)) {
			*s = replay.DeviceStatus{Verdict: verdict.Unsupported, Refused: true,
				Reason: "torch itself refuses it on the CPU: " + p.Reason}
		}
	}
}

// without is a call without the argument that a function refuses, nil if it refuses none, or if PyTorch's own function
// of that name takes it. The results are the same without it.
func (r *Runner) without(run *replay.DeviceRun, c *replay.DeviceCall) *replay.DeviceCall {
	name := unexpected(run.Forward)
	if name == "" || r.Plain == nil || unexpected(r.Plain.Run(c).Forward) != name {
		return nil
	}
	fewer := *c
	if fewer.Call = c.Call.Without(name); fewer.Call == nil {
		return nil
	}
	f, err := fewer.Call.Forward()
	if err != nil || len(f.Outs) != len(c.Forward.Outs) {
		return nil
	}
	for i, t := range f.Outs {
		of := c.Forward.Outs[i]
		if !slices.Equal(t.Shape, of.Shape) || t.DType != of.DType || compare.RMSE(t, of) != 0 {
			return nil
		}
	}
	return &fewer
}

var unexpectedArgument = lazyregexp.New(`^TypeError: .* got an unexpected keyword argument '(\w+)'`)

// unexpected is the name of the argument that a function refuses, "" if that is not why a pass did not run.
func unexpected(s replay.DeviceStatus) string {
	if m := unexpectedArgument().FindStringSubmatch(s.Reason); m != nil && s.Verdict != "" {
		return m[1]
	}
	return ""
}

func (r *Runner) lacksName(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.absent[name]
}

// otherNames are the name of a call, and those that mean the same: a form that writes in place has one name.
func otherNames(c *opdef.Call) []string {
	names := []string{c.Name}
	if c.InPlace() || opdef.IsInPlaceName(c.Name) {
		return names
	}
	for _, n := range c.Entry.Names {
		if n != c.Name && !opdef.IsInPlaceName(n) {
			names = append(names, n)
		}
	}
	return names
}

func lacks(format string, args ...any) error {
	return &opcheck.UnsupportedError{Reason: fmt.Sprintf(format, args...)}
}

// A hungError says which function did not return.
type hungError string

func (e hungError) Error() string        { return string(e) }
func (e hungError) Is(target error) bool { return target == opcheck.ErrHung }

// statusError is why a pass did not run.
func statusError(s replay.DeviceStatus) error {
	switch {
	case s.Verdict == verdict.Unsupported || s.Verdict == verdict.Skipped:
		return &opcheck.UnsupportedError{Reason: s.Reason, Refused: s.Refused}
	case lacksArgument(s.Reason):
		return &opcheck.UnsupportedError{Reason: "the function does not take the arguments so: " + s.Reason, Form: true}
	case s.Verdict == verdict.Timeout:
		return hungError(s.Reason)
	case s.Verdict == verdict.Fail: // the reason says that it failed
		return errors.New(s.Reason)
	}
	return fmt.Errorf("%s: %s", s.Verdict, s.Reason)
}

// lacksArgument reports whether an error says that the function does not take an argument: Python's words, and those of
// the schemas of torch.library and of torch.ops.
func lacksArgument(reason string) bool {
	if of, ok := strings.CutPrefix(reason, "RuntimeError: "); ok {
		of = strings.ToLower(of)
		return slices.ContainsFunc([]string{"unknown keyword argument", "failed to match any schema",
			"() expected at most", "() is missing value for argument"}, func(words string) bool {
			return strings.Contains(of, words)
		})
	}
	return strings.HasPrefix(reason, "TypeError: ") && strings.Contains(reason, "argument")
}
