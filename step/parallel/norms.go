package parallel

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/step"
)

// A sighting is a multiple of the right gradient of a parameter that a rank reads behind its backward pass, or its own
// gradient, to which the others were not added.
type sighting struct {
	call    *step.Call
	address uint64
	k       float64 // NaN if it is something else by now
	own     bool
	norm    bool // for the norm by which gradients are clipped
}

// A history is what a rank reads of the gradients of parameters before their updates, in order.
type history map[string][]sighting

// history reads what a rank does with the gradients that were judged.
func (p *part) history(rank int, verdicts map[string]*judged) history {
	h := history{}
	mixed := map[uint64]bool{} // where an optimizer keeps what it made of several values
	for _, c := range p.tailCalls(rank) {
		if isExchange(c.Op) {
			continue // what it leaves shows where it is read
		}
		d, err := p.checker.load(c)
		if err != nil {
			continue
		}
		for n, v := range verdicts {
			if u := v.update[rank]; v.wants[rank] != nil && u.Process == c.Process && c.Order <= u.Order {
				h.note(n, v, p.grads[n], d, rank, mixed)
			}
		}
		d.mixes(mixed)
	}
	return h
}

// mixes notes where a call leaves what it makes of several values of one shape.
func (d *side) mixes(mixed map[uint64]bool) {
	if strings.Contains(method(d.call.Op), "copy") {
		return
	}
	for i, a := range d.ins {
		if d.after[i] == nil && !(i < len(d.outs) && d.returns(i)) {
			continue
		}
		named := max(1, d.listed())
		mixed[a.address] = slices.ContainsFunc(beside(i, named, len(d.ins), true), func(k int) bool {
			return slices.Equal(d.ins[k].array.shape, a.array.shape) && d.ins[k].address != a.address
		})
	}
}

// listed is how many tensors the first list among the arguments has; 0 if there is none.
func (d *side) listed() int {
	for _, a := range d.rec.Args {
		if n := len(tensorsIn(a)); n > 1 {
			return n
		}
	}
	return 0
}

// note notes the argument of a call that is a multiple of a gradient, or the rank's own. Gradients of several
// parameters can be multiples of one: that counts which lies where the update reads it, then the one that is nearest.
func (h history) note(name string, v *judged, g *gradient, d *side, rank int, mixed map[uint64]bool) {
	want, own := v.wants[rank], g.sum[rank]
	var best *sighting
	for _, a := range d.ins {
		if a.name != "" || mixed[a.address] || !slices.Equal(a.array.shape, want.shape) {
			continue
		}
		k, ok := a.array.multiple(want)
		s := sighting{d.call, a.address, k, false, squares(d)}
		if !ok {
			s.k, s.own = math.NaN(), a.array.near(own, own.tolerance()) && !own.near(want, own.loose())
			if s.own && len(a.terms) > 1 && !a.mean { // a call of DTensors adds up the ranks' parts first
				s.k, s.own = 1, false
			}
			if last := len(h[name]) - 1; !s.own && (last < 0 || h[name][last].address != a.address) {
				continue
			}
		}
		if best == nil || s.before(*best, v.address[rank]) {
			best = &s
		}
	}
	if best != nil {
		h[name] = append(h[name], *best)
	}
}

// before reports whether a sighting is rather that of a gradient than another one of the same call. The gradient is
// read at an address later.
func (s sighting) before(o sighting, address uint64) bool {
	if address != 0 && s.address != o.address && (s.address == address || o.address == address) {
		return s.address == address
	}
	return math.Abs(math.Log(s.k)) < math.Abs(math.Log(o.k)) // false if one is something else
}

// multiple is ratio, with a look at the largest element first.
func (a *array) multiple(b *array) (float64, bool) {
	at := 0
	for i, v := range b.x {
		if math.Abs(v) > math.Abs(b.x[at]) {
			at = i
		}
	}
	if len(b.x) < 4 { // they are a multiple of anything
		return 1, a.near(b, max(b.tolerance(), 4*a.dtype.Eps()))
	}
	if a.x[at] == 0 || b.x[at] == 0 || !(a.x[at]/b.x[at] > 0) {
		return 0, false
	}
	return a.ratio(b, max(b.tolerance(), 4*a.dtype.Eps()))
}

// squares reports whether a call is part of a norm.
func squares(d *side) bool {
	switch m := strings.TrimPrefix(method(d.call.Op), "foreach_"); m {
	case "norm", "vector_norm", "square", "pow", "get_total_norm", "clip_grad_norm", "dot", "vdot":
		return true
	case "mul", "mul_":
		return len(d.ins) == 2 && d.ins[0].address == d.ins[1].address
	}
	return false
}

