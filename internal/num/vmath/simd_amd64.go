//go:build goexperiment.simd && amd64 && !go1.27

package vmath

import (
	"math"
	"simd/archsimd"
	"unsafe"
)

var useSIMD = archsimd.X86.AVX2() && archsimd.X86.FMA()

// Constants, zero among them, are kept in memory as whole vectors: go1.26
// compiles a broadcast of a constant, a zero vector and a shift by a constant to
// the right to moves of the legacy SSE encoding, which stall vector code for
// some hundred cycles while upper register halves are in use. For the same
// reason those are cleared before scalar floating-point code runs.
type vector = [4]float64

func splat(x float64) vector { return vector{x, x, x, x} }

func splatBits(b uint64) vector { return splat(math.Float64frombits(b)) }

func splatAll(c []float64) []vector {
	v := make([]vector, len(c))
	for i, x := range c {
		v[i] = splat(x)
	}
	return v
}

var (
	vExp   = [11]vector(splatAll(expPoly[:]))
	vLog   = [7]vector(splatAll(logPoly[:]))
	vErf   = [11]vector(splatAll(erfPoly[:]))
	vErfcx = [23]vector(splatAll(erfcxPoly[:]))
)

var (
	vOne, vTwo, vThree, vHalf      = splat(1), splat(2), splat(3), splat(0.5)
	vMinusOne                      = splat(-1)
	vSign, vMagnitude              = splatBits(1 << 63), splatBits(1<<63 - 1)
	vLog2e, vMagic, vLn2Hi, vLn2Lo = splat(log2e), splat(magic), splat(ln2Hi), splat(ln2Lo)
	vMinusLn2Hi, vMinusLn2Lo       = splat(-ln2Hi), splat(-ln2Lo)
	vExpMax, vExpm1Max, vTanhMax   = splat(expMax), splat(expm1Max), splat(tanhMax)
	vErfSmall, vErfMax, vErfcMax   = splat(erfSmall), splat(erfMax), splat(erfcMax)
	vGELUMax, vGELUTanhMax         = splat(geluMax), splat(geluTanhMax)
	vGELU1, vGELU3                 = splat(gelu1), splat(gelu3)
	vRsqrt2, vRsqrtTwoPi           = splat(rsqrt2), splat(rsqrtTwoPi)
	vExponentOne                   = splatBits(1023 << 52)
	vSqrtHalf, vExponentMask       = splatBits(sqrtHalf), splatBits(0xfff << 52)
	vTwo52, vTwo52Bias             = splat(0x1p52), splat(0x1p52 + 1023)
	vTiny, vHuge                   = splat(0x1p-1022), splat(math.MaxFloat64)
	vLog1pMax                      = splat(0x1p1000)
	vFiftyTwo, vZero               = splatBits(52), splat(0)
)

func at(v []float64, i int) *vector {
	return (*vector)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(v)), 8*i))
}

func load(v []float64, i int) archsimd.Float64x4 { return archsimd.LoadFloat64x4(at(v, i)) }

func cst(v *vector) archsimd.Float64x4 { return archsimd.LoadFloat64x4(v) }

func abs(x archsimd.Float64x4) archsimd.Float64x4 {
	return x.AsInt64x4().And(cst(&vMagnitude).AsInt64x4()).AsFloat64x4()
}

func neg(x archsimd.Float64x4) archsimd.Float64x4 {
	return x.AsInt64x4().Xor(cst(&vSign).AsInt64x4()).AsFloat64x4()
}

// signOf is x's sign bit alone; signed is withSign.
func signOf(x archsimd.Float64x4) archsimd.Int64x4 {
	return x.AsInt64x4().And(cst(&vSign).AsInt64x4())
}

func signed(y, x archsimd.Float64x4) archsimd.Float64x4 {
	return y.AsInt64x4().Or(signOf(x)).AsFloat64x4()
}

