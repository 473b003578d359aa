package step

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// findSaved finds what was overwritten in the forward pass after a call had read or made it, and before another call
// read it there. The memory of a tensor may be used again, so the address alone proves nothing. Wrong gradients of the
// first call prove it: they are right with what the other one read. So the call had saved that memory for its backward
// pass.
func (p *Process) findSaved(opt Options) {
	for _, s := range p.Steps {
		for _, c := range s.Calls {
			if c.failing(replay.Backward) == nil || c.failing(replay.Forward) != nil {
				continue
			}
			for _, u := range slices.Concat(c.Inputs, c.Outputs) {
				if v := u.readOtherwise(); v != nil && c.differentiates(map[*Value]*Value{u: v}, opt) {
					v.overwrites(u)
					c.gradientsTold = true
				}
			}
		}
	}
}

// findRefilled finds what was overwritten between the forward and the backward pass of a call, and not read again
// before a later forward pass.
func (p *Process) findRefilled(opt Options) {
	var left []*Call
	for _, s := range p.Steps {
		for _, c := range s.Calls {
			if c.failing(replay.Backward) != nil && c.failing(replay.Forward) == nil && !c.gradientsTold &&
				!p.foundRefilled(c, opt) {
				left = append(left, c)
			}
		}
	}
	for _, c := range left {
		p.findRefilledAlike(c)
	}
}

// overwrittenBefore says when a value changed.
const overwrittenBefore = "it was overwritten between the forward and the backward pass"

// foundRefilled reports whether wrong gradients of a call are right with what a later forward pass finds where an
// argument or result of the call lies: a batch that was refilled before the backward pass, say. The value was right
// when the call read it and when the later one did, so that neither is wrong.
func (p *Process) foundRefilled(c *Call, opt Options) bool {
	for _, u := range slices.Concat(c.Inputs, c.Outputs) {
		if v := u.refilledAs(); v != nil && c.differentiates(map[*Value]*Value{u: v}, opt) {
			c.overwrittenBetween(u, v, fmt.Sprintf("%s: the gradient is that of what %s reads there", overwrittenBefore,
				v.Call))
			return true
		}
	}
	return false
}

// findRefilledAlike finds that memory of a call was overwritten before its backward pass, which that of all calls on
// its line was of which it can be told: nothing reads there behind the last one.
func (p *Process) findRefilledAlike(c *Call) {
	for _, f := range p.refilled {
		u := c.Value(f.Target)
		if f.later == nil || !c.onLineOf(f.Call) || u == nil || u.Address != f.later.Address || !u.like(f.later) ||
			u.readBehind() != nil || !slices.Equal(c.failing(replay.Backward), f.spoiltTargets()) {
			continue
		}
		c.overwrittenBetween(u, nil, fmt.Sprintf("%s, as that of %s was: it lies in the same memory, which no recorded call reads "+
			"later", overwrittenBefore, f.Call))
		return
	}
}

// overwrittenBetween says that a value of a call was overwritten between its passes: its wrong gradients follow from
// that, and are not wrong themselves. later is what a later call reads there, nil if none does.
func (c *Call) overwrittenBetween(u, later *Value, reason string) {
	f := &Finding{Rule: verdict.Changed, Call: c, Target: u.Target, Reason: reason, backward: true, later: later,
		betweenPasses: true, spoils: []*Call{c}}
	follows := func(phase replay.Phase, v *verdict.Verdict) bool {
		if phase != replay.Backward || *v != verdict.Fail {
			return false
		}
		*v = verdict.Skipped
		return true
	}
	for i := range c.Results {
		r := &c.Results[i]
		was := r.Reason
		if follows(r.Phase, &r.Verdict) {
			f.spoilt = append(f.spoilt, &Finding{Rule: verdict.Wrong, Call: c, Target: r.Target, Reason: was,
				backward: true})
			r.Reason = fmt.Sprintf("memory overwritten before the backward pass: %s", u.Target)
			c.spoilt = append(c.spoilt, r.Target)
		}
	}
	c.byPass.backward = verdict.Skipped
	c.Verdict = c.ForwardVerdict()
	for i := range c.Checks {
		follows(c.Checks[i].Phase, &c.Checks[i].Verdict)
	}
	c.Process.refilled = append(c.Process.refilled, f)
}

