package replay_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestGradientShapes records calls with gradients that their operator cannot give.
func TestGradientShapes(t *testing.T) {
	const f32, bf16 = tensor.Float32, tensor.BFloat16
	x := func() *tensor.Tensor { return needsGrad(stored(f32, []int{2, 3}, 1, -2, 3, 4, -5, 6)) }
	y := func() *tensor.Tensor { return stored(f32, []int{2, 3}, 1, 0, 3, 4, 0, 6) }
	up := func() *tensor.Tensor { return stored(f32, []int{2, 3}, 1, 2, 3, 4, 5, 6) }
	right := func() *tensor.Tensor { return stored(f32, []int{2, 3}, 1, 0, 3, 4, 0, 6) }
	const relu, add, cat = "torch.nn.functional.relu", "torch.add", "torch.cat"
	frozen := stored(f32, []int{2, 3}, 1, 1, 1, 1, 1, 1)
	sum := func() *tensor.Tensor { return stored(f32, []int{2, 3}, 2, -1, 4, 5, -4, 7) }
	twice := stored(f32, []int{2, 3}, 2, -4, 6, 8, -10, 12)
	pair := func() value.Value { return value.NewList(frozen, needsGrad(stored(f32, []int{1, 3}, 7, 8, 9))) }
	joined := stored(f32, []int{3, 3}, 1, 1, 1, 1, 1, 1, 7, 8, 9)
	joinedUp := stored(f32, []int{3, 3}, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	index := value.NewTuple(value.Ellipsis{}, int64(1), value.Slice{})
	picked, cube := stored(f32, []int{2, 2}, 3, 4, 7, 8), stored(f32, []int{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8)
	for _, tc := range []judged{
		{"right", relu, []value.Value{x()}, y(), []value.Value{right()}, up(), verdict.Pass},
		{"flat", relu, []value.Value{x()}, y(), []value.Value{stored(f32, []int{6}, 1, 0, 3, 4, 0, 6)}, up(),
			verdict.Fail},
		{"transposed", relu, []value.Value{x()}, y(), []value.Value{stored(f32, []int{3, 2}, 1, 4, 0, 0, 3, 6)}, up(),
			verdict.Fail},
		{"scalar", relu, []value.Value{x()}, y(), []value.Value{stored(f32, nil, 14)}, up(), verdict.Fail},
		{"empty", relu, []value.Value{x()}, y(), []value.Value{stored(f32, []int{0})}, up(), verdict.Fail},
		{"twice", relu, []value.Value{x()}, y(), []value.Value{right(), right()}, up(), verdict.Fail},
		{"None", relu, []value.Value{x()}, y(), []value.Value{nil}, up(), verdict.Fail},
		{"and a None", relu, []value.Value{x()}, y(), []value.Value{right(), nil}, up(), verdict.Fail},
		{"one in a tuple", add, []value.Value{x(), x()}, twice, []value.Value{up(), value.NewTuple(up())}, up(),
			verdict.Fail},
		{"missing", relu, []value.Value{x()}, y(), []value.Value{}, up(), verdict.Fail},
		{"narrow", relu, []value.Value{x()}, y(), []value.Value{stored(bf16, []int{2, 3}, 1, 0, 3, 4, 0, 6)}, up(),
			verdict.Fail},
		{"wide", relu, []value.Value{x()}, y(), []value.Value{stored(tensor.Float64, []int{2, 3}, 1, 0, 3, 4, 0, 6)},
			up(), verdict.Fail},
		{"of a number", add, []value.Value{x(), 1.0}, sum(), []value.Value{up(), nil}, up(), verdict.Pass},
		{"swapped with None", add, []value.Value{x(), frozen}, sum(), []value.Value{nil, up()}, up(), verdict.Fail},
		{"operand without gradient", cat, []value.Value{pair()}, joined,
			[]value.Value{up(), stored(f32, []int{1, 3}, 7, 8, 9)}, joinedUp, verdict.Pass},
		{"wrong of an operand without", cat, []value.Value{pair()}, joined,
			[]value.Value{right(), stored(f32, []int{1, 3}, 7, 8, 9)}, joinedUp, verdict.Fail},
		{"whole slice skipped", "torch.Tensor.__getitem__", []value.Value{needsGrad(cube), index}, picked,
			[]value.Value{stored(f32, []int{2, 2, 2}, 0, 0, 1, 2, 0, 0, 3, 4)}, stored(f32, []int{2, 2}, 1, 2, 3, 4),
			verdict.Pass},
		{"linear's rows, turned", "torch.nn.functional.linear",
			[]value.Value{needsGrad(stored(f32, []int{1, 2, 1}, 1, 2)), needsGrad(stored(f32, []int{1, 1}, 1))},
			stored(f32, []int{1, 2, 1}, 1, 2), []value.Value{stored(f32, []int{2, 1}, 2, 1)},
			stored(f32, []int{1, 2, 1}, 1, 2), verdict.Fail},
	} {
		tc.run(t, func(r replay.Result) bool { return r.Phase == replay.Backward })
	}
}

// TestUnrecordedGradients records None for the gradient of linear's weight, as a writer
// that knows it and as one that may have missed it.
func TestUnrecordedGradients(t *testing.T) {
	const f32, linear = tensor.Float32, "torch.nn.functional.linear"
	for _, tc := range []struct {
		name    string
		up      float64
		weight  value.Value
		unknown bool
		want    verdict.Verdict
	}{
		{"right", 1, stored(f32, []int{1, 2}, 2, 3), false, verdict.Pass},
		{"None", 1, nil, false, verdict.Fail},
		{"missed", 1, nil, true, verdict.Pass},
		{"None for zeros", 0, nil, false, verdict.Mistrusted},
		{"None for NaN", math.NaN(), nil, false, verdict.Fail},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x, w := needsGrad(stored(f32, []int{1, 2}, 2, 3)), needsGrad(stored(f32, []int{1, 2}, 1, 1))
			made := map[capture.Kind]*capture.Record{
				capture.Input:       {Args: []value.Value{x, w}},
				capture.Output:      {Args: []value.Value{stored(f32, []int{1, 1}, 5)}},
				capture.GradOutputs: {Args: []value.Value{stored(f32, []int{1, 1}, tc.up)}},
				capture.GradInputs: {Args: []value.Value{stored(f32, []int{1, 2}, tc.up, tc.up), tc.weight},
					Unknown: tc.unknown},
			}
			for k, r := range made {
				r.Name, r.Identifier, r.Kwargs = linear, linear+"/"+k.String(), &value.Dict{}
			}
			dir := filepath.Join(t.TempDir(), linear)
			if err := capture.Made(made).Write(dir); err != nil {
				t.Fatal(err)
			}
			worst := verdict.Skipped
			var reasons []string
			for _, r := range replay.Run(entries(t, dir)[0], options(t)).Results {
				if r.Phase == replay.Backward {
					worst = verdict.Worse(worst, r.Verdict)
					reasons = append(reasons, r.Target+": "+r.Reason)
				}
			}
			if worst != tc.want {
				t.Errorf("got %s, want %s: %s", worst, tc.want, strings.Join(reasons, "; "))
			}
		})
	}
}

