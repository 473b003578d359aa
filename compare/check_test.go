package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
)

func floats(dt tensor.DType, shape []int, v ...float64) *tensor.Tensor {
	return tensor.New(dt, shape, v)
}

func ints(dt tensor.DType, shape []int, v ...int64) *tensor.Tensor { return tensor.New(dt, shape, v) }

func TestCheckVerdicts(t *testing.T) {
	nan := math.NaN()
	f := func(v ...float64) *tensor.Tensor { return floats(tensor.Float32, []int{len(v)}, v...) }
	h := func(v ...float64) *tensor.Tensor { return floats(tensor.Float16, []int{len(v)}, v...) }
	bf := func(v float64) *tensor.Tensor { return floats(tensor.BFloat16, []int{1}, v) }
	for _, tc := range []struct {
		name     string
		got, ref *tensor.Tensor
		m        Model
		override *Tolerance
		want     verdict.Verdict
		reason   string
	}{
		{"equal", f(1, 2), f(1, 2), Model{Exact: true}, nil, verdict.Pass, ""},
		{"signed zero and NaN", f(0, nan, 1), f(math.Copysign(0, -1), nan, 1), Model{Exact: true}, nil,
			verdict.Pass, ""},
		{"exact, one ulp off", f(1, 1+0x1p-23), f(1, 1), Model{Exact: true}, nil, verdict.Fail,
			"1 of 2 elements differ from the reference: at [1] got 1.0000001 want 1 (1 ulp)"},
		{"one ulp off", f(1, 1+0x1p-23), f(1, 1), Model{ULPs: 1}, nil, verdict.Pass, ""},
		{"shape", f(1), f(1, 1), Model{}, nil, verdict.Fail, "shape is [1], want [2]"},
		{"dtype", floats(tensor.Float64, []int{1}, 1), f(1), Model{}, nil, verdict.Fail,
			"dtype is float64, want float32"},
		{"dtype cast", floats(tensor.Float64, []int{1}, 1), f(1), Model{Cast: true}, nil, verdict.Pass, ""},
		{"zeros", f(0, 0), f(0, 0), Model{}, nil, verdict.Mistrusted, "all 2 elements are zero on both sides"},
		{"trivial zeros", f(0, 0), f(0, 0), Model{Trivial: true}, nil, verdict.Pass, ""},
		{"tiny is not zero", f(1e-44, 0), f(1e-44, 0), Model{}, nil, verdict.Pass, ""},
		{"all NaN", f(nan), f(nan), Model{}, nil, verdict.Mistrusted, "the only element is NaN on both sides"},
		{"empty", f(), f(), Model{}, nil, verdict.Mistrusted, "the tensor is empty: nothing was compared"},
		{"scalar", floats(tensor.Float32, nil, 2), floats(tensor.Float32, nil, 1), Model{ULPs: 1}, nil, verdict.Fail,
			"got 2 want 1 (8.389e+06 ulp)"},
		{"integers", ints(tensor.Int32, []int{2}, 1, 2), ints(tensor.Int32, []int{2}, 1, 3), Model{ULPs: 9}, nil,
			verdict.Fail,
			"1 of 2 elements differ from the reference: at [1] got 2 want 3"},
		{"integers wrap", ints(tensor.Int8, []int{1}, -128), ints(tensor.Int8, []int{1}, 128), Model{}, nil,
			verdict.Pass, ""},
		{"bool", ints(tensor.Bool, []int{2}, 1, 1), ints(tensor.Bool, []int{2}, 1, 0), Model{}, nil, verdict.Fail,
			"1 of 2 elements differ from the reference: at [1] got true want false"},
		{"integers by tolerance", ints(tensor.Int32, []int{1}, 2), ints(tensor.Int32, []int{1}, 3), Model{},
			&Tolerance{Atol: 1, Rule: "flag"}, verdict.Pass, ""},
		{"by tolerance", f(1, 2.5), f(1, 2), Model{}, &Tolerance{Rtol: 0.25, Rule: "flag"}, verdict.Pass, ""},
		{"outside tolerance", f(1, 2.5), f(1, 2), Model{}, &Tolerance{Rtol: 0.2, Rule: "flag"}, verdict.Fail,
			"1 of 2 elements are outside atol=0 rtol=0.2 (flag): at [1] got 2.5 want 2 (2.097e+06 ulp)"},
		{"by ulp", f(1+2*0x1p-23, 1), f(1, 1), Model{Exact: true}, &Tolerance{ULP: 2}, verdict.Pass, ""},
		{"outside ulp", f(1+3*0x1p-23, 1), f(1, 1), Model{}, &Tolerance{ULP: 2, Rule: "file"}, verdict.Fail,
			"1 of 2 elements are outside ulp=2 (file): at [0] got 1.0000004 want 1 (3 ulp)"},
		{"NaN is outside tolerance", f(nan, 1), f(1, 1), Model{}, &Tolerance{Atol: 100, Rule: "flag"}, verdict.Fail,
			"1 element is NaN where a number is due"},
		{"subnormal terms flushed to zero", f(0, 1), f(1e-39, 1),
			Model{ULPs: 1, Scale: func() *tensor.Tensor { return f(1e-39, 1) }}, nil, verdict.Pass, ""},
		{"small terms lost", f(0, 1), f(1e-36, 1), Model{ULPs: 1, Scale: func() *tensor.Tensor { return f(1e-36, 1) }},
			nil, verdict.Fail, "1 of 2 elements differ by more than rounding"},
		{"nothing but rounding left", f(-1e-7, 2e-8), f(1e-8, -3e-12),
			Model{ULPs: 1, Scale: func() *tensor.Tensor { return f(1, 1) }}, nil, verdict.Mistrusted,
			"all 2 elements are within rounding of zero"},
		{"one element says something", f(-1e-7, 1e-5), f(1e-8, 1e-5),
			Model{ULPs: 1, Scale: func() *tensor.Tensor { return f(1, 1) }}, nil, verdict.Pass, ""},
		{"beyond rounding of zero", f(-1e-5, 1e-8), f(1e-8, 1e-8),
			Model{ULPs: 1, Scale: func() *tensor.Tensor { return f(1, 1) }}, nil, verdict.Fail,
			"differ by more than rounding"},
		{"accumulated in the dtype", bf(1.0625), bf(1), Model{ULPs: 1, Scale: func() *tensor.Tensor { return f(8) }},
			nil, verdict.Warn, "accumulated in bfloat16"},
		{"operands of a lower precision", f(1.0625), f(1), Model{ULPs: 1, Operand: tensor.BFloat16,
			Scale: func() *tensor.Tensor { return f(8) }}, nil, verdict.Warn, "accumulated in bfloat16"},
		{"operands of the same precision", f(1.0625), f(1), Model{ULPs: 1, Operand: tensor.Float32,
			Scale: func() *tensor.Tensor { return f(8) }}, nil, verdict.Fail, "got 1.0625 want 1"},
		{"counted already", bf(1.0625), bf(1), Model{ULPs: 1, Coarse: true,
			Scale: func() *tensor.Tensor { return f(8) }}, nil, verdict.Fail, "got 1.0625 want 1"},
		{"subnormal intermediate results", h(1, 3*0x1p-24), h(1, 0x1p-24), Model{ULPs: 1, Coarse: true,
			Scale: func() *tensor.Tensor { return f(0, 0) }}, nil, verdict.Pass, ""},
		{"more than subnormal intermediate results", h(1, 8*0x1p-24), h(1, 0x1p-24), Model{ULPs: 1, Coarse: true,
			Scale: func() *tensor.Tensor { return f(0, 0) }}, nil, verdict.Fail,
			"got 4.7683716e-07 want 5.9604645e-08"},
		{"a tail of small terms rounded to zero", h(1, 0, 0), h(1, 0x1p-24, -0x1p-24), Model{
			Scale: func() *tensor.Tensor { return f(0, 0, 0) }}, nil, verdict.Warn, "accumulated in float16"},
		{"a tail of zeros", h(1, 0, 0), h(1, 0x1p-10, 0x1p-10), Model{
			Scale: func() *tensor.Tensor { return f(0, 1, 1) }},
			nil, verdict.Fail, "tail of 2 zeros"},
		{"quantised", quantised(t), quantised(t), Model{}, nil, verdict.Unsupported,
			"values of dtype qint8 cannot be compared"},
	} {
		res := Check(tc.got, tc.ref, tc.m, DefaultTolerance(tc.got.DType), tc.override)
		if res.Verdict != tc.want || tc.reason == "" && res.Reason != "" || !strings.Contains(res.Reason, tc.reason) {
			t.Errorf("%s: %s %q, want %s %q", tc.name, res.Verdict, res.Reason, tc.want, tc.reason)
		}
	}
}

