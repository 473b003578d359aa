package configs

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

var (
	inf = math.Inf(1)
	nan = math.NaN()
)

// defaults are what every case's item begins with. The gen_policy is the kit's,
// spelling included; nothing reads it.
func defaults() *value.Dict {
	return dict("atol", 1e-5, "rtol", 1e-5, "atol_half", 1e-2, "rtol_half", 5e-2, "mismatch_ratio_threshold", 1e-3,
		"memory_format", "NCHW", "fp16_exact_match", false, "train", true, "gen_policy", "dafault")
}

// defaultDTypes are the dtypes of an argument for which none are given.
var defaultDTypes = []value.Value{tensor.Float16, tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64}

// Limits of a configuration: names of cases are those of files, and DIOPI's
// largest has 14,143 cases.
const (
	maxName  = 200
	maxCases = 1 << 18
)

// Expand returns the cases of the entries (entry key → dict, in order), those
// of functions that want accepts; a nil want accepts all.
func Expand(entries *value.Dict, want func(function string) bool) ([]*Case, error) {
	var cases []*Case
	for _, it := range entries.Items {
		key, ok := it.Key.(string)
		entry, isDict := it.Value.(*value.Dict)
		if !ok || !isDict {
			return nil, fmt.Errorf("configuration entry %s: want a string and a dict", value.Repr(it.Key))
		}
		names, err := sequence(entry, "name")
		if err != nil {
			return nil, fmt.Errorf("configuration entry %s: %w", key, err)
		}
		for _, n := range names {
			name, ok := n.(string)
			if !ok {
				return nil, fmt.Errorf("configuration entry %s: name %s is not a string", key, value.Repr(n))
			}
			if want != nil && !want(name) {
				continue
			}
			if file := key + "::" + name; strings.ContainsAny(file, "/\\\x00") || len(file) > maxName {
				return nil,
					fmt.Errorf("configuration entry %.100q: cases of it are files: want at most %d bytes without "+
						"slash, backslash and zero", file, maxName)
			}
			items, err := expandEntry(entry, name)
			if err != nil {
				return nil, fmt.Errorf("configuration entry %s::%s: %w", key, name, err)
			}
			if len(cases)+len(items) > maxCases {
				return nil, fmt.Errorf("configuration entry %s::%s: more than %d cases in all", key, name, maxCases)
			}
			for i, item := range items {
				cases = append(cases, &Case{Name: fmt.Sprintf("%s::%s_%d.pth", key, name, i), Item: item})
			}
		}
	}
	return cases, nil
}

// expandEntry returns the items of the cases of one name of an entry.
func expandEntry(entry *value.Dict, name string) ([]*value.Dict, error) {
	cfg := copied(entry).(*value.Dict)
	set(cfg, "name", name)
	args, err := complete(cfg)
	if err != nil {
		return nil, err
	}
	paras, err := expandPara(cfg)
	if err != nil {
		return nil, err
	}
	rows, err := expandArgs(args)
	if err != nil {
		return nil, err
	}
	dtypes := 1
	for _, a := range args {
		if d, ok := a.Get("dtype"); ok && d != nil {
			list, err := sequence(a, "dtype")
			if err != nil {
				return nil, err
			}
			dtypes = len(list)
			break
		}
	}
	var items []*value.Dict
	add := func(para value.Value, row []*value.Dict) {
		item := defaults()
		for _, it := range cfg.Items {
			set(item, it.Key.(string), copied(it.Value))
		}
		if para != nil {
			set(item, "para", copied(para))
		}
		if row != nil {
			tp, _ := item.Get("tensor_para")
			list := make([]value.Value, len(row))
			for i, a := range row {
				list[i] = a
			}
			set(tp.(*value.Dict), "args", value.NewList(list...))
		}
		items = append(items, item)
	}
	if len(rows) == 0 {
		for _, p := range paras {
			add(p, nil)
		}
		return items, nil
	}
	if len(paras) > 0 && len(paras) < len(rows) {
		return nil, fmt.Errorf("para has %d values for %d sets of tensors", len(paras), len(rows))
	}
	for i := range dtypes {
		for j, row := range rows {
			typed, err := withDType(row, i)
			if err != nil {
				return nil, err
			}
			var para value.Value
			if len(paras) > 0 {
				para = paras[j]
			}
			add(para, typed)
		}
	}
	return items, nil
}

