package kitcheck

import (
	"math"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

var nan, inf = math.NaN(), math.Inf(1)

func f32(shape []int, v ...float64) *tensor.Tensor {
	return tensor.New(tensor.Float32, shape, v).Rounded()
}

func TestCompare(t *testing.T) {
	kit := Options{Atol: 1e-5, Rtol: 1e-5, Mismatch: 1e-3}
	strict := Options{Strict: true, Atol: 1e-5, Rtol: 1e-5, Mismatch: 1e-3}
	half := func(v ...float64) *tensor.Tensor { return tensor.New(tensor.Float16, []int{len(v)}, v).Rounded() }
	many := make([]float64, 2000)
	few := append([]float64{5, 5}, many[2:]...)
	for name, c := range map[string]struct {
		got, want value.Value
		o         Options
		reason    string // part of the reason of what fails; "" passes
	}{
		"equal":            {f32([]int{2}, 1, 2), f32([]int{2}, 1, 2), kit, ""},
		"close":            {f32([]int{2}, 1, 2.00001), f32([]int{2}, 1, 2), kit, ""},
		"far":              {f32([]int{2}, 1, 2.001), f32([]int{2}, 1, 2), kit, "1 of 2 elements differ"},
		"nan":              {f32([]int{2}, nan, inf), f32([]int{2}, nan, inf), kit, ""},
		"other infinity":   {f32([]int{1}, inf), f32([]int{1}, -inf), kit, "differ"},
		"nan for a number": {f32([]int{1}, nan), f32([]int{1}, 1), kit, "differ"},
		"infinite for big": {f32([]int{1}, 1), f32([]int{1}, inf), kit, "differ"},
		"dtype":            {tensor.New(tensor.Int64, []int{1}, []int64{3}), f32([]int{1}, 3), kit, ""},
		"strict dtype": {tensor.New(tensor.Int64, []int{1}, []int64{3}), f32([]int{1}, 3), strict,
			"want dtype float32, got int64"},
		"broadcast":      {f32([]int{1}, 3), f32([]int{2, 2}, 3, 3, 3, 3), kit, ""},
		"strict shape":   {f32([]int{1}, 3), f32([]int{2, 2}, 3, 3, 3, 3), strict, "want shape"},
		"no broadcast":   {f32([]int{3}, 1, 1, 1), f32([]int{2}, 1, 1), kit, "does not fit"},
		"mismatch ratio": {f32([]int{2000}, few...), f32([]int{2000}, many...), kit, ""},
		"strict ratio":   {f32([]int{2000}, few...), f32([]int{2000}, many...), strict, "2 of 2000"},
		"sums":           {f32([]int{2}, 1, 2), f32([]int{2}, 2, 1), Options{Sums: true}, ""},
		"other sums":     {f32([]int{2}, 1, 2), f32([]int{2}, 2, 2), Options{Sums: true}, "sums differ"},
		"empty":          {f32([]int{0}), f32([]int{0}), kit, ""},
		"half":           {half(100), half(100.0625), Options{Atol: 0.0625}, ""},
		"bool": {tensor.New(tensor.Bool, []int{1}, []int64{1}), tensor.New(tensor.Bool, []int{1}, []int64{0}),
			kit, "differ"},
		"complex": {tensor.New(tensor.Complex64, []int{1}, []complex128{1 + 1i}), tensor.New(tensor.Complex64, []int{1},
			[]complex128{1 - 1i}), kit, "differ"},
		"list":    {value.NewList(f32(nil, 1), nil), value.NewList(f32(nil, 1), nil), kit, ""},
		"length":  {value.NewList(f32(nil, 1)), value.NewList(f32(nil, 1), nil), kit, "want 2 items, got 1"},
		"none":    {f32(nil, 1), nil, kit, "want None, got an array"},
		"missing": {nil, f32(nil, 1), kit, "got None"},
	} {
		reasons := ""
		for _, r := range Compare("output", c.got, c.want, c.o) {
			if !r.OK {
				reasons += r.Reason
			}
		}
		if (reasons == "") != (c.reason == "") || !strings.Contains(reasons, c.reason) {
			t.Errorf("%s: %q, want %q", name, reasons, c.reason)
		}
	}
}

func TestCompareDicts(t *testing.T) {
	d := func(keys ...string) *value.Dict {
		d := &value.Dict{}
		for _, k := range keys {
			d.Items = append(d.Items, value.Item{Key: k, Value: f32(nil, 1)})
		}
		return d
	}
	for _, c := range []struct {
		got, want *value.Dict
		reason    string
	}{
		{d("a", "b"), d("b", "a"), ""},
		{d("a"), d("a", "b"), "no b is there"},
		{d("a", "b"), d("a"), "b is there and should not be"},
	} {
		reasons := ""
		for _, r := range Compare("grad", c.got, c.want, Options{}) {
			reasons += r.Reason
		}
		if reasons != c.reason {
			t.Errorf("%q, want %q", reasons, c.reason)
		}
	}
}

func TestWorst(t *testing.T) {
	r := Compare("output", f32([]int{3}, 1, 5, 2), f32([]int{3}, 1, 2, 3), Options{})[0]
	if r.Mismatched != 2 || r.WorstIndex != 1 || r.Actual != 5 || r.Expected != 2 || r.MaxAbs != 3 {
		t.Errorf("%+v", r)
	}
}
