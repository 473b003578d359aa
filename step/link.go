package step

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A contentKey identifies values that cannot be told from each other.
type contentKey struct {
	form
	sum uint64
}

func (v *Value) key() contentKey { return contentKey{v.form(), v.content.sum} }

// A form is what two values have in common whose elements correspond.
type form struct {
	dtype tensor.DType
	shape uint64 // see shapeSum
}

func (v *Value) form() form { return form{v.DType, shapeSum(v.Shape)} }

// flatKey is the key without the shape: views that were not recorded have it too.
func (v *Value) flatKey() contentKey {
	return contentKey{form{v.DType, shapeSum([]int{v.Numel()})}, v.content.sum}
}

// shapeSum is a hash of a shape. A key with it, not with a text, costs no memory and the garbage collector nothing.
func shapeSum(shape []int) uint64 {
	sum := uint64(len(shape))
	for _, n := range shape {
		sum = scramble(sum + uint64(n))
	}
	return sum
}

// equals reports whether two values have dtype, shape and elements in common.
func (v *Value) equals(w *Value) bool { return v.like(w) && v.content.sum == w.content.sum }

// like reports whether two values have dtype and shape in common.
func (v *Value) like(w *Value) bool { return v.DType == w.DType && sameShape(v.Shape, w.Shape) }

