package linalg

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// eigenOps are decompositions into eigenvalues and singular values.
var eigenOps = []*opdef.Entry{
	factorOp(factorDecl[eighArgs]{
		Schema: "eigh(Tensor A, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
		Names:  "linalg.eigh",
		Doc: opdef.Doc{Summary: "Eigenvalues, ascending, and eigenvectors of Hermitian matrices",
			Formula: "A = V @ diag(w) @ V^H", Notes: phaseNote},
		Cases:  opdef.Calls[eighArgs](`for T in f64 f32 c128: T[3, 3]{positive}; T[2, 4, 4]{positive}`),
		Exempt: hermitianGradient,
	}, func(m *matrixOpCall[eighArgs], got, _ []*tensor.Tensor) []opdef.Acceptance {
		return acceptEigh(m.ins[0], m.given.UPLO == "U" || m.given.UPLO == "u", got)
	}, func(a *eighArgs) (*matrixCall, error) { return eighPlan(a.A, a.UPLO, true) }),
	factorOp(factorDecl[symeigArgs]{
		Schema: "symeig(Tensor self, bool eigenvectors=False, bool upper=True) -> (Tensor eigenvalues, Tensor " +
			"eigenvectors)",
		Doc: opdef.Doc{Summary: "Eigenvalues, ascending, and eigenvectors of Hermitian matrices",
			Formula: "self = V @ diag(w) @ V^H", Notes: "Without eigenvectors these are zeros. " + phaseNote,
			Source: "torch.symeig, up to torch 1.13"},
		Cases: opdef.Calls[symeigArgs](`
			f64[3, 3]{positive}; f64[2, 4, 4]{positive}, eigenvectors=True, upper=False
			for T in f32 c128: T[3, 3]{positive}, eigenvectors=True;
			T[2, 4, 4]{positive}, eigenvectors=True, upper=False`),
		Exempt: hermitianGradient,
	}, func(m *matrixOpCall[symeigArgs], got, want []*tensor.Tensor) []opdef.Acceptance {
		if !m.given.Eigenvectors {
			return unaccepted(want)
		}
		return acceptEigh(m.ins[0], m.given.Upper, got)
	}, symeigPlan),
	matrixOp(matrixDecl[eighArgs]{
		Schema: "eigvalsh(Tensor A, str UPLO='L') -> Tensor",
		Names:  "linalg.eigvalsh",
		Doc:    opdef.Doc{Summary: "Eigenvalues of Hermitian matrices, ascending", Formula: "A = V @ diag(w) @ V^H"},
		Exempt: hermitianGradient,
		Cases:  opdef.Calls[eighArgs](`for T in f64 f32 c128: T[3, 3]{positive}; T[2, 4, 4]{positive}`),
	}, func(a *eighArgs) (*matrixCall, error) { return eighPlan(a.A, a.UPLO, false) }),
	factorOp(factorDecl[svdArgs]{
		Schema: "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
		Names:  "linalg.svd",
		Doc:    svdDoc,
		Cases: opdef.Calls[svdArgs](`
			f64[4, 3], full_matrices=False; f64[2, 3, 4]{fixed}; f64[2, 3, 4], full_matrices=False
			c128[3, 3]{fixed}; f32[3, 2], full_matrices=False`),
	}, func(m *matrixOpCall[svdArgs], got, _ []*tensor.Tensor) []opdef.Acceptance {
		return acceptSVD(m.ins[0], got, false)
	}, func(a *svdArgs) (*matrixCall, error) { return svdPlan(a.A, a.FullMatrices, false) }),
	factorOp(factorDecl[svdSomeArgs]{
		Schema: "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
		Doc:    svdDoc,
		Cases:  opdef.Calls[svdSomeArgs](`f64[4, 3]; f32[3, 4]{fixed}, some=False`),
	}, func(m *matrixOpCall[svdSomeArgs], got, want []*tensor.Tensor) []opdef.Acceptance {
		if !m.given.ComputeUv {
			return unaccepted(want)
		}
		return acceptSVD(m.ins[0], got, true)
	}, func(a *svdSomeArgs) (*matrixCall, error) {
		m, err := svdPlan(a.Self, !a.Some || !a.ComputeUv, true)
		if err == nil && !a.ComputeUv { // torch returns zeros in place of the vectors
			m.run = algorithm{zeroVectors(m.run.f), zeroVectors(m.run.c)}
		}
		return m, err
	}),
	matrixOp(matrixDecl[svdvalsArgs]{
		Schema: "svdvals(Tensor A, *, str? driver=None) -> Tensor",
		Names:  "linalg.svdvals",
		Doc:    opdef.Doc{Summary: "Singular values, descending", Formula: "A = U @ diag(S) @ V^H"},
		Cases:  opdef.Calls[svdvalsArgs](`f64[4, 3]; c128[2, 3, 4]; f32[3, 2]`),
	}, func(a *svdvalsArgs) (*matrixCall, error) {
		if err := matrixArg("A", a.A, false); err != nil {
			return nil, err
		}
		r, c := lastTwo(a.A)
		return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{a.A}, ranks: []int{2},
			outs: []matrixOut{{a.A.DType.Real(), []int{min(r, c)}}}, amplify: 32,
			run: algorithm{svdvals[float64], svdvals[complex128]}, back: algorithm{svdvalsGrad[float64],
				svdvalsGrad[complex128]}}, nil
	}),
	factorOp(factorDecl[matrixArgs]{
		Schema: "eig(Tensor A) -> (Tensor eigenvalues, Tensor eigenvectors)",
		Names:  "linalg.eig",
		Doc: opdef.Doc{Summary: "Eigenvalues and eigenvectors of square matrices", Formula: "A @ V = V @ diag(w)",
			Notes: "In no particular order. " + phaseNote},
		Exempt: map[string]string{"gradients": "eigenvectors are defined up to a phase"},
		Cases:  squareCases,
	}, func(m *matrixOpCall[matrixArgs], got, _ []*tensor.Tensor) []opdef.Acceptance {
		return acceptFactors(m.ins[0], got, -1, func(f matrices[complex128]) kernel.Mat[complex128] {
			vt := f[1].H()
			x, _ := kernel.Solve(vt, f[1].Mul(kernel.Diag(f[0].D)).H()) // A = V diag(w) V^-1
			return x.H()
		})
	}, func(a *matrixArgs) (*matrixCall, error) { return eigPlan(a.A, true) }),
	factorOp(factorDecl[matrixArgs]{
		Schema: "eigvals(Tensor A) -> Tensor",
		Names:  "linalg.eigvals",
		Doc: opdef.Doc{Summary: "Eigenvalues of square matrices", Formula: "det(A - w*I) = 0",
			Notes: "In no particular order."},
		Exempt: map[string]string{"gradients": "in no particular order"},
		Cases:  squareCases,
	}, acceptEigvals, func(a *matrixArgs) (*matrixCall, error) { return eigPlan(a.A, false) }),
}

