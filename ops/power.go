package ops

import (
	"math"
	"math/cmplx"
	"math/rand/v2"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
)

type divModeArgs struct {
	Self, Other  *tensor.Tensor
	RoundingMode *string
}

type addcArgs struct {
	Self, Tensor1, Tensor2 *tensor.Tensor
	Value                  opdef.Scalar
}

type lerpArgs struct{ Self, End, Weight *tensor.Tensor }

type powArgs struct{ Self, Exponent *tensor.Tensor }

// mapN is the lazy tensor of a function of the elements of broadcast tensors,
// computed in c if dt is complex, else in f.
func mapN(dt tensor.DType, c func(v []complex128) complex128, f func(v []float64) float64,
	ts ...*tensor.Tensor) (*tensor.Tensor, error) {
	ts, shape, err := opdef.BroadcastAll(ts...)
	if err != nil {
		return nil, err
	}
	if dt.IsComplex() {
		return zipWith(dt, shape, c, ts), nil
	}
	return zipWith(dt, shape, f, ts), nil
}

// zipWith applies f to the elements of ts, all of the given shape.
func zipWith[S, T tensor.Elem](dt tensor.DType, shape []int, f func(v []S) T, ts []*tensor.Tensor) *tensor.Tensor {
	return opdef.ZipN(dt, shape, func(dst []T, src [][]S) {
		v := make([]S, len(src))
		for i := range dst {
			for k := range src {
				v[k] = src[k][i]
			}
			dst[i] = f(v)
		}
	}, ts...)
}

// magnitudes applies f to the magnitudes of broadcast tensors.
func magnitudes(f func(v []float64) float64, ts ...*tensor.Tensor) *tensor.Tensor {
	abs := make([]*tensor.Tensor, len(ts))
	for i, t := range ts {
		abs[i] = opdef.Abs(t)
	}
	t, err := mapN(tensor.Float64, nil, f, abs...)
	if err != nil { // the kernel has broadcast them already
		panic(err)
	}
	return t
}

// broadcastTerms is the largest number of result elements that one element of
// an operand takes part in.
func broadcastTerms(ts ...*tensor.Tensor) int {
	_, shape, err := opdef.BroadcastAll(ts...)
	if err != nil {
		return 1
	}
	n, terms := tensor.Numel(shape), 1
	for _, t := range ts {
		if k := t.Numel(); k > 0 {
			terms = max(terms, n/k)
		}
	}
	return terms
}

// zerosLike is nil for a Python number, which has no gradient.
func zerosLike(t *tensor.Tensor) *tensor.Tensor {
	if t.Wrapped {
		return nil
	}
	return tensor.Full(t.DType, t.Shape, 0.0)
}

// sumToArg is the gradient of a broadcast operand, nil for a Python number.
func sumToArg(t, arg *tensor.Tensor) *tensor.Tensor {
	if arg.Wrapped {
		return nil
	}
	return opdef.SumTo(t, arg.Shape)
}

func subtract(x, y *tensor.Tensor, alpha opdef.Scalar) ([]*tensor.Tensor, error) {
	if x.DType == tensor.Bool || y.DType == tensor.Bool {
		return nil, opdef.Refuse("other", "bool cannot be subtracted: use logical_xor or ~")
	}
	return addScaled(x, y, alpha, -1)
}

func sumOfMagnitudes(x, y *tensor.Tensor, alpha opdef.Scalar) []*tensor.Tensor {
	k := alpha.Abs().Float64()
	return []*tensor.Tensor{magnitudes(func(v []float64) float64 { return v[0] + k*v[1] }, x, y)}
}

func subCases(r *rand.Rand) []*addArgs {
	var cs []*addArgs
	for _, c := range addCases(r) {
		if c.Self.DType != tensor.Bool && c.Other.DType != tensor.Bool {
			cs = append(cs, c)
		}
	}
	return cs
}

// addcCommon is the dtype and the broadcast operands of addcmul and addcdiv.
func addcCommon(a *addcArgs) (tensor.DType, []*tensor.Tensor, []int, error) {
	dt, ts, err := opdef.Common(a.Self, a.Tensor1, a.Tensor2)
	if err != nil {
		return dt, nil, nil, err
	}
	if !dt.IsComplex() && a.Value.Kind() == tensor.KindComplex {
		return dt, nil, nil, opdef.Refuse("value", "%v does not scale dtype %s", a.Value, dt)
	}
	ts, shape, err := opdef.BroadcastAll(ts...)
	return dt, ts, shape, err
}

