package statistics

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// histogramOps count elements by value.
var histogramOps = []*opdef.Entry{histcOp, bincountOp}

type histcArgs struct {
	Self     *tensor.Tensor
	Bins     int
	Min, Max opdef.Scalar
}

// bounds are the ends of the histogram: those given, or without any the
// smallest and largest element.
func (a *histcArgs) bounds() (lo, hi float64, err error) {
	lo, hi = a.Min.Float64(), a.Max.Float64()
	if lo == hi && a.Self.Numel() > 0 {
		lo, hi = math.Inf(1), math.Inf(-1)
		for _, x := range tensor.Data[float64](a.Self) {
			lo, hi = math.Min(lo, x), math.Max(hi, x)
		}
	}
	if lo == hi {
		lo, hi = lo-1, hi+1
	}
	if math.IsNaN(hi-lo) || math.IsInf(hi-lo, 0) {
		return 0, 0, opdef.Refuse("self", "the range [%v, %v] is not finite", lo, hi)
	}
	if lo > hi {
		return 0, 0, opdef.Refuse("max", "is smaller than min")
	}
	return lo, hi, nil
}

// A tally counts elements by bin; near are those so close to an edge that rounding
// may put them on its other side.
type tally struct{ sure, near *tensor.Tensor }

func (a *histcArgs) count() (*tally, error) {
	if !a.Self.DType.IsFloat() {
		return nil, opdef.Refuse("self", "not defined for dtype %s", a.Self.DType)
	}
	if a.Bins <= 0 {
		return nil, opdef.Refuse("bins", "want a positive number, got %d", a.Bins)
	}
	lo, hi, err := a.bounds()
	if err != nil {
		return nil, err
	}
	sure, near := tensor.Make[float64](a.Bins), tensor.Make[float64](a.Bins+1)
	slack := 8 * a.Self.DType.Eps() * float64(a.Bins)
	for _, x := range tensor.Data[float64](a.Self) {
		if !(x >= lo && x <= hi) {
			continue
		}
		p := (x - lo) / (hi - lo) * float64(a.Bins)
		if p != p { // both ends are so large that they are equal
			p = 0
		}
		sure[min(int(p), a.Bins-1)]++
		if e := math.Round(p); math.Abs(p-e) <= slack && e > 0 && int(e) < a.Bins {
			near[int(e)]++
		}
	}
	return &tally{tensor.New(a.Self.DType, []int{a.Bins}, sure),
		tensor.New(tensor.Float64, []int{a.Bins + 1}, near)}, nil
}

var histcOp = opdef.Planned[histcArgs, *tally]{
	Schema: "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
	Doc: opdef.Doc{Summary: "The number of elements in bins of equal width",
		Notes: "With min equal to max the elements' own range. Elements within rounding of an edge are accepted on " +
			"either side.",
		Source: "torch.histc"},
	Error: opdef.Error{Class: opdef.Exact}, NoGrad: "PyTorch defines none", Trivial: true,
	Plan:   (*histcArgs).count,
	Kernel: func(t *tally) ([]*tensor.Tensor, error) { return []*tensor.Tensor{t.sure}, nil },
	Accept: func(t *tally, got, want []*tensor.Tensor) []opdef.Acceptance {
		as := make([]opdef.Acceptance, 1)
		// What has moved across an edge so far must be explained by what is near it.
		g, w, near := tensor.Data[float64](got[0]), tensor.Data[float64](want[0]), tensor.Data[float64](t.near)
		moved := 0.0
		for i := range g {
			moved += g[i] - w[i]
			if math.Abs(moved) > near[i+1] {
				return as
			}
		}
		as[0] = opdef.Acceptance{OK: moved == 0, Rule: "elements at edges"}
		return as
	},
	Cases: func(r *rand.Rand) []*histcArgs {
		g := opdef.Gen{R: r}
		zero := opdef.Int(0)
		return []*histcArgs{{g.Normal(tensor.Float32, 9), 4, zero, zero}, {g.Normal(tensor.Float64, 3, 3), 5,
			opdef.Int(-1), opdef.Float(1.5)}, {g.Normal(tensor.Float32), 3, zero, zero}, {g.Normal(tensor.Float32, 0),
			3, zero, zero}}
	},
}.Entry()

type bincountArgs struct {
	Self, Weights *tensor.Tensor
	Minlength     int
}

var bincountOp = opdef.Op[bincountArgs]{
	Schema: "bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor",
	Doc: opdef.Doc{Summary: "The number, or the sum of weights, of each non-negative integer",
		Source: "torch.bincount"},
	Error: opdef.Error{Class: opdef.Accumulated, ULPs: 1}, NoGrad: "PyTorch defines none", Trivial: true,
	Exempt: map[string]string{"dtypes": "weights other than float32 are added in float64"},
	Kernel: func(a *bincountArgs) ([]*tensor.Tensor, error) { return a.count(a.Weights) },
	Scale: func(a *bincountArgs, outs []*tensor.Tensor) []*tensor.Tensor {
		w := a.Weights
		if w != nil {
			w = opdef.Abs(w)
		}
		return opdef.Must(a.count(w))
	},
	Terms: func(a *bincountArgs) int { return max(1, a.Self.Numel()) },
	Cases: func(r *rand.Rand) []*bincountArgs {
		g := opdef.Gen{R: r}
		return []*bincountArgs{
			{g.Int(tensor.Int64, 0, 5, 9), nil, 0}, {g.Int(tensor.Int32, 0, 5, 4), g.Normal(tensor.Float32, 4), 8},
			{g.Int(tensor.Uint8, 0, 5, 4), g.Int(tensor.Int64, -3, 3, 4), 0}, {g.Int(tensor.Int64, 0, 5, 0), nil, 2},
		}
	},
}.Entry()

