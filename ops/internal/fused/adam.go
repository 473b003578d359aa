package fused

import (
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

// An AdamW is a step of AdamW: the factors of the moments, their powers by the number of
// the step, the learning rate, the decay of weights and what is added to the root.
type AdamW struct {
	Beta1, Beta2, Power1, Power2, Lr, Decay, Eps float64
}

// left is 1 - power, which is known to the rounding of power.
func left(g *compose.Graph, dt tensor.DType, power float64) *compose.Value {
	return g.Shift(g.Neg(g.Scale(g.Full(dt, nil, 1), power)), 1)
}

// Step is a parameter and its moments after the step, and the largest second moment so far
// if top, the one before, is given; grad is at least float32.
func (s AdamW) Step(g *compose.Graph, param, m, v, top, grad *compose.Value) compose.Values {
	state := compose.Values{param, m, v}
	if top != nil {
		state = append(state, top)
	}
	wide := make(compose.Values, len(state))
	for i, x := range state {
		if !slices.Equal(x.Shape(), grad.Shape()) || !x.DType().IsFloat() || !grad.DType().IsFloat() {
			g.Refuse("", "want floating tensors of the shape of the gradient %s, got %s", grad.T.Meta(), x.T.Meta())
		}
		wide[i] = g.AtLeast(x, tensor.Float32)
	}
	out := compose.Values{nil, g.Add(g.Scale(wide[1], s.Beta1), g.Scale(grad, 1-s.Beta1)),
		g.Add(g.Scale(wide[2], s.Beta2), g.Scale(g.Square(grad), 1-s.Beta2))}
	root := out[2]
	if top != nil {
		root = g.Maximum(root, wide[3])
		out = append(out, root)
	}
	root = g.Shift(g.Sqrt(g.Div(root, left(g, root.DType(), s.Power2))), s.Eps)
	step := g.Div(g.Scale(g.Div(out[1], root), s.Lr), left(g, root.DType(), s.Power1))
	out[0] = g.Sub(g.Scale(wide[0], 1-s.Lr*s.Decay), step)
	for i := range out {
		out[i] = g.To(out[i], state[i].DType())
	}
	return out
}
