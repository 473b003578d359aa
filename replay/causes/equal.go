package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// equal says which quantity of the call a factor of all elements is, that is told in few digits and was fitted to all:
// an argument, the size of a dimension, the reciprocal of one. It is empty where it is none, and where the number that
// is told is not the one that was fitted.
func (c *Search) equal(told, fitted float64, r *Wrong) string {
	about := factorError(r.Got)
	if !near(told, fitted, about) {
		return ""
	}
	x := fitted
	if r.Got.DType.IsReduced() || digits(told) <= 2*math.Log2(10)+4 {
		x, about = told, roundedNear // by few bits, much is near by chance
	}
	if k, ok := c.argument(x, about); ok {
		return ", that is " + k
	}
	k, ok := c.related(x, about)
	if !ok || k.x < 0 || about == roundedNear && strings.Contains(k.text, "sqrt(") &&
		(x < leastSize && 1/x < leastSize || x == math.Trunc(x) && !c.scales()) {
		return ""
	}
	if rest, is := strings.CutPrefix(k.text, fmt.Sprintf("%.7g: ", told)); is {
		return ": " + rest
	}
	return ", that is " + k.text
}

// scales reports whether the operator has a scale that is the root of a size unless it is given, as attention has. A
// whole number is the root of one by chance elsewhere.
func (c *Search) scales() bool {
	return slices.ContainsFunc(c.Bound.Arguments(), func(a opdef.Argument) bool {
		return a.Name == "scale" && a.MayBeNone()
	})
}

// roundedNear is the relative error of a number that is told as it is.
const roundedNear = 1e-9

// argument is the number among the arguments that x is, or of which it is the reciprocal, and what is made of two of
// them where a tensor holds one: a weight of all by a size. 1, 2 and 1/2 are none.
func (c *Search) argument(x, about float64) (text string, ok bool) {
	var all []relation
	for _, a := range c.Bound.Arguments() {
		switch v := a.Python().(type) {
		case int64, float64:
			y, _ := numberOf(v)
			all = append(all, relation{y, a.Name})
		case *value.Sequence:
			product, n := 1.0, 0
			for _, item := range v.Items {
				if y, is := item.(int64); is {
					product, n = product*float64(y), n+1
				}
			}
			if n > 1 && n == len(v.Items) {
				all = append(all, relation{product, "the product of " + a.Name})
			}
		}
		if k, is := a.Python().(int64); is && strings.HasSuffix(a.Name, "_size") {
			all = append(all, relation{float64(k * k), "the square of " + a.Name})
		}
	}
	all = append(all, c.notGiven()...)
	for _, a := range c.operands() {
		if a.Tensor.Numel() != 1 || !a.Tensor.DType.IsFloat() {
			continue
		}
		y := elements(a.Tensor)[0]
		all = append(all, relation{y, argName(a)})
		for _, s := range c.sizes() {
			all = append(all, relation{y / float64(s.n), fmt.Sprintf("%s/%d: %s", argName(a), s.n, s.text)})
		}
	}
	for _, k := range all {
		switch y := math.Abs(k.x); {
		case k.x == 0 || y == 1 || y == 2 || y == 0.5 || math.IsInf(k.x, 0):
		case math.Abs(x/k.x-1) < about:
			return k.text, true
		case math.Abs(x*k.x-1) < about:
			return "1/" + bracketed(k.text), true
		}
	}
	return "", false
}

// notGiven are numbers taken in place of an argument that may be None: 1/sqrt of the last size of an operand,
// as the scale of attention, and none.
func (c *Search) notGiven() (all []relation) {
	for _, a := range c.Bound.Arguments() {
		y, is := a.Python().(float64)
		if !is || !a.MayBeNone() || y == 0 {
			continue
		}
		sizes := map[int]bool{}
		for _, o := range c.operands() {
			d := o.Tensor.Dim() - 1
			n := o.Tensor.Shape[d]
			if sizes[n] || n < leastSize {
				continue
			}
			sizes[n] = true
			all = append(all, relation{1 / math.Sqrt(float64(n)) / y,
				fmt.Sprintf("1/sqrt(%d) / %s, as if that were not given: dimension %d of %s has %d", n, a.Name, d,
					argName(o), n)})
		}
	}
	return all
}

// negated are gradients of the wrong sign, where only gradients are wrong. An operand that is negated, or another
// argument, gives them too.
func (c *Search) negated(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		results := slices.ContainsFunc(fails, func(w Wrong) bool { return w.Forward() })
		if results && !onlyNumbers(fails) { // altered tries it
			return
		}
		name := cond(results, "the result is negated") + cond(!results, "all elements of the gradient are negated")
		var targets []string
		for i := range fails {
			if got, want, ok := fails[i].floats(); ok && math.Abs(c.factorOf(got, want)+1) < signNear {
				targets = append(targets, fails[i].Target)
			}
		}
		if len(targets) > 0 {
			yield(Mistake{Text: name, Rounds: true, Expected: true,
				Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
					if !slices.Contains(targets, target) {
						return t
					}
					return opdef.Map(t.DType, t, func(x float64) float64 { return -x })
				})})
		}
	}
}

// asIf says of a mistake that makes all results that failed twice as large as is due, or half as large, that it does no
// more than that: much else does.
func (c *Search) asIf(k *Cause, fails []Wrong) {
	if k.mistake == nil || k.mistake.Expected || k.Pattern || strings.Contains(k.Text, "multiplied by") {
		return
	}
	common := 0.0
	for i := range fails {
		if fails[i].Backward() {
			continue
		}
		got, want, ok := fails[i].floats()
		if !ok || !slices.Contains(k.Targets, fails[i].Target) {
			return
		}
		x, y, ok := c.read(got, want)
		if !ok {
			return
		}
		for _, by := range []float64{2, 0.5} {
			if (common == 0 || common == by) && allTimes(got.DType, x, y, by) {
				common = by
			}
		}
		if common == 0 || !allTimes(got.DType, x, y, common) {
			return
		}
	}
	if common != 0 {
		k.Text = fmt.Sprintf("all elements are multiplied by %g, ", common) + asIfSaid + k.Text
	}
}

// allTimes reports whether elements are so many times as large as others, but for rounding.
func allTimes(dt tensor.DType, x, y []float64, by float64) bool {
	for i := range x {
		z := dt.Round(by * y[i])
		if !alike(x[i], z) && !(math.Abs(x[i]-z) <= 4*dt.ULP(z)) {
			return false
		}
	}
	return true
}

// asIfSaid comes before a mistake that is one of many.
const asIfSaid = "as if "

// signNear is how near to -1 the factor of a value is that is negated.
const signNear = 1e-2

// factorOf is the factor by which a value is larger than what is due, NaN if it cannot be read.
func (c *Search) factorOf(got, want *tensor.Tensor) float64 {
	x := math.NaN()
	_ = c.Guard(func() error { x = multiple(sample(got), sample(want)); return nil }) // what cannot be read has none
	return x
}
