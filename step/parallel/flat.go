package parallel

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// A flatCall is a call behind the backward pass with what it reads of one dimension and leaves there: parts of buffers
// that hold many parameters, or their gradients, one behind the other (ZeRO).
type flatCall struct {
	call        *step.Call
	ins, result []*array // by argument; result is nil where nothing was written
}

func flatOf(c *step.Call, d *side) flatCall {
	f := flatCall{call: c}
	for i, a := range d.ins {
		if a.name != "" || len(a.array.shape) != 1 || !a.array.dtype.IsFloat() {
			continue
		}
		f.ins = append(f.ins, a.array)
		r := d.after[i]
		if r == nil && i == 0 && len(d.outs) == 1 && len(d.outs[0].x) == len(a.array.x) && d.returns(0) {
			r = d.outs[0]
		}
		f.result = append(f.result, r)
	}
	return f
}

// A bucket is a buffer of gradients that ranks reduce together, each keeping its part.
type bucket struct {
	size  int
	names []string
	at    map[string]int // where the gradient of a parameter begins
	group []int
	alone bool // no exchange reads it
}

// flats checks gradients that are reduced and updated in flat buffers, and that all ranks then have the result. The
// ranks of a group along one dimension of the mesh share out a buffer; those of other groups have the same parts.
func (p *part) flats(tails map[int]*tail, factors []float64, verdicts map[string]*judged) {
	for _, b := range p.buckets(tails[p.ranks[0]]) {
		groups := p.groupsBeside(b.group)
		if groups == nil || slices.ContainsFunc(b.names, func(n string) bool { return verdicts[n] != nil }) {
			continue
		}
		part := b.size / len(b.group)
		value, total := make([]float64, b.size), make([]float64, b.size)
		for _, n := range b.names {
			want, places, _ := p.wanted(n, p.grads[n], factors)
			if slices.ContainsFunc(places, func(q place) bool { return q.kind != replicated }) {
				value = nil // their parts are parts of another whole
				break
			}
			copy(value[b.at[n]:], p.grads[n].value[p.ranks[0]].x)
			copy(total[b.at[n]:], want[p.ranks[0]].x)
		}
		if value == nil {
			continue
		}
		g := p.grads[b.names[0]]
		v := &judged{update: map[int]*step.Call{}, many: len(b.names), copies: slices.Repeat([]float64{1}, len(p.dims))}
		read, want, own := map[int]*array{}, map[int]*array{}, map[int]*array{}
		updates := map[int]*flatUpdate{}
		for _, group := range groups {
			for i, r := range group {
				from, to := i*part, (i+1)*part
				u := tails[r].updateOf(value[from:to])
				if u == nil {
					u = tails[r].updateGathered(part)
				}
				if u == nil {
					continue
				}
				updates[r] = u
				read[r], v.update[r] = u.gradient, u.call
				// a master copy is more exact than the sum
				want[r] = &array{g.sum[r].dtype, []int{part}, total[from:to]}
				own[r] = &array{g.sum[r].dtype, []int{part}, p.flatSum(b, r)[from:to]}
				v.size += dot(want[r].x, want[r].x) / float64(len(groups))
			}
		}
		if len(updates) < len(p.ranks) {
			continue
		}
		flat := &gradient{names: g.names, value: g.value, sum: own, calls: g.calls}
		given := maps.Clone(read)
		p.compare(v, flat, read, want, p.everywhere(place{kind: sharded, factor: 1}), tails)
		v.alone = v.alone || b.alone && v.scale == nil && !slices.ContainsFunc(p.ranks, func(r int) bool {
			return !tails[r].has(own[r])
		})
		if !v.explained() {
			v.lacks = p.summedInside(b, groups, given)
		}
		verdicts[b.names[0]] = v
		for _, n := range b.names {
			p.compared[n] = factors != nil && v.scale != nil
		}
		for _, group := range groups {
			b.group = group
			var us []*flatUpdate
			for _, r := range group {
				us = append(us, updates[r])
			}
			p.unlike(b, us)
			if v.scale != nil {
				p.shifted(b, us, value)
			}
			p.maskedOtherwise(b, us, tails)
			p.returned(b, us, tails)
		}
	}
}

