package vec

import "math"

// A Precision says how the errors of a format are measured. It covers exact values from Least to below Top: smaller
// ones have too few digits. Their unit in the last place is that of Mant explicit mantissa bits.
type Precision struct {
	Least, Top float64
	Mant       uint
}

// Errors are sums over elements. R is the value of the format that is nearest to the exact one, D the difference of the
// recorded value from R.
type Errors struct {
	N                     int     // elements whose exact value is at least Least, the differences finite
	R2, R4, RD, R3D, R2D2 float64 // products of powers of exact values and differences
	R, D, D2              float64

	// Inexact elements have an exact value below Top that is no value of the format. Away, Up and ULP2 sum their
	// errors in units in the last place: Away is positive for a magnitude that is too large, Up for a value that is
	// too large, ULP2 has the squares of the differences from the exact value. Toward counts those that lie toward
	// zero, Below those that are too small, Beyond those that are off by 1 unit or more.
	Inexact               int
	Away, Up, ULP2        float64
	Toward, Below, Beyond int
}

// Add adds the sums of other elements.
func (s *Errors) Add(t *Errors) {
	s.N += t.N
	s.R2 += t.R2
	s.R4 += t.R4
	s.RD += t.RD
	s.R3D += t.R3D
	s.R2D2 += t.R2D2
	s.R += t.R
	s.D += t.D
	s.D2 += t.D2
	s.Inexact += t.Inexact
	s.Away += t.Away
	s.Up += t.Up
	s.ULP2 += t.ULP2
	s.Toward += t.Toward
	s.Below += t.Below
	s.Beyond += t.Beyond
}

// errorLanes is the number of partial sums, each of every fourth element. Errors adds them up at the end, with and
// without vector instructions.
const errorLanes = 4

// Errors sums up the errors of the recorded values got. near are the values of the format that are nearest to exact.
func (p Precision) Errors(got, exact, near []float64) (s Errors) {
	var lanes [errorLanes]Errors
	n := 0
	if useSIMD {
		n = len(got) &^ (errorLanes - 1)
		p.errorsSIMD(got[:n], exact[:n], near[:n], &lanes)
	}
	for i := n; i < len(got); i++ {
		p.add(&lanes[i%errorLanes], got[i], exact[i], near[i])
	}
	for k := range lanes {
		s.Add(&lanes[k])
	}
	return s
}

// add takes one element. Signs are counted by their bits: they are as good as random, so that branches would take
// longer than the sums.
func (p Precision) add(s *Errors, got, exact, near float64) {
	const sign = 1 << 63
	d, size := got-near, math.Abs(exact)
	if !(math.Abs(d) <= math.MaxFloat64) || size < p.Least { // below, intermediate results lose bits
		return
	}
	s.N++
	r2, rd := exact*exact, exact*d
	s.R2 += r2
	s.R4 += float64(r2 * r2)
	s.RD += rd
	s.R3D += float64(r2 * rd)
	s.R2D2 += float64(rd * rd)
	s.R += exact
	s.D += d
	s.D2 += float64(d * d)
	if size >= p.Top || near == exact {
		return
	}
	exponent := math.Float64bits(exact) >> 52 & 0x7ff
	perUnit := math.Float64frombits((2046 + uint64(p.Mant) - exponent) << 52) // exact, of a power of 2
	t := (got - exact) * perUnit
	negative, side := math.Float64bits(exact)&sign, math.Float64bits(t)
	s.Inexact++
	s.Up += float64(d * perUnit)
	s.Away += float64(math.Float64frombits(math.Float64bits(d)^negative) * perUnit)
	s.ULP2 += float64(t * t)
	s.Below += int(side >> 63)
	s.Toward += int((side ^ negative) >> 63)
	if math.Abs(t) >= 1 {
		s.Beyond++
	}
}
