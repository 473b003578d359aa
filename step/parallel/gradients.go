package parallel

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// backward follows gradients from the loss to the parameters. The gradient of a replicated value is the same on all
// ranks, or a partial sum; a value that several calls read adds up gradients of one kind only.
func (p *part) backward() {
	var order []*site
	for _, s := range p.sites {
		if !slices.ContainsFunc(p.ranks, func(r int) bool {
			return s.calls[r] == nil ||
				s.calls[r].Entry.BackwardOrder < 0
		}) {
			order = append(order, s)
		}
	}
	slices.SortStableFunc(order, func(a, b *site) int {
		return cmp.Compare(a.calls[p.ranks[0]].Entry.BackwardOrder, b.calls[p.ranks[0]].Entry.BackwardOrder)
	})
	for _, s := range order {
		sides := p.read(s)
		if sides == nil {
			continue
		}
		p.collect(s, sides)
		if !p.transposed(s, sides) {
			p.derived(s, sides)
		}
		if len(p.broken) > 0 && !p.broken[0].backward && !p.begins() || len(p.dims) == 0 {
			continue
		}
		for j := range s.out {
			if n := s.out[j]; n != nil {
				p.mixed(s, sides, j, n)
			}
		}
		p.loseGradient(s, sides)
		if s.seam {
			p.passGradient(s, sides)
		}
		for i, n := range s.in {
			if n != nil && n.places != nil {
				p.use(s, sides, i, n)
			}
		}
	}
}

// similar is how far apart gradients may be that ranks compute from the same values, in units of the last place.
const similar = 2

// gradientKinds says how the gradients that the ranks have of a value lie, by dimension of the mesh; 0 for zeros.
func (p *part) gradientKinds(values map[int]*array, places []place) []kind {
	zero := !slices.ContainsFunc(p.ranks, func(r int) bool { return !values[r].zero() })
	out := make([]kind, len(p.dims))
	for m, q := range places {
		switch {
		case zero:
		case q.kind == sharded:
			out[m] = sharded
		case p.equal(m, values, similar*values[p.ranks[0]].dtype.Eps()):
			out[m] = replicated
		case p.begins() && p.alike(m, values): // of replicas that moved apart
			out[m] = replicated
		default:
			out[m] = partial
		}
	}
	return out
}

// use notes the gradient that a call gives one of its arguments.
func (p *part) use(s *site, sides map[int]*side, i int, n *info) {
	values := p.column(sides, func(d *side) *array { return d.gradIns[i] })
	if values == nil {
		return
	}
	u := use{site: s, number: i, kinds: p.gradientKinds(values, n.places), origin: make([]*site, len(p.dims))}
	for m, k := range u.kinds {
		if k == replicated && n.places[m].kind == replicated && s.sharesOut(m, sharded) {
			k, u.kinds[m] = partial, partial
		}
		if k == partial {
			u.origin[m] = p.originOf(s, m)
		}
	}
	n.uses = append(n.uses, u)
}

// sharesOut reports whether the ranks along a dimension of the mesh have parts of some kinds of the result of a
// call that they compute by themselves: the gradients that these give whole values add up, also where they are
// equal.
func (s *site) sharesOut(m int, as ...kind) bool {
	return !s.seam && s.inner == nil && slices.ContainsFunc(s.out, func(n *info) bool {
		return n != nil && !n.lost && n.sharedOut(m, as)
	})
}

func (n *info) sharedOut(m int, as []kind) bool {
	return n.own || n.places != nil && slices.Contains(as, n.places[m].kind)
}

// kinds says how the gradients lie that the ranks have of a parameter, by dimension of the mesh.
func (p *part) kinds(g *gradient, places []place) []kind {
	out := p.gradientKinds(g.sum, places)
	for m, k := range out {
		if k == replicated && places[m].kind == replicated && !slices.ContainsFunc(g.calls, func(c contribution) bool {
			return c.terms != nil && len(c.terms) == 0 ||
				!p.addsAlong(m, c.terms) && !c.site.sharesOut(m, sharded, partial)
		}) {
			out[m] = partial
		}
	}
	return out
}

// addsAlong reports whether ranks that add up are more than one of a group along a dimension of the mesh.
func (p *part) addsAlong(m int, ranks []int) bool {
	return slices.ContainsFunc(p.dims[m].groups, func(g []int) bool {
		some := slices.DeleteFunc(slices.Clone(g), func(r int) bool { return !slices.Contains(ranks, r) })
		return len(some) > 1
	})
}

