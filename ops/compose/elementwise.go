package compose

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// A function is a function of the elements of n operands.
type function struct {
	f  func(v []float64) float64
	c  func(v []complex128) complex128
	i  func(v []int64) int64 // nil: integers become float32 first
	d  func(v []float64, y float64, dst []float64)
	dc func(v []complex128, y complex128, dst []complex128)

	// values and slopes are f and, times up, the derivative by operand k, of blocks of
	// real elements: most of the time goes there.
	values func(dst []float64, v [][]float64)
	slopes func(k int, dst, up, y []float64, v [][]float64)

	terms  func(v []float64, y float64) float64        // the largest term that makes y, where they cancel
	dterms func(v []float64, y float64, dst []float64) // likewise of the derivatives
	ulps   float64                                     // how exact a sound implementation is
	dulps  float64
	saved  bool // the derivative is computed from y, as stored
}

// Unary applies the function of one element that u declares; its names and cases
// do not matter.
func (g *Graph) Unary(u opdef.Unary, x *Value) *Value {
	fn := function{ulps: ulpsOf(u.Error, 4), dulps: 4, saved: u.Saved}
	if u.F != nil {
		fn.f = func(v []float64) float64 { return u.F(v[0]) }
		fn.values = func(dst []float64, v [][]float64) {
			for i, x := range v[0] {
				dst[i] = u.F(x)
			}
		}
	}
	if u.Block != nil {
		fn.values = func(dst []float64, v [][]float64) { u.Block(dst, v[0]) }
	}
	if u.Block != nil && u.F == nil {
		fn.f = func(v []float64) float64 {
			var y [1]float64
			u.Block(y[:], v[:1])
			return y[0]
		}
	}
	if u.C != nil {
		fn.c = func(v []complex128) complex128 { return u.C(v[0]) }
	}
	if u.I != nil {
		fn.i = func(v []int64) int64 { return u.I(v[0]) }
	}
	if u.DF != nil {
		fn.d = func(v []float64, y float64, dst []float64) { dst[0] = u.DF(v[0], y) }
		fn.slopes = func(_ int, dst, up, y []float64, v [][]float64) {
			for i, x := range v[0] {
				dst[i] = up[i] * u.DF(x, y[i])
			}
		}
	}
	if u.DC != nil {
		fn.dc = func(v []complex128, y complex128, dst []complex128) { dst[0] = u.DC(v[0], y) }
	}
	if u.S != nil {
		fn.terms = func(v []float64, y float64) float64 { return u.S(v[0], y) }
	}
	if u.DS != nil {
		fn.dterms = func(v []float64, y float64, dst []float64) { dst[0] = u.DS(v[0], y) }
	}
	return g.apply(fn, x)
}

// Binary applies the function of two broadcast elements that b declares.
func (g *Graph) Binary(b opdef.Binary, x, y *Value) *Value {
	fn := function{ulps: ulpsOf(b.Error, 0.5), dulps: max(1, ulpsOf(b.Error, 1))}
	if b.F != nil {
		fn.f = func(v []float64) float64 { return b.F(v[0], v[1]) }
		fn.values = func(dst []float64, v [][]float64) {
			for i, x := range v[0] {
				dst[i] = b.F(x, v[1][i])
			}
		}
	}
	if b.C != nil {
		fn.c = func(v []complex128) complex128 { return b.C(v[0], v[1]) }
	}
	if b.I != nil && !b.ToFloat {
		fn.i = func(v []int64) int64 { return b.I(v[0], v[1]) }
	}
	if b.DF != nil {
		fn.d = func(v []float64, z float64, dst []float64) { dst[0], dst[1] = b.DF(v[0], v[1], z) }
		fn.slopes = func(k int, dst, up, z []float64, v [][]float64) {
			for i, x := range v[0] {
				dx, dy := b.DF(x, v[1][i], z[i])
				if k == 1 {
					dx = dy
				}
				dst[i] = up[i] * dx
			}
		}
	}
	if b.DC != nil {
		fn.dc = func(v []complex128, z complex128, dst []complex128) { dst[0], dst[1] = b.DC(v[0], v[1], z) }
	}
	if b.S != nil {
		fn.terms = func(v []float64, z float64) float64 { return b.S(v[0], v[1], z) }
	}
	if b.DS != nil {
		fn.dterms = func(v []float64, z float64, dst []float64) { dst[0], dst[1] = b.DS(v[0], v[1], z) }
	}
	return g.apply(fn, x, y)
}

// ulpsOf is how exact an operator of that error class is: half a unit in the
// last place where it rounds once, as many as it declares, or else standard.
func ulpsOf(e opdef.Error, standard float64) float64 {
	switch {
	case e.Class == opdef.Rounded && e.ULPs <= 1:
		return 0.5
	case e.ULPs != 0:
		return e.ULPs
	}
	return standard
}

