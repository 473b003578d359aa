package vmath

import (
	"bufio"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"testing"
)

// functions are the block functions of one argument with their pure Go twins
// and the largest error the package documents.
var functions = []struct {
	name  string
	block func(dst, src []float64)
	one   func(float64) float64
	ulps  float64
}{
	{"Exp", Exp, exp, 1}, {"Expm1", Expm1, expm1, 2}, {"Log", Log, log, 1}, {"Log1p", Log1p, log1p, 2},
	{"Tanh", Tanh, tanh, 3},
	{"Sigmoid", Sigmoid, sigmoid, 2}, {"SiLU", SiLU, silu, 3}, {"Erf", Erf, erf, 2}, {"Erfc", Erfc, erfc, 4},
	{"GELU", GELU, gelu, 4}, {"GELUTanh", GELUTanh, geluTanh, 3},
	{"GELUSlope", GELUSlope, geluSlope, 4}, {"GELUSlopeSize", GELUSlopeSize, geluSlopeSize, 4},
	{"SiLUSlope", SiLUSlope, siluSlope, 3}, {"Sqrt", Sqrt, math.Sqrt, 0.5},
	{"Abs", Abs, math.Abs, 0},
}

// TestGolden compares with values of 25 digits.
func TestGolden(t *testing.T) {
	f, err := os.Open("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	worst, at, seen := map[string]float64{}, map[string]float64{}, map[string]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		var name, want string
		var x float64
		if _, err := fmt.Sscan(s.Text(), &name, &x, &want); err != nil {
			t.Fatal(err)
		}
		for _, fn := range functions {
			if fn.name != name {
				continue
			}
			got := []float64{x}
			fn.block(got, got)
			seen[name]++
			e := ulps(t, got[0], want)
			switch name {
			case "GELUTanh":
				e -= 2 * math.Abs(geluExponent(x))
			case "GELUSlope": // in units of the terms, which cancel
				tail, density := geluTail(x)
				if x > 0 {
					tail = 1 - tail
				}
				e *= math.Abs(got[0]) / (tail + math.Abs(x)*density)
			case "SiLUSlope": // likewise
				s := sigmoid(x)
				e *= math.Abs(got[0]) / (s * (1 + math.Abs(x)*(1-s)))
			}
			if e > worst[name] {
				worst[name], at[name] = e, x
			}
		}
	}
	for _, fn := range functions {
		if fn.ulps < 1 { // correctly rounded by the machine
			continue
		}
		t.Logf("%s: %.2f ulp at %v, %d values", fn.name, worst[fn.name], at[fn.name], seen[fn.name])
		if seen[fn.name] < 120 {
			t.Errorf("%s: %d golden values", fn.name, seen[fn.name])
		}
		if worst[fn.name] > fn.ulps {
			t.Errorf("%s: %.2f ulp at %v, want at most %v", fn.name, worst[fn.name], at[fn.name], fn.ulps)
		}
	}
}

// ulps is the distance of got from the decimal number want in units of the
// float64 nearest to want.
func ulps(t *testing.T, got float64, want string) float64 {
	t.Helper()
	w, _, err := big.ParseFloat(want, 10, 200, big.ToNearestEven)
	if err != nil {
		t.Fatal(err)
	}
	near, _ := w.Float64()
	if math.IsInf(got, 0) || math.IsNaN(got) || math.IsInf(near, 0) {
		if got == near {
			return 0
		}
		return math.Inf(1)
	}
	near = math.Abs(near)
	unit := math.Nextafter(near, math.Inf(1)) - near
	d := w.Sub(w, new(big.Float).SetFloat64(got))
	e, _ := d.Quo(d, big.NewFloat(unit)).Float64()
	return math.Abs(e)
}

