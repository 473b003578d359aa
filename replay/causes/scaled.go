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

// lacking is how the texts begin of mistakes that leave a term out of a gradient.
const lacking = "the gradient lacks "

// scaledTerms are gradients one of whose terms is multiplied by a number: it counts twice, has the other sign, or is
// divided by how many it is the mean of. The terms are what the gradient lacks under a mistake that is declared, or
// that follows from the formula.
func (c *Search) scaledTerms(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if slices.ContainsFunc(fails, func(w Wrong) bool { _, _, ok := w.floats(); return w.Forward() || !ok }) {
			return
		}
		tried := 0
		for _, source := range []iter.Seq[Mistake]{c.declared(), c.formulas(fails)} {
			for m := range source {
				if !m.Gradients || !strings.HasPrefix(m.Text, lacking) {
					continue
				}
				way, err := m.Make()
				if err != nil || way.Call == nil {
					continue
				}
				c.Work.Whole()
				if c.Work.Over() {
					return
				}
				tried++
				terms := map[string]*tensor.Tensor{}
				if c.Guard(func() error { terms = c.termsOf(way, fails); return nil }) != nil || len(terms) == 0 {
					continue
				}
				k, ok := c.timesTerm(fails, terms)
				if !ok {
					continue
				}
				cost, is := digits(k), ""
				if r, ok := c.related(k, nearness(fails[0].Got.DType)*64); ok {
					k, cost, is = r.x, relatedBits, ", that is "+r.text
				}
				text := fmt.Sprintf("in the gradient, %s is multiplied by %s", strings.TrimPrefix(m.Text, lacking),
					constant(k)) + is
				if !yield(Mistake{Text: text, Rounds: true, Gradients: true, Cost: cost + math.Log2(float64(tried)),
					Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
						term := terms[target]
						if term == nil || !slices.Equal(term.Shape, t.Shape) {
							return t
						}
						return opdef.Zip(t.DType, t, term, func(due, x float64) float64 { return due + (k-1)*x })
					})}) {
					return
				}
			}
		}
	}
}

// termsOf are what the gradients that failed lack under a way, by their targets; none if it lacks nothing.
func (c *Search) termsOf(way Way, fails []Wrong) map[string]*tensor.Tensor {
	out := map[string]*tensor.Tensor{}
	for i := range fails {
		_, want, _ := fails[i].floats()
		made := c.Under(way, fails[i].Target)
		if made == nil || !slices.Equal(made.Shape, want.Shape) {
			continue
		}
		out[fails[i].Target] = tensor.New(tensor.Float64, want.Shape, elements(opdef.Zip(tensor.Float64, want, made,
			func(due, x float64) float64 { return due - x })))
	}
	return out
}

// timesTerm is by what number the terms of all gradients that failed are multiplied, as far as rounding tells: one that
// somebody may have written, or that is a quantity of the call. It is false if there is none.
func (c *Search) timesTerm(fails []Wrong, terms map[string]*tensor.Tensor) (k float64, ok bool) {
	var up, down, size float64
	_ = c.Guard(func() error {
		for i := range fails {
			got, want, _ := fails[i].floats()
			term := terms[fails[i].Target]
			if term == nil {
				continue
			}
			x, y, z := elements(got), elements(want), elements(term)
			for j := range x {
				d := x[j] - y[j]
				if math.IsNaN(d) || math.IsInf(d, 0) {
					return errNoValue
				}
				up, down, size = up+d*z[j], down+z[j]*z[j], size+d*d
			}
		}
		return nil
	})
	if !(down > 0) || !(size > 0) || size-up*up/down > 0.02*size {
		return 0, false
	}
	k = 1 + up/down
	near := max(1e-4, fails[0].Got.DType.Eps())
	for _, x := range []float64{2, -1, 0.5, 3, 4} {
		if math.Abs(k-x) <= near*4 {
			return x, true
		}
	}
	if r, is := c.related(k, near); is && math.Abs(k) > near {
		return r.x, true
	}
	return 0, false
}
