package ops

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
)

// statisticsOps are quantiles and covariances.
var statisticsOps = []*opdef.Entry{
	quantileOp("quantile", "Quantiles along a dimension", "nan in a row makes its quantiles nan.", false),
	quantileOp("nanquantile", "Quantiles along a dimension of the elements that are not nan", "A row of nan alone gives nan.", true),
	opdef.Op[covArgs]{
		Schema: "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
		Doc: opdef.Doc{Summary: "Covariance matrix of variables in rows", Formula: "(self - mean) W (self - mean)^T / n, with W the product of the weights",
			Notes: "n is the sum of the weights less correction, for aweights less correction*sum(w*aweights)/sum(w). Complex variables are not known.", Source: "torch.cov"},
		Error: opdef.Error{Class: opdef.Normwise, ULPs: 4, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 4}},
		Terms: func(a *covArgs) int { return width(a.Self.Shape) },
		Kernel: func(a *covArgs) ([]*tensor.Tensor, error) {
			c, err := newCovariance(a.Self, a.Correction, a.Fweights, a.Aweights)
			if err != nil {
				return nil, err
			}
			return single(c.result(c.matrix())), nil
		},
		Scale: func(a *covArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			c, err := newCovariance(a.Self, a.Correction, a.Fweights, a.Aweights)
			if err != nil {
				return single(opdef.Abs(outs[0]))
			}
			return single(c.result(c.magnitudes()).WithDType(tensor.Float64))
		},
		Grad: func(a *covArgs, g *opdef.Grad) (opdef.Grads, error) {
			c, err := newCovariance(a.Self, a.Correction, a.Fweights, a.Aweights)
			if err != nil {
				return nil, err
			}
			up := tensor.Data[float64](g.Out[0])
			gr := gradOf("self", c.grad(up))
			if a.Aweights != nil {
				gr.Set("aweights", tensor.New(c.dt, a.Aweights.Shape, c.weightGrad(up, a)))
			}
			if a.Fweights != nil {
				gr.Set("fweights", nil)
			}
			return gr, nil
		},
		GradScale: func(a *covArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			c, err := newCovariance(a.Self, a.Correction, a.Fweights, a.Aweights)
			if err != nil {
				return nil, err
			}
			s := gradOf("self", c.gradScale(opdef.MaxAbs(g.Out[0])))
			if a.Aweights != nil {
				s.Set("aweights", tensor.Full(tensor.Float64, a.Aweights.Shape, c.weightScale(opdef.MaxAbs(g.Out[0]), a)))
			}
			return s, nil
		},
		Node: func(a *covArgs, g *opdef.Grad) (opdef.Node, error) {
			v := rowsOfVariables(a.Self)
			return opdef.Node{Grads: single(g.Out[0].Reshape(v, v)), Weak: "the incoming gradient reshaped"}, nil
		},
		Cases: func(r *rand.Rand) []*covArgs {
			g := opdef.Gen{R: r}
			w := g.Uniform(tensor.Float64, 0.5, 2, 5)
			return []*covArgs{
				{Self: g.Normal(tensor.Float64, 3, 5), Correction: 1}, {Self: g.Normal(tensor.Float64, 2, 5), Correction: 0, Fweights: g.Int(tensor.Int64, 1, 4, 5), Aweights: w},
				{Self: g.Normal(tensor.Float64, 2, 5), Correction: 1, Aweights: w}, {Self: g.Normal(tensor.Float32, 6), Correction: 1}, {Self: opdef.NonContiguous(g.Normal(tensor.Float64, 3, 4)), Correction: 1},
				{Self: g.Int(tensor.Int32, -4, 4, 2, 5), Correction: 1},
			}
		},
	}.Entry(),
	opdef.Op[opdef.UnaryArgs]{
		Schema: "corrcoef(Tensor self) -> Tensor",
		Doc:    opdef.Doc{Summary: "Correlation matrix of variables in rows", Formula: "cov(self) divided by the standard deviations of both variables", Source: "torch.corrcoef"},
		Error:  opdef.Error{Class: opdef.Normwise, ULPs: 4, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 8}},
		Terms:  func(a *opdef.UnaryArgs) int { return width(a.Self.Shape) },
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
			c, err := newCovariance(a.Self, 1, nil, nil)
			if err != nil {
				return nil, err
			}
			r, _ := c.correlation()
			return single(c.result(r)), nil
		},
		Scale: func(a *opdef.UnaryArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			c, err := newCovariance(a.Self, 1, nil, nil)
			if err != nil {
				return single(opdef.Abs(outs[0]))
			}
			m, cov := c.magnitudes(), c.matrix()
			for i := range c.v {
				for j := range c.v {
					m[i*c.v+j] = 2 * (m[i*c.v+j]/math.Sqrt(cov[i*c.v+i]*cov[j*c.v+j]) + 1)
				}
			}
			return single(c.result(m).WithDType(tensor.Float64))
		},
		Grad: func(a *opdef.UnaryArgs, g *opdef.Grad) (opdef.Grads, error) {
			c, err := newCovariance(a.Self, 1, nil, nil)
			if err != nil {
				return nil, err
			}
			r, std := c.correlation()
			up := tensor.Data[float64](g.Out[0])
			d := make([]float64, len(up))
			for i := range c.v {
				for j := range c.v {
					// The result is limited to [-1, 1]; beyond them no gradient passes.
					if k := i*c.v + j; math.Abs(r[k]) <= 1 {
						d[k] += up[k] / (std[i] * std[j])
						d[i*c.v+i] -= 0.5 * up[k] * r[k] / (std[i] * std[i])
						d[j*c.v+j] -= 0.5 * up[k] * r[k] / (std[j] * std[j])
					}
				}
			}
			return gradOf("self", c.grad(d)), nil
		},
		GradScale: func(a *opdef.UnaryArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			c, err := newCovariance(a.Self, 1, nil, nil)
			if err != nil {
				return nil, err
			}
			_, std := c.correlation()
			least := slices.Min(append(slices.Clone(std), math.Inf(1)))
			return gradOf("self", c.gradScale(4*opdef.MaxAbs(g.Out[0])/(least*least))), nil
		},
		Node: func(a *opdef.UnaryArgs, g *opdef.Grad) (opdef.Node, error) {
			return opdef.Node{Grads: single(g.Out[0]), Weak: "the incoming gradient"}, nil
		},
		Cases: func(r *rand.Rand) []*opdef.UnaryArgs {
			g := opdef.Gen{R: r}
			return []*opdef.UnaryArgs{{Self: g.Normal(tensor.Float64, 3, 6)}, {Self: g.Normal(tensor.Float32, 2, 5)}, {Self: opdef.NonContiguous(g.Normal(tensor.Float64, 3, 5))}}
		},
	}.Entry(),
}

