package activation

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// softmaxOps normalise exponentials along a dimension.
var softmaxOps = []*opdef.Entry{
	softmaxFunction("softmax", softmaxKind),
	softmaxMethod("softmax", softmaxKind),
	softmaxFunction("log_softmax", logSoftmaxKind),
	softmaxMethod("log_softmax", logSoftmaxKind),
	softmaxFunction("softmin", softminKind),
}

// SoftmaxFunctionArgs are the arguments of torch.nn.functional.softmax.
type SoftmaxFunctionArgs struct {
	Input *tensor.Tensor
	Dim   *int
	Dtype *tensor.DType
}

type softmaxMethodArgs struct {
	Self  *tensor.Tensor
	Dim   int
	Dtype *tensor.DType
}

// A softmaxVariant is one of the three functions.
type softmaxVariant struct {
	summary, formula string
	sign             float64 // of the exponent
	log              bool
}

var (
	softmaxKind    = softmaxVariant{"Exponentials along a dimension, scaled to sum 1", "exp(x) / sum(exp(x))", 1, false}
	logSoftmaxKind = softmaxVariant{"Logarithm of softmax", "x - log(sum(exp(x)))", 1, true}
	softminKind    = softmaxVariant{"Softmax of the negated elements", "exp(-x) / sum(exp(-x))", -1, false}
)

// softmaxDim is the dimension torch.nn.functional picks for dim=None.
func softmaxDim(dim *int, n int) int {
	switch {
	case dim != nil:
		return *dim
	case n == 0 || n == 1 || n == 3:
		return 0
	}
	return 1
}

// softmaxFunction declares the form of torch.nn.functional.
func softmaxFunction(name string, v softmaxVariant) *opdef.Entry {
	type A = SoftmaxFunctionArgs
	return softmaxOp(name+
		".functional(Tensor input, int? dim=None, ignored _stacklevel=3, dtype? dtype=None) -> Tensor", "F."+name,
		"torch.nn.functional."+name, "input", v,
		func(a *A) (x *tensor.Tensor, dim int, dt *tensor.DType) {
			return a.Input, softmaxDim(a.Dim, a.Input.Dim()), a.Dtype
		},
		func(x *tensor.Tensor, dim int, dt *tensor.DType) *A { return &A{x, &dim, dt} })
}

// softmaxMethod declares the form of torch, torch.special and Tensor.
func softmaxMethod(name string, v softmaxVariant) *opdef.Entry {
	type A = softmaxMethodArgs
	return softmaxOp(name+"(Tensor self, int dim, dtype? dtype=None) -> Tensor", name+" Tensor."+name+" special."+name,
		"torch."+name, "self", v,
		func(a *A) (x *tensor.Tensor, dim int, dt *tensor.DType) { return a.Self, a.Dim, a.Dtype },
		func(x *tensor.Tensor, dim int, dt *tensor.DType) *A { return &A{x, dim, dt} })
}

// A softmaxCall is what both forms come to.
type softmaxCall struct {
	softmaxVariant
	arg   string // the name of the argument
	given *tensor.Tensor
	x     *tensor.Tensor // converted to dtype
	dim   int

	// What kernels get wrong: elements of 0 are in the sum besides; the last elements are left out of the sum,
	// or altogether; what flows through the sum is left out of the gradient.
	more    int
	short   int
	dropped bool
	noSum   bool
	lacks   int // the sum in the gradient lacks so many of the last terms
	// Exponentials are not divided by their sum; a part of so many elements at a time has its own maximum, and neither
	// its exponentials nor its sum are rescaled to that of all.
	whole bool
	tile  int
}

