package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// fittedNumbers looks for one number under which the results come nearest to those recorded: the factor of a value, the
// value of a floating argument, or the factor of an operand. Numbers within a share of the right one are left out: a
// kernel may round it.
func (c *Search) fittedNumbers(fails []Wrong, share float64) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		scalar := c.scalarResult(fails)
		results := slices.ContainsFunc(fails, func(r Wrong) bool { return r.Forward() })
		for i := range fails {
			if results && !scalar && !fails[i].Forward() { // gradients follow from what is wrong with the results
				continue
			}
			if !c.fittedFactors(&fails[i], share, scalar && results, yield) || !c.fittedOffsets(&fails[i], yield) {
				return
			}
		}
		of := slices.IndexFunc(fails, func(r Wrong) bool { return r.fits(scalar) })
		for i := range fails[:min(len(fails), mostFitted)] {
			if i != of && fails[i].fits(scalar) && !c.fittedArguments(&fails[i], share, scalar, yield) {
				return
			}
		}
		if of >= 0 && c.fittedArguments(&fails[of], share, scalar, yield) && share == 0 {
			if !scalar && !c.fittedShifts(&fails[of], yield) {
				return
			}
			c.fittedOperands(&fails[of], scalar, yield) // each step of a fit costs as much as a mistake
		}
	}
}

// fits reports whether a number can be fitted to a result: to one of one element only if it is scalar.
func (w *Wrong) fits(scalar bool) bool {
	got, _, ok := w.Pair()
	return ok && w.Forward() && got.DType.IsFloat() && (got.Numel() > 1 || scalar)
}

// mostFitted is how many values arguments are fitted to, one at a time.
const mostFitted = 4

// near reports whether a number is within a share of another.
func near(x, was, share float64) bool { return math.Abs(x-was) <= share*math.Abs(was) }

// fittedFactors yields factors of a wrong value; it is false when no more are wanted.
func (c *Search) fittedFactors(r *Wrong, share float64, all bool, yield func(Mistake) bool) bool {
	factors := c.factors(r, nil)
	n := len(factors)
	if n == 0 {
		return true
	}
	x, about := factors[n-1], factorError(r.Got)
	k, ok := c.related(x, about)
	plain := slices.ContainsFunc(factors[:n-1], func(y float64) bool { return plainNumber(y) && near(x, y, about) })
	if ok && !plain && !near(k.x, 1, share) && !yield(Mistake{Like: "elements", Cost: min(digits(k.x), relatedBits),
		Text:   fmt.Sprintf("all elements are multiplied by %.7g, that is %s", k.x, k.text),
		Rounds: true, All: all, Make: c.altering(times(k.x))}) {
		return false
	}
	for _, x := range factors {
		if near(x, 1, share) || !near(x, factors[len(factors)-1], about) {
			continue
		}
		text := fmt.Sprintf("all elements are multiplied by %.7g", x) + c.equal(x, factors[len(factors)-1], r)
		if !yield(Mistake{Text: text, Like: "elements",
			Cost: digits(x), Rounds: true, All: all, Make: c.altering(times(x))}) {
			return false
		}
	}
	return true
}

// plainFactors are gradients, where only these are wrong, that are a few times as large as is due, or half as large:
// before all that says how a kernel may have come to that.
func (c *Search) plainFactors(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if slices.ContainsFunc(fails, func(w Wrong) bool { return w.Forward() }) {
			return
		}
		common, fitted := 0.0, 0.0
		for i := range fails {
			got, want, ok := fails[i].floats()
			if !ok || got.Numel() < fewestScaled {
				return
			}
			x := c.factorOf(got, want)
			k := slices.IndexFunc(fewTimes, func(y float64) bool { return near(x, y, factorError(got)) })
			if k < 0 || common != 0 && common != fewTimes[k] {
				return
			}
			common, fitted = fewTimes[k], x
		}
		text := fmt.Sprintf("all elements are multiplied by %.7g", common) + c.equal(common, fitted, &fails[0])
		yield(Mistake{Text: text, Like: "elements", Cost: digits(common), Rounds: true, All: true,
			Make: c.altering(times(common))})
	}
}

