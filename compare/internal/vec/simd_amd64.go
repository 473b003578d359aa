//go:build goexperiment.simd && amd64

package vec

import (
	"math"
	"simd/archsimd"
	"unsafe"
)

var useSIMD = archsimd.X86.AVX2() && archsimd.X86.FMA()

// Vectors are compared in stretches: within a stretch of `fold` elements the
// sums are float32, then they are folded into float64; after `stretch`
// elements the accumulators are inspected. A stretch with NaN, Inf or a sum
// beyond float32 is done again by the pure Go loop, so that the vector loops
// need no test for special values.
const (
	fold    = 256
	stretch = 4096
)

// sums are the float64 accumulators of the float32 partial sums.
type sums struct{ dot, aa, bb archsimd.Float64x4 }

func (s *sums) fold(dot, aa, bb archsimd.Float32x8) {
	s.dot = fold64(s.dot, dot)
	s.aa = fold64(s.aa, aa)
	s.bb = fold64(s.bb, bb)
}

func fold64(acc archsimd.Float64x4, x archsimd.Float32x8) archsimd.Float64x4 {
	return acc.Add(x.GetLo().ConvertToFloat64()).Add(x.GetHi().ConvertToFloat64())
}

func total(x archsimd.Float64x4) float64 {
	var v [4]float64
	x.Store(&v)
	return (v[0] + v[1]) + (v[2] + v[3])
}

func maxLane(x archsimd.Float32x8) float64 {
	var v [8]float32
	x.Store(&v)
	m := v[0]
	for _, f := range v[1:] {
		m = max(m, f)
	}
	return float64(m)
}

func maxLaneU(x archsimd.Uint32x8) uint64 {
	var v [8]uint32
	x.Store(&v)
	m := v[0]
	for _, f := range v[1:] {
		m = max(m, f)
	}
	return uint64(m)
}

func sumLanes(x archsimd.Int32x8) int {
	var v [8]int32
	x.Store(&v)
	n := 0
	for _, f := range v {
		n += int(f)
	}
	return n
}

// ordered maps float bits to integers in the order of the values.
func ordered(x archsimd.Int32x8, mag archsimd.Int32x8) archsimd.Int32x8 {
	m := x.ShiftAllRight(31)
	return x.And(mag).Xor(m).Sub(m)
}

// distance is |x-y| for ordered integers, as unsigned numbers.
func distance(x, y archsimd.Int32x8) archsimd.Uint32x8 {
	return x.Max(y).Sub(x.Min(y)).AsUint32x8()
}

func float32SIMD(a, b []float32, c *consts) Stats {
	var s Stats
	for len(a) >= 8 {
		n := min(len(a)&^7, stretch)
		t := float32Stretch(a[:n], b[:n], c)
		if !(t.AA <= math.MaxFloat32 && t.BB <= math.MaxFloat32) {
			t = scalar32(a[:n], b[:n], c)
		} else if t.AA == 0 && t.BB == 0 && !s.NonZero {
			t.NonZero = scalar32(a[:n], b[:n], c).NonZero // squares may underflow
		}
		s.Add(&t)
		a, b = a[n:], b[n:]
	}
	t := scalar32(a, b, c)
	s.Add(&t)
	return s
}

func float32Stretch(a, b []float32, c *consts) Stats {
	mag := archsimd.BroadcastInt32x8(math.MaxInt32)
	atol, rtol, eps := archsimd.BroadcastFloat32x8(c.atol), archsimd.BroadcastFloat32x8(c.rtol), archsimd.BroadcastFloat32x8(c.eps)
	var s sums
	var maxAbs, maxRel archsimd.Float32x8
	var maxULP archsimd.Uint32x8
	var close archsimd.Int32x8
	n := len(a)
	p, q := unsafe.Pointer(unsafe.SliceData(a)), unsafe.Pointer(unsafe.SliceData(b[:n]))
	for i := 0; i < n; {
		var dot, aa, bb archsimd.Float32x8
		for end := min(n, i+fold); i < end; i += 8 {
			x := archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(p, 4*i)))
			y := archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(q, 4*i)))
			dot = x.MulAdd(y, dot)
			aa = x.MulAdd(x, aa)
			bb = y.MulAdd(y, bb)
			ix, iy := x.AsInt32x8(), y.AsInt32x8()
			maxULP = maxULP.Max(distance(ordered(ix, mag), ordered(iy, mag)))
			d := x.Sub(y).AsInt32x8().And(mag).AsFloat32x8()
			maxAbs = maxAbs.Max(d)
			maxRel = maxRel.Max(d.Div(ix.And(mag).AsFloat32x8().Add(eps)))
			allowed := iy.And(mag).AsFloat32x8().Mul(rtol).Add(atol)
			close = close.Add(d.LessEqual(allowed).ToInt32x8())
		}
		s.fold(dot, aa, bb)
	}
	m := maxima{maxAbs, maxRel, maxULP, close}
	return m.stats(n, 0, &s)
}

