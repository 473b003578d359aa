package ops

import (
	"fmt"
	"math"
	"math/rand/v2"
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
			return p, opdef.Refuse(arg, "want no empty dimension but the batch, got shape %s", tensor.ShapeString(t.Shape))
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

type maxPoolArgs struct {
	Input                                 *tensor.Tensor
	KernelSize, Stride, Padding, Dilation []int
	CeilMode, ReturnIndices               bool
}

func (a *maxPoolArgs) plan(nd int) (*pooling, error) {
	in, err := planesOf("input", a.Input, nd)
	if err != nil {
		return nil, err
	}
	if err := realNumbers("input", a.Input); err != nil {
		return nil, err
	}
	p := &pooling{planes: in, squeeze: nd == 1}
	return p, p.slidingWindows(a.KernelSize, a.Stride, a.Padding, a.Dilation, a.CeilMode)
}

// realNumbers refuses complex and bool tensors.
func realNumbers(arg string, t *tensor.Tensor) error {
	if t.DType.IsComplex() || t.DType == tensor.Bool {
		return opdef.Refuse(arg, "not defined for dtype %s", t.DType)
	}
	return nil
}

// wantFloat refuses tensors that are not of a real floating dtype.
func wantFloat(arg string, t *tensor.Tensor) error {
	if !t.DType.IsFloat() {
		return opdef.Refuse(arg, "not defined for dtype %s", t.DType)
	}
	return nil
}

// maxPoolOf completes the declaration of an op whose calls are max poolings.
// withIndices tells whether a call returns the indices too.
func maxPoolOf[A any](op opdef.Op[A], arg string, plan func(a *A) (*pooling, error), withIndices func(a *A) bool) *opdef.Entry {
	op.Error = opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}}
	op.Kernel = func(a *A) ([]*tensor.Tensor, error) {
		p, err := plan(a)
		if err != nil {
			return nil, err
		}
		v, i := p.max()
		if withIndices(a) {
			return []*tensor.Tensor{v, i}, nil
		}
		return []*tensor.Tensor{v}, nil
	}
	op.Grad = func(a *A, g *opdef.Grad) (opdef.Grads, error) {
		p, err := plan(a)
		if err != nil {
			return nil, err
		}
		var at *tensor.Tensor
		if len(g.Outs) > 1 {
			at = g.Outs[1]
		} else {
			_, at = p.max()
		}
		return opdef.Grads{arg: {scatterPlanes(p.planes, g.Out[0], tensor.Data[int64](at))}}, nil
	}
	op.GradScale = magnitudeGrad(op.Grad)
	op.GradTerms = func(a *A) int {
		if p, err := plan(a); err == nil {
			return p.overlap()
		}
		return 1
	}
	op.Node = squeezedNode(plan)
	return op.Entry()
}

// magnitudeGrad is the scale of a gradient that is linear in the gradient of
// the result with non-negative coefficients: itself on magnitudes.
func magnitudeGrad[A any](grad func(a *A, g *opdef.Grad) (opdef.Grads, error)) func(a *A, g *opdef.Grad, grads opdef.Grads) (opdef.Grads, error) {
	return func(a *A, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
		out := make([]*tensor.Tensor, len(g.Out))
		for i, t := range g.Out {
			if t != nil {
				out[i] = opdef.Abs(t)
			}
		}
		return grad(a, opdef.NewGrad(g.Outs, out, nil))
	}
}

// squeezedNode: poolings of one dimension run in two and drop one of size 1.
func squeezedNode[A any](plan func(a *A) (*pooling, error)) func(a *A, g *opdef.Grad) (opdef.Node, error) {
	return func(a *A, g *opdef.Grad) (opdef.Node, error) {
		p, err := plan(a)
		if err != nil || !p.squeeze {
			return opdef.Node{}, err
		}
		shape := p.outShape()
		return reshaped(g, slices.Insert(shape, len(shape)-1, 1)...), nil
	}
}