func sameShape(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// aliases reports whether two values at one address are the same memory seen
// otherwise: transposed, reshaped.
func (v *Value) aliases(w *Value) bool {
	return v.DType == w.DType && v.Numel() == w.Numel() && v.content.block != 0 && v.content.block == w.content.block
}

// overlays reports whether two values at one address have the same memory in the
// same order, so that their elements correspond: equal geometry, or no gaps.
func (v *Value) overlays(w *Value) bool {
	return v.like(w) || v.DType == w.DType && v.Numel() == w.Numel() && v.contiguous() && w.contiguous()
}

func (v *Value) contiguous() bool {
	next := 1
	for d := len(v.Shape) - 1; d >= 0; d-- {
		if v.Shape[d] != 1 && v.strides()[d] != next {
			return false
		}
		next *= v.Shape[d]
	}
	return true
}

// A linker walks the calls of a process in order and links inputs to outputs.
type linker struct {
	memory    memory
	byContent map[contentKey][]*Value // results, in order
	byFlat    map[contentKey][]*Value // the same without their shapes
	writes    writes                  // results and arguments that changed memory in place
	lay       map[spot]*Value         // the last value with some content that lay at an address
	inner     map[uint64]*Value       // what calls that others made wrote in place last, by address
	outer     *Call                   // the outermost judged call that makes the present one, nil if none does
}

// A spot is an address and what lies there.
type spot struct {
	address uint64
	content contentKey
}

// link links the inputs of all calls to results of earlier ones. What no content
// and no address explains is a leaf for now; settle decides about it.
func (p *Process) link() {
	l := linker{byContent: map[contentKey][]*Value{}, byFlat: map[contentKey][]*Value{}, lay: map[spot]*Value{},
		inner: map[uint64]*Value{}}
	last := p.lastInner()
	var open []*Call                // calls whose inner calls go on
	changes := map[*Call][]*Value{} // what those of them wrote in place that were not judged
	for _, c := range p.Calls {
		l.outer = nil
		if i := slices.IndexFunc(open, (*Call).judged); i >= 0 {
			l.outer = open[i]
		}
		for _, v := range c.Inputs {
			l.read(v)
		}
		switch {
		case last[c] == nil:
			l.write(c)
		case c.judged():
			open = append(open, c)
		default: // its results may be those of calls that it makes
			open, changes[c] = append(open, c), c.inPlace()
			l.results(c, changes[c])
		}
		for len(open) > 0 && last[open[len(open)-1]] == c {
			l.close(open[len(open)-1], changes[open[len(open)-1]])
			open = open[:len(open)-1]
		}
	}
}

// lastInner is, by call that made others, the last of these.
func (p *Process) lastInner() map[*Call]*Call {
	last := map[*Call]*Call{}
	for _, c := range p.Calls {
		for o := c.outer; o != nil; o = o.outer {
			last[o] = c
		}
	}
	return last
}

// close notes what a call that made others wrote, when the last of these has ended. What a judged call wrote is its
// own: that an inner call made it says nothing of a mistake of the whole. What another call wrote is that of its inner
// calls, as far as these wrote there last.
func (l *linker) close(c *Call, changes []*Value) {
	if c.judged() {
		l.write(c)
		return
	}
	for _, w := range changes {
		if r := l.memory.at(w.Address); r == nil || !c.encloses(r.names[len(r.names)-1].Call) {
			l.replace(w)
		}
	}
	for _, o := range c.Outputs { // an inner call that goes on behind its return, such as irecv, left another value
		r := l.memory.at(o.Address)
		if o.Address != 0 && r != nil && r.base == o.Address && c.encloses(r.names[len(r.names)-1].Call) {
			l.memory.name(o)
		}
	}
}

// read links an input.
func (l *linker) read(v *Value) {
	v.From = l.source(v)
	if w := v.From.Value; w != nil && v.latest != nil && w.Address == v.Address && v.latest.Call.encloses(w.Call) &&
		!l.overwrittenIn(v.latest.Call, w, v) {
		v.latest = nil // the call left it there by one that it made
	}
	if v.telling() {
		at := spot{v.Address, v.key()}
		if v.latest != nil {
			v.old = l.lay[at]
		}
		l.lay[at] = v
	}
	// What an inner call reads of the outside, the outer call reads.
	if w := v.From.Value; w != nil && v.From.How != IsChanged && (l.outer == nil || w.Call.Order >= l.outer.Order) &&
		!v.isOwnOf(w) {
		w.readers = append(w.readers, v)
	}
	switch {
	case v.From.written && l.memory.holds(v): // what is named there since then, such as views, stays
	case v.From.written: // from here on this is what the memory holds
		l.memory.replace(v)
	case v.From.Value != nil || v.From.first != nil:
	case v.From.view != nil && v.From.view.overlays(v): // something else lies there now
		l.memory.replace(v)
	default:
		l.memory.name(v)
	}
}

// overwrittenIn reports whether a later one of the calls that a call made wrote something else than v where w, the
// result of an earlier one, lies: it is not what the call left there.
func (l *linker) overwrittenIn(c *Call, w, v *Value) bool {
	x := l.inner[v.Address]
	return x != nil && x.Call.Order > w.Call.Order && c.encloses(x.Call) && !w.Call.encloses(x.Call) && x.overlays(v) &&
		x.leaves().sum != v.content.sum
}

// telling reports whether the elements of a value tell it from others.
func (v *Value) telling() bool { return !v.content.plain && v.DType.IsFloat() && v.Numel() > few }

// source finds what an input came from.
func (l *linker) source(v *Value) Link {
	same := l.byContent[v.key()]
	r := l.memory.at(v.Address)
	if v.Address != 0 && r != nil {
		if w := r.named(v); w != nil {
			return linkTo(w, len(same) > 1)
		}
		if w := r.last(func(w *Value) bool { return w.aliases(v) && !w.changedBefore(v) }); w != nil {
			return linkTo(w, true)
		}
		v.latest = r.latest(v)
		if w := v.latest; w != nil && w.changedBefore(v) && w.after.sum == v.content.sum && w.overlays(v) {
			return Link{How: ByStorage, Value: w, written: true} // not the call that w's call made to write it
		}
	}
	// A copy or a view that no call recorded, or a program without addresses.
	telling := v.telling()
	for i := len(same) - 1; i >= 0; i-- {
		if w := same[i]; w.Address == 0 || v.Address == 0 || telling {
			return Link{How: ByContent, Value: w}
		}
	}
	if flat := l.byFlat[v.flatKey()]; telling && len(flat) > 0 {
		return Link{How: ByContent, Value: flat[len(flat)-1]}
	}
	if v.Address == 0 || v.Numel() == 0 {
		return Link{How: IsLeaf}
	}
	if r != nil {
		if from, ok := l.stored(r, v); ok {
			return from
		}
	}
	return l.viewed(r, v)
}

// stored is the link to what lay in a region, and was written by a call that did not give it as a result or by one that
// was not recorded; ok is false if it is not known.
func (l *linker) stored(r *region, v *Value) (from Link, ok bool) {
	was := r.latest(v)
	if was != nil && was.changedBefore(v) && was.after.near(&v.content, v.DType) && !was.staysIn(v) {
		return Link{How: ByStorage, Value: was, written: true}, true
	}
	under := was
	if under == nil {
		under = r.partlyWritten(v)
	}
	if under != nil {
		if ws := l.patches(under, v); len(ws) > 0 {
			for _, w := range slices.Backward(ws) {
				if from, ok := outsideBy(w.Call); ok {
					return from, true
				}
			}
			return Link{How: ByStorage, Value: ws[len(ws)-1], written: true, under: under, patches: ws}, true
		}
	}
	if from, ok := outsideBy(r.names[len(r.names)-1].Call); ok {
		return from, true
	}
	return Link{How: IsOutside, view: was}, was != nil
}

// staysIn reports whether v has what lay in an argument before a call changed it. In 16 bits what was there after the
// call is near that.
func (w *Value) staysIn(v *Value) bool {
	if !v.equals(w) || w.after.sum == w.content.sum {
		return false
	}
	a := w.content.alike(w.after, w.DType)
	return a.n-a.same > few && a.share() < 1-leastShare
}

// viewed is the link to a value of which v is a part: one around it, or one of region r that it begins, as x[:n] does
// in torch 1. Else v is a leaf.
func (l *linker) viewed(r *region, v *Value) Link {
	for _, around := range l.memory.around(v.Address) {
		if w := around.last(func(w *Value) bool { return w.DType == v.DType && w.end() >= v.end() }); w != nil {
			return Link{How: IsOutside, view: w, rewritten: l.writtenSince(w, v) != nil}
		}
	}
	if r != nil {
		if w := r.last(func(w *Value) bool { return w.DType == v.DType && w.end() > v.end() }); w != nil {
			return Link{How: IsOutside, view: w, rewritten: l.writtenSince(w, v) != nil}
		}
	}
	return Link{How: IsLeaf}
}

// linkTo is the link to a value that was found: to what an input was linked to,
// if it is one.
func linkTo(w *Value, shared bool) Link {
	how := ByContent
	if shared {
		how = ByStorage
	}
	if w.Kind != inputKind {
		return Link{How: how, Value: w}
	}
	from := w.From
	if from.Value != nil && from.How != IsChanged && from.under == nil {
		return Link{How: how, Value: from.Value, written: from.written}
	}
	from.first = w.first()
	return from
}

// first is the first reading of the value that an input is a further reading of.
func (v *Value) first() *Value {
	if v.From.first != nil {
		return v.From.first
	}
	return v
}

// writtenSince is the last write in place to a part of the memory of v, or to memory
// that v is a part of, since was was read or made; nil if there is none.
func (l *linker) writtenSince(was, v *Value) *Value {
	if w := l.writes.last(v); w != nil && w.Call.Order > was.Call.Order {
		return w
	}
	return nil
}

// patches are the writes in place to the memory of v, or to a part of it, since was was read or made, in order.
func (l *linker) patches(was, v *Value) []*Value {
	var all []*Value
	for w := range l.writes.to(v) {
		if w.Call.Order > was.Call.Order {
			all = append(all, w)
		}
	}
	slices.SortStableFunc(all, func(a, b *Value) int { return a.Call.Order - b.Call.Order })
	return all
}

// changedBefore reports whether the call of w had changed it when v was read. A call that w's call makes reads what w
// holds before.
func (w *Value) changedBefore(v *Value) bool { return w.after != nil && !w.Call.encloses(v.Call) }

// write notes what a call changed and where its results lie.
func (l *linker) write(c *Call) {
	if c.collective() != "" { // what it changed, or will change, other processes decide
		for _, v := range c.Inputs {
			l.replace(v)
		}
	}
	changes := c.inPlace()
	for _, w := range changes {
		l.replace(w)
		if c.outer != nil {
			l.inner[w.Address] = w
		}
	}
	l.results(c, changes)
}

// replace notes that w was written in place.
func (l *linker) replace(w *Value) {
	if w.Address != 0 {
		l.writes.add(w)
		l.memory.replace(w)
	}
}

// inPlace are the values that a call wrote where its arguments lie: results, and arguments that it does not return.
func (c *Call) inPlace() (out []*Value) {
	for _, v := range c.Inputs {
		if v.after == nil {
			continue
		}
		i := slices.IndexFunc(c.Outputs, func(o *Value) bool {
			return o.like(v) && (o.Address == v.Address || o.Address == 0)
		})
		if i >= 0 {
			v.after, v = nil, c.Outputs[i]
		}
		out = append(out, v)
	}
	return out
}

// results notes where the results of a call lie that it did not write in place.
func (l *linker) results(c *Call, inPlace []*Value) {
	for _, o := range c.Outputs {
		if c.random != opdef.Uninitialised { // what the memory held before tells nothing
			l.byContent[o.key()] = append(l.byContent[o.key()], o)
			l.byFlat[o.flatKey()] = append(l.byFlat[o.flatKey()], o)
			if o.telling() {
				l.lay[spot{o.Address, o.key()}] = o
			}
		}
		switch {
		case o.Address == 0 || slices.Contains(inPlace, o):
		case c.within(o):
			l.memory.name(o)
		default:
			l.memory.overwrite(o)
		}
	}
}

// within reports whether a result lies in the memory of an argument: a view.
func (c *Call) within(o *Value) bool {
	for _, v := range c.Inputs {
		if v.Address != 0 && v.Address < o.end() && o.Address < v.end() {
			return true
		}
	}
	return false
}
