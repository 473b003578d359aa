package compose

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A SparseMatrix is a constant matrix of few terms, row by row.
type SparseMatrix struct {
	Cols  int
	terms [][]term
}

// A term is an element of a sparse matrix. It is known to slack units of the
// dtype's roundoff.
type term struct {
	col           int
	weight, slack float64
}

// NewSparseMatrix is the matrix of zeros.
func NewSparseMatrix(rows, cols int) *SparseMatrix {
	return &SparseMatrix{Cols: cols, terms: tensor.Make[[]term](rows)}
}

// Add adds weight to an element, whose computation makes errors of slack units of
// the dtype's roundoff.
func (m *SparseMatrix) Add(row, col int, weight, slack float64) {
	for i := range m.terms[row] {
		if t := &m.terms[row][i]; t.col == col {
			t.weight += weight
			t.slack += slack
			return
		}
	}
	m.terms[row] = append(m.terms[row], term{col, weight, slack})
}

func (m *SparseMatrix) transpose() *SparseMatrix {
	t := NewSparseMatrix(m.Cols, len(m.terms))
	for r, ts := range m.terms {
		for _, x := range ts {
			t.terms[x.col] = append(t.terms[x.col], term{r, x.weight, x.slack})
		}
	}
	return t
}

// longest is the largest number of terms in a row.
func (m *SparseMatrix) longest() int {
	n := 1
	for _, ts := range m.terms {
		n = max(n, len(ts))
	}
	return n
}

// apply is the product with the rows of x, each element of m as of sees it.
func (m *SparseMatrix) apply(dt tensor.DType, x *tensor.Tensor, of func(term) float64) *tensor.Tensor {
	in, rows := tensor.Data[float64](x), tensor.Numel(x.Shape[:x.Dim()-1])
	out := tensor.Make[float64](rows * len(m.terms))
	tensor.Parallel(rows, 1, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			src, dst := in[r*m.Cols:][:m.Cols], out[r*len(m.terms):][:len(m.terms)]
			for j, ts := range m.terms {
				for _, t := range ts {
					dst[j] += of(t) * src[t.col]
				}
			}
		}
	})
	shape := slices.Clone(x.Shape)
	shape[len(shape)-1] = len(m.terms)
	return tensor.New(dt, shape, out)
}

// SparseMatmul is m times each row, the last dimension, of x.
func (g *Graph) SparseMatmul(m *SparseMatrix, x *Value) *Value { return g.SparseMatmulBack(m, m, x) }

// SparseMatmulBack is SparseMatmul with the gradient of a product with back, where a kernel's
// gradient is not that of its result.
func (g *Graph) SparseMatmulBack(m, back *SparseMatrix, x *Value) *Value {
	if x.Dim() == 0 || x.Shape()[x.Dim()-1] != m.Cols || !x.DType().IsFloat() {
		g.Refuse("", "want floating rows of %d elements, got %s", m.Cols, x.T.Meta())
	}
	t := m.apply(x.DType(), x.T, func(t term) float64 { return t.weight })
	return g.value(t, func(t *tensor.Tensor) *tensor.Tensor {
		f64, unit := tensor.Float64, x.DType().Eps()/g.unit()
		magnitude := func(t term) float64 { return g.of(t.weight) }
		e := g.summing(t, m.apply(f64, opdef.Abs(x.T), func(t term) float64 { return max(t.weight, -t.weight) }),
			m.longest())
		e = plus(e, m.apply(f64, g.magnitude(x.T), func(t term) float64 { return g.of(t.slack * unit) }))
		if x.errors == nil {
			return e
		}
		return plus(e, m.apply(f64, x.errors(), magnitude))
	}, func(up *Value) []*Value { return []*Value{g.SparseMatmul(back.transpose(), up)} }, x)
}
