package parallel

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor/value"
)

// exact is how far float64 results of a call on parts may be from those on whole values, relative to the largest
// element.
const exact = 1e-7

// method is the last component of an operator's name, without the marks of other forms: add for torch.Tensor.__iadd__
// and add_, mT for torch.Tensor.mT.__get__.
func method(op string) string {
	op = strings.TrimSuffix(op, ".__get__")
	name := strings.Trim(op[strings.LastIndexByte(op, '.')+1:], "_")
	if len(name) > 2 && name[0] == 'i' && slices.Contains([]string{"add", "sub", "mul", "truediv", "or", "and"},
		name[1:]) {
		return name[1:]
	}
	return name
}

// lift finds the places of the results of a call: those by which the ranks' results make the result of the
// same call on whole values.
func (p *part) lift(s *site) {
	sides := p.read(s)
	if sides == nil {
		return
	}
	lead := sides[p.ranks[0]]
	if lead.rec.Placed != "" && len(p.checker.missing) > 0 {
		return // DTensor moves parts between all ranks
	}
	p.keeps(s, sides)
	s.in = make([]*info, len(lead.ins))
	for i := range lead.ins {
		s.in[i] = p.lookup(sides, input(i))
	}
	for _, a := range lead.ins {
		if a.name != "" && !a.tensor.RequiresGrad && lead.rec.Placed == "" {
			p.frozen[a.name] = true
		}
	}
	p.declared(s, sides)
	p.recast(s, sides)
	s.out = make([]*info, len(lead.outs))
	typed := p.alignedSides(s, sides)
	lost := p.begins() && slices.ContainsFunc(s.in, (*info).astray)
	if s.seam && !p.descend(s, typed) {
		p.loose = typed[p.ranks[0]].recorded != nil
		p.pass(s, typed)
		p.loose = false
	} else if !s.seam && s.inner == nil {
		p.liftOwn(s, typed)
	}
	for _, o := range s.out {
		if o != nil && lost {
			o.lost = true
		}
	}
	p.inTurn(s, sides)
	p.labelLoss(s, sides)
	p.meetsDropped(s, sides)
	for j, o := range s.out {
		if o != nil {
			if o.view = s.viewed(lead); !o.pieces || o.made == nil {
				o.made = s
			}
			o.doubtful(s.in)
			o.restsOn(s.in)
		}
		p.know(sides, output(j), o)
	}
}

// liftOwn lifts a call that each rank computes by itself.
func (p *part) liftOwn(s *site, sides map[int]*side) {
	lead := sides[p.ranks[0]]
	if out, ok := lead.rec.Kwargs.Get("out"); ok && out != nil {
		return // what it writes to says nothing
	}
	if len(lead.ins) == 0 {
		p.positions(s, sides)
		p.draws(s, sides)
		return // sizes and numbers: what it is shows where it is read
	}
	if p.meetsDrawn(s, sides) {
		return
	}
	if m := method(s.op); len(s.in) == 1 && len(s.out) == 1 && s.in[0] != nil && s.in[0].pieces &&
		(silent[m] || reshaping[m]) {
		s.out[0] = &info{pieces: true, made: s.in[0].made}
		return
	}
	if !p.begins() && slices.ContainsFunc(s.in, func(n *info) bool { return n.astray() && n.places == nil }) ||
		p.unsummed(s, sides) || !p.compares(s, sides) {
		p.lose(s)
		return
	}
	local := p.local(sides)
	switch {
	case errors.Is(local.err, errRandom):
		if !uninitialized(method(s.op)) { // that is what the memory held
			p.random(s, sides)
		}
	case local.err != nil:
		p.descend(s, sides)
	case local.differ && p.rankwise(s, sides, local):
	case slices.ContainsFunc(s.in, (*info).unplaced):
		p.liftUntyped(s, sides, local)
	default:
		p.liftTyped(s, sides, local)
	}
}

// multiplies reports whether a call multiplies or divides.
func multiplies(op string) bool {
	return slices.Contains([]string{"mul", "multiply", "div", "divide", "truediv", "true_divide", "rmul"}, method(op))
}

// isLoss reports whether an operator compares its first argument with labels.
func isLoss(op string) bool {
	m := method(op)
	return strings.HasSuffix(m, "_loss") || strings.Contains(m, "cross_entropy") || m == "kl_div"
}

// owners are the ranks that recorded a call.
func (p *part) owners(s *site) []int {
	return slices.DeleteFunc(slices.Clone(p.ranks), func(r int) bool { return s.calls[r] == nil })
}

// others are the ranks of the part that are not among some.
func (p *part) others(some []int) []int {
	return slices.DeleteFunc(slices.Clone(p.ranks), func(r int) bool { return slices.Contains(some, r) })
}

// A localRun is what each rank's call gives in float64. A call of DTensors moves parts between the ranks itself: what
// was recorded counts then.
type localRun struct {
	outs   []map[int]*array // by result, then by rank
	differ bool             // the ranks gave other arguments than tensors
	err    error
}

func newLocalRun(lead *side) *localRun {
	l := &localRun{}
	for range lead.outs {
		l.outs = append(l.outs, map[int]*array{})
	}
	return l
}

// add notes the results of a rank.
func (l *localRun) add(rank int, outs []*array) {
	for j, a := range outs {
		l.outs[j][rank] = a
	}
}

func (p *part) local(sides map[int]*side) *localRun {
	lead := sides[p.ranks[0]]
	l := newLocalRun(lead)
	text := lead.arguments()
	for _, r := range p.ranks {
		outs, err := sides[r].outs, error(nil)
		switch {
		case lead.rec.Placed != "":
		case sides[r].recorded != nil:
			outs, err = p.checker.runOn(sides[r], sides[r].arrays())
		default:
			outs, err = p.checker.run(sides[r], nil, nil)
		}
		if err != nil {
			l.err = err
			return l
		}
		l.add(r, outs)
		l.differ = l.differ || sides[r].arguments() != text
	}
	return l
}

// arrays are the arguments of a call.
func (d *side) arrays() (out []*array) {
	for _, a := range d.ins {
		out = append(out, a.array)
	}
	return out
}

