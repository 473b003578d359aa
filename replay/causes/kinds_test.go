package causes

import (
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
	k := c.oneValue(&Wrong{Target: "output[0]", Got: got, Want: outs[0]})
	if k == nil || k.Text != "where self is 0, it is 1, not 0" {
		t.Error(k)
	}
	if bits := OfOneValue(x, got, outs[0]); bits >= leastBits {
		t.Error("one number explains as many bits as a cause needs: ", bits)
	}
	other := tensor.New(tensor.Float32, []int{8}, []float64{1, 1, 1, 1, 1, 1, 1, -1}).Rounded()
	wrong := &Wrong{Target: "output[0]", Got: other, Want: outs[0]}
	if c.oneValue(wrong) != nil || OfOneValue(x, other, outs[0]) < Plenty {
		t.Error("-2 is wrong, too")
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
