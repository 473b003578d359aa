package ops

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
)

// eigenOps are decompositions into eigenvalues and singular values.
var eigenOps = []*opdef.Entry{
	matrixOp(opdef.Op[eighArgs]{
		Schema: "eigh(Tensor A, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
		Names:  "linalg.eigh",
		Doc:    opdef.Doc{Summary: "Eigenvalues, ascending, and eigenvectors of Hermitian matrices", Formula: "A = V @ diag(w) @ V^H", Notes: "Eigenvectors are defined up to a phase.", Source: "torch.linalg.eigh"},
		Accept: func(a *eighArgs, got, _ []*tensor.Tensor) []opdef.Acceptance {
			upper := a.UPLO == "U" || a.UPLO == "u"
			full := opdef.Cast(hermitianOf(a.A, upper), a.A.DType)
			return acceptFactors(full, got, 1, func(f []kernel.Mat[complex128]) kernel.Mat[complex128] {
				return f[1].Mul(kernel.Diag(f[0].D)).Mul(f[1].H())
			})
		},
		Cases: func(r *rand.Rand) (cs []*eighArgs) {
			for _, a := range positiveCases(r) {
				cs = append(cs, &eighArgs{a.A, "L"})
			}
			return cs
		},
		NoGrad: "eigenvectors are defined up to a phase: eigvalsh has the gradient of the eigenvalues",
	}, func(a *eighArgs) (*matrixCall, error) { return eighPlan(a.A, a.UPLO, true) }),
	matrixOp(opdef.Op[eighArgs]{
		Schema: "eigvalsh(Tensor A, str UPLO='L') -> Tensor",
		Names:  "linalg.eigvalsh",
		Doc:    opdef.Doc{Summary: "Eigenvalues of Hermitian matrices, ascending", Formula: "A = V @ diag(w) @ V^H", Source: "torch.linalg.eigvalsh"},
		Exempt: map[string]string{"gradients": "the gradient is that of a Hermitian perturbation"},
		Cases: func(r *rand.Rand) (cs []*eighArgs) {
			for _, a := range positiveCases(r) {
				cs = append(cs, &eighArgs{a.A, "L"})
			}
			return cs
		},
	}, func(a *eighArgs) (*matrixCall, error) { return eighPlan(a.A, a.UPLO, false) }),
	matrixOp(opdef.Op[svdArgs]{
		Schema: "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
		Names:  "linalg.svd",
		Doc:    svdDoc,
		NoGrad: "singular vectors are defined up to a phase: svdvals has the gradient of the singular values",
		Accept: func(a *svdArgs, got, _ []*tensor.Tensor) []opdef.Acceptance { return acceptSVD(a.A, got, false) },
		Cases: func(r *rand.Rand) []*svdArgs {
			g := opdef.Gen{R: r}
			return []*svdArgs{{g.Normal(tensor.Float64, 4, 3), false, nil}, {g.Normal(tensor.Float64, 2, 3, 4), true, nil}, {g.Normal(tensor.Complex128, 3, 3), true, nil}, {g.Normal(tensor.Float32, 3, 2), false, nil}}
		},
	}, func(a *svdArgs) (*matrixCall, error) { return svdPlan(a.A, a.FullMatrices, false) }),
	matrixOp(opdef.Op[svdSomeArgs]{
		Schema: "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
		Doc:    svdDoc,
		NoGrad: "singular vectors are defined up to a phase: svdvals has the gradient of the singular values",
		Accept: func(a *svdSomeArgs, got, want []*tensor.Tensor) []opdef.Acceptance {
			if !a.ComputeUv {
				return unaccepted(want)
			}
			return acceptSVD(a.Self, got, true)
		},
		Cases: func(r *rand.Rand) []*svdSomeArgs {
			g := opdef.Gen{R: r}
			return []*svdSomeArgs{{g.Normal(tensor.Float64, 4, 3), true, true}, {g.Normal(tensor.Float32, 3, 4), false, true}}
		},
	}, func(a *svdSomeArgs) (*matrixCall, error) {
		m, err := svdPlan(a.Self, !a.Some || !a.ComputeUv, true)
		if err == nil && !a.ComputeUv { // torch returns zeros in place of the vectors
			m.run = algorithm{zeroVectors(m.run.f), zeroVectors(m.run.c)}
		}
		return m, err
	}),
	matrixOp(opdef.Op[svdvalsArgs]{
		Schema: "svdvals(Tensor A, *, str? driver=None) -> Tensor",
		Names:  "linalg.svdvals",
		Doc:    opdef.Doc{Summary: "Singular values, descending", Formula: "A = U @ diag(S) @ V^H", Source: "torch.linalg.svdvals"},
		Cases: func(r *rand.Rand) []*svdvalsArgs {
			g := opdef.Gen{R: r}
			return []*svdvalsArgs{{g.Normal(tensor.Float64, 4, 3), nil}, {g.Normal(tensor.Complex128, 2, 3, 4), nil}, {g.Normal(tensor.Float32, 3, 2), nil}}
		},
	}, func(a *svdvalsArgs) (*matrixCall, error) {
		if err := matrixArg("A", a.A, false); err != nil {
			return nil, err
		}
		r, c := lastTwo(a.A)
		return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{a.A}, ranks: []int{2}, outs: []matrixOut{{a.A.DType.Real(), []int{min(r, c)}}}, amplify: 32,
			run: algorithm{svdvals[float64], svdvals[complex128]}, back: algorithm{svdvalsGrad[float64], svdvalsGrad[complex128]}}, nil
	}),
	matrixOp(opdef.Op[matrixArgs]{
		Schema: "eig(Tensor A) -> (Tensor eigenvalues, Tensor eigenvectors)",
		Names:  "linalg.eig",
		Doc:    opdef.Doc{Summary: "Eigenvalues and eigenvectors of square matrices", Formula: "A @ V = V @ diag(w)", Notes: "In no particular order; eigenvectors are defined up to a phase.", Source: "torch.linalg.eig"},
		NoGrad: "eigenvectors are defined up to a phase",
		Accept: func(a *matrixArgs, got, _ []*tensor.Tensor) []opdef.Acceptance {
			return acceptFactors(a.A, got, -1, func(f []kernel.Mat[complex128]) kernel.Mat[complex128] {
				vt := f[1].H()
				x, _ := kernel.Solve(vt, f[1].Mul(kernel.Diag(f[0].D)).H()) // A = V diag(w) V^-1
				return x.H()
			})
		},
		Cases: squareCases,
	}, func(a *matrixArgs) (*matrixCall, error) { return eigPlan(a.A, true) }),
	matrixOp(opdef.Op[matrixArgs]{
		Schema: "eigvals(Tensor A) -> Tensor",
		Names:  "linalg.eigvals",
		Doc:    opdef.Doc{Summary: "Eigenvalues of square matrices", Formula: "det(A - w*I) = 0", Notes: "In no particular order.", Source: "torch.linalg.eigvals"},
		NoGrad: "in no particular order",
		Accept: acceptEigvals,
		Cases:  squareCases,
	}, func(a *matrixArgs) (*matrixCall, error) { return eigPlan(a.A, false) }),
}