// groupsBeside are the groups along the dimension of the mesh of a group, that one first, or the group alone if it is
// of all ranks; nil if it is something else.
func (p *part) groupsBeside(group []int) (out [][]int) {
	if len(group) == len(p.ranks) {
		return [][]int{group}
	}
	for _, d := range p.dims {
		if slices.ContainsFunc(d.groups, func(g []int) bool { return slices.Equal(g, group) }) {
			out = [][]int{group}
			for _, g := range d.groups {
				if !slices.Equal(g, group) {
					out = append(out, g)
				}
			}
			return out
		}
	}
	return nil
}

// summedInside are the dimensions of the mesh over which the gradients of a buffer are not summed, if each group that
// shares it out has the sums of its own ranks only; nil if they are something else.
func (p *part) summedInside(b bucket, groups [][]int, read map[int]*array) (lacks []int) {
	if len(groups) < 2 {
		return nil
	}
	part := b.size / len(b.group)
	for _, group := range groups {
		sum := &array{p.grads[b.names[0]].sum[group[0]].dtype, []int{b.size}, make([]float64, b.size)}
		for _, r := range group {
			sum = sum.plus(&array{sum.dtype, sum.shape, p.flatSum(b, r)})
		}
		for i, r := range group {
			own := &array{sum.dtype, []int{part}, sum.x[i*part : (i+1)*part]}
			if _, ok := read[r].ratio(own, own.loose()); !ok {
				return nil
			}
		}
	}
	for m, d := range p.dims {
		if !slices.ContainsFunc(d.groups, func(g []int) bool { return slices.Equal(g, b.group) }) {
			lacks = append(lacks, m)
		}
	}
	return lacks
}

// unlike finds parts of one buffer that the ranks update by one line with different numbers.
func (p *part) unlike(b bucket, updates []*flatUpdate) {
	first := updates[0]
	for i, u := range updates[1:] {
		for k := range min(len(u.calls), len(first.calls)) {
			x, y := first.calls[k], u.calls[k]
			if x.Op != y.Op || x.Entry.Location != y.Entry.Location {
				break
			}
			d, err := p.checker.load(x)
			e, wrong := p.checker.load(y)
			if err != nil || wrong != nil || d.arguments() == e.arguments() {
				continue
			}
			p.found(true, &violation{kind: "replica", call: y, site: p.grads[b.names[0]].calls[0].site,
				ranks: []int{b.group[0], b.group[i+1]}, target: "input[0]",
				reason: fmt.Sprintf("ranks %d and %d update their parts of one buffer of parameters by one line with "+
					"different numbers: another learning rate, weight decay or beta", b.group[0], b.group[i+1])})
			return
		}
	}
}

// shifted finds ranks that update other elements of a buffer of parameters than those whose gradients they read: their
// parts of one of both begin at another place. If all are off by the same, the parameters were put there so.
func (p *part) shifted(b bucket, updates []*flatUpdate, value []float64) {
	size, text := b.size/len(b.group), ""
	var ranks []int
	var call *step.Call
	off := map[int]bool{}
	for i, u := range updates {
		from := i * size
		at, known := from, padded(u.before, value[from:from+size])
		if !known {
			at, known = placeOf(u.before.x, value)
		}
		if !known {
			continue
		}
		if off[at-from] = true; at == from {
			continue
		}
		if ranks = append(ranks, b.group[i]); call == nil {
			call = u.call
			text = fmt.Sprintf("rank %d updates elements %d to %d of a buffer of parameters with the gradients of elements %d "+
				"to %d", b.group[i], at, at+size-1, from, from+size-1)
		}
	}
	if len(off) < 2 {
		return
	}
	if len(ranks) > 1 {
		text += fmt.Sprintf(", and %s others in the same way", ranksText(ranks[1:]))
	}
	p.found(true, &violation{kind: "shard", call: call, site: p.grads[b.names[0]].calls[0].site, ranks: ranks,
		target: "input[0]", reason: text + ": a rank's part of the parameters begins at another place than that of " +
			"the gradients"})
}