// outAddress is where a result lay.
func (d *side) outAddress(j int) uint64 {
	if len(d.call.Outputs) == len(d.outs) {
		return d.call.Outputs[j].Address
	}
	return 0
}

// candidates are the places that an argument may have: those that are known, or what its elements allow.
func (p *part) candidates(i int, s *site, sides map[int]*side) [][]place {
	values := p.column(sides, func(d *side) *array { return d.ins[i].array })
	arg := sides[p.ranks[0]].ins[i]
	owned := arg.name != "" || arg.tensor.RequiresGrad
	label := i > 0 && !owned && isLoss(s.op) // those of other ranks can be the same by chance
	var out [][]place
	if n := s.in[i]; n != nil && n.places != nil {
		out = append(out, n.places)
		if n.also != nil {
			out = append(out, n.also)
		}
		if n.made != nil {
			out = append(out, n.made.dealt...)
			for _, t := range n.made.turns {
				out = append(out, t.out)
			}
		}
		if !n.guess {
			return append(out, repetitions(n.places, values[p.ranks[0]], label)...)
		}
	}
	if places := p.planned(arg.name); places != nil {
		return [][]place{places}
	}
	a := values[p.ranks[0]]
	lists := make([][]place, len(p.dims))
	for m := range p.dims {
		same := p.equal(m, values, 0)
		if same {
			lists[m] = append(lists[m], whole)
		}
		if !same && owned && p.alike(m, values) {
			continue
		}
		for k := range a.shape {
			if !same && p.fits(m, values, k) ||
				same && (label || a.constant() && a.dtype.IsFloat() || a.shape[k] > 1 && a.repeats(k)) {
				lists[m] = append(lists[m], place{sharded, k, 0, 1})
			}
		}
		if placingTogether[method(s.op)] && !owned && a.constant() && slices.ContainsFunc(s.in, func(n *info) bool {
			return n.sound() && n.places[m].kind == partial
		}) {
			lists[m] = append(lists[m], sum(1)) // a count beside sums
		}
		if second := p.data >> m & 1; !same && (!owned || !a.dtype.IsFloat()) && second < len(lists[m]) {
			k := lists[m][second] // of data
			lists[m] = append([]place{k}, slices.Delete(slices.Clone(lists[m]), second, second+1)...)
		}
	}
	combinations(lists, func(ps []place) bool {
		out = append(out, slices.Clone(ps))
		return len(out) >= 64
	})
	return out
}

// liftTyped looks for places of the arguments that are not known, and of the results.
func (p *part) liftTyped(s *site, sides map[int]*side, local *localRun) {
	lead := sides[p.ranks[0]]
	lists := make([][][]place, len(lead.ins))
	for i := range lead.ins {
		lists[i] = p.candidates(i, s, sides)
		if len(lists[i]) == 0 {
			lists[i] = [][]place{nil}
		}
	}
	if silent[method(s.op)] && s.in[0] == nil && (len(lists[0]) > 1 || lead.ins[0].name != "" && !p.same(sides, 0)) {
		return // where it is read shows which of them; until then a broadcast may make a parameter the same everywhere
	}
	var chosen [][]place
	var why string
	search := func(sides map[int]*side) bool {
		return combinations(lists, func(in [][]place) bool {
			outs, reason := p.try(s, sides, local, in)
			if outs == nil {
				if why == "" || reason != "" {
					why = reason
				}
				return false
			}
			chosen = slices.Clone(in)
			for j, ps := range outs {
				if ps != nil {
					s.out[j] = &info{places: ps}
				}
			}
			return true
		})
	}
	found, view := search(sides), method(s.op) == "as_strided"
	if first := why; !found && !view {
		found = slices.ContainsFunc(p.counted(sides), search)
		why = first
	}
	if found {
		p.doubt(s, sides, local, chosen)
		p.turned(s, sides, local, lists, chosen)
		p.alternatives(s, sides, local, lists, chosen)
		p.settle(s, sides, chosen)
		p.certain(s, sides, local, lists)
		if p.chance(s, sides, lists, chosen) {
			p.guess(s, sides)
		}
		return
	}
	if view {
		return // a view of each rank's memory, as it lies there: what it is shows where it is read
	}
	if p.looksUpParts(s, sides, local, lists) || p.moved(s, sides) || p.ownStatistic(s, sides) {
		return
	}
	if p.ownNumber(s, sides, why) || p.weighed(s, sides) || p.ownParameter(sides) {
		p.forget(s)
		return
	}
	if (strings.HasPrefix(why, notFit) || why == nowhere) &&
		!slices.ContainsFunc(lead.outs, func(a *array) bool { return a.dtype.IsFloat() }) {
		p.forget(s) // made of counts of each rank
		return
	}
	p.violated(s, sides, local, why)
}

// forget notes that nothing is known of the results of a call.
func (p *part) forget(s *site) {
	for j := range s.out {
		s.out[j] = &info{}
	}
}

// ownStatistic lifts a product of means of each rank's own data, or a number that is made of them, that no exchange
// reads: a loss that each rank has by itself, such as for the balance of experts. The ranks' mean stands for the whole.
func (p *part) ownStatistic(s *site, sides map[int]*side) bool {
	lead := sides[p.ranks[0]]
	if len(lead.outs) != 1 || p.exchanged(s) ||
		method(s.op) != "mul" && (len(lead.outs[0].x) != 1 || len(lead.ins[0].array.x) != 1) {
		return false
	}
	places, many, means := p.everywhere(whole), 0, false
	for i, n := range s.in {
		if n == nil && p.same(sides, i) {
			continue
		}
		if !n.sound() || slices.ContainsFunc(n.places, func(q place) bool {
			return q.kind != partial && q.kind != replicated
		}) {
			return false
		}
		for m, q := range n.places {
			if q.kind == partial {
				places[m] = sum(float64(p.dims[m].size))
				means = means || q.factor == places[m].factor
			}
		}
		if n.isPartial() {
			many++
		}
	}
	if !means || many < 2 && method(s.op) == "mul" {
		return false
	}
	s.out[0] = &info{places: places}
	return true
}

