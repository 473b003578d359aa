package ops

import (
	"math"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// poolOps reduce windows of one to three spatial dimensions.
var poolOps = slices.Concat(
	maxPoolOps(1), maxPoolOps(2), maxPoolOps(3),
	avgPoolOps(1), avgPoolOps(2), avgPoolOps(3),
	adaptivePoolOps(1), adaptivePoolOps(2), adaptivePoolOps(3),
	unpoolOps(1), unpoolOps(2), unpoolOps(3),
	fractionalPoolOps(2), fractionalPoolOps(3),
	lpPoolOps(1), lpPoolOps(2), lpPoolOps(3),
)

// planes is a tensor seen as rows of planes, one for each sample and channel,
// of up to three dimensions (unused leading ones have size 1).
type planes struct {
	t    *tensor.Tensor
	nd   int
	size [3]int
	rows int
}

// planesOf checks that the argument has nd spatial dimensions after channels
// and, if there is one, the batch; only the batch may be empty.
func planesOf(arg string, t *tensor.Tensor, nd int) (planes, error) {
	p := planes{t: t, nd: nd, size: [3]int{1, 1, 1}, rows: 1}
	if t.Dim() != nd+1 && t.Dim() != nd+2 {
		return p, opdef.Refuse(arg, "want %d or %d dimensions, got shape %s", nd+1, nd+2, tensor.ShapeString(t.Shape))
	}
	lead := t.Dim() - nd
	for d, n := range t.Shape {
		if n == 0 && (d > 0 || lead == 1) {
			return p, opdef.Refuse(arg, "want no empty dimension but the batch, got shape %s",
				tensor.ShapeString(t.Shape))
		}
		if d < lead {
			p.rows *= n
		}
	}
	copy(p.size[3-nd:], t.Shape[lead:])
	return p, nil
}

// shape is the shape with other spatial sizes.
func (p planes) shape(size [3]int) []int {
	return append(slices.Clone(p.t.Shape[:p.t.Dim()-p.nd]), size[3-p.nd:]...)
}

func (p planes) volume() int { return p.size[0] * p.size[1] * p.size[2] }

// A pooling is a checked call: its windows and, for averages, what each sum is
// divided by.
type pooling struct {
	planes
	win     kernel.Windows
	divide  [3][]int // factors of the divisor per dimension
	divisor int      // overrides them
	squeeze bool     // torch computes it in two dimensions and views the result
}

// poolingOf is a pooling of input without its windows; check refuses dtypes.
func poolingOf(input *tensor.Tensor, nd int, check func(arg string, t *tensor.Tensor) error) (*pooling, error) {
	in, err := planesOf("input", input, nd)
	if err != nil {
		return nil, err
	}
	return &pooling{planes: in, squeeze: nd == 1}, check("input", input)
}

func (p *pooling) outShape() []int { return p.shape(p.win.Out()) }

// slidingWindows sets windows of a kernel that moves by stride; ceil adds a
// window that starts inside the input or its left padding but ends beyond.
func (p *pooling) slidingWindows(kernelSize, stride, padding, dilation []int, ceil bool) error {
	if len(stride) == 0 {
		stride = kernelSize
	}
	k, err := spatial("kernel_size", kernelSize, p.nd, 1, 1)
	if err != nil {
		return err
	}
	s, err := spatial("stride", stride, p.nd, 1, 1)
	if err != nil {
		return err
	}
	pad, err := spatial("padding", padding, p.nd, 0, 0)
	if err != nil {
		return err
	}
	dil, err := spatial("dilation", dilation, p.nd, 1, 1)
	if err != nil {
		return err
	}
	p.win = kernel.Windows{In: p.size, Step: dil}
	for d, n := range p.size {
		if 2*pad[d] > k[d] {
			return opdef.Refuse("padding", "%d is more than half of kernel size %d", pad[d], k[d])
		}
		span := dil[d]*(k[d]-1) + 1
		room := n + 2*pad[d] - span
		if room < 0 && !(ceil && room > -s[d]) {
			return opdef.Refuse("input", "padded size %d is smaller than the window's %d", n+2*pad[d], span)
		}
		count := floorQuo(room, s[d]) + 1
		if ceil {
			count = ceilQuo(room, s[d]) + 1
			if (count-1)*s[d] >= n+pad[d] {
				count--
			}
		}
		if count < 1 {
			return opdef.Refuse("input", "output size %d is too small", count)
		}
		for o := range count {
			lo := o*s[d] - pad[d]
			hi := min(lo+span, n+pad[d])
			p.divide[d] = append(p.divide[d], hi-lo)
			for lo < 0 {
				lo += dil[d]
			}
			p.win.Lo[d] = append(p.win.Lo[d], lo)
			p.win.Hi[d] = append(p.win.Hi[d], min(hi, n))
		}
	}
	return nil
}

func floorQuo(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func ceilQuo(a, b int) int { return -floorQuo(-a, b) }

// adaptiveWindows divides the input into as many windows as outputs, of nearly
// equal size, overlapping where the sizes do not divide.
func (p *pooling) adaptiveWindows(size value.Value) error {
	seq, ok := size.(*value.Sequence)
	if !ok {
		seq = value.NewList(slices.Repeat([]value.Value{size}, p.nd)...)
	}
	if len(seq.Items) == 1 {
		seq = value.NewList(slices.Repeat(seq.Items, p.nd)...)
	}
	if len(seq.Items) != p.nd {
		return opdef.Refuse("output_size", "want %d numbers, got %d", p.nd, len(seq.Items))
	}
	p.win = kernel.Windows{In: p.size, Step: [3]int{1, 1, 1}}
	for d, n := range p.size {
		count := n
		if k := d - 3 + p.nd; k >= 0 && seq.Items[k] != nil {
			v, ok := seq.Items[k].(int64)
			if !ok {
				return opdef.Refuse("output_size", "want whole numbers or None, got %s", opdef.TypeName(seq.Items[k]))
			}
			if v < 0 {
				return opdef.Refuse("output_size", "want no negative number, got %d", v)
			}
			count = int(v)
		}
		p.win.Lo[d], p.win.Hi[d], p.divide[d] = []int{}, []int{}, []int{}
		for o := range count {
			lo, hi := o*n/count, ((o+1)*n+count-1)/count
			p.win.Lo[d] = append(p.win.Lo[d], lo)
			p.win.Hi[d] = append(p.win.Hi[d], hi)
			p.divide[d] = append(p.divide[d], hi-lo)
		}
	}
	return nil
}

// countInside leaves padding out of what sums are divided by.
func (p *pooling) countInside() {
	for d := range p.divide {
		for o := range p.divide[d] {
			p.divide[d][o] = p.win.Hi[d][o] - p.win.Lo[d][o]
		}
	}
}

// largestWindow is the number of elements of the largest window.
func (p *pooling) largestWindow() int {
	n := 1
	for d := range p.win.Lo {
		m := 1
		for o, lo := range p.win.Lo[d] {
			m = max(m, (p.win.Hi[d][o]-lo+p.win.Step[d]-1)/p.win.Step[d])
		}
		n *= m
	}
	return n
}

// overlap is the largest number of windows an element lies in.
func (p *pooling) overlap() int {
	n := 1
	for d, size := range p.size {
		m, count := 1, make([]int, size)
		for o, lo := range p.win.Lo[d] {
			for i := lo; i < p.win.Hi[d][o]; i += p.win.Step[d] {
				count[i]++
				m = max(m, count[i])
			}
		}
		n *= m
	}
	return n
}

// argmax returns the index of the largest element of every window of a plane.
func (p *pooling) argmax(row int, at []int) {
	keys := opdef.Scratch[int64](p.volume())
	defer opdef.Release(keys)
	if !p.t.DType.IsFloat() {
		tensor.Load(p.t, row*p.volume(), *keys)
		kernel.Max(&p.win, *keys, false, at)
		return
	}
	x := opdef.Scratch[float64](p.volume())
	tensor.Load(p.t, row*p.volume(), *x)
	kernel.Keys(*keys, *x)
	opdef.Release(x)
	kernel.Max(&p.win, *keys, true, at)
}

// max gives the largest elements and their indices in the plane.
func (p *pooling) max() (values, indices *tensor.Tensor) {
	shape := p.outShape()
	m := tensor.Numel(shape) / max(p.rows, 1)
	at := make([]int64, p.rows*m)
	tensor.Parallel(p.rows, 1, func(lo, hi int) {
		buf := make([]int, m)
		for row := lo; row < hi; row++ {
			p.argmax(row, buf)
			for i, k := range buf {
				at[row*m+i] = int64(k)
			}
		}
	})
	indices = tensor.New(tensor.Int64, shape, at)
	return gatherPlanes(p.planes, shape, at), indices
}

// gatherPlanes picks element at[i] of the plane for each output i; -1 stands
// for an empty window.
func gatherPlanes(p planes, shape []int, at []int64) *tensor.Tensor {
	if p.t.DType.IsFloat() {
		return gatherPlanesAs[float64](p, shape, at)
	}
	return gatherPlanesAs[int64](p, shape, at)
}

func gatherPlanesAs[T float64 | int64](p planes, shape []int, at []int64) *tensor.Tensor {
	m, n := len(at)/max(p.rows, 1), p.volume()
	return opdef.Rows(p.t.DType, shape, m, func(row int, dst []T) {
		x := opdef.Scratch[T](n)
		tensor.Load(p.t, row*n, *x)
		for i, k := range at[row*m : (row+1)*m] {
			if k < 0 {
				dst[i] = lowest[T]()
				continue
			}
			dst[i] = (*x)[k]
		}
		opdef.Release(x)
	})
}

// lowest is the maximum of no elements.
func lowest[T float64 | int64]() T {
	var v T
	switch p := any(&v).(type) {
	case *float64:
		*p = math.Inf(-1)
	case *int64:
		*p = math.MinInt64
	}
	return v
}

// scatterPlanes adds element i of each plane of g to element at[i] of a plane
// of p's size.
func scatterPlanes(p planes, g *tensor.Tensor, at []int64) *tensor.Tensor {
	m := len(at) / max(p.rows, 1)
	return opdef.Rows(g.DType, p.t.Shape, p.volume(), func(row int, dst []float64) {
		clear(dst)
		s := opdef.Scratch[float64](m)
		tensor.Load(g, row*m, *s)
		for i, k := range at[row*m : (row+1)*m] {
			if k >= 0 {
				dst[k] += (*s)[i]
			}
		}
		opdef.Release(s)
	})
}

// axes is the linear map that adds the windows.
func (p *pooling) axes() *kernel.Axes {
	m := &kernel.Axes{}
	for d := range m {
		m[d].In = p.size[d]
		for o, lo := range p.win.Lo[d] {
			m[d].Add(max(0, p.win.Hi[d][o]-lo), func(j int) (int, float64) { return lo + j, 1 })
		}
	}
	return m
}

// divisors calls f with each output of a plane and what its sum is divided by.
func (p *pooling) divisors(f func(i int, by float64)) {
	i := 0
	for _, a := range p.divide[0] {
		for _, b := range p.divide[1] {
			for _, c := range p.divide[2] {
				by := float64(a * b * c)
				if p.divisor != 0 {
					by = float64(p.divisor)
				}
				f(i, by)
				i++
			}
		}
	}
}

// mean gives the averages of the windows; of integers, truncated.
func (p *pooling) mean() *tensor.Tensor {
	y := resample(p.t.DType, p.planes, p.outShape(), p.axes(), func(dst []float64) {
		p.divisors(func(i int, by float64) { dst[i] /= by })
	})
	if !p.t.DType.IsFloat() {
		return opdef.Map(p.t.DType, y, func(x float64) int64 { return int64(x) })
	}
	return y
}

// meanGrad is the gradient of mean.
func (p *pooling) meanGrad(g *tensor.Tensor) *tensor.Tensor {
	return resampleGrad(p.planes, g, p.axes(), func(src []float64) {
		p.divisors(func(i int, by float64) { src[i] /= by })
	})
}

// resample applies a separable map to every plane, then finish to the result.
func resample(dt tensor.DType, p planes, shape []int, m *kernel.Axes, finish func(dst []float64)) *tensor.Tensor {
	n := p.volume()
	return opdef.Rows(dt, shape, m[0].Out*m[1].Out*m[2].Out, func(row int, dst []float64) {
		x, a, b := opdef.Scratch[float64](n), opdef.Scratch[float64](m.Scratch()), opdef.Scratch[float64](m.Scratch())
		tensor.Load(p.t, row*n, *x)
		m.Apply(*x, dst, [2][]float64{*a, *b})
		if finish != nil {
			finish(dst)
		}
		opdef.Release(x)
		opdef.Release(a)
		opdef.Release(b)
	})
}

// resampleGrad applies the transpose of a separable map to every plane of g,
// after start.
func resampleGrad(p planes, g *tensor.Tensor, m *kernel.Axes, start func(src []float64)) *tensor.Tensor {
	n := m[0].Out * m[1].Out * m[2].Out
	return opdef.Rows(g.DType, p.t.Shape, p.volume(), func(row int, dst []float64) {
		y, a, b := opdef.Scratch[float64](n), opdef.Scratch[float64](m.Scratch()), opdef.Scratch[float64](m.Scratch())
		tensor.Load(g, row*n, *y)
		if start != nil {
			start(*y)
		}
		m.Adjoint(*y, dst, [2][]float64{*a, *b})
		opdef.Release(y)
		opdef.Release(a)
		opdef.Release(b)
	})
}
