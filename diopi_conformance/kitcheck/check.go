// Package kitcheck compares results by the rules of DIOPI's test kit, or
// strictly.
package kitcheck

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Options say how results are compared.
type Options struct {
	// An element passes if |got - want| <= Atol + Rtol*|want|.
	Atol, Rtol float64
	// Mismatch is the share of elements of a tensor that may fail.
	Mismatch float64
	// Sums compares only the sums of tensors: where several orders are right.
	Sums bool
	// Strict demands equal dtypes and shapes and lets no element fail.
	Strict bool
}

// A Result is the comparison of one tensor.
type Result struct {
	Target      string // "output", "output[1]", "grad[weight]"
	OK          bool
	Reason      string // one sentence where not OK
	Got, Want   *tensor.Tensor
	Mismatched  int
	Numel       int
	MaxAbs      float64 // largest |got - want| of failing elements
	WorstIndex  int     // row-major index of that element, -1 if none
	Actual      float64 // the values there; complex ones by modulus
	Expected    float64
	MaxRelative float64
}

// Compare compares a result with its reference, element by element of lists
// and key by key of dicts. It returns a Result per tensor and one for each
// disagreement of structure.
func Compare(target string, got, want value.Value, o Options) []Result {
	bad := func(format string, args ...any) []Result {
		return []Result{{Target: target, Reason: fmt.Sprintf(format, args...), WorstIndex: -1}}
	}
	switch w := want.(type) {
	case *tensor.Tensor:
		g, ok := got.(*tensor.Tensor)
		if !ok {
			return bad("want an array of %s, got %s", w.Meta(), kind(got))
		}
		return []Result{compareTensors(target, g, w, o)}
	case *value.Sequence:
		g, ok := got.(*value.Sequence)
		if !ok {
			return bad("want a list of %d items, got %s", len(w.Items), kind(got))
		}
		if len(g.Items) != len(w.Items) {
			return bad("want %d items, got %d", len(w.Items), len(g.Items))
		}
		var out []Result
		for i := range w.Items {
			out = append(out, Compare(fmt.Sprintf("%s[%d]", target, i), g.Items[i], w.Items[i], o)...)
		}
		return out
	case *value.Dict:
		g, ok := got.(*value.Dict)
		if !ok {
			return bad("want a dict, got %s", kind(got))
		}
		var out []Result
		for _, it := range w.Items {
			name := fmt.Sprint(it.Key)
			v, ok := g.Get(name)
			if !ok {
				return bad("no %s is there", name)
			}
			out = append(out, Compare(fmt.Sprintf("%s[%s]", target, name), v, it.Value, o)...)
		}
		for _, it := range g.Items {
			if _, ok := w.Get(fmt.Sprint(it.Key)); !ok {
				return bad("%v is there and should not be", it.Key)
			}
		}
		return out
	}
	if g, ok := got.(*tensor.Tensor); ok {
		return bad("want %s, got an array of %s", value.Repr(want), g.Meta())
	}
	if value.Repr(got) != value.Repr(want) {
		return bad("want %s, got %s", value.Repr(want), value.Repr(got))
	}
	return []Result{{Target: target, OK: true, WorstIndex: -1}}
}

func kind(v value.Value) string {
	switch v := v.(type) {
	case *tensor.Tensor:
		return "an array of " + v.Meta()
	case *value.Sequence:
		return fmt.Sprintf("%d items", len(v.Items))
	case *value.Dict:
		return "a dict"
	}
	return value.Repr(v)
}

func compareTensors(target string, got, want *tensor.Tensor, o Options) Result {
	r := Result{Target: target, Got: got, Want: want, WorstIndex: -1}
	if o.Strict {
		if got.DType != want.DType {
			r.Reason = fmt.Sprintf("want dtype %s, got %s", want.DType, got.DType)
			return r
		}
		if !slices.Equal(got.Shape, want.Shape) {
			r.Reason = fmt.Sprintf("want shape %s, got %s", tensor.ShapeString(want.Shape),
				tensor.ShapeString(got.Shape))
			return r
		}
	}
	shape, err := tensor.Broadcast(got.Shape, want.Shape)
	if err != nil {
		r.Reason = fmt.Sprintf("shape %s does not fit %s", tensor.ShapeString(got.Shape),
			tensor.ShapeString(want.Shape))
		return r
	}
	if o.Sums {
		got, want, shape = total(got), total(want), nil
	}
	if got, err = got.Expand(shape...); err == nil {
		want, err = want.Expand(shape...)
	}
	if err != nil {
		r.Reason = err.Error()
		return r
	}
	r.Numel = tensor.Numel(shape)
	if got.DType.IsComplex() || want.DType.IsComplex() {
		compareComplex(&r, got, want, o)
	} else {
		compareReal(&r, got, want, o)
	}
	allowed := o.Mismatch * float64(r.Numel)
	if o.Strict {
		allowed = 0
	}
	if r.OK = float64(r.Mismatched) <= allowed; !r.OK {
		what := "elements"
		if o.Sums {
			what = "sums"
		}
		r.Reason = fmt.Sprintf("%d of %d %s differ by more than %g + %g*|expected|: element %d is %g, expected %g",
			r.Mismatched, r.Numel, what, o.Atol, o.Rtol, r.WorstIndex, r.Actual, r.Expected)
	}
	return r
}

