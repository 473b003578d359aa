// The built-in device: a DIOPI library whose kernels run on the CPU at native
// precision. This header is what every kernel starts from: dtypes and the half
// types, a view of a tensor handle, errors, and how code is chosen by dtype.
//
// An entry point is a body inside guard(), which turns an Error (or anything
// else thrown) into a DIOPI code and the text of diopiGetLastErrorString:
//
//   diopiError_t diopiNeg(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input) {
//     return guard(__func__, [&] { ... });
//   }
#ifndef OPTOOL_HOST_H_
#define OPTOOL_HOST_H_

#include <complex>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

// The operators are what the library exports; all else is hidden.
#pragma GCC visibility push(default)
#include "../include/diopi.h"
#pragma GCC visibility pop

namespace host {

using Dtype = diopiDtype_t;

// ---- errors ----

// Error carries a DIOPI code out of a kernel; guard() catches it.
struct Error {
  diopiError_t code;
  std::string message;
};

// fail throws an Error; its message is one lower-case clause.
[[noreturn]] void fail(const std::string& message, diopiError_t code = diopiErrorOccurred);

// unsupported throws code diopiDtypeNotSupported.
[[noreturn]] void unsupported(Dtype dtype);

inline void check(bool ok, const char* message) {
  if (!ok) fail(message);
}

// report, inside a catch handler, stores the text of the exception in flight
// for diopiGetLastErrorString and returns its code.
diopiError_t report(const char* function) noexcept;

// guard runs the body of an entry point; no exception leaves it.
template <class F>
diopiError_t guard(const char* function, F&& body) noexcept {
  try {
    body();
    return diopiSuccess;
  } catch (...) {
    return report(function);
  }
}

// ---- half types: storage of 16 bits, arithmetic in float ----

template <class To, class From>
inline To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

struct Half {
  uint16_t bits;
  Half() = default;
  // Rounds to nearest, ties to even.
  explicit Half(float f) {
    uint32_t x = bitCast<uint32_t>(f);
    const uint32_t sign = x >> 16 & 0x8000;
    x &= 0x7fffffff;
    uint32_t h;
    if (x >= 0x477ff000) {  // 65520 and above, infinity, NaN
      h = x > 0x7f800000 ? 0x7e00 : 0x7c00;
    } else if (x < 0x38800000) {  // below the smallest normal: the adder of 0.5 rounds to its last bit, 2^-24
      h = bitCast<uint32_t>(bitCast<float>(x) + 0.5f) - 0x3f000000;
    } else {
      h = (x + 0xc8000fff + (x >> 13 & 1)) >> 13;
    }
    bits = static_cast<uint16_t>(sign | h);
  }
  operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    uint32_t x = static_cast<uint32_t>(bits & 0x7fff) << 13;
    if (x >= 0x0f800000) {
      x += 0x70000000;  // infinity, NaN
    } else if (x < 0x00800000) {
      return bitCast<float>(sign | bitCast<uint32_t>(bitCast<float>(x + 0x38800000) - bitCast<float>(0x38800000u)));
    } else {
      x += 0x38000000;
    }
    return bitCast<float>(sign | x);
  }
};

struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  // Rounds to nearest, ties to even.
  explicit BFloat16(float f) {
    const uint32_t x = bitCast<uint32_t>(f);
    bits = static_cast<uint16_t>(f != f ? 0x7fc0 | (x >> 16 & 0x8000) : (x + 0x7fff + (x >> 16 & 1)) >> 16);
  }
  operator float() const { return bitCast<float>(static_cast<uint32_t>(bits) << 16); }
};

using complex64 = std::complex<float>;
using complex128 = std::complex<double>;

// ---- dtypes ----

const char* name(Dtype dtype);

// itemsize in bytes; throws for dtypes without storage here.
int64_t itemsize(Dtype dtype);

inline bool isComplex(Dtype d) { return d == diopi_dtype_complex64 || d == diopi_dtype_complex128; }
inline bool isFloating(Dtype d) {
  return d == diopi_dtype_float32 || d == diopi_dtype_float64 || d == diopi_dtype_float16 || d == diopi_dtype_bfloat16;
}
inline bool isIntegral(Dtype d) { return d <= diopi_dtype_uint64 || d == diopi_dtype_bool; }

