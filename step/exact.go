package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Exact runs all calls once more in float64, each on the results of those before
// it, from the recorded leaves, with no rounding in between. It sets the total
// error of each call and the exact loss of each step.
//
// A result that cannot be computed so, because the operator is random or not
// known, is taken as it was recorded. Results are dropped after their last
// reader, so that memory holds what is in use at one time.
//
// If the run decides otherwise than recorded, and the program would have made other calls for that, it is run once
// more with the recorded decisions.
func (p *Process) Exact(ctx context.Context, opt Options) error {
	left, err := p.exact(ctx, false, opt)
	if err != nil || len(left) == 0 {
		return err
	}
	for _, c := range p.Calls {
		c.TotalError = math.NaN()
	}
	for _, s := range p.Steps {
		s.Breaks, s.Averaged, s.Bridged, s.Exact = nil, nil, nil, math.NaN()
		if i := slices.IndexFunc(left, func(b Break) bool { return b.Call.Step == s }); i >= 0 {
			s.Kept = &left[i]
		}
	}
	_, err = p.exact(ctx, true, opt)
	return err
}

// exact is the run of Exact, with the recorded decisions if they are kept. It also gives the calls where the run leaves
// the recorded way of the program.
func (p *Process) exact(ctx context.Context, decisions bool, opt Options) ([]Break, error) {
	x := &rerun{process: p, opt: opt, ctx: ctx, values: map[*Value]*tensor.Tensor{}, decisions: decisions}
	x.each = func(c *Call, got, exact *tensor.Tensor) {
		if comparable(got, exact) {
			c.TotalError = worse(c.TotalError, distance(got, exact, nil).relative())
		}
	}
	x.broken = func(c *Call, reason string) {
		if c.phase()%2 == 0 && (c == c.Step.Loss || len(c.Readers()) > 0) {
			c.Step.Breaks = append(c.Step.Breaks, Break{c, reason})
		}
	}
	x.averaged = func(c *Call) {
		switch s := c.Step; {
		case s == nil || len(c.Outputs) == 0: // it raised: checkpointing stops so
		case c.inJudged() && c.random == "": // the call that made it was run as a whole
		case c.random == "":
			s.Bridged = append(s.Bridged, c)
		default:
			s.Averaged = append(s.Averaged, c)
		}
	}
	x.loss = func(s *Step, loss float64) { s.Exact = loss }
	err := x.run(p.Calls)
	return x.left, err
}

// untell takes the exact loss back where the exact step took wrong results as they were recorded.
func (s *Step) untell() {
	taken := slices.Clone(s.Breaks)
	for _, c := range s.Averaged {
		taken = append(taken, Break{c, errDrawn.Error()})
	}
	for _, c := range s.Bridged {
		taken = append(taken, Break{c, "its operator is not known"})
	}
	slices.SortStableFunc(taken, func(a, b Break) int { return a.Call.Order - b.Call.Order })
	for i, b := range taken {
		if b.Call.ForwardVerdict() == verdict.Fail && s.reaches(b.Call) {
			s.Exact, s.Untold = math.NaN(), &taken[i]
			return
		}
	}
}

// A rerun runs the calls of a process on each other's results.
type rerun struct {
	process *Process
	opt     Options
	ctx     context.Context
	// values are results of the rerun that will be read again, in float64.
	values map[*Value]*tensor.Tensor
	uses   map[*Value]int // readers that are still to come

	each   func(c *Call, got, now *tensor.Tensor) // got is nil where nothing was recorded
	broken func(c *Call, reason string)
	// averaged is told of calls whose random numbers are not known, and of those whose operator is not.
	averaged func(c *Call)
	loss     func(s *Step, loss float64)
	whatIf   *WhatIf // nil for the exact step
	// keep are values that are kept to the end; move, if not nil, changes the results of
	// calls.
	keep []*Value
	move mover
	// under, of a variation, is the rerun that it differs from: what it has no value of is there.
	under *rerun
	// anew reports that a result which the recorded call rounds once is rounded anew, not given the recorded error.
	anew bool
	// escaped is the first call of an imagined run that gives the program another floating number than recorded.
	escaped *Call
	left    []Break // where the run leaves the recorded way of the program
	// chose, if not nil, is told what each call reads and gives, unrounded.
	chose func(c *Call, args []value.Value, outs []*tensor.Tensor)
	// cuts, if not nil, is told of floating inputs that stay as they were recorded although other calls made them.
	cuts func(v *Value)
	// decisions reports that whole numbers which floating ones decide stay as recorded.
	decisions bool
}