// spoiltTargets are the gradients that follow from what a finding is about.
func (f *Finding) spoiltTargets() (targets []string) {
	for _, g := range f.spoilt {
		targets = append(targets, g.Target)
	}
	return targets
}

// refilledAs is what the next call of a later forward pass finds where the value lies, if it has other elements, and no
// recorded call made them; nil if not.
func (u *Value) refilledAs() *Value {
	v := u.readBehind()
	if v == nil || v.equals(u) || v.content.zero() || v.From.written || v.made() {
		return nil
	}
	return v
}

// readBehind is the first input behind the forward pass of a call that lies where a value of the call does: one that
// was read before the backward pass only if it has other elements. It is nil if there is none.
func (u *Value) readBehind() *Value {
	if u.Address == 0 || u.after != nil {
		return nil
	}
	for _, c := range u.Call.Process.Calls[u.Call.Order+1:] {
		if c.phase() == u.Call.phase() || c.inBackward() {
			continue
		}
		for _, v := range c.Inputs {
			if v.Address == u.Address && v.like(u) &&
				(!v.equals(u) || c.Entry.Order >= u.Call.Entry.BackwardOrder) {
				return v
			}
		}
	}
	return nil
}

// findReceived says of wrong gradients that a message or collective wrote where an argument or result of the call lies,
// before its backward pass: into a buffer that is received into twice, say. The gradients prove that they follow from
// that if they are right with what was written. They need not be: a norm has saved the statistics of what it read.
func (p *Process) findReceived(opt Options) {
	if !p.exchanges {
		return
	}
	for _, c := range p.Calls {
		if c.failing(replay.Backward) == nil || c.failing(replay.Forward) != nil {
			continue
		}
		for _, u := range slices.Concat(c.Inputs, c.Outputs) {
			w, v := u.receivedOver()
			if v == nil {
				continue
			}
			says := fmt.Sprintf("; before the backward pass %s wrote other elements where %s lies", w, u.Target)
			if c.differentiates(map[*Value]*Value{u: v}, opt) {
				says += ", and the gradient follows from these"
			}
			for i, r := range c.Results {
				if r.Phase == replay.Backward && r.Verdict == verdict.Fail {
					c.Results[i].Reason += says
				}
			}
			c.gradientsTold = true
			break
		}
	}
}

// receivedOver is the last exchange between a call and its backward pass that wrote where the value lies, and what was
// read there behind it; v is nil if there is none.
func (u *Value) receivedOver() (w *Call, v *Value) {
	if u.Address == 0 {
		return nil, nil
	}
	for _, c := range u.Call.Process.Calls {
		if c.Entry.Order <= u.Call.Entry.Order || c.Entry.Order >= u.Call.Entry.BackwardOrder {
			continue
		}
		for _, i := range c.Inputs {
			switch {
			case i.Address != u.Address || !sameShape(i.Shape, u.Shape):
			case c.collective() != "":
				w, v = c, nil
			case w != nil && v == nil && i.like(u) && !i.equals(u):
				v = i
			}
		}
	}
	return w, v
}

// failing are the targets of a pass of a call that are wrong.
func (c *Call) failing(phases ...replay.Phase) (targets []string) {
	for _, r := range c.Results {
		if slices.Contains(phases, r.Phase) && r.Verdict == verdict.Fail {
			targets = append(targets, r.Target)
		}
	}
	return targets
}

// readOtherwise is the first input behind a call, in its forward pass, that lies where a value of the call does and has
// other elements, which no recorded call wrote there; nil if there is none.
func (u *Value) readOtherwise() *Value {
	if u.Address == 0 || u.after != nil {
		return nil
	}
	other := func(v *Value) bool { return v.Address == u.Address && v.like(u) && !v.equals(u) }
	for _, c := range u.Call.Step.Calls {
		if c.Order <= u.Call.Order || c.phase() != u.Call.phase() {
			continue
		}
		for _, v := range c.Inputs {
			if other(v) {
				if v.From.written || v.From.How == IsChanged && v.From.Value != u.source() {
					return nil
				}
				return v
			}
		}
		if c.writes || slices.ContainsFunc(c.Outputs, other) {
			for _, v := range slices.Concat(c.Inputs, c.Outputs) {
				if v.Address == u.Address {
					return nil
				}
			}
		}
	}
	return nil
}

