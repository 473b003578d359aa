package devicebridge

import (
	"bytes"
	"slices"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/tensor"
)

// put writes a tensor's value to its memory, in its strides; what lies between
// the elements is set to fill. Dense memory, in any order of dimensions, is
// written in one pass.
func put(memory []byte, b *block, fill byte) {
	v := b.t.Value
	if order, ok := denseOrder(b.t.Shape, b.stride); ok {
		if !slices.IsSorted(order) {
			v = v.Permute(order...)
		}
		v.AppendBytes(memory[:0:len(memory)])
		return
	}
	for i := range memory {
		memory[i] = fill
	}
	size := v.DType.Size()
	dense := v.AppendBytes(quota.Make[byte](v.Numel() * size)[:0])
	each(b.t.Shape, b.stride, func(offset, index int) {
		copy(memory[offset*size:(offset+1)*size], dense[index*size:])
	})
}

// get returns a tensor over a copy of its memory.
func get(memory []byte, dt tensor.DType, shape, stride []int) (*tensor.Tensor, error) {
	content := quota.Make[byte](len(memory))
	copy(content, memory)
	return tensor.NewView(tensor.NewStorage(content), tensor.View{DType: dt, Shape: slices.Clone(shape),
		Stride: slices.Clone(stride)})
}

// denseOrder finds the order of dimensions, slowest first, in which a tensor is
// contiguous.
func denseOrder(shape, stride []int) ([]int, bool) {
	order := make([]int, len(shape))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if stride[a] != stride[b] {
			return stride[b] - stride[a]
		}
		return shape[b] - shape[a]
	})
	product := 1
	for _, d := range slices.Backward(order) {
		if shape[d] != 1 && stride[d] != product {
			return nil, false
		}
		product *= shape[d]
	}
	return order, true
}

// each calls f with the offset in elements and the row-major index of every element.
func each(shape, stride []int, f func(offset, index int)) {
	n := tensor.Numel(shape)
	at := make([]int, len(shape))
	offset := 0
	for index := range n {
		f(offset, index)
		for d := len(shape) - 1; d >= 0; d-- {
			offset += stride[d]
			if at[d]++; at[d] < shape[d] {
				break
			}
			offset -= shape[d] * stride[d]
			at[d] = 0
		}
	}
}

// changed counts the elements of an input that are no longer its value.
func changed(memory []byte, b *block) (count, first int64) {
	size := b.t.DType.Size()
	want := b.t.Value.AppendBytes(make([]byte, 0, b.t.Value.Numel()*size))
	each(b.t.Shape, b.stride, func(offset, index int) {
		if !bytes.Equal(memory[offset*size:(offset+1)*size], want[index*size:(index+1)*size]) {
			if count == 0 {
				first = int64(index)
			}
			count++
		}
	})
	return count, first
}

// unwritten counts the elements that hold one pattern after a run and another
// after a run with that: nothing wrote them.
func unwritten(a, b *tensor.Tensor, patternA, patternB byte) (count, first int64) {
	size := a.DType.Size()
	x := a.AppendBytes(make([]byte, 0, a.Numel()*size))
	y := b.AppendBytes(make([]byte, 0, b.Numel()*size))
	wantX, wantY := bytes.Repeat([]byte{patternA}, size), bytes.Repeat([]byte{patternB}, size)
	for i := 0; i+size <= min(len(x), len(y)); i += size {
		if bytes.Equal(x[i:i+size], wantX) && bytes.Equal(y[i:i+size], wantY) {
			if count == 0 {
				first = int64(i / size)
			}
			count++
		}
	}
	return count, first
}

// role names what a finding is about.
func role(a diopi.Arg) string {
	switch a := a.(type) {
	case *diopi.Tensor:
		return a.Role
	case *diopi.Alloc:
		return a.Role
	case *diopi.Out:
		return a.Role
	}
	return "memory the operator asked for"
}
