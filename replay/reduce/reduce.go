package reduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Reduction is a smaller call that fails as the recorded one does.
type Reduction struct {
	Call    *capture.Call // in memory, until the recorded call is closed
	Failure string        // why it fails: the reason of its result
	Phase   replay.Phase  // in which pass
	Cause   *causes.Cause // of the recorded call, and of this one; nil if none was found
	Verdict verdict.Verdict
	Was, Is []string // the tensors among the arguments: name, dtype, shape, strides
	// Depends are sentences about what the failure depends on, and Indifferent about
	// what it does not; Unclear about sizes of which some fail, by no rule that was found.
	Depends, Indifferent, Unclear []string
	Runs                          int  // calls that were run
	Done                          bool // there was time for everything
}

// ErrSound is returned for a call that does not fail.
var ErrSound = errors.New("the call does not fail")

// lastSearch is how long the search for the cause of the smallest call may take.
const lastSearch = 5 * time.Second

// errTime says that the time is up.
var errTime = errors.New("time is up")

// Of reduces a recorded call that is open and stays so: on opt.Device if there is one,
// else what was recorded of it. It tries until a deadline and returns what it has then.
func Of(ctx context.Context, rec *capture.Call, opt replay.Options, until time.Time) (*Reduction, error) {
	r := &reducer{ctx: ctx, opt: opt, until: until, maker: maker{rec: rec}}
	if err := replay.Guard(r.start); err != nil {
		return nil, err
	}
	err := replay.Guard(r.shrink)
	if err == nil {
		err = replay.Guard(r.explain)
	}
	if err != nil && !errors.Is(err, errTime) && ctx.Err() == nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	out := &Reduction{Runs: r.runs, Done: err == nil, Phase: r.phase, Verdict: r.verdict, Depends: r.depends,
		Indifferent: r.indifferent, Unclear: r.unclear}
	err = replay.Guard(func() error {
		c := r.best.clone()
		c.copied = true
		if out.Call, err = r.made(&r.maker, c); err != nil {
			return err
		}
		call := replay.Of(out.Call, opt)
		out.Is = described(call)
		o := call.Compare()
		res := r.failure(o)
		if res == nil { // copies lie elsewhere in memory than what was recorded
			return errors.New("the call does not fail once its tensors are copied")
		}
		out.Failure = res.Reason
		if !r.recorded() {
			out.Call = r.withResults(out.Call, call.Values())
		}
		if r.finding.cause != nil {
			r.until = time.Now().Add(lastSearch)
			known := r.finding.cause.Text
			if f := r.findingOf(call, o, res, known); f.cause != nil && sameKind(f.cause.Text, known) {
				out.Cause = f.cause
			}
		}
		return nil
	})
	out.Was = described(r.full)
	return out, err
}

// withResults is a call with what the device gave of it: others can read, explain and compare it like a recorded one.
func (r *reducer) withResults(call *capture.Call, v replay.Values) *capture.Call {
	records := map[capture.Kind]*capture.Record{}
	for _, k := range capture.Kinds() {
		if rec := call.Record(k); rec != nil {
			records[k] = rec
		}
	}
	in := records[capture.Input]
	add := func(k capture.Kind, name string, vs []value.Value) {
		if vs != nil {
			records[k] = &capture.Record{Name: in.Name, Args: vs, Kwargs: &value.Dict{},
				Identifier: path.Join(path.Dir(in.Identifier), name)}
		}
	}
	add(capture.Output, "output", v.RecordedOutput)
	if r.phase == replay.Backward {
		add(capture.GradInputs, "grad_inputs", v.RecordedGradInputs)
	}
	return capture.Made(records)
}

// A reducer looks for a smaller call.
type reducer struct {
	maker
	ctx   context.Context
	opt   replay.Options
	until time.Time
	runs  int

	full    *replay.Call // as recorded, compared
	phase   replay.Phase // in which it fails
	verdict verdict.Verdict
	target  string // of recorded results: the value that fails
	before  *replay.Outcome
	finding finding // of the recorded call
	// scattered are the arguments that must not be contiguous.
	scattered []opdef.Arg
	best      candidate

	depends, indifferent, unclear []string
}

