package parallel

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
)

// An update is a call behind the backward pass that reads a parameter, with what else it reads of the parameter's
// shape.
type update struct {
	call     *step.Call
	gradient *array // nil if it reads none
	address  uint64 // where the gradient lies
	terms    []int  // the ranks whose gradients add up to it, of a DTensor that is a partial sum; nil if it is none
	mean     bool   // it is the mean of these
	before   *array // the parameter before it; nil if it is not known
	result   *array // the parameter after it
}

// A tail is what a rank does behind its backward pass.
type tail struct {
	updates   map[string][]update
	others    map[string]map[uint64]*array // by shape and address: what calls read last that is no parameter
	exchanges []exchanged
	scalings  []exchanged
	norms     bool
	flat      []flatCall
	at        map[uint64]string // the parameters with gradients, by address
	shape     map[string][]int  // of these
	writes    map[string][]write
	roots     []root
	across    []across
	wrote     map[uint64][]*step.Call // that left a value in an argument, by its sum
}

// An exchanged is a call behind the backward pass and the largest value that it reads.
type exchanged struct {
	call    *step.Call
	x       []float64
	address uint64 // where it lies; 0 if that is not known
}

// An across is what a rank has in place before and after a sum over ranks of other stages.
type across struct{ before, after *array }

// noteAcross notes a sum over ranks of other stages than those of the part.
func (t *tail) noteAcross(c *step.Call, d *side, ranks []int) {
	if collective.Name(c.Op) == "all_reduce" && len(d.after) == 1 && d.after[0] != nil && len(d.after[0].x) > 1 &&
		slices.ContainsFunc(c.Entry.Group, func(r int) bool { return !slices.Contains(ranks, r) }) {
		t.across = append(t.across, across{d.ins[0].array, d.after[0]})
	}
}

// A root is one number that can be a norm: a root or norm, or that of what ranks added up.
type root struct {
	call *step.Call
	x    float64
	// slack is how far it may be off by the rounding of its terms, relative to it.
	slack float64
}

// noteRoots notes what a call gives that can be a norm. Of a DTensor each rank has a part of the squares.
func (t *tail) noteRoots(c *step.Call, d *side) {
	if d.rec.Placed != "" {
		return
	}
	note := func(a *array, f func(float64) float64) {
		if a != nil && len(a.x) == 1 && a.dtype.IsFloat() {
			t.roots = append(t.roots, root{c, f(a.x[0]), max(2e-3, 2*a.dtype.Eps())})
		}
	}
	itself := func(x float64) float64 { return x }
	switch m := method(c.Op); {
	case (m == "sqrt" || strings.Contains(m, "norm") || m == "pow") && len(d.outs) == 1:
		note(d.outs[0], itself)
	case collective.Name(c.Op) == "all_reduce" && len(d.after) > 0:
		note(d.after[0], itself)
		note(d.after[0], math.Sqrt)
	}
}

// tailOf reads what a rank does behind its backward pass.
func (p *part) tailOf(rank int) *tail {
	t := &tail{updates: map[string][]update{}, others: map[string]map[uint64]*array{}, at: map[uint64]string{},
		shape: map[string][]int{}, writes: map[string][]write{}, wrote: map[uint64][]*step.Call{}}
	for _, n := range p.order {
		g := p.grads[n]
		t.at[g.address[rank]], t.shape[g.names[rank]] = g.names[rank], g.value[rank].shape
	}
	for _, c := range p.tailCalls(rank) {
		t.norms = t.norms || strings.Contains(c.Op, "norm") ||
			method(c.Op) == "sqrt" && len(c.Outputs) == 1 && numel(c.Outputs[0].Shape) == 1 && !ofSquares(c)
		d, err := p.checker.load(c)
		if err != nil {
			continue
		}
		t.flat = append(t.flat, flatOf(c, d))
		t.noteUpdates(c, d)
		t.noteWrites(c, d)
		t.noteCovered(c, d)
		t.noteWritten(c, d)
		t.noteRoots(c, d)
		t.noteAcross(c, d, p.ranks)
		largest, address := t.noteOthers(d)
		switch m := method(c.Op); {
		case isExchange(c.Op):
			if all := listed(c, d); all != nil {
				largest, address = all, 0
			}
			t.exchanges = append(t.exchanges, exchanged{c, largest, address})
		case slices.Contains([]string{"div", "mul", "foreach_div", "foreach_mul", "truediv"}, m) && largest != nil:
			t.scalings = append(t.scalings, exchanged{c, largest, address})
		}
	}
	return t
}

// listed are the elements of the parts that a reduce_scatter is given as a list; nil of any other call.
func listed(c *step.Call, d *side) (all []float64) {
	if collective.Name(c.Op) != "reduce_scatter" || len(d.ins) != 1+len(c.Entry.Group) || len(d.ins) < 3 {
		return nil
	}
	for _, a := range d.ins[1:] {
		all = append(all, a.array.x...)
	}
	return all
}

// ofSquares reports whether a call reads what an optimizer keeps of the squares of a gradient: a call with two of them
// made it, in place.
func ofSquares(c *step.Call) bool {
	from := c.Inputs[0].From.Value
	return from != nil && strings.HasSuffix(from.Call.Op, "_") && len(from.Call.Inputs) == 3
}

// tailCalls are the calls of a rank behind its backward pass, in its order.
func (p *part) tailCalls(rank int) (out []*step.Call) {
	for _, s := range p.tail {
		if c := s.calls[rank]; c != nil {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b *step.Call) int { return cmp.Compare(a.Order, b.Order) })
	return out
}

// noteUpdates notes what a call reads and makes of parameters.
func (t *tail) noteUpdates(c *step.Call, d *side) {
	named, copies := 0, strings.Contains(method(c.Op), "copy") // what is copied is the new value
	for _, a := range d.ins {
		if a.name != "" || a.tensor.Parameter {
			named++
		}
	}
	for i, a := range d.ins {
		if a.name == "" {
			continue
		}
		u := update{call: c, before: a.array, result: d.after[i]}
		if !copies {
			if g := d.gradientBeside(i, named); g != nil {
				u.gradient, u.address, u.terms, u.mean = g.array, g.address, g.terms, g.mean
			}
		}
		switch {
		case u.result != nil:
		case i < len(d.outs) && slices.Equal(d.outs[i].shape, a.array.shape) && d.outs[i].sum() != a.array.sum() &&
			d.returns(i):
			u.result = d.outs[i]
		case copies && i == 0:
			u.result = a.array // it left the parameter as it was
		}
		if u.gradient != nil || u.result != nil {
			t.updates[a.name] = append(t.updates[a.name], u)
		}
	}
}

// gradientBeside is the first argument that belongs to parameter i and has its shape; nil if there is none. Lists of
// parameters come before those of gradients; weight decay has them the other way around.
func (d *side) gradientBeside(i, named int) *argument {
	for _, k := range beside(i, named, len(d.ins), adds(d.call.Op)) {
		b := d.ins[k]
		if b.name == "" && (slices.Equal(b.array.shape, d.ins[i].array.shape) || d.placed(i) && d.placed(k) &&
			b.array.covers(d.ins[i].array)) {
			return &b
		}
	}
	return nil
}

// placed reports whether an argument is a DTensor.
func (d *side) placed(i int) bool {
	_, ok := d.rec.Terms[d.ins[i].tensor]
	return ok
}

// covers reports whether an array can be the whole of which another is a part.
func (a *array) covers(b *array) bool {
	return len(a.shape) == len(b.shape) && !slices.ContainsFunc(upTo(len(a.shape)), func(k int) bool {
		return a.shape[k] < b.shape[k]
	})
}

