package shape

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// arrangeOps order dimensions, show parts of them or repeat them.
var arrangeOps = []*opdef.Entry{
	viewOp[expandArgs]{
		Schema:  "expand(Tensor self, int[]... size, *, bool implicit=False) -> Tensor",
		Names:   "Tensor.expand expand_copy",
		Uncast:  "expand",
		Doc:     opdef.Doc{Summary: "Repeats dimensions of size 1", Notes: "A size of -1 keeps the dimension."},
		Self:    func(a *expandArgs) *tensor.Tensor { return a.Self },
		View:    func(a *expandArgs, t *tensor.Tensor) (*tensor.Tensor, error) { return expand(t, a.Size) },
		Back:    func(a *expandArgs, g *tensor.Tensor) *tensor.Tensor { return opdef.SumTo(g, a.Self.Shape) },
		Repeats: true,
		Cases: opdef.Calls[expandArgs](`
			f32[3, 1], [2, 3, 4]; f64[2, 1], [-1, 3]; bf16[], [2]; f32[1, 2], [0, 2]; f32[2, 3], [2, 2, 3]
			i64[1]{0..9}, [3]`),
	}.Entry(),
	viewOp[sizeArgs]{
		Schema:  "broadcast_to(Tensor self, int[]... size) -> Tensor",
		Names:   "broadcast_to Tensor.broadcast_to",
		Doc:     opdef.Doc{Summary: "Repeats dimensions of size 1"},
		Self:    func(a *sizeArgs) *tensor.Tensor { return a.Self },
		View:    func(a *sizeArgs, t *tensor.Tensor) (*tensor.Tensor, error) { return expand(t, a.Size) },
		Back:    func(a *sizeArgs, g *tensor.Tensor) *tensor.Tensor { return opdef.SumTo(g, a.Self.Shape) },
		Repeats: true,
		Cases:   opdef.Calls[sizeArgs](`f32[3, 1], [2, 3, 4]; f64[], [2, 2]; i64[1]{0..9}, [3]`),
	}.Entry(),
	viewOp[likeArgs]{
		Schema:  "expand_as(Tensor self, Tensor other) -> Tensor",
		Names:   "Tensor.expand_as",
		Uncast:  "expand_as",
		Doc:     opdef.Doc{Summary: "Repeats dimensions of size 1 up to the shape of another tensor"},
		Self:    func(a *likeArgs) *tensor.Tensor { return a.Self },
		View:    func(a *likeArgs, t *tensor.Tensor) (*tensor.Tensor, error) { return expand(t, a.Other.Shape) },
		Back:    func(a *likeArgs, g *tensor.Tensor) *tensor.Tensor { return opdef.SumTo(g, a.Self.Shape) },
		Repeats: true,
		Cases:   opdef.Calls[likeArgs](`f32[3, 1], i64[2, 3, 4]{0..1}; f64[], bool[2]{0..1}`),
	}.Entry(),
	viewOp[permuteArgs]{
		Schema: "permute(Tensor self, int[]... dims) -> Tensor",
		Names:  "permute Tensor.permute permute_copy",
		Uncast: "permute",
		Doc:    opdef.Doc{Summary: "The dimensions in another order"},
		Self:   func(a *permuteArgs) *tensor.Tensor { return a.Self },
		View: func(a *permuteArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			order, err := a.order()
			if err != nil {
				return nil, err
			}
			return t.Permute(order...), nil
		},
		Back: func(a *permuteArgs, g *tensor.Tensor) *tensor.Tensor {
			return g.Permute(InversePermutation(opdef.Must(a.order()))...)
		},
		Cases: opdef.Calls[permuteArgs](`
			f32[2, 3, 4], [2, 0, 1]; f64[2, 3], [-1, 0]; f32[], []; bf16[0, 3], [1, 0]; f32[2, 3, 2], [1, 0, 2]
			i64[2, 3]{0..9}, [1, 0]`),
	}.Entry(),
	viewOp[transposeArgs]{
		Schema: "transpose(Tensor self, int dim0, int dim1) -> Tensor",
		Names:  "transpose Tensor.transpose Tensor.transpose_ transpose_copy swapdims Tensor.swapdims Tensor.swapdims_",
		Uncast: "transpose swapdims",
		Doc:    opdef.Doc{Summary: "Swaps two dimensions"},
		Self:   func(a *transposeArgs) *tensor.Tensor { return a.Self },
		View: func(a *transposeArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			return transpose(t, "dim0", a.Dim0, "dim1", a.Dim1)
		},
		Back: func(a *transposeArgs, g *tensor.Tensor) *tensor.Tensor {
			return opdef.Must(transpose(g, "dim0", a.Dim0, "dim1", a.Dim1))
		},
		Cases: opdef.Calls[transposeArgs](`
			f32[2, 3, 4], 0, 2; f64[2, 3], -1, -2; f32[], 0, -1; bf16[0, 3], 0, 1; f32[2, 3], 1, 0
			i64[2, 3]{0..9}, 0, 0`),
	}.Entry(),
	viewOp[swapAxesArgs]{
		Schema: "swapaxes(Tensor self, int axis0, int axis1) -> Tensor",
		Names:  "swapaxes Tensor.swapaxes Tensor.swapaxes_",
		Uncast: "swapaxes",
		Doc:    opdef.Doc{Summary: "Swaps two dimensions"},
		Self:   func(a *swapAxesArgs) *tensor.Tensor { return a.Self },
		View: func(a *swapAxesArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			return transpose(t, "axis0", a.Axis0, "axis1", a.Axis1)
		},
		Back: func(a *swapAxesArgs, g *tensor.Tensor) *tensor.Tensor {
			return opdef.Must(transpose(g, "axis0", a.Axis0, "axis1", a.Axis1))
		},
		Cases: opdef.Calls[swapAxesArgs](`f32[2, 3, 4], 0, 2; i64[2, 3]{0..9}, -1, 0`),
	}.Entry(),
	transposed("t", "t Tensor.t Tensor.t_ t_copy", "Transposes a matrix; vectors and numbers stay as they are",
		"torch.t", 0, 2, swapLastDims).WithUncast("t"),
	transposed("mT", "Tensor.mT Tensor.mT.__get__", "Swaps the last two dimensions", "torch.Tensor.mT", 2, 64,
		swapLastDims).WithUncast("mT"),
	transposed("numpy_T", "Tensor.T Tensor.T.__get__", "Reverses the order of dimensions", "torch.Tensor.T", 0, 64,
		reverseDims),
	viewOp[movedimArgs]{
		Schema: "movedim(Tensor self, int[1] source, int[1] destination) -> Tensor",
		Names:  "movedim Tensor.movedim moveaxis Tensor.moveaxis",
		Uncast: "movedim",
		Doc:    opdef.Doc{Summary: "Moves dimensions to other places, the rest staying in order"},
		Self:   func(a *movedimArgs) *tensor.Tensor { return a.Self },
		View: func(a *movedimArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			order, err := a.order()
			if err != nil {
				return nil, err
			}
			return t.Permute(order...), nil
		},
		Back: func(a *movedimArgs, g *tensor.Tensor) *tensor.Tensor {
			return g.Permute(InversePermutation(opdef.Must(a.order()))...)
		},
		Cases: opdef.Calls[movedimArgs](`
			f32[2, 3, 4], [0], [-1]; f64[2, 3, 4], [0, 1], [2, 0]; f32[2, 0], [1], [0]; f32[], [0], [0]
			i64[2, 3]{0..9}, [], []`),
	}.Entry(),
	viewOp[narrowArgs]{
		Schema: "narrow(Tensor self, int dim, int start, int length) -> Tensor",
		Names:  "narrow Tensor.narrow narrow_copy Tensor.narrow_copy",
		Uncast: "narrow",
		Doc:    opdef.Doc{Summary: "A range of one dimension"},
		Self:   func(a *narrowArgs) *tensor.Tensor { return a.Self },
		View: func(a *narrowArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			dim, n, err := cutDim(t, a.Dim)
			if err != nil {
				return nil, err
			}
			start := a.Start
			if start < 0 && start >= -n {
				start += n
			}
			if a.Length < 0 || start < 0 || start > n || a.Length > n-start {
				return nil, opdef.Refuse("start", "range [%d, %d+%d) is outside of size %d", a.Start, a.Start,
					a.Length, n)
			}
			return t.Slice(dim, start, a.Length, 1), nil
		},
		Cases: opdef.Calls[narrowArgs](`
			f32[5, 3], 0, 1, 3; f64[2, 5], -1, -2, 2; f32[2], 0, 2, 0; bf16[0, 3], 1, 0, 2; f32[4, 3], 1, 1, 2
			i64[5]{0..9}, 0, 2, 3`),
	}.Entry(),
	viewOp[sliceArgs]{
		Schema: "slice_copy(Tensor self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
		Names:  "slice_copy torch.ops.aten.slice",
		Doc: opdef.Doc{Summary: "Every step-th index of a range of one dimension",
			Formula: "self[..., start:end:step]"},
		Self: func(a *sliceArgs) *tensor.Tensor { return a.Self },
		View: func(a *sliceArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			return SliceOf(t, a.Dim, a.Start, a.End, a.Step)
		},
		Cases: opdef.Calls[sliceArgs](`
			f32[5, 2], start=1, end=-1, step=2; f64[2, 3], dim=-1, end=1; i64[3]{0..9}, start=-1`),
	}.Entry(),
	viewOp[selectArgs]{
		Schema: "select(Tensor self, int dim, int index) -> Tensor",
		Names:  "select Tensor.select select_copy",
		Uncast: "select",
		Doc:    opdef.Doc{Summary: "One index of a dimension, which is removed"},
		Self:   func(a *selectArgs) *tensor.Tensor { return a.Self },
		View:   func(a *selectArgs, t *tensor.Tensor) (*tensor.Tensor, error) { return SelectIndex(t, a.Dim, a.Index) },
		Cases: opdef.Calls[selectArgs](`
			f32[5, 3], 0, 1; f64[2, 5], -1, -2; bf16[2], 0, 1; f32[0, 3], 1, 0; f32[4, 3], 1, 1; i64[5]{0..9}, 0, 2`),
	}.Entry(),
	viewOp[diagonalArgs]{
		Schema: "diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
		Names:  "diagonal Tensor.diagonal diagonal_copy",
		Uncast: "diagonal",
		Doc:    opdef.Doc{Summary: "A diagonal of two dimensions, as the last dimension"},
		Self:   func(a *diagonalArgs) *tensor.Tensor { return a.Self },
		View: func(a *diagonalArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			return Diagonal(t, a.Offset, a.Dim1, a.Dim2)
		},
		Cases: opdef.Calls[diagonalArgs](`
			f32[3, 4]; f64[3, 4, 2], offset=-1, dim2=2; f32[3, 4], offset=1, dim1=1, dim2=0; f32[3, 4], offset=9
			bf16[0, 4]; f32[3, 3], dim1=-2, dim2=-1; i64[3, 3]{0..9}, offset=2`),
	}.Entry(),
	viewOp[linalgDiagonalArgs]{
		Schema: "linalg_diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
		Names:  "linalg.diagonal",
		Doc:    opdef.Doc{Summary: "A diagonal of matrices, as the last dimension"},
		Self:   func(a *linalgDiagonalArgs) *tensor.Tensor { return a.A },
		View: func(a *linalgDiagonalArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			return Diagonal(t, a.Offset, a.Dim1, a.Dim2)
		},
		Arg: "A",
		Cases: opdef.Calls[linalgDiagonalArgs](`
			f32[3, 4]; f64[2, 3, 4], offset=-1; f32[3, 4, 2], offset=1, dim1=0, dim2=1`),
	}.Entry(),
	viewOp[windowsArgs]{
		Schema: "unfold(Tensor self, int dimension, int size, int step) -> Tensor",
		Names:  "Tensor.unfold unfold_copy",
		Uncast: "unfold",
		Doc: opdef.Doc{Summary: "Windows of a dimension, as a new last dimension",
			Formula: "out[.., i, .., k] = self[.., i*step + k, ..]"},
		Self: func(a *windowsArgs) *tensor.Tensor { return a.Self },
		View: func(a *windowsArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			dim, err := opdef.Dim("dimension", a.Dimension, t.Dim())
			if err != nil {
				return nil, err
			}
			n := 1
			if t.Dim() > 0 {
				n = t.Shape[dim]
			}
			switch {
			case a.Size < 0 || a.Size > n:
				return nil, opdef.Refuse("size", "windows of %d do not fit in size %d", a.Size, n)
			case a.Step <= 0:
				return nil, opdef.Refuse("step", "want a positive number, got %d", a.Step)
			case t.Dim() == 0:
				return t.Unsqueeze(0).Slice(0, 0, a.Size, 1), nil
			}
			shape, stride := append(slices.Clone(t.Shape), a.Size), append(slices.Clone(t.Stride), t.Stride[dim])
			shape[dim], stride[dim] = (n-a.Size)/a.Step+1, min(a.Step, n)*t.Stride[dim] // beyond n there is one window
			return t.Strided(shape, stride, t.Offset)
		},
		Repeats: true,
		Cases: opdef.Calls[windowsArgs](`
			f32[7], 0, 3, 2; f64[5, 2], 0, 2, 1; f32[2, 5], -1, 5, 1; f32[], 0, 1, 1; f32[5, 3], 0, 2, 2
			i64[5]{0..9}, 0, 2, 3`),
	}.Entry(),
	asStridedOp,
	viewOp[flipArgs]{
		Schema: "flip(Tensor self, int[]... dims) -> Tensor",
		Names:  "flip Tensor.flip",
		Doc:    opdef.Doc{Summary: "Reverses dimensions"},
		Self:   func(a *flipArgs) *tensor.Tensor { return a.Self },
		View:   func(a *flipArgs, t *tensor.Tensor) (*tensor.Tensor, error) { return flip(t, a.Dims) },
		Back:   func(a *flipArgs, g *tensor.Tensor) *tensor.Tensor { return opdef.Must(flip(g, a.Dims)) },
		Cases: opdef.Calls[flipArgs](`
			f32[2, 3], [0]; f64[2, 3], [-1, 0]; f16[3], [0]; f32[0, 2], [0]; f32[3], []; f32[2, 3], [1]
			i64[3]{0..9}, [0]`),
	}.Entry(),
	flipOf("fliplr", 2, 1), flipOf("flipud", 1, 0),
	rollOp, rot90Op,
}

