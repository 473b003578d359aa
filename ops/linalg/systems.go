package linalg

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// systemOps solve least squares problems, solve with factorisations that others
// computed, and unpack those.
var systemOps = []*opdef.Entry{
	matrixOp(matrixDecl[lstsqArgs]{
		Schema: "linalg_lstsq(Tensor A, Tensor B, float? rcond=None, *, str? driver=None) -> (Tensor solution, " +
			"Tensor residuals, Tensor rank, Tensor singular_values)",
		Names: "linalg.lstsq",
		Doc: opdef.Doc{Summary: "Least squares solution of linear systems",
			Formula: "X of least norm with the least |A @ X - B|",
			Notes: "Residuals exist for tall A of full rank (not with gelsy), the rank with gelsy, gelsd and " +
				"gelss, singular values with gelsd and gelss; the others are empty. Singular values below " +
				"rcond*S[0] count as zero, max(m, n)*eps by default; gels takes A to be of full rank."},
		Cases: func(g opdef.Gen) []*lstsqArgs {
			f64, c128 := tensor.Float64, tensor.Complex128
			gels, gelsd := "gels", "gelsd"
			cs := []*lstsqArgs{
				{g.Normal(f64, 4, 3), g.Normal(f64, 4, 2), nil, nil}, {g.Normal(f64, 2, 2, 3), g.Normal(f64, 2, 2, 2),
					nil, &gels},
				{g.Normal(c128, 4, 2), g.Normal(c128, 4, 1), nil, &gels}, {g.Normal(f64, 2, 4, 3), g.Normal(f64, 2, 4),
					nil, &gels}, {g.Normal(tensor.Float32, 3, 2), g.Normal(tensor.Float32, 3, 2), nil, &gelsd},
			}
			last := cs[len(cs)-1] // singular values have no gradient
			last.A.RequiresGrad, last.B.RequiresGrad = false, false
			return cs
		},
		Bounds: opdef.Bounds[*matrixOpCall[lstsqArgs]]{GradScale: lstsqGradScale},
	}, lstsqPlan),
	matrixOp(matrixDecl[luUnpackArgs]{
		Traits: opdef.Traits{
			Composite: true, // as linalg_lu
		},
		Schema: "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> " +
			"(Tensor P, Tensor L, Tensor U)",
		Names: "lu_unpack",
		Doc: opdef.Doc{Summary: "Factors P, L and U of a packed LU factorisation", Formula: "A = P @ L @ U",
			Notes: "Results that are not asked for are empty."},
		Cases: func(g opdef.Gen) (cs []*luUnpackArgs) {
			for i, shape := range [][]int{{3, 3}, {2, 4, 3}, {3, 5}, {3, 3}} {
				dt := []tensor.DType{tensor.Float64, tensor.Float64, tensor.Complex128, tensor.Float32}[i]
				f, p := packedLU(g.Normal(dt, shape...))
				cs = append(cs, &luUnpackArgs{f, p, true, true})
			}
			f, p := packedLU(g.Normal(tensor.Float64, 3, 3))
			return append(cs, &luUnpackArgs{f, p, false, true}, &luUnpackArgs{f, p, true, false})
		},
	}, luUnpackPlan),
	matrixOp(matrixDecl[linalgLUSolveArgs]{
		Schema: "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
		Names:  "linalg.lu_solve",
		Doc: opdef.Doc{Summary: "Solution of a system given by its packed LU factorisation",
			Formula: "X with A @ X = B, or X @ A = B, A^H for A if adjoint"},
		Cases: func(g opdef.Gen) (cs []*linalgLUSolveArgs) {
			for i, dt := range []tensor.DType{tensor.Float64, tensor.Complex128, tensor.Complex128, tensor.Float64,
				tensor.Float32} {
				f, p := packedLU(g.Regular(dt, false, 2, 3, 3))
				cs = append(cs, &linalgLUSolveArgs{f, p, g.Normal(dt, 3, 3), i%2 == 0, i < 2 || i == 2})
			}
			return cs
		},
	}, func(a *linalgLUSolveArgs) (*matrixCall, error) {
		return luSolvePlan(luSolver{"LU", "pivots", "B", a.LU, a.Pivots, a.B, a.Left, a.Adjoint})
	}),
	matrixOp(matrixDecl[luSolveArgs]{
		Schema: "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
		Traits: opdef.Traits{Composite: true},
		Doc: opdef.Doc{Summary: "Solution of a system given by its packed LU factorisation",
			Formula: "X with A @ X = self"},
		Cases: func(g opdef.Gen) (cs []*luSolveArgs) {
			for _, dt := range []tensor.DType{tensor.Float64, tensor.Complex128, tensor.Float32} {
				f, p := packedLU(g.Regular(dt, false, 2, 3, 3))
				cs = append(cs, &luSolveArgs{g.Normal(dt, 2, 3, 2), f, p})
			}
			return cs
		},
	}, func(a *luSolveArgs) (*matrixCall, error) {
		return luSolvePlan(luSolver{"LU_data", "LU_pivots", "self", a.LUData, a.LUPivots, a.Self, true, false})
	}),
	matrixOp(matrixDecl[householderArgs]{
		Schema: "householder_product(Tensor input, Tensor tau) -> Tensor",
		Names:  "linalg.householder_product orgqr Tensor.orgqr",
		Doc: opdef.Doc{Summary: "First columns of a product of reflectors",
			Formula: "H_1 @ H_2 @ ... @ H_k, H_i = I - tau_i*v_i@v_i^H",
			Notes:   "v_i is column i of input below the diagonal, with a leading 1."},
		Cases: opdef.Calls[householderArgs](`
			f64[4, 3], f64[3]; f64[2, 3, 3], f64[2, 2]; c128[4, 2], c128[2]; f32[3, 3], f32[3]`),
	}, householderPlan),
	matrixOp(matrixDecl[ormqrArgs]{
		Schema: "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
		Doc: opdef.Doc{Summary: "Product of a matrix with the unitary factor that reflectors make",
			Formula: "Q @ input3, or input3 @ Q, Q^H for Q if transpose",
			Notes:   "self and input2 are reflectors and their factors as geqrf returns them."},
		Traits: opdef.Traits{NoGrad: "torch has none"},
		Cases: opdef.Calls[ormqrArgs](`
			f64[2, 4, 3], f64[2, 3], f64[2, 4, 3]; c128[2, 4, 3], c128[2, 3], c128[2, 3, 4], left=False
			f64[2, 4, 3], f64[2, 3], f64[2, 4, 3], transpose=True
			f32[2, 4, 3], f32[2, 3], f32[2, 3, 4], left=False, transpose=True`),
	}, ormqrPlan),
	matrixOp(matrixDecl[ldlArgs]{
		Schema: "ldl_factor(Tensor A, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
		Names:  "linalg.ldl_factor",
		Doc:    ldlDoc,
		Traits: opdef.Traits{NoGrad: "torch has none"},
		Cases: opdef.Calls[ldlArgs](`
			f64[2, 4, 4]; c128[2, 4, 4], hermitian=True; c128[2, 4, 4]; f32[2, 4, 4], hermitian=True`),
	}, func(a *ldlArgs) (*matrixCall, error) { return ldlPlan(a.A, a.Hermitian, false) }),
	matrixOp(matrixDecl[ldlExArgs]{
		Schema: "ldl_factor_ex(Tensor A, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor " +
			"pivots, Tensor info)",
		Names:  "linalg.ldl_factor_ex",
		Doc:    ldlDoc,
		Traits: opdef.Traits{NoGrad: "torch has none"},
		Cases:  ldlCases,
	}, func(a *ldlExArgs) (*matrixCall, error) { return ldlPlan(a.A, a.Hermitian, true) }),
	matrixOp(matrixDecl[ldlSolveArgs]{
		Schema: "ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
		Names:  "linalg.ldl_solve",
		Doc:    opdef.Doc{Summary: "Solution of a system given by its LDL factorisation", Formula: "X with A @ X = B"},
		Traits: opdef.Traits{NoGrad: "torch has none"},
		Cases: func(g opdef.Gen) (cs []*ldlSolveArgs) {
			for _, a := range ldlCases(g) {
				f := opdef.Must(opdef.Must(ldlPlan(a.A, a.Hermitian, false)).forward())
				cs = append(cs, &ldlSolveArgs{f[0].Rounded(), f[1], g.Normal(a.A.DType, 4, 2), a.Hermitian})
			}
			return cs
		},
	}, ldlSolvePlan),
	matrixOp(matrixDecl[tensorinvArgs]{
		Schema: "tensorinv(Tensor A, int ind=2) -> Tensor",
		Names:  "linalg.tensorinv",
		Traits: opdef.Traits{Composite: true, LastView: true},
		Doc: opdef.Doc{Summary: "Inverse of tensordot(A, X, ind) = I",
			Formula: "inverse of A with its first ind dimensions as rows"},
		Cases: func(g opdef.Gen) []*tensorinvArgs {
			cs := []*tensorinvArgs{
				{g.Regular(tensor.Float64, false, 6, 6).Reshape(2, 3, 6), 2},
				{g.Regular(tensor.Complex128, false, 4, 4).Reshape(4, 2, 2), 1},
				{g.Regular(tensor.Float32, false, 4, 4).Reshape(2, 2, 2, 2), 2},
			}
			for _, a := range cs {
				a.A.RequiresGrad = true
			}
			return cs
		},
	}, tensorinvPlan),
}

