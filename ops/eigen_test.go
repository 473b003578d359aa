package ops

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

type matrix = kernel.Mat[complex128]

// TestGaugeInvariantGradients compares gradients of factors that are defined up
// to phases, which the generic check leaves out, with difference quotients of
// functions that do not depend on the phases.
func TestGaugeInvariantGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	random := func(rows, cols int) matrix {
		m := kernel.Zeros[complex128](rows, cols)
		for i := range m.D {
			m.D[i] = complex(r.NormFloat64(), r.NormFloat64())
		}
		return m
	}
	hermitian := func(n int) matrix { m := random(n, n); return m.Add(1, m.H()) }
	const n = 3
	c, k := random(n, n), kernel.Diag([]complex128{0.5, -1, 2})
	inner := func(a, b matrix) float64 { // Re tr(a^H b)
		s := 0.0
		for i := range a.D {
			s += real(cmplx.Conj(a.D[i]) * b.D[i])
		}
		return s
	}
	for _, tc := range []struct {
		name      string
		a, along  matrix
		loss      func(f []matrix) float64
		gradients func(f []matrix) []matrix
	}{
		{"torch.linalg.eigh", hermitian(n), hermitian(n),
			func(f []matrix) float64 {
				return inner(c, f[1].Mul(k).Mul(f[1].H())) + inner(kernel.Mat[complex128]{R: n, C: 1, D: k.Diagonal()},
					f[0])
			},
			func(f []matrix) []matrix {
				return []matrix{{R: n, C: 1, D: k.Diagonal()}, c.Add(1, c.H()).Mul(f[1]).Mul(k)}
			}},
		{"torch.linalg.eig", random(n, n), random(n, n),
			func(f []matrix) float64 { return inner(c, f[1].Mul(k).Mul(inverseMatrix(f[1]))) },
			func(f []matrix) []matrix {
				inv := inverseMatrix(f[1])
				left := k.Mul(inv).Mul(c.H())
				right := inv.Mul(c.H()).Mul(f[1]).Mul(k).Mul(inv)
				return []matrix{kernel.Zeros[complex128](n, 1), left.Add(-1, right).H()}
			}},
		{"torch.linalg.svd", random(n, n), random(n, n),
			func(f []matrix) float64 {
				return inner(c, f[0].Mul(k).Mul(f[2])) + inner(kernel.Mat[complex128]{R: n, C: 1, D: k.Diagonal()},
					f[1])
			},
			func(f []matrix) []matrix {
				return []matrix{c.Mul(f[2].H()).Mul(k), {R: n, C: 1, D: k.Diagonal()}, k.Mul(f[0].H()).Mul(c)}
			}},
		{"torch.linalg.qr", random(n, n), random(n, n),
			func(f []matrix) float64 { return inner(c, f[0].Mul(k).Mul(f[0].H())) + inner(f[1], f[1]) },
			func(f []matrix) []matrix {
				return []matrix{c.Add(1, c.H()).Mul(f[0]).Mul(k), f[1].Scale(2)}
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			factors := func(a matrix) (f []matrix, call func(up []matrix) matrix) {
				x := tensor.New(tensor.Complex128, []int{n, n}, a.D)
				x.RequiresGrad = true
				cl, fw, err := invoke(t, tc.name, []value.Value{x})
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range fw.Outs {
					f = append(f, matrix{R: n, C: o.Numel() / n, D: tensor.Data[complex128](o)})
				}
				return f, func(up []matrix) matrix {
					var g []*tensor.Tensor
					for i, u := range up {
						g = append(g, tensor.New(tensor.Complex128, fw.Outs[i].Shape, u.D))
					}
					gr, err := cl.Backward(fw, g, nil)
					if err != nil {
						t.Fatal(err)
					}
					for _, list := range gr {
						return matrix{R: n, C: n, D: tensor.Data[complex128](list[0])}
					}
					return matrix{}
				}
			}
			f, back := factors(tc.a)
			const h = 1e-6
			above, _ := factors(tc.a.Add(h, tc.along))
			below, _ := factors(tc.a.Add(-h, tc.along))
			want := (tc.loss(above) - tc.loss(below)) / (2 * h)
			if got := inner(back(tc.gradients(f)), tc.along); math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
				t.Errorf("gradient along a direction is %v, difference quotient %v", got, want)
			}
		})
	}
}

func inverseMatrix(m matrix) matrix {
	x, _ := kernel.Solve(m, kernel.Eye[complex128](m.R, m.R))
	return x
}
