package parallel

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// A doubling is an exchange whose backward pass adds up the gradients of all ranks, though each is that of the
// whole. It is right where the program means the sum of the ranks' losses, and divides the gradients before it by
// their number.
type doubling struct {
	k      float64 // how many times as large it makes the gradient
	over   []int   // the dimensions of the mesh whose ranks it joins
	before map[string]bool
	says   *violation
}

// adjoint notes an exchange that adds up or joins values, and whose backward pass adds up their gradients. ok is false
// if it does something else.
func (p *part) adjoint(s *site, k float64) (ok bool) {
	n, over := 1, []int(nil)
	for m, q := range s.in[0].places {
		if to := s.out[0].places[m]; q.kind != replicated && to.kind == replicated {
			n, over = n*p.dims[m].size, append(over, m)
		}
	}
	return n > 1 && math.Abs(k-float64(n)) <= 1e-2*k && p.doubles(s, float64(n), over)
}

// meansGradient reports whether an exchange joins the parts of parameters, and its backward pass gives each part the
// mean of the ranks' gradients: so one averages the gradients of a loss that is a mean on each rank. They count as
// the sum then, and what an update reads as its mean.
func (p *part) meansGradient(s *site, k float64) bool {
	sides, n := p.read(s), 1.0
	for m, q := range s.in[0].places {
		if s.out[0].places[m].kind == replicated && q.kind == sharded {
			n *= float64(p.dims[m].size)
		}
	}
	if name := sides[p.ranks[0]].ins[0].name; n == 1 || math.Abs(k*n-1) > 1e-2 || p.grads[name] == nil {
		return false
	} else {
		g := p.grads[name]
		for _, c := range g.calls {
			if c.site != s {
				continue
			}
			for _, r := range p.ranks {
				g.sum[r] = g.sum[r].plus(c.values[r].times(n - 1))
				c.values[r] = c.values[r].times(n)
			}
		}
	}
	return true
}

// doubles notes an exchange that makes gradients k times as large; ok is false if another one makes them otherwise.
func (p *part) doubles(s *site, k float64, over []int) (ok bool) {
	if p.doubled != nil && (p.doubled.k != k || !slices.Equal(p.doubled.over, over)) {
		return false
	}
	if p.doubled == nil {
		p.doubled = &doubling{k: k, over: over, before: map[string]bool{}}
		p.doubled.says = &violation{kind: "scale", site: s, ranks: p.ranks, backward: true, target: "grad[0]",
			reason: fmt.Sprintf("its backward pass makes the gradient %.4g times as large: ranks %s add up what "+
				"all of them already have", k, rankList(p.ranks))}
	}
	p.behind(s.first(p.ranks), map[*step.Call]bool{})
	return true
}

// behind notes the parameters that the arguments of a call were made of in the same step.
func (p *part) behind(call *step.Call, seen map[*step.Call]bool) {
	if seen[call] {
		return
	}
	seen[call] = true
	for name := range strings.SplitSeq(p.checker.parameters(call), ",") {
		p.doubled.before[name] = true
	}
	for _, v := range call.Inputs {
		if from := v.From.Value; from != nil && from.Call.Order < call.Order &&
			p.checker.numbers[from.Call] == p.checker.numbers[call] {
			p.behind(from.Call, seen)
		}
	}
}

// averagedAway reports whether the gradients of a doubling are right as they are: each rank has a mean of its own as
// its loss, and the gradients are averaged. The doubling adds up the gradients of these losses, as autograd would.
func (d *doubling) averagedAway(factors []float64) bool {
	n := 1.0
	for _, m := range d.over {
		if factors == nil {
			return false
		}
		n *= factors[m]
	}
	return n == d.k
}

// doublings finds exchanges whose backward pass adds up the gradients of a loss that all ranks have in whole, by what
// they read and give, wherever that lies: each rank computes the loss of all features, say.
func (p *part) doublings() {
	for m, d := range p.dims {
		if d.size < len(p.ranks) || !p.sharesLoss(m) {
			continue
		}
		for _, s := range p.sites {
			if (s.seam || s.inner != nil) && p.addsGradients(s) {
				p.doubles(s, float64(d.size), []int{m})
			}
		}
	}
}

// sharesLoss reports whether the ranks along a dimension of the mesh have the same losses.
func (p *part) sharesLoss(m int) bool {
	losses := p.losses()
	return len(losses) > 0 && !slices.ContainsFunc(losses, func(s *site) bool {
		sides := p.read(s)
		if sides == nil || len(sides[p.ranks[0]].outs) == 0 {
			return true
		}
		return !p.equal(m, p.column(sides, func(d *side) *array { return d.outs[0] }), 1e-6)
	})
}

