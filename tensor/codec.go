package tensor

import (
	"encoding/binary"
	"math"

	"github.com/optool/optool/internal/num/vmath"
)

// A codec converts blocks of stored little-endian elements to and from the
// compute types. step is the distance between source elements, in elements;
// 0 repeats one element. Whole blocks are converted because a call per element
// costs several times the conversion. Elements are stored from the compute type
// of their own category.
type codec struct {
	loadFloat    func(dst []float64, src []byte, step int)
	loadInt      func(dst []int64, src []byte, step int)
	loadComplex  func(dst []complex128, src []byte, step int)
	storeFloat   func(dst []byte, src []float64)
	storeInt     func(dst []byte, src []int64)
	storeComplex func(dst []byte, src []complex128)
}

var le = binary.LittleEndian

// fill stores x everywhere, most of it by copies of what is stored already.
func fill[T any](dst []T, x T) {
	n := min(len(dst), 64)
	for i := range dst[:n] {
		dst[i] = x
	}
	for n < len(dst) {
		n += copy(dst[n:], dst[:min(n, 512)])
	}
}

// floatCodec builds the codec of a real floating dtype of the given byte size
// from its scalar conversions; the common dtypes get loops of their own.
func floatCodec(size int, get func([]byte) float64, put func([]byte, float64)) codec {
	return codec{
		loadFloat: func(dst []float64, src []byte, step int) {
			if step == 0 {
				fill(dst, get(src))
				return
			}
			step *= size
			for i, p := 0, 0; i < len(dst); i, p = i+1, p+step {
				dst[i] = get(src[p:])
			}
		},
		loadInt: func(dst []int64, src []byte, step int) {
			step *= size
			for i, p := 0, 0; i < len(dst); i, p = i+1, p+step {
				dst[i] = FloatToInt(get(src[p:]))
			}
		},
		loadComplex: func(dst []complex128, src []byte, step int) {
			step *= size
			for i, p := 0, 0; i < len(dst); i, p = i+1, p+step {
				dst[i] = complex(get(src[p:]), 0)
			}
		},
		storeFloat: func(dst []byte, src []float64) {
			for i, v := range src {
				put(dst[i*size:], v)
			}
		},
	}
}

func complexCodec(part int, get func([]byte) float64, put func([]byte, float64)) codec {
	size := 2 * part
	return codec{
		loadFloat: func(dst []float64, src []byte, step int) {
			step *= size
			for i, p := 0, 0; i < len(dst); i, p = i+1, p+step {
				dst[i] = get(src[p:])
			}
		},
		loadInt: func(dst []int64, src []byte, step int) {
			step *= size
			for i, p := 0, 0; i < len(dst); i, p = i+1, p+step {
				dst[i] = FloatToInt(get(src[p:]))
			}
		},
		loadComplex: func(dst []complex128, src []byte, step int) {
			step *= size
			for i, p := 0, 0; i < len(dst); i, p = i+1, p+step {
				dst[i] = complex(get(src[p:]), get(src[p+part:]))
			}
		},
		storeComplex: func(dst []byte, src []complex128) {
			for i, v := range src {
				put(dst[i*size:], real(v))
				put(dst[i*size+part:], imag(v))
			}
		},
	}
}

func intCodec(get func(src []byte, i int) int64, put func(dst []byte, i int, v int64)) codec {
	return codec{
		loadFloat: func(dst []float64, src []byte, step int) {
			for i, p := 0, 0; i < len(dst); i, p = i+1, p+step {
				dst[i] = float64(get(src, p))
			}
		},
		loadInt: func(dst []int64, src []byte, step int) {
			for i, p := 0, 0; i < len(dst); i, p = i+1, p+step {
				dst[i] = get(src, p)
			}
		},
		loadComplex: func(dst []complex128, src []byte, step int) {
			for i, p := 0, 0; i < len(dst); i, p = i+1, p+step {
				dst[i] = complex(float64(get(src, p)), 0)
			}
		},
		storeInt: func(dst []byte, src []int64) {
			for i, v := range src {
				put(dst, i, v)
			}
		},
	}
}

