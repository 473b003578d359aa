package compose

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A variation is what a kernel does at one step in place of what is due: another function, another operand, fewer bits,
// other dimensions. Steps are those of the composition, or those of its derivation.
type variation struct {
	deriving     bool
	step, option int    // all steps of the name, if step is below 0
	name         string // of the step
}

// A mark is a step that may be done in other ways.
type mark struct {
	name    string
	in      []*Value
	options func() []option
	out     *Value // the step as it is due
}

// An option is a way to do a step. Its text has %[1]s for the first operand, %[2]s for the second, %[3]s for the step.
type option struct {
	text string
	as   string // the formula of what is taken, with %[1]s and %[2]s likewise; empty if that is none
	of   func(g *Graph, in []*Value) *Value
	grid *opdef.Grid // to which the step is rounded; of is nil then
	kept []int       // the dimensions of a sum that is kept on the grid, rounded after each term; nil: it is not
	left bool        // the step is left out
	form string      // of namedFunction, what is taken
	wide bool        // it has another shape, with which steps after it broadcast
}

// mostVaried is the largest number of steps, of a composition or of its derivation, that are done in other ways.
const mostVaried = 48

// varied is the newest step, as it is due, or as the graph does it instead.
func (g *Graph) varied(name string, options func() []option, shape []int, dt tensor.DType, in []*Value,
	sound func() *Value) *Value {
	if g.muted || !dt.IsFloat() || g.planned && !g.deriving {
		return sound()
	}
	name = cmp.Or(name, "function")
	side := 0
	if g.deriving {
		side = 1
	}
	at := len(g.marks[side])
	g.marks[side] = append(g.marks[side], mark{name: name, in: in, options: options})
	w := g.variant
	due := func() *Value {
		v := sound()
		g.marks[side][at].out = v
		return v
	}
	if w == nil || w.deriving != g.deriving || w.step != at && (w.step >= 0 || w.name != name) {
		return due()
	}
	all := options()
	if w.option >= len(all) {
		return due()
	}
	o := all[w.option]
	if o.of == nil {
		v := sound()
		made := o.grid.OnGrid
		if o.kept != nil {
			made = func(t *tensor.Tensor) *tensor.Tensor { return keptSum(name, in[0].T, t, o.kept, o.grid.Round) }
		}
		v.T = g.works.keep(made(v.T), v.T)
		return v
	}
	g.muted = true
	defer func() { g.muted = false }()
	v := g.To(o.of(g, in), dt)
	if !o.wide {
		v = g.Expand(v, shape...)
	}
	v.fixed = true
	return v
}

// formOf is a step with a number of another form of its operand.
func formOf(step, form string) string { return stepWritten(step, stepWritten(form, "%[1]s")) }

// named are functions that kernels take for others, with their names.
func named() []namedFunction {
	return []namedFunction{
		{"square", (*Graph).square}, {"square root", (*Graph).Sqrt}, {"magnitude", (*Graph).Abs},
		{"negation", (*Graph).Neg}, {"reciprocal", (*Graph).Reciprocal}, {"exponential", (*Graph).Exp},
		{"logarithm", (*Graph).Log}, {"tanh", (*Graph).Tanh}, {"sigmoid", (*Graph).Sigmoid}, {"relu", (*Graph).ReLU},
		{"softplus", (*Graph).Softplus}, {"log1p", (*Graph).Log1p}, {"expm1", (*Graph).Expm1}, {"sine", (*Graph).Sin},
		{"cosine", (*Graph).Cos}, {"reciprocal square root", (*Graph).Rsqrt}, {"gelu", exactGELU},
		{"silu", (*Graph).SiLU},
		{"cube", func(g *Graph, x *Value) *Value { return g.Mul(x, g.square(x)) }},
		{"sign", func(g *Graph, x *Value) *Value { return g.Unary("", signOf, x) }},
		{"error function", func(g *Graph, x *Value) *Value { return g.Unary("", erfOf, x) }},
		{"arctangent", func(g *Graph, x *Value) *Value { return g.Unary("", atanOf, x) }},
		{"difference from 1", fromOne},
		{"exponential to base 2", func(g *Graph, x *Value) *Value { return g.Exp(g.Scale(x, math.Ln2)) }},
		{"logarithm to base 2", func(g *Graph, x *Value) *Value { return g.Scale(g.Log(x), math.Log2E) }},
		{"logarithm to base 10", func(g *Graph, x *Value) *Value { return g.Scale(g.Log(x), math.Log10E) }},
	}
}

