package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
)

// floatDTypes are all real floating dtypes that hold numbers of both signs.
var floatDTypes = func() (all []tensor.DType) {
	for dt := range tensor.DTypes() {
		if dt.IsFloat() && dt.Min() < 0 {
			all = append(all, dt)
		}
	}
	return all
}()

// TestFloatDTypesAreKnown: what a comparison knows of floating dtypes it knows of each.
func TestFloatDTypesAreKnown(t *testing.T) {
	sum := Model{ULPs: 1, Terms: 64, Scale: func() *tensor.Tensor { return nil }}
	for _, dt := range floatDTypes {
		if b := newBound(sum, dt); dt.IsReduced() && b.lowest == "" {
			t.Errorf("newBound (model.go) knows no dtype that sums of %s may be accumulated in", dt)
		}
		if tol := DefaultTolerance(dt); tol.Rtol > dt.Eps() && tol.Rtol == DefaultTolerance(tensor.BFloat16).Rtol {
			t.Errorf("DefaultTolerance (tolerance.go) has no case for %s: %s allows %g eps", dt, tol, tol.Rtol/dt.Eps())
		}
	}
}

func check(got, ref *tensor.Tensor, m Model) Result {
	return Check(got, ref, m, DefaultTolerance(got.DType), nil)
}

// TestRoundedNeverFails: a correctly rounded result passes, even as an exact
// one, whatever the magnitude.
func TestRoundedNeverFails(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, dt := range floatDTypes {
		v := []float64{0, math.Copysign(0, -1), 1, math.NaN()}
		top, tiny := dt.Max(), dt.ULP(0)
		for _, f := range []float64{1, 1 - 1e-9, 1 + 1e-9, 1 + dt.Eps()/4, 1 + dt.Eps(), 2, 0.5} {
			v = append(v, top*f, -top*f, dt.SmallestNormal()*f, tiny*f, -tiny*f/2)
		}
		for range 5000 {
			v = append(v, r.NormFloat64(), tiny*100*r.NormFloat64(), dt.SmallestNormal()*4*r.NormFloat64(),
				top*(r.Float64()-0.5)*2.2)
		}
		if dt == tensor.Float64 {
			for i, x := range v {
				if math.IsInf(x, 0) {
					v[i] = 1
				}
			}
		}
		ref := tensor.New(dt, []int{len(v)}, v)
		got := ref.Rounded()
		for _, m := range []Model{{Exact: true}, {ULPs: 1},
			{ULPs: 1, Terms: 1, Scale: func() *tensor.Tensor { return ref }}} {
			if res := check(got, ref, m); res.Verdict != verdict.Pass || res.Mismatched != 0 || res.MaxULP != 0 {
				t.Errorf("%s %s: %s, %q, %v ulp, want pass", dt, res.Rule, res.Verdict, res.Reason, res.MaxULP)
			}
		}
		if dt.Size() < 8 {
			cdt := dt.Complex()
			if cdt.Real() == dt {
				c := make([]complex128, len(v))
				for i := range c {
					c[i] = complex(v[i], v[len(v)-1-i])
				}
				ref := tensor.New(cdt, []int{len(c)}, c)
				if res := check(ref.Rounded(), ref, Model{ULPs: 1}); res.Verdict != verdict.Pass {
					t.Errorf("%s: %s, %q, want pass", cdt, res.Verdict, res.Reason)
				}
			}
		}
	}
}

// products is matmul-like data: out = rows x cols sums of k products.
type products struct {
	dt         tensor.DType
	rows, cols int
	k          int
	a, b       []float64 // rows x k, cols x k
	ref, scale []float64
}

func newProducts(r *rand.Rand, dt tensor.DType, k int, positive bool) *products {
	p := &products{dt: dt, rows: 6, cols: 12, k: k}
	in := dt
	if dt.IsFloat8() {
		in = tensor.BFloat16
	}
	// The results stay in the dtype's range.
	size := math.Sqrt(math.Sqrt(dt.Max() / 512 / float64(k)))
	if size > 1 {
		size = 1
	}
	draw := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = in.Round(size * r.NormFloat64())
			if positive {
				v[i] = math.Abs(v[i])
			}
		}
		return v
	}
	p.a, p.b = draw(p.rows*k), draw(p.cols*k)
	p.ref, p.scale = make([]float64, p.rows*p.cols), make([]float64, p.rows*p.cols)
	for o := range p.ref {
		x, y := p.operands(o)
		var c float64 // Kahan, so that the float64 reference is right to the last bits
		for i := range x {
			t := x[i]*y[i] - c
			s := p.ref[o] + t
			c = (s - p.ref[o]) - t
			p.ref[o] = s
			p.scale[o] += math.Abs(x[i] * y[i])
		}
	}
	return p
}

