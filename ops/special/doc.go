// Package special declares special functions: gamma, error and Bessel
// functions, polynomials.
package special

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		specialOps,
		besselOps,
		polynomialOps,
	)
}
