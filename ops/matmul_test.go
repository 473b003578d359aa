package ops

import (
	"math"
	"slices"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// callOp binds and runs a captured name on Python values.
func callOp(t *testing.T, name string, kwargs *value.Dict, args ...value.Value) (*opdef.Call, []*tensor.Tensor, error) {
	t.Helper()
	reg := Default()
	c, err := reg.Bind(name, args, kwargs)
	if err != nil {
		return nil, nil, err
	}
	f, err := c.Forward()
	if err != nil {
		return c, nil, err
	}
	return c, f.Outs, nil
}

func f64s(shape []int, v ...float64) *tensor.Tensor { return tensor.New(tensor.Float64, shape, v) }

func iota64(shape ...int) *tensor.Tensor {
	v := make([]float64, tensor.Numel(shape))
	for i := range v {
		v[i] = float64(i)
	}
	return tensor.New(tensor.Float64, shape, v)
}

// TestLinearOpsGolden compares with results of torch 1.13.1.
func TestLinearOpsGolden(t *testing.T) {
	pair := func(a, b int64) value.Value { return value.NewTuple(a, b) }
	for _, tc := range []struct {
		name, op string
		args     []value.Value
		shape    []int
		want     []float64
	}{
		{"vector times matrix", "torch.matmul", []value.Value{iota64(2), iota64(2, 3)}, []int{3}, []float64{3, 4, 5}},
		{"batch", "torch.Tensor.__matmul__", []value.Value{iota64(2, 1, 2), iota64(2, 1)}, []int{2, 1, 1},
			[]float64{1, 3}},
		{"diagonal", "torch.functional.einsum", []value.Value{"ii->i", iota64(3, 3)}, []int{3}, []float64{0, 4, 8}},
		{"implicit output in order of letters", "torch.functional.einsum", []value.Value{"ba", iota64(2, 3)},
			[]int{3, 2}, []float64{0, 3, 1, 4, 2, 5}},
		{"operands in a list", "torch.einsum", []value.Value{"i,i", value.NewList(iota64(3), iota64(3))}, nil,
			[]float64{5}},
		{"sublists", "torch.einsum", []value.Value{iota64(2, 3), intList(0, 1), intList(1)}, []int{3},
			[]float64{3, 5, 7}},
		{"outer", "torch.ger", []value.Value{iota64(2), iota64(3)}, []int{2, 3}, []float64{0, 0, 0, 0, 1, 2}},
		{"kron", "torch.kron", []value.Value{f64s([]int{2}, 1, 2), f64s([]int{2}, 1, 10)}, []int{4},
			[]float64{1, 10, 2, 20}},
		{"tensordot", "torch.functional.tensordot", []value.Value{iota64(2, 3), iota64(3, 2), int64(1)}, []int{2, 2},
			[]float64{10, 13, 28, 40}},
		{"conv1d same", "torch.nn.functional.conv1d", []value.Value{iota64(1, 1, 4), f64s([]int{1, 1, 2}, 1, 10), nil,
			int64(1), "same"}, []int{1, 1, 4}, []float64{10, 21, 32, 3}},
		{"conv2d stride and padding", "torch.conv2d", []value.Value{iota64(1, 1, 3, 3), f64s([]int{1, 1, 2, 2}, 1, 2, 3,
			4), f64s([]int{1}, 0.5), int64(2), int64(1)}, []int{1, 1, 2, 2}, []float64{0.5, 11.5, 30.5, 67.5}},
		{"conv_transpose1d", "torch.conv_transpose1d", []value.Value{iota64(1, 1, 3), f64s([]int{1, 1, 2}, 1, 10), nil,
			int64(2)}, []int{1, 1, 6}, []float64{0, 0, 1, 10, 2, 20}},
		{"max_pool1d ceil", "torch.max_pool1d", []value.Value{f64s([]int{1, 1, 3}, 3, 1, 2), int64(2), int64(2),
			int64(0), int64(1), true}, []int{1, 1, 2}, []float64{3, 2}},
		{"avg_pool2d padded", "torch.nn.functional.avg_pool2d", []value.Value{iota64(1, 1, 2, 2), int64(2), int64(1),
			int64(1)}, []int{1, 1, 3, 3}, []float64{0, 0.25, 0.25, 0.5, 1.5, 1, 0.5, 1.25, 0.75}},
		{"adaptive pool overlaps", "torch.nn.functional.adaptive_avg_pool2d", []value.Value{iota64(1, 1, 1, 5),
			pair(1, 3)}, []int{1, 1, 1, 3}, []float64{0.5, 2, 3.5}},
		{"pad reflect", "torch.nn.functional.pad", []value.Value{iota64(1, 3), pair(2, 1), "reflect"}, []int{1, 6},
			[]float64{2, 1, 0, 1, 2, 1}},
		{"pad reflects what it cuts", "torch.nn.functional.pad", []value.Value{iota64(1, 8), pair(7, -14), "reflect"},
			[]int{1, 1}, []float64{7}},
		{"pad repeats what it cuts", "torch.nn.functional.pad", []value.Value{iota64(1, 8), pair(-9, 12), "replicate"},
			[]int{1, 11}, []float64{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}},
		{"pad bool by a fraction", "torch.nn.functional.pad",
			[]value.Value{tensor.Full(tensor.Bool, []int{1}, int64(0)), pair(1, 1), "constant", -0.3}, []int{3},
			[]float64{1, 0, 1}},
		{"index_fill from the end", "torch.index_fill", []value.Value{iota64(2, 3), int64(1), ints64([]int{2}, -1, 0),
			9.0}, []int{2, 3}, []float64{9, 1, 9, 9, 4, 9}},
		{"index_fill of a number", "torch.index_fill", []value.Value{tensor.Scalar(tensor.Float64, 1.0), int64(0),
			ints64([]int{3}, -1, 0, 0), 9.0}, []int{}, []float64{9}},
		{"roll without dims", "torch.roll", []value.Value{iota64(1, 3), int64(1), nil}, []int{1, 3},
			[]float64{2, 0, 1}},
		{"pad circular cut", "torch.nn.functional.pad", []value.Value{iota64(1, 4), pair(-1, 1), "circular"},
			[]int{1, 4}, []float64{1, 2, 3, 1}},
		{"pixel_shuffle", "torch.pixel_shuffle", []value.Value{iota64(4, 1, 1), int64(2)}, []int{1, 2, 2},
			[]float64{0, 1, 2, 3}},
		{"interpolate bilinear", "torch.nn.functional.interpolate", []value.Value{iota64(1, 1, 2, 2), pair(2, 4), nil,
			"bilinear"}, []int{1, 1, 2, 4}, []float64{0, 0.25, 0.75, 1, 2, 2.25, 2.75, 3}},
		{"interpolate nearest", "torch.nn.functional.interpolate", []value.Value{iota64(1, 1, 3), int64(5)},
			[]int{1, 1, 5}, []float64{0, 0, 1, 1, 2}},
		{"grid_sample zeros", "torch.nn.functional.grid_sample", []value.Value{iota64(1, 1, 2, 2),
			f64s([]int{1, 1, 2, 2}, 0, 0, 1, 1)}, []int{1, 1, 1, 2}, []float64{1.5, 0.75}},
		{"cdist", "torch.cdist", []value.Value{f64s([]int{1, 2}, 0, 0), f64s([]int{1, 2}, 3, 4)}, []int{1, 1},
			[]float64{5}},
		{"irfft", "torch.fft.irfft", []value.Value{f64s([]int{3}, 6, 1, 2)}, []int{4}, []float64{2.5, 1, 1.5, 1}},
		{"det", "torch.det", []value.Value{f64s([]int{2, 2}, 1, 2, 3, 5)}, nil, []float64{-1}},
		{"solve", "torch.linalg.solve", []value.Value{f64s([]int{2, 2}, 2, 0, 0, 4), f64s([]int{2}, 2, 2)}, []int{2},
			[]float64{1, 0.5}},
		{"cholesky", "torch.linalg.cholesky", []value.Value{f64s([]int{2, 2}, 4, 2, 2, 5)}, []int{2, 2},
			[]float64{2, 0, 1, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, outs, err := callOp(t, tc.op, nil, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			got := tensor.Data[float64](outs[0])
			if !slices.Equal(outs[0].Shape, tc.shape) ||
				!slices.EqualFunc(got, tc.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
				t.Errorf("%s = %v %v, want %v %v", tc.op, outs[0].Shape, got, tc.shape, tc.want)
			}
		})
	}
}

// TestMatmulNonFinite: a zero times infinity is NaN, whatever routine the
// product of this size goes through.
func TestMatmulNonFinite(t *testing.T) {
	for _, n := range []int{2, 16} {
		x, y := make([]float64, n*n), make([]float64, n*n)
		y[1] = math.Inf(1)
		_, outs, err := callOp(t, "torch.mm", nil, tensor.New(tensor.Float64, []int{n, n}, x),
			tensor.New(tensor.Float64, []int{n, n}, y))
		if err != nil {
			t.Fatal(err)
		}
		got := tensor.Data[float64](outs[0])
		if !math.IsNaN(got[1]) || got[0] != 0 {
			t.Errorf("n = %d: got %v, want 0 and NaN", n, got[:2])
		}
	}
}

// TestConvBlocks compares a convolution of several blocks and groups with the
// direct sum.
func TestConvBlocks(t *testing.T) {
	const channels, size, out = 40, 34, 6
	x := make([]int64, 2*channels*size*size)
	w := make([]int64, out*channels/2*9)
	for i := range x {
		x[i] = int64(i*7%11) - 5
	}
	for i := range w {
		w[i] = int64(i*5%7) - 3
	}
	shape := []int{2, channels, size, size}
	wshape := []int{out, channels / 2, 3, 3}
	args := []value.Value{nil, int64(1), int64(1), int64(1), int64(2)}
	_, exact, err := callOp(t, "torch.conv2d", nil,
		append([]value.Value{tensor.New(tensor.Int64, shape, x), tensor.New(tensor.Int64, wshape, w)}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	asFloat := func(v []int64) []float64 {
		f := make([]float64, len(v))
		for i, x := range v {
			f[i] = float64(x)
		}
		return f
	}
	_, outs, err := callOp(t, "torch.conv2d", nil, append([]value.Value{tensor.New(tensor.Float64, shape, asFloat(x)),
		tensor.New(tensor.Float64, wshape, asFloat(w))}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	want := int64(0) // the element at channel 4 (group 1), position (33, 1) of sample 1
	for c := range channels / 2 {
		for i := range 3 {
			for j := range 3 {
				if r := 32 + i; r < size {
					want += w[((4*channels/2+c)*3+i)*3+j] * x[((channels+channels/2+c)*size+r)*size+j]
				}
			}
		}
	}
	at := ((out+4)*size+33)*size + 1
	if got := tensor.Data[int64](exact[0]); got[at] != want {
		t.Errorf("int64 element %d = %d, want %d", at, got[at], want)
	}
	if got := tensor.Data[float64](outs[0]); !slices.Equal(got, asFloat(tensor.Data[int64](exact[0]))) {
		t.Error("float64 result differs from the exact one of integers")
	}
}

// TestFactorsReconstruct checks factorisations by what they multiply to.
func TestFactorsReconstruct(t *testing.T) {
	a := f64s([]int{3, 3}, 2, -1, 0.5, 3, 1, 4, -2, 0, 1)
	reg := Default()
	for name, scaled := range map[string]int{"torch.linalg.qr": 1, "torch.linalg.svd": 1, "torch.linalg.eig": 0} {
		c, err := reg.Bind(name, []value.Value{a}, nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.Forward()
		if err != nil {
			t.Fatal(err)
		}
		as, ok := c.Accept(f.Outs, f.Outs)
		if !ok || !as[0].OK {
			t.Errorf("%s does not reconstruct its argument: %+v", name, as)
		}
		wrong := slices.Clone(f.Outs)
		wrong[scaled] = opdef.Map(tensor.Complex128, opdef.Cast(wrong[scaled], tensor.Complex128),
			func(x complex128) complex128 { return x * 1.01 })
		if as, _ := c.Accept(f.Outs, f.Outs); len(as) != len(f.Outs) {
			t.Errorf("%s: %d decisions for %d results", name, len(as), len(f.Outs))
		}
		if as, _ := c.Accept(wrong, f.Outs); as[0].OK {
			t.Errorf("%s accepts a wrong factor", name)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		op   string
		args []value.Value
		want string
	}{
		{"torch.mm", []value.Value{iota64(2, 3), iota64(2, 3)},
			`op mm: argument "mat2": size 2 of dimension 0 does not match size 3 of dimension 1 of "self"`},
		{"torch.einsum", []value.Value{"ij,jk", iota64(2, 3)},
			`op einsum: argument "equation": "ij,jk" has 2 operands, got 1`},
		{"torch.conv2d", []value.Value{iota64(1, 2, 3, 3), iota64(1, 3, 2, 2)},
			`op conv2d: argument "input": want 3 channels for weight of shape [1, 3, 2, 2] in 1 groups, got shape [1, 2, 3, 3]`},
		{"torch.nn.functional.max_pool2d", []value.Value{iota64(1, 4, 4), int64(2), nil, int64(2)},
			`op max_pool2d: argument "padding": 2 is more than half of kernel size 2`},
		{"torch.nn.functional.interpolate", []value.Value{iota64(1, 1, 4)},
			`op interpolate: argument "size": want size or scale_factor`},
		{"torch.linalg.inv", []value.Value{f64s([]int{2, 2}, 1, 2, 2, 4)},
			`op inverse: argument "A": matrix 0 is singular: diagonal element 2 of its factor is zero`},
	} {
		if _, _, err := callOp(t, tc.op, nil, tc.args...); err == nil || err.Error() != tc.want {
			t.Errorf("%s: error %v, want %s", tc.op, err, tc.want)
		}
	}
}

// benchmarkOp measures an op of so many floating-point operations.
func benchmarkOp(b *testing.B, flops float64, name string, args ...value.Value) {
	reg := Default()
	c, err := reg.Bind(name, args, nil)
	if err != nil {
		b.Fatal(err)
	}
	size := int64(0)
	for _, t := range value.Tensors(value.NewTuple(args...)) {
		size += t.Bytes()
	}
	b.SetBytes(size)
	for b.Loop() {
		if _, err := c.Forward(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

func BenchmarkLinear(b *testing.B) {
	benchmarkOp(b, 2*512*512*512, "torch.nn.functional.linear", iota64(512, 512), iota64(512, 512))
}

func BenchmarkConv2d(b *testing.B) {
	benchmarkOp(b, 2*2*64*64*9*56*56, "torch.nn.functional.conv2d", iota64(2, 64, 56, 56), iota64(64, 64, 3, 3), nil,
		int64(1), int64(1))
}

func BenchmarkConv2dDepthwise(b *testing.B) {
	benchmarkOp(b, 2*2*128*9*56*56, "torch.nn.functional.conv2d", iota64(2, 128, 56, 56), iota64(128, 1, 3, 3), nil,
		int64(1), int64(1), int64(1), int64(128))
}

func intList(v ...int64) value.Value {
	l := value.NewList()
	for _, x := range v {
		l.Items = append(l.Items, x)
	}
	return l
}
