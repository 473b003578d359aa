package opdef

import (
	"fmt"
	"math"

	"github.com/optool/optool/tensor"
)

// A Scalar is a Python number: bool, int, float or complex. The zero value is
// the int 0.
type Scalar struct {
	kind tensor.Kind // KindOpaque (zero value) and KindInt: i; KindBool: i; KindFloat: f; KindComplex: c
	i    int64
	f    float64
	c    complex128
}

// Int, Float, Cplx and Bool make scalars of each kind.
func Int(v int64) Scalar       { return Scalar{kind: tensor.KindInt, i: v} }
func Float(v float64) Scalar   { return Scalar{kind: tensor.KindFloat, f: v} }
func Cplx(v complex128) Scalar { return Scalar{kind: tensor.KindComplex, c: v} }
func Bool(v bool) Scalar {
	s := Scalar{kind: tensor.KindBool}
	if v {
		s.i = 1
	}
	return s
}

// Kind is the category of the number: KindBool, KindInt, KindFloat or KindComplex.
func (s Scalar) Kind() tensor.Kind {
	if s.kind == tensor.KindOpaque {
		return tensor.KindInt
	}
	return s.kind
}

// Float64 is the number as a float64; the real part of a complex one.
func (s Scalar) Float64() float64 {
	switch s.kind {
	case tensor.KindFloat:
		return s.f
	case tensor.KindComplex:
		return real(s.c)
	}
	return float64(s.i)
}

// Int64 is the number truncated to an int64.
func (s Scalar) Int64() int64 {
	switch s.kind {
	case tensor.KindFloat:
		return tensor.FloatToInt(s.f)
	case tensor.KindComplex:
		return tensor.FloatToInt(real(s.c))
	}
	return s.i
}

// Complex128 is the number as a complex128.
func (s Scalar) Complex128() complex128 {
	if s.kind == tensor.KindComplex {
		return s.c
	}
	return complex(s.Float64(), 0)
}

// Abs is the magnitude of the number, of the same kind except for complex,
// which becomes a float.
func (s Scalar) Abs() Scalar {
	switch s.kind {
	case tensor.KindFloat:
		s.f = math.Abs(s.f)
	case tensor.KindComplex:
		return Float(math.Hypot(real(s.c), imag(s.c)))
	default:
		if s.i < 0 {
			s.i = -s.i
		}
	}
	return s
}

// Tensor is the wrapped 0-d tensor of the number.
func (s Scalar) Tensor() *tensor.Tensor {
	switch s.Kind() {
	case tensor.KindBool:
		return tensor.Wrap(s.i != 0)
	case tensor.KindFloat:
		return tensor.Wrap(s.f)
	case tensor.KindComplex:
		return tensor.Wrap(s.c)
	}
	return tensor.Wrap(s.i)
}

func (s Scalar) String() string {
	switch s.Kind() {
	case tensor.KindFloat:
		return fmt.Sprint(s.f)
	case tensor.KindComplex:
		return fmt.Sprint(s.c)
	}
	return fmt.Sprint(s.i)
}