type quantileArgs struct {
	Self          *tensor.Tensor
	Q             *tensor.Tensor
	Dim           *int
	Keepdim       bool
	Interpolation string
}

type covArgs struct {
	Self               *tensor.Tensor
	Correction         int
	Fweights, Aweights *tensor.Tensor
}

// A quantile is a call after its arguments were checked: of n elements a row,
// q numbers each.
type quantile struct {
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
	qt := &quantile{x: x, order: a.Interpolation, ignoreNaN: ignoreNaN, front: a.Q.Dim() == 1, back: func(t *tensor.Tensor) *tensor.Tensor { return t }}
	for _, q := range tensor.Data[float64](a.Q) {
		if !(q >= 0 && q <= 1) {
			return nil, opdef.Refuse("q", "want numbers between 0 and 1, got %v", q)
		}
		qt.q = append(qt.q, x.DType.Round(q))
	}
	rank := x.Dim()
	switch {
	case a.Dim == nil:
		qt.x, qt.n = x.Reshape(x.Numel()), x.Numel()
		qt.back = func(t *tensor.Tensor) *tensor.Tensor { return t.Reshape(x.Shape...) }
		if a.Keepdim {
			for range rank {
				qt.shape = append(qt.shape, 1)
			}
		}
	case rank == 0:
		if _, err := opdef.Dim("dim", *a.Dim, 0); err != nil {
			return nil, err
		}
		qt.x, qt.n = x.Reshape(1), 1
		qt.back = func(t *tensor.Tensor) *tensor.Tensor { return t.Reshape() }
	default:
		dim, err := opdef.Dim("dim", *a.Dim, rank)
		if err != nil {
			return nil, err
		}
		qt.n = x.Shape[dim]
		order := append(slices.Delete(allDims(rank), dim, dim+1), dim)
		inverse := make([]int, rank)
		for i, d := range order {
			inverse[d] = i
		}
		if dim != rank-1 {
			qt.x = x.Permute(order...)
			qt.back = func(t *tensor.Tensor) *tensor.Tensor { return t.Permute(inverse...) }
		}
		qt.shape = slices.Delete(slices.Clone(x.Shape), dim, dim+1)
		if a.Keepdim {
			qt.shape = slices.Insert(qt.shape, dim, 1)
		}
	}
	if qt.front {
		qt.shape = slices.Insert(qt.shape, 0, len(qt.q))
	}
	return qt, nil
}

