package parallel

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/optool/optool/step"
)

// Ranks that share out the rows of a table subtract from the same ids the number of their first row, and hide the ids
// of other ranks. So the ids that they take for theirs say which rows each rank has.

// A span is the rows of a whole table that a rank takes a part to be.
type span struct {
	rank       int
	from, size int
}

// offsets puts before what follows from it that ranks which share out a table do not have all of its rows once.
func (p *part) offsets() {
	var first *site // that something was found of in the forward pass
	if len(p.broken) > 0 && !p.broken[0].backward && p.broken[0].call == nil {
		first = p.broken[0].site
	}
	for _, s := range p.flat() {
		if first != nil && first.first(p.ranks).Order < s.first(p.ranks).Order {
			return
		}
		if !lookingUp[method(s.op)] {
			continue
		}
		sides := p.read(s)
		if sides == nil {
			continue
		}
		for _, d := range p.dims {
			for _, g := range d.groups {
				if v := p.untiled(s, sides, g); v != nil {
					if first == s {
						p.broken = p.broken[1:] // of the same call
					}
					p.broken = slices.Insert(p.broken, 0, v)
					return
				}
			}
		}
	}
}

// untiled says why the rows that the ranks of a group have of a table are not all of its rows once; nil if they are, or
// if the table is not shared out.
func (p *part) untiled(s *site, sides map[int]*side, group []int) *violation {
	lead := sides[group[0]]
	table, index := lookup(lead)
	if table < 0 || index < 0 || len(lead.ins) != len(lead.call.Inputs) {
		return nil
	}
	var spans []span
	var ids *array
	hides := false
	for _, r := range group {
		d := sides[r]
		from, of := p.checker.subtracted(d.call.Inputs[index])
		if of == nil || ids != nil && !slices.Equal(ids.x, of.x) {
			return nil
		}
		ids = of
		dim := 0
		if n, ok := d.operand(); ok {
			dim = int(n)
		}
		shape := d.ins[table].array.shape
		if dim < 0 {
			dim += len(shape)
		}
		if dim < 0 || dim >= len(shape) {
			return nil
		}
		spans = append(spans, span{r, from, shape[dim]})
		hides = hides || slices.ContainsFunc(ids.x, func(v float64) bool {
			return int(v) < from || int(v) >= from+shape[dim]
		})
	}
	if !hides {
		return nil
	}
	parts := map[int]*array{}
	for _, r := range group {
		parts[r] = sides[r].ins[table].array
	}
	alike := !parts[group[0]].constant() && !slices.ContainsFunc(group, func(r int) bool {
		return !slices.Equal(parts[r].x, parts[group[0]].x)
	})
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i, b := range spans[1:] {
		a := spans[i]
		if b.from == a.from+a.size {
			continue
		}
		if alike && b.from == a.from {
			return nil // a table that all ranks have
		}
		return &violation{kind: "shard", site: s, ranks: group, target: fmt.Sprintf("input[%d]", index),
			reason: fmt.Sprintf("%s look up the same ids in parts of one table, and subtract the numbers of their first "+
				"rows: rank %d takes its part for rows %d to %d, and rank %d for rows %d to %d, which do not follow each other",
				ranksText(group), a.rank, a.from, a.from+a.size-1, b.rank, b.from, b.from+b.size-1)}
	}
	if !alike {
		return nil
	}
	call, target := p.copied(lead.call.Inputs[table])
	if call == nil {
		return nil
	}
	return &violation{kind: "shard", site: s, call: call, ranks: group, target: target,
		reason: fmt.Sprintf("%s take their parts of a table for rows %d to %d, and all hold the same rows: the part of one "+
			"rank was loaded on the others", ranksText(group), spans[0].from,
			spans[len(spans)-1].from+spans[len(spans)-1].size-1)}
}

// lookup is which arguments of a call are the table, or the scores, and the whole numbers that choose its rows; -1 if
// there are none, or several.
func lookup(d *side) (table, index int) {
	table, index = -1, -1
	for i, a := range d.ins {
		at := &index
		if a.array.dtype.IsFloat() {
			at = &table
		}
		if *at >= 0 {
			return -1, -1
		}
		*at = i
	}
	return table, index
}

// subtracted is the number that was subtracted from ids to make the indices of a lookup, and the ids; nil if none was.
func (c *checker) subtracted(v *step.Value) (from int, ids *array) {
	for range 8 {
		if v.From.Value == nil {
			return 0, nil
		}
		made := v.From.Value.Call
		d, err := c.load(made)
		if err != nil || len(d.ins) == 0 || len(d.ins) != len(made.Inputs) || isExchange(made.Op) {
			return 0, nil
		}
		if n, ok := d.operand(); ok && !d.ins[0].array.dtype.IsFloat() {
			switch method(made.Op) {
			case "sub":
				return int(n), d.ins[0].array
			case "add":
				return -int(n), d.ins[0].array
			}
		}
		next := slices.IndexFunc(made.Inputs, func(in *step.Value) bool {
			return !in.DType.IsFloat() && in.DType.String() == v.DType.String() && in.Numel() == v.Numel()
		})
		if next < 0 {
			return 0, nil
		}
		v = made.Inputs[next]
	}
	return 0, nil
}

// copied is the call that reads the parameter which a table is, or which made the scores of one.
func (p *part) copied(v *step.Value) (call *step.Call, target string) {
	for range 12 {
		if v.Parameter || v.RequiresGrad && v.From.Value == nil {
			return v.Call, v.Target
		}
		if v.From.Value == nil {
			return nil, ""
		}
		made := v.From.Value.Call
		if len(made.Inputs) == 0 {
			return nil, ""
		}
		v = made.Inputs[0]
		if i := slices.IndexFunc(made.Inputs, func(in *step.Value) bool { return in.Parameter }); i >= 0 {
			v = made.Inputs[i]
		}
	}
	return nil, ""
}
