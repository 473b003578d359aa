package causes

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/optool/optool/tensor"
)

// A region is the elements of an operand on one side of some number between right and wrong, where
// the results of all of them are wrong, those of the others right.
type region struct {
	below        bool
	wrong, right float64 // the operand's elements nearest to that number
}

// fewestInRegion is how many elements of each kind show a region.
const fewestInRegion = 8

// regionOf is the region of an operand in which the result is wrong, nil if there is none, or if
// operand and result are not element for element.
func regionOf(x, got, want *tensor.Tensor) *region {
	if !slices.Equal(x.Shape, got.Shape) {
		return nil
	}
	v, g, w := elements(x), elements(got), elements(want)
	below := region{below: true, wrong: math.Inf(-1), right: math.Inf(1)}
	above := region{wrong: math.Inf(1), right: math.Inf(-1)}
	wrong, right := 0, 0
	for i, at := range v {
		due := got.DType.Round(w[i])
		switch {
		case math.IsNaN(at):
			return nil
		case math.Abs(g[i]-due) > 4*got.DType.ULP(due) || math.IsNaN(g[i]) != math.IsNaN(due):
			wrong++
			below.wrong, above.wrong = math.Max(below.wrong, at), math.Min(above.wrong, at)
		default:
			right++
			below.right, above.right = math.Min(below.right, at), math.Max(above.right, at)
		}
	}
	switch {
	case wrong < fewestInRegion || right < fewestInRegion:
	case below.wrong < below.right:
		return &below
	case above.wrong > above.right:
		return &above
	}
	return nil
}

// limits are numbers between the elements that are right and those that are wrong, the one with
// the fewest digits, and what is nearest to the wrong ones.
func (r *region) limits() []float64 { return []float64{r.between(), r.wrong} }

// holds reports whether an element of the operand lies in the region.
func (r *region) holds(x float64) bool { return r.below && x <= r.wrong || !r.below && x >= r.wrong }

// String says where the region is.
func (r *region) String() string {
	x := r.between()
	switch {
	case x == r.wrong && r.below: // which is wrong itself
		return fmt.Sprintf("at most %.4g", x)
	case x == r.wrong:
		return fmt.Sprintf("at least %.4g", x)
	case r.below:
		return fmt.Sprintf("below %.4g", x)
	}
	return fmt.Sprintf("above %.4g", x)
}

// between is the number with the fewest digits between the elements that are right and wrong.
func (r *region) between() float64 {
	lo, hi := min(r.wrong, r.right), max(r.wrong, r.right)
	if lo <= 0 && hi >= 0 {
		return 0
	}
	for digits := 1; digits <= 9; digits++ {
		for _, x := range []float64{lo, hi, (lo + hi) / 2} {
			short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
			if err == nil && short >= lo && short <= hi {
				return short
			}
		}
	}
	return r.wrong
}

// sides are those of a number on which elements of an operand may lie.
var sides = []struct {
	text  string
	below bool
	of    func(x float64) float64
}{
	{"where %s is %s", false, func(x float64) float64 { return x }},
	{"where %s is %s", true, func(x float64) float64 { return x }},
	{"where abs(%s) is %s", false, math.Abs},
	{"where abs(%s) is %s", true, math.Abs},
}

const (
	nearBorder  = 16 // elements of a region next to the number at which it begins,
	wrongBorder = 14 // of which so many are wrong at least: it begins there
)

// beyondOf is the place of a value's elements where an operand, element for element, is beyond some number: all that
// are wrong, among them nearly all next to that number; nil if there is none. Far from it a mistake may be as small as
// rounding: the derivative of gelu at 6 is 1 without its second term, too.
func (c *Search) beyondOf(got, want *tensor.Tensor, allowed func(at int) float64) *place {
	if !slices.Equal(got.Shape, want.Shape) || !got.DType.IsFloat() || got.Numel() > largestOperand {
		return nil
	}
	isWrong, off := wrongIn(got, want, allowed), offIn(got, want, allowed)
	wrong := tensor.Make[bool](got.Numel())
	for i := range wrong {
		wrong[i] = isWrong(i)
	}
	operands := c.operands()
	for _, a := range operands {
		if !slices.Equal(a.Tensor.Shape, got.Shape) || !a.Tensor.DType.IsFloat() {
			continue
		}
		v := elements(a.Tensor)
		for _, s := range sides {
			c.Work.Elements(len(v))
			at := func(i int) float64 {
				if s.below {
					return -s.of(v[i])
				}
				return s.of(v[i])
			}
			r := border(wrong, at)
			if r == nil {
				continue
			}
			within, n, elsewhere := tensor.Make[bool](len(v)), 0, false
			for i := range v {
				within[i] = at(i) >= r.wrong
				n += btoi(within[i])
				elsewhere = elsewhere || !within[i] && off(i) // by little, next to the largest error
			}
			if 4*n > 3*len(v) || elsewhere {
				continue
			}
			if s.below {
				r = &region{below: true, wrong: -r.wrong, right: -r.right}
			}
			return &place{shape: got.Shape, rows: &toldRows{within, 1,
				fmt.Sprintf(s.text, argName(a), r),
				math.Log2(float64(len(v) * len(operands) * len(sides)))}}
		}
	}
	return nil
}

