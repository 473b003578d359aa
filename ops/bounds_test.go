package ops

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// gradBound is the gradient of an argument of a call for the upstream gradient
// ones, with its bound.
func gradBound(t *testing.T, c *opdef.Call, f *opdef.Forward, arg string) (grad []float64, b opdef.Bound) {
	t.Helper()
	out := []*tensor.Tensor{tensor.Full(tensor.Float64, f.Outs[0].Shape, 1.0)}
	gr, err := c.Backward(f, out, map[string]bool{arg: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(gr[arg]) != 1 {
		t.Fatalf("%s: no gradient of %s", c.Entry.Op(), arg)
	}
	return tensor.Data[float64](gr[arg][0]), c.GradBound(f, out, gr, arg, 0)
}

// TestCrossEntropyBound: the gradient of a probability near 1 is a quotient, so
// its magnitude is not the square of its denominator's inverse.
func TestCrossEntropyBound(t *testing.T) {
	x := tensor.New(tensor.Float64, []int{2}, []float64{0.9999, 0.5})
	x.RequiresGrad = true
	target := tensor.New(tensor.Float64, []int{2}, []float64{0, 1})
	c, f, err := invoke(t, "torch.nn.functional.binary_cross_entropy", []value.Value{x, target}, "reduction", "sum")
	if err != nil {
		t.Fatal(err)
	}
	grad, b := gradBound(t, c, f, "input")
	for i, s := range tensor.Data[float64](b.Scale()) {
		if g := grad[i]; s < max(g, -g) || s > 4*max(g, -g) {
			t.Errorf("element %d: gradient %g, magnitude %g: want 1 to 4 times as much", i, g, s)
		}
	}
}

// TestInterpolateBound: positions are as wrong as dimensions are long, one after
// the other; their errors add up and do not multiply.
func TestInterpolateBound(t *testing.T) {
	const h, w = 30, 40
	x := tensor.Full(tensor.Float64, []int{1, 1, h, w}, 1.0)
	x.RequiresGrad = true
	c, f, err := invoke(t, "torch.nn.functional.interpolate", []value.Value{x}, "scale_factor", 1.5, "mode", "bilinear",
		"align_corners", false)
	if err != nil {
		t.Fatal(err)
	}
	most := func(s []float64) (m float64) {
		for _, v := range s {
			m = max(m, v)
		}
		return m
	}
	// Each dimension has two weights of its size.
	if m := most(tensor.Data[float64](c.OutBound(f, 0).Scale())); m < 1+h+w || m > 1+2*(h+w) {
		t.Errorf("magnitude of the result: got %g, want %d to %d", m, 1+h+w, 1+2*(h+w))
	}
	// An element of the input is in at most 16 of the result.
	_, b := gradBound(t, c, f, "input")
	if m := most(tensor.Data[float64](b.Scale())); m > 16*(1+h+w) {
		t.Errorf("magnitude of the gradient: got %g, want at most %d", m, 16*(1+h+w))
	}
}

// TestSoftmaxNodeBound: with dtype= the gradient is that of another node, and
// small elements have small magnitudes there too.
func TestSoftmaxNodeBound(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{1, 3}, []float64{0, -20, -1})
	x.RequiresGrad = true
	c, f, err := invoke(t, "torch.nn.functional.softmax", []value.Value{x}, "dim", int64(1), "dtype", tensor.Float64)
	if err != nil {
		t.Fatal(err)
	}
	out := []*tensor.Tensor{tensor.New(tensor.Float64, []int{1, 3}, []float64{1, 2, 3})}
	n, ok, err := c.Node(f, out)
	if err != nil || !ok {
		t.Fatalf("node %v, error %v", ok, err)
	}
	s := tensor.Data[float64](c.NodeBound(f, out, n, 0).Scale())
	if s[1] > 1e-6*s[0] {
		t.Errorf("magnitudes %v: the second is of an element near 0", s)
	}
}

// TestLinearNodeBound: the gradient of a bias is a sum that can cancel; its
// magnitude is that of its terms.
func TestLinearNodeBound(t *testing.T) {
	f32 := func(shape []int, v ...float64) *tensor.Tensor {
		x := tensor.New(tensor.Float32, shape, v)
		x.RequiresGrad = true
		return x
	}
	c, f, err := invoke(t, "torch.nn.functional.linear", []value.Value{f32([]int{2, 1}, 1, 1), f32([]int{1, 1}, 1),
		f32([]int{1}, 0)})
	if err != nil {
		t.Fatal(err)
	}
	out := []*tensor.Tensor{tensor.New(tensor.Float32, []int{2, 1}, []float64{5, -4})}
	n, ok, err := c.Node(f, out)
	if err != nil || !ok {
		t.Fatalf("node %v, error %v", ok, err)
	}
	if s := tensor.Data[float64](c.NodeBound(f, out, n, 0).Scale()); s[0] != 9 {
		t.Errorf("magnitude %g, want 9", s[0])
	}
}

// TestCoarseBounds: where torch rounds what is between to the dtype, the
// magnitudes say so, and the bound must not count the dtype's roundoff again.
func TestCoarseBounds(t *testing.T) {
	bf16 := func(shape []int, v ...float64) *tensor.Tensor {
		x := tensor.New(tensor.BFloat16, shape, v)
		x.RequiresGrad = true
		return x
	}
	x := func() *tensor.Tensor { return bf16([]int{3}, 1, 2, 4) }
	for _, tc := range []struct {
		name, arg string
		args      []value.Value
		keywords  []value.Value
	}{
		{"torch.diff", "self", []value.Value{x()}, []value.Value{"n", int64(2)}},
		{"torch.trapezoid", "y", []value.Value{x()}, nil},
		{"torch.cross", "self", []value.Value{x(), x()}, []value.Value{"dim", int64(0)}},
		{"torch.gradient", "self", []value.Value{x()}, nil},
		{"torch.segment_reduce", "data", []value.Value{x(), "sum"},
			[]value.Value{"lengths", tensor.New(tensor.Int64, []int{1}, []int64{3})}},
	} {
		c, f, err := invoke(t, tc.name, tc.args, tc.keywords...)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if !c.OutBound(f, 0).Coarse {
			t.Errorf("%s: the result's bound is not coarse", tc.name)
		}
		if _, b := gradBound(t, c, f, tc.arg); !b.Coarse {
			t.Errorf("%s: the gradient's bound is not coarse", tc.name)
		}
	}
}

// TestAttentionBound: what the steps of an attention round to 16 bits adds up
// to less than an error that matters, for lengths of all sizes, and to more than
// one unit in the last place of a typical element.
func TestAttentionBound(t *testing.T) {
	const batch, width, heads = 2, 128, 4
	g := opdef.Gen{R: rand.New(rand.NewPCG(1, 2))}
	draw := func(scale float64, shape ...int) *tensor.Tensor {
		x := opdef.Map(tensor.BFloat16, g.Normal(tensor.Float64, shape...),
			func(x float64) float64 { return scale * x }).Rounded()
		x.RequiresGrad = true
		return x
	}
	check := func(what string, values *tensor.Tensor, b opdef.Bound) {
		t.Helper()
		if !b.Coarse {
			t.Errorf("%s: a 16-bit accumulator is explained besides what the doubts count already", what)
		}
		most, far, squares := opdef.MaxAbs(values), 0.0, 0.0
		c := (4 + 4*math.Sqrt(float64(b.Terms))) * 0x1p-24
		for i, s := range tensor.Data[float64](b.Scale()) {
			far = max(far, c*s)
			squares += math.Pow(tensor.At[float64](values, i), 2)
		}
		if typical := math.Sqrt(squares / float64(values.Numel())); far > most/4 ||
			far < typical*tensor.BFloat16.Eps() {
			t.Errorf("%s: the bound reaches %.3g of the largest element, %.3g of a typical one", what, far/most,
				far/typical)
		}
	}
	for _, n := range []int{16, 300} {
		x := draw(1, n, batch, width)
		weights, out := draw(1/math.Sqrt(width), 3*width, width), draw(1/math.Sqrt(width), width, width)
		c, f, err := invoke(t, "torch.nn.functional.multi_head_attention_forward",
			[]value.Value{x, x, x, int64(width), int64(heads), weights, draw(0.1, 3*width), nil, nil, false, 0.0, out,
				draw(0.1, width)}, "need_weights", false)
		if err != nil {
			t.Fatal(err)
		}
		check("heads", f.Outs[0], c.OutBound(f, 0))
		q := draw(1, heads, n, 32)
		c, f, err = invoke(t, "torch.nn.functional.scaled_dot_product_attention",
			[]value.Value{q, draw(1, heads, n, 32), draw(1, heads, n, 32)})
		if err != nil {
			t.Fatal(err)
		}
		check("attention", f.Outs[0], c.OutBound(f, 0))
		up := []*tensor.Tensor{g.Normal(tensor.Float64, heads, n, 32)}
		gr, err := c.Backward(f, up, map[string]bool{"query": true, "key": true, "value": true})
		if err != nil {
			t.Fatal(err)
		}
		for _, arg := range []string{"query", "key", "value"} {
			check("gradient of "+arg, gr[arg][0], c.GradBound(f, up, gr, arg, 0))
		}
	}
}

// TestTermsOfGradients: of arguments and upstream gradients that are all ones a gradient counts its terms, of which the
// bound knows no fewer, and hardly more than the largest has.
func TestTermsOfGradients(t *testing.T) {
	ones := func(shape ...int) *tensor.Tensor {
		x := tensor.Full(tensor.Float64, shape, 1.0)
		x.RequiresGrad = true
		return x
	}
	r := rand.New(rand.NewPCG(1, 9))
	index := func(n int, shape ...int) *tensor.Tensor {
		v := make([]int64, tensor.Numel(shape))
		for i := range v {
			v[i] = r.Int64N(int64(n))
		}
		return tensor.New(tensor.Int64, shape, v)
	}
	zero, one, two := int64(0), int64(1), int64(2)
	for _, tc := range []struct {
		op   string
		args []value.Value
		of   []string // arguments
	}{
		{"torch.nn.functional.conv2d", []value.Value{ones(3, 4, 20, 20), ones(6, 4, 3, 3), ones(6), one, one},
			[]string{"input", "weight", "bias"}},
		{"torch.nn.functional.conv2d", []value.Value{ones(4, 20, 20), ones(6, 2, 3, 3), ones(6), one, one, one, two},
			[]string{"input", "weight", "bias"}},
		{"torch.nn.functional.conv_transpose1d", []value.Value{ones(3, 4, 50), ones(4, 6, 3), ones(6), two},
			[]string{"input", "weight", "bias"}},
		{"torch.scatter_add", []value.Value{ones(50, 9), zero, index(50, 70, 9), ones(70, 9)},
			[]string{"self", "src"}},
		{"torch.index_add", []value.Value{ones(50, 9), zero, index(50, 70), ones(70, 9)},
			[]string{"self", "source"}},
		{"torch.index_put", []value.Value{ones(50, 9), value.NewTuple(index(50, 70)), ones(70, 9), true},
			[]string{"self", "values"}},
		{"torch.gather", []value.Value{ones(50, 9), zero, index(50, 70, 9)}, []string{"self"}},
		{"torch.index_select", []value.Value{ones(9, 50), one, index(50, 70)}, []string{"self"}},
		{"torch.take", []value.Value{ones(50, 9), index(450, 700)}, []string{"self"}},
		{"torch.Tensor.__getitem__", []value.Value{ones(50, 9), value.NewTuple(index(50, 70))}, []string{"self"}},
		{"torch.nn.functional.embedding", []value.Value{index(50, 70), ones(50, 9)}, []string{"weight"}},
		{"torch.repeat_interleave", []value.Value{ones(5), index(9, 5)}, []string{"self"}},
	} {
		c, f, err := invoke(t, tc.op, tc.args)
		if err != nil {
			t.Fatal(tc.op, err)
		}
		for _, arg := range tc.of {
			grad, b := gradBound(t, c, f, arg)
			if most := int(slices.Max(grad)); b.Terms < most || b.Terms > most*5/4+1 {
				t.Errorf("%s: gradient of %s of %d terms, said to have %d", tc.op, arg, most, b.Terms)
			}
		}
	}
	// A result has those that are written to one element, and what was there.
	for _, op := range []string{"torch.scatter_add", "torch.index_add"} {
		at := index(50, 70)
		if op == "torch.scatter_add" {
			at = index(50, 70, 9)
		}
		c, f, err := invoke(t, op, []value.Value{ones(50, 9), zero, at, ones(70, 9)})
		if err != nil {
			t.Fatal(op, err)
		}
		most := int(slices.Max(tensor.Data[float64](f.Outs[0])))
		if n := c.OutBound(f, 0).Terms; n != most {
			t.Errorf("%s: a result of %d terms, said to have %d", op, most, n)
		}
	}
}

// TestIgnoredPosition: torch's CPU multiplies the softmax of an ignored position by 0, which NaN
// among its scores survives, other kernels store 0: both are right there, and nowhere else.
func TestIgnoredPosition(t *testing.T) {
	nan := math.NaN()
	x := tensor.New(tensor.Float64, []int{2, 2}, []float64{nan, 1, 0, 0})
	x.RequiresGrad = true
	target := tensor.New(tensor.Int64, []int{2}, []int64{-100, 1})
	c, f, err := invoke(t, "torch.nn.functional.cross_entropy", []value.Value{x, target})
	if err != nil {
		t.Fatal(err)
	}
	grad, b := gradBound(t, c, f, "input")
	if want := []float64{0, 0, 0.5, -0.5}; !slices.Equal(grad, want) {
		t.Errorf("gradient %v, want %v", grad, want)
	}
	for _, other := range b.Else() {
		v := tensor.Data[float64](other)
		if !math.IsNaN(v[0]) || !math.IsNaN(v[1]) || v[2] != 0.5 || v[3] != -0.5 {
			t.Errorf("another gradient is %v, want NaN, NaN, 0.5, -0.5", v)
		}
	}
	if b.Else() == nil {
		t.Error("no other gradient is right")
	}
}

// TestProductOfZeros: torch divides the product by each element only where no element is 0. So NaN is no right gradient
// of an element that is 0.
func TestProductOfZeros(t *testing.T) {
	x := tensor.New(tensor.Float64, []int{2, 3}, []float64{2, 0, 3, 0, 0, 5})
	x.RequiresGrad = true
	c, f, err := invoke(t, "torch.prod", []value.Value{x, int64(1)})
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{0, 6, 0, 0, 0, 0}
	grad, b := gradBound(t, c, f, "self")
	for _, got := range append([][]float64{grad}, tensor.Data[float64](b.Else()[0])) {
		if !slices.Equal(got, want) {
			t.Errorf("gradient %v, want %v", got, want)
		}
	}
}

// TestMixedDTypes holds the dtype and the bounds of calls with operands of different dtypes to results of torch 2.15
// and 1.13, which rounds what it makes of one operand alone to that operand's dtype.
func TestMixedDTypes(t *testing.T) {
	of := func(dt tensor.DType, v ...float64) *tensor.Tensor { return tensor.New(dt, []int{len(v)}, v).Rounded() }
	half, single := tensor.BFloat16, tensor.Float32
	x, target := of(half, .5, -1.25, 2), of(single, .3, .7, .1)
	rows := func(t *tensor.Tensor) *tensor.Tensor { return t.Reshape(1, 3) }
	for _, tc := range []struct {
		name     string
		args     []value.Value
		keywords []value.Value
		dt       tensor.DType
		results  [][]float64
	}{
		{"torch.nn.functional.huber_loss", []value.Value{x, target}, []value.Value{"delta", .7}, half,
			[][]float64{{0.02001953125, 1.1171875, 1.0859375}}},
		{"torch.nn.functional.soft_margin_loss", []value.Value{x, of(single, 1, -1, 1)}, nil, half,
			[][]float64{{0.47265625, 0.251953125, 0.126953125}, {0.4765625, 0.25390625, 0.12451171875}}},
		{"torch.nn.functional.binary_cross_entropy_with_logits", []value.Value{x, target}, nil, single,
			[][]float64{{0.8246093988418579, 1.125, 1.9269530773162842}, {0.8265625238418579, 1.12890625,
				1.9245116710662842}}},
		{"torch.nn.functional.binary_cross_entropy_with_logits", []value.Value{of(single, .5, -1.25, 2),
			of(half, .3, .7, .1)}, nil, half, [][]float64{{0.82421875, 1.125, 1.921875}}},
		{"torch.nn.functional.kl_div", []value.Value{x, target}, nil, single,
			[][]float64{{-0.5111918449401855, 0.6253275275230408, -0.43025851249694824}}},
		{"torch.nn.functional.poisson_nll_loss", []value.Value{x, target}, nil, single,
			[][]float64{{1.498437523841858, 1.162109375, 7.175000190734863}}},
		{"torch.nn.functional.gaussian_nll_loss", []value.Value{x, target, target}, nil, single,
			[][]float64{{-0.5353197455406189, 2.537734031677246, 16.898706436157227}}},
		{"torch.ldexp", []value.Value{target, x}, nil, single,
			[][]float64{{0.4242187738418579, 0.2939453125, 0.4000000059604645}}},
		{"torch.nn.functional.cross_entropy", []value.Value{rows(x), rows(target)}, nil, single,
			[][]float64{{2.98291015625}}},
		{"torch.nn.functional.cosine_similarity", []value.Value{x, target}, []value.Value{"dim", int64(0)}, single,
			[][]float64{{-0.2838982343673706}, {-0.28349918127059937}}},
	} {
		keywords := tc.keywords
		if strings.HasPrefix(tc.name, "torch.nn.functional.") && !strings.HasSuffix(tc.name, "similarity") {
			keywords = append(keywords, "reduction", "none")
		}
		c, f, err := invoke(t, tc.name, tc.args, keywords...)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if dt := f.Outs[0].DType; dt != tc.dt {
			t.Errorf("%s: dtype is %s, want %s", tc.name, dt, tc.dt)
		}
		exact, b := tensor.Data[float64](f.Outs[0]), c.OutBound(f, 0)
		scale := tensor.Data[float64](b.Scale())
		for _, got := range tc.results {
			for i, v := range got {
				if most := b.ULPs * tc.dt.Eps() * scale[i]; math.Abs(v-exact[i]) > most {
					t.Errorf("%s: element %d is %g, the exact one %g: the bound is %g", tc.name, i, v, exact[i], most)
				}
			}
		}
	}
}

// verdictOn judges result i of a call by its bound, as in replays of the forward pass.
func verdictOn(c *opdef.Call, f *opdef.Forward, i int, got *tensor.Tensor) compare.Result {
	b := c.OutBound(f, i)
	m := compare.Model{ULPs: b.ULPs, Scale: b.Scale, Covers: b.Covers, Terms: b.Terms, Coarse: b.Coarse,
		Shared: b.Shared, Chain: b.Chain, Else: b.Else, Operand: b.Operand, Steps: b.Steps}
	return compare.Check(got, f.Outs[i], m, compare.DefaultTolerance(got.DType), nil)
}

// TestRowsIn16Bits: torch's CPU kernels add the rows of the gradients of weight and bias in 16 bits, where they are
// results as where they are gradients: no failure. Half as much is one.
func TestRowsIn16Bits(t *testing.T) {
	const rows, n = 48, 48
	mask := value.NewList(true, true, true)
	for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float16} {
		for seed := range uint64(20) {
			g := opdef.Gen{R: rand.New(rand.NewPCG(seed, 1))}
			x, up := g.Normal(dt, rows, n), g.Normal(dt, rows, n)
			zeros, ones := tensor.Full(dt, []int{rows, 1}, 0.0), tensor.Full(dt, []int{rows, 1}, 1.0)
			w := tensor.Full(dt, []int{n}, 1.0)
			terms := opdef.Zip(dt, x, up, func(a, b float64) float64 { return a * b })
			for op, args := range map[string][]value.Value{
				"layer": {up, x, value.NewTuple(int64(n)), zeros, ones, w, w, mask},
				"group": {up, x, zeros, ones, w, int64(rows), int64(n), int64(1), int64(1), mask},
			} {
				c, f, err := invoke(t, "torch.ops.aten.native_"+op+"_norm_backward", args)
				if err != nil {
					t.Fatal(err)
				}
				for i, v := range []*tensor.Tensor{1: terms, 2: up} {
					if v == nil {
						continue
					}
					sums, each := tensor.Make[float64](n), tensor.Data[float64](v)
					for k, a := range each {
						sums[k%n] = dt.Round(sums[k%n] + dt.Round(a))
					}
					got := tensor.New(dt, []int{n}, sums)
					if r := verdictOn(c, f, i, got); r.Verdict == verdict.Fail {
						t.Errorf("%s, %s, seed %d: result %d: %s", op, dt, seed, i, r.Reason)
					}
					half := opdef.Map(dt, got, func(a float64) float64 { return a / 2 })
					if r := verdictOn(c, f, i, half); r.Verdict != verdict.Fail {
						t.Errorf("%s, %s, seed %d: half of result %d: %s", op, dt, seed, i, r.Verdict)
					}
				}
			}
		}
	}
}