func halfSIMD(a, b []uint16, c *consts) Stats {
	limit := math.MaxFloat32
	kernel := bfloat16Stretch
	if c.grid == Float16Grid {
		// Below this sum no element is beyond 31623: none is Inf or NaN (whose
		// patterns widen to 65536 and more) and no difference overflows.
		limit, kernel = 1e9, float16Stretch
	}
	var s Stats
	for len(a) >= 16 {
		n := min(len(a)&^15, stretch)
		t := kernel(a[:n], b[:n], c)
		if !(t.AA <= limit && t.BB <= limit) {
			t = scalar16(a[:n], b[:n], c)
		} else {
			t.MaxULP >>= 16
			t.MaxRel = float64(roundTo(float32(t.MaxRel), c.grid))
			if t.AA == 0 && t.BB == 0 && !s.NonZero {
				t.NonZero = scalar16(a[:n], b[:n], c).NonZero
			}
		}
		s.Add(&t)
		a, b = a[n:], b[n:]
	}
	t := scalar16(a, b, c)
	s.Add(&t)
	return s
}

// maxima are the accumulators that need no folding. close counts down from 0.
type maxima struct {
	abs, rel archsimd.Float32x8
	ulp      archsimd.Uint32x8
	close    archsimd.Int32x8
}

// stats sums up a stretch of n elements, of which same were found equal
// without entering the accumulators.
func (m *maxima) stats(n, same int, s *sums) Stats {
	t := Stats{N: n, MaxAbs: maxLane(m.abs), MaxRel: maxLane(m.rel), NotClose: n - same + sumLanes(m.close),
		Dot: total(s.dot), AA: total(s.aa), BB: total(s.bb), MaxULP: maxLaneU(m.ulp)}
	t.NonZero = t.AA > 0 || t.BB > 0
	return t
}

// load16 loads sixteen patterns as the eight pairs they form in memory.
func load16(p unsafe.Pointer, i int) archsimd.Uint32x8 {
	return archsimd.LoadUint32x8((*[8]uint32)(unsafe.Add(p, 2*i)))
}

// roundBF16 rounds non-negative float32 to bfloat16, ties to even.
func roundBF16(x archsimd.Float32x8, one, half, keep archsimd.Uint32x8) archsimd.Float32x8 {
	u := x.AsUint32x8()
	return u.Add(half).Add(u.ShiftAllRight(16).And(one)).And(keep).AsFloat32x8()
}

func bfloat16Stretch(a, b []uint16, c *consts) Stats {
	mag := archsimd.BroadcastInt32x8(math.MaxInt32)
	one, half, keep := archsimd.BroadcastUint32x8(1), archsimd.BroadcastUint32x8(0x7fff), archsimd.BroadcastUint32x8(0xffff0000)
	atol, rtol, eps := archsimd.BroadcastFloat32x8(c.atol), archsimd.BroadcastFloat32x8(c.rtol), archsimd.BroadcastFloat32x8(c.eps)
	var s sums
	var maxAbs, maxRel archsimd.Float32x8
	var maxULP archsimd.Uint32x8
	var close archsimd.Int32x8
	n, same := len(a), 0
	p, q := unsafe.Pointer(unsafe.SliceData(a)), unsafe.Pointer(unsafe.SliceData(b[:n]))
	for i := 0; i < n; {
		var dot, aa, bb, eq archsimd.Float32x8
		for end := min(n, i+fold); i < end; i += 16 {
			u, v := load16(p, i), load16(q, i)
			if u.Equal(v).ToBits() == 0xff {
				lo, hi := u.ShiftAllLeft(16).AsFloat32x8(), u.And(keep).AsFloat32x8()
				eq = hi.MulAdd(hi, lo.MulAdd(lo, eq))
				same += 16
				continue
			}
			x, y := u.ShiftAllLeft(16).AsFloat32x8(), v.ShiftAllLeft(16).AsFloat32x8()
			for pass := 0; ; pass++ {
				dot = x.MulAdd(y, dot)
				aa = x.MulAdd(x, aa)
				bb = y.MulAdd(y, bb)
				ix, iy := x.AsInt32x8(), y.AsInt32x8()
				maxULP = maxULP.Max(distance(ordered(ix, mag), ordered(iy, mag)))
				d := roundBF16(x.Sub(y).AsInt32x8().And(mag).AsFloat32x8(), one, half, keep)
				maxAbs = maxAbs.Max(d)
				maxRel = maxRel.Max(d.Div(roundBF16(ix.And(mag).AsFloat32x8().Add(eps), one, half, keep)))
				allowed := roundBF16(roundBF16(iy.And(mag).AsFloat32x8().Mul(rtol), one, half, keep).Add(atol), one, half, keep)
				close = close.Add(d.LessEqual(allowed).ToInt32x8())
				if pass == 1 {
					break
				}
				x, y = u.And(keep).AsFloat32x8(), v.And(keep).AsFloat32x8()
			}
		}
		s.fold(dot.Add(eq), aa.Add(eq), bb.Add(eq))
	}
	m := maxima{maxAbs, maxRel, maxULP, close}
	return m.stats(n, same, &s)
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
	return u.Add(half).Add(u.ShiftAllRight(13).And(one)).And(keep).AsFloat32x8()
}

