package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/compare/internal/vec"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/num/roundoff"
	"github.com/optool/optool/tensor"
)

// Constants of what counts as systematic; doc.go says where they come from.
const (
	systematicSigma = 8    // standard errors that an estimate is from what it should be
	factorEps       = 8    // a common factor or offset, in eps of float32
	sharedEps       = 64   // the same where elements share arguments near a pole, as gradients may
	lowFactorEps    = 0.25 // the same in eps of a narrower dtype, whose sums are of float32
	sharedFactorEps = 1    // where numbers that many elements share are rounded to the dtype too
	roundingULP     = 0.25 // mean difference of elements that were rounded
	beyondShare     = 0.02 // of them off by an ULP or more, with no other error
	commonShare     = 2    // of u*S that elements with common terms may all be off by
)

// A Distribution holds sums over the finite elements of a tensor whose errors are each within
// their bounds. They show what the errors have in common. A difference d is the recorded value
// minus the value of the dtype nearest to the exact reference r. Differences from r itself
// would mislead, because the nearest values can all be off to one side: those of 0.999 x in
// bfloat16 are x. Products of reference and differences are in units of the root mean square of
// the reference, so that the sums of several tensors can be added.
type Distribution struct {
	vec.Errors
	Eps float64 // of the dtype
}

// Add adds the sums of another tensor of the same dtype.
func (s *Distribution) Add(t *Distribution) {
	s.Errors.Add(&t.Errors)
	s.Eps = max(s.Eps, t.Eps)
}

// errors sums up the errors of elements in units of 1: x is recorded, r exact, near is r rounded. Intermediate
// results lose bits at numbers of the least exponent.
func (b *bound) errors(x, r, near []float64) vec.Errors {
	p := vec.Precision{Least: 2 * b.dt.SmallestNormal(), Top: b.dt.Max(), Mant: uint(b.mant)}
	return p.Errors(x, r, near)
}

// normalise gives the sums the unit that they are declared in.
func (s *Distribution) normalise() {
	if s.R2 == 0 {
		return
	}
	unit := math.Sqrt(s.R2 / float64(s.N))
	square := unit * unit
	s.R, s.D = s.R/unit, s.D/unit
	s.R2, s.RD, s.D2 = s.R2/square, s.RD/square, s.D2/square
	s.R4, s.R3D, s.R2D2 = s.R4/square/square, s.R3D/square/square, s.R2D2/square/square
}

// Factor is the least-squares estimate of f where x = (1+f)*r, and its standard error, which
// does not assume that all errors are of one size (H. White, A heteroskedasticity-consistent
// covariance matrix estimator, Econometrica 48, 1980). The standard error is infinite if only a
// few elements decide.
func (s *Distribution) Factor() (f, sigma float64) {
	if !(s.R2*s.R2 >= fewest*s.R4) || s.R2 == 0 {
		return 0, math.Inf(1)
	}
	f = s.RD / s.R2
	return f, math.Sqrt(math.Max(s.R2D2-2*f*s.R3D+f*f*s.R4, 0)) / s.R2
}

// Offset is the mean difference in units of the root mean square of the reference,
// and its standard error.
func (s *Distribution) Offset() (b, sigma float64) {
	if s.N < fewest || s.R2 == 0 {
		return 0, math.Inf(1)
	}
	n := float64(s.N)
	b = s.D / n
	size := math.Sqrt(s.R2 / n)
	return b / size, math.Sqrt(math.Max(s.D2/n-b*b, 0)/n) / size
}

// Rounding is the mean difference in ULP from the nearest value, of elements that had
// to be rounded, away from zero and up, and the standard error of both.
func (s *Distribution) Rounding() (away, up, sigma float64) {
	if s.Inexact < fewest {
		return 0, 0, math.Inf(1)
	}
	n := float64(s.Inexact)
	return s.Away / n, s.Up / n, math.Sqrt(s.ULP2) / n
}

// direction names where a mean difference away from zero, and up, rounds to.
func direction(away, up float64) string {
	switch {
	case math.Abs(up) > math.Abs(away) && up > 0:
		return "rounds up"
	case math.Abs(up) > math.Abs(away):
		return "rounds down"
	case away > 0:
		return "rounds away from zero"
	}
	return "rounds toward zero"
}

// most is the number of elements, at least, that the distribution of a larger
// tensor's errors is judged by: blocks that are spread evenly.
const most = 1 << 17