// cutWhole gives updates the part of a gradient that belongs to the rank's part of a parameter, where DTensor gives
// them the gradient of the whole. That is not known where it is no part of the ranks' values together.
func (p *part) cutWhole(tails map[int]*tail) {
	for _, name := range p.order {
		g := p.grads[name]
		for k := 0; ; k++ {
			all := map[int]*array{}
			for _, r := range p.ranks {
				if us := tails[r].updates[g.names[r]]; k < len(us) && us[k].gradient != nil {
					all[r] = us[k].gradient
				}
			}
			if len(all) < len(p.ranks) {
				break
			}
			for r, a := range p.ownParts(all, g.value) {
				if u := &tails[r].updates[g.names[r]][k]; slices.Equal(a.shape, g.value[r].shape) || u.before == nil ||
					slices.Equal(a.shape, u.before.shape) {
					u.gradient = a
				} else {
					u.gradient = nil
				}
			}
		}
	}
}

// addTerms makes the gradients whole that updates read as partial sums: DTensor adds them up inside of the update.
func (p *part) addTerms(tails map[int]*tail) {
	whole := map[*update]*array{}
	for _, r := range p.ranks {
		for n, us := range tails[r].updates {
			for k := range us {
				if us[k].terms != nil {
					all := termsOf(tails, n, k, us[k].terms)
					if all != nil && us[k].mean {
						all = all.times(1 / float64(len(us[k].terms)))
					}
					whole[&us[k]] = all
				}
			}
		}
	}
	for u, a := range whole {
		u.gradient = a
	}
}

// termsOf is the sum of the gradients that update k of a parameter reads on some ranks; nil if one is not known.
func termsOf(tails map[int]*tail, name string, k int, ranks []int) (sum *array) {
	for _, r := range ranks {
		if tails[r] == nil || k >= len(tails[r].updates[name]) || tails[r].updates[name][k].gradient == nil {
			return nil
		}
		if g := tails[r].updates[name][k].gradient; sum == nil {
			sum = g
		} else if slices.Equal(sum.shape, g.shape) {
			sum = sum.plus(g)
		}
	}
	return sum
}

// noteOthers notes the arguments of a call that are no parameters, and gives the elements of the largest and where they
// lie.
func (t *tail) noteOthers(d *side) (largest []float64, address uint64) {
	for _, a := range d.ins {
		if a.name != "" {
			continue
		}
		key := fmt.Sprint(a.array.shape)
		if t.others[key] == nil {
			t.others[key] = map[uint64]*array{}
		}
		t.others[key][a.address] = a.array
		if len(a.array.x) > len(largest) {
			largest, address = a.array.x, a.address
		}
	}
	return largest, address
}

// adds reports whether an optimizer adds what an operator reads to parameters, or the decay of weights to gradients.
func adds(op string) bool {
	return slices.Contains([]string{"add", "sub", "foreach_add", "foreach_sub"}, method(op))
}

// returns reports whether a call works in place: result i is argument i.
func (d *side) returns(i int) bool {
	return strings.HasSuffix(d.call.Op, "_") || d.ins[i].address != 0 && d.ins[i].address == d.outAddress(i)
}

// passes reports whether a rank exchanges a value by itself: a parameter that another rank updates, say. One of zeros
// is not told from others by its elements.
func (t *tail) passes(a *array, address uint64) bool {
	return slices.ContainsFunc(t.exchanges, func(e exchanged) bool {
		return slices.Equal(e.x, a.x) && (e.address == 0 || address == 0 || e.address == address || !a.constant())
	})
}

// beside are the places at which the arguments of lists of one size stand for the same parameter as place i: behind it,
// then, if back, before it.
func beside(i, size, all int, back bool) (out []int) {
	for k := i + size; k < all; k += size {
		out = append(out, k)
	}
	for k := i - size; back && k >= 0; k -= size {
		out = append(out, k)
	}
	return out
}

// parameters checks what the optimizer reads: the gradient of the whole program, the same on all ranks that hold a
// parameter.
func (p *part) parameters() {
	if len(p.broken) > 0 {
		return
	}
	tails := map[int]*tail{}
	for _, r := range p.ranks {
		tails[r] = p.tailOf(r)
	}
	p.tails = tails
	p.addTerms(tails)
	p.cutWhole(tails)
	p.merge(tails)
	p.roundAsSent(tails)
	for _, r := range p.ranks {
		for _, n := range slices.Sorted(maps.Keys(tails[r].updates)) {
			p.step = cmp.Or(p.step, tails[r].updates[n][0].call)
		}
	}
	for _, name := range p.order {
		p.accumulated(p.grads[name], tails)
	}
	if roots := tails[p.ranks[0]].roots; len(roots) > 0 {
		p.norm = roots[len(roots)-1].call
	}
	factors := p.lossFactor()
	p.checker.factors, p.factors = factors, factors
	p.updates(tails, factors)
	if p.doubled != nil {
		p.halved(tails, factors)
	} else if first := p.broken; len(first) > 0 && factors != nil {
		if p.by = p.meant(p.off); p.by == nil {
			return
		}
		p.by.call, p.broken = first[0].call, nil
		if p.updates(tails, factors); len(p.broken) > 0 && p.broken[0].kind == "scale" {
			p.broken, p.by = first, nil
		}
	}
}

// roundAsSent gives the gradients that the calls made the dtype in which ranks add them up, if that is narrower: a hook
// of DDP can send them in 16 bits. They are no more exact then.
func (p *part) roundAsSent(tails map[int]*tail) {
	for _, r := range p.ranks {
		least := math.MaxInt
		for _, n := range p.order {
			least = min(least, len(p.grads[n].sum[r].x))
		}
		for _, e := range tails[r].exchanges {
			if name := collective.Name(e.call.Op); len(e.x) < least || !strings.Contains(name, "reduce") {
				continue
			}
			sent := e.call.Inputs[0].DType
			for _, n := range p.order {
				if a := p.grads[n].sum[r]; sent.IsFloat() && sent.Eps() > a.dtype.Eps() && len(a.x) <= len(e.x) {
					p.grads[n].sum[r] = &array{sent, a.shape, a.x}
				}
			}
		}
	}
}

// halved checks the gradients of a program of which an exchange adds up gradients that all ranks have in whole:
// those of the parameters before it must be divided by the number of ranks. Where each rank divides the whole loss by
// that number, the gradients are parts of a sum, and those of the other parameters must be added up.
func (p *part) halved(tails map[int]*tail, factors []float64) {
	first := p.broken
	if p.doubled.averagedAway(factors) {
		return
	}
	if p.dealtLoss(p.doubled.k) {
		others := map[string]bool{}
		for _, n := range p.order {
			others[n] = !p.doubled.before[n]
		}
		if p.rightBy(&multiple{k: p.doubled.k, call: p.step, of: others}, tails, factors) {
			return
		}
	}
	right := p.rightBy(&multiple{k: 1 / p.doubled.k, call: p.step, of: p.doubled.before}, tails, factors)
	switch {
	case right && slices.ContainsFunc(slices.Collect(maps.Keys(p.doubled.before)), p.isCompared):
	case !right && p.broken[0].kind != "scale" && len(first) > 0 && first[0].kind == p.broken[0].kind:
		p.broken = first // that one is there either way
	default:
		p.broken = append([]*violation{p.doubled.says}, first...)
	}
}

// rightBy reports whether all gradients are right if some are a multiple of those of the loss.
func (p *part) rightBy(by *multiple, tails map[int]*tail, factors []float64) bool {
	p.broken, p.by = nil, by
	p.updates(tails, factors)
	p.by = nil
	return len(p.broken) == 0
}

// dealtLoss reports whether all ranks have the same loss, and each divides it by k, the number of ranks.
func (p *part) dealtLoss(k float64) bool {
	losses := p.losses()
	return len(losses) > 0 && !slices.ContainsFunc(losses, func(s *site) bool {
		t := p.scaled(s, len(losses))
		return len(t.dealt) == 0 || !t.out[0].sound() || slices.ContainsFunc(t.out[0].places, func(q place) bool {
			return q.kind != replicated
		}) || p.scaledDown(t) != k
	})
}

// scaledDown is the number by which a call divides; 0 if it does something else.
func (p *part) scaledDown(s *site) float64 {
	d, err := p.checker.load(s.first(p.ranks))
	if err != nil {
		return 0
	}
	k, _ := d.operand()
	if m := method(s.op); strings.HasSuffix(m, "mul") || m == "multiply" {
		k = 1 / k
	}
	return k
}

