package shape

import (
	"slices"

	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// repeatOps repeat whole tensors.
var repeatOps = []*opdef.Entry{
	viewOp[repeatArgs]{
		Schema: "repeat(Tensor self, int[]... repeats) -> Tensor",
		Names:  "Tensor.repeat",
		Doc: opdef.Doc{Summary: "Copies of the tensor side by side along every dimension",
			Notes: "More repeats than dimensions add leading ones."},
		Self: func(a *repeatArgs) *tensor.Tensor { return a.Self },
		View: func(a *repeatArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			return repeatTensor("repeats", t, a.Repeats)
		},
		Back:    func(a *repeatArgs, g *tensor.Tensor) *tensor.Tensor { return repeatBack(a.Self.Shape, a.Repeats, g) },
		Repeats: true,
		Cases: opdef.Calls[repeatArgs](`
			f32[2, 3], [2, 2]; f64[3], [2, 1, 3]; bf16[], [3]; f32[2], [0]; f32[], []; f32[2, 3], [1, 2]
			i64[3]{0..9}, [2]`),
	}.Entry(),
	viewOp[tileArgs]{
		Schema: "tile(Tensor self, int[]... dims) -> Tensor",
		Names:  "tile Tensor.tile",
		Doc:    opdef.Doc{Summary: "Copies of the tensor side by side along the last dimensions"},
		Self:   func(a *tileArgs) *tensor.Tensor { return a.Self },
		View: func(a *tileArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			return repeatTensor("dims", t, a.repeats())
		},
		Back:    func(a *tileArgs, g *tensor.Tensor) *tensor.Tensor { return repeatBack(a.Self.Shape, a.repeats(), g) },
		Repeats: true,
		Cases:   opdef.Calls[tileArgs](`f32[2, 3], [2]; f64[3], [2, 2]; f32[2, 0], []; i64[3]{0..9}, [2]`),
	}.Entry(),
}

type repeatArgs struct {
	Self    *tensor.Tensor
	Repeats []int
}

type tileArgs struct {
	Self *tensor.Tensor
	Dims []int
}

// repeats are the counts for all dimensions.
func (a *tileArgs) repeats() []int {
	return append(slices.Repeat([]int{1}, max(a.Self.Dim()-len(a.Dims), 0)), a.Dims...)
}

// folded is a shape with a dimension for the copies before each of its own.
func folded(shape, repeats []int) []int {
	lead := len(repeats) - len(shape)
	out := make([]int, 0, 2*len(repeats))
	for d, k := range repeats {
		n := 1
		if d >= lead {
			n = shape[d-lead]
		}
		out = append(out, k, n)
	}
	return out
}

func repeatTensor(arg string, t *tensor.Tensor, repeats []int) (*tensor.Tensor, error) {
	if len(repeats) < t.Dim() {
		return nil, opdef.Refuse(arg, "%d repeats for %d dimensions", len(repeats), t.Dim())
	}
	for _, k := range repeats {
		if k < 0 {
			return nil, opdef.Refuse(arg, "negative number %d", k)
		}
	}
	p, err := runs.Probe(t.Shape)
	if err != nil {
		return nil, err
	}
	if p, err = p.Reshape(folded(t.Shape, slices.Repeat([]int{1}, len(repeats)))...).Expand(folded(t.Shape,
		repeats)...); err != nil {
		return nil, err
	}
	shape := make([]int, len(repeats))
	for d := range shape {
		shape[d] = p.Shape[2*d] * p.Shape[2*d+1]
	}
	return runs.Pick(t, shape, runs.OfView(p)), nil
}

// repeatBack adds the copies up.
func repeatBack(shape, repeats []int, g *tensor.Tensor) *tensor.Tensor {
	if len(repeats) == 0 {
		return g
	}
	copies := make([]int, len(repeats))
	for d := range copies {
		copies[d] = 2 * d
	}
	return opdef.Sum(g.DType, g.Reshape(folded(shape, repeats)...), copies, false).Reshape(shape...)
}
