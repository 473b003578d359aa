// Package diopi knows DIOPI's C interface as data and says which C calls carry
// out an operator.
//
// The interface (DIOPI 1.0.0, proto/include/diopi) is abi.json: 568 functions with
// their parameters, and the enumerations. A [Case] is a call of one of the 220
// functions of DIOPI's test kit; their names and keywords are mostly those of
// PyTorch. A [Recipe] turns it into a [Plan]: the C calls with all arguments by
// parameter name, and the names of the results. This package loads no library.
// Package devicebridge carries out plans.
//
// Recipes are rows of tables, by family. A row lists the C functions that can do
// the work. The arguments of a call choose among them: a function accepts a tensor
// or a number, a dimension or none. A C parameter takes the argument of its own
// name unless the row binds another. Rules give the dtype and shape of results
// (rules.go). Gradients have the shapes of their arguments. The backward call finds
// by name the cotangents, the arguments and the results of the forward call. For
// every recorded case of the kit, the plans are the calls that the kit makes.
package diopi
