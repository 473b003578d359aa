package configs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// tolerances are the keys by which a device changes how a case is compared.
var tolerances = []string{"atol", "rtol", "atol_half", "rtol_half", "mismatch_ratio_threshold"}

// Rules are the cases that a device leaves out and the tolerances it changes:
// what a device_configs.py says.
type Rules struct{ rules map[string]*rule } // by "entry::function"

// A rule is about the cases of one function of one configuration entry.
type rule struct {
	all        bool                     // leave out all of them
	tolerance  []value.Item             // replace these keys of the item
	para       map[string][]value.Value // leave out parameters of these values
	tensorPara map[string][]attribute   // by argument: leave out arguments of these attributes
	dtypes     []value.Value            // leave out arguments of these dtypes
}

// An attribute is a key of an argument ("dtype", "shape") and what to leave out.
type attribute struct {
	key   string
	skips []value.Value
}

// NoRules leave out and change nothing.
func NoRules() *Rules { return &Rules{} }

// NewRules reads the dict device_configs.
func NewRules(entries *value.Dict) (*Rules, error) {
	r := &Rules{rules: map[string]*rule{}}
	for _, it := range entries.Items {
		d, ok := it.Value.(*value.Dict)
		if !ok {
			return nil, fmt.Errorf("device entry %s is %s, want a dict", value.Repr(it.Key), value.Repr(it.Value))
		}
		one, err := newRule(d)
		if err != nil {
			return nil, fmt.Errorf("device entry %s: %w", value.Repr(it.Key), err)
		}
		names, err := sequence(d, "name")
		if err != nil {
			return nil, fmt.Errorf("device entry %s: %w", value.Repr(it.Key), err)
		}
		for _, n := range names {
			r.rules[fmt.Sprintf("%v::%v", it.Key, n)] = one
		}
	}
	return r, nil
}

func newRule(d *value.Dict) (*rule, error) {
	r := &rule{para: map[string][]value.Value{}, tensorPara: map[string][]attribute{}}
	all, _ := d.Get("skip_all")
	r.all = Truth(all)
	for _, key := range tolerances {
		if v, ok := d.Get(key); ok {
			r.tolerance = append(r.tolerance, value.Item{Key: key, Value: v})
		}
	}
	if v, ok := d.Get("para"); ok {
		para, ok := v.(*value.Dict)
		if !ok {
			return nil, fmt.Errorf("para is %s, want a dict", value.Repr(v))
		}
		for _, it := range para.Items {
			r.para[fmt.Sprint(it.Key)] = skips(it.Value)
		}
	}
	if v, ok := d.Get("dtype"); ok {
		r.dtypes = skips(v)
	}
	tp, _ := d.Get("tensor_para")
	if tp, ok := tp.(*value.Dict); ok {
		args, err := sequence(tp, "args")
		if err != nil {
			return nil, fmt.Errorf("tensor_para: %w", err)
		}
		for _, a := range args {
			a, ok := a.(*value.Dict)
			if !ok {
				return nil, fmt.Errorf("tensor_para args hold %s, want dicts", value.Repr(a))
			}
			ins, err := sequence(a, "ins")
			if err != nil {
				return nil, fmt.Errorf("tensor_para: %w", err)
			}
			var attributes []attribute
			for _, it := range a.Items {
				if it.Key != "ins" {
					attributes = append(attributes, attribute{fmt.Sprint(it.Key), skips(it.Value)})
				}
			}
			for _, name := range ins {
				r.tensorPara[fmt.Sprint(name)] = attributes
			}
		}
	}
	return r, nil
}

// skips returns the values of the Skips in a list; a list may hold others,
// which mean nothing.
func skips(v value.Value) []value.Value {
	s, ok := v.(*value.Sequence)
	if !ok {
		return nil
	}
	var out []value.Value
	for _, it := range s.Items {
		if sk, ok := it.(*Skip); ok {
			out = append(out, sk.Value)
		}
	}
	return out
}

// Apply returns the case with the device's tolerances, or in why what makes
// the device leave it out.
func (r *Rules) Apply(c *Case) (changed *Case, why string) {
	key, _, _ := cutLast(c.Name, "_")
	one, ok := r.rules[key]
	if !ok {
		return c, ""
	}
	if one.all {
		return nil, "all cases are left out"
	}
	for _, it := range c.Para().Items {
		if slices.ContainsFunc(one.para[fmt.Sprint(it.Key)], func(s value.Value) bool { return Equal(s, it.Value) }) {
			return nil, fmt.Sprintf("%v=%s is left out", it.Key, value.Repr(it.Value))
		}
	}
	args := c.Args()
	for _, a := range args {
		for _, attr := range one.tensorPara[a.Name] {
			v, _ := a.Dict.Get(attr.key)
			if l, ok := v.(*value.Sequence); ok && l.Kind == value.List && len(l.Items) > 0 {
				v = l.Items[0]
			}
			if slices.ContainsFunc(attr.skips, func(s value.Value) bool { return Equal(s, v) }) {
				return nil, fmt.Sprintf("%s of %s %s is left out", a.Name, attr.key, describe(v))
			}
		}
	}
	for _, a := range args {
		if slices.Contains(one.dtypes, value.Value(a.DType)) {
			return nil, fmt.Sprintf("dtype %s is left out", a.DType)
		}
	}
	if len(one.tolerance) == 0 {
		return c, ""
	}
	item := copied(c.Item).(*value.Dict)
	for _, it := range one.tolerance {
		set(item, it.Key.(string), it.Value)
	}
	return &Case{Name: c.Name, Item: item}, ""
}

func describe(v value.Value) string {
	if dt, ok := v.(tensor.DType); ok {
		return dt.String()
	}
	return value.Repr(v)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// Equal is Python's a == b for data: True equals 1 equals 1.0, a list never
// equals a tuple, NaN equals nothing.
func Equal(a, b value.Value) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case *value.Sequence:
		b, ok := b.(*value.Sequence)
		return ok && a.Kind == b.Kind && slices.EqualFunc(a.Items, b.Items, Equal)
	case *value.Dict:
		b, ok := b.(*value.Dict)
		if !ok || len(a.Items) != len(b.Items) {
			return false
		}
		for _, it := range a.Items {
			if !slices.ContainsFunc(b.Items, func(o value.Item) bool {
				return Equal(it.Key, o.Key) && Equal(it.Value, o.Value)
			}) {
				return false
			}
		}
		return true
	case nil, string, tensor.DType, value.Slice:
		return a == b
	}
	return false
}

func number(v value.Value) (float64, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