// tail runs a vector loop on the last elements, fewer than four.
func tail(dst, src []float64, loop func(dst, src []float64)) {
	if len(src) == 0 {
		return
	}
	t := splat(1)
	copy(t[:], src)
	loop(t[:], t[:])
	copy(dst, t[:])
}

// store stores y unless an element of x is outside the formula's range: good
// tells which are inside. Then f computes all four.
func store(dst *vector, y, x archsimd.Float64x4, good archsimd.Mask64x4, f func(float64) float64) {
	if good.ToBits() == 0xf {
		y.Store(dst)
		return
	}
	repair(dst, x, f)
}

//go:noinline
func repair(dst *vector, x archsimd.Float64x4, f func(float64) float64) {
	var v vector
	x.Store(&v)
	archsimd.ClearAVXUpperBits()
	for i, x := range v {
		dst[i] = f(x)
	}
}

// expSIMD goes by four vectors, as erfcxBlock does.
func expSIMD(dst, src []float64) {
	n := len(src) &^ 3
	i := 0
	for ; i+16 <= n; i += 16 {
		r, s, t, u := expPlace(src, i), expPlace(src, i+4), expPlace(src, i+8), expPlace(src, i+12)
		p := cst(&vExp[len(vExp)-1])
		q, v, w := p, p, p
		for k := len(vExp) - 2; k >= 0; k-- {
			c := cst(&vExp[k])
			p, q, v, w = p.MulAdd(r, c), q.MulAdd(s, c), v.MulAdd(t, c), w.MulAdd(u, c)
		}
		expStore(dst, src, i, r.Mul(r).MulAdd(p, r))
		expStore(dst, src, i+4, s.Mul(s).MulAdd(q, s))
		expStore(dst, src, i+8, t.Mul(t).MulAdd(v, t))
		expStore(dst, src, i+12, u.Mul(u).MulAdd(w, u))
	}
	for ; i < n; i += 4 {
		r, p := expPlace(src, i), cst(&vExp[len(vExp)-1])
		for k := len(vExp) - 2; k >= 0; k-- {
			p = p.MulAdd(r, cst(&vExp[k]))
		}
		expStore(dst, src, i, r.Mul(r).MulAdd(p, r))
	}
	archsimd.ClearAVXUpperBits()
	tail(dst[n:], src[n:], expSIMD)
}

// expPlace is r of reduce for four elements.
func expPlace(src []float64, i int) archsimd.Float64x4 {
	x := load(src, i)
	k := x.MulAdd(cst(&vLog2e), cst(&vMagic)).Sub(cst(&vMagic))
	return k.MulAdd(cst(&vMinusLn2Lo), k.MulAdd(cst(&vMinusLn2Hi), x))
}

// expStore stores exp of four elements, of which q of reduce is known.
func expStore(dst, src []float64, i int, q archsimd.Float64x4) {
	x := load(src, i)
	m := x.MulAdd(cst(&vLog2e), cst(&vMagic))
	y := q.Add(cst(&vOne)).AsInt64x4().Add(m.AsInt64x4().ShiftAllLeft(52)).AsFloat64x4()
	store(at(dst, i), y, x, abs(x).LessEqual(cst(&vExpMax)), exp)
}

func expm1SIMD(dst, src []float64) {
	n := len(src) &^ 3
	for i := 0; i < n; i += 4 {
		x := load(src, i)
		m := x.MulAdd(cst(&vLog2e), cst(&vMagic))
		k := m.Sub(cst(&vMagic))
		r := k.MulAdd(cst(&vMinusLn2Lo), k.MulAdd(cst(&vMinusLn2Hi), x))
		p := cst(&vExp[10]).MulAdd(r, cst(&vExp[9])).MulAdd(r, cst(&vExp[8])).MulAdd(r, cst(&vExp[7])).MulAdd(r,
			cst(&vExp[6])).
			MulAdd(r, cst(&vExp[5])).MulAdd(r, cst(&vExp[4])).MulAdd(r, cst(&vExp[3])).MulAdd(r, cst(&vExp[2])).
			MulAdd(r, cst(&vExp[1])).MulAdd(r, cst(&vExp[0]))
		q := r.Mul(r).MulAdd(p, r)
		scale := m.AsInt64x4().ShiftAllLeft(52).Add(cst(&vExponentOne).AsInt64x4()).AsFloat64x4()
		y := signed(scale.MulAdd(q, scale.Sub(cst(&vOne))), x)
		store(at(dst, i), y, x, abs(x).LessEqual(cst(&vExpm1Max)), expm1)
	}
	archsimd.ClearAVXUpperBits()
	tail(dst[n:], src[n:], expm1SIMD)
}

