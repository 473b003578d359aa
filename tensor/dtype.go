package tensor

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
)

// DType is the element type of a tensor as PyTorch names it. The zero value is
// Invalid. Names, sizes, ranges and rounding are a row of one table (dtypes);
// CONTRIBUTING.md lists what else a new dtype has to be told to.
//
// Source: https://pytorch.org/docs/stable/tensor_attributes.html#torch.dtype
type DType uint8

// The dtypes torch can save.
const (
	Invalid DType = iota
	Bool
	Uint8
	Int8
	Int16
	Int32
	Int64
	Uint16
	Uint32
	Uint64
	Float16
	BFloat16
	Float32
	Float64
	Complex32
	Complex64
	Complex128
	Float8E4M3FN
	Float8E5M2
	Float8E4M3FNUZ
	Float8E5M2FNUZ
	Float8E8M0FNU  // powers of two, scales of blocks
	Float4E2M1FNx2 // two float4 in a byte: opaque, sizes only
	QInt8          // quantised: opaque, sizes only
	QUint8         // quantised: opaque, sizes only
	QInt32         // quantised: opaque, sizes only
	QUint4x2       // quantised: opaque, sizes only
	QUint2x4       // quantised: opaque, sizes only
	Bits8          // bytes that mean no number: opaque, sizes only
	numDTypes
)

// Kind orders dtypes by category, the order in which type promotion climbs.
type Kind uint8

// Categories of dtypes. KindBool, KindInt compute in int64; KindFloat in
// float64; KindComplex in complex128. uint64 values travel in int64 as their
// two's complement bits.
const (
	KindOpaque Kind = iota // no arithmetic: quantised and packed types
	KindBool
	KindInt
	KindFloat
	KindComplex
)

// A floatFormat describes a binary floating-point format by the parameters
// that rounding needs.
type floatFormat struct {
	mant     int     // explicit mantissa bits
	emin     int     // exponent of the smallest normal number
	max      float64 // largest finite value
	overflow float64 // what a magnitude beyond max (after rounding) becomes: +Inf or NaN
	negZero  bool    // has a negative zero
	scale    bool    // has positive powers of two alone: neither zero nor sign
}

type dtypeRow struct {
	name     string
	size     int // bytes of one element
	kind     Kind
	unsigned bool
	bits     int // width of an integer dtype
	format   floatFormat
	codec    codec
}

var dtypes = [numDTypes]dtypeRow{
	Invalid: {name: "invalid"},
	Bool: {name: "bool", size: 1, kind: KindBool, bits: 1, unsigned: true,
		codec: wideIntCodec(1, getBool, putBool, widenBool)},
	Uint8:    {name: "uint8", size: 1, kind: KindInt, bits: 8, unsigned: true, codec: intCodec(getU8, putU8)},
	Int8:     {name: "int8", size: 1, kind: KindInt, bits: 8, codec: intCodec(getI8, putU8)},
	Int16:    {name: "int16", size: 2, kind: KindInt, bits: 16, codec: intCodec(getI16, putU16)},
	Int32:    {name: "int32", size: 4, kind: KindInt, bits: 32, codec: wideIntCodec(4, getI32, putU32, widenI32)},
	Int64:    {name: "int64", size: 8, kind: KindInt, bits: 64, codec: wideIntCodec(8, getI64, putU64, widenI64)},
	Uint16:   {name: "uint16", size: 2, kind: KindInt, bits: 16, unsigned: true, codec: intCodec(getU16, putU16)},
	Uint32:   {name: "uint32", size: 4, kind: KindInt, bits: 32, unsigned: true, codec: intCodec(getU32, putU32)},
	Uint64:   {name: "uint64", size: 8, kind: KindInt, bits: 64, unsigned: true, codec: uint64Codec()},
	Float16:  {name: "float16", size: 2, kind: KindFloat, format: formatF16, codec: float16Codec()},
	BFloat16: {name: "bfloat16", size: 2, kind: KindFloat, format: formatBF16, codec: bfloat16Codec()},
	Float32:  {name: "float32", size: 4, kind: KindFloat, format: formatF32, codec: float32Codec()},
	Float64:  {name: "float64", size: 8, kind: KindFloat, format: formatF64, codec: float64Codec()},
	Complex32: {name: "complex32", size: 4, kind: KindComplex, format: formatF16,
		codec: complexCodec(2, getF16, putF16)},
	Complex64: {name: "complex64", size: 8, kind: KindComplex, format: formatF32,
		codec: complexCodec(4, getF32, putF32)},
	Complex128: {name: "complex128", size: 16, kind: KindComplex, format: formatF64,
		codec: complexCodec(8, getF64, putF64)},
	Float8E4M3FN: {name: "float8_e4m3fn", size: 1, kind: KindFloat, format: formatE4M3FN,
		codec: floatCodec(1, getE4M3FN, putE4M3FN)},
	Float8E5M2: {name: "float8_e5m2", size: 1, kind: KindFloat, format: formatE5M2,
		codec: floatCodec(1, getE5M2, putE5M2)},
	Float8E4M3FNUZ: {name: "float8_e4m3fnuz", size: 1, kind: KindFloat, format: formatE4M3FNUZ,
		codec: floatCodec(1, getE4M3FNUZ, putE4M3FNUZ)},
	Float8E5M2FNUZ: {name: "float8_e5m2fnuz", size: 1, kind: KindFloat, format: formatE5M2FNUZ,
		codec: floatCodec(1, getE5M2FNUZ, putE5M2FNUZ)},
	Float8E8M0FNU: {name: "float8_e8m0fnu", size: 1, kind: KindFloat, format: formatE8M0FNU,
		codec: floatCodec(1, getE8M0FNU, putE8M0FNU)},
	Float4E2M1FNx2: {name: "float4_e2m1fn_x2", size: 1},
	QInt8:          {name: "qint8", size: 1},
	QUint8:         {name: "quint8", size: 1},
	QInt32:         {name: "qint32", size: 4},
	QUint4x2:       {name: "quint4x2", size: 1},
	QUint2x4:       {name: "quint2x4", size: 1},
	Bits8:          {name: "bits8", size: 1},
}

