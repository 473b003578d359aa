package ondevice

import (
	"errors"
	"fmt"
	"strings"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// Casts are dtypes that arguments are converted to before a call, results back.
type Casts struct {
	Config string // as the user wrote it
	Source string // the flag or variable that it was written to
	To     map[tensor.DType]tensor.DType
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

// cast converts arguments, results and gradients of a call as the options say.
func (d *Device) cast(c *replay.DeviceCall, p *Prepared) (*opdef.Call, *opdef.Forward, []*tensor.Tensor) {
	if d.opt.Casts == nil {
		return c.Call, c.Forward, c.GradOutputs
	}
	table := d.opt.Casts(c.Call.Name)
	if table == nil || leftAlone(c.Call) {
		return c.Call, c.Forward, c.GradOutputs
	}
	// A result is cast back where an argument of its dtype was cast.
	casts := map[tensor.DType]tensor.DType{}
	for _, a := range c.Call.Tensors() {
		if dt, ok := table.To[a.Tensor.DType]; ok && !a.Tensor.Wrapped {
			casts[a.Tensor.DType] = dt
		}
	}
	p.casts = casts
	to := func(t *tensor.Tensor) *tensor.Tensor {
		if t == nil || t.Wrapped {
			return t
		}
		dt, ok := casts[t.DType]
		if !ok || dt == t.DType {
			return t
		}
		u := opdef.Cast(t, dt).Rounded()
		u.RequiresGrad = t.RequiresGrad
		return u
	}
	call := c.Call.Map(func(a opdef.Arg) *tensor.Tensor {
		u := to(a.Tensor)
		if u != a.Tensor {
			p.cast = append(p.cast, replay.DeviceCast{Argument: a.Tensor, From: a.Tensor.DType, To: u.DType,
				Config: table.Config})
		}
		return u
	})
	f := *c.Forward
	f.Outs = make([]*tensor.Tensor, len(c.Forward.Outs))
	for i, t := range c.Forward.Outs {
		if t == nil {
			continue
		}
		f.Outs[i] = t
		if dt, ok := casts[t.DType]; ok {
			f.Outs[i] = opdef.Cast(t, dt)
			p.cast = append(p.cast, replay.DeviceCast{Output: i, From: dt, To: t.DType, Config: table.Config})
		}
	}
	var cotangents []*tensor.Tensor
	p.grads = map[*tensor.Tensor]tensor.DType{}
	for _, g := range c.GradOutputs {
		u := to(g)
		if u != g {
			p.grads[g] = u.DType
		}
		cotangents = append(cotangents, u)
	}
	return call, &f, cotangents
}

// rounded says in run what conversions to a coarser floating dtype were made.
func (p *Prepared) rounded(run *replay.DeviceRun) {
	note := func(t *tensor.Tensor, from, to tensor.DType, phase replay.Phase) {
		if from.Eps() == 0 || from.Eps() >= to.Eps() {
			return
		}
		run.Rounded = append(run.Rounded, replay.DeviceRounding{Phase: phase, Tensor: t, To: to})
	}
	for _, c := range p.cast {
		if c.Argument == nil { // a result, back from the dtype it was computed in
			note(nil, c.To, c.From, replay.Forward)
		} else {
			note(c.Argument, c.From, c.To, replay.Forward)
		}
	}
	for g, to := range p.grads {
		note(g, g.DType, to, replay.Backward)
	}
	for _, c := range p.converted {
		phase := replay.Forward
		if c.Phase == diopi.Backward {
			phase = replay.Backward
		}
		note(c.Tensor.Value, c.From, c.To, phase)
	}
}

// castBack converts what was computed in the dtype that want was cast to. A
// dtype that no cast explains is left for the comparison to see.
func (p *Prepared) castBack(t *tensor.Tensor, want tensor.DType) *tensor.Tensor {
	if to, ok := p.casts[want]; !ok || t.DType != to || t.DType == want {
		return t
	}
	return opdef.Cast(t, want).Rounded()
}

// ErrPair is the error of ParseCasts for text of another form.
var ErrPair = errors.New(`want "torch.bfloat16->torch.float32", separated by commas`)

// ParseCasts reads op_tools' notation of dtype casts:
// "torch.float64->torch.float32,torch.int64->torch.int32". It returns nil if the
// text names none.
func ParseCasts(text string) (*Casts, error) {
	casts := &Casts{Config: text, To: map[tensor.DType]tensor.DType{}}
	for pair := range strings.SplitSeq(text, ",") {
		pair = strings.TrimSpace(pair)
		if pair == "" {
			continue
		}
		from, to, ok := strings.Cut(pair, "->")
		if !ok {
			return nil, fmt.Errorf("%q: %w", pair, ErrPair)
		}
		a, err := parseDType(from)
		if err != nil {
			return nil, err
		}
		b, err := parseDType(to)
		if err != nil {
			return nil, err
		}
		casts.To[a] = b
	}
	if len(casts.To) == 0 {
		return nil, nil
	}
	return casts, nil
}

func parseDType(text string) (tensor.DType, error) {
	name := strings.TrimPrefix(strings.TrimSpace(text), "torch.")
	dt, ok := tensor.ParseDType(name)
	if !ok {
		return dt, fmt.Errorf("unknown dtype %q", strings.TrimSpace(text))
	}
	return dt, nil
}