// placeOf is the only place at which a part stands in a buffer, whose ends can cut it.
func placeOf(part, buffer []float64) (at int, ok bool) {
	const least = 8 // numbers that tell
	for k := least - len(part); k+least <= len(buffer); k++ {
		from, to := max(0, -k), min(len(part), len(buffer)-k)
		if inside := part[from:to]; varied(inside) < least || !padded(&array{x: inside}, buffer[k+from:k+to]) {
			continue
		}
		if ok {
			return 0, false
		}
		at, ok = k, true
	}
	return at, ok
}

// varied is how many different numbers there are, without zeros.
func varied(x []float64) int {
	seen := map[float64]bool{}
	for _, v := range x {
		if v != 0 {
			seen[v] = true
		}
	}
	return len(seen)
}

// has reports whether a rank reads a value or a multiple of it.
func (t *tail) has(a *array) bool {
	for _, o := range t.others[fmt.Sprint(a.shape)] {
		if k, ok := o.ratio(a, a.loose()); ok && k > 0 {
			return true
		}
	}
	return false
}

// flatSum is the buffer with the gradients that the calls of one rank gave.
func (p *part) flatSum(b bucket, rank int) []float64 {
	out := make([]float64, b.size)
	for _, n := range b.names {
		copy(out[b.at[n]:], p.grads[n].sum[rank].x)
	}
	return out
}

// buckets are the buffers of gradients that a rank takes part in reducing. If there are none, and it gathers parts,
// they are those of which it could read its part.
func (p *part) buckets(t *tail) (out []bucket) {
	for _, e := range t.exchanges {
		name := collective.Name(e.call.Op)
		if !strings.HasPrefix(name, "reduce_scatter") && name != "all_reduce" || len(e.call.Entry.Group) < 2 ||
			len(e.x)%len(e.call.Entry.Group) != 0 {
			continue
		}
		b := p.bucket(e.x, e.call.Entry.Group)
		if len(b.names) > 1 || len(b.names) == 1 && name != "all_reduce" {
			out = append(out, b)
		}
	}
	group, size := t.gathers()
	if len(out) > 0 || len(group) < 2 {
		return out
	}
	for _, f := range t.flat {
		for _, a := range f.ins {
			if len(a.x) != size*len(group) {
				continue
			}
			if b := p.bucket(a.x, group); len(b.names) > 1 {
				b.alone = true
				return []bucket{b}
			}
		}
	}
	return nil
}

// bucket finds the gradients of the first rank in a buffer. Two of one size can be nearly the same, so that they fit at
// each other's place: the closest fit counts first, and gradients do not overlap.
func (p *part) bucket(x []float64, group []int) bucket {
	b := bucket{size: len(x), at: map[string]int{}, group: group}
	type fit struct {
		name    string
		at, end int
		off     float64
	}
	var fits []fit
	for _, n := range p.order {
		g := p.grads[n].sum[p.ranks[0]].x
		for at, off := range within(x, g) {
			fits = append(fits, fit{n, at, at + len(g), off})
		}
	}
	slices.SortStableFunc(fits, func(a, b fit) int { return cmp.Compare(a.off, b.off) })
	var taken []fit
	for _, f := range fits {
		if _, known := b.at[f.name]; !known && !slices.ContainsFunc(taken, func(t fit) bool {
			return f.at < t.end && t.at < f.end
		}) {
			b.at[f.name] = f.at
			taken = append(taken, f)
		}
	}
	for _, n := range p.order {
		if _, known := b.at[n]; known {
			b.names = append(b.names, n)
		}
	}
	return b
}

// twin reports whether another parameter of a buffer has the very same gradient: which lies where is not known.
func (p *part) twin(b bucket, name string) bool {
	x := p.grads[name].sum[p.ranks[0]].x
	return slices.ContainsFunc(b.names, func(n string) bool {
		return n != name && slices.Equal(p.grads[n].sum[p.ranks[0]].x, x)
	})
}

// gathers are the group and the size of the parts of the last all_gather of flat ones.
func (t *tail) gathers() (group []int, size int) {
	for _, f := range t.flat {
		if strings.HasPrefix(collective.Name(f.call.Op), "all_gather") && len(f.ins) > 0 {
			group, size = f.call.Entry.Group, len(slices.MinFunc(f.ins, shorter).x)
		}
	}
	return group, size
}

