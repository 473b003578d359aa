package parallel

import (
	"fmt"
	"maps"
	"slices"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// rankwise lifts a call to which the ranks gave different numbers: each its own part of a replicated value. ok is
// false if it is something else.
func (p *part) rankwise(s *site, sides map[int]*side, local *localRun) (ok bool) {
	lead := sides[p.ranks[0]]
	if len(lead.ins) == 0 {
		return true
	}
	if len(lead.outs) != 1 { // the sizes of parts: each rank gets other numbers of rows for its experts
		return s.in[0] == nil || s.in[0].rows == nil
	}
	if !p.triangles(s, sides) || p.otherSetting(s, sides) {
		p.lose(s)
		return true
	}
	if s.in[0].unplaced() {
		return false
	}
	cands := p.candidates(0, s, sides)
	if len(cands) == 0 {
		return false
	}
	in := cands[0]
	p.settle(s, sides, append([][]place{in}, make([][]place, len(lead.ins)-1)...))
	outs := local.outs[0]
	a := outs[p.ranks[0]]
	if w := p.wholeSlice(s, sides, in); w != nil {
		if ps, ok := p.match(outs, w, p.outcomes(len(a.shape), [][]place{p.everywhere(sum(1))}), false, 0); ok {
			s.out[0] = &info{places: ps, data: []*source{{}}}
			return true
		}
		if s.in[0].isPartial() {
			s.out[0] = &info{pieces: true, made: s}
			return true
		}
	}
	if p.picks(s, lead, in) {
		return true
	}
	if !a.dtype.IsFloat() {
		s.out[0] = p.numbers(s, sides, outs)
		return true
	}
	sharded := slices.ContainsFunc(in, func(q place) bool { return q.kind != replicated })
	if sharded && len(lead.ins) == 1 && slices.Contains([]string{"div", "mul", "truediv"}, method(s.op)) {
		if p.ownBusiness(s, sides, local) && slices.ContainsFunc(p.ranks, func(r int) bool {
			k, _ := numberOf(sides[r].rec.Args[len(sides[r].rec.Args)-1])
			return !isCount(k)
		}) {
			p.leave(s)
			return true
		}
		other := p.ranks[slices.IndexFunc(p.ranks, func(r int) bool {
			return sides[r].arguments() != lead.arguments()
		})]
		p.found(!s.in[0].astray(), &violation{kind: "scale", site: s, ranks: p.ranks, target: "output[0]",
			reason: fmt.Sprintf("ranks %s hold parts of its argument and scale them by different numbers, so that they "+
				"count with different weights: %s on rank %d, and %s on rank %d", rankList(p.ranks), lead.number(),
				p.ranks[0], sides[other].number(), other)})
		s.out[0] = &info{places: in, lost: true}
		return true
	}
	s.out[0] = &info{}
	return true
}

// picks reports whether each rank takes an element along a dimension of data that all have, as x[rank] does: that is
// the data of the rank, as if it had been loaded so.
func (p *part) picks(s *site, lead *side, in []place) bool {
	return (method(s.op) == "getitem" || method(s.op) == "select") && len(lead.ins) == 1 &&
		!lead.ins[0].tensor.RequiresGrad && len(lead.outs[0].shape) < len(lead.ins[0].array.shape) &&
		!slices.ContainsFunc(in, func(q place) bool { return q != whole })
}

// number is the text of the number that a product or quotient is taken with.
func (d *side) number() string {
	if k, ok := d.operand(); ok {
		return fmt.Sprintf("%.4g", k)
	}
	return d.arguments()
}

// numbers is what is known of whole numbers that the ranks computed with numbers of their own: positions that go on
// from rank to rank, or what they were made of. It reports positions that do not follow each other.
func (p *part) numbers(s *site, sides map[int]*side, outs map[int]*array) *info {
	a := outs[p.ranks[0]]
	if len(a.x) > 1 && p.replicates(outs) {
		return &info{places: p.everywhere(whole)}
	}
	if len(a.shape) == 1 {
		for m := range p.dims {
			ps := p.everywhere(whole)
			ps[m] = place{kind: sharded, factor: 1}
			if w := p.join(outs, ps); w != nil && counts(w.x) && !p.equal(m, outs, 0) {
				return &info{places: ps}
			}
		}
		adds := slices.Contains([]string{"add", "add_", "iadd", "radd"}, method(s.op))
		if adds && len(a.x) > 1 && !p.follows(s, outs) {
			return &info{lost: true}
		}
	}
	if n := s.in[0]; n != nil && n.places != nil && slices.Equal(a.shape, sides[p.ranks[0]].ins[0].array.shape) {
		return &info{source: p.join(p.column(sides, func(d *side) *array { return d.ins[0].array }), n.places)}
	}
	return &info{}
}

// positions checks the positions that ranks count from numbers of their own: those of the ranks follow each other, at
// one distance, and as many ranks have the same ones. So it is with each half of a zigzag, too.
func (p *part) positions(s *site, sides map[int]*side) {
	lead := sides[p.ranks[0]]
	if len(lead.outs) != 1 || method(s.op) != "arange" {
		return
	}
	p.follows(s, p.column(sides, func(d *side) *array { return d.outs[0] }))
}

// compares checks positions that ranks compare with those of the whole, as a causal mask does: if they are as many,
// they follow each other without a gap. ok is false if it found a fault.
func (p *part) compares(s *site, sides map[int]*side) (ok bool) {
	lead := sides[p.ranks[0]]
	if len(lead.ins) != 2 || len(lead.outs) != 1 || !slices.Contains([]string{"le", "lt", "ge", "gt"}, method(s.op)) {
		return true
	}
	for i := range 2 {
		of := lead.ins[1-i].array
		if of.dtype.IsFloat() || len(of.x) < 2 || !counts(of.x) || !p.same(sides, 1-i) {
			continue
		}
		own := p.column(sides, func(d *side) *array { return d.ins[i].array })
		for _, d := range p.dims {
			for _, g := range d.groups {
				var parts [][]float64
				all := 0
				for _, r := range g {
					if x := own[r].x; len(x) > 1 && !own[r].dtype.IsFloat() && counts(x) {
						parts = append(parts, x)
						all += len(x)
					}
				}
				if len(parts) < len(g) || all != len(of.x) || follow(parts) {
					continue
				}
				p.found(true, &violation{kind: "shard", site: s, ranks: g, target: "output[0]",
					reason: fmt.Sprintf("%s compare positions with those of the whole, and theirs do not follow each "+
						"other: rank %d has %g to %g, rank %d has %g to %g", ranksText(g), g[0], parts[0][0],
						parts[0][len(parts[0])-1], g[1], parts[1][0], parts[1][len(parts[1])-1])})
				return false
			}
		}
	}
	return true
}

// triangles checks where ranks cut triangles at diagonals of their own, as for a causal mask: their rows, or their
// columns, follow each other. ok is false if it found a fault.
func (p *part) triangles(s *site, sides map[int]*side) (ok bool) {
	if m := method(s.op); m != "tril" && m != "triu" {
		return true
	}
	from := map[int]int{}
	for _, r := range p.ranks {
		k, given := sides[r].rec.Kwargs.Get("diagonal")
		if args := sides[r].rec.Args; !given && len(args) > 1 {
			k = args[1]
		}
		n, _ := numberOf(k) // 0 if it is not given
		from[r] = int(n)
	}
	for _, d := range p.dims {
		for _, g := range d.groups {
			var rows, columns [][]float64
			for _, r := range g {
				shape := sides[r].outs[0].shape
				if len(shape) < 2 || !slices.Equal(shape, sides[g[0]].outs[0].shape) {
					return true // of sequences of their own
				}
				n := len(shape)
				rows, columns = append(rows, run(from[r], shape[n-2])), append(columns, run(-from[r], shape[n-1]))
			}
			if cut := tile(rows) || tile(columns); cut && (follow(rows) || follow(columns) || !square(sides, g)) {
				continue
			}
			p.found(true, &violation{kind: "shard", site: s, ranks: g, target: "output[0]",
				reason: fmt.Sprintf("%s cut triangles at diagonals that do not follow each other: rank %d has %d rows from "+
					"diagonal %d on, rank %d has %d from %d on", ranksText(g), g[0], len(rows[0]), from[g[0]], g[1],
					len(rows[1]), from[g[1]])})
			return false
		}
	}
	return true
}

// square reports whether the rows of a group's results, or their columns, are as many as those of a whole square.
func square(sides map[int]*side, g []int) bool {
	rows, columns := 0, 0
	for _, r := range g {
		shape := sides[r].outs[0].shape
		rows, columns = rows+shape[len(shape)-2], columns+shape[len(shape)-1]
	}
	shape := sides[g[0]].outs[0].shape
	return rows == shape[len(shape)-1] || columns == shape[len(shape)-2]
}

// run is n whole numbers from one on.
func run(from, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(from + i)
	}
	return x
}