// each calls f with the sorted row, the order of its elements, and for every q
// the ranks to interpolate between, the weight of the upper one and the rank
// wanted. Ranks are computed in the dtype of the elements, as torch does.
func (qt *quantile) each(row int, f func(k, below, above int, weight, rank float64, values []float64, order []int)) {
	v, order := make([]float64, qt.n), allDims(qt.n)
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
	out := make([]float64, rows*len(qt.q))
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

func quantileOp(name, summary, notes string, ignoreNaN bool) *opdef.Entry {
	return opdef.Op[quantileArgs]{
		Schema: name + "(Tensor self, Tensor|Scalar q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
		Doc:    opdef.Doc{Summary: summary, Formula: "the element of rank q*(n-1), interpolated", Notes: notes, Source: "torch." + name},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 2, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 4}},
		Exempt: map[string]string{"dtypes": "ranks are computed in the dtype of the elements"},
		Terms:  func(*quantileArgs) int { return 2 },
		Kernel: func(a *quantileArgs) ([]*tensor.Tensor, error) {
			qt, err := a.quantile(ignoreNaN)
			if err != nil {
				return nil, err
			}
			return single(qt.forward(a.Self.DType, func(x, y, w, _ float64) float64 { return weightedMean(x, y, w) })), nil
		},
		Scale: func(a *quantileArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			qt, err := a.quantile(ignoreNaN)
			if err != nil {
				return single(opdef.Abs(outs[0]))
			}
			return single(qt.forward(tensor.Float64, func(x, y, _, rank float64) float64 {
				return math.Abs(x) + math.Abs(y) + rank*math.Abs(y-x)
			}))
		},
		Grad: func(a *quantileArgs, g *opdef.Grad) (opdef.Grads, error) {
			qt, err := a.quantile(ignoreNaN)
			if err != nil {
				return nil, err
			}
			up, rows := tensor.Data[float64](g.Out[0]), qt.x.Numel()/qt.n
			t := opdef.Rows(a.Self.DType, qt.x.Shape, qt.n, func(r int, dst []float64) {
				clear(dst)
				qt.each(r, func(k, below, above int, w, _ float64, _ []float64, order []int) {
					dst[order[below]] += (1 - w) * up[k*rows+r]
					dst[order[above]] += w * up[k*rows+r]
				})
			})
			gr := gradOf("self", qt.back(t))
			gr.Set("q", nil)
			return gr, nil
		},
		Node: func(*quantileArgs, *opdef.Grad) (opdef.Node, error) {
			return opdef.Node{Skip: "gradients belong to another op"}, nil
		},
		Cases: func(r *rand.Rand) []*quantileArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			qs := tensor.New(f64, []int{3}, []float64{0.1, 0.5, 0.95}).Rounded()
			return []*quantileArgs{
				{Self: g.Distinct(f64, 3, 4), Q: tensor.Wrap(0.3), Interpolation: "linear"}, {Self: g.Distinct(f64, 3, 4), Q: qs, Dim: ptr(0), Interpolation: "linear"},
				{Self: g.Distinct(f64, 2, 3, 4), Q: qs, Dim: ptr(-1), Keepdim: true, Interpolation: "midpoint"}, {Self: g.Distinct(tensor.Float32, 7), Q: tensor.Wrap(0.4), Dim: ptr(0), Interpolation: "nearest"},
				{Self: g.Distinct(f64, 5), Q: tensor.Wrap(0.3), Interpolation: "lower"}, {Self: g.Distinct(f64, 5), Q: tensor.Wrap(0.3), Interpolation: "higher"}, {Self: opdef.NonContiguous(g.Distinct(f64, 3, 4)), Q: tensor.Wrap(0.8), Dim: ptr(1), Interpolation: "linear"},
			}
		},
	}.Entry()
}

