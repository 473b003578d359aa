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

// mostInFormula is how many elements operands may have for formulas to be tried. They compute all of a call.
const mostInFormula = 1 << 16

// formula is the formula of the call, nil if there is none or if it does not give what is due.
func (c *Search) formula() *opdef.Call {
	if c.formed {
		return c.form
	}
	c.formed = true
	n := 0
	for _, a := range c.Bound.Tensors() {
		n += a.Tensor.Numel()
	}
	if c.Ran == nil || c.Registry == nil {
		return nil
	}
	for _, t := range c.Ran.Outs {
		n += t.Numel()
	}
	if n > max(mostInFormula, c.InFormula) {
		return nil
	}
	call := c.Registry.Formula(c.Bound)
	if call == nil {
		return nil
	}
	_ = c.Guard(func() error { // what cannot be run is no formula of the call
		c.Work.Elements(n)
		f, err := call.Forward()
		if err != nil || len(f.Outs) != len(c.Ran.Outs) {
			return err
		}
		for i, t := range f.Outs {
			if !slices.Equal(t.Shape, c.Ran.Outs[i].Shape) || t.DType != c.Ran.Outs[i].DType {
				return nil
			}
			x, y := sample(t), sample(c.Ran.Outs[i])
			off := 0
			for k := range x {
				off += btoi(!alike(x[k], y[k]) && !(math.Abs(x[k]-y[k]) <= 1e-6*max(math.Abs(y[k]), 1)))
			}
			if 2*off > len(x) { // some may overflow where the operator does not
				return nil
			}
		}
		c.form = call
		return nil
	})
	return c.form
}

// ofFormula begins the text of a formula where only gradients are wrong.
const ofFormula = "the gradient is that of another formula: "

// derivedText is the text of a formula's mistake where only gradients are wrong.
func derivedText(m opdef.Mistake[*opdef.Call]) string {
	if made, due, ok := strings.Cut(m.Formula, ", not "); ok && m.Kept {
		return fmt.Sprintf("the gradient is computed with %s in place of %s", made, due)
	}
	return ofFormula + m.Said()
}

// idle reports whether a step that is done otherwise brings no value that failed nearer than the formula as it is,
// which gives what was recorded, and not what is due. No step is to blame then.
func (c *Search) idle(m opdef.Mistake[*opdef.Call], fails []Wrong) bool {
	if !m.Step {
		return false
	}
	all := false
	for i := range fails {
		r := &fails[i]
		if _, _, ok := r.floats(); !ok {
			continue
		}
		bare := c.bareOf(r)
		if bare == nil {
			return false // which the step may explain
		}
		explains := true
		_ = c.Guard(func() error { // what cannot be read explains nothing
			got, _, made := c.few(func() (Way, error) {
				call, err := m.Plan()
				return Way{Call: call, Original: c.Original}, err
			}, r.Target)
			dt := r.Got.DType
			explains = slices.ContainsFunc(upTo(0, min(len(got), len(bare), len(made))), func(k int) bool {
				x, near := got[k], 2*dt.ULP(got[k])
				was, is := apart(x, dt.Round(bare[k]), near), apart(x, dt.Round(made[k]), near)
				return was > 2*is
			})
			return nil
		})
		if explains {
			return false
		}
		all = true
	}
	return all
}

// bareOf are some elements of a value that failed as the formula gives them, if it gives what was recorded.
func (c *Search) bareOf(r *Wrong) []float64 {
	bare, known := c.bare[r.Target]
	if known {
		return bare
	}
	sound := func() (Way, error) { return Way{Call: c.formula(), Original: c.Original}, nil }
	if c.nearer(sound, r) {
		_ = c.Guard(func() error { _, _, bare = c.few(sound, r.Target); return nil })
	}
	if c.bare == nil {
		c.bare = map[string][]float64{}
	}
	c.bare[r.Target] = bare
	return bare
}

// ofPrecision reports whether a text says that numbers overflow, underflow or cancel.
func ofPrecision(text string) bool {
	return strings.Contains(text, "overflow") || strings.Contains(text, "underflow") ||
		strings.Contains(text, " cancel")
}

// bareIsRecorded reports whether the formula gives what was recorded with all bits, so that few bits are not to blame.
func (c *Search) bareIsRecorded(fails []Wrong, results bool) bool {
	for i := range fails {
		if _, _, ok := fails[i].floats(); ok && fails[i].Forward() == results && c.bareOf(&fails[i]) != nil {
			return true
		}
	}
	return false
}

