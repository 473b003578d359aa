package linalg

import (
	"math"
	"testing"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
)

func laNear(t *testing.T, what string, got *tensor.Tensor, want ...float64) {
	t.Helper()
	data := tensor.Data[float64](got)
	if len(data) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(data), len(want))
	}
	for i, x := range data {
		if !(math.Abs(x-want[i]) <= 1e-12*math.Max(1, math.Abs(want[i]))) {
			t.Errorf("%s: element %d is %v, want %v", what, i, x, want[i])
		}
	}
}

// Values of torch 1.13.
func TestLDLFactorKnown(t *testing.T) {
	a := tensor.New(tensor.Float64, []int{3, 3}, []float64{1, 2, 3, 4, 0, -1, 2, -1, 0.5})
	m, err := ldlPlan(a, false, true)
	if err != nil {
		t.Fatal(err)
	}
	outs, err := m.forward()
	if err != nil {
		t.Fatal(err)
	}
	laNear(t, "LD", outs[0], 1, 0, 0, 4, 0, 0, -0.25, 0.5625, 1.5625)
	laNear(t, "pivots", outs[1], -2, -2, 3)
	laNear(t, "info", outs[2], 0)
	b := tensor.New(tensor.Float64, []int{3, 1}, []float64{9, 1, 1.5})
	p, err := ldlSolvePlan(&ldlSolveArgs{outs[0], outs[1], b, false})
	if err != nil {
		t.Fatal(err)
	}
	x, err := p.forward()
	if err != nil {
		t.Fatal(err)
	}
	v := tensor.Data[float64](x[0])
	back := tensor.New(tensor.Float64, []int{3}, []float64{v[0] + 4*v[1] + 2*v[2], 4*v[0] - v[2],
		2*v[0] - v[1] + 0.5*v[2]})
	laNear(t, "A @ X", back, 9, 1, 1.5)
}

func TestSystemRefusals(t *testing.T) {
	g := tensor.New(tensor.Float64, []int{2, 2}, []float64{1, 2, 3, 4})
	piv := tensor.New(tensor.Int32, []int{2}, []int64{1, 3})
	driver := "gelsx"
	for name, err := range map[string]error{
		"pivot out of range": second(luUnpackPlan(&luUnpackArgs{g, piv, true, true})),
		"unknown driver":     second(lstsqPlan(&lstsqArgs{g, g, nil, &driver})),
		"wide reflectors": second(householderPlan(&householderArgs{g.Reshape(1, 4),
			tensor.Full(tensor.Float64, []int{1}, 0.0)})),
		"not square": second(tensorinvPlan(&tensorinvArgs{g.Reshape(4, 1), 1})),
	} {
		if err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}

func second(_ *matrixCall, err error) error { return err }

// An unpacked factorisation that was not asked for is empty.
func TestLUUnpackPart(t *testing.T) {
	f, p := packedLU(tensor.New(tensor.Float64, []int{3, 3}, []float64{1, 2, 3, 4, 0, -1, 2, -1, 0.5}))
	m, err := luUnpackPlan(&luUnpackArgs{f, p, false, true})
	if err != nil {
		t.Fatal(err)
	}
	outs, err := m.forward()
	if err != nil {
		t.Fatal(err)
	}
	if outs[0].Numel() != 9 || outs[1].Numel() != 0 || outs[2].Numel() != 0 {
		t.Errorf("sizes %d, %d, %d, want 9, 0, 0", outs[0].Numel(), outs[1].Numel(), outs[2].Numel())
	}
}

// TestLargePowers: a quarter turn to the power n is one to the power n modulo 4.
func TestLargePowers(t *testing.T) {
	turn := kernel.Mat[float64]{R: 2, C: 2, D: []float64{0, -1, 1, 0}}
	for n, want := range map[int]float64{1<<30 + 1: 1, 1<<62 + 3: -1, -1<<62 + 1: 1, math.MinInt: 0} {
		if got := matPower[float64](n)([]kernel.Mat[float64]{turn})[0].At(1, 0); got != want {
			t.Errorf("power %d: %v below the diagonal, want %v", n, got, want)
		}
	}
}