// recorded reports whether it is about recorded results.
func (r *reducer) recorded() bool { return r.opt.Device == nil }

func (r *reducer) start() error {
	r.full = replay.Of(r.rec, r.opt)
	if err := r.full.Err(); err != nil {
		return err
	}
	if why := r.full.Bound().Random(); why != "" {
		return errors.New(why)
	}
	o := r.full.Compare()
	r.before = o
	r.runs++
	for _, res := range o.Results {
		if failed(res.Verdict) && (r.target == "" || res.Phase == replay.Forward && r.phase == replay.Backward) {
			r.phase, r.verdict, r.target = res.Phase, res.Verdict, res.Target
			if r.target == "" {
				r.target = "the call"
			}
			if r.phase == replay.Forward {
				break
			}
		}
	}
	if r.target == "" {
		return unfailing(o)
	}
	r.finding = r.findingOf(r.full, o, r.failure(o), "")
	r.opt.ForwardOnly = r.opt.ForwardOnly || r.phase != replay.Backward
	if r.recorded() {
		if _, _, ok := r.pair(r.full); !ok {
			return fmt.Errorf("%s of the %s pass cannot be cut: it was not recorded as a tensor", r.target, r.phase)
		}
	}
	if r.recorded() && r.rec.IsPair() && r.phase == replay.Backward {
		rec := *r.rec
		rec.GradInputs = narrowed(rec.GradInputs, r.full.Values().GradInputs)
		r.rec = &rec
	}
	r.maker.find(func(m *maker, c candidate) bool { return r.shapes(m, c) != nil })
	r.maker.follow(func(c candidate) [][]int { return r.shapes(&r.maker, c) })
	r.best = r.whole()
	return nil
}

// unfailing is ErrSound if a call was judged and does not fail; otherwise it says what was not judged, and why.
func unfailing(o *replay.Outcome) error {
	judged := false
	for _, x := range o.Results {
		switch x.Verdict {
		case verdict.Pass, verdict.Warn:
			judged = true
		case verdict.Unsupported, verdict.Invalid, verdict.Error:
			return fmt.Errorf("%s was not judged: %s: %s", cmp.Or(x.Target, "the call"), x.Verdict, x.Reason)
		}
	}
	if judged {
		return ErrSound
	}
	if len(o.Results) == 0 {
		return errors.New("nothing of the call was judged")
	}
	x := &o.Results[0]
	return fmt.Errorf("nothing of the call was judged: %s: %s: %s", cmp.Or(x.Target, "the call"), x.Verdict, x.Reason)
}

func failed(v verdict.Verdict) bool {
	return v == verdict.Fail || v == verdict.Crash || v == verdict.Timeout
}

// shapes are those of the results of a candidate, nil if the reference refuses it.
func (r *reducer) shapes(m *maker, c candidate) [][]int {
	if time.Now().After(r.until) || r.ctx.Err() != nil || m.numel(c) > mostElements {
		return nil
	}
	args, kwargs := m.arguments(c)
	rec := capture.Made(map[capture.Kind]*capture.Record{capture.Input: r.input(args, kwargs)})
	call := replay.Of(rec, r.opt)
	if call.Start() != nil {
		return nil
	}
	return shapesOf(call.Outs())
}

func (r *reducer) input(args []value.Value, kwargs *value.Dict) *capture.Record {
	in := *r.rec.Record(capture.Input)
	in.Args, in.Kwargs = args, kwargs
	return &in
}

// mostElements is the number of elements of a tensor up to which candidates are made.
const mostElements = 1 << 26

// numel is the number of elements of the largest tensor that a candidate has to copy.
func (m *maker) numel(c candidate) int {
	most := 0
	e := &editor{maker: m, candidate: c}
	for _, t := range m.rec.Inputs() {
		spans, _ := e.spansOf(t)
		n := 1
		for _, s := range spans {
			n *= s.n
		}
		most = max(most, n)
	}
	return most
}

