package ops

import (
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// joinOps put tensors together.
var joinOps = []*opdef.Entry{
	opdef.Op[catArgs]{
		Schema: "cat(Tensor[] tensors, int dim=0) -> Tensor",
		Names:  "cat concat concatenate",
		Doc: opdef.Doc{Summary: "Tensors joined along an existing dimension",
			Notes:  "Tensors of shape [0] are left out, whatever the others' dimensions.",
			Source: "torch.cat"},
		Error:  opdef.Error{Class: opdef.Exact},
		Kernel: func(a *catArgs) ([]*tensor.Tensor, error) { return cat(a.Tensors, a.Dim) },
		Grad: func(a *catArgs, g *opdef.Grad) (opdef.Grads, error) {
			gr, at := make([]*tensor.Tensor, len(a.Tensors)), 0
			dim, err := opdef.Dim("dim", a.Dim, g.Out[0].Dim())
			if err != nil {
				return nil, err
			}
			for i, t := range a.Tensors {
				if skippedByCat(t) {
					gr[i] = zeros(g.Out[0].DType, t.Shape)
					continue
				}
				gr[i] = g.Out[0].Slice(dim, at, t.Shape[dim], 1)
				at += t.Shape[dim]
			}
			return opdef.Grads{"tensors": gr}, nil
		},
		Cases: catCases,
	}.Entry(),
	opdef.Op[catArgs]{
		Schema: "stack(Tensor[] tensors, int dim=0) -> Tensor",
		Names:  "stack",
		Doc:    opdef.Doc{Summary: "Tensors of one shape joined along a new dimension", Source: "torch.stack"},
		Error:  opdef.Error{Class: opdef.Exact},
		Kernel: func(a *catArgs) ([]*tensor.Tensor, error) {
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
		Grad: func(a *catArgs, g *opdef.Grad) (opdef.Grads, error) {
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
		Cases: func(r *rand.Rand) []*catArgs {
			g := opdef.Gen{R: r}
			return []*catArgs{
				{[]*tensor.Tensor{g.Normal(tensor.Float32, 2, 3), g.Normal(tensor.Float32, 2, 3)}, 0},
				{[]*tensor.Tensor{g.Normal(tensor.Float64, 2, 3), g.Normal(tensor.Float64, 2, 3),
					g.Normal(tensor.Float64, 2, 3)}, -1},
				{[]*tensor.Tensor{g.Normal(tensor.Float32, 2, 3), g.Normal(tensor.Float64, 2, 3)}, 1},
				{[]*tensor.Tensor{g.Normal(tensor.BFloat16), g.Normal(tensor.BFloat16)}, 0},
				{[]*tensor.Tensor{g.Normal(tensor.Float32, 0, 2), g.Normal(tensor.Float32, 0, 2)}, 0},
				{[]*tensor.Tensor{opdef.NonContiguous(g.Normal(tensor.Float32, 2, 3)), g.Normal(tensor.Float32, 2, 3)},
					2}, {[]*tensor.Tensor{g.Int(tensor.Int64, 0, 9, 3)}, 1},
			}
		},
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

type catArgs struct {
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
	return []*tensor.Tensor{concat(dt, dim, parts...)}, nil
}

func catCases(r *rand.Rand) []*catArgs {
	g := opdef.Gen{R: r}
	return []*catArgs{
		{[]*tensor.Tensor{g.Normal(tensor.Float32, 2, 3), g.Normal(tensor.Float32, 1, 3)}, 0},
		{[]*tensor.Tensor{g.Normal(tensor.Float64, 2, 3), g.Normal(tensor.Float64, 2, 1),
			g.Normal(tensor.Float64, 2, 4)}, -1},
		{[]*tensor.Tensor{g.Normal(tensor.Float32, 2, 3), g.Normal(tensor.Float64, 2, 3)}, 1},
		{[]*tensor.Tensor{g.Normal(tensor.BFloat16, 2, 3, 2), g.Normal(tensor.BFloat16, 2, 2, 2)}, 1},
		{[]*tensor.Tensor{g.Normal(tensor.Float32, 0), g.Normal(tensor.Float32, 2, 3)}, 0},
		{[]*tensor.Tensor{g.Normal(tensor.Float32, 0, 2), g.Normal(tensor.Float32, 3, 2)}, 0},
		{[]*tensor.Tensor{opdef.NonContiguous(g.Normal(tensor.Float32, 2, 3)), g.Normal(tensor.Float32, 2, 3)}, 1},
		{[]*tensor.Tensor{g.Normal(tensor.Complex64, 3), g.Normal(tensor.Complex64, 2)}, 0},
		{[]*tensor.Tensor{g.Int(tensor.Int64, 0, 9, 3), g.Int(tensor.Bool, 0, 1, 2)}, 0},
	}
}

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
		return withDims(t, n)
	}
	prepare := func(a *tensorsArgs) (*catArgs, error) {
		if len(a.Tensors) == 0 {
			return nil, opdef.Refuse("tensors", "want at least one tensor")
		}
		c := &catArgs{Tensors: make([]*tensor.Tensor, len(a.Tensors))}
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
				gr[i] = zeros(g.Out[0].DType, t.Shape)
				continue
			}
			gr[i] = g.Out[0].Slice(c.Dim, at, t.Shape[c.Dim], 1)
			at += t.Shape[c.Dim]
		}
		return gr, nil
	}
	return opdef.Op[tensorsArgs]{
		Schema: name + "(Tensor[] tensors) -> Tensor", Names: names,
		Doc:   opdef.Doc{Summary: "Tensors joined " + how, Source: "torch." + name},
		Error: opdef.Error{Class: opdef.Exact},
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
		Cases: func(r *rand.Rand) []*tensorsArgs {
			g := opdef.Gen{R: r}
			return []*tensorsArgs{
				{[]*tensor.Tensor{g.Normal(tensor.Float32, 2, 3), g.Normal(tensor.Float32, 2, 3)}},
				{[]*tensor.Tensor{g.Normal(tensor.Float64, 3), g.Normal(tensor.Float64, 3)}},
				{[]*tensor.Tensor{g.Normal(tensor.Float32), g.Normal(tensor.Float64)}},
				{[]*tensor.Tensor{g.Int(tensor.Int64, 0, 9, 2, 2, 2)}},
			}
		},
	}.Entry()
}

var broadcastTensorsOp = opdef.Op[tensorsArgs]{
	Schema: "broadcast_tensors(Tensor[]... tensors) -> Tensor[]",
	Names:  "broadcast_tensors functional.broadcast_tensors",
	Doc:    opdef.Doc{Summary: "Tensors expanded to their common shape", Source: "torch.broadcast_tensors"},
	Error:  opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 1}},
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
	GradTerms: func(a *tensorsArgs) int {
		n := 1
		for _, t := range a.Tensors {
			n *= max(1, t.Numel())
		}
		return n
	},
	Cases: func(r *rand.Rand) []*tensorsArgs {
		g := opdef.Gen{R: r}
		return []*tensorsArgs{
			{[]*tensor.Tensor{g.Normal(tensor.Float32, 2, 1), g.Normal(tensor.Float32, 1, 3)}},
			{[]*tensor.Tensor{g.Normal(tensor.Float64, 2, 3)}},
			{[]*tensor.Tensor{g.Normal(tensor.Float32, 3), g.Normal(tensor.Float32), g.Int(tensor.Int64, 0, 9, 2, 1)}},
			{[]*tensor.Tensor{g.Normal(tensor.Float32, 1, 0), g.Normal(tensor.Float32, 2, 1)}},
		}
	},
}.Entry()

