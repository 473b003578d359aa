package causes

import (
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestNearer: whatever is small is near zero, which is no evidence for a factor; a mistake that is right but for
// rounding is near.
func TestNearer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	due, small, scaled := make([]float64, 900), make([]float64, 900), make([]float64, 900)
	some := make([]float64, 900)
	for i := range due {
		due[i] = r.NormFloat64()
		small[i] = 0.006 * (1 + 0.5*r.NormFloat64()) * due[i]
		scaled[i] = 0.006 * due[i]
		some[i] = due[i] / 1000 // is left where another explains the rest
	}
	of := func(v []float64) *tensor.Tensor { return tensor.New(tensor.BFloat16, []int{900}, v).Rounded() }
	if Nearer(of(small), of(due), of(scaled)) {
		t.Error("random factors around 0.006 are near to all elements multiplied by 0.006")
	}
	if !Nearer(of(scaled), of(due), of(scaled)) {
		t.Error("what is multiplied by 0.006 is not near to itself")
	}
	if !Nearer(of(some), of(due), of(some)) {
		t.Error("what is divided by 1000 is not near to itself")
	}
}

// TestPicked: another element of the operand says which it is, not all its bits.
func TestPicked(t *testing.T) {
	v := []float64{0.1, 0.7, 0.3, 0.9, 0.2, 0.6, 0.4}
	self := tensor.New(tensor.Float32, []int{7}, v).Rounded()
	one := func(x float64) *tensor.Tensor { return tensor.New(tensor.Float32, nil, []float64{x}).Rounded() }
	operands := []*tensor.Tensor{self}
	if got := Picked(operands, one(0.6), one(0.4)); got > 2 {
		t.Errorf("the next element says %.1f bits, want less than 2", got)
	}
	if next, far := Picked(operands, one(0.6), one(0.4)), Picked(operands, one(0.9), one(0.4)); far <= next {
		t.Errorf("an element three ranks off says %.1f bits, one that is next %.1f", far, next)
	}
	if got := Picked(operands, one(0.45), one(0.4)); got != Plenty {
		t.Errorf("a number that is no element says %.1f bits, want no limit", got)
	}
}