// border is where a region begins in which elements are wrong: at the least quantity of a wrong one; nil if elements
// next to it are right, or too few on either side.
func border(wrong []bool, of func(i int) float64) *region {
	r := region{wrong: math.Inf(1), right: math.Inf(-1)}
	for i, is := range wrong {
		if x := of(i); math.IsNaN(x) {
			return nil
		} else if is {
			r.wrong = min(r.wrong, x)
		}
	}
	var next []int // the nearest ones, in order
	below := 0
	for i := range wrong {
		x := of(i)
		if x < r.wrong {
			r.right, below = max(r.right, x), below+1
			continue
		}
		if len(next) == nearBorder && x >= of(next[nearBorder-1]) {
			continue
		}
		at, _ := slices.BinarySearchFunc(next, x, func(k int, x float64) int { return cmp.Compare(of(k), x) })
		next = slices.Insert(next, at, i)
		next = next[:min(len(next), nearBorder)]
	}
	n := 0
	for _, i := range next {
		n += btoi(wrong[i])
	}
	if n < wrongBorder || below < fewestInRegion {
		return nil
	}
	return &r
}

// Dependence says what the errors of a result depend on: parts that have factors of their own, or
// one operand, element for element: where the result is wrong, or that it is another function.
func (c *Search) Dependence(fails []Wrong) []Cause {
	got, want := c.wrongResult(fails)
	if got == nil {
		return c.beyond(fails)
	}
	var found []Cause
	_ = c.Guard(func() error {
		if text := factorsOfParts(got, want); text != "" {
			found = append(found, Cause{Text: text})
			return nil
		}
		for _, a := range c.operands() {
			if r := regionOf(a.Tensor, got, want); r != nil {
				if p := wholePlace(got, want); p != nil { // as likely as a number that only lies there
					found = []Cause{{Text: "wrong only " + p.String()}}
					return nil
				}
				found = append(found, Cause{Text: fmt.Sprintf("wrong only where %s is %s", argName(a), r)})
			} else if f := courseOf(a.Tensor, got, want); f != nil {
				text := fmt.Sprintf("another function of %s, wrong by up to %.2g %% where it is %.4g", argName(a),
					100*f.error, f.at)
				if f.error <= coarse {
					text += ": an approximation that is too coarse?"
				}
				found = append(found, Cause{Text: text})
			}
		}
		return nil
	})
	for i := range found {
		found[i].Targets = []string{"output[0]"}
	}
	return patterns(found)
}

// wholePlace is the place all of whose elements are wrong, and no others, nil if there is none.
func wholePlace(got, want *tensor.Tensor) *place {
	p := placeOf(got, want, nil)
	if p == nil || p.parts() == 0 {
		return nil
	}
	off := offIn(got, want, nil)
	for i := range got.Numel() {
		if off(i) != p.holds(i) {
			return nil
		}
	}
	return p
}

// patterns are causes that only say where values are wrong.
func patterns(found []Cause) []Cause {
	for i := range found {
		found[i].Share, found[i].Pattern = 1, true
	}
	return found
}

// beyond says of the first value that fails beyond which number of an operand it is wrong.
func (c *Search) beyond(fails []Wrong) (found []Cause) {
	got, want, ok := fails[0].floats()
	if !ok {
		return nil
	}
	_ = c.Guard(func() error {
		if p := c.beyondOf(got, want, fails[0].Allowed); p != nil {
			if at := placeOf(got, want, fails[0].Allowed); at != nil && at.parts() > 0 { // which needs no operand
				p = at
			}
			found = []Cause{{Text: "wrong only " + p.String(), Targets: []string{fails[0].Target}}}
		}
		return nil
	})
	return patterns(found)
}

// offIn tells which elements of got are off by more than rounding, and than is allowed if that is known.
func offIn(got, want *tensor.Tensor, allowed func(at int) float64) func(i int) bool {
	x, y := elements(got), elements(want)
	return func(i int) bool {
		due := got.DType.Round(y[i])
		return isOff(got.DType, x[i], due) && (allowed == nil || !(math.Abs(x[i]-due) <= allowed(i)))
	}
}

