package shape

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type asStridedArgs struct {
	Self          *tensor.Tensor
	Size, Stride  []int
	StorageOffset *int
}

// view is the geometry on any tensor that lies in memory as self does.
func (a *asStridedArgs) view(t *tensor.Tensor) (*tensor.Tensor, error) {
	off := t.Offset
	if a.StorageOffset != nil {
		off = *a.StorageOffset
	}
	v, err := t.Strided(slices.Clone(a.Size), slices.Clone(a.Stride), off)
	if err != nil {
		return nil, opdef.Refuse("size", "%v", err)
	}
	return v, nil
}

// grad adds g where the result shows elements of the storage and reads the
// sums where self shows them; elements that self shows k times get a k-th each.
// Source: torch/csrc/autograd/FunctionsManual.cpp, as_strided_backward
func (a *asStridedArgs) grad(g *tensor.Tensor) (*tensor.Tensor, error) {
	self := a.Self
	out, err := a.view(self)
	if err != nil {
		return nil, err
	}
	// The part of the storage that either shows.
	lo := min(self.Offset, out.Offset)
	hi := max(lastElement(self), lastElement(out)) + 1
	place := func(t *tensor.Tensor) runs.Runs {
		v := *t
		v.Offset -= lo
		return runs.OfView(&v)
	}
	store := runs.ScatterAdd([]int{max(hi-lo, 0)}, g, place(out))
	if !self.IsWrittenOnce() {
		ones := elements.Filled(g.DType, self.Shape, opdef.Int(1))
		shown := runs.ScatterAdd(store.Shape, ones, place(self))
		store = opdef.ZipN(g.DType, store.Shape, func(dst []float64, s [][]float64) {
			for i, x := range s[0] {
				dst[i] = x / max(s[1][i], 1)
			}
		}, store, shown)
	}
	return runs.Pick(store, self.Shape, place(self)), nil
}

// lastElement is the highest element of the backing that t shows.
func lastElement(t *tensor.Tensor) int {
	at := t.Offset
	for d, n := range t.Shape {
		if n == 0 {
			return t.Offset - 1
		}
		at += (n - 1) * t.Stride[d]
	}
	return at
}

var asStridedOp = opdef.Op[asStridedArgs]{
	Schema: "as_strided(Tensor self, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
	Names:  "as_strided Tensor.as_strided Tensor.as_strided_ as_strided_copy",
	Doc: opdef.Doc{Summary: "The storage seen with other sizes and strides",
		Notes: "The gradient is that of a tensor with a storage of its own."},
	Error:  elements.MovedError,
	Traits: opdef.Traits{Uncast: "as_strided"},
	Exempt: map[string]string{"strides": "addresses memory by its strides"},
	Kernel: func(a *asStridedArgs) ([]*tensor.Tensor, error) {
		v, err := a.view(a.Self)
		return []*tensor.Tensor{v}, err
	},
	Grad: func(a *asStridedArgs, g *opdef.Grad) (opdef.Grads, error) {
		t, err := a.grad(g.Out[0])
		return opdef.Grads{"self": {t}}, err
	},
	Bounds: opdef.Bounds[*asStridedArgs]{
		GradTerms: func(a *asStridedArgs) int { return max(1, tensor.Numel(a.Size)) },
	},
	Cases: opdef.Calls[asStridedArgs](`
		f32[10], [3, 3], [2, 1], storage_offset=1; f64[4, 4], [4], [5]; f32[3], [], [], storage_offset=1
		f32[3], [2, 0], [1, 1]; i64[6]{0..9}, [2, 3], [1, 2]`),
}.Entry()