type (
	symeigArgs struct {
		Self                *tensor.Tensor
		Eigenvectors, Upper bool
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
)

// phaseNote is what gradients of eigenvectors mean.
const phaseNote = "Eigenvectors are defined up to a phase; gradients are those of functions that do not depend on it."

var hermitianGradient = map[string]string{"gradients": "the gradient is that of a Hermitian perturbation"}

var svdDoc = opdef.Doc{Summary: "Singular value decomposition", Formula: "A = U @ diag(S) @ V^H",
	Notes: "Singular vectors are defined up to a phase; gradients are those of functions that do not depend on it. " +
		"Of full matrices the vectors beyond the singular values have none.", Source: "torch.linalg.svd"}

// hermitianOf completes a batch of matrices from one triangle.
func hermitianOf(t *tensor.Tensor, upper bool) *tensor.Tensor {
	r, c := lastTwo(t)
	f := func(in matrices[complex128]) matrices[complex128] {
		return matrices[complex128]{kernel.Symmetrize(in[0], upper)}
	}
	return opdef.Must(eachMatrix(t.Shape[:t.Dim()-2], []*tensor.Tensor{t}, []int{2},
		[]matrixOut{{tensor.Complex128, []int{r, c}}}, f))[0]
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
	m := &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{t}, ranks: []int{2},
		outs: []matrixOut{{t.DType.Real(), []int{n}}}, amplify: 32, run: algorithm{eigh[float64](upper),
			eigh[complex128](upper)}}
	if vectors {
		m.outs = append(m.outs, matrixOut{t.DType, []int{n, n}})
		m.back = algorithm{eighGrad[float64], eighGrad[complex128]}
		m.gap = hermitianGap(upper)
	} else {
		m.back = algorithm{eigvalshGrad[float64](upper), eigvalshGrad[complex128](upper)}
	}
	return m, nil
}

