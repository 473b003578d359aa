package replay_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/optool/optool/internal/shorttest"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestCausesOfSteps: mistakes of steps in few bits, of halves of matrices, of borders and of orders. Errors of the same
// elements that are random have no cause.
func TestCausesOfSteps(t *testing.T) {
	shorttest.Computes(t)
	const f32, b16, f16 = tensor.Float32, tensor.BFloat16, tensor.Float16
	r := rand.New(rand.NewPCG(8, 35))
	random := func(dt tensor.DType, shape ...int) *tensor.Tensor {
		v := make([]float64, tensor.Numel(shape))
		for i := range v {
			v[i] = r.NormFloat64()
		}
		return stored(dt, shape, v...)
	}
	of := func(x *tensor.Tensor) []float64 {
		v := make([]float64, x.Numel())
		tensor.Load(x, 0, v)
		return v
	}
	each := func(dt tensor.DType, shape []int, f func(i int) float64) *tensor.Tensor {
		v := make([]float64, tensor.Numel(shape))
		for i := range v {
			v[i] = f(i)
		}
		return stored(dt, shape, v...)
	}
	due := func(op string, args ...value.Value) []*tensor.Tensor {
		call, err := options(t).Registry.Bind(op, args, nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := call.Forward()
		if err != nil {
			t.Fatal(err)
		}
		return f.Outs
	}
	x, weight, bias, up := random(b16, 600, 6), random(b16, 9, 6),
		needsGrad(random(b16, 9)), each(b16, []int{600, 9}, func(int) float64 { return 1 + r.NormFloat64() })
	sums := make([]float64, 9)
	for i, g := range of(up) {
		sums[i%9] = b16.Round(sums[i%9] + g)
	}
	linear := due("torch.nn.functional.linear", x, weight, bias)[0]
	low := of(random(f32, 6, 6))
	spd := each(tensor.Float64, []int{6, 6}, func(i int) (s float64) {
		for k := range 6 {
			s += low[i/6*6+k] * low[i%6*6+k]
		}
		return s + 3*float64(1-min(1, (i/6-i%6)*(i/6-i%6)))
	})
	root := of(due("torch.linalg.cholesky", spd)[0])
	rows := random(f16, 9, 8)
	a, b := random(f16, 12), random(f16, 70)
	negatives := random(b16, 40)
	order := make([]int, 40)
	for i := range order {
		order[i] = i
	}
	key := func(x float64) float64 {
		if x < 0 {
			return -1e9 - x
		}
		return x
	}
	v := of(negatives)
	slices.SortStableFunc(order, func(i, j int) int {
		if key(v[i]) < key(v[j]) {
			return -1
		} else if key(v[i]) > key(v[j]) {
			return 1
		}
		return 0
	})
	at := make([]int64, 40)
	for i, k := range order {
		at[i] = int64(k)
	}
	planes := random(f32, 2, 3, 7, 8)
	p := of(planes)
	symmetric := func(i, n int) int {
		if i < 0 {
			return -1 - i
		} else if i >= n {
			return 2*n - 1 - i
		}
		return i
	}
	gate, gateUp := needsGrad(random(f32, 10, 24)), random(f32, 10, 24)
	g, u := of(gate), of(gateUp)
	wide := each(f16, []int{200}, func(i int) float64 { return float64(i)/5 - 25 })
	table, bags := random(f32, 13, 9), make([]int64, 24)
	for i := range bags {
		bags[i] = int64(r.IntN(13))
	}
	pair := make([]complex128, 40)
	other := make([]complex128, 40)
	wrong := make([]complex128, 40)
	for i := range pair {
		pair[i] = complex128(complex64(complex(r.NormFloat64(), r.NormFloat64())))
		other[i] = complex128(complex64(complex(r.NormFloat64(), r.NormFloat64())))
		y := pair[i] * other[i]
		wrong[i] = complex128(complex64(complex(real(y), real(pair[i])*imag(other[i])-imag(pair[i])*real(other[i]))))
	}
	whole := func(w []complex128) *tensor.Tensor { return tensor.New(tensor.Complex64, []int{40}, w).Rounded() }
	gated := random(b16, 12, 50)
	tests := []struct {
		want      string
		op        string
		args      []value.Value
		gave      value.Value
		grads, up []value.Value
	}{
		{"the sum of the incoming gradient is kept in bfloat16, rounded after each term", "torch.nn.functional.linear",
			[]value.Value{x, weight, bias}, linear, []value.Value{nil, nil, stored(b16, []int{9}, sums...)},
			[]value.Value{up}},
		// gelu in steps of 16 bits is near to it.
		{"the factor in the sigmoid is 1.702, not 1", "torch.nn.functional.silu", []value.Value{gated},
			each(b16, []int{12, 50}, func(i int) float64 {
				return of(gated)[i] / (1 + math.Exp(-1.702*of(gated)[i]))
			}), nil, nil},
		{"above the diagonal it holds what A has there", "torch.linalg.cholesky", []value.Value{spd},
			each(tensor.Float64, []int{6, 6}, func(i int) float64 {
				if i%6 > i/6 {
					return of(spd)[i]
				}
				return root[i]
			}), nil, nil},
		{"diagonal is 2, not -2", "torch.tril", []value.Value{rows, int64(-2)},
			each(f16, []int{9, 8}, func(i int) float64 {
				if x := of(rows)[i]; i%8 <= i/8+2 {
					return x
				}
				return 0 * of(rows)[i]
			}), nil, nil},
		{"its dimension 1 holds at 32 to 63 what is due at 0 to 31", "torch.outer", []value.Value{a, b},
			each(f16, []int{12, 70}, func(i int) float64 {
				k := i % 70
				if k >= 32 && k < 64 {
					k -= 32
				}
				return of(a)[i/70] * of(b)[k]
			}), nil, nil},
		{"elements of self are picked by their bits as whole numbers with a sign: negative ones in the opposite order",
			"torch.sort", []value.Value{negatives}, value.NewTuple(
				each(b16, []int{40}, func(i int) float64 { return v[order[i]] }),
				tensor.New(tensor.Int64, []int{40}, at)),
			nil, nil},
		{"the border is repeated: index -1 is read at 0, not at 1", "torch.nn.functional.pad",
			[]value.Value{planes, value.NewList(int64(2), int64(1), int64(1), int64(2)), "reflect"},
			each(f32, []int{2, 3, 10, 11}, func(i int) float64 {
				return p[i/110*56+symmetric(i/11%10-1, 7)*8+symmetric(i%11-2, 8)]
			}), nil, nil},
		{"the gradient is that of another formula: the derivative is y*(1 + x)*(1 - y), not y*(1 + x*(1 - y)), of " +
			"y = sigmoid(x)", "torch.nn.functional.silu", []value.Value{gate},
			each(f32, []int{10, 24}, func(i int) float64 { return g[i] / (1 + math.Exp(-g[i])) }),
			[]value.Value{each(f32, []int{10, 24}, func(i int) float64 {
				y := 1 / (1 + math.Exp(-g[i]))
				return u[i] * y * (1 + g[i]) * (1 - y)
			})}, []value.Value{gateUp}},
		{"exp(-x) overflows in float16", "torch.nn.functional.silu", []value.Value{wide},
			each(f16, []int{200}, func(i int) float64 {
				x := of(wide)[i]
				return x / (1 + f16.Round(math.Exp(-x)))
			}), nil, nil},
		{"the last index of each bag is left out, but counts in the number by which is divided",
			"torch.nn.functional.embedding_bag",
			[]value.Value{tensor.New(tensor.Int64, []int{6, 4}, bags), table},
			each(f32, []int{6, 9}, func(i int) (sum float64) {
				for k := range 3 {
					sum += of(table)[int(bags[i/9*4+k])*9+i%9] / 4
				}
				return sum
			}), nil, nil},
		{"its imaginary part is that with the complex conjugate of self", "torch.mul",
			[]value.Value{whole(pair), whole(other)}, whole(wrong), nil, nil},
	}
	for _, tc := range tests {
		var grads []value.Value
		if tc.grads != nil {
			grads = []value.Value{value.NewTuple(tc.grads...), value.NewTuple(tc.up...)}
		}
		found := explain(entries(t, record(t, tc.op, tc.args, tc.gave, grads...))[0], options(t))
		if len(found) == 0 || !says(found[0], tc.want) {
			t.Errorf("%s: causes %+v, want first %q", tc.op, found, tc.want)
		}
		noisy := func(v value.Value) value.Value {
			if pair, ok := v.(*value.Sequence); ok {
				return value.NewTuple(each(b16, []int{40}, func(int) float64 { return r.NormFloat64() }), pair.Items[1])
			}
			x, ok := v.(*tensor.Tensor)
			if !ok {
				return v
			}
			if x.DType.IsComplex() {
				z := make([]complex128, x.Numel())
				for i := range z {
					z[i] = complex(r.NormFloat64(), r.NormFloat64())
				}
				return tensor.New(x.DType, x.Shape, z).Rounded()
			}
			return each(x.DType, x.Shape, func(i int) float64 { return of(x)[i] * (1 + 0.3*r.NormFloat64()) })
		}
		gave := noisy(tc.gave)
		if grads != nil {
			gave = tc.gave
			for i, g := range tc.grads {
				tc.grads[i] = noisy(g)
			}
			grads[0] = value.NewTuple(tc.grads...)
		}
		if found := explain(entries(t, record(t, tc.op, tc.args, gave, grads...))[0], options(t)); len(found) > 0 &&
			!found[0].Pattern {
			t.Errorf("%s with noise: causes %+v", tc.op, found)
		}
	}
}
