package opcheck

import (
	"math"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// survive runs a call that may be refused but must do nothing worse.
func (x *subject) survive(what string, c *opdef.Call) {
	x.doing.Store(what)
	if _, err := x.run(c, nil); err != nil && !refused(err) {
		x.report("%s: %v", what, err)
	}
}

// checkSpecial fills floating arguments with special values.
func checkSpecial(x *subject) {
	inf := math.Inf(1)
	for what, pattern := range map[string][]float64{
		"NaN":                   {math.NaN()},
		"special values":        {inf, math.NaN(), -inf, math.Copysign(0, -1), 1, 0},
		"infinities":            {inf},
		"zeros":                 {0, math.Copysign(0, -1)},
		"the largest numbers":   {math.MaxFloat64, -math.MaxFloat64},
		"the smallest numbers":  {math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64},
		"whole numbers and NaN": {2, -3, math.NaN(), 0},
	} {
		x.survive(what, each(x.call, func(t *tensor.Tensor) *tensor.Tensor { return fill(t, pattern) }))
	}
}

// fill repeats pattern over the elements of a floating tensor, clamped to its
// dtype; of complex ones over both parts, out of step.
func fill(t *tensor.Tensor, pattern []float64) *tensor.Tensor {
	dt := t.DType
	if dt.Kind() < tensor.KindFloat {
		return t
	}
	at := func(i int) float64 {
		v := pattern[i%len(pattern)]
		if m := dt.Max(); !math.IsInf(v, 0) && math.Abs(v) > m {
			v = math.Copysign(m, v)
		}
		return v
	}
	n := t.Numel()
	var u *tensor.Tensor
	if dt.IsComplex() {
		v := make([]complex128, n)
		for i := range v {
			v[i] = complex(at(i), at(i+1))
		}
		u = tensor.New(dt, t.Shape, v)
	} else {
		v := make([]float64, n)
		for i := range v {
			v[i] = at(i)
		}
		u = tensor.New(dt, t.Shape, v)
	}
	u = u.Rounded()
	u.RequiresGrad = t.RequiresGrad
	return u
}

// A resize is a change of a tensor to another shape or dtype.
type resize struct {
	what string
	f    func(*tensor.Tensor) *tensor.Tensor
}

var resizes = []resize{
	{"no elements in the first dimension", func(t *tensor.Tensor) *tensor.Tensor { return cut(t, 0, 0) }},
	{"no elements in the last dimension", func(t *tensor.Tensor) *tensor.Tensor { return cut(t, t.Dim()-1, 0) }},
	{"one element in the last dimension", func(t *tensor.Tensor) *tensor.Tensor { return cut(t, t.Dim()-1, 1) }},
	{"no dimensions", func(t *tensor.Tensor) *tensor.Tensor {
		for t.Dim() > 0 && t.Numel() > 0 {
			t = t.Select(0, 0)
		}
		return t
	}},
}

func cut(t *tensor.Tensor, dim, n int) *tensor.Tensor {
	if dim < 0 || dim >= t.Dim() || t.Shape[dim] <= n {
		return t
	}
	return t.Slice(dim, 0, n, 1)
}

// keeping gives what f makes of a tensor the tensor's own marks.
func keeping(f func(*tensor.Tensor) *tensor.Tensor) func(*tensor.Tensor) *tensor.Tensor {
	return func(t *tensor.Tensor) *tensor.Tensor {
		u := *f(t)
		u.RequiresGrad = t.RequiresGrad && u.DType.Kind() >= tensor.KindFloat
		return &u
	}
}

// checkEmpty takes the elements or the dimensions of all tensors, then of one
// at a time.
func checkEmpty(x *subject) {
	for _, r := range resizes {
		f := keeping(r.f)
		x.survive("all tensors with "+r.what, each(x.call, f))
		if ts := x.call.Tensors(); len(ts) > 1 {
			for _, a := range ts {
				x.survive(argName(a)+" with "+r.what, only(x.call, a, f))
			}
		}
	}
}

// checkRefusals gives one argument at a time a value that torch may refuse.
func checkRefusals(x *subject) {
	for _, a := range x.call.Tensors() {
		for _, r := range []resize{
			{"one more dimension", func(t *tensor.Tensor) *tensor.Tensor { return t.Unsqueeze(0) }},
			{"one row less", func(t *tensor.Tensor) *tensor.Tensor {
				if t.Numel() == 0 || t.Dim() == 0 {
					return t
				}
				return cut(t, 0, t.Shape[0]-1)
			}},
			{"dtype bool", as(tensor.Bool)},
			{"dtype int64", as(tensor.Int64)},
			{"dtype uint8", as(tensor.Uint8)},
			{"dtype float32", as(tensor.Float32)},
			{"dtype complex64", as(tensor.Complex64)},
			{"dtype float8_e5m2", as(tensor.Float8E5M2)},
		} {
			x.survive(argName(a)+" with "+r.what, only(x.call, a, keeping(r.f)))
		}
	}
	args, kwargs := x.call.Python()
	for i, v := range args {
		for _, bad := range wrong(v) {
			changed := append(append(append([]value.Value{}, args[:i]...), bad), args[i+1:]...)
			x.rebind(x.entry.Schema.Params[i].Name, bad, changed, kwargs)
		}
	}
	for i, it := range kwargs.Items {
		for _, bad := range wrong(it.Value) {
			changed := &value.Dict{Items: append([]value.Item{}, kwargs.Items...)}
			changed.Items[i].Value = bad
			x.rebind(it.Key.(string), bad, args, changed)
		}
	}
}

func as(dt tensor.DType) func(*tensor.Tensor) *tensor.Tensor {
	return func(t *tensor.Tensor) *tensor.Tensor { return opdef.Cast(t, dt).Rounded() }
}

func (x *subject) rebind(arg string, bad value.Value, args []value.Value, kwargs *value.Dict) {
	x.doing.Store(arg + "=" + argText(bad))
	c, err := x.entry.Bind(x.entry.Names[0], args, kwargs)
	if err == nil {
		_, err = x.run(c, nil)
	}
	if err != nil && !refused(err) {
		x.report("%s=%s: %v", arg, argText(bad), err)
	}
}

// wrong returns values that should not take the place of v.
func wrong(v value.Value) []value.Value {
	switch v := v.(type) {
	case bool:
		return []value.Value{!v, nil}
	case int64:
		return []value.Value{int64(-9), int64(-1), int64(0), int64(9), 0.5, nil}
	case float64:
		return []value.Value{-1.5, 0.0, math.NaN(), math.Inf(1), 1e300, nil}
	case complex128:
		return []value.Value{complex(math.NaN(), math.Inf(1)), nil}
	case string:
		return []value.Value{"", "no such", nil}
	case tensor.DType:
		return []value.Value{tensor.Bool, tensor.Int64, tensor.Float16, tensor.Complex64, tensor.QInt8, nil}
	case *value.Sequence:
		bad := []value.Value{value.NewList(), nil, int64(1)}
		for i, it := range v.Items {
			for _, b := range wrong(it) {
				items := append([]value.Value{}, v.Items...)
				items[i] = b
				bad = append(bad, value.NewList(items...))
			}
		}
		if len(v.Items) > 0 {
			bad = append(bad, value.NewList(v.Items[1:]...), value.NewList(append(v.Items[:len(v.Items):len(v.Items)],
				v.Items[0])...))
		}
		return bad
	case *tensor.Tensor:
		return []value.Value{nil, "text", value.NewList()}
	case nil:
		return []value.Value{int64(-9), int64(0), 0.5, "no such"}
	}
	return []value.Value{nil}
}
