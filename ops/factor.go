package ops

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
)

// factorOps factorise matrices. Factors that are defined up to sign, phase or
// order are accepted by reconstruction.
var factorOps = []*opdef.Entry{
	matrixOp(opdef.Op[upperArgs]{
		Schema: "cholesky(Tensor A, bool upper=False) -> Tensor",
		DIOPI:  "cholesky_ex input=A",
		Names:  "linalg.cholesky cholesky Tensor.cholesky",
		Doc:    choleskyDoc,
		Exempt: map[string]string{"gradients": "the gradient is that of a Hermitian perturbation"},
		Cases:  upperCases,
	}, func(a *upperArgs) (*matrixCall, error) {
		m, err := choleskyPlan(a.A, a.Upper, false)
		if err != nil {
			return nil, err
		}
		n, _ := lastTwo(a.A)
		data := tensor.Data[complex128](a.A)
		for i := 0; n > 0 && i < len(data); i += n * n {
			c := kernel.Mat[complex128]{R: n, C: n, D: data[i : i+n*n]}
			if a.Upper {
				c = kernel.Symmetrize(c, true)
			}
			if _, fail := kernel.Cholesky(c); fail > 0 {
				return nil, opdef.Refuse("A", "matrix %d is not positive definite: its leading minor of order %d is not", i/(n*n), fail)
			}
		}
		return m, nil
	}),
	matrixOp(opdef.Op[choleskyExArgs]{
		Schema: "cholesky_ex(Tensor A, *, bool upper=False, bool check_errors=False) -> (Tensor, Tensor)",
		DIOPI:  "cholesky_ex input=A",
		Names:  "linalg.cholesky_ex",
		Doc:    choleskyDoc,
		Exempt: map[string]string{"gradients": "the gradient is that of a Hermitian perturbation"},
		Cases: func(r *rand.Rand) (cs []*choleskyExArgs) {
			for _, a := range upperCases(r) {
				cs = append(cs, &choleskyExArgs{a.A, a.Upper, false})
			}
			return cs
		},
	}, func(a *choleskyExArgs) (*matrixCall, error) { return choleskyPlan(a.A, a.Upper, true) }),
	matrixOp(opdef.Op[factorArgs]{
		Schema: "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
		Doc:    opdef.Doc{Summary: "Inverse of a matrix given by its Cholesky factor", Formula: "(L @ L^H)^-1, or (U^H @ U)^-1", Source: "torch.cholesky_inverse"},
		Exempt: map[string]string{"gradients": "torch does not cut the gradient to the triangle that is read"},
		Cases: func(r *rand.Rand) (cs []*factorArgs) {
			for _, a := range upperCases(r) {
				cs = append(cs, &factorArgs{a.A, a.Upper})
			}
			return cs
		},
	}, func(a *factorArgs) (*matrixCall, error) {
		if err := matrixArg("self", a.Self, true); err != nil {
			return nil, err
		}
		m := unaryMatrix(a.Self, algorithm{choleskyInverse[float64](a.Upper), choleskyInverse[complex128](a.Upper)}, algorithm{choleskyInverseGrad[float64](a.Upper), choleskyInverseGrad[complex128](a.Upper)})
		m.args, m.cond = []string{"self"}, true
		return m, nil
	}),
	matrixOp(opdef.Op[choleskySolveArgs]{
		Schema: "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
		Doc:    opdef.Doc{Summary: "Solution of a system given by its Cholesky factor", Formula: "(L @ L^H)^-1 @ self", Source: "torch.cholesky_solve"},
		Exempt: map[string]string{"gradients": "torch does not cut the gradient to the triangle that is read"},
		Cases: func(r *rand.Rand) (cs []*choleskySolveArgs) {
			g := opdef.Gen{R: r}
			for _, a := range upperCases(r) {
				n, _ := lastTwo(a.A)
				cs = append(cs, &choleskySolveArgs{g.Normal(a.A.DType, n, 2), a.A, a.Upper})
			}
			return cs
		},
	}, choleskySolvePlan),
	matrixOp(opdef.Op[qrArgs]{
		Schema: "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
		DIOPI:  "linalgqr input=A",
		Names:  "linalg.qr",
		Doc:    qrDoc,
		Accept: func(a *qrArgs, got, want []*tensor.Tensor) []opdef.Acceptance {
			if a.Mode == "r" {
				return unaccepted(want)
			}
			return acceptFactors(a.A, got, 0, func(f []kernel.Mat[complex128]) kernel.Mat[complex128] { return f[0].Mul(f[1]) })
		},
		Cases: func(r *rand.Rand) (cs []*qrArgs) {
			g := opdef.Gen{R: r}
			f64, c128 := tensor.Float64, tensor.Complex128
			return []*qrArgs{{g.Normal(f64, 4, 3), "reduced"}, {g.Normal(f64, 2, 3, 3), "complete"}, {g.Normal(c128, 4, 3), "reduced"}, {g.Normal(f64, 2, 4), "reduced"}, {g.Normal(tensor.Float32, 3, 2), "reduced"}}
		},
	}, func(a *qrArgs) (*matrixCall, error) { return qrPlan(a.A, a.Mode) }),
	matrixOp(opdef.Op[someArgs]{
		Schema: "qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)",
		Doc:    qrDoc,
		Accept: func(a *someArgs, got, _ []*tensor.Tensor) []opdef.Acceptance {
			return acceptFactors(a.Self, got, 0, func(f []kernel.Mat[complex128]) kernel.Mat[complex128] { return f[0].Mul(f[1]) })
		},
		Cases: func(r *rand.Rand) []*someArgs {
			g := opdef.Gen{R: r}
			return []*someArgs{{g.Normal(tensor.Float64, 4, 3), true}, {g.Normal(tensor.Float64, 3, 3), false}, {g.Normal(tensor.Float32, 2, 4), true}}
		},
	}, func(a *someArgs) (*matrixCall, error) {
		mode := "complete"
		if a.Some {
			mode = "reduced"
		}
		m, err := qrPlan(a.Self, mode)
		if err == nil {
			m.args = []string{"self"}
		}
		return m, err
	}),
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
	matrixOp(opdef.Op[luArgs]{
		Schema: "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
		Names:  "linalg.lu",
		Doc:    opdef.Doc{Summary: "LU factorisation with partial pivoting", Formula: "A = P @ L @ U", Source: "torch.linalg.lu"},
		Cases: func(r *rand.Rand) []*luArgs {
			g := opdef.Gen{R: r}
			return []*luArgs{{g.Normal(tensor.Float64, 3, 3), true}, {g.Normal(tensor.Float64, 4, 2), true}, {g.Normal(tensor.Float64, 2, 4), true}, {wellConditioned(g, tensor.Complex128, false, 2, 3, 3), true}, {g.Normal(tensor.Float32, 3, 3), true}}
		},
	}, luPlan),
	matrixOp(opdef.Op[luArgs]{
		Schema: "lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
		Names:  "linalg.lu_factor",
		Doc:    luFactorDoc,
		Cases: func(r *rand.Rand) []*luArgs {
			g := opdef.Gen{R: r}
			return []*luArgs{{g.Normal(tensor.Float64, 3, 3), true}, {g.Normal(tensor.Float64, 4, 2), true}, {g.Normal(tensor.Float64, 2, 4), true}, {wellConditioned(g, tensor.Complex128, false, 2, 3, 3), true}, {g.Normal(tensor.Float32, 3, 3), true}}
		},
	}, func(a *luArgs) (*matrixCall, error) { return luFactorPlan(a.A, a.Pivot, false) }),
	matrixOp(opdef.Op[luExArgs]{
		Schema: "lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)",
		Names:  "linalg.lu_factor_ex",
		Doc:    luFactorDoc,
		Cases: func(r *rand.Rand) []*luExArgs {
			g := opdef.Gen{R: r}
			return []*luExArgs{{g.Normal(tensor.Float64, 3, 3), true, false}, {g.Normal(tensor.Float32, 2, 3, 3), true, false}}
		},
	}, func(a *luExArgs) (*matrixCall, error) { return luFactorPlan(a.A, a.Pivot, true) }),
	matrixOp(opdef.Op[matrixArgs]{
		Schema: "geqrf(Tensor A) -> (Tensor a, Tensor tau)",
		Doc:    opdef.Doc{Summary: "QR factorisation as reflectors", Formula: "A = H_1 @ H_2 @ ... @ R, H_i = I - tau_i*v_i@v_i^H", Notes: "R on and above the diagonal, v_i below it without its leading 1.", Source: "torch.geqrf"},
		NoGrad: "torch has none",
		Cases: func(r *rand.Rand) []*matrixArgs {
			g := opdef.Gen{R: r}
			return []*matrixArgs{{g.Normal(tensor.Float64, 4, 3)}, {g.Normal(tensor.Complex128, 2, 3, 4)}, {g.Normal(tensor.Float32, 3, 3)}}
		},
	}, func(a *matrixArgs) (*matrixCall, error) {
		if err := matrixArg("A", a.A, false); err != nil {
			return nil, err
		}
		r, c := lastTwo(a.A)
		return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{a.A}, ranks: []int{2}, outs: []matrixOut{{a.A.DType, []int{r, c}}, {a.A.DType, []int{min(r, c)}}},
			run: algorithm{geqrf[float64], geqrf[complex128]}}, nil
	}),
}

