package compose

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A function is a function of the elements of n operands.
type function struct {
	real    maths[float64]
	complex maths[complex128]
	integer func(v []int64) int64 // nil: integers become float32 first

	ulps, dulps float64 // how exact a sound implementation is, and one of the derivatives
	saved       bool    // the derivative is computed from y, as stored

	name string // "logarithm", empty: a step that kernels do not leave out
}

// maths is a function of real or of complex numbers, and its derivatives by the
// operands, conjugated as gradients are multiplied by them.
type maths[T number] struct {
	f func(v []T) T
	d func(v []T, y T, dst []T)

	// values and slopes are f and, times up, the derivative by operand k, of blocks: most
	// of the time goes there.
	values func(dst []T, v [][]T)
	slopes func(k int, dst, up, y []T, v [][]T)

	terms  func(v []T, y T) float64        // the largest term that makes y, where they cancel
	dterms func(v []T, y T, dst []float64) // likewise of the derivatives
}

// unary are f, its derivative d and the magnitudes s and ds of their terms, where
// there are any.
func unary[T number](f func(x T) T, d func(x, y T) T, s, ds func(x, y T) float64) (m maths[T]) {
	if f != nil {
		m.f = func(v []T) T { return f(v[0]) }
		m.values = func(dst []T, v [][]T) {
			for i, x := range v[0] {
				dst[i] = f(x)
			}
		}
	}
	if d != nil {
		m.d = func(v []T, y T, dst []T) { dst[0] = d(v[0], y) }
		m.slopes = func(_ int, dst, up, y []T, v [][]T) {
			for i, x := range v[0] {
				dst[i] = up[i] * d(x, y[i])
			}
		}
	}
	if s != nil {
		m.terms = func(v []T, y T) float64 { return s(v[0], y) }
	}
	if ds != nil {
		m.dterms = func(v []T, y T, dst []float64) { dst[0] = ds(v[0], y) }
	}
	return m
}

// binary is unary for functions of two operands.
func binary[T number](f func(x, y T) T, d func(x, y, z T) (dx, dy T), s func(x, y, z T) float64,
	ds func(x, y, z T) (dx, dy float64)) (m maths[T]) {
	if f != nil {
		m.f = func(v []T) T { return f(v[0], v[1]) }
		m.values = func(dst []T, v [][]T) {
			for i, x := range v[0] {
				dst[i] = f(x, v[1][i])
			}
		}
	}
	if d != nil {
		m.d = func(v []T, z T, dst []T) { dst[0], dst[1] = d(v[0], v[1], z) }
		m.slopes = func(k int, dst, up, z []T, v [][]T) {
			for i, x := range v[0] {
				dx, dy := d(x, v[1][i], z[i])
				if k == 1 {
					dx = dy
				}
				dst[i] = up[i] * dx
			}
		}
	}
	if s != nil {
		m.terms = func(v []T, z T) float64 { return s(v[0], v[1], z) }
	}
	if ds != nil {
		m.dterms = func(v []T, z T, dst []float64) { dst[0], dst[1] = ds(v[0], v[1], z) }
	}
	return m
}

// Unary applies the function of one element that u declares, which may be an operator of the registry. step names it
// in what is said of kernels that leave it out; "": none does.
func (g *Graph) Unary(step string, u opdef.Unary, x *Value) *Value {
	dc := u.DC
	if dc != nil {
		dc = func(x, y complex128) complex128 { return cmplx.Conj(u.DC(x, y)) }
	}
	fn := function{real: unary(u.F, u.DF, u.S, u.DS), complex: unary(u.C, dc, nil, nil), ulps: ulpsOf(u.Error),
		dulps: 4, saved: u.Saved, name: step}
	if u.Block != nil {
		fn.real.values = func(dst []float64, v [][]float64) { u.Block(dst, v[0]) }
	}
	if u.DBlock != nil {
		fn.real.slopes = func(_ int, dst, up, y []float64, v [][]float64) {
			u.DBlock(dst, v[0], y)
			vmath.Mul(dst, dst, up)
		}
	}
	if u.I != nil {
		fn.integer = func(v []int64) int64 { return u.I(v[0]) }
	}
	return g.apply(fn, x)
}

// Binary applies the function of two broadcast elements that b declares; step is as in Unary.
func (g *Graph) Binary(step string, b opdef.Binary, x, y *Value) *Value {
	dc := b.DC
	if dc != nil {
		dc = func(x, y, z complex128) (dx, dy complex128) {
			dx, dy = b.DC(x, y, z)
			return cmplx.Conj(dx), cmplx.Conj(dy)
		}
	}
	fn := function{real: binary(b.F, b.DF, b.S, b.DS), complex: binary(b.C, dc, nil, nil), ulps: ulpsOf(b.Error),
		dulps: max(1, ulpsOf(b.Error)), name: step}
	if b.Block != nil {
		fn.real.values = func(dst []float64, v [][]float64) { b.Block(dst, v[0], v[1]) }
	}
	if b.I != nil && !b.ToFloat {
		fn.integer = func(v []int64) int64 { return b.I(v[0], v[1]) }
	}
	return g.apply(fn, x, y)
}

