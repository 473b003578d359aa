package ops

import (
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// scatterOps write elements at positions that other tensors give.
var scatterOps = []*opdef.Entry{
	writingOp[scatterArgs]{
		Schema: "scatter.src(Tensor self, int dim, Tensor index, Tensor src, *, str? reduce=None) -> Tensor",
		Names:  "scatter Tensor.scatter", Src: "src",
		Doc: opdef.Doc{Summary: "Writes values at indices along a dimension",
			Formula: "out[i, index[i, j, k], k] = src[i, j, k] for dim=1",
			Notes:   "Where an index occurs twice the last value stays. reduce is add or multiply.",
			Source:  "torch.scatter"},
		Plan: func(a *scatterArgs) (*writing, error) {
			how, err := scatterHow(a.Reduce)
			if err != nil {
				return nil, err
			}
			return scattering(a.Self, a.Dim, a.Index, a.Src, how, true)
		},
		Cases: func(g opdef.Gen) []*scatterArgs {
			add := "add"
			return []*scatterArgs{
				{g.Normal(tensor.Float32, 4, 3), 0, rowsApart(2, 3), g.Normal(tensor.Float32, 2, 3), nil},
				{g.Normal(tensor.Float64, 3, 5), -1, rowsApart(3, 2).Transpose(0, 1), g.Normal(tensor.Float64, 3, 4),
					nil},
				{g.Normal(tensor.Float64, 4, 3), 0, g.Int(tensor.Int64, 0, 3, 2, 3), g.Normal(tensor.Float64, 2, 3),
					&add}, {g.Normal(tensor.Float32), 0, g.Int(tensor.Int64, 0, 0), g.Normal(tensor.Float32), nil},
				{g.Normal(tensor.BFloat16, 3), 0, g.Int(tensor.Int64, 0, 0, 0), g.Normal(tensor.BFloat16, 0), nil},
				{opdef.NonContiguous(g.Normal(tensor.Float32, 4, 3)), 0, rowsApart(2, 3),
					g.Normal(tensor.Float32, 2, 3), nil},
				{g.Int(tensor.Int64, 0, 9, 4, 3), 0, rowsApart(2, 3), g.Int(tensor.Int64, 0, 9, 2, 3), nil},
			}
		},
	}.Entry(),
	writingOp[scatterValueArgs]{
		Schema: "scatter.value(Tensor self, int dim, Tensor index, Scalar value, *, str? reduce=None) -> Tensor",
		Names:  "scatter Tensor.scatter",
		Doc: opdef.Doc{Summary: "Writes a number at indices along a dimension", Notes: "reduce is add or multiply.",
			Source: "torch.scatter"},
		Plan: func(a *scatterValueArgs) (*writing, error) {
			how, err := scatterHow(a.Reduce)
			if err != nil {
				return nil, err
			}
			return scattering(a.Self, a.Dim, a.Index, filledWith(a.Self.DType, a.Index.Shape, a.Value), how, true)
		},
		Cases: func(g opdef.Gen) []*scatterValueArgs {
			multiply := "multiply"
			return []*scatterValueArgs{
				{g.Normal(tensor.Float32, 4, 3), 0, g.Int(tensor.Int64, 0, 3, 2, 3), opdef.Float(1.5), nil},
				{g.Normal(tensor.Float64, 3, 5), -1, g.Int(tensor.Int64, 0, 4, 3, 4), opdef.Int(2), nil},
				{g.Normal(tensor.Float32, 4), 0, rowsApart(2), opdef.Float(0.5), &multiply},
				{g.Int(tensor.Int64, 0, 9, 4), 0, g.Int(tensor.Int64, 0, 3, 2), opdef.Int(7), nil},
			}
		},
	}.Entry(),
	writingOp[scatterAddArgs]{
		Schema: "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
		Names:  "scatter_add Tensor.scatter_add", Src: "src", Autocast: opdef.AutocastWidest,
		Doc: opdef.Doc{Summary: "Adds values at indices along a dimension",
			Formula: "out[i, index[i, j, k], k] += src[i, j, k] for dim=1", Source: "torch.scatter_add"},
		Plan: func(a *scatterAddArgs) (*writing, error) {
			return scattering(a.Self, a.Dim, a.Index, a.Src, addTo, true)
		},
		Cases: func(g opdef.Gen) []*scatterAddArgs {
			return []*scatterAddArgs{
				{g.Normal(tensor.Float32, 4, 3), 0, g.Int(tensor.Int64, 0, 3, 2, 3), g.Normal(tensor.Float32, 2, 3)},
				{g.Normal(tensor.Float64, 3, 5), -1, g.Int(tensor.Int64, 0, 4, 3, 6), g.Normal(tensor.Float64, 4, 7)},
				{g.Normal(tensor.Float32), 0, g.Int(tensor.Int64, 0, 0), g.Normal(tensor.Float32)},
				{g.Normal(tensor.BFloat16, 3), 0, g.Int(tensor.Int64, 0, 2, 5), g.Normal(tensor.BFloat16, 5)},
				{opdef.NonContiguous(g.Normal(tensor.Float32, 4, 3)), 1, g.Int(tensor.Int64, 0, 2, 4, 2),
					g.Normal(tensor.Float32, 4, 2)}, {g.Normal(tensor.Complex64, 3), 0, g.Int(tensor.Int64, 0, 2, 5),
					g.Normal(tensor.Complex64, 5)},
				{g.Int(tensor.Int64, 0, 9, 4), 0, g.Int(tensor.Int64, 0, 3, 6), g.Int(tensor.Int64, 0, 9, 6)},
			}
		},
	}.Entry(),
	writingOp[scatterReduceArgs]{
		Schema: "scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool " +
			"include_self=True) -> Tensor",
		Names: "scatter_reduce Tensor.scatter_reduce", Src: "src",
		Doc: opdef.Doc{Summary: "Reduces values at indices along a dimension",
			Notes: "reduce is sum, prod, mean, amax or amin; gradients of amax and amin are shared evenly among " +
				"equal values.",
			Source: "torch.scatter_reduce"},
		Plan: func(a *scatterReduceArgs) (*writing, error) {
			how, err := reduceHow(a.Reduce, "sum", "prod", "mean", "amax", "amin")
			if err != nil {
				return nil, err
			}
			return scattering(a.Self, a.Dim, a.Index, a.Src, how, a.IncludeSelf)
		},
		Cases: func(g opdef.Gen) []*scatterReduceArgs {
			var cs []*scatterReduceArgs
			for _, how := range []string{"sum", "prod", "mean", "amax", "amin"} {
				cs = append(cs,
					&scatterReduceArgs{g.Distinct(tensor.Float64, 4, 3), 0, g.Int(tensor.Int64, 0, 3, 6, 3),
						between(g, 6, 3), how, true},
					&scatterReduceArgs{g.Distinct(tensor.Float64, 4, 3), 0, g.Int(tensor.Int64, 0, 3, 6, 3),
						between(g, 6, 3), how, false},
					&scatterReduceArgs{g.Distinct(tensor.Float32, 4), 0, rowsApart(2), g.Normal(tensor.Float32, 2),
						how, true},
					&scatterReduceArgs{g.Int(tensor.Int64, -9, 9, 4), 0, g.Int(tensor.Int64, 0, 3, 6),
						g.Int(tensor.Int64, -9, 9, 6), how, true})
			}
			return cs
		},
	}.Entry(),
	writingOp[indexAddArgs]{
		Schema: "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
		Names:  "index_add Tensor.index_add", Src: "source",
		Doc: opdef.Doc{Summary: "Adds slices to the slices at the given indices",
			Formula: "out[index[i]] += alpha*source[i] for dim=0", Source: "torch.Tensor.index_add_"},
		Plan: func(a *indexAddArgs) (*writing, error) {
			w, err := slicing(a.Self, a.Dim, a.Index, a.Source, addTo, true)
			if err != nil {
				return nil, err
			}
			k := a.Self.DType.Kind()
			if a.Alpha.Kind() > max(k, tensor.KindInt) {
				return nil, opdef.Refuse("alpha", "%s cannot scale dtype %s", a.Alpha, a.Self.DType)
			}
			w.alpha = a.Alpha
			return w, nil
		},
		Cases: func(g opdef.Gen) []*indexAddArgs {
			one := opdef.Int(1)
			return []*indexAddArgs{
				{g.Normal(tensor.Float32, 4, 3), 0, g.Int(tensor.Int64, 0, 3, 5), g.Normal(tensor.Float32, 5, 3), one},
				{g.Normal(tensor.Float64, 2, 3, 2), 1, g.Int(tensor.Int32, 0, 2, 2), g.Normal(tensor.Float64, 2, 2, 2),
					opdef.Float(-1.5)},
				{g.Normal(tensor.Float32), 0, g.Int(tensor.Int64, 0, 0, 1), g.Normal(tensor.Float32), one},
				{opdef.NonContiguous(g.Normal(tensor.BFloat16, 4, 3)), -1, g.Int(tensor.Int64, 0, 2, 2),
					g.Normal(tensor.BFloat16, 4, 2), one},
				{g.Int(tensor.Int64, 0, 9, 4), 0, g.Int(tensor.Int64, 0, 3, 2), g.Int(tensor.Int64, 0, 9, 2),
					opdef.Int(-2)},
			}
		},
	}.Entry(),
	writingOp[indexCopyArgs]{
		Schema: "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
		Names:  "index_copy Tensor.index_copy", Src: "source",
		Doc: opdef.Doc{Summary: "Writes slices at the given indices", Formula: "out[index[i]] = source[i] for dim=0",
			Notes: "Where an index occurs twice the last slice stays.", Source: "torch.Tensor.index_copy_"},
		Plan: func(a *indexCopyArgs) (*writing, error) {
			return slicing(a.Self, a.Dim, a.Index, a.Source, assign, true)
		},
		Cases: func(g opdef.Gen) []*indexCopyArgs {
			return []*indexCopyArgs{
				{g.Normal(tensor.Float32, 4, 3), 0, rowsApart(2), g.Normal(tensor.Float32, 2, 3)},
				{g.Normal(tensor.Float64, 2, 3, 2), 1, rowsApart(2), g.Normal(tensor.Float64, 2, 2, 2)},
				{g.Normal(tensor.Float32), 0, g.Int(tensor.Int64, 0, 0, 1), g.Normal(tensor.Float32)},
				{g.Int(tensor.Int64, 0, 9, 4), 0, rowsApart(2), g.Int(tensor.Int64, 0, 9, 2)},
			}
		},
	}.Entry(),
	writingOp[indexFillArgs]{
		Schema: "index_fill(Tensor self, int dim, Tensor index, Tensor|Scalar value) -> Tensor",
		Names:  "index_fill Tensor.index_fill", Src: "value",
		Doc: opdef.Doc{Summary: "Writes a number into the slices at the given indices",
			Source: "torch.Tensor.index_fill_"},
		Plan: func(a *indexFillArgs) (*writing, error) {
			if a.Value.Dim() > 0 {
				return nil, opdef.Refuse("value", "want a number, got %s", a.Value.Meta())
			}
			if a.Self.DType.Kind() < tensor.KindComplex && a.Value.DType.IsComplex() {
				return nil, opdef.Refuse("value", "a complex number does not fit %s", a.Self.DType)
			}
			shape, r, err := filledAt(a.Self.Shape, a.Dim, a.Index)
			if err != nil {
				return nil, err
			}
			v, err := opdef.Cast(a.Value, a.Self.DType).Expand(shape...)
			if err != nil {
				return nil, err
			}
			return &writing{self: a.Self, src: v, shape: shape, runs: r, how: assign, keep: true, alpha: opdef.Int(1),
				given: a.Value}, nil
		},
		Cases: func(g opdef.Gen) []*indexFillArgs {
			return []*indexFillArgs{
				{g.Normal(tensor.Float32, 4, 3), 0, rowsApart(2), tensor.Wrap(1.5)}, {g.Normal(tensor.Float64, 2, 3),
					-1, rowsApart(2), g.Normal(tensor.Float64)}, {g.Normal(tensor.Float64, 2, 3), 1,
					tensor.New(tensor.Int64, []int{3}, []int64{2, -1, 0}), g.Normal(tensor.Float64)},
				{g.Normal(tensor.Float32), 0, g.Int(tensor.Int64, 0, 0, 1), tensor.Wrap(int64(2))},
				{g.Int(tensor.Int64, 0, 9, 4), 0, rowsApart(2), tensor.Wrap(int64(7))},
			}
		},
	}.Entry(),
	writingOp[indexReduceArgs]{
		Schema: "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool " +
			"include_self=True) -> Tensor",
		Names: "index_reduce Tensor.index_reduce", Src: "source",
		Doc: opdef.Doc{Summary: "Reduces slices into the slices at the given indices",
			Notes: "reduce is prod, mean, amax or amin; gradients of amax and amin are shared evenly among equal " +
				"values.",
			Source: "torch.Tensor.index_reduce_"},
		Plan: func(a *indexReduceArgs) (*writing, error) {
			how, err := reduceHow(a.Reduce, "prod", "mean", "amax", "amin")
			if err != nil {
				return nil, err
			}
			return slicing(a.Self, a.Dim, a.Index, a.Source, how, a.IncludeSelf)
		},
		Cases: func(g opdef.Gen) []*indexReduceArgs {
			var cs []*indexReduceArgs
			for _, how := range []string{"prod", "mean", "amax", "amin"} {
				cs = append(cs,
					&indexReduceArgs{g.Distinct(tensor.Float64, 4, 2), 0, g.Int(tensor.Int64, 0, 3, 5),
						between(g, 5, 2), how, true},
					&indexReduceArgs{g.Distinct(tensor.Float64, 4, 2), 0, g.Int(tensor.Int64, 0, 3, 5),
						between(g, 5, 2), how, false},
					&indexReduceArgs{g.Int(tensor.Int64, -9, 9, 4), 0, g.Int(tensor.Int64, 0, 3, 6),
						g.Int(tensor.Int64, -9, 9, 6), how, true})
			}
			return cs
		},
	}.Entry(),
	writingOp[putArgs]{
		Schema: "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
		Names:  "put Tensor.put", Src: "source",
		Doc: opdef.Doc{Summary: "Writes or adds values at indices of the flattened tensor",
			Notes: "Without accumulate the last of several values for one element stays.", Source: "torch.Tensor.put_"},
		Plan: func(a *putArgs) (*writing, error) {
			if a.Source.DType != a.Self.DType {
				return nil, opdef.Refuse("source", "want dtype %s, got %s", a.Self.DType, a.Source.DType)
			}
			if a.Source.Numel() != a.Index.Numel() {
				return nil, opdef.Refuse("source", "%d values for %d indices", a.Source.Numel(), a.Index.Numel())
			}
			r, err := flatAt(a.Self, a.Index)
			how := assign
			if a.Accumulate {
				how = addTo
			}
			return &writing{self: a.Self, src: a.Source, shape: a.Source.Shape, runs: r, how: how, keep: true,
				alpha: opdef.Int(1), given: a.Source}, err
		},
		Cases: func(g opdef.Gen) []*putArgs {
			return []*putArgs{
				{g.Normal(tensor.Float32, 4, 3), tensor.New(tensor.Int64, []int{3}, []int64{-1, 4, 0}),
					g.Normal(tensor.Float32, 3), false}, {g.Normal(tensor.Float64, 3), g.Int(tensor.Int64, -3, 2, 2, 4),
					g.Normal(tensor.Float64, 2, 4), true},
				{g.Int(tensor.Int64, 0, 9, 4), tensor.New(tensor.Int64, []int{1}, []int64{2}),
					g.Int(tensor.Int64, 0, 9, 1), false},
			}
		},
	}.Entry(),
	writingOp[maskedScatterArgs]{
		Schema: "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
		Names:  "masked_scatter Tensor.masked_scatter", Src: "source",
		Doc: opdef.Doc{Summary: "Writes the elements of another tensor, in order, where a mask is true",
			Notes: "Tensor and mask are broadcast.", Source: "torch.Tensor.masked_scatter_"},
		Plan: maskedScattering,
		Cases: func(g opdef.Gen) []*maskedScatterArgs {
			return []*maskedScatterArgs{
				{g.Normal(tensor.Float32, 3, 4), g.Int(tensor.Bool, 0, 1, 3, 4), g.Normal(tensor.Float32, 13)},
				{g.Normal(tensor.Float64, 3, 4), g.Int(tensor.Bool, 0, 1, 4), g.Normal(tensor.Float64, 2, 6)},
				{g.Normal(tensor.Float64, 4), g.Int(tensor.Bool, 0, 1, 2, 4), g.Normal(tensor.Float64, 8)},
				{g.Int(tensor.Int64, 0, 9, 4), g.Int(tensor.Bool, 0, 1, 4), g.Int(tensor.Int64, 0, 9, 4)},
			}
		},
	}.Entry(),
	viewScatter("select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor",
		"Writes one index of a dimension",
		func(a *selectScatterArgs) (*tensor.Tensor, *tensor.Tensor) { return a.Self, a.Src },
		func(a *selectScatterArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			return selectIndex(t, a.Dim, a.Index)
		},
		func(g opdef.Gen) []*selectScatterArgs {
			return []*selectScatterArgs{{g.Normal(tensor.Float32, 3, 4), g.Normal(tensor.Float32, 3), 1, -1},
				{g.Normal(tensor.Float64, 3), g.Normal(tensor.Float64), 0, 1}, {g.Int(tensor.Int64, 0, 9, 3),
					g.Int(tensor.Int64, 0, 9), 0, 0}}
		}),
	viewScatter("slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> "+
		"Tensor", "Writes a slice of a dimension",
		func(a *sliceScatterArgs) (*tensor.Tensor, *tensor.Tensor) { return a.Self, a.Src },
		func(a *sliceScatterArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			return sliceOf(t, a.Dim, a.Start, a.End, a.Step)
		},
		func(g opdef.Gen) []*sliceScatterArgs {
			one, last := 1, -1
			return []*sliceScatterArgs{
				{g.Normal(tensor.Float32, 5, 2), g.Normal(tensor.Float32, 2, 2), 0, &one, &last, 2},
				{g.Normal(tensor.Float64, 2, 3), g.Normal(tensor.Float64, 2, 3), 1, nil, nil, 1},
				{g.Int(tensor.Int64, 0, 9, 3), g.Int(tensor.Int64, 0, 9, 2), 0, &one, nil, 1},
			}
		}),
	byStrides(viewScatter("as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? "+
		"storage_offset=None) -> Tensor", "Writes elements of the storage seen with other sizes and strides",
		func(a *stridedScatterArgs) (*tensor.Tensor, *tensor.Tensor) { return a.Self, a.Src },
		func(a *stridedScatterArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			if !a.Self.IsContiguous() {
				return nil, opdef.Refuse("self", "want a contiguous tensor, got strides %v", a.Self.Stride)
			}
			v, err := t.Strided(slices.Clone(a.Size), slices.Clone(a.Stride),
				orElse(a.StorageOffset, a.Self.Offset)-a.Self.Offset)
			if err != nil {
				return nil, opdef.Refuse("size", "%v", err)
			}
			return v, nil
		},
		func(g opdef.Gen) []*stridedScatterArgs {
			one := 1
			return []*stridedScatterArgs{{g.Normal(tensor.Float64, 3, 4), g.Normal(tensor.Float64, 2, 2), []int{2, 2},
				[]int{4, 2}, &one}, {g.Normal(tensor.Float32, 5), g.Normal(tensor.Float32, 3), []int{3}, []int{2}, nil}}
		})),
	viewScatter("diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
		"Writes a diagonal of two dimensions",
		func(a *diagonalScatterArgs) (*tensor.Tensor, *tensor.Tensor) { return a.Self, a.Src },
		func(a *diagonalScatterArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			return diagonal(t, a.Offset, a.Dim1, a.Dim2)
		},
		func(g opdef.Gen) []*diagonalScatterArgs {
			return []*diagonalScatterArgs{{g.Normal(tensor.Float32, 3, 4), g.Normal(tensor.Float32, 3), 0, 0, 1},
				{g.Normal(tensor.Float64, 2, 3, 3), g.Normal(tensor.Float64, 2, 2), -1, 1, 2},
				{g.Int(tensor.Int64, 0, 9, 2, 2), g.Int(tensor.Int64, 0, 9, 2), 0, 0, 1}}
		}),
}

type (
	scatterArgs struct {
		Self   *tensor.Tensor
		Dim    int
		Index  *tensor.Tensor
		Src    *tensor.Tensor
		Reduce *string
	}
	scatterValueArgs struct {
		Self   *tensor.Tensor
		Dim    int
		Index  *tensor.Tensor
		Value  opdef.Scalar
		Reduce *string
	}
	scatterAddArgs struct {
		Self       *tensor.Tensor
		Dim        int
		Index, Src *tensor.Tensor
	}
	scatterReduceArgs struct {
		Self        *tensor.Tensor
		Dim         int
		Index, Src  *tensor.Tensor
		Reduce      string
		IncludeSelf bool
	}
	indexAddArgs struct {
		Self          *tensor.Tensor
		Dim           int
		Index, Source *tensor.Tensor
		Alpha         opdef.Scalar
	}
	indexCopyArgs struct {
		Self          *tensor.Tensor
		Dim           int
		Index, Source *tensor.Tensor
	}
	indexFillArgs struct {
		Self         *tensor.Tensor
		Dim          int
		Index, Value *tensor.Tensor
	}
	indexReduceArgs struct {
		Self          *tensor.Tensor
		Dim           int
		Index, Source *tensor.Tensor
		Reduce        string
		IncludeSelf   bool
	}
	putArgs struct {
		Self, Index, Source *tensor.Tensor
		Accumulate          bool
	}
	maskedScatterArgs struct{ Self, Mask, Source *tensor.Tensor }
	selectScatterArgs struct {
		Self, Src  *tensor.Tensor
		Dim, Index int
	}
	sliceScatterArgs struct {
		Self, Src  *tensor.Tensor
		Dim        int
		Start, End *int
		Step       int
	}
	stridedScatterArgs struct {
		Self, Src     *tensor.Tensor
		Size, Stride  []int
		StorageOffset *int
	}
	diagonalScatterArgs struct {
		Self, Src          *tensor.Tensor
		Offset, Dim1, Dim2 int
	}
)

// rowsApart is an index of shape whose entries along the first dimension
// differ: 1, 2, ...
func rowsApart(shape ...int) *tensor.Tensor {
	v := make([]int64, tensor.Numel(shape))
	for i := range v {
		v[i] = int64(1 + i/tensor.Numel(shape[1:]))
	}
	return tensor.New(tensor.Int64, shape, v)
}

// between are distinct values that differ from those of Gen.Distinct too.
func between(g opdef.Gen, shape ...int) *tensor.Tensor {
	t := opdef.Map(tensor.Float64, g.Distinct(tensor.Float64, shape...),
		func(x float64) float64 { return x + 0.05 }).Rounded()
	t.RequiresGrad = true
	return t
}

// A writing is what a scatter does: src, of shape, goes to the runs of self.
type writing struct {
	self, src *tensor.Tensor
	shape     []int // of what is written, in the order of the runs
	runs      runs
	how       combine
	keep      bool
	alpha     opdef.Scalar   // scales src; unused unless added
	given     *tensor.Tensor // the argument src is part of, nil if a number
	flat      bool           // src are the first elements of given
	narrow    *tensor.Tensor // the argument that self is the broadcast of, nil if self itself
}

// multipleOf is k*t.
func multipleOf(t *tensor.Tensor, k opdef.Scalar) *tensor.Tensor {
	switch {
	case k == opdef.Int(1):
		return t
	case t.DType.IsComplex():
		c := k.Complex128()
		return opdef.Map(t.DType, t, func(x complex128) complex128 { return c * x })
	case t.DType.IsFloat():
		f := k.Float64()
		return opdef.Map(t.DType, t, func(x float64) float64 { return f * x })
	}
	i := k.Int64()
	return opdef.Map(t.DType, t, func(x int64) int64 { return i * x })
}

func (w *writing) result(self, src *tensor.Tensor) *tensor.Tensor {
	return put(self, src, w.runs, w.how, w.keep)
}

// grad gives the gradients of self and of the given source.
// Source: torch/csrc/autograd/FunctionsManual.cpp, scatter_reduce_backward
func (w *writing) grad(g, out *tensor.Tensor) (self, src *tensor.Tensor, err error) {
	at := func(t *tensor.Tensor) *tensor.Tensor { return pick(t, w.shape, w.runs) }
	add := func(base, t *tensor.Tensor) *tensor.Tensor { return put(base, t, w.runs, addTo, true) }
	if g.DType.IsComplex() && w.how > addTo {
		return nil, nil, opdef.Refuse("self", "no gradient for complex numbers")
	}
	self, src = g, at(g)
	switch w.how {
	case addTo:
		src = scale(src, 1, w.alpha)
	case mean:
		base := 0.0
		if w.keep {
			base = 1
		}
		n := add(tensor.Full(tensor.Float64, g.Shape, base), tensor.Full(tensor.Float64, w.shape, 1.0))
		share := func(x, n float64) float64 { return x / max(n, 1) }
		self, src = opdef.Zip(g.DType, g, n, share), opdef.Zip(g.DType, src, at(n), share)
	case minimum, maximum:
		same := func(x, y float64) float64 {
			if x == y {
				return 1
			}
			return 0
		}
		own, theirs := opdef.Zip(tensor.Float64, w.self, out, same), opdef.Zip(tensor.Float64, w.src, at(out), same)
		each := opdef.Zip(g.DType, g, add(own, theirs), func(x, n float64) float64 { return x / n })
		times := func(x, y float64) float64 { return x * y }
		self, src = opdef.Zip(g.DType, own, each, times), opdef.Zip(g.DType, theirs, at(each), times)
	case multiply:
		self, src = w.gradProduct(g, at, add)
	}
	if w.how == assign || !w.keep {
		self = put(self, zeros(g.DType, w.shape), w.runs, assign, true)
	}
	return self, src, nil
}

// gradProduct is grad of products: the product of all other factors, taken
// from the product of those that are not zero and the number of zeros.
func (w *writing) gradProduct(g *tensor.Tensor, at func(*tensor.Tensor) *tensor.Tensor,
	add func(base, t *tensor.Tensor) *tensor.Tensor) (self, src *tensor.Tensor) {
	isZero := func(x float64) float64 {
		if x == 0 {
			return 1
		}
		return 0
	}
	orOne := func(x float64) float64 {
		if x == 0 {
			return 1
		}
		return x
	}
	f64 := tensor.Float64
	product := put(opdef.Map(f64, w.self, orOne), opdef.Map(f64, w.src, orOne), w.runs, multiply, w.keep)
	base := opdef.Map(f64, w.self, isZero)
	if !w.keep {
		base = zeros(f64, w.self.Shape)
	}
	nulls := add(base, opdef.Map(f64, w.src, isZero))
	others := func(x, g, product, nulls *tensor.Tensor) *tensor.Tensor {
		return opdef.ZipN(g.DType, g.Shape, func(dst []float64, s [][]float64) {
			for i, x := range s[0] {
				switch zeros := s[3][i]; {
				case zeros == 0 && x == 0: // not written to
					dst[i] = s[1][i]
				case zeros == 0:
					dst[i] = s[1][i] * s[2][i] / x
				case zeros == 1 && x == 0:
					dst[i] = s[1][i] * s[2][i]
				default:
					dst[i] = 0
				}
			}
		}, x, g, product, nulls)
	}
	return others(w.self, g, product, nulls), others(w.src, at(g), at(product), at(nulls))
}

// A writingOp declares an op that writes into its argument self.
type writingOp[A any] struct {
	Schema   string
	Names    string
	Src      string // name of the argument that is written; "" for a number
	Doc      opdef.Doc
	Plan     func(a *A) (*writing, error)
	Only     bool // no in-place form
	Autocast opdef.Autocast
	Cases    func(g opdef.Gen) []*A
}

func (o writingOp[A]) Entry() *opdef.Entry {
	grads := func(a *A, g, out *tensor.Tensor) (opdef.Grads, error) {
		w, err := o.Plan(a)
		if err != nil {
			return nil, err
		}
		self, src, err := w.grad(g, out)
		if err != nil {
			return nil, err
		}
		gr := opdef.Grads{"self": {opdef.SumTo(self, w.argument().Shape)}}
		if o.Src != "" && (w.given == nil || w.given.Wrapped) {
			gr[o.Src] = []*tensor.Tensor{nil}
		} else if o.Src != "" {
			if src, err = w.gradOfGiven(src); err != nil {
				return nil, err
			}
			gr.Set(o.Src, src)
		}
		return gr, nil
	}
	return opdef.Op[A]{
		Schema: o.Schema, Names: o.Names, InPlace: !o.Only, Doc: o.Doc, Autocast: o.Autocast,
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 1},
		ErrorOf: func(a *A) opdef.Error {
			w, err := o.Plan(a)
			if err == nil && (w.how == assign || w.how == minimum || w.how == maximum) {
				return opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 2}}
			}
			return opdef.Error{Class: opdef.Accumulated, ULPs: 1, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 4}}
		},
		Kernel: func(a *A) ([]*tensor.Tensor, error) {
			w, err := o.Plan(a)
			if err != nil {
				return nil, err
			}
			src := w.src
			if w.how == addTo {
				src = multipleOf(src, w.alpha)
			}
			return []*tensor.Tensor{w.result(w.self, src)}, nil
		},
		Scale: func(a *A, outs []*tensor.Tensor) []*tensor.Tensor {
			w, err := o.Plan(a)
			if err != nil {
				return []*tensor.Tensor{opdef.Abs(outs[0])}
			}
			return []*tensor.Tensor{w.result(opdef.Abs(w.self), opdef.Abs(multipleOf(w.src, w.alpha)))}
		},
		Terms: func(a *A) int {
			w, err := o.Plan(a)
			if err != nil {
				return 1
			}
			return max(1, w.runs.count)
		},
		Grad: func(a *A, g *opdef.Grad) (opdef.Grads, error) { return grads(a, g.Out[0], g.Outs[0]) },
		GradScale: func(a *A, g *opdef.Grad, gr opdef.Grads) (opdef.Grads, error) {
			s, err := grads(a, opdef.Abs(g.Out[0]), g.Outs[0])
			for _, ts := range s {
				if ts[0] != nil {
					ts[0] = opdef.Abs(ts[0])
				}
			}
			return s, err
		},
		Cases: func(r *rand.Rand) []*A { return o.Cases(opdef.Gen{R: r}) },
	}.Entry()
}

