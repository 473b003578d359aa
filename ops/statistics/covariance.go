package statistics

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
)

// covarianceOps are covariances and correlations.
var covarianceOps = []*opdef.Entry{
	opdef.Op[covArgs]{
		Schema: "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
		Doc: opdef.Doc{Summary: "Covariance matrix of variables in rows",
			Formula: "(self - mean) W (self - mean)^H / n, with W the product of the weights",
			Notes: "n is the sum of the weights less correction, for aweights less " +
				"correction*sum(w*aweights)/sum(w). Of complex variables the second is conjugated.",
			Source: "torch.cov"},
		Error: opdef.Error{Class: opdef.Normwise, ULPs: 4, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 4}},
		Terms: func(a *covArgs) int { return elements.LastDim(a.Self.Shape) },
		Kernel: func(a *covArgs) ([]*tensor.Tensor, error) {
			c, err := newCovariance(a.Self, a.Correction, a.Fweights, a.Aweights)
			if err != nil {
				return nil, err
			}
			return elements.Single(c.covariances()), nil
		},
		Scale: func(a *covArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			c, err := newCovariance(a.Self, a.Correction, a.Fweights, a.Aweights)
			if err != nil {
				return elements.Single(opdef.Abs(outs[0]))
			}
			return elements.Single(c.sizes())
		},
		Grad: func(a *covArgs, g *opdef.Grad) (opdef.Grads, error) {
			c, err := newCovariance(a.Self, a.Correction, a.Fweights, a.Aweights)
			if err != nil {
				return nil, err
			}
			gr := elements.GradOf("self", c.grad(g.Out[0]))
			if a.Aweights != nil {
				gr.Set("aweights", tensor.New(a.Aweights.DType, a.Aweights.Shape, c.weightGrad(g.Out[0], a)))
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
			s := elements.GradOf("self", c.gradScale(opdef.MaxAbs(g.Out[0])))
			if a.Aweights != nil {
				s.Set("aweights", tensor.Full(tensor.Float64, a.Aweights.Shape,
					c.weightScale(opdef.MaxAbs(g.Out[0]), a)))
			}
			return s, nil
		},
		Node: func(a *covArgs, g *opdef.Grad) (opdef.Node, error) {
			v := rowsOfVariables(a.Self)
			return opdef.Node{Grads: elements.Single(g.Out[0].Reshape(v, v)), Weak: "the incoming gradient reshaped"},
				nil
		},
		Cases: func(r *rand.Rand) []*covArgs {
			g := opdef.Gen{R: r}
			w := g.Uniform(tensor.Float64, 0.5, 2, 5)
			return []*covArgs{
				{Self: g.Normal(tensor.Float64, 3, 5), Correction: 1}, {Self: g.Normal(tensor.Float64, 2, 5),
					Correction: 0, Fweights: g.Int(tensor.Int64, 1, 4, 5), Aweights: w},
				{Self: g.Normal(tensor.Float64, 2, 5), Correction: 1, Aweights: w}, {Self: g.Normal(tensor.Float32, 6),
					Correction: 1}, {Self: opdef.NonContiguous(g.Normal(tensor.Float64, 3, 4)), Correction: 1},
				{Self: g.Int(tensor.Int32, -4, 4, 2, 5), Correction: 1}, {Self: g.Normal(tensor.Complex128, 3, 5),
					Correction: 1, Aweights: w}, {Self: g.Normal(tensor.Complex64, 4), Correction: 0},
			}
		},
	}.Entry(),
	opdef.Op[opdef.UnaryArgs]{
		Schema: "corrcoef(Tensor self) -> Tensor",
		Doc: opdef.Doc{Summary: "Correlation matrix of variables in rows",
			Formula: "cov(self) divided by the standard deviations of both variables",
			Notes:   "Real and imaginary parts are limited to [-1, 1]; beyond them no gradient passes.",
			Source:  "torch.corrcoef"},
		Error: opdef.Error{Class: opdef.Normwise, ULPs: 4, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 8}},
		Terms: func(a *opdef.UnaryArgs) int { return elements.LastDim(a.Self.Shape) },
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
			c, err := newCovariance(a.Self, 1, nil, nil)
			if err != nil {
				return nil, err
			}
			return elements.Single(c.correlations()), nil
		},
		Scale: func(a *opdef.UnaryArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			c, err := newCovariance(a.Self, 1, nil, nil)
			if err != nil {
				return elements.Single(opdef.Abs(outs[0]))
			}
			return elements.Single(c.correlationSizes())
		},
		Grad: func(a *opdef.UnaryArgs, g *opdef.Grad) (opdef.Grads, error) {
			c, err := newCovariance(a.Self, 1, nil, nil)
			if err != nil {
				return nil, err
			}
			return elements.GradOf("self", c.correlationGrad(g.Out[0])), nil
		},
		GradScale: func(a *opdef.UnaryArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			c, err := newCovariance(a.Self, 1, nil, nil)
			if err != nil {
				return nil, err
			}
			least := c.leastVariance()
			return elements.GradOf("self", c.gradScale(4*opdef.MaxAbs(g.Out[0])/least)), nil
		},
		Node: func(a *opdef.UnaryArgs, g *opdef.Grad) (opdef.Node, error) {
			return opdef.Node{Grads: elements.Single(g.Out[0]), Weak: "the incoming gradient"}, nil
		},
		Cases: func(r *rand.Rand) []*opdef.UnaryArgs {
			g := opdef.Gen{R: r}
			return []*opdef.UnaryArgs{{Self: g.Normal(tensor.Float64, 3, 6)}, {Self: g.Normal(tensor.Float32, 2, 5)},
				{Self: opdef.NonContiguous(g.Normal(tensor.Float64, 3, 5))}, {Self: g.Normal(tensor.Complex128, 3, 5)}}
		},
	}.Entry(),
}

