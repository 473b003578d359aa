package vec

import (
	"cmp"
	"math"
)

// A Reach is how far an element may be from its exact value: ULPs units in the last place of a format of Mant explicit
// mantissa bits. An element more than half a unit off may be off by Factor times a magnitude, plus Constant, beyond
// that. The magnitude is a number of the element's own (see Near). With Covers it is the exact value itself wherever
// that suffices.
//
// A Reach speaks of exact values whose biased float64 exponent is from Low to High: there a unit is a normal float64.
// With Gradual it also speaks of zero and of smaller values. Their unit is that of Low.
type Reach struct {
	ULPs             float64
	Factor, Constant float64
	Mant             uint
	Low, High        uint64
	Gradual          bool // Low is the exponent of the smallest normal number
	Covers           bool // no magnitude is smaller than that of the exact value, which is enough for most
	Final            bool // nothing more is to be known of elements out of reach
}

// A Tally is what Near counts: elements more than half a unit above or below their exact values, and those of them that
// are out of reach.
type Tally struct{ Above, Below, Out int }

// Near tallies the elements of got. It calls look for what it cannot decide or what may be the furthest so far:
//
//   - elements that r does not speak of and that are not equal,
//   - elements out of reach, unless r is final,
//   - elements more than half a unit off whose distance over reach is more than *within, or, out of reach, more than
//     *beyond.
//
// look gets ranges of indexes in order, with some neighbours. Near counts none of their elements. look may change
// *within and *beyond. Without a scale the magnitudes are not known. If r has a Factor then, the reach is the one
// without magnitudes, and r is not final.
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

// Near32 is Near for float32 on both sides, or bfloat16 and float16 widened to it. r must be about the format, and no
// magnitudes are known.
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

// exact32 bounds differences of two float32 numbers, in units in the last place of one of them. Below it the numbers
// are within a factor of two, so float32 arithmetic gives the difference without rounding.
const exact32 = 1 << 21

// exact32 is the same bound in units of r's format.
func (r Reach) exact32() float64 { return math.Ldexp(exact32, int(r.Mant)-23) }

// limits32 are two distances, in parts of a unit in the last place of r's format. They hold for distances that were
// computed without rounding. An element off by half a unit to inner is no further off than the furthest one within
// reach. An element out of reach and off by up to outer is no further off than the furthest one out of reach.
func (r Reach) limits32(within, beyond, part float64) (inner, outer float32) {
	inner = down32(min(max(within*r.ULPs, 0.5), r.ULPs) * part)
	if r.Final {
		outer = down32(min(beyond*r.ULPs*part, math.MaxFloat32))
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

// floor is the smallest exponent with a unit of its own: smaller values have the same unit.
func (r *Reach) floor() uint64 {
	if r.Gradual {
		return r.Low
	}
	return 0
}

// hopeless reports whether infinite and NaN elements need no look: the furthest one out of reach is already infinitely
// far off.
func (r *Reach) hopeless(beyond float64) bool { return r.Final && math.IsInf(beyond, 1) }

// lost reports whether an element is infinitely far off whatever the reach: one side is NaN, the exact value is
// infinite, or the element is infinite where the exact value is less than half of the format's range.
func (r *Reach) lost(x, y float64) bool {
	e := math.Float64bits(y) >> 52 & 0x7ff
	return x != x || e == 0x7ff || math.IsInf(x, 0) && r.Factor == 0 && r.ULPs < r.exact32() && e+1 < r.High
}

// tally is Near from element n on.
func tally[T float32 | float64](r Reach, t *Tally, n int, got, exact []T, scale []float64, within, beyond *float64,
	look func(lo, hi int)) {
	exact = exact[:len(got)]
	floor, low := r.floor(), r.Low
	if r.Gradual {
		low = 0
	}
	for i := n; i < len(got); i++ {
		x, y := float64(got[i]), float64(exact[i])
		if x == y || x != x && y != y {
			continue
		}
		diff := x - y
		e := max(math.Float64bits(y)>>52&0x7ff, floor)
		if !(math.Abs(diff) <= math.MaxFloat64) && e >= low && r.hopeless(*beyond) && r.lost(x, y) {
			t.Above += above(x, y)
			t.Below += above(y, x)
			t.Out++
			continue
		}
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
		if e < low || e > r.High || !in && !(r.Final && far && d <= math.MaxFloat64) || far && d > limit*reach {
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

// above is 1 if x is more than y.
func above[T cmp.Ordered](x, y T) int {
	if x > y {
		return 1
	}
	return 0
}

// beyond is the reach that a magnitude gives.
func (r *Reach) beyond(unit, magnitude float64) float64 {
	reach, more := r.ULPs*unit, r.Factor*magnitude
	reach += more
	return reach + r.Constant
}