func softmaxOp[A any](schema, names, source, arg string, v softmaxVariant,
	of func(*A) (x *tensor.Tensor, dim int, dt *tensor.DType),
	args func(*tensor.Tensor, int, *tensor.DType) *A) *opdef.Entry {
	type call = *softmaxCall
	return opdef.Planned[*A, call]{
		Schema: schema, Names: names,
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: v.summary, Formula: v.formula,
			Notes: "x is the input, converted to dtype. A row of -inf alone gives nan.", Source: source},
		Error: opdef.Error{Class: opdef.Elementwise, ULPs: 4, Covers: true,
			Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 4, Covers: true}},
		Plan: func(a *A) (call, error) {
			x, dim, given := of(a)
			dt := x.DType
			if given != nil {
				dt = *given
			}
			if !dt.IsFloat() {
				return nil, opdef.Refuse(arg, "want a floating dtype, got %s", dt)
			}
			dim, err := opdef.Dim("dim", dim, x.Dim())
			return &softmaxCall{softmaxVariant: v, arg: arg, given: x, x: elements.Converted(x, dt), dim: dim}, err
		},
		Bounds: opdef.Bounds[call]{
			Terms: func(c call) int { return elements.LengthOf(c.x.Shape, c.dim) },
			Scale: func(c call, outs []*tensor.Tensor) []*tensor.Tensor { return elements.Single(c.scale(outs[0])) },
			GradScale: func(c call, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return elements.GradOf(arg, c.gradScale(g)), nil
			},
		},
		Kernel: call.kernel,
		Grad:   func(c call, g *opdef.Grad) (opdef.Grads, error) { return elements.GradOf(arg, c.grad(g)), nil },
		// A conversion by dtype= and the negation of softmin are nodes before.
		Node: func(c call, g *opdef.Grad) (opdef.Node, error) {
			if c.given.DType == g.Outs[0].DType && c.sign > 0 {
				return opdef.Node{}, nil
			}
			return opdef.Node{Grads: elements.Single(elements.Scaled(c.grad(g), c.sign)),
				Scale: func() []*tensor.Tensor { return elements.Single(c.gradScale(g)) }}, nil
		},
		Cases: func(g opdef.Gen) []*A {
			f32, f64 := tensor.Float32, tensor.Float64
			tails := func(dt tensor.DType, n int) *A {
				t := g.Tails(dt, 3, n)
				if v.sign < 0 {
					negate(tensor.Data[float64](t))
				}
				return args(t, 1, nil)
			}
			return []*A{
				args(g.Normal(f64, 3, 4), 1, nil), args(g.Normal(f64, 2, 3, 4), -2, nil),
				args(g.Normal(f32, 5), 0, nil), args(g.Normal(tensor.BFloat16, 3, 5), -1, &f32),
				args(g.Normal(f64), 0, nil), args(g.Normal(f32, 0, 3), 1, nil),
				args(g.Int(tensor.Int64, -3, 3, 4), 0, &f32),
				args(g.Uniform(f32, -200, 200, 2, 6), 1, nil),
				args(g.Normal(f32, 2, 33), 1, nil), args(g.Rows(tensor.BFloat16, 3, 133), 1, nil), // see opdef.Tiles
				args(g.Rows(f32, 3, 133), 1, nil), args(g.Rows(f32, 3, 1030), 1, nil),
				tails(f32, 133), tails(tensor.BFloat16, 133), tails(f32, 1030),
			}
		},
	}.Entry()
}

func (c *softmaxCall) kernel() ([]*tensor.Tensor, error) {
	return elements.Single(opdef.AlongDim(c.x.DType, c.x, c.dim, func(src, dst []float64) {
		if c.sign < 0 {
			negate(src)
		}
		if c.more > 0 || c.short > 0 || c.whole || c.tile > 0 {
			c.wrong(src, dst)
		} else if c.log {
			elements.LogSoftmaxRow(src, dst)
		} else {
			kernel.Softmax(dst, src)
		}
	})), nil
}