// A trial is what became of a candidate.
type trial struct {
	fails bool // as the recorded call does
	shows bool // and shows what the recorded call shows: see finding
}

// try runs a candidate. After the deadline the error is errTime.
func (r *reducer) try(c candidate) (t trial, err error) {
	if r.numel(c) > mostElements {
		return trial{}, r.timeUp()
	}
	call, o, err := r.outcome(c)
	if err != nil || o == nil {
		return trial{}, err
	}
	res := r.failure(o)
	if res == nil {
		return trial{}, nil
	}
	if r.recorded() {
		others := slices.ContainsFunc(o.Results, func(x replay.Result) bool {
			return failed(x.Verdict) && (x.Phase != r.phase || x.Target != r.target)
		})
		if others && !r.alsoFailed(o) || !r.follows(call, c) {
			return trial{}, nil
		}
	}
	return trial{true, r.shows(call, o, res)}, nil
}

// timeUp is errTime after the deadline.
func (r *reducer) timeUp() error {
	if time.Now().After(r.until) || r.ctx.Err() != nil {
		return errTime
	}
	return nil
}

// alsoFailed reports whether all that fails in an outcome fails in the recorded call.
func (r *reducer) alsoFailed(o *replay.Outcome) bool {
	return !slices.ContainsFunc(o.Results, func(x replay.Result) bool {
		return failed(x.Verdict) && !slices.ContainsFunc(r.before.Results, func(y replay.Result) bool {
			return failed(y.Verdict) && x.Phase == y.Phase && x.Target == y.Target
		})
	})
}

// failure is the result that fails as the recorded call does, nil if none does.
func (r *reducer) failure(o *replay.Outcome) *replay.Result {
	for i := range o.Results {
		x := &o.Results[i]
		if x.Phase == r.phase && x.Verdict == r.verdict && (!r.recorded() || x.Target == r.target) {
			return x
		}
	}
	return nil
}

// made is the call of a candidate, nil if the reference refuses it or what was recorded
// cannot be cut so.
func (r *reducer) made(m *maker, c candidate) (*capture.Call, error) {
	args, kwargs := m.arguments(c)
	records := map[capture.Kind]*capture.Record{capture.Input: r.input(args, kwargs)}
	call := replay.Of(capture.Made(records), r.opt)
	if err := call.Start(); err != nil {
		return nil, err
	}
	outs := call.Outs()
	add := func(k capture.Kind, vs []value.Value) {
		if vs != nil {
			rec := *r.rec.Record(k)
			rec.Args = vs
			records[k] = &rec
		}
	}
	if r.recorded() && (r.phase == replay.Forward || r.rec.HasOutput && c.single == nil) {
		out, ok := c.cutAll(r.rec.Output, m.cutsOf(c, r.rec.Output, shapesOf(outs)))
		switch {
		case ok:
			add(capture.Output, out)
		case r.phase == replay.Forward:
			return nil, nil
		}
	}
	if r.recorded() && r.phase == replay.Input {
		records[capture.After] = r.after(m, c)
	}
	if r.phase == replay.Backward {
		grads, ok := c.cutAll(r.rec.GradOutputs, m.cutsOf(c, r.rec.GradOutputs, shapesOf(outs)))
		if !ok {
			return nil, nil
		}
		add(capture.GradOutputs, grads)
		if r.recorded() {
			if grads, ok = c.cutAll(r.rec.GradInputs, m.cutsOfGradients(c, r.rec.GradInputs)); !ok {
				return nil, nil
			}
			add(capture.GradInputs, grads)
		}
	}
	return capture.Made(records), nil
}

