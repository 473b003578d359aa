package pooling

import (
	"slices"
	"sync"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// poolOps reduce windows of one to three spatial dimensions.
var poolOps = slices.Concat(
	maxPoolOps(1), maxPoolOps(2), inFloat32(maxPoolOps(3)),
	avgPoolOps(1), avgPoolOps(2), inFloat32(avgPoolOps(3)),
	adaptivePoolOps(1), adaptivePoolOps(2), inFloat32(adaptivePoolOps(3)),
	unpoolOps(1), inFloat32(unpoolOps(2)), inFloat32(unpoolOps(3)),
	inFloat32(fractionalPoolOps(2)), inFloat32(fractionalPoolOps(3)),
	lpPoolOps(1), lpPoolOps(2), inFloat32(lpPoolOps(3)),
)

// inFloat32 are pools that the processor computes in float32 under autocast ("CPU Ops
// that autocast to float32" in the documentation of torch.amp).
func inFloat32(es []*opdef.Entry) []*opdef.Entry {
	for _, e := range es {
		e.WithAutocast(opdef.AutocastFloat32)
	}
	return es
}

// A pooling is a checked call: its windows and, for averages, what each sum is
// divided by.
type pooling struct {
	elements.Planes
	win     kernel.Windows
	divide  [3][]int                       // factors of the divisor per dimension
	divisor int                            // overrides them
	average bool                           // the mean of each window is computed, not the largest element
	divides bool                           // the windows divide the input: adaptive pooling
	beyond  [3][]bool                      // which windows end behind the input, unless they divide it
	indices bool                           // those of the largest elements are a result too
	squeeze bool                           // torch computes it in two dimensions and views the result
	largest func() []int64                 // where the largest elements are: result, gradient and its bound ask
	zeros   bool                           // a mistake: what is beside the input counts as 0
	chosen  func(i int, x float64) float64 // a mistake: what makes elements the largest, of those that get the gradient
	corner  bool                           // a mistake: the last element of windows is left out of sums
}

// poolingOf is a pooling of input without its windows; check refuses dtypes.
func poolingOf(input *tensor.Tensor, nd int, check func(arg string, t *tensor.Tensor) error) (*pooling, error) {
	in, err := elements.PlanesOf("input", input, nd)
	if err != nil {
		return nil, err
	}
	p := &pooling{Planes: in, squeeze: nd == 1}
	p.largest = sync.OnceValue(p.argmaxes)
	return p, check("input", input)
}

func (p *pooling) outShape() []int { return p.Shape(p.win.Out()) }

// slidingWindows sets windows of a kernel that moves by stride; ceil adds a
// window that starts inside the input or its left padding but ends beyond.
func (p *pooling) slidingWindows(kernelSize, stride, padding, dilation []int, ceil bool) error {
	if len(stride) == 0 {
		stride = kernelSize
	}
	k, err := elements.SpatialSizes("kernel_size", kernelSize, p.Dims, 1, 1)
	if err != nil {
		return err
	}
	s, err := elements.SpatialSizes("stride", stride, p.Dims, 1, 1)
	if err != nil {
		return err
	}
	pad, err := elements.SpatialSizes("padding", padding, p.Dims, 0, 0)
	if err != nil {
		return err
	}
	dil, err := elements.SpatialSizes("dilation", dilation, p.Dims, 1, 1)
	if err != nil {
		return err
	}
	p.win = kernel.Windows{In: p.Size, Step: dil}
	for d, n := range p.Size {
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
		for o := range tensor.Steps(count) {
			lo := o*s[d] - pad[d]
			hi := min(lo+span, n+pad[d])
			p.divide[d] = append(p.divide[d], hi-lo)
			for lo < 0 {
				lo += dil[d]
			}
			p.win.Lo[d] = append(p.win.Lo[d], lo)
			p.win.Hi[d] = append(p.win.Hi[d], min(hi, n))
			p.beyond[d] = append(p.beyond[d], o*s[d]-pad[d]+span > n)
		}
	}
	return nil
}

// endsInside reports whether the last element of a window lies in the input.
func (p *pooling) endsInside(d, o int) bool { return p.divides || !p.beyond[d][o] }

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
		seq = value.NewList(slices.Repeat([]value.Value{size}, p.Dims)...)
	}
	if len(seq.Items) == 1 {
		seq = value.NewList(slices.Repeat(seq.Items, p.Dims)...)
	}
	if len(seq.Items) != p.Dims {
		return opdef.Refuse("output_size", "want %d numbers, got %d", p.Dims, len(seq.Items))
	}
	p.win, p.divides = kernel.Windows{In: p.Size, Step: [3]int{1, 1, 1}}, true
	for d, n := range p.Size {
		count := n
		if k := d - 3 + p.Dims; k >= 0 && seq.Items[k] != nil {
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
		for o := range tensor.Steps(count) {
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
		n *= max(p.largestAlong(d), 1)
	}
	return n
}

// overlap is the largest number of windows an element lies in.
func (p *pooling) overlap() int {
	n := 1
	for d, size := range p.Size {
		m, count := 1, tensor.Make[int](size)
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
	keys := opdef.Scratch[int64](p.Volume())
	defer opdef.Release(keys)
	if !p.Tensor.DType.IsFloat() {
		tensor.Load(p.Tensor, row*p.Volume(), *keys)
		kernel.Max(&p.win, *keys, false, at)
		return
	}
	x := opdef.Scratch[float64](p.Volume())
	tensor.Load(p.Tensor, row*p.Volume(), *x)
	kernel.Keys(*keys, *x)
	opdef.Release(x)
	kernel.Max(&p.win, *keys, true, at)
}

// argmaxes are the indices in their plane of the largest elements of all windows.
func (p *pooling) argmaxes() []int64 {
	m := tensor.Numel(p.outShape()) / max(p.Rows, 1)
	at := tensor.Make[int64](p.Rows * m)
	tensor.Parallel(p.Rows, 1, func(lo, hi int) {
		buf := tensor.Make[int](m)
		for row := lo; row < hi; row++ {
			p.argmax(row, buf)
			for i, k := range buf {
				at[row*m+i] = int64(k)
			}
		}
	})
	return at
}

// max gives the largest elements and their indices in the plane.
func (p *pooling) max() (values, indices *tensor.Tensor) {
	at, shape := p.largest(), p.outShape()
	return elements.GatherPlanes(p.Planes, shape, at), tensor.New(tensor.Int64, shape, at)
}

// axes is the linear map that adds the windows.
func (p *pooling) axes() *kernel.Axes {
	m := &kernel.Axes{}
	for d := range m {
		m[d].In = p.Size[d]
		for o, lo := range p.win.Lo[d] {
			m[d].Add(max(0, p.win.Hi[d][o]-lo), func(j int) (int, float64) { return lo + j, 1 })
		}
	}
	return m
}

// lastOf is the linear map that takes the last element of windows that end in the input.
func (p *pooling) lastOf() *kernel.Axes {
	m := &kernel.Axes{}
	for d := range m {
		m[d].In = p.Size[d]
		for o, lo := range p.win.Lo[d] {
			last, n := p.win.Hi[d][o]-1, 0
			if last >= lo && p.endsInside(d, o) {
				n = 1
			}
			m[d].Add(n, func(int) (int, float64) { return last, 1 })
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
	of := func(m *kernel.Axes) *tensor.Tensor {
		return elements.Resample(p.Tensor.DType, p.Planes, p.outShape(), m, func(dst []float64) {
			p.divisors(func(i int, by float64) { dst[i] /= by })
		})
	}
	y := of(p.axes())
	if p.corner {
		y = opdef.Zip(y.DType, y, of(p.lastOf()), func(x, last float64) float64 { return x - last })
	}
	if !p.Tensor.DType.IsFloat() {
		return opdef.Map(p.Tensor.DType, y, func(x float64) int64 { return int64(x) })
	}
	return y
}

// meanGrad is the gradient of mean.
func (p *pooling) meanGrad(g *tensor.Tensor) *tensor.Tensor {
	return elements.ResampleGrad(p.Planes, g, p.axes(), func(src []float64) {
		p.divisors(func(i int, by float64) { src[i] /= by })
	})
}
