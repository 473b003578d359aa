package opdef

import (
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

type everything struct {
	Self    *tensor.Tensor
	Other   *tensor.Tensor
	Maybe   *tensor.Tensor
	List    []*tensor.Tensor
	Holes   []*tensor.Tensor
	Scalar  Scalar
	Mscalar *Scalar
	Int     int
	Mint    *int
	Ints    []int
	Two     []int
	Mints   []int
	Float   float64
	Mfloat  *float64
	Floats  []float64
	Bool    bool
	Mbool   *bool
	Str     string
	Mstr    *string
	Dtype   *tensor.DType
	Any     value.Value
	Scalars []Scalar
}

const everySchema = "every(Tensor self, Tensor|Scalar other=1, Tensor? maybe=None, Tensor[] list=[], Tensor?[] " +
	"holes=[], " +
	"Scalar scalar=2.5, Scalar? mscalar=None, int int=3, int? mint=None, int[] ints=[1, 2], int[2] two=7, int[]? " +
	"mints=None, " +
	"float float=inf, float? mfloat=None, float[] floats=[0.5], bool bool=True, bool? mbool=None, str str='none', " +
	"str? mstr=None, " +
	"dtype? dtype=None, any any=None, Scalar[] scalars=[], Device? device=None, Generator? generator=None) -> Tensor"

// echo is an op of the arguments A that returns its first tensor.
func echo[A any](schema, names string, first func(*A) *tensor.Tensor) Op[A] {
	return Op[A]{
		Schema: schema, Names: names,
		Doc:    Doc{Summary: "Itself", Source: "none"},
		Traits: Traits{NoGrad: "a test"},
		Kernel: func(a *A) ([]*tensor.Tensor, error) { return []*tensor.Tensor{first(a)}, nil },
		Cases:  func(Gen) []*A { return nil },
	}
}

func everyEntry(t *testing.T) *Entry {
	e := echo(everySchema, "", func(a *everything) *tensor.Tensor { return a.Self }).Entry()
	if e.problem != nil {
		t.Fatal(e.problem)
	}
	return e
}

func keywords(kv ...any) *value.Dict {
	d := &value.Dict{}
	for i := 0; i < len(kv); i += 2 {
		d.Items = append(d.Items, value.Item{Key: kv[i], Value: kv[i+1]})
	}
	return d
}

var x = tensor.New(tensor.Float32, []int{2}, []float64{1, 2})

func TestBindDefaults(t *testing.T) {
	c, err := everyEntry(t).Bind("torch.every", []value.Value{x}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := c.Args().(*everything)
	switch {
	case a.Self != x, a.Other.Item() != 1, !a.Other.Wrapped, a.Maybe != nil, len(a.List) != 0, len(a.Holes) != 0:
		t.Errorf("tensors %+v", a)
	case a.Scalar != Float(2.5), a.Mscalar != nil, a.Int != 3, a.Mint != nil, !slices.Equal(a.Ints, []int{1, 2}),
		!slices.Equal(a.Two, []int{7, 7}), a.Mints != nil:
		t.Errorf("integers %+v", a)
	case a.Float <= 1e308, a.Mfloat != nil, !slices.Equal(a.Floats, []float64{0.5}), !a.Bool, a.Mbool != nil,
		a.Str != "none", a.Mstr != nil, a.Dtype != nil, a.Any != nil, len(a.Scalars) != 0:
		t.Errorf("others %+v", a)
	}
}

func TestBindConversions(t *testing.T) {
	e := everyEntry(t)
	zero := func(dt tensor.DType, v int64) *tensor.Tensor { return tensor.Scalar(dt, v) }
	huge := new(big.Int).Lsh(big.NewInt(1), 70)
	quantised, err := tensor.NewView(tensor.NewStorage([]byte{1}), tensor.View{DType: tensor.QInt8, Shape: []int{1},
		Stride: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		arg  string
		v    value.Value
		got  func(a *everything) any // nil: want is an error
		want any
	}{
		{"other", 2.5, func(a *everything) any { return a.Other.Item() }, 2.5},
		{"other", true, func(a *everything) any { return a.Other.DType }, tensor.Bool},
		{"other", x, func(a *everything) any { return a.Other }, x},
		{"other", complex(1, 2), func(a *everything) any { return a.Other.DType }, tensor.Complex128},
		{"other", "text", nil, "want Tensor, got str"},
		{"other", nil, nil, "want Tensor, got None"},
		{"self", 1.5, nil, "want Tensor, got float"},
		{"self", quantised, nil, "dtype qint8 has no values to compute with"},
		{"maybe", nil, func(a *everything) any { return a.Maybe == nil }, true},
		{"maybe", x, func(a *everything) any { return a.Maybe }, x},
		{"maybe", 1.5, nil, "want Tensor, got float"},
		{"list", value.NewTuple(x, x), func(a *everything) any { return len(a.List) }, 2},
		{"list", value.NewList(x, nil), nil, "item 1: want Tensor, got None"},
		{"list", x, nil, "want a sequence of Tensor, got tensor float32[2]"},
		{"list", &value.Sequence{Kind: value.Set, Items: []value.Value{x}}, nil, "want a sequence of Tensor, got set"},
		{"holes", value.NewList(x, nil), func(a *everything) any { return a.Holes[1] == nil }, true},
		{"scalar", int64(4), func(a *everything) any { return a.Scalar }, Int(4)},
		{"scalar", zero(tensor.Float16, 4), func(a *everything) any { return a.Scalar }, Float(4)},
		{"scalar", zero(tensor.Bool, 1), func(a *everything) any { return a.Scalar }, Bool(true)},
		{"scalar", huge, func(a *everything) any { return a.Scalar }, Float(0x1p70)},
		{"scalar", x, nil, "want Scalar, got tensor float32[2]"},
		{"scalar", nil, nil, "want Scalar, got None"},
		{"mscalar", complex(0, 1), func(a *everything) any { return *a.Mscalar }, Cplx(1i)},
		{"mscalar", nil, func(a *everything) any { return a.Mscalar == nil }, true},
		{"int", int64(-1), func(a *everything) any { return a.Int }, -1},
		{"int", zero(tensor.Int32, 9), func(a *everything) any { return a.Int }, 9},
		{"int", 1.0, nil, "want int, got float"},
		{"int", true, nil, "want int, got bool"},
		{"int", huge, nil, "want int, got int"},
		{"mint", int64(5), func(a *everything) any { return *a.Mint }, 5},
		{"mint", "5", nil, "want int, got str"},
		{"ints", value.NewTuple(int64(3), zero(tensor.Int64, 4)),
			func(a *everything) any { return slices.Equal(a.Ints, []int{3, 4}) }, true},
		{"ints", &value.Sequence{Kind: value.Tuple, Class: "torch.Size", Items: []value.Value{int64(3)}},
			func(a *everything) any { return len(a.Ints) }, 1},
		{"ints", value.NewTuple(int64(3), 0.5), nil, "item 1: want int, got float"},
		{"ints", int64(3), nil, "want a sequence of int, got int"},
		{"ints", nil, nil, "want a sequence of int, got None"},
		{"scalars", nil, func(a *everything) any { return a.Scalars != nil && len(a.Scalars) == 0 }, true},
		{"two", int64(3), func(a *everything) any { return slices.Equal(a.Two, []int{3, 3}) }, true},
		{"two", value.NewList(int64(3), int64(4)), func(a *everything) any { return slices.Equal(a.Two, []int{3, 4}) },
			true},
		{"two", 0.5, nil, "want a sequence of int or one int, got float"},
		{"mints", nil, func(a *everything) any { return a.Mints == nil }, true},
		{"mints", value.NewList(), func(a *everything) any { return a.Mints != nil }, true},
		{"float", int64(2), func(a *everything) any { return a.Float }, 2.0},
		{"float", true, func(a *everything) any { return a.Float }, 1.0},
		{"float", complex(1, 0), nil, "want float, got complex"},
		{"mfloat", 0.25, func(a *everything) any { return *a.Mfloat }, 0.25},
		{"floats", value.NewList(int64(1)), func(a *everything) any { return a.Floats[0] }, 1.0},
		{"bool", false, func(a *everything) any { return a.Bool }, false},
		{"bool", int64(1), nil, "want bool, got int"},
		{"mbool", false, func(a *everything) any { return *a.Mbool }, false},
		{"str", "mean", func(a *everything) any { return a.Str }, "mean"},
		{"str", nil, nil, "want str, got None"},
		{"mstr", "m", func(a *everything) any { return *a.Mstr }, "m"},
		{"dtype", tensor.BFloat16, func(a *everything) any { return *a.Dtype }, tensor.BFloat16},
		{"dtype", &value.Opaque{Global: "builtins.int"}, func(a *everything) any { return *a.Dtype }, tensor.Int64},
		{"dtype", &value.Opaque{Global: "builtins.float"}, func(a *everything) any { return *a.Dtype }, tensor.Float64},
		{"dtype", &value.Opaque{Global: "builtins.bool"}, func(a *everything) any { return *a.Dtype }, tensor.Bool},
		{"dtype", &value.Opaque{Global: "builtins.str"}, nil, "want dtype, got builtins.str"},
		{"dtype", &value.Opaque{Global: "mypkg.int"}, nil, "want dtype, got mypkg.int"},
		{"dtype", tensor.QInt8, nil, "dtype qint8 has no values to compute with"},
		{"dtype", "float32", nil, "want dtype, got str"},
		{"any", value.Slice{}, func(a *everything) any { return a.Any }, value.Slice{}},
		{"any", nil, func(a *everything) any { return a.Any }, nil},
		{"scalars", value.NewList(int64(1), 2.5), func(a *everything) any { return a.Scalars[1] }, Float(2.5)},
		{"device", "npu:0", func(a *everything) any { return a.Self }, x},
		{"nothing", int64(1), nil, `unexpected keyword argument "nothing"`},
	} {
		args, kwargs := []value.Value{x}, keywords(tc.arg, tc.v)
		if tc.arg == "self" {
			args = nil
		}
		c, err := e.Bind("torch.every", args, kwargs)
		if tc.got == nil {
			var refused *RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), tc.want.(string)) || refused.Op != "every" {
				t.Errorf("%s=%s: error %v, want %q", tc.arg, value.Repr(tc.v), err, tc.want)
			} else if tc.arg != "nothing" && !strings.Contains(err.Error(), `argument "`+tc.arg+`"`) {
				t.Errorf("%s=%s: error %v does not name the argument", tc.arg, value.Repr(tc.v), err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s=%s: %v", tc.arg, value.Repr(tc.v), err)
			continue
		}
		if got := tc.got(c.Args().(*everything)); got != tc.want {
			t.Errorf("%s=%s gives %v, want %v", tc.arg, value.Repr(tc.v), got, tc.want)
		}
	}
}

type dimArgs struct {
	Self    *tensor.Tensor
	Dim     int
	Keepdim bool
}

type sizeArgs struct {
	Self *tensor.Tensor
	Size []int
}

type tensorsArgs struct{ Tensors []*tensor.Tensor }

func TestBindForms(t *testing.T) {
	dim := echo("f(Tensor self, int dim, *, bool keepdim=False) -> Tensor", "",
		func(a *dimArgs) *tensor.Tensor { return a.Self }).Entry()
	size := echo("view(Tensor self, int[]... size) -> Tensor", "",
		func(a *sizeArgs) *tensor.Tensor { return a.Self }).Entry()
	all := echo("meshgrid(Tensor[]... tensors) -> Tensor", "",
		func(a *tensorsArgs) *tensor.Tensor { return a.Tensors[0] }).Entry()
	one := int64(1)
	for _, tc := range []struct {
		e      *Entry
		args   []value.Value
		kwargs *value.Dict
		want   string // of the Python form, or the error
	}{
		{dim, []value.Value{x, one}, nil, "[tensor(float32[2]), 1] {'keepdim': False}"},
		{dim, []value.Value{x}, keywords("axis", one, "keepdims", true), "[tensor(float32[2]), 1] {'keepdim': True}"},
		{dim, nil, keywords("dim", one, "input", x), "[tensor(float32[2]), 1] {'keepdim': False}"},
		{dim, nil, keywords("x", x, "dim", one), "[tensor(float32[2]), 1] {'keepdim': False}"},
		{dim, []value.Value{x}, nil, `op f: argument "dim": missing`},
		{dim, nil, nil, `op f: argument "self": missing`},
		{dim, []value.Value{x, one, true}, nil, "op f: takes 2 positional arguments, got 3"},
		{dim, []value.Value{x, one}, keywords("dim", one), `op f: argument "dim": given twice`},
		{dim, []value.Value{x, one}, keywords("axis", one), `op f: unexpected keyword argument "axis"`},
		{dim, []value.Value{x, one}, keywords(one, one), `op f: unexpected keyword argument`},
		{size, []value.Value{x, one, one}, nil, "[tensor(float32[2]), [1, 1]] {}"},
		{size, []value.Value{x, value.NewTuple(one, one)}, nil, "[tensor(float32[2]), [1, 1]] {}"},
		{size, []value.Value{x}, keywords("size", value.NewList(one)), "[tensor(float32[2]), [1]] {}"},
		{size, []value.Value{x}, nil, `op view: argument "size": missing`},
		{size, []value.Value{x, one, 0.5}, nil, `op view: argument "size": item 1: want int, got float`},
		{size, []value.Value{x, value.NewTuple(one), one}, nil, "op view: takes 2 positional arguments, got 3"},
		{all, []value.Value{x, x}, nil, "[[tensor(float32[2]), tensor(float32[2])]] {}"},
		{all, []value.Value{value.NewList(x, x)}, nil, "[[tensor(float32[2]), tensor(float32[2])]] {}"},
	} {
		c, err := tc.e.Bind("torch.f", tc.args, tc.kwargs)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			args, kwargs := c.Python()
			got = value.Repr(value.NewList(args...)) + " " + value.Repr(kwargs)
		}
		if !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s with %s, %v: got %q, want %q", tc.e.Op(), value.Repr(value.NewList(tc.args...)), tc.kwargs,
				got, tc.want)
		}
	}
}

