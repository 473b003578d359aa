package causes

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// TestPlain: what a value shows by itself.
func TestPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	n := 200
	want := make([]float64, n)
	for i := range want {
		want[i] = r.NormFloat64()
	}
	dt := tensor.BFloat16
	made := func(f func(x float64) float64) *tensor.Tensor {
		v := make([]float64, n)
		for i, x := range want {
			v[i] = f(x)
		}
		return tensor.New(dt, []int{n}, v).Rounded()
	}
	// side is the neighbour of x in dt on the side that is asked for.
	side := func(x float64, ok func(y float64) bool) float64 {
		y := dt.Round(x)
		for _, z := range []float64{y, dt.Round(y + 0.51*dt.ULP(y)), dt.Round(y - 0.51*dt.ULP(y))} {
			if ok(z) {
				return z
			}
		}
		return y
	}
	exact := tensor.New(dt, []int{n}, want)
	for _, c := range []struct {
		text string
		got  *tensor.Tensor
	}{
		{"all 200 elements are zero, as if nothing was written", made(func(float64) float64 { return 0 })},
		{"results are rounded toward zero", made(func(x float64) float64 {
			return side(x, func(y float64) bool { return math.Abs(y) <= math.Abs(x) })
		})},
		{"results are rounded down", made(func(x float64) float64 {
			return side(x, func(y float64) bool { return y <= x })
		})},
		{"results are rounded up", made(func(x float64) float64 {
			return side(x, func(y float64) bool { return y >= x })
		})},
		{"", made(func(x float64) float64 { return -x })},
		{"", made(func(x float64) float64 { return x })},
		{"", made(func(x float64) float64 { return x * (1 - 0x1p-6) })},
	} {
		text := unwritten(c.got, exact)
		if text == "" {
			text = directed(c.got, exact)
		}
		if text != c.text {
			t.Errorf("says %q, want %q", text, c.text)
		}
	}
	if text := unwritten(tensor.Full(dt, []int{4}, 0.0), tensor.Full(dt, []int{4}, 0.0)); text != "" {
		t.Errorf("of zeros that are due: %q", text)
	}
}

// TestNotFinite: elements that are all the same where NaN is due, or an operand is NaN, are not called unwritten.
// Where all elements that are due are negative, the search for a maximum may have begun at zero.
func TestNotFinite(t *testing.T) {
	numbers := elements(rows(35, 10, 40))
	for i := 0; i < len(numbers); i += 7 {
		numbers[i] = math.NaN()
	}
	x := tensor.New(tensor.Float32, []int{10, 40}, numbers)
	c, outs := searched(t, "torch.nn.functional.relu", x)
	lost := opdef.Map(tensor.Float32, outs[0], func(y float64) float64 {
		if y != y {
			return 0
		}
		return y
	})
	causes, _ := c.Plain([]Wrong{{Target: "output[0]", Want: outs[0], Got: lost.Rounded()}})
	if len(causes) != 1 || causes[0].Text != "where self is NaN, it is 0, not NaN" {
		t.Error(causes)
	}
	c, outs = searched(t, "torch.amax", opdef.Map(tensor.Float32, rows(36, 10, 40), func(y float64) float64 {
		return -1 - y*y
	}), int64(1))
	none := tensor.Full(tensor.Float32, []int{10}, 0.0)
	causes, _ = c.Plain([]Wrong{{Target: "output[0]", Want: outs[0], Got: none}})
	if len(causes) != 1 || causes[0].Text != "all 10 elements are zero, as if nothing was written, or nothing below zero" {
		t.Error(causes)
	}
}

// TestSignedZero: booleans that are false where zeros have a sign are not called unwritten; those that are false at
// other zeros, too, are.
func TestSignedZero(t *testing.T) {
	v := make([]float64, 64)
	for i := range v {
		if v[i] = float64(i); i%2 == 0 {
			v[i] = math.Copysign(0, -1)
		}
	}
	for _, want := range []string{"where self is -0, it is false: that is not taken for 0",
		"all 64 elements are zero, as if nothing was written"} {
		c, outs := searched(t, "torch.eq", tensor.New(tensor.Float32, []int{64}, v), 0.0)
		none := tensor.Full(tensor.Bool, []int{64}, 0.0)
		causes, _ := c.Plain([]Wrong{{Target: "output[0]", Want: outs[0], Got: none}})
		if len(causes) != 1 || causes[0].Text != want {
			t.Error(causes, want)
		}
		v[2] = 0
	}
}

