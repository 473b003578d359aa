package causes

import (
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestOneValue: a result that is wrong only where the operand is 0 tells no function, but what it is there.
func TestOneValue(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{8}, []float64{0, 1, -2, 0, 3, 0, 0, -1}).Rounded()
	c, outs := searched(t, "torch.sign", x)
	got := tensor.New(tensor.Float32, []int{8}, []float64{1, 1, -1, 1, 1, 1, 1, -1}).Rounded()
	k := c.atSpot(&Wrong{Target: "output[0]", Got: got, Want: outs[0]})
	if k == nil || k.Text != "where self is 0, it is 1, not 0" {
		t.Error(k)
	}
	if bits := c.AtSpot(&Wrong{Target: "output[0]", Got: got, Want: outs[0]}); bits >= leastBits {
		t.Error("one number explains as many bits as a cause needs: ", bits)
	}
	other := tensor.New(tensor.Float32, []int{8}, []float64{1, 1, 1, 1, 1, 1, 1, -1}).Rounded()
	wrong := &Wrong{Target: "output[0]", Got: other, Want: outs[0]}
	if c.atSpot(wrong) != nil || c.AtSpot(wrong) < Plenty {
		t.Error("-2 is wrong, too")
	}
}

// TestSpots: what is wrong only where operands hold something tells that, of gradients and of booleans of two operands,
// too. Mistakes that take numbers for others explain no more than that.
func TestSpots(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	x := tensor.New(tensor.Float32, []int{10}, []float64{0, 1, -4, 0, 5, 0, 0, -9, 2, -7}).Rounded()
	up := tensor.New(tensor.Float32, []int{10}, []float64{3, 1, 5, -2, 7, 4, 6, -8, 9, 2}).Rounded()
	y := tensor.New(tensor.Float32, []int{10}, []float64{0, nan, -4, 1e-6, 5, nan, nan, nan, 2, -7}).Rounded()
	z := tensor.New(tensor.Float32, []int{10}, []float64{inf, 1, -inf, inf, inf, 3, 4, 5, 6, -inf}).Rounded()
	grad := func(of func(x, up float64) float64) *tensor.Tensor {
		return opdef.Zip(tensor.Float32, x, up, of).Rounded()
	}
	relu := grad(func(x, up float64) float64 { return float64(btoi(x > 0)) * up })
	clip := grad(func(x, up float64) float64 { return float64(btoi(math.Abs(x) <= 3)) * up / 6 })
	all := grad(func(_, up float64) float64 { return up / 6 })
	bools := func(is ...int64) *tensor.Tensor { return tensor.New(tensor.Bool, []int{10}, is) }
	for _, c := range []struct {
		op        string
		args      []value.Value
		target    string
		got, want *tensor.Tensor
		text      string
	}{
		{"torch.relu", []value.Value{x}, "grad[0]",
			grad(func(x, up float64) float64 { return float64(btoi(x >= 0)) * up }), relu,
			"where self is 0, it is the incoming gradient, not 0"},
		{"torch.ops.aten.threshold_backward", []value.Value{up, x, int64(0)}, "output[0]",
			grad(func(x, up float64) float64 { return float64(btoi(x >= 0)) * up }), relu,
			"where self is 0, it is the incoming gradient, not 0"},
		{"torch.nn.functional.hardsigmoid", []value.Value{x}, "grad[0]", all, clip,
			"where the magnitude of self is above 2, it is the incoming gradient times 0.1666667, not 0"},
		{"torch.lt", []value.Value{x, y}, "output[0]", bools(0, 1, 0, 1, 0, 1, 1, 1, 0, 0),
			bools(0, 0, 0, 1, 0, 0, 0, 0, 0, 0), "where other is NaN, it is True, not False"},
		{"torch.isnan", []value.Value{z}, "output[0]", bools(1, 0, 1, 1, 1, 0, 0, 0, 0, 1),
			bools(0, 0, 0, 0, 0, 0, 0, 0, 0, 0), "where self is infinite, it is True, not False"},
		{"torch.relu", []value.Value{x}, "grad[0]", grad(func(x, up float64) float64 { return x * up }), relu, ""},
	} {
		call, _ := searched(t, c.op, c.args...)
		call.Incoming = []*tensor.Tensor{up}
		w := &Wrong{Target: c.target, Got: c.got, Want: c.want}
		k := call.atSpot(w)
		switch {
		case (k != nil) != (c.text != ""), k != nil && k.Text != c.text:
			t.Errorf("%s: %+v, want %q", c.op, k, c.text)
		case k != nil && call.AtSpot(w) >= leastBits, k == nil && call.AtSpot(w) < Plenty:
			t.Errorf("%s: %v bits", c.op, call.AtSpot(w))
		}
	}
}

