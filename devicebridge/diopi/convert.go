package diopi

import (
	"math"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
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

// accepts says whether a parameter of kind k can hold v.
func accepts(k Kind, v any) bool {
	_, _, integral, isNumber := number(v)
	switch k {
	case KindTensorIn, KindTensorOut, KindTensorInOut:
		switch v.(type) {
		case nil, *Tensor, *Alloc:
			return true
		}
		return false
	case KindArrayIn, KindArrayInOut:
		_, ok := v.([]*Tensor)
		return ok
	case KindScalar, KindDoublePtr:
		return v == nil || isNumber
	case KindInt64Ptr, KindBoolPtr:
		return v == nil || integral
	case KindSize, KindSizePtr:
		_, ok := v.(*value.Sequence)
		_, sizes := v.([]int64)
		return v == nil || ok || sizes || integral
	case KindInt64, KindInt32, KindInt, KindBool:
		return integral
	case KindDouble, KindFloat:
		return isNumber
	}
	return true
}

// convert is v as an argument of p.
func (b *build) convert(f *Function, p Param, v any) Arg {
	if !accepts(p.Kind, v) {
		// Numbers computed in floating point, or passed as 0-d tensors, are fine
		// where C takes a number.
		v = b.scalarOf(v)
	}
	i, x, integral, isNumber := number(v)
	if s, ok := v.(*value.Sequence); ok && len(s.Items) == 1 && !isNumber { // a dimension as a list of one
		i, x, integral, isNumber = number(s.Items[0])
	}
	switch p.Kind {
	case KindTensorIn, KindTensorOut, KindTensorInOut, KindArrayIn, KindArrayOut, KindArrayInOut, KindGenerator,
		KindTensorPtr:
		switch v := v.(type) {
		case nil, []*Tensor, *Alloc, *Generator:
			return v
		case *Tensor:
			if v == nil {
				return nil
			}
			return v
		case *value.Sequence:
			if len(v.Items) == 0 {
				return []*Tensor{}
			}
		}
	case KindScalar:
		if v == nil {
			return nil
		}
		if isNumber {
			return b.scalar(i, x, integral)
		}
	case KindSize, KindSizePtr:
		if v == nil {
			if p.Kind == KindSizePtr {
				return nil
			}
			return []int64{}
		}
		if s, ok := sizes(v); ok {
			return s
		}
	case KindInt64, KindInt32, KindInt, "uint64":
		if isNumber {
			return i
		}
	case KindInt64Ptr:
		if v == nil {
			return nil
		}
		if isNumber {
			return i
		}
	case KindDouble, KindFloat:
		if isNumber {
			return x
		}
	case KindDoublePtr:
		if v == nil {
			return nil
		}
		if isNumber {
			return x
		}
	case KindBool:
		if isNumber {
			return x != 0
		}
	case KindBoolPtr:
		if v == nil {
			return nil
		}
		if isNumber {
			return x != 0
		}
	case KindString:
		switch v := v.(type) {
		case nil:
			return ""
		case string:
			return v
		}
	default:
		if e, ok := enum(p.Kind, v); ok {
			return e
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
func sizes(v any) ([]int64, bool) {
	switch v := v.(type) {
	case []int64:
		return v, true
	case []int:
		s := make([]int64, len(v))
		for i, n := range v {
			s[i] = int64(n)
		}
		return s, true
	case *value.Sequence:
		s := make([]int64, len(v.Items))
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
	return []int64{n}, ok
}

// enum is a name of the kit as an enumerator.
func enum(k Kind, v any) (Enum, bool) {
	name, isString := v.(string)
	switch strings.TrimPrefix(string(k), "enum:") {
	case "diopiReduction_t":
		switch {
		case isString && name == "none":
			return "ReductionNone", true
		case isString && name == "mean":
			return "ReductionMean", true
		case isString && name == "sum":
			return "ReductionSum", true
		}
	case "diopiRoundMode_t":
		switch {
		case v == nil:
			return "RoundModeNone", true
		case isString && name == "trunc":
			return "RoundModeTrunc", true
		case isString && name == "floor":
			return "RoundModeFloor", true
		}
	case "diopiMemoryFormat_t":
		if isString {
			return Enum(name), true
		}
	}
	return "", false
}

// describe names an argument in a message.
func describe(v any) string {
	switch v := v.(type) {
	case *Tensor:
		if v == nil {
			return "None"
		}
		return "a tensor " + v.DType.String() + tensor.ShapeString(v.Shape)
	case []*Tensor:
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
