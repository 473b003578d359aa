#include <cstring>

#include "runtime.h"

diopiGenerator::diopiGenerator(diopiContext& c, uint64_t s, uint64_t o) : context(c), state(2 * sizeof(uint64_t)) { setSeedAndOffset(s, o); }

void diopiGenerator::setSeedAndOffset(uint64_t s, uint64_t o) {
  seed = s, offset = o;
  if (state.size() == 2 * sizeof(uint64_t)) {
    std::memcpy(state.data(), &s, sizeof s);
    std::memcpy(state.data() + sizeof s, &o, sizeof o);
  }
}

extern "C" {

diopiError_t diopiGeneratorGetState(diopiContextHandle_t ctx, diopiConstGeneratorHandle_t th, diopiTensorHandle_t* data) {
  if (!ctx || !th || !data) return diopiErrorOccurred;
  int64_t n = static_cast<int64_t>(th->state.size());
  diopiSize_t size{&n, 1};
  diopiError_t code;
  diopiTensor* t = ctx->requireTensor(&size, nullptr, diopi_dtype_uint8, diopi_device, &code);
  if (!t) return code;
  if (ctx->device.isHostMemory()) {
    std::memcpy(t->data, th->state.data(), th->state.size());
  } else {
    diopiStreamHandle_t stream;
    if (code = ctx->getStream(&stream); code != diopiSuccess) return code;
    if (code = ctx->device.h2d(stream, t->data, th->state.data(), th->state.size()); code != diopiSuccess) return code;
    if (code = ctx->synchronize(); code != diopiSuccess) return code;
  }
  *data = t;
  return diopiSuccess;
}

diopiError_t diopiGeneratorSetState(diopiGeneratorHandle_t th, diopiConstTensorHandle_t state) {
  if (!th || !state || !state->data) return diopiErrorOccurred;
  std::vector<char> bytes(state->nbytes);
  diopiContext& ctx = th->context;
  if (state->device == diopi_host || ctx.device.isHostMemory()) {
    std::memcpy(bytes.data(), state->data, bytes.size());
  } else {
    diopiStreamHandle_t stream;
    if (diopiError_t e = ctx.getStream(&stream); e != diopiSuccess) return e;
    if (diopiError_t e = ctx.device.d2h(stream, bytes.data(), state->data, bytes.size()); e != diopiSuccess) return e;
    if (diopiError_t e = ctx.synchronize(); e != diopiSuccess) return e;
  }
  th->state = std::move(bytes);
  if (th->state.size() == 2 * sizeof(uint64_t)) {
    std::memcpy(&th->seed, th->state.data(), sizeof th->seed);
    std::memcpy(&th->offset, th->state.data() + sizeof th->seed, sizeof th->offset);
  }
  return diopiSuccess;
}

diopiError_t diopiGeneratorGetSeedAndOffset(diopiGeneratorHandle_t th, uint64_t* seed, uint64_t* offset) {
  if (!th || !seed || !offset) return diopiErrorOccurred;
  *seed = th->seed;
  *offset = th->offset;
  return diopiSuccess;
}

diopiError_t diopiGeneratorSetSeedAndOffset(diopiGeneratorHandle_t th, uint64_t seed, uint64_t offset) {
  if (!th) return diopiErrorOccurred;
  th->setSeedAndOffset(seed, offset);
  return diopiSuccess;
}

}  // extern "C"