type meshgridArgs struct {
	Tensors  []*tensor.Tensor
	Indexing *string
}

// swapped reports whether the first two dimensions of the grids are swapped.
func (a *meshgridArgs) swapped() (bool, error) {
	switch {
	case a.Indexing == nil || *a.Indexing == "ij":
		return false, nil
	case *a.Indexing == "xy":
		return len(a.Tensors) >= 2, nil
	}
	return false, opdef.Refuse("indexing", "want \"ij\" or \"xy\", got %q", *a.Indexing)
}

// dims is the dimension of the grids along which each tensor runs.
func (a *meshgridArgs) dims() ([]int, error) {
	swap, err := a.swapped()
	d := make([]int, len(a.Tensors))
	for i := range d {
		d[i] = i
	}
	if swap {
		d[0], d[1] = 1, 0
	}
	return d, err
}

var meshgridOp = opdef.Op[meshgridArgs]{
	Schema: "meshgrid(Tensor[]... tensors, *, str? indexing=None) -> Tensor[]",
	Names:  "meshgrid functional.meshgrid",
	Doc: opdef.Doc{Summary: "Coordinate grids of vectors", Formula: "out[k][i, j, ...] = tensors[k][index k]",
		Source: "torch.meshgrid"},
	Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 1}},
	Kernel: func(a *meshgridArgs) ([]*tensor.Tensor, error) {
		if len(a.Tensors) == 0 {
			return nil, opdef.Refuse("tensors", "want at least one tensor")
		}
		dims, err := a.dims()
		if err != nil {
			return nil, err
		}
		shape := make([]int, len(dims))
		for i, t := range a.Tensors {
			if t.Dim() > 1 {
				return nil, opdef.Refuse("tensors", "want vectors or numbers, got %s", t.Meta())
			}
			if t.DType != a.Tensors[0].DType {
				return nil, opdef.Refuse("tensors", "want one dtype, got %s and %s", a.Tensors[0].DType, t.DType)
			}
			shape[dims[i]] = t.Numel()
		}
		out := make([]*tensor.Tensor, len(dims))
		for i, t := range a.Tensors {
			line := slices.Repeat([]int{1}, len(dims))
			line[dims[i]] = t.Numel()
			if out[i], err = t.Reshape(line...).Expand(shape...); err != nil {
				return nil, err
			}
		}
		return out, nil
	},
	Grad: func(a *meshgridArgs, g *opdef.Grad) (opdef.Grads, error) {
		gr, err := a.sums(g)
		for i := range gr {
			if gr[i] != nil {
				gr[i] = gr[i].Reshape(a.Tensors[i].Shape...)
			}
		}
		return opdef.Grads{"tensors": gr}, err
	},
	GradTerms: func(a *meshgridArgs) int {
		n := 1
		for _, t := range a.Tensors {
			n *= max(1, t.Numel())
		}
		return n
	},
	// Each grid has a node of its own, which saw its vector with the dimensions
	// of the grid; all grids' gradients are saved in one file, the last one stays.
	Node: func(a *meshgridArgs, g *opdef.Grad) (opdef.Node, error) {
		gr, err := a.sums(g)
		for _, t := range gr {
			if t != nil {
				return opdef.Node{Grads: []*tensor.Tensor{t}}, err
			}
		}
		return opdef.Node{}, err
	},
	Cases: func(r *rand.Rand) []*meshgridArgs {
		g := opdef.Gen{R: r}
		xy := "xy"
		return []*meshgridArgs{
			{[]*tensor.Tensor{g.Normal(tensor.Float32, 2), g.Normal(tensor.Float32, 3)}, nil},
			{[]*tensor.Tensor{g.Normal(tensor.Float64, 2), g.Normal(tensor.Float64, 3), g.Normal(tensor.Float64)}, &xy},
			{[]*tensor.Tensor{g.Int(tensor.Int64, 0, 9, 3)}, &xy},
			{[]*tensor.Tensor{g.Normal(tensor.Float32, 0), g.Normal(tensor.Float32, 2)}, nil},
		}
	},
}.Entry()