// TestSetItemGradients: gradients of what __setitem__ wrote to, which it does not return, and of what it wrote.
func TestSetItemGradients(t *testing.T) {
	const f32, setItem = tensor.Float32, "torch.Tensor.__setitem__"
	x, row := needsGrad(stored(f32, []int{3, 2}, 1, 2, 3, 4, 5, 6)), needsGrad(stored(f32, []int{1, 2}, 8, 9))
	up := stored(f32, []int{3, 2}, 10, 20, 30, 40, 50, 60)
	mask := tensor.New(tensor.Bool, []int{3}, []int64{1, 0, 1}).Rounded()
	picked := stored(tensor.Int64, []int{2}, 0, 1)
	two := needsGrad(stored(f32, []int{2, 2}, 7, 7, 8, 8))
	for _, tc := range []struct {
		name  string
		index value.Value
		value value.Value
		grads []value.Value
		want  verdict.Verdict
	}{
		{"slice", value.Slice{Start: int64(1)}, row, []value.Value{stored(f32, []int{3, 2}, 10, 20, 0, 0, 0, 0),
			stored(f32, []int{1, 2}, 80, 100)}, verdict.Pass},
		{"row", int64(1), row, []value.Value{stored(f32, []int{3, 2}, 10, 20, 0, 0, 50, 60),
			stored(f32, []int{1, 2}, 30, 40)}, verdict.Pass},
		{"mask", mask, 0.5, []value.Value{stored(f32, []int{3, 2}, 0, 0, 30, 40, 0, 0), nil}, verdict.Pass},
		{"indices", picked, two, []value.Value{stored(f32, []int{3, 2}, 0, 0, 0, 0, 50, 60), nil,
			stored(f32, []int{2, 2}, 10, 20, 30, 40)}, verdict.Pass},
		{"all flows to self", int64(1), row, []value.Value{up, stored(f32, []int{1, 2}, 30, 40)}, verdict.Fail},
		{"not added up", value.Slice{Start: int64(1)}, row, []value.Value{stored(f32, []int{3, 2}, 10, 20, 0, 0, 0, 0),
			stored(f32, []int{1, 2}, 30, 40)}, verdict.Fail},
		{"another shape", int64(1), row, []value.Value{stored(f32, []int{3, 2}, 10, 20, 0, 0, 50, 60),
			stored(f32, []int{2}, 30, 40)}, verdict.Fail},
	} {
		made := map[capture.Kind]*capture.Record{
			capture.Input:       {Args: []value.Value{x, tc.index, tc.value}},
			capture.Output:      {Args: []value.Value{nil}},
			capture.GradOutputs: {Args: []value.Value{up}}, capture.GradInputs: {Args: tc.grads},
		}
		for k, r := range made {
			r.Name, r.Identifier, r.Kwargs = setItem, setItem+"/"+k.String(), &value.Dict{}
		}
		worst := verdict.Skipped
		o := replay.Of(capture.Made(made), options(t)).Compare()
		for _, r := range o.Results {
			if r.Phase == replay.Backward {
				worst = verdict.Worse(worst, r.Verdict)
			}
		}
		if worst != tc.want {
			t.Errorf("%s: got %s, want %s: %+v", tc.name, worst, tc.want, o.Results)
		}
	}
}

