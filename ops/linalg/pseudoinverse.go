package linalg

import (
	"math"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/tensor"
)

// pseudoinverseOps take small singular values for zero. They are no compositions:
// an error bound through singular vectors, element by element, is infinite where
// values are near each other, though the pseudoinverse does not depend on them.
var pseudoinverseOps = []*opdef.Entry{
	matrixOp(matrixDecl[pinvArgs]{
		Schema: "pinv(Tensor A, Tensor|Scalar? rcond=None, bool hermitian=False, *, Tensor|Scalar? atol=None, " +
			"Tensor|Scalar? rtol=None) -> Tensor",
		Names:  "linalg.pinv pinverse Tensor.pinverse",
		Traits: opdef.Traits{Autocast: opdef.AutocastInner},
		Doc: opdef.Doc{Summary: "Pseudoinverse",
			Formula: "V @ diag(1/S) @ U^H over the singular values above the tolerance", Notes: toleranceNote},
		Bounds: opdef.Bounds[*matrixOpCall[pinvArgs]]{
			GradScale: func(m *matrixOpCall[pinvArgs], g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				// The terms are products of two pseudoinverses and the gradient, one of
				// them also with A.
				norm := func(t *tensor.Tensor) float64 {
					return opdef.MaxAbs(reduction.VectorNorm(t, 2, []int{t.Dim() - 2, t.Dim() - 1}, false))
				}
				p, x := norm(g.Outs[0]), norm(m.ins[0])
				s := math.Min(1+x*p, 1e6) * p * p * norm(g.Out[0])
				return opdef.Grads{"A": {tensor.Full(tensor.Float64, m.ins[0].Shape, s)}}, nil
			},
		},
		Cases: opdef.Calls[pinvArgs](`
			f64[4, 3]; f64[2, 2, 3]; c128[4, 2]; f32[3, 2]
			f64[2, 3, 3], atol=f64[2]{1e-09..1e-08 fixed}, rtol=1e-09`),
	}, func(a *pinvArgs) (*matrixCall, error) {
		rtol := a.Rtol
		if rtol == nil {
			rtol = a.Rcond
		}
		m, err := tolerant(a.A, a.Hermitian, a.Atol, rtol)
		if err != nil {
			return nil, err
		}
		r, c := lastTwo(a.A)
		m.outs, m.cond = []matrixOut{{a.A.DType, []int{c, r}}}, true
		m.run = algorithm{pinv[float64](a.Hermitian), pinv[complex128](a.Hermitian)}
		m.back = algorithm{pinvGrad[float64], pinvGrad[complex128]}
		return m, nil
	}),
	matrixOp(matrixDecl[rankArgs]{
		Schema: "matrix_rank(Tensor A, Tensor|Scalar? tol=None, bool hermitian=False, *, Tensor|Scalar? atol=None, " +
			"Tensor|Scalar? rtol=None) -> Tensor",
		Names: "linalg.matrix_rank",
		Doc: opdef.Doc{Summary: "Number of singular values above a tolerance",
			Formula: "count(S > max(atol, rtol*S[0]))", Notes: toleranceNote},
		Traits: opdef.Traits{NoGrad: "a count"},
		Cases: opdef.Calls[rankArgs](`
			f64[2, 4, 3]; c64[3, 3]; f64[2, 4, 3], atol=f64[2]{0.1..1}
			f32[3, 3], atol=f32[2]{0..1}, rtol=f32[2]{0..1}; f32[3, 3], tol=0.5, hermitian=True`),
	}, func(a *rankArgs) (*matrixCall, error) {
		atol := a.Atol
		if atol == nil {
			atol = a.Tol
		}
		m, err := tolerant(a.A, a.Hermitian, atol, a.Rtol)
		if err != nil {
			return nil, err
		}
		m.outs, m.run = []matrixOut{{tensor.Int64, nil}}, algorithm{rankOf[float64](a.Hermitian),
			rankOf[complex128](a.Hermitian)}
		return m, nil
	}),
}

const toleranceNote = "The tolerance of each matrix is max(atol, rtol*S[0]); rtol is max(m, n)*eps by default, 0 " +
	"where atol is positive."

