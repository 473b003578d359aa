package shape

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// splitOps cut a tensor into parts along one dimension.
var splitOps = []*opdef.Entry{
	partsOp[splitSizeArgs]{
		Schema: "split.Tensor(Tensor self, int split_size, int dim=0) -> Tensor[]",
		Names:  splitNames + " unsafe_split Tensor.unsafe_split split_copy",
		Uncast: "split",
		Doc: opdef.Doc{Summary: "Parts of one size along a dimension", Notes: "The last part may be smaller.",
			Source: "torch.split"},
		Self: func(a *splitSizeArgs) *tensor.Tensor { return a.Self },
		Cut: func(a *splitSizeArgs) (int, []int, error) {
			dim, n, err := cutDim(a.Self, a.Dim)
			switch {
			case err != nil:
				return 0, nil, err
			case a.SplitSize < 0 || a.SplitSize == 0 && n > 0:
				return 0, nil, opdef.Refuse("split_size", "cannot cut size %d into parts of %d", n, a.SplitSize)
			}
			return dim, evenSizes(n, a.SplitSize), nil
		},
		Cases: opdef.Calls[splitSizeArgs](`
			f32[4, 6], 2; f64[2, 7], 3, dim=-1; bf16[3], 5; f32[0, 2], 0; f32[4, 3], 2, dim=1; i64[4]{0..9}, 1`),
	}.Entry(),
	// In Python the second argument of split is called split_size_or_sections,
	// that of the method split_size.
	splitSections("split.sections(Tensor self, int[] split_size_or_sections, int dim=0) -> Tensor[]", splitNames,
		"split", func(a *sectionsArgs) (*tensor.Tensor, []int, int) {
			return a.Self, a.SplitSizeOrSections, a.Dim
		}),
	splitSections("split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]",
		"split_with_sizes Tensor.split_with_sizes unsafe_split_with_sizes Tensor.unsafe_split_with_sizes "+
			"split_with_sizes_copy", "split_with_sizes", func(a *splitSizesArgs) (*tensor.Tensor, []int, int) {
			return a.Self, a.SplitSizes, a.Dim
		}),
	partsOp[chunksArgs]{
		Schema: "chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
		Names:  "chunk Tensor.chunk unsafe_chunk Tensor.unsafe_chunk",
		Uncast: "chunk",
		Doc: opdef.Doc{Summary: "At most so many parts of equal size along a dimension",
			Notes: "The last part may be smaller."},
		Self: func(a *chunksArgs) *tensor.Tensor { return a.Self },
		Cut: func(a *chunksArgs) (int, []int, error) {
			dim, n, err := cutDim(a.Self, a.Dim)
			switch {
			case err != nil:
				return 0, nil, err
			case a.Chunks <= 0:
				return 0, nil, opdef.Refuse("chunks", "want a positive number, got %d", a.Chunks)
			case n == 0:
				return dim, tensor.Make[int](tensor.Steps(a.Chunks)), nil
			}
			return dim, evenSizes(n, max(n-1, 0)/a.Chunks+1), nil
		},
		Cases: opdef.Calls[chunksArgs](`
			f32[4, 6], 2, dim=1; f64[7], 3; f32[2], 5; f32[2, 0], 2, dim=-1; f32[4, 3], 2; i64[4]{0..9}, 4`),
	}.Entry(),
	partsOp[viewDimArgs]{
		Schema: "unbind(Tensor self, int dim=0) -> Tensor[]",
		Names:  "unbind Tensor.unbind unbind_copy",
		Uncast: "unbind",
		Doc:    opdef.Doc{Summary: "The slices along a dimension, without it"},
		Self:   func(a *viewDimArgs) *tensor.Tensor { return a.Self },
		Cut: func(a *viewDimArgs) (int, []int, error) {
			dim, n, err := cutDim(a.Self, a.Dim)
			return dim, slices.Repeat([]int{1}, tensor.Steps(n)), err
		},
		Drop: true,
		Cases: opdef.Calls[viewDimArgs](`
			f32[2, 3]; f64[2, 3], dim=-1; f32[3]; f32[0, 3]; f32[2, 3], dim=1; i64[2]{0..9}`),
	}.Entry(),
	tensorSplitSectionsOp.WithUncast("tensor_split"), tensorSplitIndicesOp.WithUncast("tensor_split"),
	tensorSplitTensorOp.WithUncast("tensor_split"),
	axisSections(columnsSplit).WithUncast("hsplit"), axisIndices(columnsSplit).WithUncast("hsplit"),
	axisSections(rowsSplit).WithUncast("vsplit"), axisIndices(rowsSplit).WithUncast("vsplit"),
	axisSections(depthSplit), axisIndices(depthSplit),
}

