// Tensor views, shapes, dtypes, errors, and the library's three info strings.
#include "host.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>

namespace host {

namespace {

// A plain array, so that threads need no destructor and the library can be unloaded.
thread_local char lastError[512] = "";

diopiError_t remember(const char* function, const char* message, diopiError_t code) noexcept {
  std::snprintf(lastError, sizeof lastError, "%s: %s", function, message);
  return code;
}

void must(diopiError_t code, const char* call) {
  if (code != diopiSuccess) fail(std::string(call) + " failed with code " + std::to_string(code));
}

}  // namespace

void fail(const std::string& message, diopiError_t code) { throw Error{code, message}; }

void unsupported(Dtype dtype) {
  fail(std::string("dtype ") + name(dtype) + " is not supported", diopiDtypeNotSupported);
}

diopiError_t report(const char* function) noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return remember(function, e.message.c_str(), e.code);
  } catch (const std::bad_alloc&) {
    return remember(function, "out of memory", diopiErrorOccurred);
  } catch (const std::exception& e) {
    return remember(function, e.what(), diopiErrorOccurred);
  } catch (...) {
    return remember(function, "unknown exception", diopiErrorOccurred);
  }
}

const char* name(Dtype dtype) {
  switch (dtype) {
    case diopi_dtype_int8: return "int8";
    case diopi_dtype_uint8: return "uint8";
    case diopi_dtype_int16: return "int16";
    case diopi_dtype_uint16: return "uint16";
    case diopi_dtype_int32: return "int32";
    case diopi_dtype_uint32: return "uint32";
    case diopi_dtype_int64: return "int64";
    case diopi_dtype_uint64: return "uint64";
    case diopi_dtype_float16: return "float16";
    case diopi_dtype_float32: return "float32";
    case diopi_dtype_float64: return "float64";
    case diopi_dtype_bool: return "bool";
    case diopi_dtype_bfloat16: return "bfloat16";
    case diopi_dtype_tfloat32: return "tfloat32";
    case diopi_dtype_complex32: return "complex32";
    case diopi_dtype_complex64: return "complex64";
    case diopi_dtype_complex128: return "complex128";
    default: return "unknown";
  }
}

int64_t itemsize(Dtype dtype) {
  switch (dtype) {
    case diopi_dtype_int8:
    case diopi_dtype_uint8:
    case diopi_dtype_bool: return 1;
    case diopi_dtype_int16:
    case diopi_dtype_uint16:
    case diopi_dtype_float16:
    case diopi_dtype_bfloat16: return 2;
    case diopi_dtype_int32:
    case diopi_dtype_uint32:
    case diopi_dtype_float32: return 4;
    case diopi_dtype_int64:
    case diopi_dtype_uint64:
    case diopi_dtype_float64:
    case diopi_dtype_complex64: return 8;
    case diopi_dtype_complex128: return 16;
    default: unsupported(dtype);
  }
}

static int category(Dtype d) { return isComplex(d) ? 3 : isFloating(d) ? 2 : d == diopi_dtype_bool ? 0 : 1; }

Dtype promote(const Tensor& a, const Tensor& b) {
  if (a.dim() > 0 && b.dim() == 0 && category(b.dtype) <= category(a.dtype)) return a.dtype;
  if (b.dim() > 0 && a.dim() == 0 && category(a.dtype) <= category(b.dtype)) return b.dtype;
  return promote(a.dtype, b.dtype);
}

Dtype promote(Dtype a, Dtype b) {
  if (a == b) return a;
  const int ca = category(a), cb = category(b);
  if (ca < cb) std::swap(a, b);
  const int high = std::max(ca, cb);
  if (high == 3) {
    const bool wide = a == diopi_dtype_complex128 || b == diopi_dtype_complex128 || b == diopi_dtype_float64;
    return wide ? diopi_dtype_complex128 : diopi_dtype_complex64;
  }
  if (ca != cb) return a;
  const int64_t sa = itemsize(a), sb = itemsize(b);
  if (high == 2) return sa == sb ? diopi_dtype_float32 : sa > sb ? a : b;  // float16 and bfloat16 meet in float32
  const auto isSigned = [](Dtype d) { return d % 2 == 0; };
  if (isSigned(a) == isSigned(b)) return sa > sb ? a : b;
  const Dtype s = isSigned(a) ? a : b, u = isSigned(a) ? b : a;
  if (itemsize(s) > itemsize(u)) return s;
  switch (itemsize(u)) {
    case 1: return diopi_dtype_int16;
    case 2: return diopi_dtype_int32;
    default: return diopi_dtype_int64;
  }
}

Dtype promote(Dtype tensor, const diopiScalar_t& s) {
  if (isIntegral(s)) return tensor == diopi_dtype_bool ? diopi_dtype_int64 : tensor;
  return isIntegral(tensor) ? diopi_dtype_float32 : tensor;
}

Dtype floatType(Dtype a, Dtype b) {
  const Dtype p = promote(a, b);
  return isIntegral(p) ? diopi_dtype_float32 : p;
}

Dims::Dims(int rank, int64_t fill) : n(rank) {
  check(rank <= kMax, "tensors of more than 32 dimensions are not supported");
  std::fill(begin(), end(), fill);
}

Dims::Dims(const int64_t* data, int64_t rank) : Dims(static_cast<int>(std::min<int64_t>(rank, kMax + 1)), 0) {
  std::copy(data, data + n, v);
}

Dims::Dims(std::initializer_list<int64_t> values) : Dims(values.begin(), static_cast<int64_t>(values.size())) {}

void Dims::push(int64_t x) { insert(n, x); }