type (
	upperArgs struct {
		A     *tensor.Tensor
		Upper bool
	}
	factorArgs struct {
		Self  *tensor.Tensor
		Upper bool
	}
	choleskyExArgs struct {
		A                  *tensor.Tensor
		Upper, CheckErrors bool
	}
	choleskySolveArgs struct {
		Self, Input2 *tensor.Tensor
		Upper        bool
	}
	qrArgs struct {
		A    *tensor.Tensor
		Mode string
	}
	someArgs struct {
		Self *tensor.Tensor
		Some bool
	}
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
	luArgs struct {
		A     *tensor.Tensor
		Pivot bool
	}
	luExArgs struct {
		A                  *tensor.Tensor
		Pivot, CheckErrors bool
	}
)

var (
	choleskyDoc = opdef.Doc{Summary: "Cholesky factor of Hermitian positive definite matrices", Formula: "A = L @ L^H, or U^H @ U", Notes: "Reads one triangle. The gradient is that of a Hermitian perturbation.", Source: "torch.linalg.cholesky"}
	qrDoc       = opdef.Doc{Summary: "QR factorisation", Formula: "A = Q @ R", Notes: "Signs as LAPACK's reflectors leave them.", Source: "torch.linalg.qr"}
	svdDoc      = opdef.Doc{Summary: "Singular value decomposition", Formula: "A = U @ diag(S) @ V^H", Notes: "Singular vectors are defined up to a phase.", Source: "torch.linalg.svd"}
	luFactorDoc = opdef.Doc{Summary: "LU factorisation in one matrix, with LAPACK's pivots", Formula: "A = P @ L @ U; L without its unit diagonal below U", Notes: "Pivots count from 1.", Source: "torch.linalg.lu_factor"}
)

