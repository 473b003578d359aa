package shape

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// bandOps keep or make diagonals of matrices.
var bandOps = []*opdef.Entry{
	adjointOp, fillDiagonalOp,
	trianglePart("triu", "The part of matrices on and above a diagonal", true).WithTakenFor("torch.tril"),
	trianglePart("tril", "The part of matrices on and below a diagonal", false).WithTakenFor("torch.triu"),
	opdef.Op[diagEmbedArgs]{
		Schema: "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
		Doc:    opdef.Doc{Summary: "Matrices whose diagonal is the last dimension"},
		Error:  elements.ExactError,
		Kernel: func(a *diagEmbedArgs) ([]*tensor.Tensor, error) {
			t, err := embedDiagonal(a.Self, a.Offset, a.Dim1, a.Dim2)
			return []*tensor.Tensor{t}, err
		},
		Grad: func(a *diagEmbedArgs, g *opdef.Grad) (opdef.Grads, error) {
			t, err := Diagonal(g.Out[0], a.Offset, a.Dim1, a.Dim2)
			return opdef.Grads{"self": {t}}, err
		},
		Cases: opdef.Calls[diagEmbedArgs](`
			f32[3]; f64[2, 3], offset=1, dim1=0, dim2=2; f32[2, 2], offset=-1, dim1=2, dim2=0
			i64[3]{0..9}, dim1=0, dim2=1`),
	}.Entry(),
	opdef.Op[diagArgs]{
		Schema: "diag(Tensor self, int diagonal=0) -> Tensor",
		Doc:    opdef.Doc{Summary: "The diagonal of a matrix, or the matrix with a vector as diagonal"},
		Error:  elements.ExactError,
		Kernel: func(a *diagArgs) ([]*tensor.Tensor, error) { return diag(a.Self, a.Diagonal) },
		Grad: func(a *diagArgs, g *opdef.Grad) (opdef.Grads, error) {
			if a.Self.Dim() == 1 {
				t, err := Diagonal(g.Out[0], a.Diagonal, 0, 1)
				return opdef.Grads{"self": {t}}, err
			}
			t, err := ViewBack(a.Self.Shape, g.Out[0], func(t *tensor.Tensor) (*tensor.Tensor,
				error) {
				return Diagonal(t, a.Diagonal, 0, 1)
			})
			return opdef.Grads{"self": {t}}, err
		},
		Cases: opdef.Calls[diagArgs](`
			f32[3], diagonal=1; f64[3, 4], diagonal=-1; f32[0]; f32[2, 3], diagonal=3; i64[3]{0..9}`),
	}.Entry(),
	opdef.Op[diagflatArgs]{
		Schema: "diagflat(Tensor self, int offset=0) -> Tensor",
		Doc:    opdef.Doc{Summary: "The matrix with the elements as diagonal"},
		Error:  elements.ExactError,
		Kernel: func(a *diagflatArgs) ([]*tensor.Tensor, error) {
			return diag(a.Self.Reshape(a.Self.Numel()), a.Offset)
		},
		Grad: func(a *diagflatArgs, g *opdef.Grad) (opdef.Grads, error) {
			t, err := Diagonal(g.Out[0], a.Offset, 0, 1)
			if err != nil {
				return nil, err
			}
			return opdef.Grads{"self": {t.Reshape(a.Self.Shape...)}}, nil
		},
		// The node is that of diag: it saw the elements in one dimension.
		Node: func(a *diagflatArgs, g *opdef.Grad) (opdef.Node, error) {
			t, err := Diagonal(g.Out[0], a.Offset, 0, 1)
			return opdef.Node{Grads: []*tensor.Tensor{t}}, err
		},
		Cases: opdef.Calls[diagflatArgs](`f32[3], offset=1; f64[2, 2], offset=-1; f32[]; i64[2, 2]{0..9}`),
	}.Entry(),
}

func diag(t *tensor.Tensor, offset int) ([]*tensor.Tensor, error) {
	var d *tensor.Tensor
	var err error
	switch t.Dim() {
	case 1:
		d, err = embedDiagonal(t, offset, 0, 1)
	case 2:
		if offset < -t.Shape[0] || offset > t.Shape[1] {
			return nil, opdef.Refuse("diagonal", "%d is outside of shape %s", offset, tensor.ShapeString(t.Shape))
		}
		d, err = Diagonal(t, offset, 0, 1)
	default:
		err = opdef.Refuse("self", "want a vector or a matrix, got %s", t.Meta())
	}
	return []*tensor.Tensor{d}, err
}

