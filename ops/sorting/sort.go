package sorting

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/indexing"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// sortOps order elements and find those of given ranks.
var sortOps = []*opdef.Entry{
	rankOp[sortArgs]{
		Schema: "sort(Tensor self, int dim=-1, bool descending=False, bool? stable=None) -> (Tensor values, Tensor " +
			"indices)",
		Names: "sort Tensor.sort",
		Doc: opdef.Doc{Summary: "Elements in order along a dimension, with their indices",
			Notes: "NaN is the largest. Equal elements keep their order; other orders of their indices are accepted " +
				"unless stable."},
		Plan: func(a *sortArgs) (*ranking, error) {
			d, err := opdef.Dim("dim", a.Dim, a.Self.Dim())
			return &ranking{self: a.Self, dim: d, k: rowLen(a.Self, d), keepdim: true, descending: a.Descending,
				distinct: true, stable: a.Stable != nil && *a.Stable}, err
		},
		Cases: opdef.Calls[sortArgs](`
			f32[3, 5]{distinct}; f64[3, 4, 2]{distinct}, dim=1, descending=True; f32[]{distinct}, dim=0
			f32[0, 3]{distinct}, dim=0; f32[4, 3]{distinct}, dim=0, stable=True
			i64[8]{-3..3}, dim=0, descending=True; bool[6]{0..1}, dim=0`),
	}.Entry().ShapedAs("self"),
	rankOp[argsortArgs]{
		Schema: "argsort(Tensor self, int dim=-1, bool descending=False, bool stable=False) -> Tensor",
		Names:  "argsort Tensor.argsort", Only: indicesOnly,
		Doc: opdef.Doc{Summary: "The indices that put a dimension in order"},
		Plan: func(a *argsortArgs) (*ranking, error) {
			d, err := opdef.Dim("dim", a.Dim, a.Self.Dim())
			return &ranking{self: a.Self, dim: d, k: rowLen(a.Self, d), keepdim: true, descending: a.Descending,
				distinct: true, stable: a.Stable}, err
		},
		Cases: opdef.Calls[argsortArgs](`
			f32[3, 5]{distinct}; f64[3, 4]{distinct}, dim=0, descending=True, stable=True; i64[8]{-3..3}, dim=0`),
	}.Entry().ShapedAs("self"),
	rankOp[opdef.UnaryArgs]{
		Schema: "msort(Tensor self) -> Tensor",
		Names:  "msort Tensor.msort", Only: valuesOnly,
		Doc: opdef.Doc{Summary: "Elements in order along the first dimension"},
		Plan: func(a *opdef.UnaryArgs) (*ranking, error) {
			return &ranking{self: a.Self, k: rowLen(a.Self, 0), keepdim: true, distinct: true}, nil
		},
		Cases: opdef.Calls[opdef.UnaryArgs](`f32[3, 5]{distinct}; f64[4]{distinct}; i64[8]{-3..3}`),
	}.Entry().ShapedAs("self"),
	rankOp[topkArgs]{
		Schema: "topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, " +
			"Tensor indices)",
		Names: "topk Tensor.topk",
		Doc: opdef.Doc{Summary: "The largest or smallest elements along a dimension, in order, with their indices",
			Notes: "NaN is the largest. With sorted=False any order is accepted."},
		Plan: func(a *topkArgs) (*ranking, error) {
			d, err := opdef.Dim("dim", a.Dim, a.Self.Dim())
			if err != nil {
				return nil, err
			}
			if a.K < 0 || a.K > rowLen(a.Self, d) {
				return nil, opdef.Refuse("k", "%d elements of a dimension of size %d", a.K, rowLen(a.Self, d))
			}
			k := a.K
			if a.Self.Dim() == 0 {
				k = 1 // torch returns a number as it is, even for k=0
			}
			return &ranking{self: a.Self, dim: d, k: k, keepdim: true, descending: a.Largest, distinct: true,
				unordered: !a.Sorted}, nil
		},
		Cases: opdef.Calls[topkArgs](`
			f32[3, 5]{distinct}, 2; f64[4, 3]{distinct}, 3, dim=0, largest=False; f32[]{distinct}, 1, dim=0
			bf16[20]{distinct}, 1, dim=0, sorted=False; f32[4, 3]{distinct}, 0, dim=1; i64[40]{-3..3}, 3, dim=0`),
	}.Entry(),
	rankOp[kthvalueArgs]{
		Schema: "kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
		Names:  "kthvalue Tensor.kthvalue",
		Doc: opdef.Doc{Summary: "The k-th smallest element along a dimension, with its index",
			Notes: "NaN is the largest."},
		Plan: func(a *kthvalueArgs) (*ranking, error) {
			d, err := opdef.Dim("dim", a.Dim, a.Self.Dim())
			if err != nil {
				return nil, err
			}
			if n := rowLen(a.Self, d); a.K < 1 || a.K > n {
				return nil, opdef.Refuse("k", "element %d of a dimension of size %d", a.K, n)
			}
			return &ranking{self: a.Self, dim: d, k: 1, keepdim: a.Keepdim,
				pick: func([]uint64, int) int { return a.K - 1 }}, nil
		},
		Cases: opdef.Calls[kthvalueArgs](`
			f32[3, 5]{distinct}, 2; f64[4, 3]{distinct}, 4, dim=0, keepdim=True; f32[]{distinct}, 1, dim=0
			i64[8]{-3..3}, 3, dim=0; f32[4, 3]{distinct}, 1, dim=1`),
	}.Entry(),
	medianOp("median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
		"The median along a dimension, with its index",
		"Of an even number of elements the lower one. NaN if there is one.", false),
	medianOp("nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
		"The median of the elements that are not NaN along a dimension, with its index",
		"Of an even number of elements the lower one.", true),
	medianAllOp("median", false), medianAllOp("nanmedian", true),
	modeOp,
}

