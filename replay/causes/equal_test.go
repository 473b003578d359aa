package causes

import (
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestEqual: a factor that is a quantity of the call is told as that, others are not.
func TestEqual(t *testing.T) {
	c, outs := searched(t, "torch.nn.functional.avg_pool2d", rows(1, 2, 3, 12, 30), value.NewList(int64(3), int64(5)))
	r := &Wrong{Target: "output[0]", Got: outs[0], Want: outs[0]}
	for told, want := range map[float64]string{15: ", that is the product of kernel_size",
		12: ": dimension 2 of input has 12", 1. / 15: ", that is 1/the product of kernel_size", 0.5: "",
		0.2: ", that is 1/5: kernel_size has 5", 7: "", 0.77: ""} {
		if got := c.equal(told, told, r); got != want {
			t.Errorf("%v is %q, want %q", told, got, want)
		}
	}
	x := rows(2, 64)
	c, outs = searched(t, "torch.pow", x, int64(3))
	third := opdef.Map(tensor.Float32, outs[0], func(x float64) float64 { return x / 3 }).Rounded()
	fails := []Wrong{{Target: "output[0]", Got: third, Want: outs[0]}}
	texts := map[string]bool{}
	for m := range c.fittedNumbers(fails, 0) {
		texts[m.Text] = true
	}
	if want := "all elements are multiplied by 0.333333, that is 1/exponent"; !texts[want] {
		t.Errorf("%q is not among %v", want, texts)
	}
}

// TestNegated: a gradient of the wrong sign is said to be negated before anything else, one that is not is not.
func TestNegated(t *testing.T) {
	c, outs := searched(t, "torch.sin", rows(3, 64))
	negated := opdef.Map(tensor.Float32, outs[0], func(x float64) float64 { return -x }).Rounded()
	fails := []Wrong{{Target: "grad[0]", Got: negated, Want: outs[0]}}
	all, _ := c.Mistakes(fails)
	same64(t, "negated", made(t, all[0], "all elements of the gradient are negated", "grad[0]", outs[0]),
		elements(negated))
	fails[0].Got = rows(4, 64)
	for m := range c.negated(fails) {
		t.Error("random numbers are not negated: ", m.Text)
	}
	fails[0] = Wrong{Target: "output[0]", Got: negated, Want: outs[0]}
	for m := range c.negated(fails) {
		t.Error("a result is no gradient: ", m.Text)
	}
}