// value is a result in the rerun, nil if it is the recorded one.
func (x *rerun) value(w *Value) *tensor.Tensor {
	if t := x.values[w]; t != nil || x.under == nil {
		return t
	}
	return x.under.value(w)
}

func (x *rerun) run(calls []*Call) error {
	x.uses = uses(calls, x.keep)
	for _, c := range calls {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		if err := x.opt.within(c, "", func(Options) error { return x.call(c) }); err != nil {
			x.recorded(c)
			strayed(&x.left, c, err)
			x.broken(c, err.Error())
		}
		for _, v := range c.Inputs {
			if w := v.From.origin(); w != nil {
				if x.uses[w]--; x.uses[w] == 0 {
					delete(x.values, w)
				}
			}
		}
	}
	return nil
}

// origin is the value that holds the elements of a linked one: the producer's
// result, also of a gradient that recorded calls made, or what lies around it in memory.
func (l Link) origin() *Value {
	switch {
	case l.Value != nil && l.Value.Kind != capture.GradInputs:
		return l.Value
	case l.Value != nil && l.Value.From.Value != nil:
		return l.Value.From.Value
	case l.view != nil:
		return l.view
	}
	return nil
}

// call runs one call, unless nothing in an imagined run tells it from the recorded one.
func (x *rerun) call(c *Call) error {
	how, dt := AsExact, tensor.Invalid
	if c.notRun != nil {
		return c.notRun
	}
	if x.whatIf != nil {
		if how, dt = x.whatIf.Choose(c); how == AsRecorded && !x.touched(c) {
			return nil
		}
		x.escapes(c)
	}
	kinds := []capture.Kind{capture.Input, capture.Output}
	if x.changesRead(c) {
		kinds = append(kinds, capture.After)
	}
	if c.Draws() { // they tell what was dropped
		kinds = append(kinds, capture.GradInputs, capture.GradOutputs)
	}
	rec, _ := c.Entry.Load(capture.LoadOptions{Read: x.opt.Read, Only: capture.Of(kinds...)})
	defer rec.Close()
	if err := rec.Err(capture.Input); err != nil {
		return err
	}
	if c.hands() {
		return x.tells(c, rec)
	}
	args, kwargs, err := x.arguments(c, rec)
	if err != nil {
		return err
	}
	bound, f, err := x.forward(rec, args, kwargs)
	// What an imagined run wants computed otherwise cannot be taken from the recording.
	anew := x.whatIf != nil && how != AsRecorded
	if errors.Is(err, opdef.ErrUnknownOp) && !anew {
		if c.handed { // by the calls that it made, which are run next
			return nil
		}
		outs, cause := x.bridged(c, rec, args, kwargs)
		if outs == nil {
			return cmp.Or(cause, err)
		}
		x.store(c, rec, outs)
		x.averaged(c)
		return nil
	}
	if err != nil {
		return err
	}
	if why := bound.Random(); why != "" {
		if kept, err := c.keepMask(rec, args); kept != nil || err != nil {
			if err != nil {
				return err
			}
			return x.dropped(c, rec, kept, how, dt)
		}
		if bound.Entry.Random != "" {
			if !anew && c.drawsAnyway() { // the recorded numbers, whatever the argument holds
				return nil
			}
			return errors.New(why)
		}
		if anew {
			if bound, f, err = x.asDrawn(c, rec, bound); err != nil {
				return err
			}
		} else if out := shown(rec, args, x.opt); out != nil {
			x.store(c, rec, []*tensor.Tensor{out})
			return nil
		} else {
			// Attention with dropout inside: what its arguments differ by passes as it does on
			// average, without dropout, and the rest is as recorded.
			how = AsRecorded
			x.averaged(c)
		}
	}
	if err = x.strays(c, f); err != nil {
		return err
	}
	outs, err := returned(bound, f, len(c.Outputs))
	if err != nil {
		return err
	}
	if x.decisions && !c.decided() {
		outs = atRecorded(c, rec, args, slices.Clone(outs))
	}
	if x.chose != nil {
		x.chose(c, args, outs)
	}
	return x.keepRun(c, rec, ran{bound, f, args, kwargs}, outs, how, dt)
}