// follow reports whether runs of whole numbers are the same, or each begins where another ends.
func follow(parts [][]float64) bool {
	ends := map[float64]float64{}
	for _, x := range parts {
		ends[x[0]] = x[len(x)-1] + 1
	}
	starts := slices.Sorted(maps.Keys(ends))
	for i := range starts[1:] {
		if ends[starts[i]] != starts[i+1] {
			return false
		}
	}
	return true
}

// follows finds a group whose positions do not follow each other; values that do not count up are none.
func (p *part) follows(s *site, positions map[int]*array) (ok bool) {
	for _, d := range p.dims {
		for _, g := range d.groups {
			var parts [][]float64
			for _, r := range g {
				x := positions[r].x
				if len(x) == 0 || !counts(x) {
					return true
				}
				parts = append(parts, x)
			}
			if !tile(parts) {
				p.found(true, &violation{kind: "shard", site: s, ranks: g, target: "output[0]",
					reason: fmt.Sprintf("%s count positions that are not all the same, and that do not follow each "+
						"other: rank %d has %g to %g, rank %d has %g to %g", ranksText(g), g[0], parts[0][0],
						parts[0][len(parts[0])-1], g[1], parts[1][0], parts[1][len(parts[1])-1])})
				return false
			}
		}
	}
	return true
}

