package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A function of elements, with its text for what it is applied to.
type function struct {
	text string
	f    func(x float64) float64
}

// functions are those of one number that kernels are made of. The first changes nothing.
var functions = []function{
	{"%s", func(x float64) float64 { return x }},
	{"abs(%s)", math.Abs},
	{"square(%s)", func(x float64) float64 { return x * x }},
	{"sqrt(%s)", math.Sqrt},
	{"-(%s)", func(x float64) float64 { return -x }},
	{"relu(%s)", func(x float64) float64 { return max(x, 0) }},
	{"sigmoid(%s)", func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }},
	{"tanh(%s)", math.Tanh},
	{"silu(%s)", func(x float64) float64 { return x / (1 + math.Exp(-x)) }},
	{"gelu(%s)", func(x float64) float64 { return x * (1 + math.Erf(x/math.Sqrt2)) / 2 }},
	{"exp(%s)", math.Exp},
	{"log(%s)", math.Log},
	{"floor(%s)", math.Floor},
	{"ceil(%s)", math.Ceil},
	{"trunc(%s)", math.Trunc},
	{"round(%s), ties away from zero", math.Round},
	{"atan(%s)", math.Atan},
	{"sign(%s)", func(x float64) float64 {
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		}
		return x
	}},
	{"%s + 0.5", func(x float64) float64 { return x + 0.5 }},
	{"%s + 1", func(x float64) float64 { return x + 1 }},
	{"1 - (%s)", func(x float64) float64 { return 1 - x }},
	{"1 / (%s)", func(x float64) float64 { return 1 / x }},
}

// pairings are what is made of two numbers.
var pairings = []struct {
	text string
	f    func(x, y float64) float64
}{
	{"%s + %s", func(x, y float64) float64 { return x + y }},
	{"%s - %s", func(x, y float64) float64 { return x - y }},
	{"%s * %s", func(x, y float64) float64 { return x * y }},
	{"%s / %s", func(x, y float64) float64 { return x / y }},
	{"max(%s, %s)", math.Max},
	{"min(%s, %s)", math.Min},
}

// paired is the text of a pairing of two terms, which are in brackets where they are sums, differences or quotients.
func paired(text, x, y string) string {
	if text == "%s + %s" || !strings.HasPrefix(text, "%s") {
		return fmt.Sprintf(text, x, y)
	}
	return fmt.Sprintf(text, bracketed(x), bracketed(y))
}

func bracketed(x string) string {
	depth := 0
	for i, r := range x {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case depth == 0 && strings.ContainsRune("+-/", r) && i > 0 && strings.HasPrefix(x[i-1:], " "+string(r)+" "):
			return "(" + x + ")"
		}
	}
	return x
}

// An expression is what is made of one or two operands, element for element.
type expression struct {
	text string
	f    func(x, y float64) float64
}

// expressions are those of operands of these names. Of one, they are a function of a function of it, or two functions
// of it together. Of two, they are both under one function, or one of them, and what is made of both under another.
func expressions(x, y string) iter.Seq[expression] {
	return func(yield func(expression) bool) {
		if y == "" {
			for _, g := range functions {
				for _, f := range functions {
					if !yield(expression{fmt.Sprintf(f.text, fmt.Sprintf(g.text, x)),
						func(x, _ float64) float64 { return f.f(g.f(x)) }}) {
						return
					}
				}
				for _, p := range pairings {
					if !yield(expression{paired(p.text, x, fmt.Sprintf(g.text, x)),
						func(x, _ float64) float64 { return p.f(x, g.f(x)) }}) {
						return
					}
				}
			}
			return
		}
		for _, p := range pairings {
			for i, g := range functions {
				both := expression{paired(p.text, fmt.Sprintf(g.text, x), fmt.Sprintf(g.text, y)),
					func(x, y float64) float64 { return p.f(g.f(x), g.f(y)) }}
				for _, f := range functions {
					if !yield(expression{fmt.Sprintf(f.text, both.text),
						func(x, y float64) float64 { return f.f(both.f(x, y)) }}) {
						return
					}
				}
				if i > 0 && !(yield(expression{paired(p.text, x, fmt.Sprintf(g.text, y)),
					func(x, y float64) float64 { return p.f(x, g.f(y)) }}) &&
					yield(expression{paired(p.text, fmt.Sprintf(g.text, x), y),
						func(x, y float64) float64 { return p.f(g.f(x), y) }})) {
					return
				}
			}
		}
	}
}