// exchanged reports whether an exchange, or a function around one, reads a result of a call.
func (p *part) exchanged(s *site) bool {
	made := s.first(p.ranks)
	return slices.ContainsFunc(p.sites, func(t *site) bool {
		call := t.first(p.ranks)
		return slices.ContainsFunc(call.Inputs, func(v *step.Value) bool {
			return v.From.Value != nil && v.From.Value.Call == made
		}) && (isExchange(call.Op) || slices.ContainsFunc(p.checker.inside[call],
			func(c *step.Call) bool { return isExchange(c.Op) }))
	})
}

// ownNumber reports whether a call copies a number that each rank has of its own, such as a count, or scales it.
func (p *part) ownNumber(s *site, sides map[int]*side, why string) bool {
	lead := sides[p.ranks[0]]
	if why != nowhere || s.in[0] != nil || len(lead.ins[0].array.x) != 1 || !moving[method(s.op)] && !multiplies(s.op) {
		return false
	}
	for i := range lead.ins[1:] {
		if !p.same(sides, i+1) {
			return false
		}
	}
	return true
}

// ownParameter reports whether the ranks give a call parameters of other names, such as one table of several each: they
// are no parts of a whole.
func (p *part) ownParameter(sides map[int]*side) bool {
	for i, a := range sides[p.ranks[0]].ins {
		if a.name != "" && a.tensor.RequiresGrad && slices.ContainsFunc(p.ranks, func(r int) bool {
			return sides[r].ins[i].name != a.name && sides[r].ins[i].name != ""
		}) {
			return true
		}
	}
	return false
}

// weighed reports whether a call of which each rank has one number as the result, such as a mean of its own part, has
// it multiplied by another number of each rank: so the means of unequal parts make that of the whole. One that no
// gradient reaches is only for a log.
func (p *part) weighed(s *site, sides map[int]*side) bool {
	lead := sides[p.ranks[0]]
	if len(lead.outs) != 1 || len(lead.outs[0].x) != 1 || multiplies(s.op) {
		return false
	}
	if lead.outs[0].dtype.IsFloat() && !lead.call.HasBackward() && slices.ContainsFunc(lead.ins,
		func(a argument) bool { return a.tensor.RequiresGrad }) {
		return true
	}
	for _, t := range p.sites[slices.Index(p.sites, s)+1:] {
		at := slices.IndexFunc(t.first(p.ranks).Inputs, func(v *step.Value) bool {
			return v.From.Value != nil && v.From.Value.Call == s.first(p.ranks)
		})
		if at < 0 || !multiplies(t.op) {
			continue
		}
		reads := p.read(t)
		if reads == nil {
			continue
		}
		for i := range reads[p.ranks[0]].ins {
			if i != at && !p.same(reads, i) {
				return true
			}
		}
		for _, r := range p.ranks {
			if reads[r].arguments() != reads[p.ranks[0]].arguments() {
				return true
			}
		}
	}
	return false
}

// Reasons why a call cannot run on whole values; notFit is the beginning of one.
const (
	notFit   = "whole values do not fit: "
	averaged = "a sum over the ranks is divided by their number, as if it were one of means"
	nowhere  = "an argument lies on the ranks in no known way"
)

// doubt notes what else the results of a call can be: a number that it multiplies by may average over ranks or be a
// weight of the program's own, and so may one that an argument was multiplied by.
func (p *part) doubt(s *site, sides map[int]*side, local *localRun, chosen [][]place) {
	lead := sides[p.ranks[0]]
	if _, ok := p.scaling(s, lead, chosen); ok {
		s.out[0].also = chosen[0]
		return
	}
	if s.dealt = p.dealt(s, lead, chosen[0]); s.dealt != nil {
		return
	}
	other, some := slices.Clone(chosen), false
	for i, n := range s.in {
		if n != nil && n.also != nil {
			other[i], some = n.also, true
		}
	}
	if !some {
		return
	}
	outs, _ := p.try(s, sides, local, other)
	for j, ps := range outs {
		if s.out[j] != nil && ps != nil {
			s.out[j].also = ps
		}
	}
}

// settle notes the places that were found for arguments.
func (p *part) settle(s *site, sides map[int]*side, in [][]place) {
	lead := sides[p.ranks[0]]
	for i, a := range lead.ins {
		if s.in[i] == nil && in[i] != nil {
			s.in[i] = &info{places: in[i], orphan: true}
			s.in[i].assume(a, lead.rec.Placed != "")
			for _, d := range s.in[i].data {
				d.site, d.number = s, i
			}
			if a.name == "" {
				s.in[i].ragged = p.ragged(in[i], p.column(sides, func(d *side) *array { return d.ins[i].array }))
				s.in[i].guess = a.tensor.RequiresGrad && !p.same(sides, i) && !received(lead, i) // of an unknown call
			}
			p.learn(sides, i, s.in[i])
		}
		if n := s.in[i]; n != nil && n.made != nil && !slices.Equal(n.places, in[i]) {
			p.turn(n, in[i])
		}
		if n := s.in[i]; n != nil && n.made != nil && slices.ContainsFunc(n.made.dealt, func(ps []place) bool {
			return slices.Equal(ps, in[i])
		}) {
			n.places = in[i]
		}
		if n := s.in[i]; n != nil && (n.also != nil && slices.Equal(in[i], n.also) || n.guess && in[i] != nil) {
			n.places, n.also = in[i], nil // so that it fits the others
		}
	}
	var args info
	args.doubtful(s.in)
	p.confirm(s, in)
	for i, a := range lead.ins {
		if a.name != "" && s.in[i] != nil && p.shards[a.name] == nil && !(args.guess && a.array.constant()) {
			p.shards[a.name] = s.in[i].places
			p.names = append(p.names, a.name)
		}
	}
}

