package causes

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/tensor"
)

// Plain are the causes that a value shows by itself, before anything is computed with a mistake: nothing was written,
// all elements are the same or as they were before the call, or each is the neighbour of the reference on one side.
// rest are the failures that have none; gradients follow from results.
func (c *Search) Plain(fails []Wrong) (causes []Cause, rest []Wrong) {
	untouched := c.untouched(fails)
	for _, r := range fails {
		text := untouched[r.Target]
		if got, want, ok := r.Pair(); text == "" && ok && got.Numel() <= largestOperand {
			_ = c.Guard(func() error { // what cannot be read shows nothing
				text = cmp.Or(c.notFinite(&r, got, want), c.signedZero(got, want), unwritten(got, want),
					inSingle(got, want), c.unwrittenPlace(got, want), directed(got, want))
				return nil
			})
		}
		i := slices.IndexFunc(causes, func(k Cause) bool { return k.Text == text })
		switch {
		case text == "":
			rest = append(rest, r)
		case i >= 0:
			causes[i].Targets = append(causes[i].Targets, r.Target)
		default:
			causes = append(causes, Cause{Text: text, Targets: []string{r.Target}, Exact: true, Share: 1, Bits: Plenty,
				oneNumber: isOneNumber(&r), zeros: strings.Contains(text, nothingWritten)})
		}
	}
	if slices.ContainsFunc(causes, Cause.ofResult) {
		causes = slices.DeleteFunc(causes, func(k Cause) bool { return !k.ofResult() })
		rest = slices.DeleteFunc(rest, func(w Wrong) bool { return w.Backward() })
	}
	return causes, rest
}

// notFinite says of a value whose wrong elements are all the same that this is what becomes of numbers that are not
// finite, or are below the smallest normal one: of those that are due there, or of an operand's.
func (c *Search) notFinite(r *Wrong, got, want *tensor.Tensor) string {
	if text := c.staysNotFinite(got, want); text != "" {
		return text
	}
	at, wrong, y := oneNumber(got, want)
	if len(wrong) < 2 {
		return ""
	}
	x := elements(got)
	all := func(of func(i int) bool) bool { // and what is right nowhere
		if slices.ContainsFunc(wrong, func(i int) bool { return !of(i) }) {
			return false
		}
		for i := range x {
			if x[i] != at && of(i) {
				return false
			}
		}
		return true
	}
	due := ""
	switch {
	case all(func(i int) bool { return y[i] != y[i] }):
		due = "NaN"
	case all(func(i int) bool { return !finite(y[i]) }):
		due = "Inf or NaN"
	case at == 0 && all(func(i int) bool { return y[i] != 0 && math.Abs(y[i]) < got.DType.SmallestNormal() }):
		return "numbers below the smallest normal one are zero"
	}
	of := ""
	for _, a := range c.operands() {
		if t, err := a.Tensor.Expand(got.Shape...); err == nil && slices.Equal(t.Shape, got.Shape) && of == "" {
			if v := elements(t); all(func(i int) bool { return !finite(v[i]) }) {
				of = argName(a)
			}
		}
	}
	if due == "" && of == "" {
		return ""
	}
	if k := c.atSpot(r); k != nil {
		return k.Text
	}
	if due != "" {
		return fmt.Sprintf("where %s is due, it is %s", due, constant(at))
	}
	return fmt.Sprintf("where %s is not finite, it is %s", of, constant(at))
}

// staysNotFinite says of a value that is wrong where an operand is infinite or NaN, and a number is due, that it is the
// operand there.
func (c *Search) staysNotFinite(got, want *tensor.Tensor) string {
	if !got.DType.IsFloat() || !want.DType.IsFloat() || !slices.Equal(got.Shape, want.Shape) {
		return ""
	}
	x, y := elements(got), elements(want)
	for _, a := range c.operands() {
		t, err := a.Tensor.Expand(got.Shape...)
		if err != nil || !slices.Equal(t.Shape, got.Shape) {
			continue
		}
		v, infinite, nans, stays := elements(t), 0, 0, true
		mended, number := false, false // an infinite element, or a NaN, became the number that is due
		for i := range x {
			off := isOff(got.DType, x[i], got.DType.Round(y[i])) || finite(x[i]) != finite(y[i])
			if !off {
				mended = mended || finite(x[i]) && math.IsInf(v[i], 0)
				number = number || finite(x[i]) && v[i] != v[i]
				continue
			}
			stays = stays && !finite(v[i]) && finite(got.DType.Round(y[i])) && alike(x[i], v[i])
			infinite, nans = infinite+btoi(math.IsInf(x[i], 0)), nans+btoi(x[i] != x[i])
		}
		if !stays || infinite+nans < leastInPart || infinite > 0 && mended || nans > 0 && number {
			continue
		}
		what := "infinite"
		switch {
		case infinite == 0:
			what = "NaN"
		case nans > 0:
			what = "infinite or NaN"
		}
		return fmt.Sprintf("where %s is %s, it stays so: a number is due there", argName(a), what)
	}
	return ""
}