// inputs are numbers of all magnitudes and the special ones, in odd number.
func inputs() []float64 {
	r := rand.New(rand.NewPCG(1, 2))
	x := []float64{
		0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(math.NaN(), -1),
		math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 0x1p-1022, 0x1p-1030, math.MaxFloat64,
		-math.MaxFloat64,
		0.75, -0.75, 6, -6, 22, -22, 26.5, 27, 37, -37, 38, -38.5, 708, -708, 708.1, -708.1, 709.7, 709.8, 710, -745,
		-746, -720, 20, 21.5, -21.5,
		math.Nextafter(1, 0), math.Nextafter(1, 2), math.Nextafter(-1, 0), math.Sqrt2, 1 / math.Sqrt2,
		math.MaxFloat32, 65504, 65519.99, 65520, 0x1.fep127, 0x1.ffp127, 0x1.fefffffp127, 1 + 0x1p-8 + 0x1p-40,
		1 + 0x1p-8, 1 + 3*0x1p-8, 1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-50,
		0x1p-24, 0x1p-25, 0x1.8p-25, 0x1p-26, 0x1p-133, 0x1p-134, 0x1.8p-134, 0x1p-149, 0x1p-150, 0x1.8p-150,
	}
	for range 20000 {
		x = append(x, math.Float64frombits(r.Uint64()), r.NormFloat64(), 50*r.NormFloat64(),
			math.Ldexp(r.NormFloat64(), r.IntN(300)-150),
			float64(float32(r.NormFloat64()))*(1+0x1p-30),
			math.Float64frombits(math.Float64bits(float64(math.Float32frombits(r.Uint32())))&^(1<<44-1)))
	}
	return x[:len(x)-1]
}

func same(x, y float64) bool {
	return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
}

// TestTwins demands the same bits of the vector loops and of the pure Go
// functions, for blocks of all lengths and in place.
func TestTwins(t *testing.T) {
	in := inputs()
	for _, fn := range functions {
		got := make([]float64, len(in))
		fn.block(got, in)
		for i, x := range in {
			if w := fn.one(x); !same(got[i], w) {
				t.Fatalf("%s(%v) = %v in a block, %v alone", fn.name, x, got[i], w)
			}
		}
		for n := range 20 {
			part := append([]float64(nil), in[40:60]...)
			fn.block(part[:n], part[:n])
			for i, x := range part {
				w := in[40+i]
				if i < n {
					w = fn.one(w)
				}
				if !same(x, w) {
					t.Fatalf("%s of %d elements: element %d is %v, want %v", fn.name, n, i, x, w)
				}
			}
		}
	}
}

func TestSpecial(t *testing.T) {
	inf, nan, zero := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	for _, c := range []struct {
		name    string
		x, want float64
	}{
		{"Exp", inf, inf}, {"Exp", -inf, 0}, {"Exp", 0, 1}, {"Exp", 710, inf}, {"Exp", -746, 0}, {"Exp", nan, nan},
		{"Expm1", inf, inf}, {"Expm1", -inf, -1}, {"Expm1", zero, zero}, {"Expm1", 0, 0}, {"Expm1", nan, nan},
		{"Log", 0, -inf}, {"Log", -1, nan}, {"Log", inf, inf}, {"Log", 1, 0}, {"Log", nan, nan},
		{"Log1p", -1, -inf}, {"Log1p", -2, nan}, {"Log1p", zero, zero}, {"Log1p", inf, inf}, {"Log1p", nan, nan},
		{"Tanh", inf, 1}, {"Tanh", -inf, -1}, {"Tanh", zero, zero}, {"Tanh", nan, nan}, {"Tanh", 1e300, 1},
		{"Sigmoid", inf, 1}, {"Sigmoid", -inf, 0}, {"Sigmoid", 0, 0.5}, {"Sigmoid", nan, nan}, {"Sigmoid", -800, 0},
		{"SiLU", inf, inf}, {"SiLU", -inf, nan}, {"SiLU", zero, zero}, {"SiLU", nan, nan},
		{"Erf", inf, 1}, {"Erf", -inf, -1}, {"Erf", zero, zero}, {"Erf", nan, nan}, {"Erf", 7, 1},
		{"Erfc", inf, 0}, {"Erfc", -inf, 2}, {"Erfc", 0, 1}, {"Erfc", nan, nan}, {"Erfc", 30, 0}, {"Erfc", -7, 2},
		{"GELU", inf, inf}, {"GELU", -inf, nan}, {"GELU", zero, zero}, {"GELU", nan, nan}, {"GELU", 1e300, 1e300},
		{"GELUTanh", inf, inf}, {"GELUTanh", -inf, nan}, {"GELUTanh", nan, nan}, {"GELUTanh", 100, 100},
	} {
		for _, fn := range functions {
			if fn.name != c.name {
				continue
			}
			got := []float64{1, c.x, 1, 1, 1}
			fn.block(got, got)
			if !same(got[1], c.want) {
				t.Errorf("%s(%v) = %v, want %v", c.name, c.x, got[1], c.want)
			}
		}
	}
}

