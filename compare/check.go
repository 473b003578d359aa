package compare

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"strconv"
	"sync"

	"github.com/optool/optool/compare/internal/vec"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
)

// Check compares a recorded tensor with the reference, which is unrounded: it
// is rounded once to got's dtype. tol gives op_tools' numbers; a non-nil
// override decides the verdict in place of the model. Neither tensor is
// copied: both are walked in blocks, in parallel, once.
//
// It panics with a *tensor.ReadError if a storage cannot be read.
func Check(got, ref *tensor.Tensor, m Model, tol Tolerance, override *Tolerance) Result {
	r := newResult(got.Numel())
	if override != nil {
		r.Setting = override.Setting
	}
	for _, t := range []*tensor.Tensor{got, ref} {
		if !t.DType.Computable() {
			r.Verdict, r.Reason = verdict.Unsupported, fmt.Sprintf("values of dtype %s cannot be compared", t.DType)
			r.OpTools = incomparable(r.Reason)
			return r
		}
	}
	if got.DType == m.OtherDType && ref.DType != got.DType {
		ref = tensor.New(got.DType, ref.Shape, tensor.Data[float64](ref))
	}
	if !slices.Equal(got.Shape, ref.Shape) {
		r.Verdict = verdict.Fail
		r.Reason = fmt.Sprintf("shape is %s, want %s", tensor.ShapeString(got.Shape), tensor.ShapeString(ref.Shape))
		r.Rule = "shape"
		r.OpTools = incomparable(shapeNote(got, ref))
		return r
	}
	short, times, err := tensor.Distinct(got, ref)
	if err != nil {
		r.Verdict, r.Reason, r.OpTools = verdict.Error, err.Error(), incomparable(err.Error())
		return r
	}
	if times > 1 {
		return checkRepeated(short[0], short[1], times, m, tol, override)
	}
	c := newChecker(got, ref, m, tol, override)
	c.begin()
	c.run(&r, tol)
	r.Allowed = func(strict bool) *tensor.Tensor { return Allowed(ref, m, override, strict) }
	if override == nil && got.DType.IsFloat() && ref.DType.IsFloat() {
		r.Limit = c.limits()
	}
	if got.DType != ref.DType && !m.Cast {
		r.Verdict, r.Rule = verdict.Fail, RuleDType
		r.Reason = fmt.Sprintf("dtype is %s, want %s", got.DType, ref.DType)
	}
	return r
}

// newChecker returns a checker of tensors of one shape. Everything else that the model gives is computed once, when
// it is needed.
func newChecker(got, ref *tensor.Tensor, m Model, tol Tolerance, override *Tolerance) *checker {
	c := &checker{pair: newPair(got, ref, tol, m.Cast), model: m, override: override, grid: got.DType}
	if m.Round != tensor.Invalid && m.Round.Eps() > got.DType.Eps() && got.DType.Eps() > 0 {
		c.grid = m.Round
		if got.DType.IsComplex() {
			c.grid = m.Round.Complex()
		}
		c.regrid = true
	}
	c.partials = sync.OnceValue(func() []float64 {
		if m.Chain != nil {
			if t := m.Chain(); t != nil {
				return tensor.Data[float64](t)
			}
		}
		return nil
	})
	c.others = sync.OnceValue(func() (all []*tensor.Tensor) {
		if m.Else != nil && c.dt.IsFloat() {
			for _, t := range m.Else() {
				if c.block%t.Grain() != 0 {
					t = tensor.New(t.DType, t.Shape, tensor.Data[float64](t))
				}
				all = append(all, t)
			}
		}
		return all
	})
	c.otherInts = sync.OnceValue(func() (all [][]int64) {
		if m.Else != nil && c.dt.Kind() < tensor.KindFloat {
			for _, t := range m.Else() {
				all = append(all, tensor.Data[int64](t))
			}
		}
		return all
	})
	return c
}

