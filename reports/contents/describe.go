package contents

import (
	"strconv"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Describe is op_tools' text of arguments: a Python dict that holds a dict for
// each tensor and the text of everything else. An address that was not recorded
// is 0.
func Describe(args []value.Value, kwargs *value.Dict, ptrs capture.Addresses) string {
	var items []value.Value
	for i, v := range args {
		items = append(items, described(v, "args["+strconv.Itoa(i)+"]", ptrs))
	}
	d := &value.Dict{Items: []value.Item{{Key: "args", Value: value.NewTuple(items...)}}}
	if kwargs != nil && len(kwargs.Items) > 0 {
		k := &value.Dict{}
		for _, it := range kwargs.Items {
			k.Items = append(k.Items, value.Item{Key: it.Key, Value: described(it.Value, "kwargs."+value.Str(it.Key),
				ptrs)})
		}
		d.Items = append(d.Items, value.Item{Key: "kwargs", Value: k})
	}
	return value.LongRepr(d)
}

func described(v value.Value, path string, ptrs capture.Addresses) value.Value {
	switch v := v.(type) {
	case *tensor.Tensor:
		return describedTensor(v, ptrs[path])
	case *value.Sequence:
		if v.Class == "torch.Size" {
			break
		}
		s := &value.Sequence{Kind: v.Kind, Class: v.Class}
		for i, it := range v.Items {
			s.Items = append(s.Items, described(it, path+"["+strconv.Itoa(i)+"]", ptrs))
		}
		return s
	case *value.Dict:
		d := &value.Dict{Class: v.Class}
		for _, it := range v.Items {
			d.Items = append(d.Items, value.Item{Key: it.Key, Value: described(it.Value, path+"."+value.Str(it.Key),
				ptrs)})
		}
		return d
	}
	return value.Str(v)
}

func describedTensor(t *tensor.Tensor, ptr string) value.Value {
	info := TensorInfo(t, ptr)
	address, _ := strconv.ParseInt(ptr, 10, 64)
	ints := func(ns []int) *value.Sequence {
		s := value.NewTuple()
		for _, n := range ns {
			s.Items = append(s.Items, int64(n))
		}
		return s
	}
	return &value.Dict{Items: []value.Item{
		{Key: "device", Value: info.Device}, {Key: "dtype", Value: info.DType},
		{Key: "numel", Value: int64(info.Numel)},
		{Key: "shape", Value: value.Repr(ints(info.Shape))}, {Key: "stride", Value: ints(info.Stride)},
		{Key: "requires_grad", Value: info.RequiresGrad}, {Key: "layout", Value: info.Layout},
		{Key: "data_ptr", Value: address},
	}}
}