// Mistakes are what kernels get wrong about the sum of a row.
func (c *softmaxCall) Mistakes() []opdef.Mistake[any] {
	var out []opdef.Mistake[any]
	add := func(with func(m *softmaxCall), format string, args ...any) {
		out = append(out, opdef.Mistake[any]{Text: fmt.Sprintf(format, args...),
			Plan: func() (any, error) {
				m := *c
				with(&m)
				return &m, nil
			}})
	}
	add(func(m *softmaxCall) { m.noSum = true }, "the gradient lacks the sum over a row")
	out[0].Gradients = true
	add(func(m *softmaxCall) { m.more = 1 }, "1 is added to the sum of the exponentials")
	size := elements.LengthOf(c.x.Shape, c.dim)
	padded := []int{1}
	for _, tile := range opdef.Tiles {
		if more := (tile - size%tile) % tile; more > 0 && !slices.Contains(padded, more) {
			padded = append(padded, more)
			add(func(m *softmaxCall) { m.more = more }, "%d elements of 0 that pad a row to %d count in its sum", more,
				size+more)
		}
	}
	if !c.log {
		add(func(m *softmaxCall) { m.whole = true }, "the exponentials are not divided by their sum")
		for _, tile := range []int{(size + 1) / 2, 16, 32, 64, 128} {
			if tile > 0 && tile < size {
				add(func(m *softmaxCall) { m.tile = tile }, "each %d elements have their own maximum, to which their "+
					"exponentials stay scaled", tile)
			}
		}
	}
	for _, tail := range opdef.Tails(size) {
		add(func(m *softmaxCall) { m.lacks = tail }, "%s", opdef.ShortGradient(tail, size))
		out[len(out)-1].Rounds, out[len(out)-1].Gradients = true, true
		add(func(m *softmaxCall) { m.short = tail }, "the sum lacks the last %d of %d elements", tail, size)
		out[len(out)-1].Rounds = true
		if !c.log {
			add(func(m *softmaxCall) { m.short, m.dropped = tail, true },
				"the last %d of %d elements are left out", tail, size)
			out[len(out)-1].Rounds = true
		}
	}
	return out
}

// wrong is the result of a row with a mistake.
func (c *softmaxCall) wrong(src, dst []float64) {
	if c.tile > 0 {
		sum := 0.0
		top := math.Inf(-1)
		for i, x := range src {
			if i%c.tile == 0 { // the largest so far
				top = max(top, vmath.Max(src[i:min(i+c.tile, len(src))]))
			}
			dst[i] = math.Exp(x - top)
			sum += dst[i]
		}
		for i := range dst {
			dst[i] /= sum
		}
		return
	}
	summed := slices.Clone(src[:len(src)-c.short])
	summed = append(summed, make([]float64, c.more)...) // of which the exponentials are 1
	top := vmath.Max(summed)
	sum := 0.0
	for _, x := range summed {
		sum += math.Exp(x - top)
	}
	for i, x := range src {
		dst[i] = x - top - math.Log(sum)
		if !c.log {
			dst[i] = math.Exp(x-top) / sum
		}
	}
	if c.whole {
		for i, x := range src {
			dst[i] = math.Exp(x - top)
		}
	}
	if c.dropped {
		clear(dst[len(src)-c.short:])
	}
}

func negate(v []float64) {
	for i, x := range v {
		v[i] = -x
	}
}

// grad is the gradient of the input: with y the result, y*(g - sum(g*y)) or, of
// the logarithm, g - exp(y)*sum(g).
func (c *softmaxCall) grad(g *opdef.Grad) *tensor.Tensor {
	y := g.Outs[0]
	return opdef.AlongDimN(y.DType, c.dim, func(s [][]float64, dst []float64) {
		g, y := s[0], s[1][:len(s[0])]
		summed := len(g) - c.lacks
		if c.log && !c.noSum {
			logSoftmaxBackward(g, y, dst, summed)
			return
		}
		if c.log {
			copy(dst, g)
			return
		}
		dot := 0.0
		if !c.noSum {
			dot = vmath.Dot(g[:summed], y[:summed])
		}
		vmath.Affine(dst, g, -dot, c.sign)
		vmath.Mul(dst, dst, y)
	}, g.Out[0], y)
}

