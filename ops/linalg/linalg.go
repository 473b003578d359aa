package linalg

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// linalgOps solve linear systems and compute functions of matrices;
// factorisations are in factorOps.
var linalgOps = []*opdef.Entry{
	matrixOp(matrixDecl[matrixArgs]{
		Schema: "inverse(Tensor A) -> Tensor",
		Names:  "linalg.inv inverse Tensor.inverse",
		Doc:    opdef.Doc{Summary: "Inverse of square matrices", Formula: "A^-1"},
		Cases:  squareCases,
	}, func(a *matrixArgs) (*matrixCall, error) { return inversePlan(a.A, false) }),
	matrixOp(matrixDecl[checkedArgs]{
		Schema: "inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor, Tensor)",
		Names:  "linalg.inv_ex",
		Doc:    opdef.Doc{Summary: "Inverse of square matrices, with LAPACK's info", Formula: "A^-1"},
		Cases:  opdef.Calls[checkedArgs](`for T in f64 f32 c128: T[2, 3, 3]{regular}`),
	}, func(a *checkedArgs) (*matrixCall, error) { return inversePlan(a.A, true) }),
	matrixOp(matrixDecl[solveArgs]{
		Schema: "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
		Names:  "linalg.solve",
		Doc:    solveDoc,
		Cases:  solveCases,
	}, func(a *solveArgs) (*matrixCall, error) { return solvePlan(a, false) }),
	matrixOp(matrixDecl[solveExArgs]{
		Schema: "solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor, Tensor)",
		Names:  "linalg.solve_ex",
		Doc:    solveDoc,
		Cases: opdef.Calls[solveExArgs](`
			f64[3, 3]{regular}, f64[3]; f64[3, 3]{regular}, f64[3, 2]; f64[2, 3, 3]{regular}, f64[3, 2]
			f64[3, 3]{regular}, f64[2, 2, 3], left=False; c128[2, 3, 3]{regular}, c128[2, 3, 1]
			f32[2, 3, 3]{regular}, f32[2, 3]`),
	}, func(a *solveExArgs) (*matrixCall, error) { return solvePlan(&solveArgs{a.A, a.B, a.Left}, true) }),
	matrixOp(matrixDecl[solveTriangularArgs]{
		Schema: "solve_triangular(Tensor A, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> " +
			"Tensor",
		Names: "linalg.solve_triangular",
		Doc:   opdef.Doc{Summary: "Solution of triangular systems", Formula: "X with A @ X = B, or X @ A = B"},
		Cases: opdef.Calls[solveTriangularArgs](`
			f64[2, 3, 3]{regular}, f64[2, 3, 3], upper=True
			f64[2, 3, 3]{regular}, f64[2, 3, 3], upper=False, unitriangular=True
			c128[2, 3, 3]{regular}, c128[2, 3, 3], upper=True, left=False
			f32[2, 3, 3]{regular}, f32[2, 3, 3], upper=False, left=False`),
	}, triangularPlan),
	matrixOp(matrixDecl[triangularSolveArgs]{
		Schema: "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool " +
			"unitriangular=False) -> (Tensor, Tensor)",
		Doc: opdef.Doc{Summary: "Solution of triangular systems, with the coefficients",
			Formula: "X with A @ X = self, or A^T @ X = self"},
		Cases: opdef.Calls[triangularSolveArgs](`
			f64[3, 2], f64[3, 3]{regular}; f64[3, 2], f64[3, 3]{regular}, upper=False, transpose=True
			c128[3, 2], c128[3, 3]{regular}; f32[3, 2], f32[3, 3]{regular}, upper=False, unitriangular=True`),
	}, triangularSolvePlan),
	matrixOp(matrixDecl[matrixArgs]{
		Schema: "det(Tensor A) -> Tensor",
		Names:  "linalg.det det Tensor.det",
		Doc:    opdef.Doc{Summary: "Determinant of square matrices", Formula: "det(A)"},
		Bounds: opdef.Bounds[*matrixOpCall[matrixArgs]]{
			Scale: func(m *matrixOpCall[matrixArgs], outs []*tensor.Tensor) []*tensor.Tensor {
				return []*tensor.Tensor{hadamard(m.ins[0])}
			},
		},
		Cases: squareCases,
	}, func(a *matrixArgs) (*matrixCall, error) {
		if err := matrixArg("A", a.A, true); err != nil {
			return nil, err
		}
		return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{a.A}, ranks: []int{2},
			outs: []matrixOut{{a.A.DType, nil}}, cond: true,
			run: algorithm{det[float64], det[complex128]}, back: algorithm{detGrad[float64], detGrad[complex128]}}, nil
	}),
	matrixOp(matrixDecl[matrixArgs]{
		Schema: "slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
		Names:  "linalg.slogdet slogdet Tensor.slogdet",
		Doc: opdef.Doc{Summary: "Sign and logarithm of the magnitude of the determinant",
			Formula: "det(A) / |det(A)|, log(|det(A)|)"},
		Bounds: opdef.Bounds[*matrixOpCall[matrixArgs]]{
			Scale: func(m *matrixOpCall[matrixArgs], outs []*tensor.Tensor) []*tensor.Tensor {
				return []*tensor.Tensor{normwise(outs[:1], m.condition())[0], logScale(outs[1], m.condition())}
			},
		},
		Cases: squareCases,
	}, func(a *matrixArgs) (*matrixCall, error) {
		if err := matrixArg("A", a.A, true); err != nil {
			return nil, err
		}
		return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{a.A}, ranks: []int{2},
			outs: []matrixOut{{a.A.DType, nil}, {a.A.DType.Real(), nil}}, cond: true,
			run: algorithm{slogdet[float64], slogdet[complex128]}, back: algorithm{slogdetGrad[float64],
				slogdetGrad[complex128]}}, nil
	}),
	matrixOp(matrixDecl[matrixArgs]{
		Schema: "logdet(Tensor A) -> Tensor",
		Names:  "logdet Tensor.logdet",
		Traits: opdef.Traits{Composite: true, LastTakes: 2},
		Doc: opdef.Doc{Summary: "Logarithm of the determinant", Formula: "log(det(A))",
			Notes: "NaN where a real determinant is negative."},
		Bounds: opdef.Bounds[*matrixOpCall[matrixArgs]]{
			Scale: func(m *matrixOpCall[matrixArgs], outs []*tensor.Tensor) []*tensor.Tensor {
				return []*tensor.Tensor{logScale(outs[0], m.condition())}
			},
		},
		Cases: positiveCases,
	}, func(a *matrixArgs) (*matrixCall, error) {
		if err := matrixArg("A", a.A, true); err != nil {
			return nil, err
		}
		return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{a.A}, ranks: []int{2},
			outs: []matrixOut{{a.A.DType, nil}}, cond: true,
			run: algorithm{logdet[float64], logdet[complex128]}, back: algorithm{logdetGrad[float64],
				logdetGrad[complex128]}}, nil
	}),
	matrixOp(matrixDecl[matrixArgs]{
		Schema: "matrix_exp(Tensor A) -> Tensor",
		Names:  "linalg.matrix_exp matrix_exp Tensor.matrix_exp",
		Doc:    opdef.Doc{Summary: "Exponential of square matrices", Formula: "sum_k A^k / k!"},
		Cases:  squareCases,
	}, func(a *matrixArgs) (*matrixCall, error) {
		n := a.A.Dim()
		if n < 2 || a.A.Shape[n-1] != a.A.Shape[n-2] || a.A.DType.Kind() < tensor.KindFloat {
			return nil, opdef.Refuse("A", "want floating square matrices, got %s", a.A.Meta())
		}
		m := unaryMatrix(a.A, algorithm{expm[float64], expm[complex128]},
			algorithm{expmGrad[float64], expmGrad[complex128]})
		m.amplify = 1 + float64(a.A.Shape[n-1])*opdef.MaxAbs(a.A) // squaring multiplies errors
		return m, nil
	}),
	matrixOp(matrixDecl[powerArgs]{
		Schema: "matrix_power(Tensor A, int n) -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastInner, Composite: true, LastTakes: 2},
		Names:  "linalg.matrix_power matrix_power Tensor.matrix_power",
		Doc: opdef.Doc{Summary: "Integer power of square matrices",
			Formula: "A @ A @ ... (n times); of the inverse for negative n"},
		Cases: opdef.Calls[powerArgs](`
			f64[2, 3, 3]{regular}, 0; c128[2, 3, 3]{regular}, 1; f64[2, 3, 3]{regular}, 2
			c128[2, 3, 3]{regular}, 5; f64[2, 3, 3]{regular}, -1; c128[2, 3, 3]{regular}, -3; f32[3, 3]{regular}, 3`),
	}, func(a *powerArgs) (*matrixCall, error) {
		if err := matrixArg("A", a.A, true); err != nil {
			return nil, err
		}
		m := unaryMatrix(a.A, algorithm{matPower[float64](a.N), matPower[complex128](a.N)},
			algorithm{powerGrad[float64](a.N), powerGrad[complex128](a.N)})
		m.cond = a.N < 0
		m.amplify = math.Abs(float64(a.N)) // each product adds its rounding
		return m, nil
	}),
	matrixOp(matrixDecl[tensorsolveArgs]{
		Schema: "tensorsolve(Tensor A, Tensor B, int[]? dims=None) -> Tensor",
		Names:  "linalg.tensorsolve",
		Traits: opdef.Traits{Composite: true, LastView: true},
		Doc: opdef.Doc{Summary: "Solution of tensordot(A, X, X.ndim) = B", Formula: "X",
			Notes: "dims of A are moved to its end first."},
		Cases: func(g opdef.Gen) []*tensorsolveArgs {
			return []*tensorsolveArgs{
				{g.Regular(tensor.Float64, false, 6, 6).Reshape(2, 3, 6), g.Normal(tensor.Float64, 2, 3), nil},
				{g.Regular(tensor.Float64, false, 6, 6).Reshape(6, 2, 3), g.Normal(tensor.Float64, 6), nil},
			}
		},
	}, tensorsolvePlan),
}