// TestUnsigned: what is compared without sign, and the last of whole numbers that is left out.
func TestUnsigned(t *testing.T) {
	x := tensor.New(tensor.Int32, []int{4}, []int64{-1, 2, -3, 4})
	y := tensor.New(tensor.Int32, []int{4}, []int64{5, 1, -2, -6})
	c, _ := searched(t, "torch.maximum", x, y)
	way, err := next(c.unsigned()).Make()
	if err != nil {
		t.Fatal(err)
	}
	f, err := way.Call.Forward()
	if err != nil {
		t.Fatal(err)
	}
	same64(t, "maximum without sign", elements(way.Alter("output[0]", f.Outs[0])), []float64{-1, 2, -2, -6})
	bag, outs := searched(t, "torch.nn.functional.embedding_bag",
		tensor.New(tensor.Int64, []int{4}, []int64{0, 2, 1, 2}), rows(5, 3, 2),
		tensor.New(tensor.Int64, []int{2}, []int64{0, 2}), nil, 2.0, false, "sum")
	w := rows(5, 3, 2)
	same64(t, "last index", made(t, bag.missingIndices(), "the last of input is left out", "output[0]", outs[0])[2:],
		elements(w)[2:4])
}

// next is the first mistake.
func next(ms iter.Seq[Mistake]) (m Mistake) {
	for m = range ms {
		break
	}
	return m
}

// TestCasts: an operator that gives booleans computes whole numbers.
func TestCasts(t *testing.T) {
	x := tensor.New(tensor.Int32, []int{4}, []int64{0, 2, -3, 0})
	c, outs := searched(t, "torch.bitwise_not", x)
	n := 0
	for m := range c.otherOperators([]string{"torch.logical_not"}) {
		if n++; n < 2 {
			continue
		}
		way, f := forward(t, m)
		y := way.Alter("output[0]", f.Outs[0])
		if y.DType != outs[0].DType {
			t.Error("dtype", y.DType)
		}
		same64(t, "logical_not", elements(y), []float64{1, 0, 0, 1})
	}
	if n != 2 {
		t.Errorf("%d mistakes, want 2", n)
	}
}

// TestShifted: elements that are written further on are so everywhere, but for the ends: not where the ends of rows are
// others.
func TestShifted(t *testing.T) {
	y := elements(rows(7, 200))
	shift := flatMaps([]int{200})[0]
	x := append([]float64{9}, y[:199]...)
	if !sameAt(x, y, shift, 1e-6) {
		t.Error("one further is not seen")
	}
	for i := 25; i < 200; i += 25 {
		x[i] += 1
	}
	if sameAt(x, y, shift, 1e-6) {
		t.Error("the ends of rows of 25 are others")
	}
}

// TestRelated: factors that are quotients of sizes, and some that are not.
func TestRelated(t *testing.T) {
	c, outs := searched(t, "torch.mean", rows(1, 4, 25), int64(1))
	for x, want := range map[float64]string{25.0 / 32: "25/32", 1.0 / 25: "1/25", 25.0 / 24: "25/24", math.Pi: "pi",
		0.2: "1/sqrt(25)", 0.77: "", 1.5: ""} {
		k, ok := c.related(x, 4e-6)
		if ok != (want != "") || !strings.HasPrefix(k.text, want) {
			t.Errorf("%v is %q, want %q", x, k.text, want)
		}
	}
	square, _ := searched(t, "torch.nn.functional.linear", rows(2, 4, 20), rows(3, 16, 20), rows(4, 16))
	for _, x := range []float64{2, 0.25} { // roots of 4 and of 16
		if k, ok := square.related(x, 4e-6); ok && strings.Contains(k.text, "sqrt") {
			t.Errorf("%v is %q", x, k.text)
		}
	}
	heads := rows(5, 2, 24, 48)
	scaled, _ := searched(t, "torch.nn.functional.scaled_dot_product_attention", heads, heads, heads)
	if k, ok := scaled.related(math.Sqrt(0.75), 4e-6); !ok || !strings.HasPrefix(k.text, "sqrt(48/64)") {
		t.Errorf("of 24/32 and 48/64: %q", k.text)
	}
	if text, ok := c.fittedText("lr", 0.00397, 0.02, tensor.Float16); ok {
		t.Error("a number nobody means is known to few digits: ", text)
	}
	if text, ok := c.fittedText("lr", 0.01, 0.02, tensor.Float16); !ok || text != "lr is 0.01, not 0.02" {
		t.Error(text)
	}
	_ = outs
}

