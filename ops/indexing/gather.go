package indexing

import (
	"slices"
	"sync/atomic"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// gatherOps read elements at positions that other tensors give.
var gatherOps = []*opdef.Entry{
	opdef.Planned[*gatherArgs, *gathering]{
		Schema: "gather(Tensor self, int dim, Tensor index, *, ignored sparse_grad=False) -> Tensor",
		Names:  "gather Tensor.gather",
		Traits: opdef.Traits{Lookup: "self", ExactOut: true},
		Doc: opdef.Doc{Summary: "Elements at indices along a dimension",
			Formula: "out[i, j, k] = self[i, index[i, j, k], k] for dim=1"},
		Error:  elements.MovedError,
		Plan:   (*gatherArgs).plan,
		Kernel: func(a *gathering) ([]*tensor.Tensor, error) { return []*tensor.Tensor{a.picked()}, nil },
		Grad: func(a *gathering, g *opdef.Grad) (opdef.Grads, error) {
			return opdef.Grads{"self": {a.Sum(g.Out[0]).Total}}, nil
		},
		Bounds: opdef.Bounds[*gathering]{
			GradTerms: func(a *gathering) int { return a.Most() },
			GradScale: func(a *gathering, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return opdef.Grads{"self": {a.Sum(g.Out[0]).Magnitudes}}, nil
			},
		},
		Cases: opdef.Calls[gatherArgs](`
			f32[4, 3], 0, i64[2, 3]{0..3}; f64[2, 5], -1, i64[2, 7]{0..4}; f64[3, 2, 2], 1, i64[2, 3, 1]{0..1}
			f32[], 0, i64[]{0..0}; bf16[3, 0], 0, i64[3, 0]{0..0}; i64[4]{0..9}, 0, i64[6]{0..3}`),
	}.Entry().ShapedAs("index"),
	takeAlongDimOp,
	opdef.Op[indexSelectArgs]{
		Schema: "index_select(Tensor self, int dim, Tensor index) -> Tensor",
		Names:  "index_select Tensor.index_select",
		Traits: opdef.Traits{Lookup: "self", ExactOut: true},
		Doc:    opdef.Doc{Summary: "Slices of a dimension at the given indices"},
		Error:  elements.MovedError,
		Kernel: func(a *indexSelectArgs) ([]*tensor.Tensor, error) {
			shape, r, err := slicesAt(a.Self.Shape, a.Dim, a.Index)
			if err != nil {
				return nil, err
			}
			return []*tensor.Tensor{runs.Pick(a.Self, shape, r)}, nil
		},
		Grad: func(a *indexSelectArgs, g *opdef.Grad) (opdef.Grads, error) { return a.grad(g.Out[0]) },
		Bounds: opdef.Bounds[*indexSelectArgs]{
			GradTerms: func(a *indexSelectArgs) int {
				_, r, err := slicesAt(a.Self.Shape, a.Dim, a.Index)
				return opdef.Must(r, err).Most(a.Self.Numel())
			},
		},
		Cases: opdef.Calls[indexSelectArgs](`
			f32[4, 3], 0, i64[5]{0..3}; f64[2, 3, 2], -2, i32[2]{0..2}; f32[], 0, i64[1]{0..0}
			f32[3, 2], 1, i64[]{0..0}; bf16[3, 0], 0, i64[2]{0..2}; bool[4]{0..1}, 0, i64[6]{0..3}`),
	}.Entry(),
	opdef.Op[takeArgs]{
		Schema: "take(Tensor self, Tensor index) -> Tensor",
		Names:  "take Tensor.take",
		Traits: opdef.Traits{Lookup: "self"},
		Doc:    opdef.Doc{Summary: "Elements of the flattened tensor at the given indices"},
		Error:  elements.MovedError,
		Kernel: func(a *takeArgs) ([]*tensor.Tensor, error) {
			r, err := flatAt(a.Self, a.Index)
			if err != nil {
				return nil, err
			}
			return []*tensor.Tensor{runs.Pick(a.Self, a.Index.Shape, r)}, nil
		},
		Grad: func(a *takeArgs, g *opdef.Grad) (opdef.Grads, error) { return a.grad(g.Out[0]) },
		Bounds: opdef.Bounds[*takeArgs]{
			GradTerms: func(a *takeArgs) int { return opdef.Must(flatAt(a.Self, a.Index)).Most(a.Self.Numel()) },
		},
		Cases: opdef.Calls[takeArgs](`
			f32[4, 3], i64[5]{-12..11}; f64[2, 3], i64[2, 2]{0..5}; f32[], i64[]{0..0}; f32[3], i64[0]{0..0}
			i64[4]{0..9}, i64[6]{0..3}`),
	}.Entry().ShapedAs("index"),
	opdef.Op[maskedArgs]{
		Schema: "masked_select(Tensor self, Tensor mask) -> Tensor",
		Names:  "masked_select Tensor.masked_select",
		Doc: opdef.Doc{Summary: "The elements where a mask is true, in one dimension",
			Notes: "Tensor and mask are broadcast."},
		Error: elements.MovedError,
		Kernel: func(a *maskedArgs) ([]*tensor.Tensor, error) {
			ts, at, err := a.ones()
			if err != nil {
				return nil, err
			}
			return []*tensor.Tensor{runs.Pick(ts[0], []int{len(at)}, runs.AtStarts(1, at))}, nil
		},
		Grad: func(a *maskedArgs, g *opdef.Grad) (opdef.Grads, error) { return a.grad(g.Out[0]) },
		Bounds: opdef.Bounds[*maskedArgs]{
			GradTerms: func(a *maskedArgs) int { return max(1, a.Mask.Numel()) },
		},
		Cases: opdef.Calls[maskedArgs](`
			f32[3, 4], bool[3, 4]{0..1}; f64[3, 1], bool[4]{0..1}; f32[], bool[]{1..1}; f32[0, 2], bool[2]{0..1}
			i64[5]{0..9}, bool[5]{0..1}`),
	}.Entry(),
	opdef.Op[nonzeroArgs]{
		Schema: "nonzero(Tensor self, *, bool as_tuple=False) -> Tensor|Tensor[as_tuple]",
		Names:  "nonzero Tensor.nonzero",
		Doc: opdef.Doc{Summary: "The indices of the elements that are not zero, one a row",
			Notes: "With as_tuple one tensor for each dimension."},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "indices have no gradient", Trivial: true},
		Kernel: func(a *nonzeroArgs) ([]*tensor.Tensor, error) {
			if a.AsTuple {
				return nonzeroColumns(elements.AtLeastDims(a.Self, 1)), nil
			}
			return nonzeroRows(a.Self), nil
		},
		Cases: opdef.Calls[nonzeroArgs](`
			bool[3, 4]{0..1}; i64[5]{-1..1}, as_tuple=True; f32[], as_tuple=True; f64[]; f32[0, 2]
			c64[2, 1], as_tuple=True`),
	}.Entry(),
	nonzeroStaticOp,
	opdef.Op[opdef.UnaryArgs]{
		Schema: "argwhere(Tensor self) -> Tensor",
		Names:  "argwhere Tensor.argwhere",
		Doc:    opdef.Doc{Summary: "The indices of the elements that are not zero, one a row"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "indices have no gradient", Trivial: true},
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) { return nonzeroRows(a.Self), nil },
		Cases:  elements.SelfCases,
	}.Entry(),
	opdef.Op[conditionArgs]{
		Schema: "where.condition(Tensor condition) -> Tensor[]",
		Names:  "where",
		Doc:    opdef.Doc{Summary: "The indices of the elements that are not zero, one tensor for each dimension"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "indices have no gradient", Trivial: true},
		Kernel: func(a *conditionArgs) ([]*tensor.Tensor, error) {
			return nonzeroColumns(elements.AtLeastDims(a.Condition, 1)), nil
		},
		Cases: opdef.Calls[conditionArgs](`bool[3, 4]{0..1}; f32[]; i64[0, 2]{0..1}`),
	}.Entry(),
	repeatInterleaveOp, repeatInterleaveCountsOp, repeatCountsOp,
}