func logSIMD(dst, src []float64) {
	n := len(src) &^ 3
	for i := 0; i < n; i += 4 {
		x := load(src, i)
		d := x.AsInt64x4().Sub(cst(&vSqrtHalf).AsInt64x4())
		// d is not negative once the bias is added: its exponent field put
		// into 2^52's mantissa is k + 1023.
		e := d.Add(cst(&vExponentOne).AsInt64x4()).AsUint64x4().ShiftRight(cst(&vFiftyTwo).AsInt64x4().AsUint64x4())
		k := e.AsInt64x4().Or(cst(&vTwo52).AsInt64x4()).AsFloat64x4().Sub(cst(&vTwo52Bias))
		f := x.AsInt64x4().Sub(d.And(cst(&vExponentMask).AsInt64x4())).AsFloat64x4().Sub(cst(&vOne))
		s := f.Div(f.Add(cst(&vTwo)))
		z := s.Mul(s)
		h := f.Mul(cst(&vHalf)).Mul(f)
		p := cst(&vLog[6]).MulAdd(z, cst(&vLog[5])).MulAdd(z, cst(&vLog[4])).MulAdd(z, cst(&vLog[3])).
			MulAdd(z, cst(&vLog[2])).MulAdd(z, cst(&vLog[1])).MulAdd(z, cst(&vLog[0]))
		u := z.Mul(p).Add(h).Mul(s)
		u = k.MulAdd(cst(&vLn2Lo), u)
		y := k.MulAdd(cst(&vLn2Hi), f.Sub(h.Sub(u)))
		store(at(dst, i), y, x, x.GreaterEqual(cst(&vTiny)).And(x.LessEqual(cst(&vHuge))), log)
	}
	archsimd.ClearAVXUpperBits()
	tail(dst[n:], src[n:], logSIMD)
}

// chunk is the number of elements that functions built of several loops take
// through them at a time.
const chunk = 256

// inChunks calls f for the chunks of dst and src.
func inChunks(dst, src []float64, f func(dst, src []float64)) {
	for len(src) > chunk {
		f(dst[:chunk], src[:chunk])
		dst, src = dst[chunk:], src[chunk:]
	}
	n := len(src) &^ 3
	f(dst[:n], src[:n])
	tail(dst[n:], src[n:], f)
}

func log1pSIMD(dst, src []float64) { inChunks(dst, src, log1pChunk) }

func log1pChunk(dst, src []float64) {
	var buf [chunk]float64
	for i := 0; i < len(src); i += 4 {
		load(src, i).Add(cst(&vOne)).Store(at(buf[:], i))
	}
	logSIMD(buf[:len(src)], buf[:len(src)])
	for i := 0; i < len(src); i += 4 {
		x := load(src, i)
		u := x.Add(cst(&vOne))
		b := u.Sub(cst(&vOne))
		lost := cst(&vOne).Sub(u.Sub(b)).Add(x.Sub(b))
		y := signed(load(buf[:], i).Add(lost.Div(u)), x)
		store(at(dst, i), y, x, x.Greater(cst(&vMinusOne)).And(x.LessEqual(cst(&vLog1pMax))), log1p)
	}
	archsimd.ClearAVXUpperBits()
}

