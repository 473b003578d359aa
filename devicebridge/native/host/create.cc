// Filling and sequences; complex numbers from and to their parts.
#include "elementwise.h"

namespace host {
namespace {

// sequence sets element i, counted in row-major order, to value(i).
template <class T, class Value>
void sequence(const Tensor& out, Value value) {
  DenseOut<T> y(out);
  parallelFor(out.numel, kGrain / 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) y[i] = value(i);
  });
  y.commit();
}

void arange(const Tensor& out, const diopiScalar_t& start, const diopiScalar_t& step) {
  if (isIntegral(start) && isIntegral(step)) {
    const int64_t a = start.ival, s = step.ival;
    return sequence<int64_t>(out, [=](int64_t i) { return a + i * s; });
  }
  const double a = asDouble(start), s = asDouble(step);
  sequence<double>(out, [=](int64_t i) { return a + static_cast<double>(i) * s; });
}

// linspace counts from the nearer end, so that both are exact.
void linspace(const Tensor& out, double start, double end, int64_t steps) {
  check(out.numel == steps, "the result does not hold the number of steps");
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  sequence<double>(out, [=](int64_t i) {
    return i < steps / 2 || steps == 1 ? start + step * static_cast<double>(i) : end - step * static_cast<double>(steps - 1 - i);
  });
}

template <class F>
void visitComplex(Dtype d, F&& f) {
  if (d == diopi_dtype_complex64) return f(complex64{});
  if (d == diopi_dtype_complex128) return f(complex128{});
  unsupported(d);
}

void real(const Tensor& out, const Tensor& input) {
  if (!isComplex(input.dtype)) return copy(out, input);
  visitComplex(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    map<typename C::value_type>(out, [](C x) { return x.real(); }, in<C>(input));
  });
}

void imag(const Tensor& out, const Tensor& input) {
  visitComplex(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    map<typename C::value_type>(out, [](C x) { return x.imag(); }, in<C>(input));
  });
}

void conj(const Tensor& out, const Tensor& input) {
  if (!isComplex(input.dtype)) return copy(out, input);
  visitComplex(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    map<C>(out, [](C x) { return std::conj(x); }, in<C>(input));
  });
}

void complexFromParts(const Tensor& out, const Tensor& re, const Tensor& im) {
  visitComplex(out.dtype, [&](auto zero) {
    using C = decltype(zero);
    using P = typename C::value_type;
    map<C>(out, [](P a, P b) { return C(a, b); }, in<P>(re), in<P>(im));
  });
}

void polar(const Tensor& out, const Tensor& modulus, const Tensor& angle) {
  visitComplex(out.dtype, [&](auto zero) {
    using C = decltype(zero);
    using P = typename C::value_type;
    mapCostly<C>(out, [](P r, P t) { return C(r * std::cos(t), r * std::sin(t)); }, in<P>(modulus), in<P>(angle));
  });
}

}  // namespace
}  // namespace host

using namespace host;

HOST_UNARY_OUT(Real, real)
HOST_UNARY_OUT(Imag, imag)
HOST_UNARY_OUT(Conj, conj)

extern "C" {

diopiError_t diopiComplex(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t real,
                          diopiConstTensorHandle_t imag) {
  return guard(__func__, [&] { complexFromParts(out, real, imag); });
}

diopiError_t diopiPolar(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t abs,
                        diopiConstTensorHandle_t angle) {
  return guard(__func__, [&] { polar(out, abs, angle); });
}

diopiError_t diopiFill(diopiContextHandle_t, diopiTensorHandle_t input, const diopiScalar_t* value) {
  return guard(__func__, [&] { fill(input, *value); });
}

diopiError_t diopiZeroInp(diopiContextHandle_t, diopiTensorHandle_t self) {
  return guard(__func__, [&] { fillZero(self); });
}

diopiError_t diopiZeros(diopiContextHandle_t, diopiTensorHandle_t out, diopiSize_t) {
  return guard(__func__, [&] { fillZero(out); });
}

diopiError_t diopiOnes(diopiContextHandle_t, diopiTensorHandle_t out, diopiSize_t) {
  return guard(__func__, [&] { fill(out, scalar(int64_t{1})); });
}

diopiError_t diopiArange(diopiContextHandle_t, diopiTensorHandle_t out, const diopiScalar_t* start, const diopiScalar_t*,
                         const diopiScalar_t* step) {
  return guard(__func__, [&] { arange(out, *start, *step); });
}

diopiError_t diopiLinspace(diopiContextHandle_t, diopiTensorHandle_t out, const diopiScalar_t* start,
                           const diopiScalar_t* end, int64_t steps) {
  return guard(__func__, [&] { linspace(out, asDouble(*start), asDouble(*end), steps); });
}

}