// A namedFunction is one of elements.
type namedFunction struct {
	name string
	of   func(g *Graph, x *Value) *Value
}

func exactGELU(g *Graph, x *Value) *Value { return g.GELU(x, false) }

func fromOne(g *Graph, x *Value) *Value { return g.shift(g.Neg(x), 1) }

var (
	signOf = opdef.Unary{Error: elements.ExactError, F: func(x float64) float64 {
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		}
		return x
	}, DF: func(_, _ float64) float64 { return 0 }}
	erfOf = opdef.Unary{Error: elements.ElementwiseError, F: math.Erf,
		DF: func(x, _ float64) float64 { return 2 / math.Sqrt(math.Pi) * math.Exp(-x*x) }}
	atanOf = opdef.Unary{Error: elements.ElementwiseError, F: math.Atan,
		DF: func(x, _ float64) float64 { return 1 / (1 + x*x) }}
)

// operandForms are what kernels make of an operand by mistake.
var operandForms = []string{"square", "square root", "magnitude", "negation", "difference from 1", "reciprocal", "sign"}

func form1(name string) func(g *Graph, x *Value) *Value {
	for _, f := range named() {
		if f.name == name {
			return f.of
		}
	}
	return nil
}

// pairs are what kernels make of two operands, with the steps that they may stand for.
func pairs() []pair {
	return []pair{
		{"%[1]s + %[2]s", "addition", (*Graph).Add}, {"%[1]s - %[2]s", "subtraction", (*Graph).Sub},
		{"%[2]s - %[1]s", "", func(g *Graph, x, y *Value) *Value { return g.Sub(y, x) }},
		{"%[1]s * %[2]s", "product", (*Graph).Mul}, {"%[1]s / %[2]s", "division", (*Graph).Div},
		{"%[2]s / %[1]s", "", func(g *Graph, x, y *Value) *Value { return g.Div(y, x) }},
		{"the larger of %[1]s and %[2]s", "maximum", (*Graph).Maximum},
		{"the smaller of %[1]s and %[2]s", "minimum", (*Graph).Minimum},
	}
}

// A pair is what is made of two operands.
type pair struct {
	text string
	name string // of the step that this is due in
	of   func(g *Graph, x, y *Value) *Value
}

// stepOptions are the ways in which kernels do a step of one operand or two.
func stepOptions(name string, x *Value, n int, dt tensor.DType, f func(v []float64) float64) (out []option) {
	switch {
	case n == 2:
		out = twoOptions(name)
	case isFactor(name) || strings.HasPrefix(name, additionStep):
		out = []option{{text: "the %[3]s is left out: %[1]s stays", as: "%[1]s", of: first, left: true},
			{text: "the %[3]s of %[1]s has the other sign", of: func(g *Graph, in []*Value) *Value {
				return withNumber(g, name, f, in[0], -1)
			}}}
		for _, form := range operandForms {
			out = append(out, option{text: "in the %[3]s of %[1]s, the " + form + " of that is taken",
				as: formOf(name, form),
				of: func(g *Graph, in []*Value) *Value { return withNumber(g, name, f, form1(form)(g, in[0]), 1) }})
		}
	default:
		out = append(out, option{text: "the %[3]s of %[1]s is left out", as: "%[1]s", of: first, left: true})
		for _, f := range named() {
			if f.name != name {
				out = append(out, option{text: "the " + f.name + " of %[1]s is taken, not the %[3]s",
					as: stepWritten(f.name, "%[1]s"), form: f.name,
					of: func(g *Graph, in []*Value) *Value { return f.of(g, in[0]) }})
			}
		}
		if own := form1(name); own != nil {
			out = append(out, otherBases(name, own)...)
			out = append(out, tailOptions(name, x, out)...)
			for _, form := range []string{"magnitude", "negation"} {
				if form != name {
					out = append(out, option{text: "the %[3]s of the " + form + " of %[1]s is taken",
						as: formOf(name, form),
						of: func(g *Graph, in []*Value) *Value { return own(g, form1(form)(g, in[0])) }})
				}
			}
		}
	}
	return append(out, gridOptions(dt)...)
}

