package compose

import (
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Evaluate is the first result of a composition and the gradients of its
// arguments for the gradient up of it, by name, with the scales of all; on a
// device every value is rounded to its dtype.
func Evaluate(run func(g *Graph) *Value, up *tensor.Tensor, device bool) (values, scales map[string]*tensor.Tensor) {
	g := &Graph{}
	if device {
		g.store = func(t *tensor.Tensor) *tensor.Tensor {
			if t.DType.IsFloat() {
				return t.Rounded()
			}
			return t
		}
	}
	out := run(g)
	g.double = out.DType() == tensor.Float64
	values = map[string]*tensor.Tensor{"": out.T}
	scales = map[string]*tensor.Tensor{"": g.scale(out)}
	c := &Call{graph: g, outs: Values{out}}
	grads := c.backward([]*tensor.Tensor{up})
	for of, f := range map[*map[string]*tensor.Tensor]func(*Value) *tensor.Tensor{
		&values: func(v *Value) *tensor.Tensor { return v.T }, &scales: g.scale} {
		var gr opdef.Grads = c.arguments(grads, f)
		for name, ts := range gr {
			(*of)[name] = ts[0]
		}
	}
	return values, scales
}

// HoldingNothing runs f while no result of attention is held: its blocks are computed anew
// whenever they are asked for.
func HoldingNothing(f func()) {
	defer func(n int) { largestHeld = n }(largestHeld)
	largestHeld = 0
	f()
}
