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

// misbroadcast are operands that are broadcast and read at a wrong stride: as if they were contiguous in the shape of
// the result, over and over or each element as often as there are results to it, or along another dimension.
func (c *Search) misbroadcast() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if c.Ran == nil || len(c.Ran.Outs) != 1 || c.Ran.Outs[0].Numel() > largestOperand {
			return
		}
		shape := c.Ran.Outs[0].Shape
		for _, a := range c.readable() {
			t := a.Tensor
			n, total := t.Numel(), tensor.Numel(shape)
			if full, err := t.Expand(shape...); err != nil || n < 2 || n >= total || full.Numel() != total {
				continue
			}
			for _, w := range readings(t.Shape, shape) {
				if !yield(Mistake{Text: argName(a) + " is read " + w.text, Make: c.one(a, func() *tensor.Tensor {
					return gatheredIn(t, shape, w.at)
				})}) {
					return
				}
			}
		}
	}
}

// A strideReading is where in an operand an element of the result reads.
type strideReading struct {
	text string
	at   func(i int) int
}

// readings are wrong ways to read an operand of one shape that is broadcast to another.
func readings(operand, shape []int) []strideReading {
	n, total := tensor.Numel(operand), tensor.Numel(shape)
	out := []strideReading{{"over and over, as if it were contiguous", func(i int) int { return i % n }}}
	if total%n == 0 {
		out = append(out, strideReading{fmt.Sprintf("each element %d times in a row", total/n),
			func(i int) int { return i / (total / n) }})
	}
	stride := tensor.Contiguous(shape)
	offset := len(shape) - len(operand)
	for d, size := range operand {
		if size < 2 {
			continue
		}
		inner := tensor.Numel(operand[d+1:])
		for e := range shape {
			if e == d+offset || shape[e] < 2 || slices.Equal(shape, operand) {
				continue
			}
			due := func(i int) (at int) {
				for k, m := range operand {
					if m > 1 {
						at += i / stride[k+offset] % shape[k+offset] * tensor.Numel(operand[k+1:])
					}
				}
				return at
			}
			for _, sign := range []int{1, -1} {
				text := fmt.Sprintf("at i %c j modulo %d, of the indices i of dimension %d and j of dimension %d",
					"-+"[btoi(sign > 0)], size, d+offset, e)
				out = append(out, strideReading{text, func(i int) int {
					at := i / stride[d+offset] % shape[d+offset]
					by := sign * (i / stride[e] % shape[e])
					return due(i) + (((at+by)%size+size)%size-at)*inner
				}})
			}
			out = append(out, strideReading{fmt.Sprintf("along dimension %d of the result, not along %d", e, d+offset),
				func(i int) int {
					return due(i) + (i/stride[e]%shape[e]%size-i/stride[d+offset]%shape[d+offset])*inner
				}})
		}
	}
	return out
}

// proportional reports whether the first gradient that is due is the incoming one times a multiple of f.
func (c *Search) proportional(x, y *tensor.Tensor, f func(x, y float64) float64) (is bool) {
	for target, due := range c.Due("grad") {
		if target != "grad[0]" || len(c.Incoming) != 1 || !slices.Equal(due.Shape, x.Shape) ||
			!slices.Equal(c.Incoming[0].Shape, x.Shape) {
			continue
		}
		_ = c.Guard(func() error { // what cannot be read is none
			d, up, v, w := Pieces(due), Pieces(c.Incoming[0]), Pieces(x), Pieces(y)
			factor := 0.0
			for i := range d {
				made := up[i] * f(v[i], w[i])
				if made == 0 || math.IsNaN(made) || math.IsInf(made, 0) {
					if d[i] != 0 {
						return nil
					}
					continue
				}
				if factor == 0 {
					factor = d[i] / made
				}
				if !(math.Abs(d[i]/made-factor) <= (1e-3+2*y.DType.Eps())*math.Abs(factor)) {
					return nil
				}
			}
			is = factor != 0
			return nil
		})
	}
	return is
}

// misderived are gradients of functions of elements that lack a part: the incoming gradient, the term of the product
// rule in which the factor beside self is derived, or that are computed at the result.
func (c *Search) misderived(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		all := c.operands()
		if c.Ran == nil || len(c.Ran.Outs) != 1 || len(all) == 0 || !fails[0].Backward() {
			return
		}
		y, x := c.Ran.Outs[0], all[0].Tensor
		if !slices.Equal(x.Shape, y.Shape) || x.DType != y.DType || y.Numel() > largestOperand {
			return
		}
		name := argName(all[0])
		if !yield(Mistake{Text: "the gradient is computed at the result, not at " + name, Numbers: true,
			Make: c.one(all[0], func() *tensor.Tensor { return y.Rounded() })}) {
			return
		}
		var up *tensor.Tensor
		with := func(f func(x, y float64) float64) func() (Way, error) {
			return c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
				if target == Incoming {
					up = t
				}
				if target != "grad[0]" || up == nil || !slices.Equal(up.Shape, x.Shape) {
					return t
				}
				return opdef.ZipN(t.DType, t.Shape, func(dst []float64, src [][]float64) {
					for i := range dst {
						dst[i] = src[0][i] * f(src[1][i], src[2][i])
					}
				}, up, x, y)
			})
		}
		for _, m := range []struct {
			text string
			f    func(x, y float64) float64
		}{
			{"result / %s: a term of the product rule is missing", func(x, y float64) float64 { return y / x }},
			{"the result", func(_, y float64) float64 { return y }},
			{"%s", func(x, _ float64) float64 { return x }},
			{"1 - the result", func(_, y float64) float64 { return 1 - y }},
			{"1 - %s", func(x, _ float64) float64 { return 1 - x }},
			{"the square of the result", func(_, y float64) float64 { return y * y }},
			{"the square of %s", func(x, _ float64) float64 { return x * x }},
			{"1 - the square of the result", func(_, y float64) float64 { return 1 - y*y }},
			{"1 - the square of %s", func(x, _ float64) float64 { return 1 - x*x }},
			{"the result times 1 - the result", func(_, y float64) float64 { return y * (1 - y) }},
			{"%s * (1 - %[1]s)", func(x, _ float64) float64 { return x * (1 - x) }},
			{"1 / %s", func(x, _ float64) float64 { return 1 / x }},
			{"1 / the result", func(_, y float64) float64 { return 1 / y }},
			{"the sign of %s", func(x, _ float64) float64 { return math.Copysign(1, x) }},
			{"1 where %s is positive, 0 elsewhere", func(x, _ float64) float64 { return float64(btoi(x > 0)) }},
		} {
			if c.proportional(x, y, m.f) {
				continue // a factor says more
			}
			text := m.text
			if strings.Contains(text, "%") {
				text = fmt.Sprintf(text, name)
			}
			if !yield(Mistake{Text: "it is the incoming gradient times " + text, Make: with(m.f), Rounds: true,
				Numbers: true}) {
				return
			}
		}
	}
}
