package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/diopi_conformance/kitcheck"
	"github.com/optool/optool/diopi_conformance/reference"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Device runs plans of C calls.
type Device interface {
	Run(ctx context.Context, p *diopi.Plan) (*devicebridge.Result, error)
}

// CheckDevice runs a case on a device, forward, backward and in place, and
// compares with what is recorded.
func (s *Store) CheckDevice(ctx context.Context, d Device, c *configs.Case, opt CheckOptions) []Result {
	in, out, grads, missing := s.read(c)
	if missing != nil {
		return missing
	}
	recipe, ok := diopi.Find(c.Function())
	if !ok {
		return one(verdict.Unsupported, "no C function is known to carry it out")
	}
	call := diopiCase(c, in)
	if skip := opt.Variant.apply(call); skip != "" {
		return one(verdict.Skipped, skip)
	}
	if grads != nil {
		var err error
		if call.GradOutputs, err = s.ReadCotangents(c.Name); err != nil {
			return one(verdict.Invalid, sentence(err))
		}
		if call.GradOutputs == nil {
			call.GradOutputs = onesLike(out, call.RequiresBackward)
		}
	}
	if opt.Strict {
		call.Outputs = metas(out)
	}
	plan, err := recipe.Plan(call)
	if err != nil {
		return one(verdict.Error, sentence(err))
	}
	plan, conversions := opt.Convert.Apply(plan, opt.Exports)
	r := &run{function: c.Function(), opt: opt, rules: opt.rules(c)}
	if r.plan, r.res, err = r.runWhatIsThere(ctx, d, plan); err != nil {
		return one(verdict.Error, sentence(err))
	}
	switch {
	case r.calls():
	case c.NoOutputRef():
		r.random(in)
	default:
		out = opt.Variant.expected(out, plan.Outputs)
		j := judged{&configs.Case{Name: c.Name, Item: in.Item}, in.Kwargs, call.GradOutputs}
		got := r.forward(out)
		if ref := j.accept(r.results, got); ref != nil && grads != nil {
			grads = ref.Grads
		}
		r.otherwise(j, got)
		if len(r.plan.Grads) > 0 || len(plan.Grads) == 0 {
			r.backward(grads)
		}
		r.inPlace(out)
		r.findings()
	}
	r.results = append(r.results, r.lacking...)
	r.note(conversions)
	return r.results
}

// runWhatIsThere runs a plan. Where the device has no function for the backward pass or the in-place form,
// that phase is recorded as lacking, and the plan is run without it.
func (r *run) runWhatIsThere(ctx context.Context, d Device, p *diopi.Plan) (*diopi.Plan, *devicebridge.Result, error) {
	for {
		res, err := d.Run(ctx, p)
		if err != nil {
			return nil, nil, err
		}
		i := slices.IndexFunc(res.Calls, func(c devicebridge.CallResult) bool { return c.Status != devicebridge.OK })
		if i < 0 || res.Calls[i].Status != devicebridge.Unsupported || p.Calls[i].Phase == diopi.Forward {
			return p, res, nil
		}
		lacking := &run{plan: p, res: res, rules: r.rules}
		lacking.calls()
		r.lacking = append(r.lacking, lacking.results...)
		p = p.Without(p.Calls[i].Phase)
	}
}

// note names in each result the conversions of its phase.
func (r *run) note(conversions []diopi.Conversion) {
	texts := map[string][]string{}
	for _, c := range conversions {
		phase, text := phases[c.Phase], fmt.Sprintf("%s %s->%s", c.Tensor.Role, c.From, c.To)
		if !slices.Contains(texts[phase], text) {
			texts[phase] = append(texts[phase], text)
		}
	}
	for i := range r.results {
		r.results[i].Converted = strings.Join(texts[r.results[i].Phase], ", ")
	}
}

// diopiCase is a case as the recipes of C calls take it.
func diopiCase(c *configs.Case, in *Input) *diopi.Case {
	d := &diopi.Case{Function: c.Function(), Args: laidOut(c, in.Kwargs),
		InPlace: c.InPlace(), RequiresBackward: c.RequiresBackward(), SavedArgs: map[string]int{}}
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
	}
	return d
}