// histories are what each rank reads of the gradients that were judged.
func (p *part) histories(verdicts map[string]*judged) map[int]history {
	out := map[int]history{}
	for _, r := range p.ranks {
		out[r] = p.history(r, verdicts)
	}
	return out
}

// clipped reports whether a norm read the right gradient of a parameter: what is behind it is scaled by the norm.
func (h history) clipped(name string, slack float64) bool {
	return slices.ContainsFunc(h[name], func(s sighting) bool { return s.norm && math.Abs(s.k-1) <= slack })
}

// clips checks gradients behind a clipping by their norm, of which the updates do not tell what they were: the norm
// reads them, and all are then scaled by one number.
func (p *part) clips(histories map[int]history, tails map[int]*tail, verdicts map[string]*judged, factors []float64) {
	if len(p.broken) > 0 {
		return
	}
	if p.lone(histories, verdicts, tails) || p.clippedBefore(histories, verdicts) || factors == nil {
		return
	}
	if p.beforeNorm(histories, verdicts, tails) {
		return
	}
	if !p.clippedScaled(histories, verdicts) {
		p.clipped(histories, verdicts, tails)
	}
}

// clippedBefore finds gradients that each rank scales by a number that it makes of the norm of its own, before the
// ranks add them up: a norm of the terms is none of the sum. That the number is 1 in a step does not matter.
func (p *part) clippedBefore(histories map[int]history, verdicts map[string]*judged) bool {
	for _, n := range p.order {
		v := verdicts[n]
		if v == nil || v.alone || v.copies == nil {
			continue
		}
		var norm, scales *step.Call
		if slices.ContainsFunc(p.ranks, func(r int) bool {
			ss := histories[r][n]
			at := slices.IndexFunc(ss, func(s sighting) bool { return s.norm })
			if at < 0 || !ss[at].own {
				return true
			}
			call := p.scaledBy(r, ss[at])
			norm, scales = cmp.Or(norm, ss[at].call), cmp.Or(scales, call)
			return call == nil
		}) {
			continue
		}
		p.found(true, &violation{kind: "collective", call: norm, site: p.grads[n].calls[0].site, ranks: p.ranks,
			target: "output[0]", reason: fmt.Sprintf("each of ranks %s takes the norm of its own gradient of %s, which is a "+
				"partial sum, and %s scales the gradient by a number that is made of it: the all_reduce comes only behind "+
				"that, and the sum is not clipped by its norm", rankList(p.ranks), n, scales)})
		return true
	}
	return false
}

// scaledBy is the call by which a rank multiplies a gradient, where it lay when its norm was taken, by a number that it
// makes of the norm; nil if there is none.
func (p *part) scaledBy(rank int, taken sighting) *step.Call {
	for _, c := range p.tailCalls(rank) {
		if c.Order <= taken.call.Order || !multiplies(strings.ReplaceAll(c.Op, "foreach_", "")) {
			continue
		}
		var at, by bool
		for _, v := range c.Inputs {
			at = at || v.Address == taken.address
			by = by || numel(v.Shape) == 1 && madeOf(v, taken.call, map[*step.Call]bool{})
		}
		if at && by {
			return c
		}
	}
	return nil
}

// madeOf reports whether recorded calls made a value of what a call gave.
func madeOf(v *step.Value, call *step.Call, seen map[*step.Call]bool) bool {
	w := v.From.Value
	if w == nil || seen[w.Call] || w.Call.Order < call.Order {
		return false
	}
	seen[w.Call] = true
	return w.Call == call || slices.ContainsFunc(w.Call.Inputs, func(v *step.Value) bool {
		return madeOf(v, call, seen)
	})
}

// clippedScaled finds gradients that are clipped by their norm while they are still multiplied by the loss scale.
func (p *part) clippedScaled(histories map[int]history, verdicts map[string]*judged) bool {
	losses := p.lossCalls()
	if len(losses) == 0 || losses[0].Step.LossScale() == 1 {
		return false
	}
	for _, n := range p.order {
		for _, r := range p.ranks {
			ss := histories[r][n]
			at := slices.IndexFunc(ss, func(s sighting) bool { return s.norm })
			scale := losses[0].Step.LossScale()
			later := slices.IndexFunc(ss, func(s sighting) bool { return p.unscales(s.call, scale) })
			if at < 0 || later < at || !(ss[later].k < ss[at].k*(1-2*verdicts[n].slack)) {
				continue
			}
			p.found(true, &violation{kind: "scale", call: ss[at].call, site: p.grads[n].calls[0].site, ranks: p.ranks,
				target: "output[0]", reason: fmt.Sprintf("it is part of the norm by which the gradients are clipped, and these "+
					"are still %g times those of the loss, by the loss scale: %s divides them later",
					losses[0].Step.LossScale(), ss[later].call)})
			return true
		}
	}
	return false
}

