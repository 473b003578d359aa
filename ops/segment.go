package ops

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// segmentOps reduce runs of elements of unequal length: segments given by their
// lengths, bins given by their edges. broadcast_shapes is a function of shapes.
var segmentOps = []*opdef.Entry{
	segmentReduceOp,
	histogramEntry(opdef.Op[histogramEdgesArgs]{
		Schema: "histogram.edges(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor " +
			"hist, Tensor bin_edges)",
		Cases: func(r *rand.Rand) []*histogramEdgesArgs {
			g := opdef.Gen{R: r}
			edges := tensor.New(tensor.Float64, []int{4}, []float64{-1, 0, 0.5, 2})
			return []*histogramEdgesArgs{{g.Normal(tensor.Float64, 9), edges, nil, false},
				{g.Normal(tensor.Float64, 3, 3), edges, g.Uniform(tensor.Float64, 0.5, 1, 3, 3), true}}
		},
	}, func(a *histogramEdgesArgs) (*binning, error) {
		if a.Bins.Dim() != 1 || a.Bins.Numel() == 0 {
			return nil, opdef.Refuse("bins", "want a vector of edges, got %s", a.Bins.Meta())
		}
		if a.Bins.DType != a.Self.DType {
			return nil, opdef.Refuse("bins", "dtype %s differs from %s of self", a.Bins.DType, a.Self.DType)
		}
		return newBinning(a.Self, a.Weight, a.Density, tensor.Data[float64](a.Bins))
	}),
	histogramEntry(opdef.Op[histogramCountArgs]{
		Schema: "histogram.count(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool " +
			"density=False) -> (Tensor hist, Tensor bin_edges)",
		Cases: func(r *rand.Rand) []*histogramCountArgs {
			g := opdef.Gen{R: r}
			return []*histogramCountArgs{{g.Normal(tensor.Float64, 9), 3, nil, nil, false},
				{g.Normal(tensor.Float32, 9), 4, []float64{-1, 1}, g.Uniform(tensor.Float32, 0.5, 1, 9), true}}
		},
	}, (*histogramCountArgs).binning),
	opdef.Op[shapesArgs]{
		Schema: "broadcast_shapes(any[]... shapes) -> any", Names: "broadcast_shapes functional.broadcast_shapes",
		Doc: opdef.Doc{Summary: "The shape that tensors of the given shapes are broadcast to",
			Source: "torch.broadcast_shapes"},
		Value: func(a *shapesArgs) (value.Value, error) {
			seq, _ := a.Shapes.(*value.Sequence)
			var shapes [][]int
			for _, it := range seq.Items {
				s, err := intsOf("shapes", it)
				if err != nil {
					return nil, err
				}
				shapes = append(shapes, s)
			}
			shape, err := tensor.Broadcast(shapes...)
			if err != nil {
				return nil, opdef.Refuse("shapes", "%v", err)
			}
			size := value.NewTuple()
			for _, n := range shape {
				size.Items = append(size.Items, int64(n))
			}
			size.Class = "torch.Size"
			return size, nil
		},
	}.Entry(),
}

type shapesArgs struct{ Shapes value.Value }

type segmentReduceArgs struct {
	Data                      *tensor.Tensor
	Reduce                    string
	Lengths, Indices, Offsets *tensor.Tensor
	Axis                      int
	Unsafe                    bool
	Initial                   *opdef.Scalar
}

// Segments are runs along a dimension: of every outer row, count runs that
// start and end at bounds.
type segments struct {
	outer, n, inner, count int
	bounds                 [][2]int // of row and segment
	shape                  []int
	initial                float64
}

