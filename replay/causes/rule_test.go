package causes

import (
	"iter"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestBesides: a cause counts beside a likelier one by what it explains of other values, against all that was tried.
func TestBesides(t *testing.T) {
	x := rows(1, 9, 40)
	c, outs := searched(t, "torch.sigmoid", x)
	wrong := func(target string, seed uint64) Wrong {
		return Wrong{Target: target, Got: rows(seed, 9, 40), Want: outs[0]}
	}
	fails := []Wrong{wrong("output[0]", 2), wrong("output[1]", 3), wrong("output[2]", 4)}
	for _, bits := range []float64{leastBits, 400} {
		n := 0
		found := c.Find(fails, nil, func(Mistake, []Wrong) Cause {
			k := Cause{Share: 1, Exact: true}
			switch n++; n {
			case 1:
				k.Text, k.Targets = "one", []string{"output[0]", "output[1]"}
				k.BitsOf, k.Bits = []float64{500, 500}, 1000
			case 2: // its evidence is of what the first explains
				k.Text, k.Targets = "two", []string{"output[1]", "output[2]"}
				k.BitsOf, k.Bits = []float64{500, bits}, 500+bits
			}
			return k
		})
		if want := 1 + btoi(bits > leastBits); len(found) != want || found[0].Text != "one" {
			t.Errorf("%g bits: %+v, want %d causes", bits, found, want)
		}
	}
}

// TestOneCauseForAll: a mistake that is found for the gradients, and explains the results, too, is the only cause.
func TestOneCauseForAll(t *testing.T) {
	c, outs := searched(t, "torch.sigmoid", rows(1, 9, 40))
	fails := []Wrong{{Target: "output[0]", Got: rows(2, 9, 40), Want: outs[0]},
		{Target: "grad[0]", Got: rows(3, 9, 40), Want: outs[0]}}
	for _, all := range []bool{true, false} {
		n, second := 0, false
		found := c.Find(fails, nil, func(_ Mistake, left []Wrong) Cause {
			k := Cause{Text: "one", Share: 1, Exact: true}
			switch n++; {
			case n == 1:
				k.Targets, k.BitsOf, k.Bits = []string{"output[0]"}, []float64{500}, 500
			case left[0].Target == "grad[0]":
				second = true
				k.Text, k.Targets, k.BitsOf, k.Bits = ofFormula+"two", []string{"grad[0]"}, []float64{500}, 500
			case second && all:
				k.Text, k.Targets = ofFormula+"two", []string{"output[0]", "grad[0]"}
				k.BitsOf, k.Bits = []float64{500, 500}, 1000
			}
			return k
		})
		if want := 2 - btoi(all); len(found) != want || all && found[0].Text != "two" {
			t.Errorf("%+v, want %d causes", found, want)
		}
	}
}

// TestBackwards: running sums of exponentials from the end.
func TestBackwards(t *testing.T) {
	x := rows(4, 5, 6)
	c, outs := searched(t, "torch.logcumsumexp", x, int64(1))
	v := elements(x)
	for m := range c.backwards() {
		if m.Text != "it runs along dimension 1 from the end" {
			continue
		}
		way, f := forward(t, m)
		got := elements(way.Alter("output[0]", f.Outs[0]))
		for i := range got {
			sum := 0.0
			for k := i; k < i/6*6+6; k++ {
				sum += math.Exp(v[k])
			}
			if math.Abs(got[i]-math.Log(sum)) > 1e-6 {
				t.Errorf("element %d is %v, want %v", i, got[i], math.Log(sum))
			}
		}
		return
	}
	t.Errorf("not found of %v", outs[0].Shape)
}

// TestConjugatesOfOperands: the transform of the complex conjugates, conjugated, has exponents of the other sign.
func TestConjugatesOfOperands(t *testing.T) {
	const n = 6
	z := make([]complex128, n)
	for i := range z {
		z[i] = complex(float64(i*i)-3, 2-float64(i))
	}
	x := tensor.New(tensor.Complex64, []int{n}, z).Rounded()
	c, outs := searched(t, "torch.fft.fft", x)
	for m := range c.ofComplex([]Wrong{{Target: "output[0]", Got: outs[0].Rounded(), Want: outs[0]}}) {
		if !strings.Contains(m.Text, "exponents have the other sign") {
			continue
		}
		way, f := forward(t, m)
		got := way.Alter("output[0]", f.Outs[0])
		for k := range n {
			var want complex128
			for i, v := range z {
				want += v * cmplx.Exp(complex(0, 2*math.Pi*float64(i*k)/n))
			}
			if x := tensor.At[complex128](got, k); cmplx.Abs(x-want) > 1e-5 {
				t.Errorf("element %d is %v, want %v", k, x, want)
			}
		}
		return
	}
	t.Error("not found")
}

// TestPicks: elements picked by their magnitudes, and chosen by a mask in place.
func TestPicks(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{2, 4}, []float64{1, -5, 3, 2, -1, 7, -9, 4}).Rounded()
	c, outs := searched(t, "torch.topk", x, int64(2), int64(1))
	fails := []Wrong{{Target: "output[0]", Got: outs[0].Rounded(), Want: outs[0]}}
	got := made(t, c.byMagnitude(fails), "elements of self are picked by their magnitudes", "output[0]", outs[0])
	if !slices.Equal(got, []float64{-5, 3, -9, 7}) {
		t.Errorf("picked by magnitude: %v", got)
	}
	self, source := rows(5, 9, 40), rows(6, 9, 40)
	bits := make([]int64, self.Numel())
	for i := range bits {
		bits[i] = int64(i * i % 3 % 2)
	}
	mask := tensor.New(tensor.Bool, self.Shape, bits)
	c, outs = searched(t, "torch.masked_scatter", self, mask, source)
	inPlace := func(with *tensor.Tensor) *tensor.Tensor {
		return opdef.ZipN(tensor.Float32, self.Shape, func(dst []float64, src [][]float64) {
			for i := range dst {
				if dst[i] = src[1][i]; src[0][i] != 0 {
					dst[i] = src[2][i]
				}
			}
		}, opdef.Cast(mask, tensor.Float64), self, with).Rounded()
	}
	want := "where mask is true, it is the element of source at the same place, and that of self elsewhere"
	for _, tc := range []struct {
		with *tensor.Tensor
		is   bool
	}{{source, true}, {rows(7, 9, 40), false}} {
		fails = []Wrong{{Target: "output[0]", Got: inPlace(tc.with), Want: outs[0]}}
		if found := texts(c.chosenInPlace(fails)); slices.Contains(found, want) != tc.is {
			t.Errorf("found %v, want %v", found, tc.is)
		}
	}
}

