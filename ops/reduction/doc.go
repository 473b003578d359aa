// Package reduction declares operators that combine the elements of dimensions:
// sums, products, extrema, moments and running forms of them; and folds for
// other packages: moments, norms of vectors.
package reduction

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		reduceOps,
		extremaOps,
		momentOps,
		cumulativeOps,
		segmentOps,
		[]*opdef.Entry{hashTensor},
	)
}
