package ops

import (
	"fmt"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// Where values tie, an op may return the index of any of them. Recorded
// indices are right if they point to the values of the reference.

// acceptRows decides on recorded indices into the rows of x along dim: each
// must be in range, point to the value wanted in its place, and, if distinct,
// occur once in its row.
func acceptRows(x *tensor.Tensor, dim int, want, got *tensor.Tensor, distinct bool) opdef.Acceptance {
	values, indices := lastDim(want, dim), lastDim(got, dim)
	rows, n := rowsOf(lastDim(x, dim))
	k := 0
	if rows > 0 {
		k = values.Numel() / rows
	}
	keys, found, idx := newKeys(x), newKeys(want), make([]int64, k)
	var lastRow []int // for each place of x the row, from 1, that pointed to it last
	if distinct {
		lastRow = make([]int, n)
	}
	for row := range rows {
		own := keys.row(row*n, n, lastDim(x, dim))
		wanted := found.row(row*k, k, values)
		tensor.Load(indices, row*k, idx)
		for i, p := range idx {
			switch {
			case p < 0 || p >= int64(n):
				return opdef.Acceptance{Reason: fmt.Sprintf("index %d in row %d is out of range [0, %d)", p, row, n)}
			case own[p] != wanted[i]:
				return opdef.Acceptance{Reason: fmt.Sprintf("index %d in row %d does not point to the value in place %d", p, row, i)}
			case distinct && lastRow[p] == row+1:
				return opdef.Acceptance{Reason: fmt.Sprintf("an index occurs twice in row %d", row)}
			}
			if distinct {
				lastRow[p] = row + 1
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
