//go:build goexperiment.simd && amd64

package vec

import (
	"simd/archsimd"
	"unsafe"
)

// nearSIMD is Near for a multiple of four elements.
func (r Reach) nearSIMD(got, exact, scale []float64, worst *float64, look func(lo, hi int)) (above, below int) {
	const exponent = 0x7ff << 52
	mask, mant := archsimd.BroadcastInt64x4(exponent), archsimd.BroadcastInt64x4(int64(r.Mant)<<52)
	low, high := archsimd.BroadcastInt64x4(int64(r.Low)<<52-1), archsimd.BroadcastInt64x4(int64(r.High)<<52+1)
	mag := archsimd.BroadcastInt64x4(1<<63 - 1)
	ulps, point5, limit := archsimd.BroadcastFloat64x4(r.ULPs), archsimd.BroadcastFloat64x4(0.5), archsimd.BroadcastFloat64x4(*worst)
	factor, constant := archsimd.BroadcastFloat64x4(r.Factor), archsimd.BroadcastFloat64x4(r.Constant)
	var up, down archsimd.Int64x4
	magnitude := unsafe.Pointer(unsafe.SliceData(scale))
	p, q := unsafe.Pointer(unsafe.SliceData(got)), unsafe.Pointer(unsafe.SliceData(exact))
	for i := 0; i < len(got); i += 4 {
		x := archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(p, 8*i)))
		y := archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(q, 8*i)))
		diff := x.Sub(y)
		e := y.AsInt64x4().And(mask)
		unit := e.Sub(mant).AsFloat64x4()
		d, reach, half := diff.AsInt64x4().And(mag).AsFloat64x4(), unit.Mul(ulps), unit.Mul(point5)
		far := d.Greater(half)
		if magnitude != nil {
			m := archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(magnitude, 8*i)))
			wide := reach.Add(m.Mul(factor)).Add(constant)
			reach = wide.Merge(reach, far.And(d.Greater(reach)))
		}
		good := e.Greater(low).And(high.Greater(e)).And(d.LessEqual(reach)).And(d.LessEqual(half).Or(d.LessEqual(reach.Mul(limit))))
		if good.ToBits() != 0xf {
			lookAt(look, i)
			limit = archsimd.BroadcastFloat64x4(*worst)
			continue
		}
		above := diff.Greater(half).ToInt64x4()
		up, down = up.Sub(above), down.Sub(far.ToInt64x4()).Add(above)
	}
	var u, v [4]int64
	up.Store(&u)
	down.Store(&v)
	archsimd.ClearAVXUpperBits()
	return int(u[0] + u[1] + u[2] + u[3]), int(v[0] + v[1] + v[2] + v[3])
}

// lookAt hands four elements over to scalar code.
//
//go:noinline
func lookAt(look func(lo, hi int), i int) {
	archsimd.ClearAVXUpperBits()
	look(i, i+4)
}