// otherBases are functions that are made of exponentials and logarithms to base e, of kernels that have those to base 2
// at hand and lack the factor between them.
func otherBases(name string, own func(g *Graph, x *Value) *Value) (out []option) {
	base := func(what string, of func(g *Graph, x *Value) *Value) {
		out = append(out, option{text: "the " + what + " in the %[3]s of %[1]s is that to base 2",
			of: func(g *Graph, in []*Value) *Value { return of(g, in[0]) }})
	}
	if slices.Contains([]string{"softplus", "sigmoid", "tanh", "expm1", "silu"}, name) {
		base("exponential", func(g *Graph, x *Value) *Value { return own(g, g.Scale(x, math.Ln2)) })
	}
	if slices.Contains([]string{"softplus", "log1p"}, name) {
		base("logarithm", func(g *Graph, x *Value) *Value { return g.Scale(own(g, x), math.Log2E) })
	}
	return out
}

// withNumber is the step f of x with a number, which is multiplied by sign.
func withNumber(g *Graph, name string, f func(v []float64) float64, x *Value, sign float64) *Value {
	switch {
	case strings.HasPrefix(name, factorStep):
		return g.Scale(x, sign*f([]float64{1}))
	case strings.HasPrefix(name, quotientStep):
		return g.Over(x, sign/f([]float64{1}))
	}
	return g.shift(x, sign*f([]float64{0}))
}

func first(_ *Graph, in []*Value) *Value { return in[0] }

func second(_ *Graph, in []*Value) *Value { return in[1] }

func twoOptions(name string) (out []option) {
	for k, text := range []string{"the %[3]s of %[1]s and %[2]s is left out: %[1]s stays",
		"the %[3]s of %[1]s and %[2]s is left out: %[2]s stays"} {
		out = append(out, option{text: text, as: fmt.Sprintf("%%[%d]s", k+1),
			of: func(_ *Graph, in []*Value) *Value { return in[k] }, left: true})
	}
	for _, p := range pairs() {
		if p.name != name || name == "" {
			out = append(out, option{text: p.text + " is taken in the %[3]s of %[1]s and %[2]s", as: p.text,
				of: func(g *Graph, in []*Value) *Value { return p.of(g, in[0], in[1]) }})
		}
	}
	own := slices.IndexFunc(pairs(), func(p pair) bool { return p.name == name && name != "" })
	if own < 0 {
		return out
	}
	for k := range 2 {
		names := []string{"%[1]s", "%[2]s"}
		names[k] = "1"
		out = append(out, option{text: fmt.Sprintf("in the %%[3]s of %%[1]s and %%[2]s, 1 is taken for %%[%d]s", k+1),
			as: joinedWritten(name, names[0], names[1]),
			of: func(g *Graph, in []*Value) *Value {
				v := slices.Clone(in)
				v[k] = g.shift(g.Scale(in[k], 0), 1)
				return pairs()[own].of(g, v[0], v[1])
			}})
		for _, f := range operandForms {
			text := fmt.Sprintf("in the %%[3]s of %%[1]s and %%[2]s, the %s of %%[%d]s is taken", f, k+1)
			names := []string{"%[1]s", "%[2]s"}
			names[k] = stepWritten(f, names[k])
			out = append(out, option{text: text, as: joinedWritten(name, names[0], names[1]),
				of: func(g *Graph, in []*Value) *Value {
					v := slices.Clone(in)
					v[k] = form1(f)(g, in[k])
					return pairs()[own].of(g, v[0], v[1])
				}})
		}
	}
	return out
}

