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
	out  *Value // nil: it is not known
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
	powerStep    = "power "
	slopeStep    = "derivative of the "
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
	g.steps = append(g.steps, step{name: name, in: in})
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
	if n := len(g.steps); n > 0 && !g.planned && g.steps[n-1].out == nil {
		g.steps[n-1].out = v
	}
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
		*to = append(*to, opdef.Mistake[any]{Text: text, Gradients: os[0].gradient, Step: true,
			Kept: c.graph.explicit, Plan: func() (any, error) { return c.again(&Graph{omit: os}) }})
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
			left[len(left)-1].Formula = c.graph.change(s.out, c.graph.written(s.in[k], nil, depthsOf))
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

// A lack is a mistake of sums in the backward pass: those of so many terms lack the last ones.
type lack struct{ terms, last int }

// lacking is x without what the graph says that the sums over dims lack.
func (g *Graph) lacking(x *Value, dims []int) *Value {
	if !g.planned || g.lack.last == 0 {
		return x
	}
	for _, d := range dims {
		if n := g.lack.terms; x.Shape()[d] == n {
			return g.Narrow(x, d, 0, n-g.lack.last)
		}
	}
	return x
}

// shortSums are calls whose gradients are right but for their sums: over a row that the composition spreads, or
// normalises, or over the rows that share an operand. They lack the last terms, an incomplete tile or the last one.
func (c *Call) shortSums() (out []opdef.Mistake[any]) {
	if c.again == nil {
		return nil
	}
	var sizes []int
	for _, v := range c.graph.nodes {
		if v.needs {
			sizes = append(sizes, v.spread()...)
		}
	}
	slices.Sort(sizes)
	for _, n := range slices.Compact(sizes) {
		for _, tail := range opdef.Tails(n) {
			out = append(out, opdef.Mistake[any]{Text: opdef.ShortGradient(tail, n), Rounds: true, Gradients: true,
				Step: true,
				Plan: func() (any, error) { return c.again(&Graph{lack: lack{n, tail}}) }})
		}
	}
	return out
}

// spread are the lengths of the dimensions over which the gradient of a step sums.
func (v *Value) spread() (out []int) {
	if v.normal > 1 {
		out = append(out, v.normal)
	}
	for _, x := range v.in {
		if x == nil || !x.needs {
			continue
		}
		lead := v.Dim() - x.Dim()
		for d, n := range v.Shape() {
			if lead >= 0 && n > 1 && (d < lead || x.Shape()[d-lead] == 1) {
				out = append(out, n)
			}
		}
	}
	return out
}

// ordinal is the n-th in words.
func ordinal(n int) string {
	if words := []string{"first", "second", "third", "fourth"}; n <= len(words) {
		return words[n-1]
	}
	return fmt.Sprintf("%dth", n)
}
