package diopi

import (
	"slices"

	"github.com/optool/optool/tensor"
)

var matrices = []*Recipe{
	{Function: "mm", sig: "input mat2", fwd: "Mm", outs: []out{result(asInput, product("input", "mat2", 2))}},
	{Function: "bmm", sig: "input mat2", fwd: "Bmm", outs: []out{result(asInput, product("input", "mat2", 3))}},
	{Function: "spmm", sig: "input mat2", fwd: "SpMM", outs: []out{result(asInput, product("input", "mat2", 2))}},
	{Function: "matmul", sig: "input other", fwd: "Matmul", bwd: "MatmulBackward",
		outs: []out{result(asInput, matmulShape)}},
	{Function: "addmm", sig: "input mat1 mat2 beta=1 alpha=1", fwd: "Addmm",
		outs: []out{result(asInput, func(b *build) []int {
			return b.broadcast(product("mat1", "mat2", 2)(b), b.tensor("input").Shape)
		})}},
	{Function: "baddbmm", sig: "input batch1 batch2 beta=1 alpha=1", fwd: "Baddbmm", inp: "BaddbmmInp",
		outs: []out{result(asInput, product("batch1", "batch2", 3))}},
	{Function: "linear", sig: "input weight bias=None", fwd: "Linear", bwd: "LinearBackward",
		outs: []out{result(asInput, func(b *build) []int {
			x, w := b.tensor("input").Shape, b.rank("weight", 1, 2)
			if len(x) == 0 {
				b.fail("input must have a dimension")
			}
			if len(w) == 1 {
				return x[:len(x)-1]
			}
			return replaced(x, len(x)-1, w[0])
		})}},
	{Function: "cdist", sig: "x1 x2 p compute_mode=None", fwd: "Cdist", bwd: "CdistBackward",
		bind: bindings{"input1": "x1", "input2": "x2", "compute_mode": computeMode},
		gbind: bindings{"input1": "x1", "input2": "x2", "cdist": firstResult,
			"grad_input": grad{of: "x1", rule: fresh(dtypeOf("x1"), x1Wide), sum: true}},
		outs: []out{result(dtypeOf("x1"), func(b *build) []int {
			x1, x2 := b.tensor("x1").Shape, b.tensor("x2").Shape
			return append(slices.Clone(x1Wide(b)[:max(len(x1), len(x2))-1]), x2[len(x2)-2])
		})}},
	{Function: "cholesky_ex", sig: "input upper=False check_errors=False", fwd: "Cholesky", bwd: "CholeskyBackward",
		bind:  bindings{"mat": "input", "checkerror": "check_errors"},
		gbind: bindings{"L": firstResult, "grad_mat": grad{of: "input"}},
		outs: []out{like("input"), result(constant(tensor.Int32), func(b *build) []int {
			s := b.tensor("input").Shape
			return s[:max(len(s)-2, 0)]
		})}},
	{Function: "triangular_solve", sig: "input A upper=True transpose=False unitriangular=False",
		fwd: "TriangularSolve", bwd: "TriangularSolveBackward",
		bind: bindings{"b": "input", "mat": "A"},
		gbind: bindings{"grad_b": grad{of: "input"}, "grad_mat": grad{of: "A"}, "grad_x": cotangent(0),
			"grad_cloned_mat": cotangent(1),
			"x":               firstResult, "b": "input", "mat": "A"},
		outs: []out{result(dtypeOf("A"), solveShape("input")), result(dtypeOf("A"), solveShape("A"))}},
	{Function: "linalgqr", sig: "input mode='reduced'", fwd: "LinalgQR", bind: bindings{"A": "input"},
		outs: []out{result(asInput, qrShape(true)), result(asInput, qrShape(false))}},
}

func cotangent(i int) func(*build) any { return func(b *build) any { return b.cotangent(i) } }

// product is the shape of a product of (batches of) matrices of rank dimensions.
func product(x, y string, rank int) shapeRule {
	return func(b *build) []int {
		l, r := b.rank(x, rank), b.rank(y, rank)
		return replaced(l, rank-1, r[rank-1])
	}
}

func matmulShape(b *build) []int {
	x, y := b.tensor("input").Shape, b.tensor("other").Shape
	switch {
	case len(x) == 0 || len(y) == 0:
		b.fail("operands must have a dimension, got shapes %v and %v", x, y)
	case len(x) == 1 && len(y) == 1:
		return []int{}
	case len(y) == 1:
		return x[:len(x)-1]
	case len(x) == 1:
		return append(slices.Clone(y[:len(y)-2]), y[len(y)-1])
	}
	batch := b.broadcast(x[:len(x)-2], y[:len(y)-2])
	return append(slices.Clone(batch), x[len(x)-2], y[len(y)-1])
}

// x1Wide is x1 with the batch dimensions of both.
func x1Wide(b *build) []int {
	x1, x2 := b.tensor("x1").Shape, b.tensor("x2").Shape
	if len(x1) < 2 || len(x2) < 2 {
		b.fail("x1 and x2 must be matrices, got shapes %v and %v", x1, x2)
	}
	batch := b.broadcast(x1[:len(x1)-2], x2[:len(x2)-2])
	return append(slices.Clone(batch), x1[len(x1)-2:]...)
}

func computeMode(b *build) any {
	switch b.args["compute_mode"] {
	case nil:
		return nil
	case "use_mm_for_euclid_dist":
		return int64(1)
	}
	return int64(2)
}

// solveShape is the longer of the shapes of A and input with the last dimension of one.
func solveShape(last string) shapeRule {
	return func(b *build) []int {
		shape := b.tensor("input").Shape
		if a := b.tensor("A").Shape; len(a) > len(shape) {
			shape = a
		}
		s := b.tensor(last).Shape
		if len(s) < 2 {
			b.fail("%s must be a matrix, got shape %v", last, s)
		}
		return replaced(shape, len(shape)-1, s[len(s)-1])
	}
}

// qrShape is the shape of Q or R.
func qrShape(q bool) shapeRule {
	return func(b *build) []int {
		s := b.tensor("input").Shape
		if len(s) < 2 {
			b.fail("input must be a matrix, got shape %v", s)
		}
		m, n := s[len(s)-2], s[len(s)-1]
		k := min(m, n)
		switch mode := b.args["mode"]; mode {
		case "reduced":
		case "complete":
			k = m
		case "r":
			if q {
				return []int{0}
			}
		default:
			b.fail("mode must be reduced, complete or r, got %s", describe(mode))
		}
		batch := slices.Clone(s[:len(s)-2])
		if q {
			return append(batch, m, k)
		}
		return append(batch, k, n)
	}
}
