// Package compose declares operators as compositions of primitives: the value,
// the gradients, the error bounds of both and what op_tools records of a
// gradient all follow from one Go function that says what torch computes.
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
// A primitive is a method of Graph. It has a value, which is lazy where its
// elements do not depend on all others; a vector-Jacobian product, which is made
// of primitives again; and a rule how errors pass through it. Arguments that
// torch refuses end the composition: methods panic with the *opdef.RefusedError,
// which Declare turns into the refusal of the call, so that compositions read
// like the Python they stand for.
//
// # Error bounds
//
// Every value carries a bound of the error that a sound device may have made up
// to it (running error analysis: J. H. Wilkinson, Error Analysis Revisited, IMA
// Bulletin 22, 1986; N. J. Higham, Accuracy and Stability of Numerical
// Algorithms, 2nd ed., section 3.3). A primitive passes on the errors of its
// operands, times its derivative, and adds the rounding of its own result. What
// a function of one element does to an error is found by evaluating it at both
// ends of the interval, which holds next to poles and kinks too.
//
// Bounds are in units of the error that package compare allows a sum of one term
// (see Graph.unit), so that the bound of a result is its S. Of dtypes that sums
// are made in they are worst cases, which add up. Roundings to 16 bits or fewer
// are far larger, and independent of one another, so there the squares of errors
// add up, each rounding counting as two units in the last place, some seven
// standard deviations.
//
// Bounds are lazy: nothing of them is computed unless an element fails the cheap
// test.
package compose
