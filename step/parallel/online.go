package parallel

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
)

// A softmax over blocks that come one after another shifts its exponents by the largest score so far, and scales what
// it has by the exponential of how far that moved. Its result does not depend on the shift. Recorded calls tell: the
// result is computed again with one largest score moved.

// Limits of what is computed again: quotients by rank, and how far a score is moved.
const (
	quotients = 2
	shift     = 1.0
)

// unscaled finds a quotient of sums over blocks that depends on what the exponents are shifted by.
func (p *part) unscaled() {
	for _, q := range slices.Backward(p.checker.trace.Processes) {
		if len(p.broken) > 0 {
			return
		}
		if !slices.Contains(p.ranks, q.Rank) {
			continue
		}
		tried := 0
		for _, c := range q.Calls {
			if method(c.Op) != "exp" || tried == quotients {
				continue
			}
			largest := corrects(c)
			if largest == nil {
				continue
			}
			over := quotient(q, largest)
			if over == nil {
				continue
			}
			tried++
			if k, ok := p.checker.depends(over, largest); ok {
				p.found(true, &violation{kind: "shard", call: over, site: p.siteOf(over), ranks: p.ranks, target: "output[0]",
					reason: fmt.Sprintf("its result on rank %d depends on the largest score that exponents are shifted by, which "+
						"must cancel out: with that of %s moved by %g, it changes by %.2g of its largest element. A sum over the "+
						"blocks before is not scaled anew, or by another number than the other", q.Rank, largest, shift,
						k)})
				return
			}
		}
	}
}

// siteOf is the site of a call, or of the function that made it.
func (p *part) siteOf(call *step.Call) *site {
	for c := call; c != nil; c = c.Outer() {
		for _, s := range p.sites {
			if s.calls[c.Process.Rank] == c {
				return s
			}
		}
	}
	return p.sites[0]
}

// corrects is the call that took the largest score of a block, where a call is the exponential of the difference of two
// largest scores; nil if it is not.
func corrects(c *step.Call) *step.Call {
	if len(c.Inputs) != 1 || c.Inputs[0].From.Value == nil {
		return nil
	}
	difference := c.Inputs[0].From.Value.Call
	if method(difference.Op) != "sub" || len(difference.Inputs) != 2 {
		return nil
	}
	a, b := extreme(difference.Inputs[0]), extreme(difference.Inputs[1])
	if a == nil || b == nil || a == b {
		return nil
	}
	return ofBlock(a)
}

// ofBlock is the call that took the largest score of one block, of those that a call takes the largest of; nil if it is
// not known.
func ofBlock(c *step.Call) *step.Call {
	if method(c.Op) != "maximum" {
		return c
	}
	for _, v := range c.Inputs {
		if e := extreme(v); e != nil {
			if b := ofBlock(e); b != nil {
				return b
			}
		}
	}
	return nil
}

// extreme is the call that took the largest of some numbers, of which a value is made; nil if it is none.
func extreme(v *step.Value) *step.Call {
	for range 8 {
		if v.From.Value == nil {
			return nil
		}
		c := v.From.Value.Call
		m := method(c.Op)
		switch {
		case slices.Contains([]string{"max", "amax", "maximum"}, m) && len(c.Inputs) > 0:
			return c
		case !forming[m] && !silent[m] && m != "squeeze" && m != "getitem" || len(c.Inputs) == 0:
			return nil
		}
		v = c.Inputs[0]
	}
	return nil
}

// quotient is the last division of two values that both depend on a call; nil if there is none.
func quotient(q *step.Process, of *step.Call) (last *step.Call) {
	from := map[*step.Call]bool{of: true}
	depends := func(v *step.Value) bool { return v.From.Value != nil && from[v.From.Value.Call] }
	for _, c := range q.Calls[of.Order+1:] {
		if !slices.ContainsFunc(c.Inputs, depends) {
			continue
		}
		from[c] = true
		m := method(c.Op)
		if (m == "div" || m == "truediv" || m == "divide") && len(c.Inputs) == 2 && len(c.Outputs) == 1 &&
			depends(c.Inputs[0]) && depends(c.Inputs[1]) {
			last = c
		}
	}
	return last
}

// depends is how far the result of a call moves, relative to its largest element, when the scores of which another
// takes the largest are moved for it; ok is false if that is no more than rounding, or is not known.
func (c *checker) depends(over, largest *step.Call) (k float64, ok bool) {
	given, err := largest.Inputs[0].Recorded(c.opt)
	if err != nil || !given.DType.IsFloat() {
		return 0, false
	}
	moved := newArray(given)
	if moved == nil {
		return 0, false
	}
	to := moved.map1(func(x float64) float64 { return x + shift }).tensor()
	w := step.WhatIf{
		With:   map[*step.Value]*tensor.Tensor{largest.Inputs[0]: to},
		Choose: func(*step.Call) (step.Choice, tensor.DType) { return step.AsRecorded, tensor.Invalid },
	}
	got, err := w.Result(c.ctx, over.Outputs[0], c.opt)
	was, recorded := over.Outputs[0].Recorded(c.opt)
	if err != nil || recorded != nil || len(got.Broken) > 0 || got.Result == nil {
		return 0, false
	}
	x, y := newArray(was), newArray(got.Result)
	if x == nil || y == nil || len(x.x) != len(y.x) {
		return 0, false
	}
	far := 0.0
	for i, v := range x.x {
		if d := math.Abs(v - y.x[i]); d > far {
			far = d
		}
	}
	k = far / x.largest()
	eps := 0.0
	for _, v := range slices.Concat(over.Inputs, largest.Inputs, over.Outputs) {
		eps = max(eps, v.DType.Eps())
	}
	return k, k > max(1e-3, 16*eps) && k-k == 0
}
