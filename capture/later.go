package capture

import (
	"fmt"
	"io"
	"slices"

	"github.com/optool/optool/tensor/value"
)

// A laterDescription is a description of calls that several backward passes may go through.
type laterDescription interface {
	later() (*Record, []io.Closer, error)
}

// LoadLater opens the gradients of the arguments of a call in later backward passes, as create_graph and retain_graph
// make them. The items of GradInputs are the passes of LaterOrder, each a tuple of the gradients of all tensors among
// the arguments, nil where the pass gave none. The caller closes the call. Payloads are not read until a tensor is.
func (e *Entry) LoadLater() (*Call, error) {
	c := &Call{Op: e.Op, Kwargs: &value.Dict{}, entry: e}
	d, err := c.described()
	if err != nil {
		return c, err
	}
	of, ok := d.(laterDescription)
	if !ok {
		return c, fmt.Errorf("%s: the recorder has no gradients of later backward passes", e.Rel)
	}
	r, files, err := of.later()
	c.files = files
	if err != nil {
		return c, err
	}
	c.GradInputs = r.Args
	return c, nil
}

// later implements laterDescription.
func (c hookDescription) later() (*Record, []io.Closer, error) {
	l := c.loader()
	r, err := c.laterGradients(l)
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	return r, []io.Closer{l}, nil
}

// laterGradients are those of all passes but the first, in the order in which they began.
func (c hookDescription) laterGradients(l *hookLoader) (*Record, error) {
	n, err := c.arguments()
	if err != nil {
		return nil, err
	}
	r := &Record{Name: c.op, Kwargs: &value.Dict{}}
	for range c.passes {
		r.Args = append(r.Args, value.NewTuple(make([]value.Value, n)...))
	}
	for _, s := range c.gradInputs {
		e, err := c.events.at(s)
		if err != nil {
			return nil, err
		}
		at, _ := e.get("i")
		i, ok := jsonInt(at)
		k := slices.Index(c.passes, passOf(e))
		if !ok || i < 0 || i >= int64(n) || k < 0 {
			continue
		}
		v, _ := e.get("value")
		if r.Args[k].(*value.Sequence).Items[i], err = l.value(v, fmt.Sprintf("args[%d][%d]", k, i)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// arguments counts the tensors among the arguments.
func (c hookDescription) arguments() (int, error) {
	begun, err := c.events.at(c.begun)
	if err != nil {
		return 0, err
	}
	counting := &hookLoader{run: c.run, count: true}
	err = counting.arguments(&Record{Kwargs: &value.Dict{}}, begun)
	return counting.tensors, err
}
