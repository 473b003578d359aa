package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// tried is at how many elements terms are looked at, about.
const tried = 4

// termed are values that lack a term, or have one too many: a number times a function of one operand, or the product of
// two. A gradient's term is multiplied by the incoming one.
func (c *Search) termed(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		e := c.expressible(fails)
		if e == nil || !e.got.DType.IsFloat() {
			return
		}
		n := 0
		for _, of := range c.pairs(e) {
			var v elementwise
			x, y := of[0], of[len(of)-1]
			if c.Guard(func() error { v = e.sampled(x.t, y.t, nil); return nil }) != nil {
				continue
			}
			for _, term := range terms(of) {
				n++
				k, ok := v.missing(term.f, e.got.DType)
				if !ok {
					continue
				}
				add := func(due, t float64) float64 { return due + k*t }
				if !yield(Mistake{Text: e.termText(k, term.text()), Rounds: true, OnlyHere: true,
					Cost: digits(k) + math.Log2(float64(n)), Make: c.altering(e.adding(term.f, add, x.t, y.t))}) {
					return
				}
			}
			c.Work.Elements(tried * n)
		}
	}
}

// terms are what may be missing of an operand, or of two.
func terms(of []knownValue) (out []expression) {
	fs := functions(exactly)
	fs = append(fs, function{"(%s) * exp(-square(%[1]s) / 2)", func(x float64) float64 { return x * math.Exp(-x*x/2) }},
		function{"exp(-square(%s))", func(x float64) float64 { return math.Exp(-x * x) }},
		function{"log(1 + %s)", math.Log1p}, function{"log(1 + exp(-abs(%s)))", func(x float64) float64 {
			return math.Log1p(math.Exp(-math.Abs(x)))
		}})
	for i, k := range of {
		for _, f := range fs {
			out = append(out, expression{func() string { return fmt.Sprintf(f.text, k.text) },
				func(x, y float64) float64 { return f.f([]float64{x, y}[i]) }})
		}
	}
	if len(of) == 2 {
		x, y := bracketed(of[0].text), bracketed(of[1].text)
		out = append(out, expression{func() string { return x + " * " + y },
			func(x, y float64) float64 { return x * y }},
			expression{func() string { return x + " * log(" + of[1].text + ")" },
				func(x, y float64) float64 { return x * math.Log(y) }},
			expression{func() string { return y + " * log(" + of[0].text + ")" },
				func(x, y float64) float64 { return y * math.Log(x) }},
			expression{func() string { return "square(" + x + " - " + y + ")" },
				func(x, y float64) float64 { return (x - y) * (x - y) }})
	}
	return out
}

// termNumbers are the numbers that a term is multiplied by.
var termNumbers = []float64{1, -1, 0.5, -0.5, 2, -2, 1/math.Sqrt(2*math.Pi) - 1, 1 - 1/math.Sqrt(2*math.Pi)}

// missing is the number, one of few, times which a term is the difference of what was recorded and what is due, as
// far as rounding lets tell; false if it is none.
func (v *elementwise) missing(f func(x, y float64) float64, dt tensor.DType) (k float64, ok bool) {
	var up, down float64
	for i := range v.got {
		t := f(v.x[i], v.y[i])
		if v.up != nil {
			t *= v.up[i]
		}
		if e := v.got[i] - v.want[i]; !math.IsNaN(e*t) && !math.IsInf(e*t, 0) {
			up, down = up+e*t, down+t*t
		}
	}
	fitted := up / down
	i := slices.IndexFunc(termNumbers, func(k float64) bool { return math.Abs(fitted/k-1) < max(1e-4, dt.Eps()) })
	if i < 0 {
		return 0, false
	}
	k = termNumbers[i]
	right, wrong := 0, 0
	for i, got := range v.got {
		t := k * f(v.x[i], v.y[i])
		if v.up != nil {
			t *= v.up[i]
		}
		near := 4 * dt.Eps() * max(math.Abs(got), math.Abs(v.want[i]), math.Abs(t))
		if math.Abs(got-v.want[i]-t) <= near {
			right += btoi(math.Abs(t) > 8*near)
		} else if wrong++; 20*wrong > i+20 {
			return 0, false
		}
	}
	return k, right >= leastInNarrow
}

func (e *expressible) termText(k float64, term string) string {
	if e.up != nil {
		term = "the incoming gradient times " + bracketed(term)
	}
	switch {
	case k == -1:
		return term + " is subtracted"
	case k == 1:
		return term + " is added"
	}
	return fmt.Sprintf("%.7g times %s is added", k, bracketed(term))
}

// adding is the alteration that joins what is due and a term.
func (e *expressible) adding(f, add func(x, y float64) float64, x, y *tensor.Tensor) Alteration {
	of := []*tensor.Tensor{x, y}
	if e.up != nil {
		of = append(of, e.up)
	}
	return func(target string, t *tensor.Tensor) *tensor.Tensor {
		if target != e.target || !slices.Equal(t.Shape, x.Shape) {
			return t
		}
		return opdef.ZipN(t.DType, t.Shape, func(dst []float64, src [][]float64) {
			for i := range dst {
				z := f(src[1][i], src[2][i])
				if e.up != nil {
					z *= src[3][i]
				}
				dst[i] = t.DType.Round(add(src[0][i], z))
			}
		}, append([]*tensor.Tensor{t}, of...)...)
	}
}
