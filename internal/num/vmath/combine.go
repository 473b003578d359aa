package vmath

import "math"

// What gradients of normalisations are made of. A number k of the functions that store blocks
// has an element for each of x, or one for all.

// Combine stores x*a + (y-m)*b + c: x*a + c is rounded once, the sum of that and (y-m)*b again.
func Combine(dst, x, a, y, m, b, c []float64) {
	n := 0
	if useSIMD {
		n = len(x) &^ 3
		combineSIMD(dst, x, a, y, m, b, c, n)
	}
	for i := n; i < len(x); i++ {
		d := y[i] - of(m, i)
		dst[i] = math.FMA(d, of(b, i), math.FMA(x[i], of(a, i), of(c, i)))
	}
}

// Magnitudes stores |x|*a + |y-m|*b + c, rounded as Combine does.
func Magnitudes(dst, x, a, y, m, b, c []float64) {
	n := 0
	if useSIMD {
		n = len(x) &^ 3
		magnitudesSIMD(dst, x, a, y, m, b, c, n)
	}
	for i := n; i < len(x); i++ {
		d := math.Abs(y[i] - of(m, i))
		dst[i] = math.FMA(d, of(b, i), math.FMA(math.Abs(x[i]), of(a, i), of(c, i)))
	}
}

// of is k of element i.
func of(k []float64, i int) float64 {
	if len(k) == 1 {
		i = 0
	}
	return k[i]
}

// Projections are the sum of x and that of x*(y-mean), as Sum and Dot give them.
func Projections(x, y []float64, mean float64) (sum, dot float64) {
	if len(x) > sumRun {
		h := (len(x)/2 + sumRun - 1) / sumRun * sumRun
		s, d := Projections(x[:h], y[:h], mean)
		t, e := Projections(x[h:], y[h:], mean)
		return s + t, d + e
	}
	var acc, dots [lanes]float64
	y = y[:len(x)]
	n := len(x) &^ (lanes - 1)
	if useSIMD {
		projectionsSIMD(&acc, &dots, x[:n], y, mean)
	} else {
		for i, v := range x[:n] {
			d := y[i] - mean
			acc[i%lanes] += v
			dots[i%lanes] = math.FMA(v, d, dots[i%lanes])
		}
	}
	for i, v := range x[n:] {
		d := y[n+i] - mean
		acc[i] += v
		dots[i] = math.FMA(v, d, dots[i])
	}
	return total(&acc), total(&dots)
}

// ProjectionMagnitudes are the sums of |x|, |x|*|y-mean| and |x|*|y|, as Sum and Dot give them.
func ProjectionMagnitudes(x, y []float64, mean float64) (sum, apart, whole float64) {
	if len(x) > sumRun {
		h := (len(x)/2 + sumRun - 1) / sumRun * sumRun
		s, a, w := ProjectionMagnitudes(x[:h], y[:h], mean)
		t, b, v := ProjectionMagnitudes(x[h:], y[h:], mean)
		return s + t, a + b, w + v
	}
	var acc, aparts, wholes [lanes]float64
	y = y[:len(x)]
	n := len(x) &^ (lanes - 1)
	if useSIMD {
		projectionMagnitudesSIMD(&acc, &aparts, &wholes, x[:n], y, mean)
	} else {
		for i, v := range x[:n] {
			v, k := math.Abs(v), i%lanes
			acc[k] += v
			aparts[k] = math.FMA(v, math.Abs(y[i]-mean), aparts[k])
			wholes[k] = math.FMA(v, math.Abs(y[i]), wholes[k])
		}
	}
	for i, v := range x[n:] {
		v := math.Abs(v)
		acc[i] += v
		aparts[i] = math.FMA(v, math.Abs(y[n+i]-mean), aparts[i])
		wholes[i] = math.FMA(v, math.Abs(y[n+i]), wholes[i])
	}
	return total(&acc), total(&aparts), total(&wholes)
}
