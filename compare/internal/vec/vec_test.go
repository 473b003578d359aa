package vec

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/tensor"
)

// naive is the definition of Stats, one rounding to dt after each step.
func naive(dt tensor.DType, a, b []float64, r Rule) Stats {
	s := Stats{N: len(a)}
	atol, rtol, eps := dt.Round(r.Atol), dt.Round(r.Rtol), dt.Round(r.Eps)
	for i, x := range a {
		y := b[i]
		d := math.Abs(dt.Round(x - y))
		s.MaxAbs = maxNaN(s.MaxAbs, d)
		s.MaxRel = maxNaN(s.MaxRel, dt.Round(d/dt.Round(math.Abs(x)+eps)))
		bothNaN := x != x && y != y
		if !(x == y || bothNaN || !math.IsInf(d, 0) && d <= dt.Round(atol+dt.Round(rtol*math.Abs(y)))) {
			s.NotClose++
		}
		s.NonZero = s.NonZero || x != 0 || y != 0
		s.tally(x, y)
		fx, fy := float64(float32(x)), float64(float32(y))
		if x != x || y != y {
			continue
		}
		s.MaxULP = max(s.MaxULP, steps(dt, x, y))
		s.Dot += fx * fy
		s.AA += fx * fx
		s.BB += fy * fy
		if math.IsInf(fx, 0) || math.IsInf(fy, 0) {
			s.Dot = math.NaN()
		}
	}
	if s.NaNA+s.NaNB > 0 {
		s.Dot = math.NaN()
	}
	return s
}

// steps is the distance of x and y in representable values.
func steps(dt tensor.DType, x, y float64) uint64 {
	ord := func(x float64) int64 {
		var b int64
		switch raw := tensor.Scalar(dt, x).AppendBytes(nil); len(raw) {
		case 2:
			b = int64(int16(binary.LittleEndian.Uint16(raw)))
			if b < 0 {
				b = -(b & 0x7fff)
			}
		case 4:
			b = int64(int32(binary.LittleEndian.Uint32(raw)))
			if b < 0 {
				b = -(b & 0x7fffffff)
			}
		default:
			b = int64(binary.LittleEndian.Uint64(raw))
			if b < 0 {
				b = -(b & math.MaxInt64)
			}
		}
		return b
	}
	ox, oy := ord(x), ord(y)
	return uint64(max(ox, oy) - min(ox, oy))
}

// run compares with the kernel of dt, both operands encoded.
func run(dt tensor.DType, a, b []byte, r Rule) Stats {
	switch dt {
	case tensor.Float32:
		x, _ := View[float32](a)
		y, _ := View[float32](b)
		return Float32(x, y, r)
	case tensor.Float64:
		x, _ := View[float64](a)
		y, _ := View[float64](b)
		return Float64(x, y, r)
	}
	x, _ := View[uint16](a)
	y, _ := View[uint16](b)
	if dt == tensor.BFloat16 {
		return BFloat16(x, y, r)
	}
	return Float16(x, y, r)
}

// pureGo is run with the loops in pure Go.
func pureGo(dt tensor.DType, a, b []byte, r Rule) Stats {
	switch dt {
	case tensor.Float32:
		x, _ := View[float32](a)
		y, _ := View[float32](b)
		c := newConsts(r, Float32Grid)
		return scalar32(x, y, &c)
	case tensor.Float64:
		x, _ := View[float64](a)
		y, _ := View[float64](b)
		return scalar64(x, y, r)
	}
	g := Float16Grid
	if dt == tensor.BFloat16 {
		g = BFloat16Grid
	}
	x, _ := View[uint16](a)
	y, _ := View[uint16](b)
	c := newConsts(r, g)
	return scalar16(x, y, &c)
}

func sameNaN(a, b float64) bool { return a == b || a != a && b != b }

func near(a, b float64) bool {
	return sameNaN(a, b) || math.Abs(a-b) <= 1e-6*math.Max(math.Abs(a), math.Abs(b)) || a > math.MaxFloat32 &&
		b > math.MaxFloat32
}

var floats = []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64}

func encode(dt tensor.DType, v []float64) ([]byte, []float64) {
	raw := tensor.New(dt, []int{len(v)}, v).AppendBytes(nil)
	s, err := tensor.NewView(tensor.NewStorage(raw), tensor.View{DType: dt, Shape: []int{len(v)}, Stride: []int{1}})
	if err != nil {
		panic(err)
	}
	return raw, tensor.Data[float64](s)
}

func TestKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draws := map[string]func(dt tensor.DType) (float64, float64){
		"equal": func(tensor.DType) (float64, float64) { x := r.NormFloat64(); return x, x },
		"close": func(dt tensor.DType) (float64, float64) {
			x := r.NormFloat64()
			return x, x * (1 + dt.Eps()*r.NormFloat64())
		},
		"tolerance": func(tensor.DType) (float64, float64) {
			x := r.NormFloat64()
			return x, x * (1 + 1.4e-3*r.NormFloat64())
		},
		"far": func(tensor.DType) (float64, float64) { return r.NormFloat64(), r.NormFloat64() },
		"tiny": func(dt tensor.DType) (float64, float64) {
			u := dt.ULP(0)
			return u * float64(r.IntN(9)-4), u * float64(r.IntN(2000)-1000)
		},
		"huge": func(dt tensor.DType) (float64, float64) {
			return dt.Max() * (2*r.Float64() - 1), dt.Max() * (2*r.Float64() - 1)
		},
		"wide": func(tensor.DType) (float64, float64) {
			x := math.Exp(20 * r.NormFloat64())
			return x, -x * r.NormFloat64()
		},
		"signs": func(tensor.DType) (float64, float64) {
			return math.Copysign(0, r.NormFloat64()), math.Copysign(0, r.NormFloat64())
		},
		"beyondf32": func(tensor.DType) (float64, float64) { return 1e300 * r.NormFloat64(), r.NormFloat64() },
	}
	special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1}
	for _, dt := range floats {
		for name, draw := range draws {
			for _, n := range []int{1, 7, 16, 37, 600, 9000} {
				for _, specials := range []int{0, 3, n / 5} {
					a, b := make([]float64, n), make([]float64, n)
					for i := range a {
						a[i], b[i] = draw(dt)
					}
					for range specials {
						a[r.IntN(n)] = special[r.IntN(len(special))]
						b[r.IntN(n)] = special[r.IntN(len(special))]
					}
					ra, va := encode(dt, a)
					rb, vb := encode(dt, b)
					rule := Rule{Atol: 1e-3, Rtol: 1e-3, Eps: 1e-6}
					want := naive(dt, va, vb, rule)
					for impl, f := range map[string]func(tensor.DType, []byte, []byte, Rule) Stats{"kernel": run,
						"pure Go": pureGo} {
						got := f(dt, ra, rb, rule)
						if !near(got.Dot, want.Dot) && math.Abs(got.Dot-want.Dot) > 1e-6*math.Sqrt(want.AA*want.BB)+
							1e-30 && want.AA+want.BB < math.MaxFloat32 && want.AA+want.BB > 1e-30 ||
							!near(got.AA, want.AA) && want.NaNA == 0 && want.AA > 1e-30 || !near(got.BB, want.BB) &&
							want.NaNB == 0 && want.BB > 1e-30 {
							t.Errorf("%s %s %s n=%d: sums %v %v %v, want %v %v %v", impl, dt, name, n, got.Dot, got.AA,
								got.BB, want.Dot, want.AA, want.BB)
						}
						if !sameNaN(got.MaxAbs, want.MaxAbs) || !sameNaN(got.MaxRel, want.MaxRel) {
							t.Errorf("%s %s %s n=%d: max abs %v rel %v, want %v %v", impl, dt, name, n, got.MaxAbs,
								got.MaxRel, want.MaxAbs, want.MaxRel)
						}
						w := want
						got.Dot, got.AA, got.BB, w.Dot, w.AA, w.BB = 0, 0, 0, 0, 0, 0
						got.MaxAbs, got.MaxRel, w.MaxAbs, w.MaxRel = 0, 0, 0, 0
						if got != w {
							t.Errorf("%s %s %s n=%d: got %+v, want %+v", impl, dt, name, n, got, w)
						}
					}
				}
			}
		}
	}
}

// Infinities and NaN that are the same on both sides.
func TestSameSpecial(t *testing.T) {
	for _, special := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e30} {
		v := make([]float64, 700)
		for i := range v {
			v[i] = float64(i%7) - 3
		}
		v[300] = special
		for _, dt := range floats {
			raw, wide := encode(dt, v)
			rule := Rule{Atol: 1e-3, Rtol: 1e-3, Eps: 1e-6}
			got, want := run(dt, raw, raw, rule), naive(dt, wide, wide, rule)
			if got.NotClose != 0 || got.MaxULP != 0 || !got.Equal() || got.NaNA != want.NaNA || got.InfB != want.InfB ||
				!sameNaN(got.MaxAbs, want.MaxAbs) || !sameNaN(got.MaxRel, want.MaxRel) ||
				(got.Dot != got.Dot) != (want.Dot != want.Dot) {
				t.Errorf("%s with %v: %+v, want %+v", dt, special, got, want)
			}
		}
	}
}

