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

// A function of elements, with the format of its text.
type function struct {
	text string
	f    func(x float64) float64
}

// functions are the functions of one number that kernels use. Each step is rounded. The first one changes nothing.
func functions(round func(float64) float64) []function {
	exp := func(x float64) float64 { return round(math.Exp(x)) }
	all := []function{
		{"%s", func(x float64) float64 { return x }},
		{"-(%s)", func(x float64) float64 { return -x }},
		{"abs(%s)", math.Abs},
		{"square(%s)", func(x float64) float64 { return x * x }},
		{"cube(%s)", func(x float64) float64 { return x * x * x }},
		{"sqrt(%s)", math.Sqrt},
		{"relu(%s)", func(x float64) float64 { return max(x, 0) }},
		{"exp(%s)", math.Exp},
		{"log(%s)", math.Log},
		{"sigmoid(%s)", func(x float64) float64 { return 1 / (1 + exp(-x)) }},
		{"tanh(%s)", math.Tanh},
		{"silu(%s)", func(x float64) float64 { return x / (1 + exp(-x)) }},
		{"gelu(%s)", func(x float64) float64 { return x * (1 + math.Erf(x/math.Sqrt2)) / 2 }},
		{"sin(%s)", math.Sin},
		{"cos(%s)", math.Cos},
		{"atan(%s)", math.Atan},
		{"gamma(%s)", math.Gamma},
		{"floor(%s + 0.5)", func(x float64) float64 { return math.Floor(x + 0.5) }},
		{"floor(%s)", math.Floor},
		{"ceil(%s)", math.Ceil},
		{"trunc(%s)", math.Trunc},
		{"round(%s)", math.RoundToEven},
		{"round(%s), ties away from zero", math.Round},
		{"sign(%s)", sign},
		{"%s + 0.5", func(x float64) float64 { return x + 0.5 }},
		{"%s / 2", func(x float64) float64 { return x / 2 }},
		{"%s + 1", func(x float64) float64 { return x + 1 }},
		{"%s - 1", func(x float64) float64 { return x - 1 }},
		{"1 - (%s)", func(x float64) float64 { return 1 - x }},
		{"1 / (%s)", func(x float64) float64 { return 1 / x }},
	}
	for i, f := range all {
		all[i].f = func(x float64) float64 { return round(f.f(x)) }
	}
	return all
}

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}

// single rounds as arithmetic in float32 does, in which kernels of fewer bits compute, too.
func single(x float64) float64 { return float64(float32(x)) }

func exactly(x float64) float64 { return x }

const quotientOf = "%s / %s"

// pairings are the functions of two numbers.
var pairings = []struct {
	text string
	f    func(x, y float64) float64
}{
	{"%s + %s", func(x, y float64) float64 { return x + y }},
	{"%s - %s", func(x, y float64) float64 { return x - y }},
	{"%s * %s", func(x, y float64) float64 { return x * y }},
	{quotientOf, func(x, y float64) float64 { return x / y }},
	{"max(%s, %s)", math.Max},
	{"min(%s, %s)", math.Min},
}

// quotients are the remainders of two numbers that languages and kernels define, and shifts without the sign.
var quotients = []struct {
	text string
	f    func(x, y float64) float64
}{
	{"%[1]s - %[2]s * round(%[1]s / %[2]s)", math.Remainder},
	{"%[1]s - %[2]s * trunc(%[1]s / %[2]s)", math.Mod},
	{"%[1]s - %[2]s * floor(%[1]s / %[2]s)", func(x, y float64) float64 { return x - y*math.Floor(x/y) }},
	{"%[1]s - %[2]s * ceil(%[1]s / %[2]s)", func(x, y float64) float64 { return x - y*math.Ceil(x/y) }},
	{"trunc(%[1]s / %[2]s)", func(x, y float64) float64 { return math.Trunc(x / y) }},
	{"round(%[1]s / %[2]s), ties away from zero", func(x, y float64) float64 { return math.Round(x / y) }},
	{"%[1]s >> %[2]s of 64 bits without sign", unsignedShift(64)},
	{"%[1]s >> %[2]s of 32 bits without sign", unsignedShift(32)},
	{"%[1]s >> %[2]s of 16 bits without sign", unsignedShift(16)},
	{"%[1]s >> %[2]s of 8 bits without sign", unsignedShift(8)},
}

