package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/step"
)

// givenBack finds an exchange that gives rows of an attention back to other rows than those whose queries made them:
// ranks that share out a sequence exchange it for heads, and then the heads for the sequence. It comes before what
// follows from it.
func (p *part) givenBack() {
	for _, s := range p.flat() {
		if len(p.dims) == 0 {
			return
		}
		lead := s.calls[p.ranks[0]]
		if lead == nil || method(s.op) != "linear" || len(lead.Inputs) < 2 || len(p.owners(s)) < len(p.ranks) {
			continue
		}
		back := p.checker.joins(lead.Inputs[0])
		if back == nil || len(back.Inputs) == 0 {
			continue
		}
		attention := p.checker.attended(back.Inputs[0])
		if attention == nil {
			continue
		}
		if len(p.broken) > 0 {
			if first := p.broken[0].site; first == nil || first.first(p.ranks).Order < back.Order {
				return
			}
		}
		if v := p.otherRows(s, back, attention); v != nil {
			p.broken = slices.Insert(p.broken, 0, v)
			return
		}
	}
}

// attended is the attention that a value is the result of, if all calls since then only move elements; nil if it is
// something else.
func (c *checker) attended(v *step.Value) *step.Call {
	for range 8 {
		if v.From.Value == nil {
			return nil
		}
		made := v.From.Value.Call
		m := method(made.Op)
		switch {
		case m == "scaled_dot_product_attention":
			return made
		case !reshaping[m] && !turning[m] && m != "clone" || len(made.Inputs) == 0:
			return nil
		}
		v = made.Inputs[0]
	}
	return nil
}

// otherRows compares the rows that a call reads of an attention with those that the queries were made of; nil if they
// are the same, or if the elements do not tell.
func (p *part) otherRows(s *site, back, attention *step.Call) *violation {
	made := map[uint64][]row{} // that can be, by the elements of one head
	var exchange, attends *site
	for _, t := range p.flat() {
		if t.calls[p.ranks[0]] == back {
			exchange = t
		}
		if t.calls[p.ranks[0]] == attention {
			attends = t
		}
	}
	if exchange == nil || attends == nil {
		return nil
	}
	sides, reads := p.read(attends), p.read(s)
	if sides == nil || reads == nil {
		return nil
	}
	width := 0
	for _, r := range p.ranks {
		of, _ := p.joinedFrom(sides[r].call.Inputs[0], p.groupOf(r), false)
		y := sides[r].outs[0]
		if n := len(y.shape); of == nil || n < 2 || y.shape[n-2] != len(of) {
			return nil
		}
		n, w := y.rows()
		width = w
		for i := range n {
			sum, ok := y.rowSum(i, w)
			if !ok {
				return nil
			}
			made[sum] = append(made[sum], of[i%len(of)]...)
		}
	}
	for _, r := range p.ranks {
		x := reads[r].ins[0].array
		k := len(x.shape)
		if k < 2 || width == 0 || x.shape[k-1]%width != 0 {
			return nil
		}
		heads := x.shape[k-1] / width
		for i := range len(x.x) / width {
			sum, _ := x.rowSum(i, width)
			from, known := made[sum]
			if !known {
				return nil
			}
			if at := (row{r, i / heads % x.shape[k-2]}); !slices.Contains(from, at) {
				return &violation{kind: "shard", site: exchange, call: exchange.calls[r], ranks: slices.Clone(p.ranks),
					target: "output[0]", reason: fmt.Sprintf("behind it %s reads on rank %d, as row %d, what the attention made for "+
						"the query of row %d of rank %d: the sequence and the heads are exchanged in another way than before "+
						"the attention", s.calls[r], r, at.at, from[0].at, from[0].rank)}
			}
		}
	}
	return nil
}
