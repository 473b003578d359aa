package causes

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// untouched are the texts of values, by their targets, that a call should have changed, and that are as they were
// before it, or whose wrong elements lie together and are; none if another result failed. A list of which no tensor was
// changed is named as a whole.
func (c *Search) untouched(fails []Wrong) map[string]string {
	if c.Ran == nil || c.Changed == nil {
		return nil
	}
	texts := map[string]string{}
	names, left := map[string]string{}, map[string]int{}
	for _, r := range fails {
		got, want, ok := r.Pair()
		a := c.changes(r.Target)
		if !ok || a == nil || got.Numel() > largestOperand {
			continue
		}
		part := ""
		if c.Guard(func() error {
			if ok = unchanged(got, a.Tensor) && !mostlySame(want, a.Tensor); !ok {
				part = unchangedPlace(got, want, a.Tensor)
			}
			return nil
		}) != nil {
			continue
		}
		if ok {
			left[a.Name]++
		}
		if ok || part != "" {
			names[r.Target], texts[r.Target] = a.Name, argName(*a)+part
		}
	}
	if slices.ContainsFunc(fails, func(w Wrong) bool { return w.Forward() && names[w.Target] == "" }) {
		return nil // what is wrong besides is wrong for a cause that may explain all
	}
	for target, name := range names {
		if left[name] > 1 && left[name] == len(c.Ran.After[name]) {
			texts[target] = name
		}
		texts[target] = fmt.Sprintf("nothing is written to %s: it is as it was before the call", texts[target])
	}
	return texts
}

// changes is the argument that the call changes to that target's value, nil if it is none.
func (c *Search) changes(target string) *opdef.Arg {
	changed := c.Changed(c.Ran, target)
	for _, a := range c.Bound.Tensors() {
		if i, after := max(a.Index, 0), c.Ran.After[a.Name]; changed != nil && i < len(after) && after[i] == changed {
			return &a
		}
	}
	return nil
}

// unchangedPlace is where a changed argument is as it was before the call though it is due to change, if all wrong
// elements lie there; "" if there is no such place.
func unchangedPlace(got, want, before *tensor.Tensor) string {
	if got.DType != before.DType || !got.DType.IsFloat() || !slices.Equal(got.Shape, want.Shape) {
		return ""
	}
	x, y, z := elements(got), elements(want), elements(before)
	left, largest := 0, 0.0
	for i := range x {
		largest = max(largest, math.Abs(x[i]-y[i]))
	}
	p := placeHolding(got.Shape, mostUnchanged, func(i int) bool {
		is := alike(x[i], z[i]) && !alike(x[i], got.DType.Round(y[i]))
		left += btoi(is)
		return is
	})
	if p == nil || left < leastInPart {
		return ""
	}
	for i := range x {
		there, near := p.holds(i), max(4*got.DType.ULP(y[i]), unimportant*largest)
		if there && !alike(x[i], z[i]) || !there && math.Abs(x[i]-y[i]) > near {
			return ""
		}
	}
	return " " + p.String()
}

// mostUnchanged is of how many elements of a place one has to change: in 16 bits, small steps change few.
const mostUnchanged = 8

// unchanged reports whether two tensors have the same elements.
func unchanged(x, y *tensor.Tensor) bool {
	return x.DType == y.DType && x.Numel() == y.Numel() && equals(x, y) == x.Numel()
}

// mostlySame reports whether all elements of two tensors but few are equal.
func mostlySame(x, y *tensor.Tensor) bool {
	return x.Numel()-equals(x, y) < min(leastInPart, x.Numel())
}

// equals is the number of equal elements of two tensors of one size.
func equals(x, y *tensor.Tensor) (n int) {
	v := elements(y)
	for i, e := range elements(x) {
		n += btoi(alike(x.DType.Round(e), v[i]))
	}
	return n
}
