package step

import (
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
)

// Readers are the calls that read a result of c in the forward pass, in order, each
// once.
func (c *Call) Readers() []*Call {
	var out []*Call
	seen := map[*Call]bool{c: true}
	for _, o := range append(append([]*Value(nil), c.Outputs...), c.Inputs...) {
		for _, r := range o.readers {
			if r.Kind == inputKind && !seen[r.Call] {
				seen[r.Call] = true
				out = append(out, r.Call)
			}
		}
	}
	return out
}

// A spread is a call that has a wrong value. only is the one that passes it on, nil if all that the call gives may be
// wrong.
type spread struct {
	call *Call
	only *Value
}

// spreads is what an input that is wrong does to its call: a normalization in training gives the same result whatever
// its running statistics are.
func (v *Value) spreads() spread {
	normalizes := strings.Contains(v.Call.Op, "batch_norm") || strings.Contains(v.Call.Op, "instance_norm")
	if v.after != nil && normalizes {
		return spread{v.Call, v}
	}
	return spread{call: v.Call}
}

// next are the calls that read wrong values of a call in the forward pass, in order.
func (s spread) next() (out []spread) {
	given := slices.Concat(s.call.Outputs, s.call.Inputs)
	if s.only != nil {
		given = []*Value{s.only}
	}
	for _, o := range given {
		for _, r := range o.readers {
			if r.Kind == inputKind && r.Call != s.call {
				out = append(out, r.spreads())
			}
		}
	}
	return out
}

// spreads is the call of a finding with what is wrong there.
func (f *Finding) spreads() spread {
	if v := f.Call.Value(f.Target); f.Rule == verdict.Changed && v != nil {
		return v.spreads()
	}
	return spread{call: f.Call}
}

// Way is the shortest way of what is wrong in a finding's call to another call, both included; nil if there is none.
func (f *Finding) Way(to *Call) []*Call {
	first := f.spreads()
	before := map[spread]spread{first: {}}
	for todo := []spread{first}; len(todo) > 0; todo = todo[1:] {
		s := todo[0]
		if s.call == to {
			var way []*Call
			for ; s.call != nil; s = before[s] {
				way = append([]*Call{s.call}, way...)
			}
			return way
		}
		for _, r := range s.next() {
			if _, seen := before[r]; !seen {
				before[r] = s
				todo = append(todo, r)
			}
		}
	}
	return nil
}

// InBackward reports whether a finding is about gradients: what it made wrong is behind it
// in the backward pass, on the way to the leaves.
func (f *Finding) InBackward() bool { return f.backward }

// Reach counts the calls that read, directly or through others, what a finding made
// wrong: results, or gradients on their way back.
func (f *Finding) Reach() int { return len(f.reached()) - 1 }

// reached are the calls that Reach counts, and the one that the finding is about.
func (f *Finding) reached() map[*Call]bool {
	next := spread.next
	if f.backward {
		next = func(s spread) (out []spread) {
			for _, c := range f.sources(s.call) {
				out = append(out, spread{call: c})
			}
			return out
		}
	}
	todo := []spread{f.spreads()}
	for _, c := range f.unseen {
		todo = append(todo, spread{call: c})
	}
	seen, calls := map[spread]bool{}, map[*Call]bool{}
	for _, s := range todo {
		seen[s], calls[s.call] = true, true
	}
	for ; len(todo) > 0; todo = todo[1:] {
		for _, s := range next(todo[0]) {
			if !seen[s] {
				seen[s], calls[s.call] = true, true
				todo = append(todo, s)
			}
		}
	}
	return calls
}

// sources are the calls to which c passes gradients that depend on what the finding is about. Right gradients of the
// finding's own call do not.
func (f *Finding) sources(c *Call) []*Call {
	wrong := slices.DeleteFunc(slices.Clone(c.Inputs), func(v *Value) bool {
		g := c.gradientOf(v)
		return g == nil || !c.failsAt(g.Target)
	})
	if c != f.Call || f.Rule != verdict.Wrong || len(wrong) == 0 {
		return c.sources()
	}
	return c.makersOf(wrong)
}

// sources are the calls with gradients of whose results c is a reader.
func (c *Call) sources() []*Call { return c.makersOf(c.Inputs) }

// makersOf are the calls with gradients that made some inputs that have gradients.
func (c *Call) makersOf(inputs []*Value) (out []*Call) {
	for _, v := range inputs {
		v = v.differentiated()
		if w := v.From.origin(); w != nil && w.Kind == capture.Output && w.Call.HasBackward() && v.RequiresGrad {
			out = append(out, w.Call)
		}
	}
	return out
}
