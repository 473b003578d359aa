package contents

import (
	"fmt"
	"strconv"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Row is a row of an argument table with the tensor it describes.
type Row struct {
	reports.ArgRow
	Of *tensor.Tensor // nil for other values
}

// Plain are the rows alone.
func Plain(rows []Row) []reports.ArgRow {
	plain := make([]reports.ArgRow, len(rows))
	for i, r := range rows {
		plain[i] = r.ArgRow
	}
	return plain
}

// Rows are the rows of op_tools' table for positional and keyword values:
// prefix[i], prefix alone for an only value, prefix [i][j] for the items of a
// list or tuple, prefix k for a keyword. ptrs gives recorded addresses; it may
// be nil.
func Rows(prefix string, args []value.Value, kwargs *value.Dict, ptrs capture.Addresses) []Row {
	var rows []Row
	add := func(name, path string, v value.Value) {
		row := Row{ArgRow: reports.ArgRow{Name: name}}
		if t, ok := v.(*tensor.Tensor); ok {
			row.Of, row.Tensor = t, TensorInfo(t, ptrs[path])
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

// Rows are those of all items of the file.
func (r *File) Rows() []Row {
	rows := make([]Row, len(r.Items))
	for i := range r.Items {
		it := &r.Items[i]
		row := Row{ArgRow: reports.ArgRow{Name: it.Path}, Of: it.Tensor}
		if it.Tensor != nil {
			row.Tensor = TensorInfo(it.Tensor, "")
		} else {
			row.Value = it.text()
		}
		rows[i] = row
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

// TensorInfo is how op_tools describes a tensor, at address ptr.
func TensorInfo(t *tensor.Tensor, ptr string) *reports.TensorInfo {
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