// TestRunningStatisticsShare: all new running statistics may share a number that was rounded, as where all old ones are
// equal, also where they are results. Other results share none.
func TestRunningStatisticsShare(t *testing.T) {
	dt := tensor.BFloat16
	g := opdef.Gen{R: rand.New(rand.NewPCG(1, 2))}
	old := tensor.Full(dt, []int{4}, 1.0)
	c, f, err := invoke(t, "torch.ops.aten._native_batch_norm_legit_functional", []value.Value{g.Normal(dt, 60, 4), nil,
		nil, old, old, true, 0.1, 1e-5})
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Outs {
		if got, want := c.OutBound(f, i).Shared, i >= 3; got != want {
			t.Errorf("result %d: a rounded factor in common: %v, want %v", i, got, want)
		}
	}
}

// TestSubnormalBound: a norm that float16 stores with few digits may be off by half of the last of these, and what is
// divided by it as well. One with all digits is off by less.
func TestSubnormalBound(t *testing.T) {
	of := func(size float64) float64 {
		x := tensor.New(tensor.Float16, []int{1, 4}, []float64{size, -0.8125 * size, 0.375 * size, 0.125 * size})
		call, f, err := invoke(t, "torch.nn.functional.normalize", []value.Value{x})
		if err != nil {
			t.Fatal(err)
		}
		return tensor.Data[float64](call.OutBound(f, 0).Scale())[0] * 8 * 0x1p-24
	}
	if off := of(1); off > 0x1p-8 {
		t.Errorf("norm above 1: error %g", off)
	}
	const digits = 8 // units in the last place of the norm, 2^-24, in a norm of 1.3 * 2^-21
	if off := of(0x1p-21); off < 0.5/digits {
		t.Errorf("norm of %d units in its last place: error %g", digits, off)
	}
}
