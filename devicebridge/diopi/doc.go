// Package diopi knows DIOPI's C interface as data and says which C calls carry
// out an operator.
//
// The interface (DIOPI 1.0.0, proto/include/diopi) is abi.json: 568 functions
// with their parameters, and the enumerations. A [Recipe] turns a [Case], a call
// of one of the 220 functions of DIOPI's test kit, whose names and keywords are
// mostly those of PyTorch, into a [Plan]: the C calls with all arguments by
// parameter name, and which of them are results. Nothing here loads a library;
// package devicebridge carries plans out.
//
// Recipes are rows of tables, by family. A row lists the C functions that may do
// the work; the arguments of a call choose among them by what each accepts: a
// tensor or a number, a dimension or none. C parameters take the argument of
// their own name unless the row binds another, and what a function writes
// follows from rules for dtype and shape (rules.go). Gradients are shaped like
// their arguments; the backward call finds the cotangents, the arguments and what
// the forward call wrote by name. The calls planned this way are those that the
// kit's own functions make, for every one of its recorded cases.
package diopi
