package compare

import (
	"fmt"
	"math"

	"github.com/optool/optool/compare/internal/vec"
	"github.com/optool/optool/internal/num/roundoff"
	"github.com/optool/optool/tensor"
)

// A Model says how far a sound implementation may be from the reference. The
// package documentation derives the bound.
type Model struct {
	// Exact: the op moves, selects or compares values, so results must be
	// equal. Integer and bool results always must.
	Exact bool

	// Moved: the op moves values, so that a zero must keep its sign.
	Moved bool

	// Signed: the sign of a zero is fixed although results are rounded.
	Signed bool

	// ULPs is the number of units in the last place an element may be off
	// whatever its terms are: 1 for correctly rounded element-wise ops.
	ULPs float64

	// Scale returns S in the shape of the result: the sum of the magnitudes of the terms of
	// each element. It is nil if no terms are added. It is called at most once, and only if
	// some element is off by more than ULPs (and, see Covers, more than that and its own
	// magnitude allow).
	Scale func() *tensor.Tensor

	// Least, if set, returns what is nowhere more than S, for a fraction of its work: S is then
	// computed only if that does not suffice for some element. It is called at most once.
	// LeastShare is about what share of S that is; 0: not known.
	Least      func() *tensor.Tensor
	LeastShare float64

	// Covers: no S is smaller than the magnitude of its element, as sums of magnitudes are not.
	// That magnitude then replaces S for the elements for which it suffices.
	Covers bool

	// Terms is the number of terms of each element, at least 1.
	Terms int

	// Coarse: Scale counts the roundoff of the dtype itself already, so an
	// accumulator of that dtype explains nothing further.
	Coarse bool

	// Sum: an element is the sum of Terms terms, which S adds the magnitudes of.
	Sum bool

	// Factors: the terms are multiplied, not added.
	Factors bool

	// Single: each element is a function of one element of each argument. No terms are
	// accumulated; what a warning says is that intermediate results were rounded.
	Single bool

	// Chain, if set, returns the sum of the magnitudes of the partial sums of each element, in
	// the shape of the result. Sound devices may add these terms one after the other in the
	// dtype. It is called at most once, and only if some element is off by more than a
	// low-precision accumulator explains.
	Chain func() *tensor.Tensor

	// Else, if set, returns other results that are as right as the reference, in the
	// shape of the result: where a function jumps within rounding of its argument, the
	// values on both sides. It is called at most once, and only if some element fails.
	Else func() []*tensor.Tensor

	// Steps: Else are values of kernels that round on the way what elements share. If one of them differs from
	// the reference by more than ULPs, the element says nothing about a common factor and is no isolated
	// error.
	Steps bool

	// Shared: many elements may have been multiplied by one number that was rounded
	// to the dtype, as the gradient of a mean or of a saved norm.
	Shared bool

	// Trivial: zeros, NaN or an empty tensor are what the op makes, so a
	// result of nothing else is not mistrusted.
	Trivial bool

	// Operand, if set, is a dtype that terms were computed in; one coarser than
	// that of the result may have been the accumulator's.
	Operand tensor.DType

	// Round, if set, is the dtype the recorded values are precise to although
	// they are stored wider; a dtype that is not coarser changes nothing.
	Round tensor.DType

	// OtherDType, if set, is a dtype that is as right as the reference's.
	OtherDType tensor.DType

	// Part: elements that follow each other do not in the value that they are a part of, so
	// where those that are wrong lie says nothing.
	Part bool

	// Cast: the reference is another implementation's result, possibly in
	// another dtype, and is cast to the recorded dtype as torch casts. Without
	// it, different dtypes are a failure.
	Cast bool
}

// RuleDType is the rule that decides where the recorded dtype is not the
// reference's.
const RuleDType = "dtype"

// Constants of the bounds; doc.go says where they come from.
const (
	warnGrowth = 6 // growth allowed to a low-precision accumulator

	slopeEps   = 4  // a factor off by more than this many eps is not rounding,
	slopeSigma = 6  // if it is this many standard errors from 1
	alone      = 10 // an error this far beyond the others (plus log n) is not of their kind,
	fewest     = 8  // if there are enough others to tell
	tailErrors = 3  // how many times those before them the errors of a tail of zeros are
)

// bound is a Model made ready for elements of one floating dtype.
type bound struct {
	dt    tensor.DType // grid of the elements, real
	ulps  float64
	sum   float64 // c*u, factor of S
	flush float64 // what terms flushed to zero, being subnormal, may amount to
	rule  string

	// These describe the accumulator that a warning is about; low and drift are 0 if there is
	// none.
	low      float64 // factor of S
	lowFlush float64 // what roundings of subnormal numbers may amount to
	chain    float64 // factor of the sum of the partial sums' magnitudes: its unit roundoff
	drift    float64 // factor of the exact value's magnitude
	lowest   string  // name of its dtype

	emin, mant int
	top        float64 // ULP at the largest value
	overflow   float64 // magnitudes from here on round to Inf
	reach      vec.Reach
}

