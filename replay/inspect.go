package replay

import (
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Bound is the call bound to its operator, nil if it could not be bound.
func (c *Call) Bound() *opdef.Call { return c.bound }

// Outs are the results of the reference, unrounded, after Start; nil if it did not run.
func (c *Call) Outs() []*tensor.Tensor {
	if c.fwd == nil {
		return nil
	}
	return c.fwd.Outs
}

// Changed maps the recorded arguments that the call changes to their values after
// it, unrounded, as far as the reference ran (Compare, Start). The call need not
// return them: batch_norm changes its running statistics, x[...] = y changes x.
func (c *Call) Changed() map[*tensor.Tensor]*tensor.Tensor {
	if c.fwd == nil {
		return nil
	}
	now := map[*tensor.Tensor]*tensor.Tensor{}
	for t, n := range (&comparison{Call: c}).changedArguments() {
		now[t] = n.value
	}
	return now
}