type (
	lstsqArgs struct {
		A, B   *tensor.Tensor
		Rcond  *float64
		Driver *string
	}
	luUnpackArgs struct {
		LUData, LUPivots         *tensor.Tensor
		UnpackData, UnpackPivots bool
	}
	linalgLUSolveArgs struct {
		LU, Pivots, B *tensor.Tensor
		Left, Adjoint bool
	}
	luSolveArgs     struct{ Self, LUData, LUPivots *tensor.Tensor }
	householderArgs struct{ Input, Tau *tensor.Tensor }
	ormqrArgs       struct {
		Self, Input2, Input3 *tensor.Tensor
		Left, Transpose      bool
	}
	ldlArgs struct {
		A         *tensor.Tensor
		Hermitian bool
	}
	ldlExArgs struct {
		A                      *tensor.Tensor
		Hermitian, CheckErrors bool
	}
	ldlSolveArgs struct {
		LD, Pivots, B *tensor.Tensor
		Hermitian     bool
	}
	tensorinvArgs struct {
		A   *tensor.Tensor
		Ind int
	}
)

// packedLU is the factorisation of t as tensors, for cases.
func packedLU(t *tensor.Tensor) (factors, pivots *tensor.Tensor) {
	f := opdef.Must(opdef.Must(luFactorPlan(t, true, false)).forward())
	u := f[0].Rounded()
	u.RequiresGrad = true
	return u, f[1]
}

