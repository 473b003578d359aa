package matmul

import (
	"math/cmplx"
	"slices"
	"sync"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// An Operand is a factor of a contraction: a tensor and one label per
// dimension. The contraction sums the product of all operands over the labels
// that the result does not carry, as einsum does. A dimension of size 1 is
// broadcast against other dimensions of the same label.
type Operand struct {
	T    *tensor.Tensor
	Axes []int
}

// labelSizes is the size of each label over all operands.
func labelSizes(ops []Operand) map[int]int {
	size := map[int]int{}
	for _, o := range ops {
		for d, l := range o.Axes {
			if old, ok := size[l]; !ok || old == 1 {
				size[l] = o.T.Shape[d]
			}
		}
	}
	return size
}

// contract computes the contraction of ops in the compute type of dt; the
// result has dtype dt and one dimension per label of out. size gives labels of
// out that no operand carries.
func contract(dt tensor.DType, ops []Operand, out []int, size map[int]int) *tensor.Tensor {
	switch dt.Kind() {
	case tensor.KindFloat:
		return contractAs[float64](dt, ops, out, size)
	case tensor.KindComplex:
		return contractAs[complex128](dt, ops, out, size)
	}
	return contractAs[int64](dt, ops, out, size)
}

func contractAs[T kernel.Number](dt tensor.DType, ops []Operand, out []int, size map[int]int) *tensor.Tensor {
	plain := make([]Operand, len(ops))
	for i, o := range ops {
		plain[i] = o.simplify(size)
	}
	acc := plain[0]
	for i, o := range plain[1:] {
		wanted := func(l int) bool {
			return slices.Contains(out, l) ||
				slices.ContainsFunc(plain[i+2:], func(o Operand) bool { return slices.Contains(o.Axes, l) })
		}
		acc = acc.sumExcept(dt, func(l int) bool { return wanted(l) || slices.Contains(o.Axes, l) })
		o = o.sumExcept(dt, func(l int) bool { return wanted(l) || slices.Contains(acc.Axes, l) })
		if i == len(plain)-2 && o.leads(acc, out) {
			acc, o = o, acc // the result is in the order of out, and need not be permuted
		}
		acc = pairProduct[T](dt, acc, o, wanted)
	}
	acc = acc.sumExcept(dt, func(l int) bool { return slices.Contains(out, l) })
	return acc.arrange(dt, out, size)
}

// leads reports whether the first label of out that only one of o and other has is o's.
func (o Operand) leads(other Operand, out []int) bool {
	for _, l := range out {
		if mine := slices.Contains(o.Axes, l); mine != slices.Contains(other.Axes, l) {
			return mine
		}
	}
	return false
}

// simplify takes the diagonal of repeated labels and drops dimensions of size
// 1, so that every label is there once.
func (o Operand) simplify(size map[int]int) Operand {
	var shape, stride, axes []int
	for d, l := range o.Axes {
		n := o.T.Shape[d]
		if n == 1 {
			continue
		}
		if k := slices.Index(axes, l); k >= 0 {
			stride[k] += o.T.Stride[d]
			continue
		}
		shape, stride, axes = append(shape, n), append(stride, o.T.Stride[d]), append(axes, l)
	}
	if len(axes) == len(o.Axes) {
		return o
	}
	if o.T.IsContiguous() && tensor.Numel(shape) == o.T.Numel() {
		return Operand{o.T.Reshape(shape...), axes}
	}
	return Operand{opdef.Must(o.T.Strided(shape, stride, o.T.Offset)), axes} // a part of a valid tensor
}

// sumExcept adds o over the labels that keep rejects.
func (o Operand) sumExcept(dt tensor.DType, keep func(int) bool) Operand {
	var dims, axes []int
	for d, l := range o.Axes {
		if keep(l) {
			axes = append(axes, l)
		} else {
			dims = append(dims, d)
		}
	}
	if dims == nil {
		return o
	}
	return Operand{opdef.Sum(dt, o.T, dims, false), axes}
}

// arrange permutes and expands o to the labels out.
func (o Operand) arrange(dt tensor.DType, out []int, size map[int]int) *tensor.Tensor {
	t := opdef.Cast(o.T, dt)
	var order, shape, full []int
	for _, l := range out {
		if k := slices.Index(o.Axes, l); k >= 0 {
			order = append(order, k)
			shape = append(shape, o.T.Shape[k])
		} else {
			shape = append(shape, 1)
		}
		full = append(full, size[l])
	}
	if !slices.IsSorted(order) {
		t = t.Permute(order...)
	}
	return opdef.Must(t.Reshape(shape...).Expand(full...)) // sizes were taken from the operands
}

// pairProduct contracts two operands over the labels that both carry and wanted
// rejects, as a batch of matrix products.
func pairProduct[T kernel.Number](dt tensor.DType, a, b Operand, wanted func(int) bool) Operand {
	var batch, inner, left, right []int
	for _, l := range a.Axes {
		switch {
		case !slices.Contains(b.Axes, l):
			left = append(left, l)
		case wanted(l):
			batch = append(batch, l)
		default:
			inner = append(inner, l)
		}
	}
	for _, l := range b.Axes {
		if !slices.Contains(a.Axes, l) {
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
	am, bm := factorOf[T](a, batch, left, inner, m, k), factorOf[T](b, batch, inner, right, k, n)
	return Operand{tensor.Deferred(int(singly(k)*float64(nb*m*n)), dt, shape, func() []T {
		c := tensor.Make[T](nb * m * n)
		if len(c) == 0 {
			return c
		}
		tensor.Parallel(nb, max(1, 1<<14/(m*n*k+1)), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				kernel.Gemm(am.matrix(i), bm.matrix(i), 0, kernel.Dense(m, n, c[i*m*n:(i+1)*m*n]))
			}
		})
		return c
	}, func(at int) T {
		line, j := at/n, at%n
		return kernel.Dot(am.lines()[line*k:][:k], bm.columns()[(line/m*n+j)*k:][:k])
	}), axes}
}

// singly is the share of the elements of a product of k terms that take as long one by one as all do together, in
// ns: a few for one and another for 20 terms, or some hundred, for what is asked for an element, and one for 6.
func singly(k int) float64 { return (3 + float64(k)/20) / (250 + float64(k)/6) }

func (o Operand) size(label int) int { return o.T.Shape[slices.Index(o.Axes, label)] }

// A factor is a batch of matrices, rows by cols, whose elements follow each other row by row, or
// column by column if trans is set.
type factor[T kernel.Number] struct {
	rows, cols int
	data       []T
	trans      bool
	other      func() []T // the elements in the other order
}

// factorOf is o with its labels grouped as batch, rows, cols, m by n. It reads o in the order
// it is stored in where that is rows by columns or columns by rows.
func factorOf[T kernel.Number](o Operand, batch, rows, cols []int, m, n int) *factor[T] {
	view := func(groups ...[]int) *tensor.Tensor {
		var order []int
		for _, l := range slices.Concat(groups...) {
			order = append(order, slices.Index(o.Axes, l))
		}
		if slices.IsSorted(order) {
			return o.T
		}
		return o.T.Permute(order...)
	}
	t, u := view(batch, rows, cols), view(batch, cols, rows)
	f := &factor[T]{rows: m, cols: n}
	if n == 1 || !t.IsContiguous() && u.IsContiguous() {
		t, u, f.trans = u, t, true
	}
	f.data, f.other = tensor.Data[T](t), sync.OnceValue(func() []T { return tensor.Data[T](u) })
	return f
}

// matrix is the i-th matrix of the batch.
func (f *factor[T]) matrix(i int) kernel.Matrix[T] {
	part := f.data[i*f.rows*f.cols : (i+1)*f.rows*f.cols]
	if f.trans {
		return kernel.Dense(f.cols, f.rows, part).T()
	}
	return kernel.Dense(f.rows, f.cols, part)
}

// lines are the rows of all matrices, one after the other.
func (f *factor[T]) lines() []T {
	if f.trans {
		return f.other()
	}
	return f.data
}

// columns are the columns of all matrices, one after the other.
func (f *factor[T]) columns() []T {
	if f.trans {
		return f.data
	}
	return f.other()
}

// contractGrad is the gradient of operand i of a contraction with result labels
// out, given the gradient g of the result. Its sums are what contract or another function makes of them.
func contractGrad(sums func(tensor.DType, []Operand, []int, map[int]int) *tensor.Tensor, dt tensor.DType, ops []Operand,
	out []int, size map[int]int, g *tensor.Tensor, i int) *tensor.Tensor {
	self := ops[i]
	rest := []Operand{{g, out}}
	for k, o := range ops {
		if k != i {
			rest = append(rest, Operand{elements.Conj(o.T), o.Axes})
		}
	}
	// Labels of self once each, without those that were broadcast.
	var own []int
	for d, l := range self.Axes {
		if !slices.Contains(own, l) && self.T.Shape[d] == size[l] {
			own = append(own, l)
		}
	}
	t := sums(dt, rest, own, size)
	if len(own) < len(self.Axes) {
		t = undiagonal(dt, t, own, self)
	}
	return t
}

// undiagonal places t, whose dimensions are labelled own, on the diagonal of
// zeros of the shape of like.
func undiagonal(dt tensor.DType, t *tensor.Tensor, own []int, like Operand) *tensor.Tensor {
	stride := make([]int, len(own))
	shared := false
	for d, st := range tensor.Contiguous(like.T.Shape) {
		if k := slices.Index(own, like.Axes[d]); k >= 0 {
			shared = shared || stride[k] != 0
			stride[k] += st
		}
	}
	if !shared {
		return t.Reshape(like.T.Shape...)
	}
	if dt.IsComplex() {
		return tensor.New(dt, like.T.Shape, spread(tensor.Data[complex128](t), t.Shape, stride, like.T.Numel()))
	}
	return tensor.New(dt, like.T.Shape, spread(tensor.Data[float64](t), t.Shape, stride, like.T.Numel()))
}

// spread stores src, of the given shape, in a slice of n zeros at strides.
func spread[T kernel.Number](src []T, shape, stride []int, n int) []T {
	dst := tensor.Make[T](n)
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

// A Product is what a call of a multilinear op comes down to:
// beta*base + alpha*contraction(ops), with the dimensions of the contraction
// merged to shape.
type Product struct {
	Ops     []Operand
	Args    []string // the argument each operand is; "" for a constant
	Out     []int    // labels of the contraction
	shape   []int    // of the result; nil: a dimension per label of out
	base    *tensor.Tensor
	baseArg string
	// beta and alpha are nil for 1. With beta 0 the base is not read.
	beta, alpha *opdef.Scalar
	conj        bool // the first operand is the conjugate of its argument
	promote     bool // operands may differ in dtype
	numeric     bool // defined for bool too
	partial     *partialSums
}

// dtype is the dtype of the result, after torch's checks.
func (p *Product) dtype() (tensor.DType, error) {
	all := make([]*tensor.Tensor, 0, len(p.Ops)+1)
	for _, o := range p.Ops {
		all = append(all, o.T)
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
			if i < len(p.Args) {
				arg = p.Args[i]
			}
			return dt, opdef.Refuse(arg, "want dtype %s as of argument %q, got %s", dt, p.Args[0], t.DType)
		}
	}
	if dt == tensor.Bool && !p.numeric {
		return dt, opdef.Refuse(p.Args[0], "not defined for dtype bool")
	}
	for name, s := range map[string]*opdef.Scalar{"beta": p.beta, "alpha": p.alpha} {
		if s != nil && s.Kind() == tensor.KindComplex && !dt.IsComplex() { // a float is truncated for integers
			return dt, opdef.Refuse(name, "%s does not scale dtype %s", s, dt)
		}
	}
	return dt, nil
}

// Kernel is the result, in a list.
func (p *Product) Kernel() ([]*tensor.Tensor, error) {
	dt, err := p.dtype()
	if err != nil {
		return nil, err
	}
	size := labelSizes(p.Ops)
	t := p.contraction(dt, size)
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
	return []*tensor.Tensor{elements.Add(dt, t, base)}, nil
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

func conjScalar(k opdef.Scalar) opdef.Scalar {
	if k.Kind() == tensor.KindComplex {
		return opdef.Cplx(cmplx.Conj(k.Complex128()))
	}
	return k
}

// Grads are the gradients by argument; several operands of one argument are
// items of a list.
func (p *Product) Grads(g *opdef.Grad) (opdef.Grads, error) {
	dt := g.Outs[0].DType
	size := labelSizes(p.Ops)
	top := g.Out[0]
	if p.alpha != nil {
		top = scaledBy(top, conjScalar(*p.alpha))
	}
	if p.shape != nil {
		shape := make([]int, len(p.Out))
		for i, l := range p.Out {
			shape[i] = size[l]
		}
		top = top.Reshape(shape...)
	}
	gr := opdef.Grads{}
	for i, arg := range p.Args {
		if arg == "" {
			continue
		}
		if !g.Need(arg) {
			gr[arg] = append(gr[arg], nil)
			continue
		}
		sums := contract
		if p.partial != nil && p.partial.gradient {
			sums = p.partial.contract
		}
		t := contractGrad(sums, dt, p.Ops, p.Out, size, top, i)
		if p.conj && i == 0 {
			t = elements.Conj(t)
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

// axes are the labels of the operands, if the result has a dimension for each label of out.
func (p *Product) axes() *opdef.Axes {
	if p.shape != nil || p.partial != nil || slices.Contains(p.Args, "") {
		return nil
	}
	a := &opdef.Axes{Args: map[string][][]int{}, Out: p.Out, Added: p.baseArg}
	for i, o := range p.Ops {
		a.Args[p.Args[i]] = append(a.Args[p.Args[i]], o.Axes)
		for d, l := range o.Axes {
			if slices.Contains(o.Axes[:d], l) {
				return nil // a diagonal
			}
			if !slices.Contains(a.Linear, l) {
				a.Linear = append(a.Linear, l)
			}
		}
	}
	if p.base == nil {
		a.Added = ""
		return a
	}
	if p.base.Dim() > len(p.Out) {
		return nil
	}
	a.Args[p.baseArg] = [][]int{p.Out[len(p.Out)-p.base.Dim():]}
	return a
}

// terms is the number of terms added to make one element of the result.
func (p *Product) terms() int {
	n := 1
	for l, k := range labelSizes(p.Ops) {
		if !slices.Contains(p.Out, l) {
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
func (p *Product) gradTerms() int {
	size := labelSizes(p.Ops)
	n := 1
	for _, o := range p.Ops {
		k := 1
		for l, s := range size {
			if !slices.Contains(o.Axes, l) {
				k *= s
			}
		}
		n = max(n, k)
	}
	if p.base != nil {
		out := 1
		for _, l := range p.Out {
			out *= size[l]
		}
		n = max(n, out/max(p.base.Numel(), 1))
	}
	return n
}

// An Op is the declaration of an op whose calls are products.
type Op[A any] = opdef.Planned[*A, *Call[A]]

// A Call is a call that is a product, with its arguments.
type Call[A any] struct {
	Args *A
	*Product
}

// Multilinear completes the declaration of an op whose calls are products.
func Multilinear[A any](op Op[A], plan func(a *A) (*Product, error)) *opdef.Entry {
	op.Error = opdef.Error{Class: opdef.Accumulated}
	op.Plan = func(a *A) (*Call[A], error) {
		p, err := plan(a)
		return &Call[A]{a, p}, err
	}
	op.Kernel = func(c *Call[A]) ([]*tensor.Tensor, error) { return c.Product.Kernel() }
	op.Grad = (*Call[A]).Grads
	op.Terms = (*Call[A]).terms
	op.GradTerms = (*Call[A]).gradTerms
	return op.Entry()
}

// Products is the number of multiply-adds that make one element.
func (c *Call[A]) Products() float64 { return float64(c.terms()) }

// Axes says how the product can be cut.
func (c *Call[A]) Axes() *opdef.Axes { return c.axes() }

// Mistakes are those of the product.
func (c *Call[A]) Mistakes() []opdef.Mistake[any] {
	return opdef.MistakesOf(c.mistakes(), func(p *Product) any { return &Call[A]{c.Args, p} })
}
