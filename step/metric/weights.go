package metric

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/step"
)

// A leafSet knows the rows and columns of what a run read from outside.
type leafSet struct {
	rows   rowSet
	leaves []*step.Value
}

// leavesOf are the floating values that calls read from outside, each where it is read first.
func leavesOf(calls []*step.Call) []*step.Value {
	var out []*step.Value
	for _, c := range calls {
		for _, v := range c.Inputs {
			if v.From.How == step.IsLeaf && v.First() == v && v.DType.IsFloat() && v.Numel() > 1 && len(v.Shape) > 0 {
				out = append(out, v)
			}
		}
	}
	return out
}

// weightRows are the rows of what a side read from outside.
func (p *Pair) weightRows(i int) *leafSet { return &leafSet{leaves: leavesOf(p.Sides[i].Calls)} }

func (s *leafSet) fill(opt step.Options) {
	if s.rows != nil {
		return
	}
	s.rows = rowSet{}
	for _, v := range s.leaves {
		if r, c, ok := rowsAndColumns(v, opt); ok {
			s.rows.add(r)
			s.rows.add(c)
		}
	}
}

// rowsAndColumns are those of a recorded value; a vector is one row.
func rowsAndColumns(v *step.Value, opt step.Options) (r, c rows, ok bool) {
	x := v.Floats(opt)
	if x == nil {
		return r, c, false
	}
	n := v.Shape[len(v.Shape)-1]
	if n == 0 {
		return r, c, false
	}
	for i := 0; i+n <= len(x); i += n {
		r.add(x[i : i+n])
	}
	if len(v.Shape) == 2 {
		column := make([]float64, v.Shape[0])
		for j := range n {
			for i := range column {
				column[i] = x[i*n+j]
			}
			c.add(column)
		}
	}
	return r, c, true
}

// hasValue reports whether the rows of a value are among those of the set, or its columns.
func (s *leafSet) hasValue(v *step.Value, opt step.Options) bool {
	s.fill(opt)
	r, c, ok := rowsAndColumns(v, opt)
	return ok && (s.rows.share(r) == 1 || s.rows.share(c) == 1)
}

// weights finds the weights of this run that the other one has otherwise: of the same shape, near, not equal.
func (p *Pair) weights(opt step.Options) []*step.Finding {
	ours, theirs := p.weightRows(0), p.weightRows(1)
	var missing []*step.Value // of the other run
	for _, w := range theirs.leaves {
		if !ours.hasValue(w, opt) {
			missing = append(missing, w)
		}
	}
	var out []*step.Finding
	for _, v := range ours.leaves {
		if theirs.hasValue(v, opt) {
			continue
		}
		var best *step.Value
		nearest := math.Inf(1)
		for _, w := range missing {
			if d := distance(v, w, opt); d < nearest {
				best, nearest = w, d
			}
		}
		const same = 1.0 // others are as far apart as their sizes
		if best == nil || nearest >= same || roundedEqual(v, best, opt) {
			continue
		}
		reason := fmt.Sprintf("the weights differ: %s of this call is off by %.2g from %s of %s in the other run",
			v.Target, nearest, best.Target, best.Call)
		if v.DType != best.DType {
			reason += fmt.Sprintf(" (%s, %s)", v.DType, best.DType)
		}
		out = append(out, &step.Finding{Rule: verdict.Diverged, Call: v.Call, Target: v.Target, Peer: best.Call,
			Side: step.This, Reason: reason})
	}
	return out
}

// distance is how far two values are apart, relative to the second. Where one holds more rows, those of the other
// are looked for among them.
func distance(v, w *step.Value, opt step.Options) float64 {
	n := v.Shape[len(v.Shape)-1]
	if len(v.Shape) != len(w.Shape) || n != w.Shape[len(w.Shape)-1] {
		return math.Inf(1)
	}
	x, y := v.Floats(opt), w.Floats(opt)
	if x == nil || y == nil {
		return math.Inf(1)
	}
	if len(x) < len(y) {
		x, y = y, x
	}
	nearest := math.Inf(1)
	for at := 0; at+len(y) <= len(x); at += max(n, 1) {
		square, norm := 0.0, 0.0
		for i, b := range y {
			d := x[at+i] - b
			square += d * d
			norm += b * b
		}
		if norm > 0 {
			nearest = min(nearest, math.Sqrt(square/norm))
		}
	}
	return nearest
}

// roundedEqual reports whether two values are equal once the wider is rounded to the dtype of the other.
func roundedEqual(v, w *step.Value, opt step.Options) bool {
	x, y := v.Floats(opt), w.Floats(opt)
	dt := v.DType
	if w.DType.Eps() > dt.Eps() {
		dt = w.DType
	}
	return x != nil && slices.Equal(rounded(dt, x), rounded(dt, y))
}
