//go:build goexperiment.simd && amd64 && !go1.27

package vec

import (
	"math"
	"simd/archsimd"
	"unsafe"
)

// tile is the number of elements that are tallied before it is asked whether any
// of them is to be looked at; then those of the same part of the tile are
// tallied one by one.
const (
	tile = 128
	part = 16
)

// A tally64 is what the loops of Near work with that most vectors need no more than: elements off by half a unit
// or by no more than the furthest within reach.
type tally64 struct {
	exponent, magnitude uint64
	least               float64 // what the unit of lesser exact values follows from
	low, high           float64 // least and largest power of 2 that the loop speaks of
	mant                uint64
	inner, ulps         float64 // in units
	within              float64
	factor, constant    float64
	far, above          [4]int64
}

// usual tallies elements from i on, in vectors of four, up to the first vector that is to be looked at more closely,
// whose place it returns.
func (k *tally64) usual(got, exact []float64, i int) int {
	exponent, magnitude := archsimd.BroadcastUint64x4(k.exponent), archsimd.BroadcastUint64x4(k.magnitude)
	mant, least := archsimd.BroadcastUint64x4(k.mant), archsimd.BroadcastFloat64x4(k.least)
	low, high := archsimd.BroadcastFloat64x4(k.low), archsimd.BroadcastFloat64x4(k.high)
	inner, point5 := archsimd.BroadcastFloat64x4(k.inner), archsimd.BroadcastFloat64x4(0.5)
	far, above := archsimd.LoadInt64x4(&k.far), archsimd.LoadInt64x4(&k.above)
	p, q := unsafe.Pointer(unsafe.SliceData(got)), unsafe.Pointer(unsafe.SliceData(exact))
	for ; i < len(got); i += 4 {
		x := archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(p, 8*i)))
		y := archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(q, 8*i)))
		diff := x.Sub(y)
		e := y.AsUint64x4().And(exponent).AsFloat64x4().Max(least)
		unit := e.AsUint64x4().Sub(mant).AsFloat64x4()
		d := diff.AsUint64x4().And(magnitude).AsFloat64x4()
		near := d.LessEqual(unit.Mul(inner))
		spoken := e.GreaterEqual(low).And(e.LessEqual(high))
		if near.And(spoken).Or(x.Equal(y)).ToBits() != 0xf {
			break
		}
		half := unit.Mul(point5)
		far, above = far.Sub(d.Greater(half).ToInt64x4()), above.Sub(diff.Greater(half).ToInt64x4())
	}
	far.Store(&k.far)
	above.Store(&k.above)
	archsimd.ClearAVXUpperBits()
	return i
}

// covered is usual where the reach may be that of an element's own magnitude. Which elements need that is as good as
// random: branches would take longer. It is another loop because all it works with does not fit in the registers.
func (k *tally64) covered(got, exact []float64, i int) int {
	exponent, magnitude := archsimd.BroadcastUint64x4(k.exponent), archsimd.BroadcastUint64x4(k.magnitude)
	mant, least := archsimd.BroadcastUint64x4(k.mant), archsimd.BroadcastFloat64x4(k.least)
	low, high := archsimd.BroadcastFloat64x4(k.low), archsimd.BroadcastFloat64x4(k.high)
	inner, point5 := archsimd.BroadcastFloat64x4(k.inner), archsimd.BroadcastFloat64x4(0.5)
	ulps, within := archsimd.BroadcastFloat64x4(k.ulps), archsimd.BroadcastFloat64x4(k.within)
	factor, constant := archsimd.BroadcastFloat64x4(k.factor), archsimd.BroadcastFloat64x4(k.constant)
	far, above := archsimd.LoadInt64x4(&k.far), archsimd.LoadInt64x4(&k.above)
	p, q := unsafe.Pointer(unsafe.SliceData(got)), unsafe.Pointer(unsafe.SliceData(exact))
	for ; i < len(got); i += 4 {
		x := archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(p, 8*i)))
		y := archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(q, 8*i)))
		diff := x.Sub(y)
		e := y.AsUint64x4().And(exponent).AsFloat64x4().Max(least)
		unit := e.AsUint64x4().Sub(mant).AsFloat64x4()
		d := diff.AsUint64x4().And(magnitude).AsFloat64x4()
		short := unit.Mul(ulps)
		reach := short.Add(y.AsUint64x4().And(magnitude).AsFloat64x4().Mul(factor)).Add(constant)
		near := d.LessEqual(unit.Mul(inner)).Or(d.Greater(short).And(d.LessEqual(reach.Mul(within))))
		spoken := e.GreaterEqual(low).And(e.LessEqual(high))
		if near.And(spoken).Or(x.Equal(y)).ToBits() != 0xf {
			break
		}
		half := unit.Mul(point5)
		far, above = far.Sub(d.Greater(half).ToInt64x4()), above.Sub(diff.Greater(half).ToInt64x4())
	}
	far.Store(&k.far)
	above.Store(&k.above)
	archsimd.ClearAVXUpperBits()
	return i
}

