// Package opdef is the mechanism by which operators are declared, bound to
// captured arguments and run on the CPU reference. The table of operators is
// package ops.
//
// One operator overload is one Op, with its schema, public names, kernel, gradient,
// error class, documentation and generated cases. Plan makes a plan from the arguments
// of a call: the operator on these arguments. Abilities that few operators have are
// methods of the plan, and abilities.go lists them as interfaces. Examples are
// operators that change arguments, accept other results or know mistakes of kernels. A
// Registry finds an op by the name in a capture and binds the captured Python values
// to the op's argument struct. It gives a Call, which runs forward and backward.
//
// # What kernels see
//
// Kernels compute in float64, int64 and complex128 only (see package tensor)
// and return unrounded results tagged with the dtype torch would give. They
// are pure functions. An in-place form or out= uses the same kernel; the result then
// gets the dtype of the tensor that it is written to. A plan that is Mutating gives
// the values that a call changes without returning them, such as running statistics.
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
// Each op declares how far a sound implementation may be from the exact result. It
// declares a class (Exact, Rounded, Elementwise, Accumulated, Normwise, Composed). Where
// the rule of the class does not fit, it declares S itself (Bounds.Scale): the sum of
// the magnitudes of the terms that were added to make an element. Multilinear ops
// (Accumulated) need no declaration: S is the op applied to the magnitudes of its
// arguments. For ops that only move elements (Exact), S of a gradient is the gradient of
// the magnitudes of the incoming one. S is computed only when an element fails the cheap
// test.
//
// # Non-goals
//
// No verdicts (compare), no files (capture), no devices (devicebridge).
package opdef
