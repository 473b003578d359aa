package devicebridge

import (
	"fmt"
	"time"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/tensor"
)

// Host is the name of the built-in device.
const Host = "host"

// A Config says which library to load and how to run it.
type Config struct {
	Library string // Host, or the path of a shared library
	// Adaptor is the path of a library with the vendor's device functions
	// (device_malloc, ...). Without one they are looked for in Library; a library
	// that has none works on host memory.
	Adaptor string
	Workers int           // processes, each of which runs one plan at a time; 0 is 1
	Timeout time.Duration // of one C call, and of loading the library; 0 is 1 minute
	Env     []string      // "KEY=value", added to the environment of the workers
}

// An Info describes a loaded library.
type Info struct {
	Vendor    string   // diopiGetVendorName; "" if it has none
	Version   string   // diopiGetImplVersion; "" if it has none
	LastError bool     // it has diopiGetLastErrorString
	Adaptor   bool     // device functions were found: device memory is not host memory
	Functions []string // the operators it exports, in the order of diopi.Functions
	Missing   []string // the operators it does not export
	Remarks   []string // sentences about what is wrong with what it says about itself
	Isolation []string // what keeps the library away from optool's own process; empty if nothing does
}

// Options vary one run of a plan.
type Options struct {
	// Repeat runs the plan that many times on the same inputs and compares what
	// it writes bit by bit; differences are Nondeterministic findings, memory that
	// grows with every repetition a Leaked one. 0 is 1.
	Repeat int
	// Time measures the calls after the plan has run. Nil: not measured.
	Time *Timing
}

// Timing asks for measurements: WarmUp+Runs times all calls of the plan, each
// time on the same inputs, restored outside of the window if calls write them.
type Timing struct {
	WarmUp, Runs int
	// FlushBytes not 0 empties the caches before each phase of a run: the lines of
	// the tensors are evicted where the processor can do that, else, and on devices
	// with memory of their own, so many bytes are written. 0 leaves them warm.
	FlushBytes int64
	// Budget ends the measurement after the run in which it is spent; 0 is no limit.
	Budget time.Duration
}

// A Status says how a call ended.
type Status uint8

const (
	OK          Status = iota
	Failed             // it returned an error code
	Unsupported        // the library lacks the function, or says it does not implement it
	Threw              // a C++ exception came out of it
	Crashed            // a signal ended the worker in it
	TimedOut           // it did not come back in time
	Exited             // it ended the process
	NotRun             // an earlier call that it builds on, or the worker, did not make it
)

var statusNames = [...]string{"ok", "failed", "unsupported", "threw", "crashed", "timed out", "exited", "not run"}

func (s Status) String() string { return statusNames[s] }

// A CallResult is how one call of a plan ended.
type CallResult struct {
	Function string
	Status   Status
	Code     int32  // diopiError_t
	Reason   string // one sentence with code, the library's own error text, signal, or the end of stderr; "" when OK
	Elapsed  time.Duration
	// Runs are the elapsed times of the runs that Timing asked for, measured in
	// the worker around the call and the synchronisation of its stream.
	Runs   []time.Duration
	Memory Memory
}

// A Memory is what a call asked the runtime for. What a library takes from
// elsewhere (malloc, its vendor's allocator) does not pass through the runtime.
type Memory struct {
	Requests int   // tensors and buffers with memory: diopiRequireTensor, diopiRequireBuffer
	Bytes    int64 // of all of them; the runtime takes nothing back during a call, so this is the peak
	Kept     int64 // of Bytes those of results that it hands out
}

// A FindingKind names what an operator did and must not do.
type FindingKind uint8

const (
	OutOfBounds      FindingKind = iota // it wrote outside of a tensor's buffer
	GapWritten                          // it wrote between the elements of a strided tensor
	InputChanged                        // it wrote a tensor that is only its input
	Unwritten                           // it left elements of an output as they were
	Nondeterministic                    // it gave other bits for the same inputs
	Leaked                              // memory grew with every repetition
	MetadataChanged                     // it changed the shape, strides or dtype behind a handle
	// it left its caller's thread rounding, or treating subnormal numbers, in another way
	FloatModeChanged
)