const splitNames = "split Tensor.split functional.split"

type splitSizeArgs struct {
	Self           *tensor.Tensor
	SplitSize, Dim int
}

type sectionsArgs struct {
	Self                *tensor.Tensor
	SplitSizeOrSections []int
	Dim                 int
}

type splitSizesArgs struct {
	Self       *tensor.Tensor
	SplitSizes []int
	Dim        int
}

type chunksArgs struct {
	Self        *tensor.Tensor
	Chunks, Dim int
}

// cutDim resolves the dimension that is cut and gives its size.
func cutDim(t *tensor.Tensor, dim int) (d, n int, err error) {
	if t.Dim() == 0 {
		return 0, 0, opdef.Refuse("self", "want at least one dimension")
	}
	if d, err = opdef.Dim("dim", dim, t.Dim()); err != nil {
		return 0, 0, err
	}
	return d, t.Shape[d], nil
}

// evenSizes cuts n into parts of size, the last one smaller; at least one.
func evenSizes(n, size int) []int {
	if n == 0 {
		return []int{0}
	}
	sizes := make([]int, 0, tensor.Steps((n-1)/size+1))
	for ; n > 0; n -= size {
		sizes = append(sizes, min(size, n))
	}
	return sizes
}

// splitSections declares a split into parts of given sizes.
func splitSections[A any](schema, names, uncast string, get func(*A) (*tensor.Tensor, []int, int)) *opdef.Entry {
	return partsOp[A]{
		Schema: schema, Names: names, Uncast: uncast,
		Doc: opdef.Doc{Summary: "Parts of given sizes along a dimension", Source: "torch.split"},
		Self: func(a *A) *tensor.Tensor {
			t, _, _ := get(a)
			return t
		},
		Cut: func(a *A) (int, []int, error) {
			t, sizes, dim := get(a)
			d, n, err := cutDim(t, dim)
			if err != nil {
				return 0, nil, err
			}
			sum := 0
			for _, s := range sizes {
				if s < 0 || s > n {
					return 0, nil, opdef.Refuse("split_sizes", "part of size %d of dimension %d of size %d", s, d, n)
				}
				sum += s
			}
			if sum != n {
				return 0, nil, opdef.Refuse("split_sizes", "parts add up to %d, not %d", sum, n)
			}
			return d, sizes, nil
		},
		Cases: opdef.Calls[A](`
			f32[4, 6], [1, 0, 3]; f64[2, 5], [3, 2], dim=-1; f32[0, 2], [0, 0]; f32[3, 2], [1, 2]
			i64[4]{0..9}, [4]`),
	}.Entry()
}

// A span is the part [start, start+n) of a dimension.
type span struct{ Start, N int }

type (
	tensorSplitSections struct {
		Self          *tensor.Tensor
		Sections, Dim int
	}
	tensorSplitIndices struct {
		Self    *tensor.Tensor
		Indices []int
		Dim     int
	}
	tensorSplitTensor struct {
		Self, TensorIndicesOrSections *tensor.Tensor
		Dim                           int
	}
	axisSectionsArgs struct {
		Self     *tensor.Tensor
		Sections int
	}
	axisIndicesArgs struct {
		Self    *tensor.Tensor
		Indices []int
	}
)

