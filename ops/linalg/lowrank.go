package linalg

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// lowRankOps start from random matrices; the vectors they find have random
// signs besides, so there is nothing to compose: only shapes are determined.
var lowRankOps = []*opdef.Entry{
	opdef.Op[svdLowRankArgs]{
		Schema: "svd_lowrank(Tensor A, int? q=6, int niter=2, Tensor? M=None) -> (Tensor U, Tensor S, Tensor V)",
		Names:  "functional.svd_lowrank svd_lowrank",
		Doc: opdef.Doc{Summary: "The largest singular values and vectors of matrices, approximately",
			Formula: "A - M = U @ diag(S) @ V^H", Notes: "Only shape and dtype are determined.",
			Source: "torch.svd_lowrank"},
		Traits: opdef.Traits{
			Random:  elements.DrawsRandomNumbers,
			Trivial: true,
			NoGrad:  "the vectors are random",
		},

		Kernel: func(a *svdLowRankArgs) ([]*tensor.Tensor, error) {
			if a.Niter < 0 {
				return nil, opdef.Refuse("niter", "want 0 or more, got %d", a.Niter)
			}
			return lowRank(a.A, elements.OrElse(a.Q, 6))
		},
		Cases: func(g opdef.Gen) []*svdLowRankArgs {
			q := 2
			return []*svdLowRankArgs{{g.Normal(tensor.Float64, 4, 3), &q, 2, nil}, {g.Normal(tensor.Float32, 2, 7, 8),
				nil, 1, nil}}
		},
	}.Entry(),
	opdef.Op[pcaLowRankArgs]{
		Schema: "pca_lowrank(Tensor A, int? q=None, bool center=True, int niter=2) -> (Tensor U, Tensor S, Tensor V)",
		Names:  "functional.pca_lowrank pca_lowrank",
		Doc: opdef.Doc{Summary: "The principal components of matrices, approximately",
			Formula: "A - mean(A) = U @ diag(S) @ V^H", Notes: "Only shape and dtype are determined.",
			Source: "torch.pca_lowrank"},
		Traits: opdef.Traits{
			Random:  elements.DrawsRandomNumbers,
			Trivial: true,
			NoGrad:  "the vectors are random",
		},

		Kernel: func(a *pcaLowRankArgs) ([]*tensor.Tensor, error) {
			q := 6
			if s := a.A.Shape; len(s) >= 2 {
				q = min(q, s[len(s)-2], s[len(s)-1])
			}
			return lowRank(a.A, elements.OrElse(a.Q, q))
		},
		Cases: opdef.Calls[pcaLowRankArgs](`f64[4, 3], q=2; f32[2, 3, 8], center=False`),
	}.Entry(),
}

type svdLowRankArgs struct {
	A     *tensor.Tensor
	Q     *int
	Niter int
	M     *tensor.Tensor
}

type pcaLowRankArgs struct {
	A      *tensor.Tensor
	Q      *int
	Center bool
	Niter  int
}

// lowRank are zeros in the shapes of q singular vectors and values.
func lowRank(a *tensor.Tensor, q int) ([]*tensor.Tensor, error) {
	if a.Dim() < 2 || a.DType.Kind() < tensor.KindFloat {
		return nil, opdef.Refuse("A", "want matrices of floating numbers, got %s", a.Meta())
	}
	batch, m, n := a.Shape[:a.Dim()-2], a.Shape[a.Dim()-2], a.Shape[a.Dim()-1]
	if q < 0 || q > min(m, n) {
		return nil, opdef.Refuse("q", "want a number from 0 to %d, got %d", min(m, n), q)
	}
	of := func(dt tensor.DType, shape ...int) *tensor.Tensor {
		return elements.Zeros(dt, append(slices.Clone(batch), shape...))
	}
	return []*tensor.Tensor{of(a.DType, m, q), of(a.DType.Real(), q), of(a.DType, n, q)}, nil
}
