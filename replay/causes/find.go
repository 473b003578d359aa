package causes

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"math/bits"
	"math/cmplx"
	"slices"
	"strings"

	"github.com/optool/optool/tensor"
)

// Find looks for the causes of values that failed, until the work is done. said are causes that are known before.
// explains runs the call with a mistake, and tells which of the values that are left the mistake explains. Causes that
// a value shows by itself come first, then the causes of results, those that explain most before the others. A value
// that one mistake explains needs no further one. Gradients that do not follow from the mistake are searched by
// themselves. A finding without a cause gets a sentence about what its errors depend on.
func (c *Search) Find(fails []Wrong, said []Cause, explains func(m Mistake, left []Wrong) Cause) []Cause {
	all := fails
	c.gradientsOnly = !slices.ContainsFunc(fails, func(w Wrong) bool { return w.Forward() })
	c.firstFail = fails[0].Target
	plain, fails := c.Plain(fails)
	if slices.ContainsFunc(plain, Cause.infinite) { // why they are says more
		tried := 0
		for _, source := range []iter.Seq[Mistake]{c.overflowing(all), c.overflowed(all)} {
			if found := c.causesAmong(source, all, nil, false, &tried, explains); len(found) > 0 {
				return found[:1]
			}
		}
	}
	if slices.ContainsFunc(plain, func(k Cause) bool { return (k.oneNumber || k.zeros) && k.ofResult() }) {
		tried := 0 // a sum that grows no more, terms that cancel
		for _, source := range []iter.Seq[Mistake]{c.declared(), c.inOwnBits(all)} {
			for _, k := range c.causesAmong(source, all, nil, false, &tried, explains) {
				if k.mistake.Precision || !plain[0].zeros {
					return []Cause{k}
				}
			}
		}
	}
	for i, k := range plain { // where an operand has one number, that says more
		at := slices.IndexFunc(all, func(w Wrong) bool { return w.Target == k.Targets[0] })
		if !k.oneNumber || at < 0 {
			continue
		}
		if spot := c.atSpot(&all[at]); spot != nil {
			plain[i].Text = spot.Text
		}
	}
	if len(fails) == 0 {
		return plain
	}
	tried := 0
	found := c.likeliest(fails, said, &tried, explains)
	for i := range found {
		c.asIf(&found[i], fails)
	}
	if rest := unexplainedGradients(fails, found); len(rest) > 0 && !c.Work.Over() {
		found = c.besidesResults(fails, rest, found, &tried, explains)
	}
	if len(plain) > 0 && !plain[0].ofResult() && slices.ContainsFunc(found, Cause.ofResult) {
		return found // from which gradients of zero follow
	}
	if found = append(plain, found...); found == nil {
		if k := cmp.Or(c.atSpot(&fails[0]), c.nanAtZero(&fails[0]), c.alikeAt(&fails[0])); k != nil {
			return []Cause{*k}
		}
		return c.Dependence(fails)
	}
	return found
}

// infinite reports whether a cause says of a value that all of it is infinite.
func (k Cause) infinite() bool { return strings.HasSuffix(k.Text, "Inf") }

// besidesResults are the causes that were found, and those of gradients that none of them explains. A mistake of these
// that explains the results, too, is the only cause.
func (c *Search) besidesResults(fails, rest []Wrong, found []Cause, tried *int,
	explains func(m Mistake, left []Wrong) Cause) []Cause {
	var whole []Cause
	others := c.likeliest(rest, nil, tried, func(m Mistake, left []Wrong) Cause {
		k := explains(m, left)
		if whole == nil && !m.Gradients && len(k.Targets) == len(rest) {
			all := explains(m, fails)
			all.Text = strings.TrimPrefix(all.Text, ofFormula)
			if len(all.Targets) == len(fails) && all.Bits >= Required(*tried+c.looked)+m.Cost {
				whole = []Cause{all}
			}
		}
		return k
	})
	if whole != nil {
		// The results tell more than a name.
		if strings.HasPrefix(whole[0].Text, computedAs) && len(found) == 1 {
			whole[0].Text = found[0].Text
		}
		return whole
	}
	return merged(found, others)
}