// The floating-point formats. max is (2 - 2^-mant) * 2^emax, except where the
// format spends its largest code on NaN.
var (
	formatF16      = floatFormat{mant: 10, emin: -14, max: 65504, overflow: math.Inf(1), negZero: true}
	formatBF16     = floatFormat{mant: 7, emin: -126, max: 0x1.FEp127, overflow: math.Inf(1), negZero: true}
	formatF32      = floatFormat{mant: 23, emin: -126, max: math.MaxFloat32, overflow: math.Inf(1), negZero: true}
	formatF64      = floatFormat{mant: 52, emin: -1022, max: math.MaxFloat64, overflow: math.Inf(1), negZero: true}
	formatE4M3FN   = floatFormat{mant: 3, emin: -6, max: 448, overflow: math.NaN(), negZero: true}
	formatE5M2     = floatFormat{mant: 2, emin: -14, max: 57344, overflow: math.Inf(1), negZero: true}
	formatE4M3FNUZ = floatFormat{mant: 3, emin: -7, max: 240, overflow: math.NaN()}
	formatE5M2FNUZ = floatFormat{mant: 2, emin: -15, max: 57344, overflow: math.NaN()}
	formatE8M0FNU  = floatFormat{emin: -127, max: 0x1p127, overflow: math.NaN(), scale: true}
)

