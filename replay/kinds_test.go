package replay_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// resultsOf are the results that the reference of an operator gives, as they are recorded.
func resultsOf(t *testing.T, opt replay.Options, op string, args ...value.Value) []*tensor.Tensor {
	t.Helper()
	call, err := opt.Registry.Bind(op, args, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := call.Forward()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]*tensor.Tensor, len(f.Outs))
	for i, o := range f.Outs {
		out[i] = o.Rounded()
	}
	return out
}

// at is a tensor whose element i is that of t at from(i).
func at[T tensor.Elem](t *tensor.Tensor, from func(i int) int) *tensor.Tensor {
	v, out := make([]T, t.Numel()), make([]T, t.Numel())
	tensor.Load(t, 0, v)
	for i := range out {
		out[i] = v[from(i)]
	}
	return tensor.New(t.DType, t.Shape, out).Rounded()
}

// halfOf is a float32 tensor in another dtype.
func halfOf(dt tensor.DType, t *tensor.Tensor) *tensor.Tensor {
	return opdef.Map(dt, t, func(x float64) float64 { return x }).Rounded()
}

// TestCausesOfKinds: mistakes that follow from what a kernel takes for another thing, in results.
func TestCausesOfKinds(t *testing.T) {
	opt, r := options(t), rand.New(rand.NewPCG(35, 2))
	random := func(shape ...int) *tensor.Tensor { return normal(r, shape) }
	first := func(op string, args ...value.Value) *tensor.Tensor { return resultsOf(t, opt, op, args...)[0] }
	joined := func(a, b *tensor.Tensor, second func(i int) bool) *tensor.Tensor {
		return opdef.ZipAt(a.DType, a.Shape, func(lo int, dst []float64, src [][]float64) {
			for i := range dst {
				if dst[i] = src[0][i]; second(lo + i) {
					dst[i] = src[1][i]
				}
			}
		}, a, b).Rounded()
	}
	whole := func(dt tensor.DType, of func(i int) int64, shape ...int) *tensor.Tensor {
		v := make([]int64, tensor.Numel(shape))
		for i := range v {
			v[i] = of(i)
		}
		return tensor.New(dt, shape, v).Rounded()
	}
	relu := halfOf(tensor.BFloat16, random(20, 30))
	order := r.Perm(2000)
	wholes := whole(tensor.Int64, func(i int) int64 { return int64(order[i]) - 1000 }, 12, 20)
	magnitudes := whole(tensor.Int64, func(i int) int64 {
		return max(int64(order[i])-1000, 1000-int64(order[i]))
	}, 12, 20)
	byMagnitude := resultsOf(t, opt, "torch.sort", magnitudes, int64(1))[1]
	bytes := whole(tensor.Int8, func(i int) int64 { return int64(order[i]%128) - 128*int64(i%5/4) - 64 }, 6, 20)
	bytes = whole(tensor.Int8, func(i int) int64 {
		if i%20 == 7 {
			return -128
		}
		return tensor.At[int64](bytes, i) / 2
	}, 6, 20)
	sorted := resultsOf(t, opt, "torch.sort", bytes, int64(1), true)
	table, index := random(12, 6), whole(tensor.Int64, func(i int) int64 { return int64(order[i] % 12) }, 10)
	words := whole(tensor.Int64, func(i int) int64 { return tensor.At[int64](index, i/2) * int64(1-i%2) }, 10)
	a, b := random(24, 40), random(40, 24)
	cut := opdef.ZipAt(a.DType, a.Shape, func(lo int, dst []float64, src [][]float64) {
		for i := range dst {
			dst[i] = src[0][i] * math.Floor(float64((lo+i)%40)/20)
		}
	}, a).Rounded()
	images, kernels, bias := random(8, 3, 9), random(4, 3, 5), random(4)
	none := tensor.Full(tensor.Float32, []int{4}, 0.0)
	conv := "torch.nn.functional.conv1d"
	for _, tc := range []struct {
		op   string
		args []value.Value
		gave value.Value
		want string
	}{
		{"torch.nn.functional.relu", []value.Value{relu, false},
			first("torch.nn.functional.leaky_relu", relu), "it is computed as leaky_relu"},
		{"torch.sort", []value.Value{wholes, int64(1)}, value.NewTuple(at[int64](wholes, func(i int) int {
			return i/20*20 + int(tensor.At[int64](byMagnitude, i))
		}), byMagnitude), "elements of self are picked by their magnitudes"},
		{"torch.sort", []value.Value{bytes, int64(1), true}, value.NewTuple(at[int64](sorted[0], beforeOthers),
			at[int64](sorted[1], beforeOthers)),
			"elements of self are picked by their negatives, and that of -128 is itself"},
		{"torch.index_select", []value.Value{table, int64(0), index},
			first("torch.index_select", table, int64(0), words), "the bytes of index are read as those of int32"},
		{"torch.matmul", []value.Value{a, b}, joined(first("torch.matmul", a, b), first("torch.matmul", cut, b),
			func(i int) bool { return i%24 >= 16 }),
			"at indices 16 to 23 of dimension 1: indices 0 to 19 of dimension 1 of self are left out"},
		{conv, []value.Value{images, kernels, bias}, joined(first(conv, images, kernels, bias),
			first(conv, images, kernels, none), func(i int) bool { return i%5 > 0 }),
			"at indices 1 to 4 of dimension 2: bias is left out"},
	} {
		causes := explain(entries(t, record(t, tc.op, tc.args, tc.gave))[0], opt)
		if len(causes) == 0 || !says(causes[0], tc.want) {
			t.Errorf("%s: causes %+v, want first %q", tc.op, causes, tc.want)
		}
	}
}

// beforeOthers is the place of what comes first in rows of 20, of which the last should.
func beforeOthers(i int) int {
	if i%20 == 0 {
		return i + 19
	}
	return i - 1
}

// TestCauseWithoutRequiredGradients: arguments of attention whose record does not say that they require a gradient;
// the gradient of the query lacks the scale. It is compared once for the verdict and once more for the cause.
func TestCauseWithoutRequiredGradients(t *testing.T) {
	opt, r := options(t), rand.New(rand.NewPCG(35, 3))
	const op = "torch.nn.functional.scaled_dot_product_attention"
	args := []value.Value{normal(r, []int{2, 6, 16}), normal(r, []int{2, 7, 16}), normal(r, []int{2, 7, 16})}
	for _, a := range args {
		a.(*tensor.Tensor).RequiresGrad = true
	}
	call, err := opt.Registry.Bind(op, args, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := call.Forward()
	if err != nil {
		t.Fatal(err)
	}
	up := normal(r, []int{2, 6, 16})
	grads, err := call.Backward(f, []*tensor.Tensor{up}, map[string]bool{"query": true, "key": true, "value": true})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range args {
		a.(*tensor.Tensor).RequiresGrad = false
	}
	query := opdef.Map(tensor.Float32, grads["query"][0], func(x float64) float64 { return 4 * x }).Rounded()
	e := entries(t, record(t, op, args, f.Outs[0].Rounded(), value.NewTuple(query, grads["key"][0].Rounded(),
		grads["value"][0].Rounded()), value.NewTuple(up)))[0]
	const want = "in the gradient, the factor 0.25 is left out: its operand stays"
	if causes := explain(e, opt); len(causes) != 1 || !says(causes[0], want) {
		t.Errorf("causes %+v, want %q", causes, want)
	}
}