func maxPoolOps(nd int) []*opdef.Entry {
	name := fmt.Sprintf("max_pool%dd", nd)
	args := fmt.Sprintf("Tensor input, int[%d] kernel_size, int[%d]? stride=None, int[%d] padding=0, int[%d] dilation=1, bool ceil_mode=False, bool return_indices=False", nd, nd, nd, nd)
	doc := opdef.Doc{
		Summary: fmt.Sprintf("Largest element of sliding windows of %d dimensions", nd),
		Formula: "max over k of input[n, c, p*stride - padding + k*dilation]",
		Notes:   "Of equal elements the first counts, of NaNs the last; return_indices adds the index in the input plane.", Source: "torch.nn.functional." + name,
	}
	cases := func(r *rand.Rand) []*maxPoolArgs {
		g := opdef.Gen{R: r}
		list := func(n int) []int { return slices.Repeat([]int{n}, nd) }
		in := func(lead []int, n int) []int { return append(lead, list(n)...) }
		f32, f64 := tensor.Float32, tensor.Float64
		return []*maxPoolArgs{
			{g.Distinct(f64, in([]int{2, 2}, 4)...), list(2), nil, list(0), list(1), false, false},
			{g.Distinct(f64, in([]int{1, 2}, 5)...), list(3), list(2), list(1), list(1), true, true},
			{g.Distinct(f32, in([]int{2}, 5)...), list(2), list(1), list(1), list(2), false, false},
			{g.Distinct(tensor.BFloat16, in([]int{1, 1}, 4)...), list(2), list(2), list(0), list(1), true, true},
			{g.Distinct(f32, in([]int{0, 2}, 4)...), list(2), nil, list(0), list(1), false, false},
			{opdef.NonContiguous(g.Distinct(f64, in([]int{2, 2}, 4)...)), list(2), nil, list(0), list(1), false, false},
		}
	}
	both := []*opdef.Entry{
		maxPoolOf(opdef.Op[maxPoolArgs]{Schema: name + "(" + args + ") -> Tensor", Names: name + " F." + name, Doc: doc, Cases: cases}, "input",
			func(a *maxPoolArgs) (*pooling, error) { return a.plan(nd) }, func(a *maxPoolArgs) bool { return a.ReturnIndices }),
		maxPoolOf(opdef.Op[maxPoolArgs]{
			Schema: name + "_with_indices(" + args + ") -> (Tensor, Tensor)",
			Names:  "F." + name + "_with_indices _C._nn." + name + "_with_indices" + map[bool]string{true: " max_pool1d_with_indices"}[nd == 1], Doc: doc, Cases: cases,
			DIOPI: name + " return_indices=True -return_indices",
		}, "input", func(a *maxPoolArgs) (*pooling, error) { return a.plan(nd) }, func(*maxPoolArgs) bool { return true }),
	}
	return both
}

type avgPoolArgs struct {
	Input                       *tensor.Tensor
	KernelSize, Stride, Padding []int
	CeilMode, CountIncludePad   bool
	DivisorOverride             *int
}

type avgPool1dArgs struct {
	Input                       *tensor.Tensor
	KernelSize, Stride, Padding []int
	CeilMode, CountIncludePad   bool
}

func (a *avgPoolArgs) plan(nd int) (*pooling, error) {
	in, err := planesOf("input", a.Input, nd)
	if err != nil {
		return nil, err
	}
	if err := realNumbers("input", a.Input); err != nil {
		return nil, err
	}
	p := &pooling{planes: in, squeeze: nd == 1}
	if err := p.slidingWindows(a.KernelSize, a.Stride, a.Padding, []int{1}, a.CeilMode); err != nil {
		return nil, err
	}
	if !a.CountIncludePad {
		p.countInside()
	}
	if a.DivisorOverride != nil {
		if p.divisor = *a.DivisorOverride; p.divisor == 0 {
			return nil, opdef.Refuse("divisor_override", "want a number other than 0")
		}
	}
	return p, nil
}

// meanPoolOf completes the declaration of an op whose calls are averages.
func meanPoolOf[A any](op opdef.Op[A], arg string, plan func(a *A) (*pooling, error)) *opdef.Entry {
	op.Error = opdef.Error{Class: opdef.Accumulated}
	op.Kernel = func(a *A) ([]*tensor.Tensor, error) {
		p, err := plan(a)
		if err != nil {
			return nil, err
		}
		return []*tensor.Tensor{p.mean()}, nil
	}
	op.Grad = func(a *A, g *opdef.Grad) (opdef.Grads, error) {
		p, err := plan(a)
		if err != nil {
			return nil, err
		}
		return opdef.Grads{arg: {p.meanGrad(g.Out[0])}}, nil
	}
	op.Terms = func(a *A) int {
		if p, err := plan(a); err == nil {
			return p.largestWindow()
		}
		return 1
	}
	op.GradTerms = func(a *A) int {
		if p, err := plan(a); err == nil {
			return p.overlap()
		}
		return 1
	}
	op.Node = squeezedNode(plan)
	return op.Entry()
}

