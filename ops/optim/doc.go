// Package optim declares fused steps of optimizers.
package optim

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(optimizerOps, functionalOps)
}
