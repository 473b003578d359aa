package ops

import (
	"math/cmplx"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
)

// An operand is a factor of a contraction: a tensor and one label per
// dimension. The contraction sums the product of all operands over the labels
// that the result does not carry, as einsum does. A dimension of size 1 is
// broadcast against other dimensions of the same label.
type operand struct {
	t    *tensor.Tensor
	axes []int
}

// labelSizes is the size of each label over all operands.
func labelSizes(ops []operand) map[int]int {
	size := map[int]int{}
	for _, o := range ops {
		for d, l := range o.axes {
			if old, ok := size[l]; !ok || old == 1 {
				size[l] = o.t.Shape[d]
			}
		}
	}
	return size
}

// contract computes the contraction of ops in the compute type of dt; the
// result has dtype dt and one dimension per label of out. size gives labels of
// out that no operand carries.
func contract(dt tensor.DType, ops []operand, out []int, size map[int]int) *tensor.Tensor {
	switch dt.Kind() {
	case tensor.KindFloat:
		return contractAs[float64](dt, ops, out, size)
	case tensor.KindComplex:
		return contractAs[complex128](dt, ops, out, size)
	}
	return contractAs[int64](dt, ops, out, size)
}

func contractAs[T kernel.Number](dt tensor.DType, ops []operand, out []int, size map[int]int) *tensor.Tensor {
	plain := make([]operand, len(ops))
	for i, o := range ops {
		plain[i] = o.simplify(size)
	}
	acc := plain[0]
	for i, o := range plain[1:] {
		wanted := func(l int) bool {
			return slices.Contains(out, l) ||
				slices.ContainsFunc(plain[i+2:], func(o operand) bool { return slices.Contains(o.axes, l) })
		}
		acc = acc.sumExcept(dt, func(l int) bool { return wanted(l) || slices.Contains(o.axes, l) })
		o = o.sumExcept(dt, func(l int) bool { return wanted(l) || slices.Contains(acc.axes, l) })
		acc = pairProduct[T](dt, acc, o, wanted)
	}
	acc = acc.sumExcept(dt, func(l int) bool { return slices.Contains(out, l) })
	return acc.arrange(dt, out, size)
}

// simplify takes the diagonal of repeated labels and drops dimensions of size
// 1, so that every label is there once.
func (o operand) simplify(size map[int]int) operand {
	var shape, stride, axes []int
	for d, l := range o.axes {
		n := o.t.Shape[d]
		if n == 1 {
			continue
		}
		if k := slices.Index(axes, l); k >= 0 {
			stride[k] += o.t.Stride[d]
			continue
		}
		shape, stride, axes = append(shape, n), append(stride, o.t.Stride[d]), append(axes, l)
	}
	if len(axes) == len(o.axes) {
		return o
	}
	if o.t.IsContiguous() && tensor.Numel(shape) == o.t.Numel() {
		return operand{o.t.Reshape(shape...), axes}
	}
	t, err := o.t.Strided(shape, stride, o.t.Offset)
	if err != nil { // a part of a valid tensor
		panic(err)
	}
	return operand{t, axes}
}

// sumExcept adds o over the labels that keep rejects.
func (o operand) sumExcept(dt tensor.DType, keep func(int) bool) operand {
	var dims, axes []int
	for d, l := range o.axes {
		if keep(l) {
			axes = append(axes, l)
		} else {
			dims = append(dims, d)
		}
	}
	if dims == nil {
		return o
	}
	return operand{opdef.Sum(dt, o.t, dims, false), axes}
}

// arrange permutes and expands o to the labels out.
func (o operand) arrange(dt tensor.DType, out []int, size map[int]int) *tensor.Tensor {
	t := opdef.Cast(o.t, dt)
	var order, shape, full []int
	for _, l := range out {
		if k := slices.Index(o.axes, l); k >= 0 {
			order = append(order, k)
			shape = append(shape, o.t.Shape[k])
		} else {
			shape = append(shape, 1)
		}
		full = append(full, size[l])
	}
	if !slices.IsSorted(order) {
		t = t.Permute(order...)
	}
	t, err := t.Reshape(shape...).Expand(full...)
	if err != nil { // sizes were taken from the operands
		panic(err)
	}
	return t
}

