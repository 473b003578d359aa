package draws

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/optool/optool/ops/opdef"
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
	uniform := Normal(0, 1).Judge(drawn(tensor.Float32, n, r.Float64))
	if !strings.Contains(uniform.Wrong, "of the elements is at most") {
		t.Errorf("uniform numbers for normal ones: %q", uniform.Wrong)
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

func TestMaskOfZeros(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{3}, []float64{0, math.Copysign(0, -1), 0})
	if got := Dropout(0.5).Judge(x, x); got.Wrong != "" {
		t.Errorf("zeros stay zero: %+v", got)
	}
	y := tensor.New(tensor.Float32, []int{3}, []float64{0, 0, 99})
	if got := Dropout(0.5).Judge(x, y); got.Wrong != "element 2 is 99, want 0" {
		t.Errorf("a zero became 99: %+v", got)
	}
}

// TestMask: what sound dropouts of every kind make passes, and what is planted in them
// is found.
func TestMask(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const n, p, group = 6400, 0.1, 16
	channels := Dropout(p)
	channels.Group = group
	alphas := AlphaDropout(p)
	alphas.Group = group
	for what, m := range map[string]Mask{"dropout": Dropout(p), "alpha": AlphaDropout(p), "channels": channels,
		"alpha, channels": alphas} {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16, tensor.Float16} {
			x := drawn(dt, n, r.NormFloat64)
			v := tensor.Data[float64](x)
			half := make([]bool, n/m.Group/2)
			for i := range half {
				half[i] = r.Float64() < p
			}
			drop := func(rate float64, f func(i int, kept float64) float64) opdef.Drawn {
				out := make([]float64, n)
				dropped := false
				for i, a := range v {
					if i%m.Group == 0 {
						dropped = r.Float64() < rate
					}
					out[i] = f(i, m.Scale*a+m.Shift)
					if dropped {
						out[i] = m.Dropped
					}
				}
				return m.Judge(x, tensor.New(dt, []int{n}, out).Rounded())
			}
			sound := func(_ int, kept float64) float64 { return kept }
			for name, c := range map[string]struct {
				rate float64
				f    func(i int, kept float64) float64
				want bool
			}{
				"sound":            {p, sound, true},
				"nothing dropped":  {0, sound, false},
				"all dropped":      {1, sound, false},
				"three times":      {3 * p, sound, false},
				"not scaled":       {p, func(i int, _ float64) float64 { return v[i] }, false},
				"wrong at the end": {p, func(i int, kept float64) float64 { return kept + float64(i/(n-100)) }, false},
				"the second half as the first": {0, func(i int, kept float64) float64 {
					if half[i/m.Group%len(half)] {
						return m.Dropped
					}
					return kept
				}, false},
			} {
				if strings.Contains(name, "half") && m.Shift != 0 && dt != tensor.Float32 {
					continue // of 16-bit numbers some look kept and dropped: their mask has gaps
				}
				if got := drop(c.rate, c.f); (got.Wrong == "") != c.want || got.Shown != c.want {
					t.Errorf("%s of %s, %s: %+v", what, dt, name, got)
				}
			}
		}
	}
	x := drawn(tensor.Float32, group*40, r.NormFloat64)
	y := tensor.New(tensor.Float32, x.Shape, make([]float64, group*40))
	y = opdef.Zip(tensor.Float32, y, x, func(zero, a float64) float64 { // kept and dropped in turn, not by channels
		if r.Float64() < p {
			return zero
		}
		return a / (1 - p)
	}).Rounded()
	if got := channels.Judge(x, y); got.Wrong == "" {
		t.Error("elements of a channel dropped one by one passed")
	}
}

