package causes

import (
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// TestVaried: a step of the formula has another operand; a value of noise is no step at all.
func TestVaried(t *testing.T) {
	x, y := rows(11, 9, 40), rows(12, 9, 40)
	c, outs := searched(t, "torch.addcmul", x, y, y)
	var fails []Wrong
	c.Few = func(w Way, target string) (got, due, made []float64) {
		f, err := w.Call.Forward()
		if err != nil {
			return nil, nil, nil
		}
		return elements(fails[0].Got), elements(fails[0].Want), elements(f.Outs[0])
	}
	made := opdef.Zip(tensor.Float32, x, y, func(x, y float64) float64 { return x + y*max(y, -y) }).Rounded()
	fails = []Wrong{{Target: "output[0]", Got: made, Want: outs[0]}}
	found := texts(c.varied(fails))
	want := "in the product of tensor1 and tensor2, the magnitude of tensor1 is taken"
	if len(found) == 0 || found[0] != want+": it computes self + abs(tensor1) * tensor2, not self + tensor1 * tensor2" {
		t.Errorf("found %v, want %q", found, want)
	}
	noise := opdef.Zip(tensor.Float32, outs[0], rows(77, 9, 40), func(x, y float64) float64 { return x + y }).Rounded()
	fails[0].Got = noise
	if found := texts(c.varied(fails)); len(found) > 0 {
		t.Errorf("noise is explained by %v", found)
	}
}
