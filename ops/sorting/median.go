package sorting

import (
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// medianRank is the rank of the median of a row: of the numbers alone, or the
// first NaN if there is one.
func medianRank(row []uint64, ignoreNaN bool) int {
	n := len(row)
	for _, k := range row {
		if k == nanKey {
			n--
		}
	}
	if n < len(row) && !ignoreNaN || n == 0 {
		return n
	}
	return (n - 1) / 2
}

func medianOp(schema, summary, notes string, ignoreNaN bool) *opdef.Entry {
	s, _ := opdef.ParseSchema(schema) // checked again by the registry
	name, _, _ := strings.Cut(s.Name, ".")
	return rankOp[MedianArgs]{
		Schema: schema, Names: name + " Tensor." + name,
		Doc: opdef.Doc{Summary: summary, Notes: notes},
		Plan: func(a *MedianArgs) (*ranking, error) {
			d, err := opdef.Dim("dim", a.Dim, a.Self.Dim())
			return &ranking{self: a.Self, dim: d, k: 1, keepdim: a.Keepdim,
				pick: func(row []uint64, _ int) int { return medianRank(row, ignoreNaN) }}, err
		},
		Cases: opdef.Calls[MedianArgs](`
			f32[3, 5]{distinct}, -1; f64[4, 3]{distinct}, 0, keepdim=True; f32[]{distinct}, 0; i64[8]{-3..3}, 0
			f32[4, 3]{distinct}, 1`),
	}.Entry()
}

// medianAllOp declares the median of all elements. Its gradient is shared
// evenly by the elements equal to it.
func medianAllOp(name string, ignoreNaN bool) *opdef.Entry {
	rank := func(a *opdef.UnaryArgs) *ranking {
		return &ranking{self: a.Self.Reshape(a.Self.Numel()), k: 1,
			pick: func(row []uint64, _ int) int { return medianRank(row, ignoreNaN) }}
	}
	grad := func(a *opdef.UnaryArgs, g *opdef.Grad) (opdef.Grads, error) {
		m, err := g.Outs[0].Expand(a.Self.Shape...)
		if err != nil {
			return nil, err
		}
		equal := opdef.Zip(tensor.Float64, a.Self, m, func(x, m float64) float64 {
			if x == m || x != x && m != m {
				return 1
			}
			return 0
		})
		count := opdef.Sum(tensor.Float64, equal, nil, false)
		if a.Self.Dim() > 0 {
			all := make([]int, a.Self.Dim())
			for d := range all {
				all[d] = d
			}
			count = opdef.Sum(tensor.Float64, equal, all, false)
		}
		share := g.Out[0].Item() / count.Item()
		return opdef.Grads{"self": {opdef.Map(a.Self.DType, equal, func(e float64) float64 { return e * share })}}, nil
	}
	return opdef.Op[opdef.UnaryArgs]{
		Schema: name + "(Tensor self) -> Tensor", Names: name + " Tensor." + name,
		Doc: opdef.Doc{Summary: "The median of all elements",
			Notes: "Of an even number of elements the lower one; NaN of none. The gradient is shared evenly by " +
				"equal elements."},
		Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 2}},
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
			if a.Self.Numel() == 0 {
				if a.Self.DType.IsFloat() {
					return []*tensor.Tensor{tensor.Scalar(a.Self.DType, math.NaN())}, nil
				}
				lo, _ := a.Self.DType.IntRange()
				return []*tensor.Tensor{tensor.Scalar(a.Self.DType, lo)}, nil
			}
			r := rank(a)
			res, err := r.results()
			if err != nil {
				return nil, err
			}
			return []*tensor.Tensor{res[0].Reshape()}, nil
		},
		Grad:  grad,
		Cases: opdef.Calls[opdef.UnaryArgs](`f32[3, 5]{distinct}; f64[4]{distinct}; f32[]{distinct}; i64[8]{-3..3}`),
	}.Entry()
}

var modeOp = rankOp[MedianArgs]{
	Schema: "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
	Names:  "mode Tensor.mode",
	Doc: opdef.Doc{Summary: "The most frequent element along a dimension, with an index of it",
		Notes: "Of several the smallest; the index is the last, any other is accepted."},
	Plan: func(a *MedianArgs) (*ranking, error) {
		d, err := opdef.Dim("dim", a.Dim, a.Self.Dim())
		return &ranking{self: a.Self, dim: d, k: 1, keepdim: a.Keepdim,
			pick: func(row []uint64, _ int) int { return modeRank(row) }}, err
	},
	Cases: opdef.Calls[MedianArgs](`f64[3, 1]{distinct}; f32[]{distinct}, dim=0; i64[8]{-3..3}, dim=0, keepdim=True`),
}.Entry()

// modeRank is the rank of the last of the most frequent keys.
func modeRank(row []uint64) int {
	sorted := slices.Clone(row)
	slices.Sort(sorted)
	best, at := 0, 0
	for i := 0; i < len(sorted); {
		j := i + 1
		for j < len(sorted) && sorted[j] == sorted[i] && sorted[i] != nanKey {
			j++
		}
		if j-i > best {
			best, at = j-i, j-1
		}
		i = j
	}
	return at
}