// unsignedShift shifts a whole number of so many bits to the right, with zeros in place of its sign; NaN of others.
func unsignedShift(bits int) func(x, y float64) float64 {
	return func(x, y float64) float64 {
		if x != math.Trunc(x) || math.Abs(x) >= 1<<63 || !(y >= 0 && y < 64) {
			return math.NaN()
		}
		return float64(uint64(int64(x)) << (64 - bits) >> (64 - bits) >> uint(y))
	}
}

// paired is the text of a pairing of two terms, which are in brackets where they are sums, differences or quotients.
func paired(text, x, y string) string {
	if text == "%s + %s" || !strings.HasPrefix(text, "%s") {
		return fmt.Sprintf(text, x, y)
	}
	return fmt.Sprintf(text, bracketed(x), bracketed(y))
}

func bracketed(x string) string {
	depth := 0
	for i, r := range x {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case depth == 0 && strings.ContainsRune("+-/", r) && i > 0 && strings.HasPrefix(x[i-1:], " "+string(r)+" "):
			return "(" + x + ")"
		}
	}
	return x
}

// An expression is a function of one or two operands, element for element.
type expression struct {
	text func() string
	f    func(x, y float64) float64
}

// expressions are the expressions of one or two operands. Each step is rounded. With one operand, they are up to
// three functions in turn, or a pairing of two functions under a third. With two operands, they are a pairing of
// one function of each. One of the functions can be left out, and a function of the pairing can follow.
func expressions(of []knownValue, round func(float64) float64, changed func(function) bool) iter.Seq[expression] {
	all := functions(round)
	all = slices.Concat(all[:1], slices.DeleteFunc(all[1:], func(f function) bool { return !changed(f) }))
	x := of[0].text
	if len(of) == 1 {
		return func(yield func(expression) bool) { _ = chained(all, x, yield) && ofOne(all, x, round, yield) }
	}
	return func(yield func(expression) bool) { _ = ofTwo(all, x, of[1].text, round, yield) }
}

// chained are functions one after the other.
func chained(all []function, x string, yield func(expression) bool) bool {
	apply := func(fs ...function) expression {
		return expression{func() string {
			text := x
			for _, f := range fs {
				text = fmt.Sprintf(f.text, text)
			}
			return text
		}, func(x, _ float64) float64 {
			for _, f := range fs {
				x = f.f(x)
			}
			return x
		}}
	}
	for _, g := range all {
		if !yield(apply(g)) {
			return false
		}
	}
	given := map[signature]int{} // by how many functions
	is := func(fs ...function) bool {
		s := signatureOf(fs)
		if n, ok := given[s]; ok && n < len(fs) {
			return false // a kernel computes no number and its negative twice
		}
		given[s] = len(fs)
		return !yield(apply(fs...))
	}
	for _, f := range all {
		given[signatureOf([]function{f})] = 1
	}
	for _, g := range all[1:] {
		for _, f := range all[1:] {
			if is(g, f) {
				return false
			}
		}
	}
	for _, h := range all[1:] {
		for _, g := range all[1:] {
			for _, f := range all[1:] {
				if is(h, g, f) {
					return false
				}
			}
		}
	}
	return true
}

// A signature is the results of a chain of functions for some numbers, to four digits.
type signature [len(signed)]uint32

var signed = [...]float64{-2.5, -1.3, -0.5, -0.2, 0, 0.3, 0.5, 1.5, 1.9, 2.5, 3.6}

func signatureOf(fs []function) (s signature) {
	for i, x := range signed {
		for _, f := range fs {
			x = f.f(x)
		}
		if s[i] = math.MaxUint32; !math.IsNaN(x) {
			s[i] = (math.Float32bits(float32(x)) + 1<<9) >> 10
		}
	}
	return s
}

// ofOne are two functions of one operand together, under another one.
func ofOne(all []function, x string, round func(float64) float64, yield func(expression) bool) bool {
	for k, f := range all {
		if k > 1 && k < len(all)-1 {
			continue // itself, negated, or its reciprocal
		}
		for _, p := range pairings {
			for _, g := range all {
				for _, h := range all {
					if !yield(expression{func() string {
						return fmt.Sprintf(f.text, paired(p.text, fmt.Sprintf(g.text, x), fmt.Sprintf(h.text, x)))
					}, func(x, _ float64) float64 { return f.f(round(p.f(g.f(x), h.f(x)))) }}) {
						return false
					}
				}
			}
		}
	}
	for _, p := range pairings {
		for _, g := range all[1:] {
			for _, h := range all[1:] {
				if !yield(expression{func() string {
					return paired(p.text, x, fmt.Sprintf(h.text, fmt.Sprintf(g.text, x)))
				}, func(x, _ float64) float64 { return round(p.f(x, h.f(g.f(x)))) }}) {
					return false
				}
			}
		}
	}
	return true
}

