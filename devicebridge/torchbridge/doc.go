// Package torchbridge runs operator calls on a device that PyTorch reaches: the
// processor, CUDA, or what a plugin brings (torch_npu, torch_mlu, torch_musa, ...).
//
// Optool holds no PyTorch. It starts the user's Python on worker.py. This package
// embeds worker.py, which needs the standard library and torch 1.13 or newer. A
// request names a function and the place of its tensors in shared memory. The worker
// makes the tensors on the device, with the strides and the sharing of memory that
// the call had. It calls the function, waits for the device and answers. It checks
// whether the call wrote around tensors or into arguments that are only read, and
// whether it left its thread in another floating-point mode.
//
// Nothing that comes from a file is executed: the names of functions are those of
// optool's operators, or those that the user maps.
//
// # Ownership and threads
//
// A [Device] may be used from several goroutines; each of its workers runs one call
// at a time. A worker that crashes, hangs or ends costs the call that it ran; the
// next call finds a fresh one. Close ends them; should optool die without it, they
// end themselves.
//
// # Non-goals
//
// No judgement of numbers (package replay), no knowledge of operators beyond names.
package torchbridge