// originOf is the call that made the gradient of the results of s a partial sum: s if it did.
func (p *part) originOf(s *site, m int) *site {
	for _, o := range s.out {
		if o == nil {
			continue
		}
		for _, u := range o.uses {
			if u.kinds[m] == partial && u.origin[m] != nil {
				return u.origin[m]
			}
		}
	}
	return s
}

// mixed finds a value whose gradient is the sum of a whole one and of a partial sum.
func (p *part) mixed(s *site, sides map[int]*side, j int, n *info) {
	for m, d := range p.dims {
		var some, all []use
		for _, u := range p.usesOf(n) {
			switch u.kinds[m] {
			case partial:
				some = append(some, u)
			case replicated:
				all = append(all, u)
			}
		}
		if len(some) == 0 || len(all) == 0 || p.astray(n) || n.guess || len(some)+len(all) > 8 {
			continue
		}
		want := p.column(sides, func(d *side) *array { return d.gradOuts[j] })
		if want == nil || !p.adds(want, some, all) {
			continue
		}
		if made := all[0].site; p.sumsGradients(m, s, j, 0) && p.sumsGradients(m, made, 0, all[0].number) {
			p.found(true, &violation{kind: "scale", site: made, ranks: p.ranks, backward: true, target: "grad[0]",
				cause: p.begins(),
				reason: fmt.Sprintf("its backward pass adds up the gradients of ranks %s, and that of %s adds up the sum again, "+
					"with the gradient of %s, which is a partial sum: one of both is too many", rankList(d.groups[0]),
					s.first(p.ranks), some[0].site.first(p.ranks))})
			n.lost = true
			return
		}
		o := some[0].origin[m]
		p.found(true, &violation{kind: "collective", site: o, ranks: p.ranks, backward: true, target: "grad[0]",
			cause: p.begins(),
			reason: fmt.Sprintf("the gradient of its argument is a partial sum over ranks %s. It is added to the "+
				"replicated "+
				"gradient of %s without an all_reduce between these ranks", rankList(d.groups[0]), s.first(p.ranks))})
		n.lost = true
		return
	}
}

// usesOf are the uses of a value, with those of views of it that functions return: which of both a call reads is not
// known.
func (p *part) usesOf(n *info) []use {
	out := slices.Clone(n.uses)
	for _, u := range n.uses {
		for k, o := range u.site.out {
			if o == nil || o == n || !u.site.seam && u.site.inner == nil {
				continue
			}
			if sides := p.read(u.site); sides != nil && !slices.ContainsFunc(p.ranks, func(r int) bool {
				a := sides[r].ins[u.number]
				return a.address == 0 || a.address != sides[r].outAddress(k) || !a.array.near(sides[r].outs[k], 0)
			}) {
				out = append(out, o.uses...)
			}
		}
	}
	return out
}

// sumsGradients reports whether the backward pass of a function gives argument i the sum over the ranks, along a
// dimension of the mesh, of the gradients that these have of result j, and the ranks have different ones.
func (p *part) sumsGradients(m int, s *site, j, i int) bool {
	sides := p.read(s)
	if sides == nil || !s.seam && s.inner == nil {
		return false
	}
	given := p.column(sides, func(d *side) *array { return d.gradOuts[j] })
	made := p.column(sides, func(d *side) *array { return d.gradIns[i] })
	if given == nil || made == nil || p.equal(m, given, 0) {
		return false
	}
	sums := p.summed(m, given)
	return !slices.ContainsFunc(p.ranks, func(r int) bool {
		return !made[r].near(sums[r], made[r].rounding(p.dims[m].size))
	})
}

// adds reports whether the gradient of a value is what some of its readers gave, of both sorts.
func (p *part) adds(want map[int]*array, some, all []use) bool {
	uses := slices.Concat(some, all)
	given := make([]map[int]*array, len(uses))
	for i, u := range uses {
		sides := p.read(u.site)
		if sides == nil {
			return false
		}
		given[i] = p.column(sides, func(d *side) *array { return d.gradIns[u.number] })
	}
	for set := 1; set < 1<<len(uses); set++ {
		if low := set & (1<<len(some) - 1); low == 0 || set>>len(some) == 0 {
			continue
		}
		fits := true
		for _, r := range p.ranks {
			total, size := want[r].zeros(), 0.0
			for i, g := range given {
				if set>>i&1 == 1 {
					if len(g[r].x) != len(total.x) {
						return false
					}
					total = total.plus(g[r].reshaped(total.shape))
					size += g[r].largest()
				}
			}
			fits = fits && nearly(total.x, want[r].x, 4*float64(len(uses))*want[r].dtype.Eps()*size)
		}
		if fits {
			return true
		}
	}
	return false
}

