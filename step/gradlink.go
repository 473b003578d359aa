package step

import (
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/tensor"
)

// linkGradients links the gradients of results to the gradients that the readers
// of these results gave: the backward pass is the forward pass's links reversed.
//
// Two calls record the same gradient where it is passed on unchanged (add), so
// that a reader of the result goes first, then the next later call.
func (p *Process) linkGradients() {
	for _, s := range p.Steps {
		viewed := s.viewed()
		same := map[contentKey][]*Value{}
		for _, c := range s.Calls {
			for _, g := range c.Grads {
				same[g.key()] = append(same[g.key()], g)
			}
		}
		for _, c := range s.Calls {
			for _, g := range c.GradOutputs {
				g.From = c.gradientSource(g, same[g.key()], viewed)
				if w := g.From.Value; w != nil {
					w.readers = append(w.readers, g)
				}
				c.findLostPart(g)
			}
		}
	}
}

// result is the result that a recorded gradient belongs to, nil if there is none.
func (c *Call) result(g *Value) *Value {
	if i := g.leaf; g.Kind == capture.GradOutputs && i < len(c.Outputs) && sameShape(c.Outputs[i].Shape, g.Shape) {
		return c.Outputs[i]
	}
	return nil
}

// gradientSource finds what the gradient g of a result of c came from; same are
// all gradients with its content, in order of the calls, and viewed those of Step.viewed.
func (c *Call) gradientSource(g *Value, same []*Value, viewed map[*Value]bool) Link {
	if s := c.Step; s != nil && (c == s.root || c.handsNumber(s.root) || s.root.handsNumber(c)) {
		return Link{How: IsLeaf, Role: "seed"}
	}
	var readers []*Call
	out := c.result(g)
	if out != nil {
		readers = out.differentiating(c, nil)
	}
	how := ByContent
	if len(same) > 1 {
		how = ByStorage // the forward pass's links decide
	}
	if w := gradientThat(readers, g.equals); w != nil {
		return Link{How: how, Value: w}
	}
	for _, w := range same {
		if w.Call.Order > c.Order && !(g.content.plain && g.Numel() > 1) {
			return Link{How: how, Value: w}
		}
	}
	if w := gradientThat(readers, func(w *Value) bool { return w.aliases(g) }); w != nil {
		return Link{How: ByContent, Value: w} // of an inner node that saw it in another shape
	}
	if made := c.Step.madeBehind(g); made != nil && made.Call.inBackward() {
		return Link{How: ByContent, Value: made} // a hook of the program gave it
	}
	l := Link{How: IsLeaf, Role: "inner"}
	for _, r := range readers {
		if w := r.nearest(g); w != nil {
			l.Parts = append(l.Parts, w)
		}
	}
	if len(readers) == 1 && len(l.Parts) == 1 && !viewed[out] && g.partOf(l.Parts[0], (*agreement).beyondChance) {
		if made := c.Step.madeBehind(g); made != nil {
			return Link{How: ByContent, Value: made}
		}
		// Unless its other elements come from readers that were not recorded: see confirm.
		l.How, l.Value, l.Role, l.part = IsChanged, l.Parts[0], "", true
	}
	return l
}

// madeBehind is the result of a call behind the loss that a gradient equals: the backward pass of a function of the
// program made it, or a hook. It is nil if there is none.
func (s *Step) madeBehind(g *Value) *Value {
	if s == nil || g.content.plain {
		return nil
	}
	if s.behind == nil {
		s.behind = map[contentKey]*Value{}
		for _, c := range slices.Backward(s.Tail) {
			for _, o := range slices.Backward(c.Outputs) {
				if !c.writes {
					s.behind[o.key()] = o
				}
			}
		}
	}
	return s.behind[g.key()]
}

// gradientThat is the first gradient of calls that is so, nil if none is.
func gradientThat(calls []*Call, is func(*Value) bool) *Value {
	for _, c := range calls {
		if i := slices.IndexFunc(c.Grads, is); i >= 0 {
			return c.Grads[i]
		}
	}
	return nil
}

