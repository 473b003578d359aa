package vec

import "math"

// A Reach is how far an element may be from its exact value: ULPs units in the
// last place of a format of Mant explicit mantissa bits, or, for elements that
// are more than half a unit off, Factor times a magnitude of their own and
// Constant beyond that; if it Covers, those that need no more have Factor times
// the magnitude of the exact value instead. It speaks of exact values whose biased float64 exponent
// is from Low to High; for these the unit is a normal float64.
type Reach struct {
	ULPs             float64
	Factor, Constant float64
	Mant             uint
	Low, High        uint64
	Covers           bool // no magnitude is smaller than that of the exact value, which is enough for most
	Final            bool // nothing more is to be known of elements out of reach
}

// A Tally is what Near counts: elements more than half a unit above and below
// their exact values, and those of them that are out of reach.
type Tally struct{ Above, Below, Out int }

// Near tallies the elements of got. Left to look are elements that are not equal
// to what r does not speak of, those out of reach unless r is final, and those more than half a
// unit off and further, by distance over reach, than *within or, if they are out
// of reach, than *beyond: look gets them in order, with some of their
// neighbours, as ranges of indexes of which nothing is counted, and may change
// *within and *beyond. A nil scale stands for magnitudes that are not known: if
// r has a Factor it then gives the reach without them and is not final.
func (r Reach) Near(got, exact, scale []float64, within, beyond *float64, look func(lo, hi int)) (t Tally) {
	r.Final = r.Final && (scale != nil || r.Factor == 0)
	n := 0
	if useSIMD && r.ULPs >= 0.5 {
		n = len(got) &^ 3
		t = r.nearSIMD(got[:n], exact[:n], scale, within, beyond, look)
	}
	tally(r, &t, n, got, exact, scale, within, beyond, look)
	return t
}

// Near32 is Near where both sides are float32, the format that r must be about, or
// bfloat16 or float16 widened to it, and no magnitudes are known.
func (r Reach) Near32(got, exact []float32, within, beyond *float64, look func(lo, hi int)) (t Tally) {
	r.Final = r.Final && r.Factor == 0
	n := 0
	if useSIMD && r.ULPs >= 0.5 && r.ULPs < r.exact32() {
		n = len(got) &^ 7
		t = r.near32SIMD(got[:n], exact[:n], within, beyond, look)
	}
	tally(r, &t, n, got, exact, nil, within, beyond, look)
	return t
}

// exact32 bounds the differences, in units in the last place of one of two
// float32 numbers, that float32 arithmetic surely gives without rounding: the
// numbers are then within a factor of two.
const exact32 = 1 << 21

// exact32 is that in units of r's format.
func (r Reach) exact32() float64 { return math.Ldexp(exact32, int(r.Mant)-23) }

// limits32 are distances in units in the last place of r's format: elements off by
// half a unit to inner are known to be no further off than the furthest within
// reach, those out of reach and up to outer than the furthest out of reach.
func (r Reach) limits32(within, beyond float64) (inner, outer float32) {
	inner = down32(min(max(within*r.ULPs, 0.5), r.ULPs))
	if !r.Final {
		return inner, 0
	}
	outer = down32(min(beyond*r.ULPs, math.MaxFloat32))
	if float64(outer) >= r.exact32() { // distances are rounded there
		outer *= 1 - 0x1p-20
	}
	return inner, outer
}

// down32 is the largest float32 that is at most x, which is not negative.
func down32(x float64) float32 {
	f := float32(x)
	if float64(f) > x {
		f = math.Nextafter32(f, 0)
	}
	return f
}

// tally is Near from element n on.
func tally[T float32 | float64](r Reach, t *Tally, n int, got, exact []T, scale []float64, within, beyond *float64,
	look func(lo, hi int)) {
	exact = exact[:len(got)]
	for i := n; i < len(got); i++ {
		if got[i] == exact[i] {
			continue
		}
		y := float64(exact[i])
		diff := float64(got[i]) - y
		e := math.Float64bits(y) >> 52 & 0x7ff
		unit := math.Float64frombits((e - uint64(r.Mant)) << 52)
		d, reach, half := math.Abs(diff), r.ULPs*unit, unit/2
		far := d > half
		if r.Covers && far && d > reach {
			reach = r.beyond(unit, math.Abs(y))
		}
		if scale != nil && far && d > reach {
			reach = r.beyond(unit, scale[i])
		}
		in, limit := d <= reach, *within
		if !in {
			limit = *beyond
		}
		if e < r.Low || e > r.High || !in && !(r.Final && far && d <= math.MaxFloat64) || far && d > limit*reach {
			look(i, i+1)
			continue
		}
		if diff > half {
			t.Above++
		}
		if diff < -half {
			t.Below++
		}
		if !in {
			t.Out++
		}
	}
}

// beyond is the reach that a magnitude gives.
func (r *Reach) beyond(unit, magnitude float64) float64 {
	reach, more := r.ULPs*unit, r.Factor*magnitude
	reach += more
	return reach + r.Constant
}
