package kernel

import "github.com/optool/optool/internal/num/vmath"

// An Axis is a linear map along one dimension: output o is the sum of
// Weight[j] * input[Index[j]] for j in [Ptr[o], Ptr[o+1]).
type Axis struct {
	In, Out int
	Ptr     []int
	Index   []int
	Weight  []float64
}

// Add appends one output that reads n inputs; at gives their index and weight.
func (a *Axis) Add(n int, at func(j int) (int, float64)) {
	if a.Ptr == nil {
		a.Ptr = []int{0}
	}
	for j := range n {
		i, w := at(j)
		a.Index, a.Weight = append(a.Index, i), append(a.Weight, w)
	}
	a.Ptr = append(a.Ptr, len(a.Index))
	a.Out++
}

// identity reports whether every output is the input in its place.
func (a *Axis) identity() bool {
	if a.In != a.Out || len(a.Index) != a.Out {
		return false
	}
	for o := range a.Out {
		if a.Ptr[o] != o || a.Index[o] != o || a.Weight[o] != 1 {
			return false
		}
	}
	return true
}

// pairs reports whether every output reads two inputs.
func (a *Axis) pairs() bool {
	for o, p := range a.Ptr {
		if p != 2*o {
			return false
		}
	}
	return true
}

// apply maps x, of shape (outer, In, inner), to y, of shape (outer, Out, inner).
func (a *Axis) apply(outer, inner int, x, y []float64) {
	if a.identity() {
		copy(y, x)
		return
	}
	pairs := inner == 1 && a.pairs()
	if inner > 1 {
		clear(y)
	}
	for n := range outer {
		src, dst := x[n*a.In*inner:(n+1)*a.In*inner], y[n*a.Out*inner:(n+1)*a.Out*inner]
		if pairs {
			for o := range dst {
				i, w := a.Index[2*o:2*o+2], a.Weight[2*o:2*o+2]
				dst[o] = w[0]*src[i[0]] + w[1]*src[i[1]]
			}
			continue
		}
		if inner == 1 {
			for o := range dst {
				s, from, to := 0.0, a.Ptr[o], a.Ptr[o+1]
				weights := a.Weight[from:to]
				for j, i := range a.Index[from:to] {
					s += weights[j] * src[i]
				}
				dst[o] = s
			}
			continue
		}
		for o := range a.Out {
			row := dst[o*inner : (o+1)*inner]
			for j := a.Ptr[o]; j < a.Ptr[o+1]; j++ {
				vmath.Axpy(row, a.Weight[j], src[a.Index[j]*inner:(a.Index[j]+1)*inner])
			}
		}
	}
}

// adjoint is the transpose of apply: y, of shape (outer, Out, inner), to x.
func (a *Axis) adjoint(outer, inner int, y, x []float64) {
	if a.identity() {
		copy(x, y)
		return
	}
	clear(x)
	for n := range outer {
		dst, src := x[n*a.In*inner:(n+1)*a.In*inner], y[n*a.Out*inner:(n+1)*a.Out*inner]
		for o := range a.Out {
			row := src[o*inner : (o+1)*inner]
			for j := a.Ptr[o]; j < a.Ptr[o+1]; j++ {
				vmath.Axpy(dst[a.Index[j]*inner:(a.Index[j]+1)*inner], a.Weight[j], row)
			}
		}
	}
}

// Axes is a separable linear map of a plane of up to three dimensions (unused
// ones map 1 to 1).
type Axes [3]Axis

// Scratch is the number of elements of each of the two buffers Apply and
// Adjoint need.
func (m *Axes) Scratch() int {
	return max(m[0].In, m[0].Out) * max(m[1].In, m[1].Out) * max(m[2].In, m[2].Out)
}

// Apply maps plane x to y. buf holds two buffers of Scratch elements.
func (m *Axes) Apply(x, y []float64, buf [2][]float64) {
	n := m[0].In * m[1].In * m[2].Out
	m[2].apply(m[0].In*m[1].In, 1, x, buf[0][:n])
	if m[0].identity() {
		m[1].apply(m[0].In, m[2].Out, buf[0][:n], y)
		return
	}
	k := m[0].In * m[1].Out * m[2].Out
	m[1].apply(m[0].In, m[2].Out, buf[0][:n], buf[1][:k])
	m[0].apply(1, m[1].Out*m[2].Out, buf[1][:k], y)
}

// Adjoint is the transpose of Apply.
func (m *Axes) Adjoint(y, x []float64, buf [2][]float64) {
	k := m[0].In * m[1].Out * m[2].Out
	m[0].adjoint(1, m[1].Out*m[2].Out, y, buf[1][:k])
	n := m[0].In * m[1].In * m[2].Out
	m[1].adjoint(m[0].In, m[2].Out, buf[1][:k], buf[0][:n])
	m[2].adjoint(m[0].In*m[1].In, 1, buf[0][:n], x)
}