func tanhSIMD(dst, src []float64) { inChunks(dst, src, tanhChunk) }

func tanhChunk(dst, src []float64) {
	var buf [chunk]float64
	for i := 0; i < len(src); i += 4 {
		abs(load(src, i)).Min(cst(&vTanhMax)).Mul(cst(&vTwo)).Store(at(buf[:], i))
	}
	expm1SIMD(buf[:len(src)], buf[:len(src)])
	for i := 0; i < len(src); i += 4 {
		x, t := load(src, i), load(buf[:], i)
		y := signed(t.Div(t.Add(cst(&vTwo))), x)
		store(at(dst, i), y, x, x.Equal(x), tanh)
	}
	archsimd.ClearAVXUpperBits()
}

func sigmoidSIMD(dst, src []float64) { inChunks(dst, src, sigmoidChunk) }

func sigmoidChunk(dst, src []float64) {
	var buf [chunk]float64
	for i := 0; i < len(src); i += 4 {
		neg(load(src, i)).Store(at(buf[:], i))
	}
	expSIMD(buf[:len(src)], buf[:len(src)])
	for i := 0; i < len(src); i += 4 {
		x := load(src, i)
		y := cst(&vOne).Div(load(buf[:], i).Add(cst(&vOne)))
		store(at(dst, i), y, x, abs(x).LessEqual(cst(&vExpMax)), sigmoid)
	}
	archsimd.ClearAVXUpperBits()
}

func siluSIMD(dst, src []float64) { inChunks(dst, src, siluChunk) }

func siluChunk(dst, src []float64) {
	var buf [chunk]float64
	for i := 0; i < len(src); i += 4 {
		neg(load(src, i)).Store(at(buf[:], i))
	}
	expSIMD(buf[:len(src)], buf[:len(src)])
	for i := 0; i < len(src); i += 4 {
		x := load(src, i)
		y := x.Div(load(buf[:], i).Add(cst(&vOne)))
		store(at(dst, i), y, x, abs(x).LessEqual(cst(&vExpMax)), silu)
	}
	archsimd.ClearAVXUpperBits()
}

func siluSlopeSIMD(dst, src []float64) { inChunks(dst, src, siluSlopeChunk) }

func siluSlopeChunk(dst, src []float64) {
	var buf [chunk]float64
	for i := 0; i < len(src); i += 4 {
		neg(load(src, i)).Store(at(buf[:], i))
	}
	expSIMD(buf[:len(src)], buf[:len(src)])
	for i := 0; i < len(src); i += 4 {
		x := load(src, i)
		e := load(buf[:], i)
		s := cst(&vOne).Div(e.Add(cst(&vOne)))
		y := s.Mul(x.MulAdd(e.Mul(s), cst(&vOne)))
		store(at(dst, i), y, x, abs(x).LessEqual(cst(&vExpMax)), siluSlope)
	}
	archsimd.ClearAVXUpperBits()
}

