//go:build goexperiment.simd && amd64 && !go1.27

package bench

import "simd/archsimd"

// multiplyAdd multiplies and adds in twelve registers, so many times each, and returns how many
// operations that was.
func multiplyAdd(times int) int {
	if archsimd.X86.AVX512() {
		x := archsimd.BroadcastFloat64x8(1)
		var s [12]archsimd.Float64x8
		a, b, c, d, e, f, g, h, i, j, k, l := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11]
		for range times {
			a, b, c, d = a.MulAdd(x, x), b.MulAdd(x, x), c.MulAdd(x, x), d.MulAdd(x, x)
			e, f, g, h = e.MulAdd(x, x), f.MulAdd(x, x), g.MulAdd(x, x), h.MulAdd(x, x)
			i, j, k, l = i.MulAdd(x, x), j.MulAdd(x, x), k.MulAdd(x, x), l.MulAdd(x, x)
		}
		a.Add(b).Add(c.Add(d)).Add(e.Add(f).Add(g.Add(h))).Add(i.Add(j).Add(k.Add(l))).Store(&kept)
		return 2 * 12 * 8 * times
	}
	x := archsimd.BroadcastFloat64x4(1)
	var s [12]archsimd.Float64x4
	a, b, c, d, e, f, g, h, i, j, k, l := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11]
	for range times {
		a, b, c, d = a.MulAdd(x, x), b.MulAdd(x, x), c.MulAdd(x, x), d.MulAdd(x, x)
		e, f, g, h = e.MulAdd(x, x), f.MulAdd(x, x), g.MulAdd(x, x), h.MulAdd(x, x)
		i, j, k, l = i.MulAdd(x, x), j.MulAdd(x, x), k.MulAdd(x, x), l.MulAdd(x, x)
	}
	a.Add(b).Add(c.Add(d)).Add(e.Add(f).Add(g.Add(h))).Add(i.Add(j).Add(k.Add(l))).Store((*[4]float64)(kept[:4]))
	return 2 * 12 * 4 * times
}

// kept keeps the sums from being left out.
var kept [8]float64
