package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
)

// TestAllowed: an element is wrong exactly if it is further off than Allowed says.
func TestAllowed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	one := func(x float64) func() *tensor.Tensor {
		return func() *tensor.Tensor { return tensor.New(tensor.Float64, []int{1}, []float64{x}) }
	}
	zero := func() []*tensor.Tensor { return []*tensor.Tensor{one(0)()} }
	for _, c := range []struct {
		name     string
		dt       tensor.DType
		size     float64
		m        Model
		override *Tolerance
	}{
		{"ulps", tensor.Float32, 1, Model{ULPs: 2}, nil},
		{"tiny", tensor.Float32, 1e-40, Model{ULPs: 2}, nil},
		{"sum", tensor.Float32, 1, Model{ULPs: 2, Scale: one(30), Terms: 12}, nil},
		{"long sum", tensor.Float32, 1, Model{ULPs: 2, Scale: one(30), Terms: 5000, Sum: true}, nil},
		{"half", tensor.Float16, 1, Model{ULPs: 1, Scale: one(3), Terms: 30}, nil},
		{"chain", tensor.BFloat16, 1, Model{ULPs: 1, Scale: one(3), Terms: 30, Chain: one(20)}, nil},
		{"double", tensor.Float64, 1, Model{ULPs: 4, Scale: one(10), Terms: 9}, nil},
		{"tolerance", tensor.Float32, 1, Model{}, &Tolerance{Atol: 1e-3, Rtol: 1e-2}},
		{"ulp tolerance", tensor.Float32, 1, Model{}, &Tolerance{ULP: 100}},
		{"otherwise", tensor.Float32, 1, Model{ULPs: 1, Else: zero}, nil},
	} {
		for range 40 {
			exact := r.NormFloat64() * c.size
			ref := tensor.New(c.dt, []int{1}, []float64{exact})
			allowed := Allowed(ref, c.m, c.override, false)
			a := tensor.At[float64](allowed, 0)
			signs := []float64{-1, 1}
			if c.m.Else != nil {
				signs = []float64{-math.Copysign(1, exact)} // towards the other result
			}
			for _, sign := range signs {
				step := 2 * c.dt.ULP(math.Abs(exact)+a)
				for _, off := range []float64{math.Max(a-step, 0), a + step} {
					got := tensor.New(c.dt, []int{1}, []float64{c.dt.Round(exact + sign*off)})
					beyond := Beyond(got, ref, allowed) > 0
					res := Check(got, ref, c.m, DefaultTolerance(c.dt), c.override)
					wrong := res.Verdict == verdict.Fail
					if beyond != (off > a) || beyond != wrong && (beyond || c.m.Else == nil) {
						t.Errorf("%s: %g, off by %g, may be off by %g: beyond it %t, Check: %s %s", c.name, exact,
							off, a, beyond, res.Verdict, res.Reason)
					}
				}
			}
		}
	}
}

// TestAllowedExact: integers and moved values may not differ; complex parts may be off each; near the largest value all
// is allowed, and so is nothing where the reference is not finite.
func TestAllowedExact(t *testing.T) {
	ints := tensor.New(tensor.Int64, []int{3}, []int64{1, -2, 3})
	z := tensor.New(tensor.Complex64, []int{2}, []complex128{3 + 4i, 1})
	big := tensor.New(tensor.Float16, []int{4}, []float64{65519, 1, math.Inf(1), math.NaN()})
	for _, c := range []struct {
		name string
		ref  *tensor.Tensor
		m    Model
		want []float64
	}{
		{"integers", ints, Model{Exact: true}, []float64{0, 0, 0}},
		{"complex", z, Model{ULPs: 2}, []float64{2 * tensor.Float32.ULP(5), 2 * tensor.Float32.ULP(1)}},
		{"overflow", big, Model{ULPs: 1}, []float64{math.Inf(1), tensor.Float16.ULP(1), 0, 0}},
		{"exact", tensor.New(tensor.Float32, []int{1}, []float64{.1}), Model{Exact: true},
			[]float64{math.Abs(float64(float32(.1)) - .1)}},
	} {
		for i, a := range tensor.Data[float64](Allowed(c.ref, c.m, nil, false)) {
			if a != c.want[i] {
				t.Errorf("%s: element %d may be off by %g, want %g", c.name, i, a, c.want[i])
			}
		}
	}
	got := tensor.New(tensor.Float16, []int{4}, []float64{math.Inf(1), 1, math.Inf(1), math.NaN()})
	if n := Beyond(got, big, Allowed(big, Model{ULPs: 1}, nil, false)); n != 0 {
		t.Errorf("%d right values are wrong", n)
	}
	got = tensor.New(tensor.Float16, []int{4}, []float64{65504, math.NaN(), 1, 1})
	if n := Beyond(got, big, Allowed(big, Model{ULPs: 1}, nil, false)); n != 3 {
		t.Errorf("%d values are wrong, want 3", n)
	}
}