// after is the record of a candidate's arguments after the call: each cut as the argument before it.
func (r *reducer) after(m *maker, c candidate) *capture.Record {
	rec := *r.rec.Record(capture.After)
	of := map[*tensor.Tensor]*tensor.Tensor{} // before the call, by that after it
	pair := func(before, after []value.Value) {
		xs, ys := leaves(before), leaves(after)
		for i := range min(len(xs), len(ys)) {
			x, ok1 := xs[i].(*tensor.Tensor)
			y, ok2 := ys[i].(*tensor.Tensor)
			if ok1 && ok2 && slices.Equal(x.Shape, y.Shape) {
				of[y] = x
			}
		}
	}
	pair(r.rec.Args, rec.Args)
	for _, it := range r.rec.Kwargs.Items {
		if v, has := rec.Kwargs.Get(value.Str(it.Key)); has {
			pair([]value.Value{it.Value}, []value.Value{v})
		}
	}
	cut := func(v value.Value) value.Value {
		return mapped(v, func(t *tensor.Tensor) *tensor.Tensor {
			if of[t] == nil {
				return t
			}
			return c.copyOf(m.cutsOfArgument(c, of[t]).of(t), t)
		})
	}
	args := make([]value.Value, len(rec.Args))
	for i, v := range rec.Args {
		args[i] = cut(v)
	}
	kwargs := &value.Dict{Class: rec.Kwargs.Class}
	for _, it := range rec.Kwargs.Items {
		kwargs.Items = append(kwargs.Items, value.Item{Key: it.Key, Value: cut(it.Value)})
	}
	rec.Args, rec.Kwargs = args, kwargs
	return &rec
}

func shapesOf(ts []*tensor.Tensor) [][]int {
	shapes := make([][]int, len(ts))
	for i, t := range ts {
		shapes[i] = t.Shape
	}
	return shapes
}

// follows reports whether the reference of a candidate is what the reference of the
// recorded call has where what was recorded was cut.
func (r *reducer) follows(call *replay.Call, c candidate) bool {
	_, whole, ok1 := r.pair(r.full)
	_, part, ok2 := r.pair(call)
	if !ok1 || !ok2 {
		return false
	}
	if r.phase == replay.Input {
		was, _, _, _ := r.full.ArgumentPair(r.target)
		k := r.cutsOfArgument(c, was)
		return slices.Equal(k.shape, part.Shape) && k.inside(whole) && alike(k.of(whole), part)
	}
	values := r.full.Values()
	reference, cuts := values.Output, r.cutsOf(c, r.rec.Output, shapesOf(call.Outs()))
	if r.phase == replay.Backward {
		reference, cuts = values.GradInputs, r.cutsOfGradients(c, r.rec.GradInputs)
	}
	at := slices.Index(leaves(reference), value.Value(whole))
	if at < 0 || at >= len(cuts) || cuts[at] == nil || !slices.Equal(cuts[at].shape, part.Shape) {
		return false
	}
	return cuts[at].inside(whole) && alike(cuts[at].of(whole), part)
}

// pair is what was recorded of the value that fails and what it should be.
func (r *reducer) pair(call *replay.Call) (got, want *tensor.Tensor, ok bool) {
	if r.phase == replay.Input {
		_, got, want, ok = call.ArgumentPair(r.target)
		return got, want, ok
	}
	return call.Pair(&replay.Result{Phase: r.phase, Target: r.target})
}

// alike reports whether two references give the same results, apart from the rounding of
// float64.
func alike(a, b *tensor.Tensor) bool {
	const block = 1 << 12
	x, y := make([]float64, block), make([]float64, block)
	largest := opdef.MaxAbs(b)
	for lo := 0; lo < a.Numel(); lo += block {
		n := min(block, a.Numel()-lo)
		tensor.Load(a, lo, x[:n])
		tensor.Load(b, lo, y[:n])
		for i := range n {
			same := x[i] == y[i] || x[i] != x[i] && y[i] != y[i]
			if !same && !(math.Abs(x[i]-y[i]) <= 0x1p-40*max(math.Abs(y[i]), 0x1p-8*largest)) {
				return false
			}
		}
	}
	return true
}

