package opcheck

import (
	"fmt"
	"maps"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A result is one thing a call computed.
type result struct {
	name string         // "result 0", "running_mean", "gradient of self"
	t    *tensor.Tensor // nil: text
	text string
}

// outputs are the results of a forward pass.
func outputs(f *opdef.Forward) []result {
	var rs []result
	if f.Outs == nil {
		for _, t := range value.Tensors(f.Value) {
			rs = append(rs, result{name: "tensor in the value", t: t})
		}
		rs = append(rs, result{name: "value", text: value.Repr(f.Value)})
	}
	for i, t := range f.Outs {
		rs = append(rs, result{name: fmt.Sprintf("result %d", i), t: t})
	}
	for _, name := range slices.Sorted(maps.Keys(f.After)) {
		for _, t := range f.After[name] {
			rs = append(rs, result{name: "new " + name, t: t})
		}
	}
	return rs
}

// gradients are the results of a backward pass.
func gradients(g opdef.Grads) []result {
	var rs []result
	for _, name := range slices.Sorted(maps.Keys(g)) {
		for i, t := range g[name] {
			if t == nil {
				continue
			}
			r := result{name: "gradient of " + name, t: t}
			if len(g[name]) > 1 {
				r.name += fmt.Sprintf(" %d", i)
			}
			rs = append(rs, r)
		}
	}
	return rs
}

// run computes all results and gradients of a call, to the last element. out
// are the incoming gradients; nil: random ones. Gradients that the Runner lacks are
// left out.
func (x *subject) run(c *opdef.Call, out []*tensor.Tensor) ([]result, error) {
	f, err := x.forward(c)
	if err != nil {
		return nil, err
	}
	rs := outputs(f)
	if out == nil {
		out = x.cotangents(f)
	}
	if differentiable(c) && hasAny(out) {
		g, err := x.backward(c, f, out, nil)
		if err != nil && !x.lacks(err) {
			return nil, err
		}
		rs = append(rs, gradients(g)...)
	}
	return rs, guard(func() error {
		for _, r := range rs {
			if r.t != nil {
				r.t.Rounded()
			}
		}
		return nil
	})
}

// differentiable reports whether the call has a gradient and asks for it.
func differentiable(c *opdef.Call) bool {
	return c.Entry.HasGrad && slices.ContainsFunc(c.Tensors(), asks)
}

func asks(a opdef.Arg) bool {
	return a.Tensor.RequiresGrad && a.Tensor.DType.Kind() >= tensor.KindFloat
}

func hasAny(ts []*tensor.Tensor) bool {
	return slices.ContainsFunc(ts, func(t *tensor.Tensor) bool { return t != nil })
}

// cotangents are random incoming gradients for the floating results of f, nil
// for the others; the same ones for results of the same shapes and dtypes.
func (x *subject) cotangents(f *opdef.Forward) []*tensor.Tensor {
	r := rand.New(rand.NewPCG(x.suite.Seed, uint64(x.index)))
	out := make([]*tensor.Tensor, len(f.Outs))
	for i, o := range f.Outs {
		if o.DType.Kind() >= tensor.KindFloat {
			out[i] = opdef.Gen{R: r}.Normal(o.DType, o.Shape...)
		}
	}
	return out
}

// dense is t as a computed contiguous tensor of its own, rounded to its dtype.
func dense(t *tensor.Tensor) *tensor.Tensor {
	if t.Wrapped {
		return t
	}
	return like(t, t.DType, t.Rounded())
}

// like is a computed contiguous copy of the elements of from, with dtype dt
// and the marks of t.
func like(t *tensor.Tensor, dt tensor.DType, from *tensor.Tensor) *tensor.Tensor {
	var u *tensor.Tensor
	switch dt.Kind() {
	case tensor.KindFloat:
		u = tensor.New(dt, from.Shape, slices.Clone(tensor.Data[float64](from)))
	case tensor.KindComplex:
		u = tensor.New(dt, from.Shape, slices.Clone(tensor.Data[complex128](from)))
	default:
		u = tensor.New(dt, from.Shape, slices.Clone(tensor.Data[int64](from)))
	}
	u.RequiresGrad, u.Parameter, u.Device = t.RequiresGrad, t.Parameter, t.Device
	return u
}

// each maps the tensors of a call that are no Python numbers.
func each(c *opdef.Call, f func(*tensor.Tensor) *tensor.Tensor) *opdef.Call {
	return c.Map(func(a opdef.Arg) *tensor.Tensor {
		if a.Tensor.Wrapped {
			return a.Tensor
		}
		return f(a.Tensor)
	})
}

// only maps the one tensor of a call that a names.
func only(c *opdef.Call, a opdef.Arg, f func(*tensor.Tensor) *tensor.Tensor) *opdef.Call {
	return c.Map(func(b opdef.Arg) *tensor.Tensor {
		if b.Name == a.Name && b.Index == a.Index {
			return f(b.Tensor)
		}
		return b.Tensor
	})
}

// A slack is how far apart elements of a dtype may be, relative to the largest.
type slack func(dt tensor.DType) float64

func exactly(tensor.DType) float64 { return 0 }

// difference describes the first way in which two lists of results differ by
// more than s allows, or returns "". NaN equals NaN.
func difference(got, want []result, s slack) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d results, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		switch {
		case g.name != w.name || (g.t == nil) != (w.t == nil):
			return fmt.Sprintf("%s, want %s", g.name, w.name)
		case w.t == nil && g.text != w.text:
			return fmt.Sprintf("%s is %s, want %s", w.name, g.text, w.text)
		case w.t == nil:
			continue
		}
		if d := tensorDifference(g.t, w.t, s(w.t.DType)); d != "" {
			return w.name + " " + d
		}
	}
	return ""
}

