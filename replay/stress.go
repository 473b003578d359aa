package replay

import (
	"bytes"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A layout is another way to lay the arguments of a call out in memory. The
// values stay the same, so the results must too.
type layout struct {
	name string
	// strides in elements of a tensor with elements, and how many elements lie
	// before its first; ok is false if the layout does not apply.
	strides func(t *tensor.Tensor) (stride []int, offset int, ok bool)
}

// repeatedLayout is the layout in which elements are one: what a call writes cannot have it.
const repeatedLayout = "stride 0"

// layouts are those of the stress test.
var layouts = []layout{
	{"non-contiguous", func(t *tensor.Tensor) ([]int, int, bool) { // a gap after each element
		s := tensor.Contiguous(t.Shape)
		for i := range s {
			s[i] *= 2
		}
		return s, 0, t.Dim() > 0
	}},
	{"transposed", func(t *tensor.Tensor) ([]int, int, bool) {
		order := make([]int, t.Dim())
		for i := range order {
			order[i] = t.Dim() - 1 - i
		}
		return orderedStrides(t.Shape, order), 0, t.Dim() > 1
	}},
	{"storage offset", func(t *tensor.Tensor) ([]int, int, bool) { return tensor.Contiguous(t.Shape), 1, true }},
	{repeatedLayout, repeatedStrides},
	{"channels last", func(t *tensor.Tensor) ([]int, int, bool) {
		if t.Dim() != 4 && t.Dim() != 5 {
			return nil, 0, false
		}
		order := []int{0}
		for i := 2; i < t.Dim(); i++ {
			order = append(order, i)
		}
		return orderedStrides(t.Shape, append(order, 1)), 0, true
	}},
}

// orderedStrides are the strides of a tensor without gaps whose dimensions lie
// in memory in the given order, outermost first.
func orderedStrides(shape, order []int) []int {
	s, n := make([]int, len(shape)), 1
	for _, d := range slices.Backward(order) {
		s[d] = n
		n *= shape[d]
	}
	return s
}

// repeatedStrides gives stride 0 to dimensions along which all elements are
// equal, those of size 1 included.
func repeatedStrides(t *tensor.Tensor) ([]int, int, bool) {
	shape := slices.Clone(t.Shape)
	for d := range shape {
		if shape[d] > 1 && constantAlong(t, d) {
			shape[d] = 1
		}
	}
	s, changed := tensor.Contiguous(shape), false
	for d := range shape {
		if shape[d] == 1 {
			s[d], changed = 0, true
		}
	}
	return s, 0, changed
}

func constantAlong(t *tensor.Tensor, d int) bool {
	first := t.Slice(d, 0, 1, 1).AppendBytes(nil)
	for i := 1; i < t.Shape[d]; i++ {
		if !bytes.Equal(first, t.Slice(d, i, 1, 1).AppendBytes(nil)) {
			return false
		}
	}
	return true
}

// gapByte fills the memory between elements, with a value that an operator which
// reads it would not get away with.
const gapByte = 0x7b

// withStrides copies t into memory with the given strides.
func withStrides(t *tensor.Tensor, stride []int, offset int) (*tensor.Tensor, error) {
	size := t.DType.Size()
	n := offset + 1
	for d, s := range stride {
		n += (t.Shape[d] - 1) * s
	}
	dst := bytes.Repeat([]byte{gapByte}, n*size)
	src := t.AppendBytes(nil)
	index := make([]int, t.Dim())
	at := offset
	for len(src) > 0 {
		copy(dst[at*size:], src[:size])
		src = src[size:]
		for d := len(index) - 1; d >= 0; d-- {
			index[d]++
			at += stride[d]
			if index[d] < t.Shape[d] {
				break
			}
			at -= index[d] * stride[d]
			index[d] = 0
		}
	}
	u, err := tensor.NewView(tensor.NewStorage(dst), tensor.View{DType: t.DType, Shape: slices.Clone(t.Shape),
		Stride: stride, Offset: offset})
	if err != nil {
		return nil, err
	}
	u.RequiresGrad, u.Device = t.RequiresGrad, t.Device
	return u, nil
}

// stress runs the call in all layouts that apply to some argument, then with
// transposed results and on no elements.
func (r *comparison) stress(c *DeviceCall) {
	if c.Call.CountsInStorage() { // what it gives depends on the layout
		return
	}
	for _, l := range layouts {
		changed := false
		done := map[*tensor.Tensor]*tensor.Tensor{} // the same tensor stays the same
		call := c.Call.Map(func(a opdef.Arg) *tensor.Tensor {
			t := a.Tensor
			if t.Wrapped || t.Numel() == 0 || !t.DType.Computable() {
				return t
			}
			if _, changes := c.Forward.After[a.Name]; changes && l.name == repeatedLayout {
				return t
			}
			if u := done[t]; u != nil {
				return u
			}
			done[t] = t
			stride, offset, ok := l.strides(t)
			if !ok || slices.Equal(stride, t.Stride) && offset == t.Offset {
				return t
			}
			u, err := withStrides(t, stride, offset)
			if err != nil {
				return t
			}
			done[t], changed = u, true
			return u
		})
		if changed && !(c.Forward.Written && l.name == repeatedLayout) {
			d := *c
			d.Call, d.OutputsStrided = call, true
			r.runOnDevice(&d, l.name)
		}
	}
	if !c.Forward.Written && slices.ContainsFunc(c.Forward.Outs, func(t *tensor.Tensor) bool {
		return t.Dim() > 1 && t.Numel() > 1
	}) {
		d := *c
		d.OutputsTransposed = true
		r.runOnDevice(&d, "transposed results")
	}
	r.stressEmpty(c)
}

// stressEmpty runs the call on no elements: the first dimension of the first
// argument, and of those that share its length and rank, is cut to nothing.
// Calls that the reference then refuses are left out.
func (r *comparison) stressEmpty(c *DeviceCall) {
	args := c.Call.Tensors()
	if c.Forward.Written || len(args) == 0 || args[0].Tensor.Dim() == 0 || args[0].Tensor.Numel() == 0 {
		return
	}
	first := args[0].Tensor
	call := c.Call.Map(func(a opdef.Arg) *tensor.Tensor {
		t := a.Tensor
		if t.Dim() != first.Dim() || t.Shape[0] != first.Shape[0] {
			return t
		}
		s := t.Slice(0, 0, 0, 1)
		s.RequiresGrad = t.RequiresGrad
		return s
	})
	fwd, err := call.Forward()
	if err != nil {
		return
	}
	at := len(r.out.Results)
	r.runOnDevice(&DeviceCall{Call: call, Forward: fwd}, "no elements")
	for i := range r.out.Results[at:] { // that there is nothing to compare is what was wanted
		if res := &r.out.Results[at+i]; res.Verdict == verdict.Mistrusted {
			res.Verdict, res.Reason = verdict.Pass, ""
		}
	}
}