// keep takes a candidate as the best so far if it fails and shows what the recorded call shows.
func (r *reducer) keep(c candidate) (trial, error) {
	t, err := r.try(c)
	if t.shows {
		r.best = c
	}
	return t, err
}

// shrink makes the call smaller as long as it fails.
func (r *reducer) shrink() error {
	if err := r.contiguous(); err != nil {
		return err
	}
	if err := r.leaveOut(); err != nil {
		return err
	}
	if err := r.cut(); err != nil {
		return err
	}
	if err := r.renumber(); err != nil {
		return err
	}
	return r.cutSingle()
}

// renumber replaces the indices that are left by 0, 1, 2, ... in their order, and cuts again: what they choose from may
// then be as short as there are different ones.
func (r *reducer) renumber() error {
	if r.recorded() || !slices.ContainsFunc(r.rec.Inputs(), isIndex) {
		return nil
	}
	c := r.best.clone()
	c.renumbered = true
	if t, err := r.keep(c); !t.shows || err != nil {
		return err
	}
	r.indifferent = append(r.indifferent, "for indices renumbered from 0")
	return r.cut()
}

// cutSingle cuts further with the wrong gradient as the only recorded value: other recorded values may be sums that a
// cut changes, such as the gradient of a weight. They are kept if nothing more can be cut without them.
func (r *reducer) cutSingle() error {
	if !r.recorded() || r.phase != replay.Backward {
		return nil
	}
	got, _, _ := r.pair(r.full)
	grads := leaves(r.full.Values().RecordedGradInputs)
	before, c := r.best, r.best.clone()
	if c.single = r.argumentsOf(grads)[slices.Index(grads, value.Value(got))]; c.single == nil {
		return nil
	}
	if t, err := r.keep(c); !t.shows || err != nil {
		return err
	}
	err := r.cut()
	if slices.Equal(r.best.spans, before.spans) {
		r.best = before
	}
	return err
}

// cut makes the axes as short as they can be.
func (r *reducer) cut() error {
	for smaller := true; smaller; {
		smaller = false
		for k := range r.axes {
			before := r.best.spans[k].n
			if err := r.narrow(k); err != nil {
				return err
			}
			smaller = smaller || r.best.spans[k].n < before
		}
	}
	return nil
}

// narrow makes the span of an axis as short as it can be.
func (r *reducer) narrow(k int) error {
	s := r.best.spans[k]
	if s.n == 1 {
		return nil
	}
	for _, one := range []span{{s.from, 1}, {s.from + s.n - 1, 1}} {
		if t, err := r.keep(r.best.with(k, one)); t.shows || err != nil {
			return err
		}
	}
	for step := s.n / 2; step >= 1; {
		s = r.best.spans[k]
		if step >= s.n {
			step /= 2
			continue
		}
		t, err := r.keep(r.best.with(k, span{s.from, s.n - step}))
		if err == nil && !t.shows {
			t, err = r.keep(r.best.with(k, span{s.from + step, s.n - step}))
		}
		if err != nil {
			return err
		}
		if !t.shows {
			step /= 2
		}
	}
	return nil
}

// contiguous copies tensors that are not contiguous.
func (r *reducer) contiguous() error {
	var scattered []opdef.Arg
	for _, a := range r.full.Bound().Tensors() {
		if !a.Tensor.IsContiguous() && !slices.ContainsFunc(scattered, func(b opdef.Arg) bool {
			return b.Tensor == a.Tensor
		}) {
			scattered = append(scattered, a)
		}
	}
	if len(scattered) == 0 {
		return nil
	}
	all := r.best.clone()
	for _, a := range scattered {
		all.dense[a.Tensor] = true
	}
	whole, err := r.keep(all)
	if whole.fails && !r.recorded() {
		r.indifferent = append(r.indifferent, "contiguous or not")
	}
	if whole.shows || err != nil {
		return err
	}
	for _, a := range scattered {
		c := r.best.clone()
		c.dense[a.Tensor] = true
		t, err := r.keep(c)
		if err != nil {
			return err
		}
		if !t.fails && !whole.fails {
			r.scattered = append(r.scattered, a)
			r.depends = append(r.depends, fmt.Sprintf("%s is not contiguous (strides %v)", a.String(), a.Tensor.Stride))
		}
	}
	return nil
}