func upperCases(r *rand.Rand) (cs []*upperArgs) {
	for i, a := range positiveCases(r) {
		cs = append(cs, &upperArgs{a.A, i%2 == 1})
	}
	return cs
}

func choleskyPlan(t *tensor.Tensor, upper, info bool) (*matrixCall, error) {
	if err := matrixArg("A", t, true); err != nil {
		return nil, err
	}
	m := unaryMatrix(t, algorithm{cholesky[float64](upper), cholesky[complex128](upper)}, algorithm{choleskyGrad[float64](upper, info), choleskyGrad[complex128](upper, info)})
	m.cond = true
	if info {
		m.outs = append(m.outs, matrixOut{tensor.Int32, nil})
	}
	return m, nil
}

func cholesky[T kernel.Field](upper bool) func(in []kernel.Mat[T]) []kernel.Mat[T] {
	return func(in []kernel.Mat[T]) []kernel.Mat[T] {
		a := in[0]
		if upper {
			a = kernel.Symmetrize(a, true)
		}
		l, fail := kernel.Cholesky(a)
		if upper {
			l = l.H()
		}
		return []kernel.Mat[T]{l, column[T]([]float64{float64(fail)})}
	}
}

// choleskyGrad follows Murray, "Differentiation of the Cholesky
// decomposition", 2016: Hermitian, as torch returns it.
func choleskyGrad[T kernel.Field](upper, info bool) func(in []kernel.Mat[T]) []kernel.Mat[T] {
	return func(in []kernel.Mat[T]) []kernel.Mat[T] {
		l, g := in[1], in[2]
		if info {
			g = in[3]
		}
		if upper {
			l, g = l.H(), g.H()
		}
		p := l.H().Mul(g).Tril(0)
		p = p.Add(1, p.Tril(-1).H()).Scale(0.5)                   // the diagonal keeps its imaginary part, as in torch
		x := kernel.SolveTriangular(l.H(), p, true, false)        // L^-H P
		x = kernel.SolveTriangular(l.H(), x.H(), true, false).H() // ... L^-1
		return []kernel.Mat[T]{x}
	}
}

