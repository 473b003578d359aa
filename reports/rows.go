package reports

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/optool/optool/compare/verdict"
)

// A TensorInfo is what op_tools' tables show of a tensor.
type TensorInfo struct {
	Device       string
	DType        string // short: "float32"
	Numel        int
	Shape        []int
	Stride       []int // in elements
	RequiresGrad bool
	Layout       string // "torch.strided"
	DataPtr      string // address while the job ran; empty if not recorded
}

// An ArgRow is one row of an argument table: a tensor or any other value.
type ArgRow struct {
	Name   string // "torch.add inputs[0]"
	Tensor *TensorInfo
	Value  string // str() of what is not a tensor
}

// A CompareRow is one row of op_tools' comparison table and CSV file.
type CompareRow struct {
	ForwardID   string
	Name        string // "torch.add output"
	Allclose    bool
	Cosine      float64
	MaxAbs      float64
	MaxRelative float64
	ATol, RTol  float64
	ErrorInfo   string
	Verdict     verdict.Verdict // optool's; after op_tools' columns
	Reason      string
}

// An OverflowRow is one row of the overflow check: statistics of a tensor over
// its finite elements (Std with n-1), or of a number.
type OverflowRow struct {
	Name     string
	Overflow bool // any inf or nan
	Tensor   bool // the statistics below apply
	NaN, Inf int
	Min, Max float64
	Mean     float64
	Std      float64
	Norm     float64 // 2-norm
}

// A Number is a float64 that JSON can hold: nan and infinities are written as
// the strings "nan", "inf" and "-inf".
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	switch f := float64(n); {
	case math.IsNaN(f):
		return []byte(`"nan"`), nil
	case math.IsInf(f, 1):
		return []byte(`"inf"`), nil
	case math.IsInf(f, -1):
		return []byte(`"-inf"`), nil
	default:
		return strconv.AppendFloat(nil, f, 'g', -1, 64), nil
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	text := string(b)
	if text == "null" {
		return nil
	}
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("want a number, \"nan\", \"inf\" or \"-inf\", found %.20q", text)
	}
	*n = Number(f)
	return nil
}

// Num returns a pointer to f as a Number, for fields that may be null.
func Num(f float64) *Number {
	n := Number(f)
	return &n
}

