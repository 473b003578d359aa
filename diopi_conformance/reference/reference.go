package reference

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// ErrNone is the error of Compute for cases whose result is random: there is
// nothing to compare them with.
var ErrNone = errors.New("the function draws random numbers")

// A Reference is what a case should yield.
type Reference struct {
	// Output is a tensor, a list of tensors and Nones, or a 0-d tensor for a
	// plain number. Values are rounded to their dtypes.
	Output value.Value
	// Grads are the gradients by argument name; nil if none is wanted. A
	// gradient is None where the result does not depend on the argument.
	Grads *value.Dict
	// Cotangents are the gradients of the results that receive one, nil where
	// none flows; nil if no gradients are wanted.
	Cotangents []*tensor.Tensor
	// Accepted are what the operator says of the results that ComputeFor was given,
	// one for each; nil where it has no rule for them.
	Accepted []opdef.Acceptance
}

// Cotangents gives the gradient of the i-th result that receives one, out.
type Cotangents func(i int, out *tensor.Tensor) *tensor.Tensor

// Ones are the cotangents of the kit.
func Ones(_ int, out *tensor.Tensor) *tensor.Tensor {
	if out.DType.IsComplex() {
		return tensor.Full(out.DType, out.Shape, complex128(1))
	}
	return tensor.Full(out.DType, out.Shape, 1.0)
}

// Compute runs the reference of a case on its arguments: tensors first, then
// parameters. A call that PyTorch refuses is an error.
func Compute(c *configs.Case, kwargs *value.Dict, cotangents Cotangents) (*Reference, error) {
	return (&pipe{}).compute(c, kwargs, cotangents, nil)
}

// ComputeFor is Compute for results that differ from the reference's. Those that the
// operator accepts nevertheless, as it accepts the index of another element of a tie,
// are what the gradients start from. ref is nil where the operator has no such rule:
// then nothing is computed.
func ComputeFor(c *configs.Case, kwargs *value.Dict, cotangents Cotangents, got value.Value) (*Reference, error) {
	rule := func(e *opdef.Entry) bool { return e.HasAccept }
	if !slices.ContainsFunc(ops.Default().Lookup(operator(c)), rule) {
		return nil, nil
	}
	return (&pipe{}).compute(c, kwargs, cotangents, tensors(got))
}

// operator is the public name of the operator that alone computes a case, empty if
// several do.
func operator(c *configs.Case) string {
	name := c.Function()
	if line, ok := functions[name]; ok {
		if strings.Contains(line, " | ") {
			return ""
		}
		name, _, _ = strings.Cut(line, " ")
		return name
	}
	return prefixes[c.Interface()] + name
}

func (p *pipe) compute(c *configs.Case, kwargs *value.Dict, cotangents Cotangents, got []*tensor.Tensor) (
	ref *Reference, err error) {
	defer func() {
		caught := recover()
		if caught == nil {
			return
		}
		cause, _ := caught.(error)
		var read *tensor.ReadError
		if errors.As(cause, &read) || errors.Is(cause, quota.ErrStopped) || tensor.TooLarge(caught) != nil {
			err = cause
			return
		}
		err = fmt.Errorf("%s: %w", c.Function(), replay.Panicked(caught))
	}()
	if c.NoOutputRef() && p.on == nil {
		return nil, ErrNone
	}
	names, wanted := differentiable(c, kwargs)
	for _, x := range wanted {
		x.RequiresGrad = true
	}
	out, err := p.forward(c, kwargs)
	if err != nil {
		return nil, err
	}
	if out = asArrays(out); out == nil {
		return nil, fmt.Errorf("%s has no result", c.Function())
	}
	ref = &Reference{Output: rounded(out), Accepted: p.accept(got, tensors(out))}
	if c.NoOutputRef() {
		return ref, nil
	}
	err = ref.gradients(*p, c, names, wanted, out, cotangents)
	return ref, err
}

// prefixes are the modules of the kit's interfaces.
var prefixes = map[string]string{
	"": "torch.nn.functional.", "torch.nn.functional": "torch.nn.functional.", "torch": "torch.",
	"torch.Tensor": "torch.Tensor.", "torch.linalg": "torch.linalg.", "torchvision.ops": "torchvision.ops.",
}

// kit calls one of the kit's functions that is not the operator of its name; ok is
// false for all others.
func (p *pipe) kit(name string, a arguments) (out value.Value, ok bool, err error) {
	line, ok := functions[name]
	if choose := chosen[name]; choose != nil {
		ok = true
		line, a, err = choose(a)
	}
	if !ok || err != nil {
		return nil, ok, err
	}
	if out, err = p.runLine(line, a); err == nil && finished[name] != nil {
		out, err = finished[name](a, out)
	}
	return out, true, err
}

