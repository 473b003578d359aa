package matmul

import (
	"fmt"
	"maps"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// partialSums are sums that a kernel keeps on a coarser grid than the dtype's: the terms
// are added exactly, every so many at a time, and each such sum is rounded where it is added
// to those before. Where a sum is over several labels, it is row after row of them.
type partialSums struct {
	every    int
	grid     opdef.Grid
	terms    bool // what is added is rounded first too
	gradient bool // those of the gradients, not of the result
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
	out = append(out, p.gradientSums(dt, size)...)
	for _, g := range opdef.SumGrids(dt) {
		from := len(out)
		for _, every := range opdef.Tiles {
			if every < n && n/every*elements <= mostSteps {
				text := fmt.Sprintf("sums are kept in %s, rounded after every %d of %d terms", g.Name, every, n)
				if every == 1 {
					text = fmt.Sprintf("sums are kept in %s, rounded after each of %d terms", g.Name, n)
				}
				add(true, func(q *Product) { q.partial = &partialSums{every: every, grid: g} }, "%s", text)
				if every == 1 {
					add(true, func(q *Product) { q.partial = &partialSums{every: 1, grid: g, terms: true} },
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

// gradientSums are mistakes of the gradients: their sums are kept in fewer bits, rounded after each term.
func (p *Product) gradientSums(dt tensor.DType, size map[int]int) []opdef.Mistake[*Product] {
	steps := 1 // as many for each gradient
	for _, n := range size {
		steps *= n
	}
	if steps > mostSteps {
		return nil
	}
	var out []opdef.Mistake[*Product]
	for _, g := range opdef.SumGrids(dt) {
		for _, terms := range []bool{true, false} {
			text := fmt.Sprintf("in the gradient, sums are kept in %s, rounded after each term", g.Name)
			if terms {
				text = "in the gradient, products and their sums are kept in " + g.Name
			}
			out = append(out, opdef.Mistake[*Product]{Text: text, Rounds: true, Gradients: true,
				Precision: g.Keeps(dt), Plan: func() (*Product, error) {
					q := *p
					q.partial = &partialSums{every: 1, grid: g, terms: terms, gradient: true}
					return &q, nil
				}})
		}
	}
	return out
}

// contraction is the sum of products, before base and factors.
func (p *Product) contraction(dt tensor.DType, size map[int]int) *tensor.Tensor {
	if p.partial == nil || p.partial.gradient {
		return contract(dt, p.Ops, p.Out, size)
	}
	return p.partial.contract(dt, p.Ops, p.Out, size)
}

// contract is contract with sums as the kernel keeps them.
func (s *partialSums) contract(dt tensor.DType, ops []Operand, out []int, size map[int]int) *tensor.Tensor {
	var shape, over []int
	for _, l := range out {
		shape = append(shape, size[l])
	}
	for _, o := range ops {
		for _, l := range o.Axes {
			if !slices.Contains(out, l) && !slices.Contains(over, l) {
				over = append(over, l)
			}
		}
	}
	sum := tensor.Make[float64](tensor.Numel(shape))
	s.add(dt, ops, out, over, size, sum)
	return tensor.New(dt, shape, sum)
}

// add adds the terms over the labels to sum, of the last label so many at a time.
func (s *partialSums) add(dt tensor.DType, ops []Operand, out, over []int, size map[int]int, sum []float64) {
	if len(over) == 0 {
		for i, x := range tensor.Data[float64](contract(dt, ops, out, size)) {
			if s.terms {
				x = s.grid.Round(x)
			}
			sum[i] = s.grid.Round(sum[i] + x)
		}
		return
	}
	every := 1
	if len(over) == 1 {
		every = s.every
	}
	label := over[0]
	for from := 0; from < size[label]; from += every {
		part, sizes := slices.Clone(ops), maps.Clone(size)
		sizes[label] = min(every, size[label]-from)
		for i, o := range part {
			if o.length(label) > 1 {
				part[i].T = o.T.Slice(slices.Index(o.Axes, label), from, sizes[label], 1)
			}
		}
		s.add(dt, part, out, over[1:], sizes, sum)
	}
}
