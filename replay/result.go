package replay

import (
	"fmt"
	"math"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Phase is the part of a call a value belongs to.
type Phase string

// The phases.
const (
	Input    Phase = "input"    // an argument after the call
	Forward  Phase = "forward"  // a result
	Backward Phase = "backward" // a gradient
)

// A Result is one compared value, or the one reason why a call could not be
// compared (Target is then empty).
type Result struct {
	Phase   Phase
	Target  string // "output[0]", "grad[1]", "input[0]"
	Label   string // op_tools' row label: "output", "output[1]", "grad"
	Verdict verdict.Verdict
	Reason  string // one sentence; empty on a plain pass

	// Argument is the operator's name of the argument whose gradient the value is, "" for other values. Parameter is
	// the name that this has in the model; "" where that was not recorded, and where the gradient passed.
	Argument, Parameter string

	// Unwritten says that the verdict is invalid because torch saved nothing into a
	// file: the fault of neither the file's keeper nor the call.
	Unwritten bool
	// File is the file that could not be read, as errors name it: relative to the PATH given, or beside the calls of a
	// recording; "" where none is known.
	File string
	// Default is the verdict without the settings that loosen or tighten comparisons,
	// where it is another; Setting is the name of the one that decided.
	Default verdict.Verdict
	Setting string

	// Compared is the comparison, nil where there was none.
	Compared  *compare.Result
	DType     tensor.DType // of the recorded tensor; Invalid for other values
	Shape     []int
	Place     string // device of the recorded tensor: "cuda:0"; "" if that is the CPU, which may be a copy
	Reference string // compute type of the reference: "float64", "int64", "complex128", "bool"

	// Of runs on a device: Source is "device", else empty; Functions are those of
	// the library that were called; Layout is how the arguments lay in memory in
	// the stress test, "" as recorded.
	Source    string
	Functions []string
	Layout    string
	Witness   *Witness // nil if nothing was recorded to compare with
	// Device is Rival.Name where the result is of Options.Against, else empty; Against is,
	// of other results, how the value stands to that device's, nil without one.
	Device  string
	Against *Against

	Sampled *Sampled // nil if all elements were compared one by one

	// Follows says that a gradient is right for the result that was given, which is wrong.
	Follows bool

	// Sides says which arguments, that the call does not write, the two sides of a device/cpu pair hold with different
	// values. The first result of a call has it.
	Sides []string

	// Mistake is what makes a failure of a value that a lower precision would explain; else "".
	Mistake string
}

// An InputRow is op_tools' row for an argument: the argument after the call on
// both sides. These rows have no verdict: where a device/cpu pair holds different
// values of an argument that the call does not write, a result says so.
type InputRow struct {
	Label   string // "input[0]"
	Numbers compare.OpTools
}

// An Outcome is all that replaying one capture gave.
type Outcome struct {
	Op      string
	Results []Result
	Inputs  []InputRow
	Casts   []CastRow // conversions that a device run was asked for
	// Converted says that the device was given arguments in the dtypes or layouts that
	// its configuration wants.
	Converted bool
	// NotFinite is the first recorded element that is not finite, nil if there is none.
	NotFinite *NotFinite
	// TooLarge is why some result is missing that more memory would have given: a
	// *quota.MemoryError.
	TooLarge error
}

// NotDone is the outcome of a call that was given up for the reason err.
func NotDone(op string, err error) *Outcome {
	return &Outcome{Op: op, Results: []Result{{Phase: Forward, Verdict: verdict.Error, Reason: err.Error()}}}
}

// Verdict is the worst verdict of the outcome's results.
func (o *Outcome) Verdict() verdict.Verdict {
	v := verdict.Skipped
	for _, r := range o.Results {
		v = verdict.Worse(v, r.Verdict)
	}
	return v
}

// FailedForward and FailedBackward report whether a value of that phase failed, in the
// record or on the first device.
func (o *Outcome) FailedForward() bool  { return o.failed(Forward) || o.failed(Input) }
func (o *Outcome) FailedBackward() bool { return o.failed(Backward) }

func (o *Outcome) failed(p Phase) bool {
	for _, r := range o.Results {
		if r.Phase == p && r.Verdict == verdict.Fail && r.Device == "" {
			return true
		}
	}
	return false
}

// Values are what a call was compared with: results and gradients as op_tools
// arranges them, nil where there are none.
type Values struct {
	Output, GradInputs []value.Value // of the reference, unrounded
	// OnAverage: the call draws random numbers that its recorded results do not show, and Output is what it gives
	// without them. No recorded element need be near.
	OnAverage bool
	// RecordedOutput, RecordedGradInputs and RecordedGradOutputs are the recorded ones.
	RecordedOutput, RecordedGradInputs, RecordedGradOutputs []value.Value
}

// A NotFinite is the first element of a call's results, or gradients, that is infinite or NaN.
type NotFinite struct {
	Phase  Phase
	Target string // "output[0]"
	Index  []int
	Value  float64
	DType  tensor.DType
	// Made says that all that the pass had, arguments and incoming gradients, is finite.
	Made bool
	// OfMask says that all of that is finite or -inf, and not all finite: masks of attention have such elements.
	OfMask bool
	// Exact is what the element is without rounding, if that is known: see Known.
	Exact float64
	Known bool
}

// String says which value it is, and Reason.
func (n *NotFinite) String() string { return n.Target + " " + n.Reason() }

// Mask reports whether the element is -inf and due to be, or not known not to be: masks of attention have such
// elements.
func (n *NotFinite) Mask() bool {
	return math.IsInf(n.Value, -1) && (!n.Known || n.Due())
}

// Due reports whether the element is -inf and known to be due.
func (n *NotFinite) Due() bool { return math.IsInf(n.Value, -1) && n.Known && math.IsInf(n.Exact, -1) }

// Reason says where the element is, what it came from, and what it is without rounding.
func (n *NotFinite) Reason() string {
	s := fmt.Sprintf("at %s is %s", tensor.ShapeString(n.Index), infinite(n.Value))
	if n.Made {
		s += ", all inputs are finite"
		if n.Phase == Backward {
			s += " and so is the incoming gradient"
		}
	}
	if n.OfMask {
		s += ", its inputs are finite or -inf"
	}
	switch {
	case !n.Known:
	case math.IsNaN(n.Exact) || math.IsInf(n.Exact, 0):
		s += "; the exact value is " + infinite(n.Exact) + ", too"
	case math.Abs(n.Exact) > n.DType.Max():
		s += fmt.Sprintf("; the exact value is %.6g, and %s ends at %.6g", n.Exact, n.DType, n.DType.Max())
	default:
		s += fmt.Sprintf("; the exact value is %.6g", n.Exact)
	}
	return s
}

func infinite(x float64) string {
	switch {
	case math.IsNaN(x):
		return "nan"
	case x > 0:
		return "inf"
	}
	return "-inf"
}

// Against compares what two devices gave of the same value, both against the reference.
type Against struct {
	RMSE, Other float64 // root mean squared errors of the first device, and of the second
	Apart       float64 // root mean square of what the two are apart
	Verdict     string  // the first is better, same or worse
}

// Sampled says how much of a value was looked at.
type Sampled struct {
	Checked int // elements that were compared one by one
	// Projected is the largest difference of a projection over what it is allowed; NaN if the
	// value was not projected.
	Projected float64
}
