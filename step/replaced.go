package step

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/step/pairs"
)

// A block is the calls that only one of two runs made, between values that agree and values that do not.
type block struct {
	here, there []*Call // of this run and of the other one
	after       *Call   // the last call of both runs before them, nil if there is none
}

// beyond reports whether a value that is apart from the other run's by so much differs by more than rounding, where
// no value before it is further apart than noise.
func (v *Value) beyond(apart, noise, factor float64) bool {
	if math.IsInf(apart, 1) && v.summary != nil {
		return false // by how much it differs was not recorded
	}
	return v.DType.IsFloat() && apart > factor*max(noise, v.DType.Eps())
}

// replaced is the finding about an input that differs first, though all calls of both runs before it agree: calls that
// only one of the runs made gave it. It is nil if the input is not beyond rounding or if no such call made it.
func (p *pair) replaced(noise float64) *Finding {
	if p.at == nil || !p.at.beyond(p.in, noise, pairs.ReplacedForward) {
		return nil
	}
	var k block
	k.here = unpaired(p.at, p.alone, &k.after)
	k.there = unpaired(p.at.peerOf(p.a), p.alone, &k.after)
	if len(k.here)+len(k.there) == 0 {
		return nil
	}
	reason := fmt.Sprintf("this input differs%s; %s", by(p.in), &k)
	if k.after != nil {
		reason = fmt.Sprintf("the results of %s agree, this input differs%s; %s", k.after, by(p.in), &k)
	}
	return &Finding{Rule: verdict.Diverged, Call: p.b, Target: p.at.Target, Peer: p.a, Reason: reason}
}

// unpaired are the calls that led to an input and that only its run made, in order. after becomes the last call
// before them, as this run calls it.
func unpaired(v *Value, alone map[*Call]bool, after **Call) (out []*Call) {
	seen := map[*Call]bool{}
	for todo := []*Value{v}; len(todo) > 0; todo = todo[1:] {
		from := todo[0].From.Value
		if from == nil || seen[from.Call] {
			continue
		}
		c := from.Call
		seen[c] = true
		if alone[c] {
			out = append(out, c)
			todo = append(todo, c.Inputs...)
		} else if c.Peer != nil && (*after == nil || (*after).Order < c.Order) {
			*after = c
		}
	}
	return inOrder(out)
}

// inOrder sorts calls of one process. It leaves out those that another one of them made.
func inOrder(calls []*Call) []*Call {
	all := slices.Clone(calls)
	calls = slices.DeleteFunc(calls, func(c *Call) bool { return c.outer != nil && slices.Contains(all, c.outer) })
	slices.SortFunc(calls, func(a, b *Call) int { return a.Order - b.Order })
	return calls
}

// String says which calls are between.
func (k *block) String() string {
	if len(k.here)+len(k.there) == 0 {
		return "no recorded call is between them"
	}
	var parts []string
	for _, s := range []struct {
		calls []*Call
		where string
	}{{k.here, "in this run"}, {k.there, "in the other"}} {
		if len(s.calls) == 0 {
			parts = append(parts, "none "+s.where)
			continue
		}
		var ops []string
		for _, c := range s.calls {
			ops = append(ops, c.Op)
		}
		text := pairs.Operators(ops) + " " + s.where
		if at := s.calls[0].Entry.Location; at != "" {
			text += " (" + path.Base(at) + ")"
		}
		parts = append(parts, text)
	}
	return "between them: " + strings.Join(parts, ", ")
}

// A passed is a pair of calls of one step, whose forward passes agree.
type passed []*pair

// replacedBackward is the finding about the gradient that differs first, in order of the backward pass, in a step whose
// forward passes agree: something between two calls changed it. It is nil if all gradients agree as far as their
// rounding allows, or if the backward passes began with different gradients.
func (ps passed) replacedBackward() (f *Finding) {
	noise := 0.0
	for i, p := range slices.Backward(ps) {
		done := false
		err := p.opt.within(p.b, "the two runs' gradients were not compared", func(opt Options) error {
			in, at, err := apart(p.a.GradOutputs, p.b.GradOutputs, opt)
			if err != nil {
				return err
			}
			if at != nil && at.beyond(in, noise, pairs.ReplacedBackward) {
				done = true
				if root := p.b.Step; root == nil || p.b != root.root && p.b != root.Loss {
					f = ps.changedGradient(i, at, in)
				}
				return nil
			}
			out, _, err := apart(p.a.Grads, p.b.Grads, opt)
			noise = max(noise, in, out)
			return err
		})
		if done || err != nil {
			return f
		}
	}
	return nil
}

// changedGradient says that what arrives at the i-th pair differs, and which calls follow it in one run only.
func (ps passed) changedGradient(i int, at *Value, in float64) *Finding {
	p := ps[i]
	k := block{here: readers(p.b, p.alone), there: readers(p.a, p.alone)}
	return &Finding{Rule: verdict.Diverged, Call: p.b, Target: at.Target, Peer: p.a, backward: true,
		Reason: fmt.Sprintf("the gradient that arrives differs%s, those of the calls after it agree; %s", by(in), &k)}
}

// readers are the calls that read the results of a call, directly or through others, and that only its run made.
func readers(c *Call, alone map[*Call]bool) (out []*Call) {
	seen := map[*Call]bool{}
	for todo := []*Call{c}; len(todo) > 0; todo = todo[1:] {
		for _, v := range todo[0].Outputs {
			for _, r := range v.readers {
				if alone[r.Call] && !seen[r.Call] {
					seen[r.Call] = true
					out, todo = append(out, r.Call), append(todo, r.Call)
				}
			}
		}
	}
	return inOrder(out)
}