type (
	matrixArgs  struct{ A *tensor.Tensor }
	checkedArgs struct {
		A           *tensor.Tensor
		CheckErrors bool
	}
	solveArgs struct {
		A, B *tensor.Tensor
		Left bool
	}
	solveExArgs struct {
		A, B              *tensor.Tensor
		Left, CheckErrors bool
	}
	solveTriangularArgs struct {
		A, B                       *tensor.Tensor
		Upper, Left, Unitriangular bool
	}
	triangularSolveArgs struct {
		Self, A                         *tensor.Tensor
		Upper, Transpose, Unitriangular bool
	}
	powerArgs struct {
		A *tensor.Tensor
		N int
	}
	tensorsolveArgs struct {
		A, B *tensor.Tensor
		Dims []int
	}
)

var solveDoc = opdef.Doc{Summary: "Solution of square linear systems", Formula: "X with A @ X = B, or X @ A = B",
	Notes: "B is a vector where it has one dimension less than A, or A's batch and size.", Source: "torch.linalg.solve"}

// unaryMatrix is a function of one square matrix to another of its size.
func unaryMatrix(t *tensor.Tensor, run, back algorithm) *matrixCall {
	r, c := lastTwo(t)
	return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{t}, ranks: []int{2},
		outs: []matrixOut{{t.DType, []int{r, c}}}, run: run, back: back}
}