// learn notes what is known of an argument of all ranks. Ranks can have one value as different arguments, as where each
// puts its own among those that it received: that is no news about the value.
func (p *part) learn(sides map[int]*side, i int, n *info) {
	kept := map[int]*info{}
	for _, r := range p.ranks {
		has := p.known(r, sides[r].ins[i])
		if has != nil && slices.ContainsFunc(p.ranks, func(q int) bool {
			for j, a := range sides[q].ins {
				if q != r && j != i && p.known(q, a) == has {
					return true
				}
			}
			return false
		}) {
			kept[r] = has
		}
	}
	p.know(sides, input(i), n)
	for r, has := range kept {
		a := sides[r].ins[i]
		k := keyOf(r, a.array, a.address)
		p.env[k] = has
		k.address = 0
		p.env[k] = has
	}
}

// try runs the call on whole values; outs are nil if the ranks' results make nothing of what it gives.
func (p *part) try(s *site, sides map[int]*side, local *localRun, in [][]place) (outs [][]place, why string) {
	lead := sides[p.ranks[0]]
	wholes, why := p.wholes(sides, in)
	if why != "" {
		return nil, why
	}
	if k, ok := p.scaling(s, lead, in); ok {
		return k, ""
	}
	if p.averages(s, lead) {
		return nil, averaged
	}
	tolerance := exact
	if lead.rec.Placed != "" && len(lead.outs) > 0 {
		tolerance = lead.outs[0].rounding(len(p.ranks))
	}
	got, err := p.checker.runOn(lead, wholes)
	name := method(s.op)
	if err != nil && !reshaping[name] && !cutting[name] {
		return nil, notFit + err.Error()
	}
	outs = make([][]place, len(lead.outs))
	for j, parts := range local.outs {
		if err == nil {
			cands := p.outcomes(len(got[j].shape), in)
			if !folding[name] && !strings.Contains(name, "norm") {
				withoutFolds(cands, in)
			}
			if ps, ok := p.match(parts, got[j], cands, false, tolerance); ok {
				outs[j] = ps
				continue
			}
		}
		if reshaping[name] { // the sizes that a rank asks for can be those of its part
			if outs[j] = p.reshaped(parts, wholes[0], in[0], lead.ins[0].array.shape); outs[j] != nil {
				continue
			}
		}
		switch {
		case name == "unbind" && err != nil: // parts of each rank's own: what they are shows where they are read
			outs[j] = nil
		case cutting[name] && len(lead.ins) == 1 && len(parts[p.ranks[0]].shape) == len(wholes[0].shape):
			outs[j] = in[0] // the parts of each rank are parts of the whole in some order
		case expanding[name]:
			return nil, "parts are expanded"
		case lead.outs[j].dtype.IsFloat() && !folding[name]: // what local numbers mean shows where they are read
			return nil, "the ranks' results make nothing of what whole values give"
		}
	}
	return outs, ""
}

// withoutFolds takes out places that only a maximum or a norm gives, where no argument has them.
func withoutFolds(cands [][]place, in [][]place) {
	for m := range cands {
		cands[m] = slices.DeleteFunc(cands[m], func(q place) bool {
			return (q.kind == maximum || q.kind == norm) && !slices.ContainsFunc(in, func(ps []place) bool {
				return ps[m].kind == q.kind
			})
		})
	}
}

// wholes are the whole values of the arguments of a call that lie at places on the ranks, or why there are none.
func (p *part) wholes(sides map[int]*side, in [][]place) (out []*array, why string) {
	for i := range sides[p.ranks[0]].ins {
		if in[i] == nil {
			return nil, nowhere
		}
		w := p.join(p.column(sides, func(d *side) *array { return d.ins[i].array }), in[i])
		if w == nil {
			return nil, "the parts of an argument do not fit each other"
		}
		out = append(out, w)
	}
	return out, ""
}

// reshaped are the places of parts that have the elements of a whole value in another shape; nil if they have others.
// The whole value lay at places before, in parts of shape was.
func (p *part) reshaped(parts map[int]*array, all *array, at []place, was []int) []place {
	cands := p.outcomes(len(parts[p.ranks[0]].shape), [][]place{at})
	p.merging(cands, at, was)
	ps, ok := p.match(parts, all, cands, true, 0)
	if !ok {
		return nil
	}
	return ps
}

// merging adds the places that arise where a sharded dimension is made one with those before it.
func (p *part) merging(cands [][]place, in []place, shape []int) {
	for m, q := range in {
		if q.kind != sharded {
			continue
		}
		outer := max(q.outer, 1)
		for d := q.dim - 1; d >= 0; d-- {
			outer *= shape[d]
			for _, c := range slices.Clone(cands[m]) {
				if c.kind == sharded && c.outer == 0 {
					c.outer = outer
					cands[m] = append(cands[m], c)
				}
			}
		}
	}
}

// Operators that see the same elements in another shape, that take parts, that repeat elements, and whose results on
// parts of what they run over make nothing by themselves.
var (
	reshaping = setOf("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as", "squeeze", "unsqueeze",
		"contiguous")
	moving = setOf("clone", "contiguous", "view_as", "view", "reshape", "flatten", "empty_like", "empty", "new_empty",
		"zeros_like", "zeros", "new_zeros", "cat", "stack", "chunk", "split", "getitem", "setitem", "transpose",
		"permute",
		"copy", "to", "detach", "narrow", "unbind", "movedim", "t", "size", "unsqueeze", "squeeze", "wait")
	cutting = setOf("chunk", "split", "split_with_sizes", "tensor_split", "narrow", "unbind", "getitem",
		"unsafe_chunk")
	// placingTogether put values that can lie in different ways into one.
	placingTogether = setOf("copy", "stack", "cat", "concat", "concatenate")
	expanding       = setOf("expand", "expand_as")
	folding         = setOf("softmax", "log_softmax", "logsumexp", "norm", "vector_norm", "var", "std", "var_mean", "max",
		"min",
		"amax", "amin", "topk", "sort", "cumsum", "argmax", "argsort", "prod", "clip_grad_norm", "get_total_norm")
)

// silent are operators whose results have the elements and the shape of their argument, wherever it lies.
var silent = setOf("detach", "clone", "to", "view_as", "contiguous", "data")

