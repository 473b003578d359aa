package matmul

import (
	"fmt"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// partialSums are sums that a kernel keeps on a coarser grid than the dtype's: the terms
// of a label are added exactly, every so many at a time, and each such sum is rounded
// where it is added to those before.
type partialSums struct {
	label, every int
	grid         opdef.Grid
	terms        bool // what is added is rounded first too
}

// mostSteps is how many elements of partial sums are computed at most for a mistake.
const mostSteps = 1 << 27

// mistakes are what kernels of products of two operands get wrong about the dimension
// that they add over: its last terms are left out, sums are kept in fewer bits, operands
// are rounded first.
func (p *Product) mistakes() []opdef.Mistake[*Product] {
	size := labelSizes(p.Ops)
	label, n, ok := p.sumLabel(size)
	dt := p.Ops[0].T.DType
	if !ok || !dt.IsFloat() {
		return nil
	}
	var out []opdef.Mistake[*Product]
	add := func(rounds bool, with func(q *Product), format string, args ...any) {
		out = append(out, opdef.Mistake[*Product]{Text: fmt.Sprintf(format, args...), Rounds: rounds,
			Plan: func() (*Product, error) {
				q := *p
				with(&q)
				return &q, nil
			}})
	}
	for _, tail := range opdef.Tails(n) {
		text := fmt.Sprintf("the last %d of the %d terms of each sum are left out", tail, n)
		if tail == 1 {
			text = fmt.Sprintf("the last of the %d terms of each sum is left out", n)
		}
		add(false, func(q *Product) { q.Ops = zeroTail(p.Ops, label, tail) }, "%s", text)
	}
	for _, g := range opdef.FactorGrids(dt) {
		add(true, func(q *Product) {
			q.Ops = slices.Clone(p.Ops)
			for i := range q.Ops {
				q.Ops[i].T = g.OnGrid(q.Ops[i].T)
			}
		}, "the factors are %s first", g.Rounded())
	}
	elements := 1
	for _, l := range p.Out {
		elements *= size[l]
	}
	for _, g := range opdef.SumGrids(dt) {
		from := len(out)
		for _, every := range opdef.Tiles {
			if every < n && n/every*elements <= mostSteps {
				text := fmt.Sprintf("sums are kept in %s, rounded after every %d of %d terms", g.Name, every, n)
				if every == 1 {
					text = fmt.Sprintf("sums are kept in %s, rounded after each of %d terms", g.Name, n)
				}
				add(true, func(q *Product) { q.partial = &partialSums{label, every, g, false} }, "%s", text)
				if every == 1 {
					add(true, func(q *Product) { q.partial = &partialSums{label, every, g, true} },
						"products and their sums are kept in %s", g.Name)
				}
			}
		}
		for i := range out[from:] {
			out[from+i].Precision = g.Keeps(dt)
		}
	}
	return out
}

// sumLabel is the one label, of size n, that a product of two operands adds over.
func (p *Product) sumLabel(size map[int]int) (label, n int, ok bool) {
	if len(p.Ops) != 2 {
		return 0, 0, false
	}
	for l, k := range size {
		if k > 1 && !slices.Contains(p.Out, l) {
			if ok || p.Ops[0].length(l) != k || p.Ops[1].length(l) != k {
				return 0, 0, false
			}
			label, n, ok = l, k, true
		}
	}
	return label, n, ok
}

// length is the size of the dimension of a label, 0 if there is none.
func (o Operand) length(label int) int {
	if d := slices.Index(o.Axes, label); d >= 0 {
		return o.T.Shape[d]
	}
	return 0
}

// zeroTail are operands whose last elements along a label are 0.
func zeroTail(ops []Operand, label, tail int) []Operand {
	out := slices.Clone(ops)
	for i, o := range out {
		d := slices.Index(o.Axes, label)
		n, inner := o.T.Shape[d], tensor.Numel(o.T.Shape[d+1:])
		v := slices.Clone(tensor.Data[float64](o.T))
		for k := range v {
			if k/inner%n >= n-tail {
				v[k] = 0
			}
		}
		out[i].T = tensor.New(o.T.DType, o.T.Shape, v)
	}
	return out
}

// contraction is the sum of products, before base and factors.
func (p *Product) contraction(dt tensor.DType, size map[int]int) *tensor.Tensor {
	if p.partial == nil {
		return contract(dt, p.Ops, p.Out, size)
	}
	var shape []int
	for _, l := range p.Out {
		shape = append(shape, size[l])
	}
	sum := tensor.Make[float64](tensor.Numel(shape))
	for from := 0; from < size[p.partial.label]; from += p.partial.every {
		part := slices.Clone(p.Ops)
		for i, o := range part {
			d := slices.Index(o.Axes, p.partial.label)
			n := min(p.partial.every, o.T.Shape[d]-from)
			part[i].T = o.T.Slice(d, from, n, 1)
		}
		for i, x := range tensor.Data[float64](contract(dt, part, p.Out, labelSizes(part))) {
			if p.partial.terms {
				x = p.partial.grid.Round(x)
			}
			sum[i] = p.partial.grid.Round(sum[i] + x)
		}
	}
	return tensor.New(dt, shape, sum)
}
