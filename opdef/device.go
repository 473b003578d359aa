package opdef

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// A source is what fills a keyword of a recipe.
type source struct {
	keyword string
	param   int         // index of the schema argument, -1 if none
	item    int         // of a list argument; -1 for all of it
	special string      // "@out", "@shape", "@parts"
	literal value.Value // else
}

// device is how an op runs on a device.
type device struct {
	recipe  *diopi.Recipe
	sources []source
	ignored []int  // schema arguments without effect on the results
	reason  string // why there is no recipe
}

// WithDIOPI sets how the op runs on a device; see Op.DIOPI.
func (e *Entry) WithDIOPI(spec string) *Entry {
	e.DIOPI = spec
	return e
}

// Recipe is the recipe that runs the op on a device. The error says why there is none.
func (e *Entry) Recipe() (*diopi.Recipe, error) {
	d, err := e.device()
	if err != nil {
		return nil, err
	}
	if d.recipe == nil {
		return nil, fmt.Errorf("op %s: %s", e.Op(), d.reason)
	}
	return d.recipe, nil
}

// device reads the declaration of DIOPI against schema and recipe.
func (e *Entry) device() (*device, error) {
	if err := e.Ready(); err != nil {
		return nil, err
	}
	e.deviceOnce.Do(func() { e.dev, e.deviceErr = e.readDevice() })
	return e.dev, e.deviceErr
}

func (e *Entry) readDevice() (*device, error) {
	name, _, _ := strings.Cut(e.Schema.Name, ".")
	words := strings.Fields(e.DIOPI)
	if len(words) > 0 {
		name, words = words[0], words[1:]
	}
	if name == "none" {
		return &device{reason: "DIOPI has no function for this overload"}, nil
	}
	r, ok := diopi.Find(name)
	if !ok {
		if e.DIOPI != "" {
			return nil, fmt.Errorf("op %s: DIOPI %q: no recipe is named %s", e.Op(), e.DIOPI, name)
		}
		if e.View {
			return &device{reason: "DIOPI has no function for it: views are made without a device"}, nil
		}
		return &device{reason: "DIOPI has no function for it"}, nil
	}
	d := &device{recipe: r}
	given := map[string]bool{}
	for _, w := range words {
		if name, ok := strings.CutPrefix(w, "-"); ok {
			at := e.param(name)
			if at < 0 {
				return nil, fmt.Errorf("op %s: DIOPI %q: %q is no argument of the op", e.Op(), e.DIOPI, name)
			}
			d.ignored = append(d.ignored, at)
			continue
		}
		keyword, what, ok := strings.Cut(w, "=")
		s, err := e.source(keyword, what)
		if err != nil || !ok || !slices.Contains(r.Params(), keyword) {
			return nil, fmt.Errorf("op %s: DIOPI %q: %q is no argument of the recipe and the op", e.Op(), e.DIOPI, w)
		}
		given[keyword] = true
		d.sources = append(d.sources, s)
	}
	for _, keyword := range r.Params() {
		if given[keyword] {
			continue
		}
		at := e.param(keyword)
		if keyword == "input" && at < 0 {
			at = e.param("self")
		}
		if keyword == "self" && e.param("self") >= 0 && slices.Contains(r.Params(), "input") {
			continue // the tensor is input; self is the number of two operands
		}
		if at >= 0 {
			d.sources = append(d.sources, source{keyword: keyword, param: at, item: -1})
		} else if r.Required(keyword) {
			if e.DIOPI != "" {
				return nil, fmt.Errorf("op %s: DIOPI %q: nothing fills %s", e.Op(), e.DIOPI, keyword)
			}
			return &device{reason: "DIOPI has no function for this overload"}, nil
		}
	}
	return d, nil
}

// source reads one "keyword=what" of a declaration.
func (e *Entry) source(keyword, what string) (source, error) {
	s := source{keyword: keyword, param: -1, item: -1}
	switch what {
	case "@out", "@shape", "@parts":
		s.special = what
		return s, nil
	}
	name, item, isItem := strings.Cut(what, ".")
	if at := e.param(name); at >= 0 {
		s.param = at
		if isItem {
			n, err := strconv.Atoi(item)
			if err != nil {
				return s, err
			}
			s.item = n
		}
		return s, nil
	}
	v, err := parseDefault(what)
	s.literal = v
	return s, err
}