// limits returns what an element may be off by, as the verdict bounds it. The indices of a walk are cheapest in order:
// a block of the reference and of its magnitudes is kept.
func (c *checker) limits() func(index []int) Limit {
	var mu sync.Mutex
	var s *scratch
	return func(index []int) Limit {
		mu.Lock()
		defer mu.Unlock()
		if s == nil {
			s = new(scratch)
			s.next()
		}
		at := tensor.Ravel(index, c.got.Shape)
		lo := at / c.block * c.block
		n := min(c.block, c.n-lo)
		ref := s.loadRef(c.pair, lo, n)
		b := &c.bound
		l := Limit{ULPs: b.ulps, Unit: b.ulp(ref[at-lo]), Factor: b.sum}
		if c.scale(whole) != nil {
			l.Scale = c.scaleAt(whole, lo, at-lo, s)
			if k := &s.scale[whole]; k.loaded > 16 && k.loaded > len(k.have)/8 { // all of the block's are cheaper
				c.scaleOf(whole, lo, n, s)
			}
		}
		own := b.full(l.ULPs*l.Unit, l.Scale)
		l.Allowed = own
		for _, other := range c.othersOf(lo, n, s) {
			l.Allowed = math.Max(l.Allowed, c.reach(ref[at-lo], other[at-lo], l.Scale, 0))
		}
		l.Other = l.Allowed > own
		return l
	}
}

// checkRepeated is Check for tensors whose elements each represent several equal ones.
func checkRepeated(got, ref *tensor.Tensor, times int, m Model, tol Tolerance, override *Tolerance) Result {
	once := func(scale func() *tensor.Tensor) func() *tensor.Tensor {
		if scale == nil {
			return nil
		}
		return func() *tensor.Tensor {
			s := scale()
			for d, n := range got.Shape {
				if s.Shape[d] != n {
					s = s.Slice(d, 0, n, 1)
				}
			}
			return s
		}
	}
	m.Scale, m.Least = once(m.Scale), once(m.Least)
	r := Check(got, ref, m, tol, override)
	r.Limit, r.Allowed = nil, nil // their indices are others
	for _, n := range []*int{&r.Numel, &r.Mismatched, &r.NaNActual, &r.NaNExpected, &r.InfActual, &r.InfExpected} {
		*n *= times
	}
	if r.Reason != "" {
		r.Reason += fmt.Sprintf("; each element stands for %d", times)
	}
	return r
}

// A checker judges the elements of a pair.
type checker struct {
	*pair
	model    Model
	override *Tolerance
	grid     tensor.DType // what the elements are precise to
	regrid   bool         // grid is not got's dtype
	sameTol  bool         // the override is what the statistics counted by
	bound    bound
	highest  [3]highest // by class

	magnitudes [whole + 1]magnitudes
	partials   func() []float64        // Model.Chain
	others     func() []*tensor.Tensor // Model.Else, of which a block is cheaply read
	otherInts  func() [][]int64        // likewise, of integers

	met []Distribution // of blocks of the sample that differ, as they were judged; nil: not judged together
}

// class is how one element came off.
type class int

const (
	passed class = iota
	warned
	failed
)

// part is what is known of one span of elements.
type part struct {
	stats        vec.Stats
	counts       [3]int // differing elements per class
	worst        [3]candidate
	above, below int
	maxULP       float64 // where stats does not have it
	scaled       bool    // an element was judged by S
	signs        int     // of those that failed, zeros of the wrong sign
	saturated    int     // of those that passed, largest values where the reference overflows
}

func (p *part) add(q *part) {
	p.stats.Add(&q.stats)
	for i := range q.counts {
		p.counts[i] += q.counts[i]
		if w := q.worst[i]; w.valid {
			p.worst[i].offer(w.score, w.at)
		}
	}
	p.above += q.above
	p.below += q.below
	p.maxULP = math.Max(p.maxULP, q.maxULP)
	p.scaled = p.scaled || q.scaled
	p.signs += q.signs
	p.saturated += q.saturated
}

// differs records one element that is not equal to the rounded reference.
func (p *part) differs(cl class, score float64, at int, above, below bool) {
	p.counts[cl]++
	p.worst[cl].offer(score, at)
	p.above += count(above)
	p.below += count(below)
}

func (c *checker) run(r *Result, tol Tolerance) {
	c.setBound(tol)
	if c.judgedTogether() {
		samples, _ := c.sampling()
		c.met = make([]Distribution, samples)
	}
	parts := make([]part, c.spans())
	c.walk(func(k int, blocks func(func(lo, n int, s *scratch))) {
		p := &parts[k]
		for cl := range p.worst {
			p.worst[cl] = c.highest[cl].candidate()
		}
		defer func() {
			for cl, w := range p.worst {
				c.highest[cl].raise(w.score)
			}
		}()
		blocks(func(lo, n int, s *scratch) { c.checkBlock(p, lo, n, s) })
	})
	var sum part
	for i := range parts {
		sum.add(&parts[i])
	}
	c.conclude(r, &sum, tol)
}

