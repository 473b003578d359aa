package kernel

import (
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/internal/quota"
)

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

// transposed is the map with inputs and outputs exchanged.
func (a *Axis) transposed() Axis {
	t := Axis{In: a.Out, Out: a.In, Ptr: quota.Make[int](a.In + 1), Index: quota.Make[int](len(a.Index)),
		Weight: quota.Make[float64](len(a.Index))}
	for _, i := range a.Index {
		t.Ptr[i+1]++
	}
	for i := range a.In {
		t.Ptr[i+1] += t.Ptr[i]
	}
	next := slices.Clone(t.Ptr)
	for o := range a.Out {
		for j := a.Ptr[o]; j < a.Ptr[o+1]; j++ {
			k := next[a.Index[j]]
			next[a.Index[j]]++
			t.Index[k], t.Weight[k] = o, a.Weight[j]
		}
	}
	return t
}

// apply maps x, of shape (outer, In, inner), to y, of shape (outer, Out, inner).
func (a *Axis) apply(outer, inner int, x, y []float64) {
	pairs := a.pairs()
	for n := range outer {
		src, dst := x[n*a.In*inner:(n+1)*a.In*inner], y[n*a.Out*inner:(n+1)*a.Out*inner]
		switch {
		case inner > 1:
			a.rows(inner, src, dst)
		case pairs:
			for o := range dst {
				i, w := a.Index[2*o:2*o+2], a.Weight[2*o:2*o+2]
				dst[o] = w[0]*src[i[0]] + w[1]*src[i[1]]
			}
		default:
			for o := range dst {
				s, from, to := 0.0, a.Ptr[o], a.Ptr[o+1]
				weights := a.Weight[from:to]
				for j, i := range a.Index[from:to] {
					s += weights[j] * src[i]
				}
				dst[o] = s
			}
		}
	}
}

// rows is apply of one row of each input, of inner elements, to those of the outputs.
func (a *Axis) rows(inner int, src, dst []float64) {
	in := func(j int) []float64 { return src[a.Index[j]*inner:][:inner] }
	for o := range a.Out {
		row, from, to := dst[o*inner:(o+1)*inner], a.Ptr[o], a.Ptr[o+1]
		switch to - from {
		case 0:
			clear(row)
		case 1:
			vmath.Scale(row, in(from), a.Weight[from])
		default:
			vmath.Blend(row, a.Weight[from], in(from), a.Weight[from+1], in(from+1))
			for j := from + 2; j < to; j++ {
				vmath.Axpy(row, a.Weight[j], in(j))
			}
		}
	}
}

// Axes is a separable linear map of a plane of up to three dimensions (unused
// ones map 1 to 1).
type Axes [3]Axis

// Transposed is the map from the outputs to the inputs, as gradients have it.
func (m *Axes) Transposed() *Axes {
	return &Axes{m[0].transposed(), m[1].transposed(), m[2].transposed()}
}

// Scratch is the number of elements of each of the two buffers Apply needs.
func (m *Axes) Scratch() int {
	return max(m[0].In, m[0].Out) * max(m[1].In, m[1].Out) * max(m[2].In, m[2].Out)
}

// Apply maps plane x to y. buf holds two buffers of Scratch elements.
func (m *Axes) Apply(x, y []float64, buf [2][]float64) {
	dims := []int{0, 1, 2}
	if m[2].Out > m[2].In { // the innermost goes element by element, so it goes where these are fewest
		slices.Reverse(dims)
	}
	dims = slices.DeleteFunc(dims, func(d int) bool { return m[d].identity() })
	size := [3]int{m[0].In, m[1].In, m[2].In}
	for k, d := range dims {
		outer, inner := 1, 1
		for e, n := range size {
			if e < d {
				outer *= n
			} else if e > d {
				inner *= n
			}
		}
		size[d] = m[d].Out
		to := buf[k%2][:outer*inner*size[d]]
		if k == len(dims)-1 {
			to = y
		}
		m[d].apply(outer, inner, x, to)
		x = to
	}
	if len(dims) == 0 {
		copy(y, x)
	}
}