// wideIntCodec is intCodec with a loop for runs without gaps of elements of the
// given size: the dtypes that indices and masks have.
func wideIntCodec(size int, get func(src []byte, i int) int64, put func(dst []byte, i int, v int64),
	widen func(dst []int64, src []byte)) codec {
	c := intCodec(get, put)
	apart := c.loadInt
	c.loadInt = func(dst []int64, src []byte, step int) {
		if step == 1 {
			widen(dst, src[:size*len(dst)])
			return
		}
		apart(dst, src, step)
	}
	return c
}

func widenBool(dst []int64, src []byte) {
	for i, b := range src[:len(dst)] {
		n := int64(0)
		if b != 0 {
			n = 1
		}
		dst[i] = n
	}
}

func widenI64(dst []int64, src []byte) {
	for i := range dst {
		dst[i] = int64(le.Uint64(src[8*i : 8*i+8]))
	}
}

func widenI32(dst []int64, src []byte) {
	for i := range dst {
		dst[i] = int64(int32(le.Uint32(src[4*i : 4*i+4])))
	}
}

// uint64Codec is intCodec for uint64, whose elements travel as two's
// complement int64 bits but widen to float64 as unsigned numbers.
func uint64Codec() codec {
	c := intCodec(getI64, putU64)
	c.loadFloat = func(dst []float64, src []byte, step int) {
		for i, p := 0, 0; i < len(dst); i, p = i+1, p+step {
			dst[i] = float64(le.Uint64(src[8*p:]))
		}
	}
	c.loadComplex = func(dst []complex128, src []byte, step int) {
		for i, p := 0, 0; i < len(dst); i, p = i+1, p+step {
			dst[i] = complex(float64(le.Uint64(src[8*p:])), 0)
		}
	}
	return c
}

// The dtypes that bulk data has get loops of their own.

// blockCodec is floatCodec with loops for runs without gaps: widen and narrow
// convert whole blocks.
func blockCodec(size int, get func([]byte) float64, put func([]byte, float64), widen func(dst []float64, src []byte),
	narrow func(dst []byte, src []float64)) codec {
	c := floatCodec(size, get, put)
	apart := c.loadFloat
	c.loadFloat = func(dst []float64, src []byte, step int) {
		if step == 1 {
			widen(dst, src[:size*len(dst)])
			return
		}
		apart(dst, src, step)
	}
	c.storeFloat = narrow
	return c
}

func float32Codec() codec {
	return blockCodec(4, getF32, putF32, vmath.Widen32, vmath.Narrow32)
}

func bfloat16Codec() codec {
	return blockCodec(2, getBF16, putBF16, vmath.WidenBF16, vmath.NarrowBF16)
}

func float16Codec() codec {
	return blockCodec(2, getF16, putF16, vmath.WidenF16, vmath.NarrowF16)
}

func float64Codec() codec {
	c := floatCodec(8, getF64, putF64)
	c.loadFloat = func(dst []float64, src []byte, step int) {
		if step == 1 {
			src = src[:8*len(dst)]
			for i := range dst {
				dst[i] = math.Float64frombits(le.Uint64(src[8*i : 8*i+8]))
			}
			return
		}
		for i, p := 0, 0; i < len(dst); i, p = i+1, p+8*step {
			dst[i] = math.Float64frombits(le.Uint64(src[p:]))
		}
	}
	return c
}

// Number is the number that the bits of one element stand for; NaN of a dtype with more bits than a word has, and of
// one that is not computed with.
func (d DType) Number(bits uint64) float64 {
	switch d {
	case Float64:
		return math.Float64frombits(bits)
	case Float32:
		return float64(math.Float32frombits(uint32(bits)))
	case BFloat16:
		return float64(math.Float32frombits(uint32(bits) << 16))
	case Float16:
		return vmath.FromF16(uint16(bits))
	}
	raw := le.AppendUint64(nil, bits)
	t, err := NewView(NewStorage(raw[:min(d.Size(), len(raw))]), View{DType: d})
	if err != nil {
		return math.NaN()
	}
	return t.Item()
}

// FloatToInt converts as torch does on x86-64: truncation towards zero; NaN
// and values outside int64 become the smallest int64.
func FloatToInt(x float64) int64 {
	if x >= -0x1p63 && x < 0x1p63 {
		return int64(x)
	}
	return math.MinInt64
}