func ofTwo(all []function, x, y string, round func(float64) float64, yield func(expression) bool) bool {
	for _, p := range pairings {
		for _, f := range all {
			if !yield(expression{func() string {
				if p.text == quotientOf && f.text == "1 / (%s)" {
					return paired(p.text, y, x)
				}
				return fmt.Sprintf(f.text, paired(p.text, x, y))
			},
				func(x, y float64) float64 { return f.f(round(p.f(x, y))) }}) {
				return false
			}
		}
	}
	for _, q := range quotients {
		if !yield(expression{func() string { return fmt.Sprintf(q.text, bracketed(x), bracketed(y)) },
			func(x, y float64) float64 { return round(q.f(x, y)) }}) {
			return false
		}
	}
	for _, p := range pairings {
		join := func(f, g, h function) bool {
			return yield(expression{func() string {
				return fmt.Sprintf(f.text, paired(p.text, fmt.Sprintf(g.text, x), fmt.Sprintf(h.text, y)))
			}, func(x, y float64) float64 { return f.f(round(p.f(g.f(x), h.f(y)))) }})
		}
		for _, g := range all {
			for _, h := range all {
				if !join(all[0], g, h) {
					return false
				}
			}
			for _, f := range all[1:] {
				if !join(f, g, g) || !join(f, all[0], g) || !join(f, g, all[0]) {
					return false
				}
			}
		}
	}
	return true
}

// expressed are results, or first gradients, that are another function of the operands, element for element: of one, of
// two, of the halves of one, or of one where it is beyond some number. A gradient is the incoming one times that.
func (c *Search) expressed(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		e := c.expressible(fails)
		if e == nil {
			return
		}
		for _, pair := range c.pairs(e) {
			if !c.expressedBy(e, pair, nil, yield) {
				return
			}
		}
		for _, mean := range c.averagedUp(e) {
			for _, pair := range c.pairs(mean) {
				if !c.expressedBy(mean, pair, nil, yield) {
					return
				}
			}
		}
		if up := e.up; up != nil { // a difference from the incoming gradient
			plain := *e
			plain.up = nil
			for _, pair := range c.pairs(e) {
				if len(pair) == 1 && !c.expressedBy(&plain, []knownValue{{"the incoming gradient", up}, pair[0]}, nil,
					yield) {
					return
				}
			}
		}
		for _, pair := range c.pairs(e) {
			var where *region
			if c.Guard(func() error { where = regionOf(pair[0].t, e.got, e.want); return nil }) != nil || where == nil {
				continue
			}
			if !c.expressedBy(e, pair, where, yield) {
				return
			}
		}
	}
}

// expressedBy yields the expressions of some operands that a value is, there or everywhere; it is false when no more
// are wanted.
func (c *Search) expressedBy(e *expressible, of []knownValue, where *region, yield func(Mistake) bool) bool {
	x, y := of[0], of[len(of)-1]
	var v elementwise
	if c.Guard(func() error { v = e.sampled(x.t, y.t, where); return nil }) != nil {
		return true
	}
	n := 0
	for _, a := range arithmetics(e.got.DType) {
		for f := range expressions(of, a.round, v.changed) {
			if n++; n%spentEach == 0 && c.spent(&v) {
				return false
			}
			if !v.are(f.f, e.got.DType) || !e.got.DType.IsFloat() && !v.whole(f.f, e.got.DType) {
				continue
			}
			text := e.text(f.text()) + a.text
			cost := math.Log2(float64(n))
			if where != nil {
				text, cost = fmt.Sprintf("where %s is %s, %s", x.text, where, text), cost+regionBits
			}
			if !yield(Mistake{Text: text, Rounds: true, Cost: cost, Like: "expression", Unfitted: true, OnlyHere: true,
				Numbers: true,
				Make:    c.altering(e.made(f.f, x.t, y.t, where))}) {
				return false
			}
		}
	}
	return !c.spent(&v)
}

// spentEach is after how many expressions the elements that they looked at are counted as work.
const spentEach = 256

// spent counts the elements that expressions looked at since the last time, and reports whether the work is done.
func (c *Search) spent(v *elementwise) bool {
	c.Work.Elements(v.looked)
	v.looked = 0
	return c.Work.Over()
}

