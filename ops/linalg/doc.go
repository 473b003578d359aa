// Package linalg declares linear algebra on batches of matrices:
// factorizations, eigenvalues, systems of equations, norms.
package linalg

import (
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	table := slices.Concat(
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
		[]*opdef.Entry{vandermonde, powersum},
	)
	for _, e := range table {
		if slices.Contains(float32OnCPU, e.Op()) {
			e.WithAutocast(opdef.AutocastFloat32)
		}
	}
	return table
}

// float32OnCPU are the operators whose arguments torch.autocast casts to float32 on the CPU. CUDA has no kernels of
// 16 bits for them.
var float32OnCPU = strings.Fields("cholesky cholesky_ex cholesky_inverse cholesky_solve inverse inv_ex linalg_solve " +
	"triangular_solve lu lu_solve householder_product ormqr geqrf qr linalg_qr svd linalg_svd svdvals eig eigvals eigh " +
	"eigvalsh symeig linalg_lstsq matrix_rank cond tensorinv tensorsolve linalg_matrix_norm")