func (p *pipe) forward(c *configs.Case, kwargs *value.Dict) (value.Value, error) {
	name := c.Function()
	if v, ok, err := p.kit(name, arguments{kwargs}); ok {
		return v, err
	}
	prefix, ok := prefixes[c.Interface()]
	if !ok {
		return nil, fmt.Errorf("function %s of %s has no reference", name, c.Interface())
	}
	// torch.Tensor's methods take input as self; so does everything else that
	// has it, under whatever name the operator's schema gives it.
	var args []value.Value
	rest := &value.Dict{}
	for i, it := range kwargs.Items {
		if it.Key == "input" && (c.Interface() == "torch.Tensor" || i == 0) {
			args = append(args, it.Value)
			continue
		}
		rest.Items = append(rest.Items, it)
	}
	return p.run(prefix+name, args, rest)
}

// rounded rounds what is in v to its dtypes.
func rounded(v value.Value) value.Value {
	switch v := v.(type) {
	case *tensor.Tensor:
		return v.Rounded()
	case *value.Sequence:
		l := value.NewList()
		for _, it := range v.Items {
			l.Items = append(l.Items, rounded(it))
		}
		return l
	}
	return v
}

// asArrays gives results the form in which the kit stores them: sequences
// become lists, plain numbers 0-d arrays.
func asArrays(v value.Value) value.Value {
	if s, ok := v.(*value.Sequence); ok {
		l := value.NewList()
		for _, it := range s.Items {
			l.Items = append(l.Items, asArrays(it))
		}
		return l
	}
	if t, ok := tensor.FromNumber(v); ok {
		return t
	}
	return v
}

// differentiable are the arguments that want a gradient, lists with all their tensors,
// and their names.
func differentiable(c *configs.Case, kwargs *value.Dict) (names []string, wanted []*tensor.Tensor) {
	needs := map[string]bool{}
	for _, a := range c.Args() {
		if a.RequiresGrad {
			needs[a.Name] = true
		}
	}
	for _, it := range gradOrder(c, kwargs) {
		name, _ := it.Key.(string)
		if !needs[name] {
			continue
		}
		switch v := it.Value.(type) {
		case *tensor.Tensor:
			names, wanted = append(names, name), append(wanted, v)
		case *value.Sequence:
			names = append(names, name)
			for _, item := range v.Items {
				if x, ok := item.(*tensor.Tensor); ok {
					wanted = append(wanted, x)
				}
			}
		}
	}
	return names, wanted
}

// gradients computes the gradients of the arguments that want one, if any does.
func (ref *Reference) gradients(p pipe, c *configs.Case, names []string, wanted []*tensor.Tensor, output value.Value,
	cotangents Cotangents) error {
	if len(wanted) == 0 {
		return nil
	}
	for _, x := range wanted {
		if !x.DType.IsFloat() && !x.DType.IsComplex() {
			return fmt.Errorf("gradient of an argument of dtype %s: only floating point and complex tensors have one",
				x.DType)
		}
	}
	outs := tensors(output)
	if pick := c.RequiresBackward(); len(pick) > 0 {
		var some []*tensor.Tensor
		for _, i := range pick {
			if i < 0 || i >= len(outs) {
				return fmt.Errorf("requires_backward names output %d of %d", i, len(outs))
			}
			some = append(some, outs[i])
		}
		outs = some
	}
	ref.Cotangents = make([]*tensor.Tensor, len(outs))
	for i, o := range outs {
		if o != nil && (o.DType.IsFloat() || o.DType.IsComplex()) {
			ref.Cotangents[i] = cotangents(i, o)
		}
	}
	all, err := p.backward(outs, ref.Cotangents)
	if err != nil {
		return err
	}
	ref.Grads = &value.Dict{}
	for i, name := range names { // names and gradients are paired by position, as in the kit
		var g value.Value
		if x := all[wanted[i]]; x != nil {
			g = opdef.Cast(x, wanted[i].DType).Rounded()
		}
		ref.Grads.Items = append(ref.Grads.Items, value.Item{Key: name, Value: g})
	}
	return nil
}

// gradOrder is the order in which the kit pairs names and gradients: that of the
// arguments, but the self of a method comes last.
func gradOrder(c *configs.Case, kwargs *value.Dict) []value.Item {
	items := slices.Clone(kwargs.Items)
	if c.Interface() == "torch.Tensor" {
		if i := slices.IndexFunc(items, func(it value.Item) bool { return it.Key == "input" }); i >= 0 {
			self := items[i]
			items = append(slices.Delete(items, i, i+1), self)
		}
	}
	return items
}

// tensors flattens an output; what is no tensor is nil.
func tensors(v value.Value) []*tensor.Tensor {
	switch v := v.(type) {
	case *tensor.Tensor:
		return []*tensor.Tensor{v}
	case *value.Sequence:
		var out []*tensor.Tensor
		for _, it := range v.Items {
			x, _ := it.(*tensor.Tensor)
			out = append(out, x)
		}
		return out
	}
	return nil
}
