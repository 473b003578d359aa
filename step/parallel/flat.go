package parallel

import (
	"fmt"
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
		if r == nil && i == 0 && len(d.outs) == 1 && len(d.outs[0].x) == len(a.array.x) {
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
}

// flats checks gradients that are reduced and updated in flat buffers, and that all ranks then have the result.
func (p *part) flats(tails map[int]*tail, factors []float64, verdicts map[string]*judged) {
	for _, b := range p.buckets(tails[p.ranks[0]]) {
		if len(b.group) != len(p.ranks) ||
			slices.ContainsFunc(b.names, func(n string) bool { return verdicts[n] != nil }) {
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
		v := &judged{update: map[int]*step.Call{}}
		read, want, results := map[int]*array{}, map[int]*array{}, []float64{}
		for i, r := range b.group {
			from, to := i*part, (i+1)*part
			u, k := tails[r].updateOf(value[from:to])
			if u == nil {
				read = nil
				break
			}
			read[r], v.update[r] = u.ins[1-k], u.call
			want[r] = &array{read[r].dtype, []int{part}, total[from:to]}
			v.size += dot(want[r].x, want[r].x)
			results = append(results, u.result[k].x...)
		}
		if read == nil {
			continue
		}
		flat := &gradient{names: g.names, value: g.value, sum: want, calls: g.calls}
		p.compare(v, flat, read, want, p.everywhere(place{kind: sharded, factor: 1}), tails)
		verdicts[b.names[0]] = v
		p.returned(b, results, tails)
	}
}

// buckets are the buffers of gradients that a rank takes part in reducing.
func (p *part) buckets(t *tail) (out []bucket) {
	r := p.ranks[0]
	for _, e := range t.exchanges {
		name := collective.Name(e.call.Op)
		if !strings.HasPrefix(name, "reduce_scatter") && name != "all_reduce" || len(e.call.Entry.Group) < 2 ||
			len(e.x)%len(e.call.Entry.Group) != 0 {
			continue
		}
		b := bucket{size: len(e.x), at: map[string]int{}, group: e.call.Entry.Group}
		for _, n := range p.order {
			if at := within(e.x, p.grads[n].sum[r].x); at >= 0 {
				b.at[n] = at
				b.names = append(b.names, n)
			}
		}
		if len(b.names) > 1 || len(b.names) == 1 && name != "all_reduce" {
			out = append(out, b)
		}
	}
	return out
}

// within is where numbers stand in a buffer, perhaps all times one factor; -1 if they do not.
func within(buffer, x []float64) int {
	k := 0 // of the largest, which tells the factor
	for i, v := range x {
		if math.Abs(v) > math.Abs(x[k]) {
			k = i
		}
	}
	if len(x) < 2 || x[k] == 0 {
		return -1
	}
next:
	for at := 0; at+len(x) <= len(buffer); at++ {
		f := buffer[at+k] / x[k]
		if f == 0 || f-f != 0 {
			continue
		}
		for i, v := range x {
			if math.Abs(buffer[at+i]-f*v) > 1e-5*math.Abs(f*x[k]) {
				continue next
			}
		}
		return at
	}
	return -1
}

// updateOf is the call that changes a part of a buffer of parameters by another value of its size, and which of its
// arguments the part is; nil if there is none.
func (t *tail) updateOf(part []float64) (*flatCall, int) {
	for i := range t.flat {
		f := &t.flat[i]
		for k := range f.ins {
			if len(f.ins) == 2 && f.result[k] != nil && len(f.ins[k].x) == len(part) &&
				len(f.ins[1-k].x) == len(part) && collective.Name(f.call.Op) == "" &&
				!strings.Contains(method(f.call.Op), "copy") && padded(f.ins[k], part) {
				return f, k
			}
		}
	}
	return nil, 0
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
func (p *part) returned(b bucket, results []float64, tails map[int]*tail) {
	for _, n := range b.names {
		for _, r := range p.ranks {
			us := tails[r].updates[p.grads[n].names[r]]
			i := slices.IndexFunc(us, func(u update) bool { return u.result != nil })
			if i < 0 {
				continue
			}
			got := us[len(us)-1].result
			if got == nil {
				got = us[i].result
			}
			want := results[b.at[n] : b.at[n]+len(got.x)]
			scale := max(got.largest(), p.grads[n].value[r].largest())
			if nearly(got.x, want, 4*got.dtype.Eps()*scale) {
				continue
			}
			call := us[i].call
			for _, e := range tails[r].exchanges {
				if strings.HasPrefix(collective.Name(e.call.Op), "all_gather") && e.call.Order < us[i].call.Order {
					call = e.call
				}
			}
			p.found(true, &violation{kind: "collective", call: call, site: p.grads[n].calls[0].site, ranks: p.ranks,
				target: "input[0]", reason: fmt.Sprintf("after the step rank %d has not in %s what ranks %s made of "+
					"their parts: they are gathered before the update, or something else is", r, n,
					rankList(p.ranks))})
			return
		}
	}
}
