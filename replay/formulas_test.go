package replay_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/shorttest"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestCausesOfFormulas: gradients with a wrong term, positions that count from elsewhere, and formulas that overflow.
// The first cause says what was planted, also where torch computes the operator by several others.
func TestCausesOfFormulas(t *testing.T) {
	shorttest.Computes(t)
	const f32, rows, n = tensor.Float32, 14, 26
	r := rand.New(rand.NewPCG(5, 3))
	random := func(k float64, shape ...int) *tensor.Tensor {
		v := make([]float64, tensor.Numel(shape))
		for i := range v {
			v[i] = k * r.NormFloat64()
		}
		return stored(f32, shape, v...)
	}
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
		return stored(f32, shape, v...)
	}
	whole := func(f func(i int) int64) *tensor.Tensor {
		v := make([]int64, rows)
		for i := range v {
			v[i] = f(i)
		}
		return tensor.New(tensor.Int64, []int{rows}, v)
	}
	shape := []int{rows, n}
	x, y, g, up := random(1, rows, n), random(1, rows, n), random(1, rows, n), random(1, rows)
	a, b, v, u, wide := of(x), of(y), of(g), of(up), random(60, 20, 20)
	sums, mean, logs, tops := make([]float64, rows), make([]float64, rows), make([]float64, rows), make([]int, rows)
	for i := range rows {
		row := a[i*n:][:n]
		for _, z := range row {
			logs[i] += math.Exp(z)
			mean[i] += z / n
		}
		for _, z := range row {
			sums[i] += (z - mean[i]) * (z - mean[i]) / (n - 1)
		}
		logs[i], sums[i] = math.Log(logs[i]), math.Sqrt(sums[i])
		tops[i] = slices.Index(row, slices.Max(row))
	}
	total := func(i int) (sum float64) {
		for _, z := range v[i*n:][:n] {
			sum += z
		}
		return sum
	}
	softsign := func(i int) float64 { return a[i] / (1 + math.Abs(a[i])) }
	one, dim, row := stored(f32, nil, 1), value.Value(int64(1)), random(1, n)
	for _, tc := range []struct {
		want  string
		op    string
		args  []value.Value
		gave  value.Value
		grads []value.Value
		up    *tensor.Tensor
	}{
		{"in the gradient, the sum over a row is multiplied by 0.03846154, that is 1/26: dimension 1 of self has 26",
			"torch.log_softmax", []value.Value{needsGrad(x), dim}, each(shape, func(i int) float64 {
				return a[i] - logs[i/n]
			}), []value.Value{each(shape, func(i int) float64 {
				return v[i] - math.Exp(a[i]-logs[i/n])*total(i/n)/n
			})}, g},
		{"in the gradient, the sum of its operand runs over dimension 0, not 1", "torch.softmax",
			[]value.Value{needsGrad(x), dim}, each(shape, func(i int) float64 { return math.Exp(a[i] - logs[i/n]) }),
			[]value.Value{each(shape, func(i int) float64 {
				sum := 0.0
				for k := range rows {
					sum += v[k*n+i%n] * math.Exp(a[k*n+i%n]-logs[k])
				}
				return math.Exp(a[i]-logs[i/n]) * (v[i] - sum)
			})}, g},
		{"the gradient is computed with self in place of tanh(self)", "torch.tanh", []value.Value{needsGrad(x)},
			each(shape, func(i int) float64 { return math.Tanh(a[i]) }),
			[]value.Value{each(shape, func(i int) float64 { return v[i] * (1 - a[i]*a[i]) })}, g},
		{"all elements are multiplied by 0.07142857, that is 1/14: elements of the result for each of other: 14", "torch.mul",
			[]value.Value{needsGrad(x), needsGrad(row)},
			each(shape, func(i int) float64 { return a[i] * of(row)[i%n] }),
			[]value.Value{each(shape, func(i int) float64 { return v[i] * of(row)[i%n] }), func() value.Value {
				sums := make([]float64, n)
				for i := range a {
					sums[i%n] += a[i] * v[i] / rows
				}
				return stored(f32, []int{n}, sums...)
			}()}, g},
		{"it is multiplied by the result", "torch.hypot", []value.Value{needsGrad(x), needsGrad(y)},
			each(shape, func(i int) float64 { return math.Hypot(a[i], b[i]) }),
			[]value.Value{each(shape, func(i int) float64 { return v[i] * a[i] }),
				each(shape, func(i int) float64 { return v[i] * b[i] })}, g},
		{"it is the incoming gradient, divided by 25, times self / the result", "torch.std",
			[]value.Value{needsGrad(x), dim}, each([]int{rows}, func(i int) float64 { return sums[i] }),
			[]value.Value{each(shape, func(i int) float64 { return u[i/n] * a[i] / sums[i/n] / (n - 1) })}, up},
		{"in the gradient, the subtraction of self and the logarithm of the sum of the exponential of self is left out: self stays", "torch.logsumexp",
			[]value.Value{needsGrad(x), dim}, each([]int{rows}, func(i int) float64 { return logs[i] }),
			[]value.Value{each(shape, func(i int) float64 { return u[i/n] * math.Exp(a[i]) })}, up},
		{"in the gradient, in place of the derivative of the magnitude, its operand x is taken", "torch.nn.functional.l1_loss",
			[]value.Value{needsGrad(x), needsGrad(y)}, func() value.Value {
				sum := 0.0
				for i := range a {
					sum += math.Abs(a[i]-b[i]) / rows / n
				}
				return stored(f32, nil, sum)
			}(), []value.Value{each(shape, func(i int) float64 { return (a[i] - b[i]) / rows / n }),
				each(shape, func(i int) float64 { return (b[i] - a[i]) / rows / n })}, one},
		{"in the gradient, the square of (the magnitude of self + 1) is left out",
			"torch.nn.functional.softsign", []value.Value{needsGrad(x)}, each(shape, softsign),
			[]value.Value{each(shape, func(i int) float64 { return v[i] / (1 + math.Abs(a[i])) })}, g},
		{"positions count all elements of self, not those along dimension 1 of self", "torch.argmax",
			[]value.Value{x, dim}, whole(func(i int) int64 { return int64(i*n + tops[i]) }), nil, nil},
		{"positions along dimension 1 of self count from the beginning of each 8", "torch.argmax",
			[]value.Value{x, dim}, whole(func(i int) int64 { return int64(tops[i] % 8) }), nil, nil},
		{"it is exp(x)/(1 + exp(x)), which overflows", "torch.sigmoid", []value.Value{wide},
			each(wide.Shape, func(i int) float64 {
				e := f32.Round(math.Exp(of(wide)[i]))
				return e / (1 + e)
			}), nil, nil},
	} {
		var grads []value.Value
		if tc.grads != nil {
			grads = []value.Value{value.NewTuple(tc.grads...), value.NewTuple(tc.up)}
		}
		check := func(kept string) {
			found := explain(entries(t, record(t, tc.op, tc.args, tc.gave, grads...))[0], options(t))
			if len(found) == 0 || !says(found[0], tc.want) {
				t.Errorf("%s%s: causes %+v, want first %q", tc.op, kept, found, tc.want)
			}
		}
		if check(""); grads == nil {
			continue
		}
		args := slices.Clone(tc.args)
		for i := range args { // as recorders keep them
			if x, ok := args[i].(*tensor.Tensor); ok {
				u := *x
				u.RequiresGrad, args[i] = false, &u
			}
		}
		tc.args = args
		check(", no argument of which is said to require a gradient")
	}
}

