package parallel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A function of the program can compute and pass values between ranks in one, as ring attention does, with a backward
// pass of its own. The calls that it made forward on all ranks have a derivative: that of each call, and the
// transpose of each exchange. The gradients of the function should be that, or all a multiple of it: programs divide
// by numbers of ranks in other ways. That of a value which all ranks have can be the sum of theirs.

// A pull is the backward pass through the calls that a function made on all ranks.
type pull struct {
	*part
	inner map[int][]*pulled
	found map[int]map[int]*array // the derivatives by the inputs of the function, by rank and number
	alone bool                   // exchanges pass no gradients of other ranks back
}

// A pulled is one of these calls.
type pulled struct {
	call *step.Call
	side *side
	from []origin // of the arguments
	// results and written are the gradients of the results and of the arguments that the call wrote.
	results, written []*array
	with             []*pulled // of an exchange: the calls of all its ranks, in their order
	arrived, done    bool      // of an exchange
}

// An origin is what made a value: a call inside of the function, which gave or wrote it, or nothing that matters. It
// may be an input of the function.
type origin struct {
	by      *pulled
	number  int // of the result, of the argument that was written, or of the input
	written bool
	input   bool
	address uint64
}

// derived checks the gradients of a function that computes and passes values between ranks.
func (p *part) derived(s *site, sides map[int]*side) {
	if len(p.broken) > 0 || !p.computesAcross(s, sides) {
		return
	}
	d := p.pulled(s, sides, false)
	if d == nil {
		return
	}
	right, wrong := 0, []int{}
	lead := sides[p.ranks[0]]
	for i := range lead.ins {
		got := p.column(sides, func(d *side) *array { return d.gradIns[i] })
		if got == nil || !lead.ins[i].array.dtype.IsFloat() {
			continue
		}
		switch want := d.of(i, sides); {
		case want == nil:
			return
		case !slices.ContainsFunc(p.ranks, func(r int) bool { return !want[r].zero() }):
		case p.multipleOf(got, want, p.column(sides, func(d *side) *array { return d.ins[i].array })):
			right++
		default:
			wrong = append(wrong, i)
		}
	}
	for _, i := range wrong {
		got := p.column(sides, func(d *side) *array { return d.gradIns[i] })
		why := p.misled(i, got, d.of(i, sides))
		if why == "" {
			if alone := p.pulled(s, sides, true); alone != nil && p.multipleOf(got, alone.of(i, sides), nil) {
				why = "it is what each rank computed itself, and lacks what came from other ranks"
			}
		}
		if why == "" && right > 0 {
			why = "those of other arguments are, and it is something else"
		}
		if why == "" {
			continue
		}
		p.found(true, &violation{kind: "collective", site: s, ranks: p.ranks, backward: true,
			target: fmt.Sprintf("grad[%d]", i), reason: fmt.Sprintf("the gradient of %s is not the derivative of the calls that "+
				"ranks %s made in it together: %s", nameOf(lead.ins[i], i), rankList(p.ranks), why)})
		return
	}
}

// computesAcross reports whether a call is a function of the program that computes besides passing values on, and has
// recorded gradients.
func (p *part) computesAcross(s *site, sides map[int]*side) bool {
	const most = 1 << 26 // elements, so that the reference can hold them
	size := 0
	for _, r := range p.ranks {
		d := sides[r]
		inner := p.checker.inside[d.call]
		if !strings.HasSuffix(d.call.Op, ".apply") || d.rec.Placed != "" || len(d.gradOuts) != len(d.outs) ||
			!slices.ContainsFunc(d.gradOuts, func(g *array) bool { return g != nil }) ||
			!slices.ContainsFunc(d.gradIns, func(g *array) bool { return g != nil }) ||
			!slices.ContainsFunc(inner, func(c *step.Call) bool { return exchanges(c) }) ||
			!slices.ContainsFunc(inner, func(c *step.Call) bool { return !exchanges(c) && !moving[method(c.Op)] }) {
			return false
		}
		for _, c := range inner {
			for _, v := range slices.Concat(c.Inputs, c.Outputs) {
				size += numel(v.Shape)
			}
		}
	}
	return size < most
}