func (a *segmentReduceArgs) plan() (*segments, error) {
	x := a.Data
	if !x.DType.IsFloat() {
		return nil, opdef.Refuse("data", "want a floating dtype, got %s", x.DType)
	}
	if x.Numel() == 0 {
		return nil, opdef.Refuse("data", "want elements, got shape %s", tensor.ShapeString(x.Shape))
	}
	if x.Dim() == 0 {
		return nil, opdef.Refuse("data", "want at least one dimension")
	}
	axis, err := opdef.Dim("axis", a.Axis, x.Dim())
	if err != nil {
		return nil, err
	}
	s := &segments{}
	switch a.Reduce {
	case "sum", "mean":
	case "prod":
		s.initial = 1
	case "max":
		s.initial = math.Inf(-1)
	case "min":
		s.initial = math.Inf(1)
	default:
		return nil, opdef.Refuse("reduce", "want sum, mean, max, min or prod, got %q", a.Reduce)
	}
	if a.Initial != nil {
		s.initial = a.Initial.Float64()
	}
	name, given := "lengths", a.Lengths
	if given == nil {
		name, given = "offsets", a.Offsets
	}
	switch {
	case a.Indices != nil:
		return nil, opdef.Refuse("indices", "not supported, by torch either")
	case given == nil:
		return nil, opdef.Refuse("lengths", "want lengths or offsets")
	case !given.DType.IsIntegral():
		return nil, opdef.Refuse(name, "want integers, got %s", given.DType)
	case given.Dim() != axis+1 || !slices.Equal(given.Shape[:axis], x.Shape[:axis]):
		return nil, opdef.Refuse(name, "shape %s is not that of data up to dimension %d and a number of segments",
			tensor.ShapeString(given.Shape), axis)
	}
	s.outer, s.n, s.inner = tensor.Numel(x.Shape[:axis]), x.Shape[axis], tensor.Numel(x.Shape[axis+1:])
	row := given.Shape[axis]
	s.count = row
	if name == "offsets" {
		s.count = row - 1
	}
	v := tensor.Data[int64](given)
	for o := range s.outer {
		at := 0
		for k := range s.count {
			from, to := at, at+int(v[o*row+k])
			if name == "offsets" {
				from, to = int(v[o*row+k]), int(v[o*row+k+1])
			}
			if from < 0 || to < from || to > s.n {
				return nil, opdef.Refuse(name, "segment [%d, %d) does not lie in [0, %d)", from, to, s.n)
			}
			s.bounds = append(s.bounds, [2]int{from, to})
			at = to
		}
		if !a.Unsafe && (at != s.n || s.count > 0 && s.bounds[o*s.count][0] != 0) {
			return nil, opdef.Refuse(name, "segments end at %d of %d elements", at, s.n)
		}
	}
	s.shape = append(append(slices.Clone(x.Shape[:axis]), s.count), x.Shape[axis+1:]...)
	return s, nil
}

// each calls f for every result: its index, and index and step of the elements
// it is made of.
func (s *segments) each(f func(out, first, n int)) {
	for b, bound := range s.bounds {
		for i := range s.inner {
			f(b*s.inner+i, (b/s.count*s.n+bound[0])*s.inner+i, bound[1]-bound[0])
		}
	}
}

// reduced are the results over the elements of data, starting from initial.
func (s *segments) reduced(reduce string, data []float64, initial float64, bare bool) []float64 {
	out := make([]float64, tensor.Numel(s.shape))
	s.each(func(at, first, n int) {
		acc := initial
		for j := range n {
			x := data[first+j*s.inner]
			switch reduce {
			case "sum", "mean":
				acc += x
			case "prod":
				acc *= x
			case "max":
				acc = math.Max(acc, x)
			case "min":
				acc = math.Min(acc, x)
			}
		}
		if reduce == "mean" && (n > 0 || bare) {
			acc /= float64(n)
		}
		out[at] = acc
	})
	return out
}

// grad is the gradient of data: of extremes shared by those equal to the result.
func (s *segments) grad(reduce string, data, y, up []float64) []float64 {
	out := make([]float64, len(data))
	s.each(func(at, first, n int) {
		ties := 0.0
		for j := range n {
			if x := data[first+j*s.inner]; x == y[at] || x != x {
				ties++
			}
		}
		for j := range n {
			k := first + j*s.inner
			x := data[k]
			switch reduce {
			case "sum":
				out[k] = up[at]
			case "mean":
				out[k] = up[at] / float64(n)
			case "prod":
				others := s.initial
				for l := range n {
					if l != j {
						others *= data[first+l*s.inner]
					}
				}
				out[k] = up[at] * others
			default:
				if x == y[at] || x != x {
					out[k] = up[at] / ties
				}
			}
		}
	})
	return out
}