// TestBindOut: a result is written to out=, or to the argument out where the schema has a place for it.
func TestBindOut(t *testing.T) {
	byKeyword := echo("f(Tensor self) -> Tensor", "", func(a *selfArgs) *tensor.Tensor { return a.Self }).Entry()
	byPlace := echo("f(Tensor self, Out? out=None) -> Tensor", "",
		func(a *selfArgs) *tensor.Tensor { return a.Self }).Entry()
	for _, tc := range []struct {
		e      *Entry
		args   []value.Value
		kwargs *value.Dict
		want   bool // the result is written
	}{
		{byKeyword, []value.Value{x}, nil, false}, {byKeyword, []value.Value{x}, keywords("out", x), true},
		{byKeyword, []value.Value{x}, keywords("out", nil), false}, {byPlace, []value.Value{x}, nil, false},
		{byPlace, []value.Value{x, nil}, nil, false}, {byPlace, []value.Value{x, x}, nil, true},
		{byPlace, []value.Value{x}, keywords("out", x), true},
	} {
		c, err := tc.e.Bind("torch.f", tc.args, tc.kwargs)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := c.Forward(); err != nil || f.Written != tc.want {
			t.Errorf("%s with %s, %v: written %t, error %v", tc.e.Op(), value.Repr(value.NewList(tc.args...)),
				tc.kwargs, f.Written, err)
		}
	}
	if _, err := byPlace.Bind("torch.f", []value.Value{x, 1.5}, nil); err == nil ||
		err.Error() != `op f: argument "out": want a tensor, got float` {
		t.Errorf("a number to write to: %v", err)
	}
}

