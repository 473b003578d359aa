package linalg

import (
	"slices"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// tensorsolvePlan solves with A, its dims moved to the end, as a matrix whose
// rows are the elements of B. It is no composition of reshapes around solve: errors
// of a solution grow with the condition of the matrix, which matrixOp knows and a
// primitive's elements do not show.
func tensorsolvePlan(a *tensorsolveArgs) (*matrixCall, error) {
	t := a.A
	if err := matrixDType("A", t); err != nil {
		return nil, err
	}
	if err := sameDType("B", a.B, t); err != nil {
		return nil, err
	}
	order := make([]int, 0, t.Dim())
	var moved []int
	for _, d := range a.Dims {
		r, err := opdef.Dim("dims", d, t.Dim())
		if err != nil {
			return nil, err
		}
		if slices.Contains(moved, r) {
			return nil, opdef.Refuse("dims", "dimension %d appears twice", d)
		}
		moved = append(moved, r)
	}
	for d := range t.Dim() {
		if !slices.Contains(moved, d) {
			order = append(order, d)
		}
	}
	order = append(order, moved...)
	if t.Dim() < a.B.Dim() {
		return nil, opdef.Refuse("A", "want at least %d dimensions as of B, got shape %s", a.B.Dim(),
			tensor.ShapeString(t.Shape))
	}
	shape := make([]int, 0, t.Dim())
	for _, d := range order[a.B.Dim():] {
		shape = append(shape, t.Shape[d])
	}
	n := a.B.Numel()
	if tensor.Numel(shape) != n || t.Numel() != n*n {
		return nil, opdef.Refuse("A", "shape %s is not square for B of shape %s", tensor.ShapeString(t.Shape),
			tensor.ShapeString(a.B.Shape))
	}
	return &matrixCall{
		args: []string{"A", "B"}, ins: []*tensor.Tensor{t, a.B}, ranks: []int{t.Dim(), a.B.Dim()},
		outs: []matrixOut{{t.DType, shape}},
		run:  algorithm{tensorsolve[float64](t.Shape, order, n), tensorsolve[complex128](t.Shape, order, n)},
		back: algorithm{tensorsolveGrad[float64](t.Shape, order, n), tensorsolveGrad[complex128](t.Shape, order, n)},
	}, nil
}

// matrixDType checks that LAPACK has t's dtype.
func matrixDType(arg string, t *tensor.Tensor) error {
	if t.DType.Kind() < tensor.KindFloat || t.DType.Real().IsReduced() {
		return opdef.Refuse(arg, "not defined for dtype %s", t.DType)
	}
	return nil
}

// permuted is the data of an array of shape with its dimensions in order.
func permuted[T kernel.Field](data []T, shape, order []int) []T {
	stride := tensor.Contiguous(shape)
	size, st := make([]int, len(order)), make([]int, len(order))
	for i, d := range order {
		size[i], st[i] = shape[d], stride[d]
	}
	out := make([]T, len(data))
	for i := range out {
		at := 0
		for d, k := range tensor.Unravel(i, size) {
			at += k * st[d]
		}
		out[i] = data[at]
	}
	return out
}

func tensorsolve[T kernel.Field](shape, order []int, n int) matrixFunc[T] {
	return func(in matrices[T]) matrices[T] {
		a := kernel.Mat[T]{R: n, C: n, D: permuted(in[0].D, shape, order)}
		x, _ := kernel.Solve(a, kernel.Mat[T]{R: n, C: 1, D: in[1].D})
		return matrices[T]{x}
	}
}

func tensorsolveGrad[T kernel.Field](shape, order []int, n int) matrixFunc[T] {
	back := make([]int, len(order))
	to := make([]int, len(order))
	for i, d := range order {
		back[d], to[i] = i, shape[d]
	}
	return func(in matrices[T]) matrices[T] {
		a := kernel.Mat[T]{R: n, C: n, D: permuted(in[0].D, shape, order)}
		x, g := kernel.Mat[T]{R: n, C: 1, D: in[2].D}, kernel.Mat[T]{R: n, C: 1, D: in[3].D}
		gb, _ := kernel.Solve(a.H(), g)
		ga := gb.Mul(x.H()).Scale(-1)
		return matrices[T]{{R: n, C: n, D: permuted(ga.D, to, back)}, gb}
	}
}
