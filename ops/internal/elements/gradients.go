package elements

import (
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// PiecewiseConstant is why an operator has no gradient that is not zero.
const PiecewiseConstant = "the result does not change with small changes of the arguments"

// GradOfOtherOp is why the gradients of a call that returned its argument cannot
// be compared.
const GradOfOtherOp = "gradients belong to another op"

// PassGrad hands the incoming gradient to self.
func PassGrad(g *opdef.Grad) (opdef.Grads, error) { return opdef.Grads{"self": {g.Out[0]}}, nil }

// NoDifferentiableArgument is why creation ops have no gradient.
const NoDifferentiableArgument = "no argument is differentiable"

// SpreadOnly is what gradients show of an operator that ends in a mean or a
// sum.
const SpreadOnly = "the incoming gradient spread over the elements"

// Detached is t without a gradient, for cases: of arguments that have none, and of calls whose
// gradient is, by definition, not the derivative: rows left out, rows divided by their frequency.
func Detached(t *tensor.Tensor) *tensor.Tensor {
	u := *t
	u.RequiresGrad = false
	return &u
}

// ReshapedOnly is what gradients show of an operator that ends in a view.
const ReshapedOnly = "the incoming gradient reshaped"

// ReshapedNode is the node of a result that is another's view: it received the
// incoming gradient in the shape before the view.
func ReshapedNode(g *opdef.Grad, shape ...int) opdef.Node {
	return opdef.Node{Grads: []*tensor.Tensor{g.Out[0].Reshape(shape...)}, Weak: ReshapedOnly}
}

// ComplexGradScale is the magnitude of a gradient whose parts are sums: the
// gradient's own magnitude if it is complex, else zero.
func ComplexGradScale(_ *opdef.UnaryArgs, _ *opdef.Grad, gr opdef.Grads) (opdef.Grads, error) {
	return opdef.Grads{"self": {AbsIfComplex(gr["self"][0])}}, nil
}

// ZeroGrad is a gradient of zeros for t, nil for a Python number, which has none.
func ZeroGrad(t *tensor.Tensor) *tensor.Tensor {
	if t.Wrapped {
		return nil
	}
	return tensor.Full(t.DType, t.Shape, 0.0)
}

// SumGradTo is the gradient of a broadcast operand, nil for a Python number.
func SumGradTo(t, arg *tensor.Tensor) *tensor.Tensor {
	if arg.Wrapped {
		return nil
	}
	return opdef.SumTo(t, arg.Shape)
}

// DrawsRandomNumbers is why results cannot be compared.
const DrawsRandomNumbers = "draws random numbers"

// GradOf is the gradient of an op with one differentiable argument.
func GradOf(arg string, t *tensor.Tensor) opdef.Grads {
	g := opdef.Grads{}
	g.Set(arg, t)
	return g
}

// ReturnedArgument is the node of a call that returned its argument itself.
var ReturnedArgument = opdef.Node{Skip: GradOfOtherOp}