// fewTimes are factors that say no more than themselves: others are those of sizes or arguments.
var fewTimes = []float64{2, 0.5, 3}

// factorError is the relative error of a factor of all elements: less of many that are rounded to few bits.
func factorError(t *tensor.Tensor) float64 {
	near := nearness(t.DType)
	if t.DType.IsReduced() {
		near = max(near, t.DType.Eps()/math.Sqrt(float64(t.Numel())))
	}
	return near
}

// fittedOffsets yields numbers that are added to a wrong value; it is false when no more are wanted.
func (c *Search) fittedOffsets(r *Wrong, yield func(Mistake) bool) bool {
	target := r.Target
	for _, x := range c.offsets(r) {
		add := func(of string, t *tensor.Tensor) *tensor.Tensor {
			if of != target {
				return t
			}
			return opdef.Map(t.DType, t, func(y float64) float64 { return y + x })
		}
		if !yield(Mistake{Text: fmt.Sprintf("%.7g is added to all elements", x) + logarithmText(x),
			Like: "elements plus", Cost: digits(x), Make: c.altering(add)}) {
			return false
		}
	}
	return true
}

// fittedArguments yields values of floating arguments; it is false when no more are wanted.
func (c *Search) fittedArguments(of *Wrong, share float64, scalar bool, yield func(Mistake) bool) bool {
	for _, a := range c.Bound.Arguments() {
		was, ok := a.Python().(float64)
		if s, is := a.Value.(opdef.Scalar); is && s.Kind() != tensor.KindComplex {
			was, ok = s.Float64(), true
		}
		if !ok || math.IsInf(was, 0) || math.IsNaN(was) {
			continue
		}
		with := func(x float64) (Way, error) {
			return c.withArguments(map[string]value.Value{a.Name: x})
		}
		for _, x := range c.fit(of, was, with) {
			if near(x, was, share) {
				continue
			}
			text, ok := c.fittedText(a.Name, x, was, of.Got.DType)
			if ok && !yield(Mistake{Text: text, Like: a.Name,
				Cost: digits(x), All: scalar, Number: &otherNumber{x, was, with}, Argument: true,
				Make: func() (Way, error) { return with(x) }}) {
				return false
			}
		}
	}
	return true
}

// fittedText is the sentence about a fitted value of an argument. A number that somebody may have meant is named; of
// others it says "as if". There is none for numbers that are known to few digits.
func (c *Search) fittedText(name string, x, was float64, dt tensor.DType) (text string, ok bool) {
	text = fmt.Sprintf("%s is %.7g, not %.7g", name, x, was)
	k, ok := c.related(x/was, nearness(dt))
	by := c.relatedToNumber(x/was, nearness(dt), name)
	switch {
	case near(x, 1-was, nearness(dt)) && x != was:
		return fmt.Sprintf("%s is %.7g, not %.7g, that is 1 - %s", name, 1-was, was, name), true
	case by != "":
		return text + fmt.Sprintf(", that is %.7g * %s", was, by), true
	case ok && (!plainNumber(x) || k.x == math.Trunc(k.x)): // no plain number by chance
		return text + fmt.Sprintf(", that is %.7g * %s", was, k.text), true
	case plainNumber(x):
		return text, true
	}
	return fmt.Sprintf("it is as if %s were %.7g, not %.7g", name, x, was), !dt.IsReduced()
}

// fittedOperands yields factors of operands.
func (c *Search) fittedOperands(of *Wrong, scalar bool, yield func(Mistake) bool) {
	for _, a := range c.operands() {
		with := func(x float64) (Way, error) {
			return c.one(a, func() *tensor.Tensor {
				return opdef.Map(a.Tensor.DType, a.Tensor, func(y float64) float64 { return x * y })
			})()
		}
		factors := c.fit(of, 1, with)
		for _, x := range factors {
			if x == 1 {
				continue
			}
			text := fmt.Sprintf("%s is multiplied by %.7g", argName(a), x) + c.named(factors[len(factors)-1], of)
			if !yield(Mistake{Text: text, Like: argName(a), Cost: digits(x), All: scalar,
				Make: func() (Way, error) { return with(x) }}) {
				return
			}
		}
	}
}

