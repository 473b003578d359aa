package opdef

import (
	"sync"

	"github.com/optool/optool/tensor"
)

// Scratch buffers are reused because the page faults of fresh ones cost more
// than the arithmetic done in them; those of a few elements, asked for one by
// one, because the collector does.
var pools [2]struct{ f, i, c sync.Pool }

// few is the capacity of the small buffers, many that of the others at least.
const (
	few  = 64
	many = 8192
)

// pool is that of buffers of n elements, and how many a new one has.
func pool[T tensor.Elem](n int) (p *sync.Pool, size int) {
	of, size := &pools[0], few
	if n > few {
		of, size = &pools[1], max(n, many)
	}
	var z T
	switch any(z).(type) {
	case float64:
		return &of.f, size
	case int64:
		return &of.i, size
	}
	return &of.c, size
}

// Scratch returns a buffer of n elements with arbitrary contents, to be given
// back with Release.
func Scratch[T tensor.Elem](n int) *[]T {
	p, size := pool[T](n)
	b, _ := p.Get().(*[]T)
	if b == nil {
		b = new([]T)
	}
	if cap(*b) < n {
		*b = tensor.Make[T](size)
	}
	*b = (*b)[:n]
	return b
}

// Release gives a buffer of Scratch back.
func Release[T tensor.Elem](b *[]T) {
	p, _ := pool[T](cap(*b))
	p.Put(b)
}