// asDrawn is a call that draws random numbers, run with those that its recorded results show. These are no others if it
// reads what was recorded.
func (x *rerun) asDrawn(c *Call, rec *capture.Call, bound *opdef.Call) (*opdef.Call, *opdef.Forward, error) {
	run, known := drawn(rec, bound)
	if !known || run == bound || x.touched(c) {
		return nil, nil, errDrawn
	}
	f, err := run.Forward()
	return run, f, err
}

// errDrawn is why it is not known what a call would have given that draws random numbers inside, such as attention with
// dropout.
var errDrawn = errors.New("it draws random numbers, and its recorded results do not show which it drew")

// A ran is a call that was run on arguments.
type ran struct {
	bound  *opdef.Call
	f      *opdef.Forward
	args   []value.Value
	kwargs *value.Dict
}

// keepRun keeps the results of a call that was run, and what it changed, as the choice says.
func (x *rerun) keepRun(c *Call, rec *capture.Call, now ran, outs []*tensor.Tensor, how Choice, dt tensor.DType) error {
	recorded := sync.OnceValues(func() (ran, error) {
		bound, f, err := x.forward(rec, rec.Args, rec.Kwargs)
		return ran{bound, f, rec.Args, rec.Kwargs}, err
	})
	was := func(of func(r ran) ([]*tensor.Tensor, error)) func() ([]*tensor.Tensor, error) {
		return func() ([]*tensor.Tensor, error) {
			r, err := recorded()
			if err != nil {
				return nil, err
			}
			return of(r)
		}
	}
	outs, err := x.chosen(rec.Outputs(), outs, how, dt, was(func(r ran) ([]*tensor.Tensor, error) {
		return returned(r.bound, r.f, len(rec.Outputs()))
	}))
	if err != nil {
		return err
	}
	if x.move != nil {
		outs = x.move(now.bound, now.f, outs)
	}
	x.store(c, rec, outs)
	left := x.changed(c, now)
	if left == nil {
		return nil
	}
	if left, err = x.chosen(recordedAfter(rec), left, how, dt, was(func(r ran) ([]*tensor.Tensor, error) {
		return x.changed(c, r), nil
	})); err != nil {
		return err
	}
	x.storeChanged(c, left)
	return nil
}

// shown is the result of a call whose recorded result shows what it drew for each element, such as alpha_dropout: the
// recorded one, with what its argument differs by passed through. nil if it does not show that.
func shown(rec *capture.Call, args []value.Value, opt Options) *tensor.Tensor {
	outs, was, now := rec.Outputs(), value.Tensors(value.NewTuple(rec.Args...)), value.Tensors(value.NewTuple(args...))
	if len(outs) != 1 || len(was) != 1 || len(now) != 1 || !comparable(outs[0], was[0]) || !comparable(now[0], was[0]) {
		return nil
	}
	bound, err := opt.Registry.Bind(rec.Op, rec.Args, rec.Kwargs)
	if err != nil {
		return nil
	}
	if d := bound.Drawn(outs); d.Wrong != "" || !d.Shown {
		return nil
	}
	f, err := bound.Forward()
	if err != nil {
		return nil
	}
	// Each element depends on one: how it does is its gradient.
	d := opdef.Zip(tensor.Float64, now[0], was[0], func(x, y float64) float64 { return x - y })
	grads, err := vjp(rec, bound, bound, f, []*tensor.Tensor{d}, map[int]bool{0: true})
	if err != nil || grads[0] == nil {
		return nil
	}
	return plus(opdef.Cast(outs[0], tensor.Float64), undropped(rec, grads[0]), 1)
}