func addcmul(a *addcArgs) ([]*tensor.Tensor, error) {
	dt, ts, shape, err := addcCommon(a)
	if err != nil {
		return nil, err
	}
	switch dt.Kind() {
	case tensor.KindComplex:
		k := a.Value.Complex128()
		return one(zipWith(dt, shape, func(v []complex128) complex128 { return v[0] + k*v[1]*v[2] }, ts))
	case tensor.KindFloat:
		k := number(a.Value, dt)
		return one(zipWith(dt, shape, func(v []float64) float64 { return v[0] + k*v[1]*v[2] }, ts))
	case tensor.KindBool:
		return nil, opdef.Refuse("self", "not defined for dtype bool")
	}
	k := a.Value.Int64()
	return one(zipWith(dt, shape, func(v []int64) int64 { return v[0] + k*v[1]*v[2] }, ts))
}

func addcdiv(a *addcArgs) ([]*tensor.Tensor, error) {
	if a.Tensor1.DType.Kind() < tensor.KindFloat && a.Tensor2.DType.Kind() < tensor.KindFloat {
		return nil, opdef.Refuse("tensor1", "integers are not divided, got %s and %s", a.Tensor1.DType, a.Tensor2.DType)
	}
	dt, ts, shape, err := addcCommon(a)
	if err != nil {
		return nil, err
	}
	if dt.IsComplex() {
		k := a.Value.Complex128()
		return one(zipWith(dt, shape, func(v []complex128) complex128 { return v[0] + k*v[1]/v[2] }, ts))
	}
	k := number(a.Value, dt)
	return one(zipWith(dt, shape, func(v []float64) float64 { return v[0] + k*v[1]/v[2] }, ts))
}

func addcTerms(a *addcArgs) int { return 2 + broadcastTerms(a.Self, a.Tensor1, a.Tensor2) }

func addcmulGrad(a *addcArgs, g *opdef.Grad) (opdef.Grads, error) {
	dt, c, k := g.Outs[0].DType, cmplx.Conj(a.Value.Complex128()), number(a.Value, g.Outs[0].DType)
	gr := opdef.Grads{"self": {opdef.SumTo(g.Out[0], a.Self.Shape)}}
	for _, p := range []struct {
		name       string
		arg, other *tensor.Tensor
	}{{"tensor1", a.Tensor1, a.Tensor2}, {"tensor2", a.Tensor2, a.Tensor1}} {
		t, err := mapN(dt, func(v []complex128) complex128 { return v[0] * c * cmplx.Conj(v[1]) },
			func(v []float64) float64 { return v[0] * k * v[1] }, g.Out[0], p.other)
		if err != nil {
			return nil, err
		}
		gr.Set(p.name, opdef.SumTo(t, p.arg.Shape))
	}
	return gr, nil
}

func addcdivGrad(a *addcArgs, g *opdef.Grad) (opdef.Grads, error) {
	dt, c, k := g.Outs[0].DType, a.Value.Complex128(), number(a.Value, g.Outs[0].DType)
	g1, err := mapN(dt, func(v []complex128) complex128 { return v[0] * cmplx.Conj(c/v[1]) },
		func(v []float64) float64 { return v[0] * k / v[1] }, g.Out[0], a.Tensor2)
	if err != nil {
		return nil, err
	}
	// torch rounds value*tensor1 to the dtype of tensor1 before it divides.
	round := func(x float64) float64 { return x }
	if own := a.Tensor1.DType; own.IsFloat() && own != dt {
		round = own.Round
	}
	g2, err := mapN(dt, func(v []complex128) complex128 { return -v[0] * cmplx.Conj(c*v[1]/(v[2]*v[2])) },
		func(v []float64) float64 { return -v[0] * round(k*v[1]) / (v[2] * v[2]) }, g.Out[0], a.Tensor1, a.Tensor2)
	if err != nil {
		return nil, err
	}
	return opdef.Grads{
		"self": {opdef.SumTo(g.Out[0], a.Self.Shape)}, "tensor1": {opdef.SumTo(g1, a.Tensor1.Shape)},
		"tensor2": {opdef.SumTo(g2, a.Tensor2.Shape)},
	}, nil
}

func addcCases(r *rand.Rand) []*addcArgs {
	g := opdef.Gen{R: r}
	return append(addcdivCases(r), &addcArgs{g.Int(tensor.Int32, -4, 4, 3), g.Int(tensor.Int32, -4, 4, 3),
		g.Int(tensor.Int32, -4, 4, 3), opdef.Int(2)})
}