func (p *products) operands(o int) (x, y []float64) {
	i, j := o/p.cols, o%p.cols
	return p.a[i*p.k : (i+1)*p.k], p.b[j*p.k : (j+1)*p.k]
}

// sum accumulates in acc with the given number of partial sums.
func (p *products) sum(acc tensor.DType, lanes int) []float64 {
	out := make([]float64, len(p.ref))
	part := make([]float64, lanes)
	for o := range out {
		x, y := p.operands(o)
		clear(part)
		for i := range x {
			if acc == tensor.Float32 {
				part[i%lanes] = float64(float32(part[i%lanes]) + float32(x[i])*float32(y[i]))
				continue
			}
			part[i%lanes] = acc.Round(part[i%lanes] + acc.Round(x[i]*y[i]))
		}
		for _, s := range part {
			out[o] = acc.Round(out[o] + s)
		}
		out[o] = p.dt.Round(out[o])
	}
	return out
}

func (p *products) tensor(v []float64) *tensor.Tensor {
	return tensor.New(p.dt, []int{p.rows, p.cols}, v)
}

func (p *products) check(got []float64) Result {
	return check(p.tensor(got).Rounded(), p.tensor(p.ref),
		Model{ULPs: 1, Terms: p.k, Scale: func() *tensor.Tensor { return p.tensor(p.scale).WithDType(tensor.Float64) }})
}

var lengths = []int{8, 256, 8192}

// accumulators are the formats a sound device sums dt in.
func accumulator(dt tensor.DType) tensor.DType {
	if dt == tensor.Float64 {
		return tensor.Float64
	}
	return tensor.Float32
}

func TestAccumulationsPass(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, dt := range floatDTypes {
		for _, k := range lengths {
			for _, positive := range []bool{false, true} {
				p := newProducts(r, dt, k, positive)
				for _, lanes := range []int{1, 16} {
					if res := p.check(p.sum(accumulator(dt), lanes)); res.Verdict != verdict.Pass {
						t.Errorf("%s k=%d positive=%v lanes=%d: %s: %s", dt, k, positive, lanes, res.Verdict,
							res.Reason)
					}
				}
			}
		}
	}
}

func TestLowPrecisionAccumulationsWarn(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float16} {
		for _, k := range lengths {
			for trial := range 3 {
				p := newProducts(r, dt, k, false)
				if res := p.check(p.sum(dt, 1)); res.Verdict != verdict.Warn {
					t.Errorf("%s k=%d trial %d: %s: %s", dt, k, trial, res.Verdict, res.Reason)
				}
			}
		}
	}
}

// plants are the errors that must be found. Each changes v, rows x cols, in
// place; eps is the dtype's.
var plants = map[string]func(r *rand.Rand, v []float64, cols int, eps float64){
	"one element off": func(r *rand.Rand, v []float64, _ int, eps float64) {
		i, top := large(r, v)
		v[i] += math.Max(32*eps, 0.002) * top
	},
	"zero tail": func(_ *rand.Rand, v []float64, _ int, _ float64) { clear(v[len(v)*7/8:]) },
	"negated": func(r *rand.Rand, v []float64, _ int, _ float64) {
		i, _ := large(r, v)
		v[i] = -v[i]
	},
	"swapped rows": func(_ *rand.Rand, v []float64, cols int, _ float64) {
		for j := range cols {
			v[j], v[2*cols+j] = v[2*cols+j], v[j]
		}
	},
	"scaled": func(_ *rand.Rand, v []float64, _ int, eps float64) {
		for i := range v {
			v[i] *= 1 + math.Max(0x1p-6, 8*eps)
		}
	},
	"NaN": func(r *rand.Rand, v []float64, _ int, _ float64) { v[r.IntN(len(v))] = math.NaN() },
	"Inf": func(r *rand.Rand, v []float64, _ int, _ float64) { v[r.IntN(len(v))] = math.Inf(1) },
}