// argument is the tensor self is the broadcast of.
func (w *writing) argument() *tensor.Tensor {
	if w.narrow != nil {
		return w.narrow
	}
	return w.self
}

// gradOfGiven is the gradient of the argument that the written elements are
// part of.
func (w *writing) gradOfGiven(src *tensor.Tensor) (*tensor.Tensor, error) {
	switch {
	case slices.Equal(w.given.Shape, w.shape):
		return src, nil
	case w.given.Dim() == 0:
		return opdef.SumTo(src, nil), nil
	case w.flat:
		n := w.given.Numel()
		return addInto([]int{n}, src, runs{n: 1, count: src.Numel(), at: func(lo int, dst []int64) {
			for i := range dst {
				dst[i] = int64(lo + i)
			}
		}}).Reshape(w.given.Shape...), nil
	}
	return viewBack(w.given.Shape, src, func(t *tensor.Tensor) (*tensor.Tensor, error) {
		return corner(t, w.shape), nil
	})
}

// corner is the part of t at the start of every dimension.
func corner(t *tensor.Tensor, shape []int) *tensor.Tensor {
	for d, n := range shape {
		if n != t.Shape[d] {
			t = t.Slice(d, 0, n, 1)
		}
	}
	return t
}

func scatterHow(reduce *string) (combine, error) {
	switch {
	case reduce == nil:
		return assign, nil
	case *reduce == "add":
		return addTo, nil
	case *reduce == "multiply":
		return multiply, nil
	}
	return 0, opdef.Refuse("reduce", "want \"add\" or \"multiply\", got %q", *reduce)
}

