package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/step"
)

// A program can take two statistics of one value, such as its mean and its variance, and add up only one of them over
// the ranks: then one is that of all, and the other of each rank's own part. Alone, a statistic of a rank's own data is
// its own business.

// A trail is what a value was made of by calls that work element by element or take statistics.
type trail struct {
	of       map[*step.Value]bool // values that something else made
	own, all map[*site]bool       // calls of each rank's own data, and exchanges that add up
}

func newTrail() *trail {
	return &trail{map[*step.Value]bool{}, map[*site]bool{}, map[*site]bool{}}
}

func (t *trail) add(o *trail) {
	for v := range o.of {
		t.of[v] = true
	}
	for s := range o.own {
		t.own[s] = true
	}
	for s := range o.all {
		t.all[s] = true
	}
}

// Operators along which a trail goes on.
var trailing = setOf("add", "sub", "rsub", "mul", "div", "truediv", "pow", "square", "sqrt", "rsqrt", "abs", "neg", "exp",
	"log", "clamp", "float", "to", "double", "type", "bfloat16", "half", "clone", "contiguous", "detach", "view", "reshape",
	"unsqueeze", "squeeze", "expand", "getitem", "chunk", "split", "unbind", "cat", "stack", "sum", "mean", "var", "std",
	"norm", "vector_norm", "transpose", "permute", "flatten", "reciprocal")

// twoStatistics finds a call of each rank's own data that meets a statistic of the same values that the ranks add up.
func (p *part) twoStatistics() {
	if len(p.broken) > 0 || len(p.own) == 0 {
		return
	}
	first := p.ranks[0]
	made, left := map[*step.Value]*trail{}, map[uint64]*trail{}
	source := map[*site]*trail{}
	of := func(v *step.Value) *trail {
		key := v.From.Value
		if t := left[v.Address]; t != nil && (key == nil || v.From.Role == "collective") {
			return t
		}
		if key == nil {
			key = v.First()
		}
		if t := made[key]; t != nil {
			return t
		}
		t := newTrail()
		if v.DType.IsFloat() && !v.Parameter && v.Numel() > 1 {
			t.of[key] = true
		}
		return t
	}
	for _, s := range p.sites {
		call := s.calls[first]
		if call == nil {
			continue
		}
		var ins []*trail
		all := newTrail()
		for _, v := range call.Inputs {
			ins = append(ins, of(v))
			all.add(ins[len(ins)-1])
		}
		switch {
		case p.addsUp(s):
			source[s] = newTrail()
			source[s].add(all)
			all.all[s] = true
			for _, v := range call.Inputs {
				if v.Address != 0 {
					left[v.Address] = all
				}
			}
		case !trailing[method(s.op)]:
			continue
		case slices.Contains(p.own, s) && !slices.ContainsFunc(s.in, (*info).isMaximum):
			source[s] = newTrail()
			source[s].add(all)
			all.own[s] = true
		}
		for _, v := range call.Outputs {
			made[v] = all
			delete(left, v.Address)
		}
		if v := p.meeting(s, ins, all, source); v != nil {
			p.found(true, v)
			return
		}
	}
}

// meeting is about a call that reads one statistic of each rank's own part of some values, and one of all; nil if it
// reads none such.
func (p *part) meeting(s *site, ins []*trail, all *trail, source map[*site]*trail) *violation {
	for _, own := range p.own {
		if !all.own[own] {
			continue
		}
		for sum := range all.all {
			if !slices.ContainsFunc(ins, func(t *trail) bool { return t.all[sum] }) || !source[own].meets(source[sum]) {
				continue
			}
			where := ""
			if s != own {
				where = fmt.Sprintf(", which it meets in %s", s.first(p.ranks))
			}
			text := fmt.Sprintf("each of %s makes it of its own part of the values of which %s adds up a statistic over the "+
				"ranks%s: one is of a part, and the other of the whole", ranksText(p.ranks), sum.first(p.ranks), where)
			return &violation{kind: "collective", site: own, ranks: p.ranks, target: "output[0]", reason: text}
		}
	}
	return nil
}

// isMaximum reports whether a value is the largest of each rank's own part.
func (n *info) isMaximum() bool {
	return n != nil && slices.ContainsFunc(n.places, func(q place) bool { return q.kind == maximum })
}

// meets reports whether two trails begin at one value.
func (t *trail) meets(o *trail) bool {
	for v := range t.of {
		if o.of[v] {
			return true
		}
	}
	return false
}