// A covariance of v variables from n observations.
type covariance struct {
	x       *tensor.Tensor
	dt      tensor.DType
	v, n    int
	data    []float64 // deviations from the means
	rms     []float64 // per variable, weighted
	weight  []float64 // of observations
	divisor float64
	doubt   float64 // 1, more if weights are added up in a dtype less precise than dt
}

// rowsOfVariables is the number of variables of an argument of cov.
func rowsOfVariables(x *tensor.Tensor) int {
	if x.Dim() == 2 {
		return x.Shape[0]
	}
	return 1
}

func newCovariance(x *tensor.Tensor, correction int, fweights, aweights *tensor.Tensor) (*covariance, error) {
	if x.Dim() > 2 {
		return nil, opdef.Refuse("self", "want at most 2 dimensions, got %d", x.Dim())
	}
	if x.DType == tensor.Bool || x.DType.IsComplex() {
		return nil, opdef.Refuse("self", "not defined for dtype %s", x.DType)
	}
	c := &covariance{x: x, dt: x.DType, v: rowsOfVariables(x), n: width(x.Shape), data: slices.Clone(tensor.Data[float64](x))}
	if !c.dt.IsFloat() {
		c.dt = tensor.DefaultDType
	}
	c.doubt = 1
	if aweights != nil && aweights.DType.IsFloat() {
		if c.dt = tensor.Promote(c.dt, aweights.DType); c.dt == tensor.Invalid {
			return nil, opdef.Refuse("aweights", "no common dtype for %s and %s", x.DType, aweights.DType)
		}
		c.doubt += aweights.DType.Eps() / c.dt.Eps()
	}
	c.weight = make([]float64, c.n)
	for i := range c.weight {
		c.weight[i] = 1
	}
	for name, w := range map[string]*tensor.Tensor{"fweights": fweights, "aweights": aweights} {
		if w == nil {
			continue
		}
		if w.Dim() > 1 || w.Numel() != c.n {
			return nil, opdef.Refuse(name, "want %d weights, one per observation, got shape %s", c.n, tensor.ShapeString(w.Shape))
		}
		if w.DType.IsFloat() != (name == "aweights") {
			return nil, opdef.Refuse(name, "dtype %s does not fit", w.DType)
		}
		for i, k := range tensor.Data[float64](w) {
			if k < 0 {
				return nil, opdef.Refuse(name, "has a negative weight")
			}
			c.weight[i] *= k
		}
	}
	sum := opdef.PairwiseSum(c.weight)
	c.divisor = sum - float64(correction)
	if aweights != nil && correction != 0 {
		s := 0.0
		for i, a := range tensor.Data[float64](aweights) {
			s += c.weight[i] * a
		}
		c.divisor = sum - float64(correction)*s/sum
	}
	c.divisor = max(0, c.divisor)
	c.rms = make([]float64, c.v)
	for i := range c.v {
		row := c.data[i*c.n : (i+1)*c.n]
		var s, sq float64
		for k, x := range row {
			s += c.weight[k] * x
			sq += c.weight[k] * x * x
		}
		c.rms[i] = math.Sqrt(sq / sum)
		for k := range row {
			row[k] -= s / sum
		}
	}
	return c, nil
}

func (c *covariance) result(m []float64) *tensor.Tensor {
	if c.x.Dim() < 2 || c.v == 1 {
		return tensor.Scalar(c.dt, m[0])
	}
	return tensor.New(c.dt, []int{c.v, c.v}, m)
}

func (c *covariance) product(data []float64) []float64 {
	weighted := slices.Clone(data)
	for i := range weighted {
		weighted[i] *= c.weight[i%c.n] / c.divisor
	}
	out := make([]float64, c.v*c.v)
	kernel.Gemm(kernel.Dense(c.v, c.n, weighted), kernel.Dense(c.v, c.n, data).T(), 0, kernel.Dense(c.v, c.v, out))
	return out
}

