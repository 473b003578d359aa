package shape

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// adjointOp is the conjugate transpose.
var adjointOp = opdef.Op[opdef.UnaryArgs]{
	Schema: "adjoint(Tensor self) -> Tensor", Names: "adjoint Tensor.adjoint Tensor.mH Tensor.mH.__get__ Tensor.H Tensor.H.__get__",
	Doc:    opdef.Doc{Summary: "Conjugate transpose of matrices"},
	Error:  elements.ExactError,
	Traits: opdef.Traits{Uncast: "adjoint"},
	Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
		if a.Self.Dim() < 2 {
			return nil, opdef.Refuse("self", "want a matrix, got %s", a.Self.Meta())
		}
		return elements.Single(adjoint(a.Self)), nil
	},
	Grad: func(_ *opdef.UnaryArgs, g *opdef.Grad) (opdef.Grads, error) {
		return elements.GradOf("self", adjoint(g.Out[0])), nil
	},
	Cases: opdef.Calls[opdef.UnaryArgs](`f32[2, 3]; c128[2, 3, 1]; bf16[0, 3]; i64[2, 2]{0..9}`),
}.Entry()

func adjoint(t *tensor.Tensor) *tensor.Tensor {
	return elements.Conj(t.Transpose(t.Dim()-2, t.Dim()-1))
}

// fillDiagonalOp writes a number to the main diagonal.
var fillDiagonalOp = opdef.Op[fillDiagonalArgs]{
	Schema: "fill_diagonal_(Tensor self, Scalar fill_value, bool wrap=False) -> Tensor", Names: "Tensor.fill_diagonal_",
	Traits: opdef.Traits{InPlace: true},
	Doc: opdef.Doc{Summary: "Writes a number to the main diagonal",
		Notes: "Tensors of more than 2 dimensions must be cubes. wrap goes on below a tall matrix's diagonal, a row " +
			"apart."},
	Error: elements.ExactError,
	Kernel: func(a *fillDiagonalArgs) ([]*tensor.Tensor, error) {
		return a.filled(a.Self, a.FillValue)
	},
	Grad: func(a *fillDiagonalArgs, g *opdef.Grad) (opdef.Grads, error) {
		ts, err := a.filled(g.Out[0], opdef.Int(0))
		return opdef.Grads{"self": ts}, err
	},
	Cases: opdef.Calls[fillDiagonalArgs](`
		f64[3, 4], 1.5; f32[7, 3], 2, wrap=True; f32[7, 3], 2; bf16[2, 2, 2], 0.5; i64[3, 3]{0..9}, -1
		f32[0, 2], 1`),
}.Entry()

type fillDiagonalArgs struct {
	Self      *tensor.Tensor
	FillValue opdef.Scalar
	Wrap      bool
}

// filled is t, of self's shape, with v on the diagonal.
func (a *fillDiagonalArgs) filled(t *tensor.Tensor, v opdef.Scalar) ([]*tensor.Tensor, error) {
	shape := t.Shape
	switch {
	case len(shape) < 2:
		return nil, opdef.Refuse("self", "want at least 2 dimensions, got %s", t.Meta())
	case len(shape) > 2 && slices.Min(shape) != slices.Max(shape):
		return nil, opdef.Refuse("self", "want equal sizes in more than 2 dimensions, got %s", t.Meta())
	}
	step := 0
	for _, s := range tensor.Contiguous(shape) {
		step += s
	}
	end := t.Numel()
	if !a.Wrap && len(shape) == 2 {
		end = min(end, slices.Min(shape)*step)
	}
	var at []int64
	for i := 0; i < end; i += step {
		at = append(at, int64(i))
	}
	return elements.Single(runs.Put(t, elements.Filled(t.DType, []int{len(at)}, v), runs.AtStarts(1, at), runs.Assign,
		false)), nil
}