var segmentReduceOp = opdef.Op[segmentReduceArgs]{
	Schema: "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? " +
		"offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
	Names: "segment_reduce",
	Doc: opdef.Doc{Summary: "Sums, means, products or extremes of segments along a dimension",
		Notes: "Segments are given by lengths or by offsets, each row having its own. initial takes part in every " +
			"segment; a mean divides it too.",
		Source: "torch.segment_reduce"},
	Error: opdef.Error{Class: opdef.Accumulated, ULPs: 2, Coarse: true, Grad: &opdef.Error{Class: opdef.Accumulated,
		ULPs: 3, Coarse: true}},
	Terms: func(a *segmentReduceArgs) int {
		axis, err := opdef.Dim("axis", a.Axis, a.Data.Dim())
		if err != nil || a.Data.Dim() == 0 {
			return 1
		}
		return max(1, a.Data.Shape[axis])
	},
	Kernel: func(a *segmentReduceArgs) ([]*tensor.Tensor, error) {
		s, err := a.plan()
		if err != nil {
			return nil, err
		}
		return single(tensor.New(a.Data.DType, s.shape, s.reduced(a.Reduce, tensor.Data[float64](a.Data), s.initial,
			a.Initial == nil))), nil
	},
	Grad: func(a *segmentReduceArgs, g *opdef.Grad) (opdef.Grads, error) {
		s, err := a.plan()
		if err != nil {
			return nil, err
		}
		y := tensor.Data[float64](g.Outs[0])
		return gradOf("data", tensor.New(a.Data.DType, a.Data.Shape, s.grad(a.Reduce, tensor.Data[float64](a.Data), y,
			tensor.Data[float64](g.Out[0])))), nil
	},
	// torch adds in the dtype of data.
	Scale: func(a *segmentReduceArgs, outs []*tensor.Tensor) []*tensor.Tensor {
		s, err := a.plan()
		if err != nil || a.Reduce == "max" || a.Reduce == "min" {
			return single(opdef.Abs(outs[0]))
		}
		sums := s.reduced(a.Reduce, tensor.Data[float64](opdef.Abs(a.Data)), math.Abs(s.initial), a.Initial == nil)
		return single(times(tensor.New(tensor.Float64, s.shape, sums), coarseness(a.Data.DType)))
	},
	GradScale: func(a *segmentReduceArgs, _ *opdef.Grad, gr opdef.Grads) (opdef.Grads, error) {
		return gradOf("data", times(opdef.Abs(gr["data"][0]), coarseness(a.Data.DType))), nil
	},
	Cases: func(r *rand.Rand) []*segmentReduceArgs {
		g := opdef.Gen{R: r}
		f64 := tensor.Float64
		lengths := tensor.New(tensor.Int64, []int{3}, []int64{1, 0, 3})
		offsets := tensor.New(tensor.Int64, []int{2, 3}, []int64{0, 1, 4, 0, 2, 4})
		one := opdef.Float(1)
		return []*segmentReduceArgs{
			{Data: g.Normal(f64, 4), Reduce: "sum", Lengths: lengths}, {Data: g.Normal(f64, 4, 2), Reduce: "mean",
				Lengths: lengths, Initial: &one}, {Data: g.Distinct(f64, 2, 4), Reduce: "max",
				Offsets: offsets, Axis: 1},
			{Data: g.Distinct(tensor.Float32, 4), Reduce: "min", Lengths: lengths, Initial: &one, Unsafe: true},
			{Data: g.Normal(f64, 2, 4, 2), Reduce: "prod", Offsets: offsets, Axis: 1, Initial: &one},
		}
	},
}.Entry()

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

// A binning is a histogram to be made: elements, weights (nil for 1), edges.
type binning struct {
	x       *tensor.Tensor
	weight  []float64
	edges   []float64
	density bool
}

func newBinning(x, weight *tensor.Tensor, density bool, edges []float64) (*binning, error) {
	b := &binning{x: x, edges: edges, density: density}
	if x.DType != tensor.Float32 && x.DType != tensor.Float64 {
		return nil, opdef.Refuse("self", "want dtype float32 or float64, got %s", x.DType)
	}
	if weight != nil {
		if !slices.Equal(weight.Shape, x.Shape) || weight.DType != x.DType {
			return nil, opdef.Refuse("weight", "%s differs from %s of self", weight.Meta(), x.Meta())
		}
		b.weight = tensor.Data[float64](weight)
	}
	return b, nil
}

