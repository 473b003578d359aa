package tensor

import (
	"fmt"
	"runtime"
	"sync/atomic"
)

// largeBytes is the size from which an allocation is checked against the
// memory limit; smaller ones cannot make a difference.
const largeBytes = 64 << 20

var memoryLimit atomic.Int64

// SetMemoryLimit sets how many bytes the process may use for elements; 0 means
// no limit. Large allocations beyond it panic with a *MemoryError instead of
// having the process killed.
func SetMemoryLimit(bytes int64) { memoryLimit.Store(bytes) }

// A MemoryError is the panic value of an allocation that would not fit into
// the memory limit.
type MemoryError struct {
	Need  int64 // bytes in use and bytes asked for
	Limit int64
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("needs %.1f GiB of memory, %.1f GiB are available", float64(e.Need)/(1<<30),
		float64(e.Limit)/(1<<30))
}

// Make returns n zero elements. It panics with a *MemoryError if they do not
// fit into the memory limit. Kernels allocate results and copies of whole
// operands with it.
func Make[T Elem](n int) []T {
	bytes := int64(n) * 8
	if _, ok := any(T(0)).(complex128); ok {
		bytes *= 2
	}
	if err := CheckMemory(bytes); err != nil {
		panic(err)
	}
	return make([]T, n)
}

// CheckMemory returns a *MemoryError if so many bytes, beside what is in use, do
// not fit into the memory limit.
func CheckMemory(bytes int64) error {
	limit := memoryLimit.Load()
	if limit == 0 || bytes < largeBytes {
		return nil
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if int64(m.HeapAlloc)+bytes > limit {
		runtime.GC() // what is garbage does not count
		runtime.ReadMemStats(&m)
	}
	if need := int64(m.HeapAlloc) + bytes; need > limit {
		return &MemoryError{Need: need, Limit: limit}
	}
	return nil
}
