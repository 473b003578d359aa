package attention

import (
	"math"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
)

// stepErrors are what the steps of an attention can be known to, element by element,
// in units of the error of one sum: those of the operands of a step, the
// magnitudes of the terms it adds, and the rounding of what it stores.
//
// Of dtypes that sums are made in they are worst cases, which add up. Roundings
// of 16 bits on the way are far larger and independent of one another, so their
// squares add up, and the doubts are kept squared until the end.
type stepErrors struct {
	squared bool
	stored  float64 // of a value of magnitude 1 that is rounded to the dtype
}

// newStepErrors are the doubts of an operator of the given dtype. A rounding to
// 16 bits counts as seven standard deviations, two units in the last place; the
// bound of a sum of one term is 8*2^-24.
func newStepErrors(dt tensor.DType) stepErrors {
	if dt.Size() >= 4 {
		return stepErrors{}
	}
	x := 2 * dt.Eps() / (8 * math.Ldexp(1, -24))
	return stepErrors{squared: true, stored: x * x}
}

// summed is the doubt of a sum of n terms, 1 in the end, that is stored after
// each.
func (u stepErrors) summed(n int) float64 { return u.stored * (1 + float64(n)/3) }

// of is how a magnitude enters the doubts.
func (u stepErrors) of(x float64) float64 {
	if u.squared {
		return x * x
	}
	return math.Abs(x)
}

// matrix is m as it enters the doubts.
func (u stepErrors) matrix(m kernel.Matrix[float64]) kernel.Matrix[float64] {
	c := kernel.Dense(m.Rows, m.Cols, make([]float64, m.Rows*m.Cols))
	for r := range m.Rows {
		for j, x := range m.Data[r*m.Stride:][:m.Cols] {
			c.Data[r*m.Cols+j] = u.of(x)
		}
	}
	return c
}

// magnitudes turns doubts into what they are the doubts of.
func (u stepErrors) magnitudes(d []float64) {
	if u.squared {
		for i, x := range d {
			d[i] = math.Sqrt(x)
		}
	}
}

// softmax replaces the doubts d of rows of scores by those of their softmax w,
// which is stored: the error of a score is one of an exponent.
func (u stepErrors) softmax(w, d kernel.Matrix[float64]) {
	for j := range w.Rows {
		row, doubt := w.Data[j*w.Cols:(j+1)*w.Cols], d.Data[j*w.Cols:(j+1)*w.Cols]
		mean := 0.0
		for c, x := range row {
			if x > 0 {
				mean += u.of(x) * doubt[c]
			}
		}
		for c, x := range row {
			if x > 0 {
				doubt[c] = u.of(x) * (2 + u.stored + doubt[c] + mean)
			} else {
				doubt[c] = x
			}
		}
	}
}

// resultErrors are what the results can be known to, over the steps of torch's
// own implementation: projections, scores, weights and heads, all of which it
// stores, and the last projection. torch adds the products of batches in the
// dtype itself: each partial sum, of which a third of the square of the last is
// the mean square, is stored.
func (m *multihead) resultErrors() []*tensor.Tensor {
	a, dense, heads := m.a, kernel.Dense[float64], m.a.NumHeads
	u := newStepErrors(a.Query.DType)
	dq, dk, dv := m.q.projectionErrors(m, u), m.k.projectionErrors(m, u), m.v.projectionErrors(m, u)
	weights, joined := make([]float64, len(m.weights)), make([]float64, len(m.joined))
	tensor.Parallel(m.n*heads, 1, func(from, to int) {
		for i := from; i < to; i++ {
			b, h := i/heads, i%heads
			part := func(y []float64, rows int) kernel.Matrix[float64] { return m.part(y, rows, b, h) }
			w, d, s := dense(m.l, m.keys, m.block(m.weights, b, h)), dense(m.l, m.keys, m.block(weights, b, h)),
				dense(m.l, m.keys, make([]float64, m.l*m.keys))
			q, k, v := part(m.q.y, m.l), part(m.k.y, m.keys), part(m.v.y, m.keys)
			kernel.Gemm(q, k.T(), 0, s)
			q, k = u.matrix(q), u.matrix(k)
			kernel.Gemm(q, k.T(), 0, d)
			kernel.Gemm(part(dq, m.l), k.T(), 1, d)
			kernel.Gemm(q, part(dk, m.keys).T(), 1, d)
			for c, x := range s.Data {
				d.Data[c] = u.of(m.scale) * (d.Data[c] + u.summed(m.head)*u.of(x))
			}
			u.softmax(w, d)
			out := part(joined, m.l)
			kernel.Gemm(d, u.matrix(v), 0, out)
			kernel.Gemm(u.matrix(w), part(dv, m.keys), 1, out)
		}
	})
	rows := m.l * m.n
	y := make([]float64, rows*m.e)
	for i, x := range m.joined {
		joined[i] += (1 + u.summed(m.keys)) * u.of(x)
	}
	out := u.matrix(dense(m.e, m.e, tensor.Data[float64](a.OutProjWeight)))
	kernel.Gemm(dense(rows, m.e, joined), out.T(), 0, dense(rows, m.e, y))
	if a.OutProjBias != nil {
		for i, b := range tensor.Data[float64](a.OutProjBias) {
			for r := range rows {
				y[r*m.e+i] += u.of(b)
			}
		}
	}
	u.magnitudes(y)
	u.magnitudes(weights)
	return m.shaped(y, weights)
}

// projectionErrors are those of a projection, 0 for keys and values that are
// given.
func (p *headInput) projectionErrors(m *multihead, u stepErrors) []float64 {
	d := make([]float64, len(p.y))
	if p.given {
		return d
	}
	rows, in := p.x.Shape[0]*m.n, elements.LastDim(p.x.Shape)
	kernel.Gemm(u.matrix(kernel.Dense(rows, in, p.in)), u.matrix(kernel.Dense(m.e, in, p.weight)).T(), 0,
		kernel.Dense(rows, m.e, d))
	for i, y := range p.y[:rows*m.e] {
		if p.bias != nil {
			d[i] += u.of(p.bias[i%m.e])
		}
		d[i] += u.stored * u.of(y)
	}
	return d
}
