package linalg

import (
	"math"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// factorOps factorise matrices. Factors that are defined up to sign, phase or
// order are accepted by reconstruction.
var factorOps = []*opdef.Entry{
	matrixOp(matrixDecl[upperArgs]{
		Schema: "cholesky(Tensor A, bool upper=False) -> Tensor",
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
				return nil,
					opdef.Refuse("A", "matrix %d is not positive definite: its leading minor of order %d is not",
						i/(n*n), fail)
			}
		}
		return m, nil
	}),
	matrixOp(matrixDecl[choleskyExArgs]{
		Schema: "cholesky_ex(Tensor A, *, bool upper=False, bool check_errors=False) -> (Tensor, Tensor)",
		Names:  "linalg.cholesky_ex",
		Doc:    choleskyDoc,
		Exempt: map[string]string{"gradients": "the gradient is that of a Hermitian perturbation"},
		Cases: opdef.Calls[choleskyExArgs](`
			for T in f64 f32 c128: T[3, 3]{positive}; T[2, 4, 4]{positive}, upper=True`),
	}, func(a *choleskyExArgs) (*matrixCall, error) { return choleskyPlan(a.A, a.Upper, true) }),
	matrixOp(matrixDecl[factorArgs]{
		Schema: "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
		Doc: opdef.Doc{Summary: "Inverse of a matrix given by its Cholesky factor",
			Formula: "(L @ L^H)^-1, or (U^H @ U)^-1"},
		Exempt: map[string]string{"gradients": "torch does not cut the gradient to the triangle that is read"},
		Cases:  opdef.Calls[factorArgs](`for T in f64 f32 c128: T[3, 3]{positive}; T[2, 4, 4]{positive}, upper=True`),
	}, func(a *factorArgs) (*matrixCall, error) {
		if err := matrixArg("self", a.Self, true); err != nil {
			return nil, err
		}
		m := unaryMatrix(a.Self, algorithm{choleskyInverse[float64](a.Upper), choleskyInverse[complex128](a.Upper)},
			algorithm{choleskyInverseGrad[float64](a.Upper), choleskyInverseGrad[complex128](a.Upper)})
		m.args, m.cond = []string{"self"}, true
		return m, nil
	}),
	matrixOp(matrixDecl[choleskySolveArgs]{
		Schema: "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
		Doc:    opdef.Doc{Summary: "Solution of a system given by its Cholesky factor", Formula: "(L @ L^H)^-1 @ self"},
		Exempt: map[string]string{"gradients": "torch does not cut the gradient to the triangle that is read"},
		Cases: opdef.Calls[choleskySolveArgs](`
			for T in f64 f32 c128: T[3, 2], T[3, 3]{positive}; T[4, 2], T[2, 4, 4]{positive}, upper=True`),
	}, choleskySolvePlan),
	factorOp(factorDecl[qrArgs]{
		Schema: "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
		Names:  "linalg.qr",
		Doc:    qrDoc,
		Cases:  opdef.Calls[qrArgs](`f64[4, 3]; f64[2, 3, 3], mode='complete'; c128[4, 3]; f64[2, 4]; f32[3, 2]`),
	}, func(m *matrixOpCall[qrArgs], got, want []*tensor.Tensor) []opdef.Acceptance {
		if m.given.Mode == "r" {
			return unaccepted(want)
		}
		return acceptFactors(m.ins[0], got, 0,
			func(f matrices[complex128]) kernel.Mat[complex128] { return f[0].Mul(f[1]) })
	}, func(a *qrArgs) (*matrixCall, error) { return qrPlan(a.A, a.Mode) }),
	factorOp(factorDecl[someArgs]{
		Schema: "qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)",
		Doc:    qrDoc,
		Cases:  opdef.Calls[someArgs](`f64[4, 3]; f64[3, 3], some=False; f32[2, 4]`),
	}, func(m *matrixOpCall[someArgs], got, _ []*tensor.Tensor) []opdef.Acceptance {
		return acceptFactors(m.ins[0], got, 0,
			func(f matrices[complex128]) kernel.Mat[complex128] { return f[0].Mul(f[1]) })
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
	matrixOp(matrixDecl[luArgs]{
		Schema: "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
		Traits: opdef.Traits{
			// What was recorded as gradients of results leaves out that of P.
			Composite: true,
		},
		Names: "linalg.lu",
		Doc:   opdef.Doc{Summary: "LU factorisation with partial pivoting", Formula: "A = P @ L @ U"},
		Cases: opdef.Calls[luArgs](`f64[3, 3]; f64[4, 2]; f64[2, 4]; c128[2, 3, 3]{regular}; f32[3, 3]`),
	}, luPlan),
	matrixOp(matrixDecl[luArgs]{
		Schema: "lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
		Names:  "linalg.lu_factor",
		Doc:    luFactorDoc,
		Cases:  opdef.Calls[luArgs](`f64[3, 3]; f64[4, 2]; f64[2, 4]; c128[2, 3, 3]{regular}; f32[3, 3]`),
	}, func(a *luArgs) (*matrixCall, error) { return luFactorPlan(a.A, a.Pivot, false) }),
	matrixOp(matrixDecl[luInfoArgs]{
		Schema: "lu(Tensor A, bool pivot=True, bool get_infos=False) -> Tensor[]",
		Names:  "functional.lu Tensor.lu",
		Doc:    luFactorDoc,
		Cases:  opdef.Calls[luInfoArgs](`f64[3, 3]; f32[2, 3, 3], get_infos=True`),
	}, func(a *luInfoArgs) (*matrixCall, error) { return luFactorPlan(a.A, a.Pivot, a.GetInfos) }),
	matrixOp(matrixDecl[luExArgs]{
		Schema: "lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, " +
			"Tensor info)",
		Names: "linalg.lu_factor_ex",
		Doc:   luFactorDoc,
		Cases: opdef.Calls[luExArgs](`f64[3, 3]; f32[2, 3, 3]`),
	}, func(a *luExArgs) (*matrixCall, error) { return luFactorPlan(a.A, a.Pivot, true) }),
	matrixOp(matrixDecl[matrixArgs]{
		Schema: "geqrf(Tensor A) -> (Tensor a, Tensor tau)",
		Doc: opdef.Doc{Summary: "QR factorisation as reflectors",
			Formula: "A = H_1 @ H_2 @ ... @ R, H_i = I - tau_i*v_i@v_i^H",
			Notes:   "R on and above the diagonal, v_i below it without its leading 1."},
		Traits: opdef.Traits{NoGrad: "torch has none"},
		Cases:  opdef.Calls[matrixArgs](`f64[4, 3]; c128[2, 3, 4]; f32[3, 3]`),
	}, func(a *matrixArgs) (*matrixCall, error) {
		if err := matrixArg("A", a.A, false); err != nil {
			return nil, err
		}
		r, c := lastTwo(a.A)
		return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{a.A}, ranks: []int{2},
			outs: []matrixOut{{a.A.DType, []int{r, c}}, {a.A.DType, []int{min(r, c)}}},
			run:  algorithm{geqrf[float64], geqrf[complex128]}}, nil
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
	choleskyDoc = opdef.Doc{Summary: "Cholesky factor of Hermitian positive definite matrices",
		Formula: "A = L @ L^H, or U^H @ U",
		Notes:   "Reads one triangle. The gradient is that of a Hermitian perturbation.",
		Source:  "torch.linalg.cholesky"}
	qrDoc = opdef.Doc{Summary: "QR factorisation", Formula: "A = Q @ R",
		Notes: "Signs as LAPACK's reflectors leave them.", Source: "torch.linalg.qr"}
	luFactorDoc = opdef.Doc{Summary: "LU factorisation in one matrix, with LAPACK's pivots",
		Formula: "A = P @ L @ U; L without its unit diagonal below U", Notes: "Pivots count from 1.",
		Source: "torch.linalg.lu_factor"}
)

var upperCases = opdef.Calls[upperArgs](`for T in f64 f32 c128: T[3, 3]{positive}; T[2, 4, 4]{positive}, upper=True`)

func choleskyPlan(t *tensor.Tensor, upper, info bool) (*matrixCall, error) {
	if err := matrixArg("A", t, true); err != nil {
		return nil, err
	}
	m := unaryMatrix(t, algorithm{cholesky[float64](upper), cholesky[complex128](upper)},
		algorithm{choleskyGrad[float64](upper, info), choleskyGrad[complex128](upper, info)})
	m.cond = true
	if info {
		m.outs = append(m.outs, matrixOut{tensor.Int32, nil})
	}
	return m, nil
}

func cholesky[T kernel.Field](upper bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		a := in[0]
		if upper {
			a = kernel.Symmetrize(a, true)
		}
		l, fail := kernel.Cholesky(a)
		if upper {
			l = l.H()
		}
		return matrices[T]{l, column[T]([]float64{float64(fail)})}
	}
}

// choleskyGrad follows Murray, "Differentiation of the Cholesky
// decomposition", 2016: Hermitian, as torch returns it.
func choleskyGrad[T kernel.Field](upper, info bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
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
		return matrices[T]{x}
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

func choleskyInverse[T kernel.Field](upper bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		l := lower(in[0], upper)
		return matrices[T]{factorSolve(l, kernel.Eye[T](l.R, l.R))}
	}
}

func choleskyInverseGrad[T kernel.Field](upper bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		l, x, g := lower(in[0], upper), in[1], in[2]
		c := x.Mul(g.Add(1, g.H())).Mul(x).Mul(l).Scale(-1)
		if upper {
			c = c.H()
		}
		return matrices[T]{c}
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
		args: []string{"input2", "self"}, ins: []*tensor.Tensor{a.Input2, a.Self}, ranks: []int{2, 2},
		outs: []matrixOut{{a.Self.DType, []int{rows, cols}}}, cond: true,
		run:  algorithm{choleskySolve[float64](a.Upper), choleskySolve[complex128](a.Upper)},
		back: algorithm{choleskySolveGrad[float64](a.Upper), choleskySolveGrad[complex128](a.Upper)},
	}, nil
}