// gridOptions round a step to fewer bits.
func gridOptions(dt tensor.DType) (out []option) {
	grids := opdef.CoarserGrids(dt)
	if dt.IsReduced() { // steps are computed with more bits than results have
		grids = append([]opdef.Grid{opdef.GridOf(dt)}, grids...)
	}
	for _, grid := range grids {
		out = append(out, option{text: "the %[3]s of %[1]s and %[2]s is " + grid.Rounded(), grid: &grid})
	}
	return out
}

// A reducing is what is made of the elements along dimensions.
type reducing struct {
	name string
	of   func(g *Graph, x *Value, keepdim bool, dims ...int) *Value
}

// reductions are those that kernels take for each other.
func reducings() []reducing {
	return []reducing{{"sum", (*Graph).Sum}, {"mean", (*Graph).Mean}, {"largest", (*Graph).Amax},
		{"smallest", (*Graph).Amin}}
}

// reduceOptions are the ways in which kernels reduce x: to something else, or over other dimensions; each row with the
// result of the one before.
func reduceOptions(name string, x *Value, keepdim bool, dims []int) (out []option) {
	own := func(g *Graph, x *Value, keepdim bool, dims ...int) *Value { return nil }
	for _, r := range reducings() {
		if r.name == name {
			own = r.of
			continue
		}
		out = append(out, option{text: "the " + r.name + " of %[1]s is taken, not the %[3]s",
			as: stepWritten(r.name, "%[1]s"),
			of: func(g *Graph, in []*Value) *Value { return r.of(g, in[0], keepdim, dims...) }})
	}
	if name == "sum" && len(dims) > 0 {
		out = append(out, option{text: "the sum of %[1]s is divided by the root of the number of its terms",
			of: func(g *Graph, in []*Value) *Value {
				n := 1
				for _, d := range dims {
					n *= x.Shape()[d]
				}
				return g.Over(g.Sum(in[0], keepdim, dims...), math.Sqrt(float64(n)))
			}})
	}
	kept := slices.Clone(x.Shape())
	for _, d := range dims {
		kept[d] = 1
	}
	drop := func(g *Graph, v *Value) *Value { // to the shape of the step, from one in which all dimensions are kept
		v = g.Expand(v, kept...)
		if keepdim {
			return v
		}
		var shape []int
		for d, n := range kept {
			if !slices.Contains(dims, d) {
				shape = append(shape, n)
			}
		}
		return g.Reshape(v, shape...)
	}
	over := func(other []int, text string) {
		out = append(out, option{text: text, of: func(g *Graph, in []*Value) *Value {
			return drop(g, own(g, in[0], true, other...))
		}})
	}
	for d := range x.Dim() {
		if slices.Contains(dims, d) {
			continue
		}
		if one := len(dims) == 1 && x.Shape()[d] > 1; one && (keepdim || x.Shape()[d] == x.Shape()[dims[0]]) {
			text := fmt.Sprintf("the %%[3]s of %%[1]s runs over dimension %d, not %d", d, dims[0])
			out = append(out, option{text: text, wide: keepdim,
				of: func(g *Graph, in []*Value) *Value { return own(g, in[0], keepdim, d) }})
		}
		over(append(slices.Clone(dims), d), fmt.Sprintf("the %%[3]s of %%[1]s runs over dimension %d, too", d))
		if kept[d] > 1 {
			text := fmt.Sprintf("the %%[3]s of %%[1]s is that of the index before along dimension %d", d)
			out = append(out, option{text: text,
				of: func(g *Graph, in []*Value) *Value {
					return drop(g, g.Roll(own(g, in[0], true, dims...), d, 1))
				}})
			for n := 1; n < kept[d]; n *= 2 {
				text := fmt.Sprintf("the %%[3]s of %%[1]s is that of the first %d indices of dimension %d again and again",
					n, d)
				if n == 1 {
					text = fmt.Sprintf("the %%[3]s of %%[1]s is that of the first index of dimension %d everywhere", d)
				}
				out = append(out, option{text: text, of: func(g *Graph, in []*Value) *Value {
					return drop(g, g.again(own(g, in[0], true, dims...), d, n))
				}})
			}
		}
	}
	out = append(out, partOptions(name, x, dims, own, drop)...)
	if len(dims) < x.Dim()-1 {
		over(elements.AllDims(x.Dim()), "the %[3]s of %[1]s runs over all dimensions")
	}
	if name == "sum" || name == "mean" {
		for _, grid := range opdef.SumGrids(x.DType()) {
			out = append(out, option{text: "the %[3]s of %[1]s is kept in " + grid.Name + ", rounded after each term",
				grid: &grid, kept: dims})
		}
	}
	return append(out, gridOptions(x.DType())...)
}

