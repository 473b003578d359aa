package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Call is a recorded call bound to an operator, which can be run again and
// again, on the reference or on a device, and compared with what was recorded.
// It holds files open: Close it.
type Call struct {
	Op     string
	Record *capture.Call

	opt     Options
	entry   *capture.Entry // nil of a call that is open already
	pair    bool           // saved by the live comparison, both sides
	loadErr error          // of some file, perhaps not the input
	err     error          // why the call cannot be run
	bound   *opdef.Call
	// original maps arguments of bound that replace recorded ones to these.
	original map[*tensor.Tensor]*tensor.Tensor
	fwd      *opdef.Forward

	// Of the backward pass, known once started.
	gradOutputs []*tensor.Tensor // gradients of the results; nil: no backward pass
	need        map[string]bool  // arguments whose gradients are wanted
	noBackward  string           // why there is no backward pass

	// alter, if not nil, makes what is compared of a value of the reference, by its target.
	alter    causes.Alteration
	incoming bool // alter changes the gradients that the backward pass starts from, and nothing else
	// planted is as causes.Way.Mistaken, nil if bound has no mistake that the operator declares; sound is the call
	// without it.
	planted func(part *opdef.Call) (*opdef.Call, error)
	sound   *opdef.Call
	// wrong are the values that failed, by their targets, while causes are looked for.
	wrong map[string]causes.Wrong
	right map[string]bool // those that passed
	// faults are how those failed, soundParts the parts of them that a glance cuts, as they are due.
	faults     map[string]fault
	soundParts map[target]fault
	made       map[uint64]bool // what mistakes made of few elements that were refuted
	work       *causes.Work
	// autocasts is capture.Entry.Autocast.
	autocasts map[string]string
	// mixed, if set, is the dtype of 16 bits that results, also of float32, are precise to.
	mixed tensor.DType

	values Values
	kept   *Call // the call under the reading that Compare kept, in which causes are looked for; nil: this one

	sampler *sampler // of a call that is checked in parts, once started; nil for others
}

// altered is the reference's value that is compared.
func (c *Call) altered(target string, t *tensor.Tensor) *tensor.Tensor {
	if c.alter == nil {
		return t
	}
	return c.alter(target, t)
}

// Open reads a capture and binds its call; no element is read yet.
func Open(e *capture.Entry, opt Options) *Call {
	// It gives what could be read, also with an error.
	rec, err := e.Load(capture.LoadOptions{Read: opt.Read, Verify: true})
	c := &Call{Op: rec.Op, Record: rec, opt: opt, entry: e, pair: rec.IsPair(), loadErr: err, autocasts: e.Autocast}
	if why := e.NotRun(); why != "" {
		c.err = &stopped{verdict.Skipped, errors.New(why)}
		return c
	}
	return c.bind()
}

// Of binds a recorded call that is open.
func Of(rec *capture.Call, opt Options) *Call {
	return (&Call{Op: rec.Op, Record: rec, opt: opt, pair: rec.IsPair()}).bind()
}

// errOnlyResults is why a device/cpu pair without its arguments is not judged.
var errOnlyResults = errors.New("pairs of device and cpu results, which optool compare PATH judges")

func (c *Call) bind() *Call {
	rec := c.Record
	if c.err = rec.Err(capture.Input); c.err != nil {
		c.err = &stopped{verdict.Invalid, c.err}
		if c.pair && c.entry != nil && c.entry.Host != 0 && errors.Is(rec.Err(capture.Input), capture.ErrNoFile) {
			c.err = &stopped{verdict.Skipped, errOnlyResults}
		}
		return c
	}
	c.err = Guard(func() error {
		if err := expandable(rec); err != nil {
			return &stopped{verdict.Invalid, err}
		}
		var err error
		c.bound, err = c.opt.Registry.Bind(rec.Op, rec.Args, rec.Kwargs)
		return err
	})
	return c
}

// Err is a sentence that says why the call cannot be run; it wraps
// opdef.ErrUnknownOp for an unknown op. nil: it can.
func (c *Call) Err() error { return c.err }

// Close closes the capture's files; Values are gone.
func (c *Call) Close() error {
	c.values = Values{}
	return c.Record.Close()
}

// Start finds out what the results are, which all but Compare need, and whether
// there is a backward pass. Most ops compute elements of results when they are
// read, which it does not.
func (c *Call) Start() error {
	if c.err != nil {
		return c.err
	}
	return Guard(c.start)
}

func (c *Call) start() error {
	if c.sampler = c.newSampler(); c.sampler != nil {
		c.fwd = c.sampler.fwd
	} else {
		f, err := c.bound.Forward()
		if err != nil {
			return err
		}
		c.fwd = f
	}
	c.gradOutputs, c.need, c.noBackward = c.backwardPass()
	return nil
}

// backwardPass finds the gradients of the results and the arguments that want
// one, or says why there is no backward pass.
func (c *Call) backwardPass() (gradOutputs []*tensor.Tensor, need map[string]bool, why string) {
	switch err := c.Record.Err(capture.GradOutputs); {
	case c.opt.ForwardOnly:
		return nil, nil, "only the forward pass was asked for"
	case err != nil:
		return nil, nil, err.Error()
	case c.bound.Random() != "":
		return nil, nil, c.bound.Random()
	case !c.bound.Entry.HasGrad:
		return nil, nil, c.bound.Entry.NoGrad
	}
	if gradOutputs, why = c.recordedGradOutputs(); why != "" {
		return nil, nil, why
	}
	need = map[string]bool{}
	for _, a := range c.bound.Tensors() {
		if a.Tensor.RequiresGrad {
			need[a.Name] = true
		}
	}
	if len(need) == 0 {
		return nil, nil, "no argument requires a gradient"
	}
	return gradOutputs, need, ""
}