type (
	expandArgs struct {
		Self     *tensor.Tensor
		Size     []int
		Implicit bool
	}
	permuteArgs struct {
		Self *tensor.Tensor
		Dims []int
	}
	transposeArgs struct {
		Self       *tensor.Tensor
		Dim0, Dim1 int
	}
	swapAxesArgs struct {
		Self         *tensor.Tensor
		Axis0, Axis1 int
	}
	movedimArgs struct {
		Self                *tensor.Tensor
		Source, Destination []int
	}
	sliceArgs struct {
		Self       *tensor.Tensor
		Dim        int
		Start, End *int
		Step       int
	}
	narrowArgs struct {
		Self               *tensor.Tensor
		Dim, Start, Length int
	}
	selectArgs struct {
		Self       *tensor.Tensor
		Dim, Index int
	}
	diagonalArgs struct {
		Self               *tensor.Tensor
		Offset, Dim1, Dim2 int
	}
	linalgDiagonalArgs struct {
		A                  *tensor.Tensor
		Offset, Dim1, Dim2 int
	}
	windowsArgs struct {
		Self                  *tensor.Tensor
		Dimension, Size, Step int
	}
	flipArgs struct {
		Self *tensor.Tensor
		Dims []int
	}
)

// expand is t broadcast to sizes, in which -1 keeps a dimension.
func expand(t *tensor.Tensor, sizes []int) (*tensor.Tensor, error) {
	shape := slices.Clone(sizes)
	for i, n := range shape {
		if n >= 0 {
			continue
		}
		d := i - (len(shape) - t.Dim())
		if n != -1 || d < 0 {
			return nil, opdef.Refuse("size", "size %d of dimension %d is no size", n, i)
		}
		shape[i] = t.Shape[d]
	}
	v, err := t.Expand(shape...)
	if err != nil {
		return nil, opdef.Refuse("size", "%v", err)
	}
	return v, nil
}

