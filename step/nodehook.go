package step

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// givenByHook is why a gradient was not judged that a hook of the program gave.
const givenByHook = "a hook of the program gives the gradient, or the one that it follows from"

// findNodeHooks finds wrong gradients that hooks of autograd's nodes explain: grad_fn.register_prehook gives a node
// another incoming gradient than the tensor has. No recorder sees the hooks, but it has the calls that they make.
func (p *Process) findNodeHooks(opt Options) {
	for _, c := range p.Calls {
		if c.byPass.backward != verdict.Fail || c.Step == nil || len(c.GradOutputs) == 0 || !c.isTorchs() {
			continue
		}
		hooks := c.nodeHooks()
		if len(hooks) == 0 {
			continue
		}
		// What cannot be computed stays wrong.
		_ = opt.within(c, "", func(opt Options) error { return c.settleNodeHooks(hooks, opt) })
		_ = opt.within(c, "", func(opt Options) error { return c.settleReadByHooks(hooks, opt) })
	}
}

// isTorchs reports whether a call is of a function of torch, and no call that made it is of one of the program's.
// Others make calls in their backward passes.
func (c *Call) isTorchs() bool {
	for o := c; o != nil; o = o.outer {
		if !strings.HasPrefix(o.Op, "torch.") || o.Entry.Replaced != "" {
			return false
		}
	}
	return true
}

// nodeHooks are the calls that were made while the backward pass was in a call.
func (c *Call) nodeHooks() (hooks []*Call) {
	if c.Step == nil {
		return nil
	}
	begun, ended := c.Entry.BackwardOrder, c.Entry.GradientOrder
	for _, o := range c.Step.Tail {
		if at := o.Entry.Order; begun >= 0 && begun <= at && at <= ended && !c.encloses(o) {
			hooks = append(hooks, o)
		}
	}
	return hooks
}

// settleReadByHooks links what hooks behind a node read to the gradient that the node gave before them, which is not
// recorded: it is what the reference gives.
func (c *Call) settleReadByHooks(hooks []*Call, opt Options) error {
	wanted := map[int]bool{}
	for k := range c.Inputs {
		wanted[k] = true
	}
	grads, err := c.pull(wanted, opt)
	if err != nil || len(grads) == 0 {
		return err
	}
	for _, o := range hooks {
		for _, v := range o.Inputs {
			if v.From.first != nil || v.content.plain || v.From.How == ByContent && v.From.Value != nil {
				continue
			}
			for k, u := range c.Inputs {
				if g := c.gradientOf(u); g == nil || grads[k] == nil || !g.like(v) || !v.follows(grads[k], opt) {
					continue
				}
				gave := *computed(grads[k])
				gave.Call, gave.Target, gave.leaf, gave.DType = c, u.gradientName(), u.leaf, v.DType
				v.unlink()
				v.From, v.reason = Link{How: ByContent, Value: &gave}, ""
				break
			}
		}
	}
	return nil
}

// gradientName is what the gradient of an input is called.
func (v *Value) gradientName() string { return strings.Replace(v.Target, "input", "grad", 1) }

// settleNodeHooks takes back that gradients of a call are wrong if they all follow from the result of such a call as
// the incoming gradient, and that call read what comes in. Of other wrong gradients that such a call gave it says so: a
// hook may have, or a kernel of the program's own that consists of calls of torch.
func (c *Call) settleNodeHooks(hooks []*Call, opt Options) error {
	var made []*Value
	for _, o := range hooks {
		made = append(made, o.Outputs...)
	}
	for _, h := range made {
		if len(c.GradOutputs) != 1 || !h.like(c.GradOutputs[0]) ||
			!slices.ContainsFunc(h.Call.Inputs, c.GradOutputs[0].equals) {
			continue
		}
		follows, err := c.followsFrom(h, opt)
		if err != nil {
			return err
		}
		if follows {
			c.skipWrongGradients(func(string) bool { return true }, givenByHook)
			return nil
		}
	}
	for i, r := range c.Results {
		g := c.Value(r.Target)
		if r.Phase != replay.Backward || r.Verdict != verdict.Fail || g == nil || g.content.plain {
			continue
		}
		if k := slices.IndexFunc(made, g.equals); k >= 0 {
			c.Results[i].Reason += fmt.Sprintf("; %s gave it at %s, for a kernel of the program's own or a hook of the node",
				made[k].Call, cmp.Or(made[k].Call.Entry.Location, "a line that is not known"))
		}
	}
	return nil
}

// followsFrom reports whether all wrong gradients of a call are what the reference gives with h as the incoming one.
func (c *Call) followsFrom(h *Value, opt Options) (bool, error) {
	t, err := h.Recorded(opt)
	if err != nil {
		return false, err
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
		return false, err
	}
	explained := map[string]bool{}
	for k, v := range c.Inputs {
		if g := c.gradientOf(v); g != nil && grads[k] != nil && g.follows(grads[k], opt) {
			explained[g.Target] = true
		}
	}
	return !slices.ContainsFunc(c.failing(replay.Backward), func(target string) bool { return !explained[target] }), nil
}

// follows reports whether a gradient is what the reference computes, up to rounding.
func (v *Value) follows(want *tensor.Tensor, opt Options) (near bool) {
	_ = v.with(opt, func(t *tensor.Tensor) {
		if !comparable(t, want) {
			return
		}
		y := tensor.Data[float64](want)
		_, n, _, ok := outliers(tensor.Data[float64](t), y, y, 1, v.DType, 0.75)
		near = ok && n == 0
	})
	return near
}
