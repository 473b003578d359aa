package elements

import (
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// BroadcastTerms is the largest number of result elements that one element of
// an operand of a call that was checked takes part in.
func BroadcastTerms(ts ...*tensor.Tensor) int {
	shapes := make([][]int, len(ts))
	for i, t := range ts {
		shapes[i] = t.Shape
	}
	shape := opdef.Must(tensor.Broadcast(shapes...))
	n, terms := tensor.Numel(shape), 1
	for _, t := range ts {
		if k := t.Numel(); k > 0 {
			terms = max(terms, n/k)
		}
	}
	return terms
}

// AllDims are the dimensions 0 .. n-1.
func AllDims(n int) []int {
	d := make([]int, n)
	for i := range d {
		d[i] = i
	}
	return d
}

// NumelOver is the number of elements that a reduction over dims combines into one result.
func NumelOver(shape, dims []int) int {
	n := 1
	for _, d := range dims {
		n *= shape[d]
	}
	return n
}

// TermsOver is NumelOver for the dim argument of a call that was checked.
func TermsOver(shape, dim []int) int {
	return NumelOver(shape, opdef.Must(opdef.Dims("dim", dim, len(shape))))
}

// LengthOf is the number of elements along a dimension, 1 of a 0-d tensor.
func LengthOf(shape []int, dim int) int {
	if len(shape) == 0 {
		return 1
	}
	return shape[dim]
}

// OptionalDim is an optional dimension as a list; none means all.
func OptionalDim(d *int) []int {
	if d == nil {
		return nil
	}
	return []int{*d}
}

// LastDim is the size of the last dimension of shape: the length of a row, 1 of a
// number.
func LastDim(shape []int) int {
	if len(shape) == 0 {
		return 1
	}
	return shape[len(shape)-1]
}

// ResolveDims resolves dimensions that may be negative; an empty list is empty.
func ResolveDims(arg string, dims []int, n int) ([]int, error) {
	if len(dims) == 0 {
		return nil, nil
	}
	return opdef.Dims(arg, dims, n)
}

// AtLeastDims adds dimensions of size 1 to t until it has n: a vector becomes a
// row, and a matrix a stack of rows of depth 1.
// Source: torch.atleast_3d
func AtLeastDims(t *tensor.Tensor, n int) *tensor.Tensor {
	if n == 1 && t.Dim() == 0 {
		return t.Unsqueeze(0)
	}
	if n >= 2 && t.Dim() < 2 {
		t = AtLeastDims(t, 1).Unsqueeze(0)
	}
	if n == 3 && t.Dim() == 2 {
		t = t.Unsqueeze(2)
	}
	return t
}
