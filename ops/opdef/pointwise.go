package opdef

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/tensor"
)

// Pointwise declares a function of one tensor, element by element, that has
// further arguments (negative_slope, eps, n). Each function field is called
// once per call of the op and returns the function of one element. F, C and I
// give it on floats, complex numbers and integers: where I is nil integers and
// bool are promoted to float32 first, or refused if NoInts is set; where C is
// nil complex input is refused. Block, if set, takes the place of F: it stores
// the function of src, a block of any length, in dst, which does not overlap it.
type Pointwise[A any] struct {
	Schema string
	Names  string
	Doc    Doc
	Traits
	Error Error

	Self  func(a *A) *tensor.Tensor
	Check func(a *A) error // refuses arguments; nil: none

	F      func(a *A) func(x float64) float64
	Block  func(a *A) func(dst, src []float64)
	C      func(a *A) func(x complex128) complex128
	I      func(a *A) func(x int64) int64
	NoInts bool
	NoBool bool // bool is refused although I is set

	// DF is the derivative at x, where y = F(x); DC likewise (of a holomorphic
	// function). Both nil: NoGrad says why. DBlock, if set, takes the place of DF: it stores the
	// derivatives at a block in dst, which overlaps neither x nor y.
	DF     func(a *A) func(x, y float64) float64
	DBlock func(a *A) func(dst, x, y []float64)
	DC     func(a *A) func(x, y complex128) complex128
	// OfX: the derivative and its S are functions of x alone; y is not computed for them and
	// arbitrary.
	OfX bool
	// Saved: the derivative is computed from the result as autograd keeps it,
	// rounded to its dtype (derivatives.yaml: tanh_backward(grad, result)).
	Saved bool

	// Steps, if set, is the gradient of an element as torch composes it of g, what comes in, x and y: round is that of
	// each step to the dtype. In 16 bits such a gradient is as right as the exact one: squares overflow in float16, and
	// cubes lose bits below its normal range.
	Steps func(g, x, y float64, round func(float64) float64) float64

	// Else is the result y of x as other kernels compute it, and DElse the derivative d, where they differ at NaN,
	// infinity or the ends of a range: both are as right. nil: they do not.
	Else  func(a *A) func(x, y float64) float64
	DElse func(a *A) func(x, d float64) float64

	// Jumps: the result jumps at a number among the arguments, which kernels round to
	// the dtype or not, so that within rounding of it both sides are right.
	Jumps bool

	// Certain reports whether it is certain on which side of a jump an element lies: the number that it is compared
	// with is one of its dtype. nil: it is not.
	Certain func(a *A) bool

	// S is the largest magnitude among the terms that make y, where a sound
	// implementation cancels (1 for 1 - tanh near 1); nil: it does not.
	// SBlock, if set, takes the place of S: it stores S of blocks of elements and
	// results in dst and may overwrite them.
	S      func(a *A) func(x, y float64) float64
	SBlock func(a *A) func(dst, x, y []float64)
	// DS is S of the derivative (1 for the 1 - y*y of tanh). DSBlock, if set, takes its place, as
	// DBlock does that of DF.
	DS      func(a *A) func(x, y float64) float64
	DSBlock func(a *A) func(dst, x, y []float64)
	// S is nowhere less than SLeast times the magnitude of x, DS than DSLeast, which most elements are told
	// by, without S; 0: it is not known.
	SLeast, DSLeast float64
	// SC is S for complex numbers; nil: the magnitude of y.
	SC func(a *A) func(x, y complex128) float64

	// Formula is F with its numbers, and the derivative's likewise: kernels may have others. F is made of it if there
	// is neither F nor Block. nil: there are no such numbers.
	Formula, Slope func(a *A) Formula[float64]

	// Mistakes are arguments of A's own that no schema has, under which F or Block computes
	// what kernels get wrong.
	Mistakes func(a *A) []Mistake[*A]

	Node   func(a *A, g *Grad) (Node, error)
	Exempt map[string]string // as in Op
	Cases  func(g Gen) []*A
}

