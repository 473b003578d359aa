//go:build goexperiment.simd && amd64

package vec

import (
	"math"
	"simd/archsimd"
	"unsafe"
)

// nearSIMD is Near for a multiple of four elements.
func (r Reach) nearSIMD(got, exact, scale []float64, within, beyond *float64, look func(lo, hi int)) Tally {
	const exponent = 0x7ff << 52
	mask, mant := archsimd.BroadcastInt64x4(exponent), archsimd.BroadcastInt64x4(int64(r.Mant)<<52)
	low, high := archsimd.BroadcastInt64x4(int64(r.Low)<<52-1), archsimd.BroadcastInt64x4(int64(r.High)<<52+1)
	mag := archsimd.BroadcastInt64x4(1<<63 - 1)
	ulps, point5 := archsimd.BroadcastFloat64x4(r.ULPs), archsimd.BroadcastFloat64x4(0.5)
	inner, outer := archsimd.BroadcastFloat64x4(*within), archsimd.BroadcastFloat64x4(*beyond)
	factor, constant := archsimd.BroadcastFloat64x4(r.Factor), archsimd.BroadcastFloat64x4(r.Constant)
	finite := -1.0 // the largest distance that may be tallied out of reach: none
	if r.Final {
		finite = math.MaxFloat64
	}
	most := archsimd.BroadcastFloat64x4(finite)
	var up, down, out archsimd.Int64x4
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
		in := d.LessEqual(reach)
		known := in.Or(far.And(d.LessEqual(most)))
		usual := d.LessEqual(half).Or(d.LessEqual(inner.Merge(outer, in).Mul(reach)))
		if e.Greater(low).And(high.Greater(e)).And(known).And(usual).ToBits() != 0xf {
			lookAt(look, i, i+4)
			inner, outer = archsimd.BroadcastFloat64x4(*within), archsimd.BroadcastFloat64x4(*beyond)
			continue
		}
		above := diff.Greater(half).ToInt64x4()
		up, down = up.Sub(above), down.Sub(far.ToInt64x4()).Add(above)
		out = out.Sub(d.Greater(reach).ToInt64x4())
	}
	var u, v, w [4]int64
	up.Store(&u)
	down.Store(&v)
	out.Store(&w)
	archsimd.ClearAVXUpperBits()
	return Tally{Above: int(u[0] + u[1] + u[2] + u[3]), Below: int(v[0] + v[1] + v[2] + v[3]), Out: int(w[0] + w[1] + w[2] + w[3])}
}

// near32SIMD is Near32 for a multiple of eight elements.
func (r Reach) near32SIMD(got, exact []float32, within, beyond *float64, look func(lo, hi int)) Tally {
	const mant, bias = 23, 127
	exponent, mag := archsimd.BroadcastInt32x8(0xff<<mant), archsimd.BroadcastInt32x8(math.MaxInt32)
	inverse := archsimd.BroadcastInt32x8((2*bias+mant)<<mant - 1<<32) // less the exponent field: one over the unit
	low := archsimd.BroadcastInt32x8((mant+1)<<mant - 1)
	ulps, point5 := archsimd.BroadcastFloat32x8(down32(r.ULPs)), archsimd.BroadcastFloat32x8(0.5)
	limits := func() (inner, outer archsimd.Float32x8) {
		i, o := r.limits32(*within, *beyond)
		return archsimd.BroadcastFloat32x8(i), archsimd.BroadcastFloat32x8(o)
	}
	inner, outer := limits()
	var far, down, out archsimd.Int32x8
	p, q := unsafe.Pointer(unsafe.SliceData(got)), unsafe.Pointer(unsafe.SliceData(exact))
	for i := 0; i < len(got); i += 8 {
		x := archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(p, 4*i)))
		y := archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(q, 4*i)))
		e := y.AsInt32x8().And(exponent)
		diff := x.Sub(y)
		d := diff.AsInt32x8().And(mag).AsFloat32x8().Mul(inverse.Sub(e).AsFloat32x8())
		beyondReach := d.Greater(ulps)
		usual := d.LessEqual(inner).Or(beyondReach.And(d.LessEqual(outer)))
		if e.Greater(low).And(usual).Or(x.AsInt32x8().Equal(y.AsInt32x8())).ToBits() != 0xff {
			lookAt(look, i, i+8)
			inner, outer = limits()
			continue
		}
		off := d.Greater(point5).ToInt32x8()
		far, down = far.Sub(off), down.Sub(off.And(diff.AsInt32x8().ShiftAllRight(31)))
		out = out.Sub(beyondReach.ToInt32x8())
	}
	var u, v, w [8]int32
	far.Store(&u)
	down.Store(&v)
	out.Store(&w)
	archsimd.ClearAVXUpperBits()
	var t Tally
	for i := range u {
		t.Above += int(u[i] - v[i])
		t.Below += int(v[i])
		t.Out += int(w[i])
	}
	return t
}

// lookAt hands elements over to scalar code.
//
//go:noinline
func lookAt(look func(lo, hi int), lo, hi int) {
	archsimd.ClearAVXUpperBits()
	look(lo, hi)
}