func reduceHow(reduce string, allowed ...string) (combine, error) {
	if slices.Contains(allowed, reduce) {
		switch reduce {
		case "sum":
			return addTo, nil
		case "prod":
			return multiply, nil
		case "mean":
			return mean, nil
		case "amax":
			return maximum, nil
		case "amin":
			return minimum, nil
		}
	}
	return 0, opdef.Refuse("reduce", "%q is none of %v", reduce, allowed)
}

// scattering plans a write at indices along a dimension, as gather reads.
func scattering(self *tensor.Tensor, dim int, index, src *tensor.Tensor, how combine, keep bool) (*writing, error) {
	r, err := along(self.Shape, dim, index)
	if err != nil {
		return nil, err
	}
	if src.DType != self.DType {
		return nil, opdef.Refuse("src", "want dtype %s, got %s", self.DType, src.DType)
	}
	if self.DType.IsComplex() && how >= minimum {
		return nil, opdef.Refuse("self", "complex numbers have no order")
	}
	w := &writing{self: self, src: src, shape: index.Shape, runs: r, how: how, keep: keep, alpha: opdef.Int(1),
		given: src}
	if index.Numel() == 0 {
		w.src, w.flat = zeros(src.DType, index.Shape), true
		return w, nil
	}
	if max(src.Dim(), 1) != max(index.Dim(), 1) {
		return nil, opdef.Refuse("src", "%d dimensions for an index of %d", src.Dim(), index.Dim())
	}
	if src.Dim() == 0 || index.Dim() == 0 {
		if src.Numel() < index.Numel() {
			return nil, opdef.Refuse("src", "%d values for %d indices", src.Numel(), index.Numel())
		}
		w.flat = true
		w.src = src.Reshape(src.Numel()).Slice(0, 0, 1, 1).Reshape(index.Shape...)
		return w, nil
	}
	for d, n := range index.Shape {
		if n > src.Shape[d] {
			return nil, opdef.Refuse("src", "size %d in dimension %d, the index has %d", src.Shape[d], d, n)
		}
	}
	w.src = corner(src, index.Shape)
	return w, nil
}

