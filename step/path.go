package step

import (
	"slices"

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

// Way is the shortest way of a call's results to another call, both included; nil
// if there is none.
func Way(from, to *Call) []*Call {
	before := map[*Call]*Call{from: nil}
	for todo := []*Call{from}; len(todo) > 0; todo = todo[1:] {
		c := todo[0]
		if c == to {
			var way []*Call
			for ; c != nil; c = before[c] {
				way = append([]*Call{c}, way...)
			}
			return way
		}
		for _, r := range c.Readers() {
			if _, seen := before[r]; !seen {
				before[r] = c
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
func (f *Finding) Reach() int {
	next := (*Call).Readers
	if f.backward {
		next = f.sources
	}
	seen := map[*Call]bool{f.Call: true}
	for _, c := range f.unseen {
		seen[c] = true
	}
	for todo := append([]*Call{f.Call}, f.unseen...); len(todo) > 0; todo = todo[1:] {
		for _, c := range next(todo[0]) {
			if !seen[c] {
				seen[c] = true
				todo = append(todo, c)
			}
		}
	}
	return len(seen) - 1
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

// makersOf are the calls with gradients that made some inputs in the forward pass of the step.
func (c *Call) makersOf(inputs []*Value) (out []*Call) {
	for _, v := range inputs {
		if w := v.From.origin(); w != nil && w.Kind == capture.Output && w.Call.HasBackward() && w.Call.Step == c.Step {
			out = append(out, w.Call)
		}
	}
	return out
}
