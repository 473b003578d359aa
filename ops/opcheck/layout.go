package opcheck

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// checkCase runs the case as generated.
func checkCase(x *subject) {
	if _, err := x.run(x.call, nil); err != nil {
		x.report("%v", err)
	}
	if f, err := x.forward(x.call); err == nil && x.entry.Schema.Single() && len(f.Outs) != 1 {
		x.report("%d results, declared is one Tensor", len(f.Outs))
	} else if shape, known := x.call.Shape(); err == nil && known && !slices.Equal(f.Outs[0].Shape, shape) {
		x.report("result of shape %s, declared is that of %s, %s", tensor.ShapeString(f.Outs[0].Shape), x.entry.Like,
			tensor.ShapeString(shape))
	}
}

// checkStrides compares the results of dense arguments with those of the case
// as generated, of arguments with gaps and reversed dimensions, and of
// arguments in the middle of a larger storage; then the gradients of dense
// incoming gradients with those of strided and expanded ones.
func checkStrides(x *subject) {
	c := each(x.call, dense)
	want, err := x.run(c, nil)
	if err != nil {
		x.report("dense arguments: %v", err)
		return
	}
	for what, f := range map[string]func(*tensor.Tensor) *tensor.Tensor{
		"arguments as generated":               func(t *tensor.Tensor) *tensor.Tensor { return t },
		"arguments with gaps":                  opdef.NonContiguous,
		"arguments in the middle of a storage": middle,
	} {
		got, err := x.run(each(c, f), nil)
		if err != nil {
			x.report("%s: %v", what, err)
			continue
		}
		x.compare(what, got, want)
	}
	if !differentiable(c) {
		return
	}
	f, err := x.forward(c)
	if err != nil {
		x.report("%v", err)
		return
	}
	x.incoming("incoming gradients with gaps", c, f, opdef.NonContiguous,
		func(t *tensor.Tensor) *tensor.Tensor { return t })
	x.incoming("expanded incoming gradients", c, f, ones,
		func(t *tensor.Tensor) *tensor.Tensor { return dense(ones(t)) })
}

// incoming compares gradients for two layouts of the same incoming gradients.
func (x *subject) incoming(what string, c *opdef.Call, f *opdef.Forward, got,
	want func(*tensor.Tensor) *tensor.Tensor) {
	var rs [2][]result
	for k, layout := range []func(*tensor.Tensor) *tensor.Tensor{got, want} {
		out := x.cotangents(f)
		if !hasAny(out) {
			return
		}
		for i, g := range out {
			if g != nil {
				out[i] = layout(g)
			}
		}
		g, err := x.backward(c, f, out, nil)
		if err != nil {
			x.report("%s: %v", what, err)
			return
		}
		rs[k] = gradients(g)
	}
	x.compare(what, rs[0], rs[1])
}

// ones is the gradient that sum().backward() sends: one element, expanded.
func ones(t *tensor.Tensor) *tensor.Tensor {
	if t.DType.IsComplex() {
		return tensor.Full(t.DType, t.Shape, complex128(1))
	}
	return tensor.Full(t.DType, t.Shape, 1.0)
}

// middle is t at an offset in a larger storage.
func middle(t *tensor.Tensor) *tensor.Tensor {
	size := t.DType.Size()
	raw := slices.Repeat([]byte{0x7b}, 3*size)
	raw = append(t.AppendBytes(raw), raw...)
	u, err := tensor.NewView(tensor.NewStorage(raw), tensor.View{DType: t.DType, Shape: slices.Clone(t.Shape),
		Stride: tensor.Contiguous(t.Shape), Offset: 3})
	if err != nil {
		panic(err)
	}
	u.RequiresGrad, u.Parameter, u.Device = t.RequiresGrad, t.Parameter, t.Device
	return u
}

// checkInputs runs the call on arguments whose elements a kernel could reach,
// and looks at them afterwards.
func checkInputs(x *subject) {
	type kept struct {
		name string
		t    *tensor.Tensor
		was  []byte
	}
	var all []kept
	keep := func(name string, t *tensor.Tensor) *tensor.Tensor {
		t = dense(t)
		all = append(all, kept{name, t, t.AppendBytes(nil)})
		return t
	}
	c := x.call.Map(func(a opdef.Arg) *tensor.Tensor { return keep("argument "+argName(a), a.Tensor) })
	f, err := x.forward(c)
	if err != nil {
		x.report("%v", err)
		return
	}
	for _, r := range outputs(f) {
		if r.t != nil {
			all = append(all, kept{r.name, r.t, r.t.AppendBytes(nil)})
		}
	}
	if out := x.cotangents(f); differentiable(c) && hasAny(out) {
		for i, g := range out {
			if g != nil {
				out[i] = keep("the incoming gradient", g)
			}
		}
		g, err := x.backward(c, f, out, nil)
		if err != nil {
			x.report("%v", err)
		}
		for _, r := range gradients(g) {
			r.t.AppendBytes(nil)
		}
	}
	for _, k := range all {
		if !slices.Equal(k.t.AppendBytes(nil), k.was) {
			x.report("%s was modified", k.name)
		}
	}
}

// checkBlocks loads ranges of results before anything else has, and compares
// them with the whole.
func checkBlocks(x *subject) {
	c := each(x.call, dense)
	whole, err := x.run(c, nil)
	if err != nil {
		x.report("%v", err)
		return
	}
	f, err := x.forward(c)
	if err != nil {
		x.report("%v", err)
		return
	}
	rs := outputs(f)
	if out := x.cotangents(f); differentiable(c) && hasAny(out) {
		g, err := x.backward(c, f, out, nil)
		if err != nil {
			x.report("%v", err)
			return
		}
		rs = append(rs, gradients(g)...)
	}
	if d := metaDifference(rs, whole); d != "" {
		x.report("computed again: %s", d)
		return
	}
	for i, r := range rs {
		if r.t == nil {
			continue
		}
		once := whole[i].t.Rounded()
		if twice := like(once, once.DType, once).Rounded(); tensorDifference(twice, once, 0) != "" {
			x.report("%s: rounding it twice is not rounding it once", r.name)
		}
		if x.call.Random() != "" {
			continue
		}
		switch r.t.DType.Kind() {
		case tensor.KindFloat:
			ranges[float64](x, r, whole[i].t)
		case tensor.KindComplex:
			ranges[complex128](x, r, whole[i].t)
		default:
			ranges[int64](x, r, whole[i].t)
		}
	}
}

func ranges[T tensor.Elem](x *subject, r result, whole *tensor.Tensor) {
	want := tensor.Data[T](whole)
	n := len(want)
	if n == 0 {
		return
	}
	for k := range 6 {
		lo := x.rand.IntN(n)
		hi := lo + 1 + x.rand.IntN(n-lo)
		if k == 0 { // the last elements first
			lo, hi = n-1-x.rand.IntN(min(n, 3)), n
		}
		got := make([]T, hi-lo)
		tensor.Load(r.t, lo, got)
		for i, g := range got {
			if w := want[lo+i]; g != w && (g == g || w == w) {
				x.report("%s: elements %d to %d loaded alone: element %d is %v, in the whole %v", r.name, lo, hi,
					lo+i, g, w)
				return
			}
		}
	}
}
