package statistics

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// statisticsOps are quantiles. They are no compositions: the order of a row gives
// results, gradients and bounds at once, and is not kept for all rows.
var statisticsOps = []*opdef.Entry{
	quantileOp("quantile", "Quantiles along a dimension", "nan in a row makes its quantiles nan.", false),
	quantileOp("nanquantile", "Quantiles along a dimension of the elements that are not nan",
		"A row of nan alone gives nan.", true),
}

type quantileArgs struct {
	Self          *tensor.Tensor
	Q             *tensor.Tensor
	Dim           *int
	Keepdim       bool
	Interpolation string
}

// A quantile is a call after its arguments were checked: of n elements a row,
// q numbers each.
type quantile struct {
	given     *tensor.Tensor // q
	x         *tensor.Tensor // rows last
	n         int
	q         []float64
	order     string
	ignoreNaN bool
	shape     []int // of the result
	front     bool  // the dimension of q comes first in it
	back      func(*tensor.Tensor) *tensor.Tensor
}

func (a *quantileArgs) quantile(ignoreNaN bool) (*quantile, error) {
	x := a.Self
	if x.DType != tensor.Float32 && x.DType != tensor.Float64 {
		return nil, opdef.Refuse("self", "want float32 or float64, got %s", x.DType)
	}
	if a.Q.Dim() > 1 || !a.Q.Wrapped && a.Q.DType != x.DType {
		return nil, opdef.Refuse("q", "want a number or up to one dimension of %s, got %s", x.DType, a.Q.Meta())
	}
	if !slices.Contains([]string{"linear", "lower", "higher", "midpoint", "nearest"}, a.Interpolation) {
		return nil, opdef.Refuse("interpolation", "%q is no way to interpolate", a.Interpolation)
	}
	if x.Numel() == 0 {
		return nil, opdef.Refuse("self", "no elements have no quantiles")
	}
	qt := &quantile{given: a.Q, x: x, order: a.Interpolation, ignoreNaN: ignoreNaN, front: a.Q.Dim() == 1,
		back: func(t *tensor.Tensor) *tensor.Tensor { return t }}
	for _, q := range tensor.Data[float64](a.Q) {
		if !(q >= 0 && q <= 1) {
			return nil, opdef.Refuse("q", "want numbers between 0 and 1, got %v", q)
		}
		qt.q = append(qt.q, x.DType.Round(q))
	}
	if err := qt.setRows(a.Dim, a.Keepdim); err != nil {
		return nil, err
	}
	if qt.front {
		qt.shape = slices.Insert(qt.shape, 0, len(qt.q))
	}
	return qt, nil
}

// setRows makes a dimension the last one, or all elements one row; the shape is that for one quantile.
func (qt *quantile) setRows(along *int, keep bool) error {
	x := qt.x
	rank := x.Dim()
	switch {
	case along == nil:
		qt.x, qt.n = x.Reshape(x.Numel()), x.Numel()
		qt.back = func(t *tensor.Tensor) *tensor.Tensor { return t.Reshape(x.Shape...) }
		if keep {
			qt.shape = slices.Repeat([]int{1}, rank)
		}
	case rank == 0:
		if _, err := opdef.Dim("dim", *along, 0); err != nil {
			return err
		}
		qt.x, qt.n = x.Reshape(1), 1
		qt.back = func(t *tensor.Tensor) *tensor.Tensor { return t.Reshape() }
	default:
		dim, err := opdef.Dim("dim", *along, rank)
		if err != nil {
			return err
		}
		qt.n = x.Shape[dim]
		order := append(slices.Delete(elements.AllDims(rank), dim, dim+1), dim)
		inverse := make([]int, rank)
		for i, d := range order {
			inverse[d] = i
		}
		if dim != rank-1 {
			qt.x = x.Permute(order...)
			qt.back = func(t *tensor.Tensor) *tensor.Tensor { return t.Permute(inverse...) }
		}
		qt.shape = slices.Delete(slices.Clone(x.Shape), dim, dim+1)
		if keep {
			qt.shape = slices.Insert(qt.shape, dim, 1)
		}
	}
	return nil
}

// each calls f with the sorted row, the order of its elements, and for every q
// the ranks to interpolate between, the weight of the upper one and the rank
// wanted. Ranks are computed in the dtype of the elements, as torch does.
func (qt *quantile) each(row int, f func(k, below, above int, weight, rank float64, values []float64, order []int)) {
	v, order := tensor.Make[float64](qt.n), elements.AllDims(qt.n)
	tensor.Load(qt.x, row*qt.n, v)
	src := slices.Clone(v)
	slices.SortStableFunc(order, func(i, j int) int {
		x, y := src[i], src[j]
		switch {
		case x < y || y != y && x == x:
			return -1
		case x > y || x != x && y == y:
			return 1
		}
		return 0
	})
	numbers := 0
	for i, o := range order {
		v[i] = src[o]
		if v[i] == v[i] {
			numbers++
		}
	}
	dt := qt.x.DType
	for k, q := range qt.q {
		rank := dt.Round(q * float64(qt.n-1))
		switch {
		case qt.ignoreNaN:
			rank = max(0, dt.Round(q*float64(numbers-1)))
		case numbers < qt.n:
			rank = float64(qt.n - 1)
		}
		switch qt.order {
		case "lower":
			rank = math.Floor(rank)
		case "higher":
			rank = math.Ceil(rank)
		case "nearest":
			rank = math.RoundToEven(rank)
		}
		below, above := int(rank), int(math.Ceil(rank))
		w := rank - float64(below)
		if qt.order == "midpoint" {
			w = 0.5
		}
		f(k, below, above, w, rank, v, order)
	}
}

