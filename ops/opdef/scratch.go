package opdef

import (
	"sync"

	"github.com/optool/optool/tensor"
)

// Scratch buffers are reused because the page faults of fresh ones cost more
// than the arithmetic done in them; those of a few elements, asked for one by
// one, because the collector does.
var pools [2]poolsByType

// poolsByType are the pools of what is made for each compute type.
type poolsByType struct{ f, i, c sync.Pool }

// few is the capacity of the small buffers, many that of the others at least.
const (
	few  = 64
	many = 8192
)

// poolOf is that of type T.
func poolOf[T tensor.Elem](of *poolsByType) *sync.Pool {
	var z T
	switch any(z).(type) {
	case float64:
		return &of.f
	case int64:
		return &of.i
	}
	return &of.c
}

// pool is that of buffers of n elements, and how many a new one has.
func pool[T tensor.Elem](n int) (p *sync.Pool, size int) {
	if n <= few {
		return poolOf[T](&pools[0]), few
	}
	return poolOf[T](&pools[1]), max(n, many)
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

// sources are blocks of operands, to be given back with release.
type sources[S tensor.Elem] struct {
	src  [][]S
	held []*[]S
}

// sourcePools have sources without blocks.
var sourcePools poolsByType

func sourcesOf[S tensor.Elem]() *sources[S] {
	if s, ok := poolOf[S](&sourcePools).Get().(*sources[S]); ok {
		return s
	}
	return new(sources[S])
}

func (s *sources[S]) release() {
	for _, b := range s.held {
		Release(b)
	}
	s.src, s.held = s.src[:0], s.held[:0]
	poolOf[S](&sourcePools).Put(s)
}
