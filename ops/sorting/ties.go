package sorting

import (
	"fmt"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Where values tie, an op may return the index of any of them. Recorded
// indices are right if they point to the values of the reference.

// acceptRows decides on recorded indices into the rows of x along dim: each
// must be in range, point to the value wanted in its place, and, if distinct,
// occur once in its row. Wanted are values, or, if these are nil, what the
// indices reference point to.
func acceptRows(x *tensor.Tensor, dim int, values, reference, got *tensor.Tensor, distinct bool) opdef.Acceptance {
	x, got, reference = lastDim(x, dim), lastDim(got, dim), lastDim(reference, dim)
	rows, n := rowsOf(x)
	_, k := rowsOf(got)
	const block = 1 << 13
	own, idx, ref := tensor.Make[uint64](n), tensor.Make[int64](block), tensor.Make[int64](block)
	var wanted []uint64
	if values != nil {
		values, wanted = lastDim(values, dim), tensor.Make[uint64](block)
	}
	seen := tensor.Make[uint64]((n + 63) / 64) // a bit for each place of x
	for row := range rows {
		clear(seen)
		newKeys(x).load(row*n, own, x)
		for lo := 0; lo < k; lo += block {
			m := min(block, k-lo)
			tensor.Load(got, row*k+lo, idx[:m])
			tensor.Load(reference, row*k+lo, ref[:m])
			if values != nil {
				newKeys(values).load(row*k+lo, wanted[:m], values)
			}
			for i, p := range idx[:m] {
				if p < 0 || p >= int64(n) {
					return opdef.Acceptance{Reason: fmt.Sprintf("index %d in row %d is out of range [0, %d)",
						p, row, n)}
				}
				if values != nil && own[p] != wanted[i] || values == nil && p != ref[i] && own[p] != own[ref[i]] {
					return opdef.Acceptance{Reason: fmt.Sprintf("index %d in row %d does not point to the value in "+
						"place %d", p, row, lo+i)}
				}
				if bit := uint64(1) << (p % 64); distinct {
					if seen[p/64]&bit != 0 {
						return opdef.Acceptance{Reason: fmt.Sprintf("an index occurs twice in row %d", row)}
					}
					seen[p/64] |= bit
				}
			}
		}
	}
	return opdef.Acceptance{OK: true, Rule: "ties"}
}

// sameRows reports whether the rows of two tensors along dim hold the same
// values, in any order.
func sameRows(dim int, want, got *tensor.Tensor) bool {
	w, g := lastDim(want, dim), lastDim(got, dim)
	rows, n := rowsOf(w)
	wk, gk := newKeys(want), newKeys(got)
	for row := range rows {
		a, b := wk.row(row*n, n, w), gk.row(row*n, n, g)
		slices.Sort(a)
		slices.Sort(b)
		if !slices.Equal(a, b) {
			return false
		}
	}
	return true
}

// lastDim moves dimension dim of t to the end; a number becomes a vector.
func lastDim(t *tensor.Tensor, dim int) *tensor.Tensor {
	if t.Dim() == 0 {
		return t.Unsqueeze(0)
	}
	if dim == t.Dim()-1 {
		return t
	}
	order := make([]int, 0, t.Dim())
	for d := range t.Shape {
		if d != dim {
			order = append(order, d)
		}
	}
	return t.Permute(append(order, dim)...)
}

// rowsOf is the number of rows along the last dimension and their length.
func rowsOf(t *tensor.Tensor) (rows, n int) {
	n = t.Shape[t.Dim()-1]
	return tensor.Numel(t.Shape[:t.Dim()-1]), n
}
