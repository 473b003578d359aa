package opdef

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/tensor"
)

// UnaryArgs are the arguments of a Unary op.
type UnaryArgs struct{ Self *tensor.Tensor }

// DimArgs are the arguments of an op along one dimension of a tensor.
type DimArgs struct {
	Self *tensor.Tensor
	Dim  int
}

// Unary declares a function of one tensor, element by element. The schema is
// "<name>(Tensor self) -> Tensor". F, C and I give the function on floats,
// complex numbers and integers; where I is nil integers and bool are promoted
// to float32 first, where C is nil complex input is refused. Block takes the
// place of F for whole blocks (see Pointwise). An operator that is a step of compositions has
// both, F for what error bounds ask of single elements; so it is with DF and DBlock.
type Unary struct {
	Name  string
	Names string
	Doc   Doc
	Traits
	Error Error

	F     func(x float64) float64
	Block func(dst, src []float64)
	C     func(x complex128) complex128
	I     func(x int64) int64

	// DF is the derivative at x, where y = F(x); DC likewise (of a holomorphic
	// function). Both nil: NoGrad says why.
	DF func(x, y float64) float64
	DC func(x, y complex128) complex128

	// DBlock, OfX, Saved, S, DS, DSBlock, SC, Steps, Else and DElse as in Pointwise.
	// A composition, which counts the errors of operands and of a stored y by itself, asks DS, never DSBlock.
	DBlock, DSBlock func(dst, x, y []float64)
	OfX, Saved      bool

	Else  func(x, y float64) float64
	DElse func(x, d float64) float64
	Steps func(g, x, y float64, round func(float64) float64) float64
	S, DS func(x, y float64) float64
	SC    func(x, y complex128) float64
	// S16 is S in dtypes of 16 bits alone, whose kernels may be coarser in float32 than
	// those of float32, but finer than the dtype except near zeros of F.
	S16 float64
	// DS64, if set, multiplies DS in float64, whose kernels compute the derivative no more precisely than float32
	// asks for.
	DS64 float64

	NoInts, NoBool bool // integers, or bool alone, are refused

	// Lo, Hi bound the real values of generated cases; both 0: standard normal.
	// Complex ones are all over the plane. Kinks are points where F has no derivative.
	Lo, Hi float64
	Kinks  []float64

	// Formula and Slope as in Pointwise; F is made of Formula if it is nil. Where Of is nil there are none.
	Formula, Slope Formula[float64]
}

// Entry declares the op.
func (u Unary) Entry() *Entry {
	p := UnaryOf(u, func(a *UnaryArgs) *tensor.Tensor { return a.Self })
	p.Schema, p.Cases = u.Name+"(Tensor self) -> Tensor", u.cases
	return p.Entry()
}

// UnaryOf declares u of the tensor that self gives; the operator may have further arguments.
func UnaryOf[A any](u Unary, self func(a *A) *tensor.Tensor) Pointwise[A] {
	if u.F == nil && u.Block == nil && u.Formula.Of != nil {
		u.F = u.Formula.Sound()
	}
	p := Pointwise[A]{
		Formula: formulaOf[A](u.Formula), Slope: formulaOf[A](u.Slope),
		Names: u.Names, Doc: u.Doc, Traits: u.Traits, Error: u.Error, Self: self,
		F: fixed[A](u.F, u.F == nil), Block: fixed[A](u.Block, u.Block == nil), C: fixed[A](u.C, u.C == nil),
		I: fixed[A](u.I, u.I == nil), NoInts: u.NoInts, NoBool: u.NoBool,
		DF: fixed[A](u.DF, u.DF == nil), DBlock: fixed[A](u.DBlock, u.DBlock == nil), DC: fixed[A](u.DC, u.DC == nil),
		OfX: u.OfX, Saved: u.Saved, Steps: u.Steps,
		Else: fixed[A](u.Else, u.Else == nil), DElse: fixed[A](u.DElse, u.DElse == nil),
		S: fixed[A](u.S, u.S == nil), SC: fixed[A](u.SC, u.SC == nil),
		DS: fixed[A](u.DS, u.DS == nil), DSBlock: fixed[A](u.DSBlock, u.DSBlock == nil),
	}
	if u.S16 != 0 {
		p.S = func(a *A) func(x, y float64) float64 {
			s := 0.0
			if self(a).DType.IsHalf() {
				s = u.S16
			}
			return func(_, _ float64) float64 { return s }
		}
	}
	if u.DS64 != 0 {
		p.DS = func(a *A) func(x, y float64) float64 {
			if self(a).DType != tensor.Float64 {
				return u.DS
			}
			return func(x, y float64) float64 { return u.DS64 * u.DS(x, y) }
		}
	}
	return p
}