// signedZero says of booleans that are wrong at all zeros of an operand that have a sign, and nowhere else, that these
// are not equal to 0.
func (c *Search) signedZero(got, want *tensor.Tensor) string {
	if got.DType != tensor.Bool || want.DType != tensor.Bool || !slices.Equal(got.Shape, want.Shape) {
		return ""
	}
	x, y := elements(got), elements(want)
	for _, a := range c.operands() {
		t, err := a.Tensor.Expand(got.Shape...)
		if err != nil || !slices.Equal(t.Shape, got.Shape) || !t.DType.IsFloat() {
			continue
		}
		v, n := elements(t), 0
		at, other := -1, false // one of them, and whether some are not alike
		for i := range v {
			is := isSigned(v[i])
			if is {
				at, n = i, n+1
			}
			other = other || is != (x[i] != y[i]) || is && x[i] != x[at]
		}
		if !other && n >= leastInPart {
			return fmt.Sprintf("where %s is -0, it is %t: that is not taken for 0", argName(a), x[at] != 0)
		}
	}
	return ""
}

// isSigned reports whether x is the zero that has a sign.
func isSigned(x float64) bool { return x == 0 && math.Signbit(x) }

// oneNumber is the finite number that a value is wherever it is wrong, where that is, and what is due everywhere; wrong
// is nil if there is no such number.
func oneNumber(got, want *tensor.Tensor) (number float64, wrong []int, due []float64) {
	dt := got.DType
	if !dt.IsFloat() || !want.DType.IsFloat() || got.Numel() != want.Numel() {
		return 0, nil, nil
	}
	x, due := elements(got), elements(want)
	for i := range x {
		due[i] = dt.Round(due[i])
		if alike(x[i], due[i]) || math.Abs(x[i]-due[i]) <= 4*dt.ULP(due[i]) {
			continue
		}
		if len(wrong) == 0 {
			number = x[i]
		}
		if x[i] != number || !finite(number) {
			return 0, nil, nil
		}
		wrong = append(wrong, i)
	}
	return number, wrong, due
}

func finite(x float64) bool { return math.Abs(x) <= math.MaxFloat64 }

// nothingWritten is said of a value that is all zero. Its zeros do not tell who wrote them.
const nothingWritten = "zero, as if nothing was written"

// unwritten says of a value all of whose elements are the same, zero or NaN as in memory that nobody wrote, that they
// are, if most are due to be others.
func unwritten(got, want *tensor.Tensor) string {
	n := got.Numel()
	if got.DType.IsComplex() || want.DType.IsComplex() || n < 2 || n != want.Numel() {
		return ""
	}
	x, due, others, first := elements(got), 0, false, math.NaN()
	if n < leastAlike(got.DType, x[0]) {
		return ""
	}
	for i := range x {
		if !alike(x[i], x[0]) {
			return ""
		}
		y := tensor.At[float64](want, i)
		if got.DType.IsFloat() {
			y = got.DType.Round(y)
		}
		if i == 0 {
			first = y
		}
		due += btoi(!alike(y, x[0]))
		others = others || !alike(y, first)
	}
	switch {
	case 2*due < n && (x[0] != 0 || due < 2*leastInPart):
		return ""
	case x[0] == 0:
		if !slices.ContainsFunc(elements(want), func(y float64) bool { return !(y < 0) }) { // as of a maximum
			return fmt.Sprintf("all %d elements are "+nothingWritten+", or nothing below zero", n)
		}
		return fmt.Sprintf("all %d elements are "+nothingWritten, n)
	}
	if !others && got.DType.IsFloat() && first != 0 { // a factor says more
		return ""
	}
	return fmt.Sprintf("all %d elements are %s%s", n, constant(x[0]), limitNamed(x[0]))
}