void Dims::insert(int at, int64_t x) {
  check(n < kMax, "tensors of more than 32 dimensions are not supported");
  std::copy_backward(v + at, v + n, v + n + 1);
  v[at] = x;
  n++;
}

void Dims::erase(int at) {
  std::copy(v + at + 1, v + n, v + at);
  n--;
}

int64_t Dims::product() const {
  int64_t p = 1;
  for (int64_t x : *this) p *= x;
  return p;
}

bool Dims::operator==(const Dims& o) const { return n == o.n && std::equal(begin(), end(), o.begin()); }

Dims rowMajor(const Dims& shape) {
  Dims stride(shape.n, 1);
  for (int i = shape.n - 2; i >= 0; i--) stride[i] = stride[i + 1] * std::max<int64_t>(shape[i + 1], 1);
  return stride;
}

Dims broadcast(const Dims& a, const Dims& b) {
  Dims out(std::max(a.n, b.n), 1);
  for (int i = 1; i <= out.n; i++) {
    const int64_t x = i <= a.n ? a[a.n - i] : 1, y = i <= b.n ? b[b.n - i] : 1;
    if (x != y && x != 1 && y != 1) fail("shapes " + text(a) + " and " + text(b) + " do not broadcast");
    out[out.n - i] = x == 1 ? y : x;
  }
  return out;
}

std::string text(const Dims& dims) {
  std::string s = "[";
  for (int i = 0; i < dims.n; i++) s += (i ? ", " : "") + std::to_string(dims[i]);
  return s + "]";
}

int wrapDim(int64_t dim, int64_t rank) {
  const int64_t n = std::max<int64_t>(rank, 1);
  if (dim < -n || dim >= n) fail("dimension " + std::to_string(dim) + " is out of range for rank " + std::to_string(rank));
  return static_cast<int>(dim < 0 ? dim + n : dim);
}

Tensor::Tensor(diopiConstTensorHandle_t h) : handle(h) {
  if (!h) return;
  diopiSize_t sz, st;
  const void* p = nullptr;
  must(diopiGetTensorDtype(h, &dtype), "diopiGetTensorDtype");
  must(diopiGetTensorShape(h, &sz), "diopiGetTensorShape");
  must(diopiGetTensorStride(h, &st), "diopiGetTensorStride");
  must(diopiGetTensorDataConst(h, &p), "diopiGetTensorDataConst");
  if (dtype == diopi_dtype_tfloat32) dtype = diopi_dtype_float32;
  data = static_cast<char*>(const_cast<void*>(p));
  shape = Dims(sz);
  stride = Dims(st);
  numel = shape.product();
}

Tensor::Tensor(void* d, Dtype t, const Dims& sh, const Dims& st)
    : data(static_cast<char*>(d)), dtype(t), shape(sh), stride(st), numel(sh.product()) {}

bool Tensor::contiguous() const {
  int64_t expected = 1;
  for (int i = shape.n - 1; i >= 0; i--) {
    if (shape[i] == 1) continue;
    if (stride[i] != expected && numel != 0) return false;
    expected *= shape[i];
  }
  return true;
}

Tensor Tensor::expand(const Dims& to) const {
  if (shape == to) return *this;
  Tensor t = *this;
  t.shape = to;
  t.stride = Dims(to.n, 0);
  t.numel = to.product();
  bool ok = to.n >= shape.n;
  for (int i = 1; ok && i <= shape.n; i++) {
    const int64_t have = shape[shape.n - i];
    ok = have == to[to.n - i] || have == 1;
    t.stride[to.n - i] = have == 1 ? 0 : stride[shape.n - i];
  }
  if (!ok) fail("shape " + text(shape) + " does not broadcast to " + text(to));
  return t;
}

Tensor Tensor::select(int d, int64_t index) const {
  Tensor t = *this;
  t.data += index * stride[d] * itemsize();
  t.shape.erase(d);
  t.stride.erase(d);
  t.numel = t.shape.product();
  return t;
}

Tensor Tensor::narrow(int d, int64_t start, int64_t length, int64_t step) const {
  Tensor t = *this;
  t.data += start * stride[d] * itemsize();
  t.shape[d] = length;
  t.stride[d] *= step;
  t.numel = t.shape.product();
  return t;
}

Tensor Tensor::transpose(int a, int b) const {
  Tensor t = *this;
  if (a == b) return t;
  std::swap(t.shape[a], t.shape[b]);
  std::swap(t.stride[a], t.stride[b]);
  return t;
}

Tensor Tensor::permute(const Dims& order) const {
  check(order.n == shape.n, "permutation and tensor differ in rank");
  Tensor t = *this;
  for (int i = 0; i < order.n; i++) {
    t.shape[i] = shape[order[i]];
    t.stride[i] = stride[order[i]];
  }
  return t;
}

Tensor Tensor::unsqueeze(int d) const {
  Tensor t = *this;
  t.shape.insert(d, 1);
  t.stride.insert(d, 0);
  return t;
}

diopiTensorHandle_t requireTensor(diopiContextHandle_t ctx, const Dims& shape, Dtype dtype) {
  diopiTensorHandle_t out = nullptr;
  const diopiSize_t size = shape.size();
  must(diopiRequireTensor(ctx, &out, &size, nullptr, dtype, diopi_device), "diopiRequireTensor");
  return out;
}

}  // namespace host

extern "C" {
const char* diopiGetVendorName(void) { return "host"; }
const char* diopiGetImplVersion(void) { return "1.0.0"; }
const char* diopiGetLastErrorString(void) { return host::lastError; }
}
