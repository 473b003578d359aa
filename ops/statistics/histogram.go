package statistics

import (
	"math"

	"github.com/optool/optool/ops/opdef"
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

var histcOp = opdef.Planned[*histcArgs, *tally]{
	Schema: "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
	Doc: opdef.Doc{Summary: "The number of elements in bins of equal width",
		Notes: "With min equal to max the elements' own range. Elements within rounding of an edge are accepted on " +
			"either side."},
	Error:  opdef.Error{Class: opdef.Exact},
	Traits: opdef.Traits{NoGrad: "PyTorch defines none", Trivial: true},

	Plan:   (*histcArgs).count,
	Kernel: func(t *tally) ([]*tensor.Tensor, error) { return []*tensor.Tensor{t.sure}, nil },
	Cases: opdef.Calls[histcArgs](`
		f32[9], bins=4; f64[3, 3], bins=5, min=-1, max=1.5; f32[], bins=3; f32[0], bins=3`),
}.Entry()

func (t *tally) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
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
}

type bincountArgs struct {
	Self, Weights *tensor.Tensor
	Minlength     int
}

var bincountOp = opdef.Op[bincountArgs]{
	Schema: "bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor",
	Doc:    opdef.Doc{Summary: "The number, or the sum of weights, of each non-negative integer"},
	Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 1},
	Traits: opdef.Traits{NoGrad: "PyTorch defines none", Trivial: true},

	Exempt: map[string]string{"dtypes": "weights other than float32 are added in float64"},
	Kernel: func(a *bincountArgs) ([]*tensor.Tensor, error) { return a.count(a.Weights) },
	Bounds: opdef.Bounds[*bincountArgs]{
		Scale: func(a *bincountArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			w := a.Weights
			if w != nil {
				w = opdef.Abs(w)
			}
			return opdef.Must(a.count(w))
		},
		Terms: func(a *bincountArgs) int { return max(1, a.Self.Numel()) },
	},
	Cases: opdef.Calls[bincountArgs](`
		i64[9]{0..5}; i32[4]{0..5}, weights=f32[4], minlength=8; u8[4]{0..5}, weights=i64[4]{-3..3}
		i64[0]{0..5}, minlength=2`),
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
