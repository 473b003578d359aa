package compose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/tensor"
)

// Formulas are written in terms of the arguments, of grad_output, which is the incoming gradient, and of result.

const (
	mostWritten = 72    // the longest formula
	mostChanged = 80    // the length of two formulas, with the formula around a step
	unwritten   = "..." // in place of a formula that is too long
	place       = "\x00"
	depthsOf    = 6 // the depth of a formula
)

// functionsWritten are the steps of one operand that a formula does not write by their names.
var functionsWritten = map[string]string{
	"square": "%s^2", "cube": "%s^3", "square root": "sqrt(%s)", "magnitude": "abs(%s)", "negation": "-%s",
	"reciprocal": "1 / %s", "exponential": "exp(%s)", "logarithm": "log(%s)", "reciprocal square root": "%s^-0.5",
	"sine": "sin(%s)", "cosine": "cos(%s)", "error function": "erf(%s)", "arctangent": "atan(%s)",
	"difference from 1": "1 - %s", "exponential to base 2": "2^%s", "logarithm to base 2": "log2(%s)",
	"logarithm to base 10": "log10(%s)", "largest": "max(%s)", "smallest": "min(%s)",
}

// slopesWritten are the derivatives of functions of one operand.
var slopesWritten = map[string]string{
	"square": "2 * %s", "square root": "0.5 * %s^-0.5", "exponential": "exp(%s)", "logarithm": "1 / %s",
	"negation": "-1", "reciprocal": "-(%s^-2)", "reciprocal square root": "-0.5 * %s^-1.5", "sine": "cos(%s)",
	"cosine": "-sin(%s)", "magnitude": "sign(%s)", "tanh": "(1 - tanh(%s)^2)",
	"sigmoid": "sigmoid(%[1]s) * (1 - sigmoid(%[1]s))", "softplus": "sigmoid(%s)", "relu": "(%s > 0)",
	"error function": "erf'(%s)",
}

// stepWritten is the formula of a step of one operand, whose formula is given.
func stepWritten(step, x string) string {
	for _, s := range []struct{ prefix, format string }{
		{factorStep, "%s * %s"}, {quotientStep, "%s / %s"}, {additionStep, "%s + %s"}, {powerStep, "%s^%s"},
	} {
		k, is := strings.CutPrefix(step, s.prefix)
		switch {
		case !is:
			continue
		case k == "1" && s.prefix != additionStep:
			return x
		case s.prefix == powerStep:
			x = asBase(x)
		case s.prefix == additionStep && strings.HasPrefix(k, "-"):
			return x + " - " + k[1:]
		case s.prefix != additionStep:
			x = factorWritten(x)
		}
		return fmt.Sprintf(s.format, x, k)
	}
	if f, ok := functionsWritten[step]; ok {
		return fmt.Sprintf(f, asIn(f, x))
	}
	return strings.ReplaceAll(step, " ", "_") + "(" + x + ")"
}

// asIn is x, in brackets where a format needs them.
func asIn(format, x string) string {
	switch {
	case strings.Contains(format, "(%s)") || strings.Contains(format, "(%[1]s)"):
		return x
	case strings.Contains(format, "s^"):
		return asBase(x)
	}
	return inBrackets(x)
}

// asBase is x, in brackets if it is no single factor, or a power.
func asBase(x string) string {
	if y := inBrackets(x); y != x || !strings.Contains(x, "^") || strings.HasSuffix(x, ")") {
		return y
	}
	return "(" + x + ")"
}

// inBrackets is x, in brackets if it is no single factor.
func inBrackets(x string) string {
	depth := 0
	for _, word := range strings.Fields(x) {
		if depth == 0 && (strings.HasPrefix(x, "-") || slices.Contains([]string{"+", "-", "*", "/"}, word)) {
			return "(" + x + ")"
		}
		depth += strings.Count(word, "(") - strings.Count(word, ")")
	}
	return x
}

// joinedWritten is the formula of a step of two operands, whose formulas are given.
func joinedWritten(step, x, y string) string {
	switch step {
	case "product":
		return factorWritten(x) + " * " + factorWritten(y)
	case "division":
		return factorWritten(x) + " / " + inBrackets(y)
	case "subtraction":
		return x + " - " + factorOrTerm(y)
	case "addition":
		return x + " + " + y
	case "maximum", "minimum":
		return step[:3] + "(" + x + ", " + y + ")"
	}
	return strings.ReplaceAll(step, " ", "_") + "(" + x + ", " + y + ")"
}