// tile reports whether runs of whole numbers are the same, or parts of a sequence: one begins where another ends, or
// they begin at one distance. As many are the same.
func tile(parts [][]float64) bool {
	many, ends := map[float64]int{}, map[float64]float64{}
	for _, x := range parts {
		many[x[0]]++
		ends[x[0]] = x[len(x)-1] + 1
	}
	starts := slices.Sorted(maps.Keys(many))
	even := true
	for i, a := range starts {
		if many[a] != many[starts[0]] {
			return false
		}
		if i > 0 {
			even = even && a-starts[i-1] == starts[1]-starts[0] && a >= ends[starts[i-1]]
		}
	}
	return even || follow(parts)
}

func counts(x []float64) bool {
	for i, v := range x {
		if v != x[0]+float64(i) {
			return false
		}
	}
	return true
}

// wholeSlice is what a slice gives that takes all that the ranks' slices take; nil if the call is none.
func (p *part) wholeSlice(s *site, sides map[int]*side, in []place) *array {
	lead := sides[p.ranks[0]]
	bounds := map[int][2]int64{} // by the place of the slice among the arguments
	for _, r := range p.ranks {
		k := 0
		substitute(value.NewTuple(sides[r].rec.Args...), nil, func(v value.Value) value.Value {
			if c, ok := v.(value.Slice); ok {
				from, _ := c.Start.(int64)
				to, end := c.Stop.(int64)
				if end && from >= 0 {
					if b, ok := bounds[k]; ok {
						from, to = min(from, b[0]), max(to, b[1])
					}
					bounds[k] = [2]int64{from, to}
				}
				k++
			}
			return v
		})
	}
	if len(bounds) == 0 {
		return nil
	}
	now := map[*tensor.Tensor]*tensor.Tensor{}
	for i, a := range lead.ins {
		if i > 0 {
			return nil
		}
		w := p.join(p.column(sides, func(d *side) *array { return d.ins[i].array }), in)
		if w == nil {
			return nil
		}
		now[a.tensor] = w.tensor()
	}
	k := 0
	outs, err := p.checker.run(lead, now, func(v value.Value) value.Value {
		if c, ok := v.(value.Slice); ok {
			if b, has := bounds[k]; has {
				c.Start, c.Stop = b[0], b[1]
			}
			k++
			return c
		}
		return v
	})
	if err != nil {
		return nil
	}
	return outs[0]
}

