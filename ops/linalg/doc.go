// Package linalg declares linear algebra on batches of matrices:
// factorizations, eigenvalues, systems of equations, norms.
package linalg

import (
	"slices"

	"github.com/optool/optool/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		linalgOps,
		factorOps,
		eigenOps,
		pseudoinverseOps,
		lowRankOps,
		spectralOps,
		systemOps,
		vectorNormOps,
		namedNormOps,
		crossOps,
		[]*opdef.Entry{vandermonde},
	)
}
