// Package reference computes what a case of DIOPI's conformance test should
// yield: the results of the function and the gradients of its arguments, in
// float64, int64 and complex128, rounded once when they are stored.
//
// Most functions are one operator of package ops, named by the case's
// interface. The rest, the kit's own functions, are compositions of operators;
// their gradients come from a Tape.
package reference