// TestExactElementsAreNoEvidence: the gradient of an embedding is accumulated in
// bfloat16 in the rows that were looked up several times; the others are copies.
func TestExactElementsAreNoEvidence(t *testing.T) {
	const n = 4096
	ref, got, scale := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range ref {
		ref[i], got[i], scale[i] = 1, 1, 1
	}
	for i, e := range []float64{1, -3, 2, 0.5, -1, 8, 2, -2} {
		scale[i], got[i] = 4, 1+e*0x1p-7
	}
	checked := func() (verdict.Verdict, string) {
		m := Model{ULPs: 1, Terms: 3, Scale: func() *tensor.Tensor {
			return floats(tensor.Float64, []int{n}, scale...)
		}}
		res := check(floats(tensor.BFloat16, []int{n}, got...).Rounded(), floats(tensor.BFloat16, []int{n}, ref...), m)
		return res.Verdict, res.Reason
	}
	if v, reason := checked(); v != verdict.Warn {
		t.Errorf("accumulated in bfloat16: %s %q, want warn", v, reason)
	}
	for i := range got {
		if i != 5 {
			got[i] = 1
		}
	}
	if v, reason := checked(); v != verdict.Fail {
		t.Errorf("one error among exact elements: %s %q, want fail", v, reason)
	}
}