func avgPoolOps(nd int) []*opdef.Entry {
	name := fmt.Sprintf("avg_pool%dd", nd)
	args := fmt.Sprintf("Tensor input, int[%d] kernel_size, int[%d]? stride=None, int[%d] padding=0, bool ceil_mode=False, bool count_include_pad=True", nd, nd, nd)
	doc := opdef.Doc{
		Summary: fmt.Sprintf("Average of sliding windows of %d dimensions", nd),
		Formula: "mean over k of input[n, c, p*stride - padding + k]",
		Notes:   "The divisor counts padding unless count_include_pad is false, never what lies beyond it; divisor_override replaces it.", Source: "torch.nn.functional." + name,
	}
	list := func(n int) []int { return slices.Repeat([]int{n}, nd) }
	cases := func(r *rand.Rand) []*avgPoolArgs {
		g := opdef.Gen{R: r}
		in := func(lead []int, n int) []int { return append(lead, list(n)...) }
		f32, f64 := tensor.Float32, tensor.Float64
		three := 3
		return []*avgPoolArgs{
			{g.Normal(f64, in([]int{2, 2}, 4)...), list(2), nil, list(0), false, true, nil},
			{g.Normal(f64, in([]int{1, 2}, 5)...), list(3), list(2), list(1), true, true, nil},
			{g.Normal(f64, in([]int{1, 2}, 4)...), list(3), list(2), list(1), true, false, nil},
			{g.Normal(f32, in([]int{2}, 5)...), list(2), list(1), list(1), false, false, &three},
			{g.Normal(tensor.BFloat16, in([]int{1, 1}, 4)...), list(2), list(2), list(0), true, true, nil},
			{g.Normal(f32, in([]int{0, 2}, 4)...), list(2), nil, list(0), false, true, nil},
			{opdef.NonContiguous(g.Normal(f64, in([]int{2, 2}, 4)...)), list(2), nil, list(0), false, true, nil},
		}
	}
	if nd == 1 {
		return []*opdef.Entry{meanPoolOf(opdef.Op[avgPool1dArgs]{
			Schema: name + "(" + args + ") -> Tensor", Names: name + " F." + name, Doc: doc,
			Cases: func(r *rand.Rand) (cs []*avgPool1dArgs) {
				for _, a := range cases(r) {
					cs = append(cs, &avgPool1dArgs{a.Input, a.KernelSize, a.Stride, a.Padding, a.CeilMode, a.CountIncludePad})
				}
				return cs
			},
		}, "input", func(a *avgPool1dArgs) (*pooling, error) {
			return (&avgPoolArgs{a.Input, a.KernelSize, a.Stride, a.Padding, a.CeilMode, a.CountIncludePad, nil}).plan(1)
		})}
	}
	return []*opdef.Entry{meanPoolOf(opdef.Op[avgPoolArgs]{
		Schema: name + "(" + args + ", int? divisor_override=None) -> Tensor", Names: "F." + name + " _C._nn." + name, Doc: doc, Cases: cases,
	}, "input", func(a *avgPoolArgs) (*pooling, error) { return a.plan(nd) })}
}

type adaptiveAvgArgs struct {
	Input      *tensor.Tensor
	OutputSize value.Value
}

type adaptiveMaxArgs struct {
	Input         *tensor.Tensor
	OutputSize    value.Value
	ReturnIndices bool
}

func adaptivePlan(x *tensor.Tensor, size value.Value, nd int) (*pooling, error) {
	in, err := planesOf("input", x, nd)
	if err != nil {
		return nil, err
	}
	if err := wantFloat("input", x); err != nil {
		return nil, err
	}
	p := &pooling{planes: in, squeeze: nd == 1}
	return p, p.adaptiveWindows(size)
}

