//go:build !(goexperiment.simd && amd64 && !go1.27)

package bench

import "math"

// multiplyAdd multiplies and adds in eight registers, so many times each, and returns how many
// operations that was.
func multiplyAdd(times int) int {
	var a, b, c, d, e, f, g, h float64
	for range times {
		a, b, c, d = math.FMA(a, 1, 1), math.FMA(b, 1, 1), math.FMA(c, 1, 1), math.FMA(d, 1, 1)
		e, f, g, h = math.FMA(e, 1, 1), math.FMA(f, 1, 1), math.FMA(g, 1, 1), math.FMA(h, 1, 1)
	}
	kept[0] = a + b + c + d + e + f + g + h
	return 2 * 8 * times
}

// kept keeps the sums from being left out.
var kept [8]float64