// TestSums: a sum of what is due and what is known is a mistake only if there is evidence: it makes what was recorded,
// and the errors of what is due are not as small.
func TestSums(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	n := 256
	due, known := make([]float64, n), make([]float64, n)
	for i := range due {
		due[i], known[i] = r.NormFloat64(), r.NormFloat64()
	}
	made := func(dt tensor.DType, f func(i int) float64) *tensor.Tensor {
		v := make([]float64, n)
		for i := range v {
			v[i] = f(i)
		}
		return tensor.New(dt, []int{n}, v).Rounded()
	}
	for name, c := range map[string]struct {
		dt   tensor.DType
		got  func(i int) float64
		want string
	}{
		"added":       {tensor.Float32, func(i int) float64 { return due[i] + known[i] }, "x is added"},
		"subtracted":  {tensor.Float32, func(i int) float64 { return due[i] - known[i] }, "x is subtracted"},
		"returned":    {tensor.BFloat16, func(i int) float64 { return known[i] }, "it is x"},
		"toward zero": {tensor.BFloat16, func(i int) float64 { return due[i] * (1 - 0x1p-9) }, ""},
		"noise on a third": {tensor.BFloat16, func(i int) float64 {
			return due[i] * (1 + float64(1-min(i%3, 1))*0.03*r.NormFloat64())
		}, ""},
		"one far element of few bits": {tensor.Float8E5M2, func(i int) float64 {
			if i == 0 {
				return -57344
			}
			return due[i]
		}, ""},
	} {
		w := &Wrong{Target: "output[0]", Got: made(c.dt, c.got),
			Want: tensor.New(c.dt, []int{n}, slices.Clone(due))}
		search := &Search{Guard: func(f func() error) error { return f() }}
		got := ""
		for m := range search.Sums(w, "x", made(c.dt, func(i int) float64 { return known[i] })) {
			got = m.Text // others may be nearer than what is due, too
			break
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestEvidence: few elements explain few bits, equal ones no more than some, whole numbers fewer than others.
func TestEvidence(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	random := func(n int) *tensor.Tensor {
		v := make([]float64, n)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		return tensor.New(tensor.Float32, []int{n}, v).Rounded()
	}
	one := func(x float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{1}, []float64{x}).Rounded() }
	due, got, ones := random(100), random(100), tensor.Full(tensor.Float32, []int{100}, 1.0)
	for name, tc := range map[string]struct {
		got, due, made *tensor.Tensor
		enough         bool // after 1000 mistakes were tried
	}{
		"what was recorded":           {got, due, got, true},
		"something else":              {got, due, random(100), false},
		"what is due":                 {got, due, due, false},
		"another shape":               {got, due, random(99), false},
		"one element, a whole number": {one(2), one(0.3217), one(2), false},
		"equal elements":              {ones, due, ones, true},
	} {
		if bits := Evidence(tc.got, tc.due, tc.made); (bits >= Required(1000)) != tc.enough {
			t.Errorf("%s: %.1f bits, of %.1f", name, bits, Required(1000))
		}
	}
}

// TestMayBeSum: a few elements show which earlier value may be a wrong one, or a term of it.
func TestMayBeSum(t *testing.T) {
	due, known := []float32{1, -2, 3, 0.5}, []float32{4, 8, -1, 2}
	for _, c := range []struct {
		got []float32
		is  bool
	}{
		{known, true},
		{[]float32{5, 6, 2, 2.5}, true},
		{[]float32{-3, -10, 4, -1.5}, true},
		{[]float32{5, 6, 2, 9}, true}, // one element is of something else
		{due, false},
		{[]float32{5, -6, 2, -2.5}, false},
	} {
		if is := MayBeSum(c.got, due, known, tensor.Float32); is != c.is {
			t.Errorf("%v: %v", c.got, is)
		}
	}
}

// TestFewAlike: few elements that are the same by chance have no cause.
func TestFewAlike(t *testing.T) {
	for _, c := range []struct {
		dt      tensor.DType
		n, x    int
		explain bool
	}{
		{tensor.Bool, 2, 1, false}, {tensor.Bool, 16, 1, true}, {tensor.Int64, 2, 1, false}, {tensor.Int64, 8, 1, true},
		{tensor.Float32, 2, 1, false}, {tensor.Float32, 2, 0, true},
	} {
		got := tensor.Full(c.dt, []int{c.n}, float64(c.x)).Rounded()
		want := tensor.Full(c.dt, []int{c.n}, float64(1-c.x)).Rounded()
		if text := unwritten(got, want); (text != "") != c.explain {
			t.Errorf("%d elements %d of %v: %q", c.n, c.x, c.dt, text)
		}
	}
}

// TestAlikeWhere: zeros where an operand is one number are computed, not left out; a value that is zero where most that
// is due is zero, too, need not be unwritten.
func TestAlikeWhere(t *testing.T) {
	const n, width = 20, 5
	v, due := elements(rows(3, n, width)), make([]float64, n*width)
	got := make([]float64, n*width)
	for i := range v {
		if i%width == 1 && i/width > 0 && i/width < 14 {
			v[i] = 0
		}
		due[i] = 1 + float64(i)
		if got[i] = due[i]; v[i] == 0 {
			got[i] = 0
		}
	}
	x := tensor.New(tensor.Float32, []int{n, width}, v)
	c, _ := searched(t, "torch.nn.functional.relu", x)
	of := func(v []float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{n, width}, v).Rounded() }
	says := func(got, due []float64, want string) {
		t.Helper()
		causes, _ := c.Plain([]Wrong{{Target: "output[0]", Got: of(got), Want: of(due)}})
		if len(causes) != 1 || causes[0].Text != want {
			t.Errorf("says %+v, want %q", causes, want)
		}
	}
	says(got, due, "where self is 0, it is zero")
	x = rows(4, n, width)
	c, _ = searched(t, "torch.nn.functional.relu", x)
	for i := range due {
		if got[i] = 0; i%width != 1 {
			due[i] = 0
		}
		if got[i] = due[i]; i%width == 1 && i/width%4 == 2 {
			got[i] = 0
		}
	}
	says(got, due,
		"it is zero at indices 2 to 18 in steps of 4 of dimension 0, index 1 of dimension 1: all 5 elements are")
}

// TestInSingle: numbers of float32 in a result of float64.
func TestInSingle(t *testing.T) {
	due := elements(rows(5, 10, 40))
	for i := range due {
		due[i] += 1e-10 * float64(i)
	}
	of := func(f func(x float64) float64) *tensor.Tensor {
		return opdef.Map(tensor.Float64, tensor.New(tensor.Float64, []int{len(due)}, due), f)
	}
	want := of(func(x float64) float64 { return x })
	single := tensor.Float32
	for text, f := range map[string]func(x float64) float64{
		"results are rounded to float32": single.Round,
		"it is computed in float32: all elements are numbers of that": func(x float64) float64 {
			return single.Round(x + 2*single.ULP(x))
		},
		"": func(x float64) float64 { return x * (1 + 1e-9) },
	} {
		if got := inSingle(of(f), want); got != text {
			t.Errorf("says %q, want %q", got, text)
		}
	}
}

// TestReadWithSign: bytes are read as numbers with a sign, and the result as one without.
func TestReadWithSign(t *testing.T) {
	x := tensor.New(tensor.Uint8, []int{4}, []int64{0, 5, 128, 255})
	c, _ := searched(t, "torch.sign", x)
	for m := range c.unsigned() {
		if !strings.HasPrefix(m.Text, "numbers without sign") {
			continue
		}
		way, f := forward(t, m)
		if got := elements(way.Alter("output[0]", f.Outs[0])); !slices.Equal(got, []float64{0, 1, 255, 255}) {
			t.Error(got)
		}
		return
	}
	t.Error("not found")
}