// TestPushed: elements are read a few indices further or back along a dimension.
func TestPushed(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{2, 3}, []float64{1, 2, 3, 4, 5, 6}).Rounded()
	all := pushed(x)
	for text, want := range map[string][]float64{
		"%s is read 1 further along dimension 1, with zeros beyond its end": {2, 3, 0, 5, 6, 0},
		"%s is read 2 back along dimension 1, with zeros beyond its end":    {0, 0, 1, 0, 0, 4},
		"%s is read 1 back along dimension 0, with zeros beyond its end":    {0, 0, 0, 1, 2, 3},
	} {
		i := slices.IndexFunc(all, func(r transformation) bool { return r.text == text })
		if i < 0 || !slices.Equal(elements(all[i].of(x)), want) {
			t.Errorf("%s: not %v", text, want)
		}
	}
}

// TestListsInParts: of each tensor of a list the last tile is left out, and one tensor has another argument.
func TestListsInParts(t *testing.T) {
	x, y := rows(8, 10), rows(9, 6)
	c, _ := searched(t, "torch._foreach_neg", value.NewList(x, y))
	text := "of each tensor of self, what lies behind a multiple of 4 elements is left out"
	for i, t2 := range []*tensor.Tensor{x, y} {
		want := elements(t2)
		for j := range want {
			want[j] *= -float64(btoi(j < t2.Numel()/4*4))
		}
		target := "output[" + string(rune('0'+i)) + "]"
		got := made(t, c.incompleteTiles(), text, target, nil)
		if !slices.EqualFunc(got, want, func(x, y float64) bool { return x == y }) {
			t.Errorf("%s: got %v, want %v", target, got, want)
		}
	}
	c, outs := searched(t, "torch._foreach_lerp", value.NewList(x, y), value.NewList(rows(1, 10), rows(2, 6)), 0.25)
	fails := []Wrong{{Target: "output[1]", Got: y, Want: outs[1]}}
	found := texts(c.ofOneResult(fails))
	if !slices.ContainsFunc(found, func(s string) bool {
		return strings.HasPrefix(s, "for output[1] alone, weight is ")
	}) {
		t.Errorf("of one tensor of a list: %v", found)
	}
	for m := range c.ofOneResult(fails) {
		way, err := m.Make()
		if err != nil || way.Alter == nil {
			continue
		}
		if of := way.Alter("output[0]", outs[0]); of != outs[0] {
			t.Errorf("%s: output[0] is another, too", m.Text)
		}
	}
}