func shorter(a, b *array) int { return len(a.x) - len(b.x) }

// within are the places where numbers stand in a buffer, perhaps all times one factor, with how far they are from those
// that stand there, relative to the largest.
func within(buffer, x []float64) iter.Seq2[int, float64] {
	k := 0 // of the largest, which tells the factor
	for i, v := range x {
		if math.Abs(v) > math.Abs(x[k]) {
			k = i
		}
	}
	return func(yield func(int, float64) bool) {
		if len(x) < 2 || x[k] == 0 {
			return
		}
	next:
		for at := 0; at+len(x) <= len(buffer); at++ {
			f, off := buffer[at+k]/x[k], 0.0
			if f == 0 || f-f != 0 {
				continue
			}
			for i, v := range x {
				if off = max(off, math.Abs(buffer[at+i]/f-v)/math.Abs(x[k])); off > 1e-5 {
					continue next
				}
			}
			if !yield(at, off) {
				return
			}
		}
	}
}

// A flatUpdate is what a rank does to its part of a buffer of parameters.
type flatUpdate struct {
	call     *step.Call   // the first that reads something else of the size of the part
	gradient *array       // what it reads
	before   *array       // the part before the first call
	result   *array       // the part after the last call
	calls    []*step.Call // all that change the part
	states   []*array     // the part before and behind each of these
}

// updateOf follows the calls that change a part of a buffer of parameters; nil if none reads another value of its size.
func (t *tail) updateOf(part []float64) *flatUpdate {
	return t.updateFrom(len(part), func(a, _ *array) bool { return padded(a, part) })
}

// updateGathered follows the calls that change what a rank gives to the last all_gather of parts of one size. So they
// are found where the parameters were something else before the step, such as parts of an earlier one.
func (t *tail) updateGathered(size int) *flatUpdate {
	var part []float64
	for _, f := range t.flat {
		if strings.HasPrefix(collective.Name(f.call.Op), "all_gather") {
			for _, a := range f.ins {
				if len(a.x) == size && !a.constant() {
					part = a.x
				}
			}
		}
	}
	if part == nil {
		return nil
	}
	u := t.updateFrom(size, func(a, after *array) bool {
		return slices.Equal(a.x, part) || after != nil && slices.Equal(after.x, part)
	})
	if u != nil {
		t.comesFrom(u)
	}
	return u
}

// comesFrom adds the calls to an update that changed its part before, such as the decay of weights.
func (t *tail) comesFrom(u *flatUpdate) {
	for _, f := range slices.Backward(t.flat) {
		k := slices.IndexFunc(f.result, func(a *array) bool { return a != nil && slices.Equal(a.x, u.before.x) })
		if k < 0 || f.call.Order >= u.calls[0].Order || collective.Name(f.call.Op) != "" ||
			strings.Contains(method(f.call.Op), "copy") {
			continue
		}
		u.before = f.ins[k]
		u.states, u.calls = slices.Insert(u.states, 0, u.before), slices.Insert(u.calls, 0, f.call)
	}
}

// updateFrom follows the calls that change a value of a size, from the first that is it before or behind a call.
func (t *tail) updateFrom(size int, is func(before, after *array) bool) *flatUpdate {
	var u flatUpdate
	for i := range t.flat {
		f := &t.flat[i]
		if collective.Name(f.call.Op) != "" || strings.Contains(method(f.call.Op), "copy") {
			continue
		}
		k := -1
		for j, a := range f.ins {
			if k < 0 && len(a.x) == size && (u.result != nil && slices.Equal(a.x, u.result.x) ||
				u.result == nil && is(a, f.result[j])) {
				k = j
			}
		}
		if k < 0 || f.result[k] == nil {
			continue
		}
		if u.result == nil {
			u.before = f.ins[k]
			u.states = []*array{u.before}
		}
		u.states = append(u.states, f.result[k])
		u.result = f.result[k]
		u.calls = append(u.calls, f.call)
		other := slices.IndexFunc(f.ins, func(a *array) bool { return a != f.ins[k] && len(a.x) == size })
		if u.gradient == nil && other >= 0 {
			u.call, u.gradient = f.call, f.ins[other]
		}
	}
	if u.gradient == nil {
		return nil
	}
	return &u
}

