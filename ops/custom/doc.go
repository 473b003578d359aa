// Package custom reads operators that users declare themselves, in files of
// Starlark, a small dialect of Python (https://github.com/bazelbuild/starlark):
//
//	op("mylib.swiglu(Tensor x, int dim=-1) -> Tensor",
//	   lambda x, dim: silu(chunk(x, 2, dim)[0]) * chunk(x, 2, dim)[1])
//
// The function says what the operator computes, in the functions that Functions
// lists; each is a primitive of package compose or made of them. Value,
// gradients and error bounds follow as they do for operators declared in Go, and
// the operator is checked, listed and replayed like those.
//
// A file is a program without input and output: it cannot read files, the
// environment, the time or the network, and neither it nor a function of it takes
// more than so many steps. A function runs once for every call, with the call's
// arguments: tensors, whose shape and dtype it may look at but not their elements
// (those of integer tensors by ints), and numbers, words and lists.
package custom