func (a *permuteArgs) order() ([]int, error) {
	if len(a.Dims) != a.Self.Dim() {
		return nil, opdef.Refuse("dims", "%d dimensions for a tensor of %d", len(a.Dims), a.Self.Dim())
	}
	return elements.ResolveDims("dims", a.Dims, a.Self.Dim())
}

// InversePermutation is the permutation that undoes order.
func InversePermutation(order []int) []int {
	inv := make([]int, len(order))
	for i, d := range order {
		inv[d] = i
	}
	return inv
}

func transpose(t *tensor.Tensor, arg0 string, dim0 int, arg1 string, dim1 int) (*tensor.Tensor, error) {
	a, err := opdef.Dim(arg0, dim0, t.Dim())
	if err != nil {
		return nil, err
	}
	b, err := opdef.Dim(arg1, dim1, t.Dim())
	if err != nil || a == b {
		return t, err
	}
	return t.Transpose(a, b), nil
}

// swapLastDims transposes matrices; vectors and numbers stay as they are.
func swapLastDims(t *tensor.Tensor) *tensor.Tensor {
	if d := t.Dim(); d >= 2 {
		return t.Transpose(d-2, d-1)
	}
	return t
}

// reverseDims puts the dimensions into the opposite order.
func reverseDims(t *tensor.Tensor) *tensor.Tensor {
	order := make([]int, t.Dim())
	for i := range order {
		order[i] = len(order) - 1 - i
	}
	return t.Permute(order...)
}

