package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// A Prepared is a recorded call that can be run again and again on the
// reference. It holds files open: Close it.
type Prepared struct {
	Op     string
	Record *capture.Call

	opt  Options
	call *opdef.Call
	fwd  *opdef.Forward
	out  []*tensor.Tensor // gradients of the results; nil: no backward pass
	need map[string]bool
	grad string // why there is no backward pass
}

// Prepare reads a capture and binds its call; no element is read yet. The error
// is a sentence that says why it cannot be run and wraps opdef.ErrUnknownOp for
// an unknown op.
func Prepare(e *capture.Entry, opt Options) (*Prepared, error) {
	rec, _ := e.Load(capture.LoadOptions{Read: opt.Read}) // files but the input may be missing
	p := &Prepared{Op: rec.Op, Record: rec, opt: opt}
	err := rec.Err(capture.Input)
	if err == nil {
		err = guarded(func() (err error) {
			if err = p.runner().expandable(); err == nil {
				p.call, err = opt.Registry.Bind(rec.Op, rec.Args, rec.Kwargs)
			}
			return err
		})
	}
	if err != nil {
		rec.Close()
		return nil, err
	}
	return p, nil
}

func (p *Prepared) runner() *runner {
	return &runner{Options: p.opt, rec: p.Record, call: p.call, fwd: p.fwd, out: &Outcome{}}
}

// Start finds out what the results are, which the rest needs, and whether there
// is a backward pass. Most ops compute elements of results when they are read,
// which it does not.
func (p *Prepared) Start() error {
	return guarded(func() error {
		f, err := p.call.Forward()
		if err != nil {
			return err
		}
		p.fwd = f
		p.prepareBackward()
		return nil
	})
}

// prepareBackward finds what gradients to compute, or why none.
func (p *Prepared) prepareBackward() {
	switch err := p.Record.Err(capture.GradOutputs); {
	case p.opt.ForwardOnly:
		p.grad = "only the forward pass was asked for"
	case err != nil:
		p.grad = err.Error()
	case p.call.Random() != "":
		p.grad = p.call.Random()
	case !p.call.Entry.HasGrad:
		p.grad = p.call.Entry.NoGrad
	default:
		var out []*tensor.Tensor
		if out, p.grad = p.runner().cotangents(); p.grad != "" {
			return
		}
		p.need = map[string]bool{}
		for _, a := range p.call.Tensors() {
			if a.Tensor.RequiresGrad {
				p.need[a.Name] = true
			}
		}
		if len(p.need) == 0 {
			p.grad = "no argument requires a gradient"
			return
		}
		p.out = out
	}
}

// Close closes the capture's files.
func (p *Prepared) Close() error { return p.Record.Close() }

// NoBackward says why Backward does nothing; "" if it computes gradients.
func (p *Prepared) NoBackward() string { return p.grad }

// Forward runs the forward pass and computes every element of its results.
func (p *Prepared) Forward() error {
	return guarded(func() error {
		f, err := p.call.Forward()
		if err != nil {
			return err
		}
		for _, t := range f.Outs {
			compute(t)
		}
		p.fwd = f
		return nil
	})
}

// Backward computes every element of the gradients of the arguments that
// require one, from the recorded gradients of the results.
func (p *Prepared) Backward() error {
	if p.grad != "" {
		return nil
	}
	return guarded(func() error {
		grads, err := p.call.Backward(p.fwd, p.out, p.need)
		if err != nil {
			return err
		}
		for _, g := range grads {
			for _, t := range g {
				if t != nil {
					compute(t)
				}
			}
		}
		return nil
	})
}

// Work is what a call costs at least: bytes read and written once each, and
// floating-point operations as the op declares them.
type Work struct{ Bytes, Flops float64 }

// ForwardWork of the call.
func (p *Prepared) ForwardWork() Work {
	w := Work{Bytes: p.InputBytes(), Flops: p.call.Flops(p.fwd)}
	held := 0.0 // elements of the results
	for _, t := range p.fwd.Outs {
		w.Bytes += touched(t)
		held += float64(t.Numel())
	}
	for _, a := range p.call.Tensors() {
		if a.Name == p.call.Entry.Lookup {
			w.Bytes -= max(0, touched(a.Tensor)-held*float64(a.Tensor.DType.Size()))
		}
	}
	return w
}

// BackwardWork of the call: it reads the arguments, but not what values were
// picked from, and the gradients of the results and writes one gradient per argument that requires one; each costs as
// many operations as the forward pass.
func (p *Prepared) BackwardWork() Work {
	var w Work
	flops := p.call.Flops(p.fwd)
	for _, a := range p.call.Tensors() {
		if a.Name != p.call.Entry.Lookup {
			w.Bytes += touched(a.Tensor)
		}
		if p.need[a.Name] {
			w.Bytes += touched(a.Tensor)
			w.Flops += flops
		}
	}
	for _, t := range p.out {
		if t != nil {
			w.Bytes += touched(t)
		}
	}
	return w
}