func adaptivePoolOps(nd int) []*opdef.Entry {
	avg, most := fmt.Sprintf("adaptive_avg_pool%dd", nd), fmt.Sprintf("adaptive_max_pool%dd", nd)
	notes := "output_size is a number or one per dimension; None keeps the input's size. Windows overlap where the sizes do not divide."
	sizes := func() []value.Value {
		three := make([]value.Value, nd)
		for d := range three {
			three[d] = int64(2 + d)
		}
		none := slices.Clone(three)
		none[0] = nil
		return []value.Value{int64(1), int64(3), value.NewTuple(three...), value.NewList(none...)}
	}
	plan := func(a *adaptiveMaxArgs) (*pooling, error) { return adaptivePlan(a.Input, a.OutputSize, nd) }
	maxCases := func(r *rand.Rand) (cs []*adaptiveMaxArgs) {
		g := opdef.Gen{R: r}
		for i, s := range sizes() {
			cs = append(cs, &adaptiveMaxArgs{g.Distinct(tensor.Float64, append([]int{2, 2}, slices.Repeat([]int{5}, nd)...)...), s, i%2 == 0})
		}
		return append(cs, &adaptiveMaxArgs{g.Distinct(tensor.Float32, append([]int{2}, slices.Repeat([]int{4}, nd)...)...), int64(3), false})
	}
	maxDoc := opdef.Doc{Summary: fmt.Sprintf("Largest element of windows that divide %d dimensions", nd), Formula: "max of input[floor(o*in/out) : ceil((o+1)*in/out)]", Notes: notes, Source: "torch.nn.functional." + most}
	avgNames := "F." + avg + " _C._nn." + avg
	maxNames := "F." + most
	withIndices := "F." + most + "_with_indices _C._nn." + most
	if nd == 1 {
		avgNames, withIndices = avg+" F."+avg, most+" F."+most+"_with_indices"
	}
	return []*opdef.Entry{
		meanPoolOf(opdef.Op[adaptiveAvgArgs]{
			Schema: avg + "(Tensor input, any output_size) -> Tensor", Names: avgNames,
			Doc: opdef.Doc{Summary: fmt.Sprintf("Average of windows that divide %d dimensions", nd), Formula: "mean of input[floor(o*in/out) : ceil((o+1)*in/out)]", Notes: notes, Source: "torch.nn.functional." + avg},
			Cases: func(r *rand.Rand) (cs []*adaptiveAvgArgs) {
				g := opdef.Gen{R: r}
				for _, s := range sizes() {
					cs = append(cs, &adaptiveAvgArgs{g.Normal(tensor.Float64, append([]int{2, 2}, slices.Repeat([]int{5}, nd)...)...), s})
				}
				return append(cs, &adaptiveAvgArgs{g.Normal(tensor.BFloat16, append([]int{2}, slices.Repeat([]int{4}, nd)...)...), int64(3)})
			},
		}, "input", func(a *adaptiveAvgArgs) (*pooling, error) { return adaptivePlan(a.Input, a.OutputSize, nd) }),
		maxPoolOf(opdef.Op[adaptiveMaxArgs]{
			Schema: most + "(Tensor input, any output_size, bool return_indices=False) -> Tensor", Names: maxNames, Doc: maxDoc, Cases: maxCases,
		}, "input", plan, func(a *adaptiveMaxArgs) bool { return a.ReturnIndices }),
		maxPoolOf(opdef.Op[adaptiveMaxArgs]{
			Schema: most + "_with_indices(Tensor input, any output_size, bool return_indices=False) -> (Tensor, Tensor)", Names: withIndices, Doc: maxDoc, Cases: maxCases,
			DIOPI: most + " return_indices=True -return_indices",
		}, "input", plan, func(*adaptiveMaxArgs) bool { return true }),
	}
}

type unpoolArgs struct {
	Input, Indices              *tensor.Tensor
	KernelSize, Stride, Padding []int
	OutputSize                  []int
}

