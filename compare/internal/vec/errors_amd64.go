//go:build goexperiment.simd && amd64 && !go1.27

package vec

import (
	"math"
	"simd/archsimd"
	"unsafe"
)

// errorsSIMD stores the errors of a multiple of four elements in lanes, those of element i in that of i modulo 4.
func (p Precision) errorsSIMD(got, exact, near []float64, lanes *[errorLanes]Errors) {
	sign, magnitude := archsimd.BroadcastInt64x4(math.MinInt64), archsimd.BroadcastInt64x4(math.MaxInt64)
	most, one := archsimd.BroadcastFloat64x4(math.MaxFloat64), archsimd.BroadcastFloat64x4(1)
	least, top := archsimd.BroadcastFloat64x4(p.Least), archsimd.BroadcastFloat64x4(p.Top)
	exponent := archsimd.BroadcastInt64x4(0x7ff << 52)
	inverse := archsimd.BroadcastInt64x4((2046 + int64(p.Mant)) << 52)
	var zero, n, inexact, toward, below, beyond archsimd.Int64x4
	var r2, r4, rd, r3d, r2d2, r, d, d2, away, up, ulp2 archsimd.Float64x4
	g, e, q := unsafe.Pointer(unsafe.SliceData(got)), unsafe.Pointer(unsafe.SliceData(exact)),
		unsafe.Pointer(unsafe.SliceData(near))
	for i := 0; i < len(got); i += 4 {
		x := archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(g, 8*i)))
		y := archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(e, 8*i)))
		z := archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(q, 8*i)))
		size, diff := y.AsInt64x4().And(magnitude).AsFloat64x4(), x.Sub(z)
		counts := diff.AsInt64x4().And(magnitude).AsFloat64x4().LessEqual(most).And(size.GreaterEqual(least))
		mask := counts.ToInt64x4()
		n = n.Sub(mask)
		v, w := y.AsInt64x4().And(mask).AsFloat64x4(), diff.AsInt64x4().And(mask).AsFloat64x4()
		v2, vw := v.Mul(v), v.Mul(w)
		r2, r4, rd = r2.Add(v2), r4.Add(v2.Mul(v2)), rd.Add(vw)
		r3d, r2d2 = r3d.Add(v2.Mul(vw)), r2d2.Add(vw.Mul(vw))
		r, d, d2 = r.Add(v), d.Add(w), d2.Add(w.Mul(w))

		rounded := counts.And(size.Less(top)).And(z.NotEqual(y)).ToInt64x4()
		perUnit := inverse.Sub(y.AsInt64x4().And(exponent)).And(rounded).AsFloat64x4()
		negative := y.AsInt64x4().And(sign)
		t := x.Sub(y).AsInt64x4().And(rounded).AsFloat64x4().Mul(perUnit)
		side := t.AsInt64x4()
		inexact = inexact.Sub(rounded)
		up = up.Add(w.Mul(perUnit))
		away = away.Add(w.AsInt64x4().Xor(negative).AsFloat64x4().Mul(perUnit))
		ulp2 = ulp2.Add(t.Mul(t))
		below = below.Sub(zero.Greater(side).ToInt64x4())
		toward = toward.Sub(zero.Greater(side.Xor(negative).And(rounded)).ToInt64x4())
		beyond = beyond.Sub(side.And(magnitude).AsFloat64x4().GreaterEqual(one).ToInt64x4())
	}
	var counts [5][errorLanes]int64
	for k, c := range []archsimd.Int64x4{n, inexact, toward, below, beyond} {
		c.Store(&counts[k])
	}
	var sums [11][errorLanes]float64
	for k, s := range []archsimd.Float64x4{r2, r4, rd, r3d, r2d2, r, d, d2, away, up, ulp2} {
		s.Store(&sums[k])
	}
	archsimd.ClearAVXUpperBits()
	for k := range lanes {
		lanes[k] = Errors{N: int(counts[0][k]), Inexact: int(counts[1][k]),
			Toward: int(counts[2][k]), Below: int(counts[3][k]), Beyond: int(counts[4][k]),
			R2: sums[0][k], R4: sums[1][k], RD: sums[2][k], R3D: sums[3][k], R2D2: sums[4][k],
			R: sums[5][k], D: sums[6][k], D2: sums[7][k], Away: sums[8][k], Up: sums[9][k], ULP2: sums[10][k]}
	}
}
