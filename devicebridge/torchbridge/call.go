package torchbridge

import (
	"time"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Call is what a worker is to do.
type Call struct {
	Op     string // the public name of the function
	Args   []value.Value
	Kwargs *value.Dict // nil: none
	// Roles are the names of tensors among the arguments, for sentences; of those
	// without one, and of other tensors, nothing is known.
	Roles map[*tensor.Tensor]string
	// Written are the arguments that the call may write to.
	Written []*tensor.Tensor
	InPlace bool // its result is the first of Written
	// Absolute says that an argument counts elements from the start of a storage: tensors
	// then lie where they lay in theirs, and only what is behind them is guarded.
	Absolute bool
	// Need are the arguments whose gradients are wanted, which GradOutputs, one for
	// each tensor of the result or nil, is propagated to.
	Need        []*tensor.Tensor
	GradOutputs []*tensor.Tensor
	Repeat      int // runs on the same inputs that must give the same bits; 0 is 1
}

// Timing asks for the times of Runs runs of the forward pass or, where a Call needs
// gradients, of its backward pass alone. Inputs that a run changes are restored outside of
// its time; FlushBytes not 0 are written on the device before each, to empty its caches.
type Timing struct {
	Runs       int   `json:"runs"`
	FlushBytes int64 `json:"flush"`
}

// Times are what Timing asked for.
type Times struct {
	Runs     []time.Duration
	OnDevice bool // measured by events of the device, else by the host's clock
	Memory   *Memory
}

// A Memory is what the last run took from the device's allocator, in bytes. Nil where
// the device has no statistics of it, as the processor has none.
type Memory struct {
	Peak     int64 `json:"peak"`
	Kept     int64 `json:"kept"`     // when the run was done, by its results
	Requests int   `json:"requests"` // allocations; 0 where they are not counted
}

// A Status says how a pass ended.
type Status uint8

const (
	OK          Status = iota
	Unsupported        // this Python, torch or device does not have it
	Failed             // it raised an exception
	Missing            // it gives no gradient where one is due
	Crashed            // a signal ended the worker
	Exited             // it ended the process
	TimedOut           // it did not come back in time
)

// A Pass is how the forward or the backward pass ended.
type Pass struct {
	Status Status
	Reason string   // one sentence; "" when OK
	Faults []string // what it did and must not do, a sentence each
	Absent bool     // of Unsupported: there is no function of the name
}

// A Result is what a call yielded.
type Result struct {
	Forward, Backward Pass
	Outputs           []*tensor.Tensor // of the result, in order; nil for None
	After             []*tensor.Tensor // Call.Written after the call
	Grads             []*tensor.Tensor // of Call.Need; nil for None
}

// An Info describes the device and what reaches it.
type Info struct {
	Python     string            `json:"python"` // version
	Executable string            `json:"executable"`
	Torch      string            `json:"torch"`
	Name       string            `json:"name"`    // of the device
	Driver     string            `json:"driver"`  // version of CUDA that torch was built with; "" if none
	Plugins    map[string]string `json:"plugins"` // versions of what was imported beside torch
	Threads    int               `json:"threads"`
	Events     bool              `json:"events"` // it can measure with events of its own
}
