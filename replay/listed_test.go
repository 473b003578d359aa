package replay_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestCausesOfListedFormulas: formulas and steps that kernels are known to have, in results and in gradients.
func TestCausesOfListedFormulas(t *testing.T) {
	opt, r := options(t), rand.New(rand.NewPCG(35, 4))
	const f32, rows, n = tensor.Float32, 8, 15
	random := func(shape ...int) *tensor.Tensor { return normal(r, shape) }
	of := func(x *tensor.Tensor) []float64 {
		v := make([]float64, x.Numel())
		tensor.Load(x, 0, v)
		return v
	}
	each := func(shape []int, f func(i int) float64) *tensor.Tensor {
		v := make([]float64, tensor.Numel(shape))
		for i := range v {
			v[i] = f(i)
		}
		return tensor.New(f32, shape, v).Rounded()
	}
	x, y, up := random(rows, n), random(rows, n), random(rows, n)
	shape, a, b, g := x.Shape, of(x), of(y), of(up)
	sums, tops, norms := make([]float64, rows), make([]float64, rows), make([]float64, rows)
	for i := range rows {
		tops[i] = math.Inf(-1)
		for _, z := range a[i*n:][:n] {
			sums[i] += math.Exp(z)
			norms[i] += z * z
			tops[i] = max(tops[i], z)
		}
		norms[i] = math.Sqrt(norms[i])
	}
	above := each(shape, func(i int) float64 { return 0.3 + math.Abs(a[i]) })
	turned, also := random(rows, n).Transpose(0, 1), each([]int{rows, n}, func(i int) float64 {
		return 0.5 + math.Abs(b[i])
	}).Transpose(0, 1)
	flat := func(x *tensor.Tensor) []float64 { // in the order of its memory
		return of(x.Transpose(0, 1))
	}
	base := random(n, rows)
	start, firsts, seconds := of(base), flat(turned), flat(also)
	w := random(9, n)
	bias, h := random(9), random(rows, 9)
	gates := of(resultsOf(t, opt, "torch.nn.functional.linear", x, w, bias)[0])
	square := random(9, 9)
	hidden := of(resultsOf(t, opt, "torch.nn.functional.linear", h, square, bias)[0])
	maxnorm := (norms[0] + norms[1]) / 2
	signal, kernel := random(2, 3, 5), random(3, 4, 3)
	incoming := random(2, 4, 11)
	unstrided := of(resultsOf(t, opt, "torch.nn.functional.conv1d", incoming, kernel)[0])
	targets := tensor.New(tensor.Int64, []int{rows}, []int64{3, 0, 8, 1, 2, 7, 3, 9}).Rounded()
	perClass := each([]int{n}, func(i int) float64 { return 0.5 + float64(i%4) })
	ofTargets := 0.0
	for i := range rows {
		ofTargets += of(perClass)[tensor.At[int64](targets, i)]
	}
	one := tensor.Full(f32, nil, 1.0)
	for _, tc := range []struct {
		op    string
		args  []value.Value
		gave  value.Value
		grads []value.Value
		want  string
	}{
		{"torch.nn.functional.softmax", []value.Value{x, int64(1)},
			each(shape, func(i int) float64 { return math.Exp(a[i]) / sums[i/n%4] }), nil,
			"the sum of the exponential of input is that of the first 4 indices of dimension 0 again and again"},
		{"torch.nn.functional.log_softmax", []value.Value{x, int64(1)}, each(shape, func(i int) float64 {
			return a[i] - tops[i/n] - math.Log2(sums[i/n]*math.Exp(-tops[i/n]))
		}), nil, "the logarithm of the sum is that to base 2, after the maximum was subtracted"},
		{"torch.acosh", []value.Value{above}, resultsOf(t, opt, "torch.acosh", above)[0], []value.Value{value.NewTuple(
			each(shape, func(i int) float64 {
				z := of(above)[i]
				return g[i] / math.Sqrt(math.Abs(z*z-1))
			})), value.NewTuple(up)}, "in the gradient, the square root of the magnitude of (the square of self + -1) is taken"},
		{"torch.addcdiv", []value.Value{base, turned, also}, each([]int{n, rows}, func(i int) float64 {
			return start[i] + firsts[i]/seconds[i]
		}), nil, "each of tensor1 and tensor2: the strides of it are ignored"},
		{"torch.pow", []value.Value{2.5, x}, each(shape, func(i int) float64 { return math.Pow(2.5, a[i]) }),
			[]value.Value{value.NewTuple(each(shape, func(i int) float64 {
				return g[i] * math.Pow(2.5, a[i])
			})), value.NewTuple(up)}, "the gradient is that of another formula: the derivative of the exponential lacks log(self)"},
		{"torch.renorm", []value.Value{x, 2.0, int64(0), maxnorm}, each(shape, func(i int) float64 {
			if norms[i/n] > maxnorm {
				return a[i]
			}
			return a[i] * maxnorm / norms[i/n]
		}), nil, "slices whose norm is at most maxnorm are scaled to it, not those whose norm is larger"},
		{"torch.rnn_relu_cell", []value.Value{x, h, w, square, bias, bias}, each([]int{rows, 9}, func(i int) float64 {
			return max(gates[i], 0) + hidden[i]
		}), nil, "the function is that of the input's part, to which the other one is added"},
		{"torch.nn.functional.kl_div", []value.Value{x, above, nil, nil, "none"},
			resultsOf(t, opt, "torch.nn.functional.kl_div", x, above, nil, nil, "none")[0], []value.Value{
				value.NewTuple(each(shape, func(i int) float64 { return -g[i] * math.Exp(a[i]) }), nil),
				value.NewTuple(up)},
			"the gradient is that of another formula: exp(input) is taken for the target"},
		{"torch.nn.functional.cross_entropy", []value.Value{x, targets, perClass},
			resultsOf(t, opt, "torch.nn.functional.cross_entropy", x, targets, perClass)[0], []value.Value{
				value.NewTuple(each(shape, func(i int) float64 {
					d := math.Exp(a[i]) / sums[i/n]
					if tensor.At[int64](targets, i/n) == int64(i%n) {
						d -= of(perClass)[i%n]
					}
					return d / ofTargets
				}), nil, nil), value.NewTuple(one)},
			"the gradient is that of another formula: weight is that of the target's term, not of the softmax"},
		{"torch.nn.functional.conv_transpose1d", []value.Value{signal, kernel, nil, int64(2)},
			resultsOf(t, opt, "torch.nn.functional.conv_transpose1d", signal, kernel, nil, int64(2))[0], []value.Value{
				value.NewTuple(each(signal.Shape, func(i int) float64 { return unstrided[i/5*9+i%5] }), nil),
				value.NewTuple(incoming)}, "in the gradient, stride is 1, not 2, along dimension -1"},
	} {
		causes := explain(entries(t, record(t, tc.op, tc.args, tc.gave, tc.grads...))[0], opt)
		if len(causes) == 0 || !says(causes[0], tc.want) {
			t.Errorf("%s: causes %+v, want first %q", tc.op, causes, tc.want)
		}
	}
}
