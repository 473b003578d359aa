package elements

import (
	"math"
	"math/big"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// ArithmeticValue is a Python number in the precision arithmetic on dt is done
// in: float32 for 16-bit types.
func ArithmeticValue(s opdef.Scalar, dt tensor.DType) float64 {
	prec := dt.Real()
	if prec.IsReduced() {
		prec = tensor.Float32
	}
	if !prec.IsFloat() {
		return s.Float64()
	}
	return prec.Round(s.Float64())
}

// PromoteWith is the common dtype of dt and the named argument.
func PromoteWith(arg string, dt tensor.DType, t *tensor.Tensor) (tensor.DType, error) {
	p := tensor.Promote(dt, t.DType)
	if p == tensor.Invalid {
		return p, opdef.Refuse(arg, "dtypes %s and %s have no common one", dt, t.DType)
	}
	return p, nil
}

// FillValue is a number as a 0-d tensor of dtype dt, refused where dt does not
// reach it.
func FillValue(arg string, s opdef.Scalar, dt tensor.DType) (*tensor.Tensor, error) {
	switch {
	case s.Kind() == tensor.KindComplex && !dt.IsComplex() && imag(s.Complex128()) != 0:
		return nil, opdef.Refuse(arg, "%v does not fit dtype %s", s, dt)
	case dt == tensor.Bool:
		return tensor.Scalar(dt, Indicator(s.Complex128() != 0)), nil
	case dt.IsComplex():
		return tensor.Scalar(dt, s.Complex128()), nil
	}
	v := s.Float64()
	if out := v > dt.Max() || v < dt.Min(); out && (IsFinite(v) || dt.IsIntegral()) && !(dt.IsUnsigned() && v < 0 &&
		v >= -dt.Max()) || v != v && dt.IsIntegral() {
		return nil, opdef.Refuse(arg, "%v does not fit dtype %s", s, dt)
	}
	if dt.IsFloat() {
		return tensor.Scalar(dt, v), nil
	}
	return tensor.Scalar(dt, s.Int64()), nil
}

// SpatialSizes checks a list of nd numbers not below least; one number is used for all. Unused
// leading dimensions get fill.
func SpatialSizes(arg string, v []int, nd, least, fill int) (out [3]int, err error) {
	out = [3]int{fill, fill, fill}
	if len(v) != nd && len(v) != 1 {
		return out, opdef.Refuse(arg, "want 1 or %d numbers, got %d", nd, len(v))
	}
	for d := range nd {
		x := v[0]
		if len(v) == nd {
			x = v[d]
		}
		if x < least {
			return out, opdef.Refuse(arg, "want at least %d, got %d", least, x)
		}
		if x > math.MaxInt32 {
			return out, opdef.Refuse(arg, "want at most %d, got %d", math.MaxInt32, x)
		}
		out[3-nd+d] = x
	}
	return out, nil
}

// IntList reads a number or a sequence of numbers.
func IntList(arg string, v value.Value) ([]int, error) {
	seq, ok := v.(*value.Sequence)
	if !ok {
		seq = value.NewList(v)
	}
	out := make([]int, len(seq.Items))
	for i, it := range seq.Items {
		n, ok := it.(int64)
		if !ok {
			return nil, opdef.Refuse(arg, "want whole numbers, got %s", opdef.TypeName(it))
		}
		out[i] = int(n)
	}
	return out, nil
}

// CheckSize refuses negative sizes and those whose product is no element count.
func CheckSize(size []int) error {
	n := big.NewInt(1)
	for _, d := range size {
		if d < 0 {
			return opdef.Refuse("size", "want sizes of 0 or more, got %s", tensor.ShapeString(size))
		}
		n.Mul(n, big.NewInt(int64(d)))
	}
	if !slices.Contains(size, 0) && (!n.IsInt64() || n.Int64() > math.MaxInt64/16) {
		return opdef.Refuse("size", "%s is too large", tensor.ShapeString(size))
	}
	return nil
}

// WantFloat refuses tensors that are not of a real floating dtype.
func WantFloat(arg string, t *tensor.Tensor) error {
	if !t.DType.IsFloat() {
		return opdef.Refuse(arg, "want a floating dtype, got %s", t.DType)
	}
	return nil
}

// WantReal refuses complex and bool tensors.
func WantReal(arg string, t *tensor.Tensor) error {
	if t.DType.IsComplex() || t.DType == tensor.Bool {
		return opdef.Refuse(arg, "not defined for dtype %s", t.DType)
	}
	return nil
}
