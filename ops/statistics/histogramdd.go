package statistics

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/tensor"
)

// histogramddOps count points in the cells of a grid.
var histogramddOps = []*opdef.Entry{
	gridHistogram(opdef.Planned[gridCountArgs, *cells]{
		Schema: "histogramdd.count(Tensor self, int bins, float[]? range=None, Tensor? weight=None, bool " +
			"density=False) -> Tensor[]",
		Cases: func(r *rand.Rand) []*gridCountArgs {
			g := opdef.Gen{R: r}
			return []*gridCountArgs{{g.Normal(tensor.Float64, 9, 2), 3, nil, nil, false},
				{g.Normal(tensor.Float32, 9, 1), 4, []float64{-1, 1}, g.Uniform(tensor.Float32, 0.5, 1, 9), true}}
		},
		Plan: func(a *gridCountArgs) (*cells, error) {
			d := elements.LastDim(a.Self.Shape)
			return evenCells(&gridCountsArgs{a.Self, slices.Repeat([]int{a.Bins}, d), a.Range, a.Weight, a.Density})
		},
	}),
	gridHistogram(opdef.Planned[gridCountsArgs, *cells]{
		Schema: "histogramdd.counts(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, bool " +
			"density=False) -> Tensor[]",
		Cases: func(r *rand.Rand) []*gridCountsArgs {
			g := opdef.Gen{R: r}
			return []*gridCountsArgs{{g.Normal(tensor.Float64, 4, 3, 2), []int{3, 2}, []float64{-1, 1, -2, 2},
				g.Uniform(tensor.Float64, 0.5, 1, 4, 3), false}}
		},
		Plan: evenCells,
	}),
	gridHistogram(opdef.Planned[gridEdgesArgs, *cells]{
		Schema: "histogramdd.edges(Tensor self, Tensor[] bins, float[]? range=None, Tensor? weight=None, bool " +
			"density=False) -> Tensor[]",
		Cases: func(r *rand.Rand) []*gridEdgesArgs {
			g := opdef.Gen{R: r}
			edges := tensor.New(tensor.Float64, []int{4}, []float64{-1, 0, 0.5, 2})
			return []*gridEdgesArgs{{g.Normal(tensor.Float64, 9, 2), []*tensor.Tensor{edges, edges}, nil, nil, true}}
		},
		Plan: func(a *gridEdgesArgs) (*cells, error) {
			var edges [][]float64
			for _, b := range a.Bins {
				if b.Dim() != 1 || b.Numel() == 0 || b.DType != a.Self.DType {
					return nil, opdef.Refuse("bins", "want vectors of edges of dtype %s, got %s", a.Self.DType,
						b.Meta())
				}
				edges = append(edges, tensor.Data[float64](b))
			}
			return newCells(a.Self, a.Weight, a.Density, edges)
		},
	}),
}

type gridCountArgs struct {
	Self    *tensor.Tensor
	Bins    int
	Range   []float64
	Weight  *tensor.Tensor
	Density bool
}

type gridCountsArgs struct {
	Self    *tensor.Tensor
	Bins    []int
	Range   []float64
	Weight  *tensor.Tensor
	Density bool
}

type gridEdgesArgs struct {
	Self    *tensor.Tensor
	Bins    []*tensor.Tensor
	Range   []float64
	Weight  *tensor.Tensor
	Density bool
}

// cells are those of a histogram of points, given by the edges of each
// dimension; weights are nil for 1.
type cells struct {
	x       *tensor.Tensor
	edges   [][]float64
	weight  []float64
	density bool
}

func newCells(x, weight *tensor.Tensor, density bool, edges [][]float64) (*cells, error) {
	c := &cells{x: x, edges: edges, density: density}
	if x.Dim() < 2 || x.DType != tensor.Float32 && x.DType != tensor.Float64 {
		return nil, opdef.Refuse("self", "want rows of float32 or float64 coordinates, got %s", x.Meta())
	}
	if len(edges) != elements.LastDim(x.Shape) {
		return nil, opdef.Refuse("bins", "want one entry for each of %d coordinates, got %d", elements.LastDim(x.Shape),
			len(edges))
	}
	if weight != nil {
		if !slices.Equal(weight.Shape, x.Shape[:x.Dim()-1]) || weight.DType != x.DType {
			return nil, opdef.Refuse("weight", "want dtype %s and shape %s, got %s", x.DType,
				tensor.ShapeString(x.Shape[:x.Dim()-1]), weight.Meta())
		}
		c.weight = tensor.Data[float64](weight)
	}
	return c, nil
}