// liftUntyped follows values of which no places are known: local indices of a sharded table, and what is looked up
// with them.
func (p *part) liftUntyped(s *site, sides map[int]*side, local *localRun) {
	if p.liftRows(s, sides) {
		return
	}
	lead := sides[p.ranks[0]]
	name := method(s.op)
	u := p.unplaced(s, sides)
	switch {
	case u.pending != nil && u.masked && zeroing[name]:
		p.zeroed(s, sides, local, u)
	case u.pending != nil:
		outs := p.runPending(s, sides, func(n *info) *array { return n.pending })
		for j, w := range outs {
			s.out[j] = p.became(local.outs[j], w, u.lost)
		}
	case len(lead.outs) == 0: // x[mask] = 0
		for i, n := range s.in {
			after := p.column(sides, func(d *side) *array { return d.after[i] })
			if after != nil && n.unplaced() {
				p.know(sides, changed(i, after), &info{source: n.source, lost: u.lost})
			}
		}
	case u.source != nil && len(lead.outs) == 1 && !lead.outs[0].dtype.IsFloat():
		s.out[0] = &info{source: u.source, lost: u.lost}
		if slices.Equal(lead.outs[0].shape, u.shape) {
			return
		}
		if outs := p.runPending(s, sides, func(n *info) *array { return n.source }); outs != nil {
			s.out[0].source = outs[0]
		}
	case u.source != nil && len(lead.outs) == 1 && lookingUp[name]:
		s.out[0] = &info{lost: u.lost}
		if outs := p.runPending(s, sides, func(n *info) *array { return n.source }); outs != nil {
			s.out[0] = p.became(local.outs[0], outs[0], u.lost || p.begins())
		}
	case !p.regain(s, sides, local) && !p.moved(s, sides):
		for j := range s.out {
			s.out[j] = &info{lost: u.lost}
		}
	}
}

// looksUpParts lifts a lookup of DTensors in a table of which each rank has a part: DTensor looks up any row for the
// indices of other ranks, and writes zeros there when it adds up what the ranks found. ok is false if there are rows
// that no rank found, or it is something else.
func (p *part) looksUpParts(s *site, sides map[int]*side, local *localRun, lists [][][]place) (ok bool) {
	lead := sides[p.ranks[0]]
	if lead.rec.Placed == "" || len(lead.outs) != 1 || !lookingUp[method(s.op)] {
		return false
	}
	return combinations(lists, func(in [][]place) bool {
		ins, why := p.wholes(sides, in)
		if why != "" {
			return false
		}
		got, err := p.checker.runOn(lead, ins)
		if err != nil {
			return false
		}
		found := p.eachFound(local.outs[0], sides, in)
		n, width := got[0].rows()
		for i := range n {
			want := got[0].x[i*width : (i+1)*width]
			if !slices.ContainsFunc(found, func(a *array) bool {
				return slices.Equal(a.shape, got[0].shape) && slices.Equal(a.x[i*width:(i+1)*width], want)
			}) {
				return false
			}
		}
		p.settle(s, sides, slices.Clone(in))
		s.out[0] = &info{pending: got[0]}
		return true
	})
}

// eachFound are the results of a lookup that ranks with one part of a table have together: those of each part. Along
// other dimensions of the mesh the ranks may have parts of the indices, and so of the result.
func (p *part) eachFound(outs map[int]*array, sides map[int]*side, in [][]place) (found []*array) {
	at := p.everywhere(whole)
	parts := make([][]int, len(p.dims)) // the numbers of the parts along each dimension
	for m, d := range p.dims {
		parts[m] = []int{-1}
		for i, a := range sides[p.ranks[0]].ins {
			switch q := in[i]; {
			case q == nil || q[m].kind != sharded:
			case a.array.dtype.IsFloat():
				parts[m] = upTo(d.size)
			default:
				at[m] = q[m]
			}
		}
	}
	combinations(parts, func(part []int) bool {
		now := map[int]*array{}
		for _, r := range p.ranks {
			from := r
			for m, k := range part {
				if k >= 0 {
					from = p.dims[m].of(from)[k]
				}
			}
			now[r] = outs[from]
		}
		if a := p.join(now, at); a != nil {
			found = append(found, a)
		}
		return false
	})
	return found
}

