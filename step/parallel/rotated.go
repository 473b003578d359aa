package parallel

import (
	"fmt"

	"github.com/optool/optool/step"
)

// Rotary embeddings turn queries by their positions, and a causal mask shows them the keys up to their positions. Ranks
// that share out a sequence count both by themselves.

// rotated finds queries whose positions in a causal mask are others than those that they were turned by.
func (p *part) rotated() {
	for _, s := range p.flat() {
		if len(p.broken) > 0 {
			return
		}
		if m := method(s.op); m != "masked_fill" && m != "where" && m != "scaled_dot_product_attention" && m != "add" {
			continue
		}
		keys, seen := p.masks(s)
		if keys == nil {
			continue
		}
		for _, d := range p.dims {
			for _, g := range d.groups {
				if v := p.turnedApart(s, g, keys, seen); v != nil {
					p.found(true, v)
					return
				}
			}
		}
	}
}

// turnedApart compares the positions by which the ranks of a group turned their queries with those of a mask; nil if
// they are equally far from each other, or if documents inside of the sequence begin at 0.
func (p *part) turnedApart(s *site, group []int, keys map[int]*step.Value, seen map[int]*grid) *violation {
	masked, _ := positionsOf(group, seen)
	if masked == nil {
		return nil
	}
	turned, by := map[row]int{}, map[int]*step.Call{}
	apart := map[int]int{} // how many queries have each distance between the two
	for _, r := range group {
		n := seen[r].rows
		var x []float64
		if x, by[r] = p.checker.turnedBy(keys[r].Call.Inputs[0], n, 16); x == nil {
			return nil
		}
		for i, v := range x {
			if v == 0 && masked[row{r, i}] > 0 {
				return nil
			}
			turned[row{r, i}] = int(v)
			apart[int(v)-masked[row{r, i}]]++
		}
	}
	other, i := -1, 0 // a query that has another position than in the mask, or is not as far from it as most are
	for _, r := range group {
		for k := 0; other < 0 && k < seen[r].rows; k++ {
			if turned[row{r, k}]-masked[row{r, k}] != most(apart) {
				other, i = r, k
			}
		}
	}
	if other < 0 {
		return nil
	}
	at := row{other, i}
	v := &violation{kind: "shard", site: s, call: s.calls[other], ranks: group, target: "output[0]"}
	ahead := ""
	switch a, b := p.nextTokens(group, turned), p.nextTokens(group, masked); {
	case a > b:
		ahead = ": the labels continue the tokens in the order of the rotation"
	case b > a:
		v.call, ahead = by[other], ": the labels continue the tokens in the order of the mask"
	}
	v.reason = fmt.Sprintf("%s turns query %d of rank %d by position %d, and the causal mask of %s takes it for position "+
		"%d%s", by[other], i, other, turned[at], s.calls[other], masked[at], ahead)
	return v
}

// most is 0 if it occurs, else the number that occurs most often.
func most(times map[int]int) (n int) {
	if times[0] > 0 {
		return 0
	}
	best := 0
	for k, t := range times {
		if t > best || t == best && k < n {
			n, best = k, t
		}
	}
	return n
}

// turnedBy are the positions of n rows that a value was multiplied by functions of, and the product; nil if it was not.
func (c *checker) turnedBy(v *step.Value, n, within int) (positions []float64, by *step.Call) {
	if v.From.Value == nil || within == 0 {
		return nil, nil
	}
	call := v.From.Value.Call
	if method(call.Op) == "mul" && len(call.Inputs) == 2 {
		for _, in := range call.Inputs {
			if x := c.positionsIn(in, n, 12); x != nil && in.DType.IsFloat() && !in.RequiresGrad {
				return x, call
			}
		}
	}
	for _, in := range call.Inputs {
		if !in.DType.IsFloat() || !in.RequiresGrad {
			continue
		}
		if x, by := c.turnedBy(in, n, within-1); x != nil {
			return x, by
		}
	}
	return nil, nil
}

// positionsIn are n whole numbers, none of them twice, that a value was made of; nil if there are none.
func (c *checker) positionsIn(v *step.Value, n, within int) []float64 {
	if !v.DType.IsFloat() && v.Numel() == n {
		if a := c.argument(v); a != nil {
			seen := map[float64]bool{}
			for _, x := range a.x {
				seen[x] = true
			}
			if len(seen) == n && n > 2 {
				return a.x
			}
		}
		return nil
	}
	if v.From.Value == nil || within == 0 {
		return nil
	}
	for _, in := range v.From.Value.Call.Inputs {
		if x := c.positionsIn(in, n, within-1); x != nil {
			return x
		}
	}
	return nil
}

// nextTokens counts the rows of a sequence whose labels are the tokens of the row behind them, if the rows have some
// positions.
func (p *part) nextTokens(group []int, positions map[row]int) (n int) {
	tokens, labels := map[int]*array{}, map[int]*array{}
	for _, s := range p.flat() {
		sides := p.read(s)
		if sides == nil || method(s.op) != "embedding" && !isLoss(s.op) {
			continue
		}
		for _, r := range group {
			for _, a := range sides[r].ins {
				switch {
				case a.array.dtype.IsFloat():
				case !isLoss(s.op):
					if tokens[r] == nil {
						tokens[r] = a.array
					}
				default:
					labels[r] = a.array
				}
			}
		}
	}
	at := map[int]row{}
	rows := map[int]int{}
	for o, k := range positions {
		at[k] = o
		rows[o.rank]++
	}
	for k, o := range at {
		next, ok := at[k+1]
		if !ok || tokens[next.rank] == nil || labels[o.rank] == nil {
			continue
		}
		t, l, m := tokens[next.rank].x, labels[o.rank].x, rows[o.rank]
		if m != rows[next.rank] || len(t) != len(l) || len(t)%m != 0 {
			continue
		}
		same := true
		for b := 0; b < len(t); b += m {
			same = same && l[b+o.at] == t[b+next.at]
		}
		if same {
			n++
		}
	}
	return n
}
