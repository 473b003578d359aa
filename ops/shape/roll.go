package shape

import (
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type rollArgs struct {
	Self         *tensor.Tensor
	Shifts, Dims []int
}

// rolled is self with each dimension shifted; back shifts the other way.
func (a *rollArgs) rolled(t *tensor.Tensor, back bool) (*tensor.Tensor, error) {
	dims, view := a.Dims, t
	if len(dims) == 0 && len(a.Shifts) == 1 {
		view, dims = t.Reshape(t.Numel()), []int{0}
	}
	if len(a.Shifts) == 0 || len(a.Shifts) != len(dims) {
		return nil, opdef.Refuse("shifts", "%d shifts for %d dimensions", len(a.Shifts), len(dims))
	}
	if view.Dim() == 0 {
		return nil, opdef.Refuse("dims", "a number has no dimensions")
	}
	for i, d := range dims {
		d, err := opdef.Dim("dims", d, view.Dim())
		if err != nil {
			return nil, err
		}
		if view.Numel() == 0 {
			continue
		}
		n, k := view.Shape[d], a.Shifts[i]
		if back {
			k = -k
		}
		if k = ((k % n) + n) % n; k > 0 {
			view = runs.Concat(view.DType, d, view.Slice(d, n-k, k, 1), view.Slice(d, 0, n-k, 1))
		}
	}
	return view.Reshape(t.Shape...), nil
}

var rollOp = viewOp[rollArgs]{
	Schema: "roll(Tensor self, int[1] shifts, int[1] dims=[]) -> Tensor",
	Names:  "roll Tensor.roll",
	Doc: opdef.Doc{Summary: "Shifts dimensions, what leaves at the end entering at the start",
		Notes: "Without dims the flattened tensor is shifted."},
	Self: func(a *rollArgs) *tensor.Tensor { return a.Self },
	View: func(a *rollArgs, t *tensor.Tensor) (*tensor.Tensor, error) { return a.rolled(t, false) },
	Back: func(a *rollArgs, g *tensor.Tensor) *tensor.Tensor { return opdef.Must(a.rolled(g, true)) },
	Cases: opdef.Calls[rollArgs](`
		f32[4, 3], [1]; f64[4, 3], [-1, 2], dims=[1, 0]; f32[3], [7], dims=[0]; f32[0, 3], [1], dims=[0]
		f32[], [1]; i64[4]{0..9}, [1], dims=[-1]`),
}.Entry()

type rot90Args struct {
	Self *tensor.Tensor
	K    int
	Dims []int
}

func (a *rot90Args) rotated(t *tensor.Tensor, k int) (*tensor.Tensor, error) {
	if t.Dim() < 2 {
		return nil, opdef.Refuse("self", "want at least 2 dimensions, got %d", t.Dim())
	}
	if len(a.Dims) != 2 {
		return nil, opdef.Refuse("dims", "want 2 dimensions, got %d", len(a.Dims))
	}
	d, err := elements.ResolveDims("dims", a.Dims, t.Dim())
	if err != nil {
		return nil, err
	}
	switch (k%4 + 4) % 4 {
	case 1:
		if t, err = flip(t, d[1:]); err != nil {
			return nil, err
		}
		return t.Transpose(d[0], d[1]), nil
	case 2:
		return flip(t, d)
	case 3:
		if t, err = flip(t, d[:1]); err != nil {
			return nil, err
		}
		return t.Transpose(d[0], d[1]), nil
	}
	return t, nil
}

var rot90Op = viewOp[rot90Args]{
	Schema: "rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor",
	Names:  "rot90 Tensor.rot90",
	Doc:    opdef.Doc{Summary: "Rotates a plane of two dimensions by multiples of 90 degrees"},
	Self:   func(a *rot90Args) *tensor.Tensor { return a.Self },
	View:   func(a *rot90Args, t *tensor.Tensor) (*tensor.Tensor, error) { return a.rotated(t, a.K) },
	Back:   func(a *rot90Args, g *tensor.Tensor) *tensor.Tensor { return opdef.Must(a.rotated(g, -a.K)) },
	Cases: opdef.Calls[rot90Args](`
		f32[2, 3]; f64[2, 3, 2], k=-1, dims=[1, 2]; f32[2, 3], k=2; f32[0, 3], k=3; i64[2, 2]{0..9}, k=4`),
}.Entry()
