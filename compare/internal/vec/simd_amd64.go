//go:build goexperiment.simd && amd64 && !go1.27

package vec

import (
	"math"
	"math/bits"
	"simd/archsimd"
	"slices"
	"unsafe"
)

var useSIMD = archsimd.X86.AVX2() && archsimd.X86.FMA()

// Vectors are compared in stretches: within a stretch of `fold` elements the sums are float32,
// then they are folded into float64; after `stretch` elements the accumulators are inspected. A
// stretch with NaN, Inf or a sum beyond float32 is done again without its large and special
// values. The pure Go loop handles these, so the vector loops need no test for them.
const (
	fold    = 256
	stretch = 8192

	// Loops that read a stretch twice do so by passes of this length, a multiple of
	// fold: the second reading finds them in the first-level cache.
	pass = 512
)

// lanes receives the accumulators of a stretch. They are stored as vectors and reduced only
// after the upper register halves are cleared. Scalar floating-point code is compiled to the
// legacy SSE encoding. While the upper halves are in use, each such instruction stalls for some
// hundred cycles.
type lanes struct {
	dot, aa, bb    [4]float64
	maxAbs, maxRel [8]float32
}

// fold adds float32 partial sums to the float64 sums. These stay in memory, to
// leave the registers to the inner loops.
func (l *lanes) fold(dot, aa, bb archsimd.Float32x8) {
	foldInto(&l.dot, dot)
	foldInto(&l.aa, aa)
	foldInto(&l.bb, bb)
}

func foldInto(sum *[4]float64, x archsimd.Float32x8) {
	archsimd.LoadFloat64x4(sum).Add(x.GetLo().ConvertToFloat64()).Add(x.GetHi().ConvertToFloat64()).Store(sum)
}

// stats begins the statistics of a stretch of n elements.
func (l *lanes) stats(n int) Stats {
	t := Stats{N: n, MaxAbs: float64(slices.Max(l.maxAbs[:])), MaxRel: float64(slices.Max(l.maxRel[:])),
		Dot: total(&l.dot), AA: total(&l.aa), BB: total(&l.bb)}
	t.NonZero = t.AA > 0 || t.BB > 0
	return t
}

func total(v *[4]float64) float64 { return (v[0] + v[1]) + (v[2] + v[3]) }

// ulp32 is the largest distance in representable values between two stretches
// in which signs may differ somewhere. Elsewhere the difference of the bit
// patterns is the distance, which the main loops take; that of finite numbers
// of different signs is at least 2^23.
func ulp32(p, q unsafe.Pointer, n int) uint64 {
	mag := archsimd.BroadcastInt32x8(math.MaxInt32)
	var m archsimd.Uint32x8
	for i := 0; i < n; i += 8 {
		x, y := archsimd.LoadInt32x8((*[8]int32)(unsafe.Add(p, 4*i))),
			archsimd.LoadInt32x8((*[8]int32)(unsafe.Add(q, 4*i)))
		sx, sy := x.ShiftAllRight(31), y.ShiftAllRight(31)
		x, y = x.And(mag).Xor(sx).Sub(sx), y.And(mag).Xor(sy).Sub(sy)
		m = m.Max(x.Max(y).Sub(x.Min(y)).AsUint32x8())
	}
	var v [8]uint32
	m.Store(&v)
	return uint64(slices.Max(v[:]))
}

// ulp16 is ulp32 for 16-bit patterns.
func ulp16(p, q unsafe.Pointer, n int) uint64 {
	mag := archsimd.BroadcastInt16x16(math.MaxInt16)
	var m archsimd.Uint16x16
	for i := 0; i < n; i += 16 {
		x, y := archsimd.LoadInt16x16((*[16]int16)(unsafe.Add(p, 2*i))),
			archsimd.LoadInt16x16((*[16]int16)(unsafe.Add(q, 2*i)))
		sx, sy := x.ShiftAllRight(15), y.ShiftAllRight(15)
		x, y = x.And(mag).Xor(sx).Sub(sx), y.And(mag).Xor(sy).Sub(sy)
		m = m.Max(x.Max(y).Sub(x.Min(y)).AsUint16x16())
	}
	var v [16]uint16
	m.Store(&v)
	return uint64(slices.Max(v[:]))
}

