// Activation functions.
#include "dense.h"
#include "elementwise.h"

namespace host {
namespace {

template <class Op>
void floating(const Tensor& out, const Tensor& input, Op op) {
  visitFloat(floatType(input.dtype, out.dtype), [&](auto zero) {
    using C = decltype(zero);
    mapCostly<C>(out, [op](C x) { return op(x); }, in<C>(input));
  });
}

void relu(const Tensor& out, const Tensor& input) {
  visitReal(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    map<C>(out, [](C x) { return x < 0 ? C(0) : x; }, in<C>(input));  // NaN stays
  });
}

// divideLogistic is numerator(x) / (1 + exp(-x)).
template <class Numerator>
void divideLogistic(const Tensor& out, const Tensor& input, Numerator numerator) {
  visitFloatOrComplex(floatType(input.dtype, out.dtype), [&](auto zero) {
    using C = decltype(zero);
    mapCostly<C>(out, [numerator](C x) { return numerator(x) / (C(1) + std::exp(-x)); }, in<C>(input));
  });
}

void sigmoid(const Tensor& out, const Tensor& input) {
  divideLogistic(out, input, [](auto x) { return decltype(x)(1); });
}

void silu(const Tensor& out, const Tensor& input) {
  divideLogistic(out, input, [](auto x) { return x; });
}

void hardswish(const Tensor& out, const Tensor& input) {
  floating(out, input, [](auto x) -> decltype(x) {
    using C = decltype(x);
    return x * std::min(std::max(x + 3, C(0)), C(6)) / 6;
  });
}

void gelu(const Tensor& out, const Tensor& input, const std::string& approximate) {
  check(approximate == "none" || approximate == "tanh", "approximate is neither none nor tanh");
  if (approximate == "tanh") {
    floating(out, input, [](auto x) -> decltype(x) {
      using C = decltype(x);
      const C inner = C(0.7978845608028654) * (x + C(0.044715) * x * x * x);
      return C(0.5) * x * (1 + std::tanh(inner));
    });
  } else {
    floating(out, input, [](auto x) -> decltype(x) {
      using C = decltype(x);
      return C(0.5) * x * (1 + std::erf(x * C(0.7071067811865476)));
    });
  }
}

void leakyRelu(const Tensor& out, const Tensor& input, const diopiScalar_t& slope) {
  visitFloat(floatType(input.dtype, out.dtype), [&](auto zero) {
    using C = decltype(zero);
    const C s = as<C>(slope);
    map<C>(out, [s](C x) { return x > 0 ? x : x * s; }, in<C>(input));
  });
}

void hardtanh(const Tensor& out, const Tensor& input, const diopiScalar_t& low, const diopiScalar_t& high) {
  visitReal(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    const C lo = as<C>(low), hi = as<C>(high);
    map<C>(out, [lo, hi](C x) { return x > hi ? hi : x < lo ? lo > hi ? hi : lo : x; }, in<C>(input));
  });
}

// An integer for a limit is one of the input's dtype: -1 is 255 beside uint8.
void threshold(const Tensor& out, const Tensor& input, const diopiScalar_t& limit, const diopiScalar_t& value) {
  visitReal(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    C l = as<C>(limit);
    const C v = as<C>(value);
    if constexpr (std::is_same_v<C, int64_t>) {
      const ScalarTensor wrapped(limit, input.dtype);
      const In<C> limits(wrapped);
      l = limits[0];
    }
    map<C>(out, [l, v](C x) { return x <= l ? v : x; }, in<C>(input));
  });
}

}  // namespace
}  // namespace host

using namespace host;

HOST_UNARY(Relu, relu)
HOST_UNARY(Sigmoid, sigmoid)
HOST_UNARY(Silu, silu)
HOST_UNARY(Hardswish, hardswish)

extern "C" {

diopiError_t diopiGelu(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                       const char* approximate) {
  return guard(__func__, [&] { gelu(out, input, approximate); });
}

diopiError_t diopiLeakyRelu(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                            const diopiScalar_t* negative_slope) {
  return guard(__func__, [&] { leakyRelu(out, input, *negative_slope); });
}

diopiError_t diopiLeakyReluInp(diopiContextHandle_t, diopiTensorHandle_t input, const diopiScalar_t* negative_slope) {
  return guard(__func__, [&] { leakyRelu(input, input, *negative_slope); });
}

diopiError_t diopiHardtanh(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                           const diopiScalar_t* min_val, const diopiScalar_t* max_val) {
  return guard(__func__, [&] { hardtanh(out, input, *min_val, *max_val); });
}

diopiError_t diopiHardtanhInp(diopiContextHandle_t, diopiTensorHandle_t input, const diopiScalar_t* min_val,
                              const diopiScalar_t* max_val) {
  return guard(__func__, [&] { hardtanh(input, input, *min_val, *max_val); });
}

diopiError_t diopiThreshold(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                            const diopiScalar_t* limit, const diopiScalar_t* value) {
  return guard(__func__, [&] { threshold(out, input, *limit, *value); });
}

diopiError_t diopiThresholdInp(diopiContextHandle_t, diopiTensorHandle_t input, const diopiScalar_t* limit,
                               const diopiScalar_t* value) {
  return guard(__func__, [&] { threshold(input, input, *limit, *value); });
}

}