// fittedShifts yields numbers that are added to an operand: an eps in a logarithm, under a root.
func (c *Search) fittedShifts(of *Wrong, yield func(Mistake) bool) bool {
	if onlyOneNumber([]Wrong{*of}) {
		return true
	}
	for _, a := range c.operands() {
		with := func(x float64) (Way, error) {
			return c.one(a, func() *tensor.Tensor {
				return opdef.Map(a.Tensor.DType, a.Tensor, func(y float64) float64 { return y + x })
			})()
		}
		for _, x := range c.fit(of, 0, with) {
			if x == 0 || of.Got.DType.IsReduced() && digits(x) > math.Log2(10)+4 {
				continue // few bits show one digit
			}
			if !yield(Mistake{Text: fmt.Sprintf("%.7g is added to %s", x, argName(a)), Like: argName(a) + " plus",
				Cost: digits(x), Make: func() (Way, error) { return with(x) }}) {
				return false
			}
		}
	}
	return true
}

// scalarResult reports whether a result of one element failed, which some number explains by chance, with
// gradients that tell.
func (c *Search) scalarResult(fails []Wrong) bool {
	got, _ := c.wrongResult(fails)
	return got != nil && got.Numel() == 1 && slices.ContainsFunc(fails, func(r Wrong) bool {
		return r.Backward() && r.Numel() >= fewestScaled
	})
}

// named says what a fitted factor is, if it is more than a plain number.
func (c *Search) named(x float64, of *Wrong) string {
	if k, ok := c.related(x, nearness(of.Got.DType)); ok && (!plainNumber(k.x) || !of.Got.DType.IsReduced()) {
		return ", that is " + k.text
	}
	return ""
}

// scaledBesides are the mistakes of other sources whose results are wrong by one factor besides. Each of both has to
// explain what the other leaves.
func (c *Search) scaledBesides(fails []Wrong, sources []iter.Seq[Mistake]) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		got, want := c.wrongResult(fails)
		if got == nil || got.Numel() < fewestScaled {
			return
		}
		tried := 0
		for _, source := range sources {
			for m := range source {
				if tried++; m.Gradients && fails[0].Forward() || m.Scales {
					continue
				}
				if c.Work.Over() {
					return
				}
				var factor float64
				if c.Guard(func() error {
					x, y, few := c.few(m.Make, fails[0].Target)
					if few != nil && !leavesLess(x, few, y) {
						return errNoValue
					}
					z := c.valueUnder(m.Make, &fails[0])
					if z == nil || !slices.Equal(z.Shape, got.Shape) || !z.DType.IsFloat() {
						return errNoValue
					}
					if factor = proportion(Pieces(got), Pieces(z), Pieces(want), 1); factor == 0 {
						return nil
					}
					target := fails[0].Target
					alone := times(multiple(Pieces(got), Pieces(want)))(target, want)
					both := times(factor)(target, z)
					if Evidence(got, alone, both) < Required(tried)+m.Cost || Evidence(got, z, both) < Required(1) {
						return errNoValue
					}
					return nil
				}) != nil || factor == 0 {
					continue
				}
				inner := m
				of := func(x, cost float64, is string) bool {
					besides := fmt.Sprintf(", and all elements are multiplied by %.7g", x) + is
					return yield(Mistake{Text: inner.Text + besides,
						Truly:  inner.truly(func(text string) string { return text + besides }),
						Rounds: true, Like: inner.Text, Cost: inner.Cost + cost, Make: func() (Way, error) {
							way, err := inner.Make()
							return way.Then(times(x)), err
						}})
				}
				if got.DType.IsReduced() && near(factor, 1, 4*got.DType.Eps()) { // roundings give that, too
					continue
				}
				about := factorError(got)
				numbers := slices.DeleteFunc(shortened(factor, 1), func(x float64) bool {
					return !near(x, factor, about)
				})
				if k, ok := c.related(factor, about); ok && !near(k.x, 1, 1e-2) && !plainNumber(numbers[0]) &&
					!of(k.x, min(digits(k.x), relatedBits), ", that is "+k.text) {
					return
				}
				for _, x := range numbers {
					if !of(x, digits(x), "") {
						return
					}
				}
			}
		}
	}
}

