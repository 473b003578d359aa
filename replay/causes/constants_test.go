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

// failing is a failure of the first result, whose elements are f of those of x.
func failing(x *tensor.Tensor, due *tensor.Tensor, f func(x float64) float64) []Wrong {
	return []Wrong{{Target: "output[0]", Got: opdef.Map(tensor.Float32, x, f).Rounded(), Want: due}}
}

func texts(ms iter.Seq[Mistake]) (all []string) {
	for m := range ms {
		all = append(all, m.Text)
	}
	return all
}

// TestConstants: another number in a formula, in a composition that the operator is taken for, and of a loss.
func TestConstants(t *testing.T) {
	x := rows(11, 40)
	c, outs := searched(t, "torch.nn.functional.gelu", x)
	cube := func(x float64) float64 { return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.04*x*x*x))) }
	call, err := c.withArguments(map[string]value.Value{"approximate": "tanh"})
	if err != nil {
		t.Fatal(err)
	}
	tanh := *c
	tanh.Bound = call.Call
	f, err := tanh.Bound.Forward()
	if err != nil {
		t.Fatal(err)
	}
	fails := failing(x, f.Outs[0], cube)
	text := "the factor of the cube is 0.04, not 0.044715"
	same64(t, "cube", made(t, tanh.constants(fails, plainNamed), text, "output[0]", nil), elements(fails[0].Got))
	fails = failing(x, outs[0], func(x float64) float64 { return x / (1 + math.Exp(-1.7*x)) })
	text = "it is computed as quick_gelu, and the factor is 1.7, not 1.702"
	same64(t, "quick", made(t, c.constants(fails, plainGeneric), text, "output[0]", nil), elements(fails[0].Got))
	fails = failing(x, outs[0], func(x float64) float64 { return x / (1 + math.Exp(-1.71234*x)) })
	same64(t, "as if", made(t, c.constants(fails, asIf),
		"it is computed as quick_gelu, and the factor is as if it were 1.71234, not 1.702", "output[0]", nil),
		elements(fails[0].Got))

	y := rows(12, 40)
	c, outs = searched(t, "torch.nn.functional.huber_loss", x, y, "none", 0.8)
	d := opdef.Zip(tensor.Float32, x, y, func(x, y float64) float64 { return math.Abs(x - y) }).Rounded()
	fails = failing(d, outs[0], func(d float64) float64 {
		if d < 0.8 {
			return d * d / 2
		}
		return 0.8 * (d - 0.8)
	})
	text = "what is subtracted beyond delta, in units of it, is 1, not 0.5"
	same64(t, "huber", made(t, c.constants(fails, plainNamed), text, "output[0]", nil), elements(fails[0].Got))
}

// TestApproximated: Newton's steps, a series, a product with an approximated sigmoid, and the derivative of one.
func TestApproximated(t *testing.T) {
	x := opdef.Map(tensor.Float32, rows(14, 64), func(x float64) float64 { return 0.5 + math.Abs(x) }).Rounded()
	c, outs := searched(t, "torch.rsqrt", x)
	fails := failing(x, outs[0], func(x float64) float64 { return newton(x, 1) })
	text := "it is computed by the reciprocal square root of self by 1 of Newton's steps from the number 0x5f3759df"
	same64(t, "newton", made(t, c.approximated(fails), text, "output[0]", outs[0]), elements(fails[0].Got))

	c, outs = searched(t, "torch.exp", x)
	fails = failing(x, outs[0], func(x float64) float64 { return 1 + x + x*x/2 + x*x*x/6 })
	text = "it is computed by the series of the exponential up to the power 3 of self"
	same64(t, "series", made(t, c.approximated(fails), text, "output[0]", outs[0]), elements(fails[0].Got))

	c, outs = searched(t, "torch.nn.functional.silu", x)
	hard := func(x float64) float64 { return min(max(0.2*x+0.5, 0), 1) }
	fails = failing(x, outs[0], func(x float64) float64 { return x * hard(x) })
	text = "it is computed by self times 0.2*self + 0.5, limited to 0 to 1,"
	same64(t, "silu", made(t, c.approximated(fails), text, "output[0]", outs[0]), elements(fails[0].Got))

	c, _ = searched(t, "torch.sigmoid", x)
	c.Incoming = []*tensor.Tensor{rows(15, 64)}
	slope := opdef.Zip(tensor.Float32, x, c.Incoming[0], func(x, g float64) float64 {
		return g / 2 / (1 + x) / (1 + x)
	})
	fails = []Wrong{{Target: "grad[0]", Got: slope.Rounded(), Want: rows(16, 64)}}
	text = "it is computed by 0.5 + 0.5*self/(1 + abs(self))"
	same64(t, "slope", made(t, c.approximated(fails), text, "grad[0]", fails[0].Want), elements(slope))
	fails[0].Got = rows(17, 64)
	if of := texts(c.approximated(fails)); len(of) != 0 {
		t.Error("random numbers are no approximation: ", of)
	}
}