// slicing plans a write of the slices of src at indices of a dimension.
func slicing(self *tensor.Tensor, dim int, index, src *tensor.Tensor, how combine, keep bool) (*writing, error) {
	shape, r, err := slicesAt(self.Shape, dim, index)
	if err != nil {
		return nil, err
	}
	if src.DType != self.DType {
		return nil, opdef.Refuse("source", "want dtype %s, got %s", self.DType, src.DType)
	}
	if self.DType.IsComplex() && how >= minimum {
		return nil, opdef.Refuse("self", "complex numbers have no order")
	}
	if !slices.Equal(src.Shape, shape) && !(src.Numel() == 1 && tensor.Numel(shape) == 1) {
		return nil, opdef.Refuse("source", "want shape %s, got %s", tensor.ShapeString(shape),
			tensor.ShapeString(src.Shape))
	}
	return &writing{self: self, src: src.Reshape(shape...), shape: shape, runs: r, how: how, keep: keep,
		alpha: opdef.Int(1), given: src, flat: !slices.Equal(src.Shape, shape)}, nil
}

func maskedScattering(a *maskedScatterArgs) (*writing, error) {
	m := &maskedArgs{a.Self, a.Mask}
	ts, at, err := m.ones()
	if err != nil {
		return nil, err
	}
	if a.Source.DType != a.Self.DType {
		return nil, opdef.Refuse("source", "want dtype %s, got %s", a.Self.DType, a.Source.DType)
	}
	if a.Source.Numel() < len(at) {
		return nil, opdef.Refuse("source", "%d elements for %d places", a.Source.Numel(), len(at))
	}
	src := a.Source.Reshape(a.Source.Numel()).Slice(0, 0, len(at), 1)
	return &writing{self: ts[0], narrow: a.Self, src: src, shape: src.Shape, runs: listed(1, at), how: assign,
		keep: true, alpha: opdef.Int(1), given: a.Source, flat: true}, nil
}

