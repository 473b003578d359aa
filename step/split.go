package step

import (
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/ops/opdef"
)

const (
	inputKind  = capture.Input
	outputKind = capture.Output
)

// split finds the losses of a process and divides its calls into steps.
//
// Nothing recorded names the loss: it is the call with one number as its result
// whose gradient was recorded, though no call that took part in the backward pass
// read it.
func (p *Process) split() {
	var roots []*Call
	for _, c := range p.Calls {
		if c.isRoot() {
			roots = append(roots, c)
		}
	}
	roots = seeded(roots)
	if len(roots) == 0 {
		roots = p.compiledLosses()
	}
	u := p.units(roots)
	for i, r := range roots {
		s := &Step{Number: i, root: r, Exact: math.NaN(), Captured: math.NaN(), Scale: math.NaN()}
		if s.Loss, s.batches, s.changed = u[i].loss(r); s.Loss.HasBackward() {
			s.Scale = s.Loss.GradOutputs[0].number()
		}
		s.Captured = s.read()
		p.Steps = append(p.Steps, s)
	}
	at := 0
	for i, s := range p.Steps {
		last, next := s.root.lastInner(), len(p.Calls)
		if i+1 < len(roots) {
			last = min(last, roots[i+1].Order-1)
			next = begin(p.Calls[last+1:roots[i+1].Order+1], roots, i+1)
		}
		s.Calls = p.Calls[at : last+1]
		s.Tail = p.Calls[last+1 : next]
		for _, c := range p.Calls[at:next] {
			c.Step = s
		}
		s.indexTail()
		at = next
	}
	for _, s := range p.Steps {
		s.gave = max(s.last(func(e *capture.Entry) int { return e.BackwardOrder }),
			s.last(func(e *capture.Entry) int { return e.GradientOrder }))
	}
}

// indexTail finds the inputs behind the loss by address and by shape.
func (s *Step) indexTail() {
	s.tailAt, s.tailLike = map[uint64][]*Value{}, map[uint64][]*Value{}
	for _, c := range s.Tail {
		for _, v := range c.Inputs {
			s.tailAt[v.Address] = append(s.tailAt[v.Address], v)
			shape := shapeSum(v.Shape)
			if like := s.tailLike[shape]; len(like) == 0 || len(like) == 1 && like[0].Address != v.Address {
				s.tailLike[shape] = append(like, v)
			}
		}
	}
}

// scalar is the result of a call that returns one floating number, else nil. Calls that torch.compile makes may return
// more behind it (nll_loss_forward).
func (c *Call) scalar() *Value {
	if len(c.Outputs) == 0 || len(c.Outputs) > 1 && !c.isCompiled() || c.Outputs[0].Numel() != 1 ||
		!c.Outputs[0].DType.IsFloat() {
		return nil
	}
	return c.Outputs[0]
}

// number is the value of a floating tensor of one element.
func (v *Value) number() float64 {
	switch {
	case v.summary != nil && v.summary.Max != nil && v.Numel() == 1:
		return *v.summary.Max
	case len(v.content.samples) == 0 || !v.DType.IsFloat():
		return math.NaN()
	}
	return v.DType.Number(v.content.samples[0])
}

func (c *Call) isRoot() bool {
	v := c.scalar()
	if v == nil || c.vacant || len(c.GradOutputs) == 0 || c.GradOutputs[0].Numel() != 1 || c.isOther() {
		return false
	}
	for _, r := range v.readers {
		if r.Call.HasBackward() && r.Call != c {
			return false
		}
	}
	return true
}

// isOther reports whether the one number of a call is that of another one, which readers are linked to: of a judged
// call that made this one, or, if this one was not judged, of a call that it made.
func (c *Call) isOther() bool {
	for o := c.outer; o != nil; o = o.outer {
		if o.judged() && o.handsNumber(c) {
			return true
		}
	}
	return !c.judged() && slices.ContainsFunc(c.Process.Calls[c.Order+1:c.lastInner()+1], c.handsNumber)
}

// lastInner is the order of the last call that a call made, itself or by calls that it made; its own if it made none.
func (c *Call) lastInner() int {
	last := c.Order
	for last+1 < len(c.Process.Calls) && c.encloses(c.Process.Calls[last+1]) {
		last++
	}
	return last
}

