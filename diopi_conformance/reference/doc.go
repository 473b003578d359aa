// Package reference computes the expected results of a case of DIOPI's conformance test, and the gradients of its
// arguments. It computes in float64, int64 and complex128 and rounds once, when the numbers are stored.
//
// Every function is one call or several calls of operators of package ops. The interface of the case names them in the
// table functions.
package reference