// Entry declares the op.
func (p Pointwise[A]) Entry() *Entry {
	if p.F == nil && p.Block == nil && p.Formula != nil {
		p.F = func(a *A) func(float64) float64 { return p.Formula(a).Sound() }
	}
	op := Planned[*A, *pointwise[A]]{
		Schema: p.Schema, Names: p.Names, Doc: p.Doc, Traits: p.Traits, Error: p.Error,
		Plan:   func(a *A) (*pointwise[A], error) { return &pointwise[A]{&p, a}, nil },
		Kernel: func(c *pointwise[A]) ([]*tensor.Tensor, error) { return c.kernel(c.args) },
		Exempt: p.Exempt, Cases: p.Cases,
	}
	if p.Node != nil {
		op.Node = func(c *pointwise[A], g *Grad) (Node, error) { return p.Node(c.args, g) }
	}
	if op.Error.Class != Exact && (p.S != nil || p.SBlock != nil || p.C != nil) {
		op.Scale = func(c *pointwise[A], outs []*tensor.Tensor) []*tensor.Tensor { return c.scale(c.args, outs) }
	}
	if p.smooth() || p.DC != nil {
		op.Grad = func(c *pointwise[A], g *Grad) (Grads, error) { return c.grad(c.args, g) }
		if op.Error.Class != Exact && op.Error.Grad == nil {
			op.Error.Grad = &Error{Class: Elementwise, ULPs: 4}
		}
		if p.DS != nil || p.DSBlock != nil || p.DC != nil {
			op.GradScale = func(c *pointwise[A], g *Grad, grads Grads) (Grads, error) {
				return c.gradScale(c.args, g, grads)
			}
		}
	}
	return op.Entry()
}

// A pointwise is a call of a Pointwise.
type pointwise[A any] struct {
	*Pointwise[A]
	args *A
}

func (c *pointwise[A]) Least([]*tensor.Tensor) []*tensor.Tensor {
	if c.SLeast == 0 {
		return nil
	}
	return []*tensor.Tensor{magnitudesTimes(c.SLeast, c.Self(c.args))}
}

func (c *pointwise[A]) GradLeast(g *Grad) (Grads, error) {
	if c.DSLeast == 0 {
		return nil, nil
	}
	return Grads{"self": {magnitudesTimes(c.DSLeast, g.Out[0])}}, nil
}

func (c *pointwise[A]) Else([]*tensor.Tensor) [][]*tensor.Tensor {
	if !c.Jumps && c.Pointwise.Else == nil || c.Certain != nil && c.Certain(c.args) {
		return nil
	}
	return c.others(c.args)
}

func (c *pointwise[A]) GradElse(g *Grad) ([]Grads, error) {
	if !c.smooth() {
		return nil, nil
	}
	return c.gradElse(c.args, g)
}

func (c *pointwise[A]) Mistakes() []Mistake[any] {
	if c.Pointwise.Mistakes == nil {
		return nil
	}
	return MistakesOf(c.Pointwise.Mistakes(c.args), func(a *A) any { return &pointwise[A]{c.Pointwise, a} })
}

// Constants are the numbers of the formulas. A kernel with another one in the function has its derivative, too.
func (c *pointwise[A]) Constants() (out []Constant[any]) {
	with := func(change func(p *Pointwise[A])) *pointwise[A] {
		p := *c.Pointwise
		p.DBlock, p.Steps, p.Saved, p.OfX = nil, nil, false, true
		change(&p)
		return &pointwise[A]{&p, c.args}
	}
	of := func(f func(x float64) float64) func(a *A) func(x, _ float64) float64 {
		return func(*A) func(x, _ float64) float64 { return func(x, _ float64) float64 { return f(x) } }
	}
	if c.Formula != nil {
		out = ConstantsOf(c.Formula(c.args), false, func(f func(x float64) float64) *pointwise[A] {
			return with(func(p *Pointwise[A]) {
				p.F, p.Block = func(*A) func(float64) float64 { return f }, nil
				p.DF = of(func(x float64) float64 { return Slope(f, x) })
			})
		})
	}
	if c.Slope != nil {
		out = append(out, ConstantsOf(c.Slope(c.args), true, func(f func(x float64) float64) *pointwise[A] {
			return with(func(p *Pointwise[A]) { p.DF = of(f) })
		})...)
	}
	return out
}

func (p Pointwise[A]) kernel(a *A) ([]*tensor.Tensor, error) {
	x := p.Self(a)
	if p.Check != nil {
		if err := p.Check(a); err != nil {
			return nil, err
		}
	}
	one := func(t *tensor.Tensor) ([]*tensor.Tensor, error) { return []*tensor.Tensor{t}, nil }
	switch dt := x.DType; {
	case dt.IsComplex() && p.C != nil:
		return one(Map(dt, x, p.C(a)))
	case dt.IsFloat() && (p.F != nil || p.Block != nil):
		return one(p.floats(dt, x, a))
	case dt.Kind() < tensor.KindFloat && p.I != nil && !(p.NoBool && dt == tensor.Bool):
		return one(Map(dt, x, p.I(a)))
	case dt.Kind() < tensor.KindFloat && p.I == nil && !p.NoInts:
		return one(p.floats(tensor.DefaultDType, x, a))
	}
	return nil, Refuse("self", "not defined for dtype %s", x.DType)
}