// merge takes parameters that lie at one place, with the same elements, for one that has several names.
func (p *part) merge(tails map[int]*tail) {
	for i := range p.order {
		for j := len(p.order) - 1; j > i; j-- {
			g, h := p.grads[p.order[i]], p.grads[p.order[j]]
			if slices.ContainsFunc(p.ranks, func(r int) bool {
				return g.address[r] == 0 || g.address[r] != h.address[r] || g.value[r].constant() ||
					!g.value[r].near(h.value[r], 0)
			}) {
				continue
			}
			for _, r := range p.ranks {
				g.sum[r] = g.sum[r].plus(h.sum[r])
				if t := tails[r]; len(t.updates[g.names[r]]) == 0 && len(t.updates[h.names[r]]) > 0 {
					g.names[r] = h.names[r]
				}
			}
			g.calls = append(g.calls, h.calls...)
			p.alias[p.order[j]] = p.order[i]
			p.order = slices.Delete(p.order, j, j+1)
		}
	}
}

// updates checks what the optimizer reads and leaves, for a loss that is too large by factors.
func (p *part) updates(tails map[int]*tail, factors []float64) {
	verdicts := map[string]*judged{}
	for _, name := range p.order {
		if v := p.judgeAny(name, tails, factors); v != nil {
			verdicts[name] = v
		}
	}
	p.flats(tails, factors, verdicts)
	histories := p.histories(verdicts)
	for name, v := range verdicts {
		known := factors != nil && v.scale != nil && !v.left
		p.compared[name] = known && !slices.ContainsFunc(p.ranks, func(r int) bool {
			return math.Abs(v.scale[r]-1) > v.slack && !histories[v.update[r].Process.Rank].clipped(name, v.slack)
		})
	}
	p.clips(histories, tails, verdicts, factors)
	if len(p.broken) == 0 {
		p.partNorms(tails, verdicts)
	}
	if len(p.broken) == 0 {
		p.addedParts(tails)
		if len(p.broken) == 0 {
			p.report(tails, histories, verdicts, factors)
		}
	}
	p.notUpdated(tails)
	p.unreducedShards(tails)
	p.passedOn(tails)
	p.givenApart(tails)
	p.changes(tails)
	p.swappedUpdates(tails, factors)
	p.rates()
	p.apart(tails, verdicts)
	p.movedAway(tails)
}

// accumulated notes the calls that read a gradient in which several backward passes added up.
func (p *part) accumulated(g *gradient, tails map[int]*tail) {
	for _, r := range p.ranks {
		x := g.sum[r].x
		for _, e := range slices.Concat(tails[r].exchanges, tails[r].scalings) {
			if len(e.x) == len(x) && nearly(e.x, x, g.sum[r].tolerance()*g.sum[r].largest()) {
				p.checker.summed[e.call] = true
			}
		}
	}
}

// apart finds replicas that an update makes different though they and their gradients were the same.
func (p *part) apart(tails map[int]*tail, verdicts map[string]*judged) {
	for _, name := range p.order {
		g, v := p.grads[name], verdicts[name]
		if v == nil || len(p.broken) > 0 {
			continue
		}
		after, read := map[int]*array{}, map[int]*array{}
		for _, r := range p.ranks {
			for _, u := range tails[r].updates[g.names[r]] {
				if u.result != nil {
					after[r] = u.result
				}
				if u.gradient != nil && read[r] == nil {
					read[r] = u.gradient
				}
			}
		}
		if len(after) < len(p.ranks) || len(read) < len(p.ranks) {
			continue
		}
		for m, d := range p.dims {
			if !p.equal(m, g.value, 0) || !p.equal(m, read, 0) {
				continue
			}
			for _, group := range d.groups {
				for _, r := range group[1:] {
					x, y, before := after[group[0]], after[r], g.value[r]
					if len(x.x) != len(before.x) || len(y.x) != len(before.x) {
						continue
					}
					step := x.plus(before.times(-1)).largest()
					if difference := x.plus(y.times(-1)).largest(); difference > 0.05*step &&
						difference > 16*x.dtype.Eps()*before.largest() {
						p.found(true, &violation{kind: "replica", call: v.update[r], site: g.calls[0].site,
							ranks: []int{group[0], r}, target: "input[0]", reason: fmt.Sprintf("%s and its gradient "+
								"are the same on ranks %d and %d, and their optimizers make something else of them: "+
								"another learning rate, weight decay or state", name, group[0], r)})
						return
					}
				}
			}
		}
	}
}

// A judged is what became of the gradient of a parameter.
type judged struct {
	scale   map[int]float64 // by rank: how often the right gradient it is; nil if it is something else
	alone   bool            // each rank has what it computed itself, though the others belong to it
	mixes   bool            // it has parts of other ranks that do not belong to it, or lacks some
	twice   bool            // calls count with different numbers
	extreme bool            // it is the largest or smallest of the ranks' gradients
	order   bool            // it has the elements of the right one in another order
	lacks   []int           // dimensions of the mesh over which it is not summed, though it is over others
	want    *array          // the right one of the first rank
	wants   map[int]*array  // the right ones, by rank
	copies  []float64       // how many ranks hold the same, by dimension of the mesh
	many    int             // how many parameters it is of
	factor  map[int]float64 // by rank: how often the right one the update reads itself; nil if it is another
	differ  bool            // replicas read different gradients
	earlier bool            // another call read it so before the update did
	parts   bool            // each rank updates its rows of the parameter
	quiet   bool            // it is nothing but rounding on all ranks, and so near any multiple
	left    bool            // some ranks gave more than their calls made
	few     bool            // some ranks have so few elements of it that they are a multiple of anything
	slack   float64         // how far a scale may be off by rounding
	size    float64         // the sum of squares of the right one, of all ranks
	update  map[int]*step.Call
	address map[int]uint64 // by rank: where the gradient lies that the update reads
}

// tolerances of gradients: what the rounding of a sum over ranks may be, relative to the largest element.
func (a *array) tolerance() float64 { return max(1e-4, 4*a.dtype.Eps()) }

// loose is how far a gradient may be from a multiple or a sum of others, relative to the largest element.
func (a *array) loose() float64 { return min(10*a.tolerance(), 0.05) }

func (p *part) judge(name string, g *gradient, tails map[int]*tail, factors []float64) *judged {
	if p.movedApart() && !slices.ContainsFunc(p.ranks, func(r int) bool {
		return !slices.Equal(g.value[r].shape, g.value[p.ranks[0]].shape)
	}) && !p.replicates(g.value) {
		return nil
	}
	v := &judged{update: map[int]*step.Call{}, address: map[int]uint64{}, many: 1}
	read, owner, absent := map[int]*array{}, -1, []int(nil)
	for _, r := range p.ranks {
		us := tails[r].updates[g.names[r]]
		i := slices.IndexFunc(us, func(u update) bool { return u.gradient != nil })
		if i < 0 {
			absent = append(absent, r)
			continue
		}
		owner, read[r], v.update[r], v.address[r] = r, us[i].gradient, us[i].call, us[i].address
	}
	if owner < 0 {
		return nil
	}
	tails = maps.Clone(tails)
	for _, r := range absent { // another rank updates it, and passes it on
		if !tails[r].passes(g.value[r], g.address[r]) || !slices.Equal(g.value[r].shape, g.value[owner].shape) {
			return nil
		}
		tails[r], read[r], v.update[r] = tails[owner], read[owner], v.update[owner]
	}
	if p.apartFrom && !p.sumsSurely(name, g) {
		return nil
	}
	want, places, copies := p.wanted(name, g, factors)
	for _, r := range p.ranks {
		v.size += dot(want[r].x, want[r].x) / copies
	}
	v.copies = []float64{}
	for m, q := range places {
		v.copies = append(v.copies, 1)
		if q.kind == replicated {
			v.copies[m] = float64(p.dims[m].size)
		}
	}
	found := maps.Clone(read)
	v.parts = p.partly(name, read)
	p.compare(v, g, read, p.updated(want, read), places, tails)
	if !v.explained() {
		v = p.judgeGiven(v, name, g, found, factors, tails)
	}
	if p.unsettled(name, g) && !v.right() {
		return nil // it can be the right one of a part
	}
	return v
}