// dropped keeps what dropout leaves of its argument by the recorded mask.
func (x *rerun) dropped(c *Call, rec *capture.Call, kept *tensor.Tensor, how Choice, dt tensor.DType) error {
	outs, err := x.chosen(rec.Outputs(), []*tensor.Tensor{kept}, how, dt, func() ([]*tensor.Tensor, error) {
		kept, err := c.keepMask(rec, rec.Args)
		return []*tensor.Tensor{kept}, err
	})
	if err == nil {
		x.store(c, rec, outs)
	}
	return err
}

// results are the tensors that a call of which n were recorded returns.
func results(f *opdef.Forward, n int) ([]*tensor.Tensor, error) {
	if f == nil {
		return nil, errors.New("draws random numbers")
	}
	outs := tensorsIn(f.Value)
	if len(outs) > n { // gradients that output_mask leaves out, which were recorded as None
		outs = slices.DeleteFunc(outs, func(t *tensor.Tensor) bool { return slices.Equal(t.Shape, []int{0}) })
	}
	if len(outs) != n {
		outs = f.Outs // those that the recorded form of the call leaves out are the last
	}
	if len(outs) < n {
		return nil, fmt.Errorf("%d results were recorded, the op has %d", n, len(outs))
	}
	return outs, nil
}

// returned are the results of a call; of one that returns nothing but was recorded with the arguments that it changes,
// such as an update of lists, those.
func returned(bound *opdef.Call, f *opdef.Forward, n int) ([]*tensor.Tensor, error) {
	outs, err := results(f, n)
	if err == nil || f == nil {
		return outs, err
	}
	var after []*tensor.Tensor
	for _, a := range bound.Tensors() {
		if ts, i := f.After[a.Name], max(a.Index, 0); i < len(ts) && ts[i] != nil {
			after = append(after, ts[i])
		}
	}
	if len(after) == n {
		return after, nil
	}
	return nil, err
}

// forward runs a call whose tensors may have been cast below the level at which
// calls are recorded (torch.autocast): as it is, or with all floating tensors in
// the dtype of the result, unrounded.
func (x *rerun) forward(rec *capture.Call, args []value.Value, kwargs *value.Dict) (*opdef.Call, *opdef.Forward,
	error) {
	c, err := x.opt.Registry.Bind(rec.Op, args, kwargs)
	if err != nil {
		return nil, nil, err
	}
	return forwardAs(rec, c)
}

// forwardAs runs a call as it is, or, where torch.autocast rounded arguments inside, with all floating tensors in the
// dtype of the result.
func forwardAs(rec *capture.Call, c *opdef.Call) (*opdef.Call, *opdef.Forward, error) {
	f, err := forwardOf(c)
	outs := rec.Outputs()
	if err == nil || len(outs) == 0 || !outs[0].DType.IsFloat() || c.Autocast() == opdef.AutocastNone {
		return c, f, err
	}
	c = unrounded(c, outs[0].DType)
	f, err = forwardOf(c)
	return c, f, err
}

// unrounded is a call with all floating tensors in a dtype, but with the elements that they have.
func unrounded(c *opdef.Call, dt tensor.DType) *opdef.Call {
	return c.Map(func(a opdef.Arg) *tensor.Tensor {
		if !a.Tensor.DType.IsFloat() || a.Tensor.Wrapped {
			return a.Tensor
		}
		return opdef.Cast(a.Tensor, dt)
	})
}

// forwardOf runs a call; a random one is only checked.
func forwardOf(c *opdef.Call) (*opdef.Forward, error) {
	if err := c.Plan(); err != nil || c.Random() != "" && c.Entry.Random != "" {
		return nil, err
	}
	return c.Forward()
}

