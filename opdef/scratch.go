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

// pooled is the size from which buffers are kept: of smaller ones, as for elements that are asked for one
// by one, a new one costs as little.
const pooled = 64

// Scratch returns a buffer of n elements with arbitrary contents, to be given
// back with Release.
func Scratch[T tensor.Elem](n int) *[]T {
	if n < pooled {
		b := make([]T, n)
		return &b
	}
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
func Release[T tensor.Elem](b *[]T) {
	if cap(*b) >= pooled {
		pool[T]().Put(b)
	}
}