// handsNumber reports whether the one number of a call, which a backward pass reached, is that of a call that it made.
func (c *Call) handsNumber(inner *Call) bool {
	v, w := c.scalar(), inner.scalar()
	return v != nil && w != nil && c.encloses(inner) && c.HasBackward() && inner.HasBackward() && v.DType == w.DType &&
		v.Address == w.Address && (v.Address != 0 || v.equals(w))
}

// isCompiled reports whether torch.compile may have made the call.
func (c *Call) isCompiled() bool { return strings.HasPrefix(c.Op, "torch.ops.aten.") }

// compiledLosses are the losses of a program whose forward and backward passes torch.compile made calls of, none of
// which has gradients: the number that such a call computed last before one is given the 1 with which a backward pass
// begins, which no call made. What is computed from that 1 is a gradient and no loss; it may be read more than once.
func (p *Process) compiledLosses() (roots []*Call) {
	var last *Call
	backward := map[*Call]bool{} // computed from a 1 with which a backward pass began
	unknown := false             // the loss may be a number that was not recorded, or the pass has begun
	for _, c := range p.Calls {
		if !c.isCompiled() {
			continue
		}
		seeded := false
		for _, v := range c.Inputs {
			switch w := v.From.Value; {
			case v.Parameter || v.RequiresGrad: // an update wrote it
			case w != nil:
				backward[c] = backward[c] || backward[w.Call] && !w.Call.writes
			case len(v.Shape) == 0 && v.number() == 1:
				seeded = true
			}
		}
		switch {
		case backward[c]:
		case seeded && last != nil:
			roots, last = append(roots, last), nil
			backward[c], unknown = true, true
		case seeded && unknown:
			backward[c] = true
		case len(c.Outputs) == 0:
			last, unknown = nil, true
		case c.scalar() != nil:
			last = c
		}
	}
	return roots
}

// seeded keeps the roots whose gradient is 1, as backward() begins, if there are
// any; others are numbers whose readers were not recorded, or the losses of a
// program that scales them out of sight.
func seeded(roots []*Call) []*Call {
	var ones []*Call
	for _, r := range roots {
		if r.GradOutputs[0].number() == 1 {
			ones = append(ones, r)
		}
	}
	if len(ones) > 0 {
		return ones
	}
	return roots
}

// begin is where the step of loss i begins among the calls since the last one, as
// their order: at the first that leads to the loss other than by writing in place,
// as optimizers do, or that its backward pass reached.
func begin(calls, roots []*Call, i int) int {
	root := roots[i]
	first := calls[0].Order
	start, seen := root.Order, map[*Call]bool{root: true}
	if c := takesPart(calls, roots, i); c != nil {
		start = c.Order
	}
	for todo := []*Call{root}; len(todo) > 0; {
		c := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		start = min(start, c.Order)
		for _, v := range c.Inputs {
			if w := v.From.Value; w != nil && !seen[w.Call] && w.Call.Order >= first && !w.Call.writes {
				seen[w.Call] = true
				todo = append(todo, w.Call)
			}
		}
	}
	return start
}

// findWriting sets whether the call has no gradients and changes an argument.
func (c *Call) findWriting() {
	at := map[uint64]*Value{}
	for _, o := range c.Outputs {
		at[o.Address] = o
	}
	c.writes = !c.HasBackward() && (strings.HasSuffix(c.Op, "_") && !strings.HasSuffix(c.Op, "__") ||
		slices.ContainsFunc(c.Inputs, func(v *Value) bool {
			o := at[v.Address]
			// A view in another layout, such as that of a square matrix transposed, is no write.
			return v.after != nil || v.Address != 0 && o != nil && o.like(v) && !o.equals(v) &&
				sameShape(o.Stride, v.Stride)
		}))
}

// phase numbers the parts of a process between which the program may change
// parameters without a recorded call: up to each loss, and behind it.
func (c *Call) phase() int {
	if c.Step == nil {
		return -1
	}
	n := 2 * c.Step.Number
	if tail := c.Step.Tail; len(tail) > 0 && c.Order >= tail[0].Order {
		n++
	}
	return n
}

