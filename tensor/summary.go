package tensor

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// A Summary is what was recorded of a tensor in place of its elements. Nil
// fields were not.
type Summary struct {
	Max, Min, Mean, Norm *float64 // Norm is the 2-norm
	Checksum             string   // of the contiguous bytes, in the recorder's own way; "" if none
}

// ErrNotRecorded is why elements of a summarised tensor cannot be read.
var ErrNotRecorded = errors.New("elements were not recorded")

// Summarised returns a tensor of which only s is known: its elements cannot be
// read. The error is that of a shape that no tensor has.
func Summarised(dt DType, shape []int, s Summary) (*Tensor, error) {
	size := uint64(dt.Size())
	for _, d := range shape {
		hi, lo := bits.Mul64(size, uint64(d))
		if d < 0 || hi != 0 || lo > math.MaxInt64 {
			return nil, fmt.Errorf("%w: shape %v", ErrOverflow, shape)
		}
		size = lo
	}
	if size == 0 {
		return NewView(NewStorage(nil), View{DType: dt, Shape: shape, Stride: Contiguous(shape)})
	}
	storage := OpenStorage(int64(size), func() ([]byte, error) { return nil, ErrNotRecorded })
	storage.summary = &s
	return NewView(storage, View{DType: dt, Shape: shape, Stride: Contiguous(shape)})
}

// Summary is what is known of a tensor whose elements are not; nil for all others.
func (t *Tensor) Summary() *Summary {
	if t.back.stored == nil {
		return nil
	}
	return t.back.stored.summary
}