// dual is where the gradient of a value lies: nil if it cannot lie so.
func (p *part) dual(values map[int]*array, places []place) []place {
	out := slices.Clone(places)
	for m, k := range p.gradientKinds(values, places) {
		out[m].factor = 1
		switch {
		case places[m].kind == sharded:
		case places[m].kind == replicated && k == partial:
			out[m].kind = partial
		case k == partial:
			return nil
		default:
			out[m].kind = replicated
		}
	}
	return out
}

// passGradient checks that the gradient that the ranks have together is the same on both sides of a call that passes
// values from rank to rank.
func (p *part) passGradient(s *site, sides map[int]*side) {
	if len(s.in) == 0 || len(s.out) != 1 || slices.ContainsFunc([]*info{s.in[0], s.out[0]}, func(n *info) bool {
		return n == nil || n.places == nil || n.guess || p.astray(n)
	}) {
		return
	}
	given := p.column(sides, func(d *side) *array { return d.gradOuts[0] })
	made := p.column(sides, func(d *side) *array { return d.gradIns[0] })
	if given == nil || made == nil {
		return
	}
	ranks := rankList(p.ranks)
	broken := func(kind, why string) {
		p.found(true, &violation{kind: kind, site: s, ranks: p.ranks, backward: true, target: "grad[0]", reason: why,
			cause: p.begins()})
		s.in[0].lost = true
	}
	from, to := p.dual(given, s.out[0].places), p.dual(made, s.in[0].places)
	if from == nil || !p.keepsOrder(s, sides) {
		return // it shows where it was made
	}
	if o := p.lateOrigin(s); to == nil && o != nil {
		p.found(true, &violation{kind: "collective", site: o, ranks: p.ranks, backward: true, target: "grad[0]",
			cause: p.begins(),
			reason: fmt.Sprintf("the gradient of its argument is a partial sum over ranks %s. It reaches %s, whose ranks "+
				"need the same gradient, without an all_reduce", ranks, s.first(p.ranks))})
		s.in[0].lost = true
		return
	}
	if to == nil {
		broken("collective", fmt.Sprintf("its argument is a partial sum over ranks %s, so that all need the same "+
			"gradient; its "+
			"backward pass gives each another", ranks))
		return
	}
	want, got := p.join(given, from), p.join(made, to)
	if p.begins() || want == nil || got == nil || len(want.x) != len(got.x) {
		return
	}
	got = got.reshaped(want.shape)
	scale := 0.0
	for _, r := range p.ranks {
		scale += given[r].largest()
	}
	tolerance := 16 * want.dtype.Eps()
	if nearly(got.x, want.x, tolerance*scale) {
		return
	}
	if k, ok := got.ratio(want, max(1e-3, tolerance)); ok {
		if p.adjoint(s, k) || p.meansGradient(s, k) {
			return
		}
		broken("scale", fmt.Sprintf("its backward pass makes the gradient %.4g times as large: ranks %s add up what "+
			"all of them "+
			"already have", k, ranks))
		return
	}
	broken("collective", fmt.Sprintf("the gradient that ranks %s have of its argument is not that of its result: "+
		"its backward pass "+
		"leaves out or mixes up parts of the ranks", ranks))
}

// loseGradient finds a partial sum that the program adds up over the ranks by an all_reduce outside of autograd, as one
// in place under no_grad is, and goes back through: the gradient of a sum is the same for all its terms, and each rank
// keeps what it made of the sum itself.
func (p *part) loseGradient(s *site, sides map[int]*side) {
	for j, n := range s.out {
		given := p.column(sides, func(d *side) *array { return d.gradOuts[j] })
		if n == nil || n.places == nil || n.guess || p.astray(n) || given == nil {
			continue
		}
		for m, q := range n.places {
			if q.kind != partial || p.equal(m, given, 4*given[p.ranks[0]].tolerance()) {
				continue
			}
			by := p.addedOutside(s, j)
			if by == nil {
				continue
			}
			p.found(true, &violation{kind: "collective", site: by, ranks: p.ranks, backward: true, target: "input[0]",
				cause: p.begins(),
				reason: fmt.Sprintf("it adds up over ranks %s what %s gave, outside of autograd: the backward pass has no "+
					"all_reduce for it, and each rank keeps the gradient that it made of the sum itself",
					rankList(p.dims[m].groups[0]), s.first(p.ranks))})
			return
		}
	}
}

