package step

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// findStale finds inputs that lie where a recorded result does and have other elements, though autograd says that they
// are that result: its gradient is what the calls that read it there gave. Such a value is changed, also where another
// recorded value equals it: an old one that was read too early, say.
func (p *Process) findStale() {
	suspects := map[*Value][]*Value{} // by the result
	again := map[*Value][]*Value{}    // further readings of an input
	var order []*Value
	for _, c := range p.Calls {
		for _, v := range c.Inputs {
			if first := v.From.first; first != nil {
				again[first] = append(again[first], v)
			} else if w := v.mayBe(); w != nil {
				if suspects[w] == nil {
					order = append(order, w)
				}
				suspects[w] = append(suspects[w], v)
			}
		}
	}
	for _, w := range order {
		vs := suspects[w]
		g := w.gradient()
		if g == nil && w.isReadAs(vs) {
			g = w.anyGradient()
		}
		if g == nil {
			continue
		}
		readers := slices.Clone(w.readers)
		for _, v := range vs {
			readers = append(readers, v)
			readers = append(readers, again[v]...)
			if o := v.Call.passes(v); o != nil { // detach, say: what reads the memory later has its name
				readers = append(readers, o.readers...)
			}
		}
		if explained(g, w.readers) || !explained(g, readers) {
			continue
		}
		first := vs[0]
		for _, v := range vs {
			v.unlink()
			from := Link{How: IsChanged, Value: w}
			if v == first {
				v.reason = cmp.Or(w.stale(v, ", whose gradient it has"), v.otherNumber(w))
				v.From = from
			} else {
				v.From = from.again(first)
			}
			w.readers = append(w.readers, v)
			for _, r := range again[v] {
				r.From = from.again(first)
				w.readers = append(w.readers, r)
			}
		}
	}
}

// mayBe is the result that lies where an input does and has other elements, nil if there is none.
func (v *Value) mayBe() *Value {
	w := v.latest
	if w == nil || v.From.How == IsChanged || v.From.written || v.From.Role == "collective" || !v.DType.IsFloat() {
		return nil // another process may have written there
	}
	if w.Kind == inputKind && w.From.Value != nil && w.From.How != IsChanged {
		w = w.From.Value
	}
	w = w.viewed() // the result of detach, say, has no gradient
	if w.Kind != outputKind || w.after != nil {
		return nil
	}
	return w
}

// stale says that an input holds another recorded value than the one that lies where it does, "" if it holds none.
// evidence is what says, beside the address, that it should hold that one.
func (w *Value) stale(v *Value, evidence string) string {
	old := v.From.Value
	if old == nil {
		return ""
	}
	if old.Call == w.Call {
		if old.Address != w.Address {
			return ""
		}
		return fmt.Sprintf("it holds what lay there before %s of %s, not what that call wrote; no recorded call wrote there "+
			"in between", old.Target, old.Call)
	}
	when := "has at another address"
	if old.Address == w.Address {
		when = "had left there before"
	}
	return fmt.Sprintf("it holds what %s of %s %s, not what %s of %s wrote there last%s; no recorded call wrote there "+
		"in between", old.Target, old.Call, when, w.Target, w.Call, evidence)
}

// unlink takes an input from the readers of what it was linked to.
func (v *Value) unlink() {
	if w := v.From.Value; w != nil {
		w.readers = slices.DeleteFunc(w.readers, func(r *Value) bool { return r == v })
	}
}

// gradient is the recorded gradient of a result, nil if there is none that tells it from others.
func (v *Value) gradient() *Value {
	if g := v.anyGradient(); g != nil && g.tellsApart() {
		return g
	}
	return nil
}

// anyGradient is the recorded gradient of a result, nil if there is none.
func (v *Value) anyGradient() *Value {
	for _, g := range v.Call.GradOutputs {
		if v.Call.result(g) == v {
			return g
		}
	}
	return nil
}

