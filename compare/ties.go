package compare

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/optool/optool/tensor"
)

// SelectedEqual compares two tensors of indices along dimension dim of input
// where ties allow several right answers: sort, topk, argmax, kthvalue, median,
// mode. An index is right if it selects the same value as the wanted one; NaN
// equals NaN, -0 equals 0. got and want have one shape, that of input except
// for the length of dim, or with dim removed. A negative dim counts from the
// end; a 0-d input has one element in dimension 0.
//
// If they agree it returns true and -1; else the flat number of the first
// element of got that selects another value or is out of range.
func SelectedEqual(input *tensor.Tensor, dim int, got, want *tensor.Tensor) (ok bool, worst int, err error) {
	g, err := selection(input, dim, got)
	if err != nil {
		return false, -1, err
	}
	if !slices.Equal(got.Shape, want.Shape) {
		return false, -1, fmt.Errorf("indices of shape %s, want %s", tensor.ShapeString(got.Shape),
			tensor.ShapeString(want.Shape))
	}
	if input.DType.IsComplex() {
		v := tensor.Data[complex128](input)
		ok, worst = g.sameValues(tensor.Data[int64](got), tensor.Data[int64](want),
			func(a, b int) bool { return v[a] == v[b] || nan(v[a]) && nan(v[b]) })
		return ok, worst, nil
	}
	if input.DType.IsFloat() {
		v := tensor.Data[float64](input)
		ok, worst = g.sameValues(tensor.Data[int64](got), tensor.Data[int64](want),
			func(a, b int) bool { return same(v[a], v[b]) })
		return ok, worst, nil
	}
	v := tensor.Data[int64](input)
	ok, worst = g.sameValues(tensor.Data[int64](got), tensor.Data[int64](want),
		func(a, b int) bool { return v[a] == v[b] })
	return ok, worst, nil
}

// geometry addresses the elements that indices along one dimension select.
type geometry struct {
	length int // of the dimension in the input
	chosen int // indices for each row of it
	inner  int // elements between neighbours of the dimension
}

// selection checks that index can hold indices along dim of input.
func selection(input *tensor.Tensor, dim int, index *tensor.Tensor) (geometry, error) {
	shape := input.Shape
	if len(shape) == 0 {
		shape = []int{1}
	}
	if dim < 0 {
		dim += len(shape)
	}
	if dim < 0 || dim >= len(shape) {
		return geometry{}, fmt.Errorf("dim %d is out of range for shape %s", dim, tensor.ShapeString(input.Shape))
	}
	g := geometry{length: shape[dim], inner: tensor.Numel(shape[dim+1:]), chosen: 1}
	outer := tensor.Numel(shape[:dim])
	switch {
	case len(index.Shape) == len(input.Shape) && len(index.Shape) > 0:
		g.chosen = index.Shape[dim]
	case len(index.Shape) != len(shape)-1:
		return geometry{}, fmt.Errorf("indices of shape %s do not fit dim %d of shape %s",
			tensor.ShapeString(index.Shape), dim, tensor.ShapeString(input.Shape))
	}
	if index.Numel() != outer*g.chosen*g.inner {
		return geometry{}, fmt.Errorf("indices of shape %s do not fit dim %d of shape %s",
			tensor.ShapeString(index.Shape), dim, tensor.ShapeString(input.Shape))
	}
	return g, nil
}

// at is the flat input element that index k selects in place i of the indices.
func (g geometry) at(i int, k int64) int {
	return (i/(g.chosen*g.inner)*g.length+int(k))*g.inner + i%g.inner
}

func (g geometry) sameValues(got, want []int64, equal func(a, b int) bool) (bool, int) {
	for i, k := range got {
		if k == want[i] {
			continue
		}
		if k < 0 || k >= int64(g.length) || !equal(g.at(i, k), g.at(i, want[i])) {
			return false, i
		}
	}
	return true, -1
}

// Distinct reports whether the indices along dim are all different within each
// row, as those of sort and topk are, and in [0, length). If not, it also
// returns the flat number of the first that is not.
func Distinct(index *tensor.Tensor, dim, length int) (ok bool, worst int) {
	if len(index.Shape) == 0 {
		if k := tensor.At[int64](index, 0); k < 0 || k >= int64(length) {
			return false, 0
		}
		return true, -1
	}
	if dim < 0 {
		dim += len(index.Shape)
	}
	v := tensor.Data[int64](index)
	n, inner := index.Shape[dim], tensor.Numel(index.Shape[dim+1:])
	seen := make([]int, length) // row, counted from 1, that used the index last
	row := 0
	for base := 0; base < len(v); base += n * inner {
		for j := range inner {
			row++
			for k := range n {
				i := base + k*inner + j
				if v[i] < 0 || v[i] >= int64(length) || seen[v[i]] == row {
					return false, i
				}
				seen[v[i]] = row
			}
		}
	}
	return true, -1
}

// Unordered reports whether two tensors hold the same values in any order, for
// ops whose order is not defined: unique(sorted=False), nonzero of a set. NaN
// equals NaN. Both are read in got's kind of number; the shapes may differ.
func Unordered(got, want *tensor.Tensor) bool {
	if got.Numel() != want.Numel() {
		return false
	}
	switch got.DType.Kind() {
	case tensor.KindFloat:
		return sameSet(tensor.Data[float64](got), tensor.Data[float64](want), cmp.Compare[float64])
	case tensor.KindComplex:
		return sameSet(tensor.Data[complex128](got), tensor.Data[complex128](want), func(a, b complex128) int {
			if c := cmp.Compare(real(a), real(b)); c != 0 {
				return c
			}
			return cmp.Compare(imag(a), imag(b))
		})
	}
	return sameSet(tensor.Data[int64](got), tensor.Data[int64](want), cmp.Compare[int64])
}

func sameSet[T any](a, b []T, compare func(a, b T) int) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, compare)
	slices.SortFunc(b, compare)
	return slices.EqualFunc(a, b, func(x, y T) bool { return compare(x, y) == 0 })
}
