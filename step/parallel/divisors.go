package parallel

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/step"
)

// unevenly says which losses the program divides by other numbers than others: those of other ranks, or of other
// microbatches. Their elements count with different weights in the gradients. Programs do so on purpose, or because
// each takes the mean of what it has.
func (p *part) unevenly() (out []step.Gap) {
	byLine := map[string][]float64{} // the divisors of the first rank
	for _, s := range p.losses() {
		var of []float64
		for _, r := range p.owners(s) {
			of = append(of, p.checker.divisor(s.calls[r].Step.Root()))
		}
		call := s.first(p.ranks).Step.Root()
		if len(out) == 0 && differ(of) {
			out = append(out, step.Gap{N: 1, What: fmt.Sprintf("1 loss that %s divide by different "+
				"numbers (%s): the elements of each rank count with another weight", ranksText(p.ranks), list(of)),
				First: call.String()})
		}
		k := call.Op + "|" + call.Entry.Location
		byLine[k] = append(byLine[k], of[0])
		if n := byLine[k]; len(n) > 1 && differ(n) && !differ(n[:len(n)-1]) {
			out = append(out, step.Gap{N: len(n), What: fmt.Sprintf("%d losses of one line that are divided by "+
				"different numbers (%s): the microbatches count with different weights", len(n), list(n)),
				First: call.String()})
		}
	}
	return out
}

// unevenParts finds a loss that ranks divide by different numbers, though they share out what they compute it of: an
// exchange moves its parts. Then each element of the whole counts alike.
func (p *part) unevenParts() {
	if len(p.broken) > 0 {
		return
	}
	var moved uint
	for _, s := range p.sites {
		for _, n := range s.in {
			for m := range p.dims {
				if n != nil && slices.ContainsFunc(n.data, func(d *source) bool { return d.moved>>m&1 == 1 }) {
					moved |= 1 << m
				}
			}
		}
	}
	for _, s := range p.losses() {
		of := map[int]float64{}
		for _, r := range p.owners(s) {
			of[r] = p.checker.divisor(s.calls[r].Step.Root())
		}
		for m, d := range p.dims {
			for _, g := range d.groups {
				var by []float64
				for _, r := range g {
					by = append(by, of[r])
				}
				if moved>>m&1 == 0 || slices.Min(by) < 2 || !differ(by) {
					continue
				}
				p.found(true, &violation{kind: "scale", call: s.first(p.ranks).Step.Root(), site: s, ranks: g,
					target: "output[0]", reason: fmt.Sprintf("%s share out one batch, as they exchange parts of it, and "+
						"divide their parts of the loss by different numbers (%s): the elements of each rank count with another "+
						"weight", ranksText(g), list(by))})
				return
			}
		}
	}
}

// differ reports whether numbers are not all the same, but for rounding.
func differ(x []float64) bool {
	return slices.ContainsFunc(x, func(v float64) bool { return math.Abs(v-x[0]) > 1e-3*math.Abs(x[0]) })
}

func list(x []float64) string {
	var text []string
	for _, v := range x {
		text = append(text, fmt.Sprintf("%.4g", v))
	}
	return strings.Join(text, ", ")
}

// divisor is the number by which the sum of terms is divided that a loss is: 1 if that is not known.
func (c *checker) divisor(loss *step.Call) float64 {
	d, err := c.load(loss)
	if err != nil || len(d.ins) == 0 {
		return 1
	}
	of := 1.0
	if from := loss.Inputs[0].From.Value; from != nil && from.Call != loss && len(d.ins[0].array.x) == 1 {
		of = c.divisor(from.Call)
	}
	m := method(loss.Op)
	switch {
	case multiplies(loss.Op):
		n, ok := d.operand()
		if !ok || n == 0 {
			return of
		}
		if strings.HasSuffix(m, "mul") || m == "multiply" {
			n = 1 / n
		}
		return of * n
	case d.sums():
	case isLoss(loss.Op) || m == "mean":
		n := d.counts()
		if len(d.ins) > 1 && !d.ins[1].array.dtype.IsFloat() {
			return n[2]
		}
		return n[0]
	}
	return of
}

// reducing is the call that made one number of many, of which a loss is made; nil if it is not known.
func (c *checker) reducing(loss *step.Call) *side {
	d, err := c.load(loss)
	if err != nil || len(d.ins) == 0 {
		return nil
	}
	if len(d.ins[0].array.x) > 1 {
		return d
	}
	if from := loss.Inputs[0].From.Value; from != nil && from.Call != loss && multiplies(loss.Op) {
		return c.reducing(from.Call)
	}
	return nil
}

// operand is the number that a product or quotient is taken with; ok is false if it is none, or one that is learned.
func (d *side) operand() (n float64, ok bool) {
	if len(d.rec.Args) > 1 {
		if n, ok = numberOf(d.rec.Args[1]); ok {
			return n, true
		}
	}
	if len(d.ins) == 2 && len(d.ins[1].array.x) == 1 && !d.ins[1].tensor.RequiresGrad {
		return d.ins[1].array.x[0], true
	}
	return 0, false
}

// counts are the numbers of elements and rows of the first argument of a call, and of labels that count.
func (d *side) counts() []float64 {
	out := make([]float64, 3)
	if len(d.ins) == 0 {
		return out
	}
	x := d.ins[0].array
	out[0] = float64(len(x.x))
	if n := len(x.shape); n > 1 {
		out[1] = float64(len(x.x) / max(1, x.shape[n-1]))
	}
	if len(d.ins) > 1 {
		for _, v := range d.ins[1].array.x {
			if d.ins[1].array.dtype.IsFloat() || v >= 0 {
				out[2]++
			}
		}
	}
	return out
}

// ownCount are the places of a sum, which lies at places, after it is divided by n: if that counts the terms of one
// rank, or of those along some dimensions of the mesh, the ranks have means. It is nil if n counts those of all,
// or something else.
func (p *part) ownCount(s *site, at []place, n float64) (out []place) {
	of := s.in[0]
	for range p.sites {
		if !of.sound() || !slices.Equal(of.places, at) || of.made == nil || len(of.made.in) == 0 {
			return out
		}
		t := of.made
		sides := p.read(t)
		if of = t.in[0]; sides == nil || !of.sound() {
			return out
		}
		var over []int // dimensions along which the terms are shared out
		all := 1.0
		for m, q := range of.places {
			if q.kind == sharded && at[m].kind == partial && at[m].factor == 1 {
				over, all = append(over, m), all*float64(p.dims[m].size)
			}
		}
		for i, own := range sides[p.ranks[0]].counts() {
			if own*all == n {
				return nil
			}
			if n < 2 || len(over) == 0 || slices.ContainsFunc(p.ranks, func(r int) bool {
				return sides[r].counts()[i] != own
			}) {
				continue
			}
			if ps := p.meansOver(at, over, own*all/n); ps != nil && out == nil {
				out = ps
			}
		}
	}
	return out
}

// meansOver are places of a sum that is k times as large as that of the whole, since the ranks along some dimensions of
// the mesh took means; nil if no dimensions have k ranks together.
func (p *part) meansOver(at []place, over []int, k float64) []place {
	for set := 1; set < 1<<len(over); set++ {
		ps, ranks := slices.Clone(at), 1.0
		for i, m := range over {
			if set>>i&1 == 1 {
				ps[m].factor = float64(p.dims[m].size)
				ranks *= ps[m].factor
			}
		}
		if ranks == k {
			return ps
		}
	}
	return nil
}
