package linalg

import (
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Values and gradients of torch 1.13.
func TestSpectralNormKnown(t *testing.T) {
	x := tensor.New(tensor.Float64, []int{2, 3}, []float64{1, 2, 3, 4, 0, -1})
	for _, c := range []struct {
		ord  any
		norm float64
		grad []float64
	}{
		{"nuc", 7.860636655938329, []float64{0.23464266622815272, 0.5353939524974992, 0.8113545062513978,
			0.9633613974280588, -0.01652715501029836, -0.26769697624874944}},
		{int64(2), 4.1596605195294485, []float64{0.28689246145897745, 0.040375820303997785, -0.0061124073707479526,
			0.9475414323556798, 0.13335227565348923, -0.02018791015199989}},
		{int64(-2), 3.7009761364088805, []float64{-0.05224979523082473, 0.4950181321935014, 0.8174669136221457,
			0.015819965072379025, -0.1498794306637876, -0.24750906609674955}},
	} {
		n, err := newMatrixNorm(x, c.ord, []int{0, 1}, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		y := n.value(false)
		laNear(t, "norm", y, c.norm)
		laNear(t, "gradient", n.grad(y, tensor.Scalar(tensor.Float64, 1.0)), c.grad...)
	}
	if _, err := newMatrixNorm(x, "nuclear", []int{0, 1}, false, nil); err == nil {
		t.Error("order nuclear: not refused")
	}
}

func TestCondKnown(t *testing.T) {
	m, err := condPlan(&condArgs{A: tensor.New(tensor.Float64, []int{3, 3}, []float64{1, 2, 3, 4, 0, -1, 2, -1, 0.5})})
	if err != nil {
		t.Fatal(err)
	}
	outs, err := m.forward()
	if err != nil {
		t.Fatal(err)
	}
	laNear(t, "cond", outs[0], 3.7039588107354082)
	gr, err := m.grads(opdef.NewGrad(outs, []*tensor.Tensor{tensor.Scalar(tensor.Float64, 1.0)}, nil))
	if err != nil {
		t.Fatal(err)
	}
	laNear(t, "gradient", gr["A"][0], 0.17637899098740037, -0.18634389192572845, 0.11754270729431668,
		0.7055159639496015, -1.0919109992530007, 0.6887597637372281, 0.35275798197480074, 2.2769939444688654,
		-1.4362908811216144)
}
