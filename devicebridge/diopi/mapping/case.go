package mapping

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Case is a call as a case of the recipe that runs it on a device.
type Case struct {
	Recipe *diopi.Recipe
	Case   *diopi.Case
	// Args are the schema's names of the arguments that fill the recipe's keywords:
	// gradients and changed arguments of the plan are named by keyword.
	Args map[string]string
}

// NewCase says how DIOPI computes a call. f are its results, whose dtypes and shapes
// those of the device must have. With gradients wanted, need names the arguments and
// out are the gradients of the results, nil for ones that none flowed into. The
// error says why the call cannot run on a device.
//
// The results of the plan are, in order, those of the call; further ones are not
// results of PyTorch. Of an in-place call without gradients only the in-place calls
// are planned, if DIOPI has them.
func NewCase(c *opdef.Call, f *opdef.Forward, out []*tensor.Tensor, need []string) (*Case, error) {
	m, err := Of(c.Entry)
	if err != nil {
		return nil, err
	}
	if err := sameDTypes(c, f); err != nil {
		return nil, fmt.Errorf("op %s: %w", m.op, err)
	}
	mc := &Case{Recipe: m.Recipe, Args: map[string]string{},
		Case: &diopi.Case{Function: m.Recipe.Function, Args: &value.Dict{}, Outputs: known(f),
			DenseResults: true}}
	if err := m.fill(mc, c, f); err != nil {
		return nil, fmt.Errorf("op %s: %w", m.op, err)
	}
	k := mc.Case
	if len(need) > 0 {
		if !m.Recipe.HasBackward() {
			return nil, fmt.Errorf("op %s: DIOPI has no backward function for it", m.op)
		}
		for keyword, arg := range mc.Args {
			if slices.Contains(need, arg) {
				k.RequiresGrad = append(k.RequiresGrad, keyword)
			}
		}
		slices.Sort(k.RequiresGrad)
		k.GradOutputs = out
	}
	if c.InPlace() && m.Recipe.HasInPlace() {
		k.InPlace, k.OnlyInPlace = true, len(need) == 0
	}
	return mc, nil
}

// sameDTypes refuses out= of another dtype than the results have without it: PyTorch
// computes in theirs and converts, DIOPI's functions compute in that of out.
func sameDTypes(c *opdef.Call, f *opdef.Forward) error {
	if c.InPlace() || len(c.Written()) == 0 {
		return nil
	}
	plain, err := c.To().Forward()
	if err != nil {
		return err
	}
	for i, t := range plain.Outs {
		if i < len(f.Outs) && f.Outs[i] != nil && f.Outs[i].DType != t.DType {
			return fmt.Errorf("DIOPI does not convert a result of %s to out of %s", t.DType, f.Outs[i].DType)
		}
	}
	return nil
}

// known are the dtypes and shapes of the results.
func known(f *opdef.Forward) []diopi.Meta {
	var metas []diopi.Meta
	for _, t := range f.Outs {
		if t == nil {
			break
		}
		metas = append(metas, diopi.Meta{DType: t.DType, Shape: t.Shape})
	}
	return metas
}

// fill fills the recipe's keywords, and refuses arguments that it has no place for
// unless they have their default.
func (m *Mapping) fill(mc *Case, c *opdef.Call, f *opdef.Forward) error {
	used := map[string]bool{"inplace": true}
	for _, name := range m.ignored {
		used[name] = true
	}
	items := map[string]int{} // of list arguments, that have a keyword
	for _, s := range m.sources {
		if s.arg != "" {
			used[s.arg] = true
			mc.Args[s.keyword] = s.arg
		}
		if s.item >= 0 {
			items[s.arg] = max(items[s.arg], s.item+1)
		}
		v, err := m.value(s, c, f)
		if err != nil {
			return err
		}
		if v == nil && m.Recipe.Defaulted(s.keyword) {
			continue
		}
		mc.Case.Args.Items = append(mc.Case.Args.Items, value.Item{Key: s.keyword, Value: v})
	}
	for _, a := range c.Arguments() {
		if n, ok := items[a.Name]; ok && reflect.ValueOf(a.Value).Len() > n {
			return fmt.Errorf("DIOPI's %s takes %d of %s", m.Recipe.Function, n, a.Name)
		}
		if flag, ok := a.Value.(*bool); ok && flag != nil && !*flag && slices.Contains(m.unset, a.Name) {
			continue
		}
		if !used[a.Name] && !a.IsDefault() && !isNothing(a.Value) {
			return fmt.Errorf("DIOPI's %s has no argument %s", m.Recipe.Function, a.Name)
		}
	}
	return nil
}

