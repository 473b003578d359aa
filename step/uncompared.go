package step

import (
	"slices"

	"github.com/optool/optool/capture"
)

// findUncompared marks the gradients which updates read that are not shown to be what the backward pass gave: those of
// a parameter that several calls read, if only a part of their gradients is there, and those that no recorded call
// made, where the same argument is a gradient at other times or by its place. The program may have made them so, with
// autograd.grad of one branch, say. So they are no findings, but a gap.
func findUncompared(all []*updater) {
	gradients := map[argument]bool{}
	for _, u := range all {
		for _, c := range u.step.Tail {
			for _, v := range c.Inputs {
				if v.isGradient() {
					gradients[v.position()] = true
				}
			}
		}
	}
	for _, u := range all {
		for _, c := range u.step.Tail {
			for _, v := range c.Inputs {
				v.uncompared = gradients[v.position()] && u.isUncompared(v)
			}
		}
	}
}

// isUncompared reports whether a value, which an update is given as a gradient or which lies where one does at other
// times, is not what the backward pass gave.
func (u *updater) isUncompared(v *Value) bool {
	if v.From.first != nil || v.From.Role == "collective" || !v.DType.IsFloat() || v.content.zero() {
		return false
	}
	g := v.From.Value
	part := v.From.How == ByContent && g != nil && g.Kind == capture.GradInputs
	if !part && (v.From.How != IsLeaf || v.Call.leavesState(v)) {
		return false
	}
	at := u.parameter(v)
	if at == 0 || at == v.Address {
		return false
	}
	readings := u.parameters[at]
	if severalPasses(readings, v.Call) { // judged by itself
		return false
	}
	var parts, seen []*Value
	for _, r := range readings {
		if slices.Contains(seen, r) {
			continue
		}
		seen = append(seen, r)
		if p := r.Call.gradientOf(r); p != nil && p.speaks() {
			if !sameShape(p.Shape, v.Shape) {
				return false
			}
			parts = append(parts, p)
		}
	}
	return len(parts) > 0 && !(part && len(parts) == 1) && !isSum(v, parts)
}

// speaks reports whether a value is more than a constant: of one element, more than 0, 1 or -1.
func (v *Value) speaks() bool {
	if v.Numel() == 1 {
		return v.tellsApart()
	}
	return !v.content.plain
}

// isSum reports whether the samples of v are the sum of the parts, or cannot be compared with it.
func isSum(v *Value, parts []*Value) bool {
	all, ok := sumOf(parts)
	if !ok {
		return true
	}
	_, near := all.near(v.content.numbers(v.DType), v.DType)
	return near
}