// differentiates reports whether the wrong gradients of a call are right with the elements of other values in place of
// those of its arguments and results.
func (c *Call) differentiates(others map[*Value]*Value, opt Options) (right bool) {
	err := opt.within(c, "", func(opt Options) error {
		rec, err := c.Entry.Load(capture.LoadOptions{Read: opt.Read})
		//lint:ignore SA5001 Load always returns a Call
		defer rec.Close()
		if err != nil {
			return err
		}
		with, whole := map[*tensor.Tensor]*tensor.Tensor{}, false
		for u, v := range others {
			now, done, err := v.load(opt)
			if err != nil {
				return err
			}
			defer done()
			ls, err := rec.Leaves(u.Kind)
			i := slices.IndexFunc(ls, func(l capture.Leaf) bool { return l.Number == u.leaf })
			if err != nil || i < 0 {
				return err
			}
			was, t := ls[i].Tensor, *now.Dense().Reshape(u.Shape...)
			t.RequiresGrad, t.Parameter = was.RequiresGrad, was.Parameter
			with[was] = &t
			whole = whole || u.Kind == outputKind && !u.DType.IsFloat()
		}
		rec.Args, rec.Kwargs = replaced(rec, with)
		for i, o := range rec.Output {
			rec.Output[i] = substitute(o, with)
		}
		if whole {
			right, err = c.differentiatesAt(rec, opt)
			return err
		}
		results := replay.Of(rec, opt.Options).Compare().Results
		for i := range results { // the gradient is right for a result that is another value
			if r := &results[i]; r.Follows {
				r.Verdict = verdict.Pass
			}
		}
		right = c.mends(results, replay.Backward)
		return nil
	})
	return right && err == nil
}

// mends reports whether results of a call with other arguments have all values of some phases right that were wrong.
func (c *Call) mends(results []replay.Result, phases ...replay.Phase) bool {
	n, wrong := 0, c.failing(phases...)
	for _, r := range results {
		ok := r.Verdict == verdict.Pass || r.Verdict == verdict.Warn || r.Compared != nil && r.Compared.Zeros
		if ok && slices.Contains(phases, r.Phase) && slices.Contains(wrong, r.Target) {
			n++
		}
	}
	return n == len(wrong)
}

// differentiatesAt reports whether the wrong gradients of a call are those at the places that its results say, which
// need not be those that the call should choose.
func (c *Call) differentiatesAt(rec *capture.Call, opt Options) (right bool, err error) {
	bound, err := opt.Registry.Bind(rec.Op, rec.Args, rec.Kwargs)
	if err != nil || !bound.Entry.HasGrad {
		return false, err
	}
	run, f, err := forwardAs(rec, bound)
	if err != nil || f == nil {
		return false, err
	}
	wanted := map[int]bool{}
	for k, v := range c.Inputs {
		g := c.gradientOf(v)
		wanted[k] = g != nil && c.failsAt(g.Target)
	}
	grads, err := vjp(rec, bound, run, f, recordedGrads(rec, f), wanted)
	if err != nil || len(grads) == 0 {
		return false, err
	}
	right = true
	for k, want := range grads {
		g := c.gradientOf(c.Inputs[k])
		err := g.with(opt, func(t *tensor.Tensor) {
			right = right && comparable(t, want) &&
				allNear(tensor.Data[float64](t), tensor.Data[float64](want), t.DType)
		})
		if err != nil {
			return false, err
		}
	}
	return right, nil
}

// source is what a call made or read first: the value itself, or that which the input is.
func (v *Value) source() *Value {
	if v.Kind == inputKind {
		return cmp.Or(v.From.Value, v.first())
	}
	return v
}

// overwrites makes an input changed that lies where u does, and its further readings.
func (v *Value) overwrites(u *Value) {
	from := u.source()
	if from != u { // whose gradients follow from the change
		from.readers = append(from.readers, u)
	}
	if v.From.How == IsChanged {
		return
	}
	v.unlink()
	v.From = Link{How: IsChanged, Value: from}
	v.reason = fmt.Sprintf("it is not what %s of %s has, the same tensor, and no recorded call wrote there in between: the "+
		"gradients of that call follow from what is here", u.Target, u.Call)
	from.readers = append(from.readers, v)
	for _, c := range v.Call.Process.Calls[v.Call.Order:] {
		for _, r := range c.Inputs {
			if r.From.first == v {
				r.From = v.From.again(v)
			}
		}
	}
}
