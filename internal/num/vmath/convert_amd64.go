//go:build goexperiment.simd && amd64 && !go1.27

package vmath

import (
	"math"
	"simd/archsimd"
	"unsafe"
)

func bytesAt(b []byte, i int) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)
}

func widen32SIMD(dst []float64, src []byte) {
	for i := 0; i < len(dst); i += 4 {
		archsimd.LoadFloat32x4((*[4]float32)(bytesAt(src, 4*i))).ConvertToFloat64().Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
}

func widenBF16SIMD(dst []float64, src []byte) {
	for i := 0; i < len(dst); i += 8 {
		x := archsimd.LoadUint16x8((*[8]uint16)(bytesAt(src, 2*i))).ExtendToUint32().ShiftAllLeft(16).AsFloat32x8()
		x.GetLo().ConvertToFloat64().Store(at(dst, i))
		x.GetHi().ConvertToFloat64().Store(at(dst, i+4))
	}
	archsimd.ClearAVXUpperBits()
}

// carriesSIMD is what Finite makes of a multiple of 32 bytes, all in one.
func carriesSIMD(src []byte, e Exponent) uint64 {
	exponent, lowest := archsimd.BroadcastUint64x4(e.bits), archsimd.BroadcastUint64x4(e.lowest)
	var all archsimd.Uint64x4
	for i := 0; i < len(src); i += 32 {
		all = all.Or(archsimd.LoadUint64x4((*[4]uint64)(bytesAt(src, i))).And(exponent).Add(lowest))
	}
	var v [4]uint64
	all.Store(&v)
	archsimd.ClearAVXUpperBits()
	return v[0] | v[1] | v[2] | v[3]
}

var (
	vHalfMagnitude = splat32(0x7fff)
	vHalfSign      = splat32(0x8000)
	vHalfExponent  = splat32(0x7c00 - 1)
	vInf32         = splat32(0x7f800000)
	vUnbias32      = splat32(math.Float32bits(0x1p112))
	vRebias32      = splat32(math.Float32bits(0x1p-112))
)

func splat32(x uint32) (v [8]uint32) {
	for i := range v {
		v[i] = x
	}
	return v
}

func cst32(v *[8]uint32) archsimd.Int32x8 { return archsimd.LoadUint32x8(v).AsInt32x8() }

func widenF16SIMD(dst []float64, src []byte) {
	for i := 0; i < len(dst); i += 8 {
		h := archsimd.LoadUint16x8((*[8]uint16)(bytesAt(src, 2*i))).ExtendToUint32().AsInt32x8()
		a := h.And(cst32(&vHalfMagnitude))
		f := a.ShiftAllLeft(13).AsFloat32x8().Mul(cst32(&vUnbias32).AsFloat32x8()).AsInt32x8()
		f = f.Or(a.Greater(cst32(&vHalfExponent)).ToInt32x8().And(cst32(&vInf32)))
		x := f.Or(h.And(cst32(&vHalfSign)).ShiftAllLeft(16)).AsFloat32x8()
		x.GetLo().ConvertToFloat64().Store(at(dst, i))
		x.GetHi().ConvertToFloat64().Store(at(dst, i+4))
	}
	archsimd.ClearAVXUpperBits()
}

func narrow32SIMD(dst []byte, src []float64) {
	for i := 0; i < len(src); i += 4 {
		load(src, i).ConvertToFloat32().Store((*[4]float32)(bytesAt(dst, 4*i)))
	}
	archsimd.ClearAVXUpperBits()
}

func round32SIMD(v []float64) {
	for i := 0; i < len(v); i += 4 {
		load(v, i).ConvertToFloat32().ConvertToFloat64().Store(at(v, i))
	}
	archsimd.ClearAVXUpperBits()
}

// rounder rounds magnitudes to a format. Adding and subtracting a number whose
// ULP is the spacing of the format's grid rounds to that grid, ties to even;
// the number is made of the magnitude's power of two, at least that of the
// smallest normal number.
type rounder struct{ top, least, factor vector }

func newRounder(mant, emin int, top float64) rounder {
	return rounder{splat(top), splat(math.Ldexp(1, emin)), splat(math.Ldexp(1.5, 52-mant))}
}

// round rounds magnitudes up to r.top; larger ones become r.top.
func (r *rounder) round(a archsimd.Float64x4) archsimd.Float64x4 {
	a = a.Min(cst(&r.top))
	m := a.AsInt64x4().And(cst(&vExponentMask).AsInt64x4()).AsFloat64x4().Max(cst(&r.least)).Mul(cst(&r.factor))
	return a.Add(m).Sub(m)
}

func roundSIMD(v []float64, f Format, one func(x float64) float64) {
	r := newRounder(f.Mant, f.Emin, 4*f.Max)
	top, over := splat(f.Max), splat(f.Overflow)
	for i := 0; i < len(v); i += 4 {
		x := load(v, i)
		y := r.round(abs(x))
		y = cst(&over).Merge(y, y.Greater(cst(&top)))
		store(at(v, i), signed(y, x), x, x.Equal(x), one)
	}
	archsimd.ClearAVXUpperBits()
}

// The formats that narrow; the largest magnitude let through is the one whose
// pattern is that of Inf.
var (
	bf16Rounder = newRounder(7, -126, 0x1p128)
	f16Rounder  = newRounder(10, -14, 0x1p16)
)

func narrowBF16SIMD(dst []byte, src []float64) {
	for i := 0; i < len(src); i += 8 {
		x, y := load(src, i), load(src, i+4)
		if x.Equal(x).And(y.Equal(y)).ToBits() != 0xf {
			narrowEach(dst[2*i:2*i+16], src[i:i+8], ToBF16)
			continue
		}
		// 2^128 is Inf in float32.
		u := signed(bf16Rounder.round(abs(x)), x).ConvertToFloat32()
		v := signed(bf16Rounder.round(abs(y)), y).ConvertToFloat32()
		// Sign-extended patterns below 2^15 and above -2^15 do not saturate.
		u.AsInt32x4().ShiftAllRight(16).SaturateToInt16Concat(v.AsInt32x4().ShiftAllRight(16)).Store(
			(*[8]int16)(bytesAt(dst, 2*i)))
	}
	archsimd.ClearAVXUpperBits()
}

func narrowF16SIMD(dst []byte, src []float64) {
	for i := 0; i < len(src); i += 8 {
		x, y := load(src, i), load(src, i+4)
		if x.Equal(x).And(y.Equal(y)).ToBits() != 0xf {
			narrowEach(dst[2*i:2*i+16], src[i:i+8], ToF16)
			continue
		}
		// The inverse of FromF16: the sign goes from bit 31 to bit 18 and is
		// extended from there.
		rebias := cst32(&vRebias32).AsFloat32x8().GetLo()
		u := f16Rounder.round(abs(x)).ConvertToFloat32().Mul(rebias).AsInt32x4().ShiftAllRight(13)
		v := f16Rounder.round(abs(y)).ConvertToFloat32().Mul(rebias).AsInt32x4().ShiftAllRight(13)
		su, sv := signOf(x).AsFloat64x4().ConvertToFloat32().AsInt32x4().ShiftAllRight(16),
			signOf(y).AsFloat64x4().ConvertToFloat32().AsInt32x4().ShiftAllRight(16)
		u.Or(su).SaturateToInt16Concat(v.Or(sv)).Store((*[8]int16)(bytesAt(dst, 2*i)))
	}
	archsimd.ClearAVXUpperBits()
}

//go:noinline
func narrowEach(dst []byte, src []float64, f func(float64) uint16) {
	archsimd.ClearAVXUpperBits()
	for i, x := range src {
		le.PutUint16(dst[2*i:], f(x))
	}
}
