// Arithmetic of two and three operands.
#include "elementwise.h"

namespace host {
namespace {

// number applies op in the type torch computes in: real numbers only, or
// complex ones too.
template <class Op>
void number(const Tensor& out, const Tensor& a, const Tensor& b, Dtype type, Op op) {
  visitNumber(computeType(type, out.dtype), [&](auto zero) {
    using C = decltype(zero);
    map<C>(out, [op](C x, C y) { return op(x, y); }, in<C>(a), in<C>(b));
  });
}

template <class Op>
void real(const Tensor& out, const Tensor& a, const Tensor& b, Dtype type, Op op) {
  visitReal(computeType(type, out.dtype), [&](auto zero) {
    using C = decltype(zero);
    mapCostly<C>(out, [op](C x, C y) -> C { return op(x, y); }, in<C>(a), in<C>(b));
  });
}

// Signed arithmetic that wraps.
template <class C>
C plus(C x, C y) {
  if constexpr (std::is_same_v<C, int64_t>) return static_cast<C>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
  else return x + y;
}
template <class C>
C minus(C x, C y) {
  if constexpr (std::is_same_v<C, int64_t>) return static_cast<C>(static_cast<uint64_t>(x) - static_cast<uint64_t>(y));
  else return x - y;
}
template <class C>
C times(C x, C y) {
  if constexpr (std::is_same_v<C, int64_t>) return static_cast<C>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
  else return x * y;
}

bool isOne(const diopiScalar_t* s) { return !s || asDouble(*s) == 1; }

void addScaled(const Tensor& out, const Tensor& a, const Tensor& b, Dtype type, const diopiScalar_t* alpha, bool subtract) {
  if (isOne(alpha)) {
    if (subtract) return number(out, a, b, type, [](auto x, auto y) { return minus(x, y); });
    return number(out, a, b, type, [](auto x, auto y) { return plus(x, y); });
  }
  visitNumber(computeType(type, out.dtype), [&](auto zero) {
    using C = decltype(zero);
    const C s = subtract ? minus(C(0), as<C>(*alpha)) : as<C>(*alpha);
    map<C>(out, [s](C x, C y) { return plus(x, times(s, y)); }, in<C>(a), in<C>(b));
  });
}

void addTensor(const Tensor& out, const Tensor& a, const Tensor& b, const diopiScalar_t* alpha, bool subtract) {
  addScaled(out, a, b, promote(a, b), alpha, subtract);
}

void addScalar(const Tensor& out, const Tensor& a, const diopiScalar_t& b, const diopiScalar_t* alpha, bool subtract) {
  const Dtype type = promote(a.dtype, b);
  addScaled(out, a, ScalarTensor(b, wide(computeType(type, out.dtype))), type, alpha, subtract);
}

void mul(const Tensor& out, const Tensor& a, const Tensor& b) {
  number(out, a, b, promote(a, b), [](auto x, auto y) { return times(x, y); });
}

void mulScalar(const Tensor& out, const Tensor& a, const diopiScalar_t& b) {
  const Dtype type = promote(a.dtype, b);
  number(out, a, ScalarTensor(b, wide(computeType(type, out.dtype))), type, [](auto x, auto y) { return times(x, y); });
}

// Integer division by zero is an error; by -1 it wraps.
int64_t quotient(int64_t x, int64_t y, bool floor) {
  if (y == 0) fail("integer division by zero");
  if (y == -1) return minus(int64_t{0}, x);
  const int64_t q = x / y;
  return floor && x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}

// The quotient rounded down, exact where fmod is: not floor(x / y), whose
// division may round up to the next integer.
template <class C>
C floorQuotient(C x, C y) {
  if (y == 0) return x / y;
  const C mod = std::fmod(x, y);
  C q = (x - mod) / y;
  if (mod != 0 && (y < 0) != (mod < 0)) q -= 1;
  if (q == 0) return std::copysign(C(0), x / y);
  const C down = std::floor(q);
  return q - down > C(0.5) ? down + 1 : down;
}

void divide(const Tensor& out, const Tensor& a, const Tensor& b, Dtype type, diopiRoundMode_t mode) {
  switch (mode) {
    case RoundModeNone:
      return visitFloatOrComplex(computeType(isIntegral(type) ? diopi_dtype_float32 : type, out.dtype), [&](auto zero) {
        using C = decltype(zero);
        map<C>(out, [](C x, C y) { return x / y; }, in<C>(a), in<C>(b));
      });
    case RoundModeTrunc:
      return real(out, a, b, type, [](auto x, auto y) {
        if constexpr (std::is_same_v<decltype(x), int64_t>) return quotient(x, y, false);
        else return std::trunc(x / y);
      });
    case RoundModeFloor:
      return real(out, a, b, type, [](auto x, auto y) {
        if constexpr (std::is_same_v<decltype(x), int64_t>) return quotient(x, y, true);
        else return floorQuotient(x, y);
      });
    default: fail("unknown rounding mode");
  }
}

void divideTensor(const Tensor& out, const Tensor& a, const Tensor& b, diopiRoundMode_t mode) {
  Dtype type = promote(a, b);
  if (mode == RoundModeNone && isIntegral(type) && out.dtype == diopi_dtype_float64) type = out.dtype;
  divide(out, a, b, type, mode);
}

void divideScalar(const Tensor& out, const Tensor& a, const diopiScalar_t& b, diopiRoundMode_t mode) {
  const Dtype type = promote(a.dtype, b);
  const bool trueDivision = mode == RoundModeNone && isIntegral(type);
  divide(out, a, ScalarTensor(b, wide(trueDivision ? floatType(type, out.dtype) : computeType(type, out.dtype))), type, mode);
}

// The remainder has the sign of the divisor.
void remainder(const Tensor& out, const Tensor& a, const Tensor& b, Dtype type) {
  real(out, a, b, type, [](auto x, auto y) -> decltype(x) {
    using C = decltype(x);
    C r;
    if constexpr (std::is_same_v<C, int64_t>) {
      if (y == 0) fail("integer remainder by zero");
      r = y == -1 ? 0 : x % y;
    } else {
      r = std::fmod(x, y);
    }
    return r != 0 && (y < 0) != (r < 0) ? r + y : r;
  });
}

template <class C>
C power(C x, C y) {
  if constexpr (!std::is_same_v<C, int64_t>) {
    return std::pow(x, y);
  } else {
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 == 0 ? 1 : -1) : 0;
    C result = 1;
    for (; y > 0; y >>= 1) {
      if (y & 1) result = times(result, x);
      x = times(x, x);
    }
    return result;
  }
}

void pow(const Tensor& out, const Tensor& a, const Tensor& b, Dtype type) {
  visitNumber(computeType(type, out.dtype), [&](auto zero) {
    using C = decltype(zero);
    mapCostly<C>(out, [](C x, C y) { return power(x, y); }, in<C>(a), in<C>(b));
  });
}

void powTensor(const Tensor& out, const Tensor& a, const Tensor& b) { pow(out, a, b, promote(a, b)); }

void powScalar(const Tensor& out, const Tensor& a, const diopiScalar_t& exponent) {
  const Dtype type = promote(a.dtype, exponent), compute = computeType(type, out.dtype);
  const double e = asDouble(exponent);
  if (isIntegral(compute) && e < 0) fail("integers to negative integer powers are not allowed");
  if (e == 2) {
    return visitNumber(compute, [&](auto zero) {
      using C = decltype(zero);
      map<C>(out, [](C x) { return times(x, x); }, in<C>(a));
    });
  }
  pow(out, a, ScalarTensor(exponent, wide(compute)), type);
}

void scalarPow(const Tensor& out, const diopiScalar_t& base, const Tensor& b) {
  const Dtype type = promote(b.dtype, base);
  pow(out, ScalarTensor(base, wide(computeType(type, out.dtype))), b, type);
}

// maximum and minimum: a NaN in either operand is the result.
void maximum(const Tensor& out, const Tensor& a, const Tensor& b) {
  real(out, a, b, promote(a, b), [](auto x, auto y) { return x > y || x != x ? x : y; });
}

void minimum(const Tensor& out, const Tensor& a, const Tensor& b) {
  real(out, a, b, promote(a, b), [](auto x, auto y) { return x < y || x != x ? x : y; });
}

void addcmul(const Tensor& out, const Tensor& input, const Tensor& a, const Tensor& b, const diopiScalar_t& value) {
  const Dtype type = promote(input.dtype, promote(a, b));
  visitNumber(computeType(type, out.dtype), [&](auto zero) {
    using C = decltype(zero);
    const C v = as<C>(value);
    map<C>(out, [v](C x, C y, C z) { return plus(x, times(v, times(y, z))); }, in<C>(input), in<C>(a), in<C>(b));
  });
}

void addcdiv(const Tensor& out, const Tensor& input, const Tensor& a, const Tensor& b, const diopiScalar_t& value) {
  const Dtype type = promote(input.dtype, promote(a, b));
  visitFloatOrComplex(computeType(type, out.dtype), [&](auto zero) {
    using C = decltype(zero);
    const C v = as<C>(value);
    map<C>(out, [v](C x, C y, C z) { return x + v * (y / z); }, in<C>(input), in<C>(a), in<C>(b));
  });
}

// lerp starts from the nearer end, so that weight 1 gives end exactly.
void lerp(const Tensor& out, const Tensor& input, const Tensor& end, const Tensor& weight) {
  visitFloatOrComplex(promote(input.dtype, end.dtype), [&](auto zero) {
    using C = decltype(zero);
    map<C>(out, [](C x, C y, C w) { return std::abs(w) < 0.5 ? x + w * (y - x) : y - (y - x) * (C(1) - w); },
           in<C>(input), in<C>(end), in<C>(weight));
  });
}

}  // namespace
}  // namespace host