// limitNamed says of which dtype a number is a limit, from which kernels start to look for a smallest or largest one;
// empty of others.
func limitNamed(x float64) string {
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Float64} {
		switch math.Abs(x) {
		case dt.Max():
			return fmt.Sprintf(", the %s number of %s", [...]string{"largest", "lowest"}[btoi(x < 0)], dt)
		case dt.SmallestNormal():
			return ", the smallest normal number of " + dt.String()
		}
	}
	for bits := 31; bits < 64; bits += 32 {
		if top := math.Ldexp(1, bits); x == top-1 || x == -top {
			return fmt.Sprintf(", the %s number of int%d", [...]string{"largest", "lowest"}[btoi(x < 0)], bits+1)
		}
	}
	return ""
}

// isOneNumber reports whether all elements of a floating value are the same finite number but 0.
func isOneNumber(r *Wrong) (is bool) {
	if r.Got == nil || !r.Got.DType.IsFloat() || r.Got.Numel() > largestOperand {
		return false
	}
	x := elements(r.Got)
	return len(x) > 0 && x[0] != 0 && finite(x[0]) && !slices.ContainsFunc(x, func(y float64) bool { return y != x[0] })
}

// leastAlike is how many elements that are all x are no chance.
func leastAlike(dt tensor.DType, x float64) int {
	switch {
	case dt == tensor.Bool:
		return 16
	case dt.IsFloat() && (x == 0 || x != x):
		return 2
	}
	return 8
}

// alike reports whether two numbers are equal, or both are NaN.
func alike(x, y float64) bool { return x == y || x != x && y != y }

// constant is the text of a number that all elements are.
func constant(x float64) string {
	switch {
	case x == 0:
		return "zero"
	case x != x:
		return "NaN"
	}
	return fmt.Sprintf("%.7g", x)
}

// unwrittenPlace says of a value whose wrong elements lie together, and are all the same, that nothing is written
// there. Parts of one dimension that are zero are told with their numbers: see misplaced.unwritten.
func (c *Search) unwrittenPlace(got, want *tensor.Tensor) string {
	p := placeOf(got, want, nil)
	if p == nil || p.parts() < 2 && p.indices != nil {
		return ""
	}
	v := p.elements(got)
	if len(v) < leastInPart || slices.ContainsFunc(v, func(x float64) bool { return !alike(x, v[0]) }) {
		return ""
	}
	if text := c.alikeWhere(got, want); text != "" {
		return text
	}
	unwritten := ""
	if v[0] != v[0] || v[0] == 0 && !mostlyZero(want) { // or as those around it
		unwritten = ", " + asIfUnwritten
	}
	return fmt.Sprintf("it is %s %s: all %d elements are%s", constant(v[0]), p, len(v), unwritten)
}

// asIfUnwritten is said of zeros at a place where others are due.
const asIfUnwritten = "as if not written"

// mostlyZero reports whether at least half of the elements that are due are zero.
func mostlyZero(want *tensor.Tensor) bool {
	zeros := 0
	for _, y := range elements(want) {
		zeros += btoi(y == 0)
	}
	return 2*zeros >= want.Numel()
}

// alikeWhere says of a value whose wrong elements are all the same that this is what it is wherever an operand is some
// number, and that it is wrong nowhere else: what is computed of that number.
func (c *Search) alikeWhere(got, want *tensor.Tensor) string {
	if got.DType.IsComplex() || want.DType.IsComplex() || got.DType == tensor.Bool || got.Numel() != want.Numel() {
		return ""
	}
	x, y := elements(got), elements(want)
	var wrong []int
	for i := range x {
		due := y[i]
		if got.DType.IsFloat() {
			due = got.DType.Round(due)
		}
		if isOff(got.DType, x[i], due) {
			if wrong = append(wrong, i); !alike(x[i], x[wrong[0]]) || math.IsInf(x[i], 0) {
				return ""
			}
		}
	}
	if len(wrong) < leastInPart || x[wrong[0]] != 0 && len(wrong) < leastAlike(got.DType, x[wrong[0]]) {
		return ""
	}
	for _, a := range c.readable() {
		t, err := a.Tensor.Expand(got.Shape...)
		if err != nil || !slices.Equal(t.Shape, got.Shape) || t.DType.IsComplex() {
			continue
		}
		v := elements(t)
		n, there := v[wrong[0]], 0
		if slices.ContainsFunc(wrong, func(i int) bool { return v[i] != n }) {
			continue
		}
		same := true
		for i := range v {
			if v[i] == n {
				there, same = there+1, same && alike(x[i], x[wrong[0]])
			}
		}
		if same && 2*there < len(v) {
			text := fmt.Sprintf("where %s is %s, it is ", argName(a), shortest(n))
			if x[wrong[0]] == 0 {
				return text + "zero"
			}
			return text + shortest(x[wrong[0]])
		}
	}
	return ""
}

