package step

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A multiple is a value behind a loss that is so many times what it should be.
type multiple struct {
	v, of *Value // of is what a call wrote there last, or a gradient of the parameter
	times float64
}

// as reports whether two values are so many times as large, up to the rounding of the largest element.
func (m multiple) as(o multiple) bool {
	return math.Abs(m.times/o.times-1) < 1e-3+4*max(m.v.DType.Eps(), o.v.DType.Eps())
}

// findMultiples finds gradients that are a multiple of what a call wrote there behind the same loss, as clipping does,
// or of what the calls of the backward pass gave. No recorded call multiplied them. Those with one factor are one
// finding.
func (u *updater) findMultiples() {
	var written, given []multiple
	explained := 0 // gradients that are what the backward pass gave
	seen := map[uint64]bool{}
	for _, c := range u.step.Tail {
		for _, v := range c.Inputs {
			switch {
			case v.From.first != nil || v.From.How == IsChanged || v.From.Role == "collective" || !v.telling():
				continue
			case v.isGradient():
				explained++
				continue
			case v.From.Value != nil || seen[v.Address]:
				continue
			}
			if m, ok := v.ofWritten(); ok {
				written, seen[v.Address] = append(written, m), true
			} else if m, ok := u.ofGiven(v); ok {
				given, seen[v.Address] = append(given, m), true
			}
		}
	}
	u.blameMultiples(written, "left there")
	if u.unscaledBy(given, explained) {
		u.blameMultiples(given, "is, the gradient of the parameter")
	}
}

// ofWritten compares a value with what a call behind the same loss wrote there last. Memory that the call did not write
// in place may be that of another tensor now, unless both have the same count of writes.
func (v *Value) ofWritten() (m multiple, ok bool) {
	w := v.lay()
	if w == nil || w.Call.phase() != v.Call.phase() || !w.like(v) ||
		w.overwrote() == nil && (v.version < 0 || v.version != w.version) {
		return m, false
	}
	k := v.timesLeft(w)
	return multiple{v, w, k}, k != 0 && k != 1
}

// ofGiven compares a gradient with the sum of what the calls gave for the parameter that is written with it. What the
// call writes may be an average of gradients, and what another wrote behind the loss may be a multiple.
func (u *updater) ofGiven(v *Value) (m multiple, ok bool) {
	at := u.parameter(v)
	w := v.lay()
	if at == 0 || at == v.Address || v.after != nil || v.Call.returns(v) || hooked(u.parameters[at]) ||
		w != nil && w.Call.phase() == v.Call.phase() && w.overwrote() != nil {
		return m, false
	}
	var given []*Value
	for _, r := range u.parameters[at] {
		g := r.Call.gradientOf(r)
		if g == nil || !sameShape(g.Shape, v.Shape) {
			return m, false
		}
		given = append(given, g)
	}
	all, ok := sumOf(given)
	if !ok {
		return m, false
	}
	k := v.times(&all)
	return multiple{v, given[0], k}, k != 0 && k != 1
}

// unscaledBy reports whether nothing but a fault explains that gradients are multiples of what the backward pass gave.
// Calls that were not recorded may have averaged all of them between ranks, divided them by the loss scale, or clipped
// them: then they are smaller, and a norm was computed before.
func (u *updater) unscaledBy(given []multiple, explained int) bool {
	if len(given) == 0 {
		return false
	}
	k := given[0].times
	if slices.ContainsFunc(given, func(m multiple) bool { return !m.as(given[0]) }) {
		return false
	}
	if explained > 0 { // others are what the backward pass gave
		return given[0].v.DType.Size() >= 4 && explained >= few && explained >= 3*len(given)
	}
	process := u.step.Loss.Process
	clipped := 0 < k && k < 1 && slices.ContainsFunc(u.step.Tail, func(c *Call) bool {
		return c.Order < given[0].v.Call.Order && strings.Contains(c.Op, "norm")
	})
	return len(given) > few && process.Rank <= 0 && len(process.exchanged()) == 0 && !clipped && u.step.LossScale() == 1
}

// blameMultiples makes values changed that are multiples of what a call did: one finding of each factor.
func (u *updater) blameMultiples(all []multiple, did string) {
	var kinds []multiple
	for _, m := range all {
		i := slices.IndexFunc(kinds, m.as)
		if i < 0 {
			i, kinds = len(kinds), append(kinds, m)
		}
		u.blame(fmt.Sprint(did, i), m.v, m.of, m.times, fmt.Sprintf("it is %.4g times what %s of %s %s, and no "+
			"recorded call multiplied it", m.times, m.of.Target, m.of.Call, did))
	}
}