type covArgs struct {
	Self               *tensor.Tensor
	Correction         int
	Fweights, Aweights *tensor.Tensor
}

// A covariances is a covariance of real or of complex variables.
type covariances interface {
	covariances() *tensor.Tensor
	sizes() *tensor.Tensor
	grad(g *tensor.Tensor) *tensor.Tensor
	gradScale(g float64) *tensor.Tensor
	weightGrad(g *tensor.Tensor, a *covArgs) []float64
	weightScale(g float64, a *covArgs) float64

	correlations() *tensor.Tensor
	correlationSizes() *tensor.Tensor
	correlationGrad(g *tensor.Tensor) *tensor.Tensor
	leastVariance() float64
}

// A covariance of v variables from n observations.
type covariance[T kernel.Field] struct {
	x       *tensor.Tensor
	dt      tensor.DType
	v, n    int
	data    []T       // deviations from the means
	rms     []float64 // per variable, weighted
	weight  []float64 // of observations
	divisor float64
	doubt   float64 // 1, more if weights are added up in a dtype less precise than dt or cancel
}

// rowsOfVariables is the number of variables of an argument of cov.
func rowsOfVariables(x *tensor.Tensor) int {
	if x.Dim() == 2 {
		return x.Shape[0]
	}
	return 1
}

func newCovariance(x *tensor.Tensor, correction int, fweights, aweights *tensor.Tensor) (covariances, error) {
	if x.DType.IsComplex() {
		return covarianceOf[complex128](x, correction, fweights, aweights)
	}
	return covarianceOf[float64](x, correction, fweights, aweights)
}

func covarianceOf[T kernel.Field](x *tensor.Tensor, correction int, fweights, aweights *tensor.Tensor) (*covariance[T],
	error) {
	if x.Dim() > 2 {
		return nil, opdef.Refuse("self", "want at most 2 dimensions, got %d", x.Dim())
	}
	if x.DType == tensor.Bool {
		return nil, opdef.Refuse("self", "not defined for dtype %s", x.DType)
	}
	c := &covariance[T]{x: x, dt: x.DType, v: rowsOfVariables(x), n: elements.LastDim(x.Shape),
		data: slices.Clone(tensor.Data[T](x))}
	if c.dt.Kind() < tensor.KindFloat {
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
			return nil, opdef.Refuse(name, "want %d weights, one per observation, got shape %s", c.n,
				tensor.ShapeString(w.Shape))
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
		c.doubt += (sum + math.Abs(float64(correction))*s/sum) / math.Abs(c.divisor)
	}
	c.divisor = max(0, c.divisor)
	c.rms = make([]float64, c.v)
	for i := range c.v {
		row := c.data[i*c.n : (i+1)*c.n]
		var s T
		var sq float64
		for k, x := range row {
			s += kernel.From[T](c.weight[k]) * x
			sq += c.weight[k] * kernel.Re(x*kernel.Conj(x))
		}
		c.rms[i] = math.Sqrt(sq / sum)
		for k := range row {
			row[k] -= s / kernel.From[T](sum)
		}
	}
	return c, nil
}

// result has no dimensions where there is one variable.
func (c *covariance[T]) result(dt tensor.DType, m kernel.Mat[T]) *tensor.Tensor {
	if c.x.Dim() < 2 || c.v == 1 {
		return tensor.Scalar(dt, m.D[0])
	}
	return tensor.New(dt, []int{c.v, c.v}, m.D)
}

// product is data W data^H / n.
func (c *covariance[T]) product(data []T) kernel.Mat[T] {
	d := kernel.Mat[T]{R: c.v, C: c.n, D: data}
	return d.Map(func(_, t int, x T) T { return x * kernel.From[T](c.weight[t]/c.divisor) }).Mul(d.H())
}

func (c *covariance[T]) matrix() kernel.Mat[T] { return c.product(c.data) }

func (c *covariance[T]) covariances() *tensor.Tensor { return c.result(c.dt, c.matrix()) }

// magnitudes are the sums behind the covariances: deviations are known to the
// size of the elements and of their mean.
func (c *covariance[T]) magnitudes() kernel.Mat[T] {
	m := make([]T, len(c.data))
	for i, x := range c.data {
		m[i] = kernel.From[T](math.Sqrt(c.doubt) * (2*kernel.Abs(x) + 2*c.rms[i/c.n]))
	}
	return c.product(m)
}

