package causes

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestDoubledElements: an element that is doubled, halved or negated explains few bits, unless an argument does it.
func TestDoubledElements(t *testing.T) {
	due := tensor.New(tensor.Float32, []int{1}, []float64{0.1433}).Rounded()
	for _, by := range []float64{2, 0.5, -1} {
		got := opdef.Map(tensor.Float32, due, func(x float64) float64 { return by * x }).Rounded()
		if bits := Evidence(got, due, got); bits >= leastBits {
			t.Errorf("times %v: %v bits", by, bits)
		}
		if bits := (Mistake{Expected: true}).Evidence(got, due, got); bits < leastBits+5 {
			t.Errorf("an argument that makes it times %v: %v bits", by, bits)
		}
	}
	other := tensor.New(tensor.Float32, []int{1}, []float64{0.377}).Rounded()
	if bits := Evidence(other, due, other); bits < leastBits+5 {
		t.Errorf("another number: %v bits", bits)
	}
}

// TestTakenForNaN: of numbers that only begin the rows that are reduced, or fill them, it is said that they do.
func TestTakenForNaN(t *testing.T) {
	for _, c := range []struct {
		infinite func(row, column int) bool
		want     string
	}{
		{func(row, column int) bool { return column < row }, "-Inf in self is taken for NaN, where dimension 1 begins with it"},
		{func(row, _ int) bool { return row == 2 }, "-Inf in self is taken for NaN, where all of dimension 1 is"},
		{func(row, column int) bool { return (row+column)%3 == 0 }, "-Inf in self is taken for NaN"},
	} {
		v := elements(rows(1, 6, 10))
		for i := range v {
			if c.infinite(i/10, i%10) {
				v[i] = math.Inf(-1)
			}
		}
		s, _ := searched(t, "torch.logcumsumexp", tensor.New(tensor.Float32, []int{6, 10}, v), int64(1))
		found := false
		for m := range s.misread(ofElements) {
			if strings.HasPrefix(m.Text, "-Inf in self is taken for NaN") {
				if found = true; m.Truly() != c.want {
					t.Errorf("%q, want %q", m.Truly(), c.want)
				}
			}
		}
		if !found {
			t.Error("it is not tried")
		}
	}
}

// TestConjugateInGradients: a gradient that takes the conjugate of an operand lacks it.
func TestConjugateInGradients(t *testing.T) {
	z := make([]complex128, 6)
	for i := range z {
		z[i] = complex(float64(i)-2, 1+float64(i*i)/4)
	}
	x := tensor.New(tensor.Complex64, []int{6}, z)
	c, _ := searched(t, "torch.mul", x, x)
	a := c.readable()[0]
	if text := c.conjugateText(a); text != conjugateTaken {
		t.Errorf("of a result: %q", text)
	}
	c.gradientsOnly, c.firstFail = true, "grad[0]"
	gradient := func(of func(x complex128) complex128) func(w Way, target string) *tensor.Tensor {
		return func(w Way, _ string) *tensor.Tensor {
			return opdef.Map(tensor.Complex64, w.Call.Tensors()[0].Tensor, of)
		}
	}
	c.Under = gradient(func(x complex128) complex128 { return complex(real(x), -imag(x)) })
	if text := c.conjugateText(a); text != "in the gradient, the complex conjugate of %s is not taken" {
		t.Errorf("of a gradient that takes it: %q", text)
	}
	c.Under = gradient(func(x complex128) complex128 { return x * x })
	if text := c.conjugateText(a); text != "the gradient is that of the complex conjugate of %s" {
		t.Errorf("of another gradient: %q", text)
	}
}

// TestGroupsExchanged: indices whose counterpart is missing stay where they are.
func TestGroupsExchanged(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want []int
	}{
		{"read with neighbours exchanged", 5, []int{1, 0, 3, 2, 4}},
		{"read with pairs exchanged", 6, []int{2, 3, 0, 1, 4, 5}},
		{"read with sixteens exchanged", 16, upTo(0, 16)},
		{"read at odd indices alone", 3, []int{0, 1, 2}},
		{"read at odd indices alone", 4, []int{1, 1, 3, 3}},
	} {
		i := slices.IndexFunc(permutations, func(p permutation) bool { return p.text == c.text })
		var got []int
		for k := range c.n {
			got = append(got, permutations[i].of(k, c.n))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s of %d: %v, want %v", c.text, c.n, got, c.want)
		}
	}
}

