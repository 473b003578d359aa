// Gradients of the activations.
#include <cmath>
#include <cstring>

#include "loop.h"

namespace host {

namespace {

// gradient stores f(g, x) for the gradient g and the saved input or output x.
template <class F>
diopiError_t gradient(const char* function, diopiTensorHandle_t gradInput, diopiConstTensorHandle_t gradOutput,
                      diopiConstTensorHandle_t saved, F&& f) {
  return guard(function, [&] {
    const Tensor to(gradInput), g(gradOutput), x(saved);
    visitFloat(to.dtype, [&](auto zero) {
      using C = decltype(zero);
      mapCostly<C>(to, [&](C grad, C value) { return static_cast<C>(f(grad, value)); }, in<C>(g), in<C>(x));
    });
  });
}

template <class C>
C sigmoid(C x) {
  return C(1) / (C(1) + std::exp(-x));
}

template <class C>
C geluSlope(C x) {
  const C below = C(0.5) * std::erfc(-x * C(0.70710678118654752440));         // normal distribution
  const C density = std::exp(C(-0.5) * x * x) * C(0.39894228040143267794);  // and its density
  return below + x * density;
}

template <class C>
C geluTanhSlope(C x) {
  const C a = C(0.79788456080286535588), b = C(0.044715);  // sqrt(2/pi)
  const C t = std::tanh(a * (x + b * x * x * x));
  return C(0.5) * (1 + t) + C(0.5) * x * (1 - t * t) * a * (1 + 3 * b * x * x);
}

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiGeluBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                               diopiConstTensorHandle_t input, const char* approximate) {
  const bool tanh = approximate && std::strcmp(approximate, "tanh") == 0;
  return gradient(__func__, grad_input, grad_output, input,
                  [=](auto g, auto x) { return g * (tanh ? geluTanhSlope(x) : geluSlope(x)); });
}

diopiError_t diopiHardtanhBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                                   diopiConstTensorHandle_t input, const diopiScalar_t* min_val, const diopiScalar_t* max_val) {
  const double low = asDouble(*min_val), high = asDouble(*max_val);
  return gradient(__func__, grad_input, grad_output, input, [=](auto g, auto x) {
    using C = decltype(x);
    return x <= static_cast<C>(low) || x >= static_cast<C>(high) ? C(0) : g;
  });
}

diopiError_t diopiHardswishBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input,
                                    diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t input) {
  return gradient(__func__, grad_input, grad_output, input, [](auto g, auto x) {
    using C = decltype(x);
    return x < -3 ? C(0) : x <= 3 ? g * (x / 3 + C(0.5)) : g;
  });
}

diopiError_t diopiThresholdBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input,
                                    diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t input,
                                    const diopiScalar_t* threshold) {
  const double limit = asDouble(*threshold);
  return gradient(__func__, grad_input, grad_output, input, [=](auto g, auto x) {
    using C = decltype(x);
    return x <= static_cast<C>(limit) ? C(0) : g;
  });
}

diopiError_t diopiLeakyReluBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input,
                                    diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t input,
                                    const diopiScalar_t* negative_slope, bool) {
  const double slope = asDouble(*negative_slope);
  return gradient(__func__, grad_input, grad_output, input, [=](auto g, auto x) {
    using C = decltype(x);
    return x > 0 ? g : g * static_cast<C>(slope);
  });
}

diopiError_t diopiSigmoidBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                                  diopiConstTensorHandle_t output) {
  return gradient(__func__, grad_input, grad_output, output, [](auto g, auto y) { return g * (1 - y) * y; });
}

diopiError_t diopiTanhBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                               diopiConstTensorHandle_t output) {
  return gradient(__func__, grad_input, grad_output, output, [](auto g, auto y) { return g * (1 - y * y); });
}

diopiError_t diopiSiluBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                               diopiConstTensorHandle_t input) {
  return gradient(__func__, grad_input, grad_output, input, [](auto g, auto x) {
    const auto s = sigmoid(x);
    return g * s * (1 + x * (1 - s));
  });
}

}  // extern "C"