// arguments are the recorded ones with every tensor that is known better replaced.
func (x *rerun) arguments(c *Call, rec *capture.Call) ([]value.Value, *value.Dict, error) {
	ls, err := rec.Leaves(capture.Input)
	if err != nil {
		return nil, nil, err
	}
	now := map[*tensor.Tensor]*tensor.Tensor{}
	for i, l := range ls {
		if i >= len(c.Inputs) {
			break
		}
		if t := x.input(c.Inputs[i], l.Tensor); t != nil {
			t.RequiresGrad, t.Parameter = l.Tensor.RequiresGrad, l.Tensor.Parameter
			now[l.Tensor] = t
		} else if x.cuts != nil && x.isCut(c.Inputs[i]) {
			x.cuts(c.Inputs[i])
		}
	}
	if len(now) == 0 {
		return rec.Args, rec.Kwargs, nil
	}
	args, kwargs := replaced(rec, now)
	return args, kwargs, nil
}

// replaced is the arguments of a call with tensors replaced.
func replaced(rec *capture.Call, now map[*tensor.Tensor]*tensor.Tensor) ([]value.Value, *value.Dict) {
	args := make([]value.Value, len(rec.Args))
	for i, v := range rec.Args {
		args[i] = substitute(v, now)
	}
	return args, substitute(rec.Kwargs, now).(*value.Dict)
}

// substitute is v with tensors replaced.
func substitute(v value.Value, now map[*tensor.Tensor]*tensor.Tensor) value.Value {
	switch v := v.(type) {
	case *tensor.Tensor:
		if t := now[v]; t != nil {
			return t
		}
	case *value.Sequence:
		s := *v
		s.Items = slices.Clone(v.Items)
		for i, it := range s.Items {
			s.Items[i] = substitute(it, now)
		}
		return &s
	case *value.Dict:
		d := *v
		d.Items = slices.Clone(v.Items)
		for i, it := range d.Items {
			d.Items[i].Value = substitute(it.Value, now)
		}
		return &d
	}
	return v
}

// input is the value of an input in the rerun, nil if it is the recorded one.
func (x *rerun) input(v *Value, recorded *tensor.Tensor) *tensor.Tensor {
	t := x.known(v, recorded)
	if t == nil && x.repairs(v) {
		x.broken(v.Call, "what "+v.Target+" was before it changed is not known")
	}
	return t
}

// known is the value of an input, nil if the rerun does not say.
func (x *rerun) known(v *Value, recorded *tensor.Tensor) *tensor.Tensor {
	if t := x.given(v); t != nil {
		u := *t
		u.DType = v.DType
		return &u
	}
	w := v.From.origin()
	changed := v.From.How == IsChanged
	if w == nil || x.carried(v, w) && !changed {
		return nil
	}
	t := x.value(w)
	if x.carried(v, w) {
		t = nil // each step begins with what was recorded
	}
	if changed {
		switch {
		case !x.repairs(v):
			return nil // it is read as it was found
		case v.From.under != nil:
			t, _ = v.patchwork(x.opt)
			return t
		case t == nil:
			t = x.made(w)
		}
	}
	if t == nil {
		return nil
	}
	return v.readFrom(w, t, recorded)
}

// readFrom is an input that reads w, which holds t; nil if that does not say which elements it has.
func (v *Value) readFrom(w *Value, t, recorded *tensor.Tensor) *tensor.Tensor {
	switch {
	case v.From.rows != nil:
		return v.pick(t, v.From.rows)
	case v.From.Value != nil && v.like(w):
		if recorded.IsContiguous() { // contiguous() is no copy here
			t = t.Dense()
		}
		u := *t
		u.DType = v.DType
		return &u
	case v.From.How == IsChanged && sameShape(v.Shape, w.Shape): // a copy in another dtype
		return solid(opdef.Map(v.DType, t, v.DType.Round))
	case v.From.Value != nil && v.DType == w.DType && v.Numel() == w.Numel():
		if v.content.sum == w.content.sum {
			return t.Dense().Reshape(v.Shape...)
		}
		return seenAs(t, w, v, 0)
	case v.DType == w.DType && v.Address >= w.Address && (v.From.held || v.From.How == IsChanged):
		return seenAs(t, w, v, int(v.Address-w.Address)/v.DType.Size())
	}
	return nil
}

// carried reports whether v is what the end of an earlier step left in w, such as a weight that the optimizer wrote:
// each step begins with what was recorded.
func (v *Value) carried(w *Value) bool {
	return w.Call.phase()%2 == 1 && w.Call.Step != v.Call.Step
}