// merged are causes, and others that are found for other values.
func merged(found, others []Cause) []Cause {
	for _, k := range others {
		i := slices.IndexFunc(found, func(b Cause) bool { return b.Text == k.Text })
		if i < 0 {
			found = append(found, k)
			continue
		}
		found[i].Targets = append(found[i].Targets, k.Targets...)
	}
	return found
}

// unexplainedGradients are those that no cause explains, where all results have one: gradients are wrong besides.
// Where positions are wrong there are none: gradients go to those.
func unexplainedGradients(fails []Wrong, found []Cause) (out []Wrong) {
	positions := slices.ContainsFunc(fails, func(w Wrong) bool { return w.Got != nil && w.Got.DType.IsIntegral() })
	for _, w := range fails {
		switch {
		case slices.ContainsFunc(found, func(k Cause) bool { return slices.Contains(k.Targets, w.Target) }):
		case w.Forward():
			return nil
		case positions:
			return nil
		default:
			out = append(out, w)
		}
	}
	if len(out) == len(fails) || !slices.ContainsFunc(found, Cause.ofResult) {
		return nil
	}
	return out
}

// ofResult reports whether a cause explains a result.
func (k Cause) ofResult() bool { return !strings.HasPrefix(k.Targets[0], "grad") }

// likeliest are the causes of values that fail, the likeliest first. tried counts the mistakes.
func (c *Search) likeliest(fails []Wrong, causes []Cause, tried *int,
	explains func(m Mistake, left []Wrong) Cause) []Cause {
	sources, rest := c.Mistakes(fails)
	if k, ok := c.again(sources, fails, explains); ok {
		return append(causes, k)
	}
	results, judged := slices.ContainsFunc(fails, func(w Wrong) bool { return w.Forward() }), judgedTogether
	if !results {
		judged = judgedWithSteps
	}
	at := 0
	for i, source := range slices.Concat(sources, rest) {
		if at = i; i >= len(sources) && slices.ContainsFunc(causes, Cause.ofResult) {
			break // what is fitted explains much that has another cause
		}
		causes = append(causes, c.causesAmong(source, fails, causes, i < judged, tried, explains)...)
		if c.Work.Over() || slices.ContainsFunc(causes, func(k Cause) bool {
			return len(k.Targets) == len(fails) && (k.Exact && (results || !k.Number) || !k.Number ||
				i >= judged-1)
		}) {
			break
		}
	}
	slices.SortStableFunc(causes, Cause.compare)
	var first []Cause
	for _, k := range causes {
		if (first == nil || k.besides(first) >= Required(*tried+c.looked)) &&
			!slices.ContainsFunc(first, func(b Cause) bool { return b.covers(k) || b.ofResult() && !k.ofResult() }) {
			first = append(first, k)
		}
	}
	return c.withRival(first, causes, fails, c.rivalKinds(fails, sources, at), tried, explains)
}

// causesAmong are the mistakes of a source that explain what none of the causes known before does, unless all are
// judged together. tried counts the mistakes.
func (c *Search) causesAmong(source iter.Seq[Mistake], fails []Wrong, known []Cause, together bool, tried *int,
	explains func(m Mistake, left []Wrong) Cause) (causes []Cause) {
	like := ""
	for m := range source {
		if c.Work.Over() {
			break
		}
		if like != "" && m.Like == like {
			continue
		}
		*tried++
		k := explains(m, fails)
		if k.Moot {
			*tried--
			continue
		}
		if len(k.Targets) == 0 || m.All && len(k.Targets) < len(fails) || k.Bits < Required(*tried+c.looked)+m.cost() ||
			!together && slices.ContainsFunc(known, func(b Cause) bool { return b.covers(k) }) {
			continue
		}
		if k.Number = m.Argument; m.Number != nil && !k.Exact && c.missesNumber(m.Number, fails, k) {
			continue
		}
		if k.mistake = &m; m.Truly != nil {
			k.Text = m.Truly()
		}
		causes = append(causes, k)
		if !m.Unfitted || k.Exact || len(causes) == mostAlternatives {
			like = m.Like
		}
	}
	return causes
}

