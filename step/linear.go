package step

import (
	"math"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// bridged runs a call whose operator is not known, as a program's own autograd.Function, by its recorded gradients:
// what its arguments differ by moves its results along their gradients, by as much as moves the loss alike to first
// order. It is nil where no gradients were recorded.
func (x *rerun) bridged(c *Call, rec *capture.Call, args []value.Value, kwargs *value.Dict) ([]*tensor.Tensor, error) {
	if !c.HasBackward() || len(c.Grads) == 0 {
		return nil, nil
	}
	moves, err := x.moves(c, rec, args, kwargs)
	if err != nil {
		return nil, err
	}
	outs := rec.Outputs()
	grads := make([]*tensor.Tensor, len(outs))
	norm := 0.0
	for _, g := range c.GradOutputs {
		for i, o := range c.Outputs {
			if c.result(g) != o || i >= len(outs) || !outs[i].DType.IsFloat() {
				continue
			}
			if err := g.with(x.opt, func(t *tensor.Tensor) {
				grads[i] = solid(t)
				norm += distance(t, zero(t), nil).square
			}); err != nil {
				return nil, err
			}
		}
	}
	if norm == 0 || norm-norm != 0 || moves-moves != 0 {
		return nil, nil
	}
	for i, g := range grads {
		if g != nil {
			along := func(y, d float64) float64 { return y + moves/norm*d }
			outs[i] = solid(opdef.Zip(outs[i].DType, outs[i], g, along))
		} else {
			outs[i] = solid(outs[i])
		}
	}
	return outs, nil
}

// moves is by how much the loss moves with what arguments of a call differ by from the recorded ones, by their recorded
// gradients; NaN if they are others.
func (x *rerun) moves(c *Call, rec *capture.Call, args []value.Value, kwargs *value.Dict) (by float64, err error) {
	was, err := rec.Leaves(capture.Input)
	if err != nil {
		return 0, err
	}
	now, err := capture.Leaves(args, kwargs)
	if len(now) != len(was) {
		return math.NaN(), err
	}
	for i, v := range c.Inputs {
		if i >= len(was) || was[i].Tensor == now[i].Tensor || !comparable(was[i].Tensor, now[i].Tensor) {
			continue
		}
		if g := c.gradientOf(v); g != nil && err == nil {
			err = g.with(x.opt, func(t *tensor.Tensor) { by += distance(now[i].Tensor, was[i].Tensor, t).dot })
		}
	}
	return by, err
}

// zero is a tensor of zeros like t.
func zero(t *tensor.Tensor) *tensor.Tensor {
	return opdef.Map(t.DType, t, func(float64) float64 { return 0 })
}

// with opens the file of a value for f.
func (v *Value) with(opt Options, f func(*tensor.Tensor)) error {
	t, done, err := v.load(opt)
	if err != nil {
		return err
	}
	defer done()
	f(t)
	return nil
}