// transposed is an operator that permutes dimensions of a tensor of lo to hi of them by swap, which undoes itself.
func transposed(name, names, summary, source string, lo, hi int,
	swap func(*tensor.Tensor) *tensor.Tensor) *opdef.Entry {
	return viewOp[opdef.UnaryArgs]{
		Schema: name + "(Tensor self) -> Tensor", Names: names,
		Doc:  opdef.Doc{Summary: summary, Source: source},
		Self: func(a *opdef.UnaryArgs) *tensor.Tensor { return a.Self },
		View: func(_ *opdef.UnaryArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			if d := t.Dim(); d < lo || d > hi {
				return nil, opdef.Refuse("self", "want a matrix, got %s", t.Meta())
			}
			return swap(t), nil
		},
		Back:  func(_ *opdef.UnaryArgs, g *tensor.Tensor) *tensor.Tensor { return swap(g) },
		Cases: opdef.Calls[opdef.UnaryArgs](`f32[2, 3]; f64[3, 1]; bf16[0, 3]; i64[2, 2]{0..9}`),
	}.Entry()
}

// order is the permutation that moves the dimensions.
func (a *movedimArgs) order() ([]int, error) {
	n := a.Self.Dim()
	if len(a.Source) != len(a.Destination) {
		return nil, opdef.Refuse("destination", "%d dimensions move to %d", len(a.Source), len(a.Destination))
	}
	from, err := elements.ResolveDims("source", a.Source, n)
	if err != nil {
		return nil, err
	}
	to, err := elements.ResolveDims("destination", a.Destination, n)
	if err != nil {
		return nil, err
	}
	order, next := slices.Repeat([]int{-1}, n), 0
	for i, d := range to {
		order[d] = from[i]
	}
	for i := range order {
		if order[i] >= 0 {
			continue
		}
		for slices.Contains(from, next) {
			next++
		}
		order[i] = next
		next++
	}
	return order, nil
}