// TestBroadcastSubnormals: torch rounds each product to float16 before it adds the
// gradients of a broadcast factor, to multiples of 2^-24 where they are below 2^-14.
func TestBroadcastSubnormals(t *testing.T) {
	const f16, n, tiny = tensor.Float16, 128, 1. / (1 << 24)
	x, y := needsGrad(stored(f16, []int{2, 1}, 1, 1)), tensor.Full(f16, []int{2, n}, 0.015625)
	up := make([]float64, 2*n)
	for i := range up {
		up[i] = float64(8+i%48) * tiny
	}
	gradient := func(round func(float64) float64) value.Value {
		g := make([]float64, 2)
		for i, u := range up {
			g[i/n] += round(u * 0.015625)
		}
		return stored(f16, []int{2, 1}, g...)
	}
	up16 := stored(f16, []int{2, n}, up...)
	for _, tc := range []struct {
		name  string
		round func(float64) float64
		want  verdict.Verdict
	}{
		{"exact", func(v float64) float64 { return v }, verdict.Pass},
		{"nearest", f16.Round, verdict.Warn},
		{"away from zero", func(v float64) float64 { return math.Ceil(v/tiny) * tiny }, verdict.Fail},
	} {
		(&judged{tc.name, "torch.mul", []value.Value{x, y}, y, []value.Value{gradient(tc.round), nil}, up16,
			tc.want}).run(t, func(r replay.Result) bool { return r.Phase == replay.Backward })
	}
}

// TestAttentionSubnormals: kernels store the gradients of scores in float16, as multiples of 2^-24 where they are
// small, and as zero below half of that.
func TestAttentionSubnormals(t *testing.T) {
	const f16, keys, up = tensor.Float16, 4096, 1e-4
	r := rand.New(rand.NewPCG(7, 1))
	k, v := make([]float64, keys), make([]float64, keys)
	out, product, mean := 0.0, 0.0, 0.0
	for i := range k {
		k[i], v[i] = f16.Round(r.NormFloat64()), f16.Round(r.NormFloat64())
		out += v[i] / keys
		product += f16.Round(up) * v[i] * k[i] / keys
		mean += k[i] / keys
	}
	exact := product - f16.Round(up)*out*mean
	one := func(x float64) *tensor.Tensor { return stored(f16, []int{1, 1}, x) }
	for _, tc := range []struct {
		name string
		grad float64
		want verdict.Verdict
	}{
		{"rounded once", exact, verdict.Pass},
		{"of zeros", 0, verdict.Mistrusted},
		{"off by more", exact + 3e-5, verdict.Fail},
	} {
		(&judged{tc.name, "torch.nn.functional.scaled_dot_product_attention", []value.Value{needsGrad(one(0)),
			stored(f16, []int{keys, 1}, k...), stored(f16, []int{keys, 1}, v...)}, one(out),
			[]value.Value{one(tc.grad), nil, nil}, one(up), tc.want}).run(t,
			func(r replay.Result) bool { return r.Phase == replay.Backward })
	}
	if math.Abs(exact) < 8*f16.ULP(0) {
		t.Errorf("the gradient is %g, too small to tell it from zero", exact)
	}
}

