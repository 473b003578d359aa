package cli

import (
	"fmt"
	"strconv"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// An argRow is a row of an argument table with the tensor it describes.
type argRow struct {
	reports.ArgRow
	tensor *tensor.Tensor // nil for other values
}

// plainRows are the rows alone.
func plainRows(rows []argRow) []reports.ArgRow {
	plain := make([]reports.ArgRow, len(rows))
	for i, r := range rows {
		plain[i] = r.ArgRow
	}
	return plain
}

// argRows are the rows of op_tools' table for positional and keyword values:
// prefix[i], prefix alone for an only value, prefix [i][j] for the items of a
// list or tuple, prefix k for a keyword. ptrs gives recorded addresses; it may
// be nil.
func argRows(prefix string, args []value.Value, kwargs *value.Dict, ptrs capture.Addresses) []argRow {
	var rows []argRow
	add := func(name, path string, v value.Value) {
		row := argRow{ArgRow: reports.ArgRow{Name: name}}
		if t, ok := v.(*tensor.Tensor); ok {
			row.tensor, row.Tensor = t, tensorInfo(t, ptrs[path])
		} else {
			row.Value = value.Str(textual(v))
		}
		rows = append(rows, row)
	}
	for i, v := range args {
		path := "args[" + strconv.Itoa(i) + "]"
		if s, ok := v.(*value.Sequence); ok && s.Class != "torch.Size" &&
			(s.Kind == value.List || s.Kind == value.Tuple) {
			for j, item := range s.Items {
				add(fmt.Sprintf("%s [%d][%d]", prefix, i, j), fmt.Sprintf("%s[%d]", path, j), item)
			}
			continue
		}
		name := prefix
		if len(args) > 1 {
			name += "[" + strconv.Itoa(i) + "]"
		}
		add(name, path, v)
	}
	if kwargs != nil {
		for _, it := range kwargs.Items {
			key := value.Str(it.Key)
			add(prefix+" "+key, "kwargs."+key, it.Value)
		}
	}
	return rows
}

// textual is v as op_tools' tables hold it: the items of containers as texts.
func textual(v value.Value) value.Value {
	switch v := v.(type) {
	case *value.Sequence:
		if v.Class != "" {
			return v
		}
		c := &value.Sequence{Kind: v.Kind}
		for _, it := range v.Items {
			c.Items = append(c.Items, value.Str(it))
		}
		return c
	case *value.Dict:
		c := &value.Dict{Class: v.Class}
		for _, it := range v.Items {
			c.Items = append(c.Items, value.Item{Key: it.Key, Value: value.Str(it.Value)})
		}
		return c
	}
	return v
}

func tensorInfo(t *tensor.Tensor, ptr string) *reports.TensorInfo {
	info := &reports.TensorInfo{
		Device: t.Device, DType: t.DType.String(), Numel: t.Numel(), Shape: t.Shape, Stride: t.Stride,
		RequiresGrad: t.RequiresGrad, Layout: t.Layout, DataPtr: ptr,
	}
	if info.Device == "" {
		info.Device = "cpu"
	}
	if info.Layout == "" {
		info.Layout = "torch.strided"
	}
	return info
}