// pairProduct contracts two operands over the labels that both carry and wanted
// rejects, as a batch of matrix products.
func pairProduct[T kernel.Number](dt tensor.DType, a, b operand, wanted func(int) bool) operand {
	var batch, inner, left, right []int
	for _, l := range a.axes {
		switch {
		case !slices.Contains(b.axes, l):
			left = append(left, l)
		case wanted(l):
			batch = append(batch, l)
		default:
			inner = append(inner, l)
		}
	}
	for _, l := range b.axes {
		if !slices.Contains(a.axes, l) {
			right = append(right, l)
		}
	}
	var axes, shape []int
	nb, k := 1, 1
	for _, l := range batch {
		axes = append(axes, l)
		shape = append(shape, a.size(l))
		nb *= a.size(l)
	}
	for _, l := range inner {
		k *= a.size(l)
	}
	m, n := 1, 1
	for _, l := range left {
		axes = append(axes, l)
		shape = append(shape, a.size(l))
		m *= a.size(l)
	}
	for _, l := range right {
		axes = append(axes, l)
		shape = append(shape, b.size(l))
		n *= b.size(l)
	}
	c := make([]T, nb*m*n)
	if len(c) > 0 {
		am, bm := matrices[T](a, batch, left, inner, m, k), matrices[T](b, batch, inner, right, k, n)
		one := func(i int) {
			kernel.Gemm(am(i), bm(i), 0, kernel.Dense(m, n, c[i*m*n:(i+1)*m*n]))
		}
		tensor.Parallel(nb, max(1, 1<<14/(m*n*k+1)), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				one(i)
			}
		})
	}
	return operand{tensor.New(dt, shape, c), axes}
}

func (o operand) size(label int) int { return o.t.Shape[slices.Index(o.axes, label)] }

// matrices returns the i-th matrix of a batch: o with its labels grouped as
// batch, rows, cols. It reads o in the order it is stored in where that is rows
// by columns or columns by rows.
func matrices[T kernel.Number](o operand, batch, rows, cols []int, m, n int) func(i int) kernel.Matrix[T] {
	view := func(groups ...[]int) *tensor.Tensor {
		var order []int
		for _, l := range slices.Concat(groups...) {
			order = append(order, slices.Index(o.axes, l))
		}
		if slices.IsSorted(order) {
			return o.t
		}
		return o.t.Permute(order...)
	}
	t := view(batch, rows, cols)
	trans := n == 1
	if !t.IsContiguous() {
		if u := view(batch, cols, rows); u.IsContiguous() {
			t, trans = u, true
		}
	}
	data := tensor.Data[T](t)
	return func(i int) kernel.Matrix[T] {
		part := data[i*m*n : (i+1)*m*n]
		if trans {
			return kernel.Dense(n, m, part).T()
		}
		return kernel.Dense(m, n, part)
	}
}

// contractGrad is the gradient of operand i of a contraction with result labels
// out, given the gradient g of the result.
func contractGrad(dt tensor.DType, ops []operand, out []int, size map[int]int, g *tensor.Tensor, i int) *tensor.Tensor {
	self := ops[i]
	rest := []operand{{g, out}}
	for k, o := range ops {
		if k != i {
			rest = append(rest, operand{conj(o.t), o.axes})
		}
	}
	// Labels of self once each, without those that were broadcast.
	var own []int
	for d, l := range self.axes {
		if !slices.Contains(own, l) && self.t.Shape[d] == size[l] {
			own = append(own, l)
		}
	}
	t := contract(dt, rest, own, size)
	if len(own) < len(self.axes) {
		t = undiagonal(dt, t, own, self)
	}
	return t
}

// undiagonal places t, whose dimensions are labelled own, on the diagonal of
// zeros of the shape of like.
func undiagonal(dt tensor.DType, t *tensor.Tensor, own []int, like operand) *tensor.Tensor {
	stride := make([]int, len(own))
	shared := false
	for d, st := range tensor.Contiguous(like.t.Shape) {
		if k := slices.Index(own, like.axes[d]); k >= 0 {
			shared = shared || stride[k] != 0
			stride[k] += st
		}
	}
	if !shared {
		return t.Reshape(like.t.Shape...)
	}
	if dt.IsComplex() {
		return tensor.New(dt, like.t.Shape, spread(tensor.Data[complex128](t), t.Shape, stride, like.t.Numel()))
	}
	return tensor.New(dt, like.t.Shape, spread(tensor.Data[float64](t), t.Shape, stride, like.t.Numel()))
}