// lstsqPlan takes B as a batch of vectors where linear systems do.
func lstsqPlan(a *lstsqArgs) (*matrixCall, error) {
	if err := matrixArg("A", a.A, false); err != nil {
		return nil, err
	}
	if a.B.Dim() < 1 {
		return nil, opdef.Refuse("B", "want at least 1 dimension, got a 0-d tensor")
	}
	if err := sameDType("B", a.B, a.A); err != nil {
		return nil, err
	}
	driver := "gelsy"
	if a.Driver != nil {
		driver = *a.Driver
	}
	if !slices.Contains([]string{"gels", "gelsy", "gelsd", "gelss"}, driver) {
		return nil, opdef.Refuse("driver", "want gels, gelsy, gelsd or gelss, got %q", driver)
	}
	m, n := lastTwo(a.A)
	rank := 2
	if a.B.Dim() == 1 || a.B.Dim() == a.A.Dim()-1 && slices.Equal(a.B.Shape, a.A.Shape[:a.A.Dim()-1]) {
		rank = 1
	}
	core := slices.Clone(a.B.Shape[a.B.Dim()-rank:])
	if core[0] != m {
		return nil, opdef.Refuse("B", "want %d rows as of A, got shape %s", m, tensor.ShapeString(a.B.Shape))
	}
	var right []int // columns of B
	if core[0] = n; rank == 2 {
		right = core[1:]
	}
	tol := func(float64) float64 { return 0 }
	if driver != "gels" {
		rcond := elements.OrElse(a.Rcond, roundingTolerance(a.A))
		tol = func(largest float64) float64 { return rcond * largest }
	}
	var drop []int
	if m <= n || driver == "gelsy" || !fullRank(a.A, tol) {
		drop = append(drop, 1)
	}
	switch driver {
	case "gels":
		drop = append(drop, 2, 3)
	case "gelsy":
		drop = append(drop, 3)
	}
	dt := a.A.DType
	return &matrixCall{
		args: []string{"A", "B"}, ins: []*tensor.Tensor{a.A, a.B}, ranks: []int{2, rank}, cond: true, drop: drop,
		outs: []matrixOut{{dt, core}, {dt.Real(), right}, {tensor.Int64, nil}, {dt.Real(), []int{min(m, n)}}},
		run:  algorithm{lstsq[float64](tol), lstsq[complex128](tol)}, back: algorithm{lstsqGrad[float64](tol),
			lstsqGrad[complex128](tol)},
	}, nil
}

