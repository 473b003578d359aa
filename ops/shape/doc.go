// Package shape declares operators that rearrange the elements of a tensor:
// views, joins, splits, diagonals, repetitions and padding.
package shape

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return opdef.Moving(slices.Concat(
		shapeOps,
		arrangeOps,
		repeatOps,
		bandOps,
		joinOps,
		splitOps,
		padOps,
	)...)
}