func setOf(names ...string) map[string]bool {
	m := map[string]bool{}
	for _, n := range names {
		m[n] = true
	}
	return m
}

// scaling is about values that are a factor too large, the sum of means for instance: a product with a number, or a
// quotient by one, changes the factor.
func (p *part) scaling(s *site, lead *side, in [][]place) ([][]place, bool) {
	if len(lead.ins) != 1 || len(lead.outs) != 1 || len(lead.rec.Args) != 2 {
		return nil, false
	}
	k, ok := numberOf(lead.rec.Args[1])
	if !ok || k == 0 {
		return nil, false
	}
	if !multiplies(s.op) {
		return nil, false
	}
	if !strings.HasSuffix(method(s.op), "mul") && method(s.op) != "multiply" {
		k = 1 / k
	}
	ps := slices.Clone(in[0])
	if len(lead.outs[0].x) == 1 && p.multiplied(ps, k) { // a loss, times the number of ranks that average gradients
		return [][]place{ps}, true
	}
	if all := averagedOver(ps, k); all != nil {
		return [][]place{all}, true
	}
	if len(lead.outs[0].x) == 1 {
		if own := p.ownCount(s, ps, math.Round(1e6/k)/1e6); own != nil {
			p.means = lead.call
			return [][]place{own}, true
		}
	}
	for i, q := range ps {
		if q.factor != 1 && q.factor*k == 1 { // any other k is a weight of the program's own
			ps[i].factor = 1
			return [][]place{ps}, true
		}
	}
	return nil, false
}

// averagedOver are places after a product with k, the inverse of the factors of some dimensions together; nil if it is
// something else.
func averagedOver(ps []place, k float64) []place {
	all, rest := slices.Clone(ps), k
	for i, q := range all {
		if q.factor > 1 && rest*q.factor <= 1 {
			rest *= q.factor
			all[i].factor = 1
		}
	}
	if rest != 1 || k == 1 {
		return nil
	}
	return all
}

// multiplied multiplies the factors of partial sums by the sizes of their dimensions if k is their number of ranks: of
// all of them, or of one.
func (p *part) multiplied(ps []place, k float64) bool {
	var sums []int
	all := 1
	for m, q := range ps {
		if q.kind == partial {
			sums = append(sums, m)
			all *= p.dims[m].size
		}
	}
	if k != float64(all) {
		sums = slices.DeleteFunc(sums, func(m int) bool { return k != float64(p.dims[m].size) })
		sums = sums[:min(len(sums), 1)]
	}
	for _, m := range sums {
		ps[m].factor *= float64(p.dims[m].size)
	}
	return len(sums) > 0
}

func numberOf(v value.Value) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// violated says what is wrong with a call whose results make nothing: a parameter that differs where nothing else fits,
// or the call itself.
func (p *part) violated(s *site, sides map[int]*side, local *localRun, why string) {
	lead := sides[p.ranks[0]]
	if p.ownDivisor(s, sides) {
		return
	}
	if isLoss(s.op) && len(lead.ins) > 1 && !lead.ins[1].array.dtype.IsFloat() && p.classLabels(s, sides, 1) {
		p.guess(s, sides)
		return
	}
	for i, a := range lead.ins {
		if s.in[i] == nil && a.name == "" && a.tensor.RequiresGrad && !p.same(sides, i) {
			p.lose(s) // a value that was computed in a way that is not known, such as the rows of an expert
			return
		}
	}
	var args info
	args.doubtful(s.in)
	if args.guess || placingTogether[method(s.op)] { // what is put together shows where it is read
		p.forget(s)
		return
	}
	known := !slices.ContainsFunc(s.in, p.astray)
	mended, names := p.withFirst(s, sides)
	if len(names) > 0 && (p.movedApart() || p.ownTables(s, sides)) {
		p.forget(s) // replicas that moved apart on purpose, or none
		return
	}
	if len(names) > 0 && p.fitsWith(s, mended) {
		if known {
			p.foundBegun(s, sides, names)
		}
		return
	}
	if p.passesOn(s, sides) {
		p.forget(s)
		return
	}
	if strings.HasPrefix(why, notFit) && p.countedAlike(sides) == "" &&
		slices.ContainsFunc(lead.call.Inputs, func(v *step.Value) bool { return fromMessage(v, farFromMessage) }) {
		p.forget(s) // a block of another rank, such as of a ring: its place is that rank's
		return
	}
	if p.ownBusiness(s, sides, local) {
		if p.leave(s); known && strings.HasPrefix(why, notFit) {
			p.sizes = append(p.sizes, s)
		}
		return
	}
	if many := slices.ContainsFunc(lead.outs, func(a *array) bool { return len(a.x) != 1 }); many &&
		(args.ragged || p.unfit(s, sides)) {
		p.forget(s)
		return
	}
	if n := p.unequal(s, sides); n != nil && len(lead.outs) == 1 && len(lead.outs[0].x) == 1 {
		why = fmt.Sprintf("each rank has that of its own part, and these have %s elements: the mean of the whole counts "+
			"them alike", strings.Trim(fmt.Sprint(n), "[]"))
	}
	if strings.HasPrefix(why, notFit) {
		why = p.misfit(s, sides)
	}
	why += p.otherData(s, sides)
	if p.begins() && len(names) > 0 { // what replicas began with need not fit
		known = false
	}
	if !p.overcounted(s, sides, known) {
		p.found(known, &violation{kind: p.faultKind(s, sides, why), site: s, ranks: p.ranks, target: "output[0]",
			cause: p.begins(), reason: fmt.Sprintf("%s; together the results of ranks %s are not what the call gives on the whole (%s)",
				p.argumentsText(s, sides), rankList(p.ranks), why)})
	}
	p.guess(s, sides)
}

// foundBegun notes that replicas begin a step with different parameters that a call reads.
func (p *part) foundBegun(s *site, sides map[int]*side, names []string) {
	p.found(true, &violation{kind: "replica", site: s, ranks: p.ranks, target: p.target(sides[p.ranks[0]], names),
		begun: true, reason: fmt.Sprintf("%s differs between ranks %s, and what these have are no parts that fit the "+
			"other arguments: the call fits only if all ranks have the same, or if the data were others (%s)",
			strings.Join(names, ", "), rankList(p.ranks), p.argumentsText(s, sides))})
}