// exchanges reports whether a call passes values between ranks, as a collective or a message.
func exchanges(c *step.Call) bool {
	name := collective.Name(c.Op)
	return name != "" && name != "wait_tensor" && name != "barrier" && !strings.HasPrefix(name, "get_") &&
		!strings.HasPrefix(name, "is_") && name != "batch_isend_irecv"
}

// of are the derivatives by an input of a function, by rank; nil if they are not known, as where a difference of
// infinities is among them.
func (d *pull) of(i int, sides map[int]*side) map[int]*array {
	out := map[int]*array{}
	for _, r := range d.ranks {
		a := sides[r].ins[i].array
		if out[r] = d.found[r][i]; out[r] == nil {
			out[r] = a.zeros()
		}
		if len(out[r].x) != len(a.x) || slices.ContainsFunc(out[r].x, func(x float64) bool { return x-x != 0 }) {
			return nil
		}
		out[r] = out[r].reshaped(a.shape)
	}
	return out
}

// multipleOf reports whether gradients are one multiple of derivatives, or of their sums over ranks that have the same
// values.
func (p *part) multipleOf(got, want, values map[int]*array) bool {
	for set := range 1 << len(p.dims) {
		sums, ok := want, true
		for m, d := range p.dims {
			if set>>m&1 == 0 {
				continue
			}
			if ok = ok && values != nil && p.equal(m, values, 0); !ok {
				break
			}
			next := map[int]*array{}
			for _, g := range d.groups {
				total := sums[g[0]]
				for _, r := range g[1:] {
					total = total.plus(sums[r])
				}
				for _, r := range g {
					next[r] = total
				}
			}
			sums = next
		}
		if ok && p.isMultiple(got, sums) {
			return true
		}
	}
	return false
}

// isMultiple reports whether the values of all ranks are one multiple of others.
func (p *part) isMultiple(got, want map[int]*array) bool {
	var x, y []float64
	eps := 0.0
	for _, r := range p.ranks {
		x, y = append(x, got[r].x...), append(y, want[r].x...)
		eps = max(eps, got[r].dtype.Eps())
	}
	up, down := dot(x, y), dot(y, y)
	return len(x) == len(y) && up > 0 && down > 0 && misses(x, y, up/down) <= max(0.02, 8*eps)
}

// misled says that each rank has the gradient of another one's argument; "" if it does not.
func (p *part) misled(i int, got, want map[int]*array) string {
	for by := 1; by < len(p.ranks); by++ {
		to := map[int]*array{}
		for k, r := range p.ranks {
			to[r] = want[p.ranks[(k+by)%len(p.ranks)]]
			if len(to[r].x) != len(got[r].x) {
				return ""
			}
		}
		if p.isMultiple(got, to) {
			return fmt.Sprintf("what rank %d has is that of rank %d, and so on: it was passed on once too often, or not "+
				"often enough", p.ranks[0], p.ranks[by])
		}
	}
	return ""
}