// lower is a triangular factor as the lower one of the product l*l^H.
func lower[T kernel.Field](m kernel.Mat[T], upper bool) kernel.Mat[T] {
	if upper {
		return m.Triu(0).H()
	}
	return m.Tril(0)
}

func factorSolve[T kernel.Field](l, b kernel.Mat[T]) kernel.Mat[T] {
	return kernel.SolveTriangular(l.H(), kernel.SolveTriangular(l, b, false, false), true, false)
}

func choleskyInverse[T kernel.Field](upper bool) func(in []kernel.Mat[T]) []kernel.Mat[T] {
	return func(in []kernel.Mat[T]) []kernel.Mat[T] {
		l := lower(in[0], upper)
		return []kernel.Mat[T]{factorSolve(l, kernel.Eye[T](l.R, l.R))}
	}
}

func choleskyInverseGrad[T kernel.Field](upper bool) func(in []kernel.Mat[T]) []kernel.Mat[T] {
	return func(in []kernel.Mat[T]) []kernel.Mat[T] {
		l, x, g := lower(in[0], upper), in[1], in[2]
		c := x.Mul(g.Add(1, g.H())).Mul(x).Mul(l).Scale(-1)
		if upper {
			c = c.H()
		}
		return []kernel.Mat[T]{c}
	}
}

func choleskySolvePlan(a *choleskySolveArgs) (*matrixCall, error) {
	if err := matrixArg("input2", a.Input2, true); err != nil {
		return nil, err
	}
	if err := matrixArg("self", a.Self, false); err != nil {
		return nil, err
	}
	if err := sameDType("self", a.Self, a.Input2); err != nil {
		return nil, err
	}
	rows, cols := lastTwo(a.Self)
	if n, _ := lastTwo(a.Input2); rows != n {
		return nil, opdef.Refuse("self", "want %d rows, got shape %s", n, tensor.ShapeString(a.Self.Shape))
	}
	return &matrixCall{
		args: []string{"input2", "self"}, ins: []*tensor.Tensor{a.Input2, a.Self}, ranks: []int{2, 2}, outs: []matrixOut{{a.Self.DType, []int{rows, cols}}}, cond: true,
		run:  algorithm{choleskySolve[float64](a.Upper), choleskySolve[complex128](a.Upper)},
		back: algorithm{choleskySolveGrad[float64](a.Upper), choleskySolveGrad[complex128](a.Upper)},
	}, nil
}