// isNothing says that an optional argument is absent.
func isNothing(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || (r.Kind() == reflect.Pointer || r.Kind() == reflect.Slice) && r.IsNil()
}

// value is what fills a keyword.
func (m *Mapping) value(s source, c *opdef.Call, f *opdef.Forward) (value.Value, error) {
	switch {
	case s.special != "":
		return ofResults(s.special, c, f)
	case s.arg == "":
		return s.literal, nil
	}
	a, _ := c.Argument(s.arg)
	if t, ok := a.Value.(*tensor.Tensor); ok && t != nil && t.Wrapped && !m.Recipe.TakesNumber(s.keyword) {
		return asTensor(t, c), nil
	}
	v := a.Python()
	if list, ok := v.(*value.Sequence); ok && s.item >= 0 {
		if s.item >= len(list.Items) {
			return nil, nil
		}
		v = list.Items[s.item]
	}
	if hasComplex(v) {
		return nil, fmt.Errorf("argument %s: DIOPI has no complex scalars", s.arg)
	}
	return v, nil
}

// hasComplex reports whether v is a complex number or a list with one.
func hasComplex(v value.Value) bool {
	if s, ok := v.(*value.Sequence); ok {
		return slices.ContainsFunc(s.Items, hasComplex)
	}
	_, is := v.(complex128)
	return is
}

// ofResults is what the table names by "@out", "@shape" or "@parts".
func ofResults(special string, c *opdef.Call, f *opdef.Forward) (value.Value, error) {
	if len(f.Outs) == 0 {
		return nil, errors.New("the call has no result tensor")
	}
	switch special {
	case "@out":
		return &diopi.Tensor{DType: f.Outs[0].DType, Shape: f.Outs[0].Shape}, nil
	case "@shape":
		return sizeValue(f.Outs[0].Shape), nil
	}
	return parts(c, f)
}

// parts are the sizes of the results along the argument dim.
func parts(c *opdef.Call, f *opdef.Forward) (value.Value, error) {
	a, ok := c.Argument("dim")
	dim, isInt := a.Value.(int)
	if !ok || !isInt {
		return nil, errors.New("the op has no argument dim")
	}
	s := value.NewList()
	for _, t := range f.Outs {
		d := dim
		if d < 0 {
			d += t.Dim()
		}
		if d < 0 || d >= t.Dim() {
			return nil, fmt.Errorf("dim %d is out of range", dim)
		}
		s.Items = append(s.Items, int64(t.Shape[d]))
	}
	return s, nil
}

// asTensor is a number as a 0-d tensor of the dtype of the tensors it meets.
func asTensor(n *tensor.Tensor, c *opdef.Call) *tensor.Tensor {
	dt := n.DType
	for _, a := range c.Tensors() {
		if d := a.Tensor.DType; d.Kind() >= n.DType.Kind() && a.Name != "mask" && a.Name != "condition" {
			dt = d
			break
		}
	}
	return opdef.Cast(n, dt)
}

func sizeValue(shape []int) value.Value {
	s := value.NewList()
	for _, n := range shape {
		s.Items = append(s.Items, int64(n))
	}
	return s
}