// multiple is the factor by which x is larger than y, by least squares.
func multiple(x, y []float64) float64 { return dot(x, y) / dot(y, y) }

// leavesLess reports whether x may be a multiple of y, from which it is no farther than from the best multiple of z.
func leavesLess(x, y, z []float64) bool {
	factor, of := proportion(x, y, z, 2), multiple(x, z)
	with, alone := 0.0, 0.0
	for i := range x {
		with += (x[i] - factor*y[i]) * (x[i] - factor*y[i])
		alone += (x[i] - of*z[i]) * (x[i] - of*z[i])
	}
	return factor != 0 && !(with > alone/2)
}

// few are some elements of a value under a mistake, with those that were recorded and that are due; nil if there is
// no such value.
func (c *Search) few(make func() (Way, error), target string) (got, due, made []float64) {
	if c.Few == nil {
		return nil, nil, nil
	}
	way, err := make()
	if err != nil || way.Call == nil {
		return nil, nil, nil
	}
	got, due, made = c.Few(way, target)
	if len(got) != len(due) || len(got) != len(made) {
		return nil, nil, nil
	}
	return got, due, made
}

// refutes reports whether few elements show that a mistake leaves more than one in eight of the wrong ones as wrong.
func (c *Search) refutes(make func() (Way, error), r *Wrong) (is bool) {
	_ = c.Guard(func() error { // what cannot be read is not refuted
		x, y, z := c.few(make, r.Target)
		top, were, still := 0.0, 0, 0
		for i := range x {
			if e := math.Abs(x[i] - y[i]); !math.IsInf(e, 0) {
				top = max(top, e)
			}
		}
		for i := range x {
			near := max(top/Nearness, r.Got.DType.ULP(x[i]))
			if alike(x[i], y[i]) || math.Abs(x[i]-y[i]) <= near {
				continue
			}
			if were++; !alike(x[i], z[i]) && !(math.Abs(x[i]-z[i]) <= near) {
				still++
			}
		}
		is = 8*still > were
		return nil
	})
	return is
}

// proportion is the factor by which x is larger than y, by least squares, 0 if x is no multiple of y, or y is one
// of z. Few elements may be farther off, by slack.
func proportion(x, y, z []float64, slack float64) float64 {
	top, factor, of := 0.0, multiple(x, y), multiple(z, y)
	if !(math.Abs(factor) > 1e-6 && math.Abs(factor) < 1e6) {
		return 0
	}
	near, same := true, true
	for _, v := range x {
		top = max(top, math.Abs(v))
	}
	for i := range x {
		near = near && math.Abs(x[i]-factor*y[i]) <= slack*1e-2*top
		same = same && math.Abs(z[i]-of*y[i]) <= 1e-3*top/slack
	}
	if !near || same {
		return 0
	}
	return factor
}

// limited limits an operand from below or above, element for element with the result, if only elements beyond some
// number are wrong. It also limits results and gradients.
func (c *Search) limited(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		got, want := c.wrongResult(fails)
		if got == nil {
			c.limitedGradients(fails, yield)
			return
		}
		for _, a := range c.operands() {
			r := regionOf(a.Tensor, got, want)
			if r == nil {
				continue
			}
			for _, limit := range r.limits() {
				side, f := "below", math.Max
				if !r.below {
					side, f = "above", math.Min
				}
				if !yield(Mistake{Text: fmt.Sprintf("%s is limited to %.7g from %s", argName(a), limit, side),
					Like: argName(a), Make: c.one(a, func() *tensor.Tensor {
						return opdef.Map(a.Tensor.DType, a.Tensor, func(x float64) float64 { return f(x, limit) })
					})}) {
					return
				}
			}
		}
		for m := range c.scaledRegions(fails[0].Target, got, want) {
			if !yield(m) {
				return
			}
		}
		for _, end := range c.limitedTo("results", got, want) {
			for _, m := range []Mistake{c.endingWithGradient(end, fails), c.ending(end)} {
				if m.Make != nil && !yield(m) {
					return
				}
			}
		}
	}
}