// setBound sets what elements may be off by: by the override, or by the model.
func (c *checker) setBound(tol Tolerance) {
	switch {
	case c.override != nil:
		o := *c.override
		c.sameTol = o.Atol == tol.Atol && o.Rtol == tol.Rtol
		c.bound = newBound(Model{ULPs: o.ULP}, floatGrid(c.grid))
		c.bound.rule = o.String()
	case c.dt.IsFloat() || c.dt.IsComplex():
		c.bound = newBound(c.model, c.grid)
	default:
		c.bound.rule = "exact"
	}
	c.signs = (c.model.Moved && c.model.Exact || c.model.Signed) && c.dt.IsFloat() && c.override == nil
}

// checkBlock measures a block of elements, and judges those that differ one by one.
func (c *checker) checkBlock(p *part, lo, n int, s *scratch) {
	st := c.measure(lo, n, s)
	p.stats.Add(&st)
	if c.signs && (c.model.Signed || st.Equal()) {
		c.zeroSigns(p, lo, n, s)
	}
	if st.NotClose == 0 && (st.Equal() && !c.regrid || c.sameTol) {
		return
	}
	switch {
	case c.dt.IsComplex():
		c.complexBlock(p, lo, n, s)
	case c.dt.IsFloat():
		c.floatBlock(p, lo, n, s)
		c.countScale(lo, n, s)
		c.meet(lo, n, s)
	default:
		c.intBlock(p, lo, n, s)
	}
}

// zeroSigns looks for zeros of the wrong sign in a block, among elements that are zero or flushed to it on both sides.
func (c *checker) zeroSigns(p *part, lo, n int, s *scratch) {
	if s.identical {
		return
	}
	tiny := c.bound.dt.SmallestNormal()
	g, r := s.loadGot(c.pair, lo, n), s.loadRef(c.pair, lo, n)
	for i, x := range g {
		if x == 0 && math.Signbit(x) != math.Signbit(r[i]) && math.Abs(r[i]) < tiny {
			p.counts[failed]++
			p.worst[failed].offer(1, lo+i)
			p.signs++
		}
	}
}

// floatGrid is dt, or float64 where an integer tensor is judged by tolerance.
func floatGrid(dt tensor.DType) tensor.DType {
	if dt.IsFloat() || dt.IsComplex() {
		return dt
	}
	return tensor.Float64
}

// conclude makes r of what was counted of all elements.
func (c *checker) conclude(r *Result, p *part, tol Tolerance) {
	c.count(r, p, tol)
	worst := failed
	for worst > passed && p.counts[worst] == 0 {
		worst--
	}
	if p.worst[worst].valid {
		c.showWorst(r, worst, p.worst[worst])
	}
	c.judge(r, p, worst)
	if r.Verdict == verdict.Pass && p.saturated > 0 {
		r.Reason = fmt.Sprintf("%d of %d elements overflow and are the largest value, as in torch 2.12 and later and "+
			"on GPUs; earlier versions give NaN", p.saturated, c.n)
	}
	if r.Verdict == verdict.Pass && !c.model.Trivial {
		c.mistrust(r, p)
	}
	if r.Verdict == verdict.Fail || r.Verdict == verdict.Warn {
		r.RelativeError = c.relativeError()
	}
}

// count takes over what is counted and measured of all elements.
func (c *checker) count(r *Result, p *part, tol Tolerance) {
	s := &p.stats
	r.OpTools = c.opTools(*s, tol)
	r.Rule = c.bound.rule
	r.NaNActual, r.NaNExpected, r.InfActual, r.InfExpected = s.NaNA, s.NaNB, s.InfA, s.InfB
	r.Mismatched = p.counts[warned] + p.counts[failed]
	if n := p.above + p.below; n > 0 {
		r.Bias = float64(p.above-p.below) / float64(n)
	}
	r.PassAtol = r.OpTools.MaxAbs
	switch {
	case r.OpTools.AllClose && tol.Rtol == 0:
		r.PassAtol = math.Min(tol.Atol, r.OpTools.MaxAbs)
	case math.IsNaN(r.PassAtol):
		r.PassAtol = math.Inf(1)
	}
	switch {
	case c.regrid || c.dt.IsComplex():
		r.MaxULP = p.maxULP
	case c.dt.IsFloat():
		r.MaxULP = float64(s.MaxULP)
	}
}