// allAre reports whether all numbers are such.
func allAre(v []float64, is func(x float64) bool) bool {
	return !slices.ContainsFunc(v, func(x float64) bool { return !is(x) })
}

// factorsOfParts says of a result whose parts are too large, each by a factor of its own, how large the
// factors are; "" of others.
func factorsOfParts(got, want *tensor.Tensor) string {
	g, w := elements(got), elements(want)
	total := 0.0
	for i := range g {
		total += (g[i] - w[i]) * (g[i] - w[i])
	}
	for _, p := range partsOf(got.Shape) {
		if p.n < 2 || p.n*fewestInRegion > len(g) {
			continue
		}
		up, down := tensor.Make[float64](p.n), tensor.Make[float64](p.n)
		for i := range g {
			k := i / p.inner % p.n
			up[k], down[k] = up[k]+g[i]*w[i], down[k]+w[i]*w[i]
		}
		low, high, rest := math.Inf(1), math.Inf(-1), 0.0
		for k := range up {
			up[k] /= down[k]
			low, high = math.Min(low, up[k]), math.Max(high, up[k])
		}
		most, scaled, spread := math.Max(math.Abs(high-1), math.Abs(low-1)), 0, high-low
		low, high = math.Inf(1), math.Inf(-1)
		for _, f := range up { // those that are not left as they were
			if math.Abs(f-1) > sameFactor*most {
				scaled, low, high = scaled+1, math.Min(low, f), math.Max(high, f)
			}
		}
		for i := range g {
			e := g[i] - up[i/p.inner%p.n]*w[i]
			rest += e * e
		}
		if rest <= unexplained*total && spread > 0.1*most {
			how := fmt.Sprintf("multiplied by a factor of its own, between %.4g and %.4g", low, high)
			if high-low <= sameFactor*most {
				how = fmt.Sprintf("multiplied by %.3g", (low+high)/2)
			}
			switch {
			case scaled < p.n && allAre(up, func(f float64) bool {
				return f == 0 || math.Abs(f-1) <= sameFactor*most
			}):
				return fmt.Sprintf("each of %d %s is zero; the others are right", scaled, p.some())
			case scaled < p.n:
				return fmt.Sprintf("each of %d %s is %s; the others are right", scaled, p.some(), how)
			}
			return fmt.Sprintf("each %sis %s", p.each(), how)
		}
	}
	return ""
}

// sameFactor is how far the factor of a part is from one, relative to that of the part that is furthest from it, if the
// part is right.
const sameFactor = 1e-3

// unexplained is the share of the squared errors that factors may leave.
const unexplained = 1e-3

// coarse is the relative error up to which a function may be meant for another.
const coarse = 0.1

// A course is how the errors of a function of one operand follow from its elements.
type course struct {
	at    float64 // the element whose error is the largest, relative to the result there
	error float64 // that
}

// courseOf is the course of a result that is a function of an operand's element, but another one
// than is due: elements near each other have errors near each other. nil if it is none, or if
// operand and result are not element for element.
func courseOf(x, got, want *tensor.Tensor) *course {
	if !slices.Equal(x.Shape, got.Shape) || got.Numel() < fewestInCourse {
		return nil
	}
	v, g, w := sample(x), sample(got), sample(want)
	if numbers := slices.Sorted(slices.Values(v)); len(slices.Compact(numbers)) < fewestInCourse/2 {
		return nil
	}
	order := tensor.Make[int](len(v))
	for i := range v {
		if e := g[i] - w[i]; math.IsNaN(e) || math.IsInf(e, 0) || math.IsNaN(v[i]) {
			return nil
		}
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(v[i], v[j]) })
	errors := func(i int) float64 { return g[i] - w[i] }
	if !(smoothness(order, errors) < smooth) || !(smoothness(order, func(i int) float64 { return w[i] }) < smooth/10) {
		return nil
	}
	c := &course{}
	for i := range v {
		if e := math.Abs(errors(i) / w[i]); e > c.error && !math.IsInf(e, 0) {
			c.at, c.error = v[i], e
		}
	}
	return c
}

// smoothness is von Neumann's ratio of numbers in some order, by what it is of numbers in none: 1
// where neighbours have nothing in common, near 0 of a function that changes slowly.
func smoothness(order []int, f func(i int) float64) float64 {
	var steps, all, mean float64
	for _, i := range order {
		mean += f(i) / float64(len(order))
	}
	for k, i := range order {
		all += (f(i) - mean) * (f(i) - mean)
		if k > 0 {
			step := f(i) - f(order[k-1])
			steps += step * step
		}
	}
	return steps / (2 * all)
}

// The ratio of so many numbers without order has a standard deviation of 0.14: the limit is six
// of those below 1.
const (
	fewestInCourse = 48
	smooth         = 0.1
)