// addedOutside is the all_reduce without a backward pass that adds up result j of a call; nil if there is none.
func (p *part) addedOutside(s *site, j int) *site {
	for _, t := range p.sites {
		if collective.Name(t.op) == "all_reduce" && !slices.ContainsFunc(p.ranks, func(r int) bool {
			c, from := t.calls[r], s.calls[r]
			if c == nil || c.HasBackward() || len(c.Inputs) == 0 || len(from.Outputs) <= j {
				return true
			}
			d, err := p.checker.load(c)
			return err != nil || !reducesPlainly(d) || c.Inputs[0].From.Value != from.Outputs[j]
		}) {
			return t
		}
	}
	return nil
}

// keepsOrder reports whether the results of an exchange make the whole of its argument with the elements in the same
// order. They do not where its chunks were stacked, along another dimension than the first, say.
func (p *part) keepsOrder(s *site, sides map[int]*side) bool {
	x := p.join(p.column(sides, func(d *side) *array { return d.ins[0].array }), s.in[0].places)
	y := p.join(p.column(sides, func(d *side) *array { return d.outs[0] }), s.out[0].places)
	return x == nil || y == nil || len(x.x) != len(y.x) ||
		y.near(x.reshaped(y.shape), 4*sides[p.ranks[0]].ins[0].array.rounding(len(p.ranks)))
}

// lateOrigin is the call behind s that made the gradient of its result a partial sum; nil if s did.
func (p *part) lateOrigin(s *site) *site {
	for m := range p.dims {
		if o := p.originOf(s, m); o != s {
			return o
		}
	}
	return nil
}

// destinations says which rank got the argument of each as its result; nil if each kept its own, or it is not clear.
func (p *part) destinations(sides map[int]*side) map[int]int {
	to := map[int]int{}
	for _, r := range p.ranks {
		x := sides[r].ins[0].array
		for _, q := range p.ranks {
			if !x.near(sides[q].outs[0], 0) {
				continue
			}
			if _, two := to[r]; two || q == r || x.constant() {
				return nil
			}
			to[r] = q
		}
		if _, some := to[r]; !some {
			return nil
		}
	}
	return to
}

// collect adds up the gradients of parameters.
func (p *part) collect(s *site, sides map[int]*side) {
	lead := sides[p.ranks[0]]
	for i, a := range lead.ins {
		if a.name == "" || !a.tensor.RequiresGrad {
			continue
		}
		values := p.column(sides, func(d *side) *array { return d.gradIns[i] })
		if values == nil {
			continue
		}
		values = p.ownParts(values, p.column(sides, func(d *side) *array { return d.ins[i].array }))
		g := p.grads[a.name]
		if g == nil {
			g = &gradient{names: map[int]string{}, address: map[int]uint64{}, sum: map[int]*array{},
				value: map[int]*array{}}
			p.grads[a.name] = g
			p.order = append(p.order, a.name)
		}
		for _, r := range p.ranks {
			g.names[r], g.address[r] = sides[r].ins[i].name, sides[r].ins[i].address
			g.value[r] = sides[r].ins[i].array
			if g.sum[r] == nil {
				g.sum[r] = values[r]
			} else if slices.Equal(g.sum[r].shape, values[r].shape) {
				g.sum[r] = g.sum[r].plus(values[r])
			}
		}
		var terms []int
		if i < len(lead.terms) {
			terms = lead.terms[i]
		}
		g.calls = append(g.calls, contribution{s, i, values, terms})
	}
}

// ownParts are the parts of gradients that belong to the values of the ranks, where DTensor gives each rank that
// of the whole of a value of which it has a part.
func (p *part) ownParts(gradients, values map[int]*array) map[int]*array {
	out := map[int]*array{}
	for _, r := range p.ranks {
		out[r] = gradients[r]
		for m, d := range p.dims {
			g, v := out[r], values[r]
			if len(g.shape) != len(v.shape) || p.equal(m, values, 0) {
				continue
			}
			for k, n := range v.shape {
				from, all := 0, 0
				for _, o := range d.of(r) {
					if o == r {
						from = all
					}
					if k < len(values[o].shape) {
						all += values[o].shape[k]
					}
				}
				if g.shape[k] == all && all > n {
					out[r] = g.narrow(k, from, n)
					break
				}
			}
		}
	}
	return out
}

// A gradient is what the calls gave one parameter.
type gradient struct {
	names   map[int]string // by rank: experts have others
	address map[int]uint64
	value   map[int]*array
	sum     map[int]*array
	unit    float64 // how many times as large as sum the terms are that the right gradient is made of
	calls   []contribution
	// read is the gradient that the first rank's update reads.
	read   *array
	update *step.Call
}

type contribution struct {
	site   *site
	number int
	values map[int]*array
	terms  []int // see side.terms
}

