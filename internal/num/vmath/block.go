package vmath

import "math"

// Exp stores e^x.
func Exp(dst, src []float64) {
	if useSIMD {
		expSIMD(dst, src)
		return
	}
	each(dst, src, exp)
}

// Expm1 stores e^x - 1.
func Expm1(dst, src []float64) {
	if useSIMD {
		expm1SIMD(dst, src)
		return
	}
	each(dst, src, expm1)
}

// Log stores the natural logarithm.
func Log(dst, src []float64) {
	if useSIMD {
		logSIMD(dst, src)
		return
	}
	each(dst, src, log)
}

// Log1p stores ln(1 + x).
func Log1p(dst, src []float64) {
	if useSIMD {
		log1pSIMD(dst, src)
		return
	}
	each(dst, src, log1p)
}

// Tanh stores the hyperbolic tangent.
func Tanh(dst, src []float64) {
	if useSIMD {
		tanhSIMD(dst, src)
		return
	}
	each(dst, src, tanh)
}

// Sigmoid stores 1 / (1 + e^-x).
func Sigmoid(dst, src []float64) {
	if useSIMD {
		sigmoidSIMD(dst, src)
		return
	}
	each(dst, src, sigmoid)
}

// SiLU stores x / (1 + e^-x).
func SiLU(dst, src []float64) {
	if useSIMD {
		siluSIMD(dst, src)
		return
	}
	each(dst, src, silu)
}

// SiLUSlope stores the derivative of SiLU, s (1 + x (1-s)) with s the sigmoid of x.
func SiLUSlope(dst, src []float64) {
	if useSIMD {
		siluSlopeSIMD(dst, src)
		return
	}
	each(dst, src, siluSlope)
}

// Erf stores the error function.
func Erf(dst, src []float64) {
	if useSIMD {
		erfSIMD(dst, src)
		return
	}
	each(dst, src, erf)
}

// Erfc stores 1 - erf(x), accurate also where it is small.
func Erfc(dst, src []float64) {
	if useSIMD {
		erfcSIMD(dst, src)
		return
	}
	each(dst, src, erfc)
}

// GELU stores x times the distribution function of the normal distribution.
func GELU(dst, src []float64) {
	if useSIMD {
		geluSIMD(dst, src)
		return
	}
	each(dst, src, gelu)
}

// GELUTanh stores GELU's approximation with tanh,
// x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2.
func GELUTanh(dst, src []float64) {
	if useSIMD {
		geluTanhSIMD(dst, src)
		return
	}
	each(dst, src, geluTanh)
}

// GELUSlope stores the derivative of GELU, Phi(x) + x phi(x).
func GELUSlope(dst, src []float64) {
	if useSIMD {
		geluSlopeSIMD(dst, src)
		return
	}
	each(dst, src, geluSlope)
}

// GELUSlopeSize stores the sum of the magnitudes that GELUSlope is made of where its exponential
// has an error of its argument's size: Phi(|x|) + |x| (1 + x^2) phi(x).
func GELUSlopeSize(dst, src []float64) {
	if useSIMD {
		geluSlopeSizeSIMD(dst, src)
		return
	}
	each(dst, src, geluSlopeSize)
}

func each(dst, src []float64, f func(float64) float64) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = f(x)
	}
}

// Sqrt stores the square root.
func Sqrt(dst, src []float64) {
	if useSIMD {
		sqrtSIMD(dst, src)
		return
	}
	each(dst, src, math.Sqrt)
}

// Abs stores the magnitude.
func Abs(dst, src []float64) {
	if useSIMD {
		absSIMD(dst, src)
		return
	}
	each(dst, src, math.Abs)
}

// Add stores x + y.
func Add(dst, x, y []float64) {
	if useSIMD {
		addSIMD(dst, x, y)
		return
	}
	dst, y = dst[:len(x)], y[:len(x)]
	for i, v := range x {
		dst[i] = v + y[i]
	}
}

// Sub stores x - y.
func Sub(dst, x, y []float64) {
	if useSIMD {
		subSIMD(dst, x, y)
		return
	}
	dst, y = dst[:len(x)], y[:len(x)]
	for i, v := range x {
		dst[i] = v - y[i]
	}
}

// Mul stores x * y.
func Mul(dst, x, y []float64) {
	if useSIMD {
		mulSIMD(dst, x, y)
		return
	}
	dst, y = dst[:len(x)], y[:len(x)]
	for i, v := range x {
		dst[i] = v * y[i]
	}
}

// Div stores x / y.
func Div(dst, x, y []float64) {
	if useSIMD {
		divSIMD(dst, x, y)
		return
	}
	dst, y = dst[:len(x)], y[:len(x)]
	for i, v := range x {
		dst[i] = v / y[i]
	}
}

// Affine stores (x + shift) * scale, each step rounded.
func Affine(dst, x []float64, shift, scale float64) {
	if useSIMD {
		affineSIMD(dst, x, shift, scale)
		return
	}
	dst = dst[:len(x)]
	for i, v := range x {
		s := v + shift
		dst[i] = s * scale
	}
}

// Scale stores x * k.
func Scale(dst, x []float64, k float64) { Affine(dst, x, math.Copysign(0, -1), k) }

// Normalize stores (x + shift) * scale * w + b, each step rounded; w and b have
// an element for each of x, or one for all.
func Normalize(dst, x []float64, shift, scale float64, w, b []float64) {
	if useSIMD {
		normalizeSIMD(dst, x, shift, scale, w, b)
		return
	}
	normalize(dst, x, shift, scale, w, b, 0)
}