// limitedGradients are gradients that stop at some number.
func (c *Search) limitedGradients(fails []Wrong, yield func(Mistake) bool) {
	for i := range fails {
		r := &fails[i]
		got, want, ok := r.floats()
		if !ok || !r.Backward() {
			continue
		}
		for _, end := range c.limitedTo("gradients", got, want) {
			if !yield(Mistake{Text: end.text, Rounds: true, Limits: true, Gradients: true, OnlyHere: true,
				Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
					if target != r.Target {
						return t
					}
					return opdef.Map(t.DType, t, end.f)
				})}) {
				return
			}
		}
	}
}

// scaledRegions are results that have a factor where an operand, or what is due, is on one side of some number.
func (c *Search) scaledRegions(target string, got, want *tensor.Tensor) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		all := []knownValue{{whatIsDue, want}}
		for _, a := range c.operands() {
			all = append(all, knownValue{argName(a), a.Tensor})
		}
		for _, k := range all {
			var r *region
			factor := 0.0
			if c.Guard(func() error {
				if r = regionOf(k.t, got, want); r == nil {
					return nil
				}
				var x, y []float64
				v, g, w := sample(k.t), sample(got), sample(want)
				for i := range v {
					if r.holds(v[i]) {
						x, y = append(x, g[i]), append(y, w[i])
					}
				}
				factor = multiple(x, y)
				return nil
			}) != nil || r == nil || !(math.Abs(factor) < 1e6) {
				continue
			}
			with := func(x float64) (Way, error) {
				return c.altering(func(of string, due *tensor.Tensor) *tensor.Tensor {
					if of != target || !slices.Equal(due.Shape, k.t.Shape) {
						return due
					}
					return opdef.ZipN(due.DType, due.Shape, func(dst []float64, src [][]float64) {
						for i := range dst {
							if dst[i] = src[0][i]; r.holds(src[1][i]) {
								dst[i] *= x
							}
						}
					}, due, k.t)
				})()
			}
			for _, x := range shortened(factor, 1) {
				text := fmt.Sprintf("results are multiplied by %.7g where %s is %s", x, k.text, r)
				if !yield(Mistake{Text: text, Rounds: true, Like: "results " + k.text, Cost: digits(x) + regionBits,
					OnlyHere: true,
					Number:   &otherNumber{x, 1, with}, Make: func() (Way, error) { return with(x) }}) {
					return
				}
			}
		}
	}
}

// regionBits are those of the number at which a region ends.
const regionBits = 12

// wrongResult is the first result that is wrong, and what is due, of one shape; nil if there is none.
func (c *Search) wrongResult(fails []Wrong) (got, want *tensor.Tensor) {
	for i := range fails {
		if fails[i].Forward() {
			g, w, ok := fails[i].Pair()
			if ok && g.DType.IsFloat() && g.Numel() <= largestOperand && slices.Equal(g.Shape, w.Shape) {
				return g, w
			}
			return nil, nil
		}
	}
	return nil, nil
}

const (
	fitSteps   = 12      // of Gauss and Newton
	SampleSize = 1 << 14 // elements of the result that are looked at
)

// scaledAt are values whose elements at a place are multiplied by a number.
func (c *Search) scaledAt(r *Wrong, in *place) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		factors := c.factors(r, in)
		for _, x := range factors {
			if near(x, factors[len(factors)-1], factorError(r.Got)) && !yield(Mistake{Cost: digits(x), Rounds: true,
				Text: fmt.Sprintf("elements are multiplied by %.7g", x), Make: c.altering(times(x))}) {
				return
			}
		}
	}
}

// factors are the numbers by which the elements of a value in a place are too large; nil is the place of all. The
// number with the fewest digits comes first. Few elements have none: some factor explains them by chance.
func (c *Search) factors(r *Wrong, in *place) []float64 {
	got, want, ok := r.Pair()
	if !ok || !got.DType.IsFloat() || !slices.Equal(got.Shape, want.Shape) || got.Numel() < fewestScaled {
		return nil
	}
	var up, down float64
	if c.Guard(func() error {
		x, y := sample(got), sample(want)
		if in != nil {
			x, y = in.elements(got), in.elements(want)
		}
		for i := range x {
			if p := x[i] * y[i]; !math.IsInf(p, 0) && !math.IsNaN(p) {
				up += p
				down += y[i] * y[i]
			}
		}
		return nil
	}) != nil {
		return nil
	}
	x := up / down
	if !(math.Abs(x) <= math.MaxFloat64) || x == 0 || math.Abs(x-1) <= 1e-6 {
		return nil
	}
	return shortened(x, 1)
}

