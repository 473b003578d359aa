package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
)

// A rangeReduction is how an element is brought into a small range, in which kernels approximate a function by a
// polynomial: the function is plus + times * p(at).
type rangeReduction struct {
	text string // "2^n * p(f), where n is the whole part of %s/ln 2 and f the rest"
	of   func(x float64) (plus, times, at float64)
}

// powersOf are reductions of an exponential: of a whole part and a rest of x*k.
func powersOf(name string, k float64, whole func(float64) float64, part string) rangeReduction {
	return rangeReduction{fmt.Sprintf("2^n * p(f), where n is %s part of %s and f the rest", part, name),
		func(x float64) (float64, float64, float64) {
			n := whole(x * k)
			return 0, math.Exp2(n), x*k - n
		}}
}

// mantissa is a positive number as m*b^n with m from 1 to below b, which is 2 or 4; NaN of others.
func mantissa(x float64, b int) (m float64, n int) {
	if !(x > 0) || math.IsInf(x, 0) {
		return math.NaN(), 0
	}
	f, e := math.Frexp(x)
	f, e = 2*f, e-1
	if b == 4 && e&1 != 0 {
		return 2 * f, (e - 1) / 2
	} else if b == 4 {
		return f, e / 2
	}
	return f, e
}

var rangeReductions = []rangeReduction{
	powersOf("%s/ln 2", math.Log2E, math.Floor, "the whole"), powersOf("%s", 1, math.Floor, "the whole"),
	powersOf("%s/ln 2", math.Log2E, math.RoundToEven, "the nearest whole"),
	powersOf("%s", 1, math.RoundToEven, "the nearest whole"),
	{"n*ln 2 + p(m), where %s is m*2^n", func(x float64) (float64, float64, float64) {
		m, n := mantissa(x, 2)
		return float64(n) * math.Ln2, 1, m
	}},
	{"n + p(m), where %s is m*2^n", func(x float64) (float64, float64, float64) {
		m, n := mantissa(x, 2)
		return float64(n), 1, m
	}},
	{"2^-n * p(m), where %s is m*2^n", func(x float64) (float64, float64, float64) {
		m, n := mantissa(math.Abs(x), 2)
		return 0, math.Copysign(math.Ldexp(1, -n), x), m
	}},
	{"2^n * p(m), where %s is m*4^n", func(x float64) (float64, float64, float64) {
		m, n := mantissa(x, 4)
		return 0, math.Ldexp(1, n), m
	}},
	{"2^-n * p(m), where %s is m*4^n", func(x float64) (float64, float64, float64) {
		m, n := mantissa(x, 4)
		return 0, math.Ldexp(1, -n), m
	}},
	{"%s * p(%s^2)", func(x float64) (float64, float64, float64) { return 0, x, x * x }},
	{"p(%s)", func(x float64) (float64, float64, float64) { return 0, 1, x }},
	{"r * p(r^2), where r is the rest of %s by 2 pi", func(x float64) (float64, float64, float64) {
		r := math.Remainder(x, 2*math.Pi)
		return 0, r, r * r
	}},
	{"p(r^2), where r is the rest of %s by 2 pi", func(x float64) (float64, float64, float64) {
		r := math.Remainder(x, 2*math.Pi)
		return 0, 1, r * r
	}},
}

// mostDegree is that of a polynomial that is fitted.
const mostDegree = 5