// promote returns the dtype in which torch computes with a and b.
Dtype promote(Dtype a, Dtype b);

template <class T>
constexpr Dtype dtypeOf() {
  if constexpr (std::is_same_v<T, int8_t>) return diopi_dtype_int8;
  else if constexpr (std::is_same_v<T, uint8_t>) return diopi_dtype_uint8;
  else if constexpr (std::is_same_v<T, int16_t>) return diopi_dtype_int16;
  else if constexpr (std::is_same_v<T, uint16_t>) return diopi_dtype_uint16;
  else if constexpr (std::is_same_v<T, int32_t>) return diopi_dtype_int32;
  else if constexpr (std::is_same_v<T, uint32_t>) return diopi_dtype_uint32;
  else if constexpr (std::is_same_v<T, int64_t>) return diopi_dtype_int64;
  else if constexpr (std::is_same_v<T, uint64_t>) return diopi_dtype_uint64;
  else if constexpr (std::is_same_v<T, Half>) return diopi_dtype_float16;
  else if constexpr (std::is_same_v<T, BFloat16>) return diopi_dtype_bfloat16;
  else if constexpr (std::is_same_v<T, float>) return diopi_dtype_float32;
  else if constexpr (std::is_same_v<T, double>) return diopi_dtype_float64;
  else if constexpr (std::is_same_v<T, bool>) return diopi_dtype_bool;
  else if constexpr (std::is_same_v<T, complex64>) return diopi_dtype_complex64;
  else {
    static_assert(std::is_same_v<T, complex128>, "not the storage of a dtype");
    return diopi_dtype_complex128;
  }
}

// The visit functions call f with a zero of the type to compute in: float for
// float16, bfloat16 and float32, double for float64, int64_t for bool and the
// integers (stores wrap, so sums and products are right for every width),
// std::complex. Other dtypes are refused. uint64 has no arithmetic, as in torch.
//
//   visitReal(input.dtype, [&](auto zero) { using C = decltype(zero); ... });

template <class F>
void visitFloat(Dtype d, F&& f) {
  switch (d) {
    case diopi_dtype_float16:
    case diopi_dtype_bfloat16:
    case diopi_dtype_float32: return f(float{});
    case diopi_dtype_float64: return f(double{});
    default: unsupported(d);
  }
}

template <class F>
void visitReal(Dtype d, F&& f) {
  if (isIntegral(d) && d != diopi_dtype_uint64) return f(int64_t{});
  visitFloat(d, f);
}

template <class F>
void visitFloatOrComplex(Dtype d, F&& f) {
  if (d == diopi_dtype_complex64) return f(complex64{});
  if (d == diopi_dtype_complex128) return f(complex128{});
  visitFloat(d, f);
}

template <class F>
void visitNumber(Dtype d, F&& f) {
  if (isComplex(d)) return visitFloatOrComplex(d, f);
  visitReal(d, f);
}

// visitSize calls f with an unsigned value as wide as an element, for code
// that only moves elements.
struct Bytes16 {
  uint64_t lo, hi;
};
template <class F>
void visitSize(Dtype d, F&& f) {
  switch (itemsize(d)) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    case 8: return f(uint64_t{});
    default: return f(Bytes16{});
  }
}

// ---- shapes ----

// Dims is a shape or strides, held in place.
struct Dims {
  static constexpr int kMax = 32;
  int n = 0;
  int64_t v[kMax];

  Dims() = default;
  Dims(int rank, int64_t fill);
  Dims(const int64_t* data, int64_t rank);
  Dims(std::initializer_list<int64_t> values);
  explicit Dims(diopiSize_t size) : Dims(size.data, size.len) {}

  int64_t& operator[](int64_t i) { return v[i]; }
  int64_t operator[](int64_t i) const { return v[i]; }
  int64_t* begin() { return v; }
  int64_t* end() { return v + n; }
  const int64_t* begin() const { return v; }
  const int64_t* end() const { return v + n; }
  void push(int64_t x);
  void insert(int at, int64_t x);
  void erase(int at);
  int64_t product() const;
  diopiSize_t size() const { return {v, n}; }
  bool operator==(const Dims& o) const;
  bool operator!=(const Dims& o) const { return !(*this == o); }
};