// IntToFloat widens v so that one later rounding to any float format of at
// most 51 mantissa bits is correct: magnitudes of 2^53 or more that float64 does
// not hold are rounded to odd, which a second rounding cannot mistake for a tie.
func IntToFloat(v int64) float64 {
	f := float64(v)
	if v > -1<<53 && v < 1<<53 || f >= 0x1p63 || int64(f) == v {
		return f
	}
	b := math.Float64bits(f)
	if b&1 == 1 {
		return f
	}
	if (int64(f) < v) == (f > 0) {
		b++ // away from zero, towards v
	} else {
		b--
	}
	return math.Float64frombits(b)
}

// round rounds x to the format, ties to even, once.
func (f *floatFormat) round(x float64) float64 {
	if f.scale {
		return f.roundScale(x)
	}
	if f.mant == 52 || x == 0 || x != x {
		if x == 0 && !f.negZero && f.mant != 52 {
			return 0
		}
		return x
	}
	b := math.Float64bits(x)
	a := b &^ (1 << 63)
	var r float64
	if int(a>>52)-1023 >= f.emin {
		shift := uint(52 - f.mant)
		a += 1<<(shift-1) - 1 + a>>shift&1
		a &^= 1<<shift - 1
		r = math.Float64frombits(a)
	} else {
		// Below the normals the grid is uniform: adding and subtracting a
		// number whose ULP is that grid's spacing rounds to it, ties to even.
		magic := math.Ldexp(1.5, 52+f.emin-f.mant)
		r = math.Float64frombits(a) + magic - magic
	}
	if r > f.max || math.IsInf(x, 0) {
		r = f.overflow
	}
	if r == 0 && !f.negZero {
		return 0
	}
	return math.Copysign(r, x)
}

// roundScale is round for powers of two, as torch does it: the magnitude, in float32, is
// rounded up from the middle between two of them, and below the normal numbers of float32
// always.
func (f *floatFormat) roundScale(x float64) float64 {
	x = math.Abs(float64(float32(x)))
	lowest := math.Ldexp(1, f.emin)
	switch {
	case !(x <= math.MaxFloat32):
		return f.overflow
	case x <= lowest:
		return lowest
	case x < 2*lowest:
		return 2 * lowest
	}
	frac, exp := math.Frexp(x) // x = frac * 2^exp, frac in [0.5, 1)
	if frac < 0.75 {
		exp--
	}
	if r := math.Ldexp(1, exp); r <= f.max {
		return r
	}
	return f.overflow
}

func getBool(b []byte, i int) int64 {
	if b[i] != 0 {
		return 1
	}
	return 0
}
func getU8(b []byte, i int) int64  { return int64(b[i]) }
func getI8(b []byte, i int) int64  { return int64(int8(b[i])) }
func getU16(b []byte, i int) int64 { return int64(le.Uint16(b[2*i:])) }
func getI16(b []byte, i int) int64 { return int64(int16(le.Uint16(b[2*i:]))) }
func getU32(b []byte, i int) int64 { return int64(le.Uint32(b[4*i:])) }
func getI32(b []byte, i int) int64 { return int64(int32(le.Uint32(b[4*i:]))) }
func getI64(b []byte, i int) int64 { return int64(le.Uint64(b[8*i:])) }

func putBool(b []byte, i int, v int64) {
	b[i] = 0
	if v != 0 {
		b[i] = 1
	}
}
func putU8(b []byte, i int, v int64)  { b[i] = byte(v) }
func putU16(b []byte, i int, v int64) { le.PutUint16(b[2*i:], uint16(v)) }
func putU32(b []byte, i int, v int64) { le.PutUint32(b[4*i:], uint32(v)) }
func putU64(b []byte, i int, v int64) { le.PutUint64(b[8*i:], uint64(v)) }

func getF64(b []byte) float64    { return math.Float64frombits(le.Uint64(b)) }
func putF64(b []byte, v float64) { le.PutUint64(b, math.Float64bits(v)) }
func getF32(b []byte) float64    { return float64(math.Float32frombits(le.Uint32(b))) }
func putF32(b []byte, v float64) { le.PutUint32(b, math.Float32bits(float32(v))) }
func getBF16(b []byte) float64 {
	return float64(math.Float32frombits(uint32(le.Uint16(b)) << 16))
}
func putBF16(b []byte, v float64) { le.PutUint16(b, vmath.ToBF16(v)) }

