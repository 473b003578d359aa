// Package quota keeps computing within what the process may use: memory, which is
// checked before it is taken, and time, by a switch that stops all computing.
//
// What makes a slice whose length comes from arguments or from a file makes it with
// Make. What may compute for long calls Check now and then; Make does, and so do the
// loops of package tensor that all kernels run in. Both panic, and whoever runs a
// call recovers: with a *MemoryError if the memory does not suffice, with ErrStopped
// if computing was stopped.
package quota

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
)

// A slice of large bytes, or slices of that much together, are checked against the
// memory limit. Those below small are not counted: they could not be made fast
// enough to matter before the next garbage collection.
const (
	large = 64 << 20
	small = 32 << 10
)

// most is more than any machine has: it is refused also where no limit is known.
const most = 1 << 46

var (
	memory  atomic.Int64
	taken   atomic.Int64 // since the last look at the memory in use
	taking  sync.Mutex
	stopped atomic.Bool
)

// SetMemory sets how many bytes the process may use; 0 means that no limit is known.
func SetMemory(bytes int64) { memory.Store(bytes) }

// Memory is what SetMemory set.
func Memory() int64 { return memory.Load() }

// A MemoryError is the panic value of an allocation that would not fit into the
// memory limit.
type MemoryError struct {
	Need  int64 // bytes in use and bytes asked for; math.MaxInt64 for more than an int64 holds
	Limit int64 // 0 if none is known
}

func (e *MemoryError) Error() string {
	need := fmt.Sprintf("%.1f GiB", float64(e.Need)/(1<<30))
	if e.Need == math.MaxInt64 {
		need = "more than 8 EiB"
	}
	if e.Limit == 0 {
		return fmt.Sprintf("needs %s of memory", need)
	}
	return fmt.Sprintf("needs %s of memory, %.1f GiB are available", need, float64(e.Limit)/(1<<30))
}

// Make returns n zero elements. It panics with a *MemoryError if they do not fit into
// the memory limit, or if n is negative, as a product of sizes that overflows is.
func Make[T any](n int) []T {
	Check()
	hi, bytes := bits.Mul64(uint64(n), uint64(reflect.TypeFor[T]().Size()))
	if n < 0 || hi != 0 || bytes > math.MaxInt64 {
		panic(&MemoryError{math.MaxInt64, memory.Load()})
	}
	if bytes < small {
		return make([]T, n)
	}
	if bytes >= large { // what was found free is still free when it is taken
		taking.Lock()
		defer taking.Unlock()
	}
	if err := CheckMemory(int64(bytes)); err != nil {
		panic(err)
	}
	return make([]T, n)
}

// CheckMemory returns a *MemoryError if so many bytes, beside what is in use, do not
// fit into the memory limit.
func CheckMemory(bytes int64) error {
	limit := memory.Load()
	if bytes > most {
		return &MemoryError{bytes, limit}
	}
	if limit == 0 || bytes < large && taken.Add(bytes) < large {
		return nil
	}
	taken.Store(0)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if int64(m.HeapAlloc)+bytes > limit {
		runtime.GC() // what is garbage does not count
		runtime.ReadMemStats(&m)
	}
	if need := int64(m.HeapAlloc) + bytes; need > limit {
		return &MemoryError{need, limit}
	}
	return nil
}

// MaxSteps is how many steps one thing may take that is done step by step: the degree
// of a polynomial, the windows along a dimension, the parts of a tensor.
const MaxSteps = 1 << 26

// A StepsError says that something takes more than MaxSteps steps.
type StepsError struct{ N int }

func (e *StepsError) Error() string {
	return fmt.Sprintf("takes %d steps one after the other, at most %d are made", e.N, MaxSteps)
}

// Steps returns n, the number of steps that an argument asks for. It panics with a
// *StepsError if they are too many.
func Steps(n int) int {
	if n > MaxSteps {
		panic(&StepsError{n})
	}
	return n
}

// ErrStopped is the panic value of what computes after Stop.
var ErrStopped = errors.New("stopped")

// Stop makes everything that computes panic with ErrStopped, until Resume.
func Stop() { stopped.Store(true) }

// Resume ends what Stop began.
func Resume() { stopped.Store(false) }

// Stopped reports whether computing is stopped.
func Stopped() bool { return stopped.Load() }

// Check panics with ErrStopped if computing is stopped.
func Check() {
	if stopped.Load() {
		panic(ErrStopped)
	}
}
