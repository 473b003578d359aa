package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// approximated are results of one operand, element for element, that are an approximation of a function, or the
// product of the operand and one. A gradient is the incoming one times the derivative of that.
func (c *Search) approximated(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		e := c.ofElements(&fails[0])
		if e == nil || !e.got.DType.IsFloat() || e.up == nil && len(c.operands()) != 1 ||
			e.up != nil && !slices.Equal(c.Incoming[0].Shape, e.got.Shape) {
			return
		}
		for _, of := range c.pairs(e) {
			if len(of) != 1 {
				continue
			}
			x := of[0]
			if x.text == theResult { // the slope of a function of the result is no gradient of the operand
				continue
			}
			var v elementwise
			if c.Guard(func() error { v = e.sampled(x.t, x.t, nil); return nil }) != nil {
				continue
			}
			all, size := approximations(), largest(v.got)/8 // where terms cancel
			c.Work.Elements(tried * len(all))
			as := func(f func(x float64) float64) func(x, _ float64) float64 {
				if e.up != nil {
					return func(x, _ float64) float64 { return opdef.Slope(f, x) }
				}
				return func(x, _ float64) float64 { return f(x) }
			}
			fits := func(f func(x, _ float64) float64) bool {
				return v.nearly(f, e.got.DType, approximate(e.got.DType), size)
			}
			for _, a := range all {
				f := as(a.f)
				text := "it is computed by " + fmt.Sprintf(a.text, x.text)
				// What the function itself explains as well shows no approximation.
				if fits(f) && !(a.of != nil && fits(as(a.of))) && !yield(Mistake{Text: text, Rounds: true,
					Like: "approximation", Unfitted: true, Numbers: true,
					Make: c.altering(e.made(f, x.t, x.t, nil))}) {
					return
				}
			}
		}
	}
}

// approximate is the relative error up to which elements of a dtype may be those of an approximation.
func approximate(dt tensor.DType) float64 {
	if dt.IsReduced() {
		return dt.Eps()
	}
	return 16 * dt.Eps()
}

// An approximation is a function in place of another one, nil if that is not known.
type approximation struct {
	function
	of func(x float64) float64
}

// approximations are those of functions of one number that kernels are made of, and their products with the number.
func approximations() (out []approximation) {
	var of func(x float64) float64
	add := func(text string, f func(x float64) float64) { out = append(out, approximation{function{text, f}, of}) }
	series := func(name string, function func(x float64) float64, term func(n int) float64, from, to int) {
		of = function
		for most := from; most <= to; most++ {
			if term(most) != 0 {
				add(fmt.Sprintf("the series of %s up to the power %d of %%s", name, most), func(x float64) float64 {
					sum := 0.0
					for n := most; n >= 0; n-- {
						sum = sum*x + term(n)
					}
					return sum
				})
			}
		}
	}
	series("the exponential", math.Exp, inverseFactorial, 1, 12)
	times := func(signs ...float64) func(n int) float64 {
		return func(n int) float64 { return inverseFactorial(n) * signs[n%4] }
	}
	series("exp(x) - 1", math.Expm1, func(n int) float64 { return inverseFactorial(n) * float64(btoi(n > 0)) }, 2, 12)
	series("the sine", math.Sin, times(0, 1, 0, -1), 2, 13)
	series("the cosine", math.Cos, times(1, 0, -1, 0), 2, 12)
	series("log(1 + x)", math.Log1p, func(n int) float64 {
		return float64(btoi(n > 0)) * float64(1-2*btoi(n%2 == 0)) / float64(max(n, 1))
	}, 1, 12)
	of = math.Exp
	for n := 2; n <= 1<<16; n *= 2 {
		add(fmt.Sprintf("(1 + %%s/%d)^%d", n, n), func(x float64) float64 {
			return math.Pow(single(1+x/float64(n)), float64(n))
		})
	}
	for steps := range 4 {
		text := fmt.Sprintf("%d of Newton's steps from the number 0x5f3759df", steps)
		of = func(x float64) float64 { return 1 / math.Sqrt(x) }
		add("the reciprocal square root of %s by "+text, func(x float64) float64 { return newton(x, steps) })
		of = math.Sqrt
		add("the square root of %s by "+text, func(x float64) float64 { return x * newton(x, steps) })
	}
	of = nil // nobody takes the rest for the function itself
	sigmoids := []function{
		{"0.5 + 0.5*%[1]s/(1 + abs(%[1]s))", func(x float64) float64 { return 0.5 + 0.5*x/(1+math.Abs(x)) }},
		{"the quotient (27 + x^2)*x/(27 + 9*x^2) for tanh in the sigmoid of %[1]s", func(x float64) float64 {
			return 0.5 + 0.5*quotientOfTanh(x/2)
		}},
	}
	for _, k := range []float64{1. / 6, 0.2, 0.25} {
		sigmoids = append(sigmoids, function{fmt.Sprintf("%.4g*%%[1]s + 0.5, limited to 0 to 1,", k),
			func(x float64) float64 { return min(max(k*x+0.5, 0), 1) }})
	}
	for _, s := range sigmoids {
		add(s.text, s.f)
		add("%[1]s times "+s.text, func(x float64) float64 { return x * s.f(x) })
	}
	add("(27 + x^2)*x/(27 + 9*x^2) with x = %s", quotientOfTanh)
	add("(15 + x^2)*x/(15 + 6*x^2) with x = %s", func(x float64) float64 { return x * (15 + x*x) / (15 + 6*x*x) })
	add("%s/(1 + abs(%[1]s))", func(x float64) float64 { return x / (1 + math.Abs(x)) })
	add("%s/(1 + 0.28*%[1]s^2)", func(x float64) float64 { return x / (1 + 0.28*x*x) })
	return out
}

func inverseFactorial(n int) float64 { return 1 / math.Gamma(float64(n+1)) }

func quotientOfTanh(x float64) float64 { return x * (27 + x*x) / (27 + 9*x*x) }

// newton is the reciprocal square root of a float32 number after so many steps from what its bits give.
func newton(x float64, steps int) float64 {
	y := float64(math.Float32frombits(0x5f3759df - math.Float32bits(float32(x))>>1))
	for range steps {
		y *= 1.5 - 0.5*x*y*y
	}
	return y
}