// floats is the function of x read as float64, with dtype dt.
func (p Pointwise[A]) floats(dt tensor.DType, x *tensor.Tensor, a *A) *tensor.Tensor {
	return MapBlock(dt, x, p.block(a))
}

func (p Pointwise[A]) grad(a *A, g *Grad) (Grads, error) {
	x, y := p.Self(a), g.Outs[0]
	gr := Grads{}
	switch {
	case x.DType.IsComplex() && p.DC == nil, x.DType.IsFloat() && !p.smooth():
		return nil, Refuse("self", "no gradient for dtype %s", x.DType)
	case x.DType.IsComplex():
		d := p.DC(a)
		gr.Set("self", ZipN(x.DType, x.Shape, func(dst []complex128, s [][]complex128) {
			for i, gi := range s[0] {
				dst[i] = gi * cmplx.Conj(d(s[1][i], s[2][i]))
			}
		}, g.Out[0], x, y))
	case x.DType.IsFloat():
		d := p.derivative(a)
		gr.Set("self", p.zip(x.DType, g, x, func(dst, gs, xs, ys []float64) {
			d(dst, xs, ys)
			vmath.Mul(dst, dst, gs)
		}))
	}
	return gr, nil
}

// smooth reports whether floats have a derivative.
func (p Pointwise[A]) smooth() bool { return p.DF != nil || p.DBlock != nil }

// derivative is that of blocks of elements x with results y.
func (p Pointwise[A]) derivative(a *A) func(dst, x, y []float64) {
	if p.DBlock != nil {
		return p.DBlock(a)
	}
	d := p.DF(a)
	return func(dst, x, y []float64) {
		for i, xi := range x {
			dst[i] = d(xi, y[i])
		}
	}
}

// zip maps blocks of the incoming gradient, the argument and the result as saved.
func (p Pointwise[A]) zip(dt tensor.DType, g *Grad, x *tensor.Tensor, f func(dst, g, x, y []float64)) *tensor.Tensor {
	if p.OfX {
		return ZipN(dt, x.Shape, func(dst []float64, s [][]float64) { f(dst, s[0], s[1], s[1]) }, g.Out[0], x)
	}
	y := g.Outs[0]
	return ZipN(dt, x.Shape, func(dst []float64, s [][]float64) {
		if p.Saved {
			tensor.RoundBlock(y.DType, s[2])
		}
		f(dst, s[0], s[1], s[2])
	}, g.Out[0], x, y)
}

// gradElse are the gradients on the other side of a jump of the derivative that is
// within rounding of the argument, below and above it, those of DElse, and those of a derivative
// that overflows in the dtype. Where the derivative is 0 they
// are 0 whatever comes in: kernels that select (relu's) do not multiply by it, which
// shows where infinity or NaN comes in. In 16 bits the gradient computed step by step is one more.
func (p Pointwise[A]) gradElse(a *A, g *Grad) ([]Grads, error) {
	x := p.Self(a)
	if !x.DType.IsFloat() {
		return nil, nil
	}
	slopes := beyondJumps(x.DType, p.slope(a))
	if p.Certain != nil && p.Certain(a) {
		slopes = nil
	}
	if p.DElse != nil {
		slopes = append(slopes, changed(p.slope(a), p.DElse(a)))
	}
	slopes = append(slopes, changed(p.slope(a), func(_, d float64) float64 { // which overflows before it is multiplied
		return limited(x.DType, d)
	}))
	var out []Grads
	for _, beyond := range slopes {
		t := ZipN(x.DType, x.Shape, func(dst []float64, s [][]float64) {
			beyond(dst, s[1])
			for i, gi := range s[0] {
				if dst[i] != 0 {
					dst[i] *= gi
				}
			}
		}, g.Out[0], x)
		out = append(out, Grads{"self": {t}})
	}
	if dt := x.DType; p.Steps != nil && dt.IsHalf() {
		out = append(out, Grads{"self": {p.zip(dt, g, x, func(dst, gs, xs, ys []float64) {
			for i, gi := range gs {
				dst[i] = p.Steps(gi, xs[i], ys[i], dt.Round)
			}
		})}})
	}
	return out, nil
}

// others are the results on the other side of a jump that is within rounding of the
// argument, below and above it, and those of Else.
func (p Pointwise[A]) others(a *A) [][]*tensor.Tensor {
	x := p.Self(a)
	if !x.DType.IsFloat() {
		return [][]*tensor.Tensor{nil}
	}
	var out []*tensor.Tensor
	if p.Jumps {
		for _, beyond := range beyondJumps(x.DType, p.block(a)) {
			out = append(out, MapBlock(x.DType, x, beyond))
		}
	}
	if p.Else != nil {
		out = append(out, MapBlock(x.DType, x, changed(p.block(a), p.Else(a))))
	}
	return [][]*tensor.Tensor{out}
}

