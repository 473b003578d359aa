package replay

import (
	"fmt"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Pair is what was recorded of the value that a result is about, and the reference's,
// unrounded, after Compare. It is false for what is no tensor on both sides, and for
// arguments after the call.
func (c *Call) Pair(r *Result) (got, want *tensor.Tensor, ok bool) {
	var recorded, reference []value.Value
	name := "output"
	switch r.Phase {
	case Forward:
		recorded, reference = c.values.RecordedOutput, c.values.Output
	case Backward:
		recorded, reference, name = c.values.RecordedGradInputs, c.values.GradInputs, "grad"
	}
	xs, ys := flatten(recorded), flatten(reference)
	for i := range min(len(xs), len(ys)) {
		if r.Target == fmt.Sprintf("%s[%d]", name, i) {
			var ok1, ok2 bool
			got, ok1 = xs[i].(*tensor.Tensor)
			want, ok2 = ys[i].(*tensor.Tensor)
			return got, want, ok1 && ok2
		}
	}
	return nil, nil, false
}

// Profile is how the errors of the value that a result is about are spread, after Compare; nil where
// they have no size, or cannot be read or held.
func (c *Call) Profile(r *Result) (p *compare.Profile) {
	got, want, ok := c.Pair(r)
	if !ok || !got.DType.IsFloat() {
		return nil
	}
	if Guard(func() (err error) {
		p, err = compare.NewProfile(got, want, r.Compared)
		return err
	}) != nil {
		return nil
	}
	return p
}