// compare orders causes, the likelier ones first.
func (k Cause) compare(l Cause) int {
	order := cmp.Or(cmp.Compare(btoi(l.ofResult()), btoi(k.ofResult())), cmp.Compare(len(l.Targets), len(k.Targets)),
		cmp.Compare(btoi(l.Exact), btoi(k.Exact)), cmp.Compare(l.Share, k.Share))
	if order == 0 && math.Abs(k.Bits-l.Bits) <= asMany*max(k.Bits, l.Bits) {
		return btoi(k.Number) - btoi(l.Number)
	}
	return cmp.Or(order, cmp.Compare(l.Bits, k.Bits))
}

// Numbers of bits count as equal if they differ by this part of them. The part is larger for two arguments if the first
// has another number and leaves roundings: some of these fit it by chance.
const (
	asMany        = 0.01
	asManyRounded = 0.15
)

// judgedTogether is how many of the first kinds are tried although another number for an argument explains all, unless
// exactly: it may be near to what a mistake makes that the operator declares.
const judgedTogether = 13

// judgedWithSteps is the same of gradients, up to derivedOtherwise: a limit that is not looked at is one that is beyond
// all numbers there are.
const judgedWithSteps = 19

// mostAlternatives is how many mistakes of one kind may explain values without a number that was fitted, before the
// rest of them is passed over. One that is exact ends it.
const mostAlternatives = 4

// again is the cause of another call of the operator that explains all of this one, too.
func (c *Search) again(sources []iter.Seq[Mistake], fails []Wrong,
	explains func(Mistake, []Wrong) Cause) (Cause, bool) {
	if len(c.Likely) == 0 {
		return Cause{}, false
	}
	for _, source := range sources {
		if c.Work.Over() {
			break
		}
		for m := range source {
			if !slices.ContainsFunc(c.Likely, func(text string) bool {
				return text == m.Text || strings.HasSuffix(text, asIfSaid+m.Text)
			}) {
				continue
			}
			k := explains(m, fails)
			if len(k.Targets) == len(fails) && k.Bits >= Required(len(c.Likely))+m.Cost {
				return k, true
			}
		}
	}
	return Cause{}, false
}

// besides is how many bits a cause explains of values that none of others, which are likelier, explains.
func (k Cause) besides(others []Cause) (bits float64) {
	for i, t := range k.Targets {
		switch {
		case slices.ContainsFunc(others, func(b Cause) bool { return slices.Contains(b.Targets, t) }):
		case k.BitsOf == nil:
			return Plenty
		default:
			bits += k.BitsOf[i]
		}
	}
	return bits
}

// covers reports whether k explains all that l does.
func (k Cause) covers(l Cause) bool {
	return !slices.ContainsFunc(l.Targets, func(t string) bool { return !slices.Contains(k.Targets, t) })
}

// The rule of evidence. Evidence counts how many bits of a recorded value a mistake explains that the sound call does
// not. If n mistakes are tried, one explains log2(n) bits by chance; a cause has to explain leastBits more.
const leastBits = 14

// Plenty is the evidence of what is not counted.
const Plenty = 1e6

// Required is how many bits a cause has to explain after so many mistakes were tried.
func Required(tried int) float64 { return leastBits + math.Log2(float64(max(tried, 1))) }

// knownBits are by how many bits less a mistake has to explain that kernels are known to make of the operator: it was
// likelier beforehand than those that any operator may have.
const knownBits = 3

// cost is how many bits a mistake has to explain besides.
func (m Mistake) cost() float64 {
	if m.Known {
		return m.Cost - knownBits
	}
	return m.Cost
}

// Evidence is how many bits of a recorded value a mistake explains beyond those that the sound result explains. An
// element counts the logarithm of how much nearer it comes, at most the bits of its dtype. It cannot come nearer than
// rounding, nor nearer than nine of ten others do. Equal elements count a few times at most: many mistakes make zeros.
// Elements that are doubled, halved or negated say little: see doubledBits. Elements that are not finite tell their
// cause by their places: see ofPlaces.
func Evidence(got, due, made *tensor.Tensor) float64 { return Mistake{}.Evidence(got, due, made) }