// addsGradients reports whether an exchange joins or adds up what the ranks have, all have the same gradient of the
// result, and the gradient that it gives each rank is the sum of these.
func (p *part) addsGradients(s *site) bool {
	sides := p.read(s)
	if sides == nil || len(sides[p.ranks[0]].ins) == 0 {
		return false
	}
	from := s.sends(sides[p.ranks[0]])
	x := p.column(sides, func(d *side) *array { return d.ins[from].array })
	made := p.column(sides, func(d *side) *array { return p.checker.gradientOf(d, from) })
	if made == nil {
		return false
	}
	n := float64(len(p.ranks))
	for _, t := range p.joined(sides, x) {
		given := p.column(sides, func(d *side) *array { return p.checker.gradientTo(d, t.results) })
		if given == nil || !p.replicates(given) || given[p.ranks[0]].zero() {
			continue
		}
		want := p.column(sides, func(d *side) *array {
			if g := given[d.call.Process.Rank]; t.filled == 0 {
				return g
			} else {
				return p.given(g, x)
			}
		})
		got := p.join(made, p.everywhere(t.at))
		if t.at.kind == partial { // each has the sum of all
			got = made[p.ranks[0]]
		}
		if w := want[p.ranks[0]]; got != nil && len(got.x) == len(w.x) &&
			got.reshaped(w.shape).near(w.times(n), 16*max(w.dtype.Eps(), got.dtype.Eps())) {
			return true
		}
	}
	return false
}

// sends is the number of the argument whose elements an exchange passes on.
func (s *site) sends(lead *side) int {
	if gathering[collective.Name(s.op)] {
		return len(lead.ins) - 1
	}
	return 0
}

// A joint is the results of an exchange that are what the ranks gave it together, and where that lies: parts of it, or
// terms of a sum.
type joint struct {
	results []result
	at      place
	filled  int // the rows of each part, if it is filled up with zeros to the size of the largest; else 0
}

// A result is the number of a result of a call, or of an argument that it wrote.
type result struct {
	number  int
	written bool
}

func (d *side) resultOf(r result) *array {
	if r.written {
		return d.after[r.number]
	}
	return d.outs[r.number]
}

// joined are the results of an exchange that all ranks have, and that are the sum of what they gave, or its parts,
// joined in one result or in as many as there are ranks.
func (p *part) joined(sides map[int]*side, x map[int]*array) (out []joint) {
	lead := sides[p.ranks[0]]
	var all []result
	for j := range lead.outs {
		all = append(all, result{j, false})
	}
	for i := range lead.ins {
		if lead.after[i] != nil {
			all = append(all, result{i, true})
		}
	}
	of := func(r result) map[int]*array {
		values := p.column(sides, func(d *side) *array { return d.resultOf(r) })
		if values == nil || !p.replicates(values) {
			return nil
		}
		return values
	}
	first := x[p.ranks[0]]
	for k, r := range all {
		values := of(r)
		if values == nil {
			continue
		}
		y := values[p.ranks[0]]
		for dim := range first.shape {
			at := place{kind: sharded, dim: dim, factor: 1}
			if a := p.join(x, p.everywhere(at)); a != nil && len(p.dims) == 1 && a.near(y, 0) {
				out = append(out, joint{[]result{r}, at, 0})
			}
		}
		if n := p.filledUp(x, y); n > 0 {
			out = append(out, joint{[]result{r}, place{kind: sharded, factor: 1}, n})
		}
		if a := p.join(x, p.everywhere(sum(1))); a != nil && a.near(y, a.rounding(len(p.ranks))) {
			out = append(out, joint{[]result{r}, sum(1), 0})
		}
		if k+len(p.ranks) > len(all) || len(first.shape) == 0 {
			continue
		}
		parts := all[k : k+len(p.ranks)]
		fits := true
		for i, q := range p.ranks {
			part := of(parts[i])
			fits = fits && part != nil && part[q].near(x[q], 0)
		}
		if fits {
			out = append(out, joint{parts, place{kind: sharded, factor: 1}, 0})
		}
	}
	return out
}

// gradientOf is the gradient of an argument of a call: its own, or that which the call that made the value got for it.
func (c *checker) gradientOf(d *side, i int) *array {
	for range 8 {
		if d.gradIns[i] != nil {
			return d.gradIns[i]
		}
		if i >= len(d.call.Inputs) || d.call.Inputs[i].From.Value == nil {
			return nil
		}
		from := d.call.Inputs[i].From.Value
		made, err := c.load(from.Call)
		j := slices.Index(from.Call.Outputs, from)
		if err != nil || j < 0 || j >= len(made.gradOuts) {
			return nil
		}
		if made.gradOuts[j] != nil {
			return made.gradOuts[j]
		}
		if !silent[method(from.Call.Op)] || len(made.ins) != 1 {
			return nil
		}
		d, i = made, 0
	}
	return nil
}

// gradientTo is the gradient of results of a call, joined along the first dimension: its own, or those that the calls
// give which read them; nil if one has none.
func (c *checker) gradientTo(d *side, results []result) *array {
	var parts []*array
	for _, r := range results {
		var g *array
		if !r.written && r.number < len(d.gradOuts) {
			g = d.gradOuts[r.number]
		}
		if g == nil {
			m := message{received: d.call, value: d.resultOf(r)}
			if r.written {
				m.address = d.ins[r.number].address
			} else {
				m.address = d.outAddress(r.number)
			}
			g = c.readers(m)
		}
		if g == nil {
			return nil
		}
		parts = append(parts, g)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return concat(0, 0, parts)
}