// signBit reports whether the sign bit of any lane is set.
func signBit(x archsimd.Int32x8) bool {
	var zero archsimd.Int32x8
	return zero.Greater(x).ToBits() != 0
}

func float32SIMD(a, b []float32, c *consts) Stats {
	var s Stats
	for len(a) >= 8 {
		n := min(len(a)&^7, stretch)
		t := c.same32(a[:n], b[:n])
		if t.N == 0 {
			t = float32Stretch(a[:n], b[:n], c)
		}
		if !(t.AA <= math.MaxFloat32 && t.BB <= math.MaxFloat32) {
			t = sorted[float32, uint32](a[:n], b[:n], (127+60)<<23, 255<<23, 8,
				func(x, y []float32) Stats { return float32Stretch(x, y, c) },
				func(x, y []float32) Stats { return scalar32(x, y, c) })
		}
		if t.AA == 0 && t.BB == 0 && !s.NonZero {
			// squares may underflow
			t.NonZero = slices.ContainsFunc(a[:n], notZero) || slices.ContainsFunc(b[:n], notZero)
		}
		s.Add(&t)
		a, b = a[n:], b[n:]
	}
	t := scalar32(a, b, c)
	s.Add(&t)
	return s
}

// sorted compares pairs with kernel if the patterns of both magnitudes are below limit. kernel
// gets a number of pairs that is a multiple of multiple. The other pairs go to special, except
// those with NaN, whose patterns are beyond inf.
func sorted[T float32 | float64, B uint32 | uint64](a, b []T, limit, inf B, multiple int,
	kernel, special func(a, b []T) Stats) (s Stats) {
	var usual, odd [2][pass]T
	nans, nansA, nansB := 0, 0, 0
	mag := ^B(0) >> 1
	for len(a) > 0 {
		x, y := a[:min(pass, len(a))], b[:min(pass, len(a))]
		px, py := patterns[B](x), patterns[B](y)
		u, o := 0, 0
		for i := 0; i < len(px); i++ {
			run := i
			for i < len(px) && max(px[i]&mag, py[i]&mag) < limit {
				i++
			}
			copy(usual[0][u:], x[run:i])
			u += copy(usual[1][u:], y[run:i])
			if i == len(px) {
				break
			}
			switch p, q := px[i]&mag, py[i]&mag; {
			case p == inf || q == inf || max(p, q) < inf:
				odd[0][o], odd[1][o] = x[i], y[i]
				o++
			default:
				nans++
				nansA += above(p, inf)
				nansB += above(q, inf)
			}
		}
		whole := u / multiple * multiple
		for _, part := range []Stats{kernel(usual[0][:whole], usual[1][:whole]),
			special(usual[0][whole:u], usual[1][whole:u]), special(odd[0][:o], odd[1][:o])} {
			s.Add(&part)
		}
		a, b = a[len(x):], b[len(x):]
	}
	t := withNaN(nans, nansA, nansB)
	s.Add(&t)
	return s
}

// withNaN are the statistics of n pairs with NaN, so many of them on either side.
func withNaN(n, a, b int) Stats {
	unlike := 2*n - a - b
	return Stats{N: n, MaxAbs: math.NaN(), MaxRel: math.NaN(), Dot: math.NaN(), NonZero: true,
		NotClose: unlike, Unlike: unlike, NaNA: a, NaNB: b}
}

// patterns are the bit patterns of v where it lies.
func patterns[B uint32 | uint64, T float32 | float64](v []T) []B {
	return unsafe.Slice((*B)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
}

func notZero[T float32 | float64](x T) bool { return x != 0 }

func notZero16(x uint16) bool { return x<<1 != 0 }

// sums32 adds up a pass, in a loop of its own: with the maxima it would want
// more than the sixteen registers.
//
//go:noinline
func (l *lanes) sums32(a, b []float32) {
	n := len(a)
	p, q := unsafe.Pointer(unsafe.SliceData(a)), unsafe.Pointer(unsafe.SliceData(b[:n]))
	for i := 0; i < n; {
		var dot, aa, bb, dot2, aa2, bb2 archsimd.Float32x8
		end := min(n, i+fold)
		for ; i+16 <= end; i += 16 {
			x := archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(p, 4*i)))
			y := archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(q, 4*i)))
			dot, aa, bb = x.MulAdd(y, dot), x.MulAdd(x, aa), y.MulAdd(y, bb)
			x = archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(p, 4*i+32)))
			y = archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(q, 4*i+32)))
			dot2, aa2, bb2 = x.MulAdd(y, dot2), x.MulAdd(x, aa2), y.MulAdd(y, bb2)
		}
		if i < end {
			x := archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(p, 4*i)))
			y := archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(q, 4*i)))
			dot, aa, bb = x.MulAdd(y, dot), x.MulAdd(x, aa), y.MulAdd(y, bb)
			i += 8
		}
		l.fold(dot.Add(dot2), aa.Add(aa2), bb.Add(bb2))
	}
	archsimd.ClearAVXUpperBits()
}