// symeigPlan is eigh with zeros in place of vectors that are not asked for.
func symeigPlan(a *symeigArgs) (*matrixCall, error) {
	uplo := "L"
	if a.Upper {
		uplo = "U"
	}
	m, err := eighPlan(a.Self, uplo, a.Eigenvectors)
	if err != nil {
		return nil, opdef.Refuse("self", "%v", err)
	}
	m.args = []string{"self"}
	if !a.Eigenvectors {
		n, _ := lastTwo(a.Self)
		m.outs = append(m.outs, matrixOut{a.Self.DType, []int{n, n}})
		m.drop = []int{1}
	}
	return m, nil
}

func eigvalshGrad[T kernel.Field](upper bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		_, v := kernel.Eigh(kernel.Symmetrize(in[0], upper))
		return matrices[T]{v.Mul(kernel.Diag(in[(len(in)+1)/2].D)).Mul(v.H())}
	}
}

func eigh[T kernel.Field](upper bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		w, v := kernel.Eigh(kernel.Symmetrize(in[0], upper))
		return matrices[T]{column[T](w), v}
	}
}

func eighGrad[T kernel.Field](in matrices[T]) matrices[T] {
	return matrices[T]{hermitianGrad(in[1].D, in[2], in[3].D, in[4])}
}

// hermitianGrad is the gradient of a Hermitian matrix with eigenvalues w and
// eigenvectors v, projected on what does not change the phases of v.
// Source: torch/csrc/autograd/FunctionsManual.cpp, linalg_eig_backward
func hermitianGrad[T kernel.Field](w []T, v kernel.Mat[T], gw []T, gv kernel.Mat[T]) kernel.Mat[T] {
	turn := skew(v.H().Mul(gv))
	inner := turn.Map(func(i, j int, x T) T {
		switch {
		case i == j:
			return gw[i]
		case x == 0: // also where eigenvalues coincide
			return 0
		}
		return x / (w[j] - w[i]) / 2
	})
	return v.Mul(inner).Mul(v.H())
}

// skew is the skew-Hermitian part of m, doubled.
func skew[T kernel.Field](m kernel.Mat[T]) kernel.Mat[T] { return m.Add(-1, m.H()) }

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
	return &matrixCall{args: []string{arg}, ins: []*tensor.Tensor{t}, ranks: []int{2}, outs: []matrixOut{{t.DType, u},
		{t.DType.Real(), []int{k}}, {t.DType, v}},
		run:  algorithm{svd[float64](full, plainV), svd[complex128](full, plainV)},
		back: algorithm{svdGrad[float64](plainV), svdGrad[complex128](plainV)}, gap: singularGap}, nil
}

func svd[T kernel.Field](full, plainV bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		u, s, vh := kernel.SVD(in[0])
		if full {
			u = kernel.Complete(u, u.R)
			vh = kernel.Complete(vh.H(), vh.C).H()
		}
		if plainV {
			vh = vh.H()
		}
		return matrices[T]{u, column[T](s), vh}
	}
}