type (
	eighArgs struct {
		A    *tensor.Tensor
		UPLO string
	}
	svdArgs struct {
		A            *tensor.Tensor
		FullMatrices bool
		Driver       *string
	}
	svdSomeArgs struct {
		Self            *tensor.Tensor
		Some, ComputeUv bool
	}
	svdvalsArgs struct {
		A      *tensor.Tensor
		Driver *string
	}
)

var svdDoc = opdef.Doc{Summary: "Singular value decomposition", Formula: "A = U @ diag(S) @ V^H", Notes: "Singular vectors are defined up to a phase.", Source: "torch.linalg.svd"}

// hermitianOf completes a batch of matrices from one triangle.
func hermitianOf(t *tensor.Tensor, upper bool) *tensor.Tensor {
	r, c := lastTwo(t)
	f := func(in []kernel.Mat[complex128]) []kernel.Mat[complex128] {
		return []kernel.Mat[complex128]{kernel.Symmetrize(in[0], upper)}
	}
	ts, err := eachMatrix(t.Shape[:t.Dim()-2], []*tensor.Tensor{t}, []int{2}, []matrixOut{{tensor.Complex128, []int{r, c}}}, f)
	if err != nil {
		panic(err) // a batch expands to itself
	}
	return ts[0]
}

func eighPlan(t *tensor.Tensor, uplo string, vectors bool) (*matrixCall, error) {
	if err := matrixArg("A", t, true); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"L", "U", "l", "u"}, uplo) {
		return nil, opdef.Refuse("UPLO", "want L or U, got %q", uplo)
	}
	n, _ := lastTwo(t)
	upper := uplo == "U" || uplo == "u"
	m := &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{t}, ranks: []int{2}, outs: []matrixOut{{t.DType.Real(), []int{n}}}, run: algorithm{eigh[float64](upper), eigh[complex128](upper)}}
	if vectors {
		m.outs = append(m.outs, matrixOut{t.DType, []int{n, n}})
	} else {
		m.amplify = 32
		m.back = algorithm{eigvalshGrad[float64](upper), eigvalshGrad[complex128](upper)}
	}
	return m, nil
}

func eigvalshGrad[T kernel.Field](upper bool) func(in []kernel.Mat[T]) []kernel.Mat[T] {
	return func(in []kernel.Mat[T]) []kernel.Mat[T] {
		_, v := kernel.Eigh(kernel.Symmetrize(in[0], upper))
		return []kernel.Mat[T]{v.Mul(kernel.Diag(in[2].D)).Mul(v.H())}
	}
}

