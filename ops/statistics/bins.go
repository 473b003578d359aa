package statistics

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// binOps are histogram and histogramdd: the first counts elements in bins, as points of one coordinate.
var binOps = []*opdef.Entry{
	histogram(opdef.Planned[*histogramEdgesArgs, *cells]{
		Schema: "histogram.edges(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor " +
			"hist, Tensor bin_edges)",
		Cases: opdef.Calls[histogramEdgesArgs](`
			f64[9], f64[4]{= -1 0 0.5 2}; f64[3, 3], f64[4]{= -1 0 0.5 2}, weight=f64[3, 3]{0.5..1}, density=True`),
		Plan: func(a *histogramEdgesArgs) (*cells, error) {
			edges, err := edgesOf(a.Self, a.Bins)
			if err != nil {
				return nil, err
			}
			return newCells(a.Self, a.Weight, a.Density, a.Self.Shape, [][]float64{edges})
		},
	}),
	histogram(opdef.Planned[*histogramCountArgs, *cells]{
		Schema: "histogram.count(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool " +
			"density=False) -> (Tensor hist, Tensor bin_edges)",
		Cases: opdef.Calls[histogramCountArgs](`
			f64[9], bins=3; f32[9], bins=4, range=[-1.0, 1.0], weight=f32[9]{0.5..1}, density=True`),
		Plan: func(a *histogramCountArgs) (*cells, error) {
			edges, err := evenGrid(a.Self, []int{a.Bins}, a.Range)
			if err != nil {
				return nil, err
			}
			return newCells(a.Self, a.Weight, a.Density, a.Self.Shape, edges)
		},
	}),
	gridHistogram(opdef.Planned[*gridCountArgs, *cells]{
		Schema: "histogramdd.count(Tensor self, int bins, float[]? range=None, Tensor? weight=None, bool " +
			"density=False) -> Tensor[]",
		Cases: opdef.Calls[gridCountArgs](`
			f64[9, 2], 3; f32[9, 1], 4, range=[-1.0, 1.0], weight=f32[9]{0.5..1}, density=True`),
		Plan: func(a *gridCountArgs) (*cells, error) {
			d := elements.LastDim(a.Self.Shape)
			return evenCells(&gridCountsArgs{a.Self, slices.Repeat([]int{a.Bins}, d), a.Range, a.Weight, a.Density})
		},
	}),
	gridHistogram(opdef.Planned[*gridCountsArgs, *cells]{
		Schema: "histogramdd.counts(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, bool " +
			"density=False) -> Tensor[]",
		Cases: opdef.Calls[gridCountsArgs](`
			f64[4, 3, 2], [3, 2], range=[-1.0, 1.0, -2.0, 2.0], weight=f64[4, 3]{0.5..1}`),
		Plan: evenCells,
	}),
	gridHistogram(opdef.Planned[*gridEdgesArgs, *cells]{
		Schema: "histogramdd.edges(Tensor self, Tensor[] bins, float[]? range=None, Tensor? weight=None, bool " +
			"density=False) -> Tensor[]",
		Cases: func(g opdef.Gen) []*gridEdgesArgs {
			edges := tensor.New(tensor.Float64, []int{4}, []float64{-1, 0, 0.5, 2})
			return []*gridEdgesArgs{{g.Normal(tensor.Float64, 9, 2), []*tensor.Tensor{edges, edges}, nil, nil, true}}
		},
		Plan: func(a *gridEdgesArgs) (*cells, error) {
			var edges [][]float64
			for _, b := range a.Bins {
				e, err := edgesOf(a.Self, b)
				if err != nil {
					return nil, err
				}
				edges = append(edges, e)
			}
			return gridCells(a.Self, a.Weight, a.Density, edges)
		},
	}),
}

type histogramEdgesArgs struct {
	Self, Bins, Weight *tensor.Tensor
	Density            bool
}

type histogramCountArgs struct {
	Self    *tensor.Tensor
	Bins    int
	Range   []float64
	Weight  *tensor.Tensor
	Density bool
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
	points  int
	edges   [][]float64
	weight  []float64
	density bool
}

// newCells counts the points of x, as many as points has elements.
func newCells(x, weight *tensor.Tensor, density bool, points []int, edges [][]float64) (*cells, error) {
	c := &cells{x: x, points: tensor.Numel(points), edges: edges, density: density}
	if x.DType != tensor.Float32 && x.DType != tensor.Float64 {
		return nil, opdef.Refuse("self", "want dtype float32 or float64, got %s", x.DType)
	}
	if weight != nil {
		if !slices.Equal(weight.Shape, points) || weight.DType != x.DType {
			return nil, opdef.Refuse("weight", "want dtype %s and shape %s, got %s", x.DType,
				tensor.ShapeString(points), weight.Meta())
		}
		c.weight = tensor.Data[float64](weight)
	}
	return c, nil
}