// isReadAs reports whether a result is a number, such as a loss whose gradient is 1, that must be the one which calls
// read where it lies before its backward pass, though it is another one there: torch has counted no write, and no
// recorded call read the result. Calls that were not recorded may add constants to it one after the other, and the last
// of them may give its sum the same memory. So the line must read the result of the same line in another pass, or the
// number must be the result times a power of two.
func (v *Value) isReadAs(readings []*Value) bool {
	g := v.anyGradient()
	return v.Numel() == 1 && v.RequiresGrad && g != nil && g.number() != 0 && len(v.readers) == 0 &&
		!slices.ContainsFunc(readings, func(r *Value) bool {
			at := r.Call.Entry.Order
			return !r.RequiresGrad || !r.isUncounted(v) || at < 0 || v.Call.Entry.BackwardOrder <= at ||
				!r.isShifted(v) && !r.readsElsewhere(v)
		})
}

// isShifted reports whether a number is another one times a power of two, of either sign.
func (v *Value) isShifted(w *Value) bool {
	frac, _ := math.Frexp(v.number() / w.number())
	return math.Abs(frac) == 0.5
}

// readsElsewhere reports whether the line that reads v reads, at the same argument, a result of the line that made w in
// another pass.
func (v *Value) readsElsewhere(w *Value) bool {
	alike := func(a, b *Call) bool { return a.Op == b.Op && a.place() == b.place() && a.Entry.Location != "" }
	return slices.ContainsFunc(v.Call.Process.Calls, func(c *Call) bool {
		if c == v.Call || !alike(c, v.Call) {
			return false
		}
		u := c.Value(v.Target)
		return u != nil && u.From.Value != nil && u.From.How != IsChanged && u.From.Value.Target == w.Target &&
			alike(u.From.Value.Call, w.Call)
	})
}

// otherNumber says that a number is another one than the same tensor had; "" of other values, and of NaN.
func (v *Value) otherNumber(w *Value) string {
	is, was := v.number(), w.number()
	if v.Numel() != 1 || w.Numel() != 1 || is != is || was != was {
		return ""
	}
	return fmt.Sprintf("it is %.6g and was %.6g in %s of %s, the same tensor: no recorded call wrote there in between",
		is, was, w.Target, w.Call)
}

// tellsApart reports whether equal gradients are gradients of one value: of a single number that is 0, 1 or -1, as
// backward passes begin and many functions give, they need not be.
func (v *Value) tellsApart() bool {
	if v.Numel() == 1 {
		x := math.Abs(v.number())
		return x > 0 && x != 1
	}
	return !v.content.plain && v.Numel() > few
}

// gradientOf is the recorded gradient of an input, nil if there is none. Gradients are numbered as the tensors among
// the arguments are, or in another order, in which the shape decides: a weight that is stored turned round may then
// have the shape of another argument.
func (c *Call) gradientOf(v *Value) (found *Value) {
	i := slices.Index(c.Inputs, v)
	n := 0
	numbered := !slices.ContainsFunc(c.Grads, func(g *Value) bool {
		return g.leaf < len(c.Inputs) && !sameShape(c.Inputs[g.leaf].Shape, g.Shape)
	})
	if !numbered && slices.ContainsFunc(c.Inputs, func(u *Value) bool {
		return u != v && u.RequiresGrad && sameShape(u.Shape, v.Shape)
	}) {
		return nil
	}
	for _, g := range c.Grads {
		if !sameShape(g.Shape, v.Shape) {
			continue
		}
		if numbered && g.leaf == i {
			return g
		}
		found = g
		n++
	}
	if n > 1 || n == 1 && found.argument() != v {
		return nil
	}
	return found
}

// explained reports whether the gradient g is the sum of what the calls gave that read a value.
func explained(g *Value, readings []*Value) bool {
	var all addition
	var calls []*Value
	for _, r := range readings {
		if r.Kind != inputKind || !r.Call.HasBackward() || slices.Contains(calls, r) {
			continue
		}
		calls = append(calls, r)
		part := r.Call.gradientOf(r)
		if part == nil || len(part.content.samples) != len(g.content.samples) {
			return false
		}
		if part.equals(g) {
			return true
		}
		all.add(part)
	}
	return len(calls) > 1 && all.is(g)
}