// fullRank reports whether all matrices of t have as many singular values above
// the tolerance as columns.
func fullRank(t *tensor.Tensor, tol func(float64) float64) bool {
	m, n := lastTwo(t)
	data := tensor.Data[complex128](t)
	for i := 0; m*n > 0 && i < len(data); i += m * n {
		_, s, _ := kernel.SVD(kernel.Mat[complex128]{R: m, C: n, D: data[i : i+m*n]})
		if len(s) < n || !(s[n-1] > tol(s[0])) {
			return false
		}
	}
	return true
}

func lstsq[T kernel.Field](tol func(float64) float64) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		a, b := in[0], in[1]
		p, s, rank := truncated(a, tol)
		x := p.Mul(b)
		rest := a.Mul(x).Add(-1, b)
		res := tensor.Make[float64](b.C)
		for j := range res {
			f := rest.Cols(j, j+1).Frobenius()
			res[j] = f * f
		}
		return matrices[T]{x, column[T](res), column[T]([]float64{float64(rank)}), column[T](s)}
	}
}

// lstsqGrad is the gradient through X = pinv(A) @ B and the squared residuals
// of a full rank; singular values have none.
func lstsqGrad[T kernel.Field](tol func(float64) float64) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		a, b, x, g, gres := in[0], in[1], in[2], in[6], in[7]
		p, _, _ := truncated(a, tol)
		ga := pinvGrad(matrices[T]{a, p, g.Mul(b.H())})[0]
		rest := a.Mul(x).Add(-1, b).Map(func(_, j int, v T) T { return 2 * gres.D[j] * v })
		return matrices[T]{ga.Add(1, rest.Mul(x.H())), p.H().Mul(g).Add(-1, rest)}
	}
}

// lstsqGradScale bounds the terms of the gradients by norms over the batch: of
// A |pinv(A)|^2*|g|*|B|, of B |pinv(A)|*|g|, times the condition of A.
func lstsqGradScale(call *matrixOpCall[lstsqArgs], g *opdef.Grad, grads opdef.Grads) (opdef.Grads, error) {
	a := call.given
	m, n := lastTwo(a.A)
	inv := 0.0
	data := tensor.Data[complex128](a.A)
	for i := 0; m*n > 0 && i < len(data); i += m * n {
		s := kernel.SingularValues(kernel.Mat[complex128]{R: m, C: n, D: data[i : i+m*n]})
		inv = math.Max(inv, 1/math.Max(s[len(s)-1], 1e-6*s[0]))
	}
	k, rows := worstCondition(a.A), math.Sqrt(float64(m*n))
	up := 0.0
	for _, t := range g.Out[:2] {
		if t != nil {
			up = math.Max(up, opdef.MaxAbs(t))
		}
	}
	out := opdef.Grads{}
	for arg, size := range map[string]float64{"A": k * inv * inv * up * rows * opdef.MaxAbs(a.B),
		"B": k * inv * up * rows} {
		if ts := grads[arg]; len(ts) == 1 && ts[0] != nil {
			out.Set(arg, tensor.Full(tensor.Float64, ts[0].Shape, math.Max(size, opdef.MaxAbs(ts[0]))))
		}
	}
	return out, nil
}

