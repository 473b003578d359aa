// Package properties declares operators that tell about tensors without
// computing any.
package properties

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		queryOps,
		shapeQueryOps,
	)
}