func (c *covariance[T]) sizes() *tensor.Tensor {
	return opdef.Abs(c.result(c.dt, c.magnitudes())).WithDType(tensor.Float64)
}

// correlation returns the correlations, limited, and the variances.
func (c *covariance[T]) correlation() (kernel.Mat[T], []float64) {
	r, variance := c.matrix(), make([]float64, c.v)
	for i := range variance {
		variance[i] = kernel.Re(r.At(i, i))
	}
	limit := func(x float64) float64 { return max(-1, min(1, x)) }
	return r.Map(func(i, j int, x T) T {
		x = x / kernel.From[T](math.Sqrt(variance[i])) / kernel.From[T](math.Sqrt(variance[j]))
		return kernel.FromParts[T](limit(kernel.Re(x)), limit(kernel.Im(x)))
	}), variance
}

func (c *covariance[T]) correlations() *tensor.Tensor {
	r, _ := c.correlation()
	return c.result(c.dt, r)
}

func (c *covariance[T]) correlationSizes() *tensor.Tensor {
	_, variance := c.correlation()
	m := c.magnitudes().Map(func(i, j int, x T) T {
		return kernel.From[T](2 * (kernel.Abs(x)/math.Sqrt(variance[i]*variance[j]) + 1))
	})
	return opdef.Abs(c.result(c.dt, m)).WithDType(tensor.Float64)
}

// correlationGrad: the covariances are divided by the standard deviations,
// which are those of the diagonal.
func (c *covariance[T]) correlationGrad(g *tensor.Tensor) *tensor.Tensor {
	r, variance := c.correlation()
	d, up := kernel.Zeros[T](c.v, c.v), tensor.Data[T](g)
	for i := range c.v {
		for j := range c.v {
			k := i*c.v + j
			d.D[k] += up[k] / kernel.From[T](math.Sqrt(variance[i]*variance[j]))
			own := 0.5 * kernel.Re(kernel.Conj(up[k])*r.D[k])
			d.D[i*c.v+i] -= kernel.From[T](own / variance[i])
			d.D[j*c.v+j] -= kernel.From[T](own / variance[j])
		}
	}
	return c.back(d)
}

func (c *covariance[T]) leastVariance() float64 {
	_, variance := c.correlation()
	return slices.Min(append(variance, math.Inf(1)))
}

func (c *covariance[T]) grad(g *tensor.Tensor) *tensor.Tensor {
	return c.back(kernel.Mat[T]{R: c.v, C: c.v, D: tensor.Data[T](g)})
}

// back is the gradient of the variables: (g + g^H) times the deviations times
// the weights; that of the means vanishes, since deviations add up to 0.
func (c *covariance[T]) back(g kernel.Mat[T]) *tensor.Tensor {
	x := g.Add(1, g.H()).Mul(kernel.Mat[T]{R: c.v, C: c.n, D: c.data})
	return tensor.New(c.dt, c.x.Shape,
		x.Map(func(_, t int, x T) T { return x * kernel.From[T](c.weight[t]/c.divisor) }).D)
}

// weightGrad is the gradient of aweights, by which deviations are weighted and
// the divisor is made; that of the means vanishes.
func (c *covariance[T]) weightGrad(g *tensor.Tensor, a *covArgs) []float64 {
	cov, up, k := c.matrix(), tensor.Data[T](g), float64(a.Correction)
	whole := 0.0 // of the divisor
	for i, x := range up {
		whole -= kernel.Re(kernel.Conj(x)*cov.D[i]) / c.divisor
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
				own += kernel.Re(kernel.Conj(up[i*c.v+j]) * c.data[i*c.n+t] * kernel.Conj(c.data[j*c.n+t]))
			}
		}
		out[t] = f * (own/c.divisor + whole*(1-k*(2*aw[t]/w-wa/(w*w))))
	}
	return out
}

// weightScale bounds the terms of weightGrad, for incoming gradients up to g.
func (c *covariance[T]) weightScale(g float64, a *covArgs) float64 {
	sum, most := 0.0, 0.0
	for _, m := range c.magnitudes().D {
		sum += kernel.Abs(m)
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
			d += kernel.Abs(c.data[i*c.n+t]) + c.rms[i]
		}
		most = max(most, d*d+sum*(1+math.Abs(float64(a.Correction))*(2*x/w+wa/(w*w))))
	}
	return 2 * c.doubt * g * most / c.divisor
}

// gradScale bounds the terms of the gradient, for incoming ones up to g.
func (c *covariance[T]) gradScale(g float64) *tensor.Tensor {
	s := 0.0
	for _, r := range c.rms {
		s += r
	}
	for i, x := range c.data {
		s = max(s, float64(c.v)*(kernel.Abs(x)+c.rms[i/c.n]))
	}
	w := 0.0
	for _, x := range c.weight {
		w = max(w, x)
	}
	return tensor.Full(tensor.Float64, c.x.Shape, 4*c.doubt*g*s*w/c.divisor)
}
