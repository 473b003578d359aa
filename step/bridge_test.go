package step

import (
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestNoGradient: gradients of another shape than the results are none, and where a call has none it gives none.
func TestNoGradient(t *testing.T) {
	for _, tree := range []string{"clean", "attention", "picked"} {
		differentiated := 0
		for _, c := range open(t, tree).Calls() {
			rec, err := c.Entry.Load(capture.LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer rec.Close()
			bound, err := options(t).Registry.Bind(rec.Op, rec.Args, rec.Kwargs)
			if err != nil || !bound.Entry.HasGrad {
				continue
			}
			f, err := bound.Forward()
			if err != nil {
				t.Fatal(err)
			}
			differentiated++
			rec.GradOutputs = nil
			for _, o := range f.Outs {
				rec.GradOutputs = append(rec.GradOutputs,
					value.Value(tensor.New(tensor.Float32, append([]int{2}, o.Shape...), make([]float64, 2*o.Numel()))))
			}
			wanted := map[int]bool{}
			for k := range c.Inputs {
				wanted[k] = true
			}
			if grads, err := vjp(rec, bound, bound, f, recordedGrads(rec, f), wanted); err != nil || len(grads) > 0 {
				t.Errorf("%s: gradients %v, %v, want none", c.Entry.Op, grads, err)
			}
		}
		if differentiated == 0 {
			t.Errorf("%s has no call that the reference differentiates", tree)
		}
	}
}