// unpool checks the call and gives the planes of the input, the shape of the
// result and the indices.
func (a *unpoolArgs) plan(nd int) (planes, []int, []int64, error) {
	fail := func(err error) (planes, []int, []int64, error) { return planes{}, nil, nil, err }
	p, err := planesOf("input", a.Input, nd)
	if err != nil {
		return fail(err)
	}
	if err := realNumbers("input", a.Input); err != nil {
		return fail(err)
	}
	if a.Indices.DType != tensor.Int64 {
		return fail(opdef.Refuse("indices", "want dtype int64, got %s", a.Indices.DType))
	}
	if !slices.Equal(a.Indices.Shape, a.Input.Shape) {
		return fail(opdef.Refuse("indices", "want shape %s as of input, got %s", tensor.ShapeString(a.Input.Shape), tensor.ShapeString(a.Indices.Shape)))
	}
	stride := a.Stride
	if len(stride) == 0 {
		stride = a.KernelSize
	}
	k, err := spatial("kernel_size", a.KernelSize, nd, 1, 1)
	if err != nil {
		return fail(err)
	}
	s, err := spatial("stride", stride, nd, 1, 1)
	if err != nil {
		return fail(err)
	}
	pad, err := spatial("padding", a.Padding, nd, 0, 0)
	if err != nil {
		return fail(err)
	}
	var size [3]int
	for d := range size {
		size[d] = (p.size[d]-1)*s[d] - 2*pad[d] + k[d]
	}
	if len(a.OutputSize) > 0 {
		given := a.OutputSize
		if len(given) == nd+2 {
			given = given[2:]
		}
		if len(given) != nd {
			return fail(opdef.Refuse("output_size", "want %d numbers, got %d", nd, len(a.OutputSize)))
		}
		for d, n := range given {
			def := size[3-nd+d]
			if n <= def-s[3-nd+d] || n >= def+s[3-nd+d] {
				return fail(opdef.Refuse("output_size", "%d is not within a stride of %d", n, def))
			}
			size[3-nd+d] = n
		}
	}
	shape, volume := p.shape(size), int64(size[0]*size[1]*size[2])
	at := tensor.Data[int64](a.Indices)
	for _, i := range at {
		if i < 0 || i >= volume {
			return fail(opdef.Refuse("indices", "%d is out of range for planes of %d elements", i, volume))
		}
	}
	return p, shape, at, nil
}

func unpoolOps(nd int) []*opdef.Entry {
	name := fmt.Sprintf("max_unpool%dd", nd)
	return []*opdef.Entry{opdef.Op[unpoolArgs]{
		Schema: fmt.Sprintf("%s(Tensor input, Tensor indices, int[%d] kernel_size, int[%d]? stride=None, int[%d] padding=0, int[]? output_size=None) -> Tensor", name, nd, nd, nd),
		Names:  "F." + name,
		Doc: opdef.Doc{
			Summary: fmt.Sprintf("Partial inverse of max_pool%dd: elements placed at the indices it returned, zeros elsewhere", nd),
			Formula: "out[n, c, indices[n, c, i]] = input[n, c, i]", Notes: "Of elements with equal indices the last counts.", Source: "torch.nn.functional." + name,
		},
		Error: opdef.Error{Class: opdef.Exact},
		Kernel: func(a *unpoolArgs) ([]*tensor.Tensor, error) {
			p, shape, at, err := a.plan(nd)
			if err != nil {
				return nil, err
			}
			if a.Input.DType.IsFloat() {
				return []*tensor.Tensor{placePlanes[float64](p, shape, at)}, nil
			}
			return []*tensor.Tensor{placePlanes[int64](p, shape, at)}, nil
		},
		Grad: func(a *unpoolArgs, g *opdef.Grad) (opdef.Grads, error) {
			_, _, at, err := a.plan(nd)
			if err != nil {
				return nil, err
			}
			out, err := planesOf("input", g.Out[0], nd)
			if err != nil {
				return nil, err
			}
			return opdef.Grads{"input": {gatherPlanes(out, a.Input.Shape, at)}}, nil
		},
		Cases: func(r *rand.Rand) (cs []*unpoolArgs) {
			g := opdef.Gen{R: r}
			for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.BFloat16} {
				x := g.Distinct(dt, append([]int{2, 1}, slices.Repeat([]int{4}, nd)...)...)
				two := slices.Repeat([]int{2}, nd)
				in, err := planesOf("input", x, nd)
				p := &pooling{planes: in}
				if err == nil {
					err = p.slidingWindows(two, nil, []int{0}, []int{1}, false)
				}
				if err != nil {
					panic(err)
				}
				_, at := p.max()
				cs = append(cs, &unpoolArgs{g.Normal(dt, p.outShape()...), at, two, nil, slices.Repeat([]int{0}, nd), nil})
			}
			return cs
		},
	}.Entry()}
}

func placePlanes[T float64 | int64](p planes, shape []int, at []int64) *tensor.Tensor {
	m, n := p.volume(), tensor.Numel(shape)/max(p.rows, 1)
	return opdef.Rows(p.t.DType, shape, n, func(row int, dst []T) {
		clear(dst)
		s := opdef.Scratch[T](m)
		tensor.Load(p.t, row*m, *s)
		for i, k := range at[row*m : (row+1)*m] {
			dst[k] = (*s)[i]
		}
		opdef.Release(s)
	})
}

