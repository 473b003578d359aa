// Package diopi knows DIOPI's C interface as data and says which C calls carry
// out an operator.
//
// The interface (DIOPI 1.0.0, proto/include/diopi) is abi.json: 568 functions
// with their parameters, and the enumerations. A recipe turns a call of one of
// the functions of DIOPI's test kit, whose names and keywords are those of
// PyTorch, into a [Plan]: the C calls with all arguments by parameter name, and
// which of them are results. Nothing here loads a library; package devicebridge
// carries plans out.
package diopi
