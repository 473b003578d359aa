package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/diopi_conformance/kitcheck"
	"github.com/optool/optool/diopi_conformance/reference"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// A Device runs plans of C calls.
type Device interface {
	Run(ctx context.Context, p *diopi.Plan) (*devicebridge.Result, error)
}

// CheckDevice runs a case on a device, forward, backward and in place, and
// compares with what is recorded.
func (s *Store) CheckDevice(ctx context.Context, d Device, c *configs.Case, opt CheckOptions) []Result {
	one := func(v compare.Verdict, reason string) []Result {
		return []Result{{Result: kitcheck.Result{Reason: reason, WorstIndex: -1}, Phase: "forward", Verdict: v}}
	}
	in, err := s.ReadInput(c.Name)
	if err != nil {
		return one(compare.Invalid, sentence(err))
	}
	var out value.Value
	var grads *value.Dict
	if !c.NoOutputRef() {
		out, grads, err = s.ReadOutput(c.Name)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return one(compare.Skipped, "no result is recorded")
		case err != nil:
			return one(compare.Invalid, sentence(err))
		}
	}
	recipe, ok := diopi.Find(c.Function())
	if !ok {
		return one(compare.Unsupported, "no C function is known to carry it out")
	}
	call := diopiCase(c, in)
	if grads != nil {
		call.GradOutputs = onesLike(out, call.RequiresBackward)
	}
	plan, err := recipe.Plan(call)
	if err != nil {
		return one(compare.Error, sentence(err))
	}
	res, err := d.Run(ctx, plan)
	if err != nil {
		return one(compare.Error, sentence(err))
	}
	r := &run{plan: plan, res: res, opt: opt, rules: opt.rules(c)}
	if r.calls() {
		return r.results
	}
	if c.NoOutputRef() {
		r.random(c, in)
		return r.results
	}
	r.forward(out)
	r.backward(grads)
	r.inPlace(out)
	r.findings()
	return r.results
}

// diopiCase is a case as the recipes of C calls take it.
func diopiCase(c *configs.Case, in *Input) *diopi.Case {
	d := &diopi.Case{Function: c.Function(), Args: &value.Dict{Items: append([]value.Item(nil), in.Kwargs.Items...)}, InPlace: c.InPlace(), RequiresBackward: c.RequiresBackward(), SavedArgs: map[string]int{}}
	for _, it := range in.RequiresGrad.Items {
		d.RequiresGrad = append(d.RequiresGrad, fmt.Sprint(it.Key))
	}
	for _, it := range c.SavedArgs().Items {
		if n, ok := it.Value.(int64); ok {
			d.SavedArgs[fmt.Sprint(it.Key)] = int(n)
		}
	}
	for _, a := range c.Args() {
		if a.Sparse {
			d.Sparse = append(d.Sparse, a.Name)
		}
		if a.Stride == nil {
			continue
		}
		for i, it := range d.Args.Items {
			if x, ok := it.Value.(*tensor.Tensor); ok && it.Key == a.Name && len(a.Stride) == x.Dim() {
				d.Args.Items[i].Value = strided(x, a.Stride)
			}
		}
	}
	return d
}

// onesLike are the kit's gradients of a recorded result: ones for the outputs
// picked, or for all of them.
func onesLike(out value.Value, pick []int) []*tensor.Tensor {
	items := []value.Value{out}
	if l, ok := out.(*value.Sequence); ok {
		items = l.Items
	}
	if len(pick) == 0 {
		for i := range items {
			pick = append(pick, i)
		}
	}
	var ones []*tensor.Tensor
	for _, i := range pick {
		if i < 0 || i >= len(items) {
			return nil
		}
		t, ok := items[i].(*tensor.Tensor)
		if !ok {
			return nil
		}
		ones = append(ones, reference.Ones(i, t).Rounded())
	}
	return ones
}

// strided is x in a buffer of its own with these strides, in elements, which do
// not overlap.
func strided(x *tensor.Tensor, stride []int) *tensor.Tensor {
	size, last := x.DType.Size(), 0
	for i, n := range x.Shape {
		last += max(n-1, 0) * stride[i]
	}
	dense, buf := x.AppendBytes(nil), make([]byte, (last+1)*size)
	for i := range x.Numel() {
		at, rest := 0, i
		for k := len(x.Shape) - 1; k >= 0; k-- {
			at += rest % x.Shape[k] * stride[k]
			rest /= x.Shape[k]
		}
		copy(buf[at*size:(at+1)*size], dense[i*size:])
	}
	y, err := tensor.NewView(tensor.NewStorage(buf), tensor.View{DType: x.DType, Shape: x.Shape, Stride: stride})
	if err != nil { // negative strides: the layout cannot be kept
		return x
	}
	return y
}

// A run judges what one plan yielded.
type run struct {
	plan    *diopi.Plan
	res     *devicebridge.Result
	opt     CheckOptions
	rules   kitcheck.Options
	results []Result
}

