// Package vec holds the hot loops of comparison: one pass over two blocks of
// the same dtype that yields op_tools' numbers (largest absolute and relative
// difference, allclose, the sums of the cosine), the largest distance in units
// in the last place and the NaN and Inf tallies.
//
// Every loop exists twice: in pure Go (scalar.go), which defines the result,
// and with 256-bit vectors (simd_amd64.go, built with GOEXPERIMENT=simd, used
// where the CPU has AVX2 and FMA). Both give the same maxima and counts; the
// sums differ by float32 rounding of partial sums, below 1e-6 of their value.
//
// It is the one place in compare that uses unsafe: View reinterprets aligned
// little-endian bytes as elements.
package vec

import (
	"bytes"
	"math"
	"unsafe"

	"github.com/optool/optool/internal/num/vmath"
)

// Stats is what one pass over a block tells. a is the first side (device), b
// the second (host). The zero value is the result of an empty block.
type Stats struct {
	N        int
	MaxAbs   float64 // max |a-b|, NaN if any is NaN
	MaxRel   float64 // max |a-b| / (|a| + eps), NaN if any is NaN
	NotClose int     // elements outside atol + rtol*|b|

	// Sums over the elements as float32: a*b, a*a, b*b. A NaN or infinite
	// element makes Dot NaN.
	Dot, AA, BB float64

	MaxULP     uint64 // largest distance in representable values, over pairs without NaN
	Unlike     int    // pairs of which exactly one is NaN
	NaNA, NaNB int
	InfA, InfB int
	NonZero    bool // some element of either side is not zero
}

// Equal reports whether all pairs were equal values: NaN equals NaN, -0
// equals 0.
func (s *Stats) Equal() bool { return s.MaxULP == 0 && s.Unlike == 0 }

// Add merges t, the statistics of further elements, into s.
func (s *Stats) Add(t *Stats) {
	if t.N == 0 {
		return
	}
	if s.N == 0 {
		*s = *t
		return
	}
	s.N += t.N
	s.MaxAbs = maxNaN(s.MaxAbs, t.MaxAbs)
	s.MaxRel = maxNaN(s.MaxRel, t.MaxRel)
	s.NotClose += t.NotClose
	s.Dot += t.Dot
	s.AA += t.AA
	s.BB += t.BB
	s.MaxULP = max(s.MaxULP, t.MaxULP)
	s.Unlike += t.Unlike
	s.NaNA += t.NaNA
	s.NaNB += t.NaNB
	s.InfA += t.InfA
	s.InfB += t.InfB
	s.NonZero = s.NonZero || t.NonZero
}

// maxNaN is the larger number; NaN wins over everything.
func maxNaN(a, b float64) float64 {
	if b > a || b != b {
		return b
	}
	return a
}

// A Grid is a 16- or 32-bit floating format whose arithmetic is float32
// arithmetic rounded to the format after each step, as torch does on a CPU.
type Grid uint8

// The formats.
const (
	Float32Grid Grid = iota
	BFloat16Grid
	Float16Grid
)

// Rule holds the constants of op_tools' formulas. The kernels round them to
// the dtype they work in.
type Rule struct{ Atol, Rtol, Eps float64 }

// Float32 compares blocks of float32.
func Float32(a, b []float32, r Rule) Stats {
	c := newConsts(r, Float32Grid)
	if useSIMD {
		return float32SIMD(a, b, &c)
	}
	return scalar32(a, b, &c)
}

// BFloat16 compares blocks of bfloat16 bit patterns.
func BFloat16(a, b []uint16, r Rule) Stats { return half(a, b, r, BFloat16Grid) }

// Float16 compares blocks of float16 bit patterns.
func Float16(a, b []uint16, r Rule) Stats { return half(a, b, r, Float16Grid) }

func half(a, b []uint16, r Rule, g Grid) Stats {
	c := newConsts(r, g)
	if useSIMD {
		return halfSIMD(a, b, &c)
	}
	return scalar16(a, b, &c)
}

// Float64 compares blocks of float64.
func Float64(a, b []float64, r Rule) Stats {
	if useSIMD {
		return float64SIMD(a, b, r)
	}
	return scalar64(a, b, r)
}

