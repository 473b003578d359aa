package step

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/capture"
)

// lostPart is the number of the part that is missing from v, which is the sum of the others; -1 if v is the sum of all
// parts, or something else. Each part is several gradients that were added. All are told by their samples.
func lostPart(v *Value, parts [][]*Value) int {
	n := 0
	sums, sizes := make([]float64, len(v.content.samples)), make([]float64, len(v.content.samples))
	of := make([][]float64, len(parts))
	for k, part := range parts {
		of[k] = make([]float64, len(sums))
		for _, g := range part {
			if len(g.content.samples) != len(sums) {
				return -1
			}
			n++
			for i, s := range g.content.samples {
				x := decode(g.DType, s)
				of[k][i] += x
				sums[i] += x
				sizes[i] += math.Abs(x)
			}
		}
	}
	if len(parts) < 2 || agree(v, sums, sizes, float64(n)) {
		return -1
	}
	for k := range of {
		rest := make([]float64, len(sums))
		for i := range rest {
			for j := range of {
				if j != k {
					rest[i] += of[j][i]
				}
			}
		}
		if agree(v, rest, sizes, float64(n)) {
			return k
		}
	}
	return -1
}

// findLostPart looks at the gradient g of a result of c that several calls read: it is the sum of what they give. If it
// is the sum of all but one, that one was lost.
func (c *Call) findLostPart(g *Value) {
	out := c.result(g)
	if out == nil || g.content.plain || g.Numel() <= few || !g.DType.IsFloat() ||
		slices.ContainsFunc(c.Inputs, func(v *Value) bool { return c.passes(v) != nil }) {
		return
	}
	var parts [][]*Value
	for _, n := range out.names(c) {
		for _, r := range n.readers {
			if r.Kind != inputKind || !r.Call.HasBackward() || r.Call.passes(r) != nil || r.Call.Step != c.Step {
				continue
			}
			if part := r.Call.gradientOf(r); part != nil && sameShape(part.Shape, g.Shape) {
				parts = append(parts, []*Value{part})
			}
		}
	}
	k := lostPart(g, parts)
	if k < 0 || !c.Step.reaches(parts[k][0].Call) {
		return
	}
	lost, kept := parts[k][0], parts[(k+1)%len(parts)][0]
	g.unlink()
	g.From = Link{How: IsChanged, Value: kept, Parts: []*Value{kept, lost}}
	g.reason = fmt.Sprintf("it lacks %s of %s, which read the value too: it is the sum of what the other readers give",
		lost.Target, lost.Call)
	kept.readers = append(kept.readers, g)
}

// reaches reports whether the loss depends on the results of a call.
func (s *Step) reaches(c *Call) bool {
	seen := map[*Call]bool{c: true}
	for todo := []*Call{c}; len(todo) > 0; {
		c, todo = todo[len(todo)-1], todo[:len(todo)-1]
		if c == s.root || c == s.Loss {
			return true
		}
		for _, r := range c.Readers() {
			if !seen[r] && r.Step == s {
				seen[r] = true
				todo = append(todo, r)
			}
		}
	}
	return false
}

// lostBefore is how many of the first parts, more than one, are missing from v, which is the sum of the others; 0 if v
// is something else.
func lostBefore(v *Value, parts [][]*Value) int {
	for n := 2; n < len(parts); n++ {
		if sumOf(v, slices.Concat(parts[n:]...)) {
			return n
		}
	}
	return 0
}

// A lostGradient is a gradient that an optimizer reads, and what it lacks: the gradients of one loss, or of the first n
// of several losses.
type lostGradient struct {
	v     *Value
	parts []*Value
	n     int
	kept  int // losses whose gradients it has
}

// excused reports whether the program may have set the gradients to zero before it added up those of all batches: the
// loss was not divided by a number of batches, or no more than those that were kept.
func (l lostGradient) excused() bool {
	batches := l.parts[0].Call.Step.batches
	return batches < 2 || l.n > 1 && l.kept >= batches
}

// findLostGradients finds gradients of parameters that lack what one of several losses gave, though those of other
// parameters have it, or the losses are parts of one. Where all lack it, the program may have set gradients to zero
// between two losses.
func (u *updater) findLostGradients() {
	var lost []lostGradient
	have := map[*Step]bool{} // losses whose gradients other parameters have
	done := map[uint64]bool{}
	for _, c := range u.step.Tail {
		for _, v := range c.Inputs {
			if v.From.How == IsChanged || v.From.Role == "collective" || v.From.first != nil || !v.telling() {
				continue
			}
			g := v.From.Value
			if g != nil && g.Kind != capture.GradInputs {
				continue
			}
			at := u.parameter(v)
			if at == 0 && g != nil {
				at = g.argument().Address
			}
			if at == 0 || done[at] {
				continue
			}
			parts, ok := u.parts(v, at)
			if !ok || len(parts) < 2 {
				continue
			}
			k, n := lostPart(v, parts), 1
			if k < 0 {
				if n = lostBefore(v, parts); n > 0 {
					k = 0
				}
			}
			if k < 0 {
				if all := slices.Concat(parts...); sumOf(v, all) {
					done[at] = true
					for _, part := range parts {
						have[part[0].Call.Step] = true
					}
				}
				continue
			}
			done[at] = true
			lost = append(lost, lostGradient{v, parts[k], n, len(parts) - n})
		}
	}
	first, also := map[*Step]*Value{}, map[*Value]int{}
	for _, l := range lost {
		of := l.parts[0].Call.Step
		if !have[of] && l.excused() {
			continue
		}
		if first[of] != nil {
			also[first[of]]++
			continue
		}
		first[of] = l.v
		v, g := l.v, l.parts[0]
		v.unlink()
		v.From = Link{How: IsChanged, Value: g}
		more := ""
		if l.n > 1 {
			more = fmt.Sprintf(", and those of the next %d", l.n-1)
		}
		v.reason = fmt.Sprintf("it lacks %s of %s, the gradient of the loss %s%s: it is the sum of what the other losses "+
			"give", g.Target, g.Call, of.Loss, more)
		g.readers = append(g.readers, v)
		for _, r := range u.again[v] {
			r.From = v.From.again(v)
		}
	}
	for v, n := range also {
		v.reason += fmt.Sprintf("; so do %d other gradients", n)
	}
}

// parts are the recorded gradients of the parameter at an address, by loss; not ok if one is missing.
func (u *updater) parts(v *Value, at uint64) (parts [][]*Value, ok bool) {
	by := map[*Step]int{}
	for _, r := range u.parameters[at] {
		g := r.Call.gradientOf(r)
		if g == nil || !sameShape(g.Shape, v.Shape) {
			return nil, false
		}
		k, had := by[r.Call.Step]
		if !had {
			k = len(parts)
			by[r.Call.Step] = k
			parts = append(parts, nil)
		}
		parts[k] = append(parts[k], g)
	}
	return parts, true
}

// sumOf reports whether v is the sum of gradients, as far as the samples tell.
func sumOf(v *Value, parts []*Value) bool {
	sums, sizes := make([]float64, len(v.content.samples)), make([]float64, len(v.content.samples))
	for _, g := range parts {
		for i, s := range g.content.samples {
			x := decode(g.DType, s)
			sums[i] += x
			sizes[i] += math.Abs(x)
		}
	}
	return agree(v, sums, sizes, float64(len(parts)))
}
