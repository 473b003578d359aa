package linalg

import (
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

var ldlDoc = opdef.Doc{Summary: "LDL factorisation of symmetric or Hermitian matrices",
	Formula: "A = P @ L @ D @ L^T @ P^T, L^H for L^T if hermitian",
	Notes:   "Reads the lower triangle; blocks and pivots as LAPACK's sytf2 and hetf2 choose them.",
	Source:  "torch.linalg.ldl_factor"}

func ldlCases(g opdef.Gen) (cs []*ldlExArgs) {
	for i, dt := range []tensor.DType{tensor.Float64, tensor.Complex128, tensor.Complex128, tensor.Float32} {
		cs = append(cs, &ldlExArgs{g.Normal(dt, 2, 4, 4), i%2 == 1, false})
	}
	return cs
}

func ldlPlan(t *tensor.Tensor, hermitian, info bool) (*matrixCall, error) {
	if err := matrixArg("A", t, true); err != nil {
		return nil, err
	}
	n, _ := lastTwo(t)
	m := &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{t}, ranks: []int{2},
		outs: []matrixOut{{t.DType, []int{n, n}}, {tensor.Int32, []int{n}}}, cond: true,
		run: algorithm{ldl[float64](hermitian), ldl[complex128](hermitian)}}
	if info {
		m.outs = append(m.outs, matrixOut{tensor.Int32, nil})
	}
	return m, nil
}

func ldl[T kernel.Field](hermitian bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		f, piv, zero := kernel.LDL(in[0], hermitian)
		p := make([]float64, len(piv))
		for i, x := range piv {
			p[i] = float64(x)
		}
		return matrices[T]{f, column[T](p), column[T]([]float64{float64(zero)})}
	}
}

func ldlSolvePlan(a *ldlSolveArgs) (*matrixCall, error) {
	if err := matrixArg("LD", a.LD, true); err != nil {
		return nil, err
	}
	if err := matrixArg("B", a.B, false); err != nil {
		return nil, err
	}
	if err := sameDType("B", a.B, a.LD); err != nil {
		return nil, err
	}
	n, _ := lastTwo(a.LD)
	if err := pivotsArg("pivots", a.Pivots, a.LD, n, n, true); err != nil {
		return nil, err
	}
	rows, cols := lastTwo(a.B)
	if rows != n {
		return nil, opdef.Refuse("B", "want %d rows, got shape %s", n, tensor.ShapeString(a.B.Shape))
	}
	return &matrixCall{args: []string{"LD", "B"}, ins: []*tensor.Tensor{a.LD, a.B, a.Pivots}, ranks: []int{2, 2, 1},
		fixed: 1, outs: []matrixOut{{a.B.DType, []int{rows, cols}}}, cond: true,
		run: algorithm{ldlSolve[float64](a.Hermitian), ldlSolve[complex128](a.Hermitian)}}, nil
}

func ldlSolve[T kernel.Field](hermitian bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		piv := pivotsOf(in[2])
		for i := range piv {
			piv[i]++
		}
		return matrices[T]{kernel.LDLSolve(in[0], piv, in[1], hermitian)}
	}
}