// distribution sums up the errors of c's elements.
func (c *checker) distribution() *Distribution {
	d := &Distribution{Eps: c.grid.Eps()}
	sample(c, func(lo, n int, s *scratch) Distribution {
		if part := &c.met[c.sampleOf(lo)]; part.N > 0 {
			return *part
		}
		return c.distributionOf(lo, n, s, nil)
	}, func(part Distribution) { d.Add(&part) })
	d.normalise()
	return d
}

// distributionOf sums up the errors of a block. The values in others are right too.
func (c *checker) distributionOf(lo, n int, s *scratch, others [][]float64) (part Distribution) {
	x, r := c.nearest(lo, n, s, others)
	part.Errors = c.bound.errors(x, r, c.rounded(r, &s.exact))
	return part
}

// meet sums up the errors of a block that was judged, and differs, if it is one of the sample. Other
// results that are right count where an element needed them.
func (c *checker) meet(lo, n int, s *scratch) {
	if c.met == nil {
		return
	}
	if k := c.sampleOf(lo); k >= 0 {
		var others [][]float64
		if s.othersAt == lo {
			others = s.others
		}
		c.met[k] = c.distributionOf(lo, n, s, others)
	}
}

// distinct is distribution with each exact value once: elements that have the same are rounded
// alike, so that many of them say no more than one.
func (c *checker) distinct() *Distribution {
	var x, r []float64
	seen := map[float64]bool{}
	sample(c, func(lo, n int, s *scratch) [2][]float64 {
		x, r := c.nearest(lo, n, s, c.othersOf(lo, n, s))
		return [2][]float64{slices.Clone(x), slices.Clone(r)}
	}, func(part [2][]float64) {
		for i, exact := range part[1] {
			if !seen[exact] {
				seen[exact] = true
				x, r = append(x, part[0][i]), append(r, exact)
			}
		}
	})
	d := &Distribution{Eps: c.grid.Eps(), Errors: c.bound.errors(x, r, c.rounded(r, new([]float64)))}
	d.normalise()
	return d
}

// rounded are the values of the bound's dtype that are nearest to r, in buf.
func (c *checker) rounded(r []float64, buf *[]float64) []float64 {
	near := resize(buf, len(r))
	copy(near, r)
	tensor.RoundBlock(c.bound.dt, near)
	return near
}

// nearest are the elements of a block, and of the reference and others the nearest to each.
func (c *checker) nearest(lo, n int, s *scratch, others [][]float64) (x, r []float64) {
	x, r = s.loadGot(c.pair, lo, n), s.loadRef(c.pair, lo, n)
	if len(others) == 0 {
		return x, r
	}
	r = append([]float64(nil), r...)
	for i := range x {
		for _, other := range others {
			if math.Abs(x[i]-other[i]) < math.Abs(x[i]-r[i]) {
				r[i] = other[i]
			}
		}
	}
	return x, r
}

// systematic reports whether and how the errors lie to one side, beyond what rounding and the sums
// of sound kernels do. A factor or an offset is wrong; another direction of rounding is only
// doubtful. With shared, sound kernels multiply many elements by one number that was rounded to
// the dtype, and the elements of a row in float32 share a factor. Then only elements that are all
// off by less than an ULP to one side were rounded wrong. distinct and explained are called if a
// factor or an offset is larger than that. In 16 bits, distinct shows whether it remains if each
// exact value counts once. explained gives how large both may be because the elements share terms.
func (s *Distribution) systematic(shared bool, distinct func() *Distribution,
	explained func() (factor, offset float64)) (v verdict.Verdict, what string, limits *Together) {
	if what := s.oneSided(shared); what != "" {
		return verdict.Warn, what, nil
	}
	f, sf := s.Factor()
	b, sb := s.Offset()
	allowed := s.allowed(shared)
	beyond := func(x, sigma float64) bool { return math.Abs(x) > allowed && math.Abs(x) > systematicSigma*sigma }
	scaled, shifted := beyond(f, sf), beyond(b, sb)
	if (scaled || shifted) && s.Eps > tensor.Float32.Eps() {
		once := distinct()
		scaled, shifted = scaled && beyond(once.Factor()), shifted && beyond(once.Offset())
	}
	if scaled || shifted {
		factor, offset := explained()
		scaled, shifted = scaled && math.Abs(f) > factor, shifted && math.Abs(b) > offset
		limits = &Together{math.Max(allowed, factor), math.Max(allowed, offset)}
	}
	switch {
	case scaled:
		return verdict.Fail, fmt.Sprintf("all scaled by %.9g (standard error %.1g)", 1+f, sf), limits
	case shifted:
		return verdict.Fail, fmt.Sprintf("all shifted by %.3g of their root mean square (standard error %.1g)", b,
			sb), limits
	}
	return verdict.Pass, "", nil
}