func TestHalfPatterns(t *testing.T) {
	// Every pattern against its neighbour: widening, ULP and rounding.
	a, b := make([]byte, 0, 1<<17), make([]byte, 0, 1<<17)
	for h := range 1 << 16 {
		a = binary.LittleEndian.AppendUint16(a, uint16(h))
		b = binary.LittleEndian.AppendUint16(b, uint16(h^5))
	}
	for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		view := func(raw []byte) []float64 {
			s, err := tensor.NewView(tensor.NewStorage(raw), tensor.View{DType: dt, Shape: []int{1 << 16},
				Stride: []int{1}})
			if err != nil {
				t.Fatal(err)
			}
			return tensor.Data[float64](s)
		}
		va, vb := view(a), view(b)
		rule := Rule{Atol: 1e-3, Rtol: 1e-2, Eps: 1e-6}
		for lo := 0; lo < 1<<16; lo += 64 {
			got, want := run(dt, a[2*lo:2*lo+128], b[2*lo:2*lo+128], rule), naive(dt, va[lo:lo+64], vb[lo:lo+64], rule)
			if got.MaxULP != want.MaxULP || got.NotClose != want.NotClose || !sameNaN(got.MaxAbs, want.MaxAbs) ||
				!sameNaN(got.MaxRel, want.MaxRel) || got.NaNA != want.NaNA || got.InfB != want.InfB {
				t.Fatalf("%s patterns %#x..: got %+v, want %+v", dt, lo, got, want)
			}
		}
	}
}

func TestRounding(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	v := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), 65504, 65519.99, 65520, 65536, 1e300, -1e300,
		0x1p-24, 0x1p-25, 0x1.8p-25, 0x1p-14, 0x1.ffep-15, 0x1.fffp-15,
		math.MaxFloat32, 0x1.FEp127, 0x1.FFp127, 0x1.FEFFFFFFFFp127, 0x1p-133, 0x1p-134, 0x1.8p-134, 1 + 0x1p-8,
		1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-8 - 0x1p-40, 1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-50}
	for range 20000 {
		v = append(v, r.NormFloat64()*math.Exp(15*r.NormFloat64()))
		bf := math.Float64frombits(math.Float64bits(r.NormFloat64()) &^ (1<<44 - 1)) // ties of bfloat16
		v = append(v, bf, bf*(1+0x1p-50), bf*(1-0x1p-50))
	}
	h := make([]uint16, len(v))
	f := make([]float32, len(v))
	for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float16, tensor.Float32} {
		raw, _ := encode(dt, v)
		for i, x := range v {
			var got, want uint32
			switch dt {
			case tensor.Float32:
				RoundFloat32(f[i:i+1], v[i:i+1])
				got, want = math.Float32bits(f[i]), binary.LittleEndian.Uint32(raw[4*i:])
			case tensor.BFloat16:
				RoundBFloat16(h[i:i+1], v[i:i+1])
				got, want = uint32(h[i]), uint32(binary.LittleEndian.Uint16(raw[2*i:]))
			default:
				RoundFloat16(h[i:i+1], v[i:i+1])
				got, want = uint32(h[i]), uint32(binary.LittleEndian.Uint16(raw[2*i:]))
			}
			if got != want {
				t.Errorf("%s(%v) = %#x, want %#x", dt, x, got, want)
			}
		}
	}
}

func TestView(t *testing.T) {
	buf := make([]byte, 64)
	aligned := 0
	for lo := range 8 {
		if v, ok := View[float64](buf[lo : lo+32]); ok {
			aligned++
			if len(v) != 4 {
				t.Errorf("View of 32 bytes = %d elements, want 4", len(v))
			}
		}
	}
	if littleEndian && aligned != 1 {
		t.Errorf("View accepted %d of 8 alignments, want 1", aligned)
	}
	if v, ok := View[uint16](nil); !ok || len(v) != 0 {
		t.Errorf("View of no bytes = %v, %v", v, ok)
	}
}

func BenchmarkKernels(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	const n = 1 << 14 // stays in the second-level cache
	for _, dt := range floats {
		for _, noise := range []float64{1e-7, 1e-2} {
			x, y := make([]float64, n), make([]float64, n)
			for i := range x {
				x[i] = r.NormFloat64()
				y[i] = x[i] * (1 + noise*r.NormFloat64())
			}
			rx, _ := encode(dt, x)
			ry, _ := encode(dt, y)
			for name, f := range map[string]func(tensor.DType, []byte, []byte, Rule) Stats{"kernel": run,
				"pure": pureGo} {
				label := "near"
				if noise > 1e-3 {
					label = "far"
				}
				b.Run(dt.String()+"/"+label+"/"+name, func(b *testing.B) {
					b.SetBytes(int64(len(rx) + len(ry)))
					for b.Loop() {
						run := f(dt, rx, ry, Rule{1e-5, 1e-5, 1e-6})
						_ = run
					}
				})
			}
		}
	}
}
