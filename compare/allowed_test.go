package compare

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
)

// TestAllowed judges what sound kernels do that is not rounding of a float32 sum, and
// what is like it and wrong.
func TestAllowed(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const rows, n = 64, 1024
	ref, sum := make([]float64, rows), make([]float64, rows) // sums of terms of one sign, and added in bfloat16
	partial, zeros := make([]float64, rows), make([]float64, rows)
	for i := range ref {
		for range n {
			x := tensor.BFloat16.Round(1 + r.Float64())
			ref[i] += x
			sum[i] = tensor.BFloat16.Round(sum[i] + x)
			partial[i] += ref[i]
		}
	}
	off := func(f float64) []float64 {
		out := make([]float64, rows)
		for i, x := range ref {
			out[i] = x * (1 + f*(0.5+r.Float64())*float64(1-2*(i%2)))
		}
		return out
	}
	vector := func(v []float64) func() *tensor.Tensor {
		return func() *tensor.Tensor { return tensor.New(tensor.Float64, []int{rows}, v) }
	}
	sums := Model{ULPs: 2, Terms: n, Covers: true, Sum: true, Scale: vector(ref)}
	chain, long, short, one := sums, sums, sums, sums
	chain.Chain = vector(partial)
	long.Terms, short.Terms = 1<<17, 49
	one.Terms, one.Sum, one.Single = 1, false, true
	jump := Model{ULPs: 1, Else: func() []*tensor.Tensor { return []*tensor.Tensor{vector(off(-0.25))()} }}
	other := jump.Else()[0]
	jump.Else = func() []*tensor.Tensor { return []*tensor.Tensor{other} }
	either := make([]float64, rows)
	for i := range either {
		either[i] = []float64{ref[i], tensor.At[float64](other, i)}[i%2]
	}
	for _, tc := range []struct {
		name string
		dt   tensor.DType
		got  []float64
		m    Model
		want verdict.Verdict
		says string
	}{
		{"added one after the other", tensor.BFloat16, sum, chain, verdict.Warn, "accumulated in bfloat16"},
		{"the same where nothing says so", tensor.BFloat16, sum, sums, verdict.Fail, ""},
		{"nothing added", tensor.BFloat16, zeros, chain, verdict.Fail, ""},
		{"a long float32 sum", tensor.Float32, off(1e-3), long, verdict.Warn, "added one after the other"},
		{"a short one with a large term", tensor.Float32, off(32 * 0x1p-24), short, verdict.Warn, "added one after the other"},
		{"a larger error of it", tensor.Float32, off(64 * 0x1p-24), short, verdict.Fail, ""},
		{"a longer error", tensor.Float32, off(1e-2), long, verdict.Fail, ""},
		{"bfloat16 terms", tensor.BFloat16, off(0.01), sums, verdict.Warn, "accumulated in bfloat16"},
		{"no terms", tensor.BFloat16, off(0.01), one, verdict.Warn, "computed in bfloat16"},
		{"both sides of a jump", tensor.BFloat16, either, jump, verdict.Pass, ""},
		{"between the sides", tensor.BFloat16, off(-0.1), jump, verdict.Fail, ""},
	} {
		c := Check(tensor.New(tc.dt, []int{rows}, tc.got).Rounded(), tensor.New(tc.dt, []int{rows}, ref), tc.m,
			DefaultTolerance(tc.dt), nil)
		if c.Verdict != tc.want || !strings.Contains(c.Reason, tc.says) {
			t.Errorf("%s: got %s %q, want %s %q", tc.name, c.Verdict, c.Reason, tc.want, tc.says)
		}
	}
}

// TestCommonTerms: elements that share terms which cancel are all off to one side, by
// no more than those terms' rounding.
func TestCommonTerms(t *testing.T) {
	const n = 512
	ref, got := make([]float64, n), make([]float64, n)
	r := rand.New(rand.NewPCG(5, 6))
	for i := range ref {
		ref[i] = 1e-7 * (1 + 0.1*r.NormFloat64())
		got[i] = ref[i] + 0x1p-25*(1+0.1*r.NormFloat64())
	}
	for _, tc := range []struct {
		magnitude float64 // of the terms
		want      verdict.Verdict
	}{{1, verdict.Mistrusted}, {0.06, verdict.Fail}} {
		s := tensor.Full(tensor.Float64, []int{n}, tc.magnitude)
		m := Model{ULPs: 2, Terms: 64, Sum: true, Scale: func() *tensor.Tensor { return s }}
		c := Check(tensor.New(tensor.Float32, []int{n}, got).Rounded(), tensor.New(tensor.Float32, []int{n}, ref), m,
			DefaultTolerance(tensor.Float32), nil)
		if c.Verdict != tc.want || tc.want == verdict.Fail && !strings.HasPrefix(c.Pattern, "all s") ||
			math.IsNaN(c.MaxULP) {
			t.Errorf("terms of %g: got %s %q, want %s", tc.magnitude, c.Verdict, c.Reason, tc.want)
		}
	}
}

// TestTailOfZeros: of sums that cancel, rounded to bfloat16 on the way, the last may be zero by chance.
func TestTailOfZeros(t *testing.T) {
	const n = 64
	for _, tc := range []struct {
		size, noise float64 // of the results, whose terms' magnitudes add up to 1, and of their errors
		want        verdict.Verdict
	}{{1e-4, 0x1p-9, verdict.Warn}, {1e-2, 0x1p-12, verdict.Fail}} {
		r := rand.New(rand.NewPCG(7, 8))
		ref, got := make([]float64, n), make([]float64, n)
		for i := range ref {
			ref[i] = tc.size * (1 + 0.1*r.NormFloat64())
			got[i] = ref[i] + tc.noise*r.NormFloat64()
		}
		got[n-2], got[n-1] = 0, 0
		s := tensor.Full(tensor.Float64, []int{n}, 1.0)
		m := Model{ULPs: 4, Terms: 32, Sum: true, Operand: tensor.BFloat16, Scale: func() *tensor.Tensor { return s }}
		c := Check(tensor.New(tensor.Float32, []int{n}, got).Rounded(), tensor.New(tensor.Float32, []int{n}, ref), m,
			DefaultTolerance(tensor.Float32), nil)
		if c.Verdict != tc.want || tc.want == verdict.Fail && c.Pattern != "tail of 2 zeros" {
			t.Errorf("results of %g: got %s %q, want %s", tc.size, c.Verdict, c.Reason, tc.want)
		}
	}
}
