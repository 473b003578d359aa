package configs

import (
	"slices"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Case is one test case.
type Case struct {
	Name string      // "batch_norm::batch_norm_0.pth"
	Item *value.Dict // the kit's description of it
}

// An Arg is one tensor argument of a case.
type Arg struct {
	Name  string
	DType tensor.DType // Invalid if none is given
	// Shape is the shape, for gen_tensor_list_diff_shape a sequence of shapes,
	// nil for None; Value is the value of gen_tensor_by_value.
	Shape, Value value.Value
	HasShape     bool
	HasValue     bool
	RequiresGrad bool
	GradList     value.Value // requires_grad as it stands in the item
	GenFn        value.Value // "Genfunc.randn", or a dict with fn and its arguments
	GenPolicy    string
	Sparse       bool
	NumRange     []int // gen_num_range: [a, b), or a == b
	Stride       []int // of the buffer the argument is copied into; nil without
	NoContiguous bool
	Dict         *value.Dict // the argument's dict in the item
}

// Clone returns a copy of the case that can be changed.
func (c *Case) Clone() *Case {
	return &Case{Name: c.Name, Item: copied(c.Item).(*value.Dict)}
}

func (c *Case) get(key string) value.Value {
	v, _ := c.Item.Get(key)
	return v
}

func (c *Case) str(key string) string {
	s, _ := c.get(key).(string)
	return s
}

// Function is the name of the function under test: "batch_norm".
func (c *Case) Function() string { return c.str("name") }

// Interface says where the reference comes from: "torch", "torch.Tensor",
// "CustomizedTest", ...; "" stands for torch.nn.functional.
func (c *Case) Interface() string {
	if s, ok := c.get("interface").(*value.Sequence); ok && len(s.Items) > 0 {
		name, _ := s.Items[0].(string)
		return name
	}
	return ""
}

// Para returns the parameters that are no tensors, in order.
func (c *Case) Para() *value.Dict {
	if d, ok := c.get("para").(*value.Dict); ok {
		return d
	}
	return &value.Dict{}
}

// Args returns the tensor arguments in order.
func (c *Case) Args() []Arg {
	tp, _ := c.get("tensor_para").(*value.Dict)
	if tp == nil {
		return nil
	}
	v, _ := tp.Get("args")
	list, _ := v.(*value.Sequence)
	if list == nil {
		return nil
	}
	var out []Arg
	for _, it := range list.Items {
		d, ok := it.(*value.Dict)
		if !ok {
			continue
		}
		a := Arg{Dict: d}
		get := func(key string) value.Value {
			v, _ := d.Get(key)
			return v
		}
		a.Name, _ = get("ins").(string)
		a.DType, _ = get("dtype").(tensor.DType)
		a.Shape, a.HasShape = d.Get("shape")
		a.Value, a.HasValue = d.Get("value")
		a.GradList = get("requires_grad")
		a.RequiresGrad = isTrueList(a.GradList)
		a.GenFn = get("gen_fn")
		a.GenPolicy, _ = get("gen_policy").(string)
		a.Sparse = isTrueList(get("sparse"))
		a.NumRange = ints(get("gen_num_range"))
		a.Stride = ints(get(a.Name + "stride"))
		a.NoContiguous = Truth(get("no_contiguous"))
		out = append(out, a)
	}
	return out
}

// Bytes is about what the arguments take that are tensors, as they are written: of as many
// tensors as a list has at most. Shapes that the configuration draws at random, and values that
// are given, count as nothing.
func (c *Case) Bytes() int64 {
	var total int64
	for _, a := range c.Args() {
		count := int64(1)
		if len(a.NumRange) == 2 {
			count = int64(max(a.NumRange[0], a.NumRange[1]-1, 1))
		}
		for _, s := range a.shapes() {
			total += count * int64(tensor.Numel(s)) * int64(max(a.DType.Size(), 1))
		}
	}
	return total
}

// ConvolutionFlops are about the multiplications and additions of a convolution, of either
// kind and any number of dimensions, with stride 1; 0 of a case that is none. Each element of
// the input meets each element of the weight (its second argument) that is of its channel.
func (c *Case) ConvolutionFlops() float64 {
	args := c.Args()
	if !strings.Contains(c.Function(), "conv") || len(args) < 2 {
		return 0
	}
	input, weight := args[0].shapes(), args[1].shapes()
	if len(input) != 1 || len(weight) != 1 || len(input[0]) < 2 || input[0][1] == 0 {
		return 0
	}
	return 2 * float64(tensor.Numel(input[0])) * float64(tensor.Numel(weight[0])) / float64(input[0][1])
}

// shapes are those that are given, of gen_tensor_list_diff_shape several, and of sizes that
// memory could hold.
func (a *Arg) shapes() (all [][]int) {
	list, ok := a.Shape.(*value.Sequence)
	if !ok {
		return nil
	}
	all = [][]int{ints(list)}
	if len(list.Items) > 0 {
		if _, several := list.Items[0].(*value.Sequence); several {
			all = nil
			for _, s := range list.Items {
				all = append(all, ints(s))
			}
		}
	}
	return slices.DeleteFunc(all, func(s []int) bool { return tensor.CheckSize(s) != nil })
}

// isTrueList reports whether v is [True].
func isTrueList(v value.Value) bool {
	s, ok := v.(*value.Sequence)
	return ok && len(s.Items) == 1 && s.Items[0] == true
}

// Truth is Python's bool(v).
func Truth(v value.Value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *value.Sequence:
		return len(v.Items) > 0
	case *value.Dict:
		return len(v.Items) > 0
	}
	return true
}

// InPlace reports whether the function is called a second time, in place.
func (c *Case) InPlace() bool { return c.get("is_inplace") == true }

// NeedContext reports whether the function takes the context as an argument.
func (c *Case) NeedContext() bool { return Truth(c.get("need_context")) }

// NoOutputRef reports whether the result is random and checked by statistics.
func (c *Case) NoOutputRef() bool {
	_, ok := c.Item.Get("no_output_ref")
	return ok
}

// RequiresBackward lists the outputs that the gradients are of; none stands
// for all.
func (c *Case) RequiresBackward() []int { return ints(c.get("requires_backward")) }

// SavedArgs maps keywords of the backward function to outputs, in order.
func (c *Case) SavedArgs() *value.Dict {
	if d, ok := c.get("saved_args").(*value.Dict); ok {
		return d
	}
	return &value.Dict{}
}

// Tolerances of the case, by the kit's rule: the pair for halves counts if any
// tensor argument is float16, int16 or uint16.
func (c *Case) Tolerances() (atol, rtol, mismatch float64) {
	a, r := "atol", "rtol"
	for _, arg := range c.Args() {
		switch arg.DType {
		case tensor.Float16, tensor.Int16, tensor.Uint16:
			a, r = "atol_half", "rtol_half"
		}
	}
	return c.number(a), c.number(r), c.number("mismatch_ratio_threshold")
}

func (c *Case) number(key string) float64 {
	switch v := c.get(key).(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	}
	return 0
}

// Items returns the cases as the dict of the kit's diopi_case_items.cfg.
func Items(cases []*Case) *value.Dict {
	d := &value.Dict{Items: make([]value.Item, len(cases))}
	for i, c := range cases {
		d.Items[i] = value.Item{Key: c.Name, Value: c.Item}
	}
	return d
}

// Set replaces a key of the item.
func (c *Case) Set(key string, v value.Value) { set(c.Item, key, v) }
