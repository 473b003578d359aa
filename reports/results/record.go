package results

import (
	"github.com/optool/optool/capture"
	"github.com/optool/optool/reports"
)

// Locate fills in which call a result is of.
func Locate(r *reports.Result, e *capture.Entry, op string) {
	if e.BackwardOrder > e.Position() {
		r.BackwardOrder = Known(e.BackwardOrder)
	}
	r.Capture, r.Op, r.ForwardID, r.Order = e.Rel, op, Known(e.ID), Known(e.Position())
	if e.Occurrence > 0 {
		r.Occurrence = &e.Occurrence
	}
	r.PID, r.Rank, r.Module, r.Location = Known(e.PID), Known(e.Rank), e.Module, e.Location
	r.Replaced, r.ReplacedAt, r.Wrapped, r.Within = e.Replaced, e.ReplacedAt, Wrapped(e), Known(e.Within)
	r.WithinBackward = Known(e.WithinBackward)
	r.Step, r.Pair = Known(e.Step), e.IsPair()
}

// Wrapped are the functions of torch that the program wraps, and inside of which it made the call.
func Wrapped(e *capture.Entry) (all []reports.Wrapper) {
	for _, w := range e.Wrapped {
		all = append(all, reports.Wrapper(w))
	}
	return all
}

// Shape is a copy of a shape that JSON writes as a list, also that of a scalar.
func Shape(shape []int) []int { return append([]int{}, shape...) }

// Known is a number of a capture's name, nil for -1: not known.
func Known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

// Phase says to which phase of a call the file of kind k belongs, and how targets
// in it are named.
func Phase(k capture.Kind) (phase, target string) {
	switch k {
	case capture.Input, capture.After:
		return "input", "input"
	case capture.Output:
		return "forward", "output"
	case capture.GradInputs:
		return "backward", "grad"
	}
	return "backward", "grad_output"
}