// normalize is Normalize from element i on.
func normalize(dst, x []float64, shift, scale float64, w, b []float64, i int) {
	for each := len(w) > 1; i < len(x); i++ {
		j := 0
		if each {
			j = i
		}
		s := x[i] + shift
		s *= scale
		s *= w[j]
		dst[i] = s + b[j]
	}
}

// Axpy adds a*x to dst, product and sum rounded.
func Axpy(dst []float64, a float64, x []float64) {
	if useSIMD {
		axpySIMD(dst, a, x)
		return
	}
	dst = dst[:len(x)]
	for i, v := range x {
		p := a * v
		dst[i] += p
	}
}

// Blend stores a*x + b*y, each step rounded.
func Blend(dst []float64, a float64, x []float64, b float64, y []float64) {
	n := 0
	if useSIMD {
		n = len(x) &^ 3
		blendSIMD(dst, a, x, b, y, n)
	}
	for i := n; i < len(x); i++ {
		p, q := a*x[i], b*y[i]
		dst[i] = p + q
	}
}

// lanes is the number of accumulators of a run of sumRun elements in Sum and
// Dot.
const (
	lanes  = 16
	sumRun = 128
)

// Sum adds x in a fixed order: runs of 128 elements with sixteen accumulators,
// runs pairwise.
func Sum(x []float64) float64 {
	if len(x) > sumRun {
		h := (len(x)/2 + sumRun - 1) / sumRun * sumRun
		return Sum(x[:h]) + Sum(x[h:])
	}
	var acc [lanes]float64
	n := len(x) &^ (lanes - 1)
	if useSIMD {
		sumSIMD(&acc, x[:n])
	} else {
		for i, v := range x[:n] {
			acc[i%lanes] += v
		}
	}
	for i, v := range x[n:] {
		acc[i] += v
	}
	return total(&acc)
}

// SumColumns adds to each element of dst the Sum of a column of x, whose rows have as many
// elements as dst and follow each other.
func SumColumns(dst, x []float64) {
	sums := make([]float64, len(dst))
	sumColumns(sums, x)
	Add(dst, dst, sums)
}

// sumColumns stores the sums of the columns of x in dst.
func sumColumns(dst, x []float64) {
	width := len(dst)
	if width == 0 {
		return
	}
	n := len(x) / width
	if n > sumRun {
		h := (n/2 + sumRun - 1) / sumRun * sumRun
		rest := make([]float64, width)
		sumColumns(dst, x[:h*width])
		sumColumns(rest, x[h*width:])
		Add(dst, dst, rest)
		return
	}
	const strip = 64 // columns whose accumulators stay in the level 1 cache
	var acc [lanes * strip]float64
	for from := 0; from < width; from += strip {
		w := min(strip, width-from)
		clear(acc[:])
		for i := range n {
			a := acc[i%lanes*strip:][:w]
			Add(a, a, x[i*width+from:][:w])
		}
		for half := lanes / 2; half > 0; half /= 2 { // total of each column
			Add(acc[:half*strip], acc[:half*strip], acc[half*strip:][:half*strip])
		}
		copy(dst[from:from+w], acc[:w])
	}
}

// Dot adds the products of x and y in Sum's order; products are not rounded
// before they are added.
func Dot(x, y []float64) float64 {
	if len(x) > sumRun {
		h := (len(x)/2 + sumRun - 1) / sumRun * sumRun
		return Dot(x[:h], y[:h]) + Dot(x[h:], y[h:])
	}
	var acc [lanes]float64
	y = y[:len(x)]
	n := len(x) &^ (lanes - 1)
	if useSIMD {
		dotSIMD(&acc, x[:n], y)
	} else {
		for i, v := range x[:n] {
			acc[i%lanes] = math.FMA(v, y[i], acc[i%lanes])
		}
	}
	for i, v := range x[n:] {
		acc[i] = math.FMA(v, y[n+i], acc[i])
	}
	return total(&acc)
}

// Deviations are the sum and the sum of the squares of x - mean, as Sum and Dot
// give them.
func Deviations(x []float64, mean float64) (sum, squares float64) {
	if len(x) > sumRun {
		h := (len(x)/2 + sumRun - 1) / sumRun * sumRun
		s, q := Deviations(x[:h], mean)
		t, r := Deviations(x[h:], mean)
		return s + t, q + r
	}
	var acc, squared [lanes]float64
	n := len(x) &^ (lanes - 1)
	if useSIMD {
		deviationsSIMD(&acc, &squared, x[:n], mean)
	} else {
		for i, v := range x[:n] {
			d := v - mean
			acc[i%lanes] += d
			squared[i%lanes] = math.FMA(d, d, squared[i%lanes])
		}
	}
	for i, v := range x[n:] {
		d := v - mean
		acc[i] += d
		squared[i] = math.FMA(d, d, squared[i])
	}
	return total(&acc), total(&squared)
}

func total(acc *[lanes]float64) float64 {
	if useSIMD {
		return totalSIMD(acc)
	}
	for w := lanes / 2; w > 0; w /= 2 {
		for i := range w {
			acc[i] += acc[i+w]
		}
	}
	return acc[0]
}

// Max is the largest element of x, NaN if any is NaN, -Inf of none.
func Max(x []float64) float64 {
	m := math.Inf(-1)
	if useSIMD {
		n := len(x) &^ (lanes - 1)
		m = maxSIMD(x[:n])
		x = x[n:]
	}
	for _, v := range x {
		m = max(m, v)
	}
	return m
}