// svdGrad: of U and V the columns that belong to singular values take part.
// Source: torch/csrc/autograd/FunctionsManual.cpp, svd_backward
func svdGrad[T kernel.Field](plainV bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		a, u, s, v, gu, gs, gv := in[0], in[1], in[2].D, in[3], in[4], in[5].D, in[6]
		k := len(s)
		if !plainV {
			v, gv = v.H(), gv.H()
		}
		u, gu, v, gv = u.Cols(0, k), gu.Cols(0, k), v.Cols(0, k), gv.Cols(0, k)
		left, right := skew(u.H().Mul(gu)), skew(v.H().Mul(gv))
		inner := left.Map(func(i, j int, x T) T {
			if i == j { // the phase of u and v alone
				if x != 0 {
					return gs[i] + x/(2*s[i])
				}
				return gs[i]
			}
			y := x*s[j] + s[i]*right.At(i, j)
			if y == 0 { // also where singular values coincide
				return 0
			}
			return y / ((s[j] - s[i]) * (s[j] + s[i]))
		})
		g := u.Mul(inner).Mul(v.H())
		over := kernel.Diag(s).Map(func(i, j int, x T) T {
			if i == j {
				return 1 / x
			}
			return 0
		})
		if a.R > k { // (I - U U^H) gU S^-1 V^H
			w := gu.Mul(over)
			g = g.Add(1, w.Add(-1, u.Mul(u.H().Mul(w))).Mul(v.H()))
		}
		if a.C > k {
			w := gv.Mul(over)
			g = g.Add(1, u.Mul(w.Add(-1, v.Mul(v.H().Mul(w))).H()))
		}
		return matrices[T]{g}
	}
}

// zeroVectors keeps the singular values alone.
func zeroVectors[T kernel.Field](f matrixFunc[T]) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		out := f(in)
		out[0], out[2] = kernel.Zeros[T](out[0].R, out[0].C), kernel.Zeros[T](out[2].R, out[2].C)
		return out
	}
}

func svdvals[T kernel.Field](in matrices[T]) matrices[T] {
	_, s, _ := kernel.SVD(in[0])
	return matrices[T]{column[T](s)}
}

func svdvalsGrad[T kernel.Field](in matrices[T]) matrices[T] {
	u, _, vh := kernel.SVD(in[0])
	return matrices[T]{u.Mul(kernel.Diag(in[2].D)).Mul(vh)}
}

func eigPlan(t *tensor.Tensor, vectors bool) (*matrixCall, error) {
	if err := matrixArg("A", t, true); err != nil {
		return nil, err
	}
	n, _ := lastTwo(t)
	dt := t.DType.Complex()
	m := &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{t}, ranks: []int{2}, outs: []matrixOut{{dt, []int{n}}},
		back: algorithm{c: eigvalsGrad}}
	if vectors {
		m.outs = append(m.outs, matrixOut{dt, []int{n, n}})
		m.back.c = func(in matrices[complex128]) matrices[complex128] {
			return matrices[complex128]{generalGrad(in[1].D, in[2], in[3].D, in[4])}
		}
	}
	m.gap = generalGap
	m.run.c = func(in matrices[complex128]) matrices[complex128] {
		w, v := kernel.Eig(in[0])
		return matrices[complex128]{{R: n, C: 1, D: w}, v}
	}
	return m, nil
}

// generalGrad is the gradient of a matrix with eigenvalues w and eigenvectors v
// of length 1.
// Source: torch/csrc/autograd/FunctionsManual.cpp, linalg_eig_backward
func generalGrad(w []complex128, v kernel.Mat[complex128], gw []complex128,
	gv kernel.Mat[complex128]) kernel.Mat[complex128] {
	turn := v.H().Mul(gv)
	length := make([]complex128, len(w)) // what would change the lengths of v
	for i := range length {
		length[i] = complex(real(turn.At(i, i)), 0)
	}
	turn = turn.Add(-1, v.H().Mul(v).Mul(kernel.Diag(length)))
	inner := turn.Map(func(i, j int, x complex128) complex128 {
		switch {
		case i == j:
			return gw[i]
		case x == 0:
			return 0
		}
		return x / kernel.Conj(w[j]-w[i])
	})
	g, _ := kernel.Solve(v.H(), inner.Mul(v.H()))
	return g
}