func TestArithmetic(t *testing.T) {
	x := inputs()
	y := append(append([]float64(nil), x[77:]...), x[:77]...)
	got := make([]float64, len(x))
	for _, c := range []struct {
		name  string
		block func(dst, x, y []float64)
		want  func(x, y float64) float64
	}{
		{"Add", Add, func(x, y float64) float64 { return x + y }},
		{"Sub", Sub, func(x, y float64) float64 { return x - y }},
		{"Mul", Mul, func(x, y float64) float64 { return x * y }},
		{"Div", Div, func(x, y float64) float64 { return x / y }},
		{"Axpy", func(dst, x, y []float64) { copy(dst, y); Axpy(dst, 0.7, x) },
			func(x, y float64) float64 { p := 0.7 * x; return y + p }},
		{"Blend", func(dst, x, y []float64) { Blend(dst, 0.7, x, -1.3, y) },
			func(x, y float64) float64 { p, q := 0.7*x, -1.3*y; return p + q }},
		{"Affine", func(dst, x, _ []float64) { Affine(dst, x, -3, 0.7) },
			func(x, _ float64) float64 { s := x + -3; return s * 0.7 }},
		{"Scale", func(dst, x, _ []float64) { Scale(dst, x, 0.7) }, func(x, _ float64) float64 { return x * 0.7 }},
		{"Normalize", func(dst, x, y []float64) { Normalize(dst, x, -3, 0.7, y, x) },
			func(x, y float64) float64 { return normalized(x, y, x) }},
		{"Normalize of one", func(dst, x, _ []float64) { Normalize(dst, x, -3, 0.7, []float64{1.1}, []float64{0.3}) },
			func(x, _ float64) float64 { return normalized(x, 1.1, 0.3) }},
	} {
		c.block(got, x, y)
		for i := range x {
			if w := c.want(x[i], y[i]); !same(got[i], w) {
				t.Fatalf("%s(%v, %v) = %v, want %v", c.name, x[i], y[i], got[i], w)
			}
		}
	}
}

func normalized(x, w, b float64) float64 {
	s := x + -3
	s *= 0.7
	s *= w
	return s + b
}

// TestSumColumns: the bits are those of Sum.
func TestSumColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, size := range [][2]int{{0, 3}, {1, 1}, {5, 70}, {16, 64}, {17, 65}, {129, 130}, {1000, 3}, {4099, 7}} {
		n, width := size[0], size[1]
		x, dst, column := make([]float64, n*width), make([]float64, width), make([]float64, n)
		for i := range x {
			x[i] = math.Ldexp(r.NormFloat64(), r.IntN(20))
		}
		for j := range dst {
			dst[j] = float64(j)
		}
		SumColumns(dst, x)
		for j, got := range dst {
			for i := range column {
				column[i] = x[i*width+j]
			}
			if want := float64(j) + Sum(column); got != want {
				t.Fatalf("SumColumns of %d rows of %d: column %d is %v, want %v", n, width, j, got, want)
			}
		}
	}
}

