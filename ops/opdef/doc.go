// Package opdef is the mechanism by which operators are declared, bound to
// captured arguments and run on the CPU reference. The table of operators is
// package ops.
//
// One operator overload is one Op: schema, public names, kernel, gradient,
// error class, documentation and generated cases stand together. What Plan makes
// of the arguments of a call is the operator on these arguments: what few operators
// can do (change arguments, accept other results, know mistakes of kernels) is a
// method of the plan, and abilities.go lists them as interfaces. A Registry
// finds an op by the name a capture uses, binds the captured Python values to
// the op's argument struct, and gives a Call, which runs forward and backward.
//
// # What kernels see
//
// Kernels compute in float64, int64 and complex128 only (see package tensor)
// and return unrounded results tagged with the dtype torch would give. They
// are pure functions: an in-place form or out= is the same kernel, whose
// result is then given the dtype of the tensor it is written to. What a call
// changes without returning it (running statistics) a plan gives that is Mutating.
//
// # Gradients
//
// Op.Grad maps gradients of results to gradients of arguments. Complex numbers
// follow PyTorch: the gradient of a real loss L with respect to z = x + iy is
// dL/dx + i dL/dy, so a holomorphic f contributes g * conj(f'(z)); a real
// argument of a complex result gets the real part.
// Source: https://pytorch.org/docs/stable/notes/autograd.html#complex-autograd-doc
//
// op_tools saves what the last autograd node of a result received, which for a
// few ops (linear on 3-D input, cross_entropy) is not the gradient of the
// arguments. Such ops declare Op.Node.
//
// # Error model
//
// Each op declares how far a sound implementation may be from the exact
// result: its class (Exact, Rounded, Elementwise, Accumulated, Normwise, Composed) and,
// where the class's rule does not fit, S itself (Bounds.Scale): the sum of the
// magnitudes of the terms that were added to make an element. For multilinear
// ops (Accumulated) S is the op applied to the magnitudes of its arguments,
// which needs no declaration; of the gradients of ops that only move elements
// (Exact) it is those of the magnitudes of what came in. S is computed only when
// an element fails the cheap test.
//
// # Non-goals
//
// No verdicts (compare), no files (capture), no devices (devicebridge).
package opdef