// binning has edges at equal distances, from end to end of range or of the
// elements.
func (a *histogramCountArgs) binning() (*binning, error) {
	if a.Bins <= 0 {
		return nil, opdef.Refuse("bins", "want a positive number, got %d", a.Bins)
	}
	lo, hi := 0.0, 1.0
	switch {
	case a.Range != nil && len(a.Range) != 2:
		return nil, opdef.Refuse("range", "want two numbers, got %d", len(a.Range))
	case a.Range != nil:
		lo, hi = a.Range[0], a.Range[1]
	case a.Self.Numel() > 0:
		lo, hi = math.Inf(1), math.Inf(-1)
		for _, x := range tensor.Data[float64](a.Self) {
			lo, hi = math.Min(lo, x), math.Max(hi, x)
		}
	}
	edges, err := evenEdges(a.Bins, lo, hi)
	if err != nil {
		return nil, err
	}
	return newBinning(a.Self, a.Weight, a.Density, edges)
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
	edges := make([]float64, bins+1)
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

// counted is the histogram with the given edges.
func (b *binning) counted(edges []float64) []float64 {
	bins := len(edges) - 1
	out := make([]float64, max(bins, 0))
	sum := 0.0
	for i, x := range tensor.Data[float64](b.x) {
		k, ok := binOf(edges, x)
		if !ok {
			continue
		}
		w := 1.0
		if b.weight != nil {
			w = b.weight[i]
		}
		out[k] += w
		sum += w
	}
	if b.density {
		for k := range out {
			out[k] /= sum * (edges[k+1] - edges[k])
		}
	}
	return out
}

// histogramEntry completes the declaration of a histogram.
func histogramEntry[A any](o opdef.Op[A], call func(*A) (*binning, error)) *opdef.Entry {
	o.Names, o.Trivial, o.NoGrad = "histogram Tensor.histogram", true, "PyTorch defines none"
	o.Doc = opdef.Doc{Summary: "Number, or sum of weights, of the elements in each bin, with the edges of the bins",
		Notes: "With density divided by the sum and the widths of the bins. Counts are accepted that the recorded " +
			"edges give.", Source: "torch.histogram"}
	o.Error = opdef.Error{Class: opdef.Accumulated, ULPs: 4}
	o.Exempt = map[string]string{"dtypes": "elements near an edge change bins when rounded",
		"bounds": "counts jump where an element crosses an edge"}
	o.Kernel = func(a *A) ([]*tensor.Tensor, error) {
		b, err := call(a)
		if err != nil {
			return nil, err
		}
		counts := b.counted(b.edges)
		return []*tensor.Tensor{tensor.New(b.x.DType, []int{len(counts)}, counts),
			tensor.New(b.x.DType, []int{len(b.edges)}, b.edges)}, nil
	}
	o.Terms = func(a *A) int {
		b, err := call(a)
		if err != nil {
			return 1
		}
		return max(1, b.x.Numel())
	}
	o.Scale = func(a *A, outs []*tensor.Tensor) []*tensor.Tensor {
		b, err := call(a)
		if err != nil || len(b.edges) == 0 {
			return outs
		}
		ends := math.Max(math.Abs(b.edges[0]), math.Abs(b.edges[len(b.edges)-1]))
		return []*tensor.Tensor{opdef.Abs(outs[0]), tensor.Full(tensor.Float64, outs[1].Shape, ends)}
	}
	o.Accept = func(a *A, got, want []*tensor.Tensor) []opdef.Acceptance {
		as := make([]opdef.Acceptance, len(got))
		b, err := call(a)
		if err != nil || len(got) != 2 || got[0].Numel() != want[0].Numel() || got[1].Numel() != want[1].Numel() {
			return as
		}
		dt := b.x.DType
		edges := tensor.Data[float64](got[1])
		for i, e := range edges {
			if math.Abs(e-b.edges[i]) > 8*dt.Eps()*math.Max(math.Abs(b.edges[0]), math.Abs(b.edges[len(b.edges)-1])) {
				return as
			}
		}
		counts := tensor.Data[float64](got[0])
		for i, c := range b.counted(edges) {
			if math.Abs(c-counts[i]) > 8*dt.Eps()*float64(b.x.Numel())*math.Abs(c) {
				return as
			}
		}
		as[0] = opdef.Acceptance{OK: true, Rule: "elements at edges"}
		return as
	}
	return o.Entry()
}
