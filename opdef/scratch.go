package opdef

import (
	"sync"

	"github.com/optool/optool/tensor"
)

// Scratch buffers are reused because the page faults of fresh ones cost more
// than the arithmetic done in them.
var pools struct{ f, i, c sync.Pool }

func pool[T tensor.Elem]() *sync.Pool {
	var z T
	switch any(z).(type) {
	case float64:
		return &pools.f
	case int64:
		return &pools.i
	}
	return &pools.c
}

// Scratch returns a buffer of n elements with arbitrary contents, to be given
// back with Release.
func Scratch[T tensor.Elem](n int) *[]T {
	b, _ := pool[T]().Get().(*[]T)
	if b == nil {
		b = new([]T)
	}
	if cap(*b) < n {
		*b = tensor.Make[T](max(n, 8192))
	}
	*b = (*b)[:n]
	return b
}

// Release gives a buffer of Scratch back.
func Release[T tensor.Elem](b *[]T) { pool[T]().Put(b) }