func inversePlan(a *tensor.Tensor, info bool) (*matrixCall, error) {
	if err := matrixArg("A", a, true); err != nil {
		return nil, err
	}
	m := unaryMatrix(a, algorithm{matInverse[float64], matInverse[complex128]}, algorithm{inverseGrad[float64](info),
		inverseGrad[complex128](info)})
	m.cond = true
	if info {
		m.outs = append(m.outs, matrixOut{tensor.Int32, nil})
	} else if err := regular("A", a); err != nil {
		return nil, err
	}
	return m, nil
}

// regular refuses singular matrices.
func regular(arg string, t *tensor.Tensor) error {
	n, _ := lastTwo(t)
	data := tensor.Data[complex128](t)
	for i := 0; n > 0 && i < len(data); i += n * n {
		if _, _, zero := kernel.LU(kernel.Mat[complex128]{R: n, C: n, D: data[i : i+n*n]}); zero > 0 {
			return opdef.Refuse(arg, "matrix %d is singular: diagonal element %d of its factor is zero", i/(n*n), zero)
		}
	}
	return nil
}

func matInverse[T kernel.Field](in matrices[T]) matrices[T] {
	x, zero := kernel.Solve(in[0], kernel.Eye[T](in[0].R, in[0].R))
	return matrices[T]{x, column[T]([]float64{float64(zero)})}
}

