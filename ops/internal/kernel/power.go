package kernel

import "math"

// ln2 in two parts; the first times an exponent is exact.
const (
	ln2High = 0x1.62e42fefa38p-1
	ln2Low  = 0x1.ef35793c7673p-45
)

// Pow is x**y to about a unit in the last place, two where math.Exp finds no fused
// multiplication. math.Pow multiplies powers of x, each product rounded, and loses
// some bits for exponents beyond a few.
func Pow(x, y float64) float64 {
	a := math.Abs(x)
	if y == 3 && a > 0x1p-300 && a < 0x1p300 {
		return x * x * x
	}
	whole := y == math.Trunc(y)
	if y == 1 || y == 2 || y == -1 || !(a >= 0x1p-1022 && a <= math.MaxFloat64) || x < 0 && !whole ||
		!(math.Abs(y) <= 1e18) {
		return math.Pow(x, y)
	}
	hi, lo := logTwice(a)
	p := y * hi
	// the latter are whole numbers
	if !(math.Abs(p) < 708) || whole && x == math.Trunc(x) && p >= 0 && p < 53*math.Ln2 {
		return math.Pow(x, y)
	}
	e := math.Exp(p)
	e += e * (math.FMA(y, hi, -p) + y*lo)
	if x < 0 && math.Mod(y, 2) != 0 {
		return -e
	}
	return e
}

// PowBlock stores x**p for every x of src in dst, to about two units in the last
// place. Multiples of a quarter up to 4 are products and square roots.
func PowBlock(dst, src []float64, p float64) {
	quarters := int(4 * math.Abs(p))
	if quarters > 16 || float64(quarters) != 4*math.Abs(p) {
		for i, x := range src {
			dst[i] = math.Pow(x, p)
		}
		return
	}
	for i, x := range src {
		if a := math.Abs(x); !(a > 0x1p-200 && a < 0x1p200) || x < 0 && quarters%4 != 0 {
			dst[i] = math.Pow(x, p)
			continue
		}
		y := 1.0
		for range quarters / 4 {
			y *= x
		}
		if quarters%4 != 0 {
			root := math.Sqrt(x)
			if quarters&2 != 0 {
				y *= root
			}
			if quarters&1 != 0 {
				y *= math.Sqrt(root)
			}
		}
		if p < 0 {
			y = 1 / y
		}
		dst[i] = y
	}
}

// logTwice is the natural logarithm of a normal positive number as a sum of two,
// with about 2^-70 of relative error: 2*atanh(s), s = (m-1)/(m+1), whose first
// terms are added in twice the precision.
func logTwice(x float64) (hi, lo float64) {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	f, d := m-1, m+1
	lost := m - (d - 1) // of d
	s := f / d
	t := (math.FMA(-s, d, f) - s*lost) / d // f/(m+1) = s + t
	q := s * s
	qt := math.FMA(s, s, -q) + 2*s*t
	// s^3/3 in two parts, the rest of the series in one.
	c := s * q
	ct := math.FMA(s, q, -c) + s*qt + t*q
	third := c / 3
	rest := (math.FMA(-third, 3, c) + ct) / 3
	tail := 0.0
	for k := 25; k >= 5; k -= 2 {
		tail = math.FMA(tail, q, 1/float64(k))
	}
	fifth := c * q
	n := float64(e)
	hi, lo = twoSum(n*ln2High, 2*s)
	h, l := twoSum(hi, 2*third)
	lo += l + n*ln2Low + 2*(t+rest+fifth*tail)
	return twoSum(h, lo)
}
