package diopi

import (
	"slices"

	"github.com/optool/optool/tensor"
)

// A layout is an order of a tensor's dimensions in memory that the names of
// convert_config.yaml stand for.
type layout int

const (
	rowMajorLayout layout = iota // NCL, NCHW, NCDHW: of any rank
	channelsLast1d               // NLC, NHWC, NDHWC: of one rank each
	channelsLast2d
	channelsLast3d
	denseLayout // ND: any order without gaps
)

var layouts = map[string]layout{
	"NCL": rowMajorLayout, "NCHW": rowMajorLayout, "NCDHW": rowMajorLayout,
	"NLC": channelsLast1d, "NHWC": channelsLast2d, "NDHWC": channelsLast3d,
	"ND": denseLayout,
}

// String is how a tensor in the layout is described.
func (l layout) String() string {
	return [...]string{"row-major", "channels-last", "channels-last", "channels-last", "dense"}[l]
}

// suits says whether tensors of a rank have the layout.
func (l layout) suits(rank int) bool {
	switch l {
	case channelsLast1d:
		return rank == 3
	case channelsLast2d:
		return rank == 4
	case channelsLast3d:
		return rank == 5
	}
	return true
}

// order are the dimensions from the one that runs slowest.
func (l layout) order(rank int) []int {
	order := make([]int, rank)
	for i := range order {
		order[i] = i
	}
	if l == channelsLast1d || l == channelsLast2d || l == channelsLast3d {
		copy(order[1:], order[2:])
		order[rank-1] = 1
	}
	return order
}

// stride are the strides of a tensor in the layout, row-major for denseLayout; nil
// is row-major.
func (l layout) stride(shape []int) []int {
	if l == rowMajorLayout || l == denseLayout {
		return nil
	}
	stride, step := make([]int, len(shape)), 1
	for _, d := range slices.Backward(l.order(len(shape))) {
		stride[d] = step
		step *= max(1, shape[d])
	}
	return stride
}

// has says whether t lies in the layout. The stride of a dimension of size 1
// does not matter, nor does any of a tensor without elements.
func (l layout) has(t *Tensor) bool {
	if t.Stride == nil {
		t = &Tensor{Shape: t.Shape, Stride: tensor.Contiguous(t.Shape)}
	}
	order := l.order(len(t.Shape))
	if l == denseLayout {
		slices.SortStableFunc(order, func(a, b int) int { return t.Stride[b] - t.Stride[a] })
	}
	step := 1
	for _, d := range slices.Backward(order) {
		switch t.Shape[d] {
		case 0:
			return true
		case 1:
			continue
		}
		if t.Stride[d] != step {
			return false
		}
		step *= t.Shape[d]
	}
	return true
}

// closeGaps gives memory to be filled strides without gaps, in the order of those it
// has.
func (p *Plan) closeGaps() {
	for _, c := range p.Calls {
		for _, a := range c.Args {
			if t, ok := a.(*Tensor); ok && t != nil && t.Value == nil && t.CSR == nil && !denseLayout.has(t) {
				order := denseLayout.order(len(t.Shape))
				slices.SortStableFunc(order, func(a, b int) int { return t.Stride[b] - t.Stride[a] })
				stride, step := make([]int, len(t.Shape)), 1
				for _, d := range slices.Backward(order) {
					stride[d] = step
					step *= max(1, t.Shape[d])
				}
				t.Stride = stride
			}
		}
	}
}

// contiguous are the layouts without ND, row-major if that leaves none.
func contiguous(from []layout) []layout {
	to := slices.DeleteFunc(slices.Clone(from), func(l layout) bool { return l == denseLayout })
	if len(to) == 0 {
		return []layout{rowMajorLayout}
	}
	return to
}

// choose is the layout t is converted to: of those for tensors of its rank the
// first, unless it has one of them.
func choose(wanted []layout, t *Tensor) (to layout, convert bool) {
	suitable := slices.DeleteFunc(slices.Clone(wanted), func(l layout) bool { return !l.suits(len(t.Shape)) })
	if len(suitable) == 0 || slices.ContainsFunc(suitable, func(l layout) bool { return l.has(t) }) {
		return 0, false
	}
	return suitable[0], true
}
