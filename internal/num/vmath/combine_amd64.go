//go:build goexperiment.simd && amd64 && !go1.27

package vmath

import "simd/archsimd"

// A number that a loop takes for element i from element i&each of v.
type number struct {
	v    []float64
	each int
}

// numberOf is v, of n elements or one for all, which one is made of.
func numberOf(one *vector, v []float64, n int) number {
	if len(v) == 1 {
		*one = splat(v[0])
		return number{one[:], 0}
	}
	return number{v[:n], -1}
}

func (k *number) at(i int) archsimd.Float64x4 { return load(k.v, i&k.each) }

func combineSIMD(dst, x, a, y, m, b, c []float64, n int) {
	var one [4]vector
	f, g, h, k := numberOf(&one[0], a, n), numberOf(&one[1], m, n), numberOf(&one[2], b, n), numberOf(&one[3], c, n)
	dst, x, y = dst[:n], x[:n], y[:n]
	for i := 0; i < n; i += 4 {
		d := load(y, i).Sub(g.at(i))
		d.MulAdd(h.at(i), load(x, i).MulAdd(f.at(i), k.at(i))).Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
}

func magnitudesSIMD(dst, x, a, y, m, b, c []float64, n int) {
	var one [4]vector
	f, g, h, k := numberOf(&one[0], a, n), numberOf(&one[1], m, n), numberOf(&one[2], b, n), numberOf(&one[3], c, n)
	dst, x, y = dst[:n], x[:n], y[:n]
	for i := 0; i < n; i += 4 {
		d := abs(load(y, i).Sub(g.at(i)))
		d.MulAdd(h.at(i), abs(load(x, i)).MulAdd(f.at(i), k.at(i))).Store(at(dst, i))
	}
	archsimd.ClearAVXUpperBits()
}

func projectionsSIMD(acc, dots *[lanes]float64, x, y []float64, mean float64) {
	var a, b, c, d, p, q, r, s archsimd.Float64x4
	m := splat(mean)
	for i := 0; i < len(x); i += lanes {
		u, v := load(x, i), load(x, i+4)
		a, b = a.Add(u), b.Add(v)
		p, q = u.MulAdd(load(y, i).Sub(cst(&m)), p), v.MulAdd(load(y, i+4).Sub(cst(&m)), q)
		u, v = load(x, i+8), load(x, i+12)
		c, d = c.Add(u), d.Add(v)
		r, s = u.MulAdd(load(y, i+8).Sub(cst(&m)), r), v.MulAdd(load(y, i+12).Sub(cst(&m)), s)
	}
	a.Store(at(acc[:], 0))
	b.Store(at(acc[:], 4))
	c.Store(at(acc[:], 8))
	d.Store(at(acc[:], 12))
	p.Store(at(dots[:], 0))
	q.Store(at(dots[:], 4))
	r.Store(at(dots[:], 8))
	s.Store(at(dots[:], 12))
	archsimd.ClearAVXUpperBits()
}

func projectionMagnitudesSIMD(acc, aparts, wholes *[lanes]float64, x, y []float64, mean float64) {
	m := splat(mean)
	for half := 0; half < lanes; half += 8 { // of the accumulators: all do not fit in the registers
		var a, b, p, q, r, s archsimd.Float64x4
		for i := half; i < len(x); i += lanes {
			u, v, y0, y1 := abs(load(x, i)), abs(load(x, i+4)), load(y, i), load(y, i+4)
			a, b = a.Add(u), b.Add(v)
			p, q = u.MulAdd(abs(y0.Sub(cst(&m))), p), v.MulAdd(abs(y1.Sub(cst(&m))), q)
			r, s = u.MulAdd(abs(y0), r), v.MulAdd(abs(y1), s)
		}
		a.Store(at(acc[:], half))
		b.Store(at(acc[:], half+4))
		p.Store(at(aparts[:], half))
		q.Store(at(aparts[:], half+4))
		r.Store(at(wholes[:], half))
		s.Store(at(wholes[:], half+4))
	}
	archsimd.ClearAVXUpperBits()
}