// polynomials are results of one operand, element for element, of which a polynomial of a low degree approximates the
// function, after its range is reduced. One of that degree does not approximate the function itself as well as what was
// recorded: the errors are those of an approximation.
func (c *Search) polynomials(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		e := c.ofElements(&fails[0])
		if e == nil || e.up != nil || !e.got.DType.IsFloat() || !e.want.DType.IsFloat() {
			return
		}
		for _, of := range c.pairs(e) {
			if len(of) != 1 {
				continue
			}
			x := of[0]
			var v elementwise
			if c.Guard(func() error { v = e.sampled(x.t, x.t, nil); return nil }) != nil {
				continue
			}
			if !approximates(v.got, v.want) {
				return
			}
			near, farther := 4*e.got.DType.Eps(), 8.0
			if e.got.DType.IsReduced() {
				near, farther = e.got.DType.Eps(), 2
			}
			for _, r := range rangeReductions {
				for degree := 1; degree <= mostDegree; degree++ {
					c.Work.Elements((degree + 2) * len(v.x))
					p := fitted(v.x, v.got, r, degree)
					if p == nil || p.off(v.x, v.got, r, near) {
						continue
					}
					if q := fitted(v.x, v.want, r, degree); q == nil || !q.off(v.x, v.want, r, farther*near) {
						break // as good for the function
					}
					f := func(x, _ float64) float64 { return p.of(x, r) }
					text := "it is computed as " + strings.ReplaceAll(r.text, "%s", x.text) +
						fmt.Sprintf(": p is a polynomial of degree %d, %s", degree, p)
					if !yield(Mistake{Text: text, Rounds: true, Numbers: true, OnlyHere: true,
						Cost: float64(degree+1) * -math.Log2(e.got.DType.Eps()),
						Make: c.altering(e.made(f, x.t, x.t, nil))}) {
						return
					}
					break
				}
			}
		}
	}
}

// approximates reports whether elements are nearly those that are due, all but few.
func approximates(got, want []float64) bool {
	off := 0
	for i := range got {
		off += btoi(!(math.Abs(got[i]-want[i]) <= coarse*math.Abs(want[i])))
	}
	return 20*off <= len(got)
}

// A polynomial has the coefficients of its powers.
type polynomial []float64

func (p polynomial) at(x float64) (sum float64) {
	for _, k := range slices.Backward(p) {
		sum = sum*x + k
	}
	return sum
}

func (p polynomial) of(x float64, r rangeReduction) float64 {
	plus, times, at := r.of(x)
	return plus + times*p.at(at)
}

func (p polynomial) String() string {
	text := fmt.Sprintf("about %.5g", p[0])
	for i, k := range p[1:] {
		text += fmt.Sprintf(" %s %.5g*x", []string{"+", "-"}[btoi(k < 0)], math.Abs(k)) +
			cond(i > 0, fmt.Sprintf("^%d", i+1))
	}
	return text
}

// off reports whether some elements are not what the polynomial makes of them, by more than so much of them.
func (p polynomial) off(x, y []float64, r rangeReduction, near float64) bool {
	off := 0
	for i := range x {
		z := p.of(x[i], r)
		off += btoi(!alike(y[i], z) && !(math.Abs(y[i]-z) <= near*math.Abs(z)))
	}
	return 50*off > len(x)
}

// fitted is the polynomial of a degree that is nearest to elements, relative to these; nil if there are too few of
// them.
func fitted(x, y []float64, r rangeReduction, degree int) polynomial {
	n := degree + 1
	a := make([][]float64, n)
	for i := range a {
		a[i] = make([]float64, n+1)
	}
	rows := 0
	power := make([]float64, n)
	lo, hi := math.Inf(1), math.Inf(-1)
	for i := range x {
		plus, times, at := r.of(x[i])
		left := (y[i] - plus) / times
		if math.IsNaN(left-at) || math.IsInf(left-at, 0) || y[i] == 0 {
			continue
		}
		rows++
		lo, hi = min(lo, at), max(hi, at)
		weight := math.Abs(times / y[i])
		for j := range power {
			if power[j] = weight; j > 0 {
				power[j] = power[j-1] * at
			}
		}
		for j := range power {
			for k := range power {
				a[j][k] += power[j] * power[k]
			}
			a[j][n] += power[j] * left * weight
		}
	}
	if rows < 3*n+8 || 20*rows < 19*len(x) || !(hi > lo) {
		return nil
	}
	for j := range a { // elimination, with the largest element first
		most := j
		for k := j + 1; k < n; k++ {
			if math.Abs(a[k][j]) > math.Abs(a[most][j]) {
				most = k
			}
		}
		if a[j], a[most] = a[most], a[j]; a[j][j] == 0 {
			return nil
		}
		for k := range a {
			if k == j {
				continue
			}
			f := a[k][j] / a[j][j]
			for l := j; l <= n; l++ {
				a[k][l] -= f * a[j][l]
			}
		}
	}
	p := make(polynomial, n)
	for j := range p {
		p[j] = a[j][n] / a[j][j]
	}
	return p
}