// erfcxBlock stores erfcx, of four vectors at once: their sums of 23 terms do not wait for each
// other, and a coefficient is loaded once for all.
func erfcxBlock(dst, src []float64) {
	n := len(src) &^ 15
	for i := 0; i < n; i += 16 {
		s, t, u, v := erfcxPlace(src, i), erfcxPlace(src, i+4), erfcxPlace(src, i+8), erfcxPlace(src, i+12)
		p := cst(&vErfcx[len(vErfcx)-1])
		q, r, w := p, p, p
		for k := len(vErfcx) - 2; k >= 0; k-- {
			c := cst(&vErfcx[k])
			p, q, r, w = p.MulAdd(s, c), q.MulAdd(t, c), r.MulAdd(u, c), w.MulAdd(v, c)
		}
		p.Div(load(src, i).MulAdd(cst(&vTwo), cst(&vOne))).Store(at(dst, i))
		q.Div(load(src, i+4).MulAdd(cst(&vTwo), cst(&vOne))).Store(at(dst, i+4))
		r.Div(load(src, i+8).MulAdd(cst(&vTwo), cst(&vOne))).Store(at(dst, i+8))
		w.Div(load(src, i+12).MulAdd(cst(&vTwo), cst(&vOne))).Store(at(dst, i+12))
	}
	for i := n; i < len(src); i += 4 {
		t, p := erfcxPlace(src, i), cst(&vErfcx[len(vErfcx)-1])
		for k := len(vErfcx) - 2; k >= 0; k-- {
			p = p.MulAdd(t, cst(&vErfcx[k]))
		}
		p.Div(load(src, i).MulAdd(cst(&vTwo), cst(&vOne))).Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
}

// erfcxPlace is the argument of erfcx's polynomial for four elements.
func erfcxPlace(src []float64, i int) archsimd.Float64x4 {
	x := load(src, i)
	return x.Sub(cst(&vThree)).Div(x.Add(cst(&vThree)))
}

// erfcTailBlock stores erfcTail of |x|, at most limit.
func erfcTailBlock(dst, src []float64, limit *vector) {
	var e, c [chunk]float64
	n := len(src)
	for i := 0; i < n; i += 4 {
		a := abs(load(src, i)).Min(cst(limit))
		a.Store(at(c[:], i))
		neg(a.Mul(a)).Store(at(e[:], i))
	}
	expSIMD(e[:n], e[:n])
	erfcxBlock(c[:n], c[:n])
	for i := 0; i < n; i += 4 {
		a := abs(load(src, i)).Min(cst(limit))
		low := a.MulAdd(a, neg(a.Mul(a)))
		y := load(e[:], i).Mul(load(c[:], i))
		neg(low).MulAdd(y, y).Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
}

// erfSeriesBlock stores erfSeries of |x|.
func erfSeriesBlock(dst, src []float64) {
	for i := 0; i < len(src); i += 4 {
		x := abs(load(src, i))
		z := x.Mul(x)
		p := cst(&vErf[10]).MulAdd(z, cst(&vErf[9])).MulAdd(z, cst(&vErf[8])).MulAdd(z, cst(&vErf[7])).MulAdd(z,
			cst(&vErf[6])).
			MulAdd(z, cst(&vErf[5])).MulAdd(z, cst(&vErf[4])).MulAdd(z, cst(&vErf[3])).MulAdd(z, cst(&vErf[2])).
			MulAdd(z, cst(&vErf[1])).MulAdd(z, cst(&vErf[0]))
		x.MulAdd(p, x).Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
}

func erfSIMD(dst, src []float64) { inChunks(dst, src, erfChunk) }

func erfChunk(dst, src []float64) {
	var far, near [chunk]float64
	erfcTailBlock(far[:len(src)], src, &vErfMax)
	erfSeriesBlock(near[:len(src)], src)
	for i := 0; i < len(src); i += 4 {
		x := load(src, i)
		small := abs(x).LessEqual(cst(&vErfSmall))
		y := load(near[:], i).Merge(cst(&vOne).Sub(load(far[:], i)), small)
		store(at(dst, i), signed(y, x), x, x.Equal(x), erf)
	}
	archsimd.ClearAVXUpperBits()
}

func erfcSIMD(dst, src []float64) { inChunks(dst, src, erfcChunk) }

func erfcChunk(dst, src []float64) {
	var far, near [chunk]float64
	erfcTailBlock(far[:len(src)], src, &vErfcMax)
	erfSeriesBlock(near[:len(src)], src)
	for i := 0; i < len(src); i += 4 {
		x, e := load(src, i), load(far[:], i)
		small := abs(x).LessEqual(cst(&vErfSmall))
		e = cst(&vTwo).Sub(e).Merge(e, x.Less(cst(&vZero)))
		y := cst(&vOne).Sub(signed(load(near[:], i), x)).Merge(e, small)
		store(at(dst, i), y, x, abs(x).LessEqual(cst(&vErfcMax)), erfc)
	}
	archsimd.ClearAVXUpperBits()
}

func geluSIMD(dst, src []float64) { inChunks(dst, src, geluChunk) }

func geluChunk(dst, src []float64) {
	var e, c [chunk]float64
	n := len(src)
	for i := 0; i < n; i += 4 {
		x := load(src, i)
		abs(x).Mul(cst(&vRsqrt2)).Store(at(c[:], i))
		neg(x.Mul(cst(&vHalf)).Mul(x)).Store(at(e[:], i))
	}
	expSIMD(e[:n], e[:n])
	erfcxBlock(c[:n], c[:n])
	for i := 0; i < n; i += 4 {
		x := load(src, i)
		half := x.Mul(cst(&vHalf))
		low := half.MulAdd(x, neg(half.Mul(x)))
		y := load(e[:], i).Mul(load(c[:], i))
		y = neg(low).MulAdd(y, y)
		r := half.Mul(y).Merge(neg(half).MulAdd(y, x), x.Less(cst(&vZero)))
		store(at(dst, i), signed(r, x), x, abs(x).LessEqual(cst(&vGELUMax)), gelu)
	}
	archsimd.ClearAVXUpperBits()
}

func geluSlopeSIMD(dst, src []float64) { inChunks(dst, src, geluSlopeChunk) }

func geluSlopeChunk(dst, src []float64) {
	var tail, density [chunk]float64
	n := len(src)
	geluTailBlock(tail[:n], density[:n], src)
	for i := 0; i < n; i += 4 {
		x, t := load(src, i), load(tail[:], i)
		p := t.Merge(cst(&vOne).Sub(t), x.Less(cst(&vZero)))
		store(at(dst, i), x.MulAdd(load(density[:], i), p), x, abs(x).LessEqual(cst(&vGELUMax)), geluSlope)
	}
	archsimd.ClearAVXUpperBits()
}

func geluSlopeSizeSIMD(dst, src []float64) { inChunks(dst, src, geluSlopeSizeChunk) }

func geluSlopeSizeChunk(dst, src []float64) {
	var tail, density [chunk]float64
	n := len(src)
	geluTailBlock(tail[:n], density[:n], src)
	for i := 0; i < n; i += 4 {
		x := load(src, i)
		p := x.MulAdd(x, cst(&vOne)).Mul(abs(x))
		y := p.MulAdd(load(density[:], i), cst(&vOne).Sub(load(tail[:], i)))
		store(at(dst, i), y, x, abs(x).LessEqual(cst(&vGELUMax)), geluSlopeSize)
	}
	archsimd.ClearAVXUpperBits()
}

// geluTailBlock stores both results of geluTail.
func geluTailBlock(tail, density, src []float64) {
	for i := 0; i < len(src); i += 4 {
		x := load(src, i)
		abs(x).Mul(cst(&vRsqrt2)).Store(at(tail, i))
		neg(x.Mul(cst(&vHalf)).Mul(x)).Store(at(density, i))
	}
	expSIMD(density, density)
	erfcxBlock(tail, tail)
	for i := 0; i < len(src); i += 4 {
		x := load(src, i)
		half := x.Mul(cst(&vHalf))
		low := neg(half.MulAdd(x, neg(half.Mul(x))))
		e := load(density, i)
		t := e.Mul(load(tail, i))
		low.MulAdd(t, t).Mul(cst(&vHalf)).Store(at(tail, i))
		low.MulAdd(e, e).Mul(cst(&vRsqrtTwoPi)).Store(at(density, i))
	}
	archsimd.ClearAVXUpperBits()
}

func geluTanhSIMD(dst, src []float64) { inChunks(dst, src, geluTanhChunk) }

func geluTanhChunk(dst, src []float64) {
	var buf [chunk]float64
	for i := 0; i < len(src); i += 4 {
		x := load(src, i)
		x.Mul(x.Mul(x).MulAdd(cst(&vGELU3), cst(&vGELU1))).Store(at(buf[:], i))
	}
	expSIMD(buf[:len(src)], buf[:len(src)])
	for i := 0; i < len(src); i += 4 {
		x := load(src, i)
		y := x.Div(load(buf[:], i).Add(cst(&vOne)))
		store(at(dst, i), y, x, abs(x).LessEqual(cst(&vGELUTanhMax)), geluTanh)
	}
	archsimd.ClearAVXUpperBits()
}

func sqrtSIMD(dst, src []float64) {
	n := len(src) &^ 3
	for i := 0; i < n; i += 4 {
		load(src, i).Sqrt().Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
	for i := n; i < len(src); i++ {
		dst[i] = math.Sqrt(src[i])
	}
}

func absSIMD(dst, src []float64) {
	n := len(src) &^ 3
	for i := 0; i < n; i += 4 {
		abs(load(src, i)).Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
	for i := n; i < len(src); i++ {
		dst[i] = math.Abs(src[i])
	}
}

func addSIMD(dst, x, y []float64) {
	n := len(x) &^ 3
	dst, y = dst[:len(x)], y[:len(x)]
	for i := 0; i < n; i += 4 {
		load(x, i).Add(load(y, i)).Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
	for i := n; i < len(x); i++ {
		dst[i] = x[i] + y[i]
	}
}

func subSIMD(dst, x, y []float64) {
	n := len(x) &^ 3
	dst, y = dst[:len(x)], y[:len(x)]
	for i := 0; i < n; i += 4 {
		load(x, i).Sub(load(y, i)).Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
	for i := n; i < len(x); i++ {
		dst[i] = x[i] - y[i]
	}
}

func mulSIMD(dst, x, y []float64) {
	n := len(x) &^ 3
	dst, y = dst[:len(x)], y[:len(x)]
	for i := 0; i < n; i += 4 {
		load(x, i).Mul(load(y, i)).Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
	for i := n; i < len(x); i++ {
		dst[i] = x[i] * y[i]
	}
}

func divSIMD(dst, x, y []float64) {
	n := len(x) &^ 3
	dst, y = dst[:len(x)], y[:len(x)]
	for i := 0; i < n; i += 4 {
		load(x, i).Div(load(y, i)).Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
	for i := n; i < len(x); i++ {
		dst[i] = x[i] / y[i]
	}
}

func affineSIMD(dst, x []float64, shift, scale float64) {
	n := len(x) &^ 3
	dst = dst[:len(x)]
	a, b := splat(shift), splat(scale)
	for i := 0; i < n; i += 4 {
		load(x, i).Add(cst(&a)).Mul(cst(&b)).Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
	for i := n; i < len(x); i++ {
		s := x[i] + shift
		dst[i] = s * scale
	}
}

func axpySIMD(dst []float64, a float64, x []float64) {
	n := len(x) &^ 3
	dst = dst[:len(x)]
	f := splat(a)
	for i := 0; i < n; i += 4 {
		load(dst, i).Add(load(x, i).Mul(cst(&f))).Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
	for i := n; i < len(x); i++ {
		p := a * x[i]
		dst[i] += p
	}
}

func blendSIMD(dst []float64, a float64, x []float64, b float64, y []float64, n int) {
	f, g := splat(a), splat(b)
	dst, x, y = dst[:n], x[:n], y[:n]
	for i := 0; i < n; i += 4 {
		load(x, i).Mul(cst(&f)).Add(load(y, i).Mul(cst(&g))).Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
}

func sumSIMD(acc *[lanes]float64, x []float64) {
	var a, b, c, d archsimd.Float64x4
	for i := 0; i < len(x); i += lanes {
		a, b, c, d = a.Add(load(x, i)), b.Add(load(x, i+4)), c.Add(load(x, i+8)), d.Add(load(x, i+12))
	}
	a.Store(at(acc[:], 0))
	b.Store(at(acc[:], 4))
	c.Store(at(acc[:], 8))
	d.Store(at(acc[:], 12))
	archsimd.ClearAVXUpperBits()
}

// totalSIMD adds the accumulators in total's order.
func totalSIMD(acc *[lanes]float64) float64 {
	a, b := load(acc[:], 0).Add(load(acc[:], 8)), load(acc[:], 4).Add(load(acc[:], 12))
	var s vector
	a.Add(b).Store(&s)
	archsimd.ClearAVXUpperBits()
	return (s[0] + s[2]) + (s[1] + s[3])
}

func deviationsSIMD(acc, squared *[lanes]float64, x []float64, mean float64) {
	var a, b, c, d, p, q, r, s archsimd.Float64x4
	m := splat(mean)
	for i := 0; i < len(x); i += lanes {
		u, v := load(x, i).Sub(cst(&m)), load(x, i+4).Sub(cst(&m))
		a, b, p, q = a.Add(u), b.Add(v), u.MulAdd(u, p), v.MulAdd(v, q)
		u, v = load(x, i+8).Sub(cst(&m)), load(x, i+12).Sub(cst(&m))
		c, d, r, s = c.Add(u), d.Add(v), u.MulAdd(u, r), v.MulAdd(v, s)
	}
	a.Store(at(acc[:], 0))
	b.Store(at(acc[:], 4))
	c.Store(at(acc[:], 8))
	d.Store(at(acc[:], 12))
	p.Store(at(squared[:], 0))
	q.Store(at(squared[:], 4))
	r.Store(at(squared[:], 8))
	s.Store(at(squared[:], 12))
	archsimd.ClearAVXUpperBits()
}

func normalizeSIMD(dst, x []float64, shift, scale float64, w, b []float64) {
	n, each := len(x)&^3, -1
	dst = dst[:len(x)]
	s, t := splat(shift), splat(scale)
	f, g := w, b
	if len(w) == 1 {
		v, u := splat(w[0]), splat(b[0])
		f, g, each = v[:], u[:], 0
	} else {
		f, g = w[:len(x)], b[:len(x)]
	}
	for i := 0; i < n; i += 4 {
		load(x, i).Add(cst(&s)).Mul(cst(&t)).Mul(load(f, i&each)).Add(load(g, i&each)).Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
	normalize(dst, x, shift, scale, w, b, n)
}

func dotSIMD(acc *[lanes]float64, x, y []float64) {
	var a, b, c, d archsimd.Float64x4
	for i := 0; i < len(x); i += lanes {
		a, b = load(x, i).MulAdd(load(y, i), a), load(x, i+4).MulAdd(load(y, i+4), b)
		c, d = load(x, i+8).MulAdd(load(y, i+8), c), load(x, i+12).MulAdd(load(y, i+12), d)
	}
	a.Store(at(acc[:], 0))
	b.Store(at(acc[:], 4))
	c.Store(at(acc[:], 8))
	d.Store(at(acc[:], 12))
	archsimd.ClearAVXUpperBits()
}

// maxSIMD is Max of a multiple of sixteen elements. An element that is not
// ordered with itself is looked for beside the maxima, since those forget it.
func maxSIMD(x []float64) float64 {
	lowest := splat(math.Inf(-1))
	a, b, c, d := cst(&lowest), cst(&lowest), cst(&lowest), cst(&lowest)
	nan := 0
	for i := 0; i < len(x); i += lanes {
		p, q, r, s := load(x, i), load(x, i+4), load(x, i+8), load(x, i+12)
		a, b, c, d = a.Max(p), b.Max(q), c.Max(r), d.Max(s)
		nan |= int(p.IsNaN().Or(q.IsNaN()).Or(r.IsNaN()).Or(s.IsNaN()).ToBits())
	}
	var v vector
	a.Max(b).Max(c.Max(d)).Store(&v)
	archsimd.ClearAVXUpperBits()
	if nan != 0 {
		return math.NaN()
	}
	return max(v[0], v[1], v[2], v[3])
}