func choleskySolve[T kernel.Field](upper bool) func(in []kernel.Mat[T]) []kernel.Mat[T] {
	return func(in []kernel.Mat[T]) []kernel.Mat[T] {
		return []kernel.Mat[T]{factorSolve(lower(in[0], upper), in[1])}
	}
}

func choleskySolveGrad[T kernel.Field](upper bool) func(in []kernel.Mat[T]) []kernel.Mat[T] {
	return func(in []kernel.Mat[T]) []kernel.Mat[T] {
		l, x, g := lower(in[0], upper), in[2], in[3]
		gb := factorSolve(l, g)
		c := gb.Mul(x.H())
		gl := c.Add(1, c.H()).Mul(l).Scale(-1)
		if upper {
			gl = gl.H()
		}
		return []kernel.Mat[T]{gl, gb}
	}
}

func qrPlan(t *tensor.Tensor, mode string) (*matrixCall, error) {
	if err := matrixArg("A", t, false); err != nil {
		return nil, err
	}
	r, c := lastTwo(t)
	k := min(r, c)
	m := &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{t}, ranks: []int{2}, cond: true}
	cols := k
	switch mode {
	case "reduced":
		m.outs = []matrixOut{{t.DType, []int{r, k}}, {t.DType, []int{k, c}}}
	case "complete":
		cols = r
		m.outs = []matrixOut{{t.DType, []int{r, r}}, {t.DType, []int{r, c}}}
	case "r":
		m.outs, m.drop = []matrixOut{{t.DType, []int{0}}, {t.DType, []int{k, c}}}, []int{0}
	default:
		return nil, opdef.Refuse("mode", "want reduced, complete or r, got %q", mode)
	}
	m.run = algorithm{qr[float64](cols, mode == "r"), qr[complex128](cols, mode == "r")}
	m.back = algorithm{qrGrad[float64], qrGrad[complex128]}
	return m, nil
}

func qr[T kernel.Field](cols int, onlyR bool) func(in []kernel.Mat[T]) []kernel.Mat[T] {
	return func(in []kernel.Mat[T]) []kernel.Mat[T] {
		f, tau := kernel.Householder(in[0])
		q := kernel.Mat[T]{}
		if !onlyR {
			q = kernel.ApplyQ(f, tau, kernel.Eye[T](f.R, cols), false)
		}
		return []kernel.Mat[T]{q, f.Triu(0).Rows(0, min(cols, f.R))}
	}
}

// qrGrad: for wide matrices the columns of R beyond the square part follow
// from A and Q.
// Source: torch/csrc/autograd/FunctionsManual.cpp, linalg_qr_backward
func qrGrad[T kernel.Field](in []kernel.Mat[T]) []kernel.Mat[T] {
	a, q, r, gq, gr := in[0], in[1], in[2], in[3], in[4]
	m, n := a.R, a.C
	if q.R == 0 || q.C != min(m, n) { // torch refuses: the complement of the columns is arbitrary
		return []kernel.Mat[T]{kernel.Zeros[T](m, n).Map(func(int, int, T) T { return kernel.From[T](math.NaN()) })}
	}
	if m >= n {
		return []kernel.Mat[T]{qrSquareGrad(q, r, gq, gr)}
	}
	// A = [X Y], R = [U V], V = Q^H Y.
	y, gv := a.Cols(m, n), gr.Cols(m, n)
	gx := qrSquareGrad(q, r.Cols(0, m), gq.Add(1, y.Mul(gv.H())), gr.Cols(0, m))
	gy := q.Mul(gv)
	out := kernel.Zeros[T](m, n)
	for i := range m {
		copy(out.Row(i), gx.Row(i))
		copy(out.Row(i)[m:], gy.Row(i))
	}
	return []kernel.Mat[T]{out}
}