// SelectIndex is t[..., index] of dimension dim.
func SelectIndex(t *tensor.Tensor, dim, index int) (*tensor.Tensor, error) {
	d, n, err := cutDim(t, dim)
	if err != nil {
		return nil, err
	}
	if index < -n || index >= n {
		return nil, opdef.Refuse("index", "index %d is out of range for dimension %d of size %d", index, d, n)
	}
	if index < 0 {
		index += n
	}
	return t.Select(d, index), nil
}

// Diagonal is the view of t on a diagonal of two of its dimensions, which
// becomes the last.
func Diagonal(t *tensor.Tensor, offset, dim1, dim2 int) (*tensor.Tensor, error) {
	a, _, err := cutDim(t, dim1)
	if err != nil {
		return nil, err
	}
	b, err := opdef.Dim("dim2", dim2, t.Dim())
	if err != nil {
		return nil, err
	}
	if a == b {
		return nil, opdef.Refuse("dim2", "the dimensions of a diagonal are both %d", a)
	}
	var shape, stride []int
	for d := range t.Shape {
		if d != a && d != b {
			shape, stride = append(shape, t.Shape[d]), append(stride, t.Stride[d])
		}
	}
	n, at := min(t.Shape[a], t.Shape[b]-offset), offset*t.Stride[b]
	if offset < 0 {
		n, at = min(t.Shape[a]+offset, t.Shape[b]), -offset*t.Stride[a]
	}
	if n <= 0 {
		n, at = 0, 0
	}
	return t.Strided(append(shape, n), append(stride, t.Stride[a]+t.Stride[b]), t.Offset+at)
}

// flip reverses the dimensions dims of t.
func flip(t *tensor.Tensor, dims []int) (*tensor.Tensor, error) {
	ds, err := elements.ResolveDims("dims", dims, t.Dim())
	if err != nil {
		return nil, err
	}
	for _, d := range ds {
		t = t.Slice(d, t.Shape[d]-1, t.Shape[d], -1)
	}
	return t, nil
}

// flipOf declares the flip of one dimension.
func flipOf(name string, minDims, dim int) *opdef.Entry {
	return viewOp[opdef.UnaryArgs]{
		Schema: name + "(Tensor self) -> Tensor", Names: name + " Tensor." + name,
		Doc:  opdef.Doc{Summary: "Reverses " + [...]string{"the first dimension", "the second dimension"}[dim]},
		Self: func(a *opdef.UnaryArgs) *tensor.Tensor { return a.Self },
		View: func(_ *opdef.UnaryArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			if t.Dim() < minDims {
				return nil, opdef.Refuse("self", "want at least %d dimensions, got %d", minDims, t.Dim())
			}
			return flip(t, []int{dim})
		},
		Back:  func(_ *opdef.UnaryArgs, g *tensor.Tensor) *tensor.Tensor { return opdef.Must(flip(g, []int{dim})) },
		Cases: opdef.Calls[opdef.UnaryArgs](`f32[3, 2]; f64[2, 3, 2]; f32[0, 2]; i64[2, 3]{0..9}`),
	}.Entry()
}
