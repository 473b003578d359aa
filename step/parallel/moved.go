package parallel

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// movedAway finds a parameter that replicas have alike before a step and not behind it. One that holds one number, such
// as a bias of zeros, can be parts of a whole.
func (p *part) movedAway(tails map[int]*tail) {
	if len(p.broken) > 0 || p.movedApart() ||
		slices.ContainsFunc(p.ranks, func(r int) bool { return !p.ended(r) }) {
		return
	}
	for _, name := range tails[p.ranks[0]].written() {
		before, after, last := map[int]*array{}, map[int]*array{}, map[int]update{}
		for _, r := range p.ranks {
			for _, u := range tails[r].updates[name] {
				if before[r] == nil {
					before[r] = u.before
				}
				if u.result != nil {
					after[r], last[r] = u.result, u
				}
			}
		}
		if p.partly(name, before) || slices.ContainsFunc(p.ranks, func(r int) bool {
			return before[r] == nil || after[r] == nil || len(before[r].x) != len(after[r].x) ||
				before[r].constant() || len(before[r].x) != len(before[p.ranks[0]].x) || p.checker.later(last[r].call)
		}) {
			continue
		}
		for m, d := range p.dims {
			if !p.equal(m, before, 0) {
				continue
			}
			for _, group := range d.groups {
				for _, r := range group[1:] {
					if unlikeSteps(before[r], after[group[0]], after[r]) {
						p.found(true, p.leftApart(name, group[0], r, last))
						return
					}
				}
			}
		}
	}
}

// written are the parameters that a rank updates, in the order in which it has done so.
func (t *tail) written() []string {
	names := slices.Sorted(maps.Keys(t.updates))
	last := func(n string) int { return t.updates[n][len(t.updates[n])-1].call.Order }
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(last(a), last(b)) })
	return names
}

// unlikeSteps reports whether two values are made of one by other steps: a quarter of the elements that changed differ,
// and not only by the rounding of a sum.
func unlikeSteps(before, x, y *array) bool {
	differ, changed, far, step := 0, 0, 0.0, 0.0
	for i, v := range before.x {
		if x.x[i] != y.x[i] {
			differ++
		}
		if x.x[i] != v || y.x[i] != v {
			changed++
		}
		far = max(far, math.Abs(x.x[i]-y.x[i]))
		step = max(step, math.Abs(x.x[i]-v), math.Abs(y.x[i]-v))
	}
	return far > 0.05*step && 4*differ > changed
}

// leftApart says that a step leaves different values of a parameter on two ranks.
func (p *part) leftApart(name string, q, r int, last map[int]update) *violation {
	why := "one of them was not given what the other made of it"
	if x, y := last[q].gradient, last[r].gradient; x != nil && y != nil && !x.near(y, 1e-3) {
		why = "they update it with different gradients"
	}
	v := &violation{kind: "replica", call: last[r].call, ranks: []int{q, r}, target: "input[0]",
		reason: fmt.Sprintf("ranks %d and %d have the same %s before the step, and another one behind it: %s", q, r,
			name, why)}
	if g := p.grads[name]; g != nil {
		v.site = g.calls[0].site
	}
	return v
}

// later reports whether what a call leaves is there only once it has ended, without being recorded.
func (c *checker) later(call *step.Call) bool {
	if collective.Name(call.Op) == "" {
		return false
	}
	d, err := c.load(call)
	if err != nil {
		return true
	}
	async, _ := d.rec.Kwargs.Get("async_op")
	return async == true
}