// spread stores src, of the given shape, in a slice of n zeros at strides.
func spread[T kernel.Number](src []T, shape, stride []int, n int) []T {
	dst := make([]T, n)
	idx := make([]int, len(shape))
	at := 0
	for _, x := range src {
		dst[at] = x
		for d := len(shape) - 1; d >= 0; d-- {
			idx[d]++
			at += stride[d]
			if idx[d] < shape[d] {
				break
			}
			at -= shape[d] * stride[d]
			idx[d] = 0
		}
	}
	return dst
}

// conj is t with its elements conjugated; t itself if it is real.
func conj(t *tensor.Tensor) *tensor.Tensor {
	if !t.DType.IsComplex() {
		return t
	}
	return opdef.Map(t.DType, t, cmplx.Conj)
}

// A product is what a call of a multilinear op comes down to:
// beta*base + alpha*contraction(ops), with the dimensions of the contraction
// merged to shape.
type product struct {
	ops     []operand
	args    []string // the argument each operand is; "" for a constant
	out     []int    // labels of the contraction
	shape   []int    // of the result; nil: a dimension per label of out
	base    *tensor.Tensor
	baseArg string
	// beta and alpha are nil for 1. With beta 0 the base is not read.
	beta, alpha *opdef.Scalar
	conj        bool // the first operand is the conjugate of its argument
	promote     bool // operands may differ in dtype
	numeric     bool // defined for bool too
}

// dtype is the dtype of the result, after torch's checks.
func (p *product) dtype() (tensor.DType, error) {
	all := make([]*tensor.Tensor, 0, len(p.ops)+1)
	for _, o := range p.ops {
		all = append(all, o.t)
	}
	if p.base != nil {
		all = append(all, p.base)
	}
	if p.promote {
		dt, _, err := opdef.Common(all...)
		return dt, err
	}
	dt := all[0].DType
	for i, t := range all {
		if t.DType != dt {
			arg := p.baseArg
			if i < len(p.args) {
				arg = p.args[i]
			}
			return dt, opdef.Refuse(arg, "want dtype %s as of argument %q, got %s", dt, p.args[0], t.DType)
		}
	}
	if dt == tensor.Bool && !p.numeric {
		return dt, opdef.Refuse(p.args[0], "not defined for dtype bool")
	}
	for name, s := range map[string]*opdef.Scalar{"beta": p.beta, "alpha": p.alpha} {
		if s != nil && s.Kind() == tensor.KindComplex && !dt.IsComplex() { // a float is truncated for integers
			return dt, opdef.Refuse(name, "%s does not scale dtype %s", s, dt)
		}
	}
	return dt, nil
}

func (p *product) kernel() ([]*tensor.Tensor, error) {
	dt, err := p.dtype()
	if err != nil {
		return nil, err
	}
	size := labelSizes(p.ops)
	t := contract(dt, p.ops, p.out, size)
	if p.shape != nil {
		t = t.Reshape(p.shape...)
	}
	if p.alpha != nil {
		t = scaledBy(t, *p.alpha)
	}
	if p.base == nil {
		return []*tensor.Tensor{t}, nil
	}
	base, err := p.base.Expand(t.Shape...)
	if err != nil {
		return nil, opdef.Refuse(p.baseArg, "%v", err)
	}
	if p.beta != nil {
		if p.beta.Complex128() == 0 {
			return []*tensor.Tensor{t}, nil
		}
		base = scaledBy(base, *p.beta)
	}
	return []*tensor.Tensor{sumOf(dt, t, base)}, nil
}