// partOptions are a reduction over part of the elements along one of the dimensions, or along the last ones as if they
// were one: the first elements, as many as tiles hold, or the last ones. A mean may still be divided by the number of
// all.
func partOptions(name string, x *Value, dims []int, own func(*Graph, *Value, bool, ...int) *Value,
	drop func(*Graph, *Value) *Value) (out []option) {
	along := func(which string, n int, part func(g *Graph, x *Value, start, count int) *Value) {
		add := func(end, of string, start, count int, by float64) {
			out = append(out, option{
				text: fmt.Sprintf("the %%[3]s of %%[1]s is that of the %s %d of %d %s%s", end, count, n, which, of),
				of: func(g *Graph, in []*Value) *Value {
					v := part(g, in[0], start, count)
					if by != 1 {
						v = g.Scale(v, by)
					}
					return drop(g, v)
				}})
		}
		for _, count := range opdef.Parts(n) {
			add("first", "", 0, count, 1)
			add("last", "", count, n-count, 1)
			if name == "mean" {
				add("first", ", divided by the number of all", 0, count, float64(count)/float64(n))
			}
		}
	}
	for _, d := range dims {
		along(fmt.Sprintf("indices of dimension %d", d), x.Shape()[d],
			func(g *Graph, x *Value, start, count int) *Value {
				return own(g, g.Narrow(x, d, start, count), true, dims...)
			})
	}
	sorted := slices.Sorted(slices.Values(dims))
	for k := len(sorted) - 2; k >= 0 && sorted[k]+1 == sorted[k+1]; k-- { // dimensions that follow each other
		from, to := sorted[k], sorted[len(sorted)-1]+1
		n := tensor.Numel(x.Shape()[from:to])
		joined := slices.Concat(x.Shape()[:from], []int{n}, x.Shape()[to:])
		over := append(slices.Clone(sorted[:k]), from)
		along(fmt.Sprintf("elements of dimensions %d to %d", from, to-1), n,
			func(g *Graph, x *Value, start, count int) *Value {
				v := own(g, g.Narrow(g.Reshape(x, joined...), from, start, count), true, over...)
				shape := slices.Clone(x.Shape())
				for _, d := range dims {
					shape[d] = 1
				}
				return g.Reshape(v, shape...)
			})
	}
	return out
}

// tailOptions are steps of single elements that are left out, or done as another one, in the last elements along a
// dimension, which fill no tile: a reduction after them adds up other terms there.
func tailOptions(name string, x *Value, all []option) (out []option) {
	for d, n := range x.Shape() {
		for _, tail := range opdef.Remainders(n) {
			for _, o := range all {
				if o.of == nil || o.wide || !o.left && !slices.Contains(tailForms, o.form) || o.form == name {
					continue
				}
				where := fmt.Sprintf("in the last %d of %d indices of dimension %d, ", tail, n, d)
				out = append(out, option{text: where + o.text, of: func(g *Graph, in []*Value) *Value {
					due := form1(name)(g, in[0])
					return g.Cat(d, g.Narrow(due, d, 0, n-tail), g.Narrow(o.of(g, in), d, n-tail, tail))
				}})
			}
		}
	}
	return out
}

// tailForms are what loops over a tail take for a step.
var tailForms = []string{"square", "magnitude", "negation", "square root"}

// KeptSum is the sum of x along dimensions, which stay as one element, of a kernel that keeps it in a dtype: the terms
// and the sum with each of them are rounded.
func (g *Graph) KeptSum(x *Value, dt tensor.DType, dims ...int) *Value {
	ds, err := opdef.Dims("dim", dims, x.Dim())
	g.Check(err)
	v := g.Sum(x, true, ds...)
	v.T = g.works.keep(keptSum("sum", x.T, v.T, ds, dt.Round), v.T)
	return v
}