// TestFactorsOfParts: what is said of the factors holds for the parts that are wrong.
func TestFactorsOfParts(t *testing.T) {
	want := rows(3, 10, 12)
	for _, c := range []struct {
		factor func(row int) float64
		text   string
	}{
		{func(row int) float64 { return 1 + 0.5*float64(row%2)*float64(row) },
			"each of 5 of 10 indices of dimension 0 is multiplied by a factor of its own, between 1.5 and 5.5; the others are right"},
		{func(row int) float64 { return 1 - 0.3*float64(btoi(row > 2)) },
			"each of 7 of 10 indices of dimension 0 is multiplied by 0.7; the others are right"},
		{func(row int) float64 { return float64(btoi(row > 2)) },
			"each of 3 of 10 indices of dimension 0 is zero; the others are right"},
	} {
		v := elements(want)
		for i := range v {
			v[i] *= c.factor(i / 12)
		}
		if text := factorsOfParts(tensor.New(tensor.Float32, want.Shape, v).Rounded(), want); text != c.text {
			t.Errorf("%q, want %q", text, c.text)
		}
	}
}

// TestRegionOrPlace: a result that is wrong where an operand is below a number, which only lies at some indices, is
// wrong at these. A function of an operand that has few numbers has no course.
func TestRegionOrPlace(t *testing.T) {
	v := make([]float64, 16*12)
	for i := range v {
		v[i] = float64(i) / 8
	}
	x := tensor.New(tensor.Float32, []int{16, 12}, v)
	c, outs := searched(t, "torch.sin", x)
	wrong := func(from func(i int) bool) []Wrong {
		y := elements(outs[0])
		for i := range y {
			if from(i) {
				y[i] += 0.3 + float64(i*i%7)
			}
		}
		return []Wrong{{Target: "output[0]", Got: tensor.New(tensor.Float32, x.Shape, y).Rounded(), Want: outs[0]}}
	}
	found := c.Dependence(wrong(func(i int) bool { return i < 6*12 }))
	if len(found) != 1 || found[0].Text != "wrong only at indices 0 to 5 of dimension 0" {
		t.Errorf("%+v", found)
	}
	equal := tensor.Full(tensor.Float32, []int{16, 12}, 2.0)
	c, outs = searched(t, "torch.sin", equal)
	got := tensor.Full(tensor.Float32, []int{16, 12}, 0.25)
	if found := c.Dependence([]Wrong{{Target: "output[0]", Got: got, Want: outs[0]}}); len(found) > 0 {
		t.Errorf("of one number: %+v", found)
	}
}

// TestAsIf: of a mistake that doubles all results no more is said than that they are; not where a fitted factor is 2.
func TestAsIf(t *testing.T) {
	c, outs := searched(t, "torch.mean", rows(5, 12, 8), int64(1))
	half := opdef.Map(tensor.Float32, outs[0], func(x float64) float64 { return x / 2 }).Rounded()
	told := func(got *tensor.Tensor, m Mistake) string {
		k := &Cause{Text: "8 elements of 0 count", Targets: []string{"output[0]"}, mistake: &m}
		c.asIf(k, []Wrong{{Target: "output[0]", Got: got, Want: outs[0]}})
		return k.Text
	}
	if text := told(half, Mistake{}); text != "all elements are multiplied by 0.5, as if 8 elements of 0 count" {
		t.Error(text)
	}
	if text := told(half, Mistake{Expected: true}); text != "8 elements of 0 count" {
		t.Error("of an argument: ", text)
	}
	v := elements(half)
	v[3] = 0
	if text := told(tensor.New(tensor.Float32, half.Shape, v), Mistake{}); text != "8 elements of 0 count" {
		t.Error("of one that is not half: ", text)
	}
}