// whole reports whether f of the operands is a number of a dtype without fractions everywhere. What is cut to be one is
// many functions.
func (v *elementwise) whole(f func(x, y float64) float64, dt tensor.DType) bool {
	for i, x := range v.x {
		if z := f(x, v.y[i]); z != stored(dt, z) {
			return false
		}
	}
	return true
}

// averagedUp are a gradient as that of a mean, and of a variance: the incoming one is divided by the number of the
// terms, or by one less. There are none of others.
func (c *Search) averagedUp(e *expressible) (out []*expressible) {
	if e.up == nil || len(c.Incoming) == 0 || c.Incoming[0].Numel() == 0 {
		return nil
	}
	n := e.got.Numel() / c.Incoming[0].Numel()
	for _, n := range []int{n, n - 1} {
		if n < 2 {
			continue
		}
		mean := *e
		mean.terms = n
		mean.up = opdef.Map(tensor.Float64, e.up, func(x float64) float64 { return x / float64(n) })
		out = append(out, &mean)
	}
	return out
}

func (e *expressible) text(expression string) string {
	if e.terms > 0 {
		return fmt.Sprintf("it is the incoming gradient, divided by %d, times %s", e.terms, expression)
	}
	if e.up != nil {
		return "it is the incoming gradient times " + expression
	}
	return "it is computed as " + expression
}

// An expressible is a value that may be an expression: a result, or a gradient with the incoming one.
type expressible struct {
	target    string
	got, want *tensor.Tensor
	up        *tensor.Tensor // the incoming gradient, nil of a result
	terms     int            // of the mean by whose number that is divided, 0: none
	mirror    string         // the target of a second gradient, which is this one or its negative; "": there is none
	sign      float64        // of that
}

func (c *Search) expressible(fails []Wrong) *expressible {
	r := &fails[0]
	e, ok := c.ofElements(r), false
	if e != nil {
		c.mirrored(e, fails)
	}
	if e == nil || c.Guard(func() error { ok = e.telling(); return nil }) != nil || !ok {
		return nil
	}
	return e
}

// ofElements is a value that may be made of operands, element for element; nil if it is none.
func (c *Search) ofElements(r *Wrong) *expressible {
	got, want, ok := r.Pair()
	if !ok || got.DType.IsComplex() || !slices.Equal(got.Shape, want.Shape) || got.Numel() > largestOperand ||
		got.Numel() < leastOfElements(got.DType) {
		return nil
	}
	e := &expressible{target: r.Target, got: got, want: want}
	if r.Backward() {
		if len(c.Incoming) == 0 || !got.DType.IsFloat() {
			return nil
		}
		if e.up = asOf(c.Incoming[0], got.Shape); e.up == nil {
			return nil
		}
	}
	return e
}

// asOf is t spread over a shape: of that shape, of one element, or without one of its dimensions; nil of others.
func asOf(t *tensor.Tensor, shape []int) *tensor.Tensor {
	if t == nil || t.DType.IsComplex() {
		return nil
	}
	if slices.Equal(t.Shape, shape) {
		return t
	}
	if x, err := t.Expand(shape...); err == nil && t.Numel() == 1 || t.Dim() == len(shape) && err == nil {
		return x
	}
	for d := range shape {
		kept := slices.Clone(shape)
		kept[d] = 1
		if slices.Equal(t.Shape, slices.Delete(slices.Clone(shape), d, d+1)) {
			if x, err := t.Reshape(kept...).Expand(shape...); err == nil {
				return x
			}
		}
	}
	return nil
}

// telling reports whether an expression of the wrong elements would mean something. Few different numbers fit many
// expressions by chance. If the elements are a multiple of the right ones, their factor says more.
func (e *expressible) telling() bool {
	if !e.got.DType.IsFloat() {
		return true
	}
	x, y := sample(e.got), sample(e.want)
	some, factor, multiples := map[float64]bool{}, multiple(x, y), true
	for i := range x {
		if near := 4 * e.got.DType.Eps() * math.Abs(y[i]); !alike(x[i], y[i]) && !(math.Abs(x[i]-y[i]) <= near) {
			some[x[i]] = true
		}
		multiples = multiples && math.Abs(x[i]-factor*y[i]) <= 4*e.got.DType.Eps()*math.Abs(x[i])
	}
	return len(some) >= leastInPart && !multiples || slices.ContainsFunc(x, func(x float64) bool {
		return math.IsInf(x, 0)
	})
}