// phases are the phases of records by those of calls.
var phases = map[diopi.Phase]string{diopi.Forward: "forward", diopi.Backward: "backward", diopi.InPlace: "inplace"}

func (r *run) add(phase string, v compare.Verdict, reason string) {
	r.results = append(r.results, Result{Result: kitcheck.Result{Reason: reason, WorstIndex: -1}, Phase: phase, Verdict: v, Atol: r.rules.Atol, Rtol: r.rules.Rtol})
}

// callVerdicts are the verdicts of calls that did not end well.
var callVerdicts = map[devicebridge.Status]compare.Verdict{
	devicebridge.Failed: compare.Fail, devicebridge.Threw: compare.Fail, devicebridge.Unsupported: compare.Unsupported,
	devicebridge.Crashed: compare.Crash, devicebridge.Exited: compare.Crash, devicebridge.TimedOut: compare.Timeout,
}

// calls reports whether a call did not end well, which ends the case.
func (r *run) calls() bool {
	w := r.res.Worst()
	if w == nil {
		return false
	}
	phase := "forward"
	for i := range r.res.Calls {
		if &r.res.Calls[i] == w {
			phase = phases[r.plan.Calls[i].Phase]
		}
	}
	v, ok := callVerdicts[w.Status]
	if !ok {
		v = compare.Error
	}
	reason := fmt.Sprintf("%s %s", w.Function, w.Status)
	if w.Reason != "" {
		reason += ": " + w.Reason
	}
	r.add(phase, v, reason)
	return true
}

// value is what an argument of the plan held in the end.
func (r *run) value(a diopi.Arg) value.Value {
	if o, ok := a.(*diopi.Out); ok {
		switch v, _ := r.res.Out(o); v := v.(type) {
		case bool:
			n := int64(0)
			if v {
				n = 1
			}
			return tensor.Scalar(tensor.Bool, n)
		case int64:
			return tensor.Scalar(tensor.Int64, v)
		case float64:
			return tensor.Scalar(tensor.Float64, v)
		}
		return nil
	}
	if list, ok := a.([]*diopi.Tensor); ok {
		l := value.NewList()
		for _, t := range list {
			l.Items = append(l.Items, r.value(t))
		}
		return l
	}
	if t, ok := r.res.Tensor(a); ok {
		return t
	}
	if t, ok := a.(*diopi.Tensor); ok && t.Value != nil {
		return t.Value // the kit returns this argument, which no call writes
	}
	return nil
}

func (r *run) forward(want value.Value) {
	got := value.NewList()
	for _, a := range r.plan.Outputs {
		got.Items = append(got.Items, r.value(a))
	}
	r.compare("forward", "output", got, want)
}

// compare compares results with what is recorded; lists within lists are
// flattened, since plans have one level.
func (r *run) compare(phase, target string, got *value.Sequence, want value.Value) {
	if _, ok := want.(*value.Sequence); !ok && len(got.Items) == 1 {
		r.results = append(r.results, r.opt.judge(phase, r.rules, kitcheck.Compare(target, got.Items[0], want, r.rules))...)
		return
	}
	r.results = append(r.results, r.opt.judge(phase, r.rules, kitcheck.Compare(target, flat(got), flat(want), r.rules))...)
}

func flat(v value.Value) value.Value {
	s, ok := v.(*value.Sequence)
	if !ok {
		return v
	}
	l := value.NewList()
	for _, it := range s.Items {
		if inner, ok := flat(it).(*value.Sequence); ok {
			l.Items = append(l.Items, inner.Items...)
		} else {
			l.Items = append(l.Items, it)
		}
	}
	return l
}

func (r *run) backward(want *value.Dict) {
	if want == nil {
		return
	}
	got := &value.Dict{}
	for _, g := range r.plan.Grads {
		got.Items = append(got.Items, value.Item{Key: g.Name, Value: r.value(g.Arg)})
	}
	r.results = append(r.results, r.opt.judge("backward", r.rules, kitcheck.Compare("grad", got, want, r.rules))...)
}

func (r *run) inPlace(want value.Value) {
	if r.plan.InPlace == nil {
		return
	}
	r.compare("inplace", "output", value.NewList(r.value(r.plan.InPlace)), want)
}

// findings are what the bridge's own checks found. That an output was left
// unwritten matters by itself only in strict mode: some are optional.
func (r *run) findings() {
	for _, f := range r.res.Findings {
		if f.Kind == devicebridge.Unwritten && !r.opt.Strict {
			continue
		}
		phase := phases[r.plan.Calls[f.Call].Phase]
		if f.Kind == devicebridge.InputChanged {
			phase = "input"
		}
		r.add(phase, compare.Fail, r.plan.Calls[f.Call].Function+": "+f.String())
	}
}