// unscales reports whether a call divides gradients by the loss scale.
func (p *part) unscales(call *step.Call, scale float64) bool {
	if strings.Contains(call.Op, "unscale_") {
		return true
	}
	m := strings.TrimPrefix(method(call.Op), "foreach_")
	if !multiplies(m) {
		return false
	}
	d, err := p.checker.load(call)
	if err != nil || len(d.rec.Args) < 2 {
		return false
	}
	k, ok := numberOf(d.rec.Args[1])
	if strings.HasSuffix(m, "mul") || m == "multiply" {
		k = 1 / k
	}
	return ok && math.Abs(k/scale-1) < 1e-6
}

// lone finds gradients that each rank still reads as it computed them, though the others belong to them.
func (p *part) lone(histories map[int]history, verdicts map[string]*judged, tails map[int]*tail) bool {
	var names []string
	for _, n := range p.order {
		seen := 0
		if v := verdicts[n]; v != nil && (v.scale == nil || v.few) && !slices.ContainsFunc(p.ranks, func(r int) bool {
			ss := histories[r][n]
			seen += len(ss)
			return len(ss) > 0 && !ss[len(ss)-1].own
		}) && seen > 0 {
			names = append(names, n)
		}
	}
	if len(names) == 0 || p.apartOnPurpose(verdicts) {
		return false
	}
	v := p.unsummedGradient(tails[p.ranks[0]], verdicts[names[0]], p.grads[names[0]], names[0]+more(names))
	if v.site == nil {
		v.site = p.grads[names[0]].calls[0].site
	}
	p.found(true, v)
	return true
}

// beforeNorm finds gradients that are off by a factor when their norm is taken, and are not mended later.
func (p *part) beforeNorm(histories map[int]history, verdicts map[string]*judged, tails map[int]*tail) bool {
	for _, n := range p.order {
		v := verdicts[n]
		if v == nil {
			continue
		}
		for _, r := range p.ranks {
			ss := histories[r][n]
			at := slices.IndexFunc(ss, func(s sighting) bool { return s.norm })
			if at < 0 || ss[at].own || !(math.Abs(ss[at].k-1) > 2*v.slack) ||
				slices.ContainsFunc(ss[at:], func(s sighting) bool { return math.Abs(s.k-1) < v.slack }) {
				continue
			}
			call := ss[at].call
			if at > 0 { // the one that made it so
				for _, s := range ss[:at] {
					if multiplies(strings.TrimPrefix(method(s.call.Op), "foreach_")) && s.k != ss[at].k {
						call = s.call
					}
				}
			}
			p.off = ss[at].k
			p.found(true, &violation{kind: "scale", call: call, site: p.grads[n].calls[0].site, ranks: p.ranks,
				target: "output[0]", reason: fmt.Sprintf("the gradient of %s is %.4g times that of the whole program "+
					"when %s takes its norm", n, ss[at].k, ss[at].call)})
			return true
		}
	}
	return false
}

// A clipping is what one rank's norm and the scaling of gradients by it tell.
type clipping struct {
	call    *step.Call // that gives the norm of the gradients that the ranks of the part hold; nil if none does
	squares float64    // the sum of squares of these gradients
	k       float64    // by what they are multiplied behind the norm; NaN if it is not known, or not one number
	slack   float64
}