// showWorst tells of the worst element, which is of class cl.
func (c *checker) showWorst(r *Result, cl class, w candidate) {
	r.WorstIndex = tensor.Unravel(w.at, c.got.Shape)
	r.Actual, r.Expected = c.valuesAt(w.at)
	r.WorstULP, r.Grid = c.worstULP(r), floatGrid(c.grid)
	if c.override == nil && c.bound.ulps == 0 && c.bound.sum == 0 {
		return
	}
	r.BoundRatio = w.score
	if cl == passed {
		r.BoundRatio = min(w.score, c.leastRatio(w.at))
	}
	if cl == passed && c.override == nil && c.model.Least != nil && r.BoundRatio > nearMiss { // S was not asked for
		r.BoundRatio = c.likelyRatio(w.at)
	}
}

// judge gives the verdict on the elements, one by one and all together. The worst are of class cl.
func (c *checker) judge(r *Result, p *part, cl class) {
	unsound := ""
	if cl == warned {
		unsound = c.notRounding(p)
	}
	notANumber := 0 // of the elements that overflow, where others are the largest value
	if p.saturated > 0 {
		notANumber = c.madeNaN()
	}
	switch {
	case cl != failed && notANumber > 0:
		r.Verdict, r.Pattern = verdict.Fail, "some elements that overflow are NaN, others the largest value"
		r.Reason = fmt.Sprintf("of the elements that overflow %d are NaN and %d the largest value: no conversion gives both",
			notANumber, p.saturated)
	case cl == failed && p.signs == p.counts[failed]:
		r.Verdict, r.Pattern = verdict.Fail, "zeros of the wrong sign"
		r.Reason = fmt.Sprintf("%d of %d elements are zeros of the wrong sign: at %s got %s want %s", p.signs, c.n,
			tensor.ShapeString(r.WorstIndex), c.show(r.Actual), c.show(r.Expected))
	case cl == failed, unsound != "":
		r.Verdict = verdict.Fail
		r.Pattern = unsound
		if unsound == "" {
			r.Pattern = c.pattern(p.worst[failed].at)
		}
		r.Reason = c.reason(r, p, p.counts[failed]+p.counts[warned], c.override == nil)
	case cl == warned:
		r.Verdict, r.Loose = verdict.Warn, p.counts[warned]
		r.Reason = fmt.Sprintf("%s; worst at %s: got %s want %s", c.loose(p.counts[warned]),
			tensor.ShapeString(r.WorstIndex), c.show(r.Actual), c.show(r.Expected))
	}
	if cl < failed && unsound == "" && c.judgedTogether() && p.above+p.below > 0 { // some are not the nearest value
		r.Distribution = c.distribution()
		v, what, limits := r.Distribution.systematic(c.model.Shared || c.model.Coarse, c.distinct, c.common(cl))
		if v == verdict.Fail {
			r.Together = limits
		}
		if v != verdict.Pass {
			r.Verdict, r.Pattern = verdict.Worse(r.Verdict, v), what
			r.Reason = fmt.Sprintf("each of %d elements is within its bound, but all together they are not: %s",
				c.n, what)
		}
	}
}

// loose says how n elements were computed that are warned of.
func (c *checker) loose(n int) string {
	switch {
	case c.model.Single:
		return fmt.Sprintf("computed in %s: %d of %d elements are off by more than results computed in float32 and "+
			"rounded once, by no more than intermediate results rounded to %s explain", c.bound.lowest,
			n, c.n, c.bound.lowest)
	case c.bound.drift > 0:
		return fmt.Sprintf("added one after the other: %d of %d elements are off by more than a sum in parts "+
			"explains, by no more than one of %d terms in a row does", n, c.n, c.model.Terms)
	}
	return fmt.Sprintf("accumulated in %s: %d of %d elements are off by more than a float32 accumulator "+
		"explains, by no more than a %s one does", c.bound.lowest, n, c.n, c.bound.lowest)
}

// mistrust takes a pass back where any such values would pass.
func (c *checker) mistrust(r *Result, p *part) {
	s := &p.stats
	why := ""
	switch {
	case c.n == 0:
		why = "the tensor is empty: nothing was compared"
	case !s.NonZero:
		why, r.Zeros = c.are("zero on both sides"), true
	case s.NaNA == c.n && s.NaNB == c.n:
		why = c.are("NaN on both sides")
	case p.scaled && c.residue():
		why, r.Residue = c.are("within rounding of zero: any such values would pass"), true
	}
	if why != "" {
		r.Verdict, r.Reason = verdict.Mistrusted, why
	}
}

// nearMiss is the part of what is allowed from which on an error looks like a near miss.
const nearMiss = 0.1

