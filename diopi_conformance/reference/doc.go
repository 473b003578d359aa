// Package reference computes what a case of DIOPI's conformance test should
// yield: the results of the function and the gradients of its arguments, in
// float64, int64 and complex128, rounded once when they are stored.
//
// Most functions are one operator of package ops, named by the case's interface
// or by a line of the table operators. The rest are a few calls of operators,
// whose gradients come from a Tape.
package reference