// unsettled reports whether a parameter that the ranks begin with the same numbers in, such as a bias of zeros, can be
// parts of a whole all the same: no call tells.
func (p *part) unsettled(name string, g *gradient) bool {
	return p.shards[name] == nil && g.value[p.ranks[0]].constant()
}

// wanted is the gradient that each rank should update a parameter with, where the parameter lies, and how many ranks
// hold the same part of it.
func (p *part) wanted(name string, g *gradient, factors []float64) (want map[int]*array, places []place,
	copies float64) {
	places = p.shards[name]
	if places == nil {
		places = p.everywhere(whole)
		for m := range p.dims {
			if !p.equal(m, g.value, 0) {
				places[m] = place{kind: sharded, factor: 1}
			}
		}
	}
	want = map[int]*array{}
	kinds := p.kinds(g, places)
	for _, r := range p.ranks {
		want[r] = g.sum[r]
	}
	copies, g.unit = 1, 1
	for m, k := range kinds {
		size, factor := float64(p.dims[m].size), 1.0
		if places[m].kind == replicated {
			copies *= size
		}
		if factors != nil && k != 0 {
			factor = 1 / factors[m]
		}
		next, sums, adds := map[int]*array{}, p.summed(m, want), k == partial && places[m].kind == replicated
		for _, r := range p.ranks {
			a := want[r]
			if adds {
				a = sums[r]
			}
			next[r] = a.times(factor)
		}
		if g.unit *= factor; adds {
			g.unit *= size
		}
		want = next
	}
	if p.by != nil && (p.by.of == nil || p.by.of[name]) {
		for r, a := range want {
			want[r] = a.times(p.by.k)
		}
		g.unit *= p.by.k
	}
	for r, a := range want {
		want[r] = p.tails[r].withStages(a)
	}
	return want, places, copies
}

// withStages is a gradient with those of other stages that share the parameter, as a table that is the head, too, where
// a rank adds them up.
func (t *tail) withStages(a *array) *array {
	if t == nil || a.zero() {
		return a
	}
	for _, s := range t.across {
		if k, ok := s.before.ratio(a, a.tolerance()); ok && k > 0 && slices.Equal(s.after.shape, a.shape) {
			return s.after.times(1 / k)
		}
	}
	return a
}

// summed adds up the values of each group along a dimension of the mesh.
func (p *part) summed(m int, values map[int]*array) map[int]*array {
	out := map[int]*array{}
	for _, g := range p.dims[m].groups {
		a := values[g[0]]
		for _, r := range g[1:] {
			if !slices.Equal(a.shape, values[r].shape) {
				break // experts have others
			}
			a = a.plus(values[r])
		}
		for _, r := range g {
			out[r] = a
		}
	}
	return out
}

// compare finds how often each rank read the right gradient, or what else it read.
func (p *part) compare(v *judged, g *gradient, read, want map[int]*array, places []place, tails map[int]*tail) {
	first, given := p.ranks[0], maps.Clone(read)
	g.read, g.update, v.want, v.wants = read[first], v.update[first], want[first], want
	for _, r := range p.ranks {
		if a := read[r]; g.sum[r].dtype.Eps() > a.dtype.Eps() {
			read[r] = &array{g.sum[r].dtype, a.shape, a.x} // it is no more exact than what was added up
		}
	}
	if p.averaged() && !slices.ContainsFunc(p.ranks, func(r int) bool {
		_, ok := read[r].ratio(g.sum[r], read[r].loose())
		return !ok
	}) {
		v.alone = true // what the ranks exchange later is no gradient
		return
	}
	if v.order = permuted(read[first], want[first]); v.order {
		return
	}
	v.factor = multiples(read, want)
	for _, r := range p.ranks {
		v.few = v.few || len(want[r].x) < 4
		tolerance := want[r].tolerance()
		if near(read[r], want[r], tolerance, g) {
			read[r] = want[r]
			p.checker.summed[v.update[r]] = true
			continue
		}
		for _, o := range tails[r].others[fmt.Sprint(want[r].shape)] { // an optimizer that makes something of it first
			if o.dtype == given[r].dtype && near(o, want[r], tolerance, g) {
				read[r], v.earlier = want[r], true
				break
			}
		}
	}
	v.slack = max(1e-3, 2*max(read[first].dtype.Eps(), want[first].dtype.Eps())*g.cancels(want))
	p.before(v, read, want, tails)
	v.scale = map[int]float64{}
	for _, r := range p.ranks {
		if read[r] == want[r] {
			v.scale[r] = 1
			continue
		}
		k, ok := read[r].ratio(want[r], want[r].loose())
		if !ok {
			v.scale = nil
			break
		}
		v.scale[r] = k
	}
	v.quiet = g.asOthers(v.scale, want)
	if v.scale != nil {
		p.fewElements(v, g, given, places)
		return
	}
	for m := range p.dims {
		if !v.parts && places[m].kind == replicated && !p.equal(m, given, similar*given[first].dtype.Eps()) {
			v.differ = true
		}
	}
	of := g
	if v.parts {
		of = p.updatedRows(g, read)
	}
	if p.explain(v, of, read, places); v.parts && !v.explained() {
		v.twice = p.counts(g, []*array{p.ofRows(read)})
	}
}

// ofRows is the whole of rows that the ranks have; nil if they do not lie one after the other along the only dimension
// of the mesh.
func (p *part) ofRows(rows map[int]*array) *array {
	if len(p.dims) != 1 || len(p.dims[0].groups) != 1 {
		return nil
	}
	var parts []*array
	for _, r := range p.dims[0].groups[0] {
		parts = append(parts, rows[r])
	}
	return combine(parts, place{kind: sharded, factor: 1})
}

// counts reports whether gradients are sums of what the calls of all ranks gave, some of which count twice or not at
// all.
func (p *part) counts(g *gradient, sums []*array) bool {
	var basis [][]float64
	for _, c := range g.calls {
		for _, r := range p.ranks {
			basis = append(basis, c.values[r].x)
		}
	}
	if len(g.calls) < 2 || len(basis) > 64 {
		return false
	}
	return !slices.ContainsFunc(sums, func(a *array) bool {
		if a == nil || len(a.x) != len(basis[0]) || len(a.x) <= 2*len(basis)+2 { // fewer are a sum of anything
			return true
		}
		k, ok := solve(basis, a.x, a.loose())
		return !ok || !repeats(k)
	})
}

// partly reports whether ranks update parts of a parameter that calls read in whole, as FSDP2 does.
func (p *part) partly(name string, of map[int]*array) bool {
	g := p.grads[name]
	return g != nil && slices.ContainsFunc(p.ranks, func(r int) bool {
		return of[r] != nil && g.value[r] != nil && !slices.Equal(of[r].shape, g.value[r].shape)
	})
}

// updatedRows are the rows of a gradient that each rank updates.
func (p *part) updatedRows(g *gradient, read map[int]*array) *gradient {
	h := *g
	h.sum, h.calls = p.updated(g.sum, read), nil
	for _, c := range g.calls {
		c.values = p.updated(c.values, read)
		h.calls = append(h.calls, c)
	}
	return &h
}

// asOthers takes the scale of other ranks for ranks whose part of the gradient is nothing but rounding, as that of the
// bias of keys before a softmax: it is near any multiple. It reports whether that is so on all ranks.
func (g *gradient) asOthers(scale map[int]float64, want map[int]*array) (all bool) {
	tells, quiet := math.NaN(), []int(nil)
	for _, r := range slices.Sorted(maps.Keys(scale)) {
		if near(want[r].zeros(), want[r], want[r].tolerance(), g) {
			quiet = append(quiet, r)
		} else if math.IsNaN(tells) {
			tells = scale[r]
		}
	}
	for _, r := range quiet {
		if !math.IsNaN(tells) {
			scale[r] = tells
		}
	}
	return len(scale) > 0 && math.IsNaN(tells)
}