// A Result is one compared value, or the one line of a call that could not be
// compared (Target is then empty). Nil fields do not apply.
type Result struct {
	Capture   string          `json:"capture"`    // relative to the PATH given
	Op        string          `json:"op"`         // dotted name
	ForwardID *int            `json:"forward_id"` // counts hooks within a process
	Phase     string          `json:"phase"`      // input, forward or backward
	Target    string          `json:"target"`     // output[0]
	Verdict   verdict.Verdict `json:"verdict"`
	Reason    string          `json:"reason"`   // one sentence; empty on a plain pass
	Allclose  *bool           `json:"allclose"` // op_tools' rule
	Cosine    *Number         `json:"cosine_similarity"`
	MaxAbs    *Number         `json:"max_abs_diff"`
	MaxRel    *Number         `json:"max_relative_diff"`
	MaxULP    *Number         `json:"max_ulp"`
	// WorstULP is the distance of the worst element by its bound, which the reason says.
	WorstULP  *Number         `json:"worst_ulp,omitempty"`
	Mismatch  *int            `json:"mismatched"` // elements outside the tolerance
	Numel     *int            `json:"numel"`
	ATol      *Number         `json:"atol"`
	RTol      *Number         `json:"rtol"`
	Rule      *string         `json:"rule"` // which tolerance decided
	Worst     []int           `json:"worst_index"`
	Actual    json.RawMessage `json:"actual"`   // value at Worst: a number, or a string as Number writes it
	Expected  json.RawMessage `json:"expected"` // reference there
	DType     *string         `json:"dtype"`
	Inputs    []string        `json:"input_dtypes,omitempty"` // of a conformance case
	Shape     []int           `json:"shape"`
	Source    *string         `json:"source"`    // captured or device
	Reference *string         `json:"reference"` // float64, int64, ...
	Repro     *string         `json:"repro"`     // a command line
	Order     *int            `json:"order"`     // position of the call in its process, from 0
	// Step is the step of the program in which the call was made, nil where the recorder does not tell.
	Step *int `json:"step,omitempty"`
	// Occurrence is 1 for the first call of its operator in its process, 2 for the second, and so on: runs of one
	// program on different days have it in common.
	Occurrence *int `json:"occurrence,omitempty"`
	// BackwardOrder is the same of its backward pass, nil where it was not recorded.
	BackwardOrder *int    `json:"backward_order,omitempty"`
	PID           *int    `json:"pid"`
	Rank          *int    `json:"rank"`
	Coverage      *Number `json:"coverage"`              // share of the elements compared one by one, 0 to 1
	Module        string  `json:"module,omitempty"`      // path of the module that made the call
	Location      string  `json:"location,omitempty"`    // FILE:LINE of the user's program
	Replaced      string  `json:"replaced,omitempty"`    // the program's function in the place of torch's
	ReplacedAt    string  `json:"replaced_at,omitempty"` // FILE:LINE of that function
	// Instead says of a result of a device that it is not of the function Replaced, and how to run that; "" if it is.
	Instead string `json:"instead,omitempty"`
	// Wrapped are functions of torch that the program wraps, and inside of which it made the call.
	Wrapped []Wrapper `json:"wrapped,omitempty"`
	Within  *int      `json:"within,omitempty"` // ForwardID of the recorded call that made this one
	// Argument is the operator's name of the argument whose gradient the value is, and Parameter the name in the model
	// that this argument has, of gradients that did not pass.
	Argument  string `json:"argument,omitempty"`
	Parameter string `json:"parameter,omitempty"`
	// WithinBackward is the ForwardID of the recorded call in whose backward pass this one was made.
	WithinBackward *int    `json:"within_backward,omitempty"`
	Label          string  `json:"label,omitempty"`      // what op_tools' tables call the value: output, output[1]
	ErrorInfo      string  `json:"error_info,omitempty"` // op_tools' remark
	Errors         *Errors `json:"errors,omitempty"`     // of all elements together
	// RecordedOn is the device of a recorded value and the version of torch: "cuda:0 with torch 2.9.0".
	RecordedOn string `json:"recorded_on,omitempty"`
	// Python is the path of the Python that ran the recorded program, where it recorded that. It is in no report.
	Python string `json:"-"`
	// BoundRatio is the error of the worst element over what its rule allows: at most 1 if
	// it passed; nil where values are equal or have to be.
	BoundRatio *Number `json:"bound_ratio,omitempty"`
	// RelativeError is max |actual - expected| / max |expected| of a failure or a warning: its size for people.
	RelativeError *Number `json:"relative_error,omitempty"`
	// Projected is, of a large value of which not all elements were compared, the largest
	// difference of a random projection of all over what rounding explains.
	Projected *Number `json:"projected,omitempty"`
	// NotFinite is the call's first recorded element that is infinite or NaN; it stands with one result of the call.
	NotFinite *NotFinite `json:"not_finite,omitempty"`
	Saved     string     `json:"saved,omitempty"` // directory that the failing call was saved to
	// Unwritten marks an invalid result of a file into which torch saved nothing, since
	// it cannot pickle an argument.
	Unwritten bool `json:"unwritten,omitempty"`
	// File is the file that an invalid result could not read, relative to the PATH given; "" where none is known.
	File string `json:"file,omitempty"`
	// Between names what a finding is about that is no operator's: two calls, or ranks. Op is OpBetween then. Such a
	// result counts for no call and no operator. JSON lines have findings of a step in records of their own.
	Between string `json:"-"`
	// Lacks names what a run lacks that an earlier run had: "folder modelX". Such a result counts for no call and no
	// operator either. Op is OpMissing or OpUnseen then.
	Lacks string `json:"lacks,omitempty"`
	// Pair says that the call is one of those that op_tools saves with a device and a CPU side: failures, not a step.
	Pair bool `json:"pair,omitempty"`
	// Sides says which arguments, that the call does not write, the two sides of a device/cpu pair hold with different
	// values. The first result of a call has it.
	Sides []string `json:"sides,omitempty"`
	// Inherits says of two recordings that the call was given values that differ, and that these explain what it gave.
	Inherits bool `json:"reads_other_values,omitempty"`
	// WrongIn says of two recordings in which of them the value is wrong by itself, and Partner is the call of the
	// second one; "" where the value is wrong in none, or nobody can tell.
	WrongIn WrongIn `json:"wrong_in,omitempty"`
	Partner string  `json:"partner,omitempty"`
	// Default is the verdict without settings, where the Setting of that name gives
	// another.
	Default verdict.Verdict `json:"default_verdict,omitempty"`
	Setting string          `json:"setting,omitempty"`
	// ListedBy is the line of the list of known failures that makes this one known, where the list is at hand.
	ListedBy *KnownLine `json:"-"`
	bySelf   *Extent    // see BySelf
	// overdue: a line of the known failures is about the wrong value, and no longer covers it. Its last day has passed,
	// or the value is far worse, or wrong in another way, than the line says.
	overdue bool
	lapsed  bool // the last day of the line has passed

	// Of runs on a device; absent elsewhere.
	Functions    []string `json:"functions,omitempty"`     // of the library
	Layout       string   `json:"layout,omitempty"`        // of the stress test
	RMSE         *Number  `json:"rmse,omitempty"`          // of the device against the reference
	RecordedRMSE *Number  `json:"recorded_rmse,omitempty"` // of what was recorded
	Witness      string   `json:"witness,omitempty"`       // better, same or worse than what was recorded
	// Of runs on two devices: Device is the second where the result is of that; of those of the
	// first, Against is better, same or worse than the second.
	Device      string  `json:"device,omitempty"`
	AgainstRMSE *Number `json:"against_rmse,omitempty"` // of the second device against the reference
	ApartRMSE   *Number `json:"apart_rmse,omitempty"`   // of the two devices against each other
	Against     string  `json:"against,omitempty"`

	*Stats                   // of an overflow check, else nil
	Generated *GeneratedCase `json:"generated,omitempty"` // of a case whose data was made, else nil
}

