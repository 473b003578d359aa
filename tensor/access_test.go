package tensor

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTransposedBlocks reads parts of tensors whose rows share cache lines,
// stored and computed, and compares with the elements one by one.
func TestTransposedBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	for _, dt := range []DType{Float32, BFloat16, Float64, Int32, Uint8, Complex64} {
		n := 3 * 40 * 70
		v := make([]int64, n)
		for i := range v {
			v[i] = int64(i % 120)
		}
		x := Data[complex128](New(Int64, []int{n}, v))
		computed := New(dt, []int{n}, x)
		if !dt.IsComplex() {
			computed = New(dt, []int{n}, v)
			if dt.IsFloat() {
				computed = New(dt, []int{n}, Data[float64](New(Int64, []int{n}, v)))
			}
		}
		for _, base := range []*Tensor{computed.Rounded(), computed} {
			for _, view := range []*Tensor{
				base.Reshape(120, 70).Transpose(0, 1),
				base.Reshape(3, 40, 70).Permute(0, 2, 1),
				base.Reshape(3, 40, 70).Permute(2, 1, 0),
				base.Reshape(3, 40, 70).Permute(2, 0, 1),
				base.Reshape(3, 40, 70).Slice(1, 1, 30, 1).Permute(0, 2, 1).Slice(1, 60, 61, -1),
				base.Reshape(120, 70).Slice(1, 3, 20, 3).Transpose(0, 1),
			} {
				n := view.Numel()
				want := make([]float64, n)
				for i := range want {
					want[i] = At[float64](view, i)
				}
				for range 20 {
					lo := r.IntN(n)
					hi := min(n, lo+1+r.IntN(n))
					got := make([]float64, hi-lo)
					Load(view, lo, got)
					for i, g := range got {
						if g != want[lo+i] {
							t.Fatalf("%s %v strides %v: element %d of [%d, %d) is %v, want %v", dt, view.Shape,
								view.Stride, i, lo, hi, g, want[lo+i])
						}
					}
				}
				for i, g := range Data[float64](view) {
					if g != want[i] {
						t.Fatalf("%s %v strides %v: element %d is %v, want %v", dt, view.Shape, view.Stride, i,
							g, want[i])
					}
				}
			}
		}
	}
	if got := New(Float64, []int{0, 40}, []float64{}).Transpose(0, 1).Block(); got < 1 {
		t.Errorf("a block of an empty matrix is %d elements", got)
	}
	x := Full(Float32, []int{64, 4096}, 1.0).Rounded().Reshape(4096, 64).Transpose(0, 1)
	if got := x.Block(); got != 16*4096 {
		t.Errorf("a block of a transposed matrix is %d elements, want 16 rows", got)
	}
	if got := (&Tensor{DType: Float32, Shape: []int{3, 0}, Stride: []int{1, 64}}).Block(); got != blockLen {
		t.Errorf("a block of an empty tensor is %d elements, want %d", got, blockLen)
	}
}

// TestRoundBlock compares blocks with single elements.
func TestRoundBlock(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	for dt := Invalid + 1; dt < numDTypes; dt++ {
		if !dt.IsFloat() {
			continue
		}
		v := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), dt.Max(), -dt.Max(),
			dt.Max() * (1 + dt.Eps()/4), dt.Max() * (1 + dt.Eps()), dt.SmallestNormal(), dt.ULP(0), dt.ULP(0) / 2,
			dt.ULP(0) / 4, 1e300, -1e-300}
		for range 5000 {
			v = append(v, math.Ldexp(r.NormFloat64(), r.IntN(40)-20), math.Ldexp(r.NormFloat64(), r.IntN(280)-140),
				dt.Round(r.NormFloat64())*(1+dt.Eps()/2))
		}
		got := append([]float64(nil), v...)
		RoundBlock(dt, got)
		for i, x := range v {
			if w := dt.Round(x); math.Float64bits(got[i]) != math.Float64bits(w) && (w == w || got[i] == got[i]) {
				t.Fatalf("%s: %v becomes %v in a block, %v alone", dt, x, got[i], w)
			}
		}
		b := New(dt, []int{len(v)}, v).AppendBytes(nil)
		put := dtypes[dt].codec.storeFloat
		for i, x := range v {
			one := make([]byte, dt.Size())
			if put(one, []float64{x}); string(one) != string(b[i*dt.Size():(i+1)*dt.Size()]) {
				t.Fatalf("%s: %v is stored as %x in a block, %x alone", dt, x, b[i*dt.Size():(i+1)*dt.Size()], one)
			}
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	x := Full(Float32, []int{2048, 2048}, 1.0).Rounded()
	for name, t := range map[string]*Tensor{"rows": x, "transposed": x.Transpose(0, 1)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(x.Bytes())
			step := t.Block()
			buf := make([]float64, step)
			for b.Loop() {
				for lo := 0; lo < t.Numel(); lo += step {
					Load(t, lo, buf[:min(step, t.Numel()-lo)])
				}
			}
		})
	}
}

// TestBoolBytes: each byte but 0 is true, in runs without gaps as in others.
func TestBoolBytes(t *testing.T) {
	storage := NewStorage([]byte{0, 1, 2, 255, 0, 128})
	for _, c := range []struct {
		stride int
		want   []int64
	}{{1, []int64{0, 1, 1}}, {2, []int64{0, 1, 0}}} {
		x, err := NewView(storage, View{DType: Bool, Shape: []int{3}, Stride: []int{c.stride}})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]int64, 3)
		if Load(x, 0, got); !slices.Equal(got, c.want) {
			t.Errorf("stride %d: got %v, want %v", c.stride, got, c.want)
		}
	}
}