// upTo are the whole numbers below n.
func upTo(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// zeroed notes what became of values with a sum to become after zeros were written into them.
func (p *part) zeroed(s *site, sides map[int]*side, local *localRun, u unplaced) {
	if len(s.out) > 0 {
		s.out[0] = p.became(local.outs[0], u.pending, u.lost)
		return
	}
	for i := range s.in { // x[mask] = 0
		if after := p.column(sides, func(d *side) *array { return d.after[i] }); after != nil {
			p.know(sides, changed(i, after), p.became(after, u.pending, u.lost))
		}
	}
}

// Operators that set parts to zero, and that look up rows or elements by their numbers.
var (
	zeroing   = setOf("masked_fill", "where", "mul", "setitem")
	lookingUp = setOf("embedding", "gather", "index_select", "take_along_dim", "getitem")
)

// An unplaced is what is known of the arguments of a call that have no places.
type unplaced struct {
	pending, source *array // of the last one with a sum to become, and of the first with a source
	shape           []int  // of the local values that source belongs to
	masked          bool   // one is a mask
	lost            bool   // an argument follows from something that is wrong already
}

func (p *part) unplaced(s *site, sides map[int]*side) unplaced {
	u := unplaced{lost: slices.ContainsFunc(s.in, (*info).astray)}
	for i, n := range s.in {
		a := sides[p.ranks[0]].ins[i].array
		if n == nil && a.dtype == tensor.Bool && !p.same(sides, i) {
			u.masked = true
		}
		if !n.unplaced() {
			continue
		}
		switch {
		case n.pending != nil:
			u.pending = n.pending
		case n.source != nil && u.source == nil:
			u.source, u.shape = n.source, a.shape
		}
		u.masked = u.masked || n.pending == nil && a.dtype == tensor.Bool
	}
	return u
}

// became is a value whose sum over the ranks is to become a whole one: where it already is, its places are known.
func (p *part) became(values map[int]*array, whole *array, lost bool) *info {
	if ps, ok := p.match(values, whole, p.outcomes(len(whole.shape), [][]place{p.everywhere(sum(1))}), false,
		exact); ok {
		return &info{places: ps, lost: lost}
	}
	return &info{pending: whole, lost: lost}
}

// runPending runs a call on whole values, with f of those that have no places; nil if it cannot.
func (p *part) runPending(s *site, sides map[int]*side, f func(*info) *array) []*array {
	lead := sides[p.ranks[0]]
	ins := make([]*array, len(lead.ins))
	settled := make([][]place, len(lead.ins))
	for i := range lead.ins {
		n := s.in[i]
		var w *array
		if n.unplaced() {
			w = f(n)
		} else {
			values := p.column(sides, func(d *side) *array { return d.ins[i].array })
			cands := p.candidates(i, s, sides)
			if mended, names := p.withFirst(s, sides); len(cands) == 0 && len(names) > 0 { // replicas moved apart
				values = p.column(mended, func(d *side) *array { return d.ins[i].array })
				if cands = p.candidates(i, s, mended); len(cands) > 0 && !p.movedApart() {
					p.foundBegun(s, sides, names)
				}
			}
			if len(cands) == 0 {
				return nil
			}
			settled[i] = cands[0] // of a table the rows
			w = p.join(values, cands[0])
		}
		if w == nil {
			return nil
		}
		ins[i] = w
	}
	outs, err := p.checker.runOn(lead, ins)
	if err != nil {
		return nil
	}
	p.settle(s, sides, settled)
	return outs
}

// regain tries an untyped argument as if nothing were known of it: masks and positions.
func (p *part) regain(s *site, sides map[int]*side, local *localRun) bool {
	lead := sides[p.ranks[0]]
	lists := make([][][]place, len(lead.ins))
	guess := false
	for i := range lead.ins {
		n := s.in[i]
		if n.unplaced() {
			if n.lost {
				return false
			}
			s.in[i], guess = nil, guess || lead.ins[i].array.dtype.IsFloat()
		}
		lists[i] = p.candidates(i, s, sides)
		s.in[i] = n
	}
	return combinations(lists, func(in [][]place) bool {
		outs, _ := p.try(s, sides, local, in)
		if outs == nil || slices.ContainsFunc(outs, func(ps []place) bool { return ps == nil }) {
			return false
		}
		for j, ps := range outs {
			s.out[j] = &info{places: ps, guess: guess}
		}
		return true
	})
}