// made is what was recorded of a value when it was made, or what the call left that changed it, as the reference says;
// nil if that cannot be read.
func (x *rerun) made(w *Value) *tensor.Tensor {
	if w.after != nil {
		opt := x.opt
		opt.files = &files{}
		defer opt.files.end()
		t, err := opt.files.leftIn(w, opt)
		if err != nil || t == nil {
			return nil
		}
		return solid(opdef.Map(w.DType, t, w.DType.Round))
	}
	t, done, err := w.load(x.opt)
	if err != nil {
		return nil
	}
	defer done()
	return solid(t)
}

// seenAs is t, which has the elements of w, with the geometry of v, whose first
// element lies offset elements behind that of w; nil if w's memory has gaps.
func seenAs(t *tensor.Tensor, w, v *Value, offset int) *tensor.Tensor {
	if !dense(w.Shape, w.strides()) {
		return nil
	}
	return lyingIn(lying(t, w), v, offset)
}

// lying is t, which has the elements of w, in the order in which w lay in memory.
func lying(t *tensor.Tensor, w *Value) *tensor.Tensor {
	return t.Permute(byStride(w.Shape, w.Stride)...).Dense()
}

// lyingIn is the part of a memory with the geometry of v, from the element with number offset on;
// nil if the memory ends before.
func lyingIn(memory *tensor.Tensor, v *Value, offset int) *tensor.Tensor {
	u, err := memory.Strided(v.Shape, v.strides(), memory.Offset+offset)
	if err != nil {
		return nil
	}
	u.DType = v.DType
	return u
}

// store keeps the results of a call that are read later, and passes them on to be
// compared.
func (x *rerun) store(c *Call, rec *capture.Call, outs []*tensor.Tensor) {
	got := tensorsIn(value.NewTuple(rec.Output...))
	isLoss := c.Step != nil && c == c.Step.Loss
	for i, o := range c.Outputs {
		if i >= len(outs) || outs[i] == nil {
			break
		}
		kept := slices.Contains(x.keep, o)
		if x.chooses(c) && o.isWhole() && !kept {
			continue // as recorded
		}
		t := outs[i]
		switch {
		case x.uses[o] > 0 && (t.Storage() == nil || o.changed() || kept || x.reads(c)):
			t = solid(t)
			x.values[o] = t
		case x.uses[o] > 0: // a view of what was recorded: readers have recorded it too
		case isLoss:
			t = solid(t)
		}
		var was *tensor.Tensor
		if i < len(got) {
			was = got[i]
		}
		x.tell(o, was, t)
		x.hand(o, was, t)
	}
}

// tell passes a result on to be compared, and the loss.
func (x *rerun) tell(o *Value, got, t *tensor.Tensor) {
	c := o.Call
	if x.each != nil && got != nil {
		x.each(c, got, t)
	}
	if c.Step != nil && c == c.Step.Loss && o == c.Outputs[0] && t.Numel() == 1 {
		x.loss(c.Step, x.lossOf(c.Step, t.Item()))
	}
}

// hand gives a result to the unknown function that made the call and returned it.
func (x *rerun) hand(o *Value, got, t *tensor.Tensor) {
	for _, to := range o.handedTo {
		if x.uses[to] > 0 && (t.Storage() == nil || x.reads(o.Call)) {
			t = solid(t)
			x.values[to] = t
		}
		x.tell(to, got, t)
		x.hand(to, got, t)
	}
}

// reads reports whether a call reads a value that the rerun computed or repairs, such as another route of an expert.
func (x *rerun) reads(c *Call) bool {
	return slices.ContainsFunc(c.Inputs, func(v *Value) bool {
		w := v.From.origin()
		return w != nil && x.value(w) != nil || x.repairs(v)
	})
}

// chooses reports whether whole numbers that a call returns are those that were recorded: of equal numbers, sort has a
// choice.
func (x *rerun) chooses(c *Call) bool { return c.decided() && !x.reads(c) || x.decisions }

// decided reports whether a call reads whole numbers only.
func (c *Call) decided() bool {
	return !slices.ContainsFunc(c.Inputs, func(v *Value) bool { return !v.isWhole() })
}