// bareText says of a formula that gives what was recorded, and no number where one is due, what it is. It is empty of
// others, and of a formula that takes long to say.
func (c *Search) bareText(call *opdef.Call, fails []Wrong, results bool) string {
	formula := ""
	for i := range fails {
		got, _, ok := fails[i].floats()
		if !ok || fails[i].Forward() != results || c.bareOf(&fails[i]) == nil {
			continue
		}
		is := ""
		_ = c.Guard(func() error { // what cannot be read is a number
			v := elements(got)
			switch {
			case slices.ContainsFunc(v, math.IsNaN):
				is = "NaN"
			case slices.ContainsFunc(v, func(x float64) bool { return !finite(x) }):
				is = "infinite"
			}
			return nil
		})
		if formula == "" {
			formula = call.Formula()
		}
		switch {
		case is == "" || formula == "":
		case results:
			return fmt.Sprintf("it is %s, which is %s where another number is due", formula, is)
		default:
			return fmt.Sprintf("the gradient is that of %s, which is %s where a number is due", formula, is)
		}
	}
	return ""
}

// formulas are the mistakes that the formula of the call may have: a step that is left out, an operand through which no
// gradient flows, and other formulas that kernels have for it. Where only gradients are wrong, these are what is
// derived.
func (c *Search) formulas(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		call := c.formula()
		if call == nil {
			return
		}
		results := slices.ContainsFunc(fails, func(w Wrong) bool { return w.Forward() })
		if text := c.bareText(call, fails, results); text != "" && !yield(Mistake{Text: text, Rounds: true,
			OnlyHere: true, NotFinite: true,
			Make: func() (Way, error) { return Way{Call: call, Original: c.Original}, nil }}) {
			return
		}
		for _, m := range call.Mistakes() {
			text := m.Said()
			if !m.Gradients && !results {
				text = derivedText(m)
			}
			c.Work.Elements(len(c.Bound.Tensors()))
			if c.idle(m, fails) || !m.Step && ofPrecision(text) && c.bareIsRecorded(fails, results) {
				continue
			}
			if !yield(Mistake{Text: text, Rounds: true, Gradients: m.Gradients, Precision: m.Precision,
				OnlyHere:  true,
				Known:     !m.Step,
				NotFinite: !m.Step && strings.Contains(text, "overflow") || strings.Contains(text, "NaN"),
				Make: func() (Way, error) {
					call, err := m.Plan()
					return Way{Call: call, Original: c.Original}, err
				}}) {
				return
			}
		}
	}
}

// dividedGradients are those that are divided by a size of the call: a mean in place of a sum. That says more than what
// else a kernel may have done to come to it.
func (c *Search) dividedGradients(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			got, want, ok := fails[i].floats()
			if !ok || got.Numel() < fewestScaled {
				continue
			}
			x := 0.0
			_ = c.Guard(func() error { x = multiple(Pieces(got), Pieces(want)); return nil }) // 0: it cannot be read
			if !(x > 0 && x < 1) {
				continue
			}
			k, ok := c.related(x, factorError(got))
			target := fails[i].Target
			if ok && strings.HasPrefix(k.text, fmt.Sprintf("1/%.0f: ", 1/k.x)) && !yield(Mistake{
				Like: "elements of " + target, Cost: min(digits(k.x), relatedBits), Rounds: true,
				Text: fmt.Sprintf("all elements are multiplied by %.7g, that is %s", k.x, k.text),
				Make: c.altering(func(of string, t *tensor.Tensor) *tensor.Tensor {
					if of != target {
						return t
					}
					return times(k.x)(of, t)
				})}) {
				return
			}
		}
	}
}

// derivedOtherwise are mistakes of the formula, and steps of it that are left out, where only gradients are wrong.
// They come before those of other operators, which have the same gradient by chance.
func (c *Search) derivedOtherwise(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if slices.ContainsFunc(fails, func(w Wrong) bool { return w.Forward() }) {
			return
		}
		for i, source := range []iter.Seq[Mistake]{c.averagedGradients(fails), c.dividedGradients(fails),
			c.formulas(fails), c.varied(fails)} {
			for m := range source {
				if (i < 3 || strings.Contains(m.Text, " is left out")) && !yield(m) {
					return
				}
			}
		}
	}
}

// overflowing are the formulas whose text says that they overflow.
func (c *Search) overflowing(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for m := range c.formulas(fails) {
			if strings.Contains(m.Text, "overflow") && !yield(m) {
				return
			}
		}
	}
}