// total is numpy's sum of a tensor: integers and bool add up as int64, floating
// dtypes round once.
func total(t *tensor.Tensor) *tensor.Tensor {
	if t.DType.IsComplex() {
		var s complex128
		for _, v := range tensor.Data[complex128](t) {
			s += v
		}
		return tensor.Scalar(t.DType, s)
	}
	if !t.DType.IsFloat() {
		var s int64
		for _, v := range tensor.Data[int64](t) {
			s += v
		}
		return tensor.Scalar(tensor.Int64, s)
	}
	var s float64
	for _, v := range tensor.Data[float64](t) {
		s += v
	}
	return tensor.Scalar(t.DType, t.DType.Round(s))
}

const block = 1 << 14

// compareReal is numpy.isclose. The reference is computed with in its own
// dtype, integers and bool as float64; so are 0-d arrays, which numpy takes
// for Python numbers.
func compareReal(r *Result, got, want *tensor.Tensor, o Options) {
	round := func(x float64) float64 { return x }
	atol, rtol := o.Atol, o.Rtol
	if dt := working(got.DType, want.DType); len(r.Want.Shape) > 0 && dt != tensor.Float64 && !o.Sums {
		round = dt.Round
		if dt == tensor.Float32 {
			round = func(x float64) float64 { return float64(float32(x)) }
		}
		atol, rtol = round(atol), round(rtol)
	}
	a, b := make([]float64, min(block, r.Numel)), make([]float64, min(block, r.Numel))
	for lo := 0; lo < r.Numel; lo += block {
		n := min(block, r.Numel-lo)
		tensor.Load(got, lo, a[:n])
		tensor.Load(want, lo, b[:n])
		for i := range n {
			x, y := a[i], b[i]
			if x == y || x != x && y != y {
				continue
			}
			diff := math.Abs(x - y)
			if finite(x) && finite(y) && round(diff) <= round(atol+round(rtol*math.Abs(y))) {
				continue
			}
			r.mismatch(lo+i, diff, x, y)
		}
	}
}

func compareComplex(r *Result, got, want *tensor.Tensor, o Options) {
	a, b := make([]complex128, min(block, r.Numel)), make([]complex128, min(block, r.Numel))
	for lo := 0; lo < r.Numel; lo += block {
		n := min(block, r.Numel-lo)
		tensor.Load(got, lo, a[:n])
		tensor.Load(want, lo, b[:n])
		for i := range n {
			x, y := a[i], b[i]
			if x == y || cmplx.IsNaN(x) && cmplx.IsNaN(y) {
				continue
			}
			diff := cmplx.Abs(x - y)
			if finite(diff) && diff <= o.Atol+o.Rtol*cmplx.Abs(y) {
				continue
			}
			r.mismatch(lo+i, diff, cmplx.Abs(x), cmplx.Abs(y))
		}
	}
}

// working is the dtype in which numpy compares two real dtypes: integers count as
// the smallest floating dtype that holds them, a reference of integers as float64.
func working(got, want tensor.DType) tensor.DType {
	if !want.IsFloat() {
		return tensor.Float64
	}
	if !got.IsFloat() {
		switch got.Size() {
		case 1:
			got = tensor.Float16
		case 2:
			got = tensor.Float32
		default:
			got = tensor.Float64
		}
	}
	return tensor.Promote(got, want)
}

func (r *Result) mismatch(at int, diff, x, y float64) {
	r.Mismatched++
	if r.WorstIndex < 0 || diff > r.MaxAbs || diff != diff && r.MaxAbs == r.MaxAbs {
		r.WorstIndex, r.MaxAbs, r.Actual, r.Expected = at, diff, x, y
	}
	if rel := diff / math.Abs(y); rel > r.MaxRelative {
		r.MaxRelative = rel
	}
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
