package sorting

import (
	"slices"
	"sort"

	"github.com/optool/optool/ops/indexing"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// uniqueOps find different values, and places in sorted values.
var uniqueOps = []*opdef.Entry{
	opdef.Op[uniqueArgs]{
		Schema: "unique(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? " +
			"dim=None) -> Tensor|Tensor[]",
		Names: "unique functional.unique Tensor.unique",
		Doc: opdef.Doc{Summary: "The different elements, or slices of a dimension, in order",
			Notes: "Every NaN is different. With sorted=False any order of elements is accepted."},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "PyTorch defines none"},
		Kernel: func(a *uniqueArgs) ([]*tensor.Tensor, error) {
			s, err := newSlices(a.Self, a.Dim)
			if err != nil {
				return nil, err
			}
			order := tensor.Make[int](s.count)
			for i := range order {
				order[i] = i
			}
			slices.SortStableFunc(order, s.compare)
			return s.groups(order, a.ReturnInverse, a.ReturnCounts), nil
		},
		Cases: opdef.Calls[uniqueArgs](`
			i64[8]{0..3}, return_inverse=True, return_counts=True; f32[2, 3]
			bool[5]{0..1}, sorted=False, return_inverse=True
			i32[5, 2]{0..1}, return_inverse=True, return_counts=True, dim=0
			u8[1, 5]{0..1}, return_counts=True, dim=1; i64[]{0..3}, return_inverse=True, return_counts=True
			i64[0]{0..3}, return_inverse=True, return_counts=True`),
	}.Entry(),
	opdef.Op[uniqueConsecutiveArgs]{
		Schema: "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? " +
			"dim=None) -> Tensor|Tensor[]",
		Names:  "unique_consecutive functional.unique_consecutive Tensor.unique_consecutive",
		Doc:    opdef.Doc{Summary: "The elements, or slices of a dimension, that differ from the one before"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "PyTorch defines none"},
		Kernel: func(a *uniqueConsecutiveArgs) ([]*tensor.Tensor, error) {
			s, err := newSlices(a.Self, a.Dim)
			if err != nil {
				return nil, err
			}
			order := tensor.Make[int](s.count)
			for i := range order {
				order[i] = i
			}
			return s.groups(order, a.ReturnInverse, a.ReturnCounts), nil
		},
		Cases: opdef.Calls[uniqueConsecutiveArgs](`
			i64[8]{0..1}, return_inverse=True, return_counts=True; f32[2, 3]
			i32[5, 1]{0..1}, return_inverse=True, return_counts=True, dim=0; i64[0]{0..3}, return_inverse=True`),
	}.Entry(),
	opdef.Op[searchsortedArgs]{
		Schema: "searchsorted(Tensor sorted_sequence, Tensor|Scalar self, *, bool out_int32=False, bool " +
			"right=False, str? side=None, Tensor? sorter=None) -> Tensor",
		Names: "searchsorted",
		Doc: opdef.Doc{Summary: "Where values would be inserted into sorted rows",
			Notes: "Before equal elements, or after them if right."},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "indices have no gradient", Trivial: true},

		Kernel: searchsorted,
		Cases: func(g opdef.Gen) []*searchsortedArgs {
			rows := tensor.New(tensor.Float32, []int{2, 3}, []float64{1, 2, 2, 0, 3, 5})
			side := "right"
			return []*searchsortedArgs{
				{SortedSequence: rows, Self: g.Normal(tensor.Float32, 2, 4)}, {SortedSequence: rows.Select(0, 1),
					Self: g.Normal(tensor.Float32, 2, 2), OutInt32: true}, {SortedSequence: rows.Select(0, 0),
					Self: tensor.Wrap(2.0), Right: true},
				{SortedSequence: tensor.New(tensor.Int64, []int{3}, []int64{3, 1, 2}), Self: g.Int(tensor.Int64, 0, 4,
					5), Side: &side, Sorter: tensor.New(tensor.Int64, []int{3}, []int64{1, 2, 0})},
			}
		},
	}.Entry(),
	opdef.Op[bucketizeArgs]{
		Schema: "bucketize(Tensor|Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
		Names:  "bucketize",
		Doc:    opdef.Doc{Summary: "The interval between boundaries that each value is in"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "indices have no gradient", Trivial: true},

		Kernel: func(a *bucketizeArgs) ([]*tensor.Tensor, error) {
			if a.Boundaries.Dim() != 1 {
				return nil, opdef.Refuse("boundaries", "want a vector, got %s", a.Boundaries.Meta())
			}
			return searchsorted(&searchsortedArgs{SortedSequence: a.Boundaries, Self: a.Self, OutInt32: a.OutInt32,
				Right: a.Right})
		},
		Cases: opdef.Calls[bucketizeArgs](`
			f32[2, 3], f32[3]{= -1 0 1}; 0.0, f32[3]{= -1 0 1}, out_int32=True, right=True
			i64[5]{-2..2}, f32[3]{= -1 0 1}, right=True`),
	}.Entry(),
	isinOp,
}

func (a *uniqueArgs) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	as := make([]opdef.Acceptance, len(got))
	if !a.Sorted && a.Dim == nil {
		a.acceptOrder(as, got, want)
	}
	return as
}

