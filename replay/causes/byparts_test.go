package causes

import (
	"math/cmplx"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestOfComplex: parts that are computed by themselves, a magnitude too many, and imaginary parts of the wrong sign.
func TestOfComplex(t *testing.T) {
	z := func(seed uint64) ([]complex128, *tensor.Tensor) {
		a, b, v := elements(rows(seed, 64)), elements(rows(seed+1, 64)), make([]complex128, 64)
		for i := range v {
			v[i] = complex(a[i], b[i])
		}
		return v, tensor.New(tensor.Complex64, []int{64}, v).Rounded()
	}
	x, xt := z(1)
	y, yt := z(3)
	c, outs := searched(t, "torch.mul", xt, yt)
	for text, of := range map[string]func(x, y complex128) complex128{
		"real and imaginary parts are computed by themselves": func(x, y complex128) complex128 {
			return complex(real(x)*real(y), imag(x)*imag(y))
		},
		"it is multiplied by the magnitude of other": func(x, y complex128) complex128 {
			return x * y * complex(cmplx.Abs(y), 0)
		},
		"the product of the imaginary parts is added, not subtracted": func(x, y complex128) complex128 {
			return complex(real(x)*real(y)+imag(x)*imag(y), real(x)*imag(y)+imag(x)*real(y))
		},
	} {
		found := false
		for m := range c.ofComplex([]Wrong{{Target: "output[0]", Got: outs[0], Want: outs[0]}}) {
			if m.Text != text {
				continue
			}
			way, err := m.Make()
			if err != nil {
				t.Fatal(text, err)
			}
			found = true
			made := way.Alter("output[0]", outs[0])
			for i := range x {
				if w := of(x[i], y[i]); cmplx.Abs(tensor.At[complex128](made, i)-w) > 1e-5*(1+cmplx.Abs(w)) {
					t.Fatalf("%s: element %d is %v, want %v", text, i, tensor.At[complex128](made, i), w)
				}
			}
		}
		if !found {
			t.Error("not tried: ", text)
		}
	}
}

// TestWholeTogether: operands that wrap, and that are compared without their sign.
func TestWholeTogether(t *testing.T) {
	whole := func(v ...int64) *tensor.Tensor { return tensor.New(tensor.Int32, []int{len(v)}, v).Rounded() }
	c, outs := searched(t, "torch.lt", whole(-1, 300, 2, -7), whole(1, 44, 3, -9))
	text := "all operands wrap at 8 bits"
	same64(t, text, made(t, c.wholeTogether(), text, "output[0]", outs[0]), []float64{1, 0, 1, 0})
	way, err := next(c.unsigned()).Make()
	if err != nil {
		t.Fatal(err)
	}
	f, err := way.Call.Forward()
	if err != nil {
		t.Fatal(err)
	}
	same64(t, "compared without sign", elements(way.Alter("output[0]", f.Outs[0])), []float64{0, 0, 1, 0})
}
