package inputs

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// arg makes a case of one argument from alternating keys and values.
func arg(t *testing.T, pairs ...value.Value) *configs.Case {
	t.Helper()
	a := &value.Dict{}
	for i := 0; i < len(pairs); i += 2 {
		a.Items = append(a.Items, value.Item{Key: pairs[i], Value: pairs[i+1]})
	}
	entry := &value.Dict{Items: []value.Item{
		{Key: "name", Value: value.NewList("f")},
		{Key: "tensor_para", Value: &value.Dict{Items: []value.Item{{Key: "args", Value: value.NewList(a)}}}},
	}}
	cases, err := configs.Expand(&value.Dict{Items: []value.Item{{Key: "e", Value: entry}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cases[0]
}

func shape(ns ...int64) value.Value {
	s := value.NewTuple()
	for _, n := range ns {
		s.Items = append(s.Items, n)
	}
	return value.NewList(s)
}

func spec(fn string, low, high value.Value) value.Value {
	return &value.Dict{Items: []value.Item{{Key: "fn", Value: "Genfunc." + fn}, {Key: "low", Value: low},
		{Key: "high", Value: high}}}
}

func draw(t *testing.T, c *configs.Case) *tensor.Tensor {
	t.Helper()
	in, err := Draw(c, 7)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := in.Kwargs.Get("input")
	x, ok := v.(*tensor.Tensor)
	if !ok {
		t.Fatalf("input is %s", value.Repr(v))
	}
	return x
}

func TestDistributions(t *testing.T) {
	for _, c := range []struct {
		fn        value.Value
		dt        tensor.DType
		low, high float64 // of all elements
		mean, tol float64
	}{
		{"Genfunc.rand", tensor.Float32, 0, 1, 0.5, 0.02},
		{"Genfunc.randn", tensor.Float64, -6, 6, 0, 0.05},
		{"Genfunc.randn", tensor.Int32, -6, 6, 0, 0.05},
		{"Genfunc.positive", tensor.Float16, 0, 6, 0.798, 0.03},
		{"Genfunc.uniform", tensor.Float32, 0, 10, 5, 0.2},
		{"Genfunc.randint", tensor.Int64, 0, 9, 4.5, 0.2},
		{"Genfunc.mask", tensor.Bool, 0, 1, 0.5, 0.02},
		{"Genfunc.ones", tensor.Float32, 1, 1, 1, 1e-9},
		{"Genfunc.zeros", tensor.Int8, 0, 0, 0, 0},
		{spec("uniform", int64(-4), int64(4)), tensor.Float32, -4, 4, 0, 0.1},
		{spec("randint", int64(-4), int64(4)), tensor.Int16, -4, 3, -0.5, 0.1},
		{spec("randint", int64(-4), int64(4)), tensor.Uint8, 0, 3, 1.5, 0.1},
		{spec("randn_int", int64(-4), int64(4)), tensor.Int32, -4, 3, -0.5, 0.1},
		{spec("randn_int", int64(-4), int64(4)), tensor.Int64, -6, 6, 0, 0.05},
	} {
		x := draw(t, arg(t, "shape", shape(100, 100), "gen_fn", c.fn, "dtype", value.NewList(c.dt)))
		v := tensor.Data[float64](x)
		mean := 0.0
		for _, e := range v {
			mean += e / float64(len(v))
		}
		if lo, hi := slices.Min(v), slices.Max(v); lo < c.low || hi > c.high || math.Abs(mean-c.mean) > c.tol ||
			x.DType != c.dt {
			t.Errorf("%s of %s: %s from %v to %v with mean %v", value.Repr(c.fn), c.dt, x.Meta(), lo, hi, mean)
		}
	}
}

func TestSparse(t *testing.T) {
	x := draw(t, arg(t, "shape", shape(100, 100), "gen_fn", spec("uniform", int64(1), int64(2)), "dtype",
		value.NewList(tensor.Float32), "sparse", value.NewList(true)))
	n := 0
	for _, v := range tensor.Data[float64](x) {
		if v != 0 {
			n++
		}
	}
	if n < 1800 || n > 2200 {
		t.Errorf("%d of 10000 elements are not zero, want a fifth", n)
	}
}

func TestPolicies(t *testing.T) {
	f32 := value.NewList(tensor.Float32)
	x := draw(t, arg(t, "shape", shape(2, 3, 4), "dtype", f32, "no_contiguous", value.NewList(true)))
	if !slices.Equal(x.Shape, []int{4, 3, 2}) || !slices.Equal(x.Stride, []int{1, 4, 12}) {
		t.Errorf("no_contiguous gives shape %v and strides %v", x.Shape, x.Stride)
	}
	x = draw(t,
		arg(t, "value", value.NewList(value.NewList(value.NewList(int64(1), -2.7), value.NewList(true, int64(300)))),
			"dtype", value.NewList(tensor.Int8), "gen_policy", "gen_tensor_by_value"))
	if got := tensor.Data[int64](x); !slices.Equal(got, []int64{1, -2, 1, 44}) {
		t.Errorf("value gives %v", got)
	}
	in, err := Draw(arg(t, "shape", shape(2), "dtype", f32, "gen_policy", "gen_tensor_list", "gen_num_range",
		value.NewList(int64(3), int64(3)), "requires_grad", value.NewList(true)), 1)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := in.Kwargs.Get("input")
	if l, ok := v.(*value.Sequence); !ok || len(l.Items) != 3 {
		t.Errorf("gen_tensor_list gives %s", value.Repr(v))
	}
	if s := value.Repr(in.Item); !strings.Contains(s, "'tensors_num': 3") {
		t.Errorf("the item lacks tensors_num: %s", s)
	}
	if _, ok := in.RequiresGrad.Get("input"); !ok {
		t.Error("requires_grad is lost")
	}
	in, err = Draw(arg(t, "shape", value.NewList(nil), "dtype", f32), 1)
	if v, ok := in.Kwargs.Get("input"); err != nil || !ok || v != nil {
		t.Errorf("shape None gives %s, %v", value.Repr(v), err)
	}
}

func TestSymmetric(t *testing.T) {
	x := draw(t, arg(t, "shape", shape(2, 3, 3), "gen_fn", "Genfunc.sym_mat", "dtype", value.NewList(tensor.Float64)))
	if tensor.At[float64](x, 1) != tensor.At[float64](x, 3) || tensor.At[float64](x, 0) <= 0 {
		t.Errorf("not symmetric: %v", tensor.Data[float64](x)[:9])
	}
	x = draw(t, arg(t, "shape", shape(2, 3, 4), "gen_fn", "Genfunc.sym_mat", "dtype", value.NewList(tensor.Float64)))
	if !slices.Equal(x.Shape, []int{2, 3, 3}) {
		t.Errorf("A of 3 rows gives %v, want 3 by 3", x.Shape)
	}
}

// TestStreams checks that a case's values depend on its name and the seed only.
func TestStreams(t *testing.T) {
	c := arg(t, "shape", shape(8), "dtype", value.NewList(tensor.Float64))
	other := &configs.Case{Name: "other", Item: c.Item}
	at := func(c *configs.Case, seed uint64) float64 {
		in, err := Draw(c, seed)
		if err != nil {
			t.Fatal(err)
		}
		v, _ := in.Kwargs.Get("input")
		return tensor.At[float64](v.(*tensor.Tensor), 7)
	}
	if at(c, 1) != at(c, 1) {
		t.Error("the same case and seed give other values")
	}
	if at(c, 1) == at(c, 2) || at(c, 1) == at(other, 1) {
		t.Error("another seed or name gives the same values")
	}
}

func TestErrors(t *testing.T) {
	f32 := value.NewList(tensor.Float32)
	for want, c := range map[string]*configs.Case{
		`gen_fn "nope" is not known`: arg(t, "shape", shape(2), "dtype", f32, "gen_fn", "Genfunc.nope"),
		`gen_policy "nope" is not`:   arg(t, "shape", shape(2), "dtype", f32, "gen_policy", "nope"),
		"is not above low": arg(t, "shape", shape(2), "dtype", f32, "gen_fn",
			spec("randint", int64(3), int64(3))),
		"want matrices": arg(t, "shape", shape(3), "dtype", f32, "gen_fn", "Genfunc.sym_mat"),
		"want sizes":    arg(t, "shape", shape(-1), "dtype", f32),
		"no rectangular shape": arg(t, "value", value.NewList(value.NewList(int64(1), value.NewList())), "dtype", f32,
			"gen_policy", "gen_tensor_by_value"),
		"gen_num_range": arg(t, "shape", shape(2), "dtype", f32, "gen_policy", "gen_tensor_list"),
	} {
		if _, err := Draw(c, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestTooMuch refuses what no memory holds.
func TestTooMuch(t *testing.T) {
	for _, c := range []*configs.Case{
		arg(t, "shape", shape(1<<32, 1<<32, 4), "dtype", value.NewList(tensor.Float32)),
		arg(t, "shape", shape(1000000000, 1000000000), "dtype", value.NewList(tensor.Float32)),
		arg(t, "shape", shape(1), "dtype", value.NewList(tensor.Float32), "gen_policy", "gen_tensor_list",
			"gen_num_range", value.NewList(int64(1e9), int64(2e9))),
	} {
		if _, err := Draw(c, 0); err == nil || !strings.Contains(err.Error(), "argument input: ") {
			t.Errorf("got error %v, want one about the argument", err)
		}
	}
}