type (
	uniqueArgs struct {
		Self                                *tensor.Tensor
		Sorted, ReturnInverse, ReturnCounts bool
		Dim                                 *int
	}
	uniqueConsecutiveArgs struct {
		Self                        *tensor.Tensor
		ReturnInverse, ReturnCounts bool
		Dim                         *int
	}
	searchsortedArgs struct {
		SortedSequence, Self *tensor.Tensor
		OutInt32, Right      bool
		Side                 *string
		Sorter               *tensor.Tensor
	}
	bucketizeArgs struct {
		Self, Boundaries *tensor.Tensor
		OutInt32, Right  bool
	}
)

// sliceList are the slices of a dimension (nil: the elements) as rows of keys.
type sliceList struct {
	t, rows  *tensor.Tensor // as given, and with the dimension first
	dim      *int
	count, n int // slices and their length
	keys     []uint64
}

func newSlices(t *tensor.Tensor, dim *int) (*sliceList, error) {
	if t.DType.IsComplex() {
		return nil, opdef.Refuse("self", "complex numbers have no order")
	}
	s := &sliceList{t: t, rows: t, count: t.Numel(), n: 1}
	if dim != nil && t.Dim() > 0 {
		d, err := opdef.Dim("dim", *dim, t.Dim())
		if err != nil {
			return nil, err
		}
		order := []int{d}
		for k := range t.Shape {
			if k != d {
				order = append(order, k)
			}
		}
		s.dim, s.rows = &d, t.Permute(order...)
		s.count, s.n = t.Shape[d], tensor.Numel(s.rows.Shape[1:])
		if s.n == 0 && s.count > 0 {
			return nil, opdef.Refuse("dim", "the slices of dimension %d are empty", d)
		}
	} else if dim != nil {
		return nil, opdef.Refuse("dim", "a number has no dimensions")
	}
	s.keys = newKeys(t).row(0, s.count*s.n, s.rows)
	return s, nil
}

func (s *sliceList) at(i int) []uint64 { return s.keys[i*s.n : (i+1)*s.n] }

func (s *sliceList) compare(a, b int) int { return slices.Compare(s.at(a), s.at(b)) }

// groups are the slices that differ from the one before in order, the group of
// each slice and the sizes of groups.
func (s *sliceList) groups(order []int, inverse, counts bool) []*tensor.Tensor {
	var first, size []int64
	group := tensor.Make[int64](s.count)
	for k, i := range order {
		if k == 0 || s.differ(order[k-1], i) {
			first, size = append(first, int64(i)), append(size, 0)
		}
		size[len(size)-1]++
		group[i] = int64(len(size) - 1)
	}
	var out []*tensor.Tensor
	if s.dim == nil {
		out = append(out, runs.Pick(s.t, []int{len(first)}, runs.AtStarts(1, first)))
	} else {
		shape := slices.Clone(s.t.Shape)
		shape[*s.dim] = len(first)
		out = append(out, runs.Pick(s.t, shape, indexing.SlicesOf(s.t.Shape, *s.dim, first)))
	}
	if inverse {
		shape := s.t.Shape
		if s.dim != nil {
			shape = []int{s.count}
		}
		out = append(out, tensor.New(tensor.Int64, shape, group))
	}
	if counts {
		out = append(out, tensor.New(tensor.Int64, []int{len(size)}, size))
	}
	return out
}

// differ reports whether two slices differ; NaN differs from itself.
func (s *sliceList) differ(a, b int) bool {
	x, y := s.at(a), s.at(b)
	return !slices.Equal(x, y) || s.t.DType.IsFloat() && slices.Contains(x, nanKey)
}

// acceptOrder accepts results in another order: the same values, with inverse
// and counts that belong to them.
func (a *uniqueArgs) acceptOrder(as []opdef.Acceptance, got, want []*tensor.Tensor) {
	if !sameRows(0, want[0], got[0]) {
		return
	}
	ks := newKeys(a.Self)
	values := ks.row(0, got[0].Numel(), got[0])
	ok := opdef.Acceptance{OK: true, Rule: "any order"}
	as[0] = ok
	own := ks.row(0, a.Self.Numel(), a.Self)
	next := 1
	if a.ReturnInverse {
		i := -1
		err := indexing.EachInt(got[next], func(_ int, v int64) bool {
			i++
			return v >= 0 && v < int64(len(values)) && values[v] == own[i]
		})
		if err == nil {
			as[next] = ok
		} else {
			as[next].Reason = "an inverse index does not point to its value"
		}
		next++
	}
	if a.ReturnCounts {
		count := map[uint64]int64{}
		for _, k := range own {
			count[k]++
		}
		i := -1
		err := indexing.EachInt(got[next], func(_ int, v int64) bool {
			i++
			return values[i] == nanKey && v == 1 || count[values[i]] == v
		})
		if err == nil {
			as[next] = ok
		} else {
			as[next].Reason = "a count is not that of its value"
		}
	}
}