// closeToItself reports whether every finite number is close to itself: tolerances that are asked for can be anything.
func (c *consts) closeToItself() bool { return c.atol >= 0 && c.rtol >= 0 && c.rtol <= math.MaxFloat32 }

// same32 is float32Stretch of the same bits on both sides, whose sums are one; nothing of others. Its results for
// infinities and NaN are as useless as those of float32Stretch.
func (c *consts) same32(a, b []float32) Stats {
	if !c.closeToItself() || !Identical(a, b) {
		return Stats{}
	}
	var l lanes
	p, n := unsafe.Pointer(unsafe.SliceData(a)), len(a)
	for i := 0; i < n; {
		var aa, aa2 archsimd.Float32x8
		end := min(n, i+fold)
		for ; i+16 <= end; i += 16 {
			x := archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(p, 4*i)))
			y := archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(p, 4*i+32)))
			aa, aa2 = x.MulAdd(x, aa), y.MulAdd(y, aa2)
		}
		if i < end {
			x := archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(p, 4*i)))
			aa = x.MulAdd(x, aa)
			i += 8
		}
		foldInto(&l.aa, aa.Add(aa2))
	}
	archsimd.ClearAVXUpperBits()
	l.dot, l.bb = l.aa, l.aa
	return l.stats(n)
}

func float32Stretch(a, b []float32, c *consts) Stats {
	var l lanes
	mag := archsimd.BroadcastInt32x8(math.MaxInt32)
	atol, rtol, eps := archsimd.BroadcastFloat32x8(c.atol), archsimd.BroadcastFloat32x8(c.rtol),
		archsimd.BroadcastFloat32x8(c.eps)
	var maxAbs, maxRel archsimd.Float32x8
	var maxULP archsimd.Uint32x8
	var close archsimd.Int32x8
	n := len(a)
	p, q := unsafe.Pointer(unsafe.SliceData(a)), unsafe.Pointer(unsafe.SliceData(b[:n]))
	for i := 0; i < n; {
		end := min(n, i+pass)
		l.sums32(a[i:end], b[i:end])
		for ; i < end; i += 8 {
			x := archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(p, 4*i)))
			y := archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(q, 4*i)))
			maxULP = maxULP.Max(x.AsInt32x8().Sub(y.AsInt32x8()).Abs().AsUint32x8())
			d := x.Sub(y).AsInt32x8().And(mag).AsFloat32x8()
			maxAbs = maxAbs.Max(d)
			close = close.Sub(d.LessEqual(y.AsInt32x8().And(mag).AsFloat32x8().Mul(rtol).Add(atol)).ToInt32x8())
			maxRel = maxRel.Max(d.Div(x.AsInt32x8().And(mag).AsFloat32x8().Add(eps)))
		}
	}
	maxAbs.Store(&l.maxAbs)
	maxRel.Store(&l.maxRel)
	var ulp [8]uint32
	maxULP.Store(&ulp)
	var within [8]int32
	close.Store(&within)
	far := uint64(slices.Max(ulp[:]))
	if far >= 1<<23 {
		far = ulp32(p, q, n)
	}
	archsimd.ClearAVXUpperBits()
	t := l.stats(n)
	t.NotClose, t.MaxULP = n, far
	for _, k := range within {
		t.NotClose -= int(k)
	}
	return t
}