var tensorSplitSectionsOp = spansOp("tensor_split.sections(Tensor self, int sections, int dim=0) -> Tensor[]",
	"tensor_split", "along a dimension whose sizes differ by at most 1", 1,
	func(a *tensorSplitSections) *tensor.Tensor { return a.Self },
	func(a *tensorSplitSections) (int, []span, error) {
		dim, n, err := cutDim(a.Self, a.Dim)
		if err == nil && a.Sections <= 0 {
			err = opdef.Refuse("sections", "size %d cannot be cut into %d parts", n, a.Sections)
		}
		return dim, sectionSpans(n, a.Sections), err
	},
	opdef.Calls[tensorSplitSections](`f32[7, 2], 3; f64[2], 3, dim=-1; i64[2, 4]{0..9}, 1, dim=1`))

var tensorSplitIndicesOp = spansOp("tensor_split.indices(Tensor self, int[] indices, int dim=0) -> Tensor[]",
	"tensor_split", "along a dimension, cut before the given indices", 1,
	func(a *tensorSplitIndices) *tensor.Tensor { return a.Self },
	func(a *tensorSplitIndices) (int, []span, error) {
		dim, n, err := cutDim(a.Self, a.Dim)
		return dim, indexSpans(n, a.Indices), err
	},
	opdef.Calls[tensorSplitIndices](`f32[5, 2], [1, 3]; f64[2, 4], [-1], dim=1; f64[5], [3, 1, 7]; i64[3]{0..9}, []`))

// An axisSplit is a tensor_split along a fixed dimension.
type axisSplit struct {
	name    string
	minDims int
	how     string
	dim     func(t *tensor.Tensor) int
}

var (
	columnsSplit = axisSplit{"hsplit", 1, "along the second dimension (vectors: the first)",
		func(t *tensor.Tensor) int { return min(t.Dim()-1, 1) }}
	rowsSplit  = axisSplit{"vsplit", 2, "along the first dimension", func(*tensor.Tensor) int { return 0 }}
	depthSplit = axisSplit{"dsplit", 3, "along the third dimension", func(*tensor.Tensor) int { return 2 }}
)

// axisSections declares a cut into a number of equal parts.
func axisSections(x axisSplit) *opdef.Entry {
	return spansOp(x.name+".int(Tensor self, int sections) -> Tensor[]", x.name, "of equal size "+x.how, x.minDims,
		func(a *axisSectionsArgs) *tensor.Tensor { return a.Self },
		func(a *axisSectionsArgs) (int, []span, error) {
			dim, n, err := cutDim(a.Self, x.dim(a.Self))
			if err == nil && (a.Sections <= 0 || n%a.Sections != 0) {
				err = opdef.Refuse("sections", "size %d cannot be cut into %d equal parts", n, a.Sections)
			}
			return dim, sectionSpans(n, a.Sections), err
		},
		opdef.Calls[axisSectionsArgs](`f32[2, 2, 2], 2; f64[4, 2, 4], 1; i64[2, 4, 2]{0..9}, 2`))
}

// axisIndices declares a cut before the given indices.
func axisIndices(x axisSplit) *opdef.Entry {
	return spansOp(x.name+".array(Tensor self, int[] indices) -> Tensor[]", x.name,
		x.how+", cut before the given indices", x.minDims,
		func(a *axisIndicesArgs) *tensor.Tensor { return a.Self },
		func(a *axisIndicesArgs) (int, []span, error) {
			dim, n, err := cutDim(a.Self, x.dim(a.Self))
			return dim, indexSpans(n, a.Indices), err
		},
		opdef.Calls[axisIndicesArgs](`f32[3, 3, 3], [1, 2]; f64[4, 4, 4], [2, 1, 7]; i64[3, 3, 3]{0..9}, []`))
}

var tensorSplitTensorOp = spansOp("tensor_split.tensor_indices_or_sections(Tensor self, Tensor "+
	"tensor_indices_or_sections, int dim=0) -> Tensor[]", "tensor_split", "along a dimension", 1,
	func(a *tensorSplitTensor) *tensor.Tensor { return a.Self },
	func(a *tensorSplitTensor) (int, []span, error) {
		dim, n, err := cutDim(a.Self, a.Dim)
		if err != nil {
			return 0, nil, err
		}
		by := a.TensorIndicesOrSections
		if by.DType != tensor.Int64 || by.Dim() > 1 {
			return 0, nil, opdef.Refuse("tensor_indices_or_sections",
				"want int64 numbers in at most one dimension, got %s", by.Meta())
		}
		at := ToInts(tensor.Data[int64](by))
		if by.Dim() == 0 {
			if at[0] <= 0 {
				return 0, nil, opdef.Refuse("tensor_indices_or_sections", "size %d cannot be cut into %d parts", n,
					at[0])
			}
			return dim, sectionSpans(n, at[0]), nil
		}
		return dim, indexSpans(n, at), nil
	},
	opdef.Calls[tensorSplitTensor](`f32[5, 3], i64[2]{= 1 3}; f64[2, 7], i64[]{= 3}, dim=1`))