// laidOut are the arguments of a case with the strides that it asks for.
func laidOut(c *configs.Case, kwargs *value.Dict) *value.Dict {
	d := &value.Dict{Items: slices.Clone(kwargs.Items)}
	for _, a := range c.Args() {
		if a.Stride == nil {
			continue
		}
		for i, it := range d.Items {
			if x, ok := it.Value.(*tensor.Tensor); ok && it.Key == a.Name && len(a.Stride) == x.Dim() {
				d.Items[i].Value = strided(x, a.Stride)
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

// metas are the dtypes and shapes of a recorded result, nil unless all of it are
// arrays.
func metas(out value.Value) []diopi.Meta {
	items := []value.Value{out}
	if l, ok := flat(out).(*value.Sequence); ok {
		items = l.Items
	}
	var all []diopi.Meta
	for _, it := range items {
		t, ok := it.(*tensor.Tensor)
		if !ok {
			return nil
		}
		all = append(all, diopi.Meta{DType: t.DType, Shape: t.Shape})
	}
	return all
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
	function string
	plan     *diopi.Plan
	res      *devicebridge.Result
	opt      CheckOptions
	rules    kitcheck.Options
	results  []Result
	lacking  []Result // of phases that the device has no function for
}

// phases are the phases of records by those of calls.
var phases = map[diopi.Phase]string{diopi.Forward: "forward", diopi.Backward: "backward", diopi.InPlace: "inplace"}

func (r *run) add(phase string, v verdict.Verdict, reason string) {
	r.results = append(r.results, Result{Result: kitcheck.Result{Reason: reason, WorstIndex: -1}, Phase: phase,
		Verdict: v, Atol: r.rules.Atol, Rtol: r.rules.Rtol})
}

// callVerdicts are the verdicts of calls that did not end well.
var callVerdicts = map[devicebridge.Status]verdict.Verdict{
	devicebridge.Failed: verdict.Fail, devicebridge.Threw: verdict.Crash, devicebridge.Unsupported: verdict.Unsupported,
	devicebridge.Crashed: verdict.Crash, devicebridge.Exited: verdict.Crash, devicebridge.TimedOut: verdict.Timeout,
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
		v = verdict.Error
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
		v, _ := r.res.Out(o)
		if t, ok := tensor.FromNumber(v); ok {
			return t
		}
		return nil
	}
	if list, ok := a.(diopi.Tensors); ok {
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

// forward compares the results of the calls and returns them.
func (r *run) forward(want value.Value) *value.Sequence {
	got := value.NewList()
	for _, a := range r.plan.Outputs {
		v := r.value(a)
		if _, ok := a.(*diopi.Out); ok {
			want = r.inDTypeOf(v, want) // C's type
		}
		got.Items = append(got.Items, v)
	}
	r.compare("forward", "output", got, want)
	return got
}

// otherwise says in wrong results that they are right with another value of a switch, the first for
// which they are: a device that turns the halves of rows with interleaved=True ignores the argument.
func (r *run) otherwise(j judged, got *value.Sequence) {
	failed := func(x Result) bool { return x.Verdict == verdict.Fail && x.Phase == "forward" }
	if !slices.ContainsFunc(r.results, failed) {
		return
	}
	for i, it := range j.kwargs.Items {
		set, ok := it.Value.(bool)
		if !ok {
			continue
		}
		kwargs := &value.Dict{Class: j.kwargs.Class, Items: slices.Clone(j.kwargs.Items)}
		kwargs.Items[i].Value = !set
		ref, err := reference.Compute(j.c, kwargs, reference.Ones)
		if err != nil {
			continue
		}
		other := &run{function: r.function, opt: r.opt, rules: r.rules}
		if other.compare("forward", "output", got, ref.Output); slices.ContainsFunc(other.results, failed) {
			continue
		}
		for k, x := range r.results {
			if failed(x) {
				r.results[k].Reason += fmt.Sprintf("; right with %s=%s", it.Key, value.Repr(!set))
			}
		}
		return
	}
}

// inDTypeOf is what is recorded in the dtype that the result is bound to have,
// which only the strict rules look at.
func (r *run) inDTypeOf(got, want value.Value) value.Value {
	g, isArray := got.(*tensor.Tensor)
	w, wantsArray := want.(*tensor.Tensor)
	if r.opt.Strict && isArray && wantsArray && g.DType != w.DType {
		return opdef.Cast(w, g.DType).Rounded()
	}
	return want
}

// compare compares results with what is recorded; lists within lists are
// flattened, since plans have one level.
func (r *run) compare(phase, target string, got *value.Sequence, want value.Value) {
	if _, ok := want.(*value.Sequence); !ok && len(got.Items) == 1 {
		r.results = append(r.results, r.opt.judge(phase, r.rules, kitcheck.Compare(target, got.Items[0], want,
			r.rules))...)
		return
	}
	r.results = append(r.results, r.opt.judge(phase, r.rules, kitcheck.Compare(target, flat(got), flat(want),
		r.rules))...)
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
		v := r.value(g.Arg)
		if t, ok := v.(*tensor.Tensor); ok && g.Sum != nil {
			v = opdef.SumTo(t, g.Sum).Rounded()
		}
		got.Items = append(got.Items, value.Item{Key: g.Name, Value: v})
	}
	r.results = append(r.results, r.opt.judge("backward", r.rules, kitcheck.Compare("grad", got, want, r.rules))...)
}

func (r *run) inPlace(want value.Value) {
	if r.plan.InPlace == nil {
		return
	}
	got := r.value(r.plan.InPlace)
	want = r.inDTypeOf(got, want) // the input's
	r.compare("inplace", "output", value.NewList(got), want)
}

// findings are what the bridge's own checks found. By the kit's rules an input
// may change a little, and a state altogether; an output may stay unwritten, for
// some are optional: that is told only where the results of the phase are wrong.
func (r *run) findings() {
	for _, f := range r.res.Findings {
		phase := phases[r.plan.Calls[f.Call].Phase]
		switch f.Kind {
		case devicebridge.Unwritten:
			if !r.opt.Strict && !r.failed(phase) {
				continue
			}
		case devicebridge.InputChanged:
			if !r.opt.Strict && r.tolerated(f) {
				continue
			}
			phase = "input"
		}
		r.add(phase, verdict.Fail, r.plan.Calls[f.Call].Function+": "+f.String())
	}
}

// failed reports whether a result of the phase is wrong.
func (r *run) failed(phase string) bool {
	return slices.ContainsFunc(r.results, func(x Result) bool { return x.Phase == phase && x.Verdict == verdict.Fail })
}

// tolerated reports whether the kit lets pass that an input changed.
func (r *run) tolerated(f devicebridge.Finding) bool {
	name, _, _ := strings.Cut(f.Role, "[")
	if slices.Contains(states[r.function], name) {
		return true
	}
	t, ok := f.Arg.(*diopi.Tensor)
	if !ok || t.Value == nil {
		return false
	}
	got, ok := r.res.Tensor(t)
	if !ok {
		return false
	}
	rules := kitcheck.Options{Rtol: 1e-5, Atol: 1e-8, Mismatch: r.rules.Mismatch}
	return kitcheck.Compare(f.Role, got, t.Value, rules)[0].OK
}

// states are the arguments that a function may change, as the kit lists them.
var states = map[string][]string{
	"batch_norm": {"running_mean", "running_var"}, "batch_norm_gather_stats_with_counts": {"running_mean",
		"running_var"},
	"fill_": {"input"}, "zero_": {"input"}, "copy_": {"input"},
	"random": {"input"}, "uniform": {"input"}, "normal_": {"input"}, "bernoulli": {"input"},
	"embedding": {"weight"},
	"sgd":       {"buf", "param"},
	"adam":      {"param", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, "adamw": {"param", "exp_avg", "exp_avg_sq",
		"max_exp_avg_sq"},
	"fused_adamw":     {"params", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"},
	"adadelta":        {"param", "square_avg", "acc_delta"},
	"rmsprop":         {"param", "square_avg", "grad_avg", "momentum_buffer"},
	"clip_grad_norm_": {"tensors"},
	"cast_dtype":      {"out"}, "context_attention": {"out"}, "destindex_copy_kv": {"out"},
	"token_attention": {"out"}, "token_softmax_reducev": {"out"},
	"apply_penalty": {"logits"}, "apply_penalty_v2": {"logits"}, "rotary_emb_v2": {"query", "key"},
}
