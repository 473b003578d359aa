package vmath

import (
	"encoding/binary"
	"math"
)

// The conversions read and write elements in little-endian order; dst and src
// hold equally many elements. Widening is exact. Narrowing rounds once, ties to
// even; magnitudes that round beyond the largest finite value become infinite,
// and a NaN keeps its sign.

var le = binary.LittleEndian

// Widen32 stores float32 elements as float64.
func Widen32(dst []float64, src []byte) {
	n := 0
	if useSIMD {
		n = len(dst) &^ 3
		widen32SIMD(dst[:n], src[:4*n])
	}
	for i := n; i < len(dst); i++ {
		dst[i] = float64(math.Float32frombits(le.Uint32(src[4*i : 4*i+4])))
	}
}

// WidenBF16 stores bfloat16 elements as float64.
func WidenBF16(dst []float64, src []byte) {
	n := 0
	if useSIMD {
		n = len(dst) &^ 7
		widenBF16SIMD(dst[:n], src[:2*n])
	}
	for i := n; i < len(dst); i++ {
		dst[i] = float64(math.Float32frombits(uint32(le.Uint16(src[2*i:2*i+2])) << 16))
	}
}

// WidenF16 stores float16 elements as float64.
func WidenF16(dst []float64, src []byte) {
	n := 0
	if useSIMD {
		n = len(dst) &^ 7
		widenF16SIMD(dst[:n], src[:2*n])
	}
	for i := n; i < len(dst); i++ {
		dst[i] = FromF16(le.Uint16(src[2*i : 2*i+2]))
	}
}

// An Exponent is where the exponents of elements lie in eight bytes of them: its bits, and the lowest of each.
type Exponent struct{ bits, lowest uint64 }

// The formats that Finite knows.
var (
	ExponentBF16 = Exponent{0x7f80_7f80_7f80_7f80, 0x0080_0080_0080_0080}
	ExponentF16  = Exponent{0x7c00_7c00_7c00_7c00, 0x0400_0400_0400_0400}
	Exponent32   = Exponent{0x7f80_0000_7f80_0000, 0x0080_0000_0080_0000}
	Exponent64   = Exponent{0x7ff0_0000_0000_0000, 0x0010_0000_0000_0000}
)

// Finite reports whether no exponent is all ones, as those of infinities and NaN are. One more then carries into the
// sign, and never beyond the element.
func Finite(src []byte, e Exponent) bool {
	signs := (e.bits + e.lowest) &^ e.bits
	n, all := len(src)&^31, uint64(0)
	if useSIMD {
		all = carriesSIMD(src[:n], e)
	} else {
		for i := 0; i < n; i += 32 {
			v := src[i : i+32]
			all |= (le.Uint64(v)&e.bits + e.lowest) | (le.Uint64(v[8:])&e.bits + e.lowest) |
				(le.Uint64(v[16:])&e.bits + e.lowest) | (le.Uint64(v[24:])&e.bits + e.lowest)
		}
	}
	var last [32]byte
	copy(last[:], src[n:])
	for i := 0; i < len(last); i += 8 {
		all |= le.Uint64(last[i:])&e.bits + e.lowest
	}
	return all&signs == 0
}

// FromF16 is the value of a float16 bit pattern. Placed in the fields of a
// float32 and scaled by 2^112, the difference of the biases, its exponent is
// right for normal and subnormal numbers alike.
func FromF16(h uint16) float64 {
	m := math.Float32bits(math.Float32frombits(uint32(h&0x7fff)<<13) * 0x1p112)
	if h&0x7c00 == 0x7c00 {
		m |= 0x7f800000
	}
	return float64(math.Float32frombits(m | uint32(h>>15)<<31))
}

// Narrow32 stores src as float32 elements.
func Narrow32(dst []byte, src []float64) {
	n := 0
	if useSIMD {
		n = len(src) &^ 3
		narrow32SIMD(dst[:4*n], src[:n])
	}
	for i := n; i < len(src); i++ {
		le.PutUint32(dst[4*i:4*i+4], math.Float32bits(float32(src[i])))
	}
}

// NarrowBF16 stores src as bfloat16 elements.
func NarrowBF16(dst []byte, src []float64) {
	n := 0
	if useSIMD {
		n = len(src) &^ 7
		narrowBF16SIMD(dst[:2*n], src[:n])
	}
	for i := n; i < len(src); i++ {
		le.PutUint16(dst[2*i:2*i+2], ToBF16(src[i]))
	}
}

// ToBF16 is the bfloat16 bit pattern of x rounded. Going through float32 is
// safe except where the float32 lies exactly between two bfloat16 values but x
// does not.
func ToBF16(x float64) uint16 {
	f := float32(x)
	b := math.Float32bits(f)
	switch {
	case f != f:
		return uint16(b >> 16)
	case b&0xffff == 0x8000 && float64(f) != x:
		if math.Abs(x) > math.Abs(float64(f)) {
			b += 0x8000
		}
		return uint16(b >> 16)
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// NarrowF16 stores src as float16 elements.
func NarrowF16(dst []byte, src []float64) {
	n := 0
	if useSIMD {
		n = len(src) &^ 7
		narrowF16SIMD(dst[:2*n], src[:n])
	}
	for i := n; i < len(src); i++ {
		le.PutUint16(dst[2*i:2*i+2], ToF16(src[i]))
	}
}

// ToF16 is the float16 bit pattern of x rounded; a NaN is the default one.
func ToF16(x float64) uint16 {
	b := math.Float64bits(x)
	sign, mag := uint16(b>>63)<<15, b&^(1<<63)
	switch {
	case x != x:
		return sign | 0x7e00
	case mag >= 0x40effe0000000000: // 65520, halfway to 2^16
		return sign | 0x7c00
	case mag < 0x3f10000000000000: // 2^-14: the grid is uniform, 2^-24 apart
		const unit = 0x1p28 // its ULP is 2^-24
		r := math.Float64frombits(mag) + unit - unit
		return sign | uint16(r*0x1p24)
	}
	mag += 1<<41 - 1 + mag>>42&1
	return sign | uint16(mag>>42-(1023-15)<<10)
}

// Round32 rounds v in place to float32.
func Round32(v []float64) {
	n := 0
	if useSIMD {
		n = len(v) &^ 3
		round32SIMD(v[:n])
	}
	for i, x := range v[n:] {
		v[n+i] = float64(float32(x))
	}
}

// A Format describes a binary floating-point format narrower than float64 that
// has a negative zero.
type Format struct {
	Mant     int     // explicit mantissa bits
	Emin     int     // exponent of the smallest normal number
	Max      float64 // largest finite value
	Overflow float64 // what a magnitude beyond Max (after rounding) becomes
}

// Round rounds v in place to the grid of f. one does the same to one element:
// it is asked for the last elements, and where there is a NaN.
func Round(v []float64, f Format, one func(x float64) float64) {
	n := 0
	if useSIMD {
		n = len(v) &^ 3
		roundSIMD(v[:n], f, one)
	}
	for i, x := range v[n:] {
		v[n+i] = one(x)
	}
}