type (
	gatherArgs struct {
		Self  *tensor.Tensor
		Dim   int
		Index *tensor.Tensor
	}
	indexSelectArgs struct {
		Self  *tensor.Tensor
		Dim   int
		Index *tensor.Tensor
	}
	takeArgs    struct{ Self, Index *tensor.Tensor }
	maskedArgs  struct{ Self, Mask *tensor.Tensor }
	nonzeroArgs struct {
		Self    *tensor.Tensor
		AsTuple bool
	}
	conditionArgs struct{ Condition *tensor.Tensor }
)

// checkIndex refuses index tensors that are not integers in [lo, hi).
func checkIndex(arg string, index *tensor.Tensor, lo, hi int) error {
	if index.DType != tensor.Int64 && index.DType != tensor.Int32 {
		return opdef.Refuse(arg, "want int64 or int32, got %s", index.DType)
	}
	short, _, err := tensor.Distinct(index)
	if err != nil {
		return err
	}
	index = short[0]
	if within(index, lo, hi) {
		return nil
	}
	if err := EachInt(index, func(_ int, v int64) bool { return v >= int64(lo) && v < int64(hi) }); err != nil {
		return opdef.Refuse(arg, "index %d is outside of [%d, %d)", int64(err.(outside)), lo, hi)
	}
	return nil
}