type fractionalArgs struct {
	Input         *tensor.Tensor
	KernelSize    []int
	OutputSize    []int
	OutputRatio   []float64
	ReturnIndices bool
	RandomSamples *tensor.Tensor
}

// plan sets pseudo-random windows from the samples, one triple a channel.
// Source: aten/src/ATen/native/FractionalMaxPool2d.cpp
func (a *fractionalArgs) plan(nd int) (in planes, k, out [3]int, err error) {
	if in, err = planesOf("input", a.Input, nd); err != nil {
		return
	}
	if err = wantFloat("input", a.Input); err != nil {
		return
	}
	if k, err = spatial("kernel_size", a.KernelSize, nd, 1, 1); err != nil {
		return
	}
	switch {
	case a.OutputSize != nil:
		out, err = spatial("output_size", a.OutputSize, nd, 1, 1)
	case a.OutputRatio == nil:
		err = opdef.Refuse("output_size", "want output_size or output_ratio")
	case len(a.OutputRatio) != nd:
		err = opdef.Refuse("output_ratio", "want %d numbers, got %d", nd, len(a.OutputRatio))
	default:
		out = [3]int{1, 1, 1}
		for d, r := range a.OutputRatio {
			if !(r > 0 && r < 1) {
				err = opdef.Refuse("output_ratio", "want numbers between 0 and 1, got %v", r)
				return
			}
			out[3-nd+d] = int(float64(in.size[3-nd+d]) * r)
		}
	}
	for d := range out {
		if err == nil && out[d] < 1 {
			err = opdef.Refuse("output_ratio", "output size %d is too small", out[d])
		}
		if err == nil && out[d]+k[d]-1 > in.size[d] {
			err = opdef.Refuse("kernel_size", "%d windows of %d do not fit size %d", out[d], k[d], in.size[d])
		}
	}
	return
}

// fractionalStarts are the first elements of the windows of one dimension.
func fractionalStarts(in, out, k int, sample float64, single bool) []int {
	at := make([]int, out)
	if out > 1 {
		alpha := float64(in-k) / float64(out-1)
		if single {
			alpha = float64(float32(in-k) / float32(out-1))
		}
		for i := range out - 1 {
			if single {
				at[i] = int((float32(i)+float32(sample))*float32(alpha)) - int(float32(sample)*float32(alpha))
			} else {
				at[i] = int((float64(i)+sample)*alpha) - int(sample*alpha)
			}
		}
	}
	at[out-1] = in - k
	return at
}

func (a *fractionalArgs) max(nd int) (values, indices *tensor.Tensor, p planes, err error) {
	in, k, out, err := a.plan(nd)
	if err != nil {
		return nil, nil, in, err
	}
	batch, channels := 1, a.Input.Shape[0]
	if a.Input.Dim() == nd+2 {
		batch, channels = channels, a.Input.Shape[1]
	}
	samples := make([]float64, in.rows*nd)
	if s := a.RandomSamples; s != nil {
		if !slices.Equal(s.Shape, []int{batch, channels, nd}) {
			return nil, nil, in, opdef.Refuse("_random_samples", "want shape [%d, %d, %d], got %s", batch, channels, nd, tensor.ShapeString(s.Shape))
		}
		samples = tensor.Data[float64](s)
	}
	shape := in.shape(out)
	m := out[0] * out[1] * out[2]
	at := make([]int64, in.rows*m)
	tensor.Parallel(in.rows, 1, func(lo, hi int) {
		buf := make([]int, m)
		for row := lo; row < hi; row++ {
			p := pooling{planes: in, win: kernel.Windows{In: in.size, Step: [3]int{1, 1, 1}}}
			for d := range 3 {
				sample := 0.0
				if j := d - 3 + nd; j >= 0 { // the samples come in the order width, height, (time): depth first in 3-D
					sample = samples[row*nd+sampleOf(nd, j)]
				}
				for _, s := range fractionalStarts(in.size[d], out[d], k[d], sample, a.Input.DType != tensor.Float64) {
					p.win.Lo[d] = append(p.win.Lo[d], s)
					p.win.Hi[d] = append(p.win.Hi[d], s+k[d])
				}
			}
			p.argmax(row, buf)
			for i, x := range buf {
				at[row*m+i] = int64(x)
			}
		}
	})
	return gatherPlanes(in, shape, at), tensor.New(tensor.Int64, shape, at), in, nil
}

