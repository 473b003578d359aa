package linalg

import (
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

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
	return &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{a.A}, ranks: []int{2},
		outs: []matrixOut{{dt, []int{r, r}}, {dt, []int{r, k}}, {dt, []int{k, c}}}, cond: true,
		run: algorithm{lu[float64], lu[complex128]}, back: algorithm{luGrad[float64], luGrad[complex128]}}, nil
}

func lu[T kernel.Field](in matrices[T]) matrices[T] {
	f, piv, _ := kernel.LU(in[0])
	k := min(f.R, f.C)
	p := kernel.Eye[T](f.R, f.R)
	kernel.Permute(p, piv, true)
	return matrices[T]{p, f.Cols(0, k).Tril(-1).Add(1, kernel.Eye[T](f.R, k)), f.Rows(0, k).Triu(0)}
}

// luGrad for square, tall and wide matrices.
// Source: torch/csrc/autograd/FunctionsManual.cpp, linalg_lu_backward
func luGrad[T kernel.Field](in matrices[T]) matrices[T] {
	p, l, u, gl, gu := in[1], in[2], in[3], in[5], in[6]
	return matrices[T]{p.Mul(luCoreGrad(l, u, gl, gu))}
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

type luInfoArgs struct {
	A               *tensor.Tensor
	Pivot, GetInfos bool
}

func luFactorPlan(t *tensor.Tensor, pivot, info bool) (*matrixCall, error) {
	if err := matrixArg("A", t, false); err != nil {
		return nil, err
	}
	if !pivot {
		return nil, opdef.Refuse("pivot", "want true on the CPU")
	}
	r, c := lastTwo(t)
	m := &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{t}, ranks: []int{2},
		outs: []matrixOut{{t.DType, []int{r, c}}, {tensor.Int32, []int{min(r, c)}}}, cond: true,
		run: algorithm{luFactor[float64], luFactor[complex128]}, back: algorithm{luFactorGrad[float64](info),
			luFactorGrad[complex128](info)}}
	if info {
		m.outs = append(m.outs, matrixOut{tensor.Int32, nil})
	}
	return m, nil
}

func luFactor[T kernel.Field](in matrices[T]) matrices[T] {
	f, piv, zero := kernel.LU(in[0])
	p := make([]float64, len(piv))
	for i, x := range piv {
		p[i] = float64(x + 1)
	}
	return matrices[T]{f, column[T](p), column[T]([]float64{float64(zero)})}
}

func luFactorGrad[T kernel.Field](info bool) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		f, g := in[1], in[3]
		if info {
			g = in[4]
		}
		k := min(f.R, f.C)
		piv := tensor.Make[int](k)
		for i := range piv {
			piv[i] = int(kernel.Re(in[2].D[i])) - 1
		}
		x := luCoreGrad(f.Cols(0, k).Tril(-1).Add(1, kernel.Eye[T](f.R, k)), f.Rows(0, k).Triu(0),
			g.Cols(0, k).Tril(-1), g.Rows(0, k).Triu(0))
		kernel.Permute(x, piv, true)
		return matrices[T]{x}
	}
}