func newBound(m Model, dt tensor.DType) bound {
	dt = dt.Real()
	b := bound{dt: dt, ulps: m.ULPs, mant: dt.MantissaBits(), top: dt.ULP(math.Inf(1))}
	b.emin = math.Ilogb(dt.SmallestNormal())
	b.overflow = dt.Max() + b.top/2
	b.reach = vec.Reach{Mant: uint(b.mant), Low: uint64(max(b.emin, b.mant-1022) + 1023),
		High: uint64(math.Ilogb(dt.Max()) + 1023)}
	b.reach.Gradual = dt.ULP(0) == math.Ldexp(1, b.emin-b.mant) && b.reach.Low == uint64(b.emin+1023)
	u, name, acc := roundoff.U32, "2^-24", tensor.Float32
	if dt == tensor.Float64 {
		u, name, acc = roundoff.U64, "2^-53", dt
	}
	switch {
	case m.Exact:
		b.ulps, b.rule = 0, "exact"
	case m.Scale == nil:
		b.rule = fmt.Sprintf("%g ulp", m.ULPs)
	default:
		c := roundoff.Growth(m.Terms)
		b.sum, b.flush = c*u, c*acc.SmallestNormal()
		b.rule = fmt.Sprintf("%g ulp + %.3g*%s*S, n=%d", m.ULPs, c, name, max(m.Terms, 1))
		low := tensor.Invalid
		n := float64(max(m.Terms, 1))
		switch {
		case m.Coarse && dt.IsHalf(): // S counts the roundings to the dtype, but none below its normal range
			b.flush += warnGrowth / 2 * math.Sqrt(n) * dt.ULP(0)
		case m.Coarse:
		case dt.Size() == 1:
			low = tensor.Float16
		case dt.IsHalf():
			low = dt
		case m.Operand.IsHalf():
			low = m.Operand
		}
		switch {
		case m.Coarse && m.Chain != nil: // S counts all roundings but those of the partial sums
			b.chain, b.lowest = m.Operand.Eps()/2, m.Operand.String()
			b.low, b.lowFlush = b.sum, b.flush
		case low != tensor.Invalid:
			b.chain, b.lowest = low.Eps()/2, low.String()
			b.low, b.lowFlush = warnGrowth*b.chain, warnGrowth/2*math.Sqrt(n)*low.ULP(0)
			if m.Factors {
				b.low *= math.Max(1, math.Sqrt(n)/2)
			}
		case m.Sum && n > c:
			b.drift, b.lowest = n/2*u, acc.String()
		}
	}
	b.reach.ULPs, b.reach.Factor, b.reach.Constant = b.ulps, b.sum, b.flush
	b.reach.Covers = m.Covers && b.sum > 0
	b.reach.Final = b.lowest == "" && m.Else == nil && dt != tensor.Float8E4M3FN
	return b
}

// quickULP is dt.ULP(x) where x is in the dtype's normal range (and its ULP a
// normal float64).
func (b *bound) quickULP(x float64) (ulp float64, ok bool) {
	e := math.Float64bits(x) >> 52 & 0x7ff
	return math.Float64frombits((e - uint64(b.mant)) << 52), e >= b.reach.Low && e <= b.reach.High
}

// ulp is dt.ULP(x).
func (b *bound) ulp(x float64) float64 {
	if ulp, ok := b.quickULP(x); ok {
		return ulp
	}
	return b.dt.ULP(x)
}

// ulps is the number of representable values of floating dtype dt from x to y.
func ulps(dt tensor.DType, x, y float64) float64 {
	if dt.Real() == tensor.Float64 {
		i, j := ordinal64(x), ordinal64(y)
		if i < j {
			i, j = j, i
		}
		return float64(uint64(i) - uint64(j))
	}
	return math.Abs(ordinal(dt, x) - ordinal(dt, y))
}

// ordinal64 numbers the values of float64 in order, 0 for both zeros.
func ordinal64(x float64) int64 {
	n := int64(math.Float64bits(math.Abs(x)))
	if math.Signbit(x) {
		return -n
	}
	return n
}

// ordinal numbers the values of dt, narrower than float64, in order, 0 for both zeros.
func ordinal(dt tensor.DType, x float64) float64 {
	a := math.Abs(x)
	mant, emin := dt.MantissaBits(), math.Ilogb(dt.SmallestNormal())
	if a > dt.Max() { // Inf is the successor of the largest value
		a = dt.Max() + dt.ULP(dt.Max())
	}
	var n float64
	if a != 0 {
		e := max(math.Ilogb(a), emin)
		n = math.Ldexp(float64(e-emin), mant) + math.Ldexp(a, mant-e)
	}
	return math.Copysign(n, x)
}
