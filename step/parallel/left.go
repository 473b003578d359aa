package parallel

import (
	"slices"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// givenMore are the gradients of a parameter that the ranks add up, where some of them give what their calls made and
// others have more in it: what a backward pass before the recording left, say. It is nil if that is not so.
func (p *part) givenMore(g *gradient) (map[int]*array, *step.Call) {
	for _, s := range p.tail {
		if name := collective.Name(s.op); name != "all_reduce" && name != "reduce" {
			continue
		}
		sides := p.read(s)
		if sides == nil || len(sides[p.ranks[0]].ins) == 0 {
			continue
		}
		given, own := map[int]*array{}, 0
		for _, r := range p.ranks {
			a := sides[r].ins[0]
			if a.name != "" || !slices.Equal(a.array.shape, g.sum[r].shape) {
				break
			}
			if given[r] = a.array; a.array.near(g.sum[r], g.sum[r].tolerance()) {
				own++
			}
		}
		if len(given) == len(p.ranks) && own > 0 && own < len(p.ranks) {
			return given, s.first(p.ranks)
		}
	}
	return nil, nil
}

// explained reports whether it is known how often a gradient is the right one, or what else it is.
func (v *judged) explained() bool {
	return v.scale != nil || v.alone || v.lacks != nil || v.order || v.mixes || v.twice || v.extreme || v.differ
}

// judgeGiven compares what updates read with the sum of what the ranks gave, where some of them give more than their
// calls made: that what is left in it belongs there is not known.
func (p *part) judgeGiven(v *judged, name string, g *gradient, read map[int]*array, factors []float64,
	tails map[int]*tail) *judged {
	given, call := p.givenMore(g)
	if given == nil {
		return v
	}
	h := *g
	h.sum = given
	w := *v
	want, places, _ := p.wanted(name, &h, factors)
	p.compare(&w, &h, read, p.updated(want, read), places, tails)
	if w.left = true; w.scale == nil {
		return v
	}
	p.left[name] = call
	return &w
}
