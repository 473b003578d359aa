package linalg

import (
	"math"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// signLog is the determinant as a number of magnitude 1 (0 if singular) and
// the logarithm of its magnitude.
func signLog[T kernel.Field](m kernel.Mat[T]) (sign T, log float64) {
	lu, piv, _ := kernel.LU(m)
	sign = 1
	for i, p := range piv {
		if p != i {
			sign = -sign
		}
	}
	for _, d := range lu.Diagonal() {
		r := kernel.Abs(d)
		if r == 0 {
			return 0, math.Inf(-1)
		}
		sign *= d / kernel.From[T](r)
		log += math.Log(r)
	}
	return sign, log
}

// hadamard is the product of the norms of the rows: what determinants cannot
// exceed, and what their errors are relative to.
func hadamard(t *tensor.Tensor) *tensor.Tensor {
	return opdef.Must(eachMatrix(t.Shape[:t.Dim()-2], []*tensor.Tensor{t}, []int{2}, []matrixOut{{tensor.Float64, nil}},
		func(in matrices[complex128]) matrices[complex128] {
			p := 1.0
			for i := range in[0].R {
				p *= in[0].Rows(i, i+1).Frobenius()
			}
			return matrices[complex128]{{R: 1, C: 1, D: []complex128{complex(p, 0)}}}
		}))[0]
}

// logScale is the magnitude S of logarithms of determinants of condition k: an error of the determinant by a factor is
// one of the logarithm by a number, also where that is nearly 0.
func logScale(log *tensor.Tensor, k float64) *tensor.Tensor {
	return tensor.Full(tensor.Float64, log.Shape, k*(1+opdef.MaxAbs(log)))
}

func det[T kernel.Field](in matrices[T]) matrices[T] {
	lu, piv, _ := kernel.LU(in[0])
	d := T(1)
	for i, p := range piv {
		if p != i {
			d = -d
		}
	}
	for _, x := range lu.Diagonal() {
		d *= x
	}
	return matrices[T]{{R: 1, C: 1, D: []T{d}}}
}

// detGrad uses the adjugate, which exists for singular matrices too.
func detGrad[T kernel.Field](in matrices[T]) matrices[T] {
	u, s, vh := kernel.SVD(in[0])
	du, dv := det(matrices[T]{u})[0].D[0], det(matrices[T]{vh})[0].D[0]
	d := make([]T, len(s))
	for i := range d {
		p := 1.0
		for j, x := range s {
			if j != i {
				p *= x
			}
		}
		d[i] = kernel.From[T](p) * kernel.Conj(du*dv)
	}
	// The adjoint of the adjugate det(U V^H) V adj(S) U^H.
	return matrices[T]{u.Mul(kernel.Diag(d)).Mul(vh).Scale(in[2].D[0])}
}

func slogdet[T kernel.Field](in matrices[T]) matrices[T] {
	s, l := signLog(in[0])
	return matrices[T]{{R: 1, C: 1, D: []T{s}}, column[T]([]float64{l})}
}

func inverseAdjoint[T kernel.Field](m kernel.Mat[T]) kernel.Mat[T] {
	x, _ := kernel.Solve(m.H(), kernel.Eye[T](m.R, m.R))
	return x
}

func slogdetGrad[T kernel.Field](in matrices[T]) matrices[T] {
	sign, gs, gl := in[1].D[0], in[3].D[0], in[4].D[0]
	k := kernel.FromParts[T](kernel.Re(gl), -kernel.Im(kernel.Conj(gs)*sign))
	return matrices[T]{inverseAdjoint(in[0]).Scale(k)}
}

func logdet[T kernel.Field](in matrices[T]) matrices[T] {
	s, l := signLog(in[0])
	v := kernel.FromParts[T](l, kernel.Atan2(kernel.Im(s), kernel.Re(s)))
	if _, isReal := any(s).(float64); isReal && kernel.Re(s) < 0 {
		v = kernel.From[T](math.NaN())
	}
	return matrices[T]{{R: 1, C: 1, D: []T{v}}}
}

func logdetGrad[T kernel.Field](in matrices[T]) matrices[T] {
	return matrices[T]{inverseAdjoint(in[0]).Scale(in[2].D[0])}
}
