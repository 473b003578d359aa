package replay

import (
	"fmt"
	"strings"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Pair is what was recorded of the value that a result is about, and the reference's,
// unrounded, after Compare. It is false for what is no tensor on both sides, for
// arguments after the call, and for results that depend on random numbers which are not known.
func (c *Call) Pair(r *Result) (got, want *tensor.Tensor, ok bool) {
	if r.Phase == Forward && c.values.OnAverage {
		return nil, nil, false
	}
	return c.pairOf(r)
}

// pairOf is Pair, with the results of a call that draws random numbers as they are without them.
func (c *Call) pairOf(r *Result) (got, want *tensor.Tensor, ok bool) {
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
	if r.Phase == Input {
		_, got, want, ok = c.ArgumentPair(r.Target)
	}
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

// ArgumentPair is Pair of an argument after the call, by its target: "input[3]", "input.out". was is the argument as it
// was recorded before.
func (c *Call) ArgumentPair(target string) (was, got, want *tensor.Tensor, ok bool) {
	if c.fwd == nil || !c.Record.HasAfter {
		return nil, nil, nil, false
	}
	before, after := flatten(c.Record.Args), flatten(c.Record.After)
	name := func(i int) string { return fmt.Sprintf("input[%d]", i) }
	if key, named := strings.CutPrefix(target, keyword("").label); named {
		x, _ := c.Record.Kwargs.Get(key)
		y, _ := c.Record.AfterKwargs.Get(key)
		before, after, name = []value.Value{x}, []value.Value{y}, func(int) string { return target }
	}
	for i := range min(len(before), len(after)) {
		if name(i) != target {
			continue
		}
		was, ok1 := before[i].(*tensor.Tensor)
		got, ok2 := after[i].(*tensor.Tensor)
		want = c.Changed()[was]
		if want == nil {
			want = was
		}
		return was, got, want, ok1 && ok2
	}
	return nil, nil, nil, false
}
