package opcheck

import (
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// checkBinding turns the call into Python values and back: positionally, by
// keyword, and by every name of the op through the registry, where another
// overload may answer if its results are the same.
func checkBinding(x *subject) {
	want, err := x.run(x.call, nil)
	if err != nil {
		x.report("%v", err)
		return
	}
	try := func(what string, c *opdef.Call, err error) {
		var got []result
		if err == nil {
			got, err = x.run(c, nil)
		}
		if err != nil {
			x.report("%s: %v", what, err)
			return
		}
		x.compare(what, got, want)
	}
	args, kwargs := x.call.Python()
	name := x.entry.Names[0]
	c, err := x.entry.Bind(name, args, kwargs)
	try("bound by position", c, err)
	named, first := &value.Dict{}, args[:0]
	for i, v := range args {
		if i == 0 && x.suite.Rounds && x.entry.Schema.Params[i].Name == "self" {
			first = args[:1] // the functions of Python have another word for it: input
			continue
		}
		named.Items = append(named.Items, value.Item{Key: x.entry.Schema.Params[i].Name, Value: v})
	}
	named.Items = append(named.Items, kwargs.Items...)
	c, err = x.entry.Bind(name, first, named)
	try("bound by keyword", c, err)
	if x.suite.Registry == nil {
		return
	}
	number := false
	if first := firstTensor(x.call); first != nil {
		number = first.Wrapped
	}
	for _, n := range x.entry.Names {
		if opdef.IsInPlaceName(n) || number && strings.HasPrefix(n, "torch.Tensor.") {
			continue // numbers have no tensor methods
		}
		c, err := x.suite.Registry.Bind(n, args, kwargs)
		if x.suite.Rounds && (err != nil || c.Entry != x.entry && c.Entry.Replaces) {
			continue // the name is that of another operator, which is judged by itself
		}
		// A kernel of a file may be another one by each of its names.
		if err != nil || c.Entry != x.entry || x.suite.Rounds && x.entry.Place != "" && n != name {
			what := "called as " + n
			if err == nil && c.Entry != x.entry {
				what += ", which answers with " + c.Entry.Schema.String()
			}
			try(what, c, err)
		}
	}
}

// checkWritten compares in-place forms and out= with the functional results, those of a device with the
// reference's.
func checkWritten(x *subject) {
	if x.call.Random() != "" {
		return
	}
	c := each(x.call, dense)
	run := x.forward
	if x.suite.Rounds { // a device may have the in-place form alone
		run = (*opdef.Call).Forward
	}
	f, err := run(c)
	if err != nil {
		x.report("%v", err)
		return
	}
	if len(f.Outs) == 0 || f.Written {
		return
	}
	if ts := c.Tensors(); x.entry.InPlace && len(ts) > 0 {
		if at := slices.IndexFunc(x.entry.Names, opdef.IsInPlaceName); at >= 0 {
			first := c.Map(func(a opdef.Arg) *tensor.Tensor { return a.Tensor }) // a number is no target
			if self := ts[0]; firstTensor(first) == self.Tensor {
				fits := x.entry.Resizes || slices.Equal(self.Tensor.Shape, f.Outs[0].Shape)
				x.written("in place", c.As(x.entry.Names[at]), f, []*tensor.Tensor{self.Tensor}, fits)
			}
		}
	}
	if x.suite.Rounds && x.entry.Place != "" {
		return // a function of a file has the arguments of its schema, no out=
	}
	for _, wide := range []bool{false, true} {
		if wide && x.suite.Rounds {
			break // a device may refuse a target of another dtype
		}
		if x.wrong {
			break // the function that is known to be wrong writes to out=
		}
		targets := make([]*tensor.Tensor, len(f.Outs))
		for i, o := range f.Outs {
			dt := o.DType
			if wide {
				dt = tensor.Complex128
			}
			targets[i] = tensor.Full(dt, o.Shape, int64(0)).Dense()
		}
		x.written("with out=", c.To(targets...), f, targets, true)
	}
}

func firstTensor(c *opdef.Call) *tensor.Tensor {
	var first *tensor.Tensor
	c.Map(func(a opdef.Arg) *tensor.Tensor {
		if first == nil {
			first = a.Tensor
		}
		return a.Tensor
	})
	return first
}

// written checks a call that writes its results to targets.
func (x *subject) written(what string, c *opdef.Call, f *opdef.Forward, targets []*tensor.Tensor, fits bool) {
	for i, t := range targets {
		o := f.Outs[i].DType
		fits = fits && tensor.CanCast(o, t.DType) && (o == t.DType || !c.ExactOut())
	}
	got, err := x.forward(c)
	switch {
	case err != nil && fits:
		x.report("%s: %v", what, err)
		return
	case err != nil && refused(err):
		return
	case err != nil:
		x.report("%s: %v", what, err)
		return
	case !fits:
		x.report("%s: a result of %s is written to %s without refusal", what, f.Outs[0].Meta(), targets[0].Meta())
		return
	case !got.Written:
		x.report("%s: the results are not written", what)
		return
	}
	sameDTypes := slices.EqualFunc(targets, f.Outs, func(t, o *tensor.Tensor) bool { return t.DType == o.DType })
	if x.suite.Rounds && sameDTypes {
		if err := x.sameOutputs(x.call, got, f); err != nil {
			x.report("%s: %v", what, err)
		}
		return
	}
	for i, t := range targets {
		rel := 0.0
		if x.suite.Rounds {
			rel = max(x.slack(t.DType), x.slack(f.Outs[i].DType))
		}
		if d := tensorDifference(got.Outs[i].Rounded(), opdef.Cast(f.Outs[i], t.DType).Rounded(), rel); d != "" {
			x.report("%s: result %d %s", what, i, d)
		}
	}
}
