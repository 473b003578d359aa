package replay

import (
	"math"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A Device runs calls on something other than the reference.
type Device interface {
	Run(c *DeviceCall) *DeviceRun
}

// A DeviceCall is what a Device is to do.
type DeviceCall struct {
	Call *opdef.Call
	// Forward is what the reference gave: it tells dtypes and shapes of results.
	Forward *opdef.Forward
	// GradOutputs are the gradients of the results, nil for one that has none; nil
	// altogether for a forward pass alone.
	GradOutputs []*tensor.Tensor
	// Need are the arguments whose gradients are wanted, by schema name.
	Need []string
	// OutputsTransposed asks for results in memory laid out with the first
	// dimension running fastest.
	OutputsTransposed bool
	// OutputsStrided asks for results with gaps between their elements where an argument
	// has some; else they are dense, as PyTorch makes them.
	OutputsStrided bool
}

// A DeviceRun is what a Device did.
type DeviceRun struct {
	Functions []string // of the library that were called
	// OfBackward are those of Functions that the backward pass calls.
	OfBackward []string
	// Forward and Backward say how the passes ended.
	Forward, Backward DeviceStatus
	Outputs           []*tensor.Tensor            // like Forward.Outs; nil for a result the device does not give
	After             map[string][]*tensor.Tensor // arguments that were changed, by schema name
	Grads             map[string][]*tensor.Tensor // by schema name
	Faults            []DeviceFault
	Casts             []DeviceCast
	Converted         bool // arguments got the dtypes or layouts that the library wants
	// Rounded are the conversions to a coarser floating dtype. The device is judged
	// as having computed in it, on what it was given.
	Rounded []DeviceRounding
}

// A DeviceRounding is a conversion for a pass to a coarser floating dtype: of an
// argument or the gradient of a result before it, or of something it computes.
type DeviceRounding struct {
	Phase  Phase
	Tensor *tensor.Tensor // nil for what it computes
	To     tensor.DType
}

// Round notes a conversion for a pass, of an argument, of the gradient of a result, or of
// what is computed (nil), if it is to a coarser floating dtype.
func (d *DeviceRun) Round(p Phase, t *tensor.Tensor, from, to tensor.DType) {
	if from.Eps() != 0 && from.Eps() < to.Eps() {
		d.Rounded = append(d.Rounded, DeviceRounding{Phase: p, Tensor: t, To: to})
	}
}

// rounded says in what dtype what is known before a pass was given to the device,
// and the coarsest dtype that it computed in; the zero value if that is as recorded.
func (d *DeviceRun) rounded(p Phase) (given map[*tensor.Tensor]tensor.DType, precision tensor.DType) {
	given = map[*tensor.Tensor]tensor.DType{}
	for _, x := range d.Rounded {
		if x.Phase != Forward && x.Phase != p {
			continue
		}
		if x.Tensor != nil {
			given[x.Tensor] = x.To
		}
		if precision == tensor.Invalid || precision.Eps() < x.To.Eps() {
			precision = x.To.Real()
		}
	}
	return given, precision
}

// A DeviceCast is a conversion that was asked for: of an argument before the
// call, or of a result back after it.
type DeviceCast struct {
	Argument *tensor.Tensor // nil for a result
	Output   int
	From, To tensor.DType
	Config   string // what asked for it
}

// A CastRow is op_tools' row of a conversion.
type CastRow struct{ Target, Action, Config string }

// A DeviceStatus is the zero value for a pass that ran, else why it did not.
type DeviceStatus struct {
	Verdict verdict.Verdict // unsupported, fail, crash, timeout, error, skipped
	Reason  string
	// Refused says of an unsupported pass that the device has its functions, and that they did not take the arguments.
	Refused bool
	// Absent says of an unsupported pass that the device has no function of the call's name. It may have another name
	// of the operator.
	Absent bool
}

// A CallError says that a device does not carry out a call that is to be measured: it
// has no function for it, or the function fails, dies or does not come back.
type CallError struct {
	Verdict verdict.Verdict
	Reason  string
}

func (e *CallError) Error() string { return e.Reason }

// A DeviceFault is something an operator must not do: write outside of its
// results, change its inputs, give other bits for the same inputs.
type DeviceFault struct {
	Phase  Phase
	Reason string
}

// A Witness compares the device with what was recorded, both against the
// reference.
type Witness struct {
	Device, Recorded float64 // root mean squared errors
	Verdict          string  // better, same, worse
}

func newWitness(device, recorded, atol float64) *Witness {
	w := &Witness{Device: device, Recorded: recorded, Verdict: "same"}
	slack := witnessTolerance * atol
	device, recorded = orInf(device), orInf(recorded)
	switch {
	case device > witnessFactor*recorded+slack:
		w.Verdict = "worse"
	case recorded > witnessFactor*device+slack:
		w.Verdict = "better"
	}
	return w
}

// orInf is an error; that of values that are NaN where numbers are due is the largest.
func orInf(rmse float64) float64 {
	if math.IsNaN(rmse) {
		return math.Inf(1)
	}
	return rmse
}

// witnessFactor is how many times one error must exceed the other, and tolerance
// share what it may do so anyhow: PyTorch's rule for compiled against eager results.
const (
	witnessFactor    = 3
	witnessTolerance = 0.1 // of atol
)