func halfSIMD(a, b []uint16, c *consts) Stats {
	limit, large := math.MaxFloat32, uint16(127+60)<<7
	inf := uint16(255) << 7
	kernel := bfloat16Stretch
	if c.grid == Float16Grid {
		// Below this sum no element is beyond 31623: none is Inf or NaN (whose
		// patterns widen to 65536 and more) and no difference overflows. Nor does
		// one of numbers below 2^15.
		limit, large, inf, kernel = 1e9, (15+15)<<10, 31<<10, float16Stretch
	}
	rounded := func(a, b []uint16) Stats {
		t := kernel(a, b, c)
		t.MaxRel = float64(roundTo(float32(t.MaxRel), c.grid))
		return t
	}
	var s Stats
	special := func(n int) bool { return max(peak16(a[:n]), peak16(b[:n])) >= large }
	for len(a) >= 16 {
		n := min(len(a)&^15, stretch)
		var t Stats
		known := special(min(n, fold)) // which spares the first of two readings
		if !known {
			t = rounded(a[:n], b[:n])
		}
		if known || !(t.AA <= limit && t.BB <= limit) && special(n) {
			t = masked(a[:n], b[:n], large, inf, rounded, func(a, b []uint16) Stats { return scalar16(a, b, c) })
		}
		if t.AA == 0 && t.BB == 0 && !s.NonZero {
			t.NonZero = slices.ContainsFunc(a[:n], notZero16) || slices.ContainsFunc(b[:n], notZero16)
		}
		s.Add(&t)
		a, b = a[n:], b[n:]
	}
	t := scalar16(a, b, c)
	s.Add(&t)
	return s
}

// masked compares a multiple of sixteen pairs with kernel. Zeros replace the pairs that have a
// magnitude whose pattern is at least limit. special compares these pairs, except those with
// NaN and no infinite magnitude, which are only counted.
func masked(a, b []uint16, limit, inf uint16, kernel, special func(a, b []uint16) Stats) (s Stats) {
	mag, below, infinite := archsimd.BroadcastInt16x16(math.MaxInt16), archsimd.BroadcastInt16x16(int16(limit)-1),
		archsimd.BroadcastInt16x16(int16(inf))
	var usual, odd [2][pass]uint16
	nans, nansA, nansB := 0, 0, 0
	for len(a) > 0 {
		x, y := a[:min(pass, len(a))], b[:min(pass, len(a))]
		p, q := unsafe.Pointer(unsafe.SliceData(x)), unsafe.Pointer(unsafe.SliceData(y))
		keptP, keptQ := unsafe.Pointer(&usual[0]), unsafe.Pointer(&usual[1])
		var zero, countA, countB, count archsimd.Int16x16
		o := 0
		for i := 0; i < len(x); i += 16 {
			u, v := archsimd.LoadInt16x16((*[16]int16)(unsafe.Add(p, 2*i))),
				archsimd.LoadInt16x16((*[16]int16)(unsafe.Add(q, 2*i)))
			mu, mv := u.And(mag), v.And(mag)
			m := mu.Max(mv)
			large := m.Greater(below).ToInt16x16()
			u.AndNot(large).Store((*[16]int16)(unsafe.Add(keptP, 2*i)))
			v.AndNot(large).Store((*[16]int16)(unsafe.Add(keptQ, 2*i)))
			nan := m.Greater(infinite).ToInt16x16().
				AndNot(mu.Equal(infinite).Or(mv.Equal(infinite)).ToInt16x16())
			count = count.Sub(nan)
			countA = countA.Sub(mu.Greater(infinite).ToInt16x16().And(nan))
			countB = countB.Sub(mv.Greater(infinite).ToInt16x16().And(nan))
			if large.AndNot(nan).AsInt32x8().Equal(zero.AsInt32x8()).ToBits() != 0xff {
				o = collect(&odd, o, x[i:i+16], y[i:i+16], limit, inf)
			}
		}
		n := total16(count)
		nans, nansA, nansB = nans+n, nansA+total16(countA), nansB+total16(countB)
		archsimd.ClearAVXUpperBits()
		t := kernel(usual[0][:len(x)], usual[1][:len(x)])
		t.N -= n + o
		s.Add(&t)
		t = special(odd[0][:o], odd[1][:o])
		s.Add(&t)
		a, b = a[len(x):], b[len(x):]
	}
	t := withNaN(nans, nansA, nansB)
	s.Add(&t)
	return s
}