// TestSignOfChosenZero records a zero of the other sign than the one that was chosen.
func TestSignOfChosenZero(t *testing.T) {
	const f32 = tensor.Float32
	minus := math.Copysign(0, -1)
	mask := tensor.New(tensor.Bool, []int{3}, []int64{1, 0, 1}).Rounded()
	x, y := stored(f32, []int{3}, minus, 0, 1), stored(f32, []int{3}, 5, minus, 5)
	elsewhere := func(t *tensor.Tensor) *tensor.Tensor { t.Device = "cuda:0"; return t }
	for _, tc := range []struct {
		name string
		op   string
		args []value.Value
		out  value.Value
		want verdict.Verdict
	}{
		{"kept", "torch.where", []value.Value{mask, x, y}, stored(f32, []int{3}, minus, minus, 1), verdict.Pass},
		{"lost", "torch.where", []value.Value{mask, x, y}, stored(f32, []int{3}, 0, minus, 1), verdict.Fail},
		{"kept", "torch.masked_fill", []value.Value{x, mask, 7.}, stored(f32, []int{3}, 7, 0, 7), verdict.Pass},
		{"turned", "torch.masked_fill", []value.Value{x, mask, 7.}, stored(f32, []int{3}, 7, minus, 7), verdict.Fail},
		{"dropped", "torch.abs", []value.Value{x}, stored(f32, []int{3}, 0, 0, 1), verdict.Pass},
		{"left", "torch.abs", []value.Value{x}, stored(f32, []int{3}, minus, 0, 1), verdict.Fail},
		{"kept", "torch.relu", []value.Value{x}, stored(f32, []int{3}, minus, 0, 1), verdict.Pass},
		{"lost", "torch.relu", []value.Value{x}, stored(f32, []int{3}, 0, 0, 1), verdict.Fail},
		{"lost elsewhere", "torch.relu", []value.Value{x}, elsewhere(stored(f32, []int{3}, 0, 0, 1)), verdict.Pass},
		{"of -1", "torch.nn.functional.relu6", []value.Value{stored(f32, []int{2}, -1, 7)},
			stored(f32, []int{2}, minus, 6), verdict.Fail},
	} {
		made := map[capture.Kind]*capture.Record{capture.Input: {Args: tc.args},
			capture.Output: {Args: []value.Value{tc.out}}}
		for k, r := range made {
			r.Name, r.Identifier, r.Kwargs = tc.op, tc.op+"/"+k.String(), &value.Dict{}
		}
		if o := replay.Of(capture.Made(made), options(t)).Compare(); o.Verdict() != tc.want {
			t.Errorf("%s, %s: got %s, want %s: %+v", tc.op, tc.name, o.Verdict(), tc.want, o.Results)
		}
	}
}

// TestNormWeightGradient: what a gradient of a weight may be off by grows with the rows that it is the
// sum of, not with all elements.
func TestNormWeightGradient(t *testing.T) {
	const f32, rows, width, eps = tensor.Float32, 256, 64, 1e-5
	r := rand.New(rand.NewPCG(3, 9))
	x, up, y := make([]float64, rows*width), make([]float64, rows*width), make([]float64, rows*width)
	weight, bias := make([]float64, width), make([]float64, width)
	for row := 0; row < len(x); row += width {
		mean, squares := 0.0, 0.0
		for i := row; i < row+width; i++ {
			x[i], up[i] = f32.Round(r.NormFloat64()), f32.Round(r.NormFloat64())
			mean += x[i] / width
			squares += x[i] * x[i] / width
		}
		for i := row; i < row+width; i++ {
			y[i] = (x[i] - mean) / math.Sqrt(squares-mean*mean+eps)
			weight[i-row] += up[i] * y[i]
			bias[i-row] += up[i]
		}
	}
	ones := make([]float64, width)
	for i := range ones {
		ones[i] = 1
	}
	shape := []int{rows, width}
	w := needsGrad(stored(f32, []int{width}, ones...))
	b := needsGrad(stored(f32, []int{width}, make([]float64, width)...))
	for _, tc := range []struct {
		name  string
		round func(float64) float64
		want  verdict.Verdict
	}{
		{"exact", f32.Round, verdict.Pass},
		{"11 bits", tensor.Float16.Round, verdict.Fail},
		{"8 bits", tensor.BFloat16.Round, verdict.Fail},
	} {
		gradient := func(g []float64) value.Value {
			rounded := make([]float64, len(g))
			for i, v := range g {
				rounded[i] = tc.round(v)
			}
			return stored(f32, []int{width}, rounded...)
		}
		(&judged{tc.name, "torch.nn.functional.layer_norm", []value.Value{stored(f32, shape, x...),
			value.NewList(int64(width)), w, b, eps}, stored(f32, shape, y...), []value.Value{nil, gradient(weight),
			gradient(bias)}, stored(f32, shape, up...), tc.want}).run(t,
			func(r replay.Result) bool { return r.Phase == replay.Backward })
	}
}