// keptSum is the sum, or mean, of x along dimensions, whose terms are rounded, and each sum with one of them. Its shape
// is that of t.
func keptSum(name string, x, t *tensor.Tensor, dims []int, round func(float64) float64) *tensor.Tensor {
	terms := opdef.Scratch[float64](x.Numel())
	tensor.Load(x, 0, *terms)
	stride, n := make([]int, x.Dim()), 1
	for d := x.Dim() - 1; d >= 0; d-- {
		if !slices.Contains(dims, d) {
			stride[d], n = n, n*x.Shape[d]
		}
	}
	sums := tensor.Make[float64](n)
	for i, term := range *terms {
		at := 0
		for d, rest := x.Dim()-1, i; d >= 0; d-- {
			at += rest % x.Shape[d] * stride[d]
			rest /= x.Shape[d]
		}
		sums[at] = round(sums[at] + round(term))
	}
	if name == "mean" {
		for i := range sums {
			sums[i] /= float64(len(*terms) / n)
		}
	}
	return tensor.New(t.DType, t.Shape, sums)
}

// slopeOptions are what kernels take for the derivative of a function of one operand, times up.
func slopeOptions(name string) (out []option) {
	add := func(text string, of func(g *Graph, up, x, y *Value) *Value) {
		out = append(out, option{text: text, of: func(g *Graph, in []*Value) *Value {
			return of(g, in[0], in[1], in[2])
		}})
	}
	if name == "" {
		name = "function"
	}
	add("the derivative of the "+name+" is left out", func(_ *Graph, up, _, _ *Value) *Value { return up })
	for _, s := range []struct {
		text string
		of   func(g *Graph, x, y *Value) *Value
	}{
		{"the result of the " + name, func(_ *Graph, _, y *Value) *Value { return y }},
		{"1 - y, of its result y,", func(g *Graph, _, y *Value) *Value { return fromOne(g, y) }},
		{"y * (1 - y), of its result y,", func(g *Graph, _, y *Value) *Value { return g.Mul(y, fromOne(g, y)) }},
		{"1 - square(y), of its result y,", func(g *Graph, _, y *Value) *Value { return fromOne(g, g.square(y)) }},
		{"square(y), of its result y,", func(g *Graph, _, y *Value) *Value { return g.square(y) }},
		{"1 + y, of its result y,", func(g *Graph, _, y *Value) *Value { return g.shift(y, 1) }},
		{"1 + square(y), of its result y,", func(g *Graph, _, y *Value) *Value { return g.shift(g.square(y), 1) }},
		{"1 / y, of its result y,", func(g *Graph, _, y *Value) *Value { return g.Reciprocal(y) }},
		{"its operand x", func(_ *Graph, x, _ *Value) *Value { return x }},
		{"x * (1 - x), of its operand x,", func(g *Graph, x, _ *Value) *Value { return g.Mul(x, fromOne(g, x)) }},
		{"1 - square(x), of its operand x,", func(g *Graph, x, _ *Value) *Value { return fromOne(g, g.square(x)) }},
		{"1 / x, of its operand x,", func(g *Graph, x, _ *Value) *Value { return g.Reciprocal(x) }},
		{"the exponential of its operand", func(g *Graph, x, _ *Value) *Value { return g.Exp(x) }},
		{"the sigmoid of its operand", func(g *Graph, x, _ *Value) *Value { return g.Sigmoid(x) }},
	} {
		add("in place of the derivative of the "+name+", "+s.text+" is taken", func(g *Graph, up, x, y *Value) *Value {
			return g.Mul(up, s.of(g, x, y))
		})
	}
	return out
}

// WithGradient is y, of whose gradient gradient makes those of the values in.
func (g *Graph) WithGradient(y *Value, in []*Value, gradient func(up *Value) []*Value) *Value {
	g.explicit = true
	return g.add(&Value{T: y.T, errors: y.errors, in: in, is: y, vjp: gradient})
}