// TestIdle: where the formula as it is gives what was recorded, a step that brings nothing nearer is not to blame.
func TestIdle(t *testing.T) {
	x, y := rows(3, 9, 40), rows(4, 9, 40)
	c, outs := searched(t, "torch.add", x, y)
	form, _ := searched(t, "torch.sub", x, y)
	other, _ := searched(t, "torch.mul", x, y)
	larger := opdef.Map(tensor.Float32, y, func(v float64) float64 { return v * 1.01 })
	exact, made := searched(t, "torch.sub", x, larger)
	for _, tc := range []struct {
		name string
		got  *tensor.Tensor
		call *opdef.Call
		step bool
		want bool
	}{
		{"the formula", outs[0], form.Bound, true, true}, {"no step", outs[0], form.Bound, false, false},
		{"a worse step", outs[0], other.Bound, true, true}, {"a better step", made[0], exact.Bound, true, false},
	} {
		got := tc.got.Rounded()
		if tc.name != "a better step" {
			got = opdef.Zip(tensor.Float32, x, y, func(x, y float64) float64 { return x - y }).Rounded()
		}
		c.formed, c.form, c.bare = true, form.Bound, nil
		c.Few = func(w Way, _ string) (recorded, due, made []float64) {
			f, err := w.Call.Forward()
			if err != nil {
				t.Fatal(err)
			}
			return elements(got), elements(outs[0]), elements(f.Outs[0])
		}
		m := opdef.Mistake[*opdef.Call]{Step: tc.step, Plan: func() (*opdef.Call, error) { return tc.call, nil }}
		if c.idle(m, []Wrong{{Target: "output[0]", Got: got, Want: outs[0]}}) != tc.want {
			t.Errorf("%s: want idle %v", tc.name, tc.want)
		}
	}
}

// TestEvidenceOfPlaces: elements that are not finite say by their places what made them, and nothing if all are so; a
// mistake that says of numbers that they overflow is told by them, too.
func TestEvidenceOfPlaces(t *testing.T) {
	due := rows(1, 4, 10)
	some := func(n int) *tensor.Tensor {
		return opdef.ZipAt(tensor.Float32, due.Shape, func(lo int, dst []float64, src [][]float64) {
			for i := range dst {
				if dst[i] = src[0][i]; (lo+i)*n%40 < n {
					dst[i] = math.Inf(1)
				}
			}
		}, due).Rounded()
	}
	for _, tc := range []struct {
		n        int
		m        Mistake
		from, to float64
	}{
		{40, Mistake{}, 0, 0}, {4, Mistake{}, 16, 17}, {10, Mistake{}, 29, 30}, {40, Mistake{NotFinite: true}, 32, 32},
	} {
		got := some(tc.n)
		if bits := tc.m.Evidence(got, due, got); bits < tc.from-1e-9 || bits > tc.to+1e-9 {
			t.Errorf("%d of 40 infinite, %+v: %.1f bits, want %v to %v", tc.n, tc.m, bits, tc.from, tc.to)
		}
	}
}

// TestEvidenceInCommon: where a mistake leaves one error for all elements of a row, the row is one observation.
func TestEvidenceInCommon(t *testing.T) {
	due := rows(1, 6, 400)
	off := func(by func(i int) float64) *tensor.Tensor {
		return opdef.ZipAt(tensor.BFloat16, due.Shape, func(lo int, dst []float64, src [][]float64) {
			for i := range dst {
				dst[i] = src[0][i] + by(lo+i)
			}
		}, due).Rounded()
	}
	r := rand.New(rand.NewPCG(1, 2))
	got := off(func(int) float64 { return 8 })
	common := off(func(i int) float64 { return 8 + 0.5*float64(i/400%2*2-1) })
	single := off(func(int) float64 { return 8 + 0.5*float64(r.IntN(2)*2-1) })
	one, many := Evidence(got, off(func(int) float64 { return 0 }), common),
		Evidence(got, off(func(int) float64 { return 0 }), single)
	if one > 40 || many < 1000 {
		t.Errorf("errors in common: %.0f bits, want few; of single elements: %.0f bits, want many", one, many)
	}
}

// TestRivalOfNumbers: numbers taken for others are a guess where a step of the operator explains as much.
func TestRivalOfNumbers(t *testing.T) {
	step, numbers := &Cause{mistake: &Mistake{}}, &Cause{mistake: &Mistake{Numbers: true}}
	if step.rivals(numbers) || !numbers.rivals(step) || !numbers.rivals(numbers) {
		t.Error("numbers taken for others are the rival of a step, or a step is not theirs")
	}
}