func getF16(b []byte) float64    { return vmath.FromF16(le.Uint16(b)) }
func putF16(b []byte, v float64) { le.PutUint16(b, vmath.ToF16(v)) }

// decode gives the value of a code of the small format: sign, exponent and
// mantissa fields with the format's bias; specials are the caller's.
func (f *floatFormat) decode(code uint, width int) float64 {
	expBits := width - 1 - f.mant
	m := code & (1<<f.mant - 1)
	e := int(code >> f.mant & (1<<expBits - 1))
	v := math.Ldexp(float64(m), f.emin-f.mant)
	if e > 0 {
		v = math.Ldexp(float64(m|1<<f.mant), e-1+f.emin-f.mant)
	}
	if code>>(width-1)&1 == 1 {
		v = -v
	}
	return v
}

// encode is decode's inverse for a finite value already on the format's grid.
func (f *floatFormat) encode(v float64, width int) uint {
	var sign uint
	if math.Signbit(v) {
		sign, v = 1<<(width-1), -v
	}
	if v < math.Ldexp(1, f.emin) {
		return sign | uint(math.Ldexp(v, f.mant-f.emin))
	}
	b := math.Float64bits(v)
	e := int(b>>52) - 1023 - f.emin + 1
	return sign | uint(e)<<f.mant | uint(b>>(52-f.mant))&(1<<f.mant-1)
}

func getE4M3FN(b []byte) float64 {
	if b[0]&0x7f == 0x7f {
		return math.NaN()
	}
	return formatE4M3FN.decode(uint(b[0]), 8)
}

func putE4M3FN(b []byte, v float64) {
	r := formatE4M3FN.round(v)
	if r != r {
		b[0] = 0x7f | byte(math.Float64bits(v)>>63)<<7
		return
	}
	b[0] = byte(formatE4M3FN.encode(r, 8))
}

func getE5M2(b []byte) float64 {
	if b[0]>>2&31 == 31 {
		if b[0]&3 != 0 {
			return math.NaN()
		}
		return math.Inf(1 - int(b[0]>>7)*2)
	}
	return formatE5M2.decode(uint(b[0]), 8)
}

func putE5M2(b []byte, v float64) {
	r := formatE5M2.round(v)
	sign := byte(math.Float64bits(v)>>63) << 7
	switch {
	case r != r:
		b[0] = 0x7e | sign
	case math.IsInf(r, 0):
		b[0] = 0x7c | sign
	default:
		b[0] = byte(formatE5M2.encode(r, 8))
	}
}

func getE4M3FNUZ(b []byte) float64 { return getFNUZ(&formatE4M3FNUZ, b[0]) }
func putE4M3FNUZ(b []byte, v float64) {
	b[0] = putFNUZ(&formatE4M3FNUZ, v)
}
func getE5M2FNUZ(b []byte) float64 { return getFNUZ(&formatE5M2FNUZ, b[0]) }
func putE5M2FNUZ(b []byte, v float64) {
	b[0] = putFNUZ(&formatE5M2FNUZ, v)
}

// The FNUZ formats have no infinities and one NaN, where -0 would be.
func getFNUZ(f *floatFormat, code byte) float64 {
	if code == 0x80 {
		return math.NaN()
	}
	return f.decode(uint(code), 8)
}

func putFNUZ(f *floatFormat, v float64) byte {
	r := f.round(v)
	if r != r {
		return 0x80
	}
	return byte(f.encode(r, 8))
}

func getE8M0FNU(b []byte) float64 {
	if b[0] == 0xff {
		return math.NaN()
	}
	return math.Ldexp(1, int(b[0])+formatE8M0FNU.emin)
}

func putE8M0FNU(b []byte, v float64) {
	r := formatE8M0FNU.round(v)
	if r != r {
		b[0] = 0xff
		return
	}
	b[0] = byte(math.Ilogb(r) - formatE8M0FNU.emin)
}