// ulpsOf is how exact an operator of that error class is: half a unit in the
// last place where it rounds once, none where it is exact, or as many as it declares.
func ulpsOf(e opdef.Error) float64 {
	switch {
	case e.Class == opdef.Exact:
		return 0
	case e.Class == opdef.Rounded && e.ULPs <= 1:
		return 0.5
	case e.ULPs != 0:
		return e.ULPs
	}
	return 4
}

// apply is fn of the operands, broadcast and promoted.
func (g *Graph) apply(fn function, in ...*Value) *Value {
	ts := make([]*tensor.Tensor, len(in))
	for k, x := range in {
		ts[k] = x.T
	}
	dt, cast, err := opdef.Common(ts...)
	g.Check(err)
	if dt.Kind() < tensor.KindFloat && fn.integer == nil {
		dt = tensor.DefaultDType
	}
	ts, shape, err := opdef.BroadcastAll(cast...)
	g.Check(err)
	if v := g.omitted(fn, shape, dt, in); v != nil {
		return v
	}
	switch {
	case dt.IsComplex() && fn.complex.f != nil:
		return g.unlinked(applied(g, complexes, fn, fn.complex, dt, ts, in))
	case dt.IsFloat() && fn.real.f != nil:
		options := func() []option { return stepOptions(fn.name, in[0], len(in), dt, fn.real.f) }
		return g.varied(fn.name, options, shape, dt, in, func() *Value {
			return g.unlinked(applied(g, reals, fn, fn.real, dt, ts, in))
		})
	case dt.Kind() < tensor.KindFloat:
		return g.value(eachElement(dt, shape, fn.integer, ts), nil, nil, in...)
	}
	g.Refuse("", "not defined for dtype %s", dt)
	return nil
}

// applied is m of ts, the operands in one shape and dtype.
func applied[T number](g *Graph, num numbers[T], fn function, m maths[T], dt tensor.DType, ts []*tensor.Tensor,
	in []*Value) *Value {
	v := g.value(opdef.ZipN(dt, ts[0].Shape, m.values, ts...),
		func(t *tensor.Tensor) *tensor.Tensor { return appliedBound(g, num, fn, m, t, ts, in) }, nil, in...)
	v.what = fn.name
	return v.withGradients(func(up *Value) []*Value {
		if m.d == nil {
			g.Refuse("", "no gradient for dtype %s", dt)
		}
		out := make([]*Value, len(in))
		for k, x := range in {
			if !x.needs {
				continue
			}
			if len(in) > 1 {
				out[k] = slope(g, num, fn, m, k, up, v, ts, in)
				continue
			}
			options := func() []option { return slopeOptions(fn.name) }
			out[k] = g.varied(slopeStep+fn.name, options, v.Shape(), dt, []*Value{up, x, v},
				func() *Value { return slope(g, num, fn, m, k, up, v, ts, in) })
		}
		return out
	})
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
		es[k] = opdef.Must(x.bound().Expand(shape...)) // the value itself was expanded
	}
	return es
}

// appliedBound is the bound of y = m(ts): the errors of the operands and its own
// rounding.
func appliedBound[T number](g *Graph, num numbers[T], fn function, m maths[T], y *tensor.Tensor, ts []*tensor.Tensor,
	in []*Value) *tensor.Tensor {
	own, n := g.rounding(y.DType, fn.ulps), len(ts)
	ops := append(append([]*tensor.Tensor{y}, ts...), expanded(in, y.Shape)...)
	return opdef.ZipN(tensor.Float64, y.Shape, func(dst []float64, src [][]T) {
		v := make([]T, n)
		for i := range dst {
			for k := range n {
				v[k] = src[1+k][i]
			}
			size := num.abs(src[0][i])
			if m.terms != nil {
				size = max(size, math.Abs(m.terms(v, src[0][i])))
			}
			dst[i] = times(own, g.digits(y.DType, g.of(size))) + throughAll(g, num, m.f, v, src[0][i], src[1+n:], i)
		}
	}, ops...)
}

// throughAll is what the errors es[k][i] of the operands v do to y = f(v).
func throughAll[T number](g *Graph, num numbers[T], f func([]T) T, v []T, y T, es [][]T, i int) float64 {
	sum := 0.0
	for k := range v {
		if es[k][i] == 0 {
			continue
		}
		sum += through(g, num, func(z T) T {
			old := v[k]
			v[k] = z
			w := f(v)
			v[k] = old
			return w
		}, v[k], y, num.real(es[k][i]))
	}
	return sum
}