// pivotsArg checks LAPACK's pivots of a packed factorisation of n rows. Those of
// an LDL factorisation may be negative, in pairs.
func pivotsArg(arg string, pivots, factors *tensor.Tensor, count, n int, blocks bool) error {
	if pivots.DType != tensor.Int32 {
		return opdef.Refuse(arg, "want dtype int32, got %s", pivots.DType)
	}
	want := slices.Concat(factors.Shape[:factors.Dim()-2], []int{count})
	if !slices.Equal(pivots.Shape, want) {
		return opdef.Refuse(arg, "want shape %s, got %s", tensor.ShapeString(want), tensor.ShapeString(pivots.Shape))
	}
	data := tensor.Data[int64](pivots)
	for at := 0; count > 0 && at < len(data); at += count {
		row := data[at : at+count]
		for k := 0; k < count; k++ {
			pair := blocks && row[k] < 0 && -row[k] <= int64(n) && k+1 < count && row[k+1] < 0 && -row[k+1] <= int64(n)
			if !pair && (row[k] < 1 || row[k] > int64(n)) {
				return opdef.Refuse(arg, "pivot %d is out of range [1, %d]", row[k], n)
			}
			if pair {
				k++
			}
		}
	}
	return nil
}

// pivotsOf are pivots as indices from 0.
func pivotsOf[T kernel.Field](m kernel.Mat[T]) []int {
	piv := make([]int, len(m.D))
	for i, x := range m.D {
		piv[i] = int(kernel.Re(x)) - 1
	}
	return piv
}

func luUnpackPlan(a *luUnpackArgs) (*matrixCall, error) {
	t := a.LUData
	if t.Dim() < 2 || t.DType.Kind() < tensor.KindFloat {
		return nil, opdef.Refuse("LU_data", "want floating matrices, got %s", t.Meta())
	}
	r, c := lastTwo(t)
	k := min(r, c)
	if a.UnpackPivots {
		if err := pivotsArg("LU_pivots", a.LUPivots, t, k, r, false); err != nil {
			return nil, err
		}
	}
	m := &matrixCall{
		args: []string{"LU_data"}, ins: []*tensor.Tensor{t}, ranks: []int{2}, outs: []matrixOut{{t.DType, []int{r, r}},
			{t.DType, []int{r, k}}, {t.DType, []int{k, c}}},
		run: algorithm{luUnpack[float64], luUnpack[complex128]}, back: algorithm{luUnpackGrad[float64],
			luUnpackGrad[complex128]},
	}
	if a.UnpackPivots {
		m.ins, m.ranks, m.fixed = append(m.ins, a.LUPivots), append(m.ranks, 1), 1
	} else {
		m.drop = []int{0}
	}
	if !a.UnpackData {
		m.drop = append(m.drop, 1, 2)
	}
	return m, nil
}

func luUnpack[T kernel.Field](in matrices[T]) matrices[T] {
	f := in[0]
	k := min(f.R, f.C)
	p := kernel.Eye[T](f.R, f.R)
	if len(in) > 1 {
		kernel.Permute(p, pivotsOf(in[1]), true)
	}
	return matrices[T]{p, f.Cols(0, k).Tril(-1).Add(1, kernel.Eye[T](f.R, k)), f.Rows(0, k).Triu(0)}
}

func luUnpackGrad[T kernel.Field](in matrices[T]) matrices[T] {
	gl, gu := in[len(in)-2].Tril(-1), in[len(in)-1].Triu(0)
	out := kernel.Zeros[T](in[0].R, in[0].C)
	for i := range gl.R {
		copy(out.Row(i), gl.Row(i))
	}
	for i := range gu.R {
		for j := i; j < gu.C; j++ {
			out.Row(i)[j] = gu.At(i, j)
		}
	}
	return matrices[T]{out}
}

// A luSolver is a system of a packed factorisation, with the names of its
// arguments.
type luSolver struct {
	factorName, pivotName, rightName string
	factor, pivots, right            *tensor.Tensor
	left, adjoint                    bool
}

