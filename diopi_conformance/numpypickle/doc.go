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
// Write produces the bytes of CPython's pickler and numpy 1.24: the same opcodes,
// frames, memo and reduction of arrays. So a file that was read and is written
// again is the same byte for byte. Python decides by the identity of objects. Write
// decides by the identity of pointers for lists, tuples and dicts. It decides by
// content for strings, since Python interns those of configurations, and for array
// dtypes, since numpy has one object of each.
package numpypickle