// TestPython binds the Python form of a call and gets the call back.
func TestPython(t *testing.T) {
	e := everyEntry(t)
	half, yes, name, dt, n := 0.5, true, "m", tensor.Float16, 4
	s := Cplx(2i)
	c := e.NewCall(&everything{
		Self: x, Other: tensor.Wrap(2.5), Maybe: x, List: []*tensor.Tensor{x}, Holes: []*tensor.Tensor{nil, x},
		Scalar: Bool(true), Mscalar: &s,
		Int: 1, Mint: &n, Ints: []int{1}, Two: []int{1, 2}, Mints: []int{}, Float: 1, Mfloat: &half,
		Floats: []float64{1}, Bool: true, Mbool: &yes,
		Str: "s", Mstr: &name, Dtype: &dt, Any: value.Ellipsis{}, Scalars: []Scalar{Int(1)},
	})
	args, kwargs := c.Python()
	back, err := e.Bind("torch.every", args, kwargs)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := back.Python()
	got, want := value.Repr(value.NewList(again...)), value.Repr(value.NewList(args...))
	if got != want {
		t.Errorf("Python form %s, want %s", got, want)
	}
	if want := "[tensor(float32[2]), 2.5, tensor(float32[2]), [tensor(float32[2])], [None, tensor(float32[2])], " +
		"True, 2j, 1, 4, [1], [1, 2], [], 1.0, 0.5, [1.0], True, True, 's', 'm', torch.float16, Ellipsis, [1], " +
		"None, None]"; got != want {
		t.Errorf("Python form %s, want %s", got, want)
	}
	doubled := c.MapScalars(func(s Scalar) Scalar { return Float(2 * s.Float64()) }).MapDTypes(
		func(tensor.DType) tensor.DType { return tensor.Float64 }).Args().(*everything)
	if doubled.Scalar != Float(2) || *doubled.Mscalar != Float(0) || doubled.Scalars[0] != Float(2) ||
		*doubled.Dtype != tensor.Float64 || dt != tensor.Float16 || s != Cplx(2i) {
		t.Errorf("mapped %+v", doubled)
	}
}