// allowed is how large a common factor, and an offset, of sound kernels may be.
func (s *Distribution) allowed(shared bool) float64 {
	switch single := s.Eps <= tensor.Float32.Eps(); {
	case single && shared:
		return sharedEps * s.Eps
	case single:
		return factorEps * s.Eps
	case shared:
		return sharedFactorEps * s.Eps
	}
	return lowFactorEps * s.Eps
}

// oneSided says how values were rounded that lie to one side of the nearest ones, "" if they do not.
func (s *Distribution) oneSided(shared bool) string {
	away, up, sigma := s.Rounding()
	side := math.Max(math.Abs(away), math.Abs(up))
	if !(side > roundingULP) || !(side > systematicSigma*sigma) ||
		!(float64(s.Beyond) <= beyondShare*float64(s.Inexact)) {
		return ""
	}
	above := s.Inexact - s.Below
	all := s.Beyond == 0 && max(s.Toward, s.Inexact-s.Toward, s.Below, above) == s.Inexact
	if !all && (shared || s.Eps <= tensor.Float32.Eps()) {
		return ""
	}
	return fmt.Sprintf("%s: inexact elements are %.2f ulp from the nearest value on average, %d of %d lie toward zero",
		direction(away, up), side, s.Toward, s.Inexact)
}

// common gives how large a common factor and an offset may be if elements share terms that
// cancel. Their errors are then not independent. All elements may be off to one side by
// commonShare*u*S. If worst is warned, they may be off by what the accumulator of the warning
// explains.
func (c *checker) common(worst class) func() (factor, offset float64) {
	return func() (factor, offset float64) {
		b := &c.bound
		if b.sum == 0 {
			return 0, 0
		}
		u, partials := commonShare*b.sum/roundoff.Growth(c.model.Terms), c.partials()
		off := func(i int, r, scale float64) float64 { return u*scale + b.flush }
		if worst == warned || c.model.Factors && b.low > 0 {
			off = func(i int, r, scale float64) float64 {
				if partials != nil {
					return b.loosely(r, scale, partials[i])
				}
				return b.loosely(r, scale, 0)
			}
		}
		var products, squares, sum float64
		n, least := 0, 2*b.dt.SmallestNormal()
		sample(c, func(lo, n int, s *scratch) (part [4]float64) {
			r, scale := s.loadRef(c.pair, lo, n), c.scaleOf(whole, lo, n, s)
			for i, x := range r {
				if !(math.Abs(x) <= math.MaxFloat64) || math.Abs(x) < least {
					continue
				}
				d := off(lo+i, x, scale[i])
				part[0] += math.Abs(x) * d
				part[1] += x * x
				part[2] += d
				part[3]++
			}
			return part
		}, func(part [4]float64) {
			products, squares, sum, n = products+part[0], squares+part[1], sum+part[2], n+int(part[3])
		})
		if squares == 0 {
			return 0, 0
		}
		return products / squares, sum / math.Sqrt(squares*float64(n))
	}
}

// sampling is how many blocks are in the sample that a distribution is judged by, and of how
// many one is.
func (c *checker) sampling() (samples, step int) {
	blocks := (c.n + c.block - 1) / c.block
	step = max(1, blocks*c.block/most)
	return (blocks + step - 1) / step, step
}

// sampleOf is the place in the sample of the block from lo on, below 0 if it has none.
func (c *checker) sampleOf(lo int) int {
	if _, step := c.sampling(); lo/c.block%step == 0 {
		return lo / c.block / step
	}
	return -1
}

// sample calls of, in parallel, for blocks that are spread evenly, enough of them to
// judge a distribution by, and add for what it gives, in order.
func sample[T any](c *checker, of func(lo, n int, s *scratch) T, add func(T)) {
	samples, step := c.sampling()
	parts := make([]T, samples)
	tensor.Parallel(len(parts), 1, func(a, b int) {
		s := scratches.Get().(*scratch)
		defer scratches.Put(s)
		for k := a; k < b; k++ {
			s.next()
			lo := k * step * c.block
			parts[k] = of(lo, min(c.block, c.n-lo), s)
		}
	})
	for _, p := range parts {
		add(p)
	}
}