// settle decides about inputs that lie where another value had been: whether part
// of that was overwritten. In the part behind a loss it looks for gradients.
func (p *Process) settle() {
	var grads map[contentKey]*gradients
	var byForm map[form]*gradients
	made := map[*Value]*Value{} // the first reading of a gradient, by the result that it is
	at := 0
	for _, c := range p.Calls {
		if c.phase()%2 == 1 {
			for ; at <= c.Step.Number; at++ {
				if grads == nil || p.Steps[at-1].updatesAny() { // their gradients have been read
					grads, byForm = map[contentKey]*gradients{}, map[form]*gradients{}
				}
				for _, x := range slices.Concat(p.Steps[at].Calls, p.Steps[at].Tail) {
					for _, g := range x.Grads {
						group(grads, g.key(), g)
						group(byForm, g.form(), g)
					}
				}
			}
		}
		for _, v := range c.Inputs {
			if v.From.first != nil {
				v.From = v.From.first.From.again(v.From.first)
				if w := v.From.Value; w != nil && !slices.Contains(w.readers, v) {
					w.readers = append(w.readers, v)
				}
				continue
			}
			if v.From.How == IsOutside && v.From.view != nil {
				v.settleMemory()
			}
			switch w := v.From.Value; {
			case c.phase()%2 == 0 || v.From.Role == "collective":
			case w == nil:
				v.settleGradient(grads[v.key()].there(c), byForm[v.form()])
			case made[w] != nil:
				v.From = made[w].From.again(made[w])
				v.From.Value.readers = append(v.From.Value.readers, v)
			case v.settleMade(grads[v.key()].there(c)):
				made[w] = v
			}
		}
	}
}

// updatesAny reports whether a call behind the loss writes in place, as optimizers do.
func (s *Step) updatesAny() bool {
	return slices.ContainsFunc(s.Tail, func(c *Call) bool { return c.writes })
}

// again is the link of a further reading of a value.
func (l Link) again(first *Value) Link {
	l.first = first
	return l
}

// settleMemory decides about an input that lies where another value is known to
// have been.
func (v *Value) settleMemory() {
	was := v.From.view
	if was.Address != v.Address || !was.overlays(v) {
		return // a part of it: see compareMemory
	}
	v.From.view = nil
	if v.keeps(was) && v.partOf(was, (*agreement).share) {
		if was.Kind == inputKind && was.after == nil && was.From.Value != nil && was.From.How != IsChanged {
			was = was.From.Value
		}
		v.From = Link{How: IsChanged, Value: was, part: true}
		was.readers = append(was.readers, v)
	}
}

// keeps reports whether nothing but a recorded call writes to was between it and v:
// what no recorded call made may change between steps, as parameters and data do. A
// parameter that a recorded call updates is what the forward pass read until then. Uninitialised memory keeps nothing,
// nor does memory of which only views are taken for a collective to write: it can have been allocated anew.
func (v *Value) keeps(was *Value) bool {
	if was.Kind == outputKind && was.Call.random == opdef.Uninitialised || v.onlyReceives() {
		return false
	}
	then, now := was.Call.phase(), v.Call.phase()
	return was.made() || then%2 == 0 && (now == then || now == then+1 && v.updated())
}

// onlyReceives reports whether a call only takes views of v, and what next has them is a collective that gathers there.
func (v *Value) onlyReceives() bool {
	return len(v.Call.Outputs) > 0 && !slices.ContainsFunc(v.Call.Outputs, func(o *Value) bool {
		u := o.next()
		return o.Address < v.Address || o.end() > v.end() || u == nil || !gathers[u.Call.collective()] ||
			u == u.Call.Inputs[len(u.Call.Inputs)-1] // what it sends
	})
}

// gathers are collectives that write all of their arguments but the last one, without reading them.
var gathers = map[string]bool{"all_gather": true, "all_gather_into_tensor": true, "all_gather_single": true,
	"all_gather_base": true}

// next is the first argument behind a call that lies where v does, or in a part of it; nil if there is none.
func (v *Value) next() *Value {
	for _, c := range v.Call.Process.Calls[v.Call.Order+1:] {
		for _, u := range c.Inputs {
			if u.Address < v.end() && v.Address < u.end() {
				return u
			}
		}
	}
	return nil
}

// updated reports whether the next recorded call that writes v's memory finds it as it is.
func (v *Value) updated() bool {
	for _, c := range v.Call.Process.Calls[v.Call.Order:] {
		for _, u := range c.Inputs {
			switch {
			case u.Address != v.Address:
				continue
			case !u.equals(v):
				return false
			case !c.writes:
				continue
			}
			if u.after != nil || slices.ContainsFunc(c.Outputs, func(o *Value) bool { return o.Address == u.Address }) {
				return true
			}
		}
	}
	return false
}

