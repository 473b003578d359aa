package creation

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// fromData makes a tensor of numbers in nested sequences, or converts one.
func fromData(v value.Value, dt *tensor.DType) ([]*tensor.Tensor, error) {
	if t, ok := v.(*tensor.Tensor); ok {
		if !t.DType.Computable() {
			return nil, opdef.Refuse("data", "dtype %s has no values to compute with", t.DType)
		}
		return elements.Result(opdef.Cast(t, elements.OrElse(dt, t.DType)))
	}
	var flat []opdef.Scalar
	d := tensor.Invalid
	shape, err := nestedNumbers(v, &flat, &d, 0)
	if err != nil {
		return nil, err
	}
	if len(flat) == 0 {
		d = tensor.DefaultDType
	}
	d = elements.OrElse(dt, d)
	switch d.Kind() {
	case tensor.KindComplex:
		return elements.Result(tensor.New(d, shape, numbers(flat, opdef.Scalar.Complex128)))
	case tensor.KindFloat:
		return elements.Result(tensor.New(d, shape, numbers(flat, opdef.Scalar.Float64)))
	case tensor.KindBool:
		return elements.Result(tensor.New(d, shape,
			numbers(flat, func(s opdef.Scalar) int64 { return elements.Indicator(s.Complex128() != 0) })))
	}
	return elements.Result(tensor.New(d, shape, numbers(flat, opdef.Scalar.Int64)))
}

func numbers[T any](ss []opdef.Scalar, f func(opdef.Scalar) T) []T {
	out := make([]T, len(ss))
	for i, s := range ss {
		out[i] = f(s)
	}
	return out
}

// maxNesting bounds the depth of nested sequences, which may contain themselves.
const maxNesting = 64

// nestedNumbers appends the numbers in v to flat, promotes dt by their dtypes and returns the shape v
// spells. A tensor is a number; an array of numpy, which is recorded as one, may have dimensions.
func nestedNumbers(v value.Value, flat *[]opdef.Scalar, dt *tensor.DType, depth int) ([]int, error) {
	seq, ok := v.(*value.Sequence)
	if t, isTensor := v.(*tensor.Tensor); isTensor && t.DType.Computable() {
		if err := tensor.CheckSize(t.Shape); err != nil {
			return nil, opdef.Refuse("data", "%v", err)
		}
		for i := range t.Numel() {
			*flat = append(*flat, opdef.ScalarAt(t, i))
		}
		*dt = tensor.Promote(*dt, t.DType)
		return slices.Clone(t.Shape), nil
	}
	if !ok {
		s, ok := opdef.ScalarOf(v)
		if !ok {
			return nil, opdef.Refuse("data", "want numbers, got %s", opdef.TypeName(v))
		}
		*flat, *dt = append(*flat, s), tensor.Promote(*dt, dtypeOfNumber(s))
		return []int{}, nil
	}
	if depth == maxNesting {
		return nil, opdef.Refuse("data", "nested more than %d deep", maxNesting)
	}
	var inner []int
	for i, it := range seq.Items {
		sh, err := nestedNumbers(it, flat, dt, depth+1)
		if err != nil {
			return nil, err
		}
		if i > 0 && !slices.Equal(sh, inner) {
			return nil, opdef.Refuse("data", "items of different shapes at depth %d", depth)
		}
		inner = sh
	}
	return append([]int{len(seq.Items)}, inner...), nil
}

var dataCases = opdef.Calls[dataArgs](`[1, 2, 3]; [(1.5, 2), (0.0, -1.0)]; 0.1, dtype=bf16; True; []`)