// ToInts are the numbers as int.
func ToInts(v []int64) []int {
	out := make([]int, len(v))
	for i, x := range v {
		out[i] = int(x)
	}
	return out
}

func sectionSpans(n, k int) []span {
	out, at := tensor.Make[span](max(tensor.Steps(k), 0)), 0
	for i := range out {
		size := n / k
		if i < n%k {
			size++
		}
		out[i] = span{at, size}
		at += size
	}
	return out
}

// indexSpans are Python's slices [0:i], [i:j], ..., [z:].
func indexSpans(n int, at []int) []span {
	out, from := make([]span, 0, len(at)+1), 0
	for _, to := range at {
		out = append(out, SliceSpan(n, from, to))
		from = to
	}
	return append(out, SliceSpan(n, from, n))
}

// SliceSpan is Python's slice [from:to] of n elements.
func SliceSpan(n, from, to int) span {
	if from < 0 {
		from += n
	}
	if to < 0 {
		to += n
	}
	from = min(max(from, 0), n)
	return span{from, min(max(to, from), n) - from}
}

// SliceOf is t[..., start:end:step] of dimension dim.
func SliceOf(t *tensor.Tensor, dim int, start, end *int, step int) (*tensor.Tensor, error) {
	d, n, err := cutDim(t, dim)
	if err != nil {
		return nil, err
	}
	if step <= 0 {
		return nil, opdef.Refuse("step", "want a positive number, got %d", step)
	}
	s := SliceSpan(n, elements.OrElse(start, 0), elements.OrElse(end, n))
	return t.Slice(d, s.Start, (s.N+step-1)/step, step), nil
}

// spansOp declares an op whose results are parts of its argument that may
// overlap.
func spansOp[A any](schema, name, how string, minDims int, self func(*A) *tensor.Tensor,
	cut func(*A) (int, []span, error), cases func(opdef.Gen) []*A) *opdef.Entry {
	return opdef.Op[A]{
		Schema: schema, Names: name + " Tensor." + name,
		Doc:   opdef.Doc{Summary: "Parts " + how},
		Error: elements.MovedError,
		Kernel: func(a *A) ([]*tensor.Tensor, error) {
			if n := self(a).Dim(); n < minDims {
				return nil, opdef.Refuse("self", "want at least %d dimensions, got %d", minDims, n)
			}
			dim, spans, err := cut(a)
			out := make([]*tensor.Tensor, len(spans))
			for i, s := range spans {
				out[i] = self(a).Slice(dim, s.Start, s.N, 1)
			}
			return out, err
		},
		Grad:  func(a *A, g *opdef.Grad) (opdef.Grads, error) { return spansGrad(self(a), cut, a, g.Out) },
		Cases: cases,
	}.Entry()
}

func spansGrad[A any](self *tensor.Tensor, cut func(*A) (int, []span, error), a *A, out []*tensor.Tensor) (opdef.Grads,
	error) {
	dim, spans, err := cut(a)
	if err != nil {
		return nil, err
	}
	sum := elements.Zeros(self.DType, self.Shape)
	p, err := runs.Probe(self.Shape)
	if err != nil {
		return nil, err
	}
	for i, s := range spans {
		if out[i] != nil && out[i].Numel() > 0 {
			sum = runs.Put(sum, out[i], runs.OfView(p.Slice(dim, s.Start, s.N, 1)), runs.Add, true)
		}
	}
	return opdef.Grads{"self": {opdef.Cast(sum, self.DType)}}, nil
}
