package diopi

import (
	"math"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// The number a Python number is for a C parameter: bool counts as an integer.
func number(v any) (i int64, f float64, integral, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case int:
		return int64(v), float64(v), true, true
	case int64:
		return v, float64(v), true, true
	case float64:
		return int64(math.Max(math.MinInt64, math.Min(v, math.MaxInt64))), v, false, true
	}
	return 0, 0, false, false
}

// A conversion makes arguments of the values of the kit's arguments.
type conversion struct {
	// accepts says whether a parameter can hold v as it is; it chooses between C functions.
	accepts func(v any) bool
	// arg is v as an argument; false if it cannot be one. Numbers computed in floating
	// point and lists of one number are fine where C takes a number.
	arg func(b *build, k Kind, v any) (Arg, bool)
}

var (
	toTensor  = conversion{isHandle, func(_ *build, _ Kind, v any) (Arg, bool) { return handle(v) }}
	toTensors = conversion{func(v any) bool { _, ok := v.(Tensors); return ok },
		func(_ *build, _ Kind, v any) (Arg, bool) { return handles(v) }}
	toScalar = conversion{isNumber, func(b *build, _ Kind, v any) (Arg, bool) {
		i, x, integral, ok := number(single(v))
		return b.scalar(i, x, integral), ok
	}}
	toSize = conversion{isSize, func(_ *build, _ Kind, v any) (Arg, bool) {
		if v == nil {
			return Size{}, true
		}
		s, ok := sizes(v)
		return s, ok
	}}
	toInteger = conversion{isIntegral, func(_ *build, _ Kind, v any) (Arg, bool) {
		i, _, _, ok := number(single(v))
		return Integer(i), ok
	}}
	toReal = conversion{isNumber, func(_ *build, _ Kind, v any) (Arg, bool) {
		_, x, _, ok := number(single(v))
		return Real(x), ok
	}}
	toBool = conversion{isIntegral, func(_ *build, _ Kind, v any) (Arg, bool) {
		_, x, _, ok := number(single(v))
		return Bool(x != 0), ok
	}}
	toText = conversion{anything, func(_ *build, _ Kind, v any) (Arg, bool) {
		s, ok := v.(string)
		return Text(s), ok || v == nil
	}}
	toEnum      = conversion{anything, func(_ *build, k Kind, v any) (Arg, bool) { return enum(k, v) }}
	toGenerator = conversion{anything, func(_ *build, _ Kind, v any) (Arg, bool) {
		g, ok := v.(*Generator)
		return g, ok
	}}
)

// optional makes nil an argument too: a null pointer.
func optional(c conversion) conversion {
	return conversion{
		accepts: func(v any) bool { return v == nil || c.accepts(v) },
		arg: func(b *build, k Kind, v any) (Arg, bool) {
			if v == nil {
				return nil, true
			}
			return c.arg(b, k, v)
		},
	}
}

func anything(any) bool { return true }

func isNumber(v any) bool {
	_, _, _, ok := number(v)
	return ok
}

func isIntegral(v any) bool {
	_, _, integral, _ := number(v)
	return integral
}

func isHandle(v any) bool {
	switch v.(type) {
	case nil, *Tensor, *Alloc:
		return true
	}
	return false
}

func isSize(v any) bool {
	switch v.(type) {
	case nil, *value.Sequence, Size:
		return true
	}
	return isIntegral(v)
}

// single is the item of a list of one, else v: a dimension as a list of one.
func single(v any) any {
	if s, ok := v.(*value.Sequence); ok && len(s.Items) == 1 {
		return s.Items[0]
	}
	return v
}

func handle(v any) (Arg, bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case *Tensor:
		if v == nil {
			return nil, true
		}
		return v, true
	case *Alloc:
		return v, true
	}
	return nil, false
}

func handles(v any) (Arg, bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case Tensors:
		return v, true
	case *value.Sequence:
		return Tensors{}, len(v.Items) == 0
	}
	return nil, false
}

// accepts says whether a parameter of kind k can hold v.
func accepts(k Kind, v any) bool {
	p, _ := k.Passing()
	return p.from.accepts == nil || p.from.accepts(v)
}