// apply is fn of the operands, broadcast and promoted.
func (g *Graph) apply(fn function, in ...*Value) *Value {
	ts := make([]*tensor.Tensor, len(in))
	for k, x := range in {
		ts[k] = x.T
	}
	dt, cast, err := opdef.Common(ts...)
	g.Check(err)
	if dt.Kind() < tensor.KindFloat && fn.i == nil {
		dt = tensor.DefaultDType
	}
	ts, shape, err := opdef.BroadcastAll(cast...)
	g.Check(err)
	var t *tensor.Tensor
	switch {
	case dt.IsComplex() && fn.c != nil:
		t = eachElement(dt, shape, fn.c, ts)
	case dt.IsFloat() && fn.f != nil:
		t = opdef.ZipN(dt, shape, fn.values, ts...)
	case dt.Kind() < tensor.KindFloat:
		t = eachElement(dt, shape, fn.i, ts)
	default:
		g.Refuse("", "not defined for dtype %s", dt)
	}
	return g.value(t, func() *tensor.Tensor { return g.applied(fn, t, ts, in) },
		func(up *Value) []*Value { return g.slopes(fn, up, t, ts, in) }, in...)
}

// eachElement is the lazy tensor of f over operands of one shape.
func eachElement[T tensor.Elem](dt tensor.DType, shape []int, f func(v []T) T, ts []*tensor.Tensor) *tensor.Tensor {
	return opdef.ZipN(dt, shape, func(dst []T, src [][]T) {
		v := make([]T, len(src))
		for i := range dst {
			for k := range src {
				v[k] = src[k][i]
			}
			dst[i] = f(v)
		}
	}, ts...)
}

// expanded are the bounds of values, in the shape of their result.
func expanded(in []*Value, shape []int) []*tensor.Tensor {
	es := make([]*tensor.Tensor, len(in))
	for k, x := range in {
		e, err := x.bound().Expand(shape...)
		if err != nil {
			panic(err) // the value itself was expanded
		}
		es[k] = e
	}
	return es
}

// applied is the bound of y = fn(ts): the errors of the operands and its own
// rounding.
func (g *Graph) applied(fn function, y *tensor.Tensor, ts []*tensor.Tensor, in []*Value) *tensor.Tensor {
	own, n := g.rounding(y.DType, fn.ulps), len(ts)
	ops := append(append([]*tensor.Tensor{y}, ts...), expanded(in, y.Shape)...)
	if y.DType.IsComplex() {
		return opdef.ZipN(tensor.Float64, y.Shape, func(dst []float64, src [][]complex128) {
			v := make([]complex128, n)
			for i := range dst {
				sum := own * g.of(cmplx.Abs(src[0][i]))
				for k := range n {
					v[k] = src[1+k][i]
				}
				for k := range n {
					sum += g.throughComplex(func(z complex128) complex128 {
						old := v[k]
						v[k] = z
						w := fn.c(v)
						v[k] = old
						return w
					}, v[k], src[0][i], real(src[1+n+k][i]))
				}
				dst[i] = sum
			}
		}, ops...)
	}
	return opdef.ZipN(tensor.Float64, y.Shape, func(dst []float64, src [][]float64) {
		v := make([]float64, n)
		for i := range dst {
			for k := range n {
				v[k] = src[1+k][i]
			}
			size := math.Abs(src[0][i])
			if fn.terms != nil {
				size = max(size, math.Abs(fn.terms(v, src[0][i])))
			}
			dst[i] = times(own, g.of(size)) + g.inputs(fn.f, v, src[0][i], src[1+n:], i)
		}
	}, ops...)
}

// inputs is what the errors es[k][i] of the operands v do to y = f(v).
func (g *Graph) inputs(f func([]float64) float64, v []float64, y float64, es [][]float64, i int) float64 {
	sum := 0.0
	for k := range v {
		if es[k][i] == 0 {
			continue
		}
		sum += g.through(func(z float64) float64 {
			old := v[k]
			v[k] = z
			w := f(v)
			v[k] = old
			return w
		}, v[k], y, es[k][i])
	}
	return sum
}

// slopes are the gradients of the operands of y = fn(ts).
func (g *Graph) slopes(fn function, up *Value, y *tensor.Tensor, ts []*tensor.Tensor, in []*Value) []*Value {
	if y.DType.IsComplex() && fn.dc == nil || !y.DType.IsComplex() && fn.d == nil {
		g.Refuse("", "no gradient for dtype %s", y.DType)
	}
	out := make([]*Value, len(in))
	for k, x := range in {
		if x.needs {
			out[k] = g.slope(fn, k, up, y, ts, in)
		}
	}
	return out
}