// factorWritten is x, in brackets if it is a sum or a difference.
func factorWritten(x string) string {
	depth := 0
	for _, word := range strings.Fields(x) {
		if depth == 0 && (word == "+" || word == "-") {
			return "(" + x + ")"
		}
		depth += strings.Count(word, "(") - strings.Count(word, ")")
	}
	return x
}

func factorOrTerm(x string) string {
	if strings.HasPrefix(x, "-") {
		return "(" + x + ")"
	}
	return factorWritten(x)
}

// written is the formula of a value. A format verb takes the place of the value at.
func (g *Graph) written(v, at *Value, depth int) string {
	for {
		if v == at {
			return place
		}
		if v.is != nil {
			v = v.is
			continue
		}
		if v.show == nil || g.leafText(v) != "" {
			break
		}
		v = v.in[0]
	}
	if text := g.leafText(v); text != "" {
		return text
	}
	of := v.in
	if len(of) == 0 {
		of = v.from
	}
	of = slices.DeleteFunc(slices.Clone(of), func(x *Value) bool { return x == nil })
	text := unwritten
	slope, derivative := strings.CutPrefix(v.what, slopeStep)
	switch {
	case v.what == "" && v.T.Wrapped && len(of) == 0 && v.T.DType.IsFloat():
		return fmt.Sprintf("%.4g", tensor.Data[float64](v.T)[0])
	case v.what == termCount:
		return "n"
	case depth == 0 || v.what == "" || len(of) == 0:
		return unwritten
	case derivative && len(of) == 3:
		x := g.written(of[2], at, depth-1)
		d, ok := slopesWritten[slope]
		if !ok {
			d = strings.ReplaceAll(slope, " ", "_") + "'(%s)"
		}
		if strings.Contains(d, "%") {
			d = fmt.Sprintf(d, asIn(d, x))
		}
		text = joinedWritten("product", g.written(of[0], at, depth-1), d)
	case derivative && len(of) == 4:
		text = g.slopeOfTwo(slope, v.operand, of, at, depth)
	case len(of) == 1 && v.what == "sum" && v.T.Numel() == of[0].T.Numel():
		text = g.written(of[0], at, depth-1)
	case len(of) == 1:
		text = stepWritten(v.what, g.written(of[0], at, depth-1))
	case len(of) == 2:
		text = joinedWritten(v.what, g.written(of[0], at, depth-1), g.written(of[1], at, depth-1))
	}
	if len(text) > mostWritten && !strings.Contains(text, place) {
		return unwritten
	}
	return text
}

// slopeOfTwo is the gradient of one of two operands. of holds the incoming gradient, the result and both operands.
func (g *Graph) slopeOfTwo(step string, operand int, of []*Value, at *Value, depth int) string {
	up := g.written(of[0], at, depth-1)
	x, y := g.written(of[2], at, depth-1), g.written(of[3], at, depth-1)
	switch {
	case step == "addition", step == "subtraction" && operand == 0:
		return up
	case step == "subtraction":
		return "-" + inBrackets(up)
	case step == "product" && operand == 0:
		return joinedWritten("product", up, y)
	case step == "product":
		return joinedWritten("product", up, x)
	case step == "division" && operand == 0:
		return joinedWritten("division", up, y)
	case step == "division":
		return "-" + factorWritten(up) + " * " + factorWritten(x) + " / " + inBrackets(y) + "^2"
	}
	return unwritten
}

// Called gives v a name for formulas if it has none: its step with its operands.
func (v *Value) Called(name string) *Value {
	if v.what == "" {
		v.what = name
	}
	return v
}

// leafText is the name of a value that needs no formula, "" of others.
func (g *Graph) leafText(v *Value) string {
	for _, a := range g.args {
		if a.leaf == v {
			if a.index > 0 {
				return fmt.Sprintf("%s[%d]", a.name, a.index)
			}
			return a.name
		}
	}
	switch {
	case slices.Contains(g.seeds, v):
		return "grad_output"
	case slices.Contains(g.results, v) && len(g.seeds) > 0:
		return "result"
	}
	return ""
}