// fewElements looks again at gradients of so few elements that anything is a multiple of them, where ranks that hold
// the same read different ones: these can be sums over some of the ranks only.
func (p *part) fewElements(v *judged, g *gradient, given map[int]*array, places []place) {
	if !v.few || v.parts || v.right() {
		return
	}
	differ := false
	for m := range p.dims {
		differ = differ || places[m].kind == replicated && !p.equal(m, given, similar*given[p.ranks[0]].dtype.Eps())
	}
	if !differ {
		return
	}
	is := func(got, want *array) bool { return got.near(want, max(1e-3, 4*got.dtype.Eps())) }
	if !slices.ContainsFunc(p.ranks, func(r int) bool { return !is(given[r], g.sum[r]) }) {
		v.scale, v.alone = nil, true
		return
	}
	if lacks, ok := p.summedOver(g, given, places, is); ok {
		v.scale, v.lacks = nil, lacks
	}
}

// multiples are the numbers by which the values of each rank are those of others; nil if one has none.
func multiples(read, want map[int]*array) map[int]float64 {
	out := map[int]float64{}
	for r, a := range read {
		k, ok := a.ratio(want[r], want[r].loose())
		if !ok {
			return nil
		}
		out[r] = k
	}
	return out
}

// before takes the gradient itself for what an update reads, where an optimizer makes something of it first: as it is,
// times a whole number, or, where it adds those of earlier steps or the program clips it, times any.
func (p *part) before(v *judged, read, want map[int]*array, tails map[int]*tail) {
	if p.directly(v, read, want) {
		return
	}
	found := maps.Clone(read)
	for _, r := range p.ranks {
		if read[r] == want[r] {
			continue
		}
		k, whole := read[r].ratio(want[r], want[r].loose())
		best := math.Inf(1)
		if whole && integral(k, v.slack) {
			best = math.Abs(math.Log(k)) - v.slack
		}
		for _, o := range tails[r].others[fmt.Sprint(want[r].shape)] {
			k, ok := o.ratio(want[r], want[r].loose())
			if ok && (integral(k, v.slack) || k > 0 && !whole) && math.Abs(math.Log(k)) < best {
				read[r], best, v.earlier = o, math.Abs(math.Log(k)), true
			}
		}
	}
	// Some ranks can read it once more than others: one counts a replicated parameter in a norm, for all of them.
	_, one := p.scaledAlike(found, want, v.slack)
	if ok, same := p.scaledAlike(read, want, v.slack); v.earlier && one && ok && !same {
		maps.Copy(read, found)
		v.earlier = false
	}
}

// directly reports whether the updates add the gradient itself, which the ranks scaled by different numbers.
func (p *part) directly(v *judged, read, want map[int]*array) bool {
	ok, same := p.scaledAlike(read, want, v.slack)
	return ok && !same && !slices.ContainsFunc(p.ranks, func(r int) bool { return !adds(v.update[r].Op) })
}

// scaledAlike reports whether all ranks read multiples of gradients, and whether these are one multiple.
func (p *part) scaledAlike(read, want map[int]*array, slack float64) (ok, same bool) {
	ks := multiples(read, want)
	usual := ks[p.ranks[0]]
	return ks != nil, ks != nil && !slices.ContainsFunc(p.ranks, func(r int) bool {
		return math.Abs(ks[r]/usual-1) > 2*slack
	})
}

// permuted reports whether an array has the elements of another, perhaps all times one factor, in another order.
func permuted(a, b *array) bool {
	const few = 16
	if a == b || len(a.x) != len(b.x) || len(a.x) < few {
		return false
	}
	if _, ok := a.ratio(b, b.loose()); ok {
		return false
	}
	x := &array{a.dtype, []int{len(a.x)}, slices.Sorted(slices.Values(a.x))}
	y := &array{b.dtype, x.shape, slices.Sorted(slices.Values(b.x))}
	eps := 4 * max(a.dtype.Eps(), b.dtype.Eps(), 1e-6)
	k, ok := x.ratio(y, eps)
	if !ok || k <= 0 || a.constant() {
		return false
	}
	same := 0 // those of other gradients are about as large, in their order
	for i, v := range x.x {
		if math.Abs(v-k*y.x[i]) <= eps*math.Abs(v) {
			same++
		}
	}
	return 10*same >= 9*len(x.x)
}

// updated are the parts of gradients that the ranks update: all of them, or with FSDP its rows on each.
func (p *part) updated(want, read map[int]*array) map[int]*array {
	if !slices.ContainsFunc(p.ranks, func(r int) bool { return !slices.Equal(read[r].shape, want[r].shape) }) {
		return want
	}
	for _, d := range p.dims {
		out := map[int]*array{}
		for _, g := range d.groups {
			at := 0
			for _, r := range g {
				all, part := want[r], read[r].shape
				if len(part) == 0 || len(part) != len(all.shape) || !slices.Equal(part[1:], all.shape[1:]) ||
					at+part[0] > all.shape[0] {
					return want
				}
				row := len(all.x) / max(all.shape[0], 1)
				out[r] = &array{all.dtype, part, all.x[at*row : (at+part[0])*row]}
				at += part[0]
			}
			if at != want[g[0]].shape[0] {
				out = nil
				break
			}
		}
		if out != nil {
			return out
		}
	}
	return want
}

// near reports whether a gradient is the right one, as far as the rounding of its terms goes.
func near(got, want *array, tolerance float64, g *gradient) bool {
	size := 0.0
	for _, a := range g.sum {
		size = max(size, g.unit*a.largest())
	}
	bound := tolerance * max(size, want.largest())
	return slices.Equal(got.shape, want.shape) &&
		(nearly(got.x, want.x, bound) || nearly(got.x, want.clamped(got), bound))
}

// cancels is how much larger the terms of a gradient are than what they add up to, on the rank where that is smallest:
// so much larger is what rounding makes of it. It is 1 if they do not cancel out.
func (g *gradient) cancels(want map[int]*array) float64 {
	most, least := 0.0, math.Inf(1)
	for _, c := range g.calls {
		for _, a := range c.values {
			most = max(most, g.unit*a.largest())
		}
	}
	for _, a := range want {
		if w := a.largest(); w > 0 {
			least = min(least, w)
		}
	}
	if k := most / least; k > 1 {
		return min(k, 16)
	}
	return 1
}

// clamped are the elements limited to the largest of another array, as a program clips them by value.
func (a *array) clamped(b *array) []float64 {
	out, limit := slices.Clone(a.x), b.largest()
	if limit < a.largest()/8 {
		return out // little is left of them
	}
	for i, x := range out {
		out[i] = max(-limit, min(limit, x))
	}
	return out
}

// explain finds the sum of which parts a gradient is.
func (p *part) explain(v *judged, g *gradient, read map[int]*array, places []place) {
	own := true
	for _, r := range p.ranks {
		if _, ok := read[r].ratio(g.sum[r], read[r].loose()); !ok {
			own = false
		}
	}
	if own {
		v.alone = true
		return
	}
	for _, extreme := range []func(float64, float64) float64{math.Max, math.Min} {
		all := slices.Clone(g.sum[p.ranks[0]].x)
		for _, r := range p.ranks {
			for i, x := range g.sum[r].x[:min(len(all), len(g.sum[r].x))] {
				all[i] = extreme(all[i], x)
			}
		}
		a := &array{g.sum[p.ranks[0]].dtype, g.sum[p.ranks[0]].shape, all}
		v.extreme = !slices.ContainsFunc(p.ranks, func(r int) bool {
			_, ok := read[r].ratio(a, read[r].loose())
			return !ok
		})
		if v.extreme {
			return
		}
	}
	if v.lacks = p.lacking(g, read, places); v.lacks != nil {
		return
	}
	var basis [][]float64
	for _, r := range p.ranks {
		if !slices.ContainsFunc(basis, func(b []float64) bool {
			return nearly(b, g.sum[r].x,
				1e-6*g.sum[r].largest())
		}) {
			basis = append(basis, g.sum[r].x)
		}
	}
	enough := func() bool { return len(g.sum[p.ranks[0]].x) > 2*len(basis)+2 } // fewer are a sum of anything
	mixes := len(basis) > 1 && enough()
	for _, r := range p.ranks {
		_, ok := solve(basis, read[r].x, read[r].loose())
		mixes = mixes && ok
	}
	if v.mixes = mixes; mixes || slices.ContainsFunc(p.ranks, func(r int) bool {
		return len(g.sum[r].x) != len(g.sum[p.ranks[0]].x)
	}) {
		return
	}
	var sums []*array
	for _, r := range p.ranks {
		sums = append(sums, read[r])
	}
	v.twice = p.counts(g, sums)
}