// collect adds the pairs with a large or infinite magnitude, which without the latter
// have no NaN, to the o that odd has.
func collect(odd *[2][pass]uint16, o int, a, b []uint16, limit, inf uint16) int {
	for i, x := range a {
		y := b[i]
		p, q := x&math.MaxInt16, y&math.MaxInt16
		if p == inf || q == inf || max(p, q) >= limit && max(p, q) < inf {
			odd[0][o], odd[1][o] = x, y
			o++
		}
	}
	return o
}

// total16 adds up sixteen counts.
func total16(v archsimd.Int16x16) (n int) {
	var lanes [16]int16
	v.Store(&lanes)
	for _, k := range lanes {
		n += int(k)
	}
	return n
}

// peak16 is the largest pattern of a magnitude in a multiple of sixteen.
func peak16(v []uint16) uint16 {
	mag := archsimd.BroadcastUint16x16(math.MaxInt16)
	var m archsimd.Uint16x16
	p := unsafe.Pointer(unsafe.SliceData(v))
	for i := 0; i < len(v); i += 16 {
		m = m.Max(archsimd.LoadUint16x16((*[16]uint16)(unsafe.Add(p, 2*i))).And(mag))
	}
	var lanes [16]uint16
	m.Store(&lanes)
	archsimd.ClearAVXUpperBits()
	return slices.Max(lanes[:])
}

// load16 loads sixteen patterns as the eight pairs they form in memory.
func load16(p unsafe.Pointer, i int) archsimd.Uint32x8 {
	return archsimd.LoadUint32x8((*[8]uint32)(unsafe.Add(p, 2*i)))
}

// widenBF16SIMD is WidenBFloat16 of a multiple of eight elements.
func widenBF16SIMD(dst []float32, src []uint16) {
	p, q := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src))
	for i := 0; i < len(src); i += 8 {
		x := archsimd.LoadUint16x8((*[8]uint16)(unsafe.Add(q, 2*i))).ExtendToUint32().ShiftAllLeft(16)
		x.AsFloat32x8().Store((*[8]float32)(unsafe.Add(p, 4*i)))
	}
	archsimd.ClearAVXUpperBits()
}

// widenF16SIMD is WidenFloat16 of a multiple of eight elements: exponents are moved
// by a multiplication, which subnormal numbers survive; infinities and NaN keep
// their exponent of all ones.
func widenF16SIMD(dst []float32, src []uint16) {
	magnitude, sign := archsimd.BroadcastInt32x8(0x7fff), archsimd.BroadcastInt32x8(0x8000)
	finite, inf := archsimd.BroadcastInt32x8(0x7c00-1), archsimd.BroadcastInt32x8(0x7f800000)
	unbias := archsimd.BroadcastFloat32x8(0x1p112)
	p, q := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src))
	for i := 0; i < len(src); i += 8 {
		h := archsimd.LoadUint16x8((*[8]uint16)(unsafe.Add(q, 2*i))).ExtendToUint32().AsInt32x8()
		a := h.And(magnitude)
		f := a.ShiftAllLeft(13).AsFloat32x8().Mul(unbias).AsInt32x8()
		f = f.Or(a.Greater(finite).ToInt32x8().And(inf)).Or(h.And(sign).ShiftAllLeft(16))
		f.AsFloat32x8().Store((*[8]float32)(unsafe.Add(p, 4*i)))
	}
	archsimd.ClearAVXUpperBits()
}

// roundBF16 rounds non-negative float32 to bfloat16, ties to even. (The shift is
// the signed one: go1.26 compiles the unsigned shift by a constant into a move
// of the legacy SSE encoding, which stalls AVX code for some hundred cycles.)
func roundBF16(x archsimd.Float32x8, one, half, keep archsimd.Uint32x8) archsimd.Float32x8 {
	u := x.AsUint32x8()
	return u.Add(half).Add(x.AsInt32x8().ShiftAllRight(16).AsUint32x8().And(one)).And(keep).AsFloat32x8()
}