// gridCells counts the rows of x.
func gridCells(x, weight *tensor.Tensor, density bool, edges [][]float64) (*cells, error) {
	if x.Dim() < 2 {
		return nil, opdef.Refuse("self", "want rows of coordinates, got %s", x.Meta())
	}
	if n := elements.LastDim(x.Shape); len(edges) != n {
		return nil, opdef.Refuse("bins", "want one entry for each of %d coordinates, got %d", n, len(edges))
	}
	return newCells(x, weight, density, x.Shape[:x.Dim()-1], edges)
}

// edgesOf are the edges that bins gives for elements of x.
func edgesOf(x, bins *tensor.Tensor) ([]float64, error) {
	if bins.Dim() != 1 || bins.Numel() == 0 || bins.DType != x.DType {
		return nil, opdef.Refuse("bins", "want a vector of edges of dtype %s, got %s", x.DType, bins.Meta())
	}
	return tensor.Data[float64](bins), nil
}

func evenCells(a *gridCountsArgs) (*cells, error) {
	if n := elements.LastDim(a.Self.Shape); len(a.Bins) != n {
		return nil, opdef.Refuse("bins", "want one number for each of %d coordinates, got %d", n, len(a.Bins))
	}
	edges, err := evenGrid(a.Self, a.Bins, a.Range)
	if err != nil {
		return nil, err
	}
	return gridCells(a.Self, a.Weight, a.Density, edges)
}

// evenGrid has edges at equal distances, from end to end of ends or of the points,
// which have as many coordinates as there are bins.
func evenGrid(x *tensor.Tensor, bins []int, ends []float64) ([][]float64, error) {
	n := len(bins)
	if ends != nil && len(ends) != 2*n {
		return nil, opdef.Refuse("range", "want two numbers for each of %d coordinates, got %d", n, len(ends))
	}
	if !x.DType.IsFloat() {
		return nil, opdef.Refuse("self", "want dtype float32 or float64, got %s", x.DType)
	}
	edges, points := tensor.Make[[]float64](n), tensor.Data[float64](x)
	for d, bins := range bins {
		if bins <= 0 {
			return nil, opdef.Refuse("bins", "want a positive number, got %d", bins)
		}
		lo, hi := 0.0, 1.0
		switch {
		case ends != nil:
			lo, hi = ends[2*d], ends[2*d+1]
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
	return edges, nil
}

// evenEdges are the edges of bins of equal width from lo to hi, of width 1
// around lo if that is hi.
func evenEdges(bins int, lo, hi float64) ([]float64, error) {
	if math.IsNaN(hi-lo) || math.IsInf(hi-lo, 0) || lo > hi {
		return nil, opdef.Refuse("range", "[%v, %v] is not a finite range", lo, hi)
	}
	if lo == hi {
		lo, hi = lo-0.5, hi+0.5
	}
	edges := tensor.Make[float64](bins + 1)
	for i := range edges {
		edges[i] = lo + (hi-lo)*(float64(i)/float64(bins))
	}
	return edges, nil
}

// binOf is the bin that x falls into; the last has both of its edges.
func binOf(edges []float64, x float64) (k int, ok bool) {
	bins := len(edges) - 1
	if !(bins > 0 && x >= edges[0] && x <= edges[bins]) {
		return 0, false
	}
	k, found := slices.BinarySearch(edges, x)
	for found && k < bins && edges[k+1] == x {
		k++
	}
	if !found || k == bins {
		k--
	}
	return k, true
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
	for p := range c.points {
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

// histogram completes the declaration of a histogram of elements.
func histogram[A any](o opdef.Planned[*A, *cells]) *opdef.Entry {
	o.Names = "histogram Tensor.histogram"
	o.Doc = opdef.Doc{Summary: "Number, or sum of weights, of the elements in each bin, with the edges of the bins",
		Notes: "With density divided by the sum and the widths of the bins. Counts are accepted that the recorded " +
			"edges give."}
	return cellCounts(o)
}

// gridHistogram completes the declaration of a histogram of points.
func gridHistogram[A any](o opdef.Planned[*A, *cells]) *opdef.Entry {
	o.Names = "histogramdd"
	o.Doc = opdef.Doc{Summary: "Number, or sum of weights, of the points in each cell of a grid, with the edges of " +
		"each dimension",
		Notes: "With density divided by the sum and the volumes of the cells. Counts are accepted that the recorded " +
			"edges give."}
	return cellCounts(o)
}

func cellCounts[A any](o opdef.Planned[*A, *cells]) *opdef.Entry {
	o.Trivial, o.NoGrad = true, "PyTorch defines none"
	o.Error = opdef.Error{Class: opdef.Accumulated, ULPs: 4}
	o.Exempt = map[string]string{"dtypes": "elements near an edge change bins when rounded",
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
	return o.Entry()
}

func (c *cells) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
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