func qrSquareGrad[T kernel.Field](q, r, gq, gr kernel.Mat[T]) kernel.Mat[T] {
	x := gr.Mul(r.H()).Add(-1, q.H().Mul(gq)).Triu(0)
	s := x.Add(1, x.H()).Map(func(i, j int, v T) T {
		if i == j {
			return kernel.From[T](kernel.Re(v) / 2)
		}
		return v
	})
	// [gq + q*s] * r^-H
	b := gq.Add(1, q.Mul(s))
	return kernel.SolveTriangular(r, b.H(), true, false).H()
}

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

func luPlan(a *luArgs) (*matrixCall, error) {
	if err := matrixArg("A", a.A, false); err != nil {
		return nil, err
	}
	if !a.Pivot {
		return nil, opdef.Refuse("pivot", "want true on the CPU")
	}
	r, c := lastTwo(a.A)
	k := min(r, c)
	dt := a.A.DType
	return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{a.A}, ranks: []int{2}, outs: []matrixOut{{dt, []int{r, r}}, {dt, []int{r, k}}, {dt, []int{k, c}}}, cond: true,
		run: algorithm{lu[float64], lu[complex128]}, back: algorithm{luGrad[float64], luGrad[complex128]}}, nil
}

func lu[T kernel.Field](in []kernel.Mat[T]) []kernel.Mat[T] {
	f, piv, _ := kernel.LU(in[0])
	k := min(f.R, f.C)
	p := kernel.Eye[T](f.R, f.R)
	kernel.Permute(p, piv, true)
	return []kernel.Mat[T]{p, f.Cols(0, k).Tril(-1).Add(1, kernel.Eye[T](f.R, k)), f.Rows(0, k).Triu(0)}
}

// luGrad for square, tall and wide matrices.
// Source: torch/csrc/autograd/FunctionsManual.cpp, linalg_lu_backward
func luGrad[T kernel.Field](in []kernel.Mat[T]) []kernel.Mat[T] {
	p, l, u, gl, gu := in[1], in[2], in[3], in[5], in[6]
	return []kernel.Mat[T]{p.Mul(luCoreGrad(l, u, gl, gu))}
}

// luCoreGrad is the gradient of P^T A. Rows of L below its square part, and
// columns of U beyond it, follow from A and the square parts.
func luCoreGrad[T kernel.Field](l, u, gl, gu kernel.Mat[T]) kernel.Mat[T] {
	m, k, n := l.R, l.C, u.C
	l1, u1, gl1, gu1 := l.Rows(0, k), u.Cols(0, k), gl.Rows(0, k), gu.Cols(0, k)
	below := kernel.SolveTriangular(u1, gl.Rows(k, m).H(), true, false).H() // gl2 * u1^-H
	beyond := kernel.SolveTriangular(l1.H(), gu.Cols(k, n), true, true)     // l1^-H * gu2
	gu1 = gu1.Add(-1, l.Rows(k, m).H().Mul(below))
	gl1 = gl1.Add(-1, beyond.Mul(u.Cols(k, n).H()))
	x := l1.H().Mul(gl1).Tril(-1).Add(1, gu1.Mul(u1.H()).Triu(0))
	x = kernel.SolveTriangular(l1.H(), x, true, true)
	x = kernel.SolveTriangular(u1, x.H(), true, false).H()
	out := kernel.Zeros[T](m, n)
	for i := range m {
		if i >= k {
			copy(out.Row(i), below.Row(i-k))
			continue
		}
		copy(out.Row(i), x.Row(i))
		copy(out.Row(i)[k:], beyond.Row(i))
	}
	return out
}