// formulaOf is f for any arguments, nil if there is none.
func formulaOf[A any](f Formula[float64]) func(a *A) Formula[float64] {
	if f.Of == nil {
		return nil
	}
	return func(*A) Formula[float64] { return f }
}

func (u Unary) cases(g Gen) []*UnaryArgs {
	make := func(dt tensor.DType, shape ...int) *tensor.Tensor {
		switch {
		case u.Lo != 0 || u.Hi != 0:
			return g.Uniform(dt, u.Lo, u.Hi, shape...)
		case len(u.Kinks) > 0 && dt.IsFloat():
			return g.Apart(dt, u.Kinks, shape...)
		}
		return g.Normal(dt, shape...)
	}
	cs := []*UnaryArgs{
		{make(tensor.Float64, 3, 4)}, {make(tensor.Float32, 5)}, {make(tensor.BFloat16, 2, 3)},
		{make(tensor.Float16, 7)},
		{make(tensor.Float32)}, {make(tensor.Float32, 0, 3)}, {NonContiguous(make(tensor.Float64, 3, 4))},
	}
	if u.C != nil {
		cs = append(cs, &UnaryArgs{g.Normal(tensor.Complex128, 3, 4)}, &UnaryArgs{g.Normal(tensor.Complex64, 4)})
	}
	if u.I != nil || (u.F != nil || u.Block != nil) && !u.NoInts {
		lo, hi := -4, 4
		if u.Lo != 0 || u.Hi != 0 {
			lo, hi = int(math.Ceil(u.Lo)), int(math.Floor(u.Hi))
		}
		if lo <= hi {
			cs = append(cs, &UnaryArgs{g.Int(tensor.Int32, lo, hi, 6)}, &UnaryArgs{g.Int(tensor.Int64, lo, hi, 2, 2)})
		}
	}
	return cs
}

// BinaryArgs are the arguments of a Binary op.
type BinaryArgs struct{ Self, Other *tensor.Tensor }

// Binary declares a function of two broadcast tensors, element by element; the
// schema is "<name>(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", without
// |Scalar if NoNumbers or, for self alone, TensorSelf. The result has the promoted dtype of the operands. F, C
// and I give the function by category; ToFloat promotes integers to float32
// first (true division), a nil function refuses its category. Block, if set,
// takes the place of F: it stores the function of two blocks in dst, which does
// not overlap them.
type Binary struct {
	Name  string
	Names string
	Doc   Doc
	Traits
	Error Error

	F       func(x, y float64) float64
	Block   func(dst, x, y []float64)
	C       func(x, y complex128) complex128
	I       func(x, y int64) int64
	ToFloat bool
	NoBool  bool // bool with bool is refused

	// DF are the partial derivatives at x, y with result z; DC likewise. DX and DY, if set, take the place of DF:
	// the gradients of both operands for that of the result, up, from tensors of the result's shape.
	DF     func(x, y, z float64) (dx, dy float64)
	DC     func(x, y, z complex128) (dx, dy complex128)
	DX, DY func(up, x, y, z *tensor.Tensor) *tensor.Tensor

	// DFElse are partial derivatives that are as right as DF: those of another version of torch.
	DFElse func(x, y, z float64) (dx, dy float64)
	// Steps, if set, are the gradients as torch composes them.
	Steps BinarySteps

	// S and SC as in Unary; DS are the magnitudes behind DF.
	S  func(x, y, z float64) float64
	SC func(x, y, z complex128) float64
	DS func(x, y, z float64) (dx, dy float64)

	// Lo, Hi bound generated values; both 0: standard normal kept away from 0.
	Lo, Hi float64
	// Reversed swaps the operands: rsub, __rtruediv__, __rpow__.
	Reversed bool
	// NoNumbers refuses Python numbers as operands (maximum), TensorSelf as the
	// first (copysign); TwoNumbers takes even two of them (mul).
	NoNumbers, TensorSelf, TwoNumbers bool

	selects bool // the gradient is 0 where the derivative is, also for infinity and NaN
}

