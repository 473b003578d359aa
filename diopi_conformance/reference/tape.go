package reference

import (
	"errors"
	"fmt"
	"strings"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// A Tape calls operators and remembers the calls, so that gradients can be
// carried back through them. Tensors are told apart by identity.
//
// A call that fails makes the tape fail: later calls return nil tensors and Err
// says what was wrong.
type Tape struct {
	registry *opdef.Registry
	steps    []step
	err      error
}

type step struct {
	call    *opdef.Call
	forward *opdef.Forward
}

// NewTape returns an empty tape over the operators of package ops.
func NewTape() *Tape { return &Tape{registry: ops.Default()} }

// Err is the error of the first call that failed.
func (t *Tape) Err() error { return t.err }

// fail remembers the first error.
func (t *Tape) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

// keywords are the keyword arguments of a call.
type keywords map[string]value.Value

func (k keywords) dict() *value.Dict {
	d := &value.Dict{}
	for name, v := range k {
		d.Items = append(d.Items, value.Item{Key: name, Value: v})
	}
	return d
}

// Call runs the operator of that public name ("torch.add") and returns what
// torch would.
func (t *Tape) Call(name string, args []value.Value, kwargs *value.Dict) value.Value {
	if t.err != nil {
		return nil
	}
	call, err := t.registry.Bind(name, args, kwargs)
	if err != nil {
		if errors.Is(err, opdef.ErrUnknownOp) {
			err = fmt.Errorf("operator %s is not known", name)
		}
		t.err = err
		return nil
	}
	f, err := call.Forward()
	if err != nil {
		t.err = err
		return nil
	}
	given := map[*tensor.Tensor]bool{}
	for _, a := range call.Tensors() {
		given[a.Tensor] = true
	}
	for i, o := range f.Outs {
		if given[o] { // a result that is its argument must be told apart from it
			u := *o
			f.Outs[i] = &u
		}
	}
	for _, o := range f.Outs {
		o.RequiresGrad = o.DType.IsFloat() || o.DType.IsComplex()
	}
	t.steps = append(t.steps, step{call, f})
	if len(f.Outs) == 0 {
		return f.Value
	}
	if len(f.Outs) == 1 && !strings.HasSuffix(call.Entry.Schema.Returns, "[]") {
		return f.Outs[0]
	}
	l := value.NewList()
	for _, o := range f.Outs {
		l.Items = append(l.Items, o)
	}
	return l
}

// op is Call for operators with one result.
func (t *Tape) op(name string, args ...value.Value) *tensor.Tensor {
	return t.opWith(name, nil, args...)
}

// opWith is op with keyword arguments.
func (t *Tape) opWith(name string, kwargs keywords, args ...value.Value) *tensor.Tensor {
	switch r := t.Call(name, args, kwargs.dict()).(type) {
	case *tensor.Tensor:
		return r
	case nil:
	default:
		t.fail("%s: want one tensor, got %s", name, value.Repr(r))
	}
	return nil
}

// Backward returns the gradients of everything on the tape with respect to
// which outs depend, given the gradients of outs (nil: none flows).
func (t *Tape) Backward(outs, cotangents []*tensor.Tensor) (map[*tensor.Tensor]*tensor.Tensor, error) {
	grads := map[*tensor.Tensor]*tensor.Tensor{}
	add := func(x, g *tensor.Tensor) {
		switch old := grads[x]; {
		case g == nil:
		case old == nil:
			grads[x] = g
		default:
			grads[x] = sum(old, g)
		}
	}
	for i, o := range outs {
		add(o, cotangents[i])
	}
	for i := len(t.steps) - 1; i >= 0; i-- {
		s := t.steps[i]
		from := make([]*tensor.Tensor, len(s.forward.Outs))
		flows := false
		for k, o := range s.forward.Outs {
			from[k] = grads[o]
			flows = flows || from[k] != nil
		}
		if !flows {
			continue
		}
		back, err := s.call.Backward(s.forward, from, nil)
		if err != nil {
			return nil, err
		}
		for _, a := range s.call.Tensors() {
			if gs := back[a.Name]; len(gs) > 0 {
				add(a.Tensor, gs[max(a.Index, 0)])
			}
		}
	}
	return grads, nil
}

func sum(a, b *tensor.Tensor) *tensor.Tensor {
	if a.DType.IsComplex() {
		return opdef.Zip(a.DType, a, b, func(x, y complex128) complex128 { return x + y })
	}
	return opdef.Zip(a.DType, a, b, func(x, y float64) float64 { return x + y })
}