// expressed are results that are another function of the operands, element for element: of one, of two, or of the
// halves of one.
func (c *Search) expressed(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		got, want := c.wrongResult(fails)
		if got == nil || got.Numel() < leastInNarrow {
			return
		}
		target := fails[0].Target
		for _, pair := range c.pairs(got.Shape) {
			y, name := pair[0].t, ""
			if len(pair) > 1 {
				y, name = pair[1].t, pair[1].text
			}
			var v [4][]float64
			if c.Guard(func() error {
				for i, t := range []*tensor.Tensor{got, want, pair[0].t, y} {
					v[i] = sample(t)
				}
				return nil
			}) != nil {
				continue
			}
			n := 0
			for e := range expressions(pair[0].text, name) {
				if n++; !expresses(e.f, v[0], v[1], v[2], v[3], got.DType) {
					continue
				}
				if !yield(Mistake{Text: "it is computed as " + e.text, Rounds: true, Cost: math.Log2(float64(n)),
					Make: c.altering(func(of string, t *tensor.Tensor) *tensor.Tensor {
						if of != target || !slices.Equal(t.Shape, pair[0].t.Shape) {
							return t
						}
						return opdef.ZipN(t.DType, t.Shape, func(dst []float64, src [][]float64) {
							for i := range dst {
								dst[i] = e.f(src[0][i], src[1][i])
							}
						}, pair[0].t, y)
					})}) {
					return
				}
			}
		}
	}
}

// pairs are the operands that have, or are broadcast to, the shape of a result: one of them, two, or the halves of one.
func (c *Search) pairs(shape []int) (out [][]knownValue) {
	var fit []knownValue
	for _, a := range c.operands() {
		t := a.Tensor
		if x, err := t.Expand(shape...); err == nil && slices.Equal(x.Shape, shape) && t.Numel() > 1 {
			fit = append(fit, knownValue{argName(a), x})
			continue
		}
		for d, n := range t.Shape {
			if len(t.Shape) != len(shape) || n != 2*shape[d] {
				continue
			}
			x, y := t.Slice(d, 0, n/2, 1), t.Slice(d, n/2, n/2, 1)
			even, odd := t.Slice(d, 0, n/2, 2), t.Slice(d, 1, n/2, 2)
			if slices.Equal(x.Shape, shape) {
				name := argName(a)
				out = append(out, []knownValue{{"the first half of " + name, x}, {"the second half of " + name, y}},
					[]knownValue{{"the even indices of " + name, even}, {"the odd indices of " + name, odd}})
			}
		}
	}
	switch len(fit) {
	case 1:
		out = append(out, fit)
	case 2:
		out = append(out, fit, fit[:1], fit[1:])
	}
	return out
}

// expresses reports whether f of two operands is what was recorded, nearly everywhere where that is wrong.
func expresses(f func(x, y float64) float64, got, want, x, y []float64, dt tensor.DType) bool {
	right, wrong := 0, 0
	for i := range got {
		z := dt.Round(f(x[i], y[i]))
		near := 16 * dt.Eps() * max(math.Abs(z), math.Abs(x[i])*dt.Eps())
		if alike(got[i], z) || math.Abs(got[i]-z) <= near {
			right += btoi(math.Abs(want[i]-got[i]) > near)
		} else if wrong++; 20*wrong > i+20 {
			return false
		}
	}
	return right >= leastInPart
}