func metaDifference(got, want []result) string {
	strip := func(rs []result) []result {
		out := slices.Clone(rs)
		for i, r := range out {
			if r.t != nil {
				out[i] = result{name: r.name, text: r.t.Meta()}
			}
		}
		return out
	}
	return difference(strip(got), strip(want), exactly)
}

func tensorDifference(g, w *tensor.Tensor, rel float64) string {
	if g.DType != w.DType || !slices.Equal(g.Shape, w.Shape) {
		return fmt.Sprintf("is %s, want %s", g.Meta(), w.Meta())
	}
	if g.DType.Kind() < tensor.KindFloat {
		a, b := tensor.Data[int64](g), tensor.Data[int64](w)
		for i := range a {
			if a[i] != b[i] {
				return fmt.Sprintf("element %d is %d, want %d", i, a[i], b[i])
			}
		}
		return ""
	}
	a, b := tensor.Data[complex128](g), tensor.Data[complex128](w)
	tol := 0.0
	for _, v := range b {
		if m := cmplx.Abs(v); m > tol && !math.IsInf(m, 0) {
			tol = m
		}
	}
	tol *= rel
	for i := range a {
		if !closeTo(real(a[i]), real(b[i]), tol) || !closeTo(imag(a[i]), imag(b[i]), tol) {
			return fmt.Sprintf("element %d is %s, want %s", i, number(a[i], g.DType), number(b[i], g.DType))
		}
	}
	return ""
}

func closeTo(a, b, tol float64) bool {
	return a == b || a != a && b != b || math.Abs(a-b) <= tol
}

func number(c complex128, dt tensor.DType) string {
	if dt.IsComplex() {
		return value.Repr(c)
	}
	return value.FloatRepr(real(c))
}

// compare reports how the results of a variant differ from the expected ones,
// further than two orders of evaluation explain. Random results are compared by
// dtype and shape.
func (x *subject) compare(what string, got, want []result) {
	d := metaDifference(got, want)
	if d == "" && x.call.Random() == "" {
		d = difference(got, want, x.slack)
	}
	if d != "" {
		x.report("%s: %s", what, d)
	}
}

// slack is how far apart two orders of evaluation may be: in float64, or in the
// result's dtype if the Runner rounds to it.
func (x *subject) slack(dt tensor.DType) float64 {
	switch {
	case x.entry.Error.Class == opdef.Exact:
		return 0
	case x.suite.Rounds:
		return 16 * dt.Eps()
	}
	return 1e-11
}