// Entry declares the op.
func (b Binary) Entry() *Entry {
	op := Planned[*BinaryArgs, *binary]{
		Schema: b.schema(), Names: b.Names, Doc: b.Doc, Traits: b.Traits, Error: b.Error,
		Plan:   func(a *BinaryArgs) (*binary, error) { return &binary{&b, a}, nil },
		Kernel: func(c *binary) ([]*tensor.Tensor, error) { return b.kernel(c.args) },
		Cases:  b.cases,
	}
	if b.DF != nil || b.DC != nil || b.DX != nil {
		op.Grad = func(c *binary, g *Grad) (Grads, error) { return b.gradients(c.args, g, false) }
		ofTerms := op.Error.Class == Exact && op.Error.Grad != nil // of both signs: copysign
		if op.Error.Class != Exact && op.Error.Grad == nil {
			op.Error.Grad = &Error{Class: Elementwise, ULPs: 4}
			ofTerms = true
		}
		if ofTerms {
			op.GradScale = func(c *binary, g *Grad, _ Grads) (Grads, error) { return b.gradients(c.args, g, true) }
		}
	}
	if b.S != nil || b.C != nil && op.Error.Class != Exact {
		op.Scale = func(c *binary, outs []*tensor.Tensor) []*tensor.Tensor {
			ts, shape, err := BroadcastAll(b.operands(c.args))
			switch {
			case err == nil && outs[0].DType.IsComplex() && b.SC != nil:
				return []*tensor.Tensor{ZipN(tensor.Float64, shape, func(dst []float64, s [][]complex128) {
					for i := range dst {
						dst[i] = b.SC(s[0][i], s[1][i], s[2][i])
					}
				}, ts[0], ts[1], outs[0])}
			case err != nil || outs[0].DType.IsComplex(): // the parts are as exact as the magnitude
				return []*tensor.Tensor{Abs(outs[0])}
			case b.S == nil:
				return []*tensor.Tensor{tensor.Full(tensor.Float64, shape, 0.0)}
			}
			return []*tensor.Tensor{ZipN(tensor.Float64, shape, func(dst []float64, s [][]float64) {
				for i := range dst {
					dst[i] = math.Max(math.Abs(s[2][i]), b.S(s[0][i], s[1][i], s[2][i]))
				}
			}, ts[0], ts[1], outs[0])}
		}
	}
	return op.Entry()
}

// A binary is a call of a Binary.
type binary struct {
	*Binary
	args *BinaryArgs
}

func (c *binary) GradElse(g *Grad) ([]Grads, error) {
	x, y := c.operands(c.args)
	nx, ny := c.operandNames()
	others := c.Binary.Steps.Else(x, y, nx, ny, g)
	if c.DFElse == nil && (c.Error.Class != Exact || c.DF == nil) {
		return others, nil
	}
	other := *c.Binary
	other.selects = true // what selects does not multiply by 0
	if c.DFElse != nil {
		other.DF = c.DFElse
	}
	gr, err := other.gradients(c.args, g, false)
	return append(others, gr), err
}

func (b Binary) schema() string {
	switch {
	case b.NoNumbers:
		return b.Name + "(Tensor self, Tensor other) -> Tensor"
	case b.TensorSelf:
		return b.Name + "(Tensor self, Tensor|Scalar other) -> Tensor"
	}
	return b.Name + "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor"
}

func (b Binary) operands(a *BinaryArgs) (x, y *tensor.Tensor) {
	if b.Reversed {
		return a.Other, a.Self
	}
	return a.Self, a.Other
}

