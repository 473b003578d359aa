package compose

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// TopK is the k largest elements of each row of x, in falling order, and their places as
// int64, the first of equal ones first. NaN is larger than all numbers.
func (g *Graph) TopK(x *Value, k int) (values *Value, places *tensor.Tensor) {
	rows, n, shape := g.rows(x, k)
	all := tensor.Data[float64](x.T)
	at := tensor.Make[int64](rows * k)
	order := tensor.Make[int64](n)
	for r := range rows {
		row := all[r*n:][:n]
		for i := range order {
			order[i] = int64(i)
		}
		slices.SortStableFunc(order, func(a, b int64) int {
			return cmp.Compare(sortKey(row[b]), sortKey(row[a]))
		})
		copy(at[r*k:], order[:k])
	}
	places = tensor.New(tensor.Int64, shape, at)
	return g.Gather(x, -1, places), places
}

// Places are places of elements of rows of x, as TopK gives them, in any dtype of integers. As
// results they may be those of other elements that equal the ones wanted within rounding.
func (g *Graph) Places(x *Value, at *tensor.Tensor) *Value {
	v := g.Const(at)
	v.among = x
	return v
}

// acceptPlaces decides on results that are places; nil if none is.
func (c *Call) acceptPlaces(got, want []*tensor.Tensor) (out []opdef.Acceptance) {
	for i, v := range c.outs {
		if v.among == nil {
			continue
		}
		if out == nil {
			out = make([]opdef.Acceptance, len(c.outs))
		}
		out[i] = c.graph.acceptPlaces(v.among, want[i], got[i])
	}
	return out
}

func sortKey(x float64) float64 {
	if x != x {
		return math.Inf(1)
	}
	return x
}

// rows are the number of rows of x, their length and the shape of k of each.
func (g *Graph) rows(x *Value, k int) (rows, n int, shape []int) {
	if x.Dim() == 0 || !x.DType().IsFloat() {
		g.Refuse("", "want floating rows, got %s", x.T.Meta())
	}
	n = x.Shape()[x.Dim()-1]
	if k < 1 || k > n {
		g.Refuse("k", "%d of %d elements do not exist", k, n)
	}
	shape = slices.Clone(x.Shape())
	shape[len(shape)-1] = k
	return tensor.Numel(shape[:len(shape)-1]), n, shape
}

// acceptPlaces decides on recorded places of the k largest elements of rows of x, where
// the reference has others: each must differ from the others of its row, and point to an
// element that equals the one wanted within the errors of both.
func (g *Graph) acceptPlaces(x *Value, want, got *tensor.Tensor) opdef.Acceptance {
	n, k := x.Shape()[x.Dim()-1], want.Shape[want.Dim()-1]
	all, es := tensor.Data[float64](x.T), tensor.Data[float64](x.bound())
	ws, gs := tensor.Data[int64](want), tensor.Data[int64](got)
	ulp := x.DType().ULP
	for i, p := range gs {
		row, lo := i/k*n, i/k*k
		switch {
		case p < 0 || p >= int64(n):
			return opdef.Acceptance{Reason: fmt.Sprintf("place %d in row %d is out of range [0, %d)", p, i/k, n)}
		case slices.Contains(gs[lo:i], p):
			return opdef.Acceptance{Reason: fmt.Sprintf("place %d occurs twice in row %d", p, i/k)}
		}
		a, b := row+int(p), row+int(ws[i])
		allowed := 2 * (g.plain(es[a]) + g.plain(es[b])) * g.unit()
		if !(math.Abs(all[a]-all[b]) <= allowed+ulp(all[b])) && p != ws[i] {
			return opdef.Acceptance{Reason: fmt.Sprintf("place %d in row %d holds %g, want the element %d: %g", p, i/k,
				all[a], ws[i], all[b])}
		}
	}
	return opdef.Acceptance{OK: true, Rule: "ties"}
}