// logarithmText names the whole number that x is the logarithm of, "" if there is none.
func logarithmText(x float64) string {
	n := math.Round(math.Exp(math.Abs(x)))
	if n < 3 || n > 1<<20 || math.Abs(math.Log(n)-math.Abs(x)) > 1e-6*math.Abs(x) {
		return ""
	}
	return fmt.Sprintf(", that is %sln %.0f", cond(x < 0, "-"), n)
}

// offsets are the numbers by which all elements of a value are too large, first as short as they can be told; none
// if they are too large by unlike numbers.
func (c *Search) offsets(r *Wrong) (found []float64) {
	got, want, ok := r.Pair()
	if !ok || !got.DType.IsFloat() || !slices.Equal(got.Shape, want.Shape) || got.Numel() < fewestScaled {
		return nil
	}
	_ = c.Guard(func() error { // what cannot be read has none
		x, y := sample(got), sample(want)
		mean := 0.0
		for i := range x {
			mean += (x[i] - y[i]) / float64(len(x))
		}
		for i := range x {
			if !(math.Abs(x[i]-y[i]-mean) <= 1e-2*math.Abs(mean)+2*got.DType.ULP(x[i])) {
				return nil
			}
		}
		found = shortened(mean, 0)
		return nil
	})
	return found
}

// fewestScaled is the number of elements from which on a factor is fitted.
const fewestScaled = 4

// times multiplies rounded results.
func times(x float64) func(target string, t *tensor.Tensor) *tensor.Tensor {
	return func(target string, t *tensor.Tensor) *tensor.Tensor {
		if !t.DType.IsFloat() || target == Incoming {
			return t
		}
		return opdef.Map(t.DType, t.Rounded(), func(y float64) float64 { return x * y })
	}
}

// shortened are numbers near x, but for one, those with fewest digits first.
func shortened(x, but float64) []float64 {
	var found []float64
	for digits := 1; digits <= 6; digits++ {
		if short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64); err == nil &&
			math.Abs(short-x) <= 1e-2*math.Abs(x) && short != but && !slices.Contains(found, short) {
			found = append(found, short)
		}
	}
	return append(found, x)
}

// fit is the number near was under which a result comes nearest to what was recorded, first as
// short as it can be told; none if it stays where it was. Few elements are fitted first: all are only if that
// brings these nearer.
func (c *Search) fit(of *Wrong, was float64, with func(x float64) (Way, error)) []float64 {
	var found []float64
	_ = c.Guard(func() error { // a call that cannot be run with a number has none
		way := func(x float64) func() (Way, error) { return func() (Way, error) { return with(x) } }
		x := was
		if c.Few != nil {
			few, left := solve(x, func(x float64) (due, made []float64) {
				due, _, made = c.few(way(x), of.Target)
				return due, made
			})
			if !(left <= 0.5) {
				return nil
			}
			x = few
		}
		due := sample(of.Got)
		if x, _ = solve(x, func(x float64) ([]float64, []float64) {
			made := c.valueUnder(way(x), of)
			if made == nil || made.Numel() != of.Got.Numel() || !made.DType.IsFloat() {
				return nil, nil
			}
			return due, sample(made)
		}); math.IsNaN(x) || math.Abs(x-was) <= 1e-6*math.Abs(was) {
			return nil
		}
		if math.Abs(x) <= 1e-6*math.Abs(was) {
			found = append(found, 0)
		}
		found = append(found, shortened(x, was)...)
		return nil
	})
	if len(found) > 0 && onlyOneNumber([]Wrong{*of}) { // which some number explains by chance, hardly a short one
		fitted := found[len(found)-1]
		found = slices.DeleteFunc(found, func(x float64) bool {
			return of.Got.DType.IsReduced() || !plainNumber(x) || !near(x, fitted, nearness(of.Got.DType))
		})
	}
	return found
}

