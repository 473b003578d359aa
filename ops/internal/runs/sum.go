package runs

import (
	"math"
	"sync"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A Sum is a tensor with others' elements added at runs of it, and what its bound takes: the sums of the magnitudes,
// and how many runs at most meet one element, as Runs.Most says.
type Sum struct {
	Total, Magnitudes *tensor.Tensor
	Most              func() int
}

// Summed is base with src added at the runs r. Of many single floats one walk finds all three parts of the sum when
// the first is asked for.
func Summed(base, src *tensor.Tensor, r Runs) *Sum {
	n := base.Numel()
	if base.DType.Kind() != tensor.KindFloat || r.Len != 1 || r.Count == 0 || !dense(r, n) {
		return &Sum{
			Total:      Put(base, src, r, Add, true),
			Magnitudes: Put(opdef.Abs(base), opdef.Abs(src), r, Add, true),
			Most:       sync.OnceValue(func() int { return r.Most(n) }),
		}
	}
	all := sync.OnceValue(func() summed { return sumAll(base, src, r) })
	part := func(of func(c cell) float64) *tensor.Tensor {
		return tensor.Lazy(base.DType, base.Shape, base.Block(), func(lo int, dst []float64) {
			for i, c := range all().cells[lo:][:len(dst)] {
				dst[i] = of(c)
			}
		})
	}
	return &Sum{
		Total:      part(func(c cell) float64 { return c.sum }),
		Magnitudes: part(func(c cell) float64 { return c.size }),
		Most:       func() int { return all().most },
	}
}

// A cell is one element: its sum and that of the magnitudes, side by side for the cache.
type cell struct{ sum, size float64 }

type summed struct {
	cells []cell
	most  int
}

// sumAll adds the terms of each element in the order of the source.
func sumAll(base, src *tensor.Tensor, r Runs) summed {
	n := base.Numel()
	cells, met := tensor.Make[cell](n), tensor.Make[int32](n)
	sections := (n + section - 1) / section
	tensor.Parallel(sections, 1, func(a, b int) {
		buf := opdef.Scratch[float64](min(section, n))
		defer opdef.Release(buf)
		for k := a; k < b; k++ {
			part := cells[k*section : min((k+1)*section, n)]
			v := (*buf)[:len(part)]
			tensor.Load(base, k*section, v)
			for i, x := range v {
				part[i] = cell{x, math.Abs(x)}
			}
		}
	})
	bySection(r, src, n, func(k int, at []uint16, v []float64) {
		part := cells[k*section : min((k+1)*section, n)]
		times := met[k*section:][:len(part)]
		v = v[:len(at)]
		for i, p := range at {
			c := &part[p]
			c.sum += v[i]
			c.size += math.Abs(v[i])
			times[p]++
		}
	})
	return summed{cells, largest(met)}
}

// An Adjoint adds up the gradients of what was picked at runs of a tensor of Shape. It remembers the last sum, whose
// magnitudes and number of terms are asked for later.
type Adjoint struct {
	Shape []int
	Runs  Runs

	mu  sync.Mutex
	of  *tensor.Tensor
	sum *Sum
}

// Sum is the sum of g.
func (a *Adjoint) Sum(g *tensor.Tensor) *Sum {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of != g {
		a.of, a.sum = g, Summed(elements.Zeros(g.DType, a.Shape), g, a.Runs)
	}
	return a.sum
}

// Most is how many gradients at most meet at one element, as Runs.Most says.
func (a *Adjoint) Most() int {
	a.mu.Lock()
	sum := a.sum
	a.mu.Unlock()
	if sum != nil {
		return sum.Most()
	}
	return a.Runs.Most(tensor.Numel(a.Shape))
}