// lossFactor is the factor by which the loss that the ranks have together is too large, by dimension of the mesh; nil
// if it is not known.
func (p *part) lossFactor() []float64 {
	out := make([]float64, len(p.dims))
	losses := p.losses()
	if c := p.checker; len(losses) == 0 && p.partial && len(c.factors) == len(out) && len(out) > 0 {
		return c.factors
	}
	for _, s := range losses {
		s = p.scaled(s, len(losses))
		if len(s.out) == 0 || !s.out[0].sound() {
			return nil
		}
		for m, q := range s.out[0].places {
			if out[m] != 0 && out[m] != q.factor {
				return nil
			}
			out[m] = q.factor
		}
	}
	if slices.Contains(out, 0) {
		return nil
	}
	p.asMeans(losses, out)
	return out
}

// asMeans takes losses for means if each is a sum that is divided by the mean of the ranks' counts: these are as many
// times too large as there are ranks.
func (p *part) asMeans(losses []*site, factors []float64) {
	var over []int
	n := 1.0
	for m, d := range p.dims {
		if factors[m] == 1 && len(losses) > 0 && losses[0].out[0].places[m].kind == partial {
			over, n = append(over, m), n*float64(d.size)
		}
	}
	calls := p.lossCalls()
	if len(over) == 0 {
		return
	}
	if d := p.checker.reducing(calls[0]); d == nil || !d.sums() {
		return
	}
	divisor, terms := p.checker.divisor(calls[0]), p.terms(calls)
	is := func(x float64) bool {
		return slices.ContainsFunc(terms, func(n float64) bool { return n > 1 && math.Abs(x/n-1) < 1e-6 })
	}
	if divisor <= 1 || is(divisor) || !is(divisor*n) {
		return
	}
	for _, m := range over {
		factors[m] = float64(p.dims[m].size)
	}
	p.means = calls[0]
}

// losses are the calls that made what the backward passes began with.
func (p *part) losses() (out []*site) {
	for _, s := range p.sites {
		if c := s.first(p.ranks); c.Step != nil && c.Step.Loss == c {
			out = append(out, s)
		}
	}
	return out
}

// scaled is the call that gives the loss its last factor: s, or one that divides its result by the number of ranks. A
// quotient by the number of losses is their mean.
func (p *part) scaled(s *site, losses int) *site {
	for _, t := range p.sites[slices.Index(p.sites, s)+1:] {
		if len(t.in) != 1 || len(t.out) != 1 || len(s.out) == 0 || s.out[0] == nil || t.in[0] != s.out[0] ||
			t.out[0] == nil || t.first(p.ranks).Entry.BackwardOrder < 0 {
			continue
		}
		d, err := p.checker.load(t.first(p.ranks))
		if err != nil || len(d.rec.Args) != 2 {
			continue
		}
		if k, ok := numberOf(d.rec.Args[1]); !ok || losses > 1 && (k == float64(losses) || k*float64(losses) == 1) {
			continue
		}
		s = t
	}
	return s
}

// solve finds the numbers with which vectors add up to y, least squares; ok is false where they do not, or have other
// lengths.
func solve(basis [][]float64, y []float64, tolerance float64) (k []float64, ok bool) {
	if slices.ContainsFunc(basis, func(b []float64) bool { return len(b) != len(y) }) {
		return nil, false
	}
	n := len(basis)
	a := make([][]float64, n)
	for i := range basis {
		a[i] = make([]float64, n+1)
		for j := range basis {
			a[i][j] = dot(basis[i], basis[j])
		}
		a[i][n] = dot(basis[i], y)
	}
	for i := range n {
		best := i
		for r := i; r < n; r++ {
			if math.Abs(a[r][i]) > math.Abs(a[best][i]) {
				best = r
			}
		}
		a[i], a[best] = a[best], a[i]
		if math.Abs(a[i][i]) < 1e-9*dot(basis[i], basis[i]) || a[i][i] == 0 {
			return nil, false // they depend on each other
		}
		for r := range n {
			if r != i {
				f := a[r][i] / a[i][i]
				for c := i; c <= n; c++ {
					a[r][c] -= f * a[i][c]
				}
			}
		}
	}
	k = make([]float64, n)
	size := 0.0 // of the largest term
	for i := range n {
		k[i] = a[i][n] / a[i][i]
		for _, v := range basis[i] {
			size = max(size, math.Abs(k[i]*v))
		}
	}
	for e := range y {
		d := y[e]
		for i := range n {
			d -= k[i] * basis[i][e]
		}
		if !(math.Abs(d) <= tolerance*size) {
			return k, false
		}
	}
	return k, true
}

func dot(x, y []float64) (s float64) {
	for i := range x {
		s += x[i] * y[i]
	}
	return s
}
