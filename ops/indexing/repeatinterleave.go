package indexing

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/tensor"
)

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
func repeatSlices(self *tensor.Tensor, dim *int, counts func(n int) ([]int64, error)) (shape, out []int, r runs.Runs,
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
	return shape, out, SlicesOf(shape, d, idx), nil
}

func (a *repeatInterleaveArgs) plan() (shape, out []int, r runs.Runs, err error) {
	return repeatSlices(a.Self, a.Dim, func(n int) ([]int64, error) {
		if a.Repeats < 0 {
			return nil, opdef.Refuse("repeats", "negative number %d", a.Repeats)
		}
		return repeated(n, func(int) int { return a.Repeats }), nil
	})
}

func (a *repeatInterleaveCountsArgs) plan() (shape, out []int, r runs.Runs, err error) {
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
func repeatEntry[A any](schema string, self func(*A) *tensor.Tensor, plan func(*A) (shape, out []int, r runs.Runs,
	err error), cases func(opdef.Gen) []*A) *opdef.Entry {
	grad := func(a *A, g *tensor.Tensor) (opdef.Grads, error) {
		shape, _, r, err := plan(a)
		if err != nil {
			return nil, err
		}
		return opdef.Grads{"self": {runs.ScatterAdd(shape, g, r)}}, nil
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
			return []*tensor.Tensor{runs.Pick(self(a).Reshape(shape...), out, r)}, nil
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
			return max(1, r.Count)
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