// clipped checks the norms by which ranks clip: that of all gradients, each counted once.
func (p *part) clipped(histories map[int]history, verdicts map[string]*judged, tails map[int]*tail) {
	own, many, total, slack := map[int]float64{}, map[int]int{}, 0.0, 1e-3
	sets := 1 << len(p.dims)
	counted := make([]float64, sets) // if replicas along a set of dimensions counted each
	for _, n := range slices.Sorted(maps.Keys(verdicts)) {
		v, seen := verdicts[n], 0
		for _, r := range p.ranks {
			if i := slices.IndexFunc(histories[r][n], func(s sighting) bool { return s.norm }); i >= 0 &&
				math.Abs(histories[r][n][i].k-1) <= v.slack {
				own[r] += dot(v.wants[r].x, v.wants[r].x)
				many[r] += v.many
				seen++
			}
		}
		if seen == 0 || v.copies == nil {
			return // not all are known, or they lie in flat buffers
		}
		total += v.size
		slack = max(slack, v.slack)
		for set := range sets {
			size := v.size
			for m := range p.dims {
				if set>>m&1 == 1 {
					size *= v.copies[m]
				}
			}
			counted[set] += size
		}
	}
	first := p.ranks[0]
	p.clip = &clipping{tails[first].normed(math.Sqrt(total)), total, histories[first].behind(slack), slack}
	for _, r := range p.ranks {
		is := func(squares float64) *step.Call {
			if math.Abs(squares/total-1) <= 4*slack && math.Abs(squares/total-1) <= 0.02 {
				return nil
			}
			return tails[r].normed(math.Sqrt(squares))
		}
		if tails[r].normed(math.Sqrt(total)) != nil {
			if !p.partial || total == 0 {
				return
			}
			break
		}
		for set := 1; set < sets; set++ {
			if call := is(counted[set]); call != nil {
				p.found(true, &violation{kind: "scale", call: call, ranks: p.ranks, target: "output[0]",
					reason: fmt.Sprintf("the norm by which rank %d clips counts the gradients of replicated parameters once "+
						"for each of %s that hold them", r, p.along(set))})
				return
			}
		}
		if call := is(own[r]); call != nil && (many[r] > 1 || histories[r].clips(own[r], slack)) {
			p.found(true, &violation{kind: "replica", call: call, ranks: p.ranks, target: "output[0]",
				reason: fmt.Sprintf("the norm by which rank %d clips is that of the gradients that it holds itself: the "+
					"squares of the other ranks' gradients lack an all_reduce", r)})
			return
		}
	}
}

// along names the groups of the first rank along a set of dimensions.
func (p *part) along(set int) string {
	var out []string
	for m, d := range p.dims {
		if set>>m&1 == 1 {
			out = append(out, ranksText(d.of(p.ranks[0])))
		}
	}
	return strings.Join(out, " and of ")
}

// clips reports whether a gradient is scaled behind its norm, and not divided by it, as some optimizers do to make an
// update of it.
func (h history) clips(squares, slack float64) bool {
	return math.Abs(h.behind(slack)*math.Sqrt(squares)-1) > 4*slack // false if it is not known
}

// behind is the number by which all gradients are multiplied behind the norm; NaN if there is no such number.
func (h history) behind(slack float64) float64 {
	k := math.NaN()
	for _, ss := range h {
		at := slices.IndexFunc(ss, func(s sighting) bool { return s.norm })
		last := ss[len(ss)-1]
		if at < 0 || last.norm || math.IsNaN(last.k) || math.Abs(last.k/k-1) > 4*slack {
			return math.NaN()
		}
		k = last.k
	}
	return k
}

// ownNorms finds stages of a pipeline that each clip by the norm of what they hold: their gradients are then scaled by
// different numbers, to the same norm if both are above the limit.
func ownNorms(parts []*part) []*violation {
	for i, p := range parts {
		for _, q := range parts[i+1:] {
			a, b := p.clip, q.clip
			if a == nil || b == nil || a.call == nil || b.call == nil || len(p.broken)+len(q.broken) > 0 {
				continue
			}
			slack := 4 * max(a.slack, b.slack)
			if !(math.Abs(a.k/b.k-1) > slack) || !(math.Abs(a.k*math.Sqrt(a.squares/b.squares)/b.k-1) <= slack ||
				max(a.k, b.k) > 1-slack) {
				continue
			}
			return []*violation{{kind: "replica", call: a.call, ranks: []int{p.ranks[0], q.ranks[0]}, target: "output[0]",
				reason: fmt.Sprintf("the norm by which rank %d clips is that of the gradients of its stage: the squares of "+
					"rank %d's lack an all_reduce, and their gradients are scaled by %.4g and %.4g", p.ranks[0],
					q.ranks[0], a.k, b.k)}}
		}
	}
	return nil
}

// normed is the call behind the backward pass whose only result is a norm; nil if there is none.
func (t *tail) normed(norm float64) *step.Call {
	for _, n := range t.roots {
		if math.Abs(n.x/norm-1) <= n.slack {
			return n.call
		}
	}
	return nil
}