// Evidence is that of a recorded value for a mistake.
func (m Mistake) Evidence(got, due, made *tensor.Tensor) float64 {
	if !slices.Equal(got.Shape, made.Shape) || got.DType.Kind() != made.DType.Kind() {
		return 0
	}
	if got.Numel() != due.Numel() { // the value has another shape than is due
		due = tensor.Full(got.DType, got.Shape, 0.0)
	}
	if got.DType.IsComplex() || !got.DType.IsFloat() {
		return whole(got, due, made)
	}
	x, y, z := Pieces(got), Pieces(due), Pieces(made)
	after := make([]float64, 0, len(x))
	dt := got.DType
	for i := range x {
		if a := math.Abs(x[i] - dt.Round(z[i])); !math.IsNaN(a) && !math.IsInf(a, 0) {
			after = append(after, a)
		}
	}
	slices.Sort(after)
	noise := 0.0
	if len(after) > 0 {
		noise = after[len(after)*9/10]
	}
	most, seen, sum := -math.Log2(dt.Eps()), map[float64]int{}, 0.0
	infinite, explained, moved := 0, 0, tensor.Make[bool](len(x))
	for i := range x {
		if !finite(x[i]) {
			infinite++
			explained += btoi(alike(x[i], dt.Round(z[i]))) - btoi(alike(x[i], dt.Round(y[i])))
			continue
		}
		floor := max(dt.ULP(x[i])/2, noise)
		b, a := apart(x[i], dt.Round(y[i]), floor), apart(x[i], dt.Round(z[i]), floor)
		if b == a {
			continue
		}
		moved[i] = true
		if seen[x[i]]++; seen[x[i]] > mostEqual {
			continue
		}
		most := min(most, significant(x[i]))
		most = min(most, m.likely(x[i], dt.Round(y[i]), len(x)))
		sum += max(-most, min(most, math.Log2(b/a)))
	}
	sum /= inCommon(dt, x, z, moved, got.Shape)
	if m.Limits && infinite == 0 {
		limited, exact := 0, true
		for i := range x {
			limited += btoi(moved[i])
			exact = exact && (!moved[i] || x[i] == dt.Round(z[i]))
		}
		if exact {
			sum = max(sum, ofPlaces(len(x), limited))
		}
	}
	if infinite == 0 {
		return sum
	}
	each := ofPlaces(len(x), infinite) / float64(infinite)
	if m.NotFinite {
		each = max(each, min(4, 4*mostEqual/float64(infinite)))
	}
	return sum + each*float64(explained)
}

// inCommon is how many elements count as one, because what a mistake leaves of their errors is one number: a row
// whose statistic is wrong is one observation. It is 1 where a mistake leaves roundings of single elements. Errors
// of elements that a mistake does not change say nothing of it.
func inCommon(dt tensor.DType, x, z []float64, changed []bool, shape []int) float64 {
	left, squares, far, all := make([]float64, len(x)), 0.0, 0, 0
	for i := range x {
		all += btoi(changed[i])
		if e := x[i] - dt.Round(z[i]); changed[i] && finite(e) {
			left[i] = e
			squares += e * e
			far += btoi(math.Abs(e) > 2*dt.ULP(x[i]))
		}
	}
	if 10*far < all {
		return 1
	}
	n, most := tensor.Numel(shape), 1.0
	place := func(i int) int { return i }
	if len(x) < n {
		place = func(i int) int { return pieceAt(i, n) }
	}
	inner := 1
	for d := len(shape) - 1; d >= 0; d-- {
		width := shape[d]
		if width >= fewestInCommon && (inner == 1 || len(x) == n) {
			sums, counts := map[int]float64{}, map[int]float64{}
			for i, e := range left {
				if !changed[i] {
					continue
				}
				row := place(i)/(inner*width)*inner + place(i)%inner
				sums[row], counts[row] = sums[row]+e, counts[row]+1
			}
			of := 0.0
			for _, row := range slices.Sorted(maps.Keys(sums)) { // in one order, so that sums round alike
				of += sums[row] * sums[row] / counts[row]
			}
			if ratio := of / squares * float64(all) / float64(len(sums)); ratio > 8 {
				most = max(most, ratio)
			}
		}
		inner *= width
	}
	return most
}