// MedianArgs are the arguments of median and mode.
type (
	sortArgs struct {
		Self       *tensor.Tensor
		Dim        int
		Descending bool
		Stable     *bool
	}
	argsortArgs struct {
		Self               *tensor.Tensor
		Dim                int
		Descending, Stable bool
	}
	topkArgs struct {
		Self            *tensor.Tensor
		K, Dim          int
		Largest, Sorted bool
	}
	kthvalueArgs struct {
		Self    *tensor.Tensor
		K, Dim  int
		Keepdim bool
	}
	MedianArgs struct {
		Self    *tensor.Tensor
		Dim     int
		Keepdim bool
	}
)

// rowLen is the size of dimension d; a number is a vector of one.
func rowLen(t *tensor.Tensor, d int) int {
	if t.Dim() == 0 {
		return 1
	}
	return t.Shape[d]
}

// orderKeys turns elements into integers with the same order, in which NaN is
// the largest and the zeros are equal.
type orderKeys struct {
	kind     tensor.Kind
	unsigned bool
}

func newKeys(t *tensor.Tensor) orderKeys { return orderKeys{t.DType.Kind(), t.DType == tensor.Uint64} }

// load stores the keys of elements lo, lo+1, ... of t.
func (k orderKeys) load(lo int, dst []uint64, t *tensor.Tensor) {
	if k.kind == tensor.KindFloat {
		v := opdef.Scratch[float64](len(dst))
		tensor.Load(t, lo, *v)
		for i, x := range *v {
			dst[i] = floatKey(x)
		}
		opdef.Release(v)
		return
	}
	v := opdef.Scratch[int64](len(dst))
	tensor.Load(t, lo, *v)
	flip := uint64(1) << 63
	if k.unsigned {
		flip = 0
	}
	for i, x := range *v {
		dst[i] = uint64(x) ^ flip
	}
	opdef.Release(v)
}

func floatKey(x float64) uint64 {
	if x != x {
		return nanKey
	}
	b := math.Float64bits(x + 0) // -0 becomes 0
	return b ^ (uint64(int64(b)>>63) | 1<<63)
}

func (k orderKeys) row(lo, n int, t *tensor.Tensor) []uint64 {
	dst := tensor.Make[uint64](n)
	k.load(lo, dst, t)
	return dst
}

const nanKey = math.MaxUint64

// A ranking says which elements of the rows of self along dim an op returns.
type ranking struct {
	self       *tensor.Tensor
	dim        int
	k          int  // elements of each row, in order
	keepdim    bool // false: k is 1 and the dimension is removed
	descending bool
	distinct   bool // the indices of a row differ
	stable     bool // equal elements keep their order
	unordered  bool // the elements of a row may come in any order
	// pick replaces the first k: the rank in a row with the given keys.
	pick func(row []uint64, n int) int
}