// sums are the gradients of the vectors, shaped as lines in the grid.
func (a *meshgridArgs) sums(g *opdef.Grad) ([]*tensor.Tensor, error) {
	dims, err := a.dims()
	if err != nil {
		return nil, err
	}
	out := make([]*tensor.Tensor, len(dims))
	for i, t := range a.Tensors {
		if g.Out[i] != nil {
			line := slices.Repeat([]int{1}, len(dims))
			line[dims[i]] = t.Numel()
			out[i] = opdef.SumTo(g.Out[i], line)
		}
	}
	return out, nil
}

type combinationsArgs struct {
	Self            *tensor.Tensor
	R               int
	WithReplacement bool
}

// indices lists the combinations in lexicographic order, one after the other.
func (a *combinationsArgs) indices() ([]int64, error) {
	if a.Self.Dim() != 1 {
		return nil, opdef.Refuse("self", "want a vector, got %s", a.Self.Meta())
	}
	if a.R < 0 {
		return nil, opdef.Refuse("r", "negative number %d", a.R)
	}
	n, step := a.Self.Numel(), 1
	if a.WithReplacement {
		step = 0
	}
	var out []int64
	row := make([]int64, a.R)
	var fill func(k, from int)
	fill = func(k, from int) {
		if k == a.R {
			out = append(out, row...)
			return
		}
		for i := from; i < n; i++ {
			row[k] = int64(i)
			fill(k+1, i+step)
		}
	}
	if a.R > 0 {
		fill(0, 0)
	}
	return out, nil
}

