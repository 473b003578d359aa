package compare

import "math"

// A Verdict is the outcome of comparing one value, or of a call, a capture or
// a run: then it is the worst of its parts.
type Verdict string

// The verdicts. See Worse for their order.
const (
	Skipped     Verdict = "skipped"     // not compared, for an enumerated reason
	Mistrusted  Verdict = "mistrusted"  // compared, but the comparison proves little
	Pass        Verdict = "pass"        // equal, or off by rounding
	Warn        Verdict = "warn"        // off by the rounding of a low-precision accumulator
	Unsupported Verdict = "unsupported" // op, argument or dtype not known
	Fail        Verdict = "fail"        // off by more than rounding
	Invalid     Verdict = "invalid"     // unreadable or inconsistent input
	Error       Verdict = "error"       // could not be computed
	Timeout     Verdict = "timeout"
	Crash       Verdict = "crash"
)

// Verdicts lists all verdicts from best to worst.
var Verdicts = []Verdict{Skipped, Mistrusted, Pass, Warn, Unsupported, Fail, Invalid, Error, Timeout, Crash}

func rank(v Verdict) int {
	for i, w := range Verdicts {
		if v == w {
			return i
		}
	}
	return -1
}

// Worse returns the worse of two verdicts, in the order of Verdicts; the empty
// verdict is better than all. A skipped or mistrusted part does not hide one
// that passed.
func Worse(a, b Verdict) Verdict {
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// A Result is what Check found out about one tensor.
type Result struct {
	Verdict Verdict
	Reason  string  // one sentence; empty on a plain pass
	Rule    string  // the rule that decided, e.g. "1 ulp + 12*2^-24*S, n=4"
	OpTools OpTools // op_tools' numbers for the pair

	// MaxULP is the largest distance from the rounded reference in units in
	// the last place (representable values between; for complex dtypes, parts in
	// units of the modulus). NaN where it does not apply: integers, bool, and
	// tensors that could not be compared.
	MaxULP float64

	Mismatched int // elements outside the deciding rule (fail and warn)
	Numel      int

	// WorstIndex is the element that is worst by the deciding rule, Actual and
	// Expected its two values (bool, int64, float64 or complex128; Expected is
	// rounded to the dtype). WorstIndex is nil if all elements are equal.
	WorstIndex       []int
	Actual, Expected any

	NaNActual, NaNExpected, InfActual, InfExpected int

	// Bias is, of the elements that are not the reference correctly rounded,
	// the share above it minus the share below: near 0 for rounding, 1 or -1
	// for a systematic error. 0 if there are none.
	Bias float64

	// PassAtol is the smallest atol that, with rtol 0, would make op_tools'
	// rule pass; infinite if none does.
	PassAtol float64

	// Pattern names the error pattern recognised in a failing tensor, "" if none.
	Pattern string
}

func newResult(numel int) Result {
	return Result{Verdict: Pass, Numel: numel, MaxULP: math.NaN()}
}