func addcdivCases(r *rand.Rand) []*addcArgs {
	g := opdef.Gen{R: r}
	zero := []float64{0}
	return []*addcArgs{
		{g.Normal(tensor.Float64, 3, 4), g.Normal(tensor.Float64, 3, 4), g.Apart(tensor.Float64, zero, 3, 4),
			opdef.Float(-0.5)},
		{g.Normal(tensor.Float64, 3, 1), g.Normal(tensor.Float64, 4), g.Apart(tensor.Float64, zero, 2, 3, 1),
			opdef.Int(1)},
		{g.Normal(tensor.Float32, 5), g.Normal(tensor.Float32, 5), g.Apart(tensor.Float32, zero, 5), opdef.Float(0.1)},
		{g.Normal(tensor.BFloat16, 5), g.Normal(tensor.BFloat16, 5), g.Apart(tensor.BFloat16, zero, 5),
			opdef.Float(0.1)},
		{g.Normal(tensor.Float32), g.Normal(tensor.Float32), g.Apart(tensor.Float32, zero), opdef.Int(2)},
		{g.Normal(tensor.Float32, 0, 3), g.Normal(tensor.Float32, 3), g.Apart(tensor.Float32, zero, 3), opdef.Int(1)},
		{g.Normal(tensor.Complex128, 3), g.Normal(tensor.Complex128, 3), g.Normal(tensor.Complex128, 3),
			opdef.Cplx(complex(0.5, -1))},
	}
}

func lerp(a *lerpArgs) ([]*tensor.Tensor, error) {
	for _, p := range []struct {
		name string
		t    *tensor.Tensor
	}{{"end", a.End}, {"weight", a.Weight}} {
		if !p.t.Wrapped && p.t.DType != a.Self.DType {
			return nil, opdef.Refuse(p.name, "want dtype %s, got %s", a.Self.DType, p.t.DType)
		}
	}
	if a.Self.DType.Kind() < tensor.KindFloat {
		return nil, opdef.Refuse("self", "not defined for dtype %s", a.Self.DType)
	}
	_, ts, err := opdef.Common(a.Self, a.End, a.Weight)
	if err != nil {
		return nil, err
	}
	t, err := mapN(a.Self.DType, func(v []complex128) complex128 { return v[0] + v[2]*(v[1]-v[0]) },
		func(v []float64) float64 { return v[0] + v[2]*(v[1]-v[0]) }, ts...)
	return []*tensor.Tensor{t}, err
}

func lerpGrad(a *lerpArgs, g *opdef.Grad) (opdef.Grads, error) {
	dt := a.Self.DType
	gs, err := mapN(dt, func(v []complex128) complex128 { return v[0] * cmplx.Conj(1-v[1]) },
		func(v []float64) float64 { return v[0] * (1 - v[1]) }, g.Out[0], a.Weight)
	if err != nil {
		return nil, err
	}
	ge, err := mapN(dt, func(v []complex128) complex128 { return v[0] * cmplx.Conj(v[1]) },
		func(v []float64) float64 { return v[0] * v[1] }, g.Out[0], a.Weight)
	if err != nil {
		return nil, err
	}
	gw, err := mapN(dt, func(v []complex128) complex128 { return v[0] * cmplx.Conj(v[2]-v[1]) },
		func(v []float64) float64 { return v[0] * (v[2] - v[1]) }, g.Out[0], a.Self, a.End)
	if err != nil {
		return nil, err
	}
	return opdef.Grads{"self": {opdef.SumTo(gs, a.Self.Shape)}, "end": {opdef.SumTo(ge, a.End.Shape)},
		"weight": {sumToArg(gw, a.Weight)}}, nil
}

func lerpCases(r *rand.Rand) []*lerpArgs {
	g := opdef.Gen{R: r}
	return []*lerpArgs{
		{g.Normal(tensor.Float64, 3, 4), g.Normal(tensor.Float64, 3, 4), g.Uniform(tensor.Float64, 0, 1, 3, 4)},
		{g.Normal(tensor.Float64, 3, 1), g.Normal(tensor.Float64, 4), tensor.Wrap(0.25)},
		{g.Normal(tensor.Float32, 5), g.Normal(tensor.Float32, 5), tensor.Wrap(0.9)},
		{g.Normal(tensor.BFloat16, 5), g.Normal(tensor.BFloat16, 5), tensor.Wrap(0.9)},
		{g.Normal(tensor.Float32, 0, 2), g.Normal(tensor.Float32, 2), tensor.Wrap(0.5)},
		{g.Normal(tensor.Complex128, 3), g.Normal(tensor.Complex128, 3), tensor.Wrap(0.5)},
	}
}