// recordedGradOutputs is the recorded gradient of each result tensor, nil where
// none flowed, or why there is none to start from.
func (c *Call) recordedGradOutputs() (gradOutputs []*tensor.Tensor, why string) {
	saved := flatten(c.Record.GradOutputs)
	outs := c.fwd.Sources()
	for len(saved) > len(outs) && saved[len(saved)-1] == nil { // the node has results that the op does not return
		saved = saved[:len(saved)-1]
	}
	if len(saved) > len(outs) {
		return nil, fmt.Sprintf("%d gradients of results were recorded, the op has %d", len(saved), len(outs))
	}
	gradOutputs = make([]*tensor.Tensor, len(outs))
	for i, s := range saved {
		t, ok := s.(*tensor.Tensor)
		switch {
		case !ok:
			continue
		case !t.DType.Computable():
			return nil, fmt.Sprintf("gradient of a result has dtype %s", t.DType)
		case !slices.Equal(t.Shape, outs[i].Shape):
			return nil, verdict.GradOfAnotherOp
		}
		gradOutputs[i] = t
	}
	if len(tensorsOf(saved)) == 0 {
		return nil, verdict.NoGradOutput
	}
	return gradOutputs, ""
}

// recorded is the recorded tensor that an argument of the call stands for.
func (c *Call) recorded(t *tensor.Tensor) *tensor.Tensor {
	if o, ok := c.original[t]; ok {
		return o
	}
	return t
}

// NoBackward says why Backward does nothing; "" if it computes gradients.
func (c *Call) NoBackward() string { return c.noBackward }

// Forward runs the forward pass and computes every element of its results.
func (c *Call) Forward() error {
	return Guard(func() error {
		f, err := c.bound.Forward()
		if err != nil {
			return err
		}
		for _, t := range f.Outs {
			compute(t)
		}
		c.fwd = f
		return nil
	})
}

// Backward computes every element of the gradients of the arguments that
// require one, from the recorded gradients of the results.
func (c *Call) Backward() error {
	if c.noBackward != "" {
		return nil
	}
	return Guard(func() error {
		grads, err := c.bound.Backward(c.fwd, c.gradOutputs, c.need)
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
func (c *Call) ForwardWork() Work {
	w := Work{Bytes: c.InputBytes(), Flops: c.bound.Flops(c.fwd)}
	held := 0.0 // elements of the results
	for _, t := range c.fwd.Outs {
		w.Bytes += touched(t)
		held += float64(t.Numel())
	}
	for _, a := range c.bound.Tensors() {
		if a.Name == c.bound.Entry.Lookup {
			w.Bytes -= max(0, touched(a.Tensor)-held*float64(a.Tensor.DType.Size()))
		}
	}
	return w
}

// BackwardWork of the call: it reads the arguments, but not what values were
// picked from, and the gradients of the results and writes one gradient per argument that requires one; each costs as
// many operations as the forward pass.
func (c *Call) BackwardWork() Work {
	var w Work
	flops := c.bound.Flops(c.fwd)
	for _, a := range c.bound.Tensors() {
		if a.Name != c.bound.Entry.Lookup {
			w.Bytes += touched(a.Tensor)
		}
		if c.need[a.Name] {
			w.Bytes += touched(a.Tensor)
			w.Flops += flops
		}
	}
	for _, t := range c.gradOutputs {
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
func (c *Call) Shapes() string {
	var names []string
	for _, a := range c.bound.Tensors() {
		names = append(names, a.Tensor.Meta())
	}
	return strings.Join(names, ", ")
}

// DType is the dtype of the first tensor among the arguments, "" if there is none.
func (c *Call) DType() string {
	if ts := c.bound.Tensors(); len(ts) > 0 {
		return ts[0].Tensor.DType.String()
	}
	return ""
}

// InputBytes is how many bytes the tensors among the arguments occupy.
func (c *Call) InputBytes() float64 {
	n, seen := 0.0, map[*tensor.Tensor]bool{}
	for _, a := range c.bound.Tensors() {
		if !seen[a.Tensor] {
			seen[a.Tensor] = true
			n += touched(a.Tensor)
		}
	}
	return n
}

// Key identifies calls that do the same work: op, dtypes, shapes, strides, which
// tensors want gradients, and all other arguments, but no tensor's elements.
func (c *Call) Key() string {
	var b strings.Builder
	b.WriteString(c.Op)
	for _, v := range c.Record.Args {
		b.WriteByte(' ')
		writeKey(&b, v)
	}
	if c.Record.Kwargs != nil {
		items := slices.Clone(c.Record.Kwargs.Items)
		slices.SortFunc(items, func(x, y value.Item) int {
			return strings.Compare(value.Str(x.Key), value.Str(y.Key))
		})
		for _, it := range items {
			fmt.Fprintf(&b, " %s=", value.Str(it.Key))
			writeKey(&b, it.Value)
		}
	}
	if c.opt.ForwardOnly || !c.Record.Has(capture.GradOutputs) {
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
		dst := tensor.Make[T](min(step, n))
		for k := a; k < b; k++ {
			lo := k * step
			tensor.Load(t, lo, dst[:min(step, n-lo)])
		}
	})
}

// DeviceCall is the call for a device, its forward pass alone or with the
// backward pass. It needs Start.
func (c *Call) DeviceCall(backward bool) *DeviceCall {
	d := &DeviceCall{Call: c.bound, Forward: c.fwd}
	if backward && c.noBackward == "" {
		d.GradOutputs = c.gradOutputs
		for _, a := range c.bound.Tensors() {
			if c.need[a.Name] && !slices.Contains(d.Need, a.Name) {
				d.Need = append(d.Need, a.Name)
			}
		}
	}
	return d
}
