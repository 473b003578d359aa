// Package matmul declares products that sum over labels: matrix products,
// linear layers, einsum. All are one contraction.
package matmul

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		matmulOps,
		einsumOps,
	)
}