// complete gives cfg and its arguments what they leave to defaults and
// stretches single dtypes and shapes; it returns the arguments.
func complete(cfg *value.Dict) ([]*value.Dict, error) {
	setDefault(cfg, "tensor_para", func() value.Value { return &value.Dict{} })
	v, _ := cfg.Get("tensor_para")
	tp, ok := v.(*value.Dict)
	if !ok {
		return nil, fmt.Errorf("tensor_para is %s, want a dict", value.Repr(v))
	}
	setDefault(tp, "args", emptyList)
	setDefault(tp, "seq_name", func() value.Value { return "" })
	setDefault(cfg, "requires_backward", emptyList)
	setDefault(cfg, "para", func() value.Value { return &value.Dict{} })
	setDefault(cfg, "tag", emptyList)
	setDefault(cfg, "saved_args", func() value.Value { return &value.Dict{} })
	setDefault(cfg, "interface", emptyList)

	list, err := sequence(tp, "args")
	if err != nil {
		return nil, err
	}
	var args []*value.Dict
	for i, v := range list {
		a, ok := v.(*value.Dict)
		if !ok {
			return nil, fmt.Errorf("tensor_para args[%d] is %s, want a dict", i, value.Repr(v))
		}
		setDefault(a, "ins", func() value.Value { return value.NewList("input") })
		setDefault(a, "requires_grad", falseList)
		setDefault(a, "sparse", falseList)
		setDefault(a, "gen_num_range", emptyList)
		args = append(args, a)
	}
	inherit := func(key string, fallback func() value.Value) {
		for _, a := range args {
			setDefault(a, key, func() value.Value {
				for _, from := range []*value.Dict{tp, cfg} {
					if v, ok := from.Get(key); ok {
						return copied(v)
					}
				}
				return fallback()
			})
		}
	}
	inherit("dtype", func() value.Value { return value.NewList(slices.Clone(defaultDTypes)...) })
	inherit("gen_fn", func() value.Value { return "Genfunc.randn" })
	inherit("gen_policy", func() value.Value { return "default" })
	for _, key := range []string{"dtype", "shape"} {
		if err := stretch(args, key); err != nil {
			return nil, err
		}
	}
	for _, key := range []string{"dtype", "gen_fn", "gen_policy"} {
		drop(cfg, key)
	}
	return args, nil
}

// stretch repeats lists of one item to the length of the last longer one.
func stretch(args []*value.Dict, key string) error {
	n := 1
	for _, a := range args {
		if v, ok := a.Get(key); ok && v != nil {
			list, err := sequence(a, key)
			if err != nil {
				return err
			}
			if len(list) != 1 {
				n = len(list)
			}
		}
	}
	for _, a := range args {
		v, ok := a.Get(key)
		if !ok || v == nil || n == 1 {
			continue
		}
		if s := v.(*value.Sequence); len(s.Items) == 1 {
			set(a, key, &value.Sequence{Kind: s.Kind, Items: slices.Repeat(s.Items, n)})
		}
	}
	return nil
}

// expandPara turns the dict of lists into one dict per index.
func expandPara(cfg *value.Dict) ([]value.Value, error) {
	v, _ := cfg.Get("para")
	if v == nil {
		return nil, nil
	}
	para, ok := v.(*value.Dict)
	if !ok {
		return nil, fmt.Errorf("para is %s, want a dict", value.Repr(v))
	}
	var out []value.Value
	for i, it := range para.Items {
		key, _ := it.Key.(string)
		list, err := sequence(para, key)
		if err != nil {
			return nil, fmt.Errorf("para: %w", err)
		}
		if i == 0 {
			for range list {
				out = append(out, &value.Dict{})
			}
		}
		if len(list) < len(out) {
			return nil, fmt.Errorf("para %s has %d values, want %d", key, len(list), len(out))
		}
		for j := range out {
			set(out[j].(*value.Dict), key, list[j])
		}
	}
	return out, nil
}