// param is the index of a schema argument, -1 if there is none.
func (e *Entry) param(name string) int {
	return slices.IndexFunc(e.Schema.Params, func(p Param) bool { return p.Name == name && p.Type.carried() })
}

// A DeviceCase is a call as a case of the recipe that runs it on a device.
type DeviceCase struct {
	Recipe *diopi.Recipe
	Case   *diopi.Case
	// Args are the schema's names of the arguments that fill the recipe's keywords:
	// gradients and changed arguments of the plan are named by keyword.
	Args map[string]string
}

// DeviceCase says how a device computes the call. f are its results, whose
// dtypes and shapes those of the device must have. With gradients wanted, need
// names the arguments and out are the gradients of the results, nil for ones
// that none flowed into. The error says why the call cannot run on a device.
//
// The results of the plan are, in order, those of the call; further ones are
// not results of PyTorch. Of an in-place call without gradients only the
// in-place calls are planned, if DIOPI has them.
func (c *Call) DeviceCase(f *Forward, out []*tensor.Tensor, need []string) (*DeviceCase, error) {
	r, err := c.Entry.Recipe()
	if err != nil {
		return nil, err
	}
	d, err := c.Entry.device()
	if err != nil {
		return nil, err
	}
	dc := &DeviceCase{Recipe: r, Case: &diopi.Case{Function: r.Function, Args: &value.Dict{}},
		Args: map[string]string{}}
	k := dc.Case
	for _, t := range f.Outs {
		if t == nil {
			break
		}
		k.Outputs = append(k.Outputs, diopi.Meta{DType: t.DType, Shape: t.Shape})
	}
	used := map[int]bool{}
	for _, i := range d.ignored {
		used[i] = true
	}
	for _, s := range d.sources {
		if s.param >= 0 {
			used[s.param] = true
			dc.Args[s.keyword] = c.Entry.Schema.Params[s.param].Name
		}
		v, err := c.fill(s, f, r)
		if err != nil {
			return nil, fmt.Errorf("op %s: %w", c.Entry.Op(), err)
		}
		if v == nil && r.Defaulted(s.keyword) {
			continue
		}
		k.Args.Items = append(k.Args.Items, value.Item{Key: s.keyword, Value: v})
	}
	if err := c.unused(used); err != nil {
		return nil, err
	}
	if len(need) > 0 {
		if !r.HasBackward() {
			return nil, fmt.Errorf("op %s: DIOPI has no backward function for it", c.Entry.Op())
		}
		for keyword, arg := range dc.Args {
			if slices.Contains(need, arg) {
				k.RequiresGrad = append(k.RequiresGrad, keyword)
			}
		}
		slices.Sort(k.RequiresGrad)
		k.GradOutputs = out
	}
	if c.written != nil && r.HasInPlace() {
		k.InPlace, k.OnlyInPlace = true, len(need) == 0
	}
	return dc, nil
}

// unused refuses arguments the recipe has no place for, unless they have their default.
func (c *Call) unused(used map[int]bool) error {
	st := reflect.ValueOf(c.args).Elem()
	for i, p := range c.Entry.Schema.Params {
		plan := c.Entry.setters[i]
		if used[i] || plan.field == nil || p.Name == "inplace" {
			continue
		}
		v := st.FieldByIndex(plan.field).Interface()
		if !p.Required && reflect.DeepEqual(v, plan.def.Interface()) || isNothing(v) {
			continue
		}
		return fmt.Errorf("op %s: DIOPI's %s has no argument %s", c.Entry.Op(), c.Entry.dev.recipe.Function, p.Name)
	}
	return nil
}

// isNothing says that an optional argument is absent, or a flag that is not set.
func isNothing(v any) bool {
	if b, ok := v.(*bool); ok && b != nil {
		return !*b
	}
	r := reflect.ValueOf(v)
	return !r.IsValid() || (r.Kind() == reflect.Pointer || r.Kind() == reflect.Slice) && r.IsNil()
}

