package step

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/optool/optool/reports"
)

// Bypassed are writes of recorded calls that autograd did not see: through .data, a detached tensor, or without
// gradients. A call reads what was written, and its gradient goes to the call that had made the value before, as if
// nothing had been written. That is right only if it is meant, as in a straight-through estimator, so it is a gap, one
// for each line of the program.
func (t *Trace) Bypassed() (all []Gap) {
	type key struct{ op, at string }
	n, order, first := map[key]int{}, []key(nil), map[key]bypass{}
	for _, c := range t.Calls() {
		for _, v := range c.Inputs {
			b, ok := v.bypass()
			if !ok {
				continue
			}
			k := key{b.by[0].Op, b.by[0].Entry.Location}
			if n[k]++; n[k] == 1 {
				order, first[k] = append(order, k), b
			}
		}
	}
	for _, k := range order {
		b := first[k]
		names := make([]string, len(b.by))
		for i, c := range b.by {
			names[i] = c.String()
		}
		at, others := "", ""
		if k.at != "" {
			at = fmt.Sprintf(" (%s)", path.Base(k.at))
		}
		if n[k] > 1 {
			others = fmt.Sprintf(", and so in %s more", reports.Count(n[k]-1, "value"))
		}
		all = append(all, Gap{N: n[k], First: b.made.Call.String(), What: fmt.Sprintf(
			"%s%s changed %s of %s without autograd%s: the gradient by the changed value, as %s gave it, went on as if "+
				"nothing had been changed. That is right only if it is meant, as in a straight-through estimator",
			strings.Join(names, " and "), at, b.made.Target, b.made.Call, others, b.reader)})
	}
	return all
}

// A bypass is a value that calls wrote without autograd, and the call that read it.
type bypass struct {
	made   *Value  // what was written, as the call made it that got the gradient
	by     []*Call // in order
	reader *Call
}

// bypass finds what autograd did not see of an input. The gradient proves which call had made it: that of its result
// is the gradient of the input.
func (v *Value) bypass() (b bypass, ok bool) {
	g := v.Call.gradientOf(v)
	if !v.RequiresGrad || v.Address == 0 || g == nil || g.content.zero() || v.From.How == IsChanged {
		return b, false
	}
	b.reader = v.Call
	w := v.From.Value
	if v.From.under != nil {
		for _, p := range v.From.patches {
			b.by = append(b.by, p.Call)
		}
		w = v.From.under
	}
	for range 16 {
		if w == nil || w.Address != v.Address || w.Call.collective() != "" {
			return b, false
		}
		if w.Kind == outputKind && w.RequiresGrad && w.Call.HasBackward() {
			b.made = w
			break
		}
		at := w
		if w.Kind == outputKind {
			i := slices.IndexFunc(w.Call.Inputs, func(u *Value) bool { return u.Address == w.Address && u.like(w) })
			if i < 0 {
				return b, false
			}
			at = w.Call.Inputs[i]
		}
		if w.Call.HasBackward() {
			return b, false
		}
		if at == w || at.content.sum != w.content.sum {
			b.by = append([]*Call{w.Call}, b.by...)
		}
		w = at.From.Value
	}
	if b.made == nil || len(b.by) == 0 || slices.ContainsFunc(b.by, (*Call).HasBackward) {
		return b, false
	}
	return b, slices.ContainsFunc(b.made.Call.GradOutputs, func(o *Value) bool {
		return b.made.Call.result(o) == b.made &&
			(o.From.Value == g || slices.Contains(o.From.Parts, g) || o.content.sum == g.content.sum)
	})
}
