package compare

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/optool/optool/compare/internal/vec"
	"github.com/optool/optool/tensor"
)

// OpTools holds what op_tools prints for one device/host pair.
type OpTools struct {
	AllClose   bool
	Cosine     float64
	MaxAbs     float64
	MaxRel     float64
	Atol, Rtol float64
	Note       string // op_tools' error_info, e.g. "Inconsistent dtypes: torch.float32 torch.float64"
}

// scalarTol is op_tools' tolerance for Python numbers.
const scalarTol = 1e-6

// incomparable is op_tools' row for a pair it does not compare.
func incomparable(note string) OpTools {
	return OpTools{Cosine: -1, MaxAbs: math.NaN(), MaxRel: math.NaN(), Note: note}
}

// OpToolsTensors compares two tensors as op_tools does. The host tensor is cast
// to the device's dtype as torch casts. Differences, quotients and bounds are
// computed in the device's dtype, each step rounded to it:
//
//	max_abs_diff      = max |device - host|
//	max_relative_diff = max |device - host| / (|device| + 1e-6)
//	allclose          = |device - host| <= atol + rtol*|host| everywhere
//
// NaN equals NaN and equal infinities pass, but both make the maxima NaN.
// Integers wrap in the first, and are float32 in the other two. Complex
// magnitudes are real. The cosine is float32's, of the real parts.
//
// It panics with a *tensor.ReadError if a storage cannot be read.
func OpToolsTensors(device, host *tensor.Tensor, tol Tolerance) OpTools {
	if note := shapeNote(device, host); note != "" {
		return incomparable(note)
	}
	for _, t := range []*tensor.Tensor{device, host} {
		if !t.DType.Computable() {
			return incomparable(fmt.Sprintf("values of dtype %s cannot be read", t.DType))
		}
	}
	if device == host { // an input and itself: any order of the elements will do
		device = inMemoryOrder(device)
		host = device
	}
	short, _, err := tensor.Distinct(device, host)
	if err != nil {
		return incomparable(err.Error())
	}
	p := newPair(short[0], short[1], tol, true)
	return p.opTools(p.total(), tol)
}

func shapeNote(device, host *tensor.Tensor) string {
	if reflect.DeepEqual(nonNil(device.Shape), nonNil(host.Shape)) {
		return ""
	}
	return fmt.Sprintf("Inconsistent shape: torch.Size(%s) torch.Size(%s)", tensor.ShapeString(device.Shape),
		tensor.ShapeString(host.Shape))
}

func nonNil(shape []int) []int {
	if shape == nil {
		return []int{}
	}
	return shape
}

func (p *pair) opTools(s vec.Stats, tol Tolerance) OpTools {
	o := OpTools{AllClose: s.NotClose == 0, Cosine: cosine(&s), MaxAbs: s.MaxAbs, MaxRel: s.MaxRel, Atol: tol.Atol,
		Rtol: tol.Rtol}
	if s.N == 0 {
		o.Cosine = 1
	}
	if p.got.DType != p.ref.DType {
		o.Note = fmt.Sprintf("Inconsistent dtypes: torch.%s torch.%s", p.got.DType, p.ref.DType)
	}
	return o
}

// cosine is torch.nn.functional.cosine_similarity of float32 vectors: each is
// divided by its norm, at least 1e-8, computed in float32, where it can
// overflow to Inf and give 0.
func cosine(s *vec.Stats) float64 {
	switch {
	case s.Dot != s.Dot:
		return math.NaN()
	case s.AA > math.MaxFloat32 || s.BB > math.MaxFloat32:
		return 0
	}
	norms := math.Max(math.Sqrt(s.AA), 1e-8) * math.Max(math.Sqrt(s.BB), 1e-8)
	return float64(float32(s.Dot / norms))
}

// OpToolsValues compares two values that are not both tensors as op_tools does:
// Python numbers by |a-b| <= 1e-6 + 1e-6*|b|, everything else by equality, and
// values of different types are not close. Values are nil, bool, int64,
// *big.Int, float64, complex128, string, tensor.DType, *tensor.Tensor; others
// are equal if their contents are, and print by their String method.
func OpToolsValues(device, host any) OpTools {
	if device == nil && host == nil {
		return OpTools{AllClose: true, Cosine: 1}
	}
	if pythonType(device) != pythonType(host) {
		return incomparable(fmt.Sprintf("Inconsistent types: <class '%s'> <class '%s'>", pythonType(device),
			pythonType(host)))
	}
	a, number := toFloat(device)
	b, _ := toFloat(host)
	if number {
		d := math.Abs(a - b)
		o := OpTools{AllClose: d <= scalarTol+scalarTol*math.Abs(b) && !math.IsInf(b, 0) || a != a && b != b, Cosine: 1,
			MaxAbs: d, MaxRel: d / (math.Abs(b) + scalarTol), Atol: scalarTol, Rtol: scalarTol}
		if !o.AllClose {
			o.Cosine = -1
			o.Note = fmt.Sprintf(" value: %s %s ", pythonStr(device), pythonStr(host))
		}
		return o
	}
	equal := sameValue(device, host)
	if _, ok := device.(bool); ok {
		if equal {
			return OpTools{AllClose: true, Cosine: 1}
		}
		return incomparable(fmt.Sprintf(" value: %s %s ", pythonStr(device), pythonStr(host)))
	}
	note := fmt.Sprintf(" value: %s %s", pythonStr(device), pythonStr(host))
	if equal {
		return OpTools{AllClose: true, Cosine: 1, Note: note}
	}
	return incomparable(note)
}

func sameValue(a, b any) bool {
	if x, ok := a.(complex128); ok { // reflect would treat NaN parts alike, but -0 is 0
		y, ok := b.(complex128)
		return ok && x == y
	}
	return reflect.DeepEqual(a, b)
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f, true
	case float64:
		return v, true
	}
	return 0, false
}

// pythonType is the name Python prints for the type of v.
func pythonType(v any) string {
	switch v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case complex128:
		return "complex"
	case string:
		return "str"
	case tensor.DType:
		return "torch.dtype"
	case *tensor.Tensor:
		return "torch.Tensor"
	}
	name := fmt.Sprintf("%T", v)
	return strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
}

// pythonStr is Python's str of a scalar.
func pythonStr(v any) string {
	switch v := v.(type) {
	case bool:
		if v {
			return "True"
		}
		return "False"
	case float64:
		return pythonFloat(v)
	case complex128:
		im := pythonFloat(imag(v))
		if !strings.HasPrefix(im, "-") {
			im = "+" + im
		}
		return "(" + strings.TrimSuffix(pythonFloat(real(v)), ".0") + strings.TrimSuffix(im, ".0") + "j)"
	case tensor.DType:
		return "torch." + v.String()
	}
	return fmt.Sprint(v)
}

// pythonFloat is repr(x): the shortest digits that give x back, in exponent
// form outside [1e-4, 1e16).
func pythonFloat(x float64) string {
	switch {
	case math.IsNaN(x):
		return "nan"
	case math.IsInf(x, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(x, 'f', -1, 64), "+"))
	}
	if a := math.Abs(x); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(x, 'e', -1, 64)
	}
	s := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
