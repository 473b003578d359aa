#include <cstdio>
#include <cstdlib>

#include "runtime.h"

int64_t optool::itemSize(diopiDtype_t dtype) {
  switch (dtype) {
    case diopi_dtype_int8:
    case diopi_dtype_uint8:
    case diopi_dtype_bool:
      return 1;
    case diopi_dtype_int16:
    case diopi_dtype_uint16:
    case diopi_dtype_float16:
    case diopi_dtype_bfloat16:
      return 2;
    case diopi_dtype_int32:
    case diopi_dtype_uint32:
    case diopi_dtype_float32:
    case diopi_dtype_tfloat32:
    case diopi_dtype_complex32:
      return 4;
    case diopi_dtype_int64:
    case diopi_dtype_uint64:
    case diopi_dtype_float64:
    case diopi_dtype_complex64:
      return 8;
    case diopi_dtype_complex128:
      return 16;
    default:
      return 0;
  }
}

bool diopiTensor::setLayout(diopiDtype_t type, const diopiSize_t* size, const diopiSize_t* strides) {
  int64_t item = optool::itemSize(type);
  if (item == 0 || size == nullptr || size->len < 0 || (size->len > 0 && size->data == nullptr)) return false;
  bool given = strides != nullptr && strides->data != nullptr;
  if (given && strides->len != size->len) return false;
  dtype = type;
  shape.assign(size->data, size->data + size->len);
  stride.resize(shape.size());
  int64_t product = 1, last = 1;  // last: one past the last element reached
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] < 0) return false;
    stride[i] = given ? strides->data[i] : product;
    int64_t reach;
    if (stride[i] < 0 || __builtin_mul_overflow(product, shape[i], &product) ||
        __builtin_mul_overflow(shape[i] - 1, stride[i], &reach) || __builtin_add_overflow(last, reach, &last)) {
      return false;
    }
  }
  numel = product;
  int64_t bytes;
  if (__builtin_mul_overflow(numel == 0 ? 0 : last, item, &bytes)) return false;
  nbytes = static_cast<size_t>(bytes);
  return true;
}

diopiContext::~diopiContext() {
  if (hasStream_ && device.destroyStream) device.destroyStream(stream_);
}

diopiTensor* diopiContext::newTensor() {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  return &tensors_.emplace_back();
}

diopiTensor* diopiContext::requireTensor(const diopiSize_t* size, const diopiSize_t* stride, diopiDtype_t dtype, diopiDevice_t where, diopiError_t* code) {
  static const bool log = [] {
    const char* level = std::getenv("DIOPIRT_LOG_LEVEL");
    return level != nullptr && std::atoi(level) != 0;
  }();
  diopiTensor t;
  if (!t.setLayout(dtype, size, stride) || (where != diopi_host && where != diopi_device)) {
    *code = optool::itemSize(dtype) == 0 ? diopiDtypeNotSupported : diopiErrorOccurred;
    return nullptr;
  }
  t.device = where;
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  if (ended_) {
    *code = diopiErrorOccurred;
    return nullptr;
  }
  t.data = memory.allocate(*this, where, t.nbytes);
  if (t.data == nullptr) {
    *code = diopiErrorOccurred;
    return nullptr;
  }
  if (log) {
    std::fprintf(stderr, "diopiRequireTensor: dtype %d, %zu bytes, %s, shape [", static_cast<int>(dtype), t.nbytes, where == diopi_host ? "host" : "device");
    for (size_t i = 0; i < t.shape.size(); i++) std::fprintf(stderr, i ? ", %lld" : "%lld", static_cast<long long>(t.shape[i]));
    std::fprintf(stderr, "]\n");
  }
  *code = diopiSuccess;
  return &tensors_.emplace_back(std::move(t));
}

diopiError_t diopiContext::getStream(diopiStreamHandle_t* out) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  if (ended_) return diopiErrorOccurred;
  if (!hasStream_) {
    if (device.makeStream) {
      if (diopiError_t e = device.makeStream(&stream_); e != diopiSuccess) return e;
    }
    hasStream_ = true;
  }
  *out = stream_;
  return diopiSuccess;
}

diopiError_t diopiContext::synchronize() {
  if (!hasStream_ || !device.synchronize) return diopiSuccess;
  return device.synchronize(stream_);
}

void diopiContext::clear() {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  tensors_.clear();
  memory.releaseAll();
}

void diopiContext::end() {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  if (ended_) return;
  ended_ = true;
  memory.releaseAll();
  if (hasStream_ && device.destroyStream) device.destroyStream(stream_);
  hasStream_ = false;
}

// The calls of diopirt.h. A null handle or pointer is an error, not a crash.

