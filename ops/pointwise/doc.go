// Package pointwise declares operators on one element of each argument:
// arithmetic, powers, trigonometry, comparisons, bits, complex numbers and fake
// quantization.
package pointwise

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		arithmeticOps, addcmulOps, addcdivOps,
		binaryOps,
		pointwiseOps,
		trigOps,
		compareOps,
		bitwiseOps,
		complexOps,
		quantizeOps,
	)
}