var combinationsOp = opdef.Op[combinationsArgs]{
	Schema: "combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
	Names:  "combinations",
	Doc: opdef.Doc{Summary: "Combinations of the elements of a vector",
		Notes: "In lexicographic order of positions, one a row.", Source: "torch.combinations"},
	Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 1}},
	Kernel: func(a *combinationsArgs) ([]*tensor.Tensor, error) {
		idx, err := a.indices()
		if err != nil {
			return nil, err
		}
		if a.R == 0 {
			return []*tensor.Tensor{zeros(a.Self.DType, []int{0})}, nil
		}
		return []*tensor.Tensor{pick(a.Self, []int{len(idx) / a.R, a.R}, listed(1, idx))}, nil
	},
	Grad: func(a *combinationsArgs, g *opdef.Grad) (opdef.Grads, error) {
		idx, err := a.indices()
		if err != nil {
			return nil, err
		}
		return opdef.Grads{"self": {addInto(a.Self.Shape, g.Out[0], listed(1, idx))}}, nil
	},
	GradTerms: func(a *combinationsArgs) int { return max(1, a.R*a.Self.Numel()) },
	// The node is that of stack: it saw one column of the result each.
	Node: func(a *combinationsArgs, g *opdef.Grad) (opdef.Node, error) {
		n := opdef.Node{Weak: "the incoming gradient in columns"}
		for i := range a.R {
			n.Grads = append(n.Grads, g.Out[0].Select(1, i))
		}
		return n, nil
	},
	Cases: func(r *rand.Rand) []*combinationsArgs {
		g := opdef.Gen{R: r}
		return []*combinationsArgs{
			{g.Normal(tensor.Float32, 4), 2, false}, {g.Normal(tensor.Float64, 3), 3, true},
			{g.Normal(tensor.Float32, 0), 2, false}, {g.Int(tensor.Int64, 0, 9, 4), 1, false},
		}
	},
}.Entry()