// NotFinite is an element that is infinite or NaN.
type NotFinite struct {
	Phase string `json:"phase"`
	Text  string `json:"text"` // "output[0] at [3, 5] is inf, all inputs are finite; the exact value is 1.2e+45"
	Made  bool   `json:"made"` // of finite arguments and incoming gradients
	// OfMask says that all that the call had is finite or -inf, and not all finite.
	OfMask bool `json:"of_mask,omitempty"`
	// Mask says that it is -inf, and due or not known not to be: masks of attention have such elements. Due says that
	// it is known to be due.
	Mask bool `json:"mask,omitempty"`
	Due  bool `json:"due,omitempty"`
}

// A GeneratedCase says what of the data of a conformance case was written, or that it was
// there and is kept.
type GeneratedCase struct {
	Kept   bool `json:"kept"`
	Input  bool `json:"input"`
	Output bool `json:"output"`
	Grads  bool `json:"grads"`
}

// Generated counts the cases whose data was made.
type Generated struct {
	Cases   int `json:"cases"`
	Inputs  int `json:"inputs"`  // written
	Outputs int `json:"outputs"` // written
	Kept    int `json:"kept"`
	Failed  int `json:"failed"`
}

func (g *Generated) add(r *Result) {
	g.Cases++
	for n, is := range map[*int]bool{&g.Inputs: r.Generated.Input, &g.Outputs: r.Generated.Output,
		&g.Kept: r.Generated.Kept, &g.Failed: r.Verdict == verdict.Error} {
		if is {
			*n++
		}
	}
}

