// Package distance declares distances and similarities of vectors.
package distance

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		scaledOps,
		distanceOps,
	)
}