func (b Binary) operandNames() (nx, ny string) {
	if b.Reversed {
		return "other", "self"
	}
	return "self", "other"
}

// Common is the dtype a and b compute in, and the operands as torch casts
// them: a Python number is rounded to the precision arithmetic is done in
// (float32 for 16-bit types).
func Common(ts ...*tensor.Tensor) (tensor.DType, []*tensor.Tensor, error) {
	dt := tensor.ResultType(ts...)
	if sameNumbers(ts) { // torch promotes only where dtypes differ
		dt = ts[0].DType
	}
	if dt == tensor.Invalid {
		return dt, nil, Refuse("", "no common dtype for %s", metaList(ts))
	}
	out := make([]*tensor.Tensor, len(ts))
	for i, t := range ts {
		out[i] = t
		switch {
		case t.Wrapped:
			out[i] = roundNumber(t, dt)
		case t.Dim() == 0 && t.DType != dt && dt.Kind() == tensor.KindInt && t.DType.Kind() == tensor.KindInt:
			out[i] = Cast(t, dt).Rounded() // a tensor without dimensions may be wider than the result
		}
	}
	return dt, out, nil
}

// OneTensor refuses operands that are all Python numbers.
func OneTensor(ts ...*tensor.Tensor) error {
	for _, t := range ts {
		if !t.Wrapped {
			return nil
		}
	}
	return Refuse("", "want a tensor among the operands")
}

// sameNumbers reports whether all operands are Python numbers of one type.
func sameNumbers(ts []*tensor.Tensor) bool {
	for _, t := range ts {
		if !t.Wrapped || t.DType != ts[0].DType {
			return false
		}
	}
	return len(ts) > 0
}

func metaList(ts []*tensor.Tensor) string {
	s := ""
	for i, t := range ts {
		if i > 0 {
			s += " and "
		}
		s += t.Meta()
	}
	return s
}

func roundNumber(t *tensor.Tensor, dt tensor.DType) *tensor.Tensor {
	prec := dt.Real()
	if prec.IsReduced() {
		prec = tensor.Float32
	}
	switch {
	case dt.IsFloat() && !t.DType.IsComplex():
		return tensor.Scalar(dt, prec.Round(tensor.At[float64](t, 0)))
	case dt.IsComplex():
		c := tensor.At[complex128](t, 0)
		return tensor.Scalar(dt, complex(prec.Round(real(c)), prec.Round(imag(c))))
	}
	return t
}

func (b Binary) kernel(a *BinaryArgs) ([]*tensor.Tensor, error) {
	x, y := b.operands(a)
	if err := OneTensor(x, y); err != nil && !b.TwoNumbers {
		return nil, err
	}
	dt, xy, err := Common(x, y)
	if err != nil {
		return nil, err
	}
	if dt.Kind() < tensor.KindFloat && b.ToFloat {
		dt = tensor.DefaultDType
	}
	if b.NoBool && dt == tensor.Bool {
		return nil, Refuse("other", "not defined for two bool operands")
	}
	xy, _, err = BroadcastAll(xy...)
	if err != nil {
		return nil, err
	}
	switch {
	case dt.IsComplex() && b.C != nil:
		return []*tensor.Tensor{Zip(dt, xy[0], xy[1], b.C)}, nil
	case dt.IsFloat() && b.Block != nil:
		return []*tensor.Tensor{ZipBlock(dt, xy[0], xy[1], b.Block)}, nil
	case dt.IsFloat() && b.F != nil:
		return []*tensor.Tensor{Zip(dt, xy[0], xy[1], b.F)}, nil
	case dt.Kind() < tensor.KindFloat && b.I != nil:
		return []*tensor.Tensor{Zip(dt, xy[0], xy[1], b.I)}, nil
	}
	return nil, Refuse("self", "not defined for dtype %s", dt)
}