var cartesianProdOp = opdef.Op[tensorsArgs]{
	Schema: "cartesian_prod(Tensor[]... tensors) -> Tensor",
	Names:  "cartesian_prod functional.cartesian_prod",
	Doc: opdef.Doc{Summary: "All tuples of one element of each vector",
		Notes: "The last vector runs fastest; one vector is returned as it is.", Source: "torch.cartesian_prod"},
	Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 1}},
	Kernel: func(a *tensorsArgs) ([]*tensor.Tensor, error) {
		if len(a.Tensors) == 0 {
			return nil, opdef.Refuse("tensors", "want at least one tensor")
		}
		shape := make([]int, len(a.Tensors))
		for i, t := range a.Tensors {
			if t.Dim() != 1 {
				return nil, opdef.Refuse("tensors", "want vectors, got %s", t.Meta())
			}
			shape[i] = t.Numel()
		}
		if len(shape) == 1 {
			return a.Tensors, nil
		}
		columns := make([]*tensor.Tensor, len(shape))
		for i, t := range a.Tensors {
			line := slices.Repeat([]int{1}, len(shape))
			line[i] = t.Numel()
			grid, err := t.Reshape(line...).Expand(shape...)
			if err != nil {
				return nil, err
			}
			columns[i] = grid.Reshape(tensor.Numel(shape), 1)
		}
		return join(1, a.Tensors, columns)
	},
	Grad: func(a *tensorsArgs, g *opdef.Grad) (opdef.Grads, error) {
		if len(a.Tensors) == 1 {
			return opdef.Grads{"tensors": {g.Out[0]}}, nil
		}
		shape := make([]int, len(a.Tensors))
		for i, t := range a.Tensors {
			shape[i] = t.Numel()
		}
		gr := make([]*tensor.Tensor, len(shape))
		for i := range gr {
			others := make([]int, 0, len(shape))
			for d := range shape {
				if d != i {
					others = append(others, d)
				}
			}
			grid := g.Out[0].Select(1, i)
			gr[i] = opdef.Sum(grid.DType, grid.Reshape(shape...), others, false)
		}
		return opdef.Grads{"tensors": gr}, nil
	},
	GradTerms: func(a *tensorsArgs) int {
		n := 1
		for _, t := range a.Tensors {
			n *= max(1, t.Numel())
		}
		return n
	},
	Node: func(a *tensorsArgs, g *opdef.Grad) (opdef.Node, error) {
		if len(a.Tensors) == 1 {
			return passedThrough, nil
		}
		n := opdef.Node{Weak: "the incoming gradient in columns"}
		for i := range a.Tensors {
			n.Grads = append(n.Grads, g.Out[0].Select(1, i))
		}
		return n, nil
	},
	Cases: func(r *rand.Rand) []*tensorsArgs {
		g := opdef.Gen{R: r}
		return []*tensorsArgs{
			{[]*tensor.Tensor{g.Normal(tensor.Float32, 2), g.Normal(tensor.Float32, 3)}},
			{[]*tensor.Tensor{g.Normal(tensor.Float64, 2), g.Normal(tensor.Float64, 1), g.Normal(tensor.Float64, 3)}},
			{[]*tensor.Tensor{g.Normal(tensor.Float32, 3)}},
			{[]*tensor.Tensor{g.Int(tensor.Int64, 0, 9, 2), g.Int(tensor.Int64, 0, 9, 0)}},
		}
	},
}.Entry()

var blockDiagOp = opdef.Op[tensorsArgs]{
	Schema: "block_diag(Tensor[]... tensors) -> Tensor",
	Names:  "block_diag functional.block_diag",
	Doc: opdef.Doc{Summary: "Matrices along the diagonal of a larger one", Notes: "Vectors are rows.",
		Source: "torch.block_diag"},
	Error: opdef.Error{Class: opdef.Exact},
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
			m := withDims(t, 2)
			rows, cols = rows+m.Shape[0], cols+m.Shape[1]
		}
		if len(a.Tensors) == 0 {
			return nil, opdef.Refuse("tensors", "want at least one tensor")
		}
		parts, at := make([]*tensor.Tensor, len(a.Tensors)), 0
		for i, t := range a.Tensors {
			m := withDims(t, 2)
			n := m.Shape[0]
			parts[i] = concat(dt, 1, zeros(dt, []int{n, at}), m, zeros(dt, []int{n, cols - at - m.Shape[1]}))
			at += m.Shape[1]
		}
		return []*tensor.Tensor{concat(dt, 0, parts...)}, nil
	},
	Grad: func(a *tensorsArgs, g *opdef.Grad) (opdef.Grads, error) {
		gr := make([]*tensor.Tensor, len(a.Tensors))
		row, col := 0, 0
		for i, t := range a.Tensors {
			m := withDims(t, 2)
			gr[i] = g.Out[0].Slice(0, row, m.Shape[0], 1).Slice(1, col, m.Shape[1], 1).Reshape(t.Shape...)
			row, col = row+m.Shape[0], col+m.Shape[1]
		}
		return opdef.Grads{"tensors": gr}, nil
	},
	Cases: func(r *rand.Rand) []*tensorsArgs {
		g := opdef.Gen{R: r}
		return []*tensorsArgs{
			{[]*tensor.Tensor{g.Normal(tensor.Float32, 2, 3), g.Normal(tensor.Float32, 1, 2)}},
			{[]*tensor.Tensor{g.Normal(tensor.Float64, 2), g.Normal(tensor.Float64)}},
			{[]*tensor.Tensor{g.Normal(tensor.Float32, 0, 2), g.Normal(tensor.Float64, 2, 2)}},
			{[]*tensor.Tensor{g.Int(tensor.Int64, 0, 9, 2, 2)}},
		}
	},
}.Entry()