func TestSums(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 3, 15, 16, 17, 100, 128, 129, 1000, 4099} {
		x, y := make([]float64, n), make([]float64, n)
		sum, dot, top := new(big.Float).SetPrec(2000), new(big.Float).SetPrec(2000), math.Inf(-1)
		for i := range x {
			x[i], y[i] = math.Ldexp(r.NormFloat64(), r.IntN(20)), r.NormFloat64()
			sum.Add(sum, big.NewFloat(x[i]))
			dot.Add(dot, new(big.Float).SetPrec(200).Mul(big.NewFloat(x[i]), big.NewFloat(y[i])))
			top = max(top, x[i])
		}
		s, _ := sum.Float64()
		d, _ := dot.Float64()
		if got := Sum(x); math.Abs(got-s) > 1e-15*0x1p20*float64(n) {
			t.Errorf("Sum of %d is %v, want %v", n, got, s)
		}
		if got := Dot(x, y); math.Abs(got-d) > 1e-15*0x1p20*float64(n) {
			t.Errorf("Dot of %d is %v, want %v", n, got, d)
		}
		off := make([]float64, n)
		for i, v := range x {
			off[i] = v - 3
		}
		if s, q := Deviations(x, 3); s != Sum(off) || q != Dot(off, off) {
			t.Errorf("Deviations of %d are %v and %v, want %v and %v", n, s, q, Sum(off), Dot(off, off))
		}
		if got := Max(x); got != top {
			t.Errorf("Max of %d is %v, want %v", n, got, top)
		}
		if useSIMD && n >= 128 {
			var a, b, c [lanes]float64
			sumSIMD(&a, x[:128])
			dotSIMD(&b, x[:128], y)
			for i, v := range x[:128] {
				c[i%lanes] += v
			}
			if a != c {
				t.Error("the accumulators of Sum differ from those of the pure Go loop")
			}
			for w := lanes / 2; w > 0; w /= 2 {
				for i := range w {
					c[i] += c[i+w]
				}
			}
			if s := totalSIMD(&a); s != c[0] {
				t.Errorf("the accumulators add up to %v, want %v", s, c[0])
			}
		}
		if n > 0 {
			x[n/2] = math.NaN()
			if got := Max(x); got == got {
				t.Errorf("Max of %d with NaN is %v", n, got)
			}
		}
	}
}

// Every pattern of 16 bits, and one element that is not finite at each place.
func TestFinite(t *testing.T) {
	b := make([]byte, 2*71)
	for name, e := range map[string]struct {
		Exponent
		inf uint16
	}{"bfloat16": {ExponentBF16, 0x7f80}, "float16": {ExponentF16, 0x7c00}} {
		for p := range 1 << 16 {
			i := p % 71
			le.PutUint16(b[2*i:], uint16(p))
			if got, want := Finite(b, e.Exponent), uint16(p)&e.inf != e.inf; got != want {
				t.Fatalf("%s %#x is finite: %v, want %v", name, p, got, want)
			}
			le.PutUint16(b[2*i:], uint16(p)&^0x0400&^0x0080)
		}
	}
	for n := range 40 {
		wide, narrow := make([]byte, 8*n), make([]byte, 4*n)
		for i := range n {
			le.PutUint64(wide[8*i:], math.Float64bits(-math.MaxFloat64))
			le.PutUint32(narrow[4*i:], math.Float32bits(-math.MaxFloat32))
		}
		if !Finite(wide, Exponent64) || !Finite(narrow, Exponent32) {
			t.Fatalf("%d of the largest numbers are not finite", n)
		}
		for i := range n {
			le.PutUint64(wide[8*i:], math.Float64bits(math.Inf(-1)))
			le.PutUint32(narrow[4*i:], math.Float32bits(float32(math.NaN())))
			if Finite(wide, Exponent64) || Finite(narrow, Exponent32) {
				t.Fatalf("element %d of %d is not finite, which was not seen", i, n)
			}
			clear(wide[8*i : 8*i+8])
			clear(narrow[4*i : 4*i+4])
		}
	}
}

func TestWiden(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	b := make([]byte, 4*1003)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	got := make([]float64, 1003)
	Widen32(got, b)
	for i, x := range got {
		if w := float64(math.Float32frombits(le.Uint32(b[4*i:]))); math.Float64bits(w) != math.Float64bits(x) {
			t.Fatalf("float32 %x is %v, want %v", le.Uint32(b[4*i:]), x, w)
		}
	}
	all, wide := make([]byte, 2<<16), make([]float64, 1<<16)
	for i := range 1 << 16 {
		le.PutUint16(all[2*i:], uint16(i))
	}
	WidenBF16(wide, all)
	for i, x := range wide {
		if w := float64(math.Float32frombits(uint32(i) << 16)); math.Float64bits(w) != math.Float64bits(x) {
			t.Fatalf("bfloat16 %x is %v, want %v", i, x, w)
		}
	}
	WidenF16(wide, all)
	for i, x := range wide {
		e, m := i>>10&31, float64(i&1023)
		w := math.Ldexp(1024+m, e-25)
		switch {
		case e == 0:
			w = math.Ldexp(m, -24)
		case e == 31 && m == 0:
			w = math.Inf(1)
		case e == 31:
			w = math.NaN()
		}
		if i>>15 == 1 {
			w = -w
		}
		if !same(x, w) {
			t.Fatalf("float16 %x is %v, want %v", i, x, w)
		}
		if one := FromF16(uint16(i)); math.Float64bits(one) != math.Float64bits(x) {
			t.Fatalf("float16 %x is %v in a block, %v alone", i, x, one)
		}
	}
	// What was widened narrows to itself.
	back := make([]byte, len(all))
	for i := range wide {
		wide[i] = FromF16(uint16(i))
	}
	NarrowF16(back, wide)
	for i, x := range wide {
		if h := le.Uint16(back[2*i:]); h != uint16(i) && x == x {
			t.Fatalf("float16 %x comes back as %x", i, h)
		}
	}
}