// pulled goes back through the calls that a function made on all ranks; nil if that is not known of one of them.
func (p *part) pulled(s *site, sides map[int]*side, alone bool) *pull {
	d := &pull{part: p, inner: map[int][]*pulled{}, found: map[int]map[int]*array{}, alone: alone}
	byEntry := map[*capture.Entry]*pulled{}
	for _, r := range p.ranks {
		d.found[r] = map[int]*array{}
		for _, c := range p.checker.inside[sides[r].call] {
			if c.Outer() != sides[r].call {
				continue // that one is gone through
			}
			one, err := p.checker.load(c)
			if err != nil || len(c.Inputs) != len(one.ins) {
				return nil
			}
			q := &pulled{call: c, side: one, results: make([]*array, len(one.outs))}
			q.written = make([]*array, len(one.ins))
			byEntry[c.Entry] = q
			d.inner[r] = append(d.inner[r], q)
		}
	}
	for _, r := range p.ranks {
		for _, q := range d.inner[r] {
			if !exchanges(q.call) {
				continue
			}
			for _, e := range p.checker.exchange(q.call) {
				q.with = append(q.with, byEntry[e])
			}
			if len(q.with) < 2 || slices.Contains(q.with, nil) {
				return nil
			}
		}
	}
	ends := map[int][]origin{}
	for _, r := range p.ranks {
		o, ok := d.origins(r, sides[r])
		if !ok {
			return nil
		}
		ends[r] = o
	}
	for _, r := range p.ranks {
		for j, g := range sides[r].gradOuts {
			if g != nil {
				d.add(r, ends[r][j], g)
			}
		}
	}
	if !d.back() {
		return nil
	}
	return d
}

// making are operators of which the elements of arguments do not matter.
var making = setOf("empty", "zeros", "ones", "full", "arange", "rand", "randn", "tensor", "empty_like", "zeros_like",
	"ones_like", "full_like", "rand_like", "randn_like", "new_empty", "new_zeros", "new_ones", "new_full", "new_tensor",
	"detach")

// origins finds what made each argument of the calls inside of a function of a rank, and its results, by their elements
// and addresses. ok is false if something is not known.
func (d *pull) origins(rank int, fn *side) (ends []origin, ok bool) {
	made := map[uint64][]origin{} // by elements
	note := func(a *array, o origin) {
		if a != nil {
			made[a.sum()] = append(made[a.sum()], o)
		}
	}
	find := func(a *array, address uint64) (origin, bool) {
		all := made[a.sum()]
		for _, o := range slices.Backward(all) {
			if o.address == address && address != 0 {
				return o, true
			}
		}
		if len(all) > 0 && !a.constant() {
			return all[len(all)-1], true
		}
		return origin{}, a.constant()
	}
	for i, a := range fn.ins {
		note(a.array, origin{number: i, input: true, address: a.address})
	}
	for _, q := range d.inner[rank] {
		for i, a := range q.side.ins {
			o, known := origin{}, true
			if a.array.dtype.IsFloat() {
				o, known = find(a.array, a.address)
			}
			v := q.call.Inputs[i]
			before := v.Parameter || v.From.Value != nil && v.From.Value.Call.Order < fn.call.Order
			if !known && (!before || fn.overlaps(v)) && !q.gets(i) {
				return nil, false
			}
			q.from = append(q.from, o)
		}
		for j, a := range q.side.outs {
			note(a, origin{by: q, number: j, address: q.side.outAddress(j)})
		}
		for i, a := range q.side.ins {
			note(q.left(i, d.checker.opt), origin{by: q, number: i, written: true, address: a.address})
		}
	}
	for j, a := range fn.outs {
		o, known := find(a, fn.outAddress(j))
		if !known {
			return nil, false
		}
		ends = append(ends, o)
	}
	return ends, true
}

// overlaps reports whether an argument inside of a function lies where one of the function's own does: it is a view of
// that which was not recorded.
func (d *side) overlaps(v *step.Value) bool {
	return slices.ContainsFunc(d.call.Inputs, func(u *step.Value) bool {
		size := func(v *step.Value) uint64 { return uint64(numel(v.Shape) * v.DType.Size()) }
		return u.Address != 0 && u.Address < v.Address+size(v) && v.Address < u.Address+size(u)
	})
}

// gets reports whether an exchange only writes to an argument.
func (q *pulled) gets(i int) bool {
	switch name := collective.Name(q.call.Op); name {
	case "recv", "irecv":
		return true
	case "all_gather", "all_to_all":
		return i < len(q.with)
	case "all_gather_into_tensor", "all_gather_base", "reduce_scatter_tensor", "reduce_scatter_base", "reduce_scatter",
		"all_to_all_single":
		return i == 0 && len(q.side.ins) > 1
	}
	return false
}

