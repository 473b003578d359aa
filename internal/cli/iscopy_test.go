package cli

import (
	"testing"

	"github.com/optool/optool/tensor"
)

// TestIsCopy: an argument is the earlier result that it is read from, also one that was rounded.
func TestIsCopy(t *testing.T) {
	v := []float64{0.1, -2.3, 0.7, 1.9}
	made := func(dt tensor.DType, v ...float64) *tensor.Tensor { return tensor.New(dt, []int{len(v)}, v).Rounded() }
	for _, c := range []struct {
		name string
		t, u *tensor.Tensor
		want bool
	}{
		{"same", made(tensor.Float32, v...), made(tensor.Float32, v...), true},
		{"rounded", made(tensor.BFloat16, v...), made(tensor.Float32, v...), true},
		{"other elements", made(tensor.Float32, v...), made(tensor.Float32, 0.1, -2.3, 0.7, 1.8), false},
		{"other elements, rounded", made(tensor.BFloat16, v...), made(tensor.Float32, 0.1, -2.3, 0.7, 1.8), false},
		{"another shape", made(tensor.BFloat16, v...), made(tensor.Float32, v[:3]...), false},
	} {
		if is := isCopy(c.t, c.u); is != c.want {
			t.Errorf("%s: %v", c.name, is)
		}
	}
}
