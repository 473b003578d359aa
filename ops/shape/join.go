package shape

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// joinOps put tensors together.
var joinOps = []*opdef.Entry{
	opdef.Op[CatArgs]{
		Schema: "cat(Tensor[] tensors, int dim=0) -> Tensor",
		Names:  "cat concat concatenate",
		Traits: opdef.Traits{Autocast: opdef.AutocastWidest},
		Doc: opdef.Doc{Summary: "Tensors joined along an existing dimension",
			Notes: "Tensors of shape [0] are left out, whatever the others' dimensions."},
		Error:  elements.ExactError,
		Kernel: func(a *CatArgs) ([]*tensor.Tensor, error) { return cat(a.Tensors, a.Dim) },
		Grad: func(a *CatArgs, g *opdef.Grad) (opdef.Grads, error) {
			gr, at := make([]*tensor.Tensor, len(a.Tensors)), 0
			dim, err := opdef.Dim("dim", a.Dim, g.Out[0].Dim())
			if err != nil {
				return nil, err
			}
			for i, t := range a.Tensors {
				if skippedByCat(t) {
					gr[i] = elements.Zeros(g.Out[0].DType, t.Shape)
					continue
				}
				gr[i] = g.Out[0].Slice(dim, at, t.Shape[dim], 1)
				at += t.Shape[dim]
			}
			return opdef.Grads{"tensors": gr}, nil
		},
		Cases: catCases,
	}.Entry(),
	opdef.Op[CatArgs]{
		Schema: "stack(Tensor[] tensors, int dim=0) -> Tensor",
		Names:  "stack",
		Traits: opdef.Traits{Autocast: opdef.AutocastWidest},
		Doc:    opdef.Doc{Summary: "Tensors of one shape joined along a new dimension"},
		Error:  elements.ExactError,
		Kernel: func(a *CatArgs) ([]*tensor.Tensor, error) {
			if len(a.Tensors) == 0 {
				return nil, opdef.Refuse("tensors", "want at least one tensor")
			}
			dim, err := opdef.Dim("dim", a.Dim, a.Tensors[0].Dim()+1)
			if err != nil {
				return nil, err
			}
			parts := make([]*tensor.Tensor, len(a.Tensors))
			for i, t := range a.Tensors {
				if !slices.Equal(t.Shape, a.Tensors[0].Shape) {
					return nil, opdef.Refuse("tensors", "tensor %d has shape %s, the first %s", i,
						tensor.ShapeString(t.Shape), tensor.ShapeString(a.Tensors[0].Shape))
				}
				parts[i] = t.Unsqueeze(dim)
			}
			return join(dim, a.Tensors, parts)
		},
		Grad: func(a *CatArgs, g *opdef.Grad) (opdef.Grads, error) {
			dim, err := opdef.Dim("dim", a.Dim, g.Out[0].Dim())
			if err != nil {
				return nil, err
			}
			gr := make([]*tensor.Tensor, len(a.Tensors))
			for i := range gr {
				gr[i] = g.Out[0].Select(dim, i)
			}
			return opdef.Grads{"tensors": gr}, nil
		},
		Cases: opdef.Calls[CatArgs](`
			[f32[2, 3], f32[2, 3]]; [f64[2, 3], f64[2, 3], f64[2, 3]], dim=-1; [f32[2, 3], f64[2, 3]], dim=1
			[bf16[], bf16[]]; [f32[0, 2], f32[0, 2]]; [f32[2, 3], f32[2, 3]], dim=2; [i64[3]{0..9}], dim=1`),
	}.Entry(),
	stackLike("hstack", "hstack", "side by side, along the second dimension (vectors: the first)", 1,
		func(t *tensor.Tensor) int { return min(t.Dim()-1, 1) }),
	stackLike("vstack", "vstack row_stack", "below each other, along the first dimension", 2,
		func(*tensor.Tensor) int { return 0 }),
	stackLike("dstack", "dstack", "behind each other, along the third dimension", 3,
		func(*tensor.Tensor) int { return 2 }),
	stackLike("column_stack", "column_stack", "as columns side by side", 0, func(*tensor.Tensor) int { return 1 }),
	broadcastTensorsOp, meshgridOp, combinationsOp, cartesianProdOp, blockDiagOp,
}

// CatArgs are the arguments of cat.
type CatArgs struct {
	Tensors []*tensor.Tensor
	Dim     int
}

type tensorsArgs struct{ Tensors []*tensor.Tensor }

