package linalg

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// reflectorsArg checks reflectors and their factors.
func reflectorsArg(arg, tauArg string, t, tau *tensor.Tensor) error {
	if err := matrixArg(arg, t, false); err != nil {
		return err
	}
	if err := sameDType(tauArg, tau, t); err != nil {
		return err
	}
	_, n := lastTwo(t)
	switch d := t.Dim(); {
	case tau.Dim() != d-1 || !slices.Equal(tau.Shape[:d-2], t.Shape[:d-2]):
		return opdef.Refuse(tauArg, "shape %s does not match reflectors of shape %s", tensor.ShapeString(tau.Shape),
			tensor.ShapeString(t.Shape))
	case tau.Shape[d-2] > n:
		return opdef.Refuse(tauArg, "want at most %d factors, got %d", n, tau.Shape[d-2])
	}
	return nil
}

func householderPlan(a *householderArgs) (*matrixCall, error) {
	if err := reflectorsArg("input", "tau", a.Input, a.Tau); err != nil {
		return nil, err
	}
	r, c := lastTwo(a.Input)
	if r < c {
		return nil, opdef.Refuse("input", "want at least as many rows as columns, got shape %s",
			tensor.ShapeString(a.Input.Shape))
	}
	return &matrixCall{
		args: []string{"input", "tau"}, ins: []*tensor.Tensor{a.Input, a.Tau}, ranks: []int{2, 1},
		outs: []matrixOut{{a.Input.DType, []int{r, c}}}, amplify: reflectorGrowth(a.Input, a.Tau),
		run: algorithm{householder[float64], householder[complex128]}, back: algorithm{householderGrad[float64],
			householderGrad[complex128]},
	}, nil
}

// reflectorGrowth is how much larger than their product the product of the
// magnitudes of reflectors can be: 1 if they are unitary.
func reflectorGrowth(t, tau *tensor.Tensor) float64 {
	r, c := lastTwo(t)
	k := tau.Shape[tau.Dim()-1]
	data, taus := tensor.Data[complex128](t), tensor.Data[complex128](tau)
	worst := 1.0
	for b := 0; k > 0 && b*k < len(taus); b++ {
		m := kernel.Mat[complex128]{R: r, C: c, D: data[b*r*c : (b+1)*r*c]}
		grow := 1.0
		for j := range k {
			v := m.Rows(min(j+1, r), r).Cols(j, j+1).Frobenius()
			grow *= math.Max(1, kernel.Abs(taus[b*k+j])*(1+v*v)-1)
		}
		worst = math.Max(worst, grow)
	}
	return worst
}

func householder[T kernel.Field](in matrices[T]) matrices[T] {
	f, tau := in[0], in[1].D
	return matrices[T]{kernel.ApplyQ(f, tau, kernel.Eye[T](f.R, f.C), false)}
}

// householderGrad goes through the reflectors from the first to the last: with
// Y_j = H_j @ Y_(j+1), the gradients of tau_j and v_j follow from that of Y_j.
func householderGrad[T kernel.Field](in matrices[T]) matrices[T] {
	f, tau, g := in[0], in[1].D, in[3]
	k := len(tau)
	gf, gt := kernel.Zeros[T](f.R, f.C), tensor.Make[T](k)
	for j := range k {
		// Y_(j+1) is made by the reflectors after j.
		after := slices.Clone(tau)
		clear(after[:j+1])
		y := kernel.ApplyQ(f, after, kernel.Eye[T](f.R, f.C), false)
		v := f.Cols(j, j+1).Tril(-j - 1)
		v.D[j] = 1
		w := v.H().Mul(y)                                    // v^H Y
		gw := g.Mul(w.H())                                   // G w^H
		gt[j] = -v.H().Mul(gw).D[0]                          // of -tau v w
		gv := gw.Scale(-kernel.Conj(tau[j]))                 // through v
		gv = gv.Add(-tau[j], y.Mul(g.H().Mul(v)))            // through v^H
		hv := v.Mul(v.H().Mul(g)).Scale(kernel.Conj(tau[j])) // H_j^H G = G - hv
		g = g.Add(-1, hv)
		for i := j + 1; i < f.R; i++ {
			gf.D[i*f.C+j] = gv.D[i]
		}
	}
	return matrices[T]{gf, {R: k, C: 1, D: gt}}
}

func ormqrPlan(a *ormqrArgs) (*matrixCall, error) {
	if err := reflectorsArg("self", "input2", a.Self, a.Input2); err != nil {
		return nil, err
	}
	if err := matrixArg("input3", a.Input3, false); err != nil {
		return nil, err
	}
	if err := sameDType("input3", a.Input3, a.Self); err != nil {
		return nil, err
	}
	r, _ := lastTwo(a.Self)
	rows, cols := lastTwo(a.Input3)
	n := cols
	if a.Left {
		n = rows
	}
	switch d := a.Self.Dim(); {
	case n != r:
		return nil, opdef.Refuse("input3", "shape %s does not match reflectors of shape %s",
			tensor.ShapeString(a.Input3.Shape), tensor.ShapeString(a.Self.Shape))
	case a.Input2.Shape[d-2] > r:
		return nil, opdef.Refuse("input2", "want at most %d factors, got %d", r, a.Input2.Shape[d-2])
	case a.Input3.Dim() != d || !slices.Equal(a.Input3.Shape[:d-2], a.Self.Shape[:d-2]):
		return nil, opdef.Refuse("input3", "batch of shape %s does not match that of %s",
			tensor.ShapeString(a.Input3.Shape), tensor.ShapeString(a.Self.Shape))
	}
	return &matrixCall{
		args: []string{"self", "input2", "input3"}, ins: []*tensor.Tensor{a.Self, a.Input2, a.Input3},
		ranks: []int{2, 1, 2}, outs: []matrixOut{{a.Self.DType, []int{rows, cols}}},
		amplify: reflectorGrowth(a.Self, a.Input2), run: algorithm{ormqr[float64](a), ormqr[complex128](a)},
	}, nil
}

func ormqr[T kernel.Field](a *ormqrArgs) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		if a.Left {
			return matrices[T]{kernel.ApplyQ(in[0], in[1].D, in[2], a.Transpose)}
		}
		return matrices[T]{kernel.ApplyQ(in[0], in[1].D, in[2].H(), !a.Transpose).H()}
	}
}