func bfloat16Stretch(a, b []uint16, c *consts) Stats {
	mag := archsimd.BroadcastInt32x8(math.MaxInt32)
	one, half, keep := archsimd.BroadcastUint32x8(1), archsimd.BroadcastUint32x8(0x7fff),
		archsimd.BroadcastUint32x8(0xffff0000)
	atol, rtol, eps := archsimd.BroadcastFloat32x8(c.atol), archsimd.BroadcastFloat32x8(c.rtol),
		archsimd.BroadcastFloat32x8(c.eps)
	var l lanes
	var maxAbs, maxRel archsimd.Float32x8
	var maxULP archsimd.Uint16x16
	var signs archsimd.Uint16x16
	n, close := len(a), 0
	p, q := unsafe.Pointer(unsafe.SliceData(a)), unsafe.Pointer(unsafe.SliceData(b[:n]))
	for i := 0; i < n; {
		var dot, aa, bb, eq archsimd.Float32x8
		for end := min(n, i+fold); i < end; i += 16 {
			u, v := load16(p, i), load16(q, i)
			if u.Equal(v).ToBits() == 0xff {
				lo, hi := u.ShiftAllLeft(16).AsFloat32x8(), u.And(keep).AsFloat32x8()
				eq = hi.MulAdd(hi, lo.MulAdd(lo, eq))
				close += 16
				continue
			}
			signs = signs.Or(u.Xor(v).AsUint16x16())
			maxULP = maxULP.Max(u.AsInt16x16().Sub(v.AsInt16x16()).Abs().AsUint16x16())

			x, y := u.ShiftAllLeft(16).AsFloat32x8(), v.ShiftAllLeft(16).AsFloat32x8()
			dot, aa, bb = x.MulAdd(y, dot), x.MulAdd(x, aa), y.MulAdd(y, bb)
			d := roundBF16(x.Sub(y).AsInt32x8().And(mag).AsFloat32x8(), one, half, keep)
			den := roundBF16(x.AsInt32x8().And(mag).AsFloat32x8().Add(eps), one, half, keep)
			allowed := roundBF16(roundBF16(y.AsInt32x8().And(mag).AsFloat32x8().Mul(rtol), one, half, keep).Add(atol),
				one, half, keep)
			maxAbs, maxRel = maxAbs.Max(d), maxRel.Max(d.Div(den))
			close += bits.OnesCount8(d.LessEqual(allowed).ToBits())

			x, y = u.And(keep).AsFloat32x8(), v.And(keep).AsFloat32x8()
			dot, aa, bb = x.MulAdd(y, dot), x.MulAdd(x, aa), y.MulAdd(y, bb)
			d = roundBF16(x.Sub(y).AsInt32x8().And(mag).AsFloat32x8(), one, half, keep)
			den = roundBF16(x.AsInt32x8().And(mag).AsFloat32x8().Add(eps), one, half, keep)
			allowed = roundBF16(roundBF16(y.AsInt32x8().And(mag).AsFloat32x8().Mul(rtol), one, half, keep).Add(atol),
				one, half, keep)
			maxAbs, maxRel = maxAbs.Max(d), maxRel.Max(d.Div(den))
			close += bits.OnesCount8(d.LessEqual(allowed).ToBits())
		}
		l.fold(dot.Add(eq), aa.Add(eq), bb.Add(eq))
	}
	maxAbs.Store(&l.maxAbs)
	maxRel.Store(&l.maxRel)
	var ulp [16]uint16
	maxULP.Store(&ulp)
	far := uint64(slices.Max(ulp[:]))
	if signBit(signs.AsInt32x8()) || signBit(signs.AsUint32x8().ShiftAllLeft(16).AsInt32x8()) {
		far = ulp16(p, q, n)
	}
	archsimd.ClearAVXUpperBits()
	t := l.stats(n)
	t.NotClose, t.MaxULP = n-close, far
	return t
}

// widenF16 converts float16 patterns in the upper halves of the lanes: placed
// in a float32's fields and scaled by 2^(127-15), the exponent is right for
// normal and subnormal numbers alike. Inf and NaN become finite numbers of at
// least 65536.
func widenF16(h archsimd.Int32x8, mag archsimd.Int32x8, scale archsimd.Float32x8) archsimd.Float32x8 {
	f := h.And(mag).ShiftAllRight(3).AsFloat32x8().Mul(scale)
	return f.AsInt32x8().Or(h.AndNot(mag)).AsFloat32x8()
}

