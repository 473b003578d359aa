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
}

// Near counts how many elements of got are more than half a unit above, and
// how many below, the exact values. Elements that r does not speak of, that are
// out of reach, or that are more than half a unit off and further, by distance
// over reach, than *worst, are left to look: it gets them in order, with some of
// their neighbours, as ranges of indexes of which nothing is counted, and may
// change *worst. A nil scale stands for a reach of ULPs alone.
func (r Reach) Near(got, exact, scale []float64, worst *float64, look func(lo, hi int)) (above, below int) {
	exact = exact[:len(got)]
	n := 0
	if useSIMD {
		n = len(got) &^ 3
		above, below = r.nearSIMD(got[:n], exact[:n], scale, worst, look)
	}
	for i := n; i < len(got); i++ {
		y := exact[i]
		diff := got[i] - y
		e := math.Float64bits(y) >> 52 & 0x7ff
		unit := math.Float64frombits((e - uint64(r.Mant)) << 52)
		d, reach, half := math.Abs(diff), r.ULPs*unit, unit/2
		if scale != nil && d > reach && d > half {
			more := r.Factor * scale[i]
			reach += more
			reach += r.Constant
		}
		if e < r.Low || e > r.High || !(d <= reach) || d > half && d > *worst*reach {
			look(i, i+1)
			continue
		}
		if diff > half {
			above++
		}
		if diff < -half {
			below++
		}
	}
	return above, below
}