// slope is the gradient of operand k, of the shape of y.
func (g *Graph) slope(fn function, k int, up *Value, y *tensor.Tensor, ts []*tensor.Tensor, in []*Value) *Value {
	n := len(ts)
	ops := append([]*tensor.Tensor{up.T, y}, ts...)
	if y.DType.IsComplex() {
		partial := func(v []complex128, z complex128) complex128 {
			dst := make([]complex128, n)
			fn.dc(v, z, dst)
			return cmplx.Conj(dst[k])
		}
		t := eachElement(y.DType, y.Shape, func(v []complex128) complex128 { return v[0] * partial(v[2:], v[1]) }, ops)
		own := g.rounding(y.DType, fn.dulps)
		return g.value(t, func() *tensor.Tensor {
			es := append(expanded([]*Value{up}, y.Shape), expanded(in, y.Shape)...)
			return opdef.ZipN(tensor.Float64, y.Shape, func(dst []float64, src [][]complex128) {
				v := make([]complex128, n)
				for i := range dst {
					for j := range n {
						v[j] = src[2+j][i]
					}
					d := partial(v, src[1][i])
					size := g.of(cmplx.Abs(src[0][i]))
					sum := times(own, size*g.of(cmplx.Abs(d))) + times(g.of(cmplx.Abs(d)), real(src[2+n][i]))
					for j := range n {
						sum += times(size, g.throughComplex(func(z complex128) complex128 {
							old := v[j]
							v[j] = z
							p := partial(v, fn.c(v))
							v[j] = old
							return p
						}, v[j], d, real(src[3+n+j][i])))
					}
					dst[i] = sum
				}
			}, append(ops, es...)...)
		}, nil)
	}
	t := opdef.ZipN(y.DType, y.Shape, func(dst []float64, src [][]float64) {
		fn.slopes(k, dst, src[0], src[1], src[2:])
	}, ops...)
	own, stored := g.rounding(y.DType, fn.dulps), 0.0
	if fn.saved {
		stored = g.rounding(y.DType, 0.5)
	}
	return g.value(t, func() *tensor.Tensor {
		es := append(expanded([]*Value{up}, y.Shape), expanded(in, y.Shape)...)
		return opdef.ZipN(tensor.Float64, y.Shape, func(dst []float64, src [][]float64) {
			v, d, w := make([]float64, n), make([]float64, n), make([]float64, n)
			partial := func(v []float64) float64 {
				fn.d(v, fn.f(v), w)
				return w[k]
			}
			for i := range dst {
				for j := range n {
					v[j] = src[2+j][i]
				}
				fn.d(v, src[1][i], d)
				size, term := g.of(src[0][i]), math.Abs(d[k])
				sum := times(g.of(term), src[2+n][i]) + times(size, g.inputs(partial, v, d[k], src[3+n:], i))
				if stored > 0 {
					sum += times(size, g.through(func(z float64) float64 {
						fn.d(v, z, w)
						return w[k]
					}, src[1][i], d[k], stored*g.of(src[1][i])))
				}
				if fn.dterms != nil {
					fn.dterms(v, src[1][i], w)
					term = max(term, math.Abs(w[k]))
				}
				dst[i] = sum + times(own, times(size, g.of(term)))
			}
		}, append(ops, es...)...)
	}, nil)
}

// Where is x where the bool tensor cond holds, y elsewhere, broadcast.
func (g *Graph) Where(cond *tensor.Tensor, x, y *Value) *Value {
	dt, cast, err := opdef.Common(x.T, y.T)
	g.Check(err)
	ts, shape, err := opdef.BroadcastAll(cond, cast[0], cast[1])
	g.Check(err)
	pick := func(dt tensor.DType, c, a, b *tensor.Tensor) *tensor.Tensor {
		switch dt.Kind() {
		case tensor.KindComplex:
			return eachElement(dt, shape, choose[complex128], []*tensor.Tensor{c, a, b})
		case tensor.KindFloat:
			return eachElement(dt, shape, choose[float64], []*tensor.Tensor{c, a, b})
		}
		return eachElement(dt, shape, choose[int64], []*tensor.Tensor{c, a, b})
	}
	return g.value(pick(dt, ts[0], ts[1], ts[2]), func() *tensor.Tensor {
		es := expanded([]*Value{x, y}, shape)
		return pick(tensor.Float64, ts[0], es[0], es[1])
	}, func(up *Value) []*Value {
		zero := g.Full(dt, nil, 0)
		return []*Value{g.Where(cond, up, zero), g.Where(cond, zero, up)}
	}, x, y)
}

func choose[T tensor.Elem](v []T) T {
	var zero T
	if v[0] != zero {
		return v[1]
	}
	return v[2]
}

// MaskedFill is x with the number fill where the bool tensor mask holds.
func (g *Graph) MaskedFill(x *Value, mask *tensor.Tensor, fill float64) *Value {
	return g.AsOne(func(in []*Value) *Value { return g.Where(mask, g.Full(x.DType(), nil, fill), in[0]) }, x)
}

// To is x with dtype dt.
func (g *Graph) To(x *Value, dt tensor.DType) *Value {
	if x.DType() == dt {
		return x
	}
	t := opdef.Cast(x.T, dt)
	return g.value(t, func() *tensor.Tensor {
		own := g.rounding(dt, 0.5)
		if x.DType().Real().Size() <= dt.Real().Size() { // widening is exact
			own = 0
		}
		return opdef.Zip(tensor.Float64, x.bound(), g.magnitude(t), func(e, m float64) float64 { return e + own*m })
	}, func(up *Value) []*Value { return []*Value{g.To(up, x.DType())} }, x)
}

// AtLeast is x, in dtype dt if its own is narrower: what operators do that
// compute in float32.
func (g *Graph) AtLeast(x *Value, dt tensor.DType) *Value {
	if x.DType().Size() < dt.Size() {
		return g.To(x, dt)
	}
	return x
}
