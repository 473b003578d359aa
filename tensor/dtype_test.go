package tensor

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// view reads raw as a 1-d tensor.
func view(t *testing.T, dt DType, raw []byte) *Tensor {
	t.Helper()
	n := len(raw) / dt.Size()
	v, err := NewView(NewStorage(raw), View{DType: dt, Shape: []int{n}, Stride: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// codes are all codes of a dtype of one or two bytes, in order.
func codes(dt DType) []byte {
	if dt.Size() == 1 {
		raw := make([]byte, 1<<8)
		for i := range raw {
			raw[i] = byte(i)
		}
		return raw
	}
	raw := make([]byte, 2<<16)
	for i := range 1 << 16 {
		le.PutUint16(raw[2*i:], uint16(i))
	}
	return raw
}

// TestCodecRoundTrip decodes and encodes every code of every dtype that has
// few enough of them. NaNs may lose their payload, bool its value above 1.
func TestCodecRoundTrip(t *testing.T) {
	for dt := Invalid + 1; dt < numDTypes; dt++ {
		if !dt.Computable() || dt.Size() > 2 {
			continue
		}
		raw := codes(dt)
		stored := view(t, dt, raw)
		var computed *Tensor
		nan := func(int) bool { return false }
		if dt.IsFloat() {
			v := Data[float64](stored)
			computed = New(dt, stored.Shape, v)
			nan = func(i int) bool { return math.IsNaN(v[i]) }
		} else {
			computed = New(dt, stored.Shape, Data[int64](stored))
		}
		back := computed.AppendBytes(nil)
		for i := range stored.Numel() {
			was, is := raw[i*dt.Size():(i+1)*dt.Size()], back[i*dt.Size():(i+1)*dt.Size()]
			switch {
			case slices.Equal(was, is):
			case dt == Bool && was[0] != 0 && is[0] == 1:
			case nan(i) && math.IsNaN(At[float64](view(t, dt, slices.Clone(is)), 0)):
			default:
				t.Errorf("%s: code %x became %x", dt, was, is)
			}
		}
	}
}

// TestCodecWide round-trips the dtypes too wide to try every code, through
// every compute type that holds them.
func TestCodecWide(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for dt := range DTypes() {
		if !dt.Computable() || dt.Size() <= 2 {
			continue
		}
		raw := make([]byte, 1024*dt.Size())
		for i := range raw {
			raw[i] = byte(r.Uint32())
		}
		stored := view(t, dt, raw)
		var back []byte
		switch dt.Kind() {
		case KindInt:
			back = New(dt, stored.Shape, Data[int64](stored)).AppendBytes(nil)
		case KindFloat:
			back = New(dt, stored.Shape, Data[float64](stored)).AppendBytes(nil)
		default:
			back = New(dt, stored.Shape, Data[complex128](stored)).AppendBytes(nil)
		}
		again := Data[complex128](view(t, dt, back))
		for i, v := range Data[complex128](stored) {
			w := again[i]
			same := func(a, b float64) bool { return a == b && math.Signbit(a) == math.Signbit(b) || a != a && b != b }
			if !same(real(v), real(w)) || !same(imag(v), imag(w)) {
				t.Errorf("%s: element %d is %v, was %v", dt, i, w, v)
			}
		}
		if dt.Kind() == KindInt && !slices.Equal(back, raw) {
			t.Errorf("%s: bytes changed", dt)
		}
	}
}

// TestCodecConversions reads each stored category as each compute type.
func TestCodecConversions(t *testing.T) {
	for _, tc := range []struct {
		dt  DType
		raw []byte
		f   float64
		i   int64
		c   complex128
	}{
		{Bool, []byte{2}, 1, 1, 1},
		{Uint8, []byte{200}, 200, 200, 200},
		{Int8, []byte{200}, -56, -56, -56},
		{Int16, []byte{0xff, 0xff}, -1, -1, -1},
		{Uint16, []byte{0xff, 0xff}, 65535, 65535, 65535},
		{Uint32, []byte{0xff, 0xff, 0xff, 0xff}, 1<<32 - 1, 1<<32 - 1, 1<<32 - 1},
		{Int64, []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, -2, -2, -2},
		{Uint64, []byte{0, 0, 0, 0, 0, 0, 0, 0x80}, 0x1p63, math.MinInt64, 0x1p63},
		{Float16, []byte{0x00, 0xc1}, -2.5, -2, -2.5},
		{BFloat16, []byte{0x20, 0xc0}, -2.5, -2, -2.5},
		{Float32, []byte{0, 0, 0x20, 0xc0}, -2.5, -2, -2.5},
		{Complex32, []byte{0x00, 0xc1, 0x00, 0x3c}, -2.5, -2, complex(-2.5, 1)},
		{Complex64, []byte{0, 0, 0x20, 0xc0, 0, 0, 0x80, 0x3f}, -2.5, -2, complex(-2.5, 1)},
		{Float8E4M3FN, []byte{0x7e}, 448, 448, 448},
		{Float8E5M2, []byte{0x7b}, 57344, 57344, 57344},
		{Float8E4M3FNUZ, []byte{0x7f}, 240, 240, 240},
		{Float8E5M2FNUZ, []byte{0x7f}, 57344, 57344, 57344},
		{Float8E4M3FN, []byte{0x01}, 0x1p-9, 0, 0x1p-9},
		{Float8E5M2, []byte{0x81}, -0x1p-16, 0, -0x1p-16},
		{Float8E4M3FNUZ, []byte{0x01}, 0x1p-10, 0, 0x1p-10},
		{Float8E5M2FNUZ, []byte{0x01}, 0x1p-17, 0, 0x1p-17},
	} {
		v := view(t, tc.dt, tc.raw)
		if f, i, c := At[float64](v, 0), At[int64](v, 0), At[complex128](v, 0); f != tc.f || i != tc.i || c != tc.c {
			t.Errorf("%s %x reads %v, %v, %v, want %v, %v, %v", tc.dt, tc.raw, f, i, c, tc.f, tc.i, tc.c)
		}
		var word [8]byte
		copy(word[:], tc.raw)
		if n := tc.dt.Number(binary.LittleEndian.Uint64(word[:])); n != tc.f {
			t.Errorf("%s: number of the bits %x is %v, want %v", tc.dt, tc.raw, n, tc.f)
		}
		// The same value, computed rather than stored.
		if tc.dt.Kind() == KindInt {
			n := New(tc.dt, []int{1}, []int64{tc.i})
			if f, c := At[float64](n, 0), At[complex128](n, 0); f != tc.f || c != tc.c {
				t.Errorf("computed %s %d reads %v, %v, want %v, %v", tc.dt, tc.i, f, c, tc.f, tc.c)
			}
		}
	}
}

// TestSpecials stores infinities, NaN and numbers out of range.
func TestSpecials(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, tc := range []struct {
		dt   DType
		in   float64
		want float64
	}{
		{Float16, inf, inf}, {Float16, 65519.99, 65504}, {Float16, 65520, inf}, {Float16, -1e300, -inf},
		{BFloat16, -inf, -inf}, {BFloat16, math.MaxFloat32, inf}, {BFloat16, 0x1.FEp127, 0x1.FEp127},
		{Float32, math.MaxFloat64, inf}, {Float32, math.MaxFloat32, math.MaxFloat32},
		{Float8E4M3FN, 448, 448}, {Float8E4M3FN, 464, 448}, {Float8E4M3FN, 464.001, nan}, {Float8E4M3FN, -inf, nan},
		{Float8E5M2, 61439, 57344}, {Float8E5M2, 61440, inf}, {Float8E5M2, -inf, -inf},
		{Float8E4M3FNUZ, 247, 240}, {Float8E4M3FNUZ, 248, nan}, {Float8E4M3FNUZ, inf, nan},
		{Float8E5M2FNUZ, 57344, 57344}, {Float8E5M2FNUZ, inf, nan},
		{Float16, nan, nan}, {BFloat16, nan, nan}, {Float8E4M3FN, nan, nan}, {Float8E5M2, nan, nan},
		{Float8E4M3FNUZ, nan, nan},
	} {
		round, stored := tc.dt.Round(tc.in), At[float64](Scalar(tc.dt, tc.in).Rounded(), 0)
		for _, got := range []float64{round, stored} {
			if got != tc.want && (got == got || tc.want == tc.want) {
				t.Errorf("%s: %v becomes %v when rounded and %v when stored, want %v", tc.dt, tc.in, round,
					stored, tc.want)
			}
		}
	}
	for dt := range DTypes() {
		if f := dtypes[dt].format; dt.IsFloat() && !f.scale {
			for _, x := range []float64{math.Copysign(0, -1), -math.Ldexp(dt.ULP(0), -2)} {
				if got := At[float64](Scalar(dt, x).Rounded(), 0); got != 0 || math.Signbit(got) != f.negZero {
					t.Errorf("%s: %v is stored as %v, has a negative zero: %t", dt, x, got, f.negZero)
				}
			}
		}
	}
}

// TestRoundNearestEven compares Round with the nearest of all values of a
// format, around every midpoint.
func TestRoundNearestEven(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for dt := range DTypes() {
		if !dt.IsFloat() || dt.Size() > 2 || dtypes[dt].format.scale {
			continue
		}
		var grid []float64 // non-negative finite values; the index of a value is its code
		for _, v := range Data[float64](view(t, dt, codes(dt)[:len(codes(dt))/2])) {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				grid = append(grid, v)
			}
		}
		if !slices.IsSorted(grid) || grid[0] != 0 || grid[len(grid)-1] != dt.Max() {
			t.Fatalf("%s: codes are not in order", dt)
		}
		f := dtypes[dt].format
		check := func(x, want float64) {
			if got := dt.Round(x); got != want && (got == got || want == want) {
				t.Errorf("%s: Round(%x) = %x, want %x", dt, x, got, want)
			}
			negative := -want
			if want == 0 && !f.negZero {
				negative = 0
			}
			if got := dt.Round(-x); got != negative && (got == got || negative == negative) {
				t.Errorf("%s: Round(%x) = %x, want %x", dt, -x, got, negative)
			}
		}
		for i, lo := range grid {
			hi, up := 2*lo-grid[max(i-1, 0)], f.overflow // beyond the largest: the next step
			if i+1 < len(grid) {
				hi = grid[i+1]
				up = hi
			}
			mid := lo + (hi-lo)/2
			check(lo, lo)
			check(math.Nextafter(mid, 0), lo)
			check(math.Nextafter(mid, inf64), up)
			if i%2 == 0 {
				check(mid, lo)
			} else {
				check(mid, up)
			}
			x := lo + (hi-lo)*r.Float64()
			switch {
			case x < mid:
				check(x, lo)
			case x > mid:
				check(x, up)
			}
		}
	}
}

var inf64 = math.Inf(1)

func TestRoundOnce(t *testing.T) {
	x := 1 + 0x1p-8 + 0x1p-40 // float32 first gives 1+2^-8, a tie, and then 1
	if got := BFloat16.Round(x); got != 1.0078125 {
		t.Errorf("bfloat16: %v, want 1.0078125", got)
	}
	if got := At[float64](Scalar(BFloat16, x).Rounded(), 0); got != 1.0078125 {
		t.Errorf("stored bfloat16: %v, want 1.0078125", got)
	}
	block := []float64{x, 1}
	if RoundBlock(BFloat16, block); block[0] != 1.0078125 || block[1] != 1 {
		t.Errorf("RoundBlock: %v", block)
	}
	x = 1 + 0x1p-11 + 0x1p-40
	if got := Float16.Round(x); got != 1+0x1p-10 {
		t.Errorf("float16: %v, want %v", got, 1+0x1p-10)
	}
	if got := Float32.Round(1 + 0x1p-24 + 0x1p-50); got != 1+0x1p-23 {
		t.Errorf("float32: %v", got)
	}
	for range 10000 {
		x := math.Float64frombits(rand.Uint64())
		if got, want := Float32.Round(x), float64(float32(x)); got != want && got == got {
			t.Errorf("float32: Round(%x) = %x, want %x", x, got, want)
		}
		if got := Float64.Round(x); got != x && got == got {
			t.Errorf("float64: Round(%x) = %x", x, got)
		}
	}
}

// TestIntToFloat rounds integers that float64 does not hold.
func TestIntToFloat(t *testing.T) {
	vs := []int64{math.MaxInt64, math.MinInt64, 1<<53 + 1, -(1<<53 + 1), 1<<62 + 1<<38 + 1, 1<<62 + 1<<54 + 1,
		1<<60 + 1<<36, 1<<60 + 1<<36 + 1, -(1<<60 + 1<<36 + 1)}
	r := rand.New(rand.NewPCG(5, 6))
	for range 10000 {
		vs = append(vs, int64(r.Uint64())>>r.IntN(60))
	}
	for _, v := range vs {
		exact := new(big.Float).SetInt64(v)
		want, _ := exact.Float32()
		if got := Float32.Round(IntToFloat(v)); got != float64(want) {
			t.Errorf("float32 of %d is %v, want %v", v, got, want)
		}
		short, _ := new(big.Float).SetPrec(8).SetMode(big.ToNearestEven).Set(exact).Float64()
		if got := BFloat16.Round(IntToFloat(v)); got != short {
			t.Errorf("bfloat16 of %d is %v, want %v", v, got, short)
		}
	}
}

func TestFloatToInt(t *testing.T) {
	for _, tc := range []struct {
		in   float64
		want int64
	}{
		{2.9, 2}, {-2.9, -2}, {0x1p62, 1 << 62}, {0x1p63, math.MinInt64}, {-0x1p63, math.MinInt64},
		{-1e300, math.MinInt64},
		{math.NaN(), math.MinInt64}, {math.Inf(1), math.MinInt64}, {math.Copysign(0, -1), 0},
	} {
		if got := FloatToInt(tc.in); got != tc.want {
			t.Errorf("FloatToInt(%v) = %d, want %d", tc.in, got, tc.want)
		}
	}
}

func TestWrapInt(t *testing.T) {
	for _, tc := range []struct {
		dt       DType
		in, want int64
	}{
		{Int8, 128, -128}, {Int8, -129, 127}, {Uint8, -1, 255}, {Uint8, 256, 0}, {Int16, 1 << 15, -1 << 15},
		{Uint16, -1, 65535},
		{Int32, 1 << 31, -1 << 31}, {Uint32, -1, 1<<32 - 1}, {Int64, math.MinInt64, math.MinInt64}, {Bool, -5, 1},
		{Bool, 0, 0},
	} {
		if got := WrapInt(tc.dt, tc.in); got != tc.want {
			t.Errorf("WrapInt(%s, %d) = %d, want %d", tc.dt, tc.in, got, tc.want)
		}
		if got := At[int64](New(tc.dt, []int{1}, []int64{tc.in}).Rounded(), 0); got != tc.want {
			t.Errorf("%s: %d is stored as %d, want %d", tc.dt, tc.in, got, tc.want)
		}
	}
}

func TestULP(t *testing.T) {
	for _, tc := range []struct {
		dt      DType
		x, want float64
	}{
		{Float32, 1, 0x1p-23}, {Float32, 1.99, 0x1p-23}, {Float32, 2, 0x1p-22}, {Float32, -1, 0x1p-23},
		{Float32, 0.999, 0x1p-24},
		{Float32, 0, 0x1p-149}, {Float32, 1e-45, 0x1p-149}, {Float32, 0x1p-126, 0x1p-149},
		{Float32, math.Inf(1), 0x1p104}, {Float32, math.NaN(), 0x1p104},
		{Float32, 1e300, 0x1p104}, {BFloat16, 1, 0x1p-7}, {Float16, 1, 0x1p-10}, {Float16, 65504, 32},
		{Float16, 0x1p-20, 0x1p-24},
		{Float64, 1, 0x1p-52}, {Float64, 0, 0x1p-1074}, {Float64, 0x1p-1060, 0x1p-1074}, {Complex64, 1, 0x1p-23},
		{Float8E4M3FN, 448, 32}, {Float8E5M2, 1, 0.25},
	} {
		if got := tc.dt.ULP(tc.x); got != tc.want {
			t.Errorf("%s.ULP(%v) = %x, want %x", tc.dt, tc.x, got, tc.want)
		}
	}
	// The distance to the next value, by codes, for every finite float16.
	raw := codes(Float16)
	v := Data[float64](view(t, Float16, raw))
	for i := range 0x7bff {
		if got, want := Float16.ULP(v[i]), v[i+1]-v[i]; got != want {
			t.Errorf("float16.ULP(%x) = %x, want %x", v[i], got, want)
		}
	}
}

// TestPrecisions says of each floating dtype what it is to kernels.
func TestPrecisions(t *testing.T) {
	for d := range DTypes() {
		var want [3]bool // reduced, half, float8
		switch d {
		case Float16, BFloat16:
			want = [3]bool{true, true, false}
		case Float8E4M3FN, Float8E5M2, Float8E4M3FNUZ, Float8E5M2FNUZ, Float8E8M0FNU:
			want = [3]bool{true, false, true}
		}
		if got := [3]bool{d.IsReduced(), d.IsHalf(), d.IsFloat8()}; got != want {
			t.Errorf("%s: reduced, half, float8 are %v, want %v", d, got, want)
		}
	}
}

func TestDTypeTable(t *testing.T) {
	for d := Invalid + 1; d < numDTypes; d++ {
		for _, name := range []string{d.String(), "torch." + d.String()} {
			if got, ok := ParseDType(name); !ok || got != d {
				t.Errorf("ParseDType(%q) = %v, %v, want %v", name, got, ok, d)
			}
		}
		if d.Size() == 0 {
			t.Errorf("%s has no size", d)
		}
		if has := dtypes[d].codec.loadFloat != nil; has != d.Computable() {
			t.Errorf("%s: it has a codec (codec.go): %t; it is computed with: %t", d, has, d.Computable())
		}
		if d.IsFloat() && !dtypes[d].format.scale {
			if tiny := d.SmallestNormal(); d.Round(tiny) != tiny || d.ULP(tiny) != tiny*d.Eps() {
				t.Errorf("%s.SmallestNormal() = %x", d, tiny)
			}
		}
		if p := Promote(d, Bool); d.Computable() && d != Float8E8M0FNU && p != d {
			t.Errorf("Promote(%s, bool) (promote.go) is %s", d, p)
		}
	}
	if _, ok := ParseDType("float33"); ok {
		t.Error("float33 is no dtype")
	}
	if _, ok := ParseDType("invalid"); ok {
		t.Error("invalid is no dtype")
	}
	for alias, want := range map[string]DType{"half": Float16, "torch.long": Int64, "double": Float64,
		"torch.cfloat": Complex64} {
		if got, _ := ParseDType(alias); got != want {
			t.Errorf("ParseDType(%q) = %s, want %s", alias, got, want)
		}
	}
	if Float16.Eps() != 0x1p-10 || BFloat16.Eps() != 0x1p-7 || Int8.Eps() != 0 {
		t.Error("wrong eps")
	}
	if Int8.Min() != -128 || Int8.Max() != 127 || Uint8.Min() != 0 || Uint8.Max() != 255 || Bool.Max() != 1 ||
		Float16.Min() != -65504 {
		t.Error("wrong limits")
	}
	for _, tc := range []struct {
		d      DType
		lo, hi int64
	}{{Int8, -128, 127}, {Uint16, 0, 65535}, {Int64, math.MinInt64, math.MaxInt64}, {Uint64, 0, math.MaxInt64},
		{Bool, 0, 1}, {Float32, 0, 0}} {
		if lo, hi := tc.d.IntRange(); lo != tc.lo || hi != tc.hi {
			t.Errorf("%s.IntRange() = %d, %d, want %d, %d", tc.d, lo, hi, tc.lo, tc.hi)
		}
	}
	if got := Floats(); len(got) < 4 || got[0] != Float64 || got[1] != Float32 {
		t.Errorf("Floats() = %v, want float64, float32 and the others", got)
	}
	for _, d := range Floats() {
		if got := d.Complex().Real(); got != d && d != BFloat16 {
			t.Errorf("%s.Complex().Real() = %s", d, got)
		}
	}
}
