package compose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/tensor"
)

// infix are the steps of two operands that are written between them.
var infix = map[string]string{"addition": "+", "subtraction": "-", "product": "*", "division": "/"}

// left are what is said where a step of two operands is left out, so that the first stays: of the other one.
var left = map[string]string{"addition": "the term %s is left out", "subtraction": "%s is not subtracted",
	"product": "the factor %s is left out", "division": "it is not divided by %s"}

// mostDescribed is the longest description of a value.
const mostDescribed = 64

// termCount is what a mean divides by.
const termCount = "the number of its terms"

// description says what a value is in terms of the arguments; empty if that takes long, or is not known.
func (g *Graph) description(v *Value, depth int) string {
	text, part := "", false
	for v.is != nil || v.show != nil {
		if v.is != nil {
			v = v.is
			continue
		}
		part = part || v.T.Numel() < v.in[0].T.Numel()
		v = v.in[0]
	}
	for _, a := range g.args {
		if a.leaf == v {
			if text = a.name; a.index > 0 {
				text = fmt.Sprintf("%s[%d]", a.name, a.index)
			}
		}
	}
	switch {
	case text != "":
	case slices.Contains(g.seeds, v):
		text = "the incoming gradient"
	case slices.Contains(g.results, v) && len(g.seeds) > 0:
		text = "the result"
	case depth == 0:
	case v.what == termCount:
		text = v.what
	case v.what == "" && v.T.Wrapped && len(v.in) == 0 && v.T.DType.IsFloat():
		text = fmt.Sprintf("%.4g", tensor.Data[float64](v.T)[0])
	case infix[v.what] != "":
		x, y := g.description(v.in[0], depth-1), g.description(v.in[1], depth-1)
		if x != "" && y != "" {
			text = bracketed(x) + " " + infix[v.what] + " " + bracketed(y)
		}
	case v.what != "" && len(v.in) > 0 && v.in[0] != nil && (len(v.in) == 1 || v.in[1] == nil):
		if x := g.description(v.in[0], depth-1); x != "" {
			text = ofOne(v.what, bracketed(x))
		}
	}
	if part && text != "" {
		text = "a part of " + bracketed(text)
	}
	if len(text) > mostDescribed {
		return ""
	}
	return text
}

// ofOne says what a step of one operand makes of it.
func ofOne(step, x string) string {
	for _, s := range []struct{ prefix, format string }{
		{factorStep, "%[2]s * %[1]s"}, {quotientStep, "%[1]s / %[2]s"}, {additionStep, "%[1]s + %[2]s"},
	} {
		if k, is := strings.CutPrefix(step, s.prefix); is {
			return fmt.Sprintf(s.format, x, k)
		}
	}
	return "the " + step + " of " + x
}

func bracketed(x string) string {
	for _, by := range infix {
		if strings.Contains(x, " "+by+" ") {
			return "(" + x + ")"
		}
	}
	return x
}

// leftOut says that a step of two operands is left out, so that one of them stays; empty if that cannot be said of the
// arguments.
func (g *Graph) leftOut(name string, in []*Value, stays int) string {
	const depth = 4
	x, y := g.description(in[0], depth), g.description(in[1], depth)
	other := y
	if stays == 1 {
		other = x
	}
	switch {
	case other == "", other == termCount && stays == 1:
		return ""
	case other == termCount:
		if x == "" {
			x = "a sum"
		}
		return x + " is not divided by " + termCount + ": no mean is taken"
	case stays == 1 && (name == "division" || name == "subtraction"):
		if x == "" || y == "" {
			return ""
		}
		return y + " is taken in place of " + bracketed(x) + " " + infix[name] + " " + bracketed(y)
	case left[name] == "":
		return ""
	}
	stay := x
	if stays == 1 {
		stay = y
	}
	text := fmt.Sprintf(left[name], bracketed(other))
	if stay != "" {
		text += ": " + stay + " stays"
	}
	return text
}