// TestStrided: one element of each window, and no part that no step gives.
func TestStrided(t *testing.T) {
	x := rows(18, 1, 1, 4, 6)
	c, outs := searched(t, "torch.nn.functional.max_pool2d", x, int64(2))
	v := elements(x)
	same64(t, "odd", made(t, c.strided(wrong("output[0]", outs[0])),
		"it is each index of dimensions 2 3 of input that is 1 1 mod 2", "output[0]", outs[0]),
		[]float64{v[7], v[9], v[11], v[19], v[21], v[23]})
	if dims, _ := stridden([]int{4, 9}, []int{2, 3}); dims != nil {
		t.Error("2 and 3 are two steps")
	}
	if n := len(corners(2, 3)); n != 9 || len(corners(3, 9)) != 2 {
		t.Error(n)
	}
}

// TestTied: of equal elements the last comes first; elements in the order in which they appear.
func TestTied(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{1, 4}, []float64{2, 1, 2, 1}).Rounded()
	c, outs := searched(t, "torch.sort", x, int64(1))
	fails := wrong("output[1]", outs[1])
	same64(t, "sort", made(t, c.tied(fails), "of equal elements of self along dimension 1 the last comes first",
		"output[1]", outs[1]), []float64{3, 1, 2, 0})

	v := make([]float64, 20)
	for i := range v {
		v[i] = float64((7 * i) % 20)
	}
	x = tensor.New(tensor.Float32, []int{20}, v).Rounded()
	c, outs = searched(t, "torch.unique", x)
	fails = wrong("output[0]", outs[0])
	same64(t, "unique", made(t, c.inOtherOrder(fails),
		"its elements are in the order in which they first appear in self", "output[0]", outs[0]), v)
	falling := made(t, c.inOtherOrder(fails), "its elements are in falling order", "output[0]", outs[0])
	if falling[0] != 19 || falling[19] != 0 {
		t.Error(falling)
	}
}

// TestEnds: the end of a dimension counts twice, and a weight and a bias are left out together.
func TestEnds(t *testing.T) {
	x := rows(19, 2, 70)
	c, outs := searched(t, "torch.sum", x, int64(1))
	v := elements(x)
	want := elements(outs[0])
	for i := range want {
		for k := 64; k < 70; k++ {
			want[i] += v[70*i+k]
		}
	}
	text := "indices 64 to 69 of dimension 1 of self count twice"
	same64(t, "twice", made(t, c.missingParts(), text, "output[0]", nil), want)
	x, w, b := rows(20, 3, 8), rows(21, 8), rows(22, 8)
	c, _ = searched(t, "torch.nn.functional.layer_norm", x, value.NewList(int64(8)), w, b)
	_, outs = searched(t, "torch.nn.functional.layer_norm", x, value.NewList(int64(8)))
	same64(t, "bare", made(t, c.leftOut(), "weight and bias are left out", "output[0]", nil), elements(outs[0]))
}

// TestLimits: an operand is limited to what kernels limit numbers to, not to what it is within.
func TestLimits(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{3}, []float64{-30, 1.5, 25}).Rounded()
	got := map[string][]float64{}
	for _, f := range withinLimits(x) {
		got[f.text] = elements(f.of(x))
	}
	same64(t, "above", got["%s is limited to 20 from above"], []float64{-30, 1.5, 20})
	same64(t, "both", got["%s is limited to -20 to 20"], []float64{-20, 1.5, 20})
	if got["%s is limited to 30 from above"] != nil || got["%s is limited to -30 from below"] != nil {
		t.Error("it is within 30")
	}
}

// TestOneRun: one run of columns explains what too few equations leave open.
func TestOneRun(t *testing.T) {
	x := [][]float64{{1, 2}, {3, -1}, {0.5, 4}, {2, 2}}
	same64(t, "run", ofOneRun(x, []float64{-3.5, -3}), []float64{0, -1, -1, 0})
	if ofOneRun(x, []float64{10, -7}) != nil {
		t.Error("no run of them is that")
	}
}

