package step

import (
	"fmt"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// mostParts is how many parts of a sum are looked at for those that it lacks.
const mostParts = 256

// lostRun tells which parts, one after the other, are missing from v, which is the sum of the others: the number of the
// first and how many. n is 0 if v is the sum of all parts, or something else. The fewest are looked for. Each part is
// several gradients that were added. All are told by their samples.
func lostRun(v *Value, parts [][]*Value) (first, n int) {
	all, ok := sumOf(slices.Concat(parts...))
	if !ok || len(parts) < 2 || len(parts) > mostParts || all.is(v) {
		return 0, 0
	}
	upTo := [][]float64{make([]float64, len(all.sums))} // sums of the first parts
	for _, part := range parts {
		sums := slices.Clone(upTo[len(upTo)-1])
		for _, g := range part {
			for i, x := range g.content.numbers(g.DType) {
				sums[i] += x
			}
		}
		upTo = append(upTo, sums)
	}
	rest := addition{make([]float64, len(all.sums)), all.sizes, all.n}
	for n := 1; n < len(parts); n++ {
		for k := range len(parts) - n + 1 {
			for i, x := range all.sums {
				rest.sums[i] = x - (upTo[k+n][i] - upTo[k][i])
			}
			if rest.is(v) {
				return k, n
			}
		}
	}
	return 0, 0
}

// findLostPart looks at the gradient g of a result of c that several calls read: it is the sum of what they give. If it
// is the sum of all but one, that one was lost.
func (c *Call) findLostPart(g *Value) {
	out := c.result(g)
	if out == nil || g.content.plain || g.Numel() <= few || !g.DType.IsFloat() || c.returnsArgument() {
		return
	}
	var parts [][]*Value
	for _, n := range out.names(c) {
		for _, r := range n.readers {
			if r.Kind != inputKind || !r.Call.HasBackward() || r.Call.passes(r) != nil || r.Call.Step != c.Step ||
				!n.covers(r) {
				continue
			}
			if part := r.Call.gradientOf(r); part != nil && sameShape(part.Shape, g.Shape) {
				parts = append(parts, []*Value{part})
			}
		}
	}
	k, n := lostRun(g, parts)
	if n != 1 || !c.Step.reaches(parts[k][0].Call) || c.Step.twin(out) {
		return
	}
	lost, kept := parts[k][0], parts[(k+1)%len(parts)][0]
	g.unlink()
	g.From = Link{How: IsChanged, Value: kept, Parts: []*Value{kept, lost}}
	g.reason = fmt.Sprintf("it lacks %s of %s, which read the value too: it is the sum of what the other readers give",
		lost.Target, lost.Call)
	kept.readers = append(kept.readers, g)
}

// covers reports whether a reader may lie in the memory of v: one that lies elsewhere may be another tensor with the
// same elements, such as a parameter that had the same initial values.
func (v *Value) covers(r *Value) bool {
	return v.Address == 0 || r.Address == 0 || v.Address <= r.Address && r.Address < v.end()
}

// twin reports whether another call made what out is: which of the two a reader took is not known.
func (s *Step) twin(out *Value) bool {
	return slices.ContainsFunc(s.Calls, func(c *Call) bool {
		return c != out.Call && slices.ContainsFunc(c.Outputs, out.equals) && !c.returnsArgument()
	})
}

// returnsArgument reports whether a call returns an argument as it is.
func (c *Call) returnsArgument() bool {
	return slices.ContainsFunc(c.Inputs, func(v *Value) bool { return c.passes(v) != nil })
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

// A lostGradient is a gradient that an optimizer reads, and what it lacks: the gradients of n losses from the first on.
type lostGradient struct {
	v        *Value
	parts    [][]*Value // by loss
	first, n int
	of       cycle
}

// A cycle is a parameter and the lines of the losses between two of its updates.
type cycle struct {
	at     uint64
	losses string
}

func cycleOf(at uint64, parts [][]*Value) cycle {
	of := cycle{at: at}
	for _, part := range parts {
		loss := part[0].Call.Step.Loss
		of.losses += fmt.Sprint(loss.Op, loss.place())
	}
	return of
}

// lost is the first part that is missing.
func (l lostGradient) lost() *Value { return l.parts[l.first][0] }

// excused reports whether the program may have set the gradients to zero before it added up those of all batches: the
// loss was not divided by a number of batches, or no more than those that were kept. It cannot do so to those of a
// later loss, if all are computed on the same line.
func (l lostGradient) excused() bool {
	if l.first > 0 {
		first := l.parts[0][0].Call.Step.Loss
		return first.place() == site{} || slices.ContainsFunc(l.parts, func(part []*Value) bool {
			return !part[0].Call.Step.Loss.onLineOf(first)
		})
	}
	batches := l.lost().Call.Step.batches
	return batches < 2 || l.n > 1 && len(l.parts)-l.n >= batches
}

// whole is the gradient with what it lacks.
func (l lostGradient) whole(opt Options) (*tensor.Tensor, error) {
	t, err := l.v.Recorded(opt)
	for _, part := range l.parts[l.first : l.first+l.n] {
		for _, g := range part {
			var d *tensor.Tensor
			if err == nil {
				d, err = g.Recorded(opt)
			}
			if err != nil {
				return nil, err
			}
			t = plus(t, d, 1)
		}
	}
	return t, err
}

// losses are the gradients that the updates of a process read, compared with those of the losses before.
type losses struct {
	lost  []lostGradient
	whole map[cycle]bool // parameters that had the gradients of all losses in some update
	have  map[*Step]bool // losses whose gradients some parameter has
}

// add looks at the gradients that an update reads.
func (l *losses) add(u *updater) {
	done := map[uint64]bool{}
	end := u.step.backwardEnd()
	for _, c := range u.step.Tail {
		if c.Entry.Order < end { // a hook, which has the gradient of one loss
			continue
		}
		for _, v := range c.Inputs {
			if v.From.How == IsChanged || v.From.Role == "collective" || v.From.first != nil || !v.DType.IsFloat() ||
				!v.tellsNumber() || c.handsOn(v) {
				continue
			}
			if g := v.From.Value; g != nil && g.Kind != capture.GradInputs {
				continue
			}
			at := u.gradientOf(v)
			if at == 0 || done[at] {
				continue
			}
			parts, ok := u.parts(v, at)
			if !ok || len(parts) < 2 {
				continue
			}
			of := cycleOf(at, parts)
			if first, n := lostRun(v, parts); n > 0 {
				done[at] = true
				if kept(parts[first:first+n]) || c.completes(parts) {
					continue
				}
				l.lost = append(l.lost, lostGradient{v, parts, first, n, of})
			} else if all, ok := sumOf(slices.Concat(parts...)); ok && all.is(v) {
				done[at], l.whole[of] = true, true
				for _, part := range parts {
					l.have[part[0].Call.Step] = true
				}
			}
		}
	}
}

// gradientOf is the address of the parameter whose gradient an update reads in v: of the one that is written with it,
// or of the argument whose recorded gradient it is; 0 if it is not known.
func (u *updater) gradientOf(v *Value) uint64 {
	at := u.parameter(v)
	if g := v.From.Value; at == 0 && g != nil {
		at = u.shared.key(g.argument())
	}
	return at
}

// handsOn reports whether a call makes something of the shape of a value that no recorded call reads, as a hook does:
// it is given the gradient of one loss, and autograd takes what it returns.
func (c *Call) handsOn(v *Value) bool {
	return !c.writes && len(c.Outputs) == 1 && c.Outputs[0].like(v) && len(c.Outputs[0].readers) == 0
}

// kept reports whether the program adds the gradients of losses to something of its own, such as a main gradient in
// another dtype, before it begins with those of the next.
func kept(parts [][]*Value) bool {
	return !slices.ContainsFunc(parts, func(part []*Value) bool {
		sum, ok := sumOf(part)
		return !ok || !slices.ContainsFunc(part[0].Call.Step.Tail, func(c *Call) bool {
			return c.writes && slices.ContainsFunc(c.Inputs, func(v *Value) bool {
				return sameShape(v.Shape, part[0].Shape) && sum.is(v) && c.keeps(v)
			})
		})
	})
}

// completes reports whether a result of a call is the sum of all parts: it adds what the value that it reads lacks, as
// autograd does where a dispatch mode sees its calls.
func (c *Call) completes(parts [][]*Value) bool {
	all, ok := sumOf(slices.Concat(parts...))
	return ok && slices.ContainsFunc(c.Outputs, all.is)
}

// keeps reports whether a call writes something else with a value than the value, or packs it into a buffer.
func (c *Call) keeps(v *Value) bool {
	return slices.ContainsFunc(c.madeOf(v), func(w *Value) bool { return w.Address != v.Address }) || c.packs(v)
}

// packs reports whether a call writes a buffer that has room for a value and all else that it reads, as FSDP2 does
// before it reduces gradients.
func (c *Call) packs(v *Value) bool {
	return slices.ContainsFunc(c.Inputs, func(w *Value) bool {
		room := tensor.Numel(w.Shape)
		for _, x := range c.Inputs {
			if x != w {
				room -= tensor.Numel(x.Shape)
			}
		}
		return w.after != nil && w != v && room >= 0
	})
}

// settle decides about gradients of parameters that lack what some losses gave, though those of other parameters have
// it, or another update had all, or the losses are parts of one. Where every update lacks the same, that is how the
// program is made; where only one is known, it may have set gradients to zero between two losses.
func (l *losses) settle(again map[*Value][]*Value) {
	type same struct {
		of       cycle
		first, n int
	}
	alike := map[same]int{}
	for _, x := range l.lost {
		alike[same{x.of, x.first, x.n}]++
	}
	found := map[*Step]*Value{}
	for _, x := range l.lost {
		of := x.lost().Call.Step
		always := alike[same{x.of, x.first, x.n}] > 1
		if excused := x.excused() || always && x.first > 0; excused && !l.have[of] && !l.whole[x.of] {
			x.v.lacks = !always
			continue
		}
		x.v.right = x.whole
		if first := found[of]; first != nil {
			first.alike = append(first.alike, x.v)
			continue
		}
		found[of] = x.v
		x.report(again)
	}
	for _, v := range found {
		if n := len(v.alike); n > 0 {
			v.reason += "; so " + reports.Plural(n, "does 1 other gradient", "do %d other gradients")
		}
	}
}

// report makes the gradient changed.
func (l lostGradient) report(again map[*Value][]*Value) {
	v, g := l.v, l.lost()
	v.unlink()
	v.From = Link{How: IsChanged, Value: g}
	more := ""
	if l.n > 1 {
		more = fmt.Sprintf(", and those of the next %d", l.n-1)
	}
	v.reason = fmt.Sprintf("it lacks %s of %s, the gradient of the loss %s%s: it is the sum of what the other losses give",
		g.Target, g.Call, g.Call.Step.Loss, more)
	g.readers = append(g.readers, v)
	for _, r := range again[v] {
		r.From = v.From.again(v)
	}
}

// parts are the gradients of the parameter at an address, by loss: recorded ones, or what the calls give where that was
// computed; not ok if one is missing.
func (u *updater) parts(v *Value, at uint64) (parts [][]*Value, ok bool) {
	by := map[*Step]int{}
	for _, r := range u.parameters[at] {
		g := r.Call.gradientOf(r)
		if g == nil || !sameShape(g.Shape, v.Shape) {
			return v.given, v.given != nil
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