// likelyRatio is the error of a real element over its likely bound. If one element of S costs little, S gives the
// bound. Otherwise S is estimated from Model.Least and LeastShare. The ratio is 0 if neither is known.
func (c *checker) likelyRatio(at int) float64 {
	kind, share := least, c.model.LeastShare
	if c.model.Single {
		kind, share = whole, 1
	}
	s := c.scale(kind)
	if share == 0 || s == nil || !c.dt.IsFloat() {
		return 0
	}
	b, exact := &c.bound, tensor.At[float64](c.ref, at)
	scale := math.Abs(tensor.At[float64](s, at)) / share
	ratio := math.Abs(tensor.At[float64](c.got, at)-exact) / b.full(b.ulps*b.ulp(exact), scale)
	if ratio <= 1 {
		return ratio
	}
	return 0
}

// leastRatio is the distance of a real element over what is known to be allowed of it
// without its S; infinite where a tolerance decides.
func (c *checker) leastRatio(at int) float64 {
	if c.override != nil || !c.dt.IsFloat() {
		return math.Inf(1)
	}
	x, exact := tensor.At[float64](c.got, at), tensor.At[float64](c.ref, at)
	return math.Abs(x-exact) / c.bound.least(math.Abs(exact), c.bound.ulps*c.bound.ulp(exact))
}

// judgedTogether reports whether the errors of elements that are each within their bound
// say something together: they come from a reference that is exact.
func (c *checker) judgedTogether() bool {
	return c.override == nil && !c.model.Cast && !c.model.Exact && c.dt.IsFloat() && c.dt != tensor.Float64
}

// worstULP is Result.WorstULP.
func (c *checker) worstULP(r *Result) float64 {
	g, ok := r.Actual.(float64)
	w, real := r.Expected.(float64)
	if !ok || !real || g != g || w != w {
		return math.NaN()
	}
	return ulps(floatGrid(c.grid), g, w)
}

// reason is the sentence of a failure.
func (c *checker) reason(r *Result, p *part, bad int, rounding bool) string {
	what := "differ from the reference"
	switch {
	case !rounding:
		what = "are outside " + c.bound.rule
	case c.bound.rule != "exact":
		what = "differ by more than rounding"
	}
	far := ""
	if !math.IsNaN(r.WorstULP) {
		far = fmt.Sprintf(" (%.4g ulp)", r.WorstULP)
	}
	at := ""
	if len(r.WorstIndex) > 0 {
		at = "at " + tensor.ShapeString(r.WorstIndex) + " "
	}
	text := fmt.Sprintf("%d of %d elements %s: %sgot %s want %s%s", bad, c.n, what, at, c.show(r.Actual),
		c.show(r.Expected), far)
	if c.n == 1 {
		text = fmt.Sprintf("got %s want %s%s", c.show(r.Actual), c.show(r.Expected), far)
	}
	if r.Pattern != "" {
		text += "; " + r.Pattern
	}
	return text
}

// show prints a value with the digits that tell it from its neighbours.
func (c *checker) show(v any) string {
	bits := 64
	if c.grid.Real() != tensor.Float64 {
		bits = 32
	}
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'g', -1, bits)
	case complex128:
		return strconv.FormatComplex(v, 'g', -1, 2*bits)
	}
	return fmt.Sprint(v)
}

// valuesAt are both values of flat element i, the reference rounded.
func (c *checker) valuesAt(i int) (got, want any) {
	switch c.dt.Kind() {
	case tensor.KindFloat:
		return tensor.At[float64](c.got, i), c.grid.Round(tensor.At[float64](c.ref, i))
	case tensor.KindComplex:
		w, part := tensor.At[complex128](c.ref, i), c.grid.Real()
		return tensor.At[complex128](c.got, i), complex(part.Round(real(w)), part.Round(imag(w)))
	}
	var s scratch
	g, w := s.loadInts(c.pair, i, 1)
	switch c.dt {
	case tensor.Bool:
		return g[0] != 0, w[0] != 0
	case tensor.Uint64:
		return uint64(g[0]), uint64(w[0])
	}
	return g[0], w[0]
}

func (c *checker) floatBlock(p *part, lo, n int, s *scratch) {
	b := &c.bound
	if c.override == nil && b.ulps > 0 && !c.regrid {
		c.nearBlock(p, lo, n, s)
		return
	}
	g, r := s.loadGot(c.pair, lo, n), s.loadRef(c.pair, lo, n)
	q := resize(&s.exact, n)
	if c.regrid {
		copy(q, r)
		tensor.RoundBlock(c.grid, q)
	} else {
		copy(q, s.loadRounded(c.pair, lo, n))
	}
	for i, x := range g {
		c.judgeAt(p, lo, i, x, r[i], q[i], s)
	}
}