// touched is how many bytes the elements of t occupy, those repeated by a
// stride of 0 once.
func touched(t *tensor.Tensor) float64 {
	n := float64(t.DType.Size())
	for i, d := range t.Shape {
		if len(t.Stride) == 0 || t.Stride[i] != 0 || d == 0 {
			n *= float64(d)
		}
	}
	return n
}

// Shapes are the dtypes and shapes of the tensors among the arguments, as a
// table shows them.
func (p *Prepared) Shapes() string {
	var names []string
	for _, a := range p.call.Tensors() {
		names = append(names, a.Tensor.Meta())
	}
	return strings.Join(names, ", ")
}

// DType is the dtype of the first tensor among the arguments, "" if there is none.
func (p *Prepared) DType() string {
	if ts := p.call.Tensors(); len(ts) > 0 {
		return ts[0].Tensor.DType.String()
	}
	return ""
}

// InputBytes is how many bytes the tensors among the arguments occupy.
func (p *Prepared) InputBytes() float64 {
	n, seen := 0.0, map[*tensor.Tensor]bool{}
	for _, a := range p.call.Tensors() {
		if !seen[a.Tensor] {
			seen[a.Tensor] = true
			n += touched(a.Tensor)
		}
	}
	return n
}

// Key identifies calls that do the same work: op, dtypes, shapes, strides, which
// tensors want gradients, and all other arguments, but no tensor's elements.
func (p *Prepared) Key() string {
	var b strings.Builder
	b.WriteString(p.Op)
	for _, v := range p.Record.Args {
		b.WriteByte(' ')
		writeKey(&b, v)
	}
	if p.Record.Kwargs != nil {
		items := slices.Clone(p.Record.Kwargs.Items)
		slices.SortFunc(items, func(x, y value.Item) int {
			return strings.Compare(value.Str(x.Key), value.Str(y.Key))
		})
		for _, it := range items {
			fmt.Fprintf(&b, " %s=", value.Str(it.Key))
			writeKey(&b, it.Value)
		}
	}
	if p.opt.ForwardOnly || !p.Record.Has(capture.GradOutputs) {
		b.WriteString(" forward only")
	}
	return b.String()
}

func writeKey(b *strings.Builder, v value.Value) {
	switch v := v.(type) {
	case *tensor.Tensor:
		b.WriteString(v.DType.String())
		fmt.Fprint(b, v.Shape, v.Stride)
		if v.RequiresGrad {
			b.WriteByte('g')
		}
	case *value.Sequence:
		b.WriteByte('(')
		for _, it := range v.Items {
			writeKey(b, it)
			b.WriteByte(',')
		}
		b.WriteByte(')')
	case *value.Dict:
		b.WriteByte('{')
		for _, it := range v.Items {
			b.WriteString(value.Str(it.Key) + ":")
			writeKey(b, it.Value)
			b.WriteByte(',')
		}
		b.WriteByte('}')
	default:
		b.WriteString(value.Repr(v))
	}
}

// compute computes every element of t and keeps none.
func compute(t *tensor.Tensor) {
	switch {
	case t.DType.IsComplex():
		computeAs[complex128](t)
	case t.DType.IsFloat():
		computeAs[float64](t)
	default:
		computeAs[int64](t)
	}
}

func computeAs[T tensor.Elem](t *tensor.Tensor) {
	n, step := t.Numel(), t.Block()
	tensor.Parallel((n+step-1)/step, 1, func(a, b int) {
		dst := make([]T, min(step, n))
		for k := a; k < b; k++ {
			lo := k * step
			tensor.Load(t, lo, dst[:min(step, n-lo)])
		}
	})
}

// guarded runs f and turns a panic into an error, as runner.guard does.
func guarded(f func() error) (err error) {
	r := &runner{out: &Outcome{}}
	r.guard(func() { err = f() })
	if len(r.out.Results) > 0 {
		return errors.New(r.out.Results[0].Reason)
	}
	return err
}

// DeviceCall is the call for a device, its forward pass alone or with the
// backward pass. It needs Start.
func (p *Prepared) DeviceCall(backward bool) *DeviceCall {
	c := &DeviceCall{Call: p.call, Forward: p.fwd}
	if backward && p.grad == "" {
		c.GradOutputs = p.out
		for _, a := range p.call.Tensors() {
			if p.need[a.Name] && !slices.Contains(c.Need, a.Name) {
				c.Need = append(c.Need, a.Name)
			}
		}
	}
	return c
}

// DeviceFunctions are the functions that would carry out the forward pass on a
// device, by what plans its calls. The error says why none can.
func (p *Prepared) DeviceFunctions(plan func(*DeviceCall) ([]string, error)) (functions []string, err error) {
	err = guarded(func() error {
		if p.fwd, err = p.call.Forward(); err == nil {
			functions, err = plan(&DeviceCall{Call: p.call, Forward: p.fwd})
		}
		return err
	})
	return functions, err
}