func (c *covariance) matrix() []float64 { return c.product(c.data) }

// magnitudes are the sums behind the covariances: deviations are known to the
// size of the elements and of their mean.
func (c *covariance) magnitudes() []float64 {
	m := slices.Clone(c.data)
	for i := range m {
		m[i] = math.Sqrt(c.doubt) * (2*math.Abs(m[i]) + 2*c.rms[i/c.n])
	}
	return c.product(m)
}

// correlation returns the correlations, unlimited, and the standard deviations.
func (c *covariance) correlation() (r, std []float64) {
	r, std = c.matrix(), make([]float64, c.v)
	for i := range std {
		std[i] = math.Sqrt(r[i*c.v+i])
	}
	for i := range std {
		for j := range std {
			r[i*c.v+j] = max(-1, min(1, r[i*c.v+j]/std[i]/std[j]))
		}
	}
	return r, std
}

// grad is the gradient of the variables: (g + g^T) times the deviations times
// the weights; that of the means vanishes, since deviations add up to 0.
func (c *covariance) grad(g []float64) *tensor.Tensor {
	both := make([]float64, len(g))
	for i := range c.v {
		for j := range c.v {
			both[i*c.v+j] = g[i*c.v+j] + g[j*c.v+i]
		}
	}
	out := make([]float64, len(c.data))
	kernel.Gemm(kernel.Dense(c.v, c.v, both), kernel.Dense(c.v, c.n, c.data), 0, kernel.Dense(c.v, c.n, out))
	for i := range out {
		out[i] *= c.weight[i%c.n] / c.divisor
	}
	return tensor.New(c.dt, c.x.Shape, out)
}

// weightGrad is the gradient of aweights, by which deviations are weighted and
// the divisor is made; that of the means vanishes.
func (c *covariance) weightGrad(g []float64, a *covArgs) []float64 {
	cov, k := c.matrix(), float64(a.Correction)
	whole := 0.0 // of the divisor
	for i, x := range g {
		whole -= x * cov[i] / c.divisor
	}
	aw := tensor.Data[float64](a.Aweights)
	var w, wa float64
	for t, x := range aw {
		w += c.weight[t]
		wa += c.weight[t] * x
	}
	out := make([]float64, c.n)
	for t := range out {
		f := 1.0
		if a.Fweights != nil {
			f = tensor.At[float64](a.Fweights, t)
		}
		own := 0.0
		for i := range c.v {
			for j := range c.v {
				own += g[i*c.v+j] * c.data[i*c.n+t] * c.data[j*c.n+t]
			}
		}
		out[t] = f * (own/c.divisor + whole*(1-k*(2*aw[t]/w-wa/(w*w))))
	}
	return out
}

// weightScale bounds the terms of weightGrad, for incoming gradients up to g.
func (c *covariance) weightScale(g float64, a *covArgs) float64 {
	sum, most := 0.0, 0.0
	for _, m := range c.magnitudes() {
		sum += m
	}
	aw := tensor.Data[float64](a.Aweights)
	var w, wa float64
	for t, x := range aw {
		w += c.weight[t]
		wa += c.weight[t] * x
	}
	for t, x := range aw {
		d := 0.0
		for i := range c.v {
			d += math.Abs(c.data[i*c.n+t]) + c.rms[i]
		}
		most = max(most, d*d+sum*(1+math.Abs(float64(a.Correction))*(2*x/w+wa/(w*w))))
	}
	return 2 * c.doubt * g * most / c.divisor
}

// gradScale bounds the terms of the gradient, for incoming ones up to g.
func (c *covariance) gradScale(g float64) *tensor.Tensor {
	s := 0.0
	for _, r := range c.rms {
		s += r
	}
	for i, x := range c.data {
		s = max(s, float64(c.v)*(math.Abs(x)+c.rms[i/c.n]))
	}
	w := 0.0
	for _, x := range c.weight {
		w = max(w, x)
	}
	return tensor.Full(tensor.Float64, c.x.Shape, 4*c.doubt*g*s*w/c.divisor)
}
