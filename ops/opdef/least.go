package opdef

import (
	"slices"

	"github.com/optool/optool/internal/num/roundoff"
	"github.com/optool/optool/tensor"
)

// fewestTerms is the number of terms that a part of a sum has at least. growthKept is about what is left,
// of a part's magnitudes, of the growth c(n) that the bound allows the whole: sound sums are off by less than
// half of that (see package compare), so that hardly any needs the other terms.
const (
	fewestTerms = 8
	growthKept  = 8
)

// someTerms computes a lower bound of S, the magnitudes of a value that adds terms: S of some of the terms,
// spread evenly, for a fraction of the work; share is how many of them. labels are those of the value's
// dimensions; of makes its magnitudes in a call on those of its arguments, which is given some results and
// their gradients too. least is nil where the call is linear along no label that the value lacks, or along
// short ones.
func (c *Call) someTerms(labels func(*Axes) []int, outs, out []*tensor.Tensor,
	of func(m *Call, outs, out []*tensor.Tensor) *tensor.Tensor) (least func() *tensor.Tensor, share float64) {
	a := c.Axes()
	if a == nil {
		return nil, 0
	}
	own := labels(a)
	if own == nil {
		return nil, 0
	}
	sizes, along, n := a.Sizes(c.Tensors()), Uncut, 0
	for _, l := range a.Linear {
		if sizes[l] > n && !slices.Contains(own, l) {
			along, n = l, sizes[l]
		}
	}
	step := int(roundoff.Growth(n) / growthKept)
	if step < 2 || n/step < fewestTerms {
		return nil, 0
	}
	part := func(t *tensor.Tensor, labels []int) *tensor.Tensor {
		for d, l := range labels {
			if l == along && t.Shape[d] == n {
				t = t.Slice(d, 0, (n+step-1)/step, step)
			}
		}
		return t
	}
	parts := func(ts []*tensor.Tensor) (some []*tensor.Tensor) {
		for _, t := range ts {
			if t != nil {
				t = Abs(part(t, a.Out))
			}
			some = append(some, t)
		}
		return some
	}
	return func() *tensor.Tensor {
		some := c.Map(func(arg Arg) *tensor.Tensor { return part(arg.Tensor, a.Of(arg)) })
		return of(some.magnitudes(), parts(outs), parts(out))
	}, float64((n+step-1)/step) / float64(n)
}