// Made reports whether a recorded call made or changed the elements of a value: others were only read.
func (v *Value) Made() bool { return v.made() }

// made reports whether a recorded call made or changed the elements of a value: a
// view of a leaf is none.
func (v *Value) made() bool {
	switch {
	case v.after != nil:
		return true
	case v.Kind == inputKind && v.From.first != nil && v.From.first != v:
		return v.From.first.made()
	case v.Kind == inputKind:
		return v.From.Value != nil && v.From.Value.made()
	}
	for _, in := range v.Call.Inputs {
		if in.Address != 0 && in.Address < v.end() && v.Address < in.end() && !v.Call.writes {
			return in.made()
		}
	}
	return true
}

// settleMade decides about an input of an optimizer that a recorded call made: whether it is the gradient of a
// parameter, which the program computed by calls of its own within the backward pass. Such an input is linked to the
// gradient, and the gradient to the result that it is.
func (v *Value) settleMade(same []*Value) bool {
	w := v.From.Value
	at := w.Call.Entry.Order
	if w.Kind != outputKind || v.From.How == IsChanged || v.content.plain || w.Call.phase() != v.Call.phase() ||
		at < 0 {
		return false
	}
	for _, g := range slices.Backward(same) {
		if g.argument().isParameter() && at < g.Call.Entry.GradientOrder {
			g.From = Link{How: v.From.How, Value: w}
			v.From.Value = g // w keeps v as a reader, too
			g.readers = append(g.readers, v)
			return true
		}
	}
	return false
}

// settleGradient decides about an input of an optimizer: whether it is a gradient. same are those with its content, and
// like those of its dtype and shape.
func (v *Value) settleGradient(same []*Value, like *gradients) {
	if len(same) > 0 && (!v.content.plain || v.Numel() == 1 && len(same) == 1) {
		w := same[len(same)-1]
		v.From = Link{How: ByContent, Value: w}
		w.readers = append(w.readers, v)
		return
	}
	if v.From.How == IsChanged || !v.DType.IsFloat() || v.content.plain {
		return
	}
	var best *Value
	share := 0.0
	for _, w := range like.sharing(v) {
		if !v.content.mayShare(&w.content, leastShare) {
			continue
		}
		a := v.content.alike(&w.content, v.DType)
		if equal := a.beyondChance(); equal > share && a.n > few {
			best, share = w, equal
		}
	}
	switch {
	case best == nil || !v.partOf(best, (*agreement).beyondChance) || v.beside(best):
	case v.Address == 0: // which parameter is updated with it is not known, and so what else read that
		v.From.How = IsOutside
	default:
		v.From = Link{How: IsChanged, Value: best, part: true}
		best.readers = append(best.readers, v)
	}
}

// beside reports whether a call behind the loss, from that of v on, reads a value of the form of the gradient g where g
// lies, and v lies elsewhere: v is not g, but state such as momentum, which is like the gradients of earlier steps.
func (v *Value) beside(g *Value) bool {
	return g.Address != 0 && v.Address != g.Address && v.Call.Step != nil &&
		slices.ContainsFunc(v.Call.Step.Tail, func(c *Call) bool {
			return c.Order >= v.Call.Order && slices.ContainsFunc(c.Inputs, func(u *Value) bool {
				return u.Address == g.Address && u.like(g)
			})
		})
}

// The least share of equal elements, zeros left out, that shows that a tensor is
// another of which a part was overwritten. Unrelated tensors of a 16-bit dtype
// have some hundredth of their elements in common by chance.
const leastShare = 0.125

// partOf reports whether v is w with some elements overwritten, by what share is of their samples. Both are of one
// dtype and shape and differ.
func (v *Value) partOf(w *Value, share func(*agreement) float64) bool {
	a := v.content.alike(w.leaves(), v.DType)
	if w.after != nil || a.n < sampled/4 && v.Numel() > sampled {
		return false // nothing but zeros: that many tensors have
	}
	if (!v.DType.IsFloat() || a.same <= few) && share(&a) < 0.5 {
		return false // some elements are the same by chance, in small tensors of tiny numbers too
	}
	return share(&a) >= leastShare
}