// nearSIMD is Near for a multiple of four elements and a reach of at least half
// a unit, which elements out of reach are then beyond.
func (r Reach) nearSIMD(got, exact, scale []float64, within, beyond *float64, look func(lo, hi int)) (t Tally) {
	power := func(exponent uint64) float64 { return math.Float64frombits(exponent << 52) }
	least, low := max(r.floor(), uint64(r.Mant)+2), r.Low // half a unit is a normal number
	if !r.Gradual {
		low = max(low, least+1)
	}
	k := tally64{exponent: 0x7ff << 52, magnitude: math.MaxInt64, mant: uint64(r.Mant) << 52, least: power(least),
		low: power(low), high: power(r.High), ulps: r.ULPs, factor: r.Factor, constant: r.Constant}
	usual := k.usual
	if r.Covers && scale == nil {
		usual = k.covered
	}
	for i, run := 0, 4; ; {
		k.within = min(*within, 1)
		k.inner = max(k.within*r.ULPs, 0.5)
		next := usual(got, exact, i)
		if next == len(got) {
			break
		}
		if scale == nil && next-i >= part {
			run = 4
		} else { // the more there are to be looked at, the more at once; magnitudes were asked for where there are many
			run *= 2
		}
		i = min(next+run, len(got))
		r.nearVectors(&t, got[:i], exact[:i], scale, next, within, beyond, look)
	}
	for i, n := range k.above {
		t.Above += int(n)
		t.Below += int(k.far[i] - n)
	}
	return t
}

// nearVectors tallies the vectors from start on that may hold elements to be looked at.
func (r Reach) nearVectors(t *Tally, got, exact, scale []float64, start int, within, beyond *float64,
	look func(lo, hi int)) {
	const exponent = 0x7ff << 52
	mask, mant := archsimd.BroadcastInt64x4(exponent), archsimd.BroadcastInt64x4(int64(r.Mant)<<52)
	floor, high := archsimd.BroadcastInt64x4(int64(r.floor())<<52), archsimd.BroadcastInt64x4(int64(r.High)<<52+1)
	low := archsimd.BroadcastInt64x4(int64(r.Low)<<52 - 1)
	mag := archsimd.BroadcastInt64x4(1<<63 - 1)
	ulps, point5 := archsimd.BroadcastFloat64x4(r.ULPs), archsimd.BroadcastFloat64x4(0.5)
	limits := func() (inner, outer archsimd.Float64x4) {
		if !r.Final { // nothing out of reach is within a negative limit
			return archsimd.BroadcastFloat64x4(*within), archsimd.BroadcastFloat64x4(-1)
		}
		return archsimd.BroadcastFloat64x4(*within), archsimd.BroadcastFloat64x4(*beyond)
	}
	inner, outer := limits()
	factor, constant := archsimd.BroadcastFloat64x4(r.Factor), archsimd.BroadcastFloat64x4(r.Constant)
	most := archsimd.BroadcastFloat64x4(math.MaxFloat64)
	var up, down, out archsimd.Int64x4
	magnitude := unsafe.Pointer(unsafe.SliceData(scale))
	p, q := unsafe.Pointer(unsafe.SliceData(got)), unsafe.Pointer(unsafe.SliceData(exact))
	for i := start; i < len(got); i += 4 {
		x := archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(p, 8*i)))
		y := archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(q, 8*i)))
		diff := x.Sub(y)
		e := y.AsInt64x4().And(mask)
		e = e.Merge(floor, e.Greater(floor))
		spoken := e.Greater(low).And(high.Greater(e))
		e = e.Merge(mask.Sub(mant), spoken) // equal elements need some unit
		unit := e.Sub(mant).AsFloat64x4()
		d, reach, half := diff.AsInt64x4().And(mag).AsFloat64x4(), unit.Mul(ulps), unit.Mul(point5)
		far := d.Greater(half)
		short := reach
		if r.Covers {
			m := y.AsInt64x4().And(mag).AsFloat64x4()
			reach = short.Add(m.Mul(factor)).Add(constant).Merge(reach, far.And(d.Greater(reach)))
		}
		if magnitude != nil {
			m := archsimd.LoadFloat64x4((*[4]float64)(unsafe.Add(magnitude, 8*i)))
			reach = short.Add(m.Mul(factor)).Add(constant).Merge(reach, far.And(d.Greater(reach)))
		}
		in := d.LessEqual(reach)
		usual := d.LessEqual(half).Or(d.LessEqual(inner.Merge(outer, in).Mul(reach).Min(most)))
		if spoken.And(usual).Or(x.Equal(y)).ToBits() != 0xf {
			lookAt(look, i, i+4)
			inner, outer = limits()
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
	for i := range u {
		t.Above += int(u[i])
		t.Below += int(v[i])
		t.Out += int(w[i])
	}
}