// left is what a call left in an argument; nil if nothing.
func (q *pulled) left(i int, opt step.Options) *array {
	name := collective.Name(q.call.Op)
	switch a := q.side.after[i]; {
	case q.with != nil && !q.gets(i) && (name != "all_reduce" && name != "broadcast" || i > 0):
		return nil
	case a != nil || q.with == nil:
		return a
	}
	if q.gets(i) && len(q.with) == 2 && q.with[1] == q && len(q.side.ins) == 1 {
		return q.with[0].side.ins[0].array // what was sent
	}
	if settled := q.call.Settled(opt); i < len(settled) && settled[i] != nil {
		return newArray(settled[i])
	}
	return nil
}

// add adds the gradient of a value to that of what made it.
func (d *pull) add(rank int, o origin, g *array) {
	at := func(had *array) *array {
		if had == nil || len(had.x) != len(g.x) {
			return g
		}
		return had.plus(g.reshaped(had.shape))
	}
	switch {
	case o.input:
		d.found[rank][o.number] = at(d.found[rank][o.number])
	case o.by == nil:
	case o.written:
		o.by.written[o.number] = at(o.by.written[o.number])
	default:
		o.by.results[o.number] = at(o.by.results[o.number])
	}
}

// back goes back through the calls of all ranks; ok is false if a call has no known derivative.
func (d *pull) back() (ok bool) {
	at := map[int]int{}
	for _, r := range d.ranks {
		at[r] = len(d.inner[r])
	}
	for {
		moved, left := false, false
		for _, r := range d.ranks {
			for at[r] > 0 {
				q := d.inner[r][at[r]-1]
				ready, ok := d.through(r, q)
				if !ok {
					return false
				}
				if !ready {
					break
				}
				moved = true
				at[r]--
			}
			left = left || at[r] > 0
		}
		if !left {
			return true
		}
		if !moved {
			return false
		}
	}
}

// through goes back through one call: ready is false if another rank has to come first.
func (d *pull) through(rank int, q *pulled) (ready, ok bool) {
	if q.with == nil {
		return true, d.compute(rank, q)
	}
	q.arrived = true
	if len(q.with) == 2 && q.with[1] == q && len(q.side.ins) == 1 && q.gets(0) {
		return true, true // what was received is passed back by the one that sent it
	}
	for _, o := range q.with {
		if !o.arrived {
			return false, true
		}
	}
	if q.done {
		return true, true
	}
	grads, ok := transposeOf(q, d.alone)
	if !ok {
		return true, false
	}
	for k, o := range q.with {
		o.done = true
		for i, g := range grads[k] {
			if g != nil {
				d.add(o.call.Process.Rank, o.from[i], g)
			}
		}
	}
	return true, true
}

// compute goes back through a call that a rank computes by itself.
func (d *pull) compute(rank int, q *pulled) (ok bool) {
	if making[method(q.call.Op)] || !slices.ContainsFunc(q.results, func(g *array) bool { return g != nil }) {
		return !slices.ContainsFunc(q.written, func(g *array) bool { return g != nil })
	}
	if collective.Name(q.call.Op) == "wait_tensor" {
		d.add(rank, q.from[0], q.results[0])
		return true
	}
	of := make([]*tensor.Tensor, len(q.results))
	for j, g := range q.results {
		if g != nil {
			of[j] = tensor.New(tensor.Float64, q.side.outs[j].shape, g.x)
		}
	}
	grads, err := q.call.Pull(of, d.checker.opt)
	if err != nil || grads == nil {
		return false
	}
	for i, t := range grads {
		if g := newArray(t); g != nil && i < len(q.from) {
			d.add(rank, q.from[i], g)
		}
	}
	return true
}