// nearBlock judges a block where all but a few elements are within ulps of the
// exact reference, which takes no rounding to see. An element off by more than
// half an ULP is not the nearest value.
func (c *checker) nearBlock(p *part, lo, n int, s *scratch) {
	reach, within, beyond := c.bound.reach, &p.worst[passed].score, &p.worst[failed].score
	var scale []float64
	switch {
	case c.magnitudes[whole].wanted.Load():
		scale = c.scaleOf(whole, lo, n, s)
	case c.magnitudes[least].wanted.Load(): // of those beyond it more is to be known
		scale, reach.Final = c.scaleOf(least, lo, n, s), false
	}
	var t vec.Tally
	if x, y := c.float32s(lo, n, s); x != nil && scale == nil {
		t = reach.Near32(x, y, within, beyond, func(from, to int) {
			for i := from; i < to; i++ {
				c.closeOrJudged(p, lo, i, float64(x[i]), float64(y[i]), s)
			}
		})
	} else {
		g, r := s.loadGot(c.pair, lo, n), s.loadRef(c.pair, lo, n)
		t = reach.Near(g, r, scale, within, beyond, func(from, to int) {
			for i := from; i < to; i++ {
				c.closeOrJudged(p, lo, i, g[i], r[i], s)
			}
		})
	}
	p.above += t.Above
	p.below += t.Below
	p.counts[failed] += t.Out
}

// float32s are elements of both sides where these are stored as float32, or in 16
// bits, which float32 holds; else nil.
func (c *checker) float32s(lo, n int, s *scratch) (x, y []float32) {
	switch {
	case c.f32[0] != nil && c.f32[1] != nil:
		return c.f32[0][lo : lo+n], c.f32[1][lo : lo+n]
	case c.u16[0] != nil && c.u16[1] != nil:
		widen := vec.WidenBFloat16
		if c.dt == tensor.Float16 {
			widen = vec.WidenFloat16
		}
		x, y = resize(&s.f32[0], n), resize(&s.f32[1], n)
		widen(x, c.u16[0][lo:lo+n])
		widen(y, c.u16[1][lo:lo+n])
	}
	return x, y
}

// closeOrJudged records element i of the block at lo, x recorded and exact the
// reference: by its distance if it is within ulps, else as judgeAt does.
func (c *checker) closeOrJudged(p *part, lo, i int, x, exact float64, s *scratch) {
	b := &c.bound
	diff := x - exact
	ulp, ok := b.quickULP(exact)
	cheap := b.ulps * ulp
	if !ok || !(math.Abs(diff) <= cheap) {
		c.judgeAt(p, lo, i, x, exact, b.dt.Round(exact), s)
		return
	}
	p.above += count(diff > ulp/2)
	p.below += count(diff < -ulp/2)
	if d := math.Abs(diff); d > p.worst[passed].score*cheap && d > ulp/2 {
		p.worst[passed].offer(d/cheap, lo+i)
	}
}

// judgeAt judges element i of the block at lo: x recorded, exact and rounded
// the reference.
func (c *checker) judgeAt(p *part, lo, i int, x, exact, rounded float64, s *scratch) {
	if same(x, rounded) {
		return
	}
	if c.regrid && x == x && rounded == rounded {
		p.maxULP = math.Max(p.maxULP, ulps(c.grid, x, rounded))
	}
	b := &c.bound
	var cl class
	var score float64
	switch {
	case c.override != nil:
		cl, score = c.within(x, rounded)
	case b.ulps == 0 && b.sum == 0:
		cl, score = failed, math.Abs(x-rounded)
	default:
		d, cheap := math.Abs(x-exact), b.ulps*b.ulp(exact)
		covered := b.least(math.Abs(exact), cheap)
		switch {
		case d <= cheap:
			score = d / cheap
		case d <= covered:
			score = d / covered
		default:
			p.scaled = b.sum > 0
			if c.model.Least != nil {
				if full := b.full(cheap, c.scaleAt(least, lo, i, s)); d <= full {
					score = d / full
					break
				}
			}
			scale := c.scaleAt(whole, lo, i, s)
			cl, score = b.judge(x, rounded, exact, cheap, scale, 0)
			if cl == failed && b.low > 0 {
				if partials := c.partials(); partials != nil {
					cl, score = b.judge(x, rounded, exact, cheap, scale, partials[lo+i])
				}
			}
		}
	}
	switch {
	case cl != passed && c.saturates(x, exact):
		cl, score = passed, 1
		p.saturated++
	case cl != passed:
		if other := c.otherwise(lo, i, x, s); other < cl {
			cl, score = other, 1
		}
	}
	p.differs(cl, score, lo+i, x > rounded, x < rounded)
}