// TestDefaultIsNotChosen: an argument at its default is one that a kernel ignores, also where it may be any number.
func TestDefaultIsNotChosen(t *testing.T) {
	c, _ := searched(t, "torch.nn.functional.elu", rows(5, 20), 2.5)
	var all iter.Seq[Mistake] = c.wrongArguments()
	for m := range all {
		if m.Text == "alpha is 1, not 2.5" {
			if m.Argument {
				t.Error("the default counts as chosen")
			}
			return
		}
	}
	t.Errorf("found %v", texts(all))
}

// TestRival: where two mistakes give the same of numbers that are all positive, both are told, but not one in other
// words; of three each is a guess.
func TestRival(t *testing.T) {
	for n, want := range map[int]string{1: "one", 2: "either one, or two", 3: ""} {
		c, outs := searched(t, "torch.sigmoid", rows(1, 9, 40))
		c.Elsewhere = func(_ func(*tensor.Tensor) []byte, f func(func(Way, string) *tensor.Tensor)) {
			f(func(w Way, target string) *tensor.Tensor { return w.Alter(target, outs[0]) })
		}
		cause := func(text string, factor float64) Cause {
			return Cause{Text: text, Targets: []string{"output[0]"}, Exact: true, Share: 1, Bits: 500,
				mistake: &Mistake{Text: text, Make: c.altering(times(factor))}}
		}
		all := []Cause{cause("one", 1), cause("one again", 1)}
		for i := 1; i < n; i++ {
			all = append(all, cause([]string{"two", "three"}[i-1], float64(i+1)))
		}
		got := ""
		tried := 0
		for _, k := range c.withRival(all[:1:1], all, []Wrong{{Target: "output[0]"}}, nil, &tried, nil) {
			got = k.Text
		}
		if got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// TestPlainFactors: a gradient that is twice as large is that, before anything is said of how it came about.
func TestPlainFactors(t *testing.T) {
	c, outs := searched(t, "torch.sigmoid", rows(1, 9, 40))
	for factor, want := range map[float64]int{2: 1, 1.7: 0} {
		fails := []Wrong{{Target: "grad[0]", Got: times(factor)("grad[0]", outs[0]), Want: outs[0]}}
		n := 0
		for range c.plainFactors(fails) {
			n++
		}
		if n != want {
			t.Errorf("%d factors for %v, want %d", n, factor, want)
		}
	}
}

// TestStrays: an element of a mask that is 1, not 0, is no rounding; one that is off by a little is.
func TestStrays(t *testing.T) {
	mask := make([]float64, 200)
	for i := range mask {
		mask[i] = float64(i % 2)
	}
	of := func(v []float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{len(v)}, slices.Clone(v)) }
	got := of(mask)
	mask[7] = 0.75
	if Strays(got, of(mask)) {
		t.Error("0.75 for 1 strays")
	}
	if mask[7] = 0; !Strays(got, of(mask)) {
		t.Error("0 for 1 does not stray")
	}
}

// TestMeansOfMeans: only of a mean it is said that it is divided by the number of all elements.
func TestMeansOfMeans(t *testing.T) {
	for op, want := range map[string]int{"torch.mean": 1, "torch.sum": 0} {
		c, _ := searched(t, op, rows(1, 9, 40), int64(1))
		if got := len(c.means()); got != want {
			t.Errorf("%s: %d, want %d", op, got, want)
		}
	}
}

// TestWordsOfResults: what the results show is said, not the name of an operator that has these gradients, too.
func TestWordsOfResults(t *testing.T) {
	c, outs := searched(t, "torch.sigmoid", rows(1, 9, 40))
	fails := []Wrong{{Target: "output[0]", Got: rows(2, 9, 40), Want: outs[0]},
		{Target: "grad[0]", Got: rows(3, 9, 40), Want: outs[0]}}
	tried := 0
	said := []Cause{{Text: "the result is squared", Targets: []string{"output[0]"}}}
	found := c.besidesResults(fails, fails[1:], said, &tried,
		func(_ Mistake, left []Wrong) Cause {
			k := Cause{Text: computedAs + "another", Exact: true, Share: 1}
			for _, w := range left {
				k.Targets, k.BitsOf, k.Bits = append(k.Targets, w.Target), append(k.BitsOf, 500), k.Bits+500
			}
			return k
		})
	if len(found) != 1 || found[0].Text != "the result is squared" || len(found[0].Targets) != 2 {
		t.Errorf("%+v", found)
	}
}