func (a *bincountArgs) count(weights *tensor.Tensor) ([]*tensor.Tensor, error) {
	switch {
	case !a.Self.DType.IsIntegral():
		return nil, opdef.Refuse("self", "want integers, got %s", a.Self.DType)
	case a.Self.Dim() != 1:
		return nil, opdef.Refuse("self", "want a vector, got %s", a.Self.Meta())
	case a.Minlength < 0:
		return nil, opdef.Refuse("minlength", "negative number %d", a.Minlength)
	case weights != nil && (weights.Dim() != 1 || weights.Numel() != a.Self.Numel()):
		return nil, opdef.Refuse("weights", "want shape %s, got %s", tensor.ShapeString(a.Self.Shape),
			tensor.ShapeString(weights.Shape))
	}
	idx, n := tensor.Data[int64](a.Self), a.Minlength
	for _, v := range idx {
		if v < 0 {
			return nil, opdef.Refuse("self", "negative number %d", v)
		}
		n = max(n, int(v)+1)
	}
	if weights == nil {
		out := tensor.Make[int64](n)
		for _, v := range idx {
			out[v]++
		}
		return []*tensor.Tensor{tensor.New(tensor.Int64, []int{n}, out)}, nil
	}
	dt := tensor.Float64
	if weights.DType == tensor.Float32 {
		dt = tensor.Float32
	}
	out := tensor.Make[float64](n)
	for i, w := range tensor.Data[float64](weights) {
		out[idx[i]] += w
	}
	return []*tensor.Tensor{tensor.New(dt, []int{n}, out)}, nil
}

var histogramBinOps = []*opdef.Entry{
	histogramEntry(opdef.Planned[histogramEdgesArgs, *binning]{
		Schema: "histogram.edges(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor " +
			"hist, Tensor bin_edges)",
		Cases: func(r *rand.Rand) []*histogramEdgesArgs {
			g := opdef.Gen{R: r}
			edges := tensor.New(tensor.Float64, []int{4}, []float64{-1, 0, 0.5, 2})
			return []*histogramEdgesArgs{{g.Normal(tensor.Float64, 9), edges, nil, false},
				{g.Normal(tensor.Float64, 3, 3), edges, g.Uniform(tensor.Float64, 0.5, 1, 3, 3), true}}
		},
		Plan: func(a *histogramEdgesArgs) (*binning, error) {
			if a.Bins.Dim() != 1 || a.Bins.Numel() == 0 {
				return nil, opdef.Refuse("bins", "want a vector of edges, got %s", a.Bins.Meta())
			}
			if a.Bins.DType != a.Self.DType {
				return nil, opdef.Refuse("bins", "dtype %s differs from %s of self", a.Bins.DType, a.Self.DType)
			}
			return newBinning(a.Self, a.Weight, a.Density, tensor.Data[float64](a.Bins))
		},
	}),
	histogramEntry(opdef.Planned[histogramCountArgs, *binning]{
		Schema: "histogram.count(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool " +
			"density=False) -> (Tensor hist, Tensor bin_edges)",
		Cases: func(r *rand.Rand) []*histogramCountArgs {
			g := opdef.Gen{R: r}
			return []*histogramCountArgs{{g.Normal(tensor.Float64, 9), 3, nil, nil, false},
				{g.Normal(tensor.Float32, 9), 4, []float64{-1, 1}, g.Uniform(tensor.Float32, 0.5, 1, 9), true}}
		},
		Plan: (*histogramCountArgs).binning,
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

// counted is the histogram with the given edges.
func (b *binning) counted(edges []float64) []float64 {
	bins := len(edges) - 1
	out := tensor.Make[float64](max(bins, 0))
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
func histogramEntry[A any](o opdef.Planned[A, *binning]) *opdef.Entry {
	o.Names, o.Trivial, o.NoGrad = "histogram Tensor.histogram", true, "PyTorch defines none"
	o.Doc = opdef.Doc{Summary: "Number, or sum of weights, of the elements in each bin, with the edges of the bins",
		Notes: "With density divided by the sum and the widths of the bins. Counts are accepted that the recorded " +
			"edges give.", Source: "torch.histogram"}
	o.Error = opdef.Error{Class: opdef.Accumulated, ULPs: 4}
	o.Exempt = map[string]string{"dtypes": "elements near an edge change bins when rounded",
		"bounds": "counts jump where an element crosses an edge"}
	o.Kernel = func(b *binning) ([]*tensor.Tensor, error) {
		counts := b.counted(b.edges)
		return []*tensor.Tensor{tensor.New(b.x.DType, []int{len(counts)}, counts),
			tensor.New(b.x.DType, []int{len(b.edges)}, b.edges)}, nil
	}
	o.Terms = func(b *binning) int { return max(1, b.x.Numel()) }
	o.Scale = func(b *binning, outs []*tensor.Tensor) []*tensor.Tensor {
		if len(b.edges) == 0 {
			return outs
		}
		ends := math.Max(math.Abs(b.edges[0]), math.Abs(b.edges[len(b.edges)-1]))
		return []*tensor.Tensor{opdef.Abs(outs[0]), tensor.Full(tensor.Float64, outs[1].Shape, ends)}
	}
	o.Accept = func(b *binning, got, want []*tensor.Tensor) []opdef.Acceptance {
		as := make([]opdef.Acceptance, len(got))
		if len(got) != 2 || got[0].Numel() != want[0].Numel() || got[1].Numel() != want[1].Numel() {
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