// fill is the value of a keyword.
func (c *Call) fill(s source, f *Forward, r *diopi.Recipe) (value.Value, error) {
	switch s.special {
	case "@out", "@shape", "@parts":
		if len(f.Outs) == 0 {
			return nil, fmt.Errorf("the call has no result tensor")
		}
	}
	switch s.special {
	case "@out":
		return &diopi.Tensor{DType: f.Outs[0].DType, Shape: f.Outs[0].Shape}, nil
	case "@shape":
		return sizeValue(f.Outs[0].Shape), nil
	case "@parts":
		return c.parts(f)
	}
	if s.param < 0 {
		return s.literal, nil
	}
	p := c.Entry.Schema.Params[s.param]
	v := reflect.ValueOf(c.args).Elem().FieldByIndex(c.Entry.setters[s.param].field).Interface()
	if list, ok := v.([]*tensor.Tensor); ok && s.item >= 0 {
		if s.item >= len(list) {
			return nil, nil
		}
		v = list[s.item]
	}
	if t, ok := v.(*tensor.Tensor); ok && t != nil && t.Wrapped {
		if !r.TakesNumber(s.keyword) {
			return c.asTensor(t), nil
		}
		return numberValue(t)
	}
	out, err := pythonValue(v)
	if err != nil {
		return nil, fmt.Errorf("argument %s: %w", p.Name, err)
	}
	return out, nil
}

// asTensor is a number as a 0-d tensor of the dtype of the tensors it meets.
func (c *Call) asTensor(n *tensor.Tensor) *tensor.Tensor {
	dt := n.DType
	for _, a := range c.Tensors() {
		if d := a.Tensor.DType; d.Kind() >= n.DType.Kind() && a.Name != "mask" && a.Name != "condition" {
			dt = d
			break
		}
	}
	return Cast(n, dt)
}

// parts are the sizes of the results along the argument dim.
func (c *Call) parts(f *Forward) (value.Value, error) {
	at := c.Entry.param("dim")
	if at < 0 {
		return nil, fmt.Errorf("the op has no argument dim")
	}
	d, _ := reflect.ValueOf(c.args).Elem().FieldByIndex(c.Entry.setters[at].field).Interface().(int)
	s := value.NewList()
	for _, t := range f.Outs {
		k := d
		if k < 0 {
			k += len(t.Shape)
		}
		if k < 0 || k >= len(t.Shape) {
			return nil, fmt.Errorf("dim %d is out of range", d)
		}
		s.Items = append(s.Items, int64(t.Shape[k]))
	}
	return s, nil
}

func sizeValue(shape []int) value.Value {
	s := value.NewList()
	for _, n := range shape {
		s.Items = append(s.Items, int64(n))
	}
	return s
}

// numberValue is the Python number that a 0-d tensor stands for.
func numberValue(t *tensor.Tensor) (value.Value, error) {
	switch t.DType.Kind() {
	case tensor.KindBool:
		return tensor.At[int64](t, 0) != 0, nil
	case tensor.KindInt:
		return tensor.At[int64](t, 0), nil
	case tensor.KindFloat:
		return t.Item(), nil
	}
	return nil, fmt.Errorf("DIOPI has no complex scalars")
}

// pythonValue is the Python value of a field of an argument struct.
func pythonValue(v any) (value.Value, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case *tensor.Tensor:
		if v == nil {
			return nil, nil
		}
		return v, nil
	case []*tensor.Tensor:
		s := value.NewList()
		for _, t := range v {
			if t == nil {
				s.Items = append(s.Items, nil)
				continue
			}
			s.Items = append(s.Items, t)
		}
		return s, nil
	case Scalar:
		switch v.Kind() {
		case tensor.KindBool:
			return v.Int64() != 0, nil
		case tensor.KindInt:
			return v.Int64(), nil
		case tensor.KindFloat:
			return v.Float64(), nil
		}
		return nil, fmt.Errorf("DIOPI has no complex scalars")
	case int:
		return int64(v), nil
	case []int:
		if v == nil {
			return nil, nil
		}
		return sizeValue(v), nil
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Pointer:
		if r.IsNil() {
			return nil, nil
		}
		if k := r.Elem().Kind(); k == reflect.Int || k == reflect.Float64 || k == reflect.Bool || k == reflect.String ||
			k == reflect.Uint8 || r.Type() == reflect.TypeFor[*Scalar]() {
			return pythonValue(r.Elem().Interface())
		}
	case reflect.Slice:
		s := value.NewList()
		for i := range r.Len() {
			x, err := pythonValue(r.Index(i).Interface())
			if err != nil {
				return nil, err
			}
			s.Items = append(s.Items, x)
		}
		return s, nil
	}
	return v, nil
}
