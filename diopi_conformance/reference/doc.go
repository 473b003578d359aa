// Package reference computes what a case of DIOPI's conformance test should
// yield: the results of the function and the gradients of its arguments, in
// float64, int64 and complex128, rounded once when they are stored.
//
// Every function is a call of an operator of package ops, named by the case's
// interface, or a row of calls, as the table functions says.
package reference