// around is the largest formula that contains the value at and is not too long. A format verb takes the place of at.
func (g *Graph) around(at *Value) string {
	best, size := place, len(g.written(at, nil, depthsOf))
	for up, steps := at, 0; steps < 2*depthsOf; steps++ {
		next := g.userOf(up)
		if next == nil || slices.Contains(g.results, up) && !g.wasDerived(at) {
			break
		}
		text := g.written(next, at, depthsOf)
		if strings.Count(text, place) != 1 || len(text)+size > mostWritten {
			break
		}
		up = next
		if !strings.Contains(text, unwritten) {
			best = text
		}
	}
	return best
}

// wasDerived reports whether a value is one of the derivation.
func (g *Graph) wasDerived(v *Value) bool {
	return len(g.seeds) > 0 && v.position > g.lastComposed
}

// userOf is the only value that is computed from v, nil if there is none or if there are several.
func (g *Graph) userOf(v *Value) (user *Value) {
	for _, n := range g.nodes[min(v.position+1, len(g.nodes)):] {
		if g.wasDerived(n) != g.wasDerived(v) || n.is == v && n.what == "" && len(n.in) == 0 {
			continue
		}
		if slices.Contains(n.in, v) || slices.Contains(n.from, v) || n.is == v {
			if user != nil {
				return nil
			}
			user = n
		}
	}
	return user
}

// change says that text is computed in place of the formula of at. It is empty if that would say nothing.
func (g *Graph) change(at *Value, instead string) string {
	if at == nil || instead == "" {
		return ""
	}
	due := g.written(at, nil, depthsOf)
	if due == unwritten || len(due) > mostWritten {
		return ""
	}
	if n := strings.Count(due, unwritten); n > 0 || strings.Contains(instead, unwritten) {
		if n != 1 || strings.Count(instead, unwritten) != 1 || instead == due {
			return ""
		}
		x := strings.NewReplacer(unwritten, "x")
		from := "what comes before"
		if names := g.madeOf(at, due); len(names) > 0 {
			from = "made of " + strings.Join(names, " and ")
		}
		return x.Replace(instead) + ", not " + x.Replace(due) + ", where x is " + from
	}
	in := g.around(at)
	fill := func(x string) string {
		if in == place {
			return x
		}
		i := strings.Index(in, place)
		before, after := in[:i], in[i+len(place):]
		inner := strings.HasSuffix(before, "(") && (strings.HasPrefix(after, ")") || strings.HasPrefix(after, ",")) ||
			strings.HasSuffix(before, ", ") && strings.HasPrefix(after, ")")
		switch {
		case inner, before == "" && strings.HasPrefix(after, " + "):
		case strings.HasPrefix(after, "^"):
			x = asBase(x)
		case strings.HasSuffix(before, "/ ") || strings.HasSuffix(before, "-"):
			x = inBrackets(x)
		default:
			x = factorOrTerm(x)
		}
		return before + x + after
	}
	a, b := fill(instead), fill(due)
	if len(a)+len(b) > mostChanged { // the step itself says enough
		a, b = instead, due
	}
	if a == b || len(a)+len(b) > 2*mostWritten {
		return ""
	}
	return a + ", not " + b
}

// mostNames is the largest number of arguments that madeOf names.
const mostNames = 3

// madeOf names the arguments that a value depends on, without those in its formula; nil if there are none or too many.
func (g *Graph) madeOf(v *Value, formula string) (names []string) {
	seen := map[*Value]bool{}
	var visit func(v *Value)
	visit = func(v *Value) {
		if v == nil || seen[v] {
			return
		}
		seen[v] = true
		if name := g.leafText(v); name != "" {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
			return
		}
		visit(v.is)
		for _, x := range slices.Concat(v.in, v.from) {
			visit(x)
		}
	}
	visit(v)
	words := strings.FieldsFunc(formula, func(r rune) bool { return strings.ContainsRune(" ()+-*/^,", r) })
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(words, name) })
	if len(names) > mostNames {
		return nil
	}
	slices.Sort(names)
	return names
}