// shortest is a number with all of its digits.
func shortest(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 32)
}

// alikeAt is alikeWhere of a value that failed, nil if it says nothing.
func (c *Search) alikeAt(r *Wrong) (k *Cause) {
	got, want, ok := r.Pair()
	if !ok || got.Numel() > largestOperand {
		return nil
	}
	_ = c.Guard(func() error { // what cannot be read shows nothing
		if text := c.alikeWhere(got, want); text != "" {
			k = &Cause{Text: text, Targets: []string{r.Target}, Exact: true, Share: 1, Bits: Plenty}
		}
		return nil
	})
	return k
}

// inSingle says of a value of float64 that all of it is float32, as far from what is due as results of that are.
func inSingle(got, want *tensor.Tensor) string {
	if got.DType != tensor.Float64 || !want.DType.IsFloat() || got.Numel() != want.Numel() {
		return ""
	}
	x, y := elements(got), elements(want)
	off, rounded := 0, true
	usual := tensor.Float32.ULP(rms(y)) // of an element that is small because terms cancel
	for i := range x {
		single := tensor.Float32.Round(x[i])
		due := tensor.Float32.Round(y[i])
		if !alike(x[i], single) || !alike(x[i], due) &&
			!(math.Abs(x[i]-due) <= 64*max(tensor.Float32.ULP(due), usual)) {
			return ""
		}
		off += btoi(y[i] != due)
		rounded = rounded && alike(x[i], due)
	}
	switch {
	case off < leastInNarrow:
		return ""
	case rounded:
		return "results are rounded to float32"
	}
	return "it is computed in float32: all elements are numbers of that"
}

// directed says how a value is rounded each of whose elements is a neighbour of the exact one, always on the same side.
func directed(got, want *tensor.Tensor) string {
	dt := got.DType
	if !dt.IsFloat() || !want.DType.IsFloat() || got.Numel() != want.Numel() {
		return ""
	}
	sides := []struct {
		text string
		on   func(x, exact float64) bool
	}{
		{"toward zero", func(x, exact float64) bool { return math.Abs(x) <= math.Abs(exact) }},
		{"away from zero", func(x, exact float64) bool { return math.Abs(x) >= math.Abs(exact) }},
		{"down", func(x, exact float64) bool { return x <= exact }},
		{"up", func(x, exact float64) bool { return x >= exact }},
	}
	exact, off := elements(want), 0
	for i, x := range elements(got) {
		w := dt.Round(exact[i])
		if x == w || x != x && w != w {
			if w == exact[i] || x != x || math.IsInf(x, 0) {
				continue
			}
		} else if m := dt.Round((x + w) / 2); m != x && m != w || x*w < 0 || math.IsInf(x-w, 0) { // no neighbours
			return ""
		} else {
			off++
		}
		left := sides[:0]
		for _, s := range sides {
			if s.on(x, exact[i]) {
				left = append(left, s)
			}
		}
		if sides = left; len(sides) == 0 {
			return ""
		}
	}
	if off < leastInNarrow {
		return ""
	}
	return "results are rounded " + sides[0].text
}

// unwrittenAt are values all of whose wrong elements are zero, at a place that is less likely than those that Plain
// looks for: few indices of a dimension.
func (c *Search) unwrittenAt(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for _, r := range fails {
			got, want, ok := r.Pair()
			if !ok {
				continue
			}
			var p *place
			if c.Guard(func() error { p = placeOf(got, want, r.Allowed); return nil }) != nil || p == nil ||
				slices.ContainsFunc(p.elements(got), func(x float64) bool { return x != 0 }) {
				continue
			}
			text := "it is zero " + p.String() + ", " + asIfUnwritten
			if !yield(Mistake{Text: text, Cost: p.cost(), Make: c.resultIs(r.Target,
				func(i int) int {
					if p.holds(i) {
						return -1
					}
					return i
				})}) {
				return
			}
		}
	}
}