// fewestInCommon is the length of a row whose errors may have something in common.
const fewestInCommon = 16

// ofPlaces is how many bits say which k of n elements those are: none where all are. Any large factor makes all of a
// value infinite.
func ofPlaces(n, k int) float64 {
	log := func(n int) float64 { l, _ := math.Lgamma(float64(n) + 1); return l / math.Ln2 }
	return log(n) - log(k) - log(n-k)
}

// significant is how many bits say a number: few of a whole number, which results of other operators are by chance. A
// zero counts as any other.
func significant(x float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return 24
	}
	m, _ := math.Frexp(x)
	return float64(64-bits.TrailingZeros64(uint64(int64(math.Abs(m)*(1<<53))))-11) + 4
}

// mostEqual is how many elements of one value count as evidence.
const mostEqual = 8

// likely is how many bits one of n elements explains at most. It is less where many mistakes lead from the number that
// is due to the recorded one: see doubledBits and stepBits.
func (m Mistake) likely(x, due float64, n int) float64 {
	switch {
	case m.Expected:
	case x == math.Trunc(x) && due == math.Trunc(due) && math.Abs(x-due) == 1:
		if m.Known {
			return 2 * stepBits
		}
		return stepBits
	case m.Known || due == 0:
	case x == 2*due || 2*x == due || x == -due:
		return doubledBits
	case n <= fewMultiples && plainNumber(x/due): // of many there is evidence enough
		return doubledBits
	}
	return Plenty
}

// fewMultiples are so many elements that may be plain multiples by chance.
const fewMultiples = 8

// stepBits are how many one element explains at most that is the whole number beside the one that is due: whatever
// changes an operand a little lifts some elements over a step. It explains twice as many to a mistake that is known of
// the operator, such as another rounding of halves.
const stepBits = 2

// doubledBits are how many one element explains at most that is twice or half of what is due, or its negative: a
// flipped bit does that, too, and so do many mistakes of a formula. They are those of a multiple of two digits, too,
// which sizes of a call make by chance.
const doubledBits = 12

// apart is how far a value is from a recorded one, at least floor. A value that is not finite is as far from a recorded
// number as 0 is. Where the recorded one is not finite, another value is sixteen times floor apart.
func apart(x, y, floor float64) float64 {
	if alike(x, y) {
		return floor
	}
	d := math.Abs(x - y)
	if math.IsNaN(d) || math.IsInf(d, 0) {
		if finite(x) { // nothing is said of the number
			return max(16*floor, math.Abs(x))
		}
		return 16 * floor
	}
	return max(d, floor)
}

// whole is the evidence of elements that are integers, booleans or complex numbers. A small integer that is hit counts
// four bits, a larger one those that it has, as far as it is off.
func whole(got, due, made *tensor.Tensor) (sum float64) {
	n, seen := got.Numel(), map[int64]int{}
	for k := range min(n, SampleSize) {
		i := k * max(1, n/SampleSize)
		if got.DType.IsComplex() {
			x := tensor.At[complex128](got, i)
			b, a := cmplx.Abs(x-tensor.At[complex128](due, i)), cmplx.Abs(x-tensor.At[complex128](made, i))
			if floor := max(cmplx.Abs(x), b) * tensor.Float32.Eps(); b > floor || a > floor {
				sum += math.Log2(max(b, floor) / max(a, floor))
			}
			continue
		}
		x := tensor.At[int64](got, i)
		y := tensor.At[int64](due, i)
		was, is := y == x, tensor.At[int64](made, i) == x
		each := 4.0
		switch seen[x]++; {
		case got.DType == tensor.Bool:
			each = 1
		case seen[x] <= mostEqual:
			each = max(each, math.Log2(1+min(math.Abs(float64(x)), math.Abs(float64(x)-float64(y)))))
		}
		sum += each * float64(btoi(is)-btoi(was))
	}
	return sum
}