// madeNaN counts the elements that were recorded as NaN where the exact value is a number.
func (c *checker) madeNaN() int {
	counts := make([]int, c.spans())
	c.walk(func(k int, blocks func(func(lo, n int, s *scratch))) {
		blocks(func(lo, n int, s *scratch) {
			g, r := resize(&s.gotC, n), resize(&s.refC, n)
			tensor.Load(c.got, lo, g)
			tensor.Load(c.ref, lo, r)
			for i, x := range g {
				if cmplx.IsNaN(x) && !cmplx.IsNaN(r[i]) {
					counts[k]++
				}
			}
		})
	})
	all := 0
	for _, n := range counts {
		all += n
	}
	return all
}

// saturates reports whether x is what one of two sound conversions makes of an exact value that overflows
// float8_e4m3fn, which has no infinity.
func (c *checker) saturates(x, exact float64) bool {
	w := c.dt.Round(exact)
	return c.override == nil && c.dt == tensor.Float8E4M3FN && exact == exact && w != w &&
		x == math.Copysign(c.dt.Max(), exact)
}

// otherwise is how x, recorded for element i of the block at lo, comes off against the other results that the model
// allows: failed if there are none.
func (c *checker) otherwise(lo, i int, x float64, s *scratch) class {
	best := failed
	if c.override != nil || c.model.Else == nil {
		return best
	}
	b := &c.bound
	for _, other := range c.othersOf(lo, min(c.block, c.n-lo), s) {
		r := other[i]
		w := b.dt.Round(r)
		if same(x, w) {
			return passed
		}
		if b.ulps == 0 && b.sum == 0 {
			continue
		}
		cl, _ := b.judge(x, w, r, b.ulps*b.ulp(r), c.scaleAt(whole, lo, i, s), 0)
		best = min(best, cl)
	}
	return best
}

// othersOf are the other results that the model allows, of the elements of a block.
func (c *checker) othersOf(lo, n int, s *scratch) [][]float64 {
	if s.othersAt != lo {
		all := c.others()
		s.others = slices.Grow(s.others[:0], len(all))[:len(all)]
		for k, t := range all {
			tensor.Load(t, lo, resize(&s.others[k], n))
		}
		s.othersAt = lo
	}
	return s.others
}

// least is how far an element of magnitude size may be off in any case: by more
// than cheap if S is known to be at least as large.
func (b *bound) least(size, cheap float64) float64 {
	if !b.reach.Covers || !(size <= math.MaxFloat64) {
		return cheap
	}
	return b.full(cheap, size)
}

// full is how far an element may be off that is cheap by its dtype and has magnitudes that add up to scale.
func (b *bound) full(cheap, scale float64) float64 { return cheap + b.sum*scale + b.flush }

// most is full, or what the accumulator that a warning is about may be off by.
func (b *bound) most(r, cheap, scale, partial float64) float64 {
	if b.lowest == "" {
		return b.full(cheap, scale)
	}
	return math.Max(b.full(cheap, scale), cheap+b.loosely(r, scale, partial))
}

// judge decides on an element x that is off by more than cheap. The reference is r, and w is r
// rounded. partial is the sum of the magnitudes of the partial sums if these may be rounded to
// the dtype.
func (b *bound) judge(x, w, r, cheap, scale, partial float64) (class, float64) {
	if x != x || w != w || math.IsInf(r, 0) {
		return failed, math.Inf(1)
	}
	d := math.Abs(x - r)
	if math.IsInf(x, 0) {
		// An overflow is right if the exact value is within the bound of the
		// magnitudes that overflow.
		d = b.overflow - math.Copysign(1, x)*r
	}
	full := b.full(cheap, scale)
	score := d / full
	switch {
	case d <= full:
		return passed, score
	case d <= b.most(r, cheap, scale, partial):
		return warned, score
	case math.IsInf(x, 0):
		score = math.Inf(1)
	}
	return failed, score
}

// loosely is what the accumulator that a warning is about may be off by, of an element
// of exact value r; see judge.
func (b *bound) loosely(r, scale, partial float64) float64 {
	if b.drift > 0 {
		return b.sum*scale + b.flush + b.drift*math.Abs(r)
	}
	return b.low*scale + b.lowFlush + b.chain*partial
}

