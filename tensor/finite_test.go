package tensor

import (
	"math"
	"testing"
)

// One element that is not finite is seen wherever it lies, in every layout and floating dtype, and none that a view
// leaves out.
func TestAllFinite(t *testing.T) {
	for _, dt := range []DType{Float16, BFloat16, Float32, Float64, Float8E5M2} {
		for _, at := range []int{-1, 0, 5, 9000, 19999} {
			v := make([]float64, 20000)
			if at >= 0 {
				v[at] = math.Inf(1)
			}
			x := New(dt, []int{100, 200}, v)
			stored, err := NewView(NewStorage(x.AppendBytes(nil)), View{DType: dt, Shape: x.Shape, Stride: x.Stride})
			if err != nil {
				t.Fatal(err)
			}
			views := map[string]*Tensor{"stored": stored, "transposed": stored.Transpose(0, 1), "computed": x}
			for name, y := range views {
				if got := y.AllFinite(); got != (at < 0) {
					t.Errorf("%s, %s, element %d: %v", dt, name, at, got)
				}
			}
			if at == 5 && !stored.Slice(0, 1, 99, 1).AllFinite() {
				t.Errorf("%s: an element that a view leaves out is seen", dt)
			}
		}
	}
}
