// Package numpypickle reads and writes the files of DIOPI's baseline data:
// pickles of protocol 4 that hold numpy arrays, numpy scalar types and plain
// Python values.
//
// Values are those of package value. A numpy array is a *tensor.Tensor whose
// Device is "numpy", row-major or column-major; a numpy scalar type used as a
// value (numpy.float32) is a tensor.DType.
//
// # Writing
//
// Write puts down what CPython's pickler and numpy 1.24 would: the same
// opcodes, frames, memo and reduction of arrays, so that a file that was read
// and is written again is the same byte for byte. What Python decides by the
// identity of objects is decided here by the identity of pointers for lists,
// tuples and dicts and by content for strings (Python interns the ones that
// occur in configurations) and array dtypes (numpy has one object of each).
package numpypickle
