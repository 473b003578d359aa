package causes

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestRoundedNumbers: floating arguments that have fewer bits, together, all but one, and each; not those that have all
// their bits in fewer.
func TestRoundedNumbers(t *testing.T) {
	x := rows(1, 40)
	c, outs := searched(t, "torch.nn.functional.leaky_relu", x, 0.01)
	fails := failing(x, outs[0], func(x float64) float64 { return max(x, tensor.BFloat16.Round(0.01)*x) })
	same64(t, "slope", made(t, c.roundedNumbers(fails), "negative_slope is rounded to bfloat16", "output[0]", outs[0]),
		elements(fails[0].Got))
	c, _ = searched(t, "torch.nn.functional.leaky_relu", x, 0.25)
	if all := texts(c.roundedNumbers(fails)); len(all) > 0 {
		t.Error("0.25 has few bits: ", all)
	}
	c, _ = searched(t, "torch.nn.functional.batch_norm", rows(2, 3, 4), rows(3, 4), opdefOnes(4), nil, nil, true,
		0.1, 1e-5)
	all := texts(c.roundedNumbers(fails))
	if !slices.Contains(all, "momentum and eps are rounded to float16") ||
		!slices.Contains(all, "eps is rounded to bfloat16") {
		t.Error(all)
	}
}

func opdefOnes(n int) *tensor.Tensor { return tensor.Full(tensor.Float32, []int{n}, 1.0).Rounded() }

// TestLanes: elements of a vector that stand in another order, in the last row alone.
func TestLanes(t *testing.T) {
	c, outs := searched(t, "torch.tanh", rows(4, 6, 32))
	v := elements(outs[0])
	got := slices.Clone(v)
	for i := 160; i < 192; i++ {
		got[i] = v[i/8*8+7-i%8]
	}
	w := Wrong{Target: "output[0]", Want: outs[0], Got: tensor.New(tensor.Float32, outs[0].Shape, got).Rounded()}
	same64(t, "reversed", made(t, c.displaced([]Wrong{w}),
		"at index 5 of dimension 0: each 8 elements stand in reverse", "output[0]", outs[0]), got)
	got[170] = 3
	w.Got = tensor.New(tensor.Float32, outs[0].Shape, got).Rounded()
	if all := texts(c.displaced([]Wrong{w})); len(all) > 0 {
		t.Error("one element is another: ", all)
	}
}

// TestSkewed: an operand that is broadcast is read at the sum of two indices.
func TestSkewed(t *testing.T) {
	x, b := rows(5, 3, 4), rows(6, 4)
	c, outs := searched(t, "torch.add", x, b)
	v, w, want := elements(x), elements(b), make([]float64, 12)
	for i := range want {
		want[i] = v[i] + w[(i%4+i/4)%4]
	}
	text := "other is read at i + j modulo 4, of the indices i of dimension 1 and j of dimension 0"
	same64(t, "skewed", made(t, c.misbroadcast(), text, "output[0]", outs[0]), want)
}

// TestFilled: indices that others step over have few gaps.
func TestFilled(t *testing.T) {
	for _, c := range [][2][]int{{{1, 3, 5, 9, 11}, {1, 3, 5, 7, 9, 11}}, {{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}},
		{{1, 9, 11}, {1, 9, 11}}, {{2, 3, 9, 20, 40, 41}, {2, 3, 9, 20, 40, 41}}} {
		if got := filled(c[0]); !slices.Equal(got, c[1]) {
			t.Errorf("%v becomes %v, want %v", c[0], got, c[1])
		}
	}
}

// TestLimitNamed: numbers from which kernels start to look for a smallest or largest one have names.
func TestLimitNamed(t *testing.T) {
	for x, want := range map[float64]string{tensor.Float32.SmallestNormal(): "the smallest normal number of float32",
		-tensor.Float16.Max(): "the lowest number of float16", math.MaxInt32: "the largest number of int32", 1.5: ""} {
		if got := limitNamed(x); !strings.HasSuffix(got, want) || (want == "") != (got == "") {
			t.Errorf("%v is %q, want %q", x, got, want)
		}
	}
}

// TestWrapping: a count that is kept in 8 bits is looked for first.
func TestWrapping(t *testing.T) {
	x := tensor.Full(tensor.Bool, []int{2, 200}, int64(1))
	c, outs := searched(t, "torch.sum", x, int64(1))
	w := Wrong{Target: "output[0]", Want: outs[0], Got: tensor.New(tensor.Int64, []int{2}, []int64{-56, -56})}
	all, _ := c.Mistakes([]Wrong{w})
	if !slices.Contains(texts(all[0]), "the result wraps at 8 bits") {
		t.Error(texts(all[0]))
	}
}

// TestCountedTwice: a row of the incoming gradient that is added twice.
func TestCountedTwice(t *testing.T) {
	c, _ := searched(t, "torch.add", rows(5, 9, 14), rows(6, 14))
	all := texts(c.missingRows())
	for _, text := range []string{"the first 1 of 9 rows of the incoming gradient count twice",
		"the last 1 of 9 rows of the incoming gradient are left out"} {
		if !slices.Contains(all, text) {
			t.Error(text, all)
		}
	}
	if asOften(0, math.Inf(1)) != 0 || asOften(2, 3) != 6 {
		t.Error("what is left out counts")
	}
}
