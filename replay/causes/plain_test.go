package causes

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestPlain: what a value shows by itself.
func TestPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	n := 200
	want := make([]float64, n)
	for i := range want {
		want[i] = r.NormFloat64()
	}
	dt := tensor.BFloat16
	made := func(f func(x float64) float64) *tensor.Tensor {
		v := make([]float64, n)
		for i, x := range want {
			v[i] = f(x)
		}
		return tensor.New(dt, []int{n}, v).Rounded()
	}
	// side is the neighbour of x in dt on the side that is asked for.
	side := func(x float64, ok func(y float64) bool) float64 {
		y := dt.Round(x)
		for _, z := range []float64{y, dt.Round(y + 0.51*dt.ULP(y)), dt.Round(y - 0.51*dt.ULP(y))} {
			if ok(z) {
				return z
			}
		}
		return y
	}
	exact := tensor.New(dt, []int{n}, want)
	for _, c := range []struct {
		text string
		got  *tensor.Tensor
	}{
		{"nothing was written: all 200 elements are zero", made(func(float64) float64 { return 0 })},
		{"results are rounded toward zero", made(func(x float64) float64 {
			return side(x, func(y float64) bool { return math.Abs(y) <= math.Abs(x) })
		})},
		{"results are rounded down", made(func(x float64) float64 {
			return side(x, func(y float64) bool { return y <= x })
		})},
		{"results are rounded up", made(func(x float64) float64 {
			return side(x, func(y float64) bool { return y >= x })
		})},
		{"", made(func(x float64) float64 { return -x })},
		{"", made(func(x float64) float64 { return x })},
		{"", made(func(x float64) float64 { return x * (1 - 0x1p-6) })},
	} {
		text := unwritten(c.got, exact)
		if text == "" {
			text = directed(c.got, exact)
		}
		if text != c.text {
			t.Errorf("says %q, want %q", text, c.text)
		}
	}
	if text := unwritten(tensor.Full(dt, []int{4}, 0.0), tensor.Full(dt, []int{4}, 0.0)); text != "" {
		t.Errorf("of zeros that are due: %q", text)
	}
}

// TestPredicts: a sum of what is due and what is known is a cause only if it makes what was recorded, to rounding, and
// the errors of what is due are not as small.
func TestPredicts(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	n := 256
	due, known := make([]float64, n), make([]float64, n)
	for i := range due {
		due[i], known[i] = r.NormFloat64(), r.NormFloat64()
	}
	made := func(dt tensor.DType, f func(i int) float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = dt.Round(f(i))
		}
		return v
	}
	for name, c := range map[string]struct {
		dt      tensor.DType
		x, y    []float64
		of      func(i int) float64
		explain bool
	}{
		"added": {tensor.Float32, made(tensor.Float32, func(i int) float64 { return due[i] + known[i] }), due,
			func(i int) float64 { return due[i] + known[i] }, true},
		"returned": {tensor.BFloat16, made(tensor.BFloat16, func(i int) float64 { return known[i] }), due,
			func(i int) float64 { return known[i] }, true},
		"toward zero, and what is due unrounded": {tensor.BFloat16, made(tensor.BFloat16,
			func(i int) float64 { return due[i] * (1 - 0x1p-9) }), due, func(i int) float64 { return due[i] }, false},
		"one far element of few bits": {tensor.Float8E5M2, made(tensor.Float8E5M2, func(i int) float64 {
			if i == 0 {
				return -57344
			}
			return due[i]
		}), append([]float64{57344}, due[1:]...), func(i int) float64 {
			if i == 0 {
				return 0
			}
			return due[i] - due[i]
		}, false},
		"another": {tensor.Float32, made(tensor.Float32, func(i int) float64 { return due[i] - known[i] }), due,
			func(i int) float64 { return due[i] + known[i] }, false},
	} {
		if got := predicts(c.dt, c.x, c.y, c.of); got != c.explain {
			t.Errorf("%s: explains %t, want %t", name, got, c.explain)
		}
	}
}