func eigh[T kernel.Field](upper bool) func(in []kernel.Mat[T]) []kernel.Mat[T] {
	return func(in []kernel.Mat[T]) []kernel.Mat[T] {
		w, v := kernel.Eigh(kernel.Symmetrize(in[0], upper))
		return []kernel.Mat[T]{column[T](w), v}
	}
}

func svdPlan(t *tensor.Tensor, full, plainV bool) (*matrixCall, error) {
	if err := matrixArg("A", t, false); err != nil {
		return nil, err
	}
	r, c := lastTwo(t)
	k := min(r, c)
	u, v := []int{r, k}, []int{k, c}
	if full {
		u, v = []int{r, r}, []int{c, c}
	}
	if plainV {
		v = []int{v[1], v[0]}
	}
	arg := "A"
	if plainV {
		arg = "self"
	}
	return &matrixCall{args: []string{arg}, ins: []*tensor.Tensor{t}, ranks: []int{2}, outs: []matrixOut{{t.DType, u}, {t.DType.Real(), []int{k}}, {t.DType, v}},
		run: algorithm{svd[float64](full, plainV), svd[complex128](full, plainV)}}, nil
}

func svd[T kernel.Field](full, plainV bool) func(in []kernel.Mat[T]) []kernel.Mat[T] {
	return func(in []kernel.Mat[T]) []kernel.Mat[T] {
		u, s, vh := kernel.SVD(in[0])
		if full {
			u = kernel.Complete(u, u.R)
			vh = kernel.Complete(vh.H(), vh.C).H()
		}
		if plainV {
			vh = vh.H()
		}
		return []kernel.Mat[T]{u, column[T](s), vh}
	}
}

// zeroVectors keeps the singular values alone.
func zeroVectors[T kernel.Field](f func(in []kernel.Mat[T]) []kernel.Mat[T]) func(in []kernel.Mat[T]) []kernel.Mat[T] {
	return func(in []kernel.Mat[T]) []kernel.Mat[T] {
		out := f(in)
		out[0], out[2] = kernel.Zeros[T](out[0].R, out[0].C), kernel.Zeros[T](out[2].R, out[2].C)
		return out
	}
}

func svdvals[T kernel.Field](in []kernel.Mat[T]) []kernel.Mat[T] {
	_, s, _ := kernel.SVD(in[0])
	return []kernel.Mat[T]{column[T](s)}
}

func svdvalsGrad[T kernel.Field](in []kernel.Mat[T]) []kernel.Mat[T] {
	u, _, vh := kernel.SVD(in[0])
	return []kernel.Mat[T]{u.Mul(kernel.Diag(in[2].D)).Mul(vh)}
}

func eigPlan(t *tensor.Tensor, vectors bool) (*matrixCall, error) {
	if err := matrixArg("A", t, true); err != nil {
		return nil, err
	}
	n, _ := lastTwo(t)
	dt := t.DType.Complex()
	m := &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{t}, ranks: []int{2}, outs: []matrixOut{{dt, []int{n}}}}
	if vectors {
		m.outs = append(m.outs, matrixOut{dt, []int{n, n}})
	}
	m.run.c = func(in []kernel.Mat[complex128]) []kernel.Mat[complex128] {
		w, v := kernel.Eig(in[0])
		return []kernel.Mat[complex128]{{R: n, C: 1, D: w}, v}
	}
	return m, nil
}

func acceptSVD(a *tensor.Tensor, got []*tensor.Tensor, plainV bool) []opdef.Acceptance {
	return acceptFactors(a, got, 0, func(f []kernel.Mat[complex128]) kernel.Mat[complex128] {
		u, s, vh := f[0], f[1].D, f[2]
		if plainV {
			vh = vh.H()
		}
		return u.Cols(0, len(s)).Mul(kernel.Diag(s)).Mul(vh.Rows(0, len(s)))
	})
}

// acceptEigvals pairs each eigenvalue with the nearest one left.
func acceptEigvals(a *matrixArgs, got, want []*tensor.Tensor) []opdef.Acceptance {
	n, _ := lastTwo(a.A)
	x, y := tensor.Data[complex128](got[0]), slices.Clone(tensor.Data[complex128](want[0]))
	bound := 64 * float64(max(n, 4)) * a.A.DType.Real().Eps() * math.Max(opdef.MaxAbs(a.A)*float64(n), math.SmallestNonzeroFloat64)
	for at := 0; at < len(x); at += max(n, 1) {
		left := y[at : at+n]
		for _, v := range x[at : at+n] {
			best := 0
			for i, w := range left {
				if kernel.Abs(w-v) < kernel.Abs(left[best]-v) {
					best = i
				}
			}
			if !(kernel.Abs(left[best]-v) <= bound) {
				return unaccepted(want)
			}
			left[best] = left[len(left)-1]
			left = left[:len(left)-1]
		}
	}
	return []opdef.Acceptance{{OK: true, Rule: "eigenvalues in any order"}}
}