// skippedByCat is torch's exception for empty vectors.
func skippedByCat(t *tensor.Tensor) bool { return t.Dim() == 1 && t.Shape[0] == 0 }

func cat(ts []*tensor.Tensor, dim int) ([]*tensor.Tensor, error) {
	if len(ts) == 0 {
		return nil, opdef.Refuse("tensors", "want at least one tensor")
	}
	var parts []*tensor.Tensor
	for i, t := range ts {
		if t.Dim() == 0 {
			return nil, opdef.Refuse("tensors", "tensor %d has no dimensions", i)
		}
		if !skippedByCat(t) {
			parts = append(parts, t)
		}
	}
	if len(parts) == 0 {
		parts = ts[:1]
	}
	first := parts[0]
	d, err := opdef.Dim("dim", dim, first.Dim())
	if err != nil {
		return nil, err
	}
	for i, t := range parts {
		if t.Dim() != first.Dim() {
			return nil, opdef.Refuse("tensors", "tensors of %d and %d dimensions", first.Dim(), t.Dim())
		}
		for k, n := range t.Shape {
			if k != d && n != first.Shape[k] {
				return nil, opdef.Refuse("tensors", "tensor %d has size %d in dimension %d, the first %d", i, n, k,
					first.Shape[k])
			}
		}
	}
	return join(d, ts, parts)
}

// join is the parts along dim in the common dtype of ts.
func join(dim int, ts, parts []*tensor.Tensor) ([]*tensor.Tensor, error) {
	dt := tensor.ResultType(ts...)
	if dt == tensor.Invalid {
		return nil, opdef.Refuse("tensors", "no common dtype")
	}
	return []*tensor.Tensor{runs.Concat(dt, dim, parts...)}, nil
}

var catCases = opdef.Calls[CatArgs](`
	[f32[2, 3], f32[1, 3]]; [f64[2, 3], f64[2, 1], f64[2, 4]], dim=-1; [f32[2, 3], f64[2, 3]], dim=1
	[bf16[2, 3, 2], bf16[2, 2, 2]], dim=1; [f32[0], f32[2, 3]]; [f32[0, 2], f32[3, 2]]; [c64[3], c64[2]]
	[i64[3]{0..9}, bool[2]{0..1}]`)

// stackLike declares a cat of tensors that first get at least n dimensions (0:
// become columns).
func stackLike(name, names, how string, n int, along func(*tensor.Tensor) int) *opdef.Entry {
	widen := func(t *tensor.Tensor) *tensor.Tensor {
		if n == 0 {
			if t.Dim() < 2 {
				return t.Reshape(t.Numel(), 1)
			}
			return t
		}
		return elements.AtLeastDims(t, n)
	}
	prepare := func(a *tensorsArgs) (*CatArgs, error) {
		if len(a.Tensors) == 0 {
			return nil, opdef.Refuse("tensors", "want at least one tensor")
		}
		c := &CatArgs{Tensors: make([]*tensor.Tensor, len(a.Tensors))}
		for i, t := range a.Tensors {
			c.Tensors[i] = widen(t)
		}
		c.Dim = along(c.Tensors[0])
		return c, nil
	}
	parts := func(a *tensorsArgs, g *opdef.Grad) ([]*tensor.Tensor, error) {
		c, err := prepare(a)
		if err != nil {
			return nil, err
		}
		gr, at := make([]*tensor.Tensor, len(a.Tensors)), 0
		for i, t := range c.Tensors {
			if skippedByCat(t) {
				gr[i] = elements.Zeros(g.Out[0].DType, t.Shape)
				continue
			}
			gr[i] = g.Out[0].Slice(c.Dim, at, t.Shape[c.Dim], 1)
			at += t.Shape[c.Dim]
		}
		return gr, nil
	}
	return opdef.Op[tensorsArgs]{
		Schema: name + "(Tensor[] tensors) -> Tensor", Names: names,
		Doc:   opdef.Doc{Summary: "Tensors joined " + how},
		Error: elements.ExactError,
		Kernel: func(a *tensorsArgs) ([]*tensor.Tensor, error) {
			c, err := prepare(a)
			if err != nil {
				return nil, err
			}
			return cat(c.Tensors, c.Dim)
		},
		Grad: func(a *tensorsArgs, g *opdef.Grad) (opdef.Grads, error) {
			gr, err := parts(a, g)
			for i := range gr {
				gr[i] = gr[i].Reshape(a.Tensors[i].Shape...)
			}
			return opdef.Grads{"tensors": gr}, err
		},
		// The node is that of cat: it sees the tensors with the dimensions added.
		Node: func(a *tensorsArgs, g *opdef.Grad) (opdef.Node, error) {
			gr, err := parts(a, g)
			return opdef.Node{Grads: gr}, err
		},
		Cases: opdef.Calls[tensorsArgs](`
			[f32[2, 3], f32[2, 3]]; [f64[3], f64[3]]; [f32[], f64[]]; [i64[2, 2, 2]{0..9}]`),
	}.Entry()
}

