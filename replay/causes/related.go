package causes

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A relation is what a fitted number is of the sizes and numbers of a call.
type relation struct {
	x    float64 // exactly
	text string
}

// constants are factors that have a name.
var constants = []relation{
	{math.Ln2, "ln 2"}, {math.Log2E, "1/ln 2"}, {math.Ln10, "ln 10"}, {math.Log10E, "1/ln 10"}, {math.Pi, "pi"},
	{1 / math.Pi, "1/pi"}, {2 * math.Pi, "2 pi"}, {math.Pi / 180, "pi/180"}, {180 / math.Pi, "180/pi"},
	{math.Sqrt(math.Pi), "sqrt(pi)"}, {2 / math.Sqrt(math.Pi), "2/sqrt(pi)"},
	{math.Sqrt(math.Pi) / 2, "sqrt(pi)/2"}, {math.Sqrt(2 / math.Pi), "sqrt(2/pi)"}, {math.Sqrt2, "sqrt(2)"},
	{math.Sqrt2 / 2, "1/sqrt(2)"}, {1 / math.Sqrt(2*math.Pi), "1/sqrt(2 pi)"},
}

// A size is a whole number that a kernel divides or multiplies by.
type size struct {
	n    int
	text string // "dimension 1 of input has 25"
	// terms says that each result has so many: their root is a scale more often than that of a dimension, which many a
	// whole number is by chance.
	terms bool
}

// sizes are those of the call, from 3 on, each once: lengths, products of the last of them, terms of each result, whole
// numbers.
func (c *Search) sizes() (all []size) {
	seen := map[int]bool{}
	add := func(n int, format string, args ...any) {
		if n >= leastSize && !seen[n] {
			seen[n], all = true, append(all, size{n, fmt.Sprintf(format, args...) + fmt.Sprintf(" %d", n),
				strings.HasSuffix(format, "for each of the result:")})
		}
	}
	operands := c.operands()
	for _, a := range operands { // how many terms there are says most
		if c.Ran != nil && len(c.Ran.Outs) > 0 && c.Ran.Outs[0].Numel() > 0 {
			if n := a.Tensor.Numel(); n%c.Ran.Outs[0].Numel() == 0 {
				add(n/c.Ran.Outs[0].Numel(), "elements of %s for each of the result:", argName(a))
			} else if n > 0 && c.Ran.Outs[0].Numel()%n == 0 {
				add(c.Ran.Outs[0].Numel()/n, "elements of the result for each of %s:", argName(a))
			}
		}
	}
	for _, a := range c.Bound.Arguments() {
		switch x := a.Python().(type) {
		case int64:
			add(int(x), "%s is", a.Name)
		case *value.Sequence:
			for _, v := range x.Items {
				if n, is := v.(int64); is {
					add(int(n), "%s has", a.Name)
				}
			}
		}
	}
	if c.scales() { // by the root of the last dimension, if by none that is given
		for _, a := range operands {
			if d := a.Tensor.Dim() - 1; d >= 0 {
				add(a.Tensor.Shape[d], "dimension %d of %s has", d, argName(a))
			}
		}
	}
	for _, a := range operands {
		for d, n := range a.Tensor.Shape {
			add(n, "dimension %d of %s has", d, argName(a))
		}
	}
	for _, a := range operands {
		for d := range a.Tensor.Shape {
			add(tensor.Numel(a.Tensor.Shape[d:]), "the dimensions from %d on of %s have", d, argName(a))
		}
	}
	return all
}

// leastSize is the smallest size that a factor is compared with: 2 is often something else.
const leastSize = 3

