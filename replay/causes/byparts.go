package causes

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"math/cmplx"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// ofComplex are complex results whose parts are made of the same parts of the operands alone, or that have the
// magnitude of an operand as a factor too many, and products whose imaginary parts count with the wrong sign.
func (c *Search) ofComplex(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		r := &fails[0]
		got, want, ok := r.Pair()
		if !ok || !got.DType.IsComplex() || !slices.Equal(got.Shape, want.Shape) ||
			got.Numel() > largestOperand {
			return
		}
		if r.Backward() && !c.conjugated(yield) {
			return
		}
		if r.Forward() && !yield(Mistake{Text: "the complex conjugates of the operands are taken, and that of the " +
			"result: exponents have the other sign", Rounds: true, Make: func() (Way, error) {
			way, err := c.conjugate()
			if err != nil {
				return way, err
			}
			way.Call = cmp.Or(way.Call, c.Bound)
			way.Alter = func(target string, t *tensor.Tensor) *tensor.Tensor {
				if target != r.Target || !t.DType.IsComplex() {
					return t
				}
				return opdef.Map(t.DType, t, cmplx.Conj)
			}
			return way, nil
		}}) {
			return
		}
		if r.Forward() && !yield(Mistake{Text: "real and imaginary parts are computed by themselves", Rounds: true,
			Make: func() (Way, error) { return c.byParts(r.Target) }}) {
			return
		}
		if r.Forward() && !c.partsConjugated(r, yield) {
			return
		}
		var fit []knownValue
		for _, a := range c.readable() {
			if x, err := a.Tensor.Expand(got.Shape...); err == nil && a.Tensor.DType.IsComplex() {
				fit = append(fit, knownValue{argName(a), x})
			}
		}
		joined := func(text string, f func(due, x, y complex128) complex128, x, y *tensor.Tensor) bool {
			return yield(Mistake{Text: text, Rounds: true, Make: c.altering(
				func(target string, t *tensor.Tensor) *tensor.Tensor {
					if target != r.Target || !t.DType.IsComplex() || !slices.Equal(t.Shape, x.Shape) {
						return t
					}
					return opdef.ZipN(t.DType, t.Shape, func(dst []complex128, src [][]complex128) {
						for i := range dst {
							dst[i] = f(src[0][i], src[1][i], src[2][i])
						}
					}, t, x, y)
				})})
		}
		for _, k := range fit {
			for _, j := range complexJoins {
				if !joined(fmt.Sprintf(j.text, k.text), j.f, k.t, k.t) {
					return
				}
			}
		}
		if len(fit) == 2 && r.Forward() {
			joined("the product of the imaginary parts is added, not subtracted",
				func(due, x, y complex128) complex128 { return due + complex(2*imag(x)*imag(y), 0) },
				fit[0].t, fit[1].t)
		}
	}
}

// partsConjugated yields complex results one part of which is that of the complex conjugate of an operand: a sign in
// the formula of one part is wrong. It is false when no more are wanted.
func (c *Search) partsConjugated(r *Wrong, yield func(Mistake) bool) bool {
	for _, a := range c.readable() {
		if !a.Tensor.DType.IsComplex() {
			continue
		}
		for _, part := range []struct {
			text string
			of   func(due, made complex128) complex128
		}{
			{"its imaginary part is %sthat with the complex conjugate of %s",
				func(due, made complex128) complex128 { return complex(real(due), imag(made)) }},
			{"its real part is %sthat with the complex conjugate of %s",
				func(due, made complex128) complex128 { return complex(real(made), imag(due)) }},
		} {
			for _, sign := range []struct {
				text string
				x    complex128
			}{{"", 1}, {"the negative of ", -1}} {
				text := fmt.Sprintf(part.text, sign.text, argName(a))
				if !yield(Mistake{Text: text, Rounds: true, Make: func() (Way, error) {
					way, err := c.one(a, func() *tensor.Tensor {
						return opdef.Map(a.Tensor.DType, a.Tensor, cmplx.Conj)
					})()
					if err != nil || way.Call == nil {
						return way, err
					}
					f, err := way.Call.Forward()
					if err != nil || resultOf(f, r.Target) == nil {
						return Way{}, errNoValue
					}
					made := resultOf(f, r.Target)
					return c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
						if target != r.Target || !t.DType.IsComplex() || !slices.Equal(t.Shape, made.Shape) {
							return t
						}
						return opdef.ZipN(t.DType, t.Shape, func(dst []complex128, src [][]complex128) {
							for i := range dst {
								dst[i] = part.of(src[0][i], sign.x*src[1][i])
							}
						}, t, made)
					})()
				}}) {
					return false
				}
			}
		}
	}
	return true
}

