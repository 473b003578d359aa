package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// overflowing are what kernels compute on the way to a result, or of an operand, that may be beyond a dtype's largest
// number where the result is not.
var overflowing = []struct {
	text string
	f    func(x float64) float64
}{
	{"the square of %s", func(x float64) float64 { return x * x }},
	{"the exponential of %s", math.Exp},
	{"the exponential of -(%s)", func(x float64) float64 { return math.Exp(-x) }},
	{"the cube of %s", func(x float64) float64 { return x * x * x }},
}

// overflowed are results that are infinite though they are due to be finite, because a step before overflows: a square
// under a root, the exponential of which a logarithm is taken, the sum of a mean.
func (c *Search) overflowed(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		got, want := c.wrongResult(fails)
		if got == nil {
			return
		}
		infinite := map[float64]bool{} // of one magnitude, that may be the largest, many bounds are the same
		if c.Guard(func() error {
			y := elements(want)
			for i, x := range elements(got) {
				if due := got.DType.Round(y[i]); math.IsInf(x, 0) && !math.IsInf(due, 0) {
					infinite[math.Abs(due)] = true
				}
			}
			return nil
		}) != nil || len(infinite) < leastInPart {
			return
		}
		known := []knownValue{{"the result", nil}}
		for _, a := range c.operands() {
			if t, err := a.Tensor.Expand(got.Shape...); err == nil && slices.Equal(t.Shape, got.Shape) {
				known = append(known, knownValue{argName(a), t})
			}
		}
		steps := slices.Clone(overflowing)
		for _, n := range c.counts(got) {
			steps = append(steps, overflowing[0])
			steps[len(steps)-1].text = fmt.Sprintf("%d times %%s", n)
			steps[len(steps)-1].f = func(x float64) float64 { return float64(n) * x }
		}
		for _, dt := range []tensor.DType{tensor.Float16, got.DType} {
			for _, k := range known {
				for _, s := range steps {
					text := fmt.Sprintf(s.text, k.text) + " overflows " + dt.String()
					if !yield(Mistake{Text: text, Rounds: true, NotFinite: true,
						Make: c.altering(beyond(fails[0].Target, k.t, dt, s.f))}) {
						return
					}
				}
			}
			if got.DType == dt {
				return
			}
		}
	}
}

// counts are how many elements of an operand there are for each of a result.
func (c *Search) counts(got *tensor.Tensor) (out []int) {
	for _, a := range c.operands() {
		if n := a.Tensor.Numel() / got.Numel(); n > 1 && n*got.Numel() == a.Tensor.Numel() && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// beyond makes elements infinite where f of a tensor, of the value itself if it is nil, is beyond a dtype's numbers.
func beyond(target string, x *tensor.Tensor, dt tensor.DType, f func(x float64) float64) Alteration {
	return func(of string, t *tensor.Tensor) *tensor.Tensor {
		if of != target || x != nil && !slices.Equal(x.Shape, t.Shape) {
			return t
		}
		from := x
		if from == nil {
			from = t
		}
		return opdef.Zip(t.DType, t, from, func(y, x float64) float64 {
			if z := dt.Round(f(x)); math.IsInf(z, 0) {
				return math.Copysign(math.Inf(1), y)
			}
			return y
		})
	}
}
