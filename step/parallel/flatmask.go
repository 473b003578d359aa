package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/step"
)

// A rank that updates a part of a buffer of parameters can read a number for each element, which is the same for all
// elements of a parameter: weight decay that spares biases, say. It changes where one parameter ends and the next one
// begins. So its elements tell of which part it is.

// borders are the places inside of part i at which parameters of a buffer begin or end.
func (p *part) borders(b bucket, i, size int) (out []int) {
	for _, n := range b.names {
		for _, at := range []int{b.at[n], b.at[n] + len(p.grads[n].sum[p.ranks[0]].x)} {
			if at > i*size && at < (i+1)*size {
				out = append(out, at-i*size)
			}
		}
	}
	return out
}

// cutAt is a parameter of a buffer that lies on both sides of a place inside of part i; "" if none is known.
func (p *part) cutAt(b bucket, i, size, at int) string {
	for _, n := range b.names {
		if from := b.at[n]; from < i*size+at && i*size+at < from+len(p.grads[n].sum[p.ranks[0]].x) {
			return n
		}
	}
	return ""
}

// steps are the places at which an array is not what it is before.
func (a *array) steps() (out []int) {
	for i := 1; i < len(a.x); i++ {
		if a.x[i] != a.x[i-1] {
			out = append(out, i)
		}
	}
	return out
}

// maskedOtherwise finds numbers that a rank reads beside its part of a buffer, that change in the midst of a parameter
// there, and only at borders of parameters in the part of another rank.
func (p *part) maskedOtherwise(b bucket, updates []*flatUpdate, tails map[int]*tail) {
	size := b.size / len(b.group)
	for i, r := range b.group {
		u := updates[i]
		for _, f := range tails[r].flat {
			if !slices.ContainsFunc(f.ins, func(a *array) bool {
				return slices.ContainsFunc(u.states, func(s *array) bool { return slices.Equal(s.x, a.x) })
			}) {
				continue
			}
			for _, a := range f.ins {
				steps, inside := a.steps(), ""
				if len(a.x) != size || len(steps) == 0 {
					continue
				}
				at := slices.IndexFunc(steps, func(k int) bool {
					inside = p.cutAt(b, i, size, k)
					return inside != ""
				})
				if at < 0 {
					continue
				}
				for j, o := range b.group {
					borders := p.borders(b, j, size)
					if j == i || slices.ContainsFunc(steps, func(k int) bool { return !slices.Contains(borders, k) }) {
						continue
					}
					text := fmt.Sprintf("rank %d updates part %d of a buffer of parameters with numbers that change in the "+
						"midst of %s there, at element %d: they change where parameters end in part %d, so they are those "+
						"of rank %d", r, i, inside, steps[at], j, o)
					p.found(true, &violation{kind: "shard", call: f.call, site: p.grads[b.names[0]].calls[0].site,
						ranks: []int{r}, target: p.argumentOf(f.call, a), reason: text})
					return
				}
			}
		}
	}
}

// argumentOf is the argument of a call that has the elements of an array.
func (p *part) argumentOf(call *step.Call, a *array) string {
	d, err := p.checker.load(call)
	if err != nil {
		return "input[0]"
	}
	return fmt.Sprintf("input[%d]", max(0, slices.IndexFunc(d.ins, func(b argument) bool {
		return slices.Equal(a.x, b.array.x)
	})))
}
