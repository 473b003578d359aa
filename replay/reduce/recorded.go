package reduce

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A cutting is what a candidate keeps of a recorded result or gradient.
type cutting struct {
	from, shape []int
}

func (k *cutting) spans() []span {
	spans := make([]span, len(k.shape))
	for d := range spans {
		spans[d] = span{k.from[d], k.shape[d]}
	}
	return spans
}

// inside reports whether the cutting keeps within a tensor.
func (k *cutting) inside(t *tensor.Tensor) bool {
	for d, s := range k.spans() {
		if s.from+s.n > t.Shape[d] {
			return false
		}
	}
	return true
}

// of cuts a tensor.
func (k *cutting) of(t *tensor.Tensor) *tensor.Tensor { return taken(t, k.spans()) }

// leaves are values as targets count them.
func leaves(vs []value.Value) []value.Value {
	all, _ := value.Leaves(vs) // replay has expanded them before
	return all
}

// cutsOf says how recorded results, or their gradients, are cut to shapes, in order of the
// tensors; by leaf, nil for what is no tensor or cannot be cut so.
func (m *maker) cutsOf(c candidate, vs []value.Value, shapes [][]int) []*cutting {
	all := leaves(vs)
	cuts, k := make([]*cutting, len(all)), 0
	for i, v := range all {
		t, ok := v.(*tensor.Tensor)
		if !ok && v != nil {
			continue
		}
		if ok && k < len(shapes) && k < len(m.results) && len(shapes[k]) == t.Dim() && len(m.results[k]) == t.Dim() {
			cuts[i] = m.cutting(c, t, m.results[k], shapes[k])
		}
		k++
	}
	return cuts
}

// omitted is the cutting of a recorded gradient that a candidate leaves out.
var omitted = new(cutting)

// cutsOfGradients says how recorded gradients of arguments are cut: as the arguments are. A candidate with a single
// recorded value omits the others.
func (m *maker) cutsOfGradients(c candidate, vs []value.Value) []*cutting {
	all := leaves(vs)
	cuts := make([]*cutting, len(all))
	for i, a := range m.argumentsOf(all) {
		t, ok := all[i].(*tensor.Tensor)
		switch {
		case !ok:
		case c.single != nil && c.single != a:
			cuts[i] = omitted
		case a == nil: // what another node received: it does not follow
			cuts[i] = &cutting{make([]int, t.Dim()), t.Shape}
		default:
			cuts[i] = m.cutsOfArgument(c, a)
		}
	}
	return cuts
}

// argumentsOf are the arguments that recorded gradients belong to, nil where there is none. Gradients of one shape
// belong to the arguments of that shape, in order.
func (m *maker) argumentsOf(grads []value.Value) []*tensor.Tensor {
	args, left := make([]*tensor.Tensor, len(grads)), slices.Clone(m.rec.Inputs())
	for i, v := range grads {
		t, ok := v.(*tensor.Tensor)
		if !ok {
			continue
		}
		j := slices.IndexFunc(left, func(a *tensor.Tensor) bool { return slices.Equal(a.Shape, t.Shape) })
		if j >= 0 {
			args[i] = left[j]
			left = slices.Delete(left, j, j+1)
		}
	}
	return args
}

// cutsOfArgument says how an argument, or what has its shape, is cut.
func (m *maker) cutsOfArgument(c candidate, a *tensor.Tensor) *cutting {
	axes, shape := make([]int, a.Dim()), slices.Clone(a.Shape)
	for d := range axes {
		axes[d] = -1
		if k, has := m.axisOf(place{a, d}); has {
			axes[d], shape[d] = k, c.spans[k].n
		}
	}
	return m.cutting(c, a, axes, shape)
}

// mapped is v with f of each tensor in lists and tuples.
func mapped(v value.Value, f func(*tensor.Tensor) *tensor.Tensor) value.Value {
	switch v := v.(type) {
	case *tensor.Tensor:
		return f(v)
	case *value.Sequence:
		out := &value.Sequence{Kind: v.Kind, Class: v.Class, Items: make([]value.Value, len(v.Items))}
		for i, it := range v.Items {
			out.Items[i] = mapped(it, f)
		}
		return out
	}
	return v
}

// cutting says how a tensor, of which each dimension follows an axis or none, is cut to a
// shape; nil if it cannot be.
func (m *maker) cutting(c candidate, t *tensor.Tensor, axes, shape []int) *cutting {
	k := &cutting{make([]int, len(shape)), shape}
	for d, n := range t.Shape {
		if n == 0 && shape[d] > 0 {
			return nil
		}
		if axes[d] >= 0 && n != shape[d] {
			k.from[d] = c.spans[axes[d]].from
		}
	}
	return k
}

// narrowed are recorded gradients in the dtypes of the reference's: op_tools' live
// comparison saves them in the wider ones that its host computed in.
func narrowed(recorded, reference []value.Value) []value.Value {
	want := leaves(reference)
	if len(leaves(recorded)) != len(want) || len(recorded) != len(want) {
		return recorded
	}
	out := slices.Clone(recorded)
	for i, v := range recorded {
		t, ok1 := v.(*tensor.Tensor)
		w, ok2 := want[i].(*tensor.Tensor)
		if ok1 && ok2 && t.DType.IsFloat() && w.DType.IsFloat() && t.DType.Size() > w.DType.Size() {
			out[i] = opdef.Cast(t, w.DType).Rounded()
		}
	}
	return out
}

// cutAll cuts recorded values; ok is false where a tensor cannot be.
func (c candidate) cutAll(vs []value.Value, cuts []*cutting) (out []value.Value, ok bool) {
	ok = true
	var all func(vs []value.Value) []value.Value
	at := 0
	all = func(vs []value.Value) []value.Value {
		out := make([]value.Value, len(vs))
		for i, v := range vs {
			switch v := v.(type) {
			case *value.Sequence:
				out[i] = &value.Sequence{Kind: v.Kind, Class: v.Class, Items: all(v.Items)}
				continue
			case *value.Dict:
				ok = false
				return nil
			case *tensor.Tensor:
				switch cuts[at] {
				case nil:
					ok = false
					return nil
				case omitted:
				default:
					out[i] = c.copyOf(cuts[at].of(v), v)
				}
			default:
				out[i] = v
			}
			at++
		}
		return out
	}
	return all(vs), ok
}

// copyOf is n, which was cut from t, as a candidate has it.
func (c candidate) copyOf(n, t *tensor.Tensor) *tensor.Tensor {
	to := t.DType
	if c.dtype != tensor.Invalid && to.IsFloat() {
		to = c.dtype
	}
	if n == t && to == t.DType && !c.copied {
		return t
	}
	n = opdef.Cast(n, to).Rounded()
	return laid(n, tensor.Contiguous(n.Shape))
}