// TestHalves: a half is rounded up.
func TestHalves(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{20}, slices.Repeat([]float64{-1.5, 6.5, 0.5, 4.5, 2.5}, 4)).Rounded()
	c, outs := searched(t, "torch.round", x)
	fails := failing(x, outs[0], func(x float64) float64 { return math.Floor(x + 0.5) })
	if of := texts(c.expressed(fails)); len(of) == 0 || of[0] != "it is computed as floor(self + 0.5)" {
		t.Error(of)
	}
}

// TestBothPasses: gradients that do not follow from what is wrong with the results have a cause of their own.
func TestBothPasses(t *testing.T) {
	c, outs := searched(t, "torch.nn.functional.gelu", rows(23, 40))
	fails := []Wrong{{Target: "output[0]", Got: rows(24, 40), Want: outs[0]},
		{Target: "grad[0]", Got: rows(25, 40), Want: rows(26, 40)}}
	found := c.Find(fails, nil, func(m Mistake, left []Wrong) Cause {
		k := Cause{Text: m.Text, Exact: true, Bits: Plenty}
		switch {
		case strings.HasPrefix(m.Text, "approximate is 'tanh'") && left[0].Forward():
			k.Targets = []string{"output[0]"}
		case m.Text == "it is computed as relu":
			k.Targets = []string{left[len(left)-1].Target}
		}
		return k
	})
	if len(found) != 2 || found[0].Text != "approximate is 'tanh', not 'none'" ||
		found[1].Text != "it is computed as relu" || found[1].Targets[0] != "grad[0]" {
		t.Error(found)
	}
	if all := merged(found, []Cause{{Text: found[0].Text, Targets: []string{"grad[0]"}}}); len(all) != 2 ||
		len(all[0].Targets) != 2 {
		t.Error(all)
	}
	if unexplainedGradients(fails, found[1:]) != nil {
		t.Error("the result has no cause")
	}
}

// TestLooksAt: the last elements of a row are not multiplied, and their gradient is 0.
func TestLooksAt(t *testing.T) {
	x := rows(27, 2, 9)
	c, _ := searched(t, "torch.prod", x, int64(1))
	v, want := elements(x), []float64{1, 1}
	for i := range v {
		if i%9 < 8 {
			want[i/9] *= v[i]
		}
	}
	text := "only the first 8 of dimension 1 of self are looked at"
	for m := range c.missingParts() {
		if m.Text != text {
			continue
		}
		way, f := forward(t, m)
		same64(t, text, elements(f.Outs[0]), want)
		grad := elements(way.Alter("grad[0]", tensor.Full(tensor.Float32, []int{2, 8}, 3.0)))
		if len(grad) != 18 || grad[7] != 3 || grad[8] != 0 || grad[9] != 3 || grad[17] != 0 {
			t.Error(grad)
		}
		return
	}
	t.Error("there is no such mistake")
}

// TestCopiedAt: the end of a scan is the operand.
func TestCopiedAt(t *testing.T) {
	x := rows(28, 3, 16)
	c, outs := searched(t, "torch.cumsum", x, int64(1))
	v, got := elements(x), elements(outs[0])
	for i := range got {
		if i%16 >= 12 {
			got[i] = v[i]
		}
	}
	r := &Wrong{Target: "output[0]", Got: tensor.New(tensor.Float32, x.Shape, got).Rounded(), Want: outs[0]}
	p := placeOf(r.Got, r.Want, nil)
	text := "at indices 12 to 15 of dimension 1: it is self"
	same64(t, "copied", made(t, c.copiedAt(r, p), text, r.Target, outs[0]), got)
	r.Got = rows(29, 3, 16)
	if of := texts(c.copiedAt(r, p)); len(of) != 0 {
		t.Error(of)
	}
}

// TestThreeOperands: a term of one of three operands is missing.
func TestThreeOperands(t *testing.T) {
	x, y := rows(30, 40), rows(31, 40)
	vari := opdef.Map(tensor.Float32, rows(32, 40), func(x float64) float64 { return 0.5 + math.Abs(x) }).Rounded()
	c, outs := searched(t, "torch.addcmul", x, y, vari)
	fails := []Wrong{{Target: "output[0]", Want: outs[0], Got: opdef.Zip(tensor.Float32, outs[0], vari,
		func(y, v float64) float64 { return y + math.Log(v)/2 }).Rounded()}}
	same64(t, "term", made(t, c.termed(fails), "0.5 times log(tensor2) is added", "output[0]", outs[0]),
		elements(fails[0].Got))
}

