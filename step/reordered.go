package step

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// mayBeReordered reports whether an input may be what a recorded call left at its address, reordered or multiplied: it
// is linked to nothing, and known to be the same tensor by torch's count of writes. Where that was not recorded, the
// order alone can differ: what is made of a tensor in another order does not lie where that still lies.
func (v *Value) mayBeReordered() bool {
	w := v.lay()
	unlinked := v.From.How == IsOutside && v.From.Value == nil && v.From.first == nil && v.From.Role != "collective"
	return w != nil && unlinked && (w.Kind == outputKind || w.after != nil) && w.like(v) && v.telling() &&
		(v.version < 0 || v.version == w.counted()) && w.made() && !v.isGradient()
}

// counted is torch's count of writes behind the call that made or wrote a value: of an argument that the call changes
// but does not return, it was recorded before.
func (w *Value) counted() int {
	if w = w.writtenLast(); w.version >= 0 && w.after != nil {
		return w.version + 1
	}
	return w.version
}

// writtenLast is what the last of the calls wrote that made the call of w, where w lies, w itself if none did: each of
// them counts its own write.
func (w *Value) writtenLast() *Value {
	if w.after == nil || w.Call == nil || w.Call.Process == nil {
		return w
	}
	for _, c := range slices.Backward(w.Call.Process.Calls[w.Call.Order+1 : w.Call.lastInner()+1]) {
		for _, u := range slices.Concat(c.Outputs, c.Inputs) {
			if u.Address == w.Address && u.like(w) && u.overwrote() != nil {
				return u
			}
		}
	}
	return w
}

// isUncounted reports whether torch has counted no write between the call that made or wrote w and the reading v of the
// same memory. Fused optimizers do not count their own writes.
func (v *Value) isUncounted(w *Value) bool {
	last := w.writtenLast()
	return v.version >= 0 && last.version >= 0 &&
		(v.version == last.counted() || last.after != nil && v.version == last.version)
}

// compareReordered makes an input changed that has all elements of what lay there, at other places, or all of them so
// many times. No call that was not recorded does so by chance.
func (v *Value) compareReordered(opt Options) error {
	w := v.lay()
	k := 0.0
	if v.version >= 0 && v.Call.phase() == w.Call.phase() {
		k = v.timesLeft(w)
	}
	var x []float64
	err := v.with(opt, func(t *tensor.Tensor) { x = slices.Clone(tensor.Data[float64](t)) })
	if err != nil {
		return err
	}
	left, err := w.left(opt)
	if err != nil || left == nil {
		return err
	}
	y := tensor.Data[float64](opdef.Cast(left, v.DType))
	did := ""
	switch {
	case permuted(x, y):
		did = "it has the elements in another order than " + w.Target + " of " + w.Call.String() + " left them"
	case k != 0 && k != 1 && multiplied(v, x, y, k):
		did = fmt.Sprintf("it is %.4g times what %s of %s left there", k, w.Target, w.Call)
	default:
		return nil
	}
	v.unlink()
	v.From = Link{How: IsChanged, Value: w}
	v.reason = did + ", and no recorded call wrote there in between"
	w.readers = append(w.readers, v)
	if v.Call.phase()%2 == 1 && k != 0 && k != 1 {
		v.Call.Process.multiplied = append(v.Call.Process.multiplied, multiple{v, w, k})
	}
	return nil
}

// moves says that a changed value has exactly the elements of w, at other places, and how they moved if they were
// rolled; "" if it has others, or if the reason says so.
func (v *Value) moves(w *Value, opt Options) string {
	if w == nil || !v.like(w) || !v.telling() || strings.Contains(v.reason, "another order") {
		return ""
	}
	var x []float64
	if err := v.with(opt, func(t *tensor.Tensor) { x = slices.Clone(tensor.Data[float64](t)) }); err != nil {
		return ""
	}
	t, err := w.left(opt)
	if err != nil || t == nil {
		return ""
	}
	y := tensor.Data[float64](opdef.Cast(t, v.DType))
	if len(x) != len(y) || !permuted(x, y) || slices.Equal(x, y) {
		return ""
	}
	tells := 0 // the largest element refuses nearly all other shifts at once
	for i := range y {
		if math.Abs(y[i]) > math.Abs(y[tells]) {
			tells = i
		}
	}
	for d, n := range v.Shape {
		inner := tensor.Numel(v.Shape[d+1:])
		place := tells / inner % n
		for by := 1; by < n; by++ {
			quota.Check()
			if x[tells+((place+by)%n-place)*inner] != y[tells] {
				continue
			}
			if rolled(x, y, n, inner, by) {
				if by > n/2 {
					by -= n
				}
				return fmt.Sprintf("; it has its elements in another order: rolled by %d along dimension %d", by, d)
			}
		}
	}
	return "; it has its elements in another order"
}

// rolled reports whether x is y moved by so many places along a dimension of n places, each of inner elements.
func rolled(x, y []float64, n, inner, by int) bool {
	for i := range y {
		place := i / inner % n
		if x[i+((place+by)%n-place)*inner] != y[i] {
			return false
		}
	}
	return true
}

// joinMultiplied makes one finding of the values that an update reads and that are as many times what lay there as
// others are.
func (p *Process) joinMultiplied() {
	var kinds []multiple
	for _, m := range p.multiplied {
		i := slices.IndexFunc(kinds, func(o multiple) bool { return m.as(o) && m.v.Call.phase() == o.v.Call.phase() })
		if i < 0 {
			kinds = append(kinds, m)
			continue
		}
		first := kinds[i].v
		first.alike, m.v.From.first, m.v.reason = append(first.alike, m.v), first, ""
	}
	for _, m := range kinds {
		m.v.countAlike()
	}
	p.multiplied = nil
}

// permuted reports whether x has exactly the elements of y, of which many differ from each other.
func permuted(x, y []float64) bool {
	const many = 16
	x, y = slices.Sorted(slices.Values(x)), slices.Sorted(slices.Values(y))
	return slices.Equal(x, y) && len(slices.Compact(y)) >= min(many, len(x)-1)
}

// multiplied reports whether the elements x of v are k times y, up to rounding.
func multiplied(v *Value, x, y []float64, k float64) bool {
	scaled := make([]float64, len(y))
	for i := range y {
		scaled[i] = k * y[i]
	}
	var sum addition
	sum.addElements(scaled)
	_, ok := sum.near(x, v.DType)
	return ok
}