func quantised(t *testing.T) *tensor.Tensor {
	t.Helper()
	q, err := tensor.NewView(tensor.NewStorage(make([]byte, 4)), tensor.View{DType: tensor.QInt8, Shape: []int{4},
		Stride: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestCheckNumbers(t *testing.T) {
	got := floats(tensor.Float32, []int{2, 3}, 1, 2, 3, math.Inf(1), 5, 7)
	ref := floats(tensor.Float32, []int{2, 3}, 1, 2.5, 3, 4, 5, math.NaN())
	res := check(got.Rounded(), ref, Model{ULPs: 1})
	if res.Verdict != verdict.Fail || res.Mismatched != 3 || res.Numel != 6 || res.InfActual != 1 ||
		res.NaNExpected != 1 ||
		res.NaNActual != 0 ||
		!slices.Equal(res.WorstIndex, []int{1, 0}) || res.Actual != math.Inf(1) || res.Expected != 4.0 ||
		res.Rule != "1 ulp" {
		t.Errorf("got %+v", res)
	}
	if res.OpTools.AllClose || !math.IsNaN(res.OpTools.MaxAbs) || !math.IsInf(res.PassAtol, 1) {
		t.Errorf("op_tools' numbers: %+v, pass atol %v", res.OpTools, res.PassAtol)
	}
	up := check(floats(tensor.Float64, []int{4}, 2, 3, 4, 6), floats(tensor.Float64, []int{4}, 1, 2, 3, 6),
		Model{ULPs: 1})
	if up.Bias != 1 || up.PassAtol != 1 || up.MaxULP != 0x1p52 {
		t.Errorf("bias %v pass atol %v max ulp %v, want 1 1 %v", up.Bias, up.PassAtol, up.MaxULP, 0x1p52)
	}
}

// TestCheckRound: gradients stored wider than they are precise to.
func TestCheckRound(t *testing.T) {
	ref := floats(tensor.Float32, []int{3}, 1.001, -2.003, 3.007)
	rough := tensor.Data[float64](floats(tensor.BFloat16, []int{3}, 1.001, -2.003, 3.007).Rounded())
	got := floats(tensor.Float32, []int{3}, rough...).Rounded()
	if res := check(got, ref, Model{Exact: true, Round: tensor.BFloat16}); res.Verdict != verdict.Pass ||
		res.OpTools.AllClose {
		t.Errorf("precise to bfloat16: %s %q allclose %v, want pass and not close", res.Verdict, res.Reason,
			res.OpTools.AllClose)
	}
	if res := check(got, ref, Model{ULPs: 1}); res.Verdict != verdict.Fail {
		t.Errorf("as float32: %s, want fail", res.Verdict)
	}
	rough[1] *= 1 + 0x1p-7
	if res := check(floats(tensor.Float32, []int{3}, rough...).Rounded(), ref,
		Model{Exact: true, Round: tensor.BFloat16}); res.Verdict != verdict.Fail || res.MaxULP != 1 {
		t.Errorf("one bfloat16 ulp off: %s, %v ulp, want fail, 1", res.Verdict, res.MaxULP)
	}
}

func TestCheckComplex(t *testing.T) {
	// The small part of the second element is off by 0.9 ulp of the modulus,
	// which is 1e6 of its own.
	ref := tensor.New(tensor.Complex64, []int{2}, []complex128{1 + 1i, complex(1, 1e-6)})
	near := tensor.New(tensor.Complex64, []int{2}, []complex128{1 + 1i, complex(1, 1e-6+0.9*0x1p-23)}).Rounded()
	if res := check(near, ref, Model{ULPs: 1}); res.Verdict != verdict.Pass || res.MaxULP != 1 {
		t.Errorf("%s %q %v ulp, want pass, 1", res.Verdict, res.Reason, res.MaxULP)
	}
	residue := tensor.New(tensor.Complex64, []int{1}, []complex128{1e-8 - 2e-8i})
	if res := check(residue.Rounded(), tensor.New(tensor.Complex64, []int{1}, []complex128{0}),
		Model{ULPs: 1, Scale: func() *tensor.Tensor {
			return floats(tensor.Float64, []int{1}, 1)
		}}); res.Verdict != verdict.Mistrusted {
		t.Errorf("rounding of zero: %s %q, want mistrusted", res.Verdict, res.Reason)
	}
	conjugate := tensor.New(tensor.Complex64, []int{2}, []complex128{1 - 1i, complex(1, -1e-6)}).Rounded()
	if res := check(conjugate, ref, Model{Exact: true}); res.Verdict != verdict.Fail ||
		!strings.Contains(res.Reason, "the conjugate bit of a tensor was lost") {
		t.Errorf("conjugates: %s %q", res.Verdict, res.Reason)
	}
	far := tensor.New(tensor.Complex64, []int{2}, []complex128{1 - 1i, complex(1, 1e-6)}).Rounded()
	if res := check(far, ref, Model{ULPs: 1}); res.Verdict != verdict.Fail || res.Actual != complex(1, -1) ||
		res.Expected != complex(1, 1) {
		t.Errorf("%+v, want fail at 1-1i", res)
	}
}

// TestMultipleOfResidue: where all terms cancel, a multiple of the noise that the reference has left is no common
// factor of a result that was accumulated in bfloat16; where they do not, it is one.
func TestMultipleOfResidue(t *testing.T) {
	const n = 512
	for _, tc := range []struct {
		left float64
		want verdict.Verdict
	}{{1e-16, verdict.Warn}, {1e-2, verdict.Fail}} {
		ref, got, s := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range ref {
			ref[i] = tc.left * math.Sin(float64(i*i))
			got[i] = 1e-2*math.Sin(float64(i*i)) + ref[i]
			s[i] = 10
		}
		m := Model{ULPs: 1, Terms: 100, Scale: func() *tensor.Tensor { return floats(tensor.Float64, []int{n}, s...) }}
		res := check(floats(tensor.BFloat16, []int{n}, got...).Rounded(), floats(tensor.BFloat16, []int{n}, ref...), m)
		if res.Verdict != tc.want {
			t.Errorf("%g left: %s %q, want %s", tc.left, res.Verdict, res.Reason, tc.want)
		}
	}
}

func TestPatterns(t *testing.T) {
	const rows, cols = 8, 16
	n := rows * cols
	base := make([]float64, n)
	for i := range base {
		base[i] = float64(float32(math.Sin(float64(i*i)) + 2*math.Cos(float64(3*i))))
	}
	base[100] = 1e-40
	for name, tc := range map[string]struct {
		plant func(v []float64)
		want  string
	}{
		"NaN": {func(v []float64) { v[3], v[9] = math.NaN(), math.NaN() },
			"2 elements are NaN where a number is due"},
		"tail":       {func(v []float64) { clear(v[n-37:]) }, "tail of 37 zeros"},
		"blank":      {func(v []float64) { clear(v) }, "all 128 elements are zero"},
		"holes":      {func(v []float64) { v[5], v[50] = 0, 0 }, "2 elements are zero"},
		"subnormals": {func(v []float64) { v[100] = 0 }, "1 element is flushed to zero though subnormal"},
		"scaled":     {func(v []float64) { scale(v, 1.25) }, "all scaled by 1.25"},
		"slightly":   {func(v []float64) { scale(v, 1+0x1p-12) }, "all scaled by 1+0.000244"},
		"part":       {func(v []float64) { scale(v[:20], 2) }, "20 elements are scaled by 2"},
		"sign":       {func(v []float64) { v[7] = -v[7] }, "the sign is flipped"},
		"signs":      {func(v []float64) { scale(v, -1) }, "signs are flipped"},
		"shifted":    {func(v []float64) { copy(v, v[1:]) }, "shifted: each element holds the value of the next one"},
		"copied once": {func(v []float64) {
			for i := 8; i < n; i += 16 {
				v[i] = v[i-1]
			}
		}, "only index 8 of dimension 1 is wrong"},
		"transposed": {func(v []float64) {
			w := slices.Clone(v)
			for i := range v {
				v[i] = w[i%rows*cols+i/rows]
			}
		}, "the last two dimensions are transposed"},
		"swapped": {func(v []float64) {
			for j := range cols {
				v[j], v[3*cols+j] = v[3*cols+j], v[j]
			}
		}, "rows [0] and [3] are swapped"},
		"column": {func(v []float64) {
			for i := range rows {
				v[i*cols+5] += 1 + float64(i%3)
			}
		}, "only index 5 of dimension 1 is wrong"},
		"infinite": {func(v []float64) { v[4] = math.Inf(1) }, "1 element is infinite where a finite number is due"},
		"rough":    {func(v []float64) { tensor.RoundBlock(tensor.BFloat16, v) }, "as large as rounding to bfloat16"},
	} {
		v := slices.Clone(base)
		tc.plant(v)
		ref := floats(tensor.Float32, []int{rows, cols}, base...)
		res := check(floats(tensor.Float32, []int{rows, cols}, v...).Rounded(), ref, Model{Exact: true})
		if res.Verdict != verdict.Fail || !strings.Contains(res.Pattern, tc.want) ||
			!strings.HasSuffix(res.Reason, res.Pattern) {
			t.Errorf("%s: %s, pattern %q, want %q", name, res.Verdict, res.Pattern, tc.want)
		}
	}
	top := tensor.Float16.Max()
	res := check(floats(tensor.Float16, []int{2}, 1, top), floats(tensor.Float16, []int{2}, 1, 1e6), Model{ULPs: 1})
	if want := "saturated at the largest value instead of overflowing"; res.Pattern != want {
		t.Errorf("saturated: pattern %q, want %q", res.Pattern, want)
	}
}

// TestRoughNeedsEvidence: errors of the size of rounding that are not spread as rounding spreads them are not called
// as large as rounding.
func TestRoughNeedsEvidence(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	const rows, cols = 32, 64
	base, factors := make([]float64, rows*cols), make([]float64, rows)
	for i := range base {
		base[i] = r.NormFloat64()
	}
	for i := range factors {
		factors[i] = 1 + 0.004*(r.Float64()-0.5)
	}
	for name, tc := range map[string]struct {
		plant func(i int, v float64) float64
		rough bool
	}{
		"rounded":        {func(i int, v float64) float64 { return tensor.BFloat16.Round(v) }, true},
		"rounded before": {func(i int, v float64) float64 { return v + 0.002*r.NormFloat64() }, true},
		"0.4 % each":     {func(i int, v float64) float64 { return v * (1 + 0.004*float64(2*r.IntN(2)-1)) }, false},
		"a factor":       {func(i int, v float64) float64 { return v * 1.004 }, false},
		"one for a row":  {func(i int, v float64) float64 { return v * factors[i/cols] }, false},
		"alternating": {func(i int, v float64) float64 {
			return v * (1 + 0.006*r.Float64()*float64(1-i%2*2))
		}, false},
		"an approximation": {func(i int, v float64) float64 { return v + 0.002*math.Sin(3*v) }, false},
		"a few":            {func(i int, v float64) float64 { return v + 0.004*r.NormFloat64()*float64(i%2) }, false},
	} {
		v := make([]float64, len(base))
		for i := range v {
			v[i] = tc.plant(i, base[i])
		}
		ref := floats(tensor.Float32, []int{rows, cols}, base...)
		res := check(floats(tensor.Float32, []int{rows, cols}, v...).Rounded(), ref, Model{Exact: true})
		if got := strings.Contains(res.Pattern, "as large as rounding to bfloat16"); got != tc.rough {
			t.Errorf("%s: %s", name, res.Reason)
		}
	}
}

func scale(v []float64, f float64) {
	for i := range v {
		v[i] *= f
	}
}

// TestStoredReference: a float32 reference gives the same result whether it is
// stored as float32 or computed as float64, element by element and in bulk.
func TestStoredReference(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 8))
	for trial := range 60 {
		n := 1 + r.IntN(70000)
		v, w := make([]float64, n), make([]float64, n)
		for i := range v {
			w[i] = tensor.Float32.Round(r.NormFloat64())
			v[i] = tensor.Float32.Round(w[i] * (1 + 1e-7*float64(trial%4)*r.NormFloat64()))
			switch r.IntN(100 + 100000*(trial%2)) {
			case 0:
				w[i] = math.NaN()
			case 1:
				v[i] = math.Inf(1)
			case 2:
				v[i], w[i] = 0, math.Copysign(0, -1)
			case 3:
				v[i] = tensor.Float32.Round(w[i] * 1e30)
			}
		}
		shape := []int{n}
		got, ref := tensor.New(tensor.Float32, shape, v).Rounded(), tensor.New(tensor.Float32, shape, w)
		m := Model{ULPs: []float64{0.5, 1, 2.5, 16}[trial%4], Cast: trial%3 == 0}
		if trial%5 == 0 {
			m.Terms, m.Scale = 64, func() *tensor.Tensor { return ref.Rounded() }
		}
		tol := DefaultTolerance(tensor.Float32)
		stored, computed := Check(got, ref.Rounded(), m, tol, nil), Check(got, ref, m, tol, nil)
		stored.Distribution, computed.Distribution = nil, nil // sums in another order
		if a, b := fmt.Sprintf("%+v", stored), fmt.Sprintf("%+v", computed); a != b {
			t.Fatalf("trial %d, %d elements:\nstored   %s\ncomputed %s", trial, n, a, b)
		}
	}
}

// TestLeast: what is at most S decides as S does, which is computed only where that does not suffice.
func TestLeast(t *testing.T) {
	const n = 40_000
	ref, got, s, some := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	r := rand.New(rand.NewPCG(5, 5))
	for i := range ref {
		ref[i] = float64(float32(r.NormFloat64()))
		s[i], some[i] = 30, 3
		got[i] = float64(float32(ref[i] + 4*0x1p-24*(2*r.Float64()-1)))
	}
	for _, tc := range []struct {
		name  string
		off   float64 // of element 123
		want  verdict.Verdict
		asked bool // for S
	}{
		{"near", 0, verdict.Pass, false},
		{"beyond what is at most S", 400 * 0x1p-24, verdict.Pass, true},
		{"beyond S", 4000 * 0x1p-24, verdict.Fail, true},
		{"NaN", math.NaN(), verdict.Fail, true},
	} {
		x := slices.Clone(got)
		x[123] += tc.off
		asked := false
		m := Model{ULPs: 1, Terms: 16, Scale: func() *tensor.Tensor {
			asked = true
			return floats(tensor.Float64, []int{n}, s...)
		}}
		g, w := floats(tensor.Float32, []int{n}, x...), floats(tensor.Float64, []int{n}, ref...)
		w.DType = tensor.Float32
		plain := check(g, w, m)
		asked = false
		m.LeastShare = 0.1
		m.Least = func() *tensor.Tensor { return floats(tensor.Float64, []int{n}, some...) }
		with := check(g, w, m)
		if with.Verdict != tc.want || plain.Verdict != tc.want || with.Reason != plain.Reason ||
			with.Mismatched != plain.Mismatched {
			t.Errorf("%s: %s (%s), without it %s (%s), want %s", tc.name, with.Verdict, with.Reason, plain.Verdict,
				plain.Reason, tc.want)
		}
		if asked != tc.asked {
			t.Errorf("%s: S was asked for: %t, want %t", tc.name, asked, tc.asked)
		}
		if with.Verdict == verdict.Pass && !(with.BoundRatio <= max(plain.BoundRatio, nearMiss)) {
			t.Errorf("%s: an error is %g of its bound, without it %g", tc.name, with.BoundRatio, plain.BoundRatio)
		}
	}
	// Where a tolerance decides there is no S: an error is a part of the tolerance.
	m := Model{ULPs: 1, Terms: 16, LeastShare: 0.1, Least: func() *tensor.Tensor { return nil }}
	r32, w32 := floats(tensor.Float32, []int{n}, got...), floats(tensor.Float32, []int{n}, ref...)
	res := Check(r32, w32, m, DefaultTolerance(tensor.Float32), &Tolerance{Atol: 0x1p-21, Rule: "flag"})
	if res.Verdict != verdict.Pass || !(res.BoundRatio > nearMiss && res.BoundRatio <= 1) {
		t.Errorf("by a tolerance: %s (%s), %g of what is allowed", res.Verdict, res.Reason, res.BoundRatio)
	}
}

// TestResidue: what rounding leaves of terms that cancel is mistrusted, values that agree are not, though
// their bounds reach zero.
func TestResidue(t *testing.T) {
	const n = 256
	r := rand.New(rand.NewPCG(7, 7))
	ref, noise := make([]float64, n), make([]float64, n)
	for i := range ref {
		ref[i], noise[i] = 1e-9*r.NormFloat64(), 1e-9*r.NormFloat64()
	}
	m := Model{ULPs: 2, Terms: 16, Scale: func() *tensor.Tensor { return tensor.Full(tensor.Float64, []int{n}, 1.0) }}
	for _, tc := range []struct {
		name   string
		agrees int // elements that are the reference, rounded
		want   verdict.Verdict
	}{
		{"noise", 0, verdict.Mistrusted},
		{"a few agree", n / 8, verdict.Mistrusted},
		{"half agree", n / 2, verdict.Pass},
	} {
		x := slices.Clone(noise)
		copy(x, ref[:tc.agrees])
		for i := range x {
			x[i] = float64(float32(x[i]))
		}
		w := floats(tensor.Float64, []int{n}, ref...)
		w.DType = tensor.Float32
		if res := check(floats(tensor.Float32, []int{n}, x...), w, m); res.Verdict != tc.want {
			t.Errorf("%s: %s (%s), want %s", tc.name, res.Verdict, res.Reason, tc.want)
		}
	}
}

// TestULPs: distances in representable values are exact, also of float64.
func TestULPs(t *testing.T) {
	next := math.Nextafter
	for _, c := range []struct {
		dt   tensor.DType
		x, y float64
		want float64
	}{
		{tensor.Float64, 1, next(1, 2), 1}, {tensor.Float64, 1, next(next(1, 2), 2), 2},
		{tensor.Float64, 2, next(2, 1), 1},
		{tensor.Float64, 0x1p-1074, -0x1p-1074, 2}, {tensor.Float64, 0, math.Copysign(0, -1), 0},
		{tensor.Float64, math.MaxFloat64, math.Inf(1), 1}, {tensor.Complex128, 3, 3 + 0x5p-51, 5},
		{tensor.Float64, math.Inf(-1), math.Inf(1), 2 * 0x7ffp52}, {tensor.Float32, 1, 1 + 0x3p-23, 3},
		{tensor.BFloat16, -0x1p-133, 0x1p-133, 2},
	} {
		if got := ulps(c.dt, c.x, c.y); got != c.want {
			t.Errorf("%s: %v and %v are %v ulp apart, want %v", c.dt, c.x, c.y, got, c.want)
		}
		if got := ulps(c.dt, c.y, c.x); got != c.want {
			t.Errorf("%s: %v and %v are %v ulp apart, want %v", c.dt, c.y, c.x, got, c.want)
		}
	}
}

// TestLargeBlank: a tensor of zeros that is looked at in a sample first is told as a small one is.
func TestLargeBlank(t *testing.T) {
	const n = 4 * sampleWindow
	ref := make([]float64, n)
	for i := range ref {
		ref[i] = float64(i%7 + 1)
	}
	res := check(floats(tensor.Float32, []int{n}, make([]float64, n)...), floats(tensor.Float32, []int{n}, ref...),
		Model{Exact: true})
	if want := "all 16384 elements are zero"; res.Verdict != verdict.Fail || !strings.Contains(res.Reason, want) {
		t.Errorf("%s %q, want fail %q", res.Verdict, res.Reason, want)
	}
}

// TestSteps: elements to which roundings of intermediate results matter more than their own size are no evidence of a
// common factor, of a tail that was not written, or of one error that stands alone. Others are.
func TestSteps(t *testing.T) {
	const n = 64
	for _, tc := range []struct {
		name  string
		rough float64 // how far other results are from the reference
		steps bool
		plant func(v []float64)
		want  verdict.Verdict
	}{
		{"a factor", 1e-2, true, func(v []float64) { scale(v, 2) }, verdict.Warn},
		{"a tail", 1e-2, true, func(v []float64) { clear(v[n-9:]) }, verdict.Warn},
		{"one error", 1e-2, true, func(v []float64) { v[7] += 0.05 }, verdict.Warn},
		{"a factor of what is known", 0, true, func(v []float64) { scale(v, 2) }, verdict.Fail},
		{"a tail of what is known", 0, true, func(v []float64) { clear(v[n-9:]) }, verdict.Fail},
		{"one error of what is known", 0, true, func(v []float64) { v[7] += 0.05 }, verdict.Fail},
		{"a factor, no steps", 1e-2, false, func(v []float64) { scale(v, 2) }, verdict.Fail},
	} {
		ref, other, s := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range ref {
			ref[i] = 1e-3 * (1 + float64(i%7))
			other[i], s[i] = ref[i]+tc.rough, 10
		}
		got := slices.Clone(ref)
		tc.plant(got)
		m := Model{ULPs: 1, Terms: 2, Steps: tc.steps, Scale: func() *tensor.Tensor {
			return floats(tensor.Float64, []int{n}, s...)
		}, Else: func() []*tensor.Tensor { return []*tensor.Tensor{floats(tensor.Float64, []int{n}, other...)} }}
		r := check(floats(tensor.BFloat16, []int{n}, got...).Rounded(), floats(tensor.BFloat16, []int{n}, ref...), m)
		if r.Verdict != tc.want {
			t.Errorf("%s: %s %q, want %s", tc.name, r.Verdict, r.Reason, tc.want)
		}
	}
}

// TestOtherDType: a result of either dtype is right, and is judged as exact as it is.
func TestOtherDType(t *testing.T) {
	ref := floats(tensor.BFloat16, []int{1}, 1.0001)
	m := Model{ULPs: 1, OtherDType: tensor.Float32}
	for dt, want := range map[tensor.DType]verdict.Verdict{tensor.BFloat16: verdict.Pass, tensor.Float32: verdict.Pass,
		tensor.Float64: verdict.Fail} {
		if r := check(floats(dt, []int{1}, 1.0001).Rounded(), ref, m); r.Verdict != want {
			t.Errorf("%s: %s %q, want %s", dt, r.Verdict, r.Reason, want)
		}
	}
	if r := check(floats(tensor.Float32, []int{1}, 1), ref, m); r.Verdict != verdict.Fail {
		t.Errorf("rounded to bfloat16: %s, want fail", r.Verdict)
	}
}