// TestEqualElements: a value of equal elements that are all due to be another number is not called unwritten.
func TestEqualElements(t *testing.T) {
	due, got := tensor.Full(tensor.Float32, []int{20}, 0.5), tensor.Full(tensor.Float32, []int{20}, 6.0)
	if text := unwritten(got, due); text != "" {
		t.Error(text)
	}
	if text := unwritten(got, rows(33, 20)); text != "all 20 elements are 6" {
		t.Error(text)
	}
}

// TestScalarArguments: a Python integer of an argument that may be any number is taken for others, and fitted.
func TestScalarArguments(t *testing.T) {
	x := rows(34, 40)
	c, outs := searched(t, "torch.nn.functional.softplus", x)
	if of := texts(c.wrongArguments()); !slices.Contains(of, "beta is 0.5, not 1") {
		t.Error(of)
	}
	fails := failing(x, outs[0], func(x float64) float64 { return math.Log1p(math.Exp(1.3*x)) / 1.3 })
	same64(t, "fitted", made(t, c.fittedNumbers(fails, 0), "beta is 1.3, not 1", "output[0]", nil),
		elements(fails[0].Got))
}

// TestAddedOperands: a number of the call times an operand is added to another one, besides what it is for or in place
// of it; numbers that nobody writes come later than others.
func TestAddedOperands(t *testing.T) {
	x, y := rows(35, 40), rows(36, 40)
	c, outs := searched(t, "torch.nn.functional.smooth_l1_loss", x, y, nil, nil, "none", 0.7)
	smooth := func(d, beta float64) float64 {
		if d = math.Abs(d); d < beta {
			return d * d / 2 / beta
		}
		return d - beta/2
	}
	for text, beta := range map[string]float64{"beta*target is added to input": 0.7,
		"beta*target is added to input, and to nothing else": 0} {
		want := opdef.Zip(tensor.Float32, x, y, func(x, y float64) float64 { return smooth(x+0.7*y-y, beta) })
		same64(t, text, made(t, c.addedOperands(), text, "output[0]", nil), elements(want))
	}
	root := "beta is 0.8366600265340756, not 0.7"
	if slices.Contains(texts(c.wrongArguments()), root) || !slices.Contains(texts(c.oddArguments()), root) {
		t.Error("the root of 0.7 is no plain number")
	}
	fails := []Wrong{{Target: "output[0]", Got: rows(37, 40), Want: outs[0]}, {Target: "output[0]", Want: outs[0],
		Got: opdef.Zip(tensor.Float32, x, y, func(x, y float64) float64 { return smooth(x-y, 0.9) }).Rounded()}}
	if !slices.Contains(texts(c.fittedNumbers(fails, 0)), "beta is 0.9, not 0.7") {
		t.Error("beta is not fitted to the second value")
	}
}

// TestOneDigit: a factor of one digit is no relation to another argument.
func TestOneDigit(t *testing.T) {
	c, _ := searched(t, "torch.nn.functional.local_response_norm", rows(39, 1, 4, 3), int64(3), 0.5, 0.35)
	for x, want := range map[float64]string{2: "", 100: "", 0.35: "beta", 0.65: "(1 - beta)"} {
		if got := c.relatedToNumber(x, 1e-9, "k"); got != want {
			t.Errorf("%v: %q, want %q", x, got, want)
		}
	}
}

// TestFactorError: the factor of few numbers of 16 bits is known less exactly than that of many.
func TestFactorError(t *testing.T) {
	few := opdef.Cast(rows(40, 10), tensor.BFloat16)
	if e := factorError(few); !(e > 2e-3 && e < 3e-3) {
		t.Error(e)
	}
	if e := factorError(rows(41, 10)); e != 4e-6 {
		t.Error(e)
	}
}

// TestNoLimit: a limit that is not looked at is infinite.
func TestNoLimit(t *testing.T) {
	x := opdef.Map(tensor.Float32, rows(38, 60), func(x float64) float64 { return 4 * x }).Rounded()
	c, outs := searched(t, "torch.nn.functional.relu6", x)
	fails := failing(x, outs[0], func(x float64) float64 { return max(x, 0) })
	same64(t, "relu", made(t, c.constants(fails, plainNamed), "the limit is +Inf, not 6", "output[0]", nil),
		elements(fails[0].Got))
}