// TestGradientsOfSeveral: gradients of an operator that torch computes by several others are those of its arguments
// where they cannot be those of the last of these.
func TestGradientsOfSeveral(t *testing.T) {
	const f32 = tensor.Float32
	x := needsGrad(stored(f32, []int{2, 2}, 0.5, -0.25, 1, 2))
	w, up := needsGrad(stored(f32, []int{2}, 3, -2)), stored(f32, []int{2, 2}, 1, 2, -1, 0.5)
	root := func(i int) float64 { // of the mean square of a row
		return []float64{math.Sqrt((0.25 + 0.0625) / 2), math.Sqrt(2.5)}[i/2]
	}
	v, k, g := []float64{0.5, -0.25, 1, 2}, []float64{3, -2}, []float64{1, 2, -1, 0.5}
	y, part, last := make([]float64, 4), make([]float64, 4), make([]float64, 4)
	gain := make([]float64, 2)
	for i := range y {
		y[i], part[i], last[i] = v[i]/root(i)*k[i%2], g[i]*k[i%2]/root(i), g[i]*k[i%2]
		gain[i%2] += g[i] * v[i] / root(i)
	}
	for _, tc := range []struct {
		name  string
		grad  []float64
		fails bool
	}{{"the statistics taken for constants", part, true}, {"of the last product", last, false}} {
		dir := record(t, "torch.nn.functional.rms_norm", []value.Value{x, value.NewList(int64(2)), w, 0.0},
			stored(f32, []int{2, 2}, y...), value.NewTuple(stored(f32, []int{2, 2}, tc.grad...),
				stored(f32, []int{2}, gain...)), value.NewTuple(up))
		call := replay.Open(entries(t, dir)[0], options(t))
		o := call.Compare()
		call.Close()
		if failed := o.Verdict() == verdict.Fail; failed != tc.fails {
			t.Errorf("%s: %+v", tc.name, o.Results)
		}
	}
}