// TestTrulyAtPlace: a mistake at a place, or with a factor, keeps these in what is truly said of it.
func TestTrulyAtPlace(t *testing.T) {
	m := Mistake{Text: "a", Truly: func() string { return "b" }}
	if text := m.truly(func(of string) string { return "there: " + of })(); text != "there: b" {
		t.Error(text)
	}
	if (Mistake{Text: "a"}).truly(nil) != nil {
		t.Error("there is another text")
	}
	p := partsOf([]int{4, 6})[0]
	for elementwise, want := range map[bool]string{true: "index 2 of dimension 1 of x is taken for 0",
		false: "index 2 of dimension 1 of x is left out"} {
		if text := p.text([]float64{1, 1, 0, 1, 1, 1}, "x", elementwise); text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
}

// TestArgumentsWithoutEffect: of two arguments, each changes the value.
func TestArgumentsWithoutEffect(t *testing.T) {
	x := rows(6, 12, 24)
	call, err := ops.Default().Bind("torch.nn.functional.layer_norm", []value.Value{x, value.NewList(int64(24))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, outs := searched(t, "torch.nn.functional.layer_norm", x, value.NewList(int64(24)))
	c.Bound = call
	c.Few = func(w Way, _ string) (got, due, made []float64) {
		f, err := w.Call.Forward()
		if err != nil {
			return nil, nil, nil
		}
		return elements(outs[0]), elements(outs[0]), elements(f.Outs[0])
	}
	for m := range c.twoArguments([]Wrong{{Target: "output[0]", Got: outs[0], Want: outs[0]}}) {
		if strings.HasPrefix(m.Text, "eps is") && strings.Contains(m.Text, "cudnn_enable") {
			if _, err := m.Make(); err == nil {
				t.Error(m.Text)
			}
		}
	}
}

// TestNumberOfOneNumber: to results that are all one number, no number of many digits is fitted.
func TestNumberOfOneNumber(t *testing.T) {
	x := tensor.Full(tensor.Float32, []int{6, 8}, 0.75)
	c, outs := searched(t, "torch.exp", x)
	fit := func(by float64) []float64 {
		raised := func(y float64) float64 { return math.Exp(by * math.Log(y)) }
		got := opdef.Map(tensor.Float32, outs[0], raised).Rounded()
		return c.fit(&Wrong{Target: "output[0]", Got: got, Want: outs[0]}, 1, func(k float64) (Way, error) {
			return c.one(c.operands()[0], func() *tensor.Tensor {
				return opdef.Map(x.DType, x, func(y float64) float64 { return k * y })
			})()
		})
	}
	if found := fit(1.1380391); len(found) > 0 {
		t.Error(found)
	}
	if found := fit(1.5); len(found) == 0 || found[0] != 1.5 {
		t.Error(found)
	}
}

// TestSmallNumbersStay: that numbers below the smallest normal one are zero is said only if none stays; likewise of
// what is not finite.
func TestSmallNumbersStay(t *testing.T) {
	small := tensor.Float16.SmallestNormal() / 16
	x := tensor.New(tensor.Float16, []int{8}, []float64{small, 1, -small, 2, small, -small, 3, small}).Rounded()
	c, outs := searched(t, "torch.abs", x)
	text := func(got []float64) string {
		r := Wrong{Target: "output[0]", Want: outs[0], Got: tensor.New(tensor.Float16, []int{8}, got).Rounded()}
		return c.notFinite(&r, r.Got, r.Want)
	}
	if text := text([]float64{0, 1, 0, 2, 0, 0, 3, 0}); text != "numbers below the smallest normal one are zero" {
		t.Errorf("all are zero: %q", text)
	}
	if text := text([]float64{small, 1, 0, 2, small, 0, 3, small}); text != "" {
		t.Errorf("some stay: %q", text)
	}
	inf := math.Inf(1)
	x = tensor.New(tensor.Float32, []int{6}, []float64{inf, 1, inf, 2, inf, inf})
	c, outs = searched(t, "torch.sigmoid", x)
	for stays, want := range map[float64]string{0: "where self is +Inf, it is 0, not 1", 1: ""} {
		r := Wrong{Target: "output[0]", Want: outs[0], Got: tensor.New(tensor.Float32, []int{6},
			[]float64{stays, 0.7310586, 0, 0.8807971, 0, 0}).Rounded()}
		if text := c.notFinite(&r, r.Got, r.Want); text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
	zeros := tensor.Full(tensor.Float16, []int{8}, 0.0)
	if text := unwritten(zeros, tensor.Full(tensor.Float64, []int{8}, 1e-9)); text != "" {
		t.Errorf("of what rounds to zero: %q", text)
	}
}

// TestFewNumbers: a mistake that takes few numbers for others explains no more than these hold, and one of operands
// that have one number each explains no cause.
func TestFewNumbers(t *testing.T) {
	one := tensor.New(tensor.BFloat16, []int{1}, []float64{1.0390625})
	c, _ := searched(t, "torch.add", rows(8, 12, 6), one)
	for m := range c.constantOperands() {
		if m.Text == "other is taken for 1" && m.Held(tensor.BFloat16) >= leastBits {
			t.Errorf("one number holds %v bits", m.Held(tensor.BFloat16))
		}
		if m.Text == "self is taken for 1" && m.Held(tensor.BFloat16) < Plenty {
			t.Error("many numbers hold few bits")
		}
	}
	equal := tensor.Full(tensor.Float32, []int{6, 8}, 1.0)
	c, outs := searched(t, "torch.exp", equal)
	r := &Wrong{Target: "output[0]", Want: outs[0], Got: tensor.Full(tensor.Float32, []int{6, 8}, 7.389056)}
	if bits := c.AtSpot(r); bits >= leastBits {
		t.Errorf("operands that are all one number: %v bits", bits)
	}
	c, outs = searched(t, "torch.exp", rows(9, 6, 8))
	r = &Wrong{Target: "output[0]", Want: outs[0], Got: tensor.Full(tensor.Float32, []int{6, 8}, 7.389056)}
	if bits := c.AtSpot(r); bits < Plenty {
		t.Errorf("operands of many numbers: %v bits", bits)
	}
}

// TestExactRival: what explains more, and exactly, is told in place of what explains to rounding.
func TestExactRival(t *testing.T) {
	x := rows(10, 12, 6)
	c, outs := searched(t, "torch.exp", x)
	c.Work = NewWork(1e12, 100, 1, &Allowance{})
	c.Elsewhere = func(func(*tensor.Tensor) []byte, func(func(Way, string) *tensor.Tensor)) {}
	first := []Cause{{Text: "first", Targets: []string{"output[0]"}, Share: 1, Bits: 100, mistake: &Mistake{}}}
	other := Cause{Text: "other", Targets: []string{"output[0]"}, Share: 1, Bits: 120, Exact: true, mistake: &Mistake{}}
	fails := []Wrong{{Target: "output[0]", Got: outs[0], Want: outs[0]}}
	tried := 0
	found := c.withRival(slices.Clone(first), []Cause{other}, fails, nil, &tried, nil)
	if len(found) != 1 || found[0].Text != "other" {
		t.Errorf("%+v", found)
	}
	other.Bits = 101
	if found = c.withRival(slices.Clone(first), []Cause{other}, fails, nil, &tried, nil); found[0].Text != "first" {
		t.Errorf("%+v", found)
	}
}

// TestLikelyElements: single multiples of two digits, and steps of one whole number, explain few bits.
func TestLikelyElements(t *testing.T) {
	one := func(x float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{1}, []float64{x}).Rounded() }
	due, got := one(0.377), one(0.377*0.9)
	if bits := Evidence(got, due, got); bits > doubledBits {
		t.Errorf("0.9 times: %v bits", bits)
	}
	due, got = one(0.377), one(0.377*143/144)
	if bits := Evidence(got, due, got); bits < leastBits {
		t.Errorf("143/144 times: %v bits", bits)
	}
	steps := tensor.New(tensor.Float32, []int{5}, []float64{1, -2, 4, 3, 0})
	next := tensor.New(tensor.Float32, []int{5}, []float64{2, -1, 5, 4, 1})
	if bits := Evidence(next, steps, next); bits > 5*stepBits {
		t.Errorf("whole numbers beside those that are due: %v bits", bits)
	}
	// Eight halves that are rounded to the other side are evidence enough for a rounding that is known of torch.round.
	if bits := 8 * (Mistake{Known: true}).likely(-1, 0, 42); bits < leastBits+8 {
		t.Errorf("a known mistake of eight elements: %v bits", bits)
	}
}
