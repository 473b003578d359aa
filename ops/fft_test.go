package ops

import (
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestFFTNode: torch makes a real input of fft2 complex first, so that the
// recorded gradient is complex; that of fft is not.
func TestFFTNode(t *testing.T) {
	x := []value.Value{floats32([]int{1, 2}, 1, 2)}
	out := []*tensor.Tensor{tensor.New(tensor.Complex64, []int{1, 2}, []complex128{1i, 2})}
	c, f, err := invoke(t, "torch.fft.fft2", x)
	if err != nil {
		t.Fatal(err)
	}
	n, ok, err := c.Node(f, out)
	if err != nil || !ok || n.Grads[0].DType != tensor.Complex64 {
		t.Fatalf("node %v %+v, error %v, want a complex gradient", ok, n, err)
	}
	if g := tensor.Data[complex128](n.Grads[0]); !slices.Equal(g, []complex128{2 + 1i, -2 + 1i}) {
		t.Errorf("got %v, want [2+1i -2+1i]", g)
	}
	if c, f, err = invoke(t, "torch.fft.fft", x); err != nil {
		t.Fatal(err)
	}
	if n, ok, err := c.Node(f, out); ok || err != nil {
		t.Errorf("fft: node %+v, error %v, want none", n, err)
	}
}