// powC is cmplx.Pow, with x**0 = 1 and without its refusal of 0 to a power
// whose real part is negative.
func powC(x, y complex128) complex128 {
	switch {
	case y == 0:
		return 1
	case x == 0 && real(y) > 0:
		return 0
	case x == 0:
		return cmplx.Exp(y * cmplx.Log(x))
	// the product would turn infinities into NaN
	case imag(x) == 0 && real(x) > 0 && (cmplx.IsInf(y) || cmplx.IsNaN(y)):
		l := math.Log(real(x))
		return cmplx.Exp(complex(real(y)*l, imag(y)*l))
	}
	return cmplx.Pow(x, y)
}

// powScale: a complex power is the exponential of a product, which is rounded.
func powScale(x, y, out *tensor.Tensor) []*tensor.Tensor {
	if !out.DType.IsComplex() {
		return []*tensor.Tensor{tensor.Full(tensor.Float64, out.Shape, 0.0)}
	}
	ts, shape, err := opdef.BroadcastAll(x, y, out)
	if err != nil { // the kernel has broadcast them already
		panic(err)
	}
	return []*tensor.Tensor{zipWith(tensor.Float64, shape,
		func(v []complex128) float64 { return cmplx.Abs(v[2]) * powGrowth(v[0], v[1]) }, ts)}
}

// powGrowth is 1 + |y log x|, by which rounding the product y log x changes x**y.
func powGrowth(x, y complex128) float64 {
	if x == 0 {
		return 1
	}
	return 1 + cmplx.Abs(y*cmplx.Log(x))
}

func power(x, y *tensor.Tensor) ([]*tensor.Tensor, error) {
	if err := opdef.OneTensor(x, y); err != nil {
		return nil, err
	}
	dt, xy, err := opdef.Common(x, y)
	if err != nil {
		return nil, err
	}
	if dt.Kind() >= tensor.KindFloat {
		t, err := mapN(dt, func(v []complex128) complex128 { return powC(v[0], v[1]) },
			func(v []float64) float64 { return kernel.Pow(v[0], v[1]) }, xy...)
		return []*tensor.Tensor{t}, err
	}
	if dt == tensor.Bool {
		return nil, opdef.Refuse("self", "not defined for dtype bool")
	}
	if y.Wrapped && tensor.At[int64](y, 0) < 0 {
		return nil, opdef.Refuse("exponent", "integers have no negative integer powers, got %d", tensor.At[int64](y, 0))
	}
	if xy, _, err = opdef.BroadcastAll(xy...); err != nil {
		return nil, err
	}
	return one(opdef.Zip(dt, xy[0], xy[1], powInt))
}

// powInt is x**n by squaring, wrapping; negative powers are 0 unless x is 1 or -1.
func powInt(x, n int64) int64 {
	if n < 0 {
		switch {
		case x == 1 || x == -1 && n%2 == 0:
			return 1
		case x == -1:
			return -1
		}
		return 0
	}
	r := int64(1)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			r *= x
		}
		x *= x
	}
	return r
}

