package ops

import (
	"math"
	"math/rand/v2"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
)

// pseudoinverseOps take small singular values for zero.
var pseudoinverseOps = []*opdef.Entry{
	matrixOp(opdef.Op[pinvArgs]{
		Schema: "pinv(Tensor A, float? rcond=None, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor",
		Names:  "linalg.pinv pinverse Tensor.pinverse",
		Doc:    opdef.Doc{Summary: "Pseudoinverse", Formula: "V @ diag(1/S) @ U^H over the singular values above the tolerance", Notes: "The tolerance is max(atol, rtol*S[0]); rtol is max(m, n)*eps by default.", Source: "torch.linalg.pinv"},
		Cases: func(r *rand.Rand) []*pinvArgs {
			g := opdef.Gen{R: r}
			return []*pinvArgs{{A: g.Normal(tensor.Float64, 4, 3)}, {A: g.Normal(tensor.Float64, 2, 2, 3)}, {A: g.Normal(tensor.Complex128, 4, 2)}, {A: g.Normal(tensor.Float32, 3, 2)}}
		},
	}, pinvPlan),
	matrixOp(opdef.Op[rankArgs]{
		Schema: "matrix_rank(Tensor A, float? tol=None, bool hermitian=False, *, float? atol=None, float? rtol=None) -> Tensor",
		Names:  "linalg.matrix_rank",
		Doc:    opdef.Doc{Summary: "Number of singular values above a tolerance", Formula: "count(S > max(atol, rtol*S[0]))", Notes: "rtol is max(m, n)*eps by default.", Source: "torch.linalg.matrix_rank"},
		NoGrad: "a count",
		Cases: func(r *rand.Rand) []*rankArgs {
			g := opdef.Gen{R: r}
			return []*rankArgs{{A: g.Normal(tensor.Float64, 2, 4, 3)}, {A: g.Normal(tensor.Complex64, 3, 3)}}
		},
	}, func(a *rankArgs) (*matrixCall, error) {
		if err := matrixArg("A", a.A, a.Hermitian); err != nil {
			return nil, err
		}
		atol := a.Atol
		if atol == nil {
			atol = a.Tol
		}
		t := tolerance(a.A, atol, a.Rtol)
		return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{a.A}, ranks: []int{2}, outs: []matrixOut{{tensor.Int64, nil}}, run: algorithm{rankOf[float64](t), rankOf[complex128](t)}}, nil
	}),
}

type (
	pinvArgs struct {
		A                 *tensor.Tensor
		Rcond, Atol, Rtol *float64
		Hermitian         bool
	}
	rankArgs struct {
		A          *tensor.Tensor
		Tol        *float64
		Hermitian  bool
		Atol, Rtol *float64
	}
)

// tolerance gives, from the largest singular value, what counts as zero.
func tolerance(t *tensor.Tensor, atol, rtol *float64) func(largest float64) float64 {
	r, c := lastTwo(t)
	abs, rel := 0.0, float64(max(r, c))*t.DType.Real().Eps()
	if atol != nil {
		abs, rel = *atol, 0
	}
	if rtol != nil {
		rel = *rtol
	}
	return func(largest float64) float64 { return math.Max(abs, rel*largest) }
}

func rankOf[T kernel.Field](tol func(float64) float64) func(in []kernel.Mat[T]) []kernel.Mat[T] {
	return func(in []kernel.Mat[T]) []kernel.Mat[T] {
		_, s, _ := kernel.SVD(in[0])
		k := 0
		for _, x := range s {
			if x > tol(s[0]) {
				k++
			}
		}
		return []kernel.Mat[T]{column[T]([]float64{float64(k)})}
	}
}

func pinvPlan(a *pinvArgs) (*matrixCall, error) {
	if err := matrixArg("A", a.A, a.Hermitian); err != nil {
		return nil, err
	}
	r, c := lastTwo(a.A)
	rtol := a.Rtol
	if rtol == nil {
		rtol = a.Rcond
	}
	t := tolerance(a.A, a.Atol, rtol)
	return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{a.A}, ranks: []int{2}, outs: []matrixOut{{a.A.DType, []int{c, r}}}, cond: true,
		run: algorithm{pinv[float64](t, a.Hermitian), pinv[complex128](t, a.Hermitian)}, back: algorithm{pinvGrad[float64](a.Hermitian), pinvGrad[complex128](a.Hermitian)}}, nil
}

func pinv[T kernel.Field](tol func(float64) float64, hermitian bool) func(in []kernel.Mat[T]) []kernel.Mat[T] {
	return func(in []kernel.Mat[T]) []kernel.Mat[T] {
		a := in[0]
		if hermitian { // the lower triangle alone is read
			a = kernel.Symmetrize(a, false)
		}
		u, s, vh := kernel.SVD(a)
		d := make([]T, len(s))
		for i, x := range s {
			if x > tol(s[0]) {
				d[i] = kernel.From[T](1 / x)
			}
		}
		return []kernel.Mat[T]{vh.H().Mul(kernel.Diag(d)).Mul(u.H())}
	}
}

// pinvGrad holds at constant rank.
// Source: Golub and Pereyra, "The differentiation of pseudo-inverses", 1973
func pinvGrad[T kernel.Field](hermitian bool) func(in []kernel.Mat[T]) []kernel.Mat[T] {
	return func(in []kernel.Mat[T]) []kernel.Mat[T] {
		a, p, g := in[0], in[1], in[2]
		if hermitian {
			return []kernel.Mat[T]{hermitianPinvGrad(kernel.Symmetrize(a, false), p, g)}
		}
		ph, gh := p.H(), g.H()
		first := p.Mul(gh).Mul(p).H().Scale(-1)
		k := gh.Mul(p).Mul(ph) // (I - A P) k and l (I - P A) have A's shape
		l := ph.Mul(p).Mul(gh)
		return []kernel.Mat[T]{first.Add(1, k).Add(-1, a.Mul(p).Mul(k)).Add(1, l).Add(-1, l.Mul(p).Mul(a))}
	}
}

// hermitianPinvGrad is the gradient through the eigenvalues and eigenvectors,
// which torch takes; it is not Hermitian itself. Eigenvalues that p counts as
// zero stay zero.
func hermitianPinvGrad[T kernel.Field](a, p, g kernel.Mat[T]) kernel.Mat[T] {
	w, v := kernel.Eigh(a)
	f := v.H().Mul(p).Mul(v).Diagonal()
	h := v.H().Mul(g.Add(1, g.H())).Mul(v)
	inner := h.Map(func(i, j int, x T) T {
		if i == j {
			return -x * f[i] * f[i] / 2
		}
		return x * f[j] / kernel.From[T](w[j]-w[i])
	})
	return v.Mul(inner).Mul(v.H())
}