// Variations are calls that do one step in another way, of the composition or of its derivation.
func (c *Call) Variations() (out []opdef.Mistake[any]) {
	if c.again == nil || c.graph.drawing != nil || c.graph.draws {
		return nil
	}
	plain, err := c.again(&Graph{nan: c.graph.nan})
	if err != nil {
		return nil
	}
	if slices.ContainsFunc(plain.graph.args, func(a argument) bool { return a.leaf != nil && a.leaf.needs }) {
		up := make([]*tensor.Tensor, len(plain.outs))
		for i, o := range plain.outs {
			if o.DType().IsFloat() {
				up[i] = tensor.Full(o.DType(), o.Shape(), 1.0)
			}
		}
		plain.backward(up)
	}
	var rest []opdef.Mistake[any] // after the steps that are left out
	for side, marks := range plain.graph.marks {
		if len(marks) > mostVaried {
			continue
		}
		count, seen := map[string]int{}, map[string]int{}
		for _, m := range marks {
			count[m.name]++
		}
		add := func(text, formula string, o option, m mark, w variation) {
			if side == 1 {
				text = "in the gradient, " + text
			}
			w.deriving = side == 1
			to := &rest
			if o.left {
				to = &out
			}
			*to = append(*to, opdef.Mistake[any]{Text: text, Rounds: o.grid != nil, Gradients: side == 1,
				Step:      true,
				Precision: o.grid != nil && len(m.in) > 0 && o.grid.Keeps(m.in[0].DType()),
				Kept:      plain.graph.explicit, Formula: formula,
				Plan: func() (any, error) { return c.again(&Graph{nan: c.graph.nan, variant: &w}) }})
		}
		for i, m := range marks {
			seen[m.name]++
			which := m.name
			if count[m.name] > 1 {
				which = ordinal(seen[m.name]) + " " + m.name
			}
			for k, o := range m.options() {
				add(plain.graph.told(o, m, which), plain.graph.formula(o, m), o, m,
					variation{step: i, option: k, name: m.name})
			}
		}
		for _, m := range marks {
			if n := count[m.name]; n > 1 {
				count[m.name] = 0
				for k, o := range m.options() {
					add(plain.graph.told(o, m, m.name)+fmt.Sprintf(", and likewise in all %d places", n),
						plain.graph.formula(o, m), o, m,
						variation{step: -1, option: k, name: m.name})
				}
			}
		}
	}
	return append(out, rest...)
}

// Formula is that of the first result, empty if that takes long to say.
func (c *Call) Formula() string {
	if c.again == nil || c.graph.drawing != nil || c.graph.draws {
		return ""
	}
	plain, err := c.again(&Graph{nan: c.graph.nan}) // whose results are no operands of a derivation
	if err != nil || len(plain.outs) == 0 {
		return ""
	}
	text := plain.graph.written(plain.outs[0], nil, depthsOf)
	if strings.Contains(text, unwritten) || len(text) > mostChanged {
		return ""
	}
	return text
}

// told is the text of an option.
func (g *Graph) told(o option, m mark, which string) string {
	const depth = 3
	names := []any{"its first operand", "its second operand", which}
	if len(m.in) == 1 {
		names[0] = "its operand"
	}
	for k, x := range m.in[:min(len(m.in), 2)] {
		if d := g.description(x, depth); d != "" {
			names[k] = bracketed(d)
		}
	}
	text := fmt.Sprintf(o.text+"%.0[1]s%.0[2]s%.0[3]s", names...)
	if o.grid != nil && o.kept == nil {
		text = "the " + which + " is " + o.grid.Rounded()
	}
	return text
}

// formula is what an option computes, and what is due; empty if that takes long to say.
func (g *Graph) formula(o option, m mark) string {
	if o.as == "" {
		return ""
	}
	formulas := []any{unwritten, unwritten}
	for k, x := range m.in[:min(len(m.in), 2)] {
		formulas[k] = g.written(x, nil, depthsOf)
		if o.as != fmt.Sprintf("%%[%d]s", k+1) {
			formulas[k] = inBrackets(g.written(x, nil, depthsOf))
		}
	}
	return g.change(m.out, fmt.Sprintf(o.as+"%.0[1]s%.0[2]s", formulas...))
}
