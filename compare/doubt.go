package compare

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/optool/optool/compare/internal/vec"
	"github.com/optool/optool/tensor"
)

// Second thoughts about tensors whose elements are all within their bounds.

// notRounding tells errors that are inside a low-precision accumulator's bound
// but do not look like its rounding: all values off by one factor, a tail that
// was never written, one error far beyond all others. It returns what they look
// like, or "".
func (c *checker) notRounding(p *part) string {
	if p.stats.N < 2 {
		return ""
	}
	if factor, scaled := c.scaled(&p.stats); scaled {
		how := "all scaled by %.5g"
		if s := &p.stats; s.AA-s.Dot*s.Dot/s.BB > (factor-1)*(factor-1)*s.BB/4 { // what it does not explain
			how = "scaled by %.5g on average"
		}
		return fmt.Sprintf(how, factor)
	}
	if c.dt.IsFloat() {
		switch n := c.zeroTail(); {
		case n >= 2 && n < c.n && c.standsOut(c.n-n):
			return fmt.Sprintf("tail of %d zeros", n)
		case n == c.n && c.partials() != nil: // a sum that stagnates is not zero
			return "all zeros"
		}
	}
	if worst, rest := c.relativeErrors(0, c.n); c.n >= fewest && worst > (alone+math.Log(float64(c.n)))*rest {
		return "one error stands alone: the others do not look accumulated in " + c.bound.lowest
	}
	return ""
}

// scaled reports whether all values are off by one factor, beyond what rounding and long sums explain: least squares of
// got = (1+slope)*ref, from the sums at hand; the residual gives the standard error.
func (c *checker) scaled(s *vec.Stats) (factor float64, ok bool) {
	if !c.dt.IsFloat() || c.regrid || s.Dot != s.Dot || !(s.BB > 0) {
		return 0, false
	}
	dot, aa, bb, n := s.Dot, s.AA, s.BB, s.N
	if c.model.Steps {
		if dot, aa, bb, n = c.settledSums(); n < fewest {
			return 0, false
		}
	}
	slope := (dot - bb) / bb
	residual := math.Max(aa-dot*dot/bb, 1e-7*aa)
	sigma := math.Sqrt(residual / float64(n-1) / bb)
	return 1 + slope, math.Abs(slope) > slopeEps*c.grid.Eps() && math.Abs(slope) > slopeSigma*sigma &&
		math.Abs(slope) > c.chainFactor() && !c.residue() // of what rounding leaves a multiple says nothing
}

// settledSums are the sums of the products got*ref, got*got and ref*ref, and the number, of elements that are settled.
func (c *checker) settledSums() (dot, aa, bb float64, n int) {
	type sums struct {
		dot, aa, bb float64
		n           int
	}
	sample(c, func(lo, n int, s *scratch) (part sums) {
		g, r := s.loadGot(c.pair, lo, n), s.loadRounded(c.pair, lo, n)
		exact, others := s.loadRef(c.pair, lo, n), c.othersOf(lo, n, s)
		for i, x := range g {
			if c.settled(i, exact[i], others) {
				part.dot, part.aa, part.bb, part.n = part.dot+x*r[i], part.aa+x*x, part.bb+r[i]*r[i], part.n+1
			}
		}
		return part
	}, func(p sums) { dot, aa, bb, n = dot+p.dot, aa+p.aa, bb+p.bb, n+p.n })
	return dot, aa, bb, n
}

// settled reports whether all that Else gives for element i of a block, whose reference is exact, is within ULPs of it,
// so that its error is evidence; see Model.Steps.
func (c *checker) settled(i int, exact float64, others [][]float64) bool {
	if !c.model.Steps {
		return true
	}
	for _, other := range others {
		if !(math.Abs(other[i]-exact) <= c.bound.ulps*c.bound.ulp(exact)) {
			return false
		}
	}
	return true
}

// chainFactor is the common factor, less 1, that adding terms one after the other
// explains, where that may have been done, and rounding of subnormal numbers: partial
// sums grow toward the result, and what is added to them is rounded away.
func (c *checker) chainFactor() float64 {
	b := &c.bound
	partials := c.partials()
	if c.model.Factors && b.low > 0 {
		return b.low
	}
	if b.drift > 0 || partials == nil && b.lowFlush == 0 {
		return b.drift
	}
	var products, squares float64
	sample(c, func(lo, n int, s *scratch) (part [2]float64) {
		for i, x := range s.loadRef(c.pair, lo, n) {
			if x = math.Abs(x); x <= math.MaxFloat64 {
				off := b.lowFlush
				if partials != nil {
					off += b.chain * partials[lo+i]
				}
				part[0] += x * off
				part[1] += x * x
			}
		}
		return part
	}, func(part [2]float64) { products, squares = products+part[0], squares+part[1] })
	return products / squares
}

// standsOut reports whether an error from an element on is larger than those of the elements before: of sums that
// cancel some are zero by chance.
func (c *checker) standsOut(from int) bool {
	worst, _ := c.relativeErrors(from, c.n)
	_, rest := c.relativeErrors(0, from)
	return worst > tailErrors*rest
}

