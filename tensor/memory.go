package tensor

import (
	"errors"
	"fmt"
	"slices"

	"github.com/optool/optool/internal/quota"
)

// Make returns n zero elements. It panics with a *quota.MemoryError if they do not
// fit into the memory that the process may use. Kernels make everything with it
// whose size follows from arguments.
func Make[T any](n int) []T { return quota.Make[T](n) }

// Steps returns n, the number of steps that an argument asks for: rows, windows, parts,
// the degree of a polynomial. It panics with a *quota.StepsError if they are too many.
func Steps(n int) int { return quota.Steps(n) }

// MaxElements is the largest number of elements that a tensor to be computed with may
// have: those of a float16 tensor of 64 GiB, which take minutes. Views of more, whose
// elements share memory, can be moved and compared.
const MaxElements = 1 << 35

// A SizeError says that a tensor has more than MaxElements elements, or more than an
// int counts. As a panic value it comes from sizes among arguments.
type SizeError struct{ Shape []int }

func (e *SizeError) Error() string {
	return fmt.Sprintf("shape %s has too many elements, at most %d can be computed with", ShapeString(e.Shape),
		MaxElements)
}

// CheckSize returns a *SizeError if a tensor of the shape has more than MaxElements elements.
func CheckSize(shape []int) error {
	if n, ok := count(shape); !ok || n > MaxElements {
		return &SizeError{shape}
	}
	return nil
}

// manyElements is the number of elements from which it pays to read those that repeat
// only once.
const manyElements = 1 << 26

// Distinct returns tensors of one shape with every dimension along which all of them
// repeat their elements (stride 0) cut to size 1, and how often each element that is
// left stands in the whole. Of tensors that are not large nothing is cut. The error is
// a *SizeError if what is left is still too large to compute with.
func Distinct(ts ...*Tensor) (short []*Tensor, times int, err error) {
	short, times = slices.Clone(ts), 1
	shape := slices.Clone(ts[0].Shape)
	if n, ok := count(shape); !ok || n > manyElements {
		for d, n := range shape {
			if n < 2 || slices.ContainsFunc(ts, func(t *Tensor) bool { return t.Stride[d] != 0 }) {
				continue
			}
			times *= n
			shape[d] = 1
			for i, t := range short {
				short[i] = t.Slice(d, 0, 1, 1)
			}
		}
	}
	return short, times, CheckSize(shape)
}

// TooLarge returns the error behind a panic value, a *SizeError, *quota.MemoryError or
// *quota.StepsError: arguments ask for more than can be done. nil for all others.
func TooLarge(p any) error {
	err, _ := p.(error)
	var size *SizeError
	var memory *quota.MemoryError
	var steps *quota.StepsError
	if errors.As(err, &size) || errors.As(err, &memory) || errors.As(err, &steps) {
		return err
	}
	return nil
}