// fromRight reports whether a value is placed behind those that are equal to it.
func (a *searchsortedArgs) fromRight() (bool, error) {
	switch {
	case a.Side == nil:
		return a.Right, nil
	case *a.Side == "left" && a.Right:
		return false, opdef.Refuse("side", "side \"left\" contradicts right=True")
	case *a.Side == "left" || *a.Side == "right":
		return *a.Side == "right", nil
	}
	return false, opdef.Refuse("side", "want \"left\" or \"right\", got %q", *a.Side)
}

func searchsorted(a *searchsortedArgs) ([]*tensor.Tensor, error) {
	seq, v := a.SortedSequence, a.Self
	right, err := a.fromRight()
	if err != nil {
		return nil, err
	}
	switch {
	case seq.Dim() == 0:
		return nil, opdef.Refuse("sorted_sequence", "want at least one dimension")
	case v.Dim() == 0 && v.Wrapped && seq.Dim() > 1:
		return nil, opdef.Refuse("self", "a number is searched in a vector, not in %s", seq.Meta())
	case seq.Dim() > 1 && (seq.Dim() != v.Dim() || !slices.Equal(seq.Shape[:seq.Dim()-1], v.Shape[:v.Dim()-1])):
		return nil, opdef.Refuse("self", "rows of %s do not match those of %s", v.Meta(), seq.Meta())
	case seq.DType.IsComplex() || v.DType.IsComplex():
		return nil, opdef.Refuse("self", "complex numbers have no order")
	}
	if a.Sorter != nil {
		if !slices.Equal(a.Sorter.Shape, seq.Shape) || a.Sorter.DType != tensor.Int64 {
			return nil, opdef.Refuse("sorter", "want int64 of shape %s, got %s", tensor.ShapeString(seq.Shape),
				a.Sorter.Meta())
		}
		at, err := indexing.Along(seq.Shape, -1, a.Sorter)
		if err != nil {
			return nil, opdef.Refuse("sorter", "index out of range")
		}
		seq = runs.Pick(seq, seq.Shape, at)
	}
	dt := tensor.Int64
	if a.OutInt32 {
		dt = tensor.Int32
	}
	if seq.DType.IsFloat() || v.DType.IsFloat() {
		return []*tensor.Tensor{places[float64](dt, seq, v, right)}, nil
	}
	return []*tensor.Tensor{places[int64](dt, seq, v, right)}, nil
}

// places searches the elements of v in the rows of seq. A comparison with NaN
// goes on to the right, as torch's does.
func places[T int64 | float64](dt tensor.DType, seq, v *tensor.Tensor, right bool) *tensor.Tensor {
	n := seq.Shape[seq.Dim()-1]
	perRow := max(1, v.Numel())
	if seq.Dim() > 1 {
		perRow = v.Shape[v.Dim()-1]
	}
	sorted := tensor.Data[T](seq)
	return tensor.Lazy(dt, v.Shape, 1, func(lo int, dst []int64) {
		values := opdef.Scratch[T](len(dst))
		tensor.Load(v, lo, *values)
		for i, x := range *values {
			row := sorted[(lo+i)/perRow*n:][:n]
			dst[i] = int64(sort.Search(n, func(k int) bool { return row[k] > x || !right && row[k] == x }))
		}
		opdef.Release(values)
	})
}

type isinArgs struct {
	Elements, TestElements *tensor.Tensor
	AssumeUnique, Invert   bool
}

var isinOp = opdef.Op[isinArgs]{
	Schema: "isin(Tensor|Scalar elements, Tensor|Scalar test_elements, *, bool assume_unique=False, bool " +
		"invert=False) -> Tensor",
	Names:  "isin",
	Doc:    opdef.Doc{Summary: "Whether each element is among others"},
	Error:  elements.ExactError,
	Traits: opdef.Traits{NoGrad: "bool has no gradient", Trivial: true},

	Kernel: func(a *isinArgs) ([]*tensor.Tensor, error) {
		if a.Elements.Wrapped && a.TestElements.Wrapped {
			return nil, opdef.Refuse("elements", "want a tensor among the two")
		}
		common := tensor.Int64
		switch k := max(a.Elements.DType.Kind(), a.TestElements.DType.Kind()); {
		case k == tensor.KindComplex:
			return nil, opdef.Refuse("elements", "not defined for complex numbers")
		case k == tensor.KindFloat:
			common = tensor.Float64
		}
		x, set := opdef.Cast(a.Elements, common), opdef.Cast(a.TestElements, common)
		ks := newKeys(x)
		in := map[uint64]bool{}
		for _, k := range ks.row(0, set.Numel(), set) {
			in[k] = common == tensor.Int64 || k != nanKey
		}
		return []*tensor.Tensor{tensor.Lazy(tensor.Bool, x.Shape, 1, func(lo int, dst []int64) {
			for i, k := range ks.row(lo, len(dst), x) {
				dst[i] = int64(elements.BoolInt(in[k] != a.Invert))
			}
		})}, nil
	},
	Cases: opdef.Calls[isinArgs](`
		i64[2, 3]{0..5}, i64[3]{0..5}; i64[4]{0..2}, 1, invert=True; f32[3], f64[2], assume_unique=True`),
}.Entry()