// eigvalsGrad finds the eigenvectors of the eigenvalues in their order.
func eigvalsGrad(in matrices[complex128]) matrices[complex128] {
	w, v := kernel.Eig(in[0])
	n := len(w)
	ordered := kernel.Zeros[complex128](n, n)
	for j, x := range in[1].D {
		best := j
		for i := j; i < n; i++ { // those before j are taken
			if kernel.Abs(w[i]-x) < kernel.Abs(w[best]-x) {
				best = i
			}
		}
		w[j], w[best] = w[best], w[j]
		for i := range n {
			row := v.Row(i)
			row[j], row[best] = row[best], row[j]
			ordered.Row(i)[j] = row[j]
		}
	}
	return matrices[complex128]{generalGrad(w, ordered, in[2].D, kernel.Zeros[complex128](n, n))}
}

// hermitianGap is the smallest distance of eigenvalues.
func hermitianGap(upper bool) func(kernel.Mat[complex128]) float64 {
	return func(a kernel.Mat[complex128]) float64 {
		w, _ := kernel.Eigh(kernel.Symmetrize(a, upper))
		return leastGap(column[complex128](w).D)
	}
}

// singularGap is the smallest distance of singular values, or the smallest of
// them where its vectors have a complement.
func singularGap(a kernel.Mat[complex128]) float64 {
	w := column[complex128](kernel.SingularValues(a)).D
	if a.R != a.C {
		w = append(w, 0)
	}
	return leastGap(w)
}

func generalGap(a kernel.Mat[complex128]) float64 {
	w, v := kernel.Eig(a)
	s := kernel.SingularValues(v)
	return leastGap(w) * s[len(s)-1] / s[0]
}

// leastGap is the smallest distance of two numbers relative to the largest one.
func leastGap(w []complex128) float64 {
	largest, least := 0.0, math.Inf(1)
	for i, x := range w {
		largest = math.Max(largest, kernel.Abs(x))
		for _, y := range w[:i] {
			least = math.Min(least, kernel.Abs(x-y))
		}
	}
	return least / largest
}

// acceptEigh decides on eigenvalues and eigenvectors of a Hermitian matrix.
func acceptEigh(t *tensor.Tensor, upper bool, got []*tensor.Tensor) []opdef.Acceptance {
	full := opdef.Cast(hermitianOf(t, upper), t.DType)
	return acceptFactors(full, got, 1, func(f matrices[complex128]) kernel.Mat[complex128] {
		return f[1].Mul(kernel.Diag(f[0].D)).Mul(f[1].H())
	})
}

func acceptSVD(a *tensor.Tensor, got []*tensor.Tensor, plainV bool) []opdef.Acceptance {
	return acceptFactors(a, got, 0, func(f matrices[complex128]) kernel.Mat[complex128] {
		u, s, vh := f[0], f[1].D, f[2]
		if plainV {
			vh = vh.H()
		}
		return u.Cols(0, len(s)).Mul(kernel.Diag(s)).Mul(vh.Rows(0, len(s)))
	})
}

// acceptEigvals pairs each eigenvalue with the nearest one left.
func acceptEigvals(m *matrixOpCall[matrixArgs], got, want []*tensor.Tensor) []opdef.Acceptance {
	a := m.given
	n, _ := lastTwo(a.A)
	x, y := tensor.Data[complex128](got[0]), slices.Clone(tensor.Data[complex128](want[0]))
	bound := 64 * float64(max(n, 4)) * a.A.DType.Real().Eps() * math.Max(opdef.MaxAbs(a.A)*float64(n),
		math.SmallestNonzeroFloat64)
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
