package step

import (
	"iter"
	"slices"
	"sort"
)

// A memory is what is known of a process's addresses at some time: which recorded
// values lie where. It forgets values whose memory was written again.
type memory struct {
	regions []*region // by base, without overlaps other than views of one another
}

// A region is the values that begin at one address, oldest first: names of the
// same memory.
type region struct {
	base, end uint64 // end is the largest of the names'
	names     []*Value
	// written are values that begin there and of which a call wrote the beginning since, the newest of each form last.
	written []*Value
}

// at is the region that begins at an address, nil if there is none.
func (m *memory) at(address uint64) *region {
	if i := m.search(address); i < len(m.regions) && m.regions[i].base == address {
		return m.regions[i]
	}
	return nil
}

// latest is the last name of the region that has its elements in the order in which v
// has them, nil if none has.
func (r *region) latest(v *Value) *Value { return r.last(func(w *Value) bool { return w.overlays(v) }) }

// last is the last name of the region of which something holds, nil if there is none.
func (r *region) last(holds func(*Value) bool) *Value {
	for _, w := range slices.Backward(r.names) {
		if holds(w) {
			return w
		}
	}
	return nil
}

// named is the last name of the region that equals v, nil if none does. A value that needs a gradient is
// not what a call without a backward pass, such as detach, returned of it.
func (r *region) named(v *Value) (found *Value) {
	for _, w := range slices.Backward(r.names) {
		if !w.equals(v) || w.changedBefore(v) {
			continue
		}
		if found == nil {
			found = w
		}
		if !v.RequiresGrad || w.RequiresGrad || w.Kind == outputKind && w.Call.HasBackward() {
			return w
		}
	}
	return found
}

// holds reports whether v is another reading of what the memory is known to hold at its address.
func (m *memory) holds(v *Value) bool {
	r := m.at(v.Address)
	return r != nil && r.last(func(w *Value) bool { return w.equals(v) && w.overlays(v) && !w.changedBefore(v) }) != nil
}

func (m *memory) search(address uint64) int {
	return sort.Search(len(m.regions), func(i int) bool { return m.regions[i].base >= address })
}

// lookBack is how many values that begin before an address are looked at: views of one tensor lie beside each other.
const lookBack = 256

// around lists the regions that begin before an address and reach beyond it, the
// nearest first.
func (m *memory) around(address uint64) []*region {
	var out []*region
	for i := m.search(address) - 1; i >= 0 && len(out) < 4 && i >= m.search(address)-lookBack; i-- {
		if r := m.regions[i]; r.end > address {
			out = append(out, r)
		}
	}
	return out
}

// overwrite forgets what lies where v does, and puts v there. What begins before it and ends there stays: a region is
// as long as what lay there first, which may have been freed.
func (m *memory) overwrite(v *Value) {
	if v.Address == 0 {
		return
	}
	lo, end := m.search(v.Address), v.end()
	hi := lo
	for hi < len(m.regions) && m.regions[hi].base < end {
		hi++
	}
	m.regions = slices.Replace(m.regions, lo, hi, &region{base: v.Address, end: end, names: []*Value{v}})
	for _, r := range m.around(v.Address) {
		if r.cut(v.Address); len(r.names) > 0 {
			continue
		}
		if i := m.search(r.base); i < len(m.regions) && m.regions[i] == r {
			m.regions = slices.Delete(m.regions, i, i+1)
		}
	}
}

// cut forgets the values of a region that reach beyond an address.
func (r *region) cut(address uint64) {
	beyond := func(v *Value) bool { return v.end() > address }
	r.names = slices.DeleteFunc(slices.Clone(r.names), beyond)
	r.written = slices.DeleteFunc(slices.Clone(r.written), beyond)
	r.end = r.base
	for _, v := range r.names {
		r.end = max(r.end, v.end())
	}
}

// name adds a value that lies in memory that is in use: a view, or a value that
// was read.
func (m *memory) name(v *Value) {
	if v.Address == 0 {
		return
	}
	if r := m.at(v.Address); r != nil {
		r.names = append(r.names, v)
		r.end = max(r.end, v.end())
		return
	}
	at := m.search(v.Address)
	m.regions = slices.Insert(m.regions, at, &region{base: v.Address, end: v.end(), names: []*Value{v}})
}

// replace makes v the only name of its region, whose content it has changed; other
// regions stay.
func (m *memory) replace(v *Value) {
	if v.Address == 0 {
		return
	}
	if r := m.at(v.Address); r != nil {
		var beyond []*Value
		for _, w := range slices.Concat(r.written, r.names) {
			if w.end() <= v.end() || w == v {
				continue
			}
			beyond = slices.DeleteFunc(beyond, func(u *Value) bool { return u.overlays(w) })
			beyond = append(beyond, w)
		}
		r.names, r.end, r.written = append(r.names[:0:0], v), v.end(), beyond
		return
	}
	m.name(v)
}

// partlyWritten is the value of the region of whose memory, which is that of v, calls wrote the beginning since it was
// read or made; nil if there is none.
func (r *region) partlyWritten(v *Value) *Value {
	i := slices.IndexFunc(r.written, func(w *Value) bool { return w.overlays(v) })
	if i < 0 {
		return nil
	}
	return r.written[i]
}

// writes are values that changed memory in place, in order of their addresses. Of several at one address, it forgets
// those that a later one covers.
type writes []*Value

func (ws writes) search(address uint64) int {
	return sort.Search(len(ws), func(i int) bool { return ws[i].Address >= address })
}

func (ws *writes) add(v *Value) {
	from := ws.search(v.Address)
	to := from
	for to < len(*ws) && (*ws)[to].Address == v.Address && (*ws)[to].end() <= v.end() {
		to++
	}
	*ws = slices.Replace(*ws, from, to, v)
}

// to are the writes that have memory in common with v. Writes that begin before v are looked at as far as memory.around
// looks.
func (ws writes) to(v *Value) iter.Seq[*Value] {
	return func(yield func(*Value) bool) {
		begin := ws.search(v.Address)
		for i := ws.search(v.end()) - 1; i >= max(0, begin-lookBack); i-- {
			if w := ws[i]; w.end() > v.Address && !yield(w) {
				return
			}
		}
	}
}

// last is the last write that has memory in common with v, nil if there is none.
func (ws writes) last(v *Value) (found *Value) {
	for w := range ws.to(v) {
		if found == nil || w.Call.Order >= found.Call.Order {
			found = w
		}
	}
	return found
}