// withFirst are the sides of a call with the parameters of the first replica on all, and the names of those that
// differed.
func (p *part) withFirst(s *site, sides map[int]*side) (mended map[int]*side, names []string) {
	mended = map[int]*side{}
	for _, r := range p.ranks {
		d := *sides[r]
		d.ins = slices.Clone(d.ins)
		mended[r] = &d
	}
	for i, a := range sides[p.ranks[0]].ins {
		if s.in[i] != nil || !a.tensor.RequiresGrad && a.name == "" || p.same(sides, i) {
			continue
		}
		names = append(names, nameOf(a, i))
		for r, a := range p.asReplicas(p.column(sides, func(d *side) *array { return d.ins[i].array })) {
			mended[r].ins[i].array = a
		}
	}
	return mended, names
}

// asReplicas are values of the ranks with that of the first of each group along the dimensions of the mesh where they
// go together closely, and so were the same once; if there are none, with that of the first rank.
func (p *part) asReplicas(values map[int]*array) map[int]*array {
	places, some := p.everywhere(place{kind: sharded, factor: 1}), false
	for m := range p.dims {
		if !p.equal(m, values, 0) && p.alikeFrom(2, m, values) {
			places[m], some = whole, true
		}
	}
	if !some {
		places = p.everywhere(whole)
	}
	return p.aligned(values, places)
}

// fitsWith reports whether a call fits with other arguments than the recorded ones; it notes the places if so.
func (p *part) fitsWith(s *site, sides map[int]*side) bool {
	lead := sides[p.ranks[0]]
	again := p.rerun(sides)
	if again.err != nil {
		return false
	}
	lists := make([][][]place, len(lead.ins))
	for i := range lead.ins {
		lists[i] = p.candidates(i, s, sides)
	}
	return combinations(lists, func(in [][]place) bool {
		outs, _ := p.try(s, sides, again, in)
		if outs == nil {
			return false
		}
		for j, ps := range outs {
			s.out[j] = &info{places: ps, lost: true}
		}
		p.settle(s, sides, slices.Clone(in))
		return true
	})
}

// rerun computes a call of each rank on the arguments of its side.
func (p *part) rerun(sides map[int]*side) *localRun {
	l := newLocalRun(sides[p.ranks[0]])
	for _, r := range p.ranks {
		outs, err := p.checker.runOn(sides[r], sides[r].arrays())
		if err != nil {
			l.err = err
			return l
		}
		l.add(r, outs)
	}
	return l
}

// faultKind is the kind of a fault that a call of all ranks makes itself.
func (p *part) faultKind(s *site, sides map[int]*side, why string) string {
	switch lead := sides[p.ranks[0]]; {
	case why == averaged:
		return "scale"
	case !slices.ContainsFunc(lead.outs, func(a *array) bool { return len(a.x) != 1 }):
		return "scale" // a mean over parts of other sizes, or a quotient by a count of one rank
	case p.unreduced(s, sides), !multilinear(s.op) && slices.ContainsFunc(s.in, (*info).isPartial):
		return "collective"
	}
	return "shard"
}

// argumentsText says how each argument of a call lies on the ranks.
func (p *part) argumentsText(s *site, sides map[int]*side) string {
	var text []string
	for i, a := range sides[p.ranks[0]].ins {
		switch n := s.in[i]; {
		case n != nil && n.places != nil:
			text = append(text, nameOf(a, i)+" is "+placesText(n.places))
		case p.same(sides, i):
			text = append(text, nameOf(a, i)+" is the same on all ranks")
		default:
			text = append(text, nameOf(a, i)+" differs between the ranks")
		}
	}
	return strings.Join(text, ", ")
}

// shapesText says which shapes each rank has of the arguments of a call.
func (p *part) shapesText(sides map[int]*side) string {
	var out []string
	last := ""
	for _, r := range p.ranks {
		var shapes []string
		for _, a := range sides[r].ins {
			shapes = append(shapes, strings.ReplaceAll(fmt.Sprint(a.array.shape), " ", ", "))
		}
		text := strings.Join(shapes, " and ")
		if text != last {
			out = append(out, fmt.Sprintf("rank %d has %s", r, text))
		}
		last = text
	}
	if len(out) == 1 {
		return "each rank has " + last
	}
	return strings.Join(out, ", ")
}

// multilinear reports whether partial sums may go through an operator.
func multilinear(op string) bool {
	return slices.Contains([]string{"linear", "matmul", "mm", "bmm", "addmm", "add", "sub", "mul", "embedding",
		"where", "masked_fill"},
		method(op))
}

func nameOf(a argument, i int) string {
	if a.name != "" {
		return a.name
	}
	return fmt.Sprintf("input[%d]", i)
}

func (p *part) target(d *side, names []string) string {
	for i, a := range d.ins {
		if nameOf(a, i) == names[0] && i < len(d.call.Inputs) {
			return d.call.Inputs[i].Target
		}
	}
	return ""
}

func (p *part) same(sides map[int]*side, i int) bool {
	for m := range p.dims {
		if !p.equal(m, p.column(sides, func(d *side) *array { return d.ins[i].array }), 0) {
			return false
		}
	}
	return true
}

// guess gives results of a wrong call the places that the largest argument of their shape has: what is behind is lost.
func (p *part) guess(s *site, sides map[int]*side) {
	lead := sides[p.ranks[0]]
	for j, o := range lead.outs {
		s.out[j] = &info{lost: true}
		for i, a := range lead.ins {
			if s.in[i] != nil && s.in[i].places != nil && len(a.array.shape) == len(o.shape) &&
				slices.Equal(a.array.shape, o.shape) {
				s.out[j].places = s.in[i].places
				break
			}
		}
	}
}

// lose marks results that follow from something that is wrong already.
func (p *part) lose(s *site) {
	for j := range s.out {
		s.out[j] = &info{lost: true}
	}
}

