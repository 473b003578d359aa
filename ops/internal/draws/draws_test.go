package draws

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

func drawn(dt tensor.DType, n int, f func() float64) *tensor.Tensor {
	v := make([]float64, n)
	for i := range v {
		v[i] = f()
	}
	return tensor.New(dt, []int{n}, v).Rounded()
}

// TestSound: numbers of a sound generator pass, of every size and dtype.
func TestSound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		for _, n := range []int{0, 1, 2, 17, 1000, 20000} {
			for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.Float16, tensor.BFloat16} {
				for _, c := range []struct {
					d Distribution
					f func() float64
				}{
					{Uniform(0, 1), r.Float64}, {Uniform(-2, 3), func() float64 { return -2 + 5*r.Float64() }},
					{Normal(0, 1), r.NormFloat64}, {Exponential(2), func() float64 { return r.ExpFloat64() / 2 }},
					{Integers(-3, 5), func() float64 { return float64(r.IntN(8) - 3) }},
					{LogNormal(0, 1), func() float64 { return math.Exp(r.NormFloat64()) }},
				} {
					if got := c.d.Judge(drawn(dt, n, c.f)); got.Wrong != "" {
						t.Errorf("%d of %s, %s: %s", n, dt, c.d.Name, got.Wrong)
					}
				}
			}
		}
		if got := Bernoulli(drawn(tensor.Float32, 5000, func() float64 { return float64(r.IntN(2)) }),
			func(int) float64 { return 0.5 }); got.Wrong != "" {
			t.Error(got.Wrong)
		}
	}
}

// TestUnsound: what bad generators give fails.
func TestUnsound(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const n = 4096
	i, last := 0, 0.0
	half := make([]float64, n/2)
	for k := range half {
		half[k] = r.Float64()
	}
	for what, c := range map[string]struct {
		d Distribution
		f func() float64
	}{
		"constant":             {Uniform(0, 1), func() float64 { return 0.5 }},
		"out of range":         {Uniform(0, 1), func() float64 { return 2 * r.Float64() }},
		"nan":                  {Uniform(0, 1), math.NaN},
		"never the upper half": {Uniform(0, 1), func() float64 { return r.Float64() / 2 }},
		"a ramp":               {Uniform(0, 1), func() float64 { i++; return float64(i%n) / n }},
		"halves": {Uniform(0, 1), func() float64 {
			i++
			return half[i%len(half)]
		}},
		"correlated": {Normal(0, 1), func() float64 {
			last = 0.8*last + 0.6*r.NormFloat64()
			return last
		}},
		"deviation 1.3":      {Normal(0, 1), func() float64 { return 1.3 * r.NormFloat64() }},
		"the highest is not": {Integers(0, 4), func() float64 { return float64(r.IntN(3)) }},
		"fractions":          {Integers(0, 4), func() float64 { return 3 * r.Float64() }},
	} {
		if got := c.d.Judge(drawn(tensor.Float32, n, c.f)); got.Wrong == "" {
			t.Errorf("%s passed: %s", what, got.Checked)
		}
	}
}

func TestPermutation(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	order := func(n int, change func(v []int64)) *tensor.Tensor {
		v := make([]int64, n)
		for i, k := range r.Perm(n) {
			v[i] = int64(k)
		}
		change(v)
		return tensor.New(tensor.Int64, []int{n}, v)
	}
	for what, c := range map[string]struct {
		change func(v []int64)
		sound  bool
	}{
		"sound":     {func([]int64) {}, true},
		"twice":     {func(v []int64) { v[0] = v[1] }, false},
		"too large": {func(v []int64) { v[0] = int64(len(v)) }, false},
		"in order": {func(v []int64) {
			for i := range v {
				v[i] = int64(i)
			}
		}, false},
		"descending": {func(v []int64) {
			for i := range v {
				v[i] = int64(len(v) - 1 - i)
			}
		}, false},
	} {
		if got := Permutation(order(1000, c.change)); (got.Wrong == "") != c.sound {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestDropoutOfZeros(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{3}, []float64{0, math.Copysign(0, -1), 0})
	if got := Dropout(x, x, 0.5, false); got.Wrong != "" {
		t.Errorf("zeros stay zero: %+v", got)
	}
	y := tensor.New(tensor.Float32, []int{3}, []float64{0, 0, 99})
	if got := Dropout(x, y, 0.5, false); got.Wrong != "element 2 is 99, want 0" {
		t.Errorf("a zero became 99: %+v", got)
	}
}

func TestDropout(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const n, p = 4096, 0.1
	x := drawn(tensor.BFloat16, n, r.NormFloat64)
	drop := func(f func(i int, x float64) float64) opdef.Drawn {
		v := tensor.Data[float64](x)
		out := make([]float64, n)
		for i, a := range v {
			out[i] = f(i, a)
		}
		return Dropout(x, tensor.New(x.DType, []int{n}, out).Rounded(), p, true)
	}
	kept := func(rate float64) func(int, float64) float64 {
		return func(_ int, a float64) float64 {
			if r.Float64() < rate {
				return 0
			}
			return a / (1 - p)
		}
	}
	for what, c := range map[string]struct {
		f     func(i int, x float64) float64
		sound bool
	}{
		"sound":         {kept(p), true},
		"nothing":       {kept(0), false},
		"twice as many": {kept(2 * p), false},
		"not scaled":    {func(_ int, a float64) float64 { return a }, false},
	} {
		if got := drop(c.f); (got.Wrong == "") != c.sound {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