// scaledBy is k*t in t's compute type.
func scaledBy(t *tensor.Tensor, k opdef.Scalar) *tensor.Tensor {
	switch t.DType.Kind() {
	case tensor.KindComplex:
		c := k.Complex128()
		return opdef.Map(t.DType, t, func(x complex128) complex128 { return c * x })
	case tensor.KindFloat:
		f := k.Float64()
		return opdef.Map(t.DType, t, func(x float64) float64 { return f * x })
	}
	i := k.Int64()
	return opdef.Map(t.DType, t, func(x int64) int64 { return i * x })
}

// sumOf is a + b with dtype dt; the shapes are equal.
func sumOf(dt tensor.DType, a, b *tensor.Tensor) *tensor.Tensor {
	switch dt.Kind() {
	case tensor.KindComplex:
		return opdef.Zip(dt, a, b, func(x, y complex128) complex128 { return x + y })
	case tensor.KindFloat:
		return opdef.Zip(dt, a, b, func(x, y float64) float64 { return x + y })
	}
	return opdef.Zip(dt, a, b, func(x, y int64) int64 { return x + y })
}

func conjScalar(k opdef.Scalar) opdef.Scalar {
	if k.Kind() == tensor.KindComplex {
		return opdef.Cplx(cmplx.Conj(k.Complex128()))
	}
	return k
}

// grads are the gradients by argument; several operands of one argument are
// items of a list.
func (p *product) grads(g *opdef.Grad) (opdef.Grads, error) {
	dt := g.Outs[0].DType
	size := labelSizes(p.ops)
	top := g.Out[0]
	if p.alpha != nil {
		top = scaledBy(top, conjScalar(*p.alpha))
	}
	if p.shape != nil {
		shape := make([]int, len(p.out))
		for i, l := range p.out {
			shape[i] = size[l]
		}
		top = top.Reshape(shape...)
	}
	gr := opdef.Grads{}
	for i, arg := range p.args {
		if arg == "" {
			continue
		}
		if !g.Need(arg) {
			gr[arg] = append(gr[arg], nil)
			continue
		}
		t := contractGrad(dt, p.ops, p.out, size, top, i)
		if p.conj && i == 0 {
			t = conj(t)
		}
		gr[arg] = append(gr[arg], t)
	}
	if p.base != nil {
		b := g.Out[0]
		if p.beta != nil {
			b = scaledBy(b, conjScalar(*p.beta))
		}
		gr.Set(p.baseArg, opdef.SumTo(b, p.base.Shape))
	}
	return gr, nil
}

// terms is the number of terms added to make one element of the result.
func (p *product) terms() int {
	n := 1
	for l, k := range labelSizes(p.ops) {
		if !slices.Contains(p.out, l) {
			n *= k
		}
	}
	if p.base != nil {
		n++
	}
	return n
}

// gradTerms is the largest number of terms added to make an element of a
// gradient.
func (p *product) gradTerms() int {
	size := labelSizes(p.ops)
	n := 1
	for _, o := range p.ops {
		k := 1
		for l, s := range size {
			if !slices.Contains(o.axes, l) {
				k *= s
			}
		}
		n = max(n, k)
	}
	if p.base != nil {
		out := 1
		for _, l := range p.out {
			out *= size[l]
		}
		n = max(n, out/max(p.base.Numel(), 1))
	}
	return n
}

// multilinear completes the declaration of an op whose calls are products.
func multilinear[A any](op opdef.Op[A], plan func(a *A) (*product, error)) *opdef.Entry {
	op.Error = opdef.Error{Class: opdef.Accumulated}
	op.Kernel = func(a *A) ([]*tensor.Tensor, error) {
		p, err := plan(a)
		if err != nil {
			return nil, err
		}
		return p.kernel()
	}
	op.Grad = func(a *A, g *opdef.Grad) (opdef.Grads, error) {
		p, err := plan(a)
		if err != nil {
			return nil, err
		}
		return p.grads(g)
	}
	op.Terms = func(a *A) int {
		if p, err := plan(a); err == nil {
			return p.terms()
		}
		return 1
	}
	op.Products = func(a *A) float64 { return float64(op.Terms(a)) }
	op.GradTerms = func(a *A) int {
		if p, err := plan(a); err == nil {
			return p.gradTerms()
		}
		return 1
	}
	return op.Entry()
}
