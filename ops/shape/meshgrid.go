package shape

import (
	"math"
	"math/bits"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

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
	Traits: opdef.Traits{
		Composite: true, // each result has a node of its own
	},
	Schema: "meshgrid(Tensor[]... tensors, *, str? indexing=None) -> Tensor[]",
	Names:  "meshgrid functional.meshgrid",
	Doc:    opdef.Doc{Summary: "Coordinate grids of vectors", Formula: "out[k][i, j, ...] = tensors[k][index k]"},
	Error:  elements.MovedError,
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
	Bounds: opdef.Bounds[*meshgridArgs]{
		GradTerms: func(a *meshgridArgs) int {
			n := 1
			for _, t := range a.Tensors {
				n *= max(1, t.Numel())
			}
			return n
		},
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
	Cases: opdef.Calls[meshgridArgs](`
		[f32[2], f32[3]]; [f64[2], f64[3], f64[]], indexing='xy'; [i64[3]{0..9}], indexing='xy'; [f32[0], f32[2]]`),
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

// combinations are of r elements each: their indices in lexicographic order, one after the other.
type combinations struct {
	*combinationsArgs
	indices []int64
}

func (a *combinationsArgs) plan() (*combinations, error) {
	indices, err := a.indices()
	return &combinations{a, indices}, err
}

// mostCombined is how many elements combinations may have: a few operands have very many.
const mostCombined = 1 << 28

func (a *combinationsArgs) indices() ([]int64, error) {
	if a.Self.Dim() != 1 {
		return nil, opdef.Refuse("self", "want a vector, got %s", a.Self.Meta())
	}
	if a.R < 0 {
		return nil, opdef.Refuse("r", "negative number %d", a.R)
	}
	n, step := a.Self.Numel(), 1
	count := binomial(n, a.R)
	if a.WithReplacement {
		step, count = 0, -1
		if a.R <= math.MaxInt-n {
			count = binomial(n+a.R-1, a.R)
		}
	}
	if a.R == 0 || count == 0 {
		return nil, nil
	}
	if count < 0 || count > mostCombined/a.R {
		return nil, opdef.Unsupported("r", "the combinations of %d of %d are more than can be held", a.R, n)
	}
	out := tensor.Make[int64](tensor.Numel([]int{count, a.R}))
	row := out[:a.R]
	for k := range row {
		row[k] = int64(k * step)
	}
	for lo := a.R; lo < len(out); lo += a.R {
		next := out[lo : lo+a.R]
		copy(next, row)
		k := a.R - 1
		for next[k] == int64(n-1-(a.R-1-k)*step) { // the last that it can be
			k--
		}
		for next[k]++; k+1 < a.R; k++ {
			next[k+1] = next[k] + int64(step)
		}
		row = next
	}
	return out, nil
}

// binomial is how many ways there are to take k of n, -1 if more than an int holds.
func binomial(n, k int) int {
	if k > n || n < 0 {
		return 0
	}
	k = min(k, n-k)
	c := uint64(1)
	for i := 1; i <= k; i++ {
		hi, lo := bits.Mul64(c, uint64(n-k+i))
		if hi != 0 || lo > math.MaxInt64 {
			return -1
		}
		c = lo / uint64(i)
	}
	return int(c)
}

var combinationsOp = opdef.Planned[*combinationsArgs, *combinations]{
	Schema: "combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
	Names:  "combinations",
	Doc: opdef.Doc{Summary: "Combinations of the elements of a vector",
		Notes: "In lexicographic order of positions, one a row."},
	Error: elements.MovedError,
	Plan:  (*combinationsArgs).plan,
	Kernel: func(a *combinations) ([]*tensor.Tensor, error) {
		if a.R == 0 {
			return []*tensor.Tensor{elements.Zeros(a.Self.DType, []int{0})}, nil
		}
		return []*tensor.Tensor{runs.Pick(a.Self, []int{len(a.indices) / a.R, a.R}, runs.AtStarts(1, a.indices))}, nil
	},
	Grad: func(a *combinations, g *opdef.Grad) (opdef.Grads, error) {
		return opdef.Grads{"self": {runs.ScatterAdd(a.Self.Shape, g.Out[0], runs.AtStarts(1, a.indices))}}, nil
	},
	Bounds: opdef.Bounds[*combinations]{
		GradTerms: func(a *combinations) int { return max(1, a.R*a.Self.Numel()) },
	},
	// The node is that of stack: it saw one column of the result each.
	Node: func(a *combinations, g *opdef.Grad) (opdef.Node, error) {
		n := opdef.Node{Weak: "the incoming gradient in columns"}
		for i := range a.R {
			n.Grads = append(n.Grads, g.Out[0].Select(1, i))
		}
		return n, nil
	},
	Cases: opdef.Calls[combinationsArgs](`f32[4]; f64[3], r=3, with_replacement=True; f32[0]; i64[4]{0..9}, r=1`),
}.Entry()

var cartesianProdOp = opdef.Op[tensorsArgs]{
	Schema: "cartesian_prod(Tensor[]... tensors) -> Tensor",
	Names:  "cartesian_prod functional.cartesian_prod",
	Doc: opdef.Doc{Summary: "All tuples of one element of each vector",
		Notes: "The last vector runs fastest; one vector is returned as it is."},
	Error: elements.MovedError,
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
	Bounds: opdef.Bounds[*tensorsArgs]{
		GradTerms: func(a *tensorsArgs) int {
			n := 1
			for _, t := range a.Tensors {
				n *= max(1, t.Numel())
			}
			return n
		},
	},
	Node: func(a *tensorsArgs, g *opdef.Grad) (opdef.Node, error) {
		if len(a.Tensors) == 1 {
			return elements.ReturnedArgument, nil
		}
		n := opdef.Node{Weak: "the incoming gradient in columns"}
		for i := range a.Tensors {
			n.Grads = append(n.Grads, g.Out[0].Select(1, i))
		}
		return n, nil
	},
	Cases: opdef.Calls[tensorsArgs](`
		[f32[2], f32[3]]; [f64[2], f64[1], f64[3]]; [f32[3]]; [i64[2]{0..9}, i64[0]{0..9}]`),
}.Entry()
