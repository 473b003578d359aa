package indexing

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/shape"
	"github.com/optool/optool/tensor"
)

// scatterOps write elements at positions that other tensors give.
var scatterOps = []*opdef.Entry{
	writingOp[scatterArgs]{
		Schema: "scatter.src(Tensor self, int dim, Tensor index, Tensor src, *, str? reduce=None) -> Tensor",
		Names:  "scatter Tensor.scatter", Src: "src",
		Doc: opdef.Doc{Summary: "Writes values at indices along a dimension",
			Formula: "out[i, index[i, j, k], k] = src[i, j, k] for dim=1",
			Notes:   "Where an index occurs twice the last value stays. reduce is add or multiply."},
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
				{g.Int(tensor.Int64, 0, 9, 4, 3), 0, rowsApart(2, 3), g.Int(tensor.Int64, 0, 9, 2, 3), nil},
			}
		},
	}.Entry().ShapedAs("self"),
	writingOp[scatterValueArgs]{
		Schema: "scatter.value(Tensor self, int dim, Tensor index, Scalar value, *, str? reduce=None) -> Tensor",
		Names:  "scatter Tensor.scatter",
		Doc:    opdef.Doc{Summary: "Writes a number at indices along a dimension", Notes: "reduce is add or multiply."},
		Plan: func(a *scatterValueArgs) (*writing, error) {
			how, err := scatterHow(a.Reduce)
			if err != nil {
				return nil, err
			}
			return scattering(a.Self, a.Dim, a.Index, elements.Filled(a.Self.DType, a.Index.Shape, a.Value), how, true)
		},
		Cases: opdef.Calls[scatterValueArgs](`
			f32[4, 3], 0, i64[2, 3]{0..3}, 1.5; f64[3, 5], -1, i64[3, 4]{0..4}, 2
			f32[4], 0, i64[2]{= 1 2}, 0.5, reduce='multiply'; i64[4]{0..9}, 0, i64[2]{0..3}, 7`),
	}.Entry().ShapedAs("self"),
	writingOp[scatterAddArgs]{
		Schema: "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
		Names:  "scatter_add Tensor.scatter_add", Src: "src", Autocast: opdef.AutocastWidest,
		Doc: opdef.Doc{Summary: "Adds values at indices along a dimension",
			Formula: "out[i, index[i, j, k], k] += src[i, j, k] for dim=1"},
		Plan: func(a *scatterAddArgs) (*writing, error) {
			return scattering(a.Self, a.Dim, a.Index, a.Src, runs.Add, true)
		},
		Cases: opdef.Calls[scatterAddArgs](`
			f32[4, 3], 0, i64[2, 3]{0..3}, f32[2, 3]; f64[3, 5], -1, i64[3, 6]{0..4}, f64[4, 7]
			f32[], 0, i64[]{0..0}, f32[]; bf16[3], 0, i64[5]{0..2}, bf16[5]
			f32[4, 3], 1, i64[4, 2]{0..2}, f32[4, 2]; c64[3], 0, i64[5]{0..2}, c64[5]
			i64[4]{0..9}, 0, i64[6]{0..3}, i64[6]{0..9}`),
	}.Entry().ShapedAs("self"),
	writingOp[scatterReduceArgs]{
		Schema: "scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool " +
			"include_self=True) -> Tensor",
		Names: "scatter_reduce Tensor.scatter_reduce", Src: "src",
		Doc: opdef.Doc{Summary: "Reduces values at indices along a dimension",
			Notes: "reduce is sum, prod, mean, amax or amin; gradients of amax and amin are shared evenly among " +
				"equal values."},
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
	}.Entry().ShapedAs("self"),
	writingOp[indexAddArgs]{
		Schema: "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
		Names:  "index_add Tensor.index_add", Src: "source",
		Doc: opdef.Doc{Summary: "Adds slices to the slices at the given indices",
			Formula: "out[index[i]] += alpha*source[i] for dim=0", Source: "torch.Tensor.index_add_"},
		Plan: func(a *indexAddArgs) (*writing, error) {
			w, err := slicing(a.Self, a.Dim, a.Index, a.Source, runs.Add, true)
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
		Cases: opdef.Calls[indexAddArgs](`
			f32[4, 3], 0, i64[5]{0..3}, f32[5, 3]; f64[2, 3, 2], 1, i32[2]{0..2}, f64[2, 2, 2], alpha=-1.5
			f32[], 0, i64[1]{0..0}, f32[]; bf16[4, 3], -1, i64[2]{0..2}, bf16[4, 2]
			i64[4]{0..9}, 0, i64[2]{0..3}, i64[2]{0..9}, alpha=-2`),
	}.Entry().ShapedAs("self"),
	writingOp[indexCopyArgs]{
		Schema: "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
		Names:  "index_copy Tensor.index_copy", Src: "source", Autocast: opdef.AutocastWidest,
		Doc: opdef.Doc{Summary: "Writes slices at the given indices", Formula: "out[index[i]] = source[i] for dim=0",
			Notes: "Where an index occurs twice the last slice stays.", Source: "torch.Tensor.index_copy_"},
		Plan: func(a *indexCopyArgs) (*writing, error) {
			return slicing(a.Self, a.Dim, a.Index, a.Source, runs.Assign, true)
		},
		Cases: opdef.Calls[indexCopyArgs](`
			f32[4, 3], 0, i64[2]{= 1 2}, f32[2, 3]; f64[2, 3, 2], 1, i64[2]{= 1 2}, f64[2, 2, 2]
			f32[], 0, i64[1]{0..0}, f32[]; i64[4]{0..9}, 0, i64[2]{= 1 2}, i64[2]{0..9}`),
	}.Entry().ShapedAs("self"),
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
			return &writing{self: a.Self, src: v, shape: shape, runs: r, how: runs.Assign, keep: true,
				alpha: opdef.Int(1),
				given: a.Value}, nil
		},
		Cases: opdef.Calls[indexFillArgs](`
			f32[4, 3], 0, i64[2]{= 1 2}, 1.5; f64[2, 3], -1, i64[2]{= 1 2}, f64[]
			f64[2, 3], 1, i64[3]{= 2 -1 0}, f64[]; f32[], 0, i64[1]{0..0}, 2; i64[4]{0..9}, 0, i64[2]{= 1 2}, 7`),
	}.Entry().ShapedAs("self"),
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
	}.Entry().ShapedAs("self"),
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
			how := runs.Assign
			if a.Accumulate {
				how = runs.Add
			}
			return &writing{self: a.Self, src: a.Source, shape: a.Source.Shape, runs: r, how: how, keep: true,
				alpha: opdef.Int(1), given: a.Source}, err
		},
		Cases: opdef.Calls[putArgs](`
			f32[4, 3], i64[3]{= -1 4 0}, f32[3]; f64[3], i64[2, 4]{-3..2}, f64[2, 4], accumulate=True
			i64[4]{0..9}, i64[1]{= 2}, i64[1]{0..9}`),
	}.Entry().ShapedAs("self"),
	writingOp[maskedScatterArgs]{
		Schema: "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
		Names:  "masked_scatter Tensor.masked_scatter", Src: "source",
		Doc: opdef.Doc{Summary: "Writes the elements of another tensor, in order, where a mask is true",
			Notes: "Tensor and mask are broadcast.", Source: "torch.Tensor.masked_scatter_"},
		Plan: maskedScattering,
		Cases: opdef.Calls[maskedScatterArgs](`
			f32[3, 4], bool[3, 4]{0..1}, f32[13]; f64[3, 4], bool[4]{0..1}, f64[2, 6]
			f64[4], bool[2, 4]{0..1}, f64[8]; i64[4]{0..9}, bool[4]{0..1}, i64[4]{0..9}`),
	}.Entry(),
	viewScatter("select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor",
		"Writes one index of a dimension",
		func(a *selectScatterArgs) (*tensor.Tensor, *tensor.Tensor) { return a.Self, a.Src },
		func(a *selectScatterArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			return shape.SelectIndex(t, a.Dim, a.Index)
		},
		opdef.Calls[selectScatterArgs](`
			f32[3, 4], f32[3], 1, -1; f64[3], f64[], 0, 1; i64[3]{0..9}, i64[]{0..9}, 0, 0`)),
	viewScatter("slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> "+
		"Tensor", "Writes a slice of a dimension",
		func(a *sliceScatterArgs) (*tensor.Tensor, *tensor.Tensor) { return a.Self, a.Src },
		func(a *sliceScatterArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			return shape.SliceOf(t, a.Dim, a.Start, a.End, a.Step)
		},
		opdef.Calls[sliceScatterArgs](`
			f32[5, 2], f32[2, 2], start=1, end=-1, step=2; f64[2, 3], f64[2, 3], dim=1
			i64[3]{0..9}, i64[2]{0..9}, start=1`)),
	byStrides(viewScatter("as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? "+
		"storage_offset=None) -> Tensor", "Writes elements of the storage seen with other sizes and strides",
		func(a *stridedScatterArgs) (*tensor.Tensor, *tensor.Tensor) { return a.Self, a.Src },
		func(a *stridedScatterArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			if !a.Self.IsContiguous() {
				return nil, opdef.Refuse("self", "want a contiguous tensor, got strides %v", a.Self.Stride)
			}
			v, err := t.Strided(slices.Clone(a.Size), slices.Clone(a.Stride),
				elements.OrElse(a.StorageOffset, a.Self.Offset)-a.Self.Offset)
			if err != nil {
				return nil, opdef.Refuse("size", "%v", err)
			}
			return v, nil
		},
		opdef.Calls[stridedScatterArgs](`
			f64[3, 4], f64[2, 2], [2, 2], [4, 2], storage_offset=1; f32[5], f32[3], [3], [2]`))),
	viewScatter("diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
		"Writes a diagonal of two dimensions",
		func(a *diagonalScatterArgs) (*tensor.Tensor, *tensor.Tensor) { return a.Self, a.Src },
		func(a *diagonalScatterArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			return shape.Diagonal(t, a.Offset, a.Dim1, a.Dim2)
		},
		opdef.Calls[diagonalScatterArgs](`
			f32[3, 4], f32[3]; f64[2, 3, 3], f64[2, 2], offset=-1, dim1=1, dim2=2; i64[2, 2]{0..9}, i64[2]{0..9}`)),
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
