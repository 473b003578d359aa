package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// Ranks pack gradients into one buffer, reduce it, and unpack it. Each gradient must be read where it was put.

// unpacked finds a gradient that is none of its parameter, and has the elements of another place of a buffer in which
// the ranks added up gradients; nil if it is something else.
func (p *part) unpacked(name string, t *tail, factors []float64) *violation {
	const few = 4
	g, first := p.grads[name], p.ranks[0]
	if g.read == nil || len(g.read.x) < few || g.read.constant() {
		return nil
	}
	size := len(g.read.x)
	for _, e := range t.exchanges {
		if collective.Name(e.call.Op) != "all_reduce" || len(e.x) <= size {
			continue
		}
		b := p.bucket(e.x, e.call.Entry.Group)
		own, known := b.at[name]
		if !known || len(b.names) < 2 {
			continue
		}
		total := &array{g.read.dtype, []int{b.size}, make([]float64, b.size)}
		for _, n := range b.names {
			want, _, _ := p.wanted(n, p.grads[n], factors)
			copy(total.x[b.at[n]:], want[first].x)
		}
		read := g.read.reshaped([]int{size})
		var found []int
		for at := range b.size - size + 1 {
			if _, ok := read.ratio(&array{read.dtype, read.shape, total.x[at : at+size]}, read.loose()); ok {
				found = append(found, at)
			}
		}
		if len(found) != 1 || found[0] == own {
			continue
		}
		return &violation{kind: "collective", call: t.writer(g.read), ranks: p.ranks, target: "input[0]",
			reason: fmt.Sprintf("the gradient of %s lies at element %d of the buffer that %s adds up; the one that %s reads "+
				"is taken from element %d on: the buffer is unpacked in another order than it was packed", name, own,
				e.call, g.update, found[0])}
	}
	return nil
}

// writer is the last call that leaves a value in one of its arguments; nil if none does.
func (t *tail) writer(a *array) *step.Call {
	calls := t.wrote[a.sum()]
	if len(calls) == 0 {
		return nil
	}
	return calls[len(calls)-1]
}

// noteWritten notes what a call leaves in its arguments.
func (t *tail) noteWritten(c *step.Call, d *side) {
	for _, a := range d.after {
		if a != nil && !slices.Contains(t.wrote[a.sum()], c) {
			t.wrote[a.sum()] = append(t.wrote[a.sum()], c)
		}
	}
}
