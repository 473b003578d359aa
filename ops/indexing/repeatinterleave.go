package indexing

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// repeated lists each index i of [0, n) count(i) times.
func repeated(n int, count func(i int) int) []int64 {
	total := 0
	for i := range tensor.Steps(n) {
		total += count(i)
		if total < 0 || total > tensor.MaxElements {
			panic(&tensor.SizeError{Shape: []int{total}})
		}
	}
	out, at := tensor.Make[int64](total), 0
	for i := range n {
		for range count(i) {
			out[at] = int64(i)
			at++
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

// A repetition takes runs of a tensor, seen in shape.
type repetition struct {
	self       *tensor.Tensor
	shape, out []int
	runs       runs.Runs
}

// repeatSlices repeats the slices of dimension dim (nil: of the flattened
// tensor); counts says how often, given their number.
func repeatSlices(self *tensor.Tensor, dim *int, counts func(n int) ([]int64, error)) (*repetition, error) {
	shape, d, err := self.Shape, 0, error(nil)
	if dim == nil || len(shape) == 0 {
		shape = []int{self.Numel()}
	}
	if dim != nil {
		if d, err = opdef.Dim("dim", *dim, len(self.Shape)); err != nil {
			return nil, err
		}
	}
	idx, err := counts(shape[d])
	if err != nil {
		return nil, err
	}
	out := slices.Clone(shape)
	out[d] = len(idx)
	return &repetition{self, shape, out, SlicesOf(shape, d, idx)}, nil
}

func (a *repeatInterleaveArgs) plan() (*repetition, error) {
	return repeatSlices(a.Self, a.Dim, func(n int) ([]int64, error) {
		if a.Repeats < 0 {
			return nil, opdef.Refuse("repeats", "negative number %d", a.Repeats)
		}
		return repeated(n, func(int) int { return a.Repeats }), nil
	})
}

func (a *repeatInterleaveCountsArgs) plan() (*repetition, error) {
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

// grad is the gradient of the tensor in its shape for the gradient g.
func (r *repetition) grad(g *tensor.Tensor) *tensor.Tensor {
	return runs.ScatterAdd(r.shape, g, r.runs)
}

// repeatEntry declares repeat_interleave for one type of counts.
func repeatEntry[A any](schema string, plan func(*A) (*repetition, error), cases func(opdef.Gen) []*A) *opdef.Entry {
	return opdef.Planned[*A, *repetition]{
		Schema: schema, Names: "repeat_interleave Tensor.repeat_interleave",
		Doc:   opdef.Doc{Summary: "Each slice of a dimension repeated", Notes: "Without dim the tensor is flattened."},
		Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 1}},
		Plan:  plan,
		Kernel: func(r *repetition) ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{runs.Pick(r.self.Reshape(r.shape...), r.out, r.runs)}, nil
		},
		Grad: func(r *repetition, g *opdef.Grad) (opdef.Grads, error) {
			return opdef.Grads{"self": {r.grad(g.Out[0]).Reshape(r.self.Shape...)}}, nil
		},
		Bounds: opdef.Bounds[*repetition]{
			GradTerms: func(r *repetition) int { return r.runs.Most(r.self.Numel()) },
		},
		// The node is that of index_select on the flattened tensor.
		Node: func(r *repetition, g *opdef.Grad) (opdef.Node, error) {
			return opdef.Node{Grads: []*tensor.Tensor{r.grad(g.Out[0])}}, nil
		},
		Cases: cases,
	}.Entry()
}

var repeatInterleaveOp = repeatEntry("repeat_interleave.self_int(Tensor self, int repeats, int? dim=None, *, int? "+
	"output_size=None) -> Tensor",
	(*repeatInterleaveArgs).plan,
	opdef.Calls[repeatInterleaveArgs](`f32[2, 3], 2, dim=1; f64[2, 3], 3; f32[], 2; f32[2], 0; i64[3]{0..9}, 1`))

var repeatInterleaveCountsOp = repeatEntry("repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? "+
	"dim=None, *, int? output_size=None) -> Tensor",
	(*repeatInterleaveCountsArgs).plan,
	opdef.Calls[repeatInterleaveCountsArgs](`
		f32[3, 2], i64[3]{0..3}, dim=0; f64[2, 2], i64[4]{1..2}; f64[2, 2], i64[1]{2..2}, dim=0`))

var repeatCountsOp = opdef.Op[repeatCountsArgs]{
	Schema: "repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor",
	Names:  "repeat_interleave",
	Doc:    opdef.Doc{Summary: "Each position repeated as often as its element says"},
	Error:  opdef.Error{Class: opdef.Exact},
	Traits: opdef.Traits{NoGrad: "integers have no gradient", Trivial: true},
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
	Cases: opdef.Calls[repeatCountsArgs](`i64[4]{0..3}`),
}.Entry()
