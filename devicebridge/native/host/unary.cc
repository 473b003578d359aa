// Functions of one number: exponential, logarithmic, trigonometric and
// hyperbolic ones, roots, erf, and those that integers have too.
#include <limits>

#include "elementwise.h"

namespace host {
namespace {

// floatingOrComplex and floating apply a function computed in floating point;
// integers are taken as float32.
template <class Op>
void floatingOrComplex(const Tensor& out, const Tensor& input, Op op) {
  visitFloatOrComplex(floatType(input.dtype, out.dtype), [&](auto zero) {
    using C = decltype(zero);
    mapCostly<C>(out, [op](C x) { return op(x); }, in<C>(input));
  });
}

template <class Op>
void floating(const Tensor& out, const Tensor& input, Op op) {
  visitFloat(floatType(input.dtype, out.dtype), [&](auto zero) {
    using C = decltype(zero);
    mapCostly<C>(out, [op](C x) { return op(x); }, in<C>(input));
  });
}

#define FUNCTION(domain, Name, expression)                                                      \
  void apply##Name(const Tensor& out, const Tensor& input) {                                    \
    domain(out, input, [](auto x) -> decltype(x) { return expression; });                       \
  }

template <class C>
C one() {
  return C(1);
}

// inverseErf: a start accurate to about 1e-3 (Winitzki's formula) refined by
// Halley steps, whose error is cubed each time.
template <class C>
C inverseErf(C y) {
  const C inf = std::numeric_limits<C>::infinity();
  if (std::isnan(y) || y < -1 || y > 1) return std::numeric_limits<C>::quiet_NaN();
  if (y == 1) return inf;
  if (y == -1) return -inf;
  if (y == 0) return y;
  const C a = C(0.147), twoOverSqrtPi = C(1.1283791670955126);
  const C l = std::log1p(-y * y);
  const C u = C(2) / (C(3.14159265358979323846) * a) + l / 2;
  C x = std::copysign(std::sqrt(std::sqrt(u * u - l / a) - u), y);
  const int steps = sizeof(C) == 4 ? 2 : 3;
  for (int i = 0; i < steps; i++) {
    // The complement keeps the error's digits where erf is close to 1.
    const C magnitude = std::abs(x);
    const C error = magnitude < 1 ? std::erf(x) - y : ((1 - std::abs(y)) - std::erfc(magnitude)) * std::copysign(C(1), x);
    const C newton = error / (twoOverSqrtPi * std::exp(-x * x));
    x -= newton / (1 + x * newton);
  }
  return x;
}

FUNCTION(floatingOrComplex, Exp, std::exp(x))
FUNCTION(floating, Expm1, std::expm1(x))
FUNCTION(floatingOrComplex, Log, std::log(x))
FUNCTION(floatingOrComplex, Log10, std::log10(x))
FUNCTION(floating, Log1p, std::log1p(x))
FUNCTION(floatingOrComplex, Sqrt, std::sqrt(x))
FUNCTION(floatingOrComplex, Rsqrt, one<decltype(x)>() / std::sqrt(x))
FUNCTION(floatingOrComplex, Reciprocal, one<decltype(x)>() / x)
FUNCTION(floatingOrComplex, Sin, std::sin(x))
FUNCTION(floatingOrComplex, Cos, std::cos(x))
FUNCTION(floatingOrComplex, Tan, std::tan(x))
FUNCTION(floatingOrComplex, Asin, std::asin(x))
FUNCTION(floatingOrComplex, Acos, std::acos(x))
FUNCTION(floatingOrComplex, Atan, std::atan(x))
FUNCTION(floatingOrComplex, Sinh, std::sinh(x))
FUNCTION(floatingOrComplex, Cosh, std::cosh(x))
FUNCTION(floatingOrComplex, Tanh, std::tanh(x))
FUNCTION(floatingOrComplex, Asinh, std::asinh(x))
FUNCTION(floatingOrComplex, Acosh, std::acosh(x))
FUNCTION(floatingOrComplex, Atanh, std::atanh(x))
FUNCTION(floating, Erf, std::erf(x))
FUNCTION(floating, Erfinv, inverseErf(x))

void applyLog2(const Tensor& out, const Tensor& input) {
  floatingOrComplex(out, input, [](auto x) -> decltype(x) {
    using C = decltype(x);
    if constexpr (std::is_floating_point_v<C>) return std::log2(x);
    else return std::log(x) * typename C::value_type(1.4426950408889634);
  });
}

void applyAbs(const Tensor& out, const Tensor& input) {
  visitNumber(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    using R = decltype(std::abs(zero));
    map<R>(out, [](C x) -> R { return std::abs(x); }, in<C>(input));
  });
}

void applyNeg(const Tensor& out, const Tensor& input) {
  visitNumber(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    map<C>(out, [](C x) -> C {
      if constexpr (std::is_same_v<C, int64_t>) return static_cast<int64_t>(0 - static_cast<uint64_t>(x));
      else return -x;
    }, in<C>(input));
  });
}

// sgn of a complex number has its angle and modulus 1.
void applySgn(const Tensor& out, const Tensor& input) {
  visitNumber(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    map<C>(out, [](C x) -> C {
      if constexpr (std::is_arithmetic_v<C>) {
        return C((x > 0) - (x < 0));
      } else {
        const auto r = std::abs(x);
        return r == 0 ? C(0) : x / r;
      }
    }, in<C>(input));
  });
}

// Integers are their own floor and ceiling.
template <class Op>
void rounding(const Tensor& out, const Tensor& input, Op op) {
  if (isIntegral(input.dtype)) return copy(out, input);
  visitFloat(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    map<C>(out, [op](C x) { return op(x); }, in<C>(input));
  });
}

FUNCTION(rounding, Floor, std::floor(x))
FUNCTION(rounding, Ceil, std::ceil(x))

}  // namespace
}  // namespace host

using namespace host;

HOST_UNARY(Exp, applyExp)
HOST_UNARY(Expm1, applyExpm1)
HOST_UNARY(Log, applyLog)
HOST_UNARY(Log2, applyLog2)
HOST_UNARY(Log10, applyLog10)
HOST_UNARY(Log1p, applyLog1p)
HOST_UNARY(Sqrt, applySqrt)
HOST_UNARY(Rsqrt, applyRsqrt)
HOST_UNARY(Reciprocal, applyReciprocal)
HOST_UNARY(Sin, applySin)
HOST_UNARY(Cos, applyCos)
HOST_UNARY(Tan, applyTan)
HOST_UNARY(Asin, applyAsin)
HOST_UNARY(Acos, applyAcos)
HOST_UNARY(Atan, applyAtan)
HOST_UNARY(Sinh, applySinh)
HOST_UNARY(Cosh, applyCosh)
HOST_UNARY(Tanh, applyTanh)
HOST_UNARY(Asinh, applyAsinh)
HOST_UNARY(Acosh, applyAcosh)
HOST_UNARY(Atanh, applyAtanh)
HOST_UNARY(Erf, applyErf)
HOST_UNARY(Erfinv, applyErfinv)
HOST_UNARY(Abs, applyAbs)
HOST_UNARY(Neg, applyNeg)
HOST_UNARY(Sgn, applySgn)
HOST_UNARY_OUT(Sign, applySgn)
HOST_UNARY(Floor, applyFloor)
HOST_UNARY(Ceil, applyCeil)
