// Package coverage asks which operators a device runs, dtype by dtype: of small calls that
// the operators' own examples give, or of recorded ones. Values are not compared.
package coverage

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// most is how many calls of an operator with a dtype are tried; one that runs suffices.
const most = 3

// unknown is the dtype of a call without tensors.
const unknown = "no tensor"

// A Trial is whether a device runs an operator with a dtype.
type Trial struct {
	DType     string
	Functions []string // of the device that were called
	Err       error    // why it does not run; nil: it does
}

// Try runs small calls of an operator, forward, with each dtype that the reference takes.
func Try(d replay.Device, e *opdef.Entry) []Trial {
	samples := samplesOf(e)
	var first []Trial
	for _, name := range functionsOf(e) {
		trials, ran := try(d, samples, name)
		if ran {
			return trials
		}
		if first == nil {
			first = trials
		}
	}
	return first
}

// functionsOf are the names under which an operator may be called: in-place forms only if it
// has no other.
func functionsOf(e *opdef.Entry) []string {
	names := slices.DeleteFunc(slices.Clone(e.Names), opdef.IsInPlaceName)
	if len(names) == 0 {
		return e.Names
	}
	return names
}

// try calls the operator by one name.
func try(d replay.Device, samples []sample, name string) (trials []Trial, ran bool) {
	for _, s := range samples {
		t := Trial{DType: s.dtype}
		for _, c := range s.calls {
			functions, err := Run(d, &replay.DeviceCall{Call: c.As(name), Forward: s.forward[c]})
			if err == nil {
				t.Functions, t.Err, ran = functions, nil, true
				break
			}
			if t.Err == nil {
				t.Err = err
			}
		}
		trials = append(trials, t)
	}
	return trials, ran
}

// Run runs the forward pass of a call on the device and returns the functions that were
// called; the error says why it does not run.
func Run(d replay.Device, c *replay.DeviceCall) ([]string, error) {
	run := d.Run(&replay.DeviceCall{Call: c.Call, Forward: c.Forward})
	if s := run.Forward; s.Verdict != "" {
		return nil, errors.New(s.Reason)
	}
	return run.Functions, nil
}

// A sample is calls of an operator with one dtype that the reference takes.
type sample struct {
	dtype   string
	calls   []*opdef.Call
	forward map[*opdef.Call]*opdef.Forward
}

// families are the dtypes that a call is tried with in the place of the one it has.
var families = [][]tensor.DType{
	tensor.Floats(),
	{tensor.Complex128, tensor.Complex64},
	{tensor.Int64, tensor.Int32, tensor.Int16, tensor.Int8, tensor.Uint8},
}

// samplesOf are small calls of an operator by dtype.
func samplesOf(e *opdef.Entry) []sample {
	var samples []sample
	for _, c := range e.Cases(rand.New(rand.NewPCG(1, 1))) {
		for _, v := range variants(c) {
			f, err := forward(v)
			if err != nil {
				continue // not with this dtype
			}
			dtype := DTypeOf(v, f)
			i := slices.IndexFunc(samples, func(s sample) bool { return s.dtype == dtype })
			if i < 0 {
				i = len(samples)
				samples = append(samples, sample{dtype: dtype, forward: map[*opdef.Call]*opdef.Forward{}})
			}
			if s := &samples[i]; len(s.calls) < most {
				s.calls = append(s.calls, v)
				s.forward[v] = f
			}
		}
	}
	return samples
}

func forward(c *opdef.Call) (f *opdef.Forward, err error) {
	err = replay.Guard(func() error {
		f, err = c.Forward()
		return err
	})
	return f, err
}

// variants are a call and, with other dtypes of the same family, calls like it.
func variants(c *opdef.Call) []*opdef.Call {
	calls := []*opdef.Call{c}
	from, ok := principal(c)
	if !ok {
		return calls
	}
	for _, family := range families {
		if !slices.Contains(family, from) {
			continue
		}
		for _, to := range family {
			if to != from {
				calls = append(calls, c.Map(func(a opdef.Arg) *tensor.Tensor {
					if a.Tensor == nil || a.Tensor.DType != from || a.Tensor.Wrapped {
						return a.Tensor
					}
					return opdef.Cast(a.Tensor, to).Rounded()
				}))
			}
		}
	}
	return calls
}

// principal is the dtype of the first of the arguments that have the widest kind: of an
// embedding that of its weight, not of its indices.
func principal(c *opdef.Call) (dt tensor.DType, ok bool) {
	for _, a := range c.Tensors() {
		if !ok || a.Tensor.DType.Kind() > dt.Kind() {
			dt, ok = a.Tensor.DType, true
		}
	}
	return dt, ok
}

// DTypeOf is the dtype that a call is counted under: that of its arguments, else of its
// results.
func DTypeOf(c *opdef.Call, f *opdef.Forward) string {
	if dt, ok := principal(c); ok {
		return dt.String()
	}
	for _, t := range f.Outs {
		if t != nil {
			return t.DType.String()
		}
	}
	return unknown
}