// found adds a finding, unless it follows from an earlier one.
func (p *part) found(known bool, v *violation) {
	if known {
		p.broken = append(p.broken, v)
	}
}

// descend lifts the calls inside of a function that computes besides passing values from rank to rank, that only does
// so in its backward pass, or that no operator describes. ok is false if it only moves values between ranks.
func (p *part) descend(s *site, sides map[int]*side) (ok bool) {
	if isExchange(s.op) {
		return false
	}
	inner, aligned := p.within(s)
	if s.seam && !slices.ContainsFunc(inner, func(s *site) bool { return !s.seam && !moving[method(s.op)] }) {
		return false
	}
	if len(inner) == 0 {
		return false
	}
	if !aligned {
		s.seam = false
		p.forget(s)
		return true
	}
	s.inner, s.seam = inner, false
	for _, in := range inner {
		p.lift(in)
	}
	lead := sides[p.ranks[0]]
	for j := range lead.outs {
		if n := p.lookup(sides, output(j)); n != nil {
			s.out[j] = &info{places: n.places, pieces: n.pieces, lost: n.lost, rows: n.rows, pending: n.pending,
				source: n.source, ragged: n.ragged, guess: n.guess, own: n.own, firm: n.firm, data: n.data}
		}
	}
	for i, a := range lead.ins {
		if s.in[i] == nil {
			s.in[i] = p.lookup(sides, input(i))
		}
		if a.name != "" && s.in[i] != nil && s.in[i].places != nil && p.shards[a.name] == nil {
			p.shards[a.name] = s.in[i].places
		}
	}
	return true
}

// within are the calls that a function makes, of all ranks; aligned is whether the ranks make the same ones.
func (p *part) within(s *site) (inner []*site, aligned bool) {
	aligned = true
	for _, r := range p.ranks {
		calls := p.checker.inside[s.calls[r]]
		for i, c := range calls {
			if i >= len(inner) {
				aligned = aligned && r == p.ranks[0]
				inner = append(inner, &site{op: c.Op, calls: map[int]*step.Call{}, seam: isExchange(c.Op)})
			}
			aligned = aligned && inner[i].op == c.Op
			inner[i].calls[r] = c
		}
		aligned = aligned && len(calls) == len(inner)
	}
	return inner, aligned
}

// pass checks a call that moves values between ranks: what the ranks have together stays the same.
func (p *part) pass(s *site, sides map[int]*side) {
	lead := sides[p.ranks[0]]
	name := collective.Name(s.op)
	if len(lead.ins) == 0 || name == "barrier" {
		return
	}
	from := s.sends(lead)
	results := p.passed(s, sides, from)
	if p.addsUp(s) {
		p.noteTotal(results)
	}
	if name == "broadcast" && len(results) == 1 && results[0].values != nil && p.replicates(results[0].values) {
		results[0].keep(&info{places: p.everywhere(whole), orphan: true}) // whatever it was before
		return
	}
	if n := s.in[from]; (n == nil || n.places == nil && n.rows == nil) && p.checker.swaps(s.op, lead.call) {
		if of := p.rowsBack(s, from); of != nil {
			s.in[from] = &info{rows: of}
		}
	}
	if s.in[from] == nil {
		if cands := p.candidates(from, s, sides); len(cands) == 1 {
			s.in[from] = &info{places: cands[0], orphan: true}
			s.in[from].assume(lead.ins[from], lead.rec.Placed != "")
		}
	}
	if p.checker.swaps(s.op, lead.call) {
		p.noteSent(s, from, 6)
	}
	n := s.in[from]
	if (n == nil || n.places == nil || n.guess) && p.addsBias(s, sides, from, results) {
		return
	}
	if n == nil || n.rows != nil {
		p.moved(s, sides)
		return
	}
	values := p.column(sides, func(d *side) *array { return d.ins[from].array })
	if n.own || n.assumed() && !p.explains(n, values, results) {
		p.meet(s, sides, from, n, results)
	}
	tolerance := lead.ins[from].array.rounding(len(p.ranks))
	for _, r := range results {
		if r.values == nil {
			continue
		}
		if n.places == nil {
			p.passUntyped(s, n, r.values, tolerance, r.keep)
			continue
		}
		all := p.join(values, n.places)
		if all == nil {
			continue
		}
		ps := p.unstacked(n, r.values, tolerance)
		if ps == nil {
			ps = p.passedPlaces(n, r.values, all, tolerance)
		}
		if ps == nil {
			ps = p.stacked(n, values, r.values, tolerance)
		}
		if ps != nil {
			n.moves(ps)
			r.keep(&info{places: ps, also: n.counts(ps), lost: n.lost, reduced: p.reduces(n.places, ps), made: s,
				ragged: n.ragged, guess: n.guess, firm: n.firm | dealt(n.places, ps), data: n.data})
			continue
		}
		if p.checker.swaps(s.op, lead.call) {
			p.moved(s, sides)
			continue
		}
		resized := len(all.x) != len(r.values[p.ranks[0]].x) && len(lead.outs) == 0
		early := isFunctional(s.op) // recorded before it is there
		if early || !all.dtype.IsFloat() || !reducesPlainly(lead) || len(results) > 1 || resized {
			continue
		}
		halo, apart := p.halo(n, values, r.values, all)
		if n.guess || n.ragged || halo && apart == "" || p.rearranged(values, r.values, all) {
			r.keep(&info{})
			continue
		}
		reason := fmt.Sprintf("its argument is %s over ranks %s; what the ranks have after it does not make the same whole: "+
			"parts are in another order, or others were added", placesText(n.places), rankList(p.ranks))
		if apart != "" {
			reason = apart
		}
		p.found(!n.lost && !n.orphan, &violation{kind: "collective", site: s, ranks: p.ranks, target: "output[0]",
			reason: reason})
		r.keep(&info{lost: true})
	}
}

// A collective cuts or joins along the first dimension. For another one, DTensor stacks the chunks of a value before a
// reduce_scatter, and chunks what an all_gather stacked.

