package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/tensor"
)

// factorsAlong are values with a factor for each index of a short dimension: components whose scale is missing. Each
// factor is a size of the call, its reciprocal, or a plain number.
func (c *Search) factorsAlong(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			got, want, ok := fails[i].floats()
			if !ok || got.Dim() < 2 || i > 0 && fails[0].Forward() {
				continue
			}
			for d, n := range got.Shape {
				if n < 2 || n > mostComponents || got.Numel()/n < fewestScaled {
					continue
				}
				var factors []float64
				_ = c.Guard(func() error { factors = componentFactors(got, want, d); return nil })
				exact, text, cost, ok := c.componentTexts(factors, factorError(got))
				if !ok { // or what cannot be read has none
					continue
				}
				target, inner := fails[i].Target, tensor.Numel(got.Shape[d+1:])
				if !yield(Mistake{Text: fmt.Sprintf("of dimension %d, %s", d, text), Cost: cost, Rounds: true,
					Like: "components", Make: c.altering(func(of string, t *tensor.Tensor) *tensor.Tensor {
						if of != target || t.Dim() <= d || t.Shape[d] != n {
							return t
						}
						v := elements(t)
						for i := range v {
							v[i] *= exact[i/inner%n]
						}
						return tensor.New(t.DType, t.Shape, v)
					})}) {
					return
				}
			}
		}
	}
}

// mostComponents is how many indices a dimension has whose indices have factors of their own.
const mostComponents = 4

// componentFactors are the factors of the indices of a dimension, nil if these do not explain a value, or are one.
func componentFactors(got, want *tensor.Tensor, d int) []float64 {
	n, inner := got.Shape[d], tensor.Numel(got.Shape[d+1:])
	x, y := elements(got), elements(want)
	up, down := make([]float64, n), make([]float64, n)
	for i := range x {
		k := i / inner % n
		up[k], down[k] = up[k]+x[i]*y[i], down[k]+y[i]*y[i]
	}
	apart := false
	for k := range up {
		up[k] /= down[k]
		apart = apart || math.Abs(up[k]-up[0]) > 16*got.DType.Eps()*math.Abs(up[0])
	}
	off, size := 0, rms(x)/16 // of terms that cancel
	for i := range x {
		z := up[i/inner%n] * y[i]
		off += btoi(!(math.Abs(x[i]-z) <= 16*got.DType.Eps()*max(math.Abs(z), size)))
	}
	if !apart || 20*off > len(x) {
		return nil
	}
	return up
}

// componentTexts are the numbers that factors are, their text, and how many bits they hold; false if a kernel cannot
// have one of them. All are sizes, or reciprocals of sizes, or all twice or half of these: those of one tensor, if
// there are such. Of which tensors the sizes are is not said where it may be those of several.
func (c *Search) componentTexts(factors []float64, near float64) (exact []float64, text string, cost float64, ok bool) {
	for _, by := range []float64{1, 2, 0.5} {
		var said, of []string
		var numbers []float64
		bits, all := 0.0, true
		for k, x := range factors {
			y, what := c.component(x, by, near)
			numbers = append(numbers, y)
			switch {
			case what == "":
				all = false
			case y == 1:
				bits++
			default:
				said = append(said, fmt.Sprintf("index %d is ", k)+what)
				if _, rest, sized := strings.Cut(what, "dimension "); sized {
					_, rest, _ = strings.Cut(rest, " of ")
					name, _, _ := strings.Cut(rest, " has ")
					of = append(of, name)
				} else if strings.Contains(what, ", that is ") {
					of = append(of, what)
				}
				bits += relatedBits + 2
			}
		}
		if !all || len(said) == 0 {
			continue
		}
		if of = slices.Compact(of); len(of) > 1 {
			for i, what := range said {
				said[i], _, _ = strings.Cut(what, ", that is ")
			}
		}
		if !ok || len(of) == 1 {
			exact, text, cost, ok = numbers, strings.Join(said, ", "), bits, true
		}
		if len(of) <= 1 {
			return exact, text, cost, ok
		}
	}
	return exact, text, cost, ok
}

// component is the number that a factor is, and what it does; empty if it is none.
func (c *Search) component(x, by, near float64) (exact float64, text string) {
	for _, y := range []struct {
		x    float64
		text string
	}{{1, "right"}, {-1, "negated"}, {0, "zero"}, {2, "multiplied by 2"}, {0.5, "multiplied by 0.5"}} {
		if math.Abs(x-y.x) <= near {
			return y.x, y.text
		}
	}
	k, ok := c.related(x/by, near)
	switch {
	case !ok:
		return x, ""
	case by == 1:
		return k.x, fmt.Sprintf("multiplied by %.4g, that is %s", k.x, k.text)
	}
	return by * k.x, fmt.Sprintf("multiplied by %.4g, that is %v * %s", by*k.x, by, k.text)
}