// TestTerms: a result that lacks a term, and one that lacks none of those.
func TestTerms(t *testing.T) {
	x := rows(2, 64)
	c, outs := searched(t, "torch.exp", x)
	fails := []Wrong{{Target: "output[0]", Want: outs[0], Got: opdef.Zip(tensor.Float32, outs[0], x,
		func(y, x float64) float64 { return y - max(x, 0) }).Rounded()}}
	same64(t, "lacks relu", made(t, c.termed(fails), "relu(self) is subtracted", "output[0]", outs[0]),
		elements(fails[0].Got))
	fails[0].Got = rows(3, 64)
	for m := range c.termed(fails) {
		t.Error("random numbers have no term: ", m.Text)
	}
}

// TestQuotients: remainders to the nearest, and shifts without the sign.
func TestQuotients(t *testing.T) {
	if f := unsignedShift(8); f(-1, 1) != 127 || f(6, 1) != 3 || !math.IsNaN(f(0.5, 1)) {
		t.Error(f(-1, 1), f(6, 1))
	}
	x, y := rows(4, 64), opdef.Map(tensor.Float32, rows(5, 64), func(x float64) float64 { return 0.2 + math.Abs(x) })
	c, outs := searched(t, "torch.fmod", x, y.Rounded())
	got := opdef.Zip(tensor.Float32, x, y.Rounded(), math.Remainder).Rounded()
	fails := []Wrong{{Target: "output[0]", Got: got, Want: outs[0]}}
	same64(t, "remainder", made(t, c.expressed(fails), "it is computed as self - other * round(self / other)",
		"output[0]", outs[0]), elements(got))
}

// TestComplexParts: the sum of the magnitudes of both parts in place of the magnitude.
func TestComplexParts(t *testing.T) {
	a, b := elements(rows(6, 64)), elements(rows(7, 64))
	z, sum := make([]complex128, 64), make([]float64, 64)
	for i := range z {
		z[i], sum[i] = complex(a[i], b[i]), math.Abs(a[i])+math.Abs(b[i])
	}
	c, outs := searched(t, "torch.abs", tensor.New(tensor.Complex64, []int{64}, z).Rounded())
	fails := []Wrong{{Target: "output[0]", Got: tensor.New(tensor.Float32, []int{64}, sum).Rounded(), Want: outs[0]}}
	same64(t, "sum", made(t, c.expressed(fails),
		"it is computed as abs(the real part of self) + abs(the imaginary part of self)", "output[0]", outs[0]), sum)
}

// TestThroughFloats: integers that go through float32, floats that are cut, dimensions of a mask that are exchanged.
func TestThroughFloats(t *testing.T) {
	of := func(x *tensor.Tensor, text string) []float64 {
		for _, from := range []transformer{ofElements, inMemory} {
			for _, f := range from(x) {
				if f.text == text {
					return elements(f.of(x))
				}
			}
		}
		return nil
	}
	same64(t, "through float32", of(tensor.New(tensor.Int64, []int{2}, []int64{16777217, 5}).Rounded(),
		"%s goes through float32"), []float64{16777216, 5})
	same64(t, "cut", of(tensor.New(tensor.Float32, []int{2}, []float64{1.75, -1.75}).Rounded(),
		"%s is cut to whole numbers"), []float64{1, -1})
	x := rows(8, 2, 1, 3)
	if of(x, "dimensions 1 and 2 of %s are exchanged") == nil {
		t.Error("a dimension of 1 may stand elsewhere")
	}
	if of(rows(9, 2, 4, 3), "dimensions 1 and 2 of %s are exchanged") != nil {
		t.Error("4 and 3 cannot be exchanged")
	}
}

// TestOneOfAList: each number of a list is tried by itself.
func TestOneOfAList(t *testing.T) {
	c, _ := searched(t, "torch.nn.functional.avg_pool2d", rows(10, 1, 1, 6, 6), value.NewList(int64(3), int64(2)))
	var texts []string
	for m := range c.wrongArguments() {
		texts = append(texts, m.Text)
	}
	if !slices.Contains(texts, "kernel_size is [3, 1], not [3, 2]") {
		t.Error(texts)
	}
}