// sampleOf is the position of the sample of spatial dimension d: torch draws
// (width, height) in two dimensions and (time, height, width) in three.
func sampleOf(nd, d int) int {
	if nd == 2 {
		return 1 - d
	}
	return d
}

func fractionalPoolOps(nd int) []*opdef.Entry {
	name := fmt.Sprintf("fractional_max_pool%dd", nd)
	args := fmt.Sprintf("Tensor input, int[%d] kernel_size, int[%d]? output_size=None, float[%d]? output_ratio=None, bool return_indices=False, Tensor? _random_samples=None", nd, nd, nd)
	declare := func(schema, names string, always bool) *opdef.Entry {
		grad := func(a *fractionalArgs, g *opdef.Grad) (opdef.Grads, error) {
			_, at, in, err := a.max(nd)
			if err != nil {
				return nil, err
			}
			gr := opdef.Grads{"input": {scatterPlanes(in, g.Out[0], tensor.Data[int64](at))}}
			if a.RandomSamples != nil {
				gr["_random_samples"] = []*tensor.Tensor{nil}
			}
			return gr, nil
		}
		return opdef.Op[fractionalArgs]{
			Schema: schema, Names: names,
			Doc: opdef.Doc{
				Summary: fmt.Sprintf("Largest element of windows at pseudo-random distances in %d dimensions", nd),
				Formula: "max of input[s(o) : s(o)+k], s(o) = int((o+u)*alpha) - int(u*alpha), alpha = (in-k)/(out-1)",
				Notes:   "u is _random_samples, drawn when absent.", Source: "torch.nn.functional." + name,
			},
			Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}},
			Kernel: func(a *fractionalArgs) ([]*tensor.Tensor, error) {
				v, i, _, err := a.max(nd)
				if err != nil || !always && !a.ReturnIndices {
					return []*tensor.Tensor{v}, err
				}
				return []*tensor.Tensor{v, i}, nil
			},
			Grad:      grad,
			GradScale: magnitudeGrad(grad),
			RandomIf: func(a *fractionalArgs) string {
				if a.RandomSamples == nil {
					return "draws random numbers"
				}
				return ""
			},
			Cases: func(r *rand.Rand) []*fractionalArgs {
				g := opdef.Gen{R: r}
				in := append([]int{2, 2}, slices.Repeat([]int{6}, nd)...)
				s := func(dt tensor.DType) *tensor.Tensor {
					t := g.Uniform(dt, 0, 1, 2, 2, nd)
					t.RequiresGrad = false
					return t
				}
				list := func(n int) []int { return slices.Repeat([]int{n}, nd) }
				return []*fractionalArgs{
					{g.Distinct(tensor.Float64, in...), list(2), list(3), nil, false, s(tensor.Float64)},
					{g.Distinct(tensor.Float32, in...), list(2), nil, slices.Repeat([]float64{0.5}, nd), true, s(tensor.Float32)},
				}
			},
		}.Entry()
	}
	return []*opdef.Entry{
		declare(name+"("+args+") -> Tensor", "F."+name, false),
		declare(name+"_with_indices("+args+") -> (Tensor, Tensor)", "F."+name+"_with_indices", true),
	}
}

type lpPoolArgs struct {
	Input              *tensor.Tensor
	NormType           float64
	KernelSize, Stride []int
	CeilMode           bool
}

// plan is the average that torch multiplies by the window's full size.
func (a *lpPoolArgs) plan(nd int) (*pooling, float64, error) {
	in, err := planesOf("input", a.Input, nd)
	if err != nil {
		return nil, 0, err
	}
	if err := wantFloat("input", a.Input); err != nil {
		return nil, 0, err
	}
	in.t = opdef.Map(a.Input.DType, a.Input, func(x float64) float64 { return math.Pow(x, a.NormType) })
	p := &pooling{planes: in}
	if err := p.slidingWindows(a.KernelSize, a.Stride, []int{0}, []int{1}, a.CeilMode); err != nil {
		return nil, 0, err
	}
	full := 1.0
	for d := range nd {
		full *= float64(a.KernelSize[min(d, len(a.KernelSize)-1)])
	}
	return p, full, nil
}