var findingNames = [...]string{"out of bounds", "gap written", "input changed", "unwritten", "nondeterministic",
	"leaked", "metadata changed", "floating-point mode changed"}

func (k FindingKind) String() string { return findingNames[k] }

// A Finding is something a check of the bridge found.
type Finding struct {
	Kind FindingKind
	Call int       // index in Plan.Calls
	Arg  diopi.Arg // the *diopi.Tensor or *diopi.Alloc or *diopi.Out it is about; nil where it is about none
	Role string    // of Arg
	// Count is the number of elements concerned (bytes for OutOfBounds,
	// GapWritten and Leaked); At is the first of them: the row-major index of an
	// element, or for OutOfBounds the byte offset from the tensor's first byte.
	Count, At int64
}

// A Fate is how a worker died.
type Fate struct {
	Status   Status // Crashed, TimedOut or Exited
	Call     int    // index in Plan.Calls
	Function string
	Signal   string // "SIGSEGV"; "" if it was none
	Code     int    // exit code
	Broke    string // what came from it that is no answer, for which it was ended; "" if it ended itself
	Stderr   string // the end of what the library wrote
}

// A Result is what a plan yielded.
type Result struct {
	Calls    []CallResult // one for each call of the plan
	Findings []Finding
	Fate     *Fate // nil: the worker lives
	// Waited are, for each run that Timing asked for, how long threads of the worker
	// waited for a processor in it, where Linux's scheduler tells; 0 for runs of
	// less than 0.1 ms.
	Waited []time.Duration

	tensors map[any]*tensor.Tensor // by *diopi.Tensor and *diopi.Alloc
	outs    map[*diopi.Out]any
}

// Tensor returns what a *diopi.Tensor or *diopi.Alloc held after the calls, with
// the strides it has on the device; so does an input that an InputChanged finding
// is about. It has none if no call that writes it ended well, or for an Alloc
// that was not made.
func (r *Result) Tensor(a diopi.Arg) (*tensor.Tensor, bool) {
	t, ok := r.tensors[a]
	return t, ok
}

// Out returns the plain result stored through o: bool, int64 or float64.
func (r *Result) Out(o *diopi.Out) (any, bool) {
	v, ok := r.outs[o]
	return v, ok
}

// Worst returns the first call that did not end well, or nil.
func (r *Result) Worst() *CallResult {
	for i := range r.Calls {
		if r.Calls[i].Status != OK {
			return &r.Calls[i]
		}
	}
	return nil
}

// String says in one sentence what was found.
func (f Finding) String() string {
	switch f.Kind {
	case OutOfBounds:
		return fmt.Sprintf("%d bytes written outside of %s, the first at byte %d", f.Count, f.Role, f.At)
	case GapWritten:
		return fmt.Sprintf("%d bytes written between the elements of %s, the first at byte %d", f.Count, f.Role, f.At)
	case InputChanged:
		return fmt.Sprintf("%d elements of the input %s changed, the first at index %d", f.Count, f.Role, f.At)
	case Unwritten:
		return fmt.Sprintf("%d elements of %s never written, the first at index %d", f.Count, f.Role, f.At)
	case Nondeterministic:
		return fmt.Sprintf("%d elements of %s differ between runs on the same inputs, the first at index %d", f.Count,
			f.Role, f.At)
	case Leaked:
		return fmt.Sprintf("memory grows by %d bytes with every run", f.Count)
	case FloatModeChanged:
		return "the thread that called it is left in another floating-point mode (rounding, flushing of subnormal " +
			"numbers)"
	default:
		return fmt.Sprintf("shape, strides or dtype of %s changed behind its handle", f.Role)
	}
}