// block is the function of blocks of elements.
func (p Pointwise[A]) block(a *A) func(dst, src []float64) {
	if p.Block != nil {
		return p.Block(a)
	}
	f := p.F(a)
	return func(dst, src []float64) {
		for i, x := range src {
			dst[i] = f(x)
		}
	}
}

// changed is f of blocks with another value in place of f(x).
func changed(f func(dst, src []float64), other func(x, y float64) float64) func(dst, src []float64) {
	return func(dst, src []float64) {
		f(dst, src)
		for i, x := range src {
			dst[i] = other(x, dst[i])
		}
	}
}

// limited is x, or infinity where x is beyond the numbers of dt.
func limited(dt tensor.DType, x float64) float64 {
	if r := dt.Round(x); math.IsInf(r, 0) {
		return r
	}
	return x
}

// slope is the derivative of blocks of arguments.
func (p Pointwise[A]) slope(a *A) func(dst, src []float64) {
	f, d := p.block(a), p.derivative(a)
	if p.OfX {
		return func(dst, src []float64) { d(dst, src, src) }
	}
	return func(dst, src []float64) {
		y := Scratch[float64](len(src))
		f(*y, src)
		d(dst, src, *y)
		Release(y)
	}
}

// scale: the parts of a complex result are as exact as its magnitude is.
func (p Pointwise[A]) scale(a *A, outs []*tensor.Tensor) []*tensor.Tensor {
	x, y := p.Self(a), outs[0]
	switch {
	case y.DType.IsComplex() && p.SC != nil:
		return []*tensor.Tensor{Zip(tensor.Float64, x, y, p.SC(a))}
	case y.DType.IsComplex():
		return []*tensor.Tensor{Abs(y)}
	case p.SBlock != nil:
		return []*tensor.Tensor{ZipBlock(tensor.Float64, x, y, p.SBlock(a))}
	case p.S == nil:
		return []*tensor.Tensor{tensor.Full(tensor.Float64, y.Shape, 0.0)}
	}
	s := p.S(a)
	return []*tensor.Tensor{Zip(tensor.Float64, x, y, func(xi, yi float64) float64 { return math.Abs(s(xi, yi)) })}
}

func (p Pointwise[A]) gradScale(a *A, g *Grad, grads Grads) (Grads, error) {
	x := p.Self(a)
	switch {
	case x.DType.IsComplex() && p.DS == nil:
		return Grads{"self": {Abs(grads["self"][0])}}, nil
	case x.DType.IsComplex(): // the same cancellation in the magnitudes
		s := p.DS(a)
		return Grads{"self": {ZipN(tensor.Float64, x.Shape, func(dst []float64, v [][]float64) {
			for i, gi := range v[0] {
				dst[i] = v[1][i]
				if m := gi * s(v[2][i], v[3][i]); m > dst[i] && !math.IsInf(m, 0) {
					dst[i] = m
				}
			}
		}, Abs(g.Out[0]), Abs(grads["self"][0]), Abs(x), Abs(g.Outs[0]))}}, nil
	case p.DSBlock != nil:
		of := p.DSBlock(a)
		return Grads{"self": {p.zip(tensor.Float64, g, x, func(dst, gs, xs, ys []float64) {
			of(dst, xs, ys)
			vmath.Mul(dst, dst, gs)
			vmath.Abs(dst, dst)
		})}}, nil
	case p.DS == nil:
		return Grads{"self": {tensor.Full(tensor.Float64, x.Shape, 0.0)}}, nil
	}
	s := p.DS(a)
	return Grads{"self": {p.zip(tensor.Float64, g, x, func(dst, gs, xs, ys []float64) {
		for i, gi := range gs {
			dst[i] = math.Abs(gi * s(xs[i], ys[i]))
		}
	})}}, nil
}

// magnitudesTimes are k times the magnitudes of the elements of t.
func magnitudesTimes(k float64, t *tensor.Tensor) *tensor.Tensor {
	return MapBlock(tensor.Float64, t, func(dst, src []float64) {
		vmath.Abs(dst, src)
		vmath.Scale(dst, dst, k)
	})
}

// fixed makes a function of one element that needs no arguments out of f; nil
// stays nil.
func fixed[A, F any](f F, isNil bool) func(*A) F {
	if isNil {
		return nil
	}
	return func(*A) F { return f }
}
