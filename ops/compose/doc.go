// Package compose declares operators as compositions of primitives. One Go function
// says what torch computes. The value, the gradients, the error bounds of both and
// the gradients that op_tools records all follow from it.
//
//	compose.Declare(compose.Op[swigluArgs]{
//		Schema: "npu_swiglu(Tensor self, int dim=-1) -> Tensor",
//		...
//	}, compose.Fused, func(g *compose.Graph, a *swigluArgs) compose.Values {
//		x := g.Chunk(g.Arg("self", a.Self), 2, a.Dim)
//		return compose.Values{g.Mul(g.SiLU(x[0]), x[1])}
//	})
//
// # Primitives
//
// A primitive is a method of Graph. It has a value, which is lazy where an element
// does not depend on all others. It has a vector-Jacobian product, which consists of
// primitives, and a rule for the propagation of errors. One that is a function of elements
// applies what an operator of the registry declares (package pointwise and its like). Arguments that torch refuses
// end the composition: methods panic with the *opdef.RefusedError, and Declare turns
// it into the refusal of the call. So compositions read like the Python code of torch.
//
// # Error bounds
//
// Every value carries a bound of the error that a sound device may have made up
// to it (running error analysis: J. H. Wilkinson, Error Analysis Revisited, IMA
// Bulletin 22, 1986; N. J. Higham, Accuracy and Stability of Numerical
// Algorithms, 2nd ed., section 3.3). A primitive passes on the errors of its
// operands, times its derivative, and adds the rounding of its own result. A
// function of one element is evaluated at both ends of the interval. That gives its
// error also next to poles and kinks.
//
// Bounds are in units of the error that package compare allows a sum of one term
// (see Graph.unit), so that the bound of a result is its S. In dtypes in which sums
// are computed, the bounds are worst cases and add up. Roundings to 16 bits or fewer
// are far larger and independent of each other, so their squares add up. Each
// rounding counts as two units in the last place, about seven standard deviations.
//
// Bounds are lazy: nothing of them is computed unless an element fails the cheap
// test.
package compose