// A tally32 is what the vector loop of Near32 works with. Distances are in units
// in the last place of the exact value times 2^(1-Mant), so that one over the unit
// is a number for every exponent but that of zeros and subnormals, where it is
// infinite.
type tally32 struct {
	half, ulps, inner [8]float32
	outer             [8]float32 // also of distances that are rounded
	exact             [8]float32 // outer of those that are not
	outermost         [8]float32 // the same times tiny, of distances that are no float32
	far, above, out   [8]int32
	low               [8]int32 // exponent bits below those that r speaks of
	floor             [8]int32 // the least exponent bits that a unit follows from
	most              [8]int32 // exponent bits below which all exact values are far from infinity
	hopeless          bool     // see Reach.hopeless
}

// tiny makes a float32 of every distance.
const tiny = 0x1p-129

// roundedTo is what rounding makes of a distance at most.
const roundedTo = 1 + 0x1p-20

func (r Reach) near32SIMD(got, exact []float32, within, beyond *float64, look func(lo, hi int)) (t Tally) {
	var k tally32
	unit := math.Ldexp(2, -int(r.Mant))
	set := func(v *[8]float32, x float32) {
		for i := range v {
			v[i] = x
		}
	}
	ulps := down32(r.ULPs * unit)
	limits := func() {
		inner, full := r.limits32(*within, *beyond, unit)
		outer := full
		if float64(full) >= r.exact32()*unit { // distances are rounded there
			outer = full / roundedTo
		}
		if inner == ulps { // the common case once an element was out of reach: one limit
			inner = max(inner, outer)
		}
		set(&k.inner, inner)
		set(&k.outer, outer)
		set(&k.exact, full)
		_, outermost := r.limits32(*within, *beyond, unit*tiny)
		set(&k.outermost, outermost)
		k.hopeless = r.hopeless(*beyond)
	}
	for i := range k.low {
		k.low[i] = max(int32(r.Low)-1023+127, 1)<<23 - 1
		if r.Gradual {
			k.floor[i] = k.low[i] + 1
		}
		k.most[i] = (int32(r.High) - 1023 + 127 - 1) << 23
	}
	set(&k.half, float32(0.5*unit))
	set(&k.ulps, ulps)
	limits()
	for i := 0; i < len(got); i += tile {
		end := min(i+tile, len(got))
		if k.add(got[i:end], exact[i:end]) {
			continue
		}
		for j := i; j < end; j += part {
			to := min(j+part, end)
			if !k.add(got[j:to], exact[j:to]) {
				tally(r, &t, j, got[:to], exact[:to], nil, within, beyond, look)
				limits()
			}
		}
	}
	for i := range k.far {
		t.Above += int(k.above[i])
		t.Below += int(k.far[i] - k.above[i])
		t.Out += int(k.out[i])
	}
	return t
}