// within reports whether all elements of index are in [lo, hi).
func within(index *tensor.Tensor, lo, hi int) bool {
	n, step := index.Numel(), index.Block()
	var bad atomic.Bool
	tensor.Parallel((n+step-1)/step, 8, func(a, b int) {
		buf := opdef.Scratch[int64](min(n, step))
		defer opdef.Release(buf)
		for k := a; k < b && !bad.Load(); k++ {
			v := (*buf)[:min(step, n-k*step)]
			tensor.Load(index, k*step, v)
			over := false
			for _, x := range v {
				over = over || uint64(x-int64(lo)) >= uint64(hi-lo)
			}
			if over {
				bad.Store(true)
			}
		}
	})
	return !bad.Load()
}

// Along are the elements of a tensor of shape that gather reads: those at
// index's own position, except in dim, where index says which.
func Along(shape []int, dim int, index *tensor.Tensor) (runs.Runs, error) {
	var r runs.Runs
	d, err := opdef.Dim("dim", dim, len(shape))
	if err != nil {
		return r, err
	}
	if index.Numel() == 0 { // of any dtype
		return runs.AtStarts(1, nil), nil
	}
	if index.DType != tensor.Int64 && index.DType != tensor.Int32 {
		return r, opdef.Refuse("index", "want int64 or int32, got %s", index.DType)
	}
	if max(len(shape), 1) != max(index.Dim(), 1) {
		return r, opdef.Refuse("index", "%d dimensions for a tensor of %d", index.Dim(), len(shape))
	}
	if len(shape) == 0 || index.Dim() == 0 { // numbers count as vectors of one
		shape = []int{tensor.Numel(shape)}
		index = index.Reshape(index.Numel())
	}
	for k, n := range index.Shape {
		if k != d && n > shape[k] {
			return r, opdef.Refuse("index", "size %d in dimension %d, the tensor has %d", n, k, shape[k])
		}
	}
	if err := checkIndex("index", index, 0, shape[d]); err != nil {
		return r, err
	}
	stride := tensor.Contiguous(shape)
	step := int64(stride[d])
	stride[d] = 0
	at := runs.OfView(&tensor.Tensor{Shape: index.Shape, Stride: stride})
	return runs.Runs{Len: 1, Count: index.Numel(), Starts: func(lo int, dst []int64) {
		tensor.Load(index, lo, dst)
		base := opdef.Scratch[int64]((lo+len(dst)-1)/at.Len - lo/at.Len + 1)
		at.Starts(lo/at.Len, *base)
		from := lo % at.Len
		for _, b := range *base {
			part := dst[:min(at.Len-from, len(dst))]
			for i, v := range part {
				part[i] = v*step + b + int64(from+i)
			}
			dst, from = dst[len(part):], 0
		}
		opdef.Release(base)
	}}, nil
}

// A gathering reads the runs of self that index says, and adds their gradients up.
type gathering struct {
	runs.Adjoint
	self  *tensor.Tensor
	shape []int // of what is read
}

func (a *gatherArgs) plan() (*gathering, error) {
	r, err := Along(a.Self.Shape, a.Dim, a.Index)
	return &gathering{runs.Adjoint{Shape: a.Self.Shape, Runs: r}, a.Self, a.Index.Shape}, err
}

func (a *gathering) picked() *tensor.Tensor { return runs.Pick(a.self, a.shape, a.Runs) }

// indexedDim is the dimension dim of shape, of which index, a vector or a
// number, names slices.
func indexedDim(shape []int, dim int, index *tensor.Tensor) (int, error) {
	d, err := opdef.Dim("dim", dim, len(shape))
	if err == nil && index.Dim() > 1 {
		err = opdef.Refuse("index", "want a vector, got %s", index.Meta())
	}
	return d, err
}

