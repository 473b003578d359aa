package ops

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// gatherOps read elements at positions that other tensors give.
var gatherOps = []*opdef.Entry{
	opdef.Op[gatherArgs]{
		Schema:   "gather(Tensor self, int dim, Tensor index, *, ignored sparse_grad=False) -> Tensor",
		ExactOut: func(*gatherArgs) bool { return true },
		Names:    "gather Tensor.gather",
		Lookup:   "self",
		Doc: opdef.Doc{Summary: "Elements at indices along a dimension",
			Formula: "out[i, j, k] = self[i, index[i, j, k], k] for dim=1", Source: "torch.gather"},
		Error:  opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 1}},
		Kernel: func(a *gatherArgs) ([]*tensor.Tensor, error) { return gathered(a.Self, a.Dim, a.Index) },
		Grad:   func(a *gatherArgs, g *opdef.Grad) (opdef.Grads, error) { return a.grad(g.Out[0]) },
		GradScale: func(a *gatherArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			return a.grad(opdef.Abs(g.Out[0]))
		},
		GradTerms: func(a *gatherArgs) int { return max(1, a.Index.Numel()) },
		Cases: func(r *rand.Rand) []*gatherArgs {
			g := opdef.Gen{R: r}
			return []*gatherArgs{
				{g.Normal(tensor.Float32, 4, 3), 0, g.Int(tensor.Int64, 0, 3, 2, 3)}, {g.Normal(tensor.Float64, 2, 5),
					-1, g.Int(tensor.Int64, 0, 4, 2, 7)},
				{g.Normal(tensor.Float64, 3, 2, 2), 1, g.Int(tensor.Int64, 0, 1, 2, 3, 1)},
				{g.Normal(tensor.Float32), 0, g.Int(tensor.Int64, 0, 0)},
				{g.Normal(tensor.BFloat16, 3, 0), 0, g.Int(tensor.Int64, 0, 0, 3, 0)},
				{opdef.NonContiguous(g.Normal(tensor.Float32, 4, 3)), 1, g.Int(tensor.Int64, 0, 2, 4, 2)},
				{g.Int(tensor.Int64, 0, 9, 4), 0, g.Int(tensor.Int64, 0, 3, 6)},
			}
		},
	}.Entry(),
	takeAlongDimOp,
	opdef.Op[indexSelectArgs]{
		Schema:   "index_select(Tensor self, int dim, Tensor index) -> Tensor",
		ExactOut: func(*indexSelectArgs) bool { return true },
		Names:    "index_select Tensor.index_select",
		Lookup:   "self",
		Doc:      opdef.Doc{Summary: "Slices of a dimension at the given indices", Source: "torch.index_select"},
		Error:    opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 1}},
		Kernel: func(a *indexSelectArgs) ([]*tensor.Tensor, error) {
			shape, r, err := slicesAt(a.Self.Shape, a.Dim, a.Index)
			if err != nil {
				return nil, err
			}
			return []*tensor.Tensor{pick(a.Self, shape, r)}, nil
		},
		Grad: func(a *indexSelectArgs, g *opdef.Grad) (opdef.Grads, error) { return a.grad(g.Out[0]) },
		GradScale: func(a *indexSelectArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			return a.grad(opdef.Abs(g.Out[0]))
		},
		GradTerms: func(a *indexSelectArgs) int { return max(1, a.Index.Numel()) },
		Cases: func(r *rand.Rand) []*indexSelectArgs {
			g := opdef.Gen{R: r}
			return []*indexSelectArgs{
				{g.Normal(tensor.Float32, 4, 3), 0, g.Int(tensor.Int64, 0, 3, 5)}, {g.Normal(tensor.Float64, 2, 3, 2),
					-2, g.Int(tensor.Int32, 0, 2, 2)}, {g.Normal(tensor.Float32), 0, g.Int(tensor.Int64, 0, 0, 1)},
				{g.Normal(tensor.Float32, 3, 2), 1, g.Int(tensor.Int64, 0, 0)}, {g.Normal(tensor.BFloat16, 3, 0), 0,
					g.Int(tensor.Int64, 0, 2, 2)},
				{opdef.NonContiguous(g.Normal(tensor.Float32, 4, 3)), 1, g.Int(tensor.Int64, 0, 2, 2)},
				{g.Int(tensor.Bool, 0, 1, 4), 0, g.Int(tensor.Int64, 0, 3, 6)},
			}
		},
	}.Entry(),
	opdef.Op[takeArgs]{
		Schema: "take(Tensor self, Tensor index) -> Tensor",
		Names:  "take Tensor.take",
		Lookup: "self",
		Doc:    opdef.Doc{Summary: "Elements of the flattened tensor at the given indices", Source: "torch.take"},
		Error:  opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 1}},
		Kernel: func(a *takeArgs) ([]*tensor.Tensor, error) {
			r, err := flatAt(a.Self, a.Index)
			if err != nil {
				return nil, err
			}
			return []*tensor.Tensor{pick(a.Self, a.Index.Shape, r)}, nil
		},
		Grad: func(a *takeArgs, g *opdef.Grad) (opdef.Grads, error) { return a.grad(g.Out[0]) },
		GradScale: func(a *takeArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			return a.grad(opdef.Abs(g.Out[0]))
		},
		GradTerms: func(a *takeArgs) int { return max(1, a.Index.Numel()) },
		Cases: func(r *rand.Rand) []*takeArgs {
			g := opdef.Gen{R: r}
			return []*takeArgs{
				{g.Normal(tensor.Float32, 4, 3), g.Int(tensor.Int64, -12, 11, 5)}, {g.Normal(tensor.Float64, 2, 3),
					g.Int(tensor.Int64, 0, 5, 2, 2)}, {g.Normal(tensor.Float32), g.Int(tensor.Int64, 0, 0)},
				{g.Normal(tensor.Float32, 3), g.Int(tensor.Int64, 0, 0, 0)},
				{opdef.NonContiguous(g.Normal(tensor.Float32, 4, 3)), g.Int(tensor.Int64, 0, 11, 2)},
				{g.Int(tensor.Int64, 0, 9, 4), g.Int(tensor.Int64, 0, 3, 6)},
			}
		},
	}.Entry(),
	opdef.Op[maskedArgs]{
		Schema: "masked_select(Tensor self, Tensor mask) -> Tensor",
		Names:  "masked_select Tensor.masked_select",
		Doc: opdef.Doc{Summary: "The elements where a mask is true, in one dimension",
			Notes: "Tensor and mask are broadcast.", Source: "torch.masked_select"},
		Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 1}},
		Kernel: func(a *maskedArgs) ([]*tensor.Tensor, error) {
			ts, at, err := a.ones()
			if err != nil {
				return nil, err
			}
			return []*tensor.Tensor{pick(ts[0], []int{len(at)}, listed(1, at))}, nil
		},
		Grad: func(a *maskedArgs, g *opdef.Grad) (opdef.Grads, error) { return a.grad(g.Out[0]) },
		GradScale: func(a *maskedArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			return a.grad(opdef.Abs(g.Out[0]))
		},
		GradTerms: func(a *maskedArgs) int { return max(1, a.Mask.Numel()) },
		Cases: func(r *rand.Rand) []*maskedArgs {
			g := opdef.Gen{R: r}
			return []*maskedArgs{
				{g.Normal(tensor.Float32, 3, 4), g.Int(tensor.Bool, 0, 1, 3, 4)}, {g.Normal(tensor.Float64, 3, 1),
					g.Int(tensor.Bool, 0, 1, 4)}, {g.Normal(tensor.Float32), g.Int(tensor.Bool, 1, 1)},
				{g.Normal(tensor.Float32, 0, 2), g.Int(tensor.Bool, 0, 1, 2)},
				{opdef.NonContiguous(g.Normal(tensor.Float32, 3, 4)), g.Int(tensor.Bool, 0, 1, 3, 1)},
				{g.Int(tensor.Int64, 0, 9, 5), g.Int(tensor.Bool, 0, 1, 5)},
			}
		},
	}.Entry(),
	opdef.Op[nonzeroArgs]{
		Schema: "nonzero(Tensor self, *, bool as_tuple=False) -> Tensor",
		Names:  "nonzero Tensor.nonzero",
		Doc: opdef.Doc{Summary: "The indices of the elements that are not zero, one a row",
			Notes: "With as_tuple one tensor for each dimension.", Source: "torch.nonzero"},
		Error: opdef.Error{Class: opdef.Exact}, NoGrad: "indices have no gradient",
		Trivial: true,
		Kernel: func(a *nonzeroArgs) ([]*tensor.Tensor, error) {
			if a.AsTuple {
				return nonzeroColumns(withDims(a.Self, 1)), nil
			}
			return nonzeroRows(a.Self), nil
		},
		Cases: func(r *rand.Rand) []*nonzeroArgs {
			g := opdef.Gen{R: r}
			return []*nonzeroArgs{
				{g.Int(tensor.Bool, 0, 1, 3, 4), false}, {g.Int(tensor.Int64, -1, 1, 5), true},
				{g.Normal(tensor.Float32), true}, {g.Normal(tensor.Float64), false},
				{g.Normal(tensor.Float32, 0, 2), false},
				{opdef.NonContiguous(g.Int(tensor.Int32, 0, 1, 3, 2)), false}, {g.Normal(tensor.Complex64, 2, 1), true},
			}
		},
	}.Entry(),
	nonzeroStaticOp,
	opdef.Op[selfArgs]{
		Schema: "argwhere(Tensor self) -> Tensor",
		Names:  "argwhere Tensor.argwhere",
		Doc: opdef.Doc{Summary: "The indices of the elements that are not zero, one a row",
			Source: "torch.argwhere"},
		Error: opdef.Error{Class: opdef.Exact}, NoGrad: "indices have no gradient",
		Trivial: true,
		Kernel:  func(a *selfArgs) ([]*tensor.Tensor, error) { return nonzeroRows(a.Self), nil },
		Cases:   func(r *rand.Rand) []*selfArgs { return selfCases(opdef.Gen{R: r}) },
	}.Entry(),
	opdef.Op[conditionArgs]{
		Schema: "where.condition(Tensor condition) -> Tensor[]",
		Names:  "where",
		Doc: opdef.Doc{Summary: "The indices of the elements that are not zero, one tensor for each dimension",
			Source: "torch.where"},
		Error: opdef.Error{Class: opdef.Exact}, NoGrad: "indices have no gradient",
		Trivial: true,
		Kernel: func(a *conditionArgs) ([]*tensor.Tensor, error) {
			return nonzeroColumns(withDims(a.Condition, 1)), nil
		},
		Cases: func(r *rand.Rand) []*conditionArgs {
			g := opdef.Gen{R: r}
			return []*conditionArgs{{g.Int(tensor.Bool, 0, 1, 3, 4)}, {g.Normal(tensor.Float32)},
				{g.Int(tensor.Int64, 0, 1, 0, 2)}}
		},
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
	if within(index, lo, hi) {
		return nil
	}
	if err := eachInt(index, func(_ int, v int64) bool { return v >= int64(lo) && v < int64(hi) }); err != nil {
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

// along are the elements of a tensor of shape that gather reads: those at
// index's own position, except in dim, where index says which.
func along(shape []int, dim int, index *tensor.Tensor) (runs, error) {
	var r runs
	d, err := opdef.Dim("dim", dim, len(shape))
	if err != nil {
		return r, err
	}
	if index.Numel() == 0 { // of any dtype
		return listed(1, nil), nil
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
	at := runsOf(&tensor.Tensor{Shape: index.Shape, Stride: stride})
	return runs{n: 1, count: index.Numel(), at: func(lo int, dst []int64) {
		tensor.Load(index, lo, dst)
		base := opdef.Scratch[int64]((lo+len(dst)-1)/at.n - lo/at.n + 1)
		at.at(lo/at.n, *base)
		from := lo % at.n
		for _, b := range *base {
			part := dst[:min(at.n-from, len(dst))]
			for i, v := range part {
				part[i] = v*step + b + int64(from+i)
			}
			dst, from = dst[len(part):], 0
		}
		opdef.Release(base)
	}}, nil
}

func gathered(t *tensor.Tensor, dim int, index *tensor.Tensor) ([]*tensor.Tensor, error) {
	r, err := along(t.Shape, dim, index)
	if err != nil {
		return nil, err
	}
	return []*tensor.Tensor{pick(t, index.Shape, r)}, nil
}

func (a *gatherArgs) grad(g *tensor.Tensor) (opdef.Grads, error) {
	r, err := along(a.Self.Shape, a.Dim, a.Index)
	return opdef.Grads{"self": {addInto(a.Self.Shape, g, r)}}, err
}

// indexedDim is the dimension dim of shape, of which index, a vector or a number,
// names slices.
func indexedDim(shape []int, dim int, index *tensor.Tensor) (int, error) {
	d, err := opdef.Dim("dim", dim, len(shape))
	if err == nil && index.Dim() > 1 {
		err = opdef.Refuse("index", "want a vector, got %s", index.Meta())
	}
	return d, err
}

// slicesAt are the slices of dimension dim at index, and the shape they make.
func slicesAt(shape []int, dim int, index *tensor.Tensor) ([]int, runs, error) {
	var r runs
	d, err := indexedDim(shape, dim, index)
	if err != nil {
		return nil, r, err
	}
	if len(shape) == 0 {
		if index.Numel() != 1 {
			return nil, r, opdef.Refuse("index", "want one index for a number, got %d", index.Numel())
		}
		return nil, listed(1, []int64{0}), checkIndex("index", index, 0, 1)
	}
	if err := checkIndex("index", index, 0, shape[d]); err != nil {
		return nil, r, err
	}
	out := slices.Clone(shape)
	out[d] = index.Numel()
	return out, slicesOf(shape, d, tensor.Data[int64](index)), nil
}

// filledAt are the slices of dimension dim at index, which may be negative, and
// the shape they make, each once, however often it is named; a number has its
// one element.
func filledAt(shape []int, dim int, index *tensor.Tensor) ([]int, runs, error) {
	var r runs
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
	return out, slicesOf(shape, d, at), nil
}

// slicesOf are the slices of dimension d at the indices idx.
func slicesOf(shape []int, d int, idx []int64) runs {
	inner := tensor.Numel(shape[d+1:])
	return runs{n: inner, count: tensor.Numel(shape[:d]) * len(idx), at: func(lo int, dst []int64) {
		for i := range dst {
			k := lo + i
			dst[i] = (int64(k/len(idx)*shape[d]) + idx[k%len(idx)]) * int64(inner)
		}
	}}
}

func (a *indexSelectArgs) grad(g *tensor.Tensor) (opdef.Grads, error) {
	_, r, err := slicesAt(a.Self.Shape, a.Dim, a.Index)
	return opdef.Grads{"self": {addInto(a.Self.Shape, g, r)}}, err
}

// flatAt are the elements of t at index, which may be negative.
func flatAt(t, index *tensor.Tensor) (runs, error) {
	n := t.Numel()
	if index.DType != tensor.Int64 {
		return runs{}, opdef.Refuse("index", "want int64, got %s", index.DType)
	}
	if err := checkIndex("index", index, -n, n); err != nil {
		return runs{}, err
	}
	return runs{n: 1, count: index.Numel(), at: func(lo int, dst []int64) {
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
	return opdef.Grads{"self": {addInto(a.Self.Shape, g, r)}}, err
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
	return opdef.Grads{"self": {opdef.SumTo(addInto(ts[0].Shape, g, listed(1, at)), a.Self.Shape)}}, nil
}

// nonzeroAt lists the elements of t that are not zero (NaN is not).
func nonzeroAt(t *tensor.Tensor) []int64 {
	if t.DType.Kind() >= tensor.KindFloat {
		t = opdef.Cast(t, tensor.Bool)
	}
	var at []int64
	_ = eachInt(t, func(i int, v int64) bool {
		if v != 0 {
			at = append(at, int64(i))
		}
		return true
	})
	return at
}

func nonzeroRows(t *tensor.Tensor) []*tensor.Tensor {
	at, k := nonzeroAt(t), t.Dim()
	out := make([]int64, len(at)*k)
	for i, p := range at {
		for d := k - 1; d >= 0; d-- {
			out[i*k+d] = p % int64(t.Shape[d])
			p /= int64(t.Shape[d])
		}
	}
	return []*tensor.Tensor{tensor.New(tensor.Int64, []int{len(at), k}, out)}
}

// nonzeroColumns are the columns of nonzeroRows.
func nonzeroColumns(t *tensor.Tensor) []*tensor.Tensor {
	rows := nonzeroRows(t)[0]
	out := make([]*tensor.Tensor, t.Dim())
	for d := range out {
		out[d] = rows.Select(1, d)
	}
	return out
}

type takeAlongDimArgs struct {
	Self, Indices *tensor.Tensor
	Dim           *int
}

// plan is the call as a gather of broadcast or flattened tensors.
func (a *takeAlongDimArgs) plan() (*gatherArgs, error) {
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
	return &gatherArgs{self, d, index}, err
}

func (a *takeAlongDimArgs) grad(g *tensor.Tensor) (wide, self *tensor.Tensor, err error) {
	p, err := a.plan()
	if err != nil {
		return nil, nil, err
	}
	gr, err := p.grad(g)
	if err != nil {
		return nil, nil, err
	}
	wide = gr["self"][0]
	if a.Dim == nil {
		return wide, wide.Reshape(a.Self.Shape...), nil
	}
	return wide, opdef.SumTo(wide, a.Self.Shape), nil
}

var takeAlongDimOp = opdef.Op[takeAlongDimArgs]{
	Schema: "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
	Names:  "take_along_dim Tensor.take_along_dim",
	Lookup: "self",
	Doc: opdef.Doc{Summary: "Elements at indices along a dimension, tensor and indices broadcast",
		Notes: "Without dim both are flattened.", Source: "torch.take_along_dim"},
	Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 1}},
	Kernel: func(a *takeAlongDimArgs) ([]*tensor.Tensor, error) {
		p, err := a.plan()
		if err != nil {
			return nil, err
		}
		return gathered(p.Self, p.Dim, p.Index)
	},
	Grad: func(a *takeAlongDimArgs, g *opdef.Grad) (opdef.Grads, error) {
		_, self, err := a.grad(g.Out[0])
		return opdef.Grads{"self": {self}}, err
	},
	GradScale: func(a *takeAlongDimArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
		_, self, err := a.grad(opdef.Abs(g.Out[0]))
		return opdef.Grads{"self": {self}}, err
	},
	GradTerms: func(a *takeAlongDimArgs) int { return max(1, a.Indices.Numel()) },
	Node: func(a *takeAlongDimArgs, g *opdef.Grad) (opdef.Node, error) {
		wide, _, err := a.grad(g.Out[0])
		return opdef.Node{Grads: []*tensor.Tensor{wide}}, err
	},
	Cases: func(r *rand.Rand) []*takeAlongDimArgs {
		g := opdef.Gen{R: r}
		one, last := 1, -1
		return []*takeAlongDimArgs{
			{g.Normal(tensor.Float32, 3, 4), g.Int(tensor.Int64, 0, 3, 3, 2), &one}, {g.Normal(tensor.Float64, 3, 1, 4),
				g.Int(tensor.Int64, 0, 3, 1, 2, 2), &last},
			{g.Normal(tensor.Float64, 3, 4), g.Int(tensor.Int64, 0, 11, 2, 2), nil}, {g.Int(tensor.Int64, 0, 9, 4),
				g.Int(tensor.Int64, 0, 3, 4), &last},
		}
	},
}.Entry()

// repeated lists each index i of [0, n) count(i) times.
func repeated(n int, count func(i int) int) []int64 {
	var out []int64
	for i := range n {
		for range count(i) {
			out = append(out, int64(i))
		}
	}
	return out
}

type repeatInterleaveArgs struct {
	Self       *tensor.Tensor
	Repeats    int
	Dim        *int
	OutputSize *int
}

type repeatInterleaveCountsArgs struct {
	Self, Repeats *tensor.Tensor
	Dim           *int
	OutputSize    *int
}

type repeatCountsArgs struct {
	Repeats    *tensor.Tensor
	OutputSize *int
}

// repeatSlices repeats the slices of dimension dim (nil: of the flattened
// tensor); counts says how often, given their number.
func repeatSlices(self *tensor.Tensor, dim *int, counts func(n int) ([]int64, error)) (shape, out []int, r runs,
	err error) {
	shape, d := self.Shape, 0
	if dim == nil || len(shape) == 0 {
		shape = []int{self.Numel()}
	}
	if dim != nil {
		if d, err = opdef.Dim("dim", *dim, len(self.Shape)); err != nil {
			return nil, nil, r, err
		}
	}
	idx, err := counts(shape[d])
	if err != nil {
		return nil, nil, r, err
	}
	out = slices.Clone(shape)
	out[d] = len(idx)
	return shape, out, slicesOf(shape, d, idx), nil
}

func (a *repeatInterleaveArgs) plan() (shape, out []int, r runs, err error) {
	return repeatSlices(a.Self, a.Dim, func(n int) ([]int64, error) {
		if a.Repeats < 0 {
			return nil, opdef.Refuse("repeats", "negative number %d", a.Repeats)
		}
		return repeated(n, func(int) int { return a.Repeats }), nil
	})
}

func (a *repeatInterleaveCountsArgs) plan() (shape, out []int, r runs, err error) {
	return repeatSlices(a.Self, a.Dim, func(n int) ([]int64, error) {
		counts, err := countsOf(a.Repeats)
		if err != nil {
			return nil, err
		}
		switch {
		case len(counts) == n && a.Repeats.Dim() == 1:
			return repeated(n, func(i int) int { return int(counts[i]) }), nil
		case len(counts) == 1:
			return repeated(n, func(int) int { return int(counts[0]) }), nil
		}
		return nil, opdef.Refuse("repeats", "%d numbers for size %d", len(counts), n)
	})
}

func countsOf(t *tensor.Tensor) ([]int64, error) {
	if t.Dim() > 1 {
		return nil, opdef.Refuse("repeats", "want a number or a vector, got %s", t.Meta())
	}
	return tensor.Data[int64](t), checkIndex("repeats", t, 0, math.MaxInt32)
}

// repeatEntry declares repeat_interleave for one type of counts.
func repeatEntry[A any](schema string, self func(*A) *tensor.Tensor, plan func(*A) (shape, out []int, r runs,
	err error), cases func(opdef.Gen) []*A) *opdef.Entry {
	grad := func(a *A, g *tensor.Tensor) (opdef.Grads, error) {
		shape, _, r, err := plan(a)
		if err != nil {
			return nil, err
		}
		return opdef.Grads{"self": {addInto(shape, g, r)}}, nil
	}
	reshaped := func(a *A, gr opdef.Grads, err error) (opdef.Grads, error) {
		if err == nil {
			gr.Set("self", gr["self"][0].Reshape(self(a).Shape...))
		}
		return gr, err
	}
	return opdef.Op[A]{
		Schema: schema, Names: "repeat_interleave Tensor.repeat_interleave",
		Doc: opdef.Doc{Summary: "Each slice of a dimension repeated", Notes: "Without dim the tensor is flattened.",
			Source: "torch.repeat_interleave"},
		Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 1}},
		Kernel: func(a *A) ([]*tensor.Tensor, error) {
			shape, out, r, err := plan(a)
			if err != nil {
				return nil, err
			}
			return []*tensor.Tensor{pick(self(a).Reshape(shape...), out, r)}, nil
		},
		Grad: func(a *A, g *opdef.Grad) (opdef.Grads, error) {
			gr, err := grad(a, g.Out[0])
			return reshaped(a, gr, err)
		},
		GradScale: func(a *A, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			gr, err := grad(a, opdef.Abs(g.Out[0]))
			return reshaped(a, gr, err)
		},
		GradTerms: func(a *A) int {
			_, _, r, err := plan(a)
			if err != nil {
				return 1
			}
			return max(1, r.count)
		},
		// The node is that of index_select on the flattened tensor.
		Node: func(a *A, g *opdef.Grad) (opdef.Node, error) {
			gr, err := grad(a, g.Out[0])
			return opdef.Node{Grads: gr["self"]}, err
		},
		Cases: func(r *rand.Rand) []*A { return cases(opdef.Gen{R: r}) },
	}.Entry()
}

var repeatInterleaveOp = repeatEntry("repeat_interleave.self_int(Tensor self, int repeats, int? dim=None, *, int? "+
	"output_size=None) -> Tensor",
	func(a *repeatInterleaveArgs) *tensor.Tensor { return a.Self }, (*repeatInterleaveArgs).plan,
	func(g opdef.Gen) []*repeatInterleaveArgs {
		one := 1
		return []*repeatInterleaveArgs{
			{g.Normal(tensor.Float32, 2, 3), 2, &one, nil}, {g.Normal(tensor.Float64, 2, 3), 3, nil, nil},
			{g.Normal(tensor.Float32), 2, nil, nil}, {g.Normal(tensor.Float32, 2), 0, nil, nil},
			{opdef.NonContiguous(g.Normal(tensor.Float32, 2, 3)), 2, nil, nil}, {g.Int(tensor.Int64, 0, 9, 3),
				1, nil, nil},
		}
	})

var repeatInterleaveCountsOp = repeatEntry("repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? "+
	"dim=None, *, int? output_size=None) -> Tensor",
	func(a *repeatInterleaveCountsArgs) *tensor.Tensor { return a.Self }, (*repeatInterleaveCountsArgs).plan,
	func(g opdef.Gen) []*repeatInterleaveCountsArgs {
		zero := 0
		return []*repeatInterleaveCountsArgs{
			{g.Normal(tensor.Float32, 3, 2), g.Int(tensor.Int64, 0, 3, 3), &zero, nil}, {g.Normal(tensor.Float64, 2, 2),
				g.Int(tensor.Int64, 1, 2, 4), nil, nil},
			{g.Normal(tensor.Float64, 2, 2), g.Int(tensor.Int64, 2, 2, 1), &zero, nil},
		}
	})

var repeatCountsOp = opdef.Op[repeatCountsArgs]{
	Schema: "repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor",
	Names:  "repeat_interleave",
	Doc: opdef.Doc{Summary: "Each position repeated as often as its element says",
		Source: "torch.repeat_interleave"},
	Error: opdef.Error{Class: opdef.Exact}, NoGrad: "integers have no gradient",
	Trivial: true,
	Kernel: func(a *repeatCountsArgs) ([]*tensor.Tensor, error) {
		if a.Repeats.Dim() != 1 {
			return nil, opdef.Refuse("repeats", "want a vector, got %s", a.Repeats.Meta())
		}
		counts, err := countsOf(a.Repeats)
		if err != nil {
			return nil, err
		}
		idx := repeated(len(counts), func(i int) int { return int(counts[i]) })
		return []*tensor.Tensor{tensor.New(a.Repeats.DType, []int{len(idx)}, idx)}, nil
	},
	Cases: func(r *rand.Rand) []*repeatCountsArgs {
		return []*repeatCountsArgs{{opdef.Gen{R: r}.Int(tensor.Int64, 0, 3, 4), nil}}
	},
}.Entry()