// rowMajor returns the strides of a dense tensor of this shape.
Dims rowMajor(const Dims& shape);

// broadcast returns the shape both extend to.
Dims broadcast(const Dims& a, const Dims& b);

// text prints a shape as [2, 3].
std::string text(const Dims& dims);

// wrapDim makes a possibly negative dimension an index below rank; a scalar
// counts as rank 1.
int wrapDim(int64_t dim, int64_t rank);

// ---- tensors ----

// Tensor is a view of a handle: where the elements are, not their owner.
// Strides are in elements and may be 0 or out of order.
struct Tensor {
  diopiConstTensorHandle_t handle = nullptr;
  char* data = nullptr;
  Dtype dtype = diopi_dtype_unsupported;
  Dims shape, stride;
  int64_t numel = 0;

  Tensor() = default;
  // A null handle gives a view that is not defined.
  Tensor(diopiConstTensorHandle_t handle);
  Tensor(void* data, Dtype dtype, const Dims& shape, const Dims& stride);
  Tensor(void* data, Dtype dtype, const Dims& shape) : Tensor(data, dtype, shape, rowMajor(shape)) {}

  explicit operator bool() const { return dtype != diopi_dtype_unsupported; }
  int dim() const { return shape.n; }
  int64_t size(int64_t d) const { return shape[d]; }
  int64_t itemsize() const { return host::itemsize(dtype); }
  template <class T>
  T* ptr() const {
    return reinterpret_cast<T*>(data);
  }
  bool contiguous() const;

  // Views.
  Tensor expand(const Dims& to) const;            // broadcasts to a shape
  Tensor select(int d, int64_t index) const;      // drops dimension d
  Tensor narrow(int d, int64_t start, int64_t length, int64_t step = 1) const;
  Tensor transpose(int a, int b) const;
  Tensor permute(const Dims& order) const;
  Tensor unsqueeze(int d) const;
};

// promote two tensors' dtypes as torch does: one of rank 0 only counts if its
// category (bool, integer, floating point, complex) is the higher.
Dtype promote(const Tensor& a, const Tensor& b);

// isNull tells whether an optional tensor argument was not given.
inline bool isNull(diopiConstTensorHandle_t handle) { return handle == nullptr; }

// requireTensor makes a tensor that the context owns, dense unless strides are given.
diopiTensorHandle_t requireTensor(diopiContextHandle_t ctx, const Dims& shape, Dtype dtype);

// copy writes src, broadcast and converted, to dst. They must not overlap
// unless they are the same.
void copy(const Tensor& dst, const Tensor& src);

// fill sets all elements.
void fill(const Tensor& dst, diopiScalar_t value);
void fillZero(const Tensor& dst);

// ---- scalars ----

inline bool isIntegral(const diopiScalar_t& s) { return s.stype <= diopi_dtype_uint64; }
inline double asDouble(const diopiScalar_t& s) { return isIntegral(s) ? static_cast<double>(s.ival) : s.fval; }
inline int64_t asInt(const diopiScalar_t& s) { return isIntegral(s) ? s.ival : static_cast<int64_t>(s.fval); }
template <class C>
C as(const diopiScalar_t& s) {
  if constexpr (std::is_same_v<C, int64_t>) return asInt(s);
  else if constexpr (std::is_same_v<C, bool>) return asDouble(s) != 0;
  else return C(asDouble(s));
}
inline diopiScalar_t scalar(double value) {
  diopiScalar_t s;
  s.stype = diopi_dtype_float64;
  s.fval = value;
  return s;
}
inline diopiScalar_t scalar(int64_t value) {
  diopiScalar_t s;
  s.stype = diopi_dtype_int64;
  s.ival = value;
  return s;
}

// promote a tensor's dtype with a scalar as torch does: only a scalar of a
// higher category changes it.
Dtype promote(Dtype tensor, const diopiScalar_t& s);

// floatType is the dtype to compute a floating-point function in: float64 or
// complex when one of the two is, float32 otherwise (the integers' default).
Dtype floatType(Dtype a, Dtype b);

}  // namespace host

#endif  // OPTOOL_HOST_H_