// unstacked are the places by which results make the value whose chunks were stacked as the argument of an exchange.
// It is nil if that was made otherwise.
func (p *part) unstacked(n *info, results map[int]*array, tolerance float64) []place {
	if n.made == nil || method(n.made.op) != "cat" || len(n.made.in) == 0 || !n.made.in[0].sound() {
		return nil
	}
	t := n.made.in[0].made
	if t == nil || method(t.op) != "chunk" && method(t.op) != "split" || len(t.in) != 1 || !t.in[0].sound() ||
		!slices.Equal(t.out, n.made.in) {
		return nil
	}
	sides := p.read(t)
	if sides == nil {
		return nil
	}
	all := p.join(p.column(sides, func(d *side) *array { return d.ins[0].array }), t.in[0].places)
	if all == nil {
		return nil
	}
	return p.passedPlaces(t.in[0], results, all, tolerance)
}

// stacked are the places of the results of an exchange that stacks parts which lie along another dimension than the
// first; nil if it does something else.
func (p *part) stacked(n *info, values, results map[int]*array, tolerance float64) []place {
	o := &info{places: slices.Clone(n.places)}
	for m, q := range o.places {
		if q.kind == sharded && q.outer == 0 {
			o.places[m].dim = 0
		}
	}
	if slices.Equal(o.places, n.places) {
		return nil
	}
	all := p.join(values, o.places)
	if all == nil || len(all.shape) != len(results[p.ranks[0]].shape) || all.shape[0] != results[p.ranks[0]].shape[0] {
		return nil
	}
	return p.passedPlaces(o, results, all, tolerance)
}

// noteTotal notes a whole number that an exchange added up.
func (p *part) noteTotal(results []passed) {
	for _, r := range results {
		if r.values == nil || !p.replicates(r.values) {
			continue
		}
		if x := r.values[p.ranks[0]].x; len(x) == 1 && x[0] > 1 && x[0] == math.Trunc(x[0]) {
			p.totals = append(p.totals, x[0])
		}
	}
}

// replicates reports whether all ranks have the same value.
func (p *part) replicates(values map[int]*array) bool {
	return !slices.ContainsFunc(p.ranks, func(r int) bool { return !values[r].near(values[p.ranks[0]], 0) })
}

// isFunctional reports whether an operator is a functional collective, whose result is there when it is first read.
func isFunctional(op string) bool {
	return strings.Contains(op, "c10d_functional") && collective.Name(op) != "wait_tensor"
}

// gathering are the collectives that take the values to write to before the ones that they send.
var gathering = setOf("all_gather", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single",
	"all_gather_base", "reduce_scatter_base")

// A passed is a value that the ranks have after a call that moves values between them.
type passed struct {
	values map[int]*array // nil where a rank has none
	keep   func(*info)    // notes what is known of it
}

// passed are the results of a call that moves argument from between ranks, and the arguments that a collective wrote.
func (p *part) passed(s *site, sides map[int]*side, from int) (out []passed) {
	lead := sides[p.ranks[0]]
	for j := range lead.outs {
		out = append(out, passed{p.column(sides, func(d *side) *array { return d.outs[j] }),
			func(n *info) { s.out[j] = n }})
	}
	name := collective.Name(s.op)
	if name == "" {
		return out
	}
	for i := range lead.ins {
		after := p.column(sides, func(d *side) *array {
			if d.after[i] == nil && i == from && name == "all_reduce" {
				return d.ins[i].array
			}
			return d.after[i]
		})
		if after != nil {
			out = append(out, passed{after, func(n *info) { p.know(sides, changed(i, after), n) }})
		}
	}
	return out
}

// passedPlaces are the places by which values make a whole one, or its sum over ranks; nil if they make something else.
func (p *part) passedPlaces(n *info, values map[int]*array, all *array, tolerance float64) []place {
	cands := p.outcomes(len(values[p.ranks[0]].shape), [][]place{n.places, p.everywhere(sum(1))})
	for m, d := range p.dims {
		factor := n.places[m].factor * float64(d.size)
		cands[m] = append(cands[m], place{kind: replicated, factor: factor}, sum(factor))
	}
	ps, ok := p.match(values, all, cands, false, tolerance)
	if !ok {
		return nil
	}
	return ps
}

// swaps reports whether a call, or one inside of it, gives every rank a part of every other: which parts, the program
// decides.
func (c *checker) swaps(op string, call *step.Call) bool {
	swap := func(op string) bool { return strings.HasPrefix(collective.Name(op), "all_to_all") }
	return swap(op) || slices.ContainsFunc(c.inside[call], func(c *step.Call) bool { return swap(c.Op) })
}

// reducesPlainly reports whether a collective adds up or moves, and takes no maximum or product.
func reducesPlainly(d *side) bool {
	plain := true
	value.Walk(value.NewTuple(value.NewTuple(d.rec.Args...), d.rec.Kwargs), func(v value.Value) {
		if o, ok := v.(*value.Opaque); ok && strings.Contains(o.Reason, "RedOpType") && !strings.Contains(o.Reason,
			"SUM") &&
			!strings.Contains(o.Reason, "AVG") {
			plain = false
		}
	})
	return plain
}

// passUntyped checks what becomes of untyped values that the ranks exchange.
func (p *part) passUntyped(s *site, n *info, values map[int]*array, tolerance float64, keep func(*info)) {
	if n.pending == nil {
		return
	}
	lost := n.lost && p.begins()
	if lost {
		tolerance = 0.05 // of replicas that moved apart
	}
	if ps, ok := p.match(values, n.pending, p.outcomes(len(n.pending.shape), nil), false, tolerance); ok {
		keep(&info{places: ps, lost: lost})
		return
	}
	p.found(!n.lost, &violation{kind: "shard", site: s, ranks: p.ranks, target: "output[0]",
		reason: fmt.Sprintf("ranks %s look up their own parts of a sharded table, and the sum of what they found is "+
			"not what "+
			"the whole table gives: an index is off, or the rows of other ranks are not zeroed", rankList(p.ranks))})
	keep(&info{places: p.everywhere(whole), lost: true})
}
