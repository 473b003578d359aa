package diopi

import (
	"maps"
	"strings"

	"github.com/optool/optool/tensor"
)

// Apply returns p with the conversions that the configuration asks for, made by
// the library's own functions, as in an adaptor that DIOPI generates:
// diopiCastDtype and, into a layout, diopiCopyInp before a call and back after
// it. What a call writes goes to fresh memory, which holds the old values if the
// call reads them: of in-place functions, of parameters that are
// read and written, and of diopiIndexPut. exports says which functions the
// library has; other functions may stand in for one it has not.
//
// Not converted are diopiCopyInp and diopiCastDtype, calls that make a tensor
// or write a list of tensors, functions of mmcv, and a tensor that an earlier call made,
// whose dtype is not known before. It also returns what dtypes it changed.
func (c *ConvertConfig) Apply(p *Plan, exports func(function string) bool) (*Plan, []Conversion) {
	if c == nil {
		return p, nil
	}
	q := *p
	q.Calls = nil
	var done []Conversion
	for _, call := range p.Calls {
		for _, part := range c.composed(call, exports) {
			v := c.convert(part)
			q.Calls = append(append(append(q.Calls, v.first...), v.call), v.last...)
			done = append(done, v.casts...)
		}
	}
	return &q, done
}

// A Conversion is a change of dtype that a ConvertConfig made in a plan: of what
// a call reads, or of what it writes.
type Conversion struct {
	Phase    Phase // of the call
	Tensor   *Tensor
	From, To tensor.DType
}

// converts says whether the adaptor touches calls of f.
func (c *ConvertConfig) converts(f *Function) bool {
	if f.Name == prefix+"CopyInp" || f.Name == prefix+"CastDtype" || f.Group == "functions_mmcv" {
		return false
	}
	for _, p := range f.Params {
		switch p.Kind {
		case KindTensorPtr, KindArrayOut, KindArrayInOut:
			return false
		}
	}
	return true
}

// convert is the call with what has to be done before and after it.
func (c *ConvertConfig) convert(call *Call) *converter {
	v := &converter{call: call}
	f, ok := Lookup(call.Function)
	if !ok || !c.converts(f) {
		return v
	}
	args := maps.Clone(call.Args)
	for _, p := range f.Params {
		rule := c.of(f.Name, p.Name)
		switch a := args[p.Name].(type) {
		case *Tensor:
			if p.Kind == KindTensorIn {
				args[p.Name] = v.before(a, rule)
			} else {
				args[p.Name] = v.around(a, rule, f.InPlace || p.Kind == KindTensorInOut || f.Name == prefix+"IndexPut")
			}
		case Tensors:
			list := make(Tensors, len(a))
			for i, t := range a {
				list[i] = v.before(t, rule)
			}
			args[p.Name] = list
		}
	}
	changed := *call
	changed.Args = args
	v.call = &changed
	return v
}

// A converter collects the calls before and after one.
type converter struct {
	call        *Call
	first, last []*Call
	casts       []Conversion
}

// before is what the call reads for t.
func (v *converter) before(t *Tensor, rule conversions) *Tensor {
	if t == nil {
		return nil
	}
	if t.CSR != nil {
		values := v.before(t.CSR.Values, conversions{dtype: rule.dtype})
		if values == t.CSR.Values {
			return t
		}
		u := *t
		u.DType = values.DType
		u.CSR = &CSR{CrowIndices: t.CSR.CrowIndices, ColIndices: t.CSR.ColIndices, Values: values}
		return &u
	}
	if to, ok := rule.dtype[t.DType]; ok && to != t.DType {
		u := rawLike(t)
		u.Role, u.DType, u.Host = t.Role+" as "+to.String(), to, t.Host
		v.first = append(v.first, v.move(t, u))
		v.casts = append(v.casts, Conversion{v.call.Phase, t, t.DType, to})
		t = u
	}
	if l, ok := choose(rule.layouts, t); ok {
		u := &Tensor{Role: t.Role + " " + l.String(), DType: t.DType, Shape: t.Shape, Stride: l.stride(t.Shape),
			Host: t.Host}
		v.first = append(v.first, v.move(t, u))
		t = u
	}
	return t
}

// around is what the call writes for t; reads says that it reads it too.
func (v *converter) around(t *Tensor, rule conversions, reads bool) *Tensor {
	if t == nil || t.CSR != nil {
		return t
	}
	u := t
	if reads {
		u = v.before(t, rule)
	} else {
		d := *t
		to, cast := rule.dtype[t.DType]
		if cast = cast && to != t.DType; cast {
			d.DType, d.Role = to, d.Role+" as "+to.String()
			v.casts = append(v.casts, Conversion{v.call.Phase, t, t.DType, to})
		}
		l, move := choose(rule.layouts, t)
		if move {
			d.Stride, d.Role = l.stride(t.Shape), d.Role+" "+l.String()
		}
		if cast || move {
			d.Value = nil
			u = &d
		}
	}
	if u != t {
		v.last = append(v.last, v.move(u, t))
	}
	return u
}

// move is the call that writes the elements of one tensor to another.
func (v *converter) move(from, to *Tensor) *Call {
	if from.DType != to.DType {
		return &Call{Phase: v.call.Phase, Function: prefix + "CastDtype", Args: map[string]Arg{"input": from,
			"out": to}}
	}
	return &Call{Phase: v.call.Phase, Function: prefix + "CopyInp", Args: map[string]Arg{"src": from, "dest": to}}
}

// composed is the call, or the calls that stand in for a function the library
// does not have.
func (c *ConvertConfig) composed(call *Call, exports func(string) bool) []*Call {
	if fc := c.functions[call.Function]; fc == nil || !fc.composite || exports(call.Function) {
		return []*Call{call}
	}
	if calls, ok := composites[strings.TrimPrefix(call.Function, prefix)]; ok {
		return calls(call)
	}
	return []*Call{call}
}

// composites are functions that others can stand in for.
var composites = map[string]func(*Call) []*Call{
	"Linear": func(call *Call) []*Call {
		weight, ok := call.Args["weight"].(*Tensor)
		if !ok {
			return []*Call{call}
		}
		step := func(function string, args map[string]Arg) *Call {
			return &Call{Phase: call.Phase, Function: prefix + function, Args: args}
		}
		var calls []*Call
		if len(weight.Shape) == 2 {
			t := newTensor(weight.DType, []int{weight.Shape[1], weight.Shape[0]})
			t.Role, t.Host = weight.Role+" transposed", weight.Host
			calls = append(calls, step("Transpose", map[string]Arg{"out": t, "input": weight, "dim0": Integer(0),
				"dim1": Integer(1)}))
			weight = t
		}
		calls = append(calls, step("Matmul", map[string]Arg{"out": call.Args["out"], "input": call.Args["input"],
			"other": weight}))
		if bias := call.Args["bias"]; bias != nil {
			calls = append(calls, step("AddInp", map[string]Arg{"input": call.Args["out"], "other": bias,
				"alpha": Scalar{DType: tensor.Int64, Int: 1}}))
		}
		return calls
	},
}