// TestRate: what has a probability below 1e-10 is found, what has one of 1e-6 is not.
func TestRate(t *testing.T) {
	for _, c := range []struct {
		hits, n int
		p       float64
		sound   bool
	}{
		{0, 0, 0.5, true}, {11, 11, 0.1, false}, {6, 6, 0.1, true}, {34, 34, 0.5, false}, {20, 20, 0.5, true},
		{0, 300, 0.1, false}, {0, 100, 0.1, true}, {500, 1000, 0.5, true}, {660, 1000, 0.5, false},
	} {
		if why := Rate("hits", c.hits, c.n, c.p); (why == "") != c.sound {
			t.Errorf("%d of %d at %v: %q", c.hits, c.n, c.p, why)
		}
	}
}

// poisson draws by multiplying uniform numbers (D. Knuth).
func poisson(r *rand.Rand, mean float64) (k float64) {
	for p := r.Float64(); p > math.Exp(-mean); p *= r.Float64() {
		k++
	}
	return k
}

// TestOwnParameters: numbers that have a mean each of their own.
func TestOwnParameters(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	const n = 4000
	mean := func(i int) float64 { return float64(i%7) / 2 }
	five := func(int) float64 { return 5 }
	binomial := func(i int) (k float64) {
		for range 5 {
			if r.Float64() < mean(i)/5 {
				k++
			}
		}
		return k
	}
	std := func(i int) float64 { return 1 + float64(i%3) }
	for what, c := range map[string]struct {
		judge func(t *tensor.Tensor) opdef.Drawn
		f     func(i int) float64
		sound bool
	}{
		"poisson":        {counts(mean, nil), func(i int) float64 { return poisson(r, mean(i)) }, true},
		"its mean":       {counts(mean, nil), func(i int) float64 { return math.Round(mean(i)) }, false},
		"20 % more":      {counts(mean, nil), func(i int) float64 { return poisson(r, 1.2*mean(i)) }, false},
		"fractions":      {counts(mean, nil), func(i int) float64 { return mean(i) }, false},
		"of mean 0 too":  {counts(mean, nil), func(i int) float64 { return poisson(r, mean(i)+0.1) }, false},
		"binomial":       {counts(mean, five), binomial, true},
		"too many":       {counts(mean, five), func(i int) float64 { return 6 }, false},
		"half as many":   {counts(mean, five), func(i int) float64 { return math.Floor(binomial(i) / 2) }, false},
		"normal":         {normals(mean, std), func(i int) float64 { return mean(i) + std(i)*r.NormFloat64() }, true},
		"of mean 0":      {normals(mean, std), func(i int) float64 { return std(i) * r.NormFloat64() }, false},
		"of deviation 1": {normals(mean, std), func(i int) float64 { return mean(i) + r.NormFloat64() }, false},
		"deviation squared": {normals(mean, std),
			func(i int) float64 { return mean(i) + std(i)*std(i)*r.NormFloat64() }, false},
		"truncated":     {TruncatedNormal(0, 1, -2, 2).Judge, func(int) float64 { return truncated(r, 2) }, true},
		"not truncated": {TruncatedNormal(0, 1, -2, 2).Judge, func(int) float64 { return r.NormFloat64() }, false},
		"clamped": {TruncatedNormal(0, 1, -1, 1).Judge,
			func(int) float64 { return max(-1, min(1, r.NormFloat64())) }, false},
		"truncated too soon": {TruncatedNormal(0, 1, -2, 2).Judge,
			func(int) float64 { return truncated(r, 1.5) }, false},
	} {
		i := -1
		x := drawn(tensor.Float32, n, func() float64 { i++; return c.f(i) })
		if got := c.judge(x); (got.Wrong == "") != c.sound || got.Checked == "" && got.Wrong == "" {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func counts(mean, trials func(int) float64) func(*tensor.Tensor) opdef.Drawn {
	return func(t *tensor.Tensor) opdef.Drawn { return Counts(t, mean, trials) }
}

func normals(mean, std func(int) float64) func(*tensor.Tensor) opdef.Drawn {
	return func(t *tensor.Tensor) opdef.Drawn { return Normals(t, mean, std) }
}

func truncated(r *rand.Rand, limit float64) float64 {
	for {
		if x := r.NormFloat64(); math.Abs(x) <= limit {
			return x
		}
	}
}

func TestOrthogonal(t *testing.T) {
	h := 2 * math.Sqrt(0.5)
	for what, c := range map[string]struct {
		shape []int
		v     []float64
		sound bool
	}{
		"sound":          {[]int{2, 2}, []float64{h, h, h, -h}, true},
		"columns":        {[]int{3, 1}, []float64{0, 2, 0}, true},
		"of length 1":    {[]int{2, 2}, []float64{h / 2, h / 2, h / 2, -h / 2}, false},
		"not orthogonal": {[]int{2, 2}, []float64{h, h, h, h}, false},
	} {
		if got := Orthogonal(tensor.New(tensor.Float32, c.shape, c.v).Rounded(), 2); (got.Wrong == "") != c.sound {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestCategories(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	quarter := func(_, c int) float64 { return []float64{0.25, 0.75}[c] }
	for what, c := range map[string]struct {
		of    func() int
		sound bool
	}{
		"sound": {func() int { return min(r.IntN(4), 1) }, true}, "halves": {func() int { return r.IntN(2) }, false},
		"always the likelier": {func() int { return 1 }, false},
	} {
		chosen := make([]int, 1000)
		for i := range chosen {
			chosen[i] = c.of()
		}
		if why := Categories(chosen, 2, quarter); (why == "") != c.sound {
			t.Errorf("%s: %q", what, why)
		}
	}
}

// TestGammas draws numbers of shape 2 as sums of two exponential ones, and shares of pairs of them.
func TestGammas(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	gamma := func() float64 { return r.ExpFloat64() + r.ExpFloat64() }
	for what, c := range map[string]struct {
		f     func() float64
		sound bool
	}{
		"sound": {gamma, true}, "of shape 1": {r.ExpFloat64, false},
		"negated":  {func() float64 { return -gamma() }, false},
		"infinite": {func() float64 { return math.Inf(1) }, false},
	} {
		got := Gammas(drawn(tensor.Float32, 1000, c.f), func(int) float64 { return 2 })
		if (got.Wrong == "") != c.sound {
			t.Errorf("%s: %+v", what, got)
		}
	}
	for what, c := range map[string]struct {
		v     []float64
		sound bool
	}{
		"sound": {[]float64{0.25, 0.75, 0.5, 0.5}, true}, "a row of 1.25": {[]float64{0.5, 0.75, 0.5, 0.5}, false},
		"columns add up to 1": {[]float64{0.25, 0.5, 0.75, 0.5}, false},
		"negative":            {[]float64{-0.5, 1.5, 1, 0}, false},
	} {
		if got := Shares(tensor.New(tensor.Float32, []int{2, 2}, c.v).Rounded()); (got.Wrong == "") != c.sound {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestScaleShown: where the results show that the scale was rounded to the dtype, the gradient is that of the rounded
// one; where they show the exact scale, or both fit, it is that of the exact one.
func TestScaleShown(t *testing.T) {
	m := Dropout(0.1)
	rounded := tensor.BFloat16.Round(m.Scale)
	x, up := []float64{1, 1.5, -3, 1.015625, 7, 0}, []float64{1, 1, 1, 1, 1, 1}
	for _, tc := range []struct {
		scale, want float64
		odd         bool
	}{{rounded, rounded, false}, {m.Scale, m.Scale, false}, {rounded, m.Scale, true}} {
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = tensor.BFloat16.Round(tc.scale * v)
		}
		y[1] = 0 // dropped
		if tc.odd {
			y[4] += tensor.BFloat16.ULP(y[4]) // neither scale gives it
		}
		g := m.Grad(tensor.New(tensor.BFloat16, []int{6}, x), tensor.New(tensor.BFloat16, []int{6}, y),
			tensor.New(tensor.BFloat16, []int{6}, up))
		if got := tensor.Data[float64](g); got[0] != tc.want || got[1] != 0 {
			t.Errorf("scale %v: gradients %v, want %v where kept", tc.scale, got, tc.want)
		}
	}
}