// transposeOf are the gradients of the arguments of an exchange, by the place of the rank in its group and the number
// of the argument, from those of what all ranks got, or what it got alone; ok is false if that is not known.
func transposeOf(q *pulled, alone bool) (grads [][]*array, ok bool) {
	n := len(q.with)
	grads = make([][]*array, n)
	// got is the gradient of what rank k got for the argument of another one.
	got := func(k, i, of int) *array {
		g := q.with[k].gradient(i)
		if alone && k != of {
			return g.zeros()
		}
		return g
	}
	sends := func(k int) int { // the number of the argument that is sent
		return len(q.with[k].side.ins) - 1
	}
	name := collective.Name(q.call.Op)
	for k, o := range q.with {
		grads[k] = make([]*array, len(o.side.ins))
	}
	total := func(i, of int) *array {
		sum := got(0, i, of)
		for k := 1; k < n; k++ {
			other := got(k, i, of)
			if len(other.x) != len(sum.x) {
				return nil
			}
			sum = sum.plus(other.reshaped(sum.shape))
		}
		return sum
	}
	switch name {
	case "send", "isend", "recv", "irecv":
		grads[0][0] = got(1, 0, 0)
	case "all_reduce":
		if !reducesPlainly(q.side) {
			return grads, true // a maximum only shifts what is divided by it again
		}
		for k := range n {
			sum := total(0, k)
			if sum == nil {
				return nil, false
			}
			if meansOver(q.side) {
				sum = sum.times(1 / float64(n))
			}
			grads[k][0] = sum
		}
	case "all_gather":
		for k := range n {
			if len(q.with[k].side.ins) != n+1 {
				return nil, false
			}
			if grads[k][n] = total(k, k); grads[k][n] == nil {
				return nil, false
			}
		}
	case "all_gather_into_tensor", "all_gather_base":
		for k := range n {
			if grads[k][sends(k)] = total(0, k).piece(k, n); grads[k][sends(k)] == nil {
				return nil, false
			}
		}
	case "reduce_scatter_tensor", "reduce_scatter_base":
		if !reducesPlainly(q.side) {
			return nil, false
		}
		for of := range n {
			var parts []*array
			for k := range n {
				g := got(k, 0, of)
				parts = append(parts, g.reshaped([]int{len(g.x)}))
			}
			all := concat(0, 0, parts)
			if meansOver(q.side) {
				all = all.times(1 / float64(n))
			}
			if len(q.with[of].side.ins[sends(of)].array.x) != len(all.x) {
				return nil, false
			}
			grads[of][sends(of)] = all
		}
	case "all_to_all_single":
		for k := range n {
			var parts []*array
			for o := range n {
				g, x := got(o, 0, k).piece(k, n), q.with[k].side.ins[sends(k)].array.piece(o, n)
				if g == nil || x == nil || len(g.x) != len(x.x) {
					return nil, false // of unequal parts
				}
				parts = append(parts, g)
			}
			grads[k][sends(k)] = concat(0, 0, parts)
		}
	default:
		return nil, false
	}
	return grads, true
}

// gradient is that of what an exchange left in argument i, or gave; of zeros if nothing reads it.
func (q *pulled) gradient(i int) *array {
	if g := q.written[i]; g != nil {
		return g
	}
	if !isFunctional(q.call.Op) || len(q.results) == 0 {
		return q.side.ins[i].array.zeros()
	}
	if q.results[0] != nil {
		return q.results[0]
	}
	return q.side.outs[0].zeros()
}

// meansOver reports whether a collective takes the mean.
func meansOver(d *side) bool {
	mean := false
	value.Walk(value.NewTuple(value.NewTuple(d.rec.Args...), d.rec.Kwargs), func(v value.Value) {
		o, ok := v.(*value.Opaque)
		mean = mean || ok && strings.Contains(o.Reason, "AVG") || v == "avg"
	})
	return mean
}

// piece is part k of n of the elements; nil if they cannot be divided so.
func (a *array) piece(k, n int) *array {
	if a == nil || len(a.x)%n != 0 {
		return nil
	}
	size := len(a.x) / n
	return &array{a.dtype, []int{size}, a.x[k*size : (k+1)*size]}
}