func luSolvePlan(a luSolver) (*matrixCall, error) {
	if err := matrixArg(a.factorName, a.factor, true); err != nil {
		return nil, err
	}
	if err := matrixArg(a.rightName, a.right, false); err != nil {
		return nil, err
	}
	if err := sameDType(a.rightName, a.right, a.factor); err != nil {
		return nil, err
	}
	n, _ := lastTwo(a.factor)
	if err := pivotsArg(a.pivotName, a.pivots, a.factor, n, n, false); err != nil {
		return nil, err
	}
	rows, cols := lastTwo(a.right)
	if a.left && rows != n || !a.left && cols != n {
		return nil, opdef.Refuse(a.rightName, "shape %s does not match a factorisation of size %d",
			tensor.ShapeString(a.right.Shape), n)
	}
	return &matrixCall{
		args: []string{a.factorName, a.rightName}, ins: []*tensor.Tensor{a.factor, a.right, a.pivots},
		ranks: []int{2, 2, 1}, fixed: 1, outs: []matrixOut{{a.right.DType, []int{rows, cols}}}, cond: true,
		run:  algorithm{packedSolve[float64](a.left, a.adjoint), packedSolve[complex128](a.left, a.adjoint)},
		back: algorithm{packedSolveGrad[float64](a.left, a.adjoint), packedSolveGrad[complex128](a.left, a.adjoint)},
	}, nil
}

// solvePacked gives x with a*x = b, or a^H*x = b, for the packed factors of a.
func solvePacked[T kernel.Field](lu kernel.Mat[T], piv []int, b kernel.Mat[T], adjoint bool) kernel.Mat[T] {
	if !adjoint {
		return kernel.LUSolve(lu, piv, b)
	}
	h := lu.H()
	x := kernel.SolveTriangular(h, kernel.SolveTriangular(h, b, false, false), true, true)
	kernel.Permute(x, piv, true)
	return x
}

func packedSolve[T kernel.Field](left, adjoint bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		lu, b, piv := in[0], in[1], pivotsOf(in[2])
		if left {
			return matrices[T]{solvePacked(lu, piv, b, adjoint)}
		}
		return matrices[T]{solvePacked(lu, piv, b.H(), !adjoint).H()}
	}
}

func packedSolveGrad[T kernel.Field](left, adjoint bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		lu, piv, x, g := in[0], pivotsOf(in[2]), in[3], in[4]
		if !left { // X*A = B is A^H*X^H = B^H
			x, g = x.H(), g.H()
		}
		adj := adjoint == left
		gb := solvePacked(lu, piv, g, !adj)
		ga := gb.Mul(x.H())
		if adj {
			ga = x.Mul(gb.H())
		}
		ga = ga.Scale(-1)
		kernel.Permute(ga, piv, false)
		l, u := lu.Tril(-1).Add(1, kernel.Eye[T](lu.R, lu.R)), lu.Triu(0)
		glu := ga.Mul(u.H()).Tril(-1).Add(1, l.H().Mul(ga).Triu(0))
		if !left {
			gb = gb.H()
		}
		return matrices[T]{glu, gb}
	}
}

func tensorinvPlan(a *tensorinvArgs) (*matrixCall, error) {
	t := a.A
	if err := matrixDType("A", t); err != nil {
		return nil, err
	}
	if a.Ind < 1 || a.Ind > t.Dim() {
		return nil, opdef.Refuse("ind", "want a number of dimensions of A from 1 to %d, got %d", t.Dim(), a.Ind)
	}
	rows, cols := t.Shape[:a.Ind], t.Shape[a.Ind:]
	n := tensor.Numel(rows)
	if tensor.Numel(cols) != n {
		return nil, opdef.Refuse("A", "shape %s is not square with %d dimensions as rows", tensor.ShapeString(t.Shape),
			a.Ind)
	}
	if err := regular("A", t.Reshape(n, n)); err != nil {
		return nil, err
	}
	return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{t}, ranks: []int{t.Dim()},
		outs: []matrixOut{{t.DType, slices.Concat(cols, rows)}}, amplify: worstCondition(t.Reshape(n, n)),
		run: algorithm{tensorinv[float64](n), tensorinv[complex128](n)}, back: algorithm{tensorinvGrad[float64](n),
			tensorinvGrad[complex128](n)}}, nil
}

func tensorinv[T kernel.Field](n int) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		return matInverse(matrices[T]{{R: n, C: n, D: in[0].D}})
	}
}

func tensorinvGrad[T kernel.Field](n int) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		x := kernel.Mat[T]{R: n, C: n, D: in[1].D}.H()
		return matrices[T]{x.Mul(kernel.Mat[T]{R: n, C: n, D: in[2].D}).Mul(x).Scale(-1)}
	}
}