// roundF16 rounds to float16 numbers from 0 to 65504 that are multiples of
// 2^-24 wherever they are below 2^-14.
func roundF16(x archsimd.Float32x8, one, half, keep archsimd.Uint32x8) archsimd.Float32x8 {
	u := x.AsUint32x8()
	return u.Add(half).Add(x.AsInt32x8().ShiftAllRight(13).AsUint32x8().And(one)).And(keep).AsFloat32x8()
}

func float16Stretch(a, b []uint16, c *consts) Stats {
	mag := archsimd.BroadcastInt32x8(math.MaxInt32)
	upper := archsimd.BroadcastUint32x8(0xffff0000)
	one, half, keep := archsimd.BroadcastUint32x8(1), archsimd.BroadcastUint32x8(0xfff),
		archsimd.BroadcastUint32x8(^uint32(0x1fff))
	scale, point5, normal := archsimd.BroadcastFloat32x8(0x1p112), archsimd.BroadcastFloat32x8(0.5),
		archsimd.BroadcastFloat32x8(0x1p-14)
	atol, rtol, eps := archsimd.BroadcastFloat32x8(c.atol), archsimd.BroadcastFloat32x8(c.rtol),
		archsimd.BroadcastFloat32x8(c.eps)
	var l lanes
	var maxAbs, maxRel archsimd.Float32x8
	var maxULP archsimd.Uint16x16
	var signs archsimd.Uint16x16
	n, close := len(a), 0
	p, q := unsafe.Pointer(unsafe.SliceData(a)), unsafe.Pointer(unsafe.SliceData(b[:n]))
	for i := 0; i < n; {
		var dot, aa, bb, eq archsimd.Float32x8
		for end := min(n, i+fold); i < end; i += 16 {
			u, v := load16(p, i), load16(q, i)
			if u.Equal(v).ToBits() == 0xff {
				lo, hi := widenF16(u.ShiftAllLeft(16).AsInt32x8(), mag, scale), widenF16(u.And(upper).AsInt32x8(),
					mag, scale)
				eq = hi.MulAdd(hi, lo.MulAdd(lo, eq))
				close += 16
				continue
			}
			signs = signs.Or(u.Xor(v).AsUint16x16())
			maxULP = maxULP.Max(u.AsInt16x16().Sub(v.AsInt16x16()).Abs().AsUint16x16())

			x, y := widenF16(u.ShiftAllLeft(16).AsInt32x8(), mag, scale), widenF16(v.ShiftAllLeft(16).AsInt32x8(),
				mag, scale)
			dot, aa, bb = x.MulAdd(y, dot), x.MulAdd(x, aa), y.MulAdd(y, bb)
			d := roundF16(x.Sub(y).AsInt32x8().And(mag).AsFloat32x8(), one, half, keep)
			den := roundF16(x.AsInt32x8().And(mag).AsFloat32x8().Add(eps), one, half, keep)
			t := y.AsInt32x8().And(mag).AsFloat32x8().Mul(rtol)
			t = t.Add(point5).Sub(point5).Merge(roundF16(t, one, half, keep), t.Less(normal))
			maxAbs, maxRel = maxAbs.Max(d), maxRel.Max(d.Div(den))
			close += bits.OnesCount8(d.LessEqual(roundF16(t.Add(atol), one, half, keep)).ToBits())

			x, y = widenF16(u.And(upper).AsInt32x8(), mag, scale), widenF16(v.And(upper).AsInt32x8(), mag, scale)
			dot, aa, bb = x.MulAdd(y, dot), x.MulAdd(x, aa), y.MulAdd(y, bb)
			d = roundF16(x.Sub(y).AsInt32x8().And(mag).AsFloat32x8(), one, half, keep)
			den = roundF16(x.AsInt32x8().And(mag).AsFloat32x8().Add(eps), one, half, keep)
			t = y.AsInt32x8().And(mag).AsFloat32x8().Mul(rtol)
			t = t.Add(point5).Sub(point5).Merge(roundF16(t, one, half, keep), t.Less(normal))
			maxAbs, maxRel = maxAbs.Max(d), maxRel.Max(d.Div(den))
			close += bits.OnesCount8(d.LessEqual(roundF16(t.Add(atol), one, half, keep)).ToBits())
		}
		l.fold(dot.Add(eq), aa.Add(eq), bb.Add(eq))
	}
	maxAbs.Store(&l.maxAbs)
	maxRel.Store(&l.maxRel)
	var ulp [16]uint16
	maxULP.Store(&ulp)
	far := uint64(slices.Max(ulp[:]))
	if signBit(signs.AsInt32x8()) || signBit(signs.AsUint32x8().ShiftAllLeft(16).AsInt32x8()) {
		far = ulp16(p, q, n)
	}
	archsimd.ClearAVXUpperBits()
	t := l.stats(n)
	t.NotClose, t.MaxULP = n-close, far
	return t
}

