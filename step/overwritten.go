package step

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/optool/optool/tensor"
)

// compareMemory reads the elements of inputs about which fingerprints do not decide: parts of a recorded value that
// no recorded call took (x[1:] in torch 1), and what a call left in memory without returning it (running statistics),
// that were picked from a recorded value, or that may be the elements that lay there in another order. It sets
// whether a part is held, and finds those of which some elements were overwritten.
func (p *Process) compareMemory(ctx context.Context, opt Options) error {
	for _, c := range p.Calls {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !slices.ContainsFunc(c.Inputs, (*Value).undecided) {
			continue
		}
		// What cannot be read has a verdict that says so, and stays as it is.
		_ = opt.within(c, "its arguments were not compared with what their memory held", c.compareMemory)
	}
	p.joinMultiplied()
	return nil
}

// undecided reports whether the elements of an input are to be compared with what its memory held.
func (v *Value) undecided() bool {
	from := v.From
	return v.mayBeReordered() || v.patched() ||
		from.first != nil && from.first.From.How == IsChanged && from.How != IsChanged ||
		from.How == IsOutside && from.view != nil && !from.rewritten ||
		from.Role == unrecorded && from.view == nil || from.written && from.Value != nil && from.Value.after != nil
}

func (c *Call) compareMemory(opt Options) error {
	var unrecordeds []*Value
	err := each(c.Inputs, func(v *Value) error {
		switch from := v.From; {
		case from.first != nil:
			if first := from.first; first.From.How == IsChanged && from.How != IsChanged {
				v.From = first.From.again(first)
			}
		case from.How == IsOutside && from.view != nil && !from.rewritten && !v.mayBeReordered():
			return v.comparePart(from.view, opt)
		case v.patched():
			return v.comparePatched(opt)
		case from.Role == unrecorded && from.view == nil:
			unrecordeds = append(unrecordeds, v)
		case from.written && from.Value != nil && from.Value.after != nil &&
			from.Value.after.sum != v.content.sum && from.Value.overlays(v):
			return v.compareAfter(from.Value, opt)
		case v.mayBeReordered():
			return v.compareReordered(opt)
		}
		return nil
	})
	if err != nil || len(unrecordeds) == 0 {
		return err
	}
	defer c.Step.linked()
	return c.findPicked(unrecordeds, opt)
}

// comparePart compares v with that part of the recorded value w where it lies.
func (v *Value) comparePart(w *Value, opt Options) error {
	if w.after != nil || v.Address < w.Address || !dense(w.Shape, w.strides()) {
		return nil // its file holds what was there before, or its memory has gaps
	}
	memory, err := opt.files.lying(w, opt)
	if err != nil {
		return err
	}
	part := lyingIn(memory, v, int(v.Address-w.Address)/v.DType.Size())
	if part == nil {
		return nil
	}
	part = part.Dense()
	f := newFingerprint(part)
	if v.From.held = f.sum == v.content.sum; v.From.held || !v.keeps(w) {
		return nil
	}
	if a := v.content.alike(&f, v.DType); a.same == 0 {
		return nil
	}
	now, doneNow, err := v.load(opt)
	if err != nil {
		return err
	}
	defer doneNow()
	d := bitwise(now, part)
	if !d.isPart(v.DType) {
		return nil
	}
	v.From = Link{How: IsChanged, Value: w}
	v.reason = fmt.Sprintf("%s since %s of %s, of which it is a part, and no recorded call wrote there",
		d.text(v.Shape), w.Target, w.Call)
	w.readers = append(w.readers, v)
	return nil
}

// compareAfter compares v with what the reference says that a call left in its
// argument w.
func (v *Value) compareAfter(w *Value, opt Options) error {
	if i := slices.IndexFunc(w.readers, func(r *Value) bool {
		return r.From.How == IsChanged && r.equals(v)
	}); i >= 0 {
		v.From = w.readers[i].From.again(w.readers[i].first())
		return nil
	}
	left, err := opt.files.leftIn(w, opt)
	if err != nil || left == nil || !v.DType.IsFloat() {
		return err
	}
	now, done, err := v.load(opt)
	if err != nil {
		return err
	}
	defer done()
	x, y := tensor.Data[float64](now), tensor.Data[float64](left)
	first, n, _, ok := outliers(x, y, y, 1, v.DType, 0.5) // as near does
	if !ok || n == 0 {
		return nil
	}
	v.From.How = IsChanged
	v.reason = fmt.Sprintf("%d of %d elements are not what %s of %s was left with, the others are: at %s %.6g instead "+
		"of %.6g, and no recorded call wrote there", n, len(x), w.Target, w.Call, index(first, v.Shape), x[first],
		y[first])
	return nil
}

// Differences say which elements of two tensors of one dtype and size differ.
type differences struct {
	n, of       int
	some        agreement // of pairs at even distances, zeros left out
	first, last int       // in row-major order
	at          []int     // some of them
	differ      []bool    // whether each element does; nil if none does
	same        int       // equal elements, zeros left out
	was, now    float64   // the first of them
	float       bool
}

// bitwise compares now with was, bit by bit. Zeros of either sign are the same.
func bitwise(now, was *tensor.Tensor) differences {
	x, y := now.AppendBytes(nil), was.AppendBytes(nil)
	size := now.DType.Size()
	d := differences{of: now.Numel(), first: -1, float: now.DType.IsFloat()}
	zero := string(make([]byte, size))
	element := func(b []byte) string {
		if d.float && bitsOf(now.DType, b) == 0 {
			return zero
		}
		return string(b)
	}
	every := max(1, d.of/4096)
	for i := 0; i < len(x) && i < len(y); i += size {
		a, b := element(x[i:i+size]), element(y[i:i+size])
		if i/size%every == 0 && (a != b || a != zero) {
			d.some.add(maphash.String(seed, a), maphash.String(seed, b))
		}
		if a == b {
			if a != zero {
				d.same++
			}
			continue
		}
		if d.last = i / size; d.n == 0 {
			d.first, d.differ = d.last, make([]bool, d.of)
		}
		d.differ[d.last] = true
		if d.n++; d.n <= sampled {
			d.at = append(d.at, d.last)
		}
	}
	if d.n > 0 && d.float {
		d.was, d.now = tensor.At[float64](was, d.first), tensor.At[float64](now, d.first)
	}
	return d
}

// all reports whether something holds of each element that differs.
func (d differences) all(holds func(i int) bool) bool {
	for i, differs := range d.differ {
		if differs && !holds(i) {
			return false
		}
	}
	return true
}

// few is how many elements small tensors have in common by chance.
const few = 3

// share is that of the equal elements, zeros left out.
func (d differences) share() float64 { return float64(d.same) / float64(max(1, d.same+d.n)) }

// isPart reports whether one tensor is the other with a part overwritten: see partOf.
func (d differences) isPart(dt tensor.DType) bool {
	share := d.share()
	return d.n > 0 && d.same > few && share >= leastShare && (dt.IsFloat() || share >= 0.5)
}

// text is a sentence on tensors of a shape: how many elements changed, where, from
// what to what.
func (d differences) text(shape []int) string {
	where := fmt.Sprintf("the first at %s, the last at %s", index(d.first, shape), index(d.last, shape))
	if d.n == 1 {
		where = "at " + index(d.first, shape)
	}
	s := fmt.Sprintf("%d of %d elements changed, %s", d.n, d.of, where)
	if d.float {
		s += fmt.Sprintf(": from %.6g to %.6g", d.was, d.now)
	}
	return s
}