// within applies the override to one element: op_tools' rule, or the distance
// in ULP.
func (c *checker) within(x, w float64) (class, float64) {
	if x != x || w != w || math.IsInf(x, 0) || math.IsInf(w, 0) {
		return failed, math.Inf(1)
	}
	d, allowed := math.Abs(x-w), c.override.of(math.Abs(w))
	if c.sameTol {
		d, allowed = c.stepwise(x, w)
	}
	allowed = c.orULPs(allowed, w)
	if d <= allowed {
		return passed, d / allowed
	}
	return failed, d / allowed
}

// of is how far a value of that magnitude may be off by atol and rtol.
func (t *Tolerance) of(size float64) float64 { return t.Atol + t.Rtol*size }

// orULPs is how far a value of that size may be off: as allowed, or by the ULPs of the override.
func (c *checker) orULPs(allowed, size float64) float64 {
	if c.override.ULP == 0 {
		return allowed
	}
	return math.Max(allowed, c.override.ULP*c.bound.ulp(size))
}

// stepwise is the difference and the bound with op_tools' rounding after each
// step.
func (c *checker) stepwise(x, w float64) (d, allowed float64) {
	round := floatGrid(c.dt).Real().Round
	if !c.dt.IsFloat() && !c.dt.IsComplex() {
		round = tensor.Float32.Round
	}
	return math.Abs(round(round(x) - round(w))),
		round(round(c.override.Atol) + round(round(c.override.Rtol)*math.Abs(round(w))))
}

func (c *checker) complexBlock(p *part, lo, n int, s *scratch) {
	g := resize(&s.gotC, n)
	r := resize(&s.refC, n)
	tensor.Load(c.got, lo, g)
	tensor.Load(c.ref, lo, r)
	b, grid := &c.bound, c.grid.Real()
	for i, x := range g {
		w := complex(grid.Round(real(r[i])), grid.Round(imag(r[i])))
		if same(real(x), real(w)) && same(imag(x), imag(w)) {
			continue
		}
		if !nan(x) && !nan(w) {
			p.maxULP = math.Max(p.maxULP, complexULPs(grid, x, w))
		}
		var cl class
		var score float64
		switch {
		case c.override != nil:
			cl, score = c.withinComplex(x, w)
		case b.ulps == 0 && b.sum == 0:
			cl, score = failed, modulus(x-w)
		default:
			cheap := b.ulps * b.ulp(modulus(r[i]))
			size := modulus(r[i])
			covered, scale := b.least(size, cheap), 0.0
			switch d := math.Max(math.Abs(real(x)-real(r[i])), math.Abs(imag(x)-imag(r[i]))); {
			case d <= cheap:
			case d <= covered:
				scale = size
			default:
				scale, p.scaled = c.scaleAt(whole, lo, i, s), b.sum > 0
			}
			for _, v := range [2][3]float64{{real(x), real(w), real(r[i])}, {imag(x), imag(w), imag(r[i])}} {
				if same(v[0], v[1]) {
					continue
				}
				k, sc := b.judge(v[0], v[1], v[2], cheap, scale, 0)
				cl, score = max(cl, k), math.Max(score, sc)
			}
		}
		p.differs(cl, score, lo+i, modulus(x) > modulus(w), modulus(x) < modulus(w))
	}
}

func same(x, w float64) bool { return x == w || x != x && w != w }

func (c *checker) withinComplex(x, w complex128) (class, float64) {
	d, size := modulus(x-w), modulus(w)
	allowed := c.orULPs(c.override.of(size), size)
	if d <= allowed && !math.IsInf(d, 0) {
		return passed, d / allowed
	}
	return failed, d / allowed
}

func (c *checker) intBlock(p *part, lo, n int, s *scratch) {
	g, w := s.loadInts(c.pair, lo, n)
	for i, x := range g {
		y := w[i]
		if x == y {
			continue
		}
		above := x > y
		fx, fy := float64(x), float64(y)
		if c.dt == tensor.Uint64 {
			above = uint64(x) > uint64(y)
			fx, fy = float64(uint64(x)), float64(uint64(y))
		}
		cl, score := failed, math.Abs(fx-fy)
		if c.override != nil {
			cl, score = c.within(fx, fy)
		} else if slices.ContainsFunc(c.otherInts(), func(other []int64) bool { return other[lo+i] == x }) {
			cl, score = passed, 1
		}
		p.differs(cl, score, lo+i, above, !above)
	}
}
