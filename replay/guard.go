package replay

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/tensor"
)

// stopped is why a call, or something done with it, came to nothing.
type stopped struct {
	verdict verdict.Verdict
	err     error
}

func (s *stopped) Error() string { return s.err.Error() }
func (s *stopped) Unwrap() error { return s.err }

// An InternalError is a panic of the reference that no input should cause: a bug of optool.
type InternalError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

func (e *InternalError) Error() string {
	return fmt.Sprintf("internal error of the reference: %v", e.Value)
}

// ReportPanic is called with each mistake of the reference, if it is not nil, also from
// several goroutines. It is set once, before any call runs.
var ReportPanic func(*InternalError)

// Panicked makes an error of what a deferred function recovered, and reports it. The deferred function calls it itself,
// so that the stack is that of the panic.
func Panicked(value any) *InternalError {
	mistake := &InternalError{value, debug.Stack()}
	if ReportPanic != nil {
		ReportPanic(mistake)
	}
	return mistake
}

// Guard runs f, which computes or reads tensors of a capture, and turns a panic
// into an error: a storage that cannot be read (also a file that shrank under its
// memory map), sizes for which the memory does not suffice, computing that was
// stopped (quota.ErrStopped), or a mistake of the reference.
func Guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		var read *tensor.ReadError
		var fault interface{ Addr() uintptr }
		cause, _ := p.(error)
		switch {
		case errors.As(cause, &read) && errors.Is(read, tensor.ErrNotRecorded):
			err = &stopped{verdict.Unsupported, errors.New("only statistics of its tensors were recorded")}
		case errors.As(cause, &read):
			err = &stopped{verdict.Invalid, read}
		case errors.Is(cause, quota.ErrStopped):
			err = cause
		case tensor.TooLarge(p) != nil:
			err = &stopped{verdict.Error, cause}
		case errors.As(cause, &fault):
			err = &stopped{verdict.Invalid, errors.New("a file changed while it was read")}
		default:
			err = &stopped{verdict.Error, Panicked(p)}
		}
	}()
	return f()
}