// padded reports whether an array holds a part of the parameters; zeros of it are padding.
func padded(a *array, part []float64) bool {
	same := 0
	for i, v := range part {
		switch {
		case v == 0:
		case math.Abs(a.x[i]-v) > 1e-2*math.Abs(v): // a master copy is more exact
			return false
		default:
			same++
		}
	}
	return same > 1
}

// returned checks that each rank has, after the step, what the ranks made of their parts.
func (p *part) returned(b bucket, updates []*flatUpdate, tails map[int]*tail) {
	var results, before []float64
	for _, u := range updates {
		results, before = append(results, u.result.x...), append(before, u.before.x...)
	}
	some := false
	for _, r := range b.group {
		var wrote *step.Call // the last call that wrote a parameter of the buffer
		for _, n := range b.names {
			if us := tails[r].updates[p.grads[n].names[r]]; len(us) > 0 {
				wrote = us[len(us)-1].call
			}
		}
		some = some || wrote != nil
		for _, n := range b.names {
			value := p.grads[n].value[r]
			want, got := results[b.at[n]:b.at[n]+len(value.x)], value
			call, why := wrote, "no call writes it there"
			for _, u := range tails[r].updates[p.grads[n].names[r]] {
				if u.result != nil {
					got, call = u.result, gathered(tails[r], u.call)
				}
			}
			if wrote == nil || p.twin(b, n) ||
				nearly(got.x, want, 4*got.dtype.Eps()*max(got.largest(), value.largest())) {
				continue
			}
			switch {
			case call == wrote && got == value:
			case nearly(got.x, value.x, 0), nearly(got.x, before[b.at[n]:b.at[n]+len(got.x)], 0):
				why = "it is what it was before: the parts are gathered before the update"
			default:
				why = "parts are gathered in another order or before the update, or something else is"
			}
			p.found(true, &violation{kind: "collective", call: call, site: p.grads[n].calls[0].site, ranks: p.ranks,
				target: "input[0]", reason: fmt.Sprintf("after the step rank %d has not in %s what ranks %s made of "+
					"their parts: %s", r, n, rankList(p.ranks), why)})
			return
		}
	}
	if early := p.gathersEarly(updates, tails); !some && early != nil {
		p.found(true, &violation{kind: "collective", call: early, site: p.grads[b.names[0]].calls[0].site,
			ranks: p.ranks, target: "input[0]",
			reason: fmt.Sprintf("it gathers the parts of %s and of what lies beside it before %s updates them, and no call "+
				"gathers them behind: the update is lost", b.names[0], updates[0].call)})
	} else if !some {
		p.ungathered = append(p.ungathered, p.notGathered(b, updates[0].call, results))
	}
}

// gathersEarly is the exchange by which the first rank gives the others its part as it was before the update, where all
// ranks do, and none gives what the update made of it; nil if that is not so.
func (p *part) gathersEarly(updates []*flatUpdate, tails map[int]*tail) (first *step.Call) {
	for _, u := range updates {
		var early *step.Call
		for _, e := range tails[u.call.Process.Rank].exchanges {
			d, err := p.checker.load(e.call)
			if err != nil || !strings.HasPrefix(collective.Name(e.call.Op), "all_gather") || len(d.ins) < 2 {
				continue
			}
			given := d.ins[(&site{op: e.call.Op}).sends(d)].array
			is := func(a *array) bool { return nearly(given.x, a.x, given.dtype.Eps()*a.largest()) }
			switch {
			case is(u.result):
				return nil
			case is(u.before) && e.call.Order < u.call.Order:
				early = e.call
			}
		}
		if early == nil {
			return nil
		}
		first = cmp.Or(first, early)
	}
	return first
}

// gathered is the exchange that gave what a call wrote to a parameter: the last all_gather before it, else the call.
func gathered(t *tail, call *step.Call) *step.Call {
	out := call
	for _, e := range t.exchanges {
		if strings.HasPrefix(collective.Name(e.call.Op), "all_gather") && e.call.Order < call.Order {
			out = e.call
		}
	}
	return out
}