// repeats reports whether calls count once, twice or not at all, by their factors.
func repeats(factors []float64) bool {
	most := slices.Max(factors)
	return !slices.ContainsFunc(factors, func(k float64) bool {
		return math.Abs(2*k/most-math.Round(2*k/most)) > 0.2 || k < -most/4
	})
}

// lacking are the dimensions of the mesh over which a gradient is no sum, though it should be, and is over others; nil
// if that does not explain it.
func (p *part) lacking(g *gradient, read map[int]*array, places []place) []int {
	lacks, _ := p.summedOver(g, read, places, nil)
	return lacks
}

// summedOver finds the dimensions of the mesh over which a gradient should be a sum and is none, though it is over
// others: a multiple of such a sum, or with is the sum itself or the mean.
func (p *part) summedOver(g *gradient, read map[int]*array, places []place, is func(got, want *array) bool) (
	lacks []int, ok bool) {
	var sums []int
	for m, k := range p.kinds(g, places) {
		if k == partial && places[m].kind == replicated {
			sums = append(sums, m)
		}
	}
	for set := 1; set < 1<<len(sums)-1; set++ {
		total, n := g.sum, 1.0
		lacks = nil
		for i, m := range sums {
			if set>>i&1 == 1 {
				total, n = p.summed(m, total), n*float64(p.dims[m].size)
			} else {
				lacks = append(lacks, m)
			}
		}
		fits := func(k float64) bool {
			return !slices.ContainsFunc(p.ranks, func(r int) bool {
				if is != nil {
					return !is(read[r], total[r].times(k))
				}
				_, ok := read[r].ratio(total[r], read[r].loose())
				return !ok
			})
		}
		if fits(1) || is != nil && fits(1/n) {
			return lacks, true
		}
	}
	return nil, false
}

// tied finds tables of several stages that begin with the same elements, and so are one, as the head can be the table,
// and are updated with different gradients. Layers that begin alike can be copies.
func tied(parts []*part) []*violation {
	for i, p := range parts {
		for _, q := range parts[i+1:] {
			for _, a := range p.order {
				for _, b := range q.order {
					if v := p.tiedTo(q, a, b); v != nil {
						return []*violation{v}
					}
				}
			}
		}
	}
	return nil
}

// tiedTo says that parameters of two stages are one and are updated with different gradients; nil if that is not so.
func (p *part) tiedTo(q *part, a, b string) *violation {
	g, h := p.grads[a], q.grads[b]
	x, y := g.value[p.ranks[0]], h.value[q.ranks[0]]
	const few, close = 16, 0.99
	if g.read == nil || h.read == nil || !g.lookedUp() && !h.lookedUp() || x.constant() || len(x.x) < few ||
		!slices.Equal(x.shape, y.shape) || g.read.near(h.read, 4*x.dtype.Eps()) {
		return nil
	}
	begin := "the same elements"
	if !x.near(y, 0) {
		if begin = "nearly the same elements, as if earlier steps moved them apart"; !(correlation(x.x, y.x) > close) {
			return nil
		}
	}
	v := &violation{kind: "replica", call: g.update, ranks: []int{p.ranks[0], q.ranks[0]}, target: "input[1]"}
	v.reason = fmt.Sprintf("%s of rank %d and %s of rank %d are tied: they begin with %s. ", a, p.ranks[0], b,
		q.ranks[0], begin)
	if k, ok := g.read.ratio(h.read, g.read.loose()); ok && k > 0 {
		v.call, v.target = cmp.Or(p.norm, v.call), "output[0]"
		v.reason += fmt.Sprintf("Their gradients are the same but for a factor of %.4g: each stage clips by its own norm, "+
			"which lacks an all_reduce", k)
	} else {
		v.reason += "Each is updated with a gradient of its own, which lacks an all_reduce"
	}
	return v
}

// lookedUp reports whether a call looks rows up in a parameter.
func (g *gradient) lookedUp() bool {
	return slices.ContainsFunc(g.calls, func(c contribution) bool { return method(c.site.op) == "embedding" })
}

// unstepped finds stages whose gradients no call reads though the parameters of others are updated.
func unstepped(parts []*part) []*violation {
	for _, p := range parts {
		for _, q := range parts {
			if p.step != nil || q.step == nil || len(p.order) == 0 || p.incomplete || len(p.broken)+len(q.broken) > 0 ||
				slices.ContainsFunc(p.ranks, func(r int) bool { return !p.ended(r) }) {
				continue
			}
			return []*violation{{kind: "replica", call: q.step, site: p.grads[p.order[0]].calls[0].site, ranks: p.ranks,
				target: "input[0]", reason: fmt.Sprintf("rank %d updates the parameters of its stage, and %s none, "+
					"though %s has a gradient: no such call was recorded there", q.ranks[0], ranksText(p.ranks),
					p.order[0])}}
		}
	}
	return nil
}

// report draws one finding from what became of the gradients: the first in the order of the backward pass.
func (p *part) report(tails map[int]*tail, histories map[int]history, verdicts map[string]*judged, factors []float64) {
	t := tails[p.ranks[0]]
	var names []string
	purpose := p.apartOnPurpose(verdicts)
	for _, n := range p.order {
		switch v := verdicts[n]; {
		case v == nil:
		case v.alone && purpose:
			p.checker.apart = true
		default:
			names = append(names, n)
		}
	}
	for _, kind := range []struct {
		is  func(*judged) bool
		say func(t *tail, v *judged, g *gradient, names string) *violation
	}{
		{func(v *judged) bool { return v.alone }, p.unsummedGradient},
		{func(v *judged) bool { return v.lacks != nil }, p.partlySummed},
		{func(v *judged) bool { return v.order }, p.reordered},
		{func(v *judged) bool { return v.mixes || v.twice || v.extreme }, p.otherSum},
		{func(v *judged) bool { return v.differ }, p.otherUpdates},
	} {
		list := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !kind.is(verdicts[n]) })
		if len(list) > 0 {
			v := kind.say(t, verdicts[list[0]], p.grads[list[0]], list[0]+more(list))
			v.reason += unexplained(names, verdicts)
			v.site = cmp.Or(v.site, p.grads[list[0]].calls[0].site)
			p.found(true, v)
			return
		}
	}
	for _, n := range names {
		if verdicts[n].explained() {
			continue
		}
		if v := p.unpacked(n, t, factors); v != nil {
			v.call, v.site = cmp.Or(v.call, verdicts[n].update[p.ranks[0]]), p.grads[n].calls[0].site
			p.found(true, v)
			return
		}
	}
	names = slices.DeleteFunc(names, func(n string) bool { // the norm read the right one
		return verdicts[n].earlier && !slices.ContainsFunc(p.ranks, func(r int) bool {
			return !histories[r].clipped(n, verdicts[n].slack)
		})
	})
	p.scales(tails, names, verdicts, factors)
}