// isWhole reports whether a value holds whole numbers, such as indices, or truth values.
func (v *Value) isWhole() bool { return !v.DType.IsFloat() && !v.DType.IsComplex() }

// changesRead reports whether a call changes an argument without returning it, of which a reader is still to come.
func (x *rerun) changesRead(c *Call) bool {
	return slices.ContainsFunc(c.Inputs, func(v *Value) bool { return v.after != nil && x.uses[v] > 0 })
}

// changed are the arguments that a call changed without returning them, unrounded, by their number; nil if no reader of
// them is still to come.
func (x *rerun) changed(c *Call, r ran) []*tensor.Tensor {
	if !x.changesRead(c) {
		return nil
	}
	ls, err := capture.Leaves(r.args, r.kwargs)
	if err != nil {
		return nil
	}
	now := map[*tensor.Tensor]*tensor.Tensor{}
	for i, t := range r.bound.Written() {
		if i < len(r.f.Outs) {
			now[t] = r.f.Outs[i]
		}
	}
	for _, a := range r.bound.Tensors() {
		if ts := r.f.After[a.Name]; max(a.Index, 0) < len(ts) && ts[max(a.Index, 0)] != nil {
			now[a.Tensor] = ts[max(a.Index, 0)]
		}
	}
	out := make([]*tensor.Tensor, len(ls))
	for i, l := range ls {
		out[i] = now[l.Tensor]
	}
	return out
}

// recordedAfter are the recorded arguments after a call by their number, nil where the recorder did not look at them.
func recordedAfter(rec *capture.Call) []*tensor.Tensor {
	if !rec.HasAfter {
		return nil
	}
	ls, err := rec.Leaves(capture.After)
	if err != nil {
		return nil
	}
	out := make([]*tensor.Tensor, len(ls))
	for i, l := range ls {
		if !rec.Unseen[l.Tensor] {
			out[i] = l.Tensor
		}
	}
	return out
}

// storeChanged keeps arguments that the call changed without returning them.
func (x *rerun) storeChanged(c *Call, left []*tensor.Tensor) {
	for i, v := range c.Inputs[:min(len(left), len(c.Inputs))] {
		if left[i] != nil && v.after != nil && x.uses[v] > 0 {
			x.values[v] = solid(left[i])
		}
	}
}

// recorded takes the results of a call as they were recorded: readers find none of
// the rerun.
func (x *rerun) recorded(c *Call) {
	for _, o := range c.Outputs {
		delete(x.values, o)
	}
}

// changed reports whether some reader did not see the value as it was made.
func (v *Value) changed() bool {
	return slices.ContainsFunc(v.readers, func(r *Value) bool { return r.From.How == IsChanged })
}

// solid is t with its elements computed and kept, independent of any file.
func solid(t *tensor.Tensor) *tensor.Tensor {
	if !t.IsLazy() && t.Storage() == nil {
		return t
	}
	switch t.DType.Kind() {
	case tensor.KindFloat:
		return tensor.New(t.DType, t.Shape, tensor.Data[float64](t))
	case tensor.KindComplex:
		return tensor.New(t.DType, t.Shape, tensor.Data[complex128](t))
	}
	return tensor.New(t.DType, t.Shape, tensor.Data[int64](t))
}

func tensorsIn(v value.Value) []*tensor.Tensor {
	vs, err := value.Leaves([]value.Value{v})
	if err != nil {
		return nil
	}
	var out []*tensor.Tensor
	for _, v := range vs {
		if t, ok := v.(*tensor.Tensor); ok {
			out = append(out, t)
		}
	}
	return out
}

// errDropped is why a dropout cannot be run on another argument than the recorded one.
var errDropped = errors.New("which elements it dropped is not known where its recorded argument was 0")

