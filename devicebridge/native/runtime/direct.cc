#include "direct.h"

#include "runtime.h"

namespace {

const optool::Device hostDevice;

struct DirectContext : diopiContext {
  DirectContext() : diopiContext(hostDevice, plain), plain(hostDevice) {}
  optool::PlainMemory plain;
};

diopiTensor* make(diopiContext* ctx, diopiDevice_t where, void* data, int dtype, int64_t ndim, const int64_t* shape, const int64_t* stride) {
  diopiSize_t size{shape, ndim}, strides{stride, ndim};
  if (data == nullptr) {
    diopiError_t code;
    return ctx->requireTensor(&size, &strides, static_cast<diopiDtype_t>(dtype), where, &code);
  }
  diopiTensor layout;
  if (!layout.setLayout(static_cast<diopiDtype_t>(dtype), &size, &strides)) return nullptr;
  diopiTensor* t = ctx->newTensor();
  *t = std::move(layout);
  t->device = where;
  t->data = data;
  return t;
}

}  // namespace

extern "C" {

diopiContextHandle_t optool_context_new() { return new DirectContext; }
void optool_context_clear(diopiContextHandle_t ctx) { ctx->clear(); }
void optool_context_free(diopiContextHandle_t ctx) { delete static_cast<DirectContext*>(ctx); }

diopiTensorHandle_t optool_tensor(diopiContextHandle_t ctx, void* data, int dtype, int64_t ndim, const int64_t* shape, const int64_t* stride) {
  return make(ctx, diopi_device, data, dtype, ndim, shape, stride);
}

diopiTensorHandle_t optool_host_tensor(diopiContextHandle_t ctx, void* data, int dtype, int64_t ndim, const int64_t* shape, const int64_t* stride) {
  return make(ctx, diopi_host, data, dtype, ndim, shape, stride);
}

diopiTensorHandle_t optool_csr_tensor(diopiContextHandle_t ctx, int64_t ndim, const int64_t* shape, diopiTensorHandle_t crow, diopiTensorHandle_t col,
                                      diopiTensorHandle_t values) {
  diopiSize_t size{shape, ndim};
  diopiTensor layout;
  if (!crow || !col || !values || !layout.setLayout(values->dtype, &size, nullptr)) return nullptr;
  diopiTensor* t = ctx->newTensor();
  *t = std::move(layout);
  t->crow = crow;
  t->col = col;
  t->values = values;
  t->nbytes = 0;
  return t;
}

diopiGeneratorHandle_t optool_generator_new(diopiContextHandle_t ctx, uint64_t seed, uint64_t offset) { return new diopiGenerator(*ctx, seed, offset); }
void optool_generator_free(diopiGeneratorHandle_t g) { delete g; }

}  // extern "C"