func TestWritten(t *testing.T) {
	e := Binary{
		Name: "plus", Names: "plus Tensor.plus Tensor.__add__",
		Traits: Traits{InPlace: true, NoGrad: "a test"},
		Doc:    Doc{Summary: "Sum", Source: "none"},
		F:      func(x, y float64) float64 { return x + y }, I: func(x, y int64) int64 { return x + y },
	}.Entry()
	if e.problem != nil {
		t.Fatal(e.problem)
	}
	half := tensor.New(tensor.Float16, []int{2}, []float64{1, 2})
	ints := tensor.New(tensor.Int32, []int{2}, []int64{1, 2})
	row := tensor.New(tensor.Float32, []int{1, 2}, []float64{1, 2})
	expanded := tensor.Full(tensor.Float32, []int{2}, 1.0)
	for _, tc := range []struct {
		name   string
		args   []value.Value
		kwargs *value.Dict
		want   string // Meta of the result, or the error
	}{
		{"torch.Tensor.plus_", []value.Value{half, x}, nil, "float16[2]"},
		{"torch.Tensor.__iadd__", []value.Value{x, half}, nil, "float32[2]"},
		{"torch.Tensor.__add__", []value.Value{half, x}, nil, "float32[2]"},
		{"torch.Tensor.plus_", []value.Value{ints, x}, nil,
			`argument "self": a result of dtype float32 cannot be written to dtype int32`},
		{"torch.Tensor.plus_", []value.Value{x, row}, nil,
			`argument "self": shape [2] does not hold the result's shape [1, 2]`},
		{"torch.Tensor.plus_", []value.Value{expanded, x}, nil,
			`argument "self": several elements share one memory location`},
		{"torch.plus", []value.Value{x, x}, keywords("out", half), "float16[2]"},
		{"torch.plus", []value.Value{x, x}, keywords("out", nil), "float32[2]"},
		{"torch.plus", []value.Value{x, x}, keywords("out", ints),
			`argument "out": a result of dtype float32 cannot be written to dtype int32`},
		{"torch.plus", []value.Value{x, x}, keywords("out", value.NewTuple(half)), "float16[2]"},
		{"torch.plus", []value.Value{x, x}, keywords("out", value.NewTuple(half, half)),
			`argument "out": want 1 tensors, got 2`},
		{"torch.plus", []value.Value{x, x}, keywords("out", 1.5), `argument "out": want a tensor, got float`},
		{"torch.plus", []value.Value{x, x}, keywords("out", value.NewTuple(nil)),
			`argument "out": want tensors, got None`},
	} {
		got := ""
		c, err := e.Bind(tc.name, tc.args, tc.kwargs)
		if err == nil {
			var f *Forward
			if f, err = c.Forward(); err == nil {
				got = f.Outs[0].Meta()
				wantWritten := IsInPlaceName(tc.name) || tc.kwargs != nil && tc.kwargs.Items[0].Value != nil
				if f.Written != wantWritten || (len(c.Written()) > 0) != wantWritten {
					t.Errorf("%s: written %v", tc.name, f.Written)
				}
				if v := tensor.Data[float64](f.Outs[0]); !slices.Equal(v, []float64{2, 4}) {
					t.Errorf("%s: %v, want [2 4]", tc.name, v)
				}
			}
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tc.want) {
			t.Errorf("%s(%s): %q, want %q", tc.name, value.Repr(value.NewList(tc.args...)), got, tc.want)
		}
	}
}