// related is what a fitted factor is, within a relative error: a quotient of a size and 1, one less, one more or the
// next power of two, the root of it, or a number with a name; false if it is none of these.
func (c *Search) related(x, near float64) (found relation, ok bool) {
	is := func(y float64, text string) bool {
		if ok = math.Abs(math.Abs(x)/y-1) < near; ok {
			found = relation{math.Copysign(y, x), text}
		}
		return ok
	}
	for _, k := range constants {
		if is(k.x, k.text) {
			return found, true
		}
	}
	for _, m := range c.means() {
		if is(m.x, m.text) || is(1/m.x, "1 / ("+m.text+")") {
			return found, true
		}
	}
	for _, s := range c.sizes() {
		n := float64(s.n)
		padded := 1 << bits.Len(uint(s.n-1))
		if is(1/n, fmt.Sprintf("1/%d: %s", s.n, s.text)) || is(n, fmt.Sprintf("%d: %s", s.n, s.text)) {
			return found, true
		}
		if root := math.Sqrt(n); (root != math.Trunc(root) || s.terms || c.scales()) &&
			(is(1/root, fmt.Sprintf("1/sqrt(%d): %s", s.n, s.text)) ||
				is(root, fmt.Sprintf("sqrt(%d): %s", s.n, s.text))) {
			return found, true
		}
		for _, m := range []int{s.n - 1, s.n + 1, padded} {
			if m == s.n {
				continue
			}
			down, up := fmt.Sprintf("%d/%d", s.n, m), fmt.Sprintf("%d/%d", m, s.n)
			by := fmt.Sprintf(": %s, as if divided by %d", s.text, m)
			if m == padded {
				by += ", to which it is padded"
			}
			if is(n/float64(m), down+by) || is(float64(m)/n, up+": "+s.text) ||
				is(math.Sqrt(n/float64(m)), "sqrt("+down+")"+by) ||
				is(math.Sqrt(float64(m)/n), "sqrt("+up+"): "+s.text) {
				return found, true
			}
		}
	}
	return relation{}, false
}

// means are by what a mean is wrong that is divided by the number of all elements of an operand, where there are fewer
// for each result: of an operator that gives ones of ones.
func (c *Search) means() (all []relation) {
	if c.Ran == nil || len(c.Ran.Outs) != 1 || c.Ran.Outs[0].Numel() < leastSize {
		return nil
	}
	outs := c.Ran.Outs[0].Numel()
	for _, a := range c.operands() {
		if n := a.Tensor.Numel(); n%outs == 0 && n/outs >= leastSize && c.averages(a) {
			all = append(all, relation{1 / float64(outs), fmt.Sprintf(
				"%d/%d, as if divided by the number of all elements of %s, not of those of each result", n/outs, n,
				argName(a))})
		}
	}
	return all
}

// averages reports whether the call gives a mean of the elements of an operand: all results are 1 if those are.
func (c *Search) averages(a opdef.Arg) (is bool) {
	_ = c.Guard(func() error { // what cannot be run gives none
		way, err := c.one(a, func() *tensor.Tensor { return tensor.Full(a.Tensor.DType, a.Tensor.Shape, 1.0) })()
		if err != nil || way.Call == nil {
			return err
		}
		c.Work.Whole()
		f, err := way.Call.Forward()
		if err != nil || len(f.Outs) != 1 || !f.Outs[0].DType.IsFloat() {
			return err
		}
		is = !slices.ContainsFunc(sample(f.Outs[0]), func(x float64) bool { return math.Abs(x-1) > roundedNear })
		return nil
	})
	return is
}

// relatedToNumber is what a fitted factor is of another floating argument of the call, within a relative error; empty
// if it is nothing. A factor of one digit, 2 or 100, is many things by chance.
func (c *Search) relatedToNumber(x, near float64, but string) string {
	if digits(x) < 2*math.Log2(10)+4 {
		return ""
	}
	for _, a := range c.Bound.Arguments() {
		y, ok := a.Python().(float64)
		if !ok || a.Name == but || y == 0 || y == 1 {
			continue
		}
		for _, k := range []relation{{y, "%s"}, {1 / y, "1/%s"}, {1 - y, "(1 - %s)"}} {
			if k.x != 0 && math.Abs(x/k.x-1) < near {
				return fmt.Sprintf(k.text, a.Name)
			}
		}
	}
	return ""
}

// relatedBits are those of which relation it is: some hundreds are looked at.
const relatedBits = 9

// nearness is the relative error of a number that was fitted to values of a dtype.
func nearness(dt tensor.DType) float64 {
	if !dt.IsReduced() {
		return 4e-6
	}
	return dt.Eps() / 8
}

// plainNumber reports whether a fitted number is one that somebody may have written: of one or two digits, or so near
// to 1.
func plainNumber(x float64) bool {
	for _, y := range []float64{x, 1 - x} {
		if digits(y) <= 2*math.Log2(10)+4 {
			return true
		}
	}
	return false
}