// expandArgs returns one row of arguments per shape and combination of sparse
// layouts: every argument name on its own, with its j-th shape or value.
func expandArgs(args []*value.Dict) ([][]*value.Dict, error) {
	var single []*value.Dict
	for _, a := range args {
		ins, err := sequence(a, "ins")
		if err != nil {
			return nil, err
		}
		for _, name := range ins {
			if _, ok := name.(string); !ok {
				return nil, fmt.Errorf("ins holds %s, want strings", value.Repr(name))
			}
			one := copied(a).(*value.Dict)
			set(one, "ins", name)
			single = append(single, one)
		}
	}
	if len(single) == 0 {
		return nil, nil
	}
	key := "value"
	if _, ok := single[0].Get("shape"); ok {
		key = "shape"
	}
	first, err := sequence(single[0], key)
	if err != nil {
		return nil, err
	}
	strides := math.MaxInt // how many strides count
	if s, err := sequence(single[0], "stride"); err == nil {
		strides = len(s)
	}
	var rows [][]*value.Dict
	for j := range first {
		row := make([]*value.Dict, len(single))
		for i, a := range single {
			if row[i], err = pick(a, j, strides); err != nil {
				return nil, err
			}
		}
		rows = append(rows, row)
	}
	return multiplySparse(rows)
}

// pick returns a copy of argument a with its j-th value, or shape, and stride.
func pick(a *value.Dict, j, strides int) (*value.Dict, error) {
	out := copied(a).(*value.Dict)
	name, _ := a.Get("ins")
	for _, key := range []string{"value", "shape"} {
		if _, ok := a.Get(key); !ok {
			continue
		}
		list, err := sequence(a, key)
		if err != nil {
			return nil, err
		}
		if j >= len(list) {
			return nil, fmt.Errorf("%s of %v has %d items, want at least %d", key, name, len(list), j+1)
		}
		set(out, key, copied(list[j]))
		break
	}
	if _, ok := a.Get("stride"); !ok {
		return out, nil
	}
	list, err := sequence(a, "stride")
	if err != nil {
		return nil, err
	}
	if j >= strides || j >= len(list) || list[j] == nil {
		drop(out, "stride")
		return out, nil
	}
	shape, _ := out.Get("shape")
	if err := checkStride(ints(list[j]), ints(shape)); err != nil {
		return nil, fmt.Errorf("stride %d of %v: %w", j, name, err)
	}
	set(out, fmt.Sprint(name, "stride"), copied(list[j]))
	return out, nil
}

// checkStride refuses strides whose elements could overlap.
func checkStride(stride, shape []int) error {
	if len(stride) != len(shape) {
		return fmt.Errorf("stride %v has another rank than shape %v", stride, shape)
	}
	order := make([]int, len(stride))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return stride[a] - stride[b] })
	for i := 1; i < len(order); i++ {
		inner := order[i-1]
		if (shape[inner]-1)*stride[inner] >= stride[order[i]] {
			return fmt.Errorf("stride %v overlaps for shape %v", stride, shape)
		}
	}
	return nil
}

// multiplySparse gives every row once for each combination of the sparse lists
// of its arguments, the last argument's fastest.
func multiplySparse(rows [][]*value.Dict) ([][]*value.Dict, error) {
	var out [][]*value.Dict
	for _, row := range rows {
		choices := make([][]value.Value, len(row))
		n := 1
		for i, a := range row {
			var err error
			if choices[i], err = sequence(a, "sparse"); err != nil {
				return nil, err
			}
			if n *= len(choices[i]); n > maxCases {
				return nil, fmt.Errorf("sparse makes more than %d cases", maxCases)
			}
		}
		for k := range n {
			r := make([]*value.Dict, len(row))
			rest := k
			for i := len(row) - 1; i >= 0; i-- {
				r[i] = copied(row[i]).(*value.Dict)
				set(r[i], "sparse", value.NewList(choices[i][rest%len(choices[i])]))
				rest /= len(choices[i])
			}
			out = append(out, r)
		}
	}
	return out, nil
}

// withDType returns copies of the arguments with their i-th dtype.
func withDType(row []*value.Dict, i int) ([]*value.Dict, error) {
	out := make([]*value.Dict, len(row))
	for k, a := range row {
		out[k] = copied(a).(*value.Dict)
		v, ok := a.Get("dtype")
		if !ok || v == nil {
			continue
		}
		list, err := sequence(a, "dtype")
		if err != nil {
			return nil, err
		}
		if i >= len(list) {
			name, _ := a.Get("ins")
			return nil, fmt.Errorf("%v has %d dtypes, want at least %d", name, len(list), i+1)
		}
		set(out[k], "dtype", list[i])
	}
	return out, nil
}