// unexplained says how many more gradients are not the right ones, in a way that is not known.
func unexplained(names []string, verdicts map[string]*judged) string {
	n := 0
	for _, name := range names {
		if !verdicts[name].explained() {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; those of %s are no right ones either, in a way that is not known",
		reports.Count(n, "other parameter"))
}

// unsummedGradient is about a gradient that each rank reads as it computed it.
func (p *part) unsummedGradient(t *tail, v *judged, g *gradient, names string) *violation {
	first := p.ranks[0]
	if call := t.took(g.sum[first]); call != nil {
		return &violation{kind: "collective", call: call, ranks: p.ranks, target: "input[0]",
			reason: fmt.Sprintf("it takes the gradient of %s, which is a partial sum over other ranks than those of its "+
				"group: what %s reads is not summed over the ranks that hold the same parameter", names,
				v.update[first])}
	}
	c, since := g.calls[0], ""
	target, o := fmt.Sprintf("grad[%d]", c.number), p.lateOrigin(c.site)
	if o != nil {
		target, since = "grad[0]", fmt.Sprintf(", since that of the argument of %s is one", o.first(p.ranks))
	}
	if len(p.ranks) == 1 {
		return &violation{kind: "replica", site: o, ranks: p.ranks, backward: true, target: target,
			reason: fmt.Sprintf("the gradient of %s reaches %s as rank %d computed it%s, though it adds up those of the "+
				"stages that share the parameter: their sum is not what the update reads", names, v.update[first],
				first, since)}
	}
	over := 0
	for m, n := range v.copies {
		if n > 1 && !p.equal(m, g.sum, similar*g.sum[first].dtype.Eps()) {
			over |= 1 << m
		}
	}
	return &violation{kind: "replica", site: o, ranks: p.ranks, backward: true, target: target,
		reason: fmt.Sprintf("the gradient of %s is a partial sum over %s%s; each reaches %s without an "+
			"all_reduce, so that the replicas move apart%s", names, cmp.Or(p.along(over), ranksText(p.ranks)), since,
			v.update[first], p.bypassed(c.site))}
}

// partlySummed is about a gradient that is summed over some dimensions of the mesh only.
func (p *part) partlySummed(_ *tail, v *judged, g *gradient, names string) *violation {
	return &violation{kind: "replica", ranks: p.ranks, backward: true,
		target: fmt.Sprintf("grad[%d]", g.calls[0].number),
		reason: fmt.Sprintf("the gradient of %s is summed over some of the ranks only: it is a partial sum over ranks %s, "+
			"too, and reaches %s without an all_reduce between these", names, rankList(p.dims[v.lacks[0]].groups[0]),
			v.update[p.ranks[0]])}
}

// reordered is about a gradient whose elements are in another order.
func (p *part) reordered(_ *tail, v *judged, _ *gradient, names string) *violation {
	return &violation{kind: "collective", call: v.update[p.ranks[0]], ranks: p.ranks, target: "input[1]",
		reason: fmt.Sprintf("it reads the gradient of %s with the elements in another order than the parameter has them",
			names)}
}

// otherSum is about a gradient that is made of those of the ranks and calls in another way than by a sum of all.
func (p *part) otherSum(t *tail, v *judged, g *gradient, names string) *violation {
	if w := p.loneGradient(g, names); w != nil {
		return w
	}
	kind, call, update := "collective", t.took(g.sum[p.ranks[0]]), v.update[p.ranks[0]]
	reason := "the gradient of %s that %s reads is a sum of other ranks' gradients than of those that hold the same " +
		"parameter"
	if v.extreme {
		reason = "the gradient of %s that %s reads is the largest or smallest of the ranks' gradients, not their sum: the " +
			"reduction is another"
	}
	if v.twice {
		kind = "scale"
		reason = "in the gradient of %s that %s reads, calls of the step count with different numbers: gradients of " +
			"a backward pass were not reduced, were set to zero, or were added twice"
	}
	if call == nil || v.twice {
		call = update
	}
	return &violation{kind: kind, call: call, ranks: p.ranks, target: "input[0]",
		reason: fmt.Sprintf(reason, names, update)}
}

// otherUpdates is about replicas that are updated with different gradients.
func (p *part) otherUpdates(_ *tail, v *judged, _ *gradient, names string) *violation {
	return &violation{kind: "replica", call: v.update[p.ranks[0]], ranks: p.ranks, target: "input[1]",
		reason: fmt.Sprintf("ranks %s hold the same %s and update it with different gradients", rankList(p.ranks),
			names)}
}

// loneGradient finds a call by which only some ranks scale a gradient before it is summed; nil if there is none.
func (p *part) loneGradient(g *gradient, name string) *violation {
	for _, s := range p.tail {
		own := p.owners(s)
		if len(own) == 0 || len(own) == len(p.ranks) || !strings.HasSuffix(s.op, "_") || !multiplies(s.op) {
			continue
		}
		d, err := p.checker.load(s.calls[own[0]])
		if err != nil || len(d.ins) == 0 || !d.ins[0].array.near(g.sum[own[0]], g.sum[own[0]].tolerance()) {
			continue
		}
		return &violation{kind: "scale", site: s, call: s.calls[own[0]], ranks: own, target: "output[0]",
			reason: fmt.Sprintf("it scales the gradient of %s on %s before the ranks add it up, and no such call was "+
				"recorded on %s", name, ranksText(own), ranksText(p.others(own)))}
	}
	return nil
}

// scales looks at gradients that are the right ones times a number.
func (p *part) scales(tails map[int]*tail, names []string, verdicts map[string]*judged, factors []float64) {
	first := p.ranks[0]
	if tails[first].norms { // clipped or not: only what the updates read themselves can be compared
		names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return verdicts[n].few })
		if direct := slices.DeleteFunc(slices.Clone(names), func(n string) bool {
			return verdicts[n].earlier
		}); len(direct) > 0 {
			names = direct
		}
	}
	off := slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		v := verdicts[n]
		return v.scale == nil || !slices.ContainsFunc(p.ranks,
			func(r int) bool { return math.Abs(v.scale[r]-1) > v.slack })
	})
	if len(off) == 0 {
		return
	}
	k := verdicts[off[0]].scale[first]
	total, all, same, apart := p.together(names, off[0], verdicts)
	call := tails[first].scaled(verdicts[off[0]].want)
	if apart && len(tails[first].scalings) > 0 {
		call = tails[first].scalings[0].call
	}
	if call == nil {
		call = verdicts[off[0]].update[first]
	}
	if !apart && slices.ContainsFunc(p.ranks, func(r int) bool {
		return math.Abs(verdicts[off[0]].scale[r]/k-1) > 2*verdicts[off[0]].slack
	}) {
		p.someScale(tails, off, verdicts)
		return
	}
	if apart {
		if p.someScale(tails, off, verdicts); len(p.broken) > 0 {
			return
		}
	}
	v := &violation{kind: "scale", call: call, site: p.grads[off[0]].calls[0].site, ranks: p.ranks, target: "output[0]"}
	clipped := tails[first].norms
	switch {
	case apart:
		if v.kind = "replica"; p.norm != nil {
			v.call = p.norm
		}
		why := "each clips by the norm of what it holds itself, which lacks an all_reduce"
		if p.sameNorms(tails) {
			why = "the norms that they take are the same, so that they clip at other limits, or scale by other numbers"
		}
		v.reason = fmt.Sprintf("ranks %s scale the gradient of %s%s by different numbers: %s", rankList(p.ranks),
			off[0], more(off), why)
	case factors == nil || clipped && (verdicts[off[0]].slack > 2e-3 ||
		same && (p.partial || all < len(p.order) || !integral(k, verdicts[off[0]].slack) ||
			round(k*math.Sqrt(total)))):
		return
	default:
		p.off = k
		v.reason = fmt.Sprintf("the gradient of %s%s that %s reads is %.4g times that of the whole program", off[0],
			more(off),
			verdicts[off[0]].update[first], k)
		if p.means != nil && k > 1 {
			v.reason += fmt.Sprintf(": %s divides by the number of terms of one rank", p.means)
		}
	}
	p.found(true, v)
}

// someScale finds gradients that some ranks update with as they are, and others times a number. Where a program takes
// norms, each rank can make something of its own of them.
func (p *part) someScale(tails map[int]*tail, off []string, verdicts map[string]*judged) {
	if slices.ContainsFunc(p.ranks, func(r int) bool { return tails[r].norms }) {
		return
	}
	for _, n := range off {
		v := verdicts[n]
		var odd, right []int
		for _, r := range p.ranks {
			if math.Abs(v.scale[r]-1) > 4*v.slack {
				odd = append(odd, r)
			} else {
				right = append(right, r)
			}
		}
		if v.few || len(odd) == 0 || len(right) == 0 || slices.ContainsFunc(odd, func(r int) bool {
			return math.Abs(v.scale[r]/v.scale[odd[0]]-1) > 4*v.slack
		}) {
			continue
		}
		p.found(true, &violation{kind: "scale", site: p.grads[n].calls[0].site, ranks: odd, target: "output[0]",
			call: cmp.Or(tails[odd[0]].scaled(v.wants[odd[0]]), v.update[odd[0]]),
			reason: fmt.Sprintf("on %s the update of %s reads %.4g times the gradient of the whole program, and on %s the "+
				"gradient itself", ranksText(odd), n, v.scale[odd[0]], ranksText(right))})
		return
	}
}