// powGrad are the gradients of x**y under the names nx and ny, or with
// magnitudes set the sums of the magnitudes of their terms.
func powGrad(x, y *tensor.Tensor, nx, ny string, g *opdef.Grad, magnitude bool) (opdef.Grads, error) {
	dt := g.Outs[0].DType
	gr := opdef.Grads{nx: {nil}, ny: {nil}}
	put := func(name string, arg *tensor.Tensor, c func(v []complex128) complex128, f func(v []float64) float64) error {
		if arg.Wrapped || !g.Need(name) {
			return nil
		}
		t, err := mapN(dt, c, f, g.Out[0], x, y, g.Outs[0])
		if err != nil {
			return err
		}
		if magnitude {
			t = opdef.Abs(t)
			ts, shape, err := opdef.BroadcastAll(t, x, y)
			if err != nil {
				return err
			}
			if dt.IsFloat() && name == nx {
				t = zipWith(tensor.Float64, shape, func(v []float64) float64 {
					if k := v[2] - 1; dt.Round(k) != k { // the exponent is rounded
						return v[0] * (1 + math.Abs(k*math.Log(math.Abs(v[1]))))
					}
					return v[0]
				}, ts)
			}
			if dt.IsComplex() {
				t = zipWith(tensor.Float64, shape, func(v []complex128) float64 {
					return real(v[0]) * powGrowth(v[1], v[2])
				}, ts)
			}
		}
		gr.Set(name, opdef.SumTo(t, arg.Shape))
		return nil
	}
	err := put(nx, x, func(v []complex128) complex128 {
		if v[2] == 0 {
			return 0
		}
		return v[0] * cmplx.Conj(v[2]*powC(v[1], v[2]-1))
	}, func(v []float64) float64 {
		if v[2] == 0 {
			return 0
		}
		return v[0] * v[2] * kernel.Pow(v[1], v[2]-1)
	})
	if err != nil {
		return nil, err
	}
	return gr, put(ny, y, func(v []complex128) complex128 {
		if v[1] == 0 && imag(v[2]) == 0 && real(v[2]) >= 0 {
			return 0
		}
		return v[0] * cmplx.Conj(v[3]*cmplx.Log(v[1]))
	}, func(v []float64) float64 {
		if v[1] == 0 && v[2] >= 0 {
			return 0
		}
		return v[0] * v[3] * math.Log(v[1])
	})
}

// baseOf is the base of __rpow__: a number becomes a tensor of the result's
// dtype.
func baseOf(a *opdef.BinaryArgs) *tensor.Tensor {
	if !a.Other.Wrapped {
		return a.Other
	}
	dt := tensor.ResultType(a.Other, a.Self)
	switch dt.Kind() {
	case tensor.KindFloat:
		return tensor.Scalar(dt, dt.Round(tensor.At[float64](a.Other, 0)))
	case tensor.KindComplex:
		c, part := tensor.At[complex128](a.Other, 0), dt.Real()
		return tensor.Scalar(dt, complex(part.Round(real(c)), part.Round(imag(c))))
	}
	return tensor.Scalar(dt, tensor.At[int64](a.Other, 0))
}

func reversePowGrad(a *opdef.BinaryArgs, g *opdef.Grad, magnitude bool) (opdef.Grads, error) {
	gr, err := powGrad(baseOf(a), a.Self, "other", "self", g, magnitude)
	if err == nil && a.Other.Wrapped {
		gr["other"] = []*tensor.Tensor{nil}
	}
	return gr, err
}

func floatPower(a *powArgs) ([]*tensor.Tensor, error) {
	if err := opdef.OneTensor(a.Self, a.Exponent); err != nil {
		return nil, err
	}
	dt := tensor.Float64
	if a.Self.DType.IsComplex() || a.Exponent.DType.IsComplex() {
		dt = tensor.Complex128
	}
	t, err := mapN(dt, func(v []complex128) complex128 { return powC(v[0], v[1]) },
		func(v []float64) float64 { return kernel.Pow(v[0], v[1]) }, a.Self, a.Exponent)
	return []*tensor.Tensor{t}, err
}

func powCases(r *rand.Rand) []*powArgs {
	g := opdef.Gen{R: r}
	pos := func(dt tensor.DType, shape ...int) *tensor.Tensor { return g.Uniform(dt, 0.3, 3, shape...) }
	return []*powArgs{
		{pos(tensor.Float64, 3, 4), g.Normal(tensor.Float64, 3, 4)},
		{pos(tensor.Float64, 3, 1), g.Normal(tensor.Float64, 4)},
		{g.Apart(tensor.Float64, []float64{0}, 3), tensor.Wrap(int64(3))}, {pos(tensor.Float32, 5), tensor.Wrap(0.5)},
		{pos(tensor.Float32, 5), tensor.Wrap(-1.5)},
		{g.Normal(tensor.Float32, 5), tensor.Wrap(int64(0))}, {pos(tensor.BFloat16, 5), tensor.Wrap(int64(2))},
		{tensor.Wrap(2.5), g.Normal(tensor.Float32, 4)},
		{g.Normal(tensor.Float32, 0, 2), tensor.Wrap(int64(2))},
		{pos(tensor.Complex128, 3), g.Normal(tensor.Complex128, 3)},
		{g.Int(tensor.Int32, -4, 4, 5), tensor.Wrap(int64(3))}, {g.Int(tensor.Int64, -3, 3, 4),
			g.Int(tensor.Int64, 0, 4, 4)},
	}
}