// large picks an element above a quarter of the largest magnitude.
func large(r *rand.Rand, v []float64) (int, float64) {
	top := 0.0
	for _, x := range v {
		top = math.Max(top, math.Abs(x))
	}
	for {
		if i := r.IntN(len(v)); math.Abs(v[i]) > top/4 {
			return i, top
		}
	}
}

func TestPlantedErrorsFail(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, dt := range floatDTypes {
		for _, k := range lengths {
			accs := []tensor.DType{accumulator(dt)}
			if dt.IsHalf() && k <= 512 {
				// Over longer sums the noise of a 16-bit accumulator is as
				// large as the planted errors.
				accs = append(accs, dt)
			}
			for _, acc := range accs {
				p := newProducts(r, dt, k, false)
				base := p.sum(acc, 1)
				for name, plant := range plants {
					for trial := range 3 {
						v := append([]float64(nil), base...)
						plant(r, v, p.cols, dt.Eps())
						if res := p.check(v); res.Verdict != verdict.Fail || res.Reason == "" {
							t.Errorf("%s k=%d summed in %s, %s, trial %d: %s, %q", dt, k, acc, name, trial, res.Verdict,
								res.Reason)
						}
					}
				}
			}
		}
	}
}

func TestOverflow(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float8E5M2} {
		top, ulp := dt.Max(), dt.ULP(dt.Max())
		inf := math.Inf(1)
		for _, tc := range []struct {
			got, ref float64
			want     verdict.Verdict
		}{
			{inf, top + ulp, verdict.Pass},         // overflows, as it must
			{inf, top + 0.4*ulp, verdict.Pass},     // within the bound of overflowing
			{top, top + 0.6*ulp, verdict.Pass},     // within the bound of not overflowing
			{-inf, -(top + 0.4*ulp), verdict.Pass}, // the same below zero
			{inf, top - 2*ulp, verdict.Fail},       // far from overflow
			{top, 2 * top, verdict.Fail},           // saturated
			{-inf, top + ulp, verdict.Fail},        // wrong sign
			{inf, math.NaN(), verdict.Fail},
			{math.NaN(), inf, verdict.Fail},
			{top, inf, verdict.Fail},
			{inf, inf, verdict.Pass},
		} {
			if dt == tensor.Float8E5M2 && tc.got == top && tc.ref < 2*top {
				continue
			}
			got, ref := tensor.New(dt, []int{1}, []float64{tc.got}).Rounded(),
				tensor.New(dt, []int{1}, []float64{tc.ref})
			if res := check(got, ref, Model{ULPs: 1}); res.Verdict != tc.want {
				t.Errorf("%s got %v ref %v: %s %q, want %s", dt, tc.got, tc.ref, res.Verdict, res.Reason, tc.want)
			}
		}
	}
}

// TestDeterministic: the same numbers whatever the parallelism and the storage.
func TestDeterministic(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	n := 3*span + 17
	v, w := make([]float64, n), make([]float64, n)
	for i := range v {
		v[i] = float64(float32(r.NormFloat64()))
		w[i] = v[i] * (1 + 1e-6*r.NormFloat64())
	}
	got := tensor.New(tensor.Float32, []int{n}, v).Rounded()
	ref := tensor.New(tensor.Float32, []int{n}, w)
	lazy := tensor.Lazy(tensor.Float32, []int{n}, 1, func(lo int, dst []float64) { copy(dst, w[lo:]) })
	first := fmt.Sprint(check(got, ref, Model{ULPs: 3}))
	for range 5 {
		if again := fmt.Sprint(check(got, ref, Model{ULPs: 3})); again != first {
			t.Fatalf("got %s, then %s", first, again)
		}
	}
	if other := fmt.Sprint(check(got, lazy, Model{ULPs: 3})); other != first {
		t.Errorf("lazy reference gave %s, want %s", other, first)
	}
	a, b := OpToolsTensors(got, ref.Rounded(), DefaultTolerance(tensor.Float32)),
		check(got, ref, Model{ULPs: 3}).OpTools
	if a.MaxAbs != b.MaxAbs || a.MaxRel != b.MaxRel || a.AllClose != b.AllClose || math.Abs(a.Cosine-b.Cosine) > 1e-6 {
		t.Errorf("stored reference %+v, rounded %+v", a, b)
	}
}
