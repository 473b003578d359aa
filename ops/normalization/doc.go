// Package normalization declares layers that scale elements by statistics or
// norms of them: batch, layer, group and local response normalization.
package normalization

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		normOps,
		nativeNormOps,
		syncNormOps,
		scalingOps,
		weightOps,
	)
}
