// Package sorting declares operators that order elements: sort, top-k, median,
// unique elements and search.
package sorting

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		sortOps,
		uniqueOps,
	)
}