func inverseGrad[T kernel.Field](info bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		x, g := in[1].H(), in[2]
		if info {
			g = in[3]
		}
		return matrices[T]{x.Mul(g).Mul(x).Scale(-1)}
	}
}

func solvePlan(a *solveArgs, info bool) (*matrixCall, error) {
	if err := matrixArg("A", a.A, true); err != nil {
		return nil, err
	}
	if err := sameDType("B", a.B, a.A); err != nil {
		return nil, err
	}
	n := a.A.Shape[a.A.Dim()-1]
	rank := 2
	if a.B.Dim() == 1 || a.B.Dim() == a.A.Dim()-1 && slices.Equal(a.B.Shape, a.A.Shape[:a.A.Dim()-1]) {
		rank = 1
	}
	if a.B.Dim() < 1 {
		return nil, opdef.Refuse("B", "want at least 1 dimension, got a 0-d tensor")
	}
	if rank == 1 && !a.Left {
		return nil, opdef.Refuse("left", "want true where B is a vector")
	}
	core := a.B.Shape[a.B.Dim()-rank:]
	if k := core[0]; a.Left && k != n {
		return nil, opdef.Refuse("B", "want %d rows, got shape %s", n, tensor.ShapeString(a.B.Shape))
	}
	if !a.Left && core[1] != n {
		return nil, opdef.Refuse("B", "want %d columns, got shape %s", n, tensor.ShapeString(a.B.Shape))
	}
	m := &matrixCall{
		args: []string{"A", "B"}, ins: []*tensor.Tensor{a.A, a.B}, ranks: []int{2, rank},
		outs: []matrixOut{{a.A.DType, core}}, cond: true,
		run:  algorithm{solve[float64](a.Left), solve[complex128](a.Left)},
		back: algorithm{solveGrad[float64](a.Left, info), solveGrad[complex128](a.Left, info)},
	}
	if info {
		m.outs = append(m.outs, matrixOut{tensor.Int32, nil})
	} else if err := regular("A", a.A); err != nil {
		return nil, err
	}
	return m, nil
}

func solve[T kernel.Field](left bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		a, b := in[0], in[1]
		if !left { // X*A = B is A^H*X^H = B^H
			a, b = a.H(), b.H()
		}
		x, zero := kernel.Solve(a, b)
		if !left {
			x = x.H()
		}
		return matrices[T]{x, column[T]([]float64{float64(zero)})}
	}
}