func lpPoolOps(nd int) []*opdef.Entry {
	name := fmt.Sprintf("lp_pool%dd", nd)
	// inner is the power sum whose root is taken.
	inner := func(a *lpPoolArgs) (*pooling, float64, *tensor.Tensor, error) {
		p, full, err := a.plan(nd)
		if err != nil {
			return nil, 0, nil, err
		}
		return p, full, opdef.Map(a.Input.DType, p.mean(), func(x float64) float64 { return full * x }), nil
	}
	// rootGrad is the gradient that flows into the power sum.
	rootGrad := func(a *lpPoolArgs, s, g *tensor.Tensor) *tensor.Tensor {
		q := 1 / a.NormType
		return opdef.Zip(a.Input.DType, g, s, func(g, s float64) float64 {
			if g == 0 && s == 0 {
				return 0
			}
			return g * q * math.Pow(s, q-1)
		})
	}
	return []*opdef.Entry{opdef.Op[lpPoolArgs]{
		Schema: fmt.Sprintf("%s(Tensor input, float norm_type, int[%d] kernel_size, int[%d]? stride=None, bool ceil_mode=False) -> Tensor", name, nd, nd),
		Names:  "F." + name,
		Doc: opdef.Doc{
			Summary: fmt.Sprintf("Power average of sliding windows of %d dimensions", nd), Formula: "(sum over the window of input^p)^(1/p)",
			Notes: "A window cut off by ceil_mode counts as if it were whole.", Source: "torch.nn.functional." + name,
		},
		Error: opdef.Error{Class: opdef.Elementwise, ULPs: 8},
		Kernel: func(a *lpPoolArgs) ([]*tensor.Tensor, error) {
			_, _, s, err := inner(a)
			if err != nil {
				return nil, err
			}
			return []*tensor.Tensor{opdef.Map(a.Input.DType, s, func(x float64) float64 { return math.Pow(x, 1/a.NormType) })}, nil
		},
		Scale: func(a *lpPoolArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			b := *a
			b.Input = opdef.Abs(a.Input)
			_, _, s, err := inner(a)
			_, _, t, err2 := inner(&b)
			if err != nil || err2 != nil {
				return []*tensor.Tensor{opdef.Abs(outs[0])}
			}
			return []*tensor.Tensor{opdef.ZipN(tensor.Float64, outs[0].Shape, func(dst []float64, v [][]float64) {
				for i, y := range v[0] { // the relative error of the sum, carried through the root
					dst[i] = math.Abs(y) * math.Max(1, v[2][i]/math.Abs(v[1][i])/a.NormType)
				}
			}, outs[0], s, t)}
		},
		Terms: func(a *lpPoolArgs) int {
			if p, _, err := a.plan(nd); err == nil {
				return p.largestWindow()
			}
			return 1
		},
		Grad: func(a *lpPoolArgs, g *opdef.Grad) (opdef.Grads, error) {
			p, full, s, err := inner(a)
			if err != nil {
				return nil, err
			}
			ds := rootGrad(a, s, g.Out[0])
			dp := p.meanGrad(opdef.Map(a.Input.DType, ds, func(x float64) float64 { return full * x }))
			return opdef.Grads{"input": {opdef.Zip(a.Input.DType, dp, a.Input, func(d, x float64) float64 {
				return d * a.NormType * math.Pow(x, a.NormType-1)
			})}}, nil
		},
		Node: func(a *lpPoolArgs, g *opdef.Grad) (opdef.Node, error) {
			_, _, s, err := inner(a)
			if err != nil {
				return opdef.Node{}, err
			}
			return opdef.Node{Grads: []*tensor.Tensor{rootGrad(a, s, g.Out[0])}}, nil
		},
		Cases: func(r *rand.Rand) []*lpPoolArgs {
			g := opdef.Gen{R: r}
			list := func(n int) []int { return slices.Repeat([]int{n}, nd) }
			in := append([]int{2, 2}, list(5)...)
			return []*lpPoolArgs{
				{g.Uniform(tensor.Float64, 0.5, 2, in...), 2, list(2), nil, false},
				{g.Uniform(tensor.Float64, 0.5, 2, in...), 3, list(3), list(2), true},
				{g.Uniform(tensor.Float32, 0.5, 2, in...), 1.5, list(2), list(1), false},
			}
		},
	}.Entry()}
}