// relativeErrors walks elements [from, to) once more: the largest error relative to what the
// accumulator explains, and the root mean square of the others that are not exact. The
// errors of one accumulator are all of one size by this measure; elements it had
// nothing to round in (of one term, or of none) are no evidence.
func (c *checker) relativeErrors(from, to int) (worst, rest float64) {
	type sum struct {
		all, beyond squares // those beyond what roundings of subnormal numbers add
		worst       float64
	}
	parts := make([]sum, c.spans())
	c.walk(func(k int, blocks func(func(lo, n int, s *scratch))) {
		p := &parts[k]
		blocks(func(lo, n int, s *scratch) {
			scale := c.scaleOf(whole, lo, n, s)
			partials := c.partials()
			g, r := resize(&s.gotC, n), resize(&s.refC, n)
			tensor.Load(c.got, lo, g)
			tensor.Load(c.ref, lo, r)
			others := c.othersOf(lo, n, s)
			for i, x := range g {
				if lo+i < from || lo+i >= to {
					continue
				}
				settled := c.settled(i, real(r[i]), others)
				for _, other := range others { // real: the nearest of the right results
					if v := complex(other[i], 0); modulus(x-v) < modulus(x-r[i]) {
						r[i] = v
					}
				}
				partial := 0.0
				if partials != nil {
					partial = partials[lo+i]
				}
				d := modulus(x - r[i])
				t := d / c.bound.loosely(modulus(r[i]), scale[i], partial)
				if !(t > 0 && t <= math.MaxFloat64) { // exact, NaN or an overflow
					continue
				}
				p.all.add(squares{t * t, 1})
				if settled && d > c.bound.lowFlush { // what subnormal numbers lose is no evidence
					p.beyond.add(squares{t * t, 1})
					p.worst = math.Max(p.worst, t)
				}
			}
		})
	})
	var total sum
	for _, p := range parts {
		total.all.add(p.all)
		total.beyond.add(p.beyond)
		total.worst = math.Max(total.worst, p.worst)
	}
	// Many that are all but 0 in a dtype of few small numbers do not make the others alone.
	return total.worst, math.Max(total.all.without(total.worst), total.beyond.without(total.worst))
}

// squares are the sum of the squares of so many.
type squares struct {
	square float64
	n      int
}

func (s *squares) add(o squares) { s.square, s.n = s.square+o.square, s.n+o.n }

// without is the root mean square of all but one of them.
func (s squares) without(one float64) float64 {
	return math.Sqrt(math.Max(s.square-one*one, 0) / float64(max(s.n-1, 1)))
}

// zeroTail is the number of elements at the end that are exactly zero although the rounded reference is not; 0 if
// roundings of subnormal numbers explain all of them.
func (c *checker) zeroTail() int {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	n, beyond := 0, 0
	for hi := c.n; hi > 0; {
		lo := (hi - 1) / c.block * c.block
		s.next()
		g, q := s.loadGot(c.pair, lo, hi-lo), s.loadRounded(c.pair, lo, hi-lo)
		exact, others := s.loadRef(c.pair, lo, hi-lo), c.othersOf(lo, hi-lo, s)
		for i := len(g) - 1; i >= 0; i-- {
			if g[i] == 0 && q[i] != 0 && !c.settled(i, exact[i], others) {
				continue
			}
			if g[i] != 0 || q[i] == 0 {
				return n * min(beyond, 1)
			}
			n, beyond = n+1, beyond+count(math.Abs(q[i]) > c.bound.lowFlush)
		}
		hi = lo
	}
	return n * min(beyond, 1)
}

// blank reports whether all that was recorded is zero, of real numbers.
func (c *checker) blank() bool {
	if c.dt.IsComplex() {
		return false
	}
	buf := make([]float64, min(c.block, c.n))
	for lo := 0; lo < c.n; lo += len(buf) {
		run := buf[:min(len(buf), c.n-lo)]
		tensor.Load(c.got, lo, run)
		for _, x := range run {
			if x != 0 {
				return false
			}
		}
	}
	return true
}

// residue reports that the bound of every element reaches from the reference
// to zero: terms cancelled, what was recorded is the rounding that is left, and
// anything of its size would have passed.
func (c *checker) residue() bool {
	var significant atomic.Bool
	c.walk(func(_ int, blocks func(func(lo, n int, s *scratch))) {
		blocks(func(lo, n int, s *scratch) {
			if significant.Load() {
				return
			}
			if c.agrees(lo, n, s) {
				significant.Store(true)
				return
			}
			r := resize(&s.refC, n)
			tensor.Load(c.ref, lo, r)
			b, largest := &c.bound, 0
			beyond := func(i int, scale float64) bool {
				size := modulus(r[i])
				return !(size <= b.ulps*b.ulp(size)+b.sum*scale+b.flush)
			}
			for i, x := range r {
				if !(modulus(x) <= modulus(r[largest])) {
					largest = i
				}
			}
			if beyond(largest, c.scaleAt(whole, lo, largest, s)) { // S of one element, where that is enough
				significant.Store(true)
				return
			}
			for i, scale := range c.scaleOf(whole, lo, n, s) {
				if beyond(i, scale) {
					significant.Store(true)
					return
				}
			}
		})
	})
	return !significant.Load()
}

// agrees reports whether a quarter of the elements of a block that are not zero are within ULPs of the
// reference. By chance what rounding leaves is there once in 2^20 times in float32, once in 30 in bfloat16.
func (c *checker) agrees(lo, n int, s *scratch) bool {
	if !c.dt.IsFloat() || c.grid.IsFloat8() {
		return false
	}
	g, r := s.loadGot(c.pair, lo, n), s.loadRef(c.pair, lo, n)
	near, all := 0, 0
	for i, y := range r {
		if y != 0 {
			all++
			near += count(math.Abs(g[i]-y) <= c.bound.ulps*c.bound.ulp(y))
		}
	}
	return all >= fewestAgree && 4*near > all
}

// fewestAgree is the number of elements from which on their agreement is no chance.
const fewestAgree = 64

// are says what holds for every element.
func (c *checker) are(what string) string {
	if c.n == 1 {
		return "the only element is " + what
	}
	return fmt.Sprintf("all %d elements are %s", c.n, what)
}
