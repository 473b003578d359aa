// Package custom reads operators that users declare themselves, in files of
// Starlark, a small dialect of Python (https://github.com/bazelbuild/starlark):
//
//	op("mylib.swiglu(Tensor x, int dim=-1) -> Tensor",
//	   lambda x, dim: silu(chunk(x, 2, dim)[0]) * chunk(x, 2, dim)[1])
//
// The function says what the operator computes, in the functions that Functions
// lists. Each of these is a primitive of package compose or a composition. Value,
// gradients and error bounds follow as they do for operators declared in Go. The
// operator is checked, listed and replayed like those.
//
// A file is a program without input and output: it cannot read files, the
// environment, the time or the network. The number of its steps is limited. A
// function runs once for every call, with the call's arguments: tensors, numbers,
// words and lists. It sees the shape and dtype of a tensor, not its elements. The
// elements of integer tensors are available by ints.
package custom