func luFactorPlan(t *tensor.Tensor, pivot, info bool) (*matrixCall, error) {
	if err := matrixArg("A", t, false); err != nil {
		return nil, err
	}
	if !pivot {
		return nil, opdef.Refuse("pivot", "want true on the CPU")
	}
	r, c := lastTwo(t)
	m := &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{t}, ranks: []int{2}, outs: []matrixOut{{t.DType, []int{r, c}}, {tensor.Int32, []int{min(r, c)}}}, cond: true,
		run: algorithm{luFactor[float64], luFactor[complex128]}, back: algorithm{luFactorGrad[float64](info), luFactorGrad[complex128](info)}}
	if info {
		m.outs = append(m.outs, matrixOut{tensor.Int32, nil})
	}
	return m, nil
}

func luFactor[T kernel.Field](in []kernel.Mat[T]) []kernel.Mat[T] {
	f, piv, zero := kernel.LU(in[0])
	p := make([]float64, len(piv))
	for i, x := range piv {
		p[i] = float64(x + 1)
	}
	return []kernel.Mat[T]{f, column[T](p), column[T]([]float64{float64(zero)})}
}

func luFactorGrad[T kernel.Field](info bool) func(in []kernel.Mat[T]) []kernel.Mat[T] {
	return func(in []kernel.Mat[T]) []kernel.Mat[T] {
		f, g := in[1], in[3]
		if info {
			g = in[4]
		}
		k := min(f.R, f.C)
		piv := make([]int, k)
		for i := range piv {
			piv[i] = int(kernel.Re(in[2].D[i])) - 1
		}
		x := luCoreGrad(f.Cols(0, k).Tril(-1).Add(1, kernel.Eye[T](f.R, k)), f.Rows(0, k).Triu(0), g.Cols(0, k).Tril(-1), g.Rows(0, k).Triu(0))
		kernel.Permute(x, piv, true)
		return []kernel.Mat[T]{x}
	}
}

func geqrf[T kernel.Field](in []kernel.Mat[T]) []kernel.Mat[T] {
	f, tau := kernel.Householder(in[0])
	return []kernel.Mat[T]{f, {R: len(tau), C: 1, D: tau}}
}

// unaccepted leaves the plain comparison's verdicts.
func unaccepted(want []*tensor.Tensor) []opdef.Acceptance { return make([]opdef.Acceptance, len(want)) }

// acceptFactors decides on factors of a by what they multiply to, and by the
// orthonormality of the columns of factor unitary (-1: none).
func acceptFactors(a *tensor.Tensor, got []*tensor.Tensor, unitary int, build func(f []kernel.Mat[complex128]) kernel.Mat[complex128]) []opdef.Acceptance {
	as := make([]opdef.Acceptance, len(got))
	batch := a.Shape[:a.Dim()-2]
	ins, ranks := []*tensor.Tensor{a}, []int{2}
	for _, t := range got {
		ins, ranks = append(ins, t), append(ranks, t.Dim()-len(batch))
	}
	r, c := lastTwo(a)
	bound := 32 * float64(max(r, c, 4)) * a.DType.Real().Eps()
	worst := tensor.Scalar(tensor.Float64, 0.0)
	errs, err := eachMatrix(batch, ins, ranks, []matrixOut{{tensor.Complex128, nil}}, func(in []kernel.Mat[complex128]) []kernel.Mat[complex128] {
		e := build(in[1:]).Add(-1, in[0]).Frobenius() / math.Max(in[0].Frobenius(), math.SmallestNonzeroFloat64)
		if unitary >= 0 {
			u := in[1+unitary]
			e = math.Max(e, u.H().Mul(u).Add(-1, kernel.Eye[complex128](u.C, u.C)).Frobenius()/math.Sqrt(float64(max(u.C, 1))))
		}
		if e != e {
			e = math.Inf(1)
		}
		return []kernel.Mat[complex128]{{R: 1, C: 1, D: []complex128{complex(e, 0)}}}
	})
	if err == nil {
		worst = errs[0]
	}
	for i := range as {
		e := 0.0
		for _, x := range tensor.Data[float64](worst) {
			e = math.Max(e, x)
		}
		as[i] = opdef.Acceptance{OK: err == nil && e <= bound, Rule: "reconstruction"}
	}
	return as
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