type trianglePartArgs struct {
	Self     *tensor.Tensor
	Diagonal int
}

// trianglePart declares triu and tril.
func trianglePart(name, summary string, upper bool) *opdef.Entry {
	keep := func(t *tensor.Tensor, diagonal int) *tensor.Tensor {
		switch t.DType.Kind() {
		case tensor.KindComplex:
			return triangleOf[complex128](t, diagonal, upper)
		case tensor.KindFloat:
			return triangleOf[float64](t, diagonal, upper)
		}
		return triangleOf[int64](t, diagonal, upper)
	}
	return opdef.Op[trianglePartArgs]{
		Schema: name + "(Tensor self, int diagonal=0) -> Tensor",
		Traits: opdef.Traits{InPlace: true, Trivial: true},
		Doc:    opdef.Doc{Summary: summary, Notes: "The rest is 0."},
		Error:  elements.ExactError,
		Kernel: func(a *trianglePartArgs) ([]*tensor.Tensor, error) {
			if a.Self.Dim() < 2 {
				return nil, opdef.Refuse("self", "want a matrix, got %s", a.Self.Meta())
			}
			return []*tensor.Tensor{keep(a.Self, a.Diagonal)}, nil
		},
		Grad: func(a *trianglePartArgs, g *opdef.Grad) (opdef.Grads, error) {
			return opdef.Grads{"self": {keep(g.Out[0], a.Diagonal)}}, nil
		},
		Cases: opdef.Calls[trianglePartArgs](`
			f32[3, 4]; f64[2, 4, 3], diagonal=1; bf16[3, 3], diagonal=-2; f32[0, 3]; c64[3, 3], diagonal=9
			f32[3, 4], diagonal=-1; bool[3, 3]{1..1}, diagonal=1; i64[3, 3]{1..9}, diagonal=-9`),
	}.Entry()
}

func triangleOf[T tensor.Elem](t *tensor.Tensor, diagonal int, upper bool) *tensor.Tensor {
	rows, cols := t.Shape[t.Dim()-2], t.Shape[t.Dim()-1]
	return tensor.LazyOf(t.DType, t.Shape, func(lo int, dst []T) {
		tensor.Load(t, lo, dst)
		for at := 0; at < len(dst); {
			row, col := (lo+at)/cols%rows, (lo+at)%cols
			n := min(cols-col, len(dst)-at)
			line := dst[at : at+n]
			// Columns below first are left of the diagonal.
			first := min(max(row+diagonal-col, 0), n)
			if upper {
				clear(line[:first])
			} else {
				clear(line[min(max(row+diagonal+1-col, 0), n):])
			}
			at += n
		}
	}, t)
}

type diagArgs struct {
	Self     *tensor.Tensor
	Diagonal int
}

type diagEmbedArgs struct {
	Self               *tensor.Tensor
	Offset, Dim1, Dim2 int
}

type diagflatArgs struct {
	Self   *tensor.Tensor
	Offset int
}

// embedDiagonal puts the last dimension of t on a diagonal of two new ones.
func embedDiagonal(t *tensor.Tensor, offset, dim1, dim2 int) (*tensor.Tensor, error) {
	shape, r, err := diagonalRuns(t.Shape, offset, dim1, dim2)
	if err != nil {
		return nil, err
	}
	return runs.Put(elements.Zeros(t.DType, shape), t, r, runs.Assign, true), nil
}

// diagonalRuns is the shape of the matrices and the places of the diagonal.
func diagonalRuns(shape []int, offset, dim1, dim2 int) ([]int, runs.Runs, error) {
	var r runs.Runs
	if len(shape) == 0 {
		return nil, r, opdef.Refuse("self", "want at least one dimension")
	}
	a, err := opdef.Dim("dim1", dim1, len(shape)+1)
	if err != nil {
		return nil, r, err
	}
	b, err := opdef.Dim("dim2", dim2, len(shape)+1)
	if err != nil {
		return nil, r, err
	}
	if a == b {
		return nil, r, opdef.Refuse("dim2", "the dimensions of a diagonal are both %d", a)
	}
	n := shape[len(shape)-1] + max(offset, -offset)
	out := slices.Clone(shape[:len(shape)-1])
	for _, d := range []int{min(a, b), max(a, b)} {
		out = slices.Insert(out, d, n)
	}
	p, err := runs.Probe(out)
	if err != nil {
		return nil, r, err
	}
	v, err := Diagonal(p, offset, a, b)
	if err != nil {
		return nil, r, err
	}
	return out, runs.OfView(v), nil
}