// indices finds the elements: int64, of the shape of the result.
func (r *ranking) indices() (*tensor.Tensor, error) {
	if r.self.DType.IsComplex() {
		return nil, opdef.Refuse("self", "complex numbers have no order")
	}
	rowsFirst := lastDim(r.self, r.dim)
	rows, n := rowsOf(rowsFirst)
	if n == 0 && r.pick != nil && rows > 0 {
		return nil, opdef.Refuse("self", "dimension %d has size 0", r.dim)
	}
	out := tensor.Make[int64](rows * r.k)
	tensor.Parallel(rows, max(1, 4096/max(n, 1)), func(a, b int) {
		sel := newSelector(r.self.DType, n, r.descending)
		for i := a; i < b; i++ {
			dst := out[i*r.k : (i+1)*r.k]
			if r.pick == nil && sel.few(r.k) {
				sel.fewest(dst, rowsFirst, i*n)
				continue
			}
			row, k := sel.load(rowsFirst, i*n), r.k
			if r.pick != nil {
				k = r.pick(row, n) + 1
			}
			sel.lowest(dst, row, k)
		}
	})
	shape := slices.Clone(rowsFirst.Shape)
	shape[len(shape)-1] = r.k
	t := tensor.New(tensor.Int64, shape, out)
	switch {
	case r.self.Dim() == 0:
		return t.Reshape(), nil
	case !r.keepdim:
		return t.Reshape(shape[:len(shape)-1]...), nil
	}
	order := make([]int, len(shape))
	for d := range order {
		switch {
		case d < r.dim:
			order[d] = d
		case d == r.dim:
			order[d] = len(shape) - 1
		default:
			order[d] = d - 1
		}
	}
	return t.Permute(order...), nil
}

// widened gives an index or gradient tensor the ranked dimension back.
func (r *ranking) widened(t *tensor.Tensor) *tensor.Tensor {
	if r.keepdim || r.self.Dim() == 0 {
		return t
	}
	return t.Unsqueeze(r.dim)
}

func (r *ranking) results() ([]*tensor.Tensor, error) {
	idx, err := r.indices()
	if err != nil {
		return nil, err
	}
	at, err := indexing.Along(r.self.Shape, r.dim, r.widened(idx))
	if err != nil {
		return nil, err
	}
	return []*tensor.Tensor{runs.Pick(r.self, idx.Shape, at), idx}, nil
}

// grad sends g back to the elements at idx.
func (r *ranking) grad(g, idx *tensor.Tensor) (*tensor.Tensor, error) {
	at, err := indexing.Along(r.self.Shape, r.dim, r.widened(idx))
	if err != nil {
		return nil, err
	}
	return runs.ScatterAdd(r.self.Shape, g, at), nil
}

// only restricts a rankOp to one of its results.
type only uint8

const (
	bothResults only = iota
	valuesOnly
	indicesOnly
)

// A rankOp declares an op that returns elements of a dimension by rank and
// their indices.
type rankOp[A any] struct {
	Schema string
	Names  string
	Doc    opdef.Doc
	Plan   func(a *A) (*ranking, error)
	Only   only
	Cases  func(g opdef.Gen) []*A
}

// A rankCall is a call of such an op.
type rankCall struct {
	*ranking
	only only
}

// Accept takes other indices of equal elements and, where the order is free, other orders.
func (r *rankCall) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	as := make([]opdef.Acceptance, len(got))
	if r.stable || r.only == valuesOnly {
		return as
	}
	var values *tensor.Tensor
	if r.unordered && r.only != indicesOnly && sameRows(r.dim, r.widened(want[0]), r.widened(got[0])) {
		as[0] = opdef.Acceptance{OK: true, Rule: "any order"}
		values = r.widened(got[0])
	}
	last := len(as) - 1
	as[last] = acceptRows(r.self, r.dim, values, r.widened(want[last]), r.widened(got[last]), r.distinct)
	return as
}

func (o rankOp[A]) Entry() *opdef.Entry {
	op := opdef.Planned[*A, *rankCall]{
		Schema: o.Schema, Names: o.Names, Doc: o.Doc,
		Error: opdef.Error{Class: opdef.Exact},
		Plan: func(a *A) (*rankCall, error) {
			r, err := o.Plan(a)
			return &rankCall{r, o.Only}, err
		},
		Kernel: func(r *rankCall) ([]*tensor.Tensor, error) {
			res, err := r.results()
			switch {
			case err != nil:
				return nil, err
			case r.only == valuesOnly:
				return res[:1], nil
			case r.only == indicesOnly:
				return res[1:], nil
			}
			return res, nil
		},
		Cases: o.Cases,
	}
	if o.Only == indicesOnly {
		op.NoGrad = "indices have no gradient"
		return op.Entry()
	}
	op.Grad = func(r *rankCall, g *opdef.Grad) (_ opdef.Grads, err error) {
		if g.Out[0] == nil {
			return opdef.Grads{"self": {nil}}, nil
		}
		var idx *tensor.Tensor
		if r.only == valuesOnly {
			if idx, err = r.indices(); err != nil {
				return nil, err
			}
		} else {
			idx = g.Outs[1]
		}
		t, err := r.grad(g.Out[0], idx)
		return opdef.Grads{"self": {t}}, err
	}
	return op.Entry()
}
