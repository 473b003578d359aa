package reference

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A pipe is a row of calls of operators, each but the first of a result of the call
// before it, so that gradients can be carried back. Tensors are told apart by
// identity.
type pipe struct {
	stages []stage
	on     *machine // what computes in the reference's place, nil for the reference
}

type stage struct {
	call    *opdef.Call
	forward *opdef.Forward
}

// run adds a call of the operator of that public name ("torch.add") and returns what
// torch would.
func (p *pipe) run(name string, args []value.Value, kwargs *value.Dict) (value.Value, error) {
	call, err := ops.Default().Bind(name, args, kwargs)
	if errors.Is(err, opdef.ErrUnknownOp) {
		return nil, fmt.Errorf("operator %s is not known", name)
	}
	if err != nil {
		return nil, err
	}
	f, err := call.Forward()
	if err == nil && p.on != nil {
		f, err = p.on.forward(call, f)
	}
	if err != nil {
		return nil, err
	}
	given := map[*tensor.Tensor]bool{}
	for _, a := range call.Tensors() {
		given[a.Tensor] = true
	}
	for i, o := range f.Outs {
		if o != nil && given[o] { // a result that is its argument must be told apart from it
			u := *o
			o, f.Outs[i] = &u, &u
		}
		if o == nil {
			continue
		}
		o.RequiresGrad = o.DType.IsFloat() || o.DType.IsComplex()
	}
	p.stages = append(p.stages, stage{call, f})
	switch {
	case len(f.Outs) == 0:
		return f.Value, nil
	case len(f.Outs) == 1 && call.Entry.Schema.Returns != "Tensor[]":
		return f.Outs[0], nil
	}
	return list(f.Outs), nil
}

// runLine adds the calls of a line of the table functions. A word of a call that is
//
//	name            is the keyword of that name
//	*source         is a positional argument
//	name=source     is a keyword, [source,...] for a list of those that are given,
//	                @source for a tensor of whole numbers, @0+source for them behind a 0,
//	                _ for the result of the call before, or a literal
//
// Keywords that are None are left to their defaults. The words behind => are the
// arguments whose new values are the results; name[] stays a list, =source is as it was
// given.
func (p *pipe) runLine(line string, a arguments) (out value.Value, err error) {
	line, results, changes := strings.Cut(line, " => ")
	var kwargs *value.Dict
	for call := range strings.SplitSeq(line, " | ") {
		words := strings.Fields(call)
		var args []value.Value
		kwargs = &value.Dict{}
		for _, w := range words[1:] {
			w, positional := strings.CutPrefix(w, "*")
			name, source, named := strings.Cut(w, "=")
			if !named {
				source = name
			}
			v := out
			if source != "_" {
				if v, err = a.source(source); err != nil {
					return nil, err
				}
			}
			switch {
			case positional:
				args = append(args, v)
			case v != nil || named:
				kwargs.Items = append(kwargs.Items, value.Item{Key: name, Value: v})
			}
		}
		if out, err = p.run(words[0], args, kwargs); err != nil {
			return nil, err
		}
	}
	if !changes {
		return out, nil
	}
	after := p.stages[len(p.stages)-1].forward.After
	all := value.NewList()
	for _, name := range strings.Fields(results) {
		if source, ok := strings.CutPrefix(name, "="); ok {
			v, err := a.source(source)
			if err != nil {
				return nil, err
			}
			all.Items = append(all.Items, v)
			continue
		}
		name, whole := strings.CutSuffix(name, "[]")
		switch ts := after[name]; {
		case whole:
			all.Items = append(all.Items, list(ts))
		case len(ts) == 0:
			all.Items = append(all.Items, unchanged(kwargs, name))
		default:
			all.Items = append(all.Items, ts[0])
		}
	}
	if len(all.Items) == 1 {
		return all.Items[0], nil
	}
	return all, nil
}

// unchanged is the tensor that a call without change to it was given, None if none.
func unchanged(kwargs *value.Dict, name string) value.Value {
	v, _ := kwargs.Get(name)
	if s, ok := v.(*value.Sequence); ok {
		if len(s.Items) == 0 {
			return nil
		}
		return s.Items[0]
	}
	return v
}

// list is the Python list of ts, None for nil.
func list(ts []*tensor.Tensor) *value.Sequence {
	l := value.NewList()
	for _, t := range ts {
		if t == nil {
			l.Items = append(l.Items, nil)
		} else {
			l.Items = append(l.Items, t)
		}
	}
	return l
}

// accept asks the only call of a row whether other results than its own are right
// nevertheless; nil where it has no rule for them.
func (p pipe) accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	if len(p.stages) != 1 || len(got) != len(want) || !slices.Equal(want, p.stages[0].forward.Outs) {
		return nil
	}
	for i, g := range got {
		if g == nil || want[i] == nil || g.DType != want[i].DType || !slices.Equal(g.Shape, want[i].Shape) {
			return nil
		}
	}
	as, _ := p.stages[0].call.Accept(got, want)
	return as
}

// gradients are those of the arguments of a stage.
func (p pipe) gradients(s stage, from []*tensor.Tensor) (opdef.Grads, error) {
	if p.on != nil {
		return p.on.backward(s.call, s.forward, from)
	}
	return s.call.Backward(s.forward, from, nil)
}

// backward returns the gradients of all tensors that outs depend on, given the
// gradients of outs (nil: none flows).
func (p pipe) backward(outs, cotangents []*tensor.Tensor) (map[*tensor.Tensor]*tensor.Tensor, error) {
	grads := map[*tensor.Tensor]*tensor.Tensor{}
	for i, o := range outs {
		grads[o] = cotangents[i]
	}
	for _, s := range slices.Backward(p.stages) {
		from, flows := make([]*tensor.Tensor, len(s.forward.Outs)), false
		for k, o := range s.forward.Outs {
			from[k] = grads[o]
			flows = flows || from[k] != nil
		}
		if !flows {
			continue
		}
		back, err := p.gradients(s, from)
		if err != nil {
			return nil, err
		}
		for _, a := range s.call.Tensors() {
			if gs := back[a.Name]; len(gs) > 0 {
				grads[a.Tensor] = gs[max(a.Index, 0)]
			}
		}
	}
	return grads, nil
}
