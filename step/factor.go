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

// A source tells what a value should be, by its samples, and of which value they are; not ok if it is not known.
type source func(v *Value) (of *Value, sum addition, ok bool)

// as reports whether two values are so many times as large, up to the rounding of the largest element.
func (m multiple) as(o multiple) bool {
	return math.Abs(m.times/o.times-1) < 1e-3+4*max(m.v.DType.Eps(), o.v.DType.Eps())
}

// findMultiples finds gradients that are a multiple of what a call wrote there behind the same loss, as clipping does,
// or of what the calls of the backward pass gave. No recorded call multiplied them. Those with one factor are one
// finding.
func (u *updater) findMultiples() {
	var written, given []multiple
	var small []*Value // too few elements to tell a factor, but not to confirm one
	explained := 0     // gradients that are what the backward pass gave
	seen := map[uint64]bool{}
	for _, c := range u.step.Tail {
		for _, v := range c.Inputs {
			switch {
			case v.From.first != nil || v.From.How == IsChanged || v.From.Role == "collective" || !v.DType.IsFloat():
				continue
			case v.isGradient():
				if v.telling() {
					explained++
				}
				continue
			case v.From.Value != nil || seen[v.Address]:
				continue
			case !v.telling():
				small = append(small, v)
				continue
			}
			if m, ok := multipleOf(v, (*Value).written); ok {
				written, seen[v.Address] = append(written, m), true
			} else if m, ok := multipleOf(v, u.given); ok {
				given, seen[v.Address] = append(given, m), true
			}
		}
	}
	u.blameMultiples(u.withSmall(written, small, (*Value).written), "left there")
	if u.unscaledBy(given, explained) {
		u.blameMultiples(u.withSmall(given, small, u.given), "is, the gradient of the parameter")
	}
}

// multipleOf compares a value with what it should be; not ok if it is no multiple of that, or the same.
func multipleOf(v *Value, should source) (m multiple, ok bool) {
	of, sum, ok := should(v)
	if !ok {
		return m, false
	}
	k := v.times(&sum)
	return multiple{v, of, k}, k != 0 && k != 1
}

// written is what a call behind the same loss wrote last where v lies. Memory that the call did not write in place may
// be that of another tensor now, unless both have the same count of writes.
func (v *Value) written() (of *Value, sum addition, ok bool) {
	w := v.lay()
	if w == nil || w.Call.phase() != v.Call.phase() || !w.like(v) ||
		w.overwrote() == nil && (v.version < 0 || v.version != w.version) {
		return nil, sum, false
	}
	return w, w.leftSum(), true
}

// given is the sum of what the calls gave for the parameter that is written with v. What the call writes may be an
// average of gradients, and what another wrote behind the loss may be a multiple.
func (u *updater) given(v *Value) (of *Value, sum addition, ok bool) {
	at := u.parameter(v)
	w := v.lay()
	if at == 0 || at == v.Address || v.Call.leavesState(v) || hooked(u.parameters[at]) || v.inWritten() ||
		w != nil && w.Call.phase() == v.Call.phase() && w.overwrote() != nil {
		return nil, sum, false
	}
	var given []*Value
	for _, r := range u.parameters[at] {
		g := r.Call.gradientOf(r)
		if g == nil || !sameShape(g.Shape, v.Shape) {
			return nil, sum, false
		}
		given = append(given, g)
	}
	if sum, ok = sumOf(given); !ok {
		return nil, sum, false
	}
	return given[0], sum, true
}

// inWritten reports whether a value lies in memory that a call behind the same loss wrote, such as a bucket of
// gradients.
func (v *Value) inWritten() bool {
	around := v.From.view
	return around != nil && (v.From.rewritten || around.Call.phase() == v.Call.phase() && around.made())
}

// unscaledBy reports whether nothing but a fault explains that gradients are multiples of what the backward pass gave.
// Calls that were not recorded may have averaged all of them between ranks, divided them by the loss scale, if no
// recorded call does, or clipped them: then they are smaller, and a norm was computed before.
func (u *updater) unscaledBy(given []multiple, explained int) bool {
	if len(given) == 0 {
		return false
	}
	k := given[0].times
	if slices.ContainsFunc(given, func(m multiple) bool { return !m.as(given[0]) || m.as(multiple{m.v, m.of, 1}) }) {
		return false
	}
	if explained >= few && explained >= 3*len(given) { // most are what the backward pass gave
		return given[0].v.DType.Size() >= 4
	}
	process, scale := u.step.Loss.Process, u.step.LossScale()
	clipped := 0 < k && k < 1 && slices.ContainsFunc(u.step.Tail, func(c *Call) bool {
		return c.Order < given[0].v.Call.Order && strings.Contains(c.Op, "norm")
	})
	return len(given) > few && (explained == 0 || given[0].v.DType.Size() >= 4) && !clipped &&
		process.Rank <= 0 && len(process.exchanged()) == 0 && (scale == 1 || u.step.dividesBy(scale))
}

// withSmall adds the values of few elements to multiples, if these have one factor and the values have it too.
func (u *updater) withSmall(all []multiple, small []*Value, should source) []multiple {
	if len(all) == 0 || slices.ContainsFunc(all, func(m multiple) bool { return !m.as(all[0]) }) {
		return all
	}
	k := all[0].times
	seen := map[uint64]bool{}
	for _, v := range small {
		if of, sum, ok := should(v); ok && !seen[v.Address] {
			seen[v.Address] = true
			scaled := sum.scaled(k, v.DType)
			if telling, ok := scaled.near(v.content.numbers(v.DType), v.DType); ok && telling > 0 {
				all = append(all, multiple{v, of, k})
			}
		}
	}
	return all
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