// arithmetics are those in which results of a dtype may be computed.
func arithmetics(dt tensor.DType) []struct {
	text  string
	round func(float64) float64
} {
	type arithmetic = struct {
		text  string
		round func(float64) float64
	}
	switch {
	case dt == tensor.Float64:
		return []arithmetic{{"", exactly}}
	case dt.IsFloat():
		return []arithmetic{{"", single}}
	}
	return []arithmetic{{"", exactly}, {" in float32", single}}
}

// stored is a number as a dtype holds it.
func stored(dt tensor.DType, x float64) float64 {
	switch {
	case dt.IsFloat():
		return dt.Round(x)
	case dt == tensor.Bool:
		return float64(btoi(x != 0))
	}
	return math.Trunc(x)
}

// made is the alteration that makes an expression of a value, there or everywhere.
func (e *expressible) made(f func(x, y float64) float64, x, y *tensor.Tensor, where *region) Alteration {
	of := []*tensor.Tensor{nil, x, y}
	if e.up != nil {
		of = append(of, e.up)
	}
	return func(target string, t *tensor.Tensor) *tensor.Tensor {
		sign := 1.0
		if target == e.mirror && e.up != nil && e.mirror != "" {
			sign = e.sign
		} else if target != e.target {
			return t
		}
		if !slices.Equal(t.Shape, x.Shape) {
			return t
		}
		of := append([]*tensor.Tensor{t}, of[1:]...)
		return opdef.ZipN(t.DType, t.Shape, func(dst []float64, src [][]float64) {
			for i := range dst {
				if dst[i] = src[0][i]; where != nil && !where.holds(src[1][i]) {
					continue
				}
				dst[i] = f(src[1][i], src[2][i])
				if e.up != nil {
					dst[i] *= src[3][i]
				}
				dst[i] = stored(t.DType, sign*dst[i])
			}
		}, of...)
	}
}

// mirrored notes a second gradient that failed and is the first or its negative: that of the other term of a
// difference.
func (c *Search) mirrored(e *expressible, fails []Wrong) {
	if e.up == nil || len(fails) < 2 || fails[1].Got == nil || !slices.Equal(fails[1].Got.Shape, e.got.Shape) ||
		fails[1].Got.DType != e.got.DType {
		return
	}
	_ = c.Guard(func() error { // what cannot be read is none
		x, y := sample(e.got), sample(fails[1].Got)
		for _, sign := range []float64{1, -1} {
			if !slices.ContainsFunc(upTo(0, len(x)), func(i int) bool { return x[i] != sign*y[i] }) {
				e.mirror, e.sign = fails[1].Target, sign
			}
		}
		return nil
	})
}

// elementwise are some elements of a value, with those of operands and, for a gradient, the incoming one.
type elementwise struct {
	got, want, x, y, up []float64
	looked              int // at so many elements
}

func (e *expressible) sampled(x, y *tensor.Tensor, where *region) elementwise {
	v := elementwise{got: sample(e.got), want: sample(e.want), x: sample(x), y: sample(y)}
	all := []*[]float64{&v.got, &v.want, &v.x, &v.y}
	if e.up != nil {
		v.up = sample(e.up)
		all = append(all, &v.up)
	}
	if where != nil {
		at := slices.Clone(v.x)
		for _, s := range all {
			kept := (*s)[:0]
			for i, a := range at {
				if where.holds(a) {
					kept = append(kept, (*s)[i])
				}
			}
			*s = kept
		}
	}
	return v
}

// changed reports whether a function changes some of the first operand's elements, if by little.
func (v *elementwise) changed(f function) bool {
	return slices.ContainsFunc(v.x, func(x float64) bool { return !alike(x, f.f(x)) && !(math.Abs(f.f(x)/x-1) < 1e-2) })
}