// evenCells have edges at equal distances, from end to end of range or of the
// points.
func evenCells(a *gridCountsArgs) (*cells, error) {
	n := elements.LastDim(a.Self.Shape)
	if a.Range != nil && len(a.Range) != 2*n {
		return nil, opdef.Refuse("range", "want two numbers for each of %d coordinates, got %d", n, len(a.Range))
	}
	if len(a.Bins) != n || !a.Self.DType.IsFloat() {
		return nil, opdef.Refuse("bins", "want one number for each of %d floating coordinates, got %d", n, len(a.Bins))
	}
	edges, points := tensor.Make[[]float64](n), tensor.Data[float64](a.Self)
	for d, bins := range a.Bins {
		if bins <= 0 {
			return nil, opdef.Refuse("bins", "want positive numbers, got %d", bins)
		}
		lo, hi := 0.0, 1.0
		switch {
		case a.Range != nil:
			lo, hi = a.Range[2*d], a.Range[2*d+1]
		case len(points) > 0:
			lo, hi = math.Inf(1), math.Inf(-1)
			for i := d; i < len(points); i += n {
				lo, hi = math.Min(lo, points[i]), math.Max(hi, points[i])
			}
		}
		var err error
		if edges[d], err = evenEdges(bins, lo, hi); err != nil {
			return nil, err
		}
	}
	return newCells(a.Self, a.Weight, a.Density, edges)
}

// shape is the number of cells in each dimension.
func (c *cells) shape(edges [][]float64) []int {
	shape := make([]int, len(edges))
	for d, e := range edges {
		shape[d] = len(e) - 1
	}
	return shape
}

// counted is the histogram with the given edges.
func (c *cells) counted(edges [][]float64) []float64 {
	shape := c.shape(edges)
	out, stride := tensor.Make[float64](tensor.Numel(shape)), tensor.Contiguous(shape)
	points, n, sum := tensor.Data[float64](c.x), len(edges), 0.0
next:
	for p := range tensor.Numel(c.x.Shape[:c.x.Dim()-1]) {
		at := 0
		for d, e := range edges {
			k, ok := binOf(e, points[p*n+d])
			if !ok {
				continue next
			}
			at += k * stride[d]
		}
		w := 1.0
		if c.weight != nil {
			w = c.weight[p]
		}
		out[at] += w
		sum += w
	}
	if c.density {
		for i := range out {
			volume := sum
			for d, e := range edges {
				k := i / stride[d] % shape[d]
				volume *= e[k+1] - e[k]
			}
			out[i] /= volume
		}
	}
	return out
}

// gridHistogram completes the declaration of a histogram of points.
func gridHistogram[A any](o opdef.Planned[A, *cells]) *opdef.Entry {
	o.Names, o.Trivial, o.NoGrad = "histogramdd", true, "PyTorch defines none"
	o.Doc = opdef.Doc{Summary: "Number, or sum of weights, of the points in each cell of a grid, with the edges of " +
		"each dimension",
		Notes: "With density divided by the sum and the volumes of the cells. Counts are accepted that the recorded " +
			"edges give.", Source: "torch.histogramdd"}
	o.Error = opdef.Error{Class: opdef.Accumulated, ULPs: 4}
	o.Exempt = map[string]string{"dtypes": "elements near an edge change cells when rounded",
		"bounds": "counts jump where an element crosses an edge"}
	o.Kernel = func(c *cells) ([]*tensor.Tensor, error) {
		outs := []*tensor.Tensor{tensor.New(c.x.DType, c.shape(c.edges), c.counted(c.edges))}
		for _, e := range c.edges {
			outs = append(outs, tensor.New(c.x.DType, []int{len(e)}, e))
		}
		return outs, nil
	}
	o.Terms = func(c *cells) int { return max(1, c.x.Numel()) }
	o.Scale = func(_ *cells, outs []*tensor.Tensor) []*tensor.Tensor {
		s := []*tensor.Tensor{opdef.Abs(outs[0])}
		for _, e := range outs[1:] {
			s = append(s, tensor.Full(tensor.Float64, e.Shape, opdef.MaxAbs(e)))
		}
		return s
	}
	o.Accept = func(c *cells, got, want []*tensor.Tensor) []opdef.Acceptance {
		as := make([]opdef.Acceptance, len(got))
		if len(got) != len(want) {
			return as
		}
		dt, edges := c.x.DType, make([][]float64, len(c.edges))
		for d, e := range c.edges {
			if edges[d] = tensor.Data[float64](got[1+d]); len(edges[d]) != len(e) || !slices.IsSorted(edges[d]) {
				return as
			}
			size := opdef.MaxAbs(want[1+d])
			for i, x := range edges[d] {
				if !(math.Abs(x-e[i]) <= 8*dt.Eps()*size) {
					return as
				}
			}
		}
		counts := tensor.Data[float64](got[0])
		for i, x := range c.counted(edges) {
			if !(math.Abs(x-counts[i]) <= 8*dt.Eps()*float64(c.x.Numel())*math.Abs(x)) {
				return as
			}
		}
		as[0] = opdef.Acceptance{OK: true, Rule: "elements at edges"}
		return as
	}
	return o.Entry()
}