// differentiating adds to found the calls that read v and take part in the backward
// pass, without c, which gave it. Calls that return their argument as it is do not:
// the gradients recorded with them are those of the call that made it.
func (v *Value) differentiating(c *Call, found []*Call) []*Call {
	for _, r := range v.readers {
		if r.Kind != inputKind || r.Call == c {
			continue
		}
		if o := r.Call.passes(r); o != nil {
			found = o.differentiating(r.Call, found)
		} else if r.Call.HasBackward() && !slices.Contains(found, r.Call) {
			found = append(found, r.Call)
		}
	}
	return found
}

// passes is the result by which a call returns its argument v itself, nil if it
// does not.
func (c *Call) passes(v *Value) *Value {
	for _, o := range c.Outputs {
		if o.Address != 0 && o.Address == v.Address && o.equals(v) && slices.Equal(o.Stride, v.Stride) {
			return o
		}
	}
	return nil
}

// returned is the argument that a call returned as v, as it was; nil if v is not such a result.
func (v *Value) returned() *Value {
	if v == nil || v.Kind != outputKind {
		return nil
	}
	for _, u := range v.Call.Inputs {
		if v.Call.passes(u) == v {
			return u
		}
	}
	return nil
}

// differentiated is the input that the gradient of the input v goes on from: v, or where calls without a gradient of
// their own returned an argument as it was, such as float() of a float32, the argument of the first of them.
func (v *Value) differentiated() *Value {
	for {
		w := v.From.origin()
		if w == nil || w.Call.HasBackward() || w.Call.Order >= v.Call.Order {
			return v
		}
		u := w.returned()
		if u == nil || !w.RequiresGrad { // detach() ends the backward pass
			return v
		}
		v = u
	}
}

// nearest is the recorded gradient of c that has as many elements as g, perhaps in
// another shape, and most of them equal; nil if none has.
func (c *Call) nearest(g *Value) (best *Value) {
	most := -1.0
	for _, w := range c.Grads {
		if w.DType != g.DType || w.Numel() != g.Numel() {
			continue
		}
		a := g.content.alike(&w.content, g.DType)
		share := a.share()
		if w.like(g) {
			share++
		}
		if share > most {
			best, most = w, share
		}
	}
	return best
}

// viewed are the values that calls read which were not recorded, whose gradients are missing: inputs without a producer
// lie in their memory.
func (s *Step) viewed() map[*Value]bool {
	viewed := map[*Value]bool{}
	for _, c := range s.Calls {
		for _, v := range c.Inputs {
			if v.From.view != nil {
				viewed[v.From.view] = true
			}
		}
	}
	return viewed
}

// confirm takes back that gradients were changed where the value may have been read
// by calls that were not recorded, which copied some of its elements (x[mask] in
// torch 1): values with a gradient and without a producer hold nothing else. So it
// does where a gradient was limited to a range.
func (p *Process) confirm(opt Options) {
	for _, s := range p.Steps {
		for _, c := range s.Calls {
			var changed []*Value
			for _, g := range c.GradOutputs {
				if g.From.How == IsChanged {
					changed = append(changed, g)
				}
			}
			if len(changed) == 0 {
				continue
			}
			// Elements that cannot be read leave the finding as it is.
			_ = opt.within(c, "", func(opt Options) error {
				return each(changed, func(g *Value) error {
					otherwise, err := c.copied(c.result(g), opt)
					if err == nil && !otherwise {
						otherwise, err = g.clamps(g.From.Value, opt)
					}
					if otherwise {
						g.From = Link{How: IsLeaf, Role: "inner", Parts: g.From.Parts}
					}
					return err
				})
			})
		}
	}
}

