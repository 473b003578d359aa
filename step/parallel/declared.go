package parallel

import "fmt"

// declared finds a DTensor that is said to be replicated, and of which ranks hold different elements: a program says
// how a DTensor lies, as DTensor.from_local does, and nothing checks it.
func (p *part) declared(s *site, sides map[int]*side) {
	for i, a := range sides[p.ranks[0]].ins {
		if a.copies == 0 || len(p.broken) > 0 {
			continue
		}
		values := p.column(sides, func(d *side) *array { return d.ins[i].array })
		tolerance, equal := 0.0, 0
		if a.array.dtype.IsFloat() {
			tolerance = similar * a.array.dtype.Eps()
		}
		for m := range p.dims {
			if p.equal(m, values, tolerance) {
				equal++
			}
		}
		if equal >= min(a.copies, len(p.dims)) || s.in[i].astray() {
			continue
		}
		kind, lies := "replica", ""
		if s.in[i].isPartial() {
			kind, lies = "collective", ": it is a partial sum, and lacks an all_reduce, or Partial() as its placement"
		}
		p.found(true, &violation{kind: kind, site: s, ranks: p.ranks, target: fmt.Sprintf("input[%d]", i),
			reason: fmt.Sprintf("%s is a DTensor that is said to be replicated, and %s hold different elements of it%s",
				nameOf(a, i), ranksText(p.ranks), lies)})
	}
}