var broadcastTensorsOp = opdef.Op[tensorsArgs]{
	Schema: "broadcast_tensors(Tensor[]... tensors) -> Tensor[]",
	Names:  "broadcast_tensors functional.broadcast_tensors",
	Doc:    opdef.Doc{Summary: "Tensors expanded to their common shape"},
	Traits: opdef.Traits{
		Composite: true, // each result has a node of its own
	},
	Error: elements.MovedError,
	Kernel: func(a *tensorsArgs) ([]*tensor.Tensor, error) {
		ts, _, err := opdef.BroadcastAll(a.Tensors...)
		return ts, err
	},
	Grad: func(a *tensorsArgs, g *opdef.Grad) (opdef.Grads, error) {
		gr := make([]*tensor.Tensor, len(a.Tensors))
		for i, t := range a.Tensors {
			if g.Out[i] != nil {
				gr[i] = opdef.SumTo(g.Out[i], t.Shape)
			}
		}
		return opdef.Grads{"tensors": gr}, nil
	},
	Bounds: opdef.Bounds[*tensorsArgs]{
		GradTerms: func(a *tensorsArgs) int {
			n := 1
			for _, t := range a.Tensors {
				n *= max(1, t.Numel())
			}
			return n
		},
	},
	Cases: opdef.Calls[tensorsArgs](`
		[f32[2, 1], f32[1, 3]]; [f64[2, 3]]; [f32[3], f32[], i64[2, 1]{0..9}]; [f32[1, 0], f32[2, 1]]`),
}.Entry()

var blockDiagOp = opdef.Op[tensorsArgs]{
	Schema: "block_diag(Tensor[]... tensors) -> Tensor",
	Names:  "block_diag functional.block_diag",
	Doc:    opdef.Doc{Summary: "Matrices along the diagonal of a larger one", Notes: "Vectors are rows."},
	Error:  elements.ExactError,
	Kernel: func(a *tensorsArgs) ([]*tensor.Tensor, error) {
		dt := tensor.ResultType(a.Tensors...)
		if dt == tensor.Invalid {
			return nil, opdef.Refuse("tensors", "no common dtype")
		}
		rows, cols := 0, 0
		for _, t := range a.Tensors {
			if t.Dim() > 2 {
				return nil, opdef.Refuse("tensors", "want at most two dimensions, got %s", t.Meta())
			}
			m := elements.AtLeastDims(t, 2)
			rows, cols = rows+m.Shape[0], cols+m.Shape[1]
		}
		if len(a.Tensors) == 0 {
			return nil, opdef.Refuse("tensors", "want at least one tensor")
		}
		parts, at := make([]*tensor.Tensor, len(a.Tensors)), 0
		for i, t := range a.Tensors {
			m := elements.AtLeastDims(t, 2)
			n := m.Shape[0]
			parts[i] = runs.Concat(dt, 1, elements.Zeros(dt, []int{n, at}), m,
				elements.Zeros(dt, []int{n, cols - at - m.Shape[1]}))
			at += m.Shape[1]
		}
		return []*tensor.Tensor{runs.Concat(dt, 0, parts...)}, nil
	},
	Grad: func(a *tensorsArgs, g *opdef.Grad) (opdef.Grads, error) {
		gr := make([]*tensor.Tensor, len(a.Tensors))
		row, col := 0, 0
		for i, t := range a.Tensors {
			m := elements.AtLeastDims(t, 2)
			gr[i] = g.Out[0].Slice(0, row, m.Shape[0], 1).Slice(1, col, m.Shape[1], 1).Reshape(t.Shape...)
			row, col = row+m.Shape[0], col+m.Shape[1]
		}
		return opdef.Grads{"tensors": gr}, nil
	},
	Cases: opdef.Calls[tensorsArgs](`
		[f32[2, 3], f32[1, 2]]; [f64[2], f64[]]; [f32[0, 2], f64[2, 2]]; [i64[2, 2]{0..9}]`),
}.Entry()