using namespace host;

HOST_BINARY(Mul, mul)
HOST_BINARY_SCALAR(Mul, mulScalar)
HOST_BINARY_OUT(Maximum, maximum)
HOST_BINARY_OUT(Minimum, minimum)

extern "C" {

diopiError_t diopiAdd(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                      diopiConstTensorHandle_t other, const diopiScalar_t* alpha) {
  return guard(__func__, [&] { addTensor(out, input, other, alpha, false); });
}
diopiError_t diopiAddInp(diopiContextHandle_t, diopiTensorHandle_t input, diopiConstTensorHandle_t other,
                         const diopiScalar_t* alpha) {
  return guard(__func__, [&] { addTensor(input, input, other, alpha, false); });
}
diopiError_t diopiAddScalar(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                            const diopiScalar_t* other, const diopiScalar_t* alpha) {
  return guard(__func__, [&] { addScalar(out, input, *other, alpha, false); });
}
diopiError_t diopiAddInpScalar(diopiContextHandle_t, diopiTensorHandle_t input, const diopiScalar_t* other,
                               const diopiScalar_t* alpha) {
  return guard(__func__, [&] { addScalar(input, input, *other, alpha, false); });
}

diopiError_t diopiSub(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                      diopiConstTensorHandle_t other, const diopiScalar_t* alpha) {
  return guard(__func__, [&] { addTensor(out, input, other, alpha, true); });
}
diopiError_t diopiSubInp(diopiContextHandle_t, diopiTensorHandle_t input, diopiConstTensorHandle_t other,
                         const diopiScalar_t* alpha) {
  return guard(__func__, [&] { addTensor(input, input, other, alpha, true); });
}
diopiError_t diopiSubScalar(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                            const diopiScalar_t* other, const diopiScalar_t* alpha) {
  return guard(__func__, [&] { addScalar(out, input, *other, alpha, true); });
}
diopiError_t diopiSubInpScalar(diopiContextHandle_t, diopiTensorHandle_t input, const diopiScalar_t* other,
                               const diopiScalar_t* alpha) {
  return guard(__func__, [&] { addScalar(input, input, *other, alpha, true); });
}

diopiError_t diopiDiv(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                      diopiConstTensorHandle_t other, diopiRoundMode_t rounding_mode) {
  return guard(__func__, [&] { divideTensor(out, input, other, rounding_mode); });
}
diopiError_t diopiDivInp(diopiContextHandle_t, diopiTensorHandle_t input, diopiConstTensorHandle_t other,
                         diopiRoundMode_t rounding_mode) {
  return guard(__func__, [&] { divideTensor(input, input, other, rounding_mode); });
}
diopiError_t diopiDivScalar(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                            const diopiScalar_t* other, diopiRoundMode_t rounding_mode) {
  return guard(__func__, [&] { divideScalar(out, input, *other, rounding_mode); });
}
diopiError_t diopiDivInpScalar(diopiContextHandle_t, diopiTensorHandle_t input, const diopiScalar_t* other,
                               diopiRoundMode_t rounding_mode) {
  return guard(__func__, [&] { divideScalar(input, input, *other, rounding_mode); });
}

diopiError_t diopiRemainderTensor(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                                  diopiConstTensorHandle_t other) {
  return guard(__func__, [&] {
    const Tensor a(input), b(other);
    remainder(out, a, b, promote(a, b));
  });
}
diopiError_t diopiRemainderScalar(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                                  const diopiScalar_t* other) {
  return guard(__func__, [&] {
    const Tensor o(out), a(input);
    const Dtype type = promote(a.dtype, *other);
    remainder(o, a, ScalarTensor(*other, wide(computeType(type, o.dtype))), type);
  });
}
diopiError_t diopiRemainder(diopiContextHandle_t, diopiTensorHandle_t out, const diopiScalar_t* input,
                            diopiConstTensorHandle_t other) {
  return guard(__func__, [&] {
    const Tensor o(out), b(other);
    const Dtype type = promote(b.dtype, *input);
    remainder(o, ScalarTensor(*input, wide(computeType(type, o.dtype))), b, type);
  });
}

diopiError_t diopiPow(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                      const diopiScalar_t* exponent) {
  return guard(__func__, [&] { powScalar(out, input, *exponent); });
}
diopiError_t diopiPowInp(diopiContextHandle_t, diopiTensorHandle_t input, const diopiScalar_t* exponent) {
  return guard(__func__, [&] { powScalar(input, input, *exponent); });
}
diopiError_t diopiPowTensor(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                            diopiConstTensorHandle_t exponent) {
  return guard(__func__, [&] { powTensor(out, input, exponent); });
}
diopiError_t diopiPowInpTensor(diopiContextHandle_t, diopiTensorHandle_t input, diopiConstTensorHandle_t exponent) {
  return guard(__func__, [&] { powTensor(input, input, exponent); });
}
diopiError_t diopiPowScalar(diopiContextHandle_t, diopiTensorHandle_t out, const diopiScalar_t* input,
                            diopiConstTensorHandle_t exponent) {
  return guard(__func__, [&] { scalarPow(out, *input, exponent); });
}

diopiError_t diopiAddcmul(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                          diopiConstTensorHandle_t tensor1, diopiConstTensorHandle_t tensor2, const diopiScalar_t* value) {
  return guard(__func__, [&] { addcmul(out, input, tensor1, tensor2, *value); });
}
diopiError_t diopiAddcmulInp(diopiContextHandle_t, diopiTensorHandle_t input, diopiConstTensorHandle_t tensor1,
                             diopiConstTensorHandle_t tensor2, const diopiScalar_t* value) {
  return guard(__func__, [&] { addcmul(input, input, tensor1, tensor2, *value); });
}
diopiError_t diopiAddcdiv(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                          diopiConstTensorHandle_t tensor1, diopiConstTensorHandle_t tensor2, const diopiScalar_t* value) {
  return guard(__func__, [&] { addcdiv(out, input, tensor1, tensor2, *value); });
}
diopiError_t diopiAddcdivInp(diopiContextHandle_t, diopiTensorHandle_t input, diopiConstTensorHandle_t tensor1,
                             diopiConstTensorHandle_t tensor2, const diopiScalar_t* value) {
  return guard(__func__, [&] { addcdiv(input, input, tensor1, tensor2, *value); });
}

diopiError_t diopiLerpTensor(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                             diopiConstTensorHandle_t end, diopiConstTensorHandle_t weight) {
  return guard(__func__, [&] { lerp(out, input, end, weight); });
}
diopiError_t diopiLerpScalar(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                             diopiConstTensorHandle_t end, const diopiScalar_t* weight) {
  return guard(__func__, [&] {
    const Tensor a(input);
    lerp(out, a, end, ScalarTensor(*weight, wide(a.dtype)));
  });
}

}