// logSoftmaxBackward takes the sum of the first so many.
func logSoftmaxBackward(g, y, dst []float64, summed int) {
	sum := vmath.Sum(g[:summed])
	vmath.Exp(dst, y)
	vmath.Affine(dst, dst, 0, -sum)
	vmath.Add(dst, dst, g)
}

// scale is, for softmax, y*(1 + |x-max|): the exponent is a rounded difference;
// for its logarithm the largest of the three numbers added.
func (c *softmaxCall) scale(y *tensor.Tensor) *tensor.Tensor {
	return opdef.AlongDimN(tensor.Float64, c.dim, func(s [][]float64, dst []float64) { c.scaleRow(dst, s[0], s[1]) },
		c.x, y)
}

// scaleRow stores scale of a row x with result y; x is overwritten.
func (c *softmaxCall) scaleRow(dst, x, y []float64) {
	if c.sign < 0 {
		negate(x)
	}
	vmath.Affine(dst, x, -vmath.Max(x), -1) // first, since masks of the smallest number swallow the rest
	if c.log {
		vmath.Affine(dst, dst, 1-vmath.Max(y), 1)
	} else {
		vmath.Affine(dst, dst, 2-math.Log(vmath.Max(y)), 1)
		vmath.Mul(dst, dst, y)
	}
	if vmath.Max(dst) <= math.MaxFloat64 {
		return
	}
	for i, v := range x { // of -Inf nothing is computed
		if v < -math.MaxFloat64 {
			dst[i] = 0
		}
	}
}

// gradScale is the sum of the magnitudes of the terms of the gradient, with the
// error of the result it is computed from.
func (c *softmaxCall) gradScale(g *opdef.Grad) *tensor.Tensor {
	y := g.Outs[0]
	return opdef.AlongDimN(tensor.Float64, c.dim, func(s [][]float64, dst []float64) {
		g, y, sy := s[0], s[1], opdef.Scratch[float64](len(s[0]))
		defer opdef.Release(sy)
		c.gradScaleRow(dst, g, y, *sy, s[2])
	}, g.Out[0], y, c.x)
}

// gradScaleRow stores gradScale of a row x, in sy what scale is; all are overwritten.
func (c *softmaxCall) gradScaleRow(dst, g, y, sy, x []float64) {
	c.scaleRow(sy, x, y)
	vmath.Abs(g, g)
	if c.log {
		vmath.Affine(sy, sy, 1, vmath.Sum(g))
		vmath.Exp(y, y)
		vmath.Mul(sy, sy, y)
		vmath.Add(dst, g, sy)
		return
	}
	sum := vmath.Dot(g, sy)
	vmath.Affine(dst, g, sum, 1)
	vmath.Mul(dst, dst, sy)
	vmath.Axpy(dst, sum, y)
}

// ReadScale is the sum of the magnitudes of the terms of the gradient that is computed from a known result. It counts
// the partial sums of the row by their root mean square, as errors of their roundings add up.
func (c *softmaxCall) ReadScale(g *opdef.Grad) opdef.Grads {
	return elements.GradOf(c.arg, opdef.AlongDimN(tensor.Float64, c.dim, func(s [][]float64, dst []float64) {
		g, y := s[0], s[1]
		var sum, all, squares float64
		for i, x := range g {
			if !c.log {
				x *= y[i]
			}
			sum += x
			all += math.Abs(x)
			squares += sum * sum
		}
		all += math.Sqrt(squares / 3)
		for i, x := range g {
			dst[i] = y[i] * (math.Abs(x) + all)
			if c.log {
				dst[i] = math.Abs(x) + math.Exp(y[i])*all
			}
		}
	}, g.Out[0], g.Outs[0]))
}