func solveGrad[T kernel.Field](left, info bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		a, x, g := in[0], in[2], in[3]
		if info {
			g = in[4]
		}
		if left {
			gb, _ := kernel.Solve(a.H(), g)
			return matrices[T]{gb.Mul(x.H()).Scale(-1), gb}
		}
		gbh, _ := kernel.Solve(a, g.H())
		gb := gbh.H()
		return matrices[T]{x.H().Mul(gb).Scale(-1), gb}
	}
}

func triangularPlan(a *solveTriangularArgs) (*matrixCall, error) {
	if err := matrixArg("A", a.A, true); err != nil {
		return nil, err
	}
	if err := matrixArg("B", a.B, false); err != nil {
		return nil, err
	}
	if err := sameDType("B", a.B, a.A); err != nil {
		return nil, err
	}
	n, _ := lastTwo(a.A)
	rows, cols := lastTwo(a.B)
	if a.Left && rows != n || !a.Left && cols != n {
		return nil, opdef.Refuse("B", "shape %s does not match A of size %d", tensor.ShapeString(a.B.Shape), n)
	}
	return &matrixCall{
		args: []string{"A", "B"}, ins: []*tensor.Tensor{a.A, a.B}, ranks: []int{2, 2},
		outs: []matrixOut{{a.A.DType, []int{rows, cols}}}, cond: true,
		run:  algorithm{triangular[float64](a), triangular[complex128](a)},
		back: algorithm{triangularGrad[float64](a), triangularGrad[complex128](a)},
	}, nil
}

func triangular[T kernel.Field](o *solveTriangularArgs) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		if o.Left {
			return matrices[T]{kernel.SolveTriangular(in[0], in[1], o.Upper, o.Unitriangular)}
		}
		return matrices[T]{kernel.SolveTriangular(in[0].H(), in[1].H(), !o.Upper, o.Unitriangular).H()}
	}
}

// half keeps the triangle of m that a triangular argument has.
func half[T kernel.Field](m kernel.Mat[T], upper, unit bool) kernel.Mat[T] {
	k := 0
	if unit {
		k = 1
	}
	if upper {
		return m.Triu(k)
	}
	return m.Tril(-k)
}

func triangularGrad[T kernel.Field](o *solveTriangularArgs) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		a, x, g := in[0], in[2], in[3]
		var ga, gb kernel.Mat[T]
		if o.Left {
			gb = kernel.SolveTriangular(a.H(), g, !o.Upper, o.Unitriangular)
			ga = gb.Mul(x.H()).Scale(-1)
		} else {
			gb = kernel.SolveTriangular(a, g.H(), o.Upper, o.Unitriangular).H()
			ga = x.H().Mul(gb).Scale(-1)
		}
		return matrices[T]{half(ga, o.Upper, o.Unitriangular), gb}
	}
}

func triangularSolvePlan(a *triangularSolveArgs) (*matrixCall, error) {
	if err := matrixArg("A", a.A, true); err != nil {
		return nil, err
	}
	if err := matrixArg("self", a.Self, false); err != nil {
		return nil, err
	}
	if err := sameDType("A", a.A, a.Self); err != nil {
		return nil, err
	}
	n, _ := lastTwo(a.A)
	rows, cols := lastTwo(a.Self)
	if rows != n {
		return nil, opdef.Refuse("self", "shape %s does not match A of size %d", tensor.ShapeString(a.Self.Shape), n)
	}
	return &matrixCall{
		args: []string{"A", "self"}, ins: []*tensor.Tensor{a.A, a.Self}, ranks: []int{2, 2},
		outs: []matrixOut{{a.A.DType, []int{rows, cols}}, {a.A.DType, []int{n, n}}}, cond: true,
		run:  algorithm{triangularSolve[float64](a), triangularSolve[complex128](a)},
		back: algorithm{triangularSolveGrad[float64](a), triangularSolveGrad[complex128](a)},
	}, nil
}

// transposed is the transpose, without conjugation.
func transposed[T kernel.Field](m kernel.Mat[T]) kernel.Mat[T] {
	return m.H().Map(func(_, _ int, x T) T { return kernel.Conj(x) })
}