// slope is the gradient of operand k of the value of = m(ts), of its shape.
func slope[T number](g *Graph, num numbers[T], fn function, m maths[T], k int, up, of *Value, ts []*tensor.Tensor,
	in []*Value) (d *Value) {
	y, n := of.T, len(ts)
	ops := append([]*tensor.Tensor{up.T, y}, ts...)
	t := opdef.ZipN(y.DType, y.Shape, func(dst []T, src [][]T) { m.slopes(k, dst, src[0], src[1], src[2:]) }, ops...)
	defer func() { d.what, d.operand = slopeStep+fn.name, k }()
	own, stored := g.rounding(y.DType, fn.dulps), 0.0
	if fn.saved {
		stored = g.rounding(y.DType, 0.5)
	}
	return g.computed(t, append([]*Value{up, of}, in...), func(*tensor.Tensor) *tensor.Tensor {
		es := append(expanded([]*Value{up}, y.Shape), expanded(in, y.Shape)...)
		return opdef.ZipN(tensor.Float64, y.Shape, func(dst []float64, src [][]T) {
			v, w, magnitudes := make([]T, n), make([]T, n), make([]float64, n)
			partial := func(v []T, y T) T {
				m.d(v, y, w)
				return w[k]
			}
			for i := range dst {
				for j := range n {
					v[j] = src[2+j][i]
				}
				d := partial(v, src[1][i])
				size, term := g.of(num.abs(src[0][i])), num.abs(d)
				sum := times(g.of(term), num.real(src[2+n][i])) + times(size, throughAll(g, num,
					func(v []T) T { return partial(v, m.f(v)) }, v, d, src[3+n:], i))
				if stored > 0 {
					sum += times(size, through(g, num, func(z T) T { return partial(v, z) }, src[1][i], d,
						stored*g.digits(y.DType, g.of(num.abs(src[1][i])))))
				}
				if m.dterms != nil {
					m.dterms(v, src[1][i], magnitudes)
					term = max(term, math.Abs(magnitudes[k]))
				}
				dst[i] = sum + times(own, g.digits(y.DType, times(size, g.of(term))))
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
			return choose[complex128](dt, c, a, b)
		case tensor.KindFloat:
			return choose[float64](dt, c, a, b)
		}
		return choose[int64](dt, c, a, b)
	}
	options := func() []option {
		return []option{
			{text: "%[1]s is taken everywhere, not %[2]s where that is due", of: first},
			{text: "%[2]s is taken everywhere, not %[1]s where that is due", of: second},
			{text: "%[1]s and %[2]s are exchanged", of: func(g *Graph, in []*Value) *Value {
				return g.Where(cond, in[1], in[0])
			}},
		}
	}
	return g.varied("choice", options, shape, dt, []*Value{x, y}, func() *Value {
		return g.where(cond, x, y, dt, ts, shape, pick)
	})
}

func (g *Graph) where(cond *tensor.Tensor, x, y *Value, dt tensor.DType, ts []*tensor.Tensor, shape []int,
	pick func(dt tensor.DType, c, a, b *tensor.Tensor) *tensor.Tensor) *Value {
	from := []*Value{x, y, {T: cond}}
	return g.computed(pick(dt, ts[0], ts[1], ts[2]), from, func(*tensor.Tensor) *tensor.Tensor {
		es := expanded([]*Value{x, y}, shape)
		return pick(tensor.Float64, ts[0], es[0], es[1])
	}, func(up *Value) []*Value {
		zero := g.Full(dt, nil, 0)
		return []*Value{g.Where(cond, up, zero), g.Where(cond, zero, up)}
	}, x, y)
}

// choose is x where the bool tensor cond holds, y elsewhere; all have one shape.
func choose[T tensor.Elem](dt tensor.DType, cond, x, y *tensor.Tensor) *tensor.Tensor {
	return tensor.LazyOf(dt, x.Shape, func(lo int, dst []T) {
		mask, other := opdef.Scratch[int64](len(dst)), opdef.Scratch[T](len(dst))
		tensor.Load(cond, lo, *mask)
		tensor.Load(x, lo, dst)
		tensor.Load(y, lo, *other)
		for i, m := range *mask {
			if m == 0 {
				dst[i] = (*other)[i]
			}
		}
		opdef.Release(mask)
		opdef.Release(other)
	}, cond, x, y)
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
	v := g.value(t, func(t *tensor.Tensor) *tensor.Tensor {
		own := g.rounding(dt, 0.5)
		if x.DType().Real().Size() <= dt.Real().Size() { // widening is exact
			own = 0
		}
		return opdef.Zip(tensor.Float64, x.bound(), g.magnitude(t), func(e, m float64) float64 {
			return e + own*g.digits(dt, m)
		})
	}, func(up *Value) []*Value { return []*Value{g.To(up, x.DType())} }, x)
	v.is = x
	return v
}

// AtLeast is x, in dtype dt if its own is narrower: what operators do that
// compute in float32.
func (g *Graph) AtLeast(x *Value, dt tensor.DType) *Value {
	if x.DType().Size() < dt.Size() {
		return g.To(x, dt)
	}
	return x
}
