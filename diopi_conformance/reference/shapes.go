package reference

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// shapeFunctions move, select and convert values.
var shapeFunctions = map[string]function{
	"split": func(t *Tape, a *arguments) value.Value {
		return t.Call("torch.split", []value.Value{a.value("tensor"), a.value("split_size_or_sections")},
			a.without("tensor", "split_size_or_sections"))
	},
	"meshgrid": func(t *Tape, a *arguments) value.Value {
		return t.Call("torch.meshgrid", []value.Value{a.value("tensors")}, nil)
	},
	"cast_dtype": func(_ *Tape, a *arguments) value.Value {
		return opdef.Cast(a.tensor("input"), a.tensor("out").DType)
	},
	"copy_": func(t *Tape, a *arguments) value.Value {
		return t.Call("torch.Tensor.copy_", []value.Value{a.value("input"), a.value("other")}, nil)
	},
	"equal": equal,
	"slice_op": func(t *Tape, a *arguments) value.Value {
		x := a.tensor("input")
		dim, err := opdef.Dim("dim", a.int("dim"), x.Dim())
		if err != nil {
			t.fail("%w", err)
			return nil
		}
		index := value.NewTuple()
		for range dim {
			index.Items = append(index.Items, value.Slice{})
		}
		index.Items = append(index.Items, a.value("index"))
		return t.op("torch.Tensor.__getitem__", x, index)
	},
	// Every argument but input is an index; the first None stands for all
	// dimensions that the others leave.
	"index": func(t *Tape, a *arguments) value.Value {
		index := value.NewTuple()
		open := false
		for _, it := range a.without("input").Items {
			if it.Value != nil {
				index.Items = append(index.Items, it.Value)
			} else if !open {
				open = true
				index.Items = append(index.Items, value.Ellipsis{})
			}
		}
		return t.op("torch.Tensor.__getitem__", a.tensor("input"), index)
	},
	"index_put": func(t *Tape, a *arguments) value.Value {
		indices := value.NewList()
		for _, name := range []string{"indices1", "indices2", "indices3"} {
			if a.has(name) {
				indices.Items = append(indices.Items, a.value(name))
			}
		}
		return t.op("torch.index_put", a.tensor("input"), indices, a.tensor("values"), a.bool("accumulate"))
	},
	// The order of equal elements is free unless stable, so the kit then keeps
	// the values alone.
	"sort": func(t *Tape, a *arguments) value.Value {
		x := a.tensor("input")
		out := t.Call("torch.sort", []value.Value{x}, a.without("input"))
		if l, ok := out.(*value.Sequence); ok && x.Dim() > 0 && !a.bool("stable") {
			return l.Items[0]
		}
		return out
	},
}

// equal compares values across dtypes, as the kit's devices do.
func equal(_ *Tape, a *arguments) value.Value {
	x, y := a.tensor("input"), a.tensor("other")
	if tensor.ShapeString(x.Shape) != tensor.ShapeString(y.Shape) {
		return false
	}
	if x.DType.IsComplex() || y.DType.IsComplex() {
		return same[complex128](x, y)
	}
	if x.DType.IsFloat() || y.DType.IsFloat() {
		return same[float64](x, y)
	}
	return same[int64](x, y)
}

func same[T tensor.Elem](x, y *tensor.Tensor) bool {
	a, b := tensor.Data[T](x), tensor.Data[T](y)
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