func triangularSolve[T kernel.Field](o *triangularSolveArgs) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		a, upper := in[0], o.Upper
		if o.Transpose {
			a, upper = transposed(a), !upper
		}
		return matrices[T]{kernel.SolveTriangular(a, in[1], upper, o.Unitriangular), in[0]}
	}
}

func triangularSolveGrad[T kernel.Field](o *triangularSolveArgs) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		a, upper, x, g := in[0], o.Upper, in[2], in[4]
		if o.Transpose {
			a, upper = transposed(a), !upper
		}
		gb := kernel.SolveTriangular(a.H(), g, !upper, o.Unitriangular)
		ga := gb.Mul(x.H()).Scale(-1)
		if o.Transpose {
			ga = transposed(ga)
		}
		return matrices[T]{half(ga, o.Upper, o.Unitriangular).Add(1, in[5]), gb}
	}
}

func expm[T kernel.Field](in matrices[T]) matrices[T] {
	return matrices[T]{kernel.Expm(in[0])}
}

// expmGrad reads the gradient off the exponential of a block matrix.
// Source: Mathias, "A chain rule for matrix functions and applications", 1996
func expmGrad[T kernel.Field](in matrices[T]) matrices[T] {
	n := in[0].R
	return matrices[T]{kernel.Expm(block(in[0].H(), in[2])).Rows(0, n).Cols(n, 2*n)}
}

// block is the matrix [a, g; 0, a].
func block[T kernel.Field](a, g kernel.Mat[T]) kernel.Mat[T] {
	n := a.R
	m := kernel.Zeros[T](2*n, 2*n)
	for i := range n {
		copy(m.Row(i)[:n], a.Row(i))
		copy(m.Row(i)[n:], g.Row(i))
		copy(m.Row(n + i)[n:], a.Row(i))
	}
	return m
}

func matPower[T kernel.Field](n int) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		a, k := in[0], uint64(n)
		if n < 0 {
			a, k = matInverse(in)[0], -k
		}
		return matrices[T]{raised(a, k)}
	}
}

// raised is a to the power k, by squaring.
func raised[T kernel.Field](a kernel.Mat[T], k uint64) kernel.Mat[T] {
	x := kernel.Eye[T](a.R, a.R)
	for ; k > 0; k >>= 1 {
		if k&1 == 1 {
			x = x.Mul(a)
		}
		a = a.Mul(a)
	}
	return x
}

func powerGrad[T kernel.Field](n int) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		a, g, k := in[0], in[2], uint64(n)
		if n < 0 {
			a, k = matInverse(in[:1])[0], -k
		}
		// The power of a block matrix holds sum_j ah^j * g * ah^(k-1-j).
		ah := a.H()
		sum := raised(block(ah, g), k).Rows(0, a.R).Cols(a.R, 2*a.R)
		if n < 0 {
			sum = ah.Mul(sum).Mul(ah).Scale(-1)
		}
		return matrices[T]{sum}
	}
}

var squareCases = opdef.Calls[matrixArgs](`
	for T in f64 f32 c128 c64: T[3, 3]{regular}; T[2, 4, 4]{regular}
	f64[2, 3, 3]{regular gaps}; f32[0, 3, 3]`)

var positiveCases = opdef.Calls[matrixArgs](`for T in f64 f32 c128: T[3, 3]{positive}; T[2, 4, 4]{positive}`)

var solveCases = opdef.Calls[solveArgs](`
	f64[3, 3]{regular}, f64[3]; f64[3, 3]{regular}, f64[3, 2]; f64[2, 3, 3]{regular}, f64[3, 2]
	f64[3, 3]{regular}, f64[2, 2, 3], left=False; c128[2, 3, 3]{regular}, c128[2, 3, 1]
	f32[2, 3, 3]{regular}, f32[2, 3]`)
