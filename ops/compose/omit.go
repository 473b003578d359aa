package compose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A step is a function of elements that a composition applies. Steps are in order of execution.
type step struct {
	name string // "logarithm"; empty if kernels do not leave it out
	in   []*Value
}

// An omission is a step that a kernel leaves out. One operand replaces the result of the step, or the operand gets no
// gradient through it.
type omission struct {
	step, operand int
	gradient      bool
}

// factorStep, quotientStep and additionStep begin the names of products with numbers, of quotients by them and of
// sums. mostFactors is how many such steps of a composition optool tries to leave out in pairs.
const (
	factorStep   = "factor "
	quotientStep = "division by "
	additionStep = "addition of "
	mostFactors  = 10
)

// mostOmitted is the largest number of steps of a composition for which optool tries to leave out each.
const mostOmitted = 32

// omitted is the result of the newest step if the graph leaves it out, nil otherwise.
func (g *Graph) omitted(fn function, shape []int, dt tensor.DType, in []*Value) *Value {
	if g.planned {
		return nil
	}
	name := fn.name
	if !dt.Real().IsFloat() { // positions: without a step they point elsewhere, or nowhere
		name = ""
	}
	g.steps = append(g.steps, step{name, in})
	o := g.omission(false)
	if o == nil {
		return nil
	}
	x := in[o.operand]
	if x.T.DType.Kind() != dt.Kind() {
		return nil
	}
	v := g.Expand(g.To(x, dt), shape...)
	v.fixed = true
	return v
}

// unlinked returns v, the result of the newest step. If the graph says so, one operand gets no gradient through it.
func (g *Graph) unlinked(v *Value) *Value {
	if o := g.omission(true); o != nil && !g.planned {
		v.cut = o.operand + 1
	}
	return v
}

// omission is the omission of the newest step, of its result or of its gradient. It is nil if there is none.
func (g *Graph) omission(gradient bool) *omission {
	i := slices.IndexFunc(g.omit, func(o omission) bool { return o.gradient == gradient && o.step == len(g.steps)-1 })
	if i < 0 {
		return nil
	}
	return &g.omit[i]
}

// omissions are calls that leave out one step, or the gradient of one step.
func (c *Call) omissions() []opdef.Mistake[any] {
	steps := c.graph.steps
	if len(steps) > mostOmitted || c.again == nil {
		return nil
	}
	count, seen, known := map[string]int{}, map[string]int{}, map[string]int{}
	for _, s := range steps {
		count[s.name]++
	}
	var left, gradients []opdef.Mistake[any]
	add := func(to *[]opdef.Mistake[any], text string, os ...omission) {
		*to = append(*to, opdef.Mistake[any]{Text: text, Gradients: os[0].gradient, Plan: func() (any, error) {
			return c.again(&Graph{omit: os})
		}})
	}
	var factors []omission
	var names []string
	for i, s := range steps {
		if s.name == "" {
			continue
		}
		what := "the " + s.name
		if seen[s.name]++; count[s.name] > 1 {
			what = "the " + ordinal(seen[s.name]) + " " + s.name
		}
		for k := range s.in {
			stays, of := "", ""
			if len(s.in) > 1 {
				stays = ": its " + ordinal(k+1) + " operand stays"
				of = " to its " + ordinal(k+1) + " operand"
			}
			text := what + " is left out" + stays
			if len(s.in) == 2 {
				if said := c.graph.leftOut(s.name, s.in, k); said != "" {
					if known[said]++; known[said] > 1 {
						said += ", the " + ordinal(known[said]) + " time"
					}
					text = said
				}
			}
			add(&left, text, omission{step: i, operand: k})
			add(&gradients, "the gradient lacks what flows through "+what+of,
				omission{step: i, operand: k, gradient: true})
		}
		if isFactor(s.name) && len(factors) < mostFactors {
			factors, names = append(factors, omission{step: i}), append(names, what)
		}
	}
	for i, o := range factors {
		for j, p := range factors[i+1:] {
			add(&left, names[i]+" and "+names[i+1+j]+" are left out", o, p)
		}
	}
	return append(left, gradients...)
}

func isFactor(step string) bool {
	return strings.HasPrefix(step, factorStep) || strings.HasPrefix(step, quotientStep)
}

// ordinal is the n-th in words.
func ordinal(n int) string {
	if words := []string{"first", "second", "third", "fourth"}; n <= len(words) {
		return words[n-1]
	}
	return fmt.Sprintf("%dth", n)
}
