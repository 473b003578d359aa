// Package tensor holds the arrays optool computes with: PyTorch's dtypes as a
// table, strided tensors over bytes read from files or over computed values,
// views, broadcasting and type promotion.
//
// # Compute types
//
// Kernels never see storage types. Load and Data widen elements exactly to
// float64 (floating dtypes), int64 (integers and bool) or complex128; a
// result keeps its unrounded compute values together with the dtype it will be
// rounded to, once, ties to even, when it is stored or compared. Rounding goes
// straight from float64 to the target: bfloat16 through float32 would round
// twice (1+2^-8+2^-40 must become 1.0078125, not 1).
//
// # Lazy tensors
//
// A tensor may be a function that computes any block of its elements (Lazy).
// An elementwise op over a 12 GB result then costs one block of memory: the
// comparison asks for block after block, rounds it and compares. Whoever needs
// all elements at once (a view, Data) makes the tensor compute itself, in
// parallel, and keep the result.
//
// # Non-goals
//
// No arithmetic on tensors (package ops), no gradients (opdef), no files
// (pthformat). Tensors are immutable.
package tensor
