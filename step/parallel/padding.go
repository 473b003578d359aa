package parallel

import (
	"fmt"
	"slices"
)

// padding finds exchanges that join unequal parts, each filled up with zeros to the size of the largest, where these
// zeros have a gradient: what is computed of the joined value counts rows that no rank gave.
func (p *part) padding() {
	for _, s := range p.sites {
		if !s.seam && s.inner == nil {
			continue
		}
		sides := p.read(s)
		if sides == nil || len(sides[p.ranks[0]].ins) == 0 {
			continue
		}
		lead := sides[p.ranks[0]]
		from := s.sends(lead)
		x := p.column(sides, func(d *side) *array { return d.ins[from].array })
		for _, j := range p.joined(sides, x) {
			g := p.checker.gradientTo(lead, j.results)
			if j.filled == 0 || g == nil || len(g.x) != len(lead.resultOf(j.results[0]).x) ||
				!slices.ContainsFunc(p.fillers(g, x), func(v float64) bool { return v != 0 }) {
				continue
			}
			var short []int // the ranks whose parts are filled up
			for _, r := range p.ranks {
				if x[r].shape[0] < j.filled {
					short = append(short, r)
				}
			}
			p.found(true, &violation{kind: "shard", site: s, ranks: p.ranks, target: "output[0]",
				reason: fmt.Sprintf("rank %d gave %d rows, and its part of the result is filled up with zeros to the %d rows "+
					"of the largest part. The zeros have a gradient: they count in the loss as if they were rows",
					short[0], x[short[0]].shape[0], j.filled)})
			return
		}
	}
}

// filledUp is the number of rows of the parts that y joins, if they are those of the ranks, of unequal sizes, filled up
// with zeros to the size of the largest; 0 if it is something else.
func (p *part) filledUp(x map[int]*array, y *array) (rows int) {
	if len(p.dims) != 1 || len(y.shape) == 0 || len(y.x) == 0 {
		return 0
	}
	least := y.shape[0]
	for _, r := range p.ranks {
		if len(x[r].shape) != len(y.shape) || !slices.Equal(x[r].shape[1:], y.shape[1:]) {
			return 0
		}
		rows, least = max(rows, x[r].shape[0]), min(least, x[r].shape[0])
	}
	if least == rows || rows*len(p.ranks) != y.shape[0] || slices.ContainsFunc(p.fillers(y, x), func(v float64) bool {
		return v != 0
	}) || !p.join(x, p.everywhere(place{kind: sharded, factor: 1})).near(p.given(y, x), 0) {
		return 0
	}
	return rows
}

// given is a value of parts that are filled up to the size of the largest, without what they are filled up with.
func (p *part) given(y *array, x map[int]*array) *array {
	own, _ := p.split(y, x)
	return &array{y.dtype, slices.Concat([]int{len(own) * y.shape[0] / len(y.x)}, y.shape[1:]), own}
}

// fillers are the elements that given leaves out.
func (p *part) fillers(y *array, x map[int]*array) []float64 {
	_, others := p.split(y, x)
	return others
}

func (p *part) split(y *array, x map[int]*array) (own, others []float64) {
	size := len(y.x) / len(p.ranks)
	for i, r := range p.dims[0].groups[0] {
		part := y.x[i*size : (i+1)*size]
		own, others = append(own, part[:len(x[r].x)]...), append(others, part[len(x[r].x):]...)
	}
	return own, others
}