// String returns PyTorch's short name: "float32", "bfloat16", "bool".
func (d DType) String() string {
	if d >= numDTypes {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypes[d].name
}

// Size is the number of bytes of one element.
func (d DType) Size() int { return dtypes[d].size }

// Kind is the category of d in type promotion.
func (d DType) Kind() Kind { return dtypes[d].kind }

// IsFloat reports whether d is a real floating-point dtype.
func (d DType) IsFloat() bool { return dtypes[d].kind == KindFloat }

// IsReduced reports whether d is a real floating-point dtype of less precision than float32, in which
// kernels compute on it before they round (ATen's isReducedFloatingType).
func (d DType) IsReduced() bool { return d.IsFloat() && d.Eps() > Float32.Eps() }

// IsHalf reports whether d is a real floating-point dtype of 16 bits, float16 or bfloat16: what autocast
// casts to, and what kernels may accumulate in.
func (d DType) IsHalf() bool { return d.IsFloat() && d.Size() == 2 }

// IsFloat8 reports whether d is a real floating-point dtype of 8 bits, which is stored and converted, but
// has no arithmetic (ATen's isFloat8Type).
func (d DType) IsFloat8() bool { return d.IsFloat() && d.Size() == 1 }

// IsComplex reports whether d is complex.
func (d DType) IsComplex() bool { return dtypes[d].kind == KindComplex }

// IsIntegral reports whether d is an integer dtype; bool is not one.
func (d DType) IsIntegral() bool { return dtypes[d].kind == KindInt }

// IsUnsigned reports whether d is bool or an unsigned integer.
func (d DType) IsUnsigned() bool { return dtypes[d].unsigned }

// Bits is the width of an integer dtype (1 for bool), 0 for others.
func (d DType) Bits() int { return dtypes[d].bits }

// Computable reports whether values of d can be read as numbers; quantised
// dtypes cannot.
func (d DType) Computable() bool { return d < numDTypes && dtypes[d].kind != KindOpaque }

// Real is the dtype of the real and imaginary parts of a complex dtype, and d
// itself for every other dtype.
func (d DType) Real() DType {
	switch d {
	case Complex32:
		return Float16
	case Complex64:
		return Float32
	case Complex128:
		return Float64
	}
	return d
}

// Complex is the complex dtype whose parts are of the floating dtype d
// (bfloat16 and float8 have none: complex64), and d itself if already complex.
func (d DType) Complex() DType {
	switch d {
	case Float16:
		return Complex32
	case Float64:
		return Complex128
	case Complex32, Complex64, Complex128:
		return d
	}
	return Complex64
}

// Eps is the distance from 1 to the next larger value (torch.finfo.eps), 0 for
// dtypes that are not floating or complex.
func (d DType) Eps() float64 {
	if k := d.Kind(); k != KindFloat && k != KindComplex {
		return 0
	}
	return math.Ldexp(1, -dtypes[d].format.mant)
}

// MantissaBits is the number of explicit mantissa bits of a floating or
// complex dtype.
func (d DType) MantissaBits() int { return dtypes[d].format.mant }

// Max is the largest finite value, as a float64.
func (d DType) Max() float64 {
	r := &dtypes[d]
	switch r.kind {
	case KindFloat, KindComplex:
		return r.format.max
	case KindBool:
		return 1
	case KindInt:
		if r.unsigned {
			return math.Ldexp(1, r.bits) - 1
		}
		return math.Ldexp(1, r.bits-1) - 1
	}
	return 0
}

// Min is the smallest (most negative) finite value, as a float64.
func (d DType) Min() float64 {
	r := &dtypes[d]
	switch {
	case r.format.scale:
		return d.SmallestNormal()
	case r.kind == KindFloat || r.kind == KindComplex:
		return -r.format.max
	case r.kind == KindInt && !r.unsigned:
		return -math.Ldexp(1, r.bits-1)
	}
	return 0
}

// IntRange is the smallest and largest value of an integer dtype or bool.
// For uint64 the largest is reported as math.MaxInt64.
func (d DType) IntRange() (lo, hi int64) {
	r := &dtypes[d]
	switch {
	case r.bits == 64 && r.unsigned:
		return 0, math.MaxInt64
	case r.unsigned:
		return 0, 1<<r.bits - 1
	case r.bits > 0:
		return -1 << (r.bits - 1), 1<<(r.bits-1) - 1
	}
	return 0, 0
}

// SmallestNormal is the smallest positive normal value of a floating dtype
// (torch.finfo.tiny).
func (d DType) SmallestNormal() float64 { return math.Ldexp(1, dtypes[d].format.emin) }

// ULP is the spacing of the values of floating dtype d at magnitude |x|: the
// distance between the two neighbours of d's grid in x's binade, never below
// the spacing of the subnormals. NaN and Inf have the spacing of the largest
// finite value. The exponent is floor(log2 |x|), taken from the bits.
func (d DType) ULP(x float64) float64 {
	f := &dtypes[d].format
	x = math.Abs(x)
	if !(x <= f.max) {
		x = f.max
	}
	e := int(math.Float64bits(x)>>52) - 1023 // subnormal float64: -1023
	if e < f.emin {
		e = f.emin
	}
	if e -= f.mant; e < -1022 { // a subnormal float64
		return math.Ldexp(1, e)
	}
	return math.Float64frombits(uint64(e+1023) << 52)
}

// Round returns x rounded once, ties to even, to floating dtype d, with d's
// overflow rule.
func (d DType) Round(x float64) float64 { return dtypes[d].format.round(x) }

// DTypes yields all dtypes, Invalid left out.
func DTypes() iter.Seq[DType] {
	return func(yield func(DType) bool) {
		for d := Invalid + 1; d < numDTypes && yield(d); d++ {
		}
	}
}

// Floats are the floating dtypes that operators compute with, all but float8, widest first.
func Floats() (all []DType) {
	for d := numDTypes - 1; d > Invalid; d-- {
		if d.IsFloat() && !d.IsFloat8() {
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b DType) int { return b.Size() - a.Size() })
	return all
}

// ParseDType returns the dtype with the given PyTorch name, with or without
// the "torch." prefix and with the aliases torch accepts (half, float, double,
// long, ...).
func ParseDType(name string) (DType, bool) {
	d, ok := dtypeByName[name]
	return d, ok
}

var dtypeByName = func() map[string]DType {
	m := map[string]DType{}
	for d := Invalid + 1; d < numDTypes; d++ {
		m[dtypes[d].name] = d
	}
	for alias, d := range map[string]DType{
		"half": Float16, "float": Float32, "double": Float64, "short": Int16, "int": Int32, "long": Int64,
		"chalf": Complex32, "cfloat": Complex64, "cdouble": Complex128,
	} {
		m[alias] = d
	}
	for n, d := range maps.Clone(m) {
		m["torch."+n] = d
	}
	return m
}()
