package compare

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
)

// TestSystematic judges tensors whose elements are all within wide bounds, as those
// of sums are.
func TestSystematic(t *testing.T) {
	const n = 4096
	truncate := func(dt tensor.DType, x float64) float64 {
		y := dt.Round(x)
		if math.Abs(y) > math.Abs(x) {
			y -= math.Copysign(dt.ULP(x), x)
		}
		return y
	}
	factor := func(f float64) func(tensor.DType, float64) float64 {
		return func(dt tensor.DType, x float64) float64 { return dt.Round(f * x) }
	}
	for _, tc := range []struct {
		name string
		dt   tensor.DType
		got  func(dt tensor.DType, x float64) float64
		want verdict.Verdict
		says string
	}{
		{"nearest", tensor.BFloat16, tensor.DType.Round, verdict.Pass, ""},
		{"nearest", tensor.Float32, tensor.DType.Round, verdict.Pass, ""},
		{"truncated", tensor.BFloat16, truncate, verdict.Warn, "rounds toward zero"},
		{"truncated", tensor.Float16, truncate, verdict.Warn, "rounds toward zero"},
		{"truncated", tensor.Float32, truncate, verdict.Warn, "rounds toward zero"},
		{"scaled", tensor.BFloat16, factor(1 - 4e-3), verdict.Fail, "all scaled by 0.99"},
		{"scaled", tensor.Float32, factor(1 + 1e-5), verdict.Fail, "all scaled by 1.0000"},
		{"shifted", tensor.Float32, func(dt tensor.DType, x float64) float64 { return dt.Round(x + 5e-6) },
			verdict.Fail, "all shifted by"},
		{"scaled by less than rounding", tensor.Float32, factor(1 + 1e-7), verdict.Pass, ""},
	} {
		t.Run(tc.name+" "+tc.dt.String(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			got, ref := make([]float64, n), make([]float64, n)
			for i := range ref {
				ref[i] = r.NormFloat64()
				got[i] = tc.got(tc.dt, ref[i])
			}
			ones := tensor.Full(tensor.Float64, []int{n}, 10.0)
			m := Model{ULPs: 2, Terms: 4096, Scale: func() *tensor.Tensor { return ones }}
			c := Check(tensor.New(tc.dt, []int{n}, got).Rounded(), tensor.New(tc.dt, []int{n}, ref), m,
				DefaultTolerance(tc.dt), nil)
			if c.Verdict != tc.want || !strings.Contains(c.Reason, tc.says) {
				t.Errorf("got %s %q, want %s %q", c.Verdict, c.Reason, tc.want, tc.says)
			}
		})
	}
}

// TestFewValues: elements of the same value are rounded alike, which is no factor in 16 bits: one
// rounding on the way is as large.
func TestFewValues(t *testing.T) {
	const dt, n = tensor.BFloat16, 960
	for _, tc := range []struct {
		values int
		want   verdict.Verdict
	}{{1, verdict.Pass}, {5, verdict.Pass}, {n, verdict.Fail}} {
		r := rand.New(rand.NewPCG(1, 2))
		values := make([]float64, tc.values)
		for i := range values {
			values[i] = 1 + r.Float64()
		}
		got, ref := make([]float64, n), make([]float64, n)
		for i := range ref {
			ref[i] = values[i%tc.values]
			got[i] = dt.Round(ref[i] * (1 - 1.0/128))
		}
		ones := tensor.Full(tensor.Float64, []int{n}, 10.0)
		m := Model{ULPs: 4, Terms: 4096, Scale: func() *tensor.Tensor { return ones }}
		c := Check(tensor.New(dt, []int{n}, got).Rounded(), tensor.New(dt, []int{n}, ref), m, DefaultTolerance(dt), nil)
		if c.Verdict != tc.want {
			t.Errorf("%d values: got %s %q, want %s", tc.values, c.Verdict, c.Reason, tc.want)
		}
	}
}

// TestSoundIsNotSystematic: roundings of sound kernels, also with a factor that rows
// share and errors of several ULP, are never found.
func TestSoundIsNotSystematic(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for trial := range 300 {
		dt := []tensor.DType{tensor.Float32, tensor.BFloat16, tensor.Float16}[trial%3]
		rows, n := 1+r.IntN(40), 8+r.IntN(200)
		got, ref := make([]float64, rows*n), make([]float64, rows*n)
		for k := range rows {
			row := 1 + 2*tensor.Float32.Eps()*r.NormFloat64()
			for i := k * n; i < (k+1)*n; i++ {
				ref[i] = math.Exp(2*r.NormFloat64()) * float64(1-2*r.IntN(2))
				got[i] = dt.Round(ref[i] * row * (1 + tensor.Float32.Eps()*r.NormFloat64()))
			}
		}
		shape := []int{rows, n}
		m := Model{ULPs: 64}
		c := Check(tensor.New(dt, shape, got).Rounded(), tensor.New(dt, shape, ref), m, DefaultTolerance(dt), nil)
		if c.Verdict != verdict.Pass {
			t.Errorf("trial %d, %s, %d rows of %d: %s %s", trial, dt, rows, n, c.Verdict, c.Reason)
		}
	}
}