// clamps reports whether g has the elements of w, limited to a range that several are beyond: a function or a hook that
// was not recorded clips gradients on purpose.
func (g *Value) clamps(w *Value, opt Options) (bool, error) {
	if w == nil || !sameShape(g.Shape, w.Shape) || g.Numel() == 0 {
		return false, nil
	}
	now, done, err := g.load(opt)
	if err != nil {
		return false, err
	}
	defer done()
	was, free, err := w.load(opt)
	if err != nil {
		return false, err
	}
	defer free()
	is := tensor.Data[float64](now)
	low, high, beyond := slices.Min(is), slices.Max(is), 0
	for i, x := range tensor.Data[float64](was) {
		if is[i] != min(max(x, low), high) {
			return false, nil
		}
		if is[i] != x {
			beyond++
		}
	}
	return beyond > few, nil
}

// copied reports whether an input behind c that no recorded call made holds
// elements of out alone.
func (c *Call) copied(out *Value, opt Options) (bool, error) {
	if out == nil {
		return true, nil
	}
	var suspects []*Value
	for _, r := range c.Step.Calls {
		for _, v := range r.Inputs {
			if r.Order > c.Order && v.From.Value == nil && v.RequiresGrad && !v.Parameter && v.DType == out.DType &&
				v.Numel() <= out.Numel() && !v.content.plain {
				suspects = append(suspects, v)
			}
		}
	}
	if len(suspects) == 0 {
		return false, nil
	}
	t, done, err := out.load(opt)
	if err != nil {
		return false, err
	}
	defer done()
	held := map[float64]bool{}
	for _, x := range tensor.Data[float64](t) {
		held[x] = true
	}
	return slices.ContainsFunc(suspects, func(v *Value) bool {
		return !slices.ContainsFunc(v.content.samples, func(bits uint64) bool { return !held[v.DType.Number(bits)] })
	}), nil
}

// unrecorded is the role of values with a gradient that no recorded call made.
const unrecorded = "unrecorded"

// linked takes values of which rows was set from the inputs without a producer.
func (s *Step) linked() {
	if s != nil {
		s.Unlinked = slices.DeleteFunc(s.Unlinked, func(u *Value) bool { return u.From.rows != nil })
	}
}

// nameLeaves says what the leaves are, by how they are used. Where parameters are
// marked as such, other leaves with a gradient were made by calls that were not
// recorded.
func (p *Process) nameLeaves() {
	marked := false
	for _, c := range p.Calls {
		marked = marked || slices.ContainsFunc(c.Inputs, func(v *Value) bool { return v.Parameter })
	}
	for _, c := range p.Calls {
		for _, v := range c.Inputs {
			switch outer := v.ofOuter(); {
			case v.From.Value != nil || v.From.Role != "":
			case outer != nil && v.From.How == IsLeaf:
				v.From.Role = outer.From.Role
			case marked && v.RequiresGrad && !v.Parameter && v.From.How == IsLeaf && c.phase()%2 == 0:
				v.From.How, v.From.Role = IsOutside, unrecorded
				if c.Step != nil {
					c.Step.Unlinked = append(c.Step.Unlinked, v)
				}
			default:
				v.From.Role = v.role()
			}
		}
	}
}

// ofOuter is the leaf that a call was given and hands on as v to a call that it makes; nil if there is none. A recorder
// may know only the outer one as a parameter.
func (v *Value) ofOuter() *Value {
	for c := v.Call.outer; c != nil && v.Address != 0; c = c.outer {
		for _, u := range c.Inputs {
			if u.Address == v.Address && u.From.How == IsLeaf && u.From.Role != "" && u.equals(v) {
				return u
			}
		}
	}
	return nil
}

func (v *Value) role() string {
	switch {
	case v.Parameter || v.RequiresGrad:
		return "parameter"
	case v.Call.phase()%2 == 1 && v.DType.IsFloat() && (v.Call.writes || !v.Call.inBackward()):
		return "optimizer state"
	case !v.DType.IsFloat() || v.Numel() == 1:
		return "data"
	case v.after != nil || v.Call.writes:
		return "buffer"
	}
	return "data"
}
