// Plain C entry points to the runtime, for driving a device library from one
// process (a C++ test, Python's ctypes, a benchmark) without the worker.
// build/libdiopirt.so exports them beside the calls of DIOPI's runtime. Open it
// with RTLD_GLOBAL before the device library. Device memory is host memory.
//
//   rt  = ctypes.CDLL("build/libdiopirt.so", mode=ctypes.RTLD_GLOBAL)
//   dev = ctypes.CDLL("build/libdiopi_host.so")
//   ctx = rt.optool_context_new()                       # restype c_void_p
//   x   = rt.optool_tensor(ctx, data, dtype, ndim, shape, stride)
//   code = dev.diopiExp(ctx, out, x)

#ifndef OPTOOL_RUNTIME_DIRECT_H_
#define OPTOOL_RUNTIME_DIRECT_H_

#pragma GCC visibility push(default)
#include "../include/diopi.h"

#ifdef __cplusplus
extern "C" {
#endif

diopiContextHandle_t optool_context_new(void);
// Takes back every tensor made through ctx, also those operators asked for.
void optool_context_clear(diopiContextHandle_t ctx);
void optool_context_free(diopiContextHandle_t ctx);

// A tensor over memory of the caller, who keeps it alive. Without data the
// context allocates it; without stride it is dense row-major. dtype is a
// diopiDtype_t. Null if the arguments are wrong.
diopiTensorHandle_t optool_tensor(diopiContextHandle_t ctx, void* data, int dtype, int64_t ndim, const int64_t* shape, const int64_t* stride);
// The same as a tensor of diopi_host.
diopiTensorHandle_t optool_host_tensor(diopiContextHandle_t ctx, void* data, int dtype, int64_t ndim, const int64_t* shape, const int64_t* stride);
// A sparse tensor (CSR) of the shape given over its three parts.
diopiTensorHandle_t optool_csr_tensor(diopiContextHandle_t ctx, int64_t ndim, const int64_t* shape, diopiTensorHandle_t crow, diopiTensorHandle_t col,
                                      diopiTensorHandle_t values);

diopiGeneratorHandle_t optool_generator_new(diopiContextHandle_t ctx, uint64_t seed, uint64_t offset);
void optool_generator_free(diopiGeneratorHandle_t g);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
