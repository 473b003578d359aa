package capture

import (
	"errors"

	"github.com/optool/optool/tensor"
)

// A GeneratorSet is a call that set the state of a generator of torch's own.
type GeneratorSet struct {
	Name     string // "torch.manual_seed"
	Location string // line of the program
	Order    int    // that of the next call: see Entry.Order
	// By is the function of torch that set it, such as fork_rng, which puts back what was; "" if the program did.
	By string
}

// A drawingDescription knows the state of the generator from which the call drew random numbers.
type drawingDescription interface {
	generator() ([]byte, error)
}

// Generator is the state that a call found the generator in from which it drew random numbers; nil if it drew none, or
// if its recorder did not keep the state.
func (e *Entry) Generator() ([]byte, error) {
	if e.rec == nil {
		return nil, nil
	}
	d, err := e.rec.describe()
	if err != nil {
		return nil, err
	}
	if of, ok := d.(drawingDescription); ok {
		return of.generator()
	}
	return nil, nil
}

// generator implements drawingDescription.
func (c hookDescription) generator() (state []byte, err error) {
	begun, err := c.events.at(c.begun)
	if err != nil {
		return nil, err
	}
	saved, ok := begun.get("rng")
	if !ok || saved == nil {
		return nil, nil
	}
	l := c.loader()
	defer func() { err = errors.Join(err, l.Close()) }()
	v, err := l.value(saved, "rng")
	if t, ok := v.(*tensor.Tensor); ok && err == nil {
		state = t.AppendBytes(nil)
	}
	return state, err
}
