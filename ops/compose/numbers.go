package compose

import (
	"fmt"
	"math"
	"strings"

	"github.com/optool/optool/ops/opdef"
)

// An otherNumber is one of a composition in whose place a kernel has another.
type otherNumber struct {
	index int
	x     float64
}

// number is x, a number that the composition has at some place, or what a kernel has there instead.
func (g *Graph) number(what string, x float64) float64 {
	if g.planned || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	g.numbers = append(g.numbers, opdef.Number{Name: what, Value: x})
	if o := g.instead; o != nil && o.index == len(g.numbers)-1 {
		return o.x
	}
	return x
}

// Constants are the numbers of the composition.
func (c *Call) Constants() (out []opdef.Constant[any]) {
	numbers := c.graph.numbers
	if len(numbers) > mostOmitted || c.again == nil {
		return nil
	}
	count, seen := map[string]int{}, map[string]int{}
	for _, n := range numbers {
		count[n.Name]++
	}
	for i, n := range numbers {
		name := "the " + n.Name
		if seen[n.Name]++; count[n.Name] > 1 {
			name = "the " + ordinal(seen[n.Name]) + " " + n.Name
		}
		out = append(out, opdef.Constant[any]{Number: opdef.Number{Name: name, Value: n.Value}, Step: true,
			Plan: func(x float64) (any, error) { return c.again(&Graph{instead: &otherNumber{i, x}}) }})
	}
	return out
}

// A form is another way in which a kernel does a step: how it joins a value and a small number that keeps it from 0.
type form struct {
	text string // with the number, if there is one
	join func(g *Graph, x *Value, k float64) *Value
}

// formed is a step of which kernels have other forms, with its number.
type formed struct {
	k     float64
	forms []form
}

// An otherForm is a form that a kernel has at one of the steps.
type otherForm struct{ step, form int }

func squarePlus(g *Graph, x *Value, k float64) *Value { return g.Sqrt(g.shift(g.square(x), k)) }

// The forms of x + k, of max(x, k), and of x^2.
var (
	sumForms = []form{
		{"the larger of %.4g and a value is taken, not their sum", func(g *Graph, x *Value, k float64) *Value {
			return g.clamp(x, k, math.Inf(1))
		}},
		{"%.4g is added outside of the root", func(g *Graph, x *Value, k float64) *Value {
			return g.square(g.shift(g.Sqrt(x), k))
		}},
		{"%.4g is added under the root", squarePlus},
		{"the square of %.4g is added under the root", func(g *Graph, x *Value, k float64) *Value {
			return squarePlus(g, x, k*k)
		}},
	}
	squareForms = []form{
		{"the magnitude is taken, not the square", func(g *Graph, x *Value, _ float64) *Value { return g.Abs(x) }},
	}
	limitForms = []form{
		{"%.4g is added, not taken for a lower limit", func(g *Graph, x *Value, k float64) *Value {
			return g.shift(x, k)
		}},
		{"%.4g is added under the root, not taken for a lower limit", squarePlus},
		{"the square of %.4g is added under the root, not taken for a lower limit",
			func(g *Graph, x *Value, k float64) *Value { return squarePlus(g, x, k*k) }},
	}
)

// mostSmall is the largest number that keeps a value from 0.
const mostSmall = 0.2

func isSmall(k float64) bool { return k > 0 && k <= mostSmall }

// inOtherForm is x joined with k in another of these forms, nil where the graph has none at this step.
func (g *Graph) inOtherForm(x *Value, k float64, forms []form) *Value {
	if g.planned || !x.DType().IsFloat() {
		return nil
	}
	g.formed = append(g.formed, formed{k, forms})
	for _, o := range g.others {
		if o.step == len(g.formed)-1 {
			return forms[o.form].join(g, x, k)
		}
	}
	return nil
}

// otherForms are the calls in which one step has another form.
func (c *Call) otherForms() (out []opdef.Mistake[any]) {
	if len(c.graph.formed) > mostOmitted || c.again == nil {
		return nil
	}
	add := func(text string, os ...otherForm) {
		out = append(out, opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
			return c.again(&Graph{others: os})
		}})
	}
	for i, s := range c.graph.formed {
		for j, f := range s.forms {
			text := f.text
			if strings.Contains(text, "%") {
				text = fmt.Sprintf(text, s.k)
			}
			add(text, otherForm{i, j})
			for before := i - 1; before >= 0; before-- {
				if o := c.graph.formed[before]; o.k == s.k && &o.forms[0] == &s.forms[0] {
					add(text+", twice", otherForm{i, j}, otherForm{before, j})
					break
				}
			}
		}
	}
	return out
}
