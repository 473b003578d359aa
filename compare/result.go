package compare

import (
	"math"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
)

// A Result is what Check found out about one tensor.
type Result struct {
	Verdict verdict.Verdict
	Reason  string  // one sentence; empty on a plain pass
	Rule    string  // the rule that decided, e.g. "1 ulp + 12*2^-24*S, n=4"
	OpTools OpTools // op_tools' numbers for the pair
	Setting string  // what asked for the tolerance that decided, "" if the model did

	// MaxULP is the largest distance of all elements from the rounded reference in units in
	// the last place (representable values between; for complex dtypes, parts in
	// units of the modulus). NaN where it does not apply: integers, bool, and
	// tensors that could not be compared.
	MaxULP float64

	// WorstULP is that distance of the element at WorstIndex, which Reason says: it is worst by its bound, and
	// others may be further off. NaN where it does not apply, and for complex dtypes.
	WorstULP float64
	// Grid is the dtype in which these units are counted: that of the value, or a coarser one that its elements are
	// precise to. It is Invalid where elements were not compared.
	Grid tensor.DType

	// BoundRatio is the distance of the worst element over what its rule allows it, or
	// over a smaller distance that sufficed to pass it: at most 1 if it passed. Where S was not
	// needed it is estimated. 0 where elements are equal or have to be, and where it is not known.
	BoundRatio float64

	// RelativeError is the size of the error: max |got - want| / max |want| over all elements, want rounded to the
	// dtype. Known of failures and warnings of real and complex numbers; else 0, as where an element is finite on one
	// side only or where the reference is zero.
	RelativeError float64

	Mismatched int // elements outside the deciding rule (fail and warn)
	// Loose is how many elements a warning is about: off by more than rounding, by no more
	// than intermediate results in a lower precision explain. 0 if any is off by more.
	Loose int
	Numel int

	// WorstIndex is the element that is worst by the deciding rule, Actual and
	// Expected its two values (bool, int64, float64 or complex128; Expected is
	// rounded to the dtype). WorstIndex is nil if all elements are equal.
	WorstIndex       []int
	Actual, Expected any

	// Zeros: the value is mistrusted because all elements are zero on both sides.
	Zeros bool
	// Residue: the value is mistrusted because all elements are within rounding of zero.
	Residue bool

	NaNActual, NaNExpected, InfActual, InfExpected int

	// Bias is, of the elements that are not the reference correctly rounded,
	// the share above it minus the share below: near 0 for rounding, 1 or -1
	// for a systematic error. 0 if there are none.
	Bias float64

	// Distribution is what the errors say together, nil where that was not looked at:
	// all elements are the nearest value, they must be equal, or one failed.
	Distribution *Distribution

	// PassAtol is the smallest atol that, with rtol 0, would make op_tools'
	// rule pass; infinite if none does.
	PassAtol float64

	// Limit says what the rule allows an element; nil where no rule of the error model
	// decided, and for complex numbers. It can panic with a *tensor.ReadError.
	Limit func(index []int) Limit

	// Allowed is Allowed of the reference; nil where tensors were not compared element by element.
	Allowed func(strict bool) *tensor.Tensor

	// Together is how large a common factor, less 1, and an offset, in root mean squares of the reference, may be. It
	// is set if the value fails although each element is within its bound.
	Together *Together

	// Pattern names the error pattern recognised in a failing tensor, "" if none.
	Pattern string
}

// Together are bounds of what all elements of a value have in common.
type Together struct{ Factor, Offset float64 }

// A Limit is what an element may be off by: ULPs units in the last place, of which Unit
// is the size there, and Factor (c*u of the rule) of Scale, its S. With Other, it may be further off, as another result
// that is right is.
type Limit struct {
	ULPs, Unit, Factor, Scale, Allowed float64
	Other                              bool
}

func newResult(numel int) Result {
	return Result{Verdict: verdict.Pass, Numel: numel, MaxULP: math.NaN(), WorstULP: math.NaN()}
}