func float64SIMD(a, b []float64, r Rule) Stats {
	var s Stats
	for len(a) >= 4 {
		n := min(len(a)&^3, stretch)
		t := float64Stretch(a[:n], b[:n], r)
		// Below this sum every element is a finite float32.
		if !(t.AA <= 1e76 && t.BB <= 1e76) {
			t = sorted[float64, uint64](a[:n], b[:n], (1023+60)<<52, 2047<<52, 4,
				func(x, y []float64) Stats { return float64Stretch(x, y, r) },
				func(x, y []float64) Stats { return scalar64(x, y, r) })
		}
		if t.AA == 0 && t.BB == 0 && !s.NonZero {
			t.NonZero = slices.ContainsFunc(a[:n], notZero) || slices.ContainsFunc(b[:n], notZero)
		}
		s.Add(&t)
		a, b = a[n:], b[n:]
	}
	t := scalar64(a, b, r)
	s.Add(&t)
	return s
}

func float64Stretch(a, b []float64, r Rule) Stats {
	mag, top := archsimd.BroadcastInt64x4(math.MaxInt64), archsimd.BroadcastInt64x4(math.MinInt64)
	atol, rtol, eps := archsimd.BroadcastFloat64x4(r.Atol), archsimd.BroadcastFloat64x4(r.Rtol),
		archsimd.BroadcastFloat64x4(r.Eps)
	var maxAbs, maxRel, dot, aa, bb archsimd.Float64x4
	var zero, close archsimd.Int64x4
	maxULP := top // distances are kept with the top bit flipped: the compare is signed
	n := len(a)
	p, q := unsafe.Pointer(unsafe.SliceData(a)), unsafe.Pointer(unsafe.SliceData(b[:n]))
	for i := 0; i < n; i += 4 {
		x := archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(p, 8*i)))
		y := archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(q, 8*i)))
		dot = x.MulAdd(y, dot)
		aa = x.MulAdd(x, aa)
		bb = y.MulAdd(y, bb)
		ix, iy := x.AsInt64x4(), y.AsInt64x4()
		mx, my := zero.Greater(ix).ToInt64x4(), zero.Greater(iy).ToInt64x4()
		ux, uy := ix.And(mag), iy.And(mag)
		ox, oy := ux.Xor(mx).Sub(mx), uy.Xor(my).Sub(my)
		neg := oy.Greater(ox).ToInt64x4()
		dist := ox.Sub(oy).Xor(neg).Sub(neg).Xor(top)
		maxULP = dist.Merge(maxULP, dist.Greater(maxULP))
		d := x.Sub(y).AsInt64x4().And(mag).AsFloat64x4()
		maxAbs = maxAbs.Max(d)
		maxRel = maxRel.Max(d.Div(ux.AsFloat64x4().Add(eps)))
		close = close.Add(d.LessEqual(uy.AsFloat64x4().Mul(rtol).Add(atol)).ToInt64x4())
	}
	var sums [5][4]float64
	var iu, ic [4]int64
	dot.Store(&sums[0])
	aa.Store(&sums[1])
	bb.Store(&sums[2])
	maxAbs.Store(&sums[3])
	maxRel.Store(&sums[4])
	maxULP.Store(&iu)
	close.Store(&ic)
	archsimd.ClearAVXUpperBits()
	t := Stats{N: n, NotClose: n, Dot: total(&sums[0]), AA: total(&sums[1]), BB: total(&sums[2]),
		MaxAbs: slices.Max(sums[3][:]), MaxRel: slices.Max(sums[4][:])}
	for i := range 4 {
		t.MaxULP = max(t.MaxULP, uint64(iu[i])^(1<<63))
		t.NotClose += int(ic[i])
	}
	t.NonZero = t.AA > 0 || t.BB > 0
	return t
}
