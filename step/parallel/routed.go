package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/capture"
)

// A router says by whole numbers which experts each row of a batch goes to. Rows that one expert computes with were all
// sent to it: there is a number that all of them have.

// A choice is what a router chose for each row of each rank.
type choice struct {
	of   map[int][][]float64 // by rank and row
	most float64             // the largest number
}

// misrouted finds a call by which a rank multiplies rows of an exchange by one weight, that no one expert was chosen
// for.
func (p *part) misrouted() {
	var chosen []*choice
	for _, s := range p.flat() {
		if len(p.broken) > 0 {
			return
		}
		if c := p.choice(s); c != nil {
			chosen = append(chosen, c)
			continue
		}
		if m := method(s.op); !products[m] && m != "linear" && m != "mm" && m != "addmm" {
			continue
		}
		at := slices.IndexFunc(s.in, func(n *info) bool {
			return n != nil && n.rows != nil && n.rows.via != nil && !n.lost
		})
		if at < 0 {
			continue
		}
		n := s.in[at].rows
		i := slices.IndexFunc(chosen, func(c *choice) bool { return c.counts(n) })
		for k := i + 1; i >= 0 && k < len(chosen); k++ {
			if chosen[k].counts(n) {
				i = k // the last one
			}
		}
		if i >= 0 {
			p.unlikeChoices(s, n, chosen[i])
		}
	}
}

// counts reports whether a choice has as many rows on each rank as the rows come from, or these are copies of such, one
// for each number that was chosen.
func (c *choice) counts(n *rows) bool { return c.copies(n) > 0 }

// copies is how many rows there are for each row of a choice, one after the other; 0 if they are not of it.
func (c *choice) copies(n *rows) (copies int) {
	for r, k := range n.count {
		if len(c.of[r]) == 0 || k%len(c.of[r]) != 0 || copies != 0 && k/len(c.of[r]) != copies {
			return 0
		}
		copies = k / len(c.of[r])
		if copies > 1 && copies != len(c.of[r][0]) {
			return 0
		}
	}
	for r, k := range n.count {
		for i := range k {
			if first := n.start[r] + i - i%max(copies, 1); n.one(n.start[r]+i) != n.one(first) {
				return 0
			}
		}
	}
	return copies
}

// unlikeChoices finds a rank that computes with rows for which no expert in common was chosen.
func (p *part) unlikeChoices(s *site, n *rows, c *choice) {
	copies := c.copies(n)
	twins := map[int]bool{} // rows that cannot be told apart
	for k, o := range n.same {
		if r, at := n.from(k); r >= 0 {
			q, of := n.from(n.one(o))
			if copy := r == q && at/copies == of/copies; !copy {
				twins[k], twins[o] = true, true
			}
		}
	}
	for _, r := range p.ranks {
		var common []float64
		first, other := -1, -1
		for _, k := range n.of[r] {
			q, at := n.from(k)
			if k < 0 || twins[k] || q < 0 {
				continue
			}
			own := c.of[q][at/copies]
			if first < 0 {
				first, common = k, slices.Clone(own)
				continue
			}
			common = slices.DeleteFunc(common, func(e float64) bool { return !slices.Contains(own, e) })
			if len(common) == 0 {
				other = k
				break
			}
		}
		if other < 0 || !n.shared(r, s, c, len(p.ranks)) {
			continue
		}
		p.found(true, &violation{kind: "shard", site: s, ranks: []int{r}, target: "input[0]",
			reason: fmt.Sprintf("rank %d multiplies the %d rows that it has here by one weight, and the router chose no "+
				"expert for all of them: rows came to another expert than theirs", r, len(n.of[r]))})
		return
	}
}

// from is the rank that a row comes from, and its number there; -1 of padding.
func (n *rows) from(k int) (rank, at int) {
	for r, start := range n.start {
		if k >= start && k < start+n.count[r] {
			return r, k - start
		}
	}
	return -1, 0
}

// shared reports whether the rows of a call are those of one expert: some of those that the rank got, or all where each
// rank has one expert.
func (n *rows) shared(rank int, s *site, c *choice, ranks int) bool {
	if c.most+1 == float64(ranks) {
		return true
	}
	got := -1
	for _, o := range n.via.out {
		if o != nil && o.rows != nil {
			got = len(o.rows.of[rank])
		}
	}
	return len(n.of[rank]) < got
}

// choice is what a call chooses for each row of values of all ranks; nil if it is none.
func (p *part) choice(s *site) *choice {
	m := method(s.op)
	if m != "topk" && m != "argmax" && m != "max" && m != "multinomial" {
		return nil
	}
	if slices.ContainsFunc(p.ranks, func(r int) bool { return s.calls[r] == nil }) {
		return nil
	}
	c := &choice{of: map[int][][]float64{}}
	for _, r := range p.ranks {
		read := capture.LoadOptions{Read: p.checker.opt.Read, Only: capture.Of(capture.Output)}
		rec, err := s.calls[r].Entry.Load(read)
		if err != nil {
			return nil
		}
		for _, a := range wholeNumbers(rec) {
			n, width := len(a.x), 1
			if m == "topk" || m == "multinomial" {
				n, width = a.rows()
			}
			c.of[r] = nil
			for i := range n {
				c.of[r] = append(c.of[r], a.x[i*width:(i+1)*width])
			}
			c.most = max(c.most, slices.Max(append([]float64{0}, a.x...)))
		}
		rec.Close()
		if len(c.of[r]) == 0 {
			return nil
		}
	}
	return c
}
