package causes

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A passage is where a gradient is the incoming one, or a multiple of it: where an operand lies between two numbers, or
// only where it does not. Elsewhere it is 0.
type passage struct {
	lo, hi  limit
	outside bool
}

// A limit lies between two elements of an operand, of which one is inside and the other is outside; nothing is outside
// of one that is infinite.
type limit struct{ inside, outside float64 }

// number is one of those known that lies at the limit, or the one with the fewest digits that does.
func (l limit) number(known []float64) float64 {
	if math.IsInf(l.outside, 0) {
		return l.outside
	}
	for _, x := range known {
		if x >= min(l.inside, l.outside) && x <= max(l.inside, l.outside) {
			return x
		}
	}
	return (&region{wrong: l.inside, right: l.outside}).between()
}

// holds reports whether the gradient passes at an element.
func (p passage) holds(x float64) bool { return (x >= p.lo.inside && x <= p.hi.inside) != p.outside }

// text says where the gradient passes, by known numbers if it can.
func (p passage) text(known []float64) string {
	lo, hi := p.lo.number(known), p.hi.number(known)
	word := func(open, closed string, x, passes float64) string { // a limit that is an element passes or does not
		if x == passes {
			open = closed
		}
		return fmt.Sprintf("%s %.4g", open, x)
	}
	above := word("above", "at least", lo, p.lo.inside)
	below := word("below", "at most", hi, p.hi.inside)
	switch {
	case math.IsInf(lo, 0) && math.IsInf(hi, 0):
		return "everywhere"
	case math.IsInf(lo, 0):
		return below
	case math.IsInf(hi, 0):
		return above
	case p.outside:
		return word("below", "at most", lo, p.lo.outside) + " or " + word("above", "at least", hi, p.hi.outside)
	case lo == p.lo.outside || hi == p.hi.outside:
		return above + " and " + below
	}
	return fmt.Sprintf("from %.4g to %.4g", lo, hi)
}

// passageOf is where a gradient passes that passes at some elements; false if these are not next to each other.
func passageOf(x []float64, order []int, passes []bool) (p passage, ok bool) {
	first := slices.IndexFunc(order, func(i int) bool { return passes[i] })
	if first < 0 {
		return p, false
	}
	last := first
	for last+1 < len(order) && passes[order[last+1]] {
		last++
	}
	if slices.ContainsFunc(order[last+1:], func(i int) bool { return passes[i] }) {
		if first > 0 || !passes[order[len(order)-1]] {
			return p, false
		}
		stops := slices.Clone(passes) // between two numbers
		for i := range stops {
			stops[i] = !stops[i]
		}
		p, ok = passageOf(x, order, stops)
		p.outside = true
		return p, ok
	}
	p.lo, p.hi = limit{x[order[first]], math.Inf(-1)}, limit{x[order[last]], math.Inf(1)}
	if first > 0 {
		p.lo.outside = x[order[first-1]]
	}
	if last+1 < len(order) {
		p.hi.outside = x[order[last+1]]
	}
	return p, p.lo.outside < p.lo.inside && p.hi.outside > p.hi.inside
}

// passing are gradients that are the incoming one, or a multiple of it, where an operand lies between two numbers, and
// 0 elsewhere, where others are due: other limits. A gradient that is one or the other says no more of an operand than
// that, so these come before all that takes the operand's numbers for others.
func (c *Search) passing(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			r := &fails[i]
			got, want, ok := r.floats()
			if !ok || !r.Backward() || len(c.Incoming) == 0 || got.Numel() < leastInNarrow {
				continue
			}
			var g, w, u []float64
			if up := asOf(c.Incoming[0], got.Shape); up == nil || c.Guard(func() error {
				g, w, u = elements(got), elements(want), elements(up)
				return nil
			}) != nil {
				continue
			}
			is, was, k := passes(g, w, u, got.DType)
			if is == nil {
				continue
			}
			for _, a := range c.operands() {
				x, err := a.Tensor.Expand(got.Shape...)
				if err != nil || !slices.Equal(x.Shape, got.Shape) {
					continue
				}
				if !c.passingBy(r, argName(a), x, is, was, k, yield) {
					return
				}
			}
		}
	}
}

// passes are the elements at which a gradient is k times the incoming one, and those at which it is due to be. The
// others are 0. nil if it is not so.
func passes(got, due, up []float64, dt tensor.DType) (is, was []bool, k float64) {
	near := 4 * dt.Eps()
	at := slices.IndexFunc(upTo(0, len(got)), func(i int) bool { return due[i] != 0 && up[i] != 0 })
	if at < 0 {
		return nil, nil, 0
	}
	k = due[at] / up[at]
	is, was = make([]bool, len(got)), make([]bool, len(got))
	differ := 0
	for i := range got {
		full := k * up[i]
		one := func(x float64) (passes, ok bool) {
			return x != 0, x == 0 || math.Abs(x-full) <= near*math.Abs(full)
		}
		var ok1, ok2 bool
		is[i], ok1 = one(got[i])
		was[i], ok2 = one(due[i])
		if !ok1 || !ok2 {
			return nil, nil, 0
		}
		differ += btoi(is[i] != was[i] && up[i] != 0)
		if up[i] == 0 {
			is[i] = was[i] // nothing can be told
		}
	}
	if differ < leastInPart {
		return nil, nil, 0
	}
	return is, was, k
}

// passingBy yields the passage by an operand; it is false when no more are wanted.
func (c *Search) passingBy(r *Wrong, name string, t *tensor.Tensor, is, was []bool, k float64,
	yield func(Mistake) bool) bool {
	var x []float64
	if c.Guard(func() error { x = elements(t); return nil }) != nil || slices.ContainsFunc(x, math.IsNaN) {
		return true
	}
	order := upTo(0, len(x))
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(x[i], x[j]) })
	p, ok := passageOf(x, order, is)
	q, ok2 := passageOf(x, order, was)
	if !ok || !ok2 || p == q {
		return true
	}
	up := asOf(c.Incoming[0], r.Got.Shape)
	var known []float64
	for _, a := range c.Bound.Arguments() {
		if x, ok := numberOf(a.Python()); ok {
			known = append(known, t.DType.Round(x))
		}
	}
	text := fmt.Sprintf("the incoming gradient passes where %s is %s, not %s", name, p.text(known), q.text(known))
	if math.IsInf(p.lo.outside, 0) && math.IsInf(p.hi.outside, 0) {
		text = fmt.Sprintf("the incoming gradient passes everywhere, not only where %s is %s", name, q.text(known))
	}
	return yield(Mistake{Text: text, Rounds: true, OnlyHere: true, Cost: 2 * math.Log2(float64(len(x))),
		Make: c.altering(func(target string, due *tensor.Tensor) *tensor.Tensor {
			if target != r.Target || !slices.Equal(due.Shape, t.Shape) {
				return due
			}
			return opdef.ZipN(due.DType, due.Shape, func(dst []float64, src [][]float64) {
				for i := range dst {
					if dst[i] = 0; p.holds(src[1][i]) {
						dst[i] = k * src[2][i]
					}
				}
			}, due, t, up)
		})})
}
