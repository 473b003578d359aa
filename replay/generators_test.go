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

// TestCausesOfGenerators: mistakes that no operator declares. made are the arguments with which the recorded result is
// computed, after which a number is made of each element.
func TestCausesOfGenerators(t *testing.T) {
	shorttest.Computes(t)
	r := rand.New(rand.NewPCG(3, 8))
	opt := options(t)
	random := func(shape ...int) *tensor.Tensor { return normal(r, shape) }
	edited := func(x *tensor.Tensor, f func(i int, v []float64) float64) *tensor.Tensor {
		v, out := make([]float64, x.Numel()), make([]float64, x.Numel())
		tensor.Load(x, 0, v)
		for i := range v {
			out[i] = f(i, v)
		}
		return tensor.New(x.DType, x.Shape, out).Rounded()
	}
	gates := func(x *tensor.Tensor) *tensor.Tensor { // f and g of i, f, g, o in each other's place
		n := x.Numel() / 4
		return edited(x, func(i int, v []float64) float64 { return v[[]int{0, 2, 1, 3}[i/n]*n+i%n] })
	}
	middle := func(x *tensor.Tensor) *tensor.Tensor { // the second of three parts is negated
		n := x.Numel() / 3
		return edited(x, func(i int, v []float64) float64 { return v[i] * float64(1-2*(i/n%2)) })
	}
	rw, ru, wide40 := random(15, 6), random(15, 5), edited(random(40), func(i int, v []float64) float64 {
		return 1 + math.Abs(v[i])
	})
	targets := edited(random(30, 40), func(i int, v []float64) float64 { return 1 / (1 + math.Exp(v[i])) })
	a, b, m := random(30, 40), random(30, 40), random(11, 30)
	h, w, u, s := random(9, 5), random(20, 6), random(20, 5), random(9, 6)
	tall, wide := random(70, 90), random(90, 80)
	bias, more, planes, gains := random(20), random(20), random(2, 12, 4, 5), random(30)
	coarse, rms := tensor.New(tensor.BFloat16, a.Shape, make([]float64, a.Numel())), 0.0
	coarse = edited(coarse, func(i int, _ []float64) float64 { return 0.978 * tensor.At[float64](a, i) })
	for i := range coarse.Numel() {
		rms += tensor.At[float64](coarse, i) * tensor.At[float64](coarse, i) / 1200
	}
	rms = math.Sqrt(rms)
	tiny := edited(a, func(i int, v []float64) float64 { return v[i] / 1024 })
	whole := func(from, to int) *tensor.Tensor {
		v := make([]int64, 300)
		for i := range v {
			v[i] = int64(from + r.IntN(to-from))
		}
		return tensor.New(tensor.Int64, []int{300}, v)
	}
	wholes, divisors := whole(-50, 50), whole(3, 9)
	normed := []value.Value{m, value.NewList(int64(30)), gains}
	batches, vectors := random(3, 9, 7), random(3, 7, 5)
	few := make([]int64, 11*20)
	for i := range few {
		few[i] = int64(r.IntN(30))
	}
	far := edited(tensor.New(tensor.Float16, a.Shape, make([]float64, a.Numel())), func(i int, _ []float64) float64 {
		return 8 * tensor.At[float64](a, i)
	})
	half, brain := tensor.Float16.Round, tensor.BFloat16.Round
	beyond := edited(a, func(_ int, v []float64) float64 { return 3.2 + r.Float64() })
	steps := edited(a, func(i int, v []float64) float64 { return 0.3 * math.Round(3*v[i]) })
	long := tensor.New(tensor.BFloat16, []int{4, 900}, slices.Repeat([]float64{0}, 3600))
	long = edited(long, func(int, []float64) float64 { return 0.3 * r.NormFloat64() })
	growing := tensor.New(tensor.Float16, []int{9, 18}, slices.Repeat([]float64{0}, 162))
	growing = edited(growing, func(i int, _ []float64) float64 {
		return []float64{4 + r.Float64(), 0.2 + 0.05*r.Float64()}[i%18/9]
	})
	f16 := func(shape ...int) *tensor.Tensor {
		return edited(tensor.New(tensor.Float16, shape, make([]float64, tensor.Numel(shape))),
			func(int, []float64) float64 { return 0.8 * r.Float64() })
	}
	tallHalf, wideHalf := f16(6, 700), f16(700, 9)
	below := edited(random(24, 45), func(_ int, v []float64) float64 { return -2.2 + r.NormFloat64() })
	kernels, offsets := random(7, 12, 3, 3), random(7)
	tiles, table := random(32, 40), random(300, 260)
	at := make([]int64, 70)
	for i := range at {
		at[i] = int64(r.IntN(300))
	}
	inOrder := slices.Clone(few)
	for row := range slices.Chunk(inOrder, 20) {
		slices.Sort(row)
	}
	gaps := edited(a, func(int, []float64) float64 { return 0.5 + r.Float64() })
	indexOf := func(v []int64) *tensor.Tensor { return tensor.New(tensor.Int64, []int{len(v)}, v) }
	dividends := edited(a, func(i int, v []float64) float64 { return v[i] * math.Pow(10, float64(i%12)) })
	rates := edited(a, func(int, []float64) float64 { return float64(r.IntN(6)) })
	largeTiles := func(i int, _ []float64) float64 { // a softmax of b in tiles of 8, whose sums do not shrink
		row, sum, top := make([]float64, 40), 0.0, math.Inf(-1)
		tensor.Load(b, i/40*40, row)
		for part := range slices.Chunk(row, 8) {
			top = max(top, slices.Max(part))
			for _, x := range part {
				sum += math.Exp(x - top)
			}
		}
		return math.Exp(row[i%40]-top) / sum
	}
	for _, tc := range []struct {
		want string
		op   string
		args []value.Value
		made []value.Value
		then func(i int, v []float64) float64
	}{
		{"self is added, but does not count among the terms of the mean", "torch.scatter_reduce",
			[]value.Value{m, int64(1), tensor.New(tensor.Int64, []int{11, 20}, few), random(11, 20),
				"mean"}, nil,
			func(i int, v []float64) float64 {
				n := 0.0
				for _, at := range few[i/30*20:][:20] {
					if int(at) == i%30 {
						n++
					}
				}
				if n == 0 {
					return v[i]
				}
				return v[i] * (n + 1) / n
			}},
		{"of dimension 0 of batch1 only the last index counts", "torch.addbmm",
			[]value.Value{h, batches, vectors},
			[]value.Value{h, batches.Slice(0, 2, 1, 1), vectors.Slice(0, 2, 1, 1)}, nil},
		{"self is read with the strides of index", "torch.gather",
			[]value.Value{m, int64(1), tensor.New(tensor.Int64, []int{11, 20}, few)}, nil,
			func(i int, _ []float64) float64 { return tensor.At[float64](m, i/20*20+int(few[i])) }},
		{"of dimension 1, index 0 is negated, index 2 is multiplied by 0.06667, that is 2 * 1/30: dimension 0 of " +
			"self has 30", "torch.mul", []value.Value{random(30, 3), 0.7}, nil,
			func(i int, v []float64) float64 { return []float64{-1, 1, 2. / 30}[i%3] * v[i] }},
		{"it is log(1/(1 + exp(-x))), which overflows, in float16", "torch.nn.functional.logsigmoid",
			[]value.Value{far}, nil, func(i int, _ []float64) float64 {
				return math.Log(half(1 / half(1+half(math.Exp(-tensor.At[float64](far, i))))))
			}},
		{"it is 1 - erf(x), which cancels", "torch.erfc", []value.Value{beyond}, nil,
			func(i int, _ []float64) float64 {
				return 1 - tensor.Float32.Round(math.Erf(tensor.At[float64](beyond, i)))
			}},
		{"it is sin(self * 3.142) / (self * 3.142), which is NaN where another number is due", "torch.sinc",
			[]value.Value{steps}, nil, func(i int, v []float64) float64 {
				return v[i] + 0/tensor.At[float64](steps, i)
			}},
		{"a partial product overflows float16", "torch.prod", []value.Value{growing, int64(1)}, nil,
			func(int, []float64) float64 { return math.Inf(1) }},
		{"the sum of exponentials is kept in bfloat16, rounded after each term", "torch.nn.functional.log_softmax",
			[]value.Value{long, int64(1)}, nil, func(i int, _ []float64) float64 {
				row, sum := make([]float64, 900), 0.0
				tensor.Load(long, i/900*900, row)
				top := slices.Max(row)
				for _, x := range row {
					sum = brain(sum + brain(math.Exp(x-top)))
				}
				return row[i%900] - top - math.Log(sum)
			}},
		{"products and their sums are kept in float16", "torch.matmul", []value.Value{tallHalf, wideHalf}, nil,
			func(i int, _ []float64) (sum float64) {
				for k := range 700 {
					p, q := tensor.At[float64](tallHalf, i/9*700+k), tensor.At[float64](wideHalf, k*9+i%9)
					sum = half(sum + half(p*q))
				}
				return sum
			}},
		{"a 0 counts along dimension 1 of self, as a start or a padding", "torch.amax",
			[]value.Value{below, int64(1)}, nil,
			func(i int, v []float64) float64 { return max(v[i], 0) }},
		{"at the last index of dimension 2 and of dimension 3: bias is left out", "torch.nn.functional.conv2d",
			[]value.Value{planes, kernels, offsets}, nil, func(i int, v []float64) float64 {
				if i%3 == 2 || i/3%2 == 1 {
					return v[i] - tensor.At[float64](offsets, i/6%7)
				}
				return v[i]
			}},
		{"each tile of 8 by 8 is transposed", "torch.neg", []value.Value{tiles}, nil,
			func(i int, v []float64) float64 {
				r, c := i/40, i%40
				return v[(r-r%8+c%8)*40+c-c%8+r%8]
			}},
		{"the last 48 elements, behind a multiple of 64, hold what is due from the last 64 on", "torch.mul",
			[]value.Value{a, b}, nil, func(i int, v []float64) float64 {
				if i >= 1152 {
					return v[i-16]
				}
				return v[i]
			}},
		{"index is sorted, and what belongs to it is not", "torch.gather",
			[]value.Value{m, int64(1), tensor.New(tensor.Int64, []int{11, 20}, few)},
			[]value.Value{m, int64(1), tensor.New(tensor.Int64, []int{11, 20}, inOrder)}, nil},
		{"offsets in self wrap at 16 bits: elements from 65536 on are read from the beginning", "torch.index_select",
			[]value.Value{table, int64(0), indexOf(at)}, nil, func(i int, _ []float64) float64 {
				return tensor.At[float64](table, (int(at[i/260])*260+i%260)%65536)
			}},
		{"the sum of tiles of 8 elements is not multiplied where a later tile has a larger maximum",
			"torch.nn.functional.softmax", []value.Value{b, int64(1)}, nil, largeTiles},
		{"the quotient is limited to the numbers of int32", "torch.fmod", []value.Value{dividends, gaps}, nil,
			func(i int, _ []float64) float64 {
				x, y := tensor.At[float64](dividends, i), tensor.At[float64](gaps, i)
				return x - min(max(math.Trunc(x/y), math.MinInt32), math.MaxInt32)*y
			}},
		{"Stirling's term is added for all targets, not only for those above 1", "torch.nn.functional.poisson_nll_loss",
			[]value.Value{a, rates, true, true, nil, 1e-8, nil, "none"}, nil, func(i int, v []float64) float64 {
				if t := max(tensor.At[float64](rates, i), 1e-8); t <= 1 {
					return v[i] + t*math.Log(t) - t + math.Log(2*math.Pi*t)/2
				}
				return v[i]
			}},
		{"windows at the edges are divided by the size of whole ones", "torch.nn.functional.avg_pool2d",
			[]value.Value{planes, int64(3), int64(3), int64(0), true}, nil, func(i int, v []float64) float64 {
				return v[i] * []float64{1, 2. / 3}[i%2] * []float64{1, 1. / 3}[i/2%2]
			}},
		{"all elements are written 1 further in memory", "torch.mul", []value.Value{a, b}, nil,
			func(i int, v []float64) float64 { return v[(i+len(v)-1)%len(v)] }},
		{"of each two blocks of 8 elements the second repeats the first", "torch.mul", []value.Value{a, b}, nil,
			func(i int, v []float64) float64 { return v[i-i/8%2*8] }},
		{"min_val is -1, not -0.5, and max_val is 1, not 2", "torch.nn.functional.hardtanh",
			[]value.Value{a, -0.5, 2.0}, []value.Value{a, -1.0, 1.0}, nil},
		{"self is multiplied by pi/180, as if it were in degrees", "torch.tan", []value.Value{a},
			[]value.Value{edited(a, func(i int, v []float64) float64 { return v[i] * math.Pi / 180 })}, nil},
		// too large to be computed under each mistake: a part is
		{"self is read one further along dimension 1", "torch.matmul", []value.Value{tall, wide},
			[]value.Value{edited(tall, func(i int, v []float64) float64 { return v[i/90*90+(i+1)%90] }), wide}, nil},
		{"all elements are multiplied by 2, as if the division by 2 is left out", "torch.nn.functional.softplus",
			[]value.Value{a, 2.0},
			[]value.Value{edited(a, func(i int, v []float64) float64 { return 2 * v[i] }), 1.0}, nil},
		{"input is read as 4 x 3, transposed along dimension 1", "torch.nn.functional.pixel_shuffle",
			[]value.Value{planes, int64(2)}, []value.Value{edited(planes, func(i int, v []float64) float64 {
				at := i / 20 % 12
				return v[i+(at%4*3+at/4-at)*20]
			}), int64(2)}, nil},
		{"the gates are taken in the order i, g, f, o, not i, f, g, o", "torch.lstm_cell",
			[]value.Value{s, value.NewTuple(h, h), w, u, bias, more},
			[]value.Value{s, value.NewTuple(h, h), gates(w), gates(u), gates(bias), gates(more)}, nil},
		{"the mean of the exponentials is taken, not their sum", "torch.logsumexp", []value.Value{m, int64(1)}, nil,
			func(i int, v []float64) float64 { return v[i] - math.Log(30) }},
		{"the logarithm to base 2 of the sum of the exponential of self is taken, not the logarithm", "torch.logsumexp",
			[]value.Value{m, int64(1)}, nil,
			func(i int, v []float64) float64 { return v[i] / math.Ln2 }},
		{"index 0 of dimension 1 of self counts twice", "torch.sum", []value.Value{m, int64(1)},
			[]value.Value{edited(m, func(i int, v []float64) float64 {
				if i%30 == 0 {
					return 2 * v[i]
				}
				return v[i]
			}), int64(1)}, nil},
		{"the statistics are those of all elements", "torch.nn.functional.rms_norm", normed, nil,
			func(i int, _ []float64) float64 {
				squares := 0.0
				for k := range m.Numel() {
					squares += tensor.At[float64](m, k) * tensor.At[float64](m, k)
				}
				return tensor.At[float64](m, i) / math.Sqrt(squares/330) * tensor.At[float64](gains, i%30)
			}},
		{"input is not normalised", "torch.nn.functional.rms_norm", normed, nil,
			func(i int, _ []float64) float64 { return tensor.At[float64](m, i) * tensor.At[float64](gains, i%30) }},
		// as a mistake of input's gradient would make results, which it does not
		// which is within the bounds if input is not normalised, too
		{"the statistics are those of all elements", "torch.nn.functional.rms_norm",
			[]value.Value{coarse, value.NewList(int64(40))}, nil,
			func(i int, _ []float64) float64 { return tensor.At[float64](coarse, i) / rms }},
		{"weight is squared", "torch.nn.functional.rms_norm", normed, nil,
			func(i int, v []float64) float64 { return v[i] * tensor.At[float64](gains, i%30) }},
		{"the sigmoid is left out", "torch.nn.functional.glu", []value.Value{a}, nil,
			func(i int, _ []float64) float64 {
				at := i/20*40 + i%20
				return tensor.At[float64](a, at) * tensor.At[float64](a, at+20)
			}},
		{"the relu of a part of self is taken, not the sigmoid", "torch.nn.functional.glu",
			[]value.Value{a}, nil, func(i int, _ []float64) float64 {
				at := i/20*40 + i%20
				return tensor.At[float64](a, at) * max(0, tensor.At[float64](a, at+20))
			}},
		{"it is computed as abs(self) + abs(other)", "torch.hypot", []value.Value{a, b}, nil,
			func(i int, _ []float64) float64 {
				return math.Abs(tensor.At[float64](a, i)) + math.Abs(tensor.At[float64](b, i))
			}},
		{"it is computed as self - floor(self)", "torch.frac", []value.Value{a}, nil,
			func(i int, _ []float64) float64 {
				x := tensor.At[float64](a, i)
				return x - math.Floor(x)
			}},
		{"softplus of x is exp(x)", "torch.nn.functional.mish", []value.Value{a}, nil,
			func(i int, _ []float64) float64 {
				x := tensor.At[float64](a, i)
				return x * math.Tanh(math.Exp(x))
			}},
		{"it is exp(x) - 1, which cancels near 0", "torch.expm1", []value.Value{tiny}, nil,
			func(i int, _ []float64) float64 {
				return float64(float32(math.Exp(tensor.At[float64](tiny, i)))) - 1
			}},
		{"it is computed as trunc(self / other)", "torch.floor_divide", []value.Value{wholes, divisors}, nil,
			func(i int, _ []float64) float64 {
				return math.Trunc(tensor.At[float64](wholes, i) / tensor.At[float64](divisors, i))
			}},
		{"the mean counts zeros that fill up 30 elements to 32", "torch.nn.functional.layer_norm",
			[]value.Value{m, value.NewList(int64(30))}, nil, func(i int, _ []float64) float64 {
				mean, squares := 0.0, 0.0
				for k := range 30 {
					mean += tensor.At[float64](m, i/30*30+k) / 32
				}
				for k := range 30 {
					squares += math.Pow(tensor.At[float64](m, i/30*30+k)-mean, 2) / 30
				}
				return (tensor.At[float64](m, i) - mean) / math.Sqrt(squares+1e-5)
			}},
		{"the maximum of a row is not added back", "torch.logsumexp", []value.Value{m, int64(1)}, nil,
			func(i int, v []float64) float64 {
				row := make([]float64, 30)
				tensor.Load(m, 30*i, row)
				return v[i] - slices.Max(row)
			}},
		{"it is the mean of self along dimension 1", "torch.quantile", []value.Value{m, 0.5, int64(1)}, nil,
			func(i int, _ []float64) (sum float64) {
				for k := range 30 {
					sum += tensor.At[float64](m, 30*i+k) / 30
				}
				return sum
			}},
		{"it is computed as tril, and diagonal is -1", "torch.triu", []value.Value{a, int64(1)}, nil,
			func(i int, _ []float64) float64 {
				if i%40 < i/40 {
					return tensor.At[float64](a, i)
				}
				return 0
			}},
		{"results are multiplied by 2 where what is due is below 0.5", "torch.nn.functional.l1_loss",
			[]value.Value{a, b, nil, nil, "none"}, nil, func(i int, v []float64) float64 {
				if v[i] < 0.5 {
					return 2 * v[i]
				}
				return v[i]
			}},
		{"the update gate z and 1 - z are exchanged", "torch.gru_cell",
			[]value.Value{s, h, rw, ru}, []value.Value{s, h, middle(rw), middle(ru)}, nil},
		{"pos_weight is taken for weight", "torch.nn.functional.binary_cross_entropy_with_logits",
			[]value.Value{a, targets, nil, nil, nil, "none", wide40},
			[]value.Value{a, targets, wide40, nil, nil, "none"}, nil},
	} {
		t.Run(tc.want, func(t *testing.T) {
			if tc.made == nil {
				tc.made = tc.args
			}
			call, err := opt.Registry.Bind(tc.op, tc.made, nil)
			if err != nil {
				t.Fatal(err)
			}
			f, err := call.Forward()
			if err != nil {
				t.Fatal(err)
			}
			var gave value.Value = f.Outs[0].Rounded()
			if tc.then != nil {
				gave = edited(f.Outs[0], tc.then)
			}
			if len(f.Outs) > 1 {
				gave = value.NewTuple(gave, f.Outs[1].Rounded())
			}
			dir := record(t, tc.op, tc.args, gave)
			found := explain(entries(t, dir)[0], opt)
			if len(found) == 0 || !says(found[0], tc.want) {
				t.Errorf("causes %+v, want first %q", found, tc.want)
			}
		})
	}
}