func TestNarrow(t *testing.T) {
	in := inputs()
	b := make([]byte, 4*len(in))
	Narrow32(b, in)
	for i, x := range in {
		if got, w := le.Uint32(b[4*i:]), math.Float32bits(float32(x)); got != w {
			t.Fatalf("float32 of %v is %x, want %x", x, got, w)
		}
	}
	NarrowBF16(b, in)
	for i, x := range in {
		if got, w := le.Uint16(b[2*i:]), ToBF16(x); got != w {
			t.Fatalf("bfloat16 of %v is %x in a block, %x alone", x, got, w)
		}
		if x == x && math.Abs(float64(math.Float32frombits(uint32(ToBF16(x))<<16))-x) > math.Ldexp(math.Abs(x), -8)+
			0x1p-134 && math.Abs(x) < 0x1.ffp127 {
			t.Fatalf("bfloat16 of %v is %x", x, ToBF16(x))
		}
	}
	NarrowF16(b, in)
	for i, x := range in {
		if got, w := le.Uint16(b[2*i:]), ToF16(x); got != w {
			t.Fatalf("float16 of %v is %x in a block, %x alone", x, got, w)
		}
		if x == x && math.Abs(x) < 65520 && math.Abs(FromF16(ToF16(x))-x) > math.Ldexp(math.Abs(x), -11)+0x1p-25 {
			t.Fatalf("float16 of %v is %x", x, ToF16(x))
		}
	}
	v := append([]float64(nil), in...)
	Round32(v)
	for i, x := range in {
		if w := float64(float32(x)); math.Float64bits(v[i]) != math.Float64bits(w) {
			t.Fatalf("%v rounds to %v, want %v", x, v[i], w)
		}
	}
	copy(v, in)
	Round(v, Format{Mant: 10, Emin: -14, Max: 65504, Overflow: math.Inf(1)}, func(x float64) float64 {
		if x != x {
			return x
		}
		return FromF16(ToF16(x))
	})
	for i, x := range in {
		if w := FromF16(ToF16(x)); !same(v[i], w) {
			t.Fatalf("%v rounds to %v in float16, want %v", x, v[i], w)
		}
	}
}

func BenchmarkBlock(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	src, dst := make([]float64, 8192), make([]float64, 8192)
	raw := make([]byte, 4*len(src))
	positive := make([]float64, len(src))
	for i := range src {
		src[i] = r.NormFloat64()
		positive[i] = math.Abs(src[i])
	}
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(8 * len(src)))
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(src)), "ns/element")
		})
	}
	for _, fn := range functions {
		in := src
		if fn.name == "Log" || fn.name == "Log1p" || fn.name == "Sqrt" {
			in = positive
		}
		run(fn.name, func() { fn.block(dst, in) })
	}
	run("Add", func() { Add(dst, dst, src) })
	run("Sum", func() { Sum(src) })
	run("Max", func() { Max(src) })
	run("Widen32", func() { Widen32(dst, raw) })
	run("WidenBF16", func() { WidenBF16(dst, raw) })
	run("WidenF16", func() { WidenF16(dst, raw) })
	run("Narrow32", func() { Narrow32(raw, src) })
	run("NarrowBF16", func() { NarrowBF16(raw, src) })
	run("NarrowF16", func() { NarrowF16(raw, src) })
}