// add tallies a multiple of eight elements unless one of them is to be looked at.
// Most vectors pass a few tests; of the others it is asked whether they are as far off
// as the furthest, equal and NaN, or lost where that is hopeless.
func (k *tally32) add(got, exact []float32) bool {
	exponent, mag := archsimd.BroadcastInt32x8(0xff<<23), archsimd.BroadcastInt32x8(math.MaxInt32)
	half, ulps := archsimd.LoadFloat32x8(&k.half), archsimd.LoadFloat32x8(&k.ulps)
	inner, outer := archsimd.LoadFloat32x8(&k.inner), archsimd.LoadFloat32x8(&k.outer)
	low, floor := archsimd.LoadInt32x8(&k.low), archsimd.LoadInt32x8(&k.floor)
	far, above, out := archsimd.LoadInt32x8(&k.far), archsimd.LoadInt32x8(&k.above), archsimd.LoadInt32x8(&k.out)
	p, q := unsafe.Pointer(unsafe.SliceData(got)), unsafe.Pointer(unsafe.SliceData(exact))
	for i := 0; i < len(got); i += 8 {
		x := archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(p, 4*i)))
		y := archsimd.LoadFloat32x8((*[8]float32)(unsafe.Add(q, 4*i)))
		e := y.AsInt32x8().And(exponent).Max(floor)
		inverse, diff := exponent.Sub(e).AsFloat32x8(), x.Sub(y)
		u := diff.Mul(inverse)
		d := u.AsInt32x8().And(mag).AsFloat32x8()
		beyondReach, spoken := d.Greater(ulps), e.Greater(low)
		near := d.LessEqual(inner).Or(beyondReach.And(d.LessEqual(outer)))
		if near.And(spoken).Or(x.Equal(y)).ToBits() != 0xff {
			same := x.Equal(y).Or(x.NotEqual(x).And(y.NotEqual(y)))
			infinite := d.Equal(exponent.AsFloat32x8())
			if k.hopeless {
				none := u.NotEqual(u) // one side NaN, or y infinite
				differ := none.ToInt32x8().AndNot(same.ToInt32x8())
				more, less := x.Greater(y).ToInt32x8().And(differ), x.Less(y).ToInt32x8().And(differ)
				near = near.Or(none).Or(infinite.And(archsimd.LoadInt32x8(&k.most).Greater(e)))
				far, above, out = far.Sub(more).Sub(less), above.Sub(more), out.Sub(differ)
			}
			if near.And(spoken).Or(same).ToBits() != 0xff {
				one, more := archsimd.BroadcastFloat32x8(1), archsimd.BroadcastFloat32x8(roundedTo*roundedTo)
				rounding := one.Merge(more, x.Sub(diff).Equal(y).And(diff.Add(y).Equal(x)))
				// Subnormal factors are slow.
				little := inverse.Max(archsimd.BroadcastFloat32x8(16)).Mul(archsimd.BroadcastFloat32x8(tiny))
				large := diff.Mul(little).AsInt32x8().And(mag).AsFloat32x8()
				near = near.Or(beyondReach.And(d.Mul(rounding).LessEqual(archsimd.LoadFloat32x8(&k.exact)))).
					Or(infinite.And(large.Mul(rounding).LessEqual(archsimd.LoadFloat32x8(&k.outermost))))
				if near.And(spoken).Or(same).ToBits() != 0xff {
					archsimd.ClearAVXUpperBits()
					return false
				}
			}
		}
		far, above = far.Sub(d.Greater(half).ToInt32x8()), above.Sub(u.Greater(half).ToInt32x8())
		out = out.Sub(beyondReach.ToInt32x8())
	}
	far.Store(&k.far)
	above.Store(&k.above)
	out.Store(&k.out)
	archsimd.ClearAVXUpperBits()
	return true
}

// lookAt hands elements over to scalar code.
//
//go:noinline
func lookAt(look func(lo, hi int), lo, hi int) {
	archsimd.ClearAVXUpperBits()
	look(lo, hi)
}
