package step

import (
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// givenByHook is why a gradient was not judged that a hook of the program gave.
const givenByHook = "a hook of the program gives the gradient, or the one that it follows from"

// findNodeHooks finds wrong gradients that hooks of autograd's nodes explain: grad_fn.register_prehook gives a node
// another incoming gradient than the tensor has, grad_fn.register_hook other gradients than the node computed. No
// recorder sees the hooks, but it has the calls that they make between both.
func (p *Process) findNodeHooks(opt Options) {
	for _, c := range p.Calls {
		if c.byPass[replay.Backward] != verdict.Fail || c.Step == nil || len(c.GradOutputs) == 0 {
			continue
		}
		made := c.madeByNodeHooks()
		if len(made) == 0 {
			continue
		}
		// What cannot be computed stays wrong.
		_ = opt.within(c, "", func(opt Options) error { return c.settleNodeHooks(made, opt) })
	}
}

// madeByNodeHooks are the results of the calls that were made while the backward pass was in a call, which is none of
// the program's own functions: these make such calls themselves.
func (c *Call) madeByNodeHooks() (made []*Value) {
	begun, ended := c.Entry.BackwardOrder, c.Entry.GradientOrder
	for _, o := range c.Step.Tail {
		if at := o.Entry.Order; begun >= 0 && begun <= at && at <= ended && !c.encloses(o) {
			made = append(made, o.Outputs...)
		}
	}
	return made
}

// settleNodeHooks takes back that gradients of a call are wrong that are the results of such calls, or that follow from
// one of these as the incoming gradient.
func (c *Call) settleNodeHooks(made []*Value, opt Options) error {
	right := func(g *Value) bool {
		return slices.ContainsFunc(made, func(o *Value) bool { return o.equals(g) && !g.content.plain })
	}
	for _, h := range made {
		if len(c.GradOutputs) != 1 || !h.like(c.GradOutputs[0]) {
			continue
		}
		t, err := h.Recorded(opt)
		if err != nil {
			return err
		}
		wanted := map[int]bool{}
		for k := range c.Inputs {
			wanted[k] = true
		}
		grads, err := c.pullGiven(wanted, capture.LoadOptions{Read: opt.Read}, opt,
			func(_ *capture.Call, f *opdef.Forward) []*tensor.Tensor {
				out := make([]*tensor.Tensor, len(f.Outs))
				out[0] = t
				return out
			})
		if err != nil {
			return err
		}
		of := map[*Value]*tensor.Tensor{}
		for k, v := range c.Inputs {
			if g := c.gradientOf(v); g != nil && grads[k] != nil {
				of[g] = grads[k]
			}
		}
		given := right
		right = func(g *Value) bool { return given(g) || of[g] != nil && g.follows(of[g], opt) }
	}
	c.skipWrongGradients(func(target string) bool {
		g := c.Value(target)
		return g != nil && right(g)
	}, givenByHook)
	return nil
}

// follows reports whether a gradient is what the reference computes, up to rounding.
func (v *Value) follows(want *tensor.Tensor, opt Options) (near bool) {
	_ = v.with(opt, func(t *tensor.Tensor) {
		if !comparable(t, want) {
			return
		}
		y := tensor.Data[float64](want)
		_, n, _, ok := outliers(tensor.Data[float64](t), y, y, v.DType, 0.75)
		near = ok && n == 0
	})
	return near
}
