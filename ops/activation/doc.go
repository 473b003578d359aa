// Package activation declares activation functions and softmax.
package activation

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		activationOps,
		randomOps,
		softmaxOps,
	)
}