// pairs are the operands that an expression of a value can have. They are one or two operands that have its shape
// or are broadcast to it, the two halves of one, or an operand and a number. For a gradient, they are also an
// operand and the result.
func (c *Search) pairs(e *expressible) (out [][]knownValue) {
	var fit []knownValue
	shape := e.got.Shape
	for _, a := range c.readable() {
		t := a.Tensor
		if t.DType.IsComplex() {
			if slices.Equal(t.Shape, shape) {
				out = append(out, partsOfComplex(a))
			}
			continue
		}
		if x, err := t.Expand(shape...); err == nil && slices.Equal(x.Shape, shape) && t.Numel() > 1 {
			fit = append(fit, knownValue{argName(a), x})
			continue
		}
		out = append(out, halves(a, shape)...)
	}
	few := fit[:min(len(fit), mostFit)]
	for i, x := range few {
		out = append(out, []knownValue{x})
		for _, y := range few[i+1:] {
			out = append(out, []knownValue{x, y})
		}
	}
	if len(fit) == 0 || len(fit) > 2 {
		return out
	}
	for _, o := range c.numbers(shape) {
		for _, x := range fit {
			out = append(out, []knownValue{x, o})
		}
	}
	if e.up != nil && c.Ran != nil && len(c.Ran.Outs) == 1 && asOf(c.Ran.Outs[0], shape) != nil &&
		c.Ran.Outs[0].Numel() > 1 {
		result := knownValue{theResult, asOf(c.Ran.Outs[0], shape)}
		out = append(out, []knownValue{result})
		for _, x := range fit {
			out = append(out, []knownValue{x, result})
		}
	}
	return out
}

// numbers are the arguments that are numbers but 0, as tensors of a shape.
func (c *Search) numbers(shape []int) (all []knownValue) {
	for _, a := range c.Bound.Arguments() {
		if x, ok := numberOf(a.Python()); ok && x != 0 && len(all) < mostNumbers {
			if t, err := tensor.Full(tensor.Float64, []int{1}, x).Expand(shape...); err == nil {
				all = append(all, knownValue{a.Name, t})
			}
		}
	}
	return all
}

const theResult = "the result"

// mostFit is how many operands may be part of an expression, one or two at a time.
const mostFit = 3

// mostNumbers is how many arguments that are numbers may be part of an expression.
const mostNumbers = 3

// partsOfComplex are the real and the imaginary parts of an operand.
func partsOfComplex(a opdef.Arg) []knownValue {
	part := func(name string, of func(complex128) float64) knownValue {
		return knownValue{name + " part of " + argName(a), tensor.Lazy(tensor.Float64, a.Tensor.Shape, 1,
			func(lo int, dst []float64) {
				z := tensor.Make[complex128](len(dst))
				tensor.Load(a.Tensor, lo, z)
				for i := range dst {
					dst[i] = of(z[i])
				}
			})}
	}
	return []knownValue{part("the real", func(z complex128) float64 { return real(z) }),
		part("the imaginary", func(z complex128) float64 { return imag(z) })}
}

// halves are those of an operand along a dimension of which it has twice as many indices as the shape.
func halves(a opdef.Arg, shape []int) (out [][]knownValue) {
	t, name := a.Tensor, argName(a)
	for d, n := range t.Shape {
		if len(t.Shape) != len(shape) || n != 2*shape[d] {
			continue
		}
		x, y := t.Slice(d, 0, n/2, 1), t.Slice(d, n/2, n/2, 1)
		if slices.Equal(x.Shape, shape) {
			out = append(out, []knownValue{{"the first half of " + name, x}, {"the second half of " + name, y}},
				[]knownValue{{"the even indices of " + name, t.Slice(d, 0, n/2, 2)},
					{"the odd indices of " + name, t.Slice(d, 1, n/2, 2)}})
		}
	}
	return out
}

// are reports whether f of the operands is what was recorded, nearly everywhere where that is wrong.
func (v *elementwise) are(f func(x, y float64) float64, dt tensor.DType) bool {
	eps := 0.0
	if dt.IsFloat() {
		eps = 16 * dt.Eps()
		if dt.IsReduced() {
			eps /= 4
		}
	}
	return v.nearly(f, dt, eps, 0)
}

// leastOfElements is how many elements a function is looked for in: more where each holds few bits.
func leastOfElements(dt tensor.DType) int {
	if dt.IsReduced() {
		return leastInNarrow
	}
	return 2 * leastInPart
}

// nearly is are with the error up to which elements may be what f gives, relative to them, or to size.
func (v *elementwise) nearly(f func(x, y float64) float64, dt tensor.DType, eps, size float64) bool {
	right, wrong := 0, 0
	for i, got := range v.got {
		v.looked++
		z := f(v.x[i], v.y[i])
		if v.up != nil {
			z *= v.up[i]
		}
		z = stored(dt, z)
		near := eps * max(math.Abs(z), math.Abs(v.x[i])*eps/16, size)
		if alike(got, z) || math.Abs(got-z) <= near {
			right += btoi(!math.IsNaN(got) && !alike(v.want[i], got) && !(math.Abs(v.want[i]-got) <= near))
		} else if wrong++; 20*wrong > i+20 {
			return false
		}
	}
	return right >= leastInPart
}