// byStrides says of e that it addresses memory by the strides of its argument.
func byStrides(e *opdef.Entry) *opdef.Entry {
	e.Exempt = map[string]string{"strides": "addresses memory by its strides"}
	e.Doc.Notes = "self must be contiguous. torch gives self the gradient of the elements written over in place of " +
		"that of the others."
	return e
}

// viewScatter declares a write of src to a view of self.
func viewScatter[A any](schema, summary string, args func(*A) (self, src *tensor.Tensor),
	view func(*A, *tensor.Tensor) (*tensor.Tensor, error), cases func(opdef.Gen) []*A) *opdef.Entry {
	s, _ := opdef.ParseSchema(schema) // checked again by the registry
	return writingOp[A]{
		Schema: schema, Names: s.Name + " Tensor." + s.Name, Src: "src", Only: true,
		Doc: opdef.Doc{Summary: summary, Source: "torch." + s.Name},
		Plan: func(a *A) (*writing, error) {
			self, src := args(a)
			p, err := probe(self.Shape)
			if err != nil {
				return nil, err
			}
			if p, err = view(a, p); err != nil {
				return nil, err
			}
			if !slices.Equal(p.Shape, src.Shape) {
				return nil, opdef.Refuse("src", "want shape %s, got %s", tensor.ShapeString(p.Shape),
					tensor.ShapeString(src.Shape))
			}
			return &writing{self: self, src: opdef.Cast(src, self.DType), shape: p.Shape, runs: runsOf(p), how: assign,
				keep: true, alpha: opdef.Int(1), given: src}, nil
		},
		Cases: cases,
	}.Entry()
}