// convert is v as an argument of p.
func (b *build) convert(f *Function, p Param, v any) Arg {
	how, _ := p.Kind.Passing()
	if !accepts(p.Kind, v) {
		v = b.scalarOf(v) // a 0-d tensor where C takes a number
	}
	if how.from.arg != nil {
		if a, ok := how.from.arg(b, p.Kind, v); ok {
			return a
		}
	}
	b.fail("%s of %s cannot be %s", p.Name, f.Name, describe(v))
	return nil
}

// scalar is a number as diopiScalar_t.
func (b *build) scalar(i int64, f float64, integral bool) Scalar {
	switch {
	case integral && b.c.FourBytes:
		return Scalar{DType: tensor.Int32, Int: i}
	case integral:
		return Scalar{DType: tensor.Int64, Int: i}
	case b.c.FourBytes:
		return Scalar{DType: tensor.Float32, Float: f}
	}
	return Scalar{DType: tensor.Float64, Float: f}
}

// scalarOf is the element of a tensor of one element, else v.
func (b *build) scalarOf(v any) any {
	t, ok := v.(*Tensor)
	if !ok || t == nil || t.Value == nil || t.Value.Numel() != 1 {
		return v
	}
	if t.DType.Kind() == tensor.KindFloat {
		return t.Value.Item()
	}
	if t.DType.Kind() == tensor.KindComplex {
		return v
	}
	return tensor.At[int64](t.Value, 0)
}

// sizes is a number or a sequence of numbers as a size.
func sizes(v any) (Size, bool) {
	switch v := v.(type) {
	case Size:
		return v, true
	case []int:
		s := make(Size, len(v))
		for i, n := range v {
			s[i] = int64(n)
		}
		return s, true
	case *value.Sequence:
		s := make(Size, len(v.Items))
		for i, it := range v.Items {
			n, _, _, ok := number(it)
			if !ok {
				return nil, false
			}
			s[i] = n
		}
		return s, true
	}
	n, _, _, ok := number(v)
	return Size{n}, ok
}

// enumerators are the enumerators that the kit's values mean, by C type.
var enumerators = map[string]map[value.Value]Enum{
	"diopiReduction_t": {"none": "ReductionNone", "mean": "ReductionMean", "sum": "ReductionSum"},
	"diopiRoundMode_t": {nil: "RoundModeNone", "trunc": "RoundModeTrunc", "floor": "RoundModeFloor"},
}

// enum is a value of the kit as an enumerator. Memory formats go by their C names.
func enum(k Kind, v any) (Enum, bool) {
	name, isString := v.(string)
	if !isString && v != nil {
		return "", false
	}
	if k.Enum() == "diopiMemoryFormat_t" {
		return Enum(name), isString
	}
	e, ok := enumerators[k.Enum()][v]
	return e, ok
}

// describe names an argument in a message.
func describe(v any) string {
	switch v := v.(type) {
	case *Tensor:
		if v == nil {
			return "None"
		}
		return "a tensor " + v.DType.String() + tensor.ShapeString(v.Shape)
	case Tensors:
		return "a list of tensors"
	}
	return value.Repr(v)
}

// compress is a matrix in compressed row form: the elements that are not zero.
func compress(role string, t *tensor.Tensor) *CSR {
	rows, cols := t.Shape[0], t.Shape[1]
	data := tensor.Data[float64](t)
	crow, col, vals := make([]int64, 1, rows+1), []int64{}, []float64{}
	for r := range rows {
		for c, x := range data[r*cols : (r+1)*cols] {
			if x != 0 {
				col = append(col, int64(c))
				vals = append(vals, x)
			}
		}
		crow = append(crow, int64(len(col)))
	}
	part := func(name string, v *tensor.Tensor) *Tensor {
		return &Tensor{Role: role + "." + name, DType: v.DType, Shape: v.Shape, Stride: v.Stride, Value: v}
	}
	return &CSR{
		CrowIndices: part("crow_indices", tensor.New(tensor.Int32, []int{len(crow)}, crow)),
		ColIndices:  part("col_indices", tensor.New(tensor.Int32, []int{len(col)}, col)),
		Values:      part("values", tensor.New(t.DType, []int{len(vals)}, vals)),
	}
}
