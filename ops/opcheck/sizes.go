package opcheck

import (
	"time"

	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// giants are sizes of more than tensor.MaxElements, without and with an overflow in
// their products with other sizes.
var giants = []int64{1 << 38, 1<<62 + 1}

// Of checkSizes: how much memory it may take where no limit is set, and how long one
// call may take, which would take microseconds on a machine that does nothing else.
const (
	giantMemory = 4 << 30
	giantTime   = 10 * time.Second
)

// checkSizes puts giants in the place of every integer among the arguments, of all
// integers of a list, of the elements of integer tensors and of the first dimension of
// tensors, whose elements then share memory. Of results only the first and the last
// elements are computed.
func checkSizes(x *subject) {
	if quota.Memory() == 0 {
		quota.SetMemory(giantMemory)
	}
	args, kwargs := x.call.Python()
	bind := func(name string, v value.Value, args []value.Value, kwargs *value.Dict) {
		x.small(name+"="+argText(v), func() (*opdef.Call, error) {
			return x.entry.Bind(x.entry.Names[0], args, kwargs)
		})
	}
	for _, n := range giants {
		for i, v := range args {
			for _, g := range giant(v, n) {
				changed := append(append(append([]value.Value{}, args[:i]...), g), args[i+1:]...)
				bind(x.entry.Schema.Params[i].Name, g, changed, kwargs)
			}
		}
		for i, it := range kwargs.Items {
			for _, g := range giant(it.Value, n) {
				changed := &value.Dict{Items: append([]value.Item{}, kwargs.Items...)}
				changed.Items[i].Value = g
				bind(it.Key.(string), g, args, changed)
			}
		}
	}
	for _, a := range x.call.Tensors() {
		if t := a.Tensor; t.DType.Kind() == tensor.KindInt && t.Numel() > 0 {
			x.small(argName(a)+" full of 2^38", func() (*opdef.Call, error) {
				v := tensor.Full(t.DType, t.Shape, tensor.WrapInt(t.DType, giants[0])).Rounded()
				return only(x.call, a, func(*tensor.Tensor) *tensor.Tensor { return v }), nil
			})
		}
		if t := a.Tensor; t.Dim() > 0 && t.Numel() > 0 {
			x.small(argName(a)+" with 2^40 rows", func() (*opdef.Call, error) {
				u, err := t.Slice(0, 0, 1, 1).Expand(append([]int{1 << 40}, t.Shape[1:]...)...)
				if err != nil {
					return nil, err
				}
				u.RequiresGrad = t.RequiresGrad
				return only(x.call, a, func(*tensor.Tensor) *tensor.Tensor { return u }), nil
			})
		}
	}
}

// giant are the values like v with n in the place of an integer or of all.
func giant(v value.Value, n int64) []value.Value {
	switch v := v.(type) {
	case int64:
		return []value.Value{n}
	case *value.Sequence:
		var out []value.Value
		all := make([]value.Value, len(v.Items))
		for i, it := range v.Items {
			if _, ok := it.(int64); !ok {
				return out
			}
			all[i] = n
			items := append([]value.Value{}, v.Items...)
			items[i] = n
			out = append(out, value.NewList(items...))
		}
		if len(all) > 1 {
			out = append(out, value.NewList(all...))
		}
		return out
	}
	return nil
}

// small runs a call, which may be refused, and demands that it ends soon.
func (x *subject) small(what string, call func() (*opdef.Call, error)) {
	x.doing.Store(what)
	start := time.Now()
	err := guard(func() error {
		c, err := call()
		if err != nil {
			return err
		}
		f, err := c.Forward()
		if err != nil {
			return err
		}
		out := make([]*tensor.Tensor, len(f.Outs))
		for i, t := range f.Outs {
			ends(t)
			if t.DType.Kind() >= tensor.KindFloat {
				out[i] = tensor.Full(t.DType, t.Shape, 1.0)
			}
		}
		if !differentiable(c) || !hasAny(out) || c.Random() != "" {
			return nil
		}
		grads, err := c.Backward(f, out, nil)
		for _, r := range gradients(grads) {
			ends(r.t)
		}
		return err
	})
	if err != nil && !refused(err) {
		x.report("%s: %v", what, err)
	}
	if d := time.Since(start); d > giantTime {
		x.report("%s: takes %v", what, d.Round(time.Second))
	}
}

// ends computes the first and the last element of t.
func ends(t *tensor.Tensor) {
	if !t.DType.Computable() {
		return
	}
	for _, i := range []int{0, t.Numel() - 1} {
		if i >= 0 && i < t.Numel() {
			tensor.At[complex128](t, i)
		}
	}
}