// conjugated yields gradients of complex operands that are taken as they are where their conjugates are due; it is
// false when no more are wanted.
func (c *Search) conjugated(yield func(Mistake) bool) bool {
	return yield(Mistake{Text: "the gradient is taken without the complex conjugates", Rounds: true,
		Make: c.conjugate})
}

// conjugate is the call of the complex conjugates of its operands.
func (c *Search) conjugate() (Way, error) {
	return c.replaced(func(a opdef.Arg) *tensor.Tensor {
		if !a.Tensor.DType.IsComplex() {
			return nil
		}
		return opdef.Map(a.Tensor.DType, a.Tensor, cmplx.Conj)
	})
}

// complexJoins are what a complex result, or gradient, may be of what is due and an operand.
var complexJoins = []struct {
	text string
	f    func(due, x, _ complex128) complex128
}{
	{"it is multiplied by the magnitude of %s", func(due, x, _ complex128) complex128 {
		return due * complex(cmplx.Abs(x), 0)
	}},
	{"it is divided by the magnitude of %s", func(due, x, _ complex128) complex128 {
		return due / complex(cmplx.Abs(x), 0)
	}},
	{"it is the squared magnitude of %s", func(_, x, _ complex128) complex128 {
		return complex(real(x)*real(x)+imag(x)*imag(x), 0)
	}},
	{"its imaginary part lacks the exponential of the real part of %s", func(due, x, _ complex128) complex128 {
		return complex(real(due), imag(due)/math.Exp(real(x)))
	}},
}

// byParts is the call whose result has for its real part what the operator makes of the real parts of the operands,
// and likewise for the imaginary one.
func (c *Search) byParts(target string) (Way, error) {
	part := func(of func(complex128) float64) (*tensor.Tensor, error) {
		args := map[string]value.Value{}
		for _, a := range c.readable() {
			if a.Index >= 0 || !a.Tensor.DType.IsComplex() {
				return nil, errNoValue
			}
			z := tensor.Make[complex128](a.Tensor.Numel())
			tensor.Load(a.Tensor, 0, z)
			x := tensor.Make[float64](len(z))
			for i := range z {
				x[i] = of(z[i])
			}
			args[a.Name] = tensor.New(a.Tensor.DType.Real(), a.Tensor.Shape, x)
		}
		way, err := c.withArguments(args)
		if err != nil || way.Call == nil {
			return nil, errNoValue
		}
		f, err := way.Call.Forward()
		if err != nil || resultOf(f, target) == nil {
			return nil, errNoValue
		}
		return resultOf(f, target), nil
	}
	re, err := part(func(z complex128) float64 { return real(z) })
	if err != nil {
		return Way{}, err
	}
	im, err := part(func(z complex128) float64 { return imag(z) })
	if err != nil {
		return Way{}, err
	}
	return c.altering(func(of string, t *tensor.Tensor) *tensor.Tensor {
		if of != target || !t.DType.IsComplex() || !slices.Equal(t.Shape, re.Shape) || re.DType.IsComplex() {
			return t
		}
		x, y := elements(re), elements(im)
		z := tensor.Make[complex128](len(x))
		for i := range z {
			z[i] = complex(x[i], y[i])
		}
		return tensor.New(t.DType, t.Shape, z)
	})()
}

// wholeTogether are all operands of whole numbers read in fewer bits.
func (c *Search) wholeTogether() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		all := c.readable()
		if len(all) < 2 || slices.ContainsFunc(all, func(a opdef.Arg) bool { return !a.Tensor.DType.IsIntegral() }) {
			return
		}
		for _, bits := range []int{8, 16, 32} {
			wrap := ofWhole("", func(_ int, x int64) int64 { return x << (64 - bits) >> (64 - bits) })
			if !yield(Mistake{Text: fmt.Sprintf("all operands wrap at %d bits", bits), Make: func() (Way, error) {
				return c.replaced(func(a opdef.Arg) *tensor.Tensor { return wrap.of(a.Tensor) })
			}}) {
				return
			}
		}
	}
}