// leaveOut leaves out arguments that the call can do without.
func (r *reducer) leaveOut() error {
	var names []string
	for i := len(r.rec.Args) - 1; i >= 0; i-- {
		names = append(names, number(i))
	}
	for _, it := range r.rec.Kwargs.Items {
		if key, ok := it.Key.(string); ok {
			names = append(names, key)
		}
	}
	for _, name := range names {
		c := r.best.clone()
		c.without[name] = true
		was := r.boundArguments(r.best)
		now := r.boundArguments(c)
		if now == nil {
			continue
		}
		t, err := r.keep(c)
		if err != nil {
			return err
		}
		if r.recorded() {
			continue // without it the reference is that of another call
		}
		for _, a := range was {
			i := slices.IndexFunc(now, func(b opdef.Argument) bool { return a.Name == b.Name })
			if i < 0 || a.IsDefault() || !now[i].IsDefault() {
				continue
			}
			what := a.Name
			if _, isTensor := a.Python().(*tensor.Tensor); !isTensor {
				what += "=" + value.Repr(a.Python())
			}
			if t.fails {
				r.indifferent = append(r.indifferent, "with or without "+what)
			} else {
				r.depends = append(r.depends, "there is "+what)
			}
		}
	}
	return nil
}

// boundArguments are the arguments of a candidate as the operator sees them, nil if the
// reference refuses it.
func (r *reducer) boundArguments(c candidate) []opdef.Argument {
	args, kwargs := r.arguments(c)
	call := replay.Of(capture.Made(map[capture.Kind]*capture.Record{capture.Input: r.input(args, kwargs)}), r.opt)
	if call.Start() != nil {
		return nil
	}
	return call.Bound().Arguments()
}

// explain finds out what the failure depends on, then simplifies values.
func (r *reducer) explain() error {
	if r.recorded() {
		return r.where()
	}
	for k := range r.axes {
		if err := r.probe(k); err != nil {
			return err
		}
	}
	if err := r.dtypes(); err != nil {
		return err
	}
	return r.values()
}

// where says which elements of what was recorded are wrong.
func (r *reducer) where() error {
	at := slices.IndexFunc(r.before.Results, func(res replay.Result) bool {
		return res.Phase == r.phase && res.Target == r.target
	})
	p := r.full.Profile(&r.before.Results[at])
	if p == nil {
		return nil
	}
	for _, s := range p.Concentrated() {
		r.depends = append(r.depends, "of "+r.target+", "+s)
	}
	return nil
}

// probe runs the call with other sizes of an axis.
func (r *reducer) probe(k int) error {
	var fail, pass []int
	s := r.best.spans[k]
	const mostProbed = 1 << 20 // elements of a tensor
	for _, n := range probes(s.n, r.axes[k].size) {
		c := r.best.with(k, span{s.from, n})
		if r.numel(c) > mostProbed {
			continue
		}
		if n == s.n {
			fail = append(fail, n)
			continue
		}
		_, out, err := r.outcome(c)
		if err != nil {
			return err
		}
		switch {
		case out == nil:
		case r.failure(out) != nil:
			fail = append(fail, n)
		case sound(out):
			pass = append(pass, n)
		}
	}
	name := r.axisName(k)
	l := lawOf(fail, pass)
	switch {
	case l == "at least 2" && len(r.scattered) > 0: // a dimension of 1 has no stride to go by
	case l != "":
		r.depends = append(r.depends, name+" is "+l)
	case len(pass) > 0:
		r.unclear = append(r.unclear, fmt.Sprintf("%s: fails at %s, passes at %s", name, listed(fail), listed(pass)))
	case len(fail) > 1:
		r.indifferent = append(r.indifferent, fmt.Sprintf("%s (%d sizes from %d to %d)", name, len(fail),
			slices.Min(fail), slices.Max(fail)))
	}
	return nil
}