type (
	pinvArgs struct {
		A, Rcond   *tensor.Tensor
		Hermitian  bool
		Atol, Rtol *tensor.Tensor
	}
	rankArgs struct {
		A, Tol     *tensor.Tensor
		Hermitian  bool
		Atol, Rtol *tensor.Tensor
	}
)

// tolerant is a call on matrices and, as further inputs, what counts as zero:
// an absolute tolerance and one relative to the largest singular value.
func tolerant(t *tensor.Tensor, hermitian bool, atol, rtol *tensor.Tensor) (*matrixCall, error) {
	if err := matrixArg("A", t, hermitian); err != nil {
		return nil, err
	}
	for i, tol := range []*tensor.Tensor{atol, rtol} {
		if tol != nil && tol.DType.IsComplex() {
			return nil, opdef.Refuse([]string{"atol", "rtol"}[i], "want real numbers, got %s", tol.Meta())
		}
	}
	byDefault := roundingTolerance(t)
	switch {
	case atol == nil:
		atol = tensor.Scalar(tensor.Float64, 0.0)
		if rtol == nil {
			rtol = tensor.Scalar(tensor.Float64, byDefault)
		}
	case rtol == nil:
		rtol = opdef.Map(tensor.Float64, atol, func(x float64) float64 {
			if x > 0 {
				return 0
			}
			return byDefault
		})
	}
	return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{t, opdef.Cast(atol, tensor.Float64),
		opdef.Cast(rtol, tensor.Float64)}, ranks: []int{2, 0, 0}, fixed: 2}, nil
}

// roundingTolerance is what singular values of t are compared with, relative to
// the largest, where no tolerance is given.
func roundingTolerance(t *tensor.Tensor) float64 {
	r, c := lastTwo(t)
	return float64(max(r, c)) * t.DType.Real().Eps()
}

// truncated is the pseudoinverse of a, its singular values and how many of them
// are above the tolerance, which follows from the largest.
func truncated[T kernel.Field](a kernel.Mat[T], tol func(largest float64) float64) (p kernel.Mat[T], s []float64,
	rank int) {
	u, s, vh := kernel.SVD(a)
	d := make([]T, len(s))
	for i, x := range s {
		if x > tol(s[0]) {
			d[i] = kernel.From[T](1 / x)
			rank++
		}
	}
	return vh.H().Mul(kernel.Diag(d)).Mul(u.H()), s, rank
}

// tolerated is truncated for the inputs of a tolerant call.
func tolerated[T kernel.Field](in matrices[T], hermitian bool) (p kernel.Mat[T], rank int) {
	a := in[0]
	if hermitian { // the lower triangle alone is read
		a = kernel.Symmetrize(a, false)
	}
	p, _, rank = truncated(a, func(largest float64) float64 {
		return math.Max(kernel.Re(in[1].D[0]), kernel.Re(in[2].D[0])*largest)
	})
	return p, rank
}

func rankOf[T kernel.Field](hermitian bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		_, rank := tolerated(in, hermitian)
		return matrices[T]{column[T]([]float64{float64(rank)})}
	}
}

func pinv[T kernel.Field](hermitian bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		p, _ := tolerated(in, hermitian)
		return matrices[T]{p}
	}
}

// pinvGrad holds at constant rank. As in torch, a Hermitian matrix has the same
// gradient, of all its elements.
// Source: Golub and Pereyra, "The differentiation of pseudo-inverses", 1973
func pinvGrad[T kernel.Field](in matrices[T]) matrices[T] {
	a, p, g := in[0], in[len(in)-2], in[len(in)-1]
	ph, gh := p.H(), g.H()
	first := p.Mul(gh).Mul(p).H().Scale(-1)
	k := gh.Mul(p).Mul(ph) // (I - A P) k and l (I - P A) have A's shape
	l := ph.Mul(p).Mul(gh)
	return matrices[T]{first.Add(1, k).Add(-1, a.Mul(p).Mul(k)).Add(1, l).Add(-1, l.Mul(p).Mul(a))}
}