// Element is the set of types View reinterprets bytes as.
type Element interface{ uint16 | float32 | float64 }

// Identical reports whether a and b, of one length, have the same bit patterns.
func Identical[T Element](a, b []T) bool { return bytes.Equal(memory(a), memory(b)) }

// memory is what v's elements are in memory.
func memory[T Element](v []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(*new(T))))
}

// View returns the elements that b holds in little-endian order without
// copying, or false where the machine cannot read them in place: b is not
// aligned, or the machine is big-endian.
func View[T Element](b []byte) ([]T, bool) {
	var zero T
	size := int(unsafe.Sizeof(zero))
	if len(b) < size {
		return nil, len(b) == 0
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if !littleEndian || uintptr(p)%uintptr(size) != 0 {
		return nil, false
	}
	return unsafe.Slice((*T)(p), len(b)/size), true
}

var littleEndian = func() bool {
	x := uint16(1)
	return *(*byte)(unsafe.Pointer(&x)) == 1
}()

// RoundFloat32 stores src rounded once to float32.
func RoundFloat32(dst []float32, src []float64) {
	if littleEndian {
		vmath.Narrow32(bytesOf(dst[:len(src)]), src)
		return
	}
	for i, x := range src {
		dst[i] = float32(x)
	}
}

// RoundBFloat16 stores the bit patterns of src rounded once to bfloat16.
func RoundBFloat16(dst []uint16, src []float64) {
	if littleEndian {
		vmath.NarrowBF16(bytesOf(dst[:len(src)]), src)
		return
	}
	for i, x := range src {
		dst[i] = vmath.ToBF16(x)
	}
}

// RoundFloat16 stores the bit patterns of src rounded once to float16.
func RoundFloat16(dst []uint16, src []float64) {
	if littleEndian {
		vmath.NarrowF16(bytesOf(dst[:len(src)]), src)
		return
	}
	for i, x := range src {
		dst[i] = vmath.ToF16(x)
	}
}

// WidenBFloat16 stores bfloat16 bit patterns as the float32 they are.
func WidenBFloat16(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	n := 0
	if useSIMD {
		n = len(src) &^ 7
		widenBF16SIMD(dst[:n], src[:n])
	}
	for i := n; i < len(src); i++ {
		dst[i] = math.Float32frombits(uint32(src[i]) << 16)
	}
}

// WidenFloat16 stores float16 bit patterns as the float32 they are.
func WidenFloat16(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	n := 0
	if useSIMD {
		n = len(src) &^ 7
		widenF16SIMD(dst[:n], src[:n])
	}
	for i := n; i < len(src); i++ {
		dst[i] = float32(vmath.FromF16(src[i]))
	}
}

// bytesOf are the bytes of v where it lies.
func bytesOf[T Element](v []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(zero)))
}

// consts are a Rule rounded to a grid, as float32.
type consts struct {
	atol, rtol, eps float32
	grid            Grid
}

func newConsts(r Rule, g Grid) consts {
	f := func(x float64) float32 { return roundTo(float32(x), g) }
	if g == Float32Grid {
		return consts{float32(r.Atol), float32(r.Rtol), float32(r.Eps), g}
	}
	return consts{f(r.Atol), f(r.Rtol), f(r.Eps), g}
}

// roundTo rounds a float32 to the grid, ties to even.
func roundTo(x float32, g Grid) float32 {
	b := math.Float32bits(x)
	switch g {
	case BFloat16Grid:
		if x != x {
			return x
		}
		return math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff)
	case Float16Grid:
		sign, mag := b&(1<<31), b&^(1<<31)
		switch {
		case mag < 113<<23: // below 2^-14 the grid is uniform, 2^-24 apart
			return math.Float32frombits(math.Float32bits(math.Float32frombits(mag)+0.5-0.5) | sign)
		case x != x:
			return x
		}
		mag = (mag + 0xfff + mag>>13&1) &^ 0x1fff
		if mag >= 143<<23 { // 2^16
			mag = 0x7f800000
		}
		return math.Float32frombits(mag | sign)
	}
	return x
}