// keepMask is the result of a dropout whose argument is known better: the argument where an element was kept, scaled as
// its probability says, or as it was recorded where that is not wrong. nil where the call is nothing like that. Zeros
// of the recorded argument do not tell what was kept, but its gradient does.
func (c *Call) keepMask(rec *capture.Call, args []value.Value) (*tensor.Tensor, error) {
	outs, was, now := rec.Outputs(), value.Tensors(value.NewTuple(rec.Args...)), value.Tensors(value.NewTuple(args...))
	masked := len(outs) == 2 && outs[1].DType == tensor.Bool // native_dropout
	if len(outs) != 1 && !masked || len(was) != 1 || len(now) != 1 || !comparable(outs[0], was[0]) {
		return nil, nil
	}
	scale, ok := maskScale(outs[0], was[0])
	if !ok {
		return nil, nil
	}
	known := 1 / (1 - c.probability())
	if near := math.Abs(known-scale) <= 4*outs[0].DType.Eps()*scale; near ||
		(scale == 0 || c.Verdict == verdict.Fail) && known-known == 0 {
		scale = known
	}
	passed := sync.OnceValue(func() []uint8 { return passes(rec, was[0]) })
	out, before, in := tensor.Data[float64](outs[0]), tensor.Data[float64](was[0]), tensor.Data[float64](now[0])
	kept := make([]float64, len(in))
	largest, unknown := 0.0, 0.0
	for i, x := range in {
		largest = max(largest, math.Abs(x))
		switch {
		case out[i] != 0:
			kept[i] = scale * x
		case before[i] != 0 || x == 0:
		case passed()[i] == keptElement:
			kept[i] = scale * x
		case passed()[i] == 0:
			unknown = max(unknown, math.Abs(x))
		}
	}
	if unknown > 1e-3*largest { // less is rounding, as of zeros that relu gives
		return nil, errDropped
	}
	return tensor.New(outs[0].DType, outs[0].Shape, kept), nil
}

// What the gradients of a dropout say of an element.
const (
	keptElement    = 1
	droppedElement = 2
)

// passes says by the recorded gradients which elements of its argument a dropout kept; 0 where they do not tell.
func passes(rec *capture.Call, in *tensor.Tensor) []uint8 {
	said := make([]uint8, in.Numel())
	given, of := tensorsIn(value.NewTuple(rec.GradOutputs...)), tensorsIn(value.NewTuple(rec.GradInputs...))
	if len(given) == 0 || len(of) == 0 || !comparable(given[0], in) || !comparable(of[0], in) {
		return said
	}
	x, y := tensor.Data[float64](given[0]), tensor.Data[float64](of[0])
	for i := range said {
		switch {
		case x[i] == 0:
		case y[i] != 0:
			said[i] = keptElement
		default:
			said[i] = droppedElement
		}
	}
	return said
}

// probability is the argument p of a call that was recorded with one, else NaN.
func (c *Call) probability() float64 {
	for _, a := range c.attributes {
		if p, err := strconv.ParseFloat(a.text, 64); a.name == "p" && err == nil {
			return p
		}
	}
	return math.NaN()
}

// maskScale is the factor of the elements that a mask kept; ok is false if there is no such factor.
func maskScale(out, in *tensor.Tensor) (scale float64, ok bool) {
	x, y := tensor.Data[float64](in), tensor.Data[float64](out)
	ratio, largest := 0.0, 0.0
	for i := range x {
		if y[i] != 0 && math.Abs(x[i]) > largest { // the largest element has the ratio with the least rounding
			ratio, largest = y[i]/x[i], math.Abs(x[i])
		}
	}
	if largest == 0 {
		return 0, true
	}
	for i := range x {
		if y[i] != 0 && math.Abs(y[i]-ratio*x[i]) > 4*out.DType.Eps()*math.Abs(y[i]) {
			return 0, false
		}
	}
	for digits := 10.0; digits <= 1e4; digits *= 10 { // 1/(1-p) of a p with the fewest digits
		if p := math.Round((1-1/ratio)*digits) / digits; p >= 0 && p < 1 &&
			math.Abs(1/(1-p)-ratio) <= out.DType.Eps()*ratio {
			return 1 / (1 - p), true
		}
	}
	return ratio, true
}

// String names the call in messages.
func (c *Call) String() string { return fmt.Sprintf("%s/%d", reports.Name(c.Op), c.Entry.ID) }