func choleskySolve[T kernel.Field](upper bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		return matrices[T]{factorSolve(lower(in[0], upper), in[1])}
	}
}

func choleskySolveGrad[T kernel.Field](upper bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		l, x, g := lower(in[0], upper), in[2], in[3]
		gb := factorSolve(l, g)
		c := gb.Mul(x.H())
		gl := c.Add(1, c.H()).Mul(l).Scale(-1)
		if upper {
			gl = gl.H()
		}
		return matrices[T]{gl, gb}
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

func qr[T kernel.Field](cols int, onlyR bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		f, tau := kernel.Householder(in[0])
		q := kernel.Mat[T]{}
		if !onlyR {
			q = kernel.ApplyQ(f, tau, kernel.Eye[T](f.R, cols), false)
		}
		return matrices[T]{q, f.Triu(0).Rows(0, min(cols, f.R))}
	}
}

// qrGrad: for wide matrices the columns of R beyond the square part follow
// from A and Q.
// Source: torch/csrc/autograd/FunctionsManual.cpp, linalg_qr_backward
func qrGrad[T kernel.Field](in matrices[T]) matrices[T] {
	a, q, r, gq, gr := in[0], in[1], in[2], in[3], in[4]
	m, n := a.R, a.C
	if q.R == 0 || q.C != min(m, n) { // torch refuses: the complement of the columns is arbitrary
		return matrices[T]{kernel.Zeros[T](m, n).Map(func(int, int, T) T { return kernel.From[T](math.NaN()) })}
	}
	if m >= n {
		return matrices[T]{qrSquareGrad(q, r, gq, gr)}
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
	return matrices[T]{out}
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

func geqrf[T kernel.Field](in matrices[T]) matrices[T] {
	f, tau := kernel.Householder(in[0])
	return matrices[T]{f, {R: len(tau), C: 1, D: tau}}
}

// unaccepted leaves the plain comparison's verdicts.
func unaccepted(want []*tensor.Tensor) []opdef.Acceptance { return make([]opdef.Acceptance, len(want)) }

// acceptFactors decides on factors of a by what they multiply to, and by the
// orthonormality of the columns of factor unitary (-1: none).
func acceptFactors(a *tensor.Tensor, got []*tensor.Tensor, unitary int,
	build func(f matrices[complex128]) kernel.Mat[complex128]) []opdef.Acceptance {
	as := make([]opdef.Acceptance, len(got))
	batch := a.Shape[:a.Dim()-2]
	ins, ranks := []*tensor.Tensor{a}, []int{2}
	for _, t := range got {
		ins, ranks = append(ins, t), append(ranks, t.Dim()-len(batch))
	}
	r, c := lastTwo(a)
	bound := 32 * float64(max(r, c, 4)) * a.DType.Real().Eps()
	worst := tensor.Scalar(tensor.Float64, 0.0)
	errs, err := eachMatrix(batch, ins, ranks, []matrixOut{{tensor.Complex128, nil}},
		func(in matrices[complex128]) matrices[complex128] {
			e := build(in[1:]).Add(-1, in[0]).Frobenius() / math.Max(in[0].Frobenius(), math.SmallestNonzeroFloat64)
			if unitary >= 0 {
				u := in[1+unitary]
				e = math.Max(e, u.H().Mul(u).Add(-1, kernel.Eye[complex128](u.C, u.C)).Frobenius()/math.Sqrt(
					float64(max(u.C, 1))))
			}
			if e != e {
				e = math.Inf(1)
			}
			return matrices[complex128]{{R: 1, C: 1, D: []complex128{complex(e, 0)}}}
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