// partNorms finds a parameter of which each rank scales its part of the gradient by another number, and takes the norm
// of that part only: some optimizers scale each parameter by its own norms.
func (p *part) partNorms(tails map[int]*tail, verdicts map[string]*judged) {
	for _, n := range p.order {
		v := verdicts[n]
		if v == nil || v.few || v.factor == nil || v.together() {
			continue
		}
		var call *step.Call
		if slices.ContainsFunc(p.ranks, func(r int) bool {
			c := tails[r].normed(math.Sqrt(dot(v.wants[r].x, v.wants[r].x)))
			call = cmp.Or(call, c)
			return c == nil || tails[r].normed(math.Sqrt(v.size)) != nil
		}) {
			continue
		}
		p.found(true, &violation{kind: "replica", call: call, site: p.grads[n].calls[0].site, ranks: p.ranks,
			target: "output[0]", reason: fmt.Sprintf("ranks %s hold parts of %s and scale their gradients by different "+
				"numbers: each takes the norm of its part, which lacks an all_reduce of the squares",
				rankList(p.ranks), n)})
		return
	}
}

// together reports whether all ranks' updates read the same multiple of the right gradient.
func (v *judged) together() bool {
	least, most := math.Inf(1), math.Inf(-1)
	for _, k := range v.factor {
		least, most = min(least, k), max(most, k)
	}
	return most-least <= 4*v.slack*most
}

// sameNorms reports whether all ranks compute the same numbers that can be norms.
func (p *part) sameNorms(tails map[int]*tail) bool {
	first := tails[p.ranks[0]].roots
	return len(first) > 0 && !slices.ContainsFunc(p.ranks, func(r int) bool {
		return !slices.EqualFunc(first, tails[r].roots, func(a, b root) bool {
			return math.Abs(a.x-b.x) <= 1e-6*math.Abs(a.x)
		})
	})
}

// together takes gradients that are multiples of the right ones: the sum of their squares, of how many parameters they
// are, whether all are as many times as large as the first, and whether each rank has one number for all of them, and
// another one than others.
func (p *part) together(names []string, first string, verdicts map[string]*judged) (total float64, all int, same,
	apart bool) {
	same, one := true, true
	usual := verdicts[first]
	k := usual.scale[p.ranks[0]]
	for _, n := range names {
		v := verdicts[n]
		if v.scale == nil {
			continue
		}
		total += v.size
		all += v.many
		if v.quiet || v.few && !usual.few {
			continue
		}
		for _, r := range p.ranks {
			same = same && math.Abs(v.scale[r]/k-1) <= 2*v.slack
			one = one && math.Abs(v.scale[r]/usual.scale[r]-1) <= 2*v.slack
			apart = apart || math.Abs(v.scale[r]/v.scale[p.ranks[0]]-1) > 2*v.slack
		}
	}
	return total, all, same, apart && one
}

// scaled is the call that reads a multiple of the right gradient by itself, before the update: an exchange that adds up
// what all ranks already have, else a product; nil if there is none.
func (t *tail) scaled(want *array) *step.Call {
	for _, e := range slices.Concat(t.exchanges, t.scalings) {
		if len(e.x) != len(want.x) {
			continue
		}
		if _, ok := (&array{want.dtype, want.shape, e.x}).ratio(want, want.loose()); ok {
			return e.call
		}
	}
	return nil
}

// integral reports whether a number or its inverse is a whole one, as far as slack allows to tell.
func integral(k, slack float64) bool {
	k = max(k, 1/k)
	return slack*k < 0.25 && math.Abs(k-math.Round(k)) < slack*k
}

// round reports whether a number looks like one that people write: of at most two digits.
func round(x float64) bool {
	e := math.Pow(10, math.Floor(math.Log10(x))-1)
	return math.Abs(x/e-math.Round(x/e)) < 0.02
}

func more(list []string) string {
	if len(list) == 1 {
		return ""
	}
	return fmt.Sprintf(" (and of %d more parameters)", len(list)-1)
}

// took is the exchange that reads a gradient, by itself or in a bucket; nil if none does.
func (t *tail) took(a *array) *step.Call {
	for _, e := range t.exchanges {
		for at := 0; at+len(a.x) <= len(e.x); at++ {
			if e.x[at] == a.x[0] && slices.Equal(e.x[at:at+len(a.x)], a.x) {
				return e.call
			}
		}
	}
	return nil
}

// ended reports whether a rank was recorded to the end of a step, behind its backward pass.
func (p *part) ended(rank int) bool {
	for _, q := range p.checker.trace.Processes {
		if q.Rank == rank {
			return len(q.Calls) > 0 && q.Calls[len(q.Calls)-1].Entry.Unended == ""
		}
	}
	return false
}

// shared reports whether ranks update other parameters than another rank does, and none was recorded to pass them on:
// that may come behind the recording.
func (p *part) shared(tails map[int]*tail, with int, without []int) bool {
	for _, r := range without {
		own := false
		for _, n := range p.order {
			g := p.grads[n]
			if tails[r].passes(g.value[r], g.address[r]) {
				return false
			}
			own = own || len(tails[r].updates[g.names[r]]) > 0 && len(tails[with].updates[g.names[with]]) == 0
		}
		if !own {
			return false
		}
	}
	return true
}

// notUpdated finds parameters that some of the ranks that hold them do not update.
func (p *part) notUpdated(tails map[int]*tail) {
	for _, name := range p.order {
		g := p.grads[name]
		var without, with []int
		for _, r := range p.ranks {
			if g.names[r] != name {
				without, with = nil, nil
				break
			}
			if len(tails[r].updates[name]) > 0 {
				with = append(with, r)
			} else if (len(tails[r].updates) > 0 || p.ended(r)) && !tails[r].passes(g.value[r], g.address[r]) {
				without = append(without, r)
			}
		}
		if len(with) > 0 && len(without) > 0 && !p.shared(tails, with[0], without) {
			p.found(true, &violation{kind: "replica", call: tails[with[0]].updates[name][0].call,
				site: g.calls[0].site, ranks: without,
				target: "input[0]", reason: fmt.Sprintf("ranks %s update %s, and ranks %s do not: no such call was "+
					"recorded there",
					rankList(with), name, rankList(without))})
			return
		}
	}
	p.notMoved(tails)
}

// notMoved finds parameters without a gradient, such as those of a teacher that follows a model, that calls of all
// ranks read, and that only some of them change.
func (p *part) notMoved(tails map[int]*tail) {
	for _, name := range p.names {
		if p.grads[name] != nil || p.shards[name] == nil || len(p.broken) > 0 ||
			slices.ContainsFunc(p.shards[name], func(q place) bool { return q.kind != replicated }) {
			continue
		}
		var without, with []int
		var first *update
		for _, r := range p.ranks {
			us := tails[r].updates[name]
			i := slices.IndexFunc(us, func(u update) bool {
				return u.result != nil && u.result.sum() != u.before.sum()
			})
			switch {
			case i >= 0:
				with = append(with, r)
				if first == nil {
					first = &us[i]
				}
			case p.ended(r):
				without = append(without, r)
			}
		}
		if len(with) == 0 || len(without) == 0 || slices.ContainsFunc(without, func(r int) bool {
			return tails[r].passes(first.before, 0)
		}) {
			continue
		}
		p.found(true, &violation{kind: "replica", call: first.call, ranks: without, target: "input[0]",
			reason: fmt.Sprintf("calls of all ranks read %s, and only %s updated it: no such call was recorded on %s",
				name, ranksText(with), ranksText(without))})
		return
	}
}