func float16Stretch(a, b []uint16, c *consts) Stats {
	mag := archsimd.BroadcastInt32x8(math.MaxInt32)
	hi := archsimd.BroadcastUint32x8(0xffff0000)
	one, half, keep := archsimd.BroadcastUint32x8(1), archsimd.BroadcastUint32x8(0xfff), archsimd.BroadcastUint32x8(^uint32(0x1fff))
	scale, point5, normal := archsimd.BroadcastFloat32x8(0x1p112), archsimd.BroadcastFloat32x8(0.5), archsimd.BroadcastFloat32x8(0x1p-14)
	atol, rtol, eps := archsimd.BroadcastFloat32x8(c.atol), archsimd.BroadcastFloat32x8(c.rtol), archsimd.BroadcastFloat32x8(c.eps)
	var s sums
	var maxAbs, maxRel archsimd.Float32x8
	var maxULP archsimd.Uint32x8
	var close archsimd.Int32x8
	n, same := len(a), 0
	p, q := unsafe.Pointer(unsafe.SliceData(a)), unsafe.Pointer(unsafe.SliceData(b[:n]))
	for i := 0; i < n; {
		var dot, aa, bb, eq archsimd.Float32x8
		for end := min(n, i+fold); i < end; i += 16 {
			u, v := load16(p, i), load16(q, i)
			if u.Equal(v).ToBits() == 0xff {
				lo, hi := widenF16(u.ShiftAllLeft(16).AsInt32x8(), mag, scale), widenF16(u.And(hi).AsInt32x8(), mag, scale)
				eq = hi.MulAdd(hi, lo.MulAdd(lo, eq))
				same += 16
				continue
			}
			ix, iy := u.ShiftAllLeft(16).AsInt32x8(), v.ShiftAllLeft(16).AsInt32x8()
			for pass := 0; ; pass++ {
				x, y := widenF16(ix, mag, scale), widenF16(iy, mag, scale)
				dot = x.MulAdd(y, dot)
				aa = x.MulAdd(x, aa)
				bb = y.MulAdd(y, bb)
				maxULP = maxULP.Max(distance(ordered(ix, mag), ordered(iy, mag)))
				d := roundF16(x.Sub(y).AsInt32x8().And(mag).AsFloat32x8(), one, half, keep)
				maxAbs = maxAbs.Max(d)
				maxRel = maxRel.Max(d.Div(roundF16(x.AsInt32x8().And(mag).AsFloat32x8().Add(eps), one, half, keep)))
				t := y.AsInt32x8().And(mag).AsFloat32x8().Mul(rtol)
				t = t.Add(point5).Sub(point5).Merge(roundF16(t, one, half, keep), t.Less(normal))
				close = close.Add(d.LessEqual(roundF16(t.Add(atol), one, half, keep)).ToInt32x8())
				if pass == 1 {
					break
				}
				ix, iy = u.And(hi).AsInt32x8(), v.And(hi).AsInt32x8()
			}
		}
		s.fold(dot.Add(eq), aa.Add(eq), bb.Add(eq))
	}
	m := maxima{maxAbs, maxRel, maxULP, close}
	return m.stats(n, same, &s)
}

func float64SIMD(a, b []float64, r Rule) Stats {
	var s Stats
	for len(a) >= 4 {
		n := min(len(a)&^3, stretch)
		t := float64Stretch(a[:n], b[:n], r)
		// Below this sum every element is a finite float32.
		if !(t.AA <= 1e76 && t.BB <= 1e76) {
			t = scalar64(a[:n], b[:n], r)
		} else if t.AA == 0 && t.BB == 0 && !s.NonZero {
			t.NonZero = scalar64(a[:n], b[:n], r).NonZero
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
	atol, rtol, eps := archsimd.BroadcastFloat64x4(r.Atol), archsimd.BroadcastFloat64x4(r.Rtol), archsimd.BroadcastFloat64x4(r.Eps)
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
	var fa, fr [4]float64
	var iu, ic [4]int64
	maxAbs.Store(&fa)
	maxRel.Store(&fr)
	maxULP.Store(&iu)
	close.Store(&ic)
	t := Stats{N: n, NotClose: n, Dot: total(dot), AA: total(aa), BB: total(bb)}
	for i := range 4 {
		t.MaxAbs = max(t.MaxAbs, fa[i])
		t.MaxRel = max(t.MaxRel, fr[i])
		t.MaxULP = max(t.MaxULP, uint64(iu[i])^(1<<63))
		t.NotClose += int(ic[i])
	}
	t.NonZero = t.AA > 0 || t.BB > 0
	return t
}