// sound reports whether something was compared and nothing failed.
func sound(o *replay.Outcome) bool {
	compared := false
	for _, x := range o.Results {
		switch x.Verdict {
		case verdict.Pass, verdict.Warn, verdict.Mistrusted:
			compared = compared || x.Compared != nil
		case verdict.Skipped:
		default:
			return false
		}
	}
	return compared
}

// outcome runs a candidate; nil if the reference refuses it.
func (r *reducer) outcome(c candidate) (*replay.Call, *replay.Outcome, error) {
	if err := r.timeUp(); err != nil {
		return nil, nil, err
	}
	rec, err := r.made(&r.maker, c)
	if err != nil || rec == nil {
		return nil, nil, nil
	}
	r.runs++
	call := replay.Of(rec, r.opt)
	return call, call.Compare(), nil
}

// axisName names an axis by its places: "dimension 1 of input and 0 of mat2".
func (r *reducer) axisName(k int) string {
	var names []string
	for _, a := range r.full.Bound().Tensors() {
		for d := range a.Tensor.Shape {
			if slices.Contains(r.axes[k].places, place{a.Tensor, d}) {
				text := fmt.Sprintf("%d of %s", d, a.String())
				if !slices.Contains(names, text) {
					names = append(names, text)
				}
			}
		}
	}
	if len(names) == 1 {
		return "dimension " + names[0]
	}
	return "dimension " + strings.Join(names, ", ")
}

// dtypes runs the call in other dtypes.
func (r *reducer) dtypes() error {
	was := tensor.Invalid
	for _, a := range r.full.Bound().Tensors() {
		switch {
		case !a.Tensor.DType.IsFloat():
		case was == tensor.Invalid:
			was = a.Tensor.DType
		case was != a.Tensor.DType:
			return nil // of several dtypes there is none to change
		}
	}
	if was == tensor.Invalid {
		return nil
	}
	var fail, pass []string
	best := r.best
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Float64} {
		if dt == was {
			continue
		}
		c := best.clone()
		c.dtype = dt
		call, out, err := r.outcome(c)
		if err != nil {
			return err
		}
		switch {
		case out == nil:
		case r.failure(out) != nil:
			if dt == tensor.Float32 && r.shows(call, out, r.failure(out)) {
				r.best = c
			}
			fail = append(fail, dt.String())
		case sound(out):
			pass = append(pass, dt.String())
		}
	}
	switch {
	case len(pass) > 0:
		r.depends = append(r.depends, fmt.Sprintf("the dtype is %s, not %s",
			strings.Join(append([]string{was.String()}, fail...), " or "), strings.Join(pass, " or ")))
	case len(fail) > 0:
		r.indifferent = append(r.indifferent, "in "+strings.Join(append([]string{was.String()}, fail...), ", "))
	}
	return nil
}

// values simplifies values.
func (r *reducer) values() error {
	fails := false
	for _, f := range []fill{ones, integers, whole} {
		c := r.best.clone()
		c.fill = f
		t, err := r.keep(c)
		if err != nil {
			return err
		}
		if t.fails && !fails {
			fails = true
			r.indifferent = append(r.indifferent, map[fill]string{ones: "for ones in place of the recorded values",
				integers: "for small integers in place of the recorded values",
				whole:    "for the recorded values rounded to integers"}[f])
		}
		if t.shows {
			return nil
		}
	}
	if fails {
		return nil
	}
	r.depends = append(r.depends, "the values are about those recorded: ones and small integers pass")
	return nil
}

// described lists the tensors among the arguments of a call.
func described(c *replay.Call) []string {
	if c.Err() != nil {
		return nil
	}
	var out []string
	for _, a := range c.Bound().Tensors() {
		text := a.String() + " " + a.Tensor.Meta()
		if !a.Tensor.IsContiguous() {
			text += fmt.Sprintf(" strides %v", a.Tensor.Stride)
		}
		out = append(out, text)
	}
	return out
}