extern "C" {

const char* diopiGetVersion() { return "DIOPI Version: 1.0.0"; }

diopiError_t diopiGetTensorData(diopiTensorHandle_t th, void** data) {
  if (!th || !data) return diopiErrorOccurred;
  *data = th->data;
  return diopiSuccess;
}

diopiError_t diopiGetTensorDataConst(diopiConstTensorHandle_t th, const void** data) {
  if (!th || !data) return diopiErrorOccurred;
  *data = th->data;
  return diopiSuccess;
}

diopiError_t diopiGetTensorShape(diopiConstTensorHandle_t th, diopiSize_t* size) {
  if (!th || !size) return diopiErrorOccurred;
  *size = {th->shape.data(), static_cast<int64_t>(th->shape.size())};
  return diopiSuccess;
}

diopiError_t diopiGetTensorStride(diopiConstTensorHandle_t th, diopiSize_t* stride) {
  if (!th || !stride) return diopiErrorOccurred;
  *stride = {th->stride.data(), static_cast<int64_t>(th->stride.size())};
  return diopiSuccess;
}

diopiError_t diopiGetTensorDtype(diopiConstTensorHandle_t th, diopiDtype_t* dtype) {
  if (!th || !dtype) return diopiErrorOccurred;
  *dtype = th->dtype;
  return diopiSuccess;
}

diopiError_t diopiGetTensorDevice(diopiConstTensorHandle_t th, diopiDevice_t* device) {
  if (!th || !device) return diopiErrorOccurred;
  *device = th->device;
  return diopiSuccess;
}

diopiError_t diopiGetTensorNumel(diopiConstTensorHandle_t th, int64_t* numel) {
  if (!th || !numel) return diopiErrorOccurred;
  *numel = th->numel;
  return diopiSuccess;
}

diopiError_t diopiGetTensorElemSize(diopiConstTensorHandle_t th, int64_t* itemsize) {
  if (!th || !itemsize) return diopiErrorOccurred;
  *itemsize = optool::itemSize(th->dtype);
  return *itemsize == 0 ? diopiErrorOccurred : diopiSuccess;
}

diopiError_t diopiGetTensorStoragePtr(diopiConstTensorHandle_t th, void** storage) {
  if (!th || !storage) return diopiErrorOccurred;
  *storage = th->data;
  return diopiSuccess;
}

diopiError_t diopiGetTensorStorageOffset(diopiConstTensorHandle_t th, int64_t* offset) {
  if (!th || !offset) return diopiErrorOccurred;
  *offset = 0;
  return diopiSuccess;
}

diopiError_t diopiGetTensorStorageNbytes(diopiConstTensorHandle_t th, size_t* nbytes) {
  if (!th || !nbytes) return diopiErrorOccurred;
  *nbytes = th->nbytes;
  return diopiSuccess;
}

diopiError_t diopiGetTensorDeviceIndex(diopiConstTensorHandle_t th, diopiDeviceIndex_t* index) {
  if (!th || !index) return diopiErrorOccurred;
  *index = 0;
  return diopiSuccess;
}

diopiError_t diopiGetCurrentDeviceIndex(diopiDeviceIndex_t* index) {
  if (!index) return diopiErrorOccurred;
  *index = 0;
  return diopiSuccess;
}

diopiError_t diopiIsTensorSparse(diopiConstTensorHandle_t th, bool* sparse) {
  if (!th || !sparse) return diopiErrorOccurred;
  *sparse = th->isSparse();
  return diopiSuccess;
}

diopiError_t diopiGetTensorCrowIndices(diopiConstTensorHandle_t th, diopiConstTensorHandle_t* part) {
  if (!th || !part || !th->isSparse()) return diopiErrorOccurred;
  *part = th->crow;
  return diopiSuccess;
}

diopiError_t diopiGetTensorColIndices(diopiConstTensorHandle_t th, diopiConstTensorHandle_t* part) {
  if (!th || !part || !th->isSparse()) return diopiErrorOccurred;
  *part = th->col;
  return diopiSuccess;
}

diopiError_t diopiGetTensorValues(diopiConstTensorHandle_t th, diopiConstTensorHandle_t* part) {
  if (!th || !part || !th->isSparse()) return diopiErrorOccurred;
  *part = th->values;
  return diopiSuccess;
}

diopiError_t diopiGetStream(diopiContextHandle_t ctx, diopiStreamHandle_t* stream) {
  if (!ctx || !stream) return diopiErrorOccurred;
  return ctx->getStream(stream);
}

diopiError_t diopiRequireTensor(diopiContextHandle_t ctx, diopiTensorHandle_t* tensor, const diopiSize_t* size, const diopiSize_t* stride,
                                const diopiDtype_t dtype, const diopiDevice_t device) {
  if (!ctx || !tensor) return diopiErrorOccurred;
  diopiError_t code;
  *tensor = ctx->requireTensor(size, stride, dtype, device, &code);
  return code;
}

diopiError_t diopiRequireBuffer(diopiContextHandle_t ctx, diopiTensorHandle_t* tensor, int64_t num_bytes, diopiDevice_t device) {
  diopiSize_t size{&num_bytes, 1};
  return diopiRequireTensor(ctx, tensor, &size, nullptr, diopi_dtype_int8, device);
}

diopiError_t diopiRecordStart(const char*, void**) { return diopiSuccess; }

diopiError_t diopiRecordEnd(void**) { return diopiSuccess; }

}  // extern "C"