// TestOneWrongGradient: gradients that op_tools recorded of a composition, of which one has a wrong shape or dtype, are
// wrong. Where none fits they are those of another node.
func TestOneWrongGradient(t *testing.T) {
	const f32, bf16, op = tensor.Float32, tensor.BFloat16, "torch.nn.functional.scaled_dot_product_attention"
	shape := []int{1, 2, 2}
	x := func(dt tensor.DType, shape ...int) *tensor.Tensor { return stored(dt, shape, 0.5, 0.25, -1, 2) }
	for name, tc := range map[string]struct {
		grads []value.Value
		want  verdict.Verdict
	}{
		"a dtype":     {[]value.Value{x(bf16, 1, 2, 2), x(f32, 1, 2, 2), x(f32, 1, 2, 2)}, verdict.Fail},
		"a shape":     {[]value.Value{x(f32, 4), x(f32, 1, 2, 2), x(f32, 1, 2, 2)}, verdict.Fail},
		"None":        {[]value.Value{nil, x(f32, 1, 2, 2), x(f32, 1, 2, 2)}, verdict.Fail},
		"all shapes":  {[]value.Value{x(f32, 4), x(f32, 4), x(f32, 4)}, verdict.Skipped},
		"two of them": {[]value.Value{x(f32, 2, 2), x(f32, 4)}, verdict.Skipped},
	} {
		args := []value.Value{needsGrad(x(f32, shape...)), needsGrad(x(f32, shape...)), needsGrad(x(f32, shape...))}
		c := judged{name, op, args, x(f32, shape...), tc.grads, x(f32, shape...), tc.want}
		c.run(t, func(r replay.Result) bool { return r.Phase == replay.Backward })
	}
}

// TestGradientAtNaN: kernels that compute several elements at a time choose otherwise at NaN than those that compute
// one, in one tensor.
func TestGradientAtNaN(t *testing.T) {
	const f32, scale = tensor.Float32, 1.0507009873554805 // selu's
	nan := math.NaN()
	for _, op := range []struct {
		name         string
		y            float64 // at 20
		slope        float64 // there
		one, several float64 // the slopes at NaN
	}{
		{"relu6", 6, 0, 1, 0}, {"hardtanh", 1, 0, 1, 0}, {"hardshrink", 20, 1, 1, 0}, {"softshrink", 19.5, 1, 1, 0},
		{"hardswish", 20, 1, 1, nan}, {"elu", 20, 1, 1, nan}, {"celu", 20, 1, 1, nan},
		{"selu", 20 * scale, scale, scale, nan},
	} {
		for _, got := range []struct {
			name  string
			slope float64
			want  verdict.Verdict
		}{{"as one", op.one, verdict.Pass}, {"as several", op.several, verdict.Pass}, {"other", 3, verdict.Fail}} {
			tc := judged{op.name + ", " + got.name, "torch.nn.functional." + op.name,
				[]value.Value{needsGrad(stored(f32, []int{3}, nan, nan, 20))}, stored(f32, []int{3}, nan, nan, op.y),
				[]value.Value{stored(f32, []int{3}, got.slope, op.one, op.slope)}, stored(f32, []int{3}, 1, 1, 1),
				got.want}
			tc.run(t, func(r replay.Result) bool { return r.Phase == replay.Backward })
		}
	}
}
