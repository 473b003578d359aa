package step

import (
	"math"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestShowsDraw: a mask leaves -0 of negative elements, which is zero like that of positive ones.
func TestShowsDraw(t *testing.T) {
	dropout := func(sign float64, drops func(i int) bool) *Call {
		value := func(of func(i int) float64) *Value {
			v := &Value{DType: tensor.Float32, Shape: []int{8, 8}}
			v.content.sum = math.Float64bits(sign)
			for i := range 64 {
				v.content.samples = append(v.content.samples, uint64(math.Float32bits(float32(of(i)))))
			}
			return v
		}
		return &Call{Op: "torch.nn.functional.dropout",
			Inputs: []*Value{value(func(i int) float64 { return sign * float64(i+1) })},
			Outputs: []*Value{value(func(i int) float64 {
				if drops(i) {
					return math.Copysign(0, sign)
				}
				return 2 * sign * float64(i+1)
			})}}
	}
	third := func(i int) bool { return i%3 == 0 }
	if !dropout(-1, third).showsDraw(dropout(1, third)) {
		t.Error("the masks are equal")
	}
	if dropout(-1, third).showsDraw(dropout(1, func(i int) bool { return i%4 == 0 })) {
		t.Error("the masks are not equal")
	}
}

// TestSameNumbers: masks say which numbers were drawn only if they are so large that chance does not make them equal.
func TestSameNumbers(t *testing.T) {
	mask := func(n, every int) *numbers {
		in, out := make([]float64, n), make([]float64, n)
		for i := range n {
			in[i] = 1
			if i*i%every != 1 {
				out[i] = 2
			}
		}
		return maskOf(tensor.New(tensor.Float32, []int{n}, in), tensor.New(tensor.Float32, []int{n}, out), 0)
	}
	for _, c := range []struct {
		a, b *numbers
		want bool
	}{
		{mask(256, 3), mask(256, 3), true},
		{mask(256, 3), mask(256, 5), false},
		{mask(16, 3), mask(16, 3), false}, // by chance
		{mask(3*masked, 3), mask(3*masked, 3), true},
		{mask(256, 3), nil, false},
	} {
		if got := c.a.same(c.b); got != c.want {
			t.Errorf("got %v, want %v", got, c.want)
		}
	}
}