// solve finds the number near x at which a call comes nearest to the values that are due, by Gauss's and Newton's
// method with a difference quotient. It also returns the share of the squared errors at x that is left. The number is
// NaN if there is none.
func solve(x float64, at func(x float64) (due, made []float64)) (float64, float64) {
	first, left := 0.0, 1.0
	for n := range fitSteps {
		h := 1e-4 * math.Abs(x)
		if h == 0 {
			h = 1e-6
		}
		due, y := at(x)
		_, z := at(x + h)
		if y == nil || len(z) != len(y) {
			return math.NaN(), math.NaN()
		}
		var up, down, rest float64
		for i := range due {
			e := due[i] - y[i]
			if math.IsInf(e, 0) {
				continue
			}
			rest += e * e
			if slope := (z[i] - y[i]) / h; slope != 0 {
				up += slope * e
				down += slope * slope
			}
		}
		if n == 0 {
			first = rest
		}
		left = rest / first
		step := up / down
		if !(math.Abs(step) <= math.MaxFloat64) {
			return math.NaN(), math.NaN()
		}
		if x += step; math.Abs(step) <= 1e-6*math.Abs(x) {
			break
		}
	}
	return x, left
}

// missesNumber reports whether another number than n comes nearest to a recorded value. Some elements then show another
// one. It differs from n by more than their remaining errors, and by more than a hundredth of what n differs from the
// number that is due.
func (c *Search) missesNumber(n *otherNumber, fails []Wrong, k Cause) (is bool) {
	i := slices.IndexFunc(fails, func(w Wrong) bool { return w.Target == k.Targets[0] })
	if i < 0 || fails[i].Got == nil || !fails[i].Got.DType.IsFloat() {
		return false
	}
	_ = c.Guard(func() error { // what cannot be run with another number does not show one
		at := func(x float64) (got, made []float64) {
			got, _, made = c.few(func() (Way, error) { return n.with(x) }, fails[i].Target)
			return got, made
		}
		h := 1e-2 * math.Abs(n.x-n.was)
		got, y := at(n.x)
		_, z := at(n.x + h)
		if y == nil || len(z) != len(y) {
			return nil
		}
		var up, down, rest float64
		for i := range got {
			e, slope := got[i]-y[i], (z[i]-y[i])/h
			if !math.IsNaN(e*slope) && !math.IsInf(e*slope, 0) {
				up, down, rest = up+slope*e, down+slope*slope, rest+e*e
			}
		}
		step := math.Abs(up / down)
		is = step > h && step > mostDeviations*math.Sqrt(rest/float64(len(got))/down)
		return nil
	})
	return is
}

// mostDeviations is how many standard deviations a number may be from the one that some elements show.
const mostDeviations = 5

// digits is how many bits a number takes that was fitted: those of its digits, and of its exponent.
func digits(x float64) float64 {
	n := 1
	for ; n < 17; n++ {
		y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', n, 64), 64)
		if err == nil && math.Abs(y-x) <= 1e-7*math.Abs(x) {
			break
		}
	}
	return float64(n)*math.Log2(10) + 4
}

// sample are some elements of t, evenly spread.
func sample(t *tensor.Tensor) []float64 {
	n := t.Numel()
	if n <= SampleSize {
		return elements(t)
	}
	out, one := make([]float64, SampleSize), make([]float64, 1)
	for i := range out {
		tensor.Load(t, int(int64(i)*int64(n)/SampleSize), one)
		out[i] = one[0]
	}
	return out
}

// Pieces are some elements of t in runs, evenly spread: a run costs little more than an
// element where whole rows are computed.
func Pieces(t *tensor.Tensor) []float64 {
	n := t.Numel()
	if n <= SampleSize {
		return elements(t)
	}
	out := make([]float64, SampleSize)
	for i := 0; i < SampleSize; i += pieceSize {
		tensor.Load(t, pieceAt(i, n), out[i:i+pieceSize])
	}
	return out
}

// pieceAt is where element i of the pieces of n elements, which are more, lies.
func pieceAt(i, n int) int {
	return i/pieceSize*((n-pieceSize)/(SampleSize/pieceSize-1)) + i%pieceSize
}

// pieceSize is how many neighbours a piece has.
const pieceSize = SampleSize / 16
