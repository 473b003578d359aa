package vec

import "math"

// A Reach is how far an element may be from its exact value: ULPs units in the
// last place of a format of Mant explicit mantissa bits, or, for elements that
// are more than half a unit off, Factor times a magnitude of their own and
// Constant beyond that. It speaks of exact values whose biased float64 exponent
// is from Low to High; for these the unit is a normal float64.
type Reach struct {
	ULPs             float64
	Factor, Constant float64
	Mant             uint
	Low, High        uint64
	Final            bool // nothing more is to be known of elements out of reach
}

// A Tally is what Near counts: elements more than half a unit above and below
// their exact values, and those of them that are out of reach.
type Tally struct{ Above, Below, Out int }

// Near tallies the elements of got. Left to look are elements that r does not
// speak of, those out of reach unless r is final, and those more than half a
// unit off and further, by distance over reach, than *within or, if they are out
// of reach, than *beyond: look gets them in order, with some of their
// neighbours, as ranges of indexes of which nothing is counted, and may change
// *within and *beyond. A nil scale stands for magnitudes that are not known: if
// r has a Factor it then gives the reach of ULPs alone and is not final.
func (r Reach) Near(got, exact, scale []float64, within, beyond *float64, look func(lo, hi int)) (t Tally) {
	exact = exact[:len(got)]
	r.Final = r.Final && (scale != nil || r.Factor == 0)
	n := 0
	if useSIMD {
		n = len(got) &^ 3
		t = r.nearSIMD(got[:n], exact[:n], scale, within, beyond, look)
	}
	for i := n; i < len(got); i++ {
		y := exact[i]
		diff := got[i] - y
		e := math.Float64bits(y) >> 52 & 0x7ff
		unit := math.Float64frombits((e - uint64(r.Mant)) << 52)
		d, reach, half := math.Abs(diff), r.ULPs*unit, unit/2
		far := d > half
		if scale != nil && far && d > reach {
			more := r.Factor * scale[i]
			reach += more
			reach += r.Constant
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
	return t
}