// forward computes the results with at, from what each says.
func (qt *quantile) forward(dt tensor.DType, at func(below, above, weight, rank float64) float64) *tensor.Tensor {
	rows := qt.x.Numel() / qt.n
	out := tensor.Make[float64](rows * len(qt.q))
	tensor.Parallel(rows, 1, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			qt.each(r, func(k, below, above int, w, rank float64, v []float64, _ []int) {
				out[k*rows+r] = at(v[below], v[above], w, rank)
			})
		}
	})
	return tensor.New(dt, qt.shape, out)
}

// weightedMean is x + w*(y - x), x itself if w is 0 whatever y is.
func weightedMean(x, y, w float64) float64 {
	if w == 0 {
		return x
	}
	return x + w*(y-x)
}

// numbersGrad is the gradient of q, by which the weight of the upper element
// grows with the number of elements.
func (qt *quantile) numbersGrad(up []float64) *tensor.Tensor {
	out, rows := make([]float64, len(qt.q)), qt.x.Numel()/qt.n
	for r := range rows {
		qt.each(r, func(k, below, above int, w, _ float64, v []float64, _ []int) {
			if numbers := len(v) - countNaN(v); qt.order == "linear" && w > 0 {
				out[k] += up[k*rows+r] * (v[above] - v[below]) * float64(numbers-1)
			}
		})
	}
	return tensor.New(qt.given.DType, qt.given.Shape, out)
}

func countNaN(v []float64) int {
	n := 0
	for _, x := range v {
		if x != x {
			n++
		}
	}
	return n
}

func quantileOp(name, summary, notes string, ignoreNaN bool) *opdef.Entry {
	return opdef.Planned[*quantileArgs, *quantile]{
		Schema: name +
			"(Tensor self, Tensor|Scalar q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc:    opdef.Doc{Summary: summary, Formula: "the element of rank q*(n-1), interpolated", Notes: notes},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 2, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 4}},
		Exempt: map[string]string{"dtypes": "ranks are computed in the dtype of the elements"},
		Bounds: opdef.Bounds[*quantile]{
			Terms: func(*quantile) int { return 2 },
			Scale: func(qt *quantile, outs []*tensor.Tensor) []*tensor.Tensor {
				return elements.Single(qt.forward(tensor.Float64, func(x, y, _, rank float64) float64 {
					return math.Abs(x) + math.Abs(y) + rank*math.Abs(y-x)
				}))
			},
		},
		Plan: func(a *quantileArgs) (*quantile, error) { return a.quantile(ignoreNaN) },
		Kernel: func(qt *quantile) ([]*tensor.Tensor, error) {
			return elements.Single(qt.forward(qt.x.DType,
					func(x, y, w, _ float64) float64 { return weightedMean(x, y, w) })),
				nil
		},
		Grad: func(qt *quantile, g *opdef.Grad) (opdef.Grads, error) {
			up, rows := tensor.Data[float64](g.Out[0]), qt.x.Numel()/qt.n
			t := opdef.Rows(qt.x.DType, qt.x.Shape, qt.n, func(r int, dst []float64) {
				clear(dst)
				qt.each(r, func(k, below, above int, w, _ float64, _ []float64, order []int) {
					dst[order[below]] += (1 - w) * up[k*rows+r]
					dst[order[above]] += w * up[k*rows+r]
				})
			})
			gr := elements.GradOf("self", qt.back(t))
			gr.Set("q", nil)
			if qt.given.RequiresGrad && g.Need("q") {
				gr.Set("q", qt.numbersGrad(up))
			}
			return gr, nil
		},
		Node: func(*quantile, *opdef.Grad) (opdef.Node, error) {
			return opdef.Node{Skip: "gradients belong to another op"}, nil
		},
		Cases: opdef.Calls[quantileArgs](`
			f64[3, 4]{distinct}, 0.3; f64[3, 4]{distinct}, f64[3]{= 0.1 0.5 0.95}, dim=0
			f64[2, 3, 4]{distinct}, f64[3]{= 0.1 0.5 0.95}, dim=-1, keepdim=True, interpolation='midpoint'
			f32[7]{distinct}, 0.4, dim=0, interpolation='nearest'
			for S in 'lower' 'higher': f64[5]{distinct}, 0.3, interpolation=S
			f64[3, 4]{distinct}, 0.8, dim=1; f64[3, 4]{distinct}, f64[2]{0.1..0.3}, dim=1`),
	}.Entry()
}