// TestZeroSigns: operators that move values keep the sign of a zero.
func TestZeroSigns(t *testing.T) {
	negative := math.Copysign(0, -1)
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.BFloat16} {
		got := tensor.New(dt, []int{3}, []float64{1, 0, 2}).Rounded()
		ref := tensor.New(dt, []int{3}, []float64{1, negative, 2})
		for _, moved := range []bool{true, false} {
			want := verdict.Pass
			if moved {
				want = verdict.Fail
			}
			c := Check(got, ref, Model{Exact: true, Moved: moved}, DefaultTolerance(dt), nil)
			if c.Verdict != want || moved && !strings.Contains(c.Reason, "wrong sign") {
				t.Errorf("%s, moved %t: got %s %q, want %s", dt, moved, c.Verdict, c.Reason, want)
			}
		}
		if c := Check(got, got, Model{Exact: true, Moved: true}, DefaultTolerance(dt), nil); c.Verdict != verdict.Pass {
			t.Errorf("%s: equal to itself: %s %s", dt, c.Verdict, c.Reason)
		}
		// Products are rounded: other elements are an ulp off, and a tiny one is flushed to a zero of its sign.
		tiny := -dt.SmallestNormal() / 4
		ref = tensor.New(dt, []int{4}, []float64{1, negative, 2, tiny})
		for _, p := range []struct {
			zero, flushed float64
			want          verdict.Verdict
		}{{negative, negative, verdict.Pass}, {0, negative, verdict.Fail}, {negative, 0, verdict.Fail}} {
			got := tensor.New(dt, []int{4}, []float64{1 + dt.Eps(), p.zero, 2, p.flushed}).Rounded()
			m := Model{ULPs: 1, Signed: true, Scale: func() *tensor.Tensor { return tensor.Full(dt, []int{4}, 1.0) }}
			c := Check(got, ref, m, DefaultTolerance(dt), nil)
			says := "1 of 4 elements are zeros of the wrong sign"
			if c.Verdict != p.want || p.want == verdict.Fail && !strings.Contains(c.Reason, says) {
				t.Errorf("%s, %v and %v: %s %q, want %s", dt, p.zero, p.flushed, c.Verdict, c.Reason, p.want)
			}
		}
	}
}

// TestSaturation: what overflows float8_e4m3fn may be NaN or the largest value, of its sign.
func TestSaturation(t *testing.T) {
	dt, nan := tensor.Float8E4M3FN, math.NaN()
	ref := tensor.New(dt, []int{5}, []float64{1, 500, -1e9, math.Inf(1), nan})
	for _, c := range []struct {
		got  []float64
		want verdict.Verdict
		says string
	}{
		{[]float64{1, nan, nan, nan, nan}, verdict.Pass, ""},
		{[]float64{1, 448, -448, 448, nan}, verdict.Pass, "3 of 5 elements overflow and are the largest value"},
		{[]float64{1, 448, nan, nan, nan}, verdict.Fail, "2 are NaN and 1 the largest value"},
		{[]float64{1, 448, 448, 448, nan}, verdict.Fail, "1 of 5"},
		{[]float64{1, 448, -448, 448, 448}, verdict.Fail, "1 of 5"},
		{[]float64{1, 416, -448, 448, nan}, verdict.Fail, "1 of 5"},
	} {
		for _, m := range []Model{{Exact: true}, {ULPs: 1}} {
			r := Check(tensor.New(dt, []int{5}, c.got).Rounded(), ref, m, DefaultTolerance(dt), nil)
			if r.Verdict != c.want || !strings.Contains(r.Reason, c.says) {
				t.Errorf("%v: %s %q, want %s %q", c.got, r.Verdict, r.Reason, c.want, c.says)
			}
		}
	}
	for _, other := range []tensor.DType{tensor.Float8E4M3FNUZ, tensor.Float8E5M2FNUZ} { // NaN in every torch
		ref := tensor.New(other, []int{2}, []float64{1, 1e9})
		got := tensor.New(other, []int{2}, []float64{1, other.Max()}).Rounded()
		if r := Check(got, ref, Model{Exact: true}, DefaultTolerance(other), nil); r.Verdict != verdict.Fail {
			t.Errorf("%s: %s %q", other, r.Verdict, r.Reason)
		}
	}
}