// slicesAt are the slices of dimension dim at index, and the shape they make.
func slicesAt(shape []int, dim int, index *tensor.Tensor) ([]int, runs.Runs, error) {
	var r runs.Runs
	d, err := indexedDim(shape, dim, index)
	if err != nil {
		return nil, r, err
	}
	if len(shape) == 0 {
		if index.Numel() != 1 {
			return nil, r, opdef.Refuse("index", "want one index for a number, got %d", index.Numel())
		}
		return nil, runs.AtStarts(1, []int64{0}), checkIndex("index", index, 0, 1)
	}
	if err := checkIndex("index", index, 0, shape[d]); err != nil {
		return nil, r, err
	}
	out := slices.Clone(shape)
	out[d] = index.Numel()
	return out, SlicesOf(shape, d, tensor.Data[int64](index)), nil
}

// filledAt are the slices of dimension dim at index, which may be negative, and
// the shape they make, each once, however often it is named; a number has its
// one element.
func filledAt(shape []int, dim int, index *tensor.Tensor) ([]int, runs.Runs, error) {
	var r runs.Runs
	d, err := indexedDim(shape, dim, index)
	if err != nil {
		return nil, r, err
	}
	if len(shape) == 0 {
		shape = []int{1}
	}
	n := shape[d]
	if err := checkIndex("index", index, -n, n); err != nil {
		return nil, r, err
	}
	at := slices.Clone(tensor.Data[int64](index))
	for i, v := range at {
		if v < 0 {
			at[i] = v + int64(n)
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	out := slices.Clone(shape)
	out[d] = len(at)
	return out, SlicesOf(shape, d, at), nil
}

// SlicesOf are the slices of dimension d at the indices idx.
func SlicesOf(shape []int, d int, idx []int64) runs.Runs {
	inner := tensor.Numel(shape[d+1:])
	return runs.Runs{Len: inner, Count: tensor.Numel(shape[:d]) * len(idx), Starts: func(lo int, dst []int64) {
		for i := range dst {
			k := lo + i
			dst[i] = (int64(k/len(idx)*shape[d]) + idx[k%len(idx)]) * int64(inner)
		}
	}}
}

func (a *indexSelectArgs) grad(g *tensor.Tensor) (opdef.Grads, error) {
	_, r, err := slicesAt(a.Self.Shape, a.Dim, a.Index)
	return opdef.Grads{"self": {runs.ScatterAdd(a.Self.Shape, g, r)}}, err
}

// flatAt are the elements of t at index, which may be negative.
func flatAt(t, index *tensor.Tensor) (runs.Runs, error) {
	n := t.Numel()
	if index.DType != tensor.Int64 {
		return runs.Runs{}, opdef.Refuse("index", "want int64, got %s", index.DType)
	}
	if err := checkIndex("index", index, -n, n); err != nil {
		return runs.Runs{}, err
	}
	return runs.Runs{Len: 1, Count: index.Numel(), Starts: func(lo int, dst []int64) {
		tensor.Load(index, lo, dst)
		for i, v := range dst {
			if v < 0 {
				dst[i] += int64(n)
			}
		}
	}}, nil
}

func (a *takeArgs) grad(g *tensor.Tensor) (opdef.Grads, error) {
	r, err := flatAt(a.Self, a.Index)
	return opdef.Grads{"self": {runs.ScatterAdd(a.Self.Shape, g, r)}}, err
}

// ones broadcasts tensor and mask and lists the elements where it is true.
func (a *maskedArgs) ones() ([]*tensor.Tensor, []int64, error) {
	if !isMask(a.Mask) {
		return nil, nil, opdef.Refuse("mask", "want bool, got %s", a.Mask.DType)
	}
	ts, _, err := opdef.BroadcastAll(a.Self, a.Mask)
	if err != nil {
		return nil, nil, err
	}
	return ts, nonzeroAt(ts[1]), nil
}

func (a *maskedArgs) grad(g *tensor.Tensor) (opdef.Grads, error) {
	ts, at, err := a.ones()
	if err != nil {
		return nil, err
	}
	return opdef.Grads{"self": {opdef.SumTo(runs.ScatterAdd(ts[0].Shape, g, runs.AtStarts(1, at)), a.Self.Shape)}}, nil
}

type takeAlongDimArgs struct {
	Self, Indices *tensor.Tensor
	Dim           *int
}

// A takeAlongDim is a call that comes to a gather of broadcast or flattened tensors.
type takeAlongDim struct {
	*gathering
	argument []int // its shape
}

func (a *takeAlongDimArgs) plan() (*takeAlongDim, error) {
	args, err := a.gather()
	if err != nil {
		return nil, err
	}
	g, err := args.plan()
	return &takeAlongDim{g, a.Self.Shape}, err
}

func (a *takeAlongDimArgs) gather() (*gatherArgs, error) {
	if a.Dim == nil {
		return &gatherArgs{a.Self.Reshape(a.Self.Numel()), 0, a.Indices.Reshape(a.Indices.Numel())}, nil
	}
	if a.Self.Dim() != a.Indices.Dim() {
		return nil, opdef.Refuse("indices", "%d dimensions for a tensor of %d", a.Indices.Dim(), a.Self.Dim())
	}
	d, err := opdef.Dim("dim", *a.Dim, a.Self.Dim())
	if err != nil {
		return nil, err
	}
	if a.Self.Dim() == 0 {
		return &gatherArgs{a.Self, 0, a.Indices}, nil
	}
	one := func(t *tensor.Tensor) []int {
		s := slices.Clone(t.Shape)
		s[d] = 1
		return s
	}
	shape, err := tensor.Broadcast(one(a.Self), one(a.Indices))
	if err != nil {
		return nil, opdef.Refuse("indices", "%v", err)
	}
	wide := func(t *tensor.Tensor) (*tensor.Tensor, error) {
		s := slices.Clone(shape)
		s[d] = t.Shape[d]
		return t.Expand(s...)
	}
	self, err := wide(a.Self)
	if err != nil {
		return nil, err
	}
	index, err := wide(a.Indices)
	if err != nil {
		return nil, err
	}
	if size := int64(a.Self.Shape[d]); index.DType == tensor.Int64 { // counted from the end since torch 2.8
		index = opdef.Map(tensor.Int64, index, func(k int64) int64 {
			if k < 0 {
				k += size
			}
			return k
		})
	}
	return &gatherArgs{self, d, index}, nil
}

// grads are the gradients of the broadcast tensor and of the argument.
func (t *takeAlongDim) grads(g *tensor.Tensor) (wide, self *tensor.Tensor) {
	wide = t.Sum(g).Total
	if wide.Dim() != len(t.argument) {
		return wide, wide.Reshape(t.argument...)
	}
	return wide, opdef.SumTo(wide, t.argument)
}

var takeAlongDimOp = opdef.Planned[*takeAlongDimArgs, *takeAlongDim]{
	Schema: "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
	Names:  "take_along_dim Tensor.take_along_dim",
	Traits: opdef.Traits{Lookup: "self"},
	Doc: opdef.Doc{Summary: "Elements at indices along a dimension, tensor and indices broadcast",
		Notes: "Without dim both are flattened. Along dim negative indices count from the end."},
	Error:  elements.MovedError,
	Plan:   (*takeAlongDimArgs).plan,
	Kernel: func(t *takeAlongDim) ([]*tensor.Tensor, error) { return []*tensor.Tensor{t.picked()}, nil },
	Grad: func(t *takeAlongDim, g *opdef.Grad) (opdef.Grads, error) {
		_, self := t.grads(g.Out[0])
		return opdef.Grads{"self": {self}}, nil
	},
	Bounds: opdef.Bounds[*takeAlongDim]{
		GradTerms: func(t *takeAlongDim) int { return max(1, tensor.Numel(t.shape)) },
	},
	Node: func(t *takeAlongDim, g *opdef.Grad) (opdef.Node, error) {
		wide, _ := t.grads(g.Out[0])
		return opdef.Node{Grads: []*tensor.Tensor{wide}}, nil
	},
	Cases: opdef.Calls[takeAlongDimArgs](`
		f32[3, 4], i64[3, 2]{0..3}, dim=1; f64[3, 1, 4], i64[1, 2, 2]{0..3}, dim=-1
		f64[3, 4], i64[3, 2]{-4..-1}, dim=1; f64[3, 4], i64[2, 2]{0..11}; i64[4]{0..9}, i64[4]{0..3}, dim=-1`),
}.Entry()