func TestInPlaceNames(t *testing.T) {
	for name, want := range map[string]bool{
		"torch.Tensor.add_": true, "torch.Tensor.__iadd__": true, "torch.relu_": true, "torch.Tensor.__add__": false,
		"torch.add":             false,
		"torch.Tensor.__init__": false, "torch.Tensor.__int__": false, "torch.nn.functional.relu": false,
		"torch.Tensor.__ior__": true,
	} {
		if got := IsInPlaceName(name); got != want {
			t.Errorf("IsInPlaceName(%q) = %v", name, got)
		}
	}
	got := expandNames("f", "f Tensor.__add__ Tensor.__radd__ F.g", true)
	want := []string{"torch.f", "torch.f_", "torch.Tensor.__add__", "torch.Tensor.__iadd__", "torch.Tensor.__radd__",
		"torch.nn.functional.g", "torch.nn.functional.g_"}
	if !slices.Equal(got, want) {
		t.Errorf("expandNames: %q, want %q", got, want)
	}
}

func TestFullName(t *testing.T) {
	for short, want := range map[string]string{
		"relu": "torch.relu", "Tensor.relu": "torch.Tensor.relu", "F.relu": "torch.nn.functional.relu",
		"nn.functional.relu": "torch.nn.functional.relu", "linalg.det": "torch.linalg.det",
		"_C._nn.linear": "torch._C._nn.linear", "torch.relu": "torch.relu",
		"torch_npu.npu_swiglu": "torch_npu.npu_swiglu", "torchvision.ops.nms": "torchvision.ops.nms",
		"torch.ops.torchvision.nms":  "torch.ops.torchvision.nms",
		"flash_attn.flash_attn_func": "flash_attn.flash_attn_func", "mmcv.ops.nms": "mmcv.ops.nms",
	} {
		if got := FullName(short); got != want {
			t.Errorf("FullName(%q) = %q, want %q", short, got, want)
		}
	}
	got := expandNames("npu_swiglu", "torch_npu.npu_swiglu", true)
	if want := []string{"torch_npu.npu_swiglu", "torch_npu.npu_swiglu_"}; !slices.Equal(got, want) {
		t.Errorf("expandNames: %q, want %q", got, want)
	}
}