// gradients are the gradients of the operands, or, if magnitudes is set, the
// sums of the magnitudes of their terms.
func (b Binary) gradients(a *BinaryArgs, g *Grad, magnitudes bool) (Grads, error) {
	x, y := b.operands(a)
	ts, shape, err := BroadcastAll(x, y)
	if err != nil {
		return nil, err
	}
	nx, ny := b.operandNames()
	gr := Grads{}
	dt := g.Outs[0].DType
	part := func(name string, like *tensor.Tensor, pick int) error {
		if like.Wrapped || !g.Need(name) {
			gr[name] = []*tensor.Tensor{nil}
			return nil
		}
		var t *tensor.Tensor
		df := b.DF
		if magnitudes && b.DS != nil {
			df = b.DS
		}
		switch whole := [2]func(up, x, y, z *tensor.Tensor) *tensor.Tensor{b.DX, b.DY}[pick]; {
		case dt.IsComplex() && b.DC == nil:
			return Refuse("self", "no gradient for complex numbers")
		case dt.IsComplex():
			t = ZipN(dt, shape, func(dst []complex128, s [][]complex128) {
				for i, gi := range s[0] {
					d := [2]complex128{}
					d[0], d[1] = b.DC(s[1][i], s[2][i], s[3][i])
					dst[i] = gi * cmplx.Conj(d[pick])
				}
			}, g.Out[0], ts[0], ts[1], g.Outs[0])
		case whole != nil:
			t = whole(g.Out[0], ts[0], ts[1], g.Outs[0])
		default:
			t = ZipN(dt, shape, func(dst []float64, s [][]float64) {
				up, x, y, z := s[0], s[1][:len(dst)], s[2][:len(dst)], s[3][:len(dst)]
				for i := range dst {
					d, dy := df(x[i], y[i], z[i])
					if pick == 1 {
						d = dy
					}
					if dst[i] = up[i] * d; d == 0 && b.selects {
						dst[i] = 0
					}
				}
			}, g.Out[0], ts[0], ts[1], g.Outs[0])
		}
		if magnitudes {
			t = Abs(t)
		}
		gr.Set(name, SumTo(t, like.Shape))
		return nil
	}
	if err := part(nx, x, 0); err != nil {
		return nil, err
	}
	return gr, part(ny, y, 1)
}

func (b Binary) cases(g Gen) []*BinaryArgs {
	make := func(dt tensor.DType, shape ...int) *tensor.Tensor {
		if b.Lo != 0 || b.Hi != 0 {
			return g.Uniform(dt, b.Lo, b.Hi, shape...)
		}
		if dt.IsFloat() {
			return g.Apart(dt, []float64{0}, shape...)
		}
		return g.Normal(dt, shape...)
	}
	var cs []*BinaryArgs
	add := func(x, y *tensor.Tensor) {
		if !b.NoNumbers || !y.Wrapped {
			cs = append(cs, &BinaryArgs{x, y})
		}
	}
	if b.F != nil || b.Block != nil {
		f32, f64 := tensor.Float32, tensor.Float64
		add(make(f64, 3, 4), make(f64, 3, 4))
		add(make(f64, 3, 1), make(f64, 4))
		add(make(f32, 2, 3), make(f64, 2, 3))
		add(make(f32, 2, 3), tensor.Wrap(1.5))
		add(make(f32, 5), tensor.Wrap(int64(2)))
		add(make(tensor.BFloat16, 4), make(tensor.BFloat16, 4))
		add(make(tensor.Float16, 4), make(f32))
		add(make(f32), make(f32))
		add(make(f32, 0, 3), make(f32, 3))
		add(NonContiguous(make(f64, 3, 4)), make(f64, 3, 4))
	}
	if b.C != nil {
		add(make(tensor.Complex128, 3), make(tensor.Complex128, 2, 3))
		add(make(tensor.Complex64, 3), make(tensor.Complex64, 3))
	}
	if b.I != nil || b.ToFloat {
		add(g.Int(tensor.Int32, 1, 6, 4), g.Int(tensor.Int32, 1, 6, 4))
		add(g.Int(tensor.Int64, 1, 6, 2, 3), g.Int(tensor.Uint8, 1, 6, 3))
		add(g.Int(tensor.Int64, 1, 6, 3), tensor.Wrap(int64(3)))
	}
	return cs
}
