package step

import (
	"errors"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
)

// A recomputation is what a non-reentrant checkpoint ran again within a backward pass: calls without gradients of
// their own, by the calls of the forward pass that they repeat. The gradients of those are computed with what was run
// again.
type recomputation struct {
	of    map[*Call]*Call // the call of the forward pass that a call repeats
	order []*Call         // the calls that were run again
}

// recomputation pairs the calls that a checkpoint ran again within the backward pass of a step with those of the
// forward pass.
func (s *Step) recomputation() recomputation {
	r := recomputation{of: map[*Call]*Call{}}
	end := s.backwardEnd()
	var byOp map[string][]*Call
	for _, c := range s.Tail {
		if c.Entry.Order < 0 || c.Entry.Order >= end || c.HasBackward() || len(c.Inputs) == 0 {
			continue
		}
		if byOp == nil {
			byOp = map[string][]*Call{}
			for _, f := range s.Calls {
				if f.HasBackward() {
					byOp[f.Op] = append(byOp[f.Op], f)
				}
			}
		}
		if f := r.first(c, byOp[c.Op]); f != nil {
			r.of[c] = f
			r.order = append(r.order, c)
		}
	}
	return r
}

// first is the call of the forward pass that a call repeats, nil if that is not known: the only one on its line with
// its parameters, or the only one of these that reads what the calls gave which its own arguments repeat, or equal
// arguments.
func (r recomputation) first(c *Call, calls []*Call) *Call {
	var same, follows []*Call
	for _, f := range calls {
		if !c.onLineOf(f) || len(f.Inputs) != len(c.Inputs) || slices.ContainsFunc(f.Inputs, func(u *Value) bool {
			return u.isParameter() && c.at(u.Target) != u.Address
		}) {
			continue
		}
		same = append(same, f)
		if slices.ContainsFunc(c.Inputs, func(v *Value) bool { return r.repeats(v, f.Value(v.Target)) }) {
			follows = append(follows, f)
		}
	}
	switch {
	case len(same) == 1:
		return same[0]
	case len(follows) == 1:
		return follows[0]
	}
	return nil
}

// repeats reports whether an input of a call that was run again holds what one of the forward pass does: equal
// elements, or the result of the call that repeats the other's.
func (r recomputation) repeats(v, u *Value) bool {
	if u == nil || u.isParameter() || !v.telling() {
		return false
	}
	made, by := v.From.Value, u.From.Value
	return v.equals(u) || made != nil && by != nil && r.of[made.Call] == by.Call
}

// findRecomputed finds inputs of a non-reentrant checkpoint that were overwritten before it ran again: a call that was
// run again reads something else there than in the forward pass, and no call that was run again made that. Gradients
// of the forward pass prove it: they are wrong, and right with what was run again.
func (p *Process) findRecomputed(opt Options) {
	for _, s := range p.Steps {
		r := s.recomputation()
		for _, c := range r.order {
			for _, v := range c.Inputs {
				u := r.of[c].Value(v.Target)
				if u == nil || !v.like(u) || v.equals(u) || v.From.first != nil && v.From.first.Call != r.of[c] ||
					v.From.Value != nil && v.From.Value.Call.inBackward() {
					continue
				}
				if spoiled := r.spoiled(c, opt); len(spoiled) > 0 {
					v.overwrites(u)
					v.spoils = spoiled
					for _, f := range spoiled {
						f.gradientsTold = true
					}
				}
			}
		}
	}
}

// spoiled are the calls of the forward pass that a call and its readers repeat, if wrong gradients of one are right
// with what was run again.
func (r recomputation) spoiled(c *Call, opt Options) (all []*Call) {
	proven := false
	seen := map[*Call]bool{c: true}
	for todo := []*Call{c}; len(todo) > 0; todo = todo[1:] {
		now := todo[0]
		first := r.of[now]
		all = append(all, first)
		if !proven && first.failing(replay.Backward) != nil && first.failing(replay.Forward) == nil {
			proven = first.differentiates(first.unlike(now), opt)
		}
		for _, next := range now.Readers() {
			if r.of[next] != nil && !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	if !proven {
		return nil
	}
	return all
}

// reruns reports whether the calls that a reentrant checkpoint ran again read a changed value: gradients follow from it
// that no recorded call gave as a result.
func (f *Finding) reruns() bool {
	v := f.Call.Value(f.Target)
	return f.Rule == verdict.Changed && !f.backward && f.Call.inBackward() &&
		slices.ContainsFunc(f.Call.Step.Tail, func(c *Call) bool {
			return c.HasBackward() && c.inBackward() && slices.ContainsFunc(c.Inputs, func(r *Value) bool {
				return r.Address == v.Address && r.equals(v)
			})
		})
}

// errRerun is why gradients cannot be repaired that follow from what a checkpoint ran again.
var errRerun = errors.New("checkpointing ran calls again with the changed value, so that the gradients belong to " +
	"another forward pass than the loss")

// at is the address of a value of the call, 0 if the call has no such value.
func (c *Call) at(target string) uint64 {
	if v := c.Value(target); v != nil {
		return v.Address
	}
	return 0
}