func (g *Generated) String() string {
	return fmt.Sprintf("%s: %s and %s written, %d kept, %d failed", Count(g.Cases, "case"), Count(g.Inputs, "input"),
		Count(g.Outputs, "output"), g.Kept, g.Failed)
}

// Errors are what the errors of all elements say together: the estimated common
// factor, less 1, and offset, in units of the root mean square of the reference,
// each with its standard error; and of those elements that had to be rounded
// (Inexact) the mean difference in ULP, away from zero and up.
type Errors struct {
	Factor      *Number `json:"factor"`
	FactorError *Number `json:"factor_error"`
	Offset      *Number `json:"offset"`
	OffsetError *Number `json:"offset_error"`
	Inexact     int     `json:"inexact"`
	Away        *Number `json:"away"`
	Up          *Number `json:"up"`
	ULPError    *Number `json:"ulp_error"` // standard error of Away and Up
	Beyond      int     `json:"beyond"`    // elements off by an ULP or more
}

// Stats describe the elements of a tensor, over those that are finite (Std with
// n-1); what does not exist is nil. Of other values only the counts are known.
type Stats struct {
	NaN  int     `json:"nan"`
	Inf  int     `json:"inf"`
	Min  *Number `json:"min"`
	Max  *Number `json:"max"`
	Mean *Number `json:"mean"`
	Std  *Number `json:"std"`
	Norm *Number `json:"norm"` // 2-norm
}

// CompareRow is the row of op_tools' table and file for r; false if nothing was
// compared.
func (r *Result) CompareRow() (CompareRow, bool) {
	if r.Allclose == nil || r.Cosine == nil || r.MaxAbs == nil || r.MaxRel == nil || r.ATol == nil || r.RTol == nil {
		return CompareRow{}, false
	}
	row := CompareRow{
		Name: r.Op + " " + r.Label, Allclose: *r.Allclose, Cosine: float64(*r.Cosine), MaxAbs: float64(*r.MaxAbs),
		MaxRelative: float64(*r.MaxRel),
		ATol:        float64(*r.ATol), RTol: float64(*r.RTol), ErrorInfo: r.ErrorInfo, Verdict: r.Verdict,
		Reason: r.Reason,
	}
	if r.ForwardID != nil {
		row.ForwardID = strconv.Itoa(*r.ForwardID)
	}
	return row, true
}

// OverflowRow is the row of r, which has Stats, in the table of the overflow
// check.
func (r *Result) OverflowRow() OverflowRow {
	or := func(n *Number) float64 {
		if n == nil {
			return math.NaN()
		}
		return float64(*n)
	}
	return OverflowRow{
		Name: r.Op + " " + r.Label, Overflow: r.NaN+r.Inf > 0, Tensor: r.DType != nil, NaN: r.NaN, Inf: r.Inf,
		Min: or(r.Min), Max: or(r.Max), Mean: or(r.Mean), Std: or(r.Std), Norm: or(r.Norm),
	}
}

// Finding reports whether r is something that its reader has to look at.
func (r *Result) Finding() bool { return r.Verdict.Finding() && !r.Unwritten }

// listed reports whether r is listed with the findings: because it is one, or was one and is repaired.
func (r *Result) listed() bool { return r.Finding() || r.Verdict == verdict.Repaired }

// passed reports whether every capture of the operator passed: captures that were not judged did not.
func (o *OpSummary) passed() bool { return len(o.Counts) == 1 && o.Counts[verdict.Pass] > 0 }

// An OpSummary counts the captures of one op by their worst verdict.
type OpSummary struct {
	Op     string                  `json:"op"`
	Counts map[verdict.Verdict]int `json:"counts"` // by verdict
	Worst  *Result                 `json:"worst,omitempty"`

	reading int // calls whose verdict only tells that they were given other values
	inside  int // calls that a recorded call made

	elements, checked int64 // of all results that were compared, and of these one by one
}
