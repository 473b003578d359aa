// Comparisons, logical and bitwise functions, choices by a condition, clamps.
#include "elementwise.h"

namespace host {
namespace {

// Comparisons happen in the promoted dtype: a scalar is first rounded to it,
// so that a float16 tensor of 0.1 equals the number 0.1.
// A tensor of rank 0 is one such scalar.
class Rounded {
 public:
  Rounded(const Tensor& t, Dtype dtype) : tensor_(t) {
    if (t.dim() != 0 || t.dtype == dtype) return;
    tensor_ = Tensor(raw_, dtype, Dims());
    copy(tensor_, t);
  }
  Rounded(const Rounded&) = delete;
  operator const Tensor&() const { return tensor_; }

 private:
  alignas(16) char raw_[16];
  Tensor tensor_;
};

template <class Op>
void compare(const Tensor& out, const Tensor& a, const Tensor& b, Dtype type, Op op) {
  const Rounded l(a, type), r(b, type);
  visitReal(type, [&](auto zero) {
    using C = decltype(zero);
    map<bool>(out, [op](C x, C y) -> bool { return op(x, y); }, in<C>(l), in<C>(r));
  });
}

template <class Op>
void compareTensor(const Tensor& out, const Tensor& a, const Tensor& b, Op op) {
  compare(out, a, b, promote(a, b), op);
}

template <class Op>
void compareScalar(const Tensor& out, const Tensor& a, const diopiScalar_t& b, Op op) {
  const Dtype type = promote(a.dtype, b);
  compare(out, a, ScalarTensor(b, type), type, op);
}

// Equality is defined for complex numbers too.
void equality(const Tensor& out, const Tensor& a, const Tensor& b, Dtype type, bool equal) {
  const Rounded l(a, type), r(b, type);
  visitNumber(type, [&](auto zero) {
    using C = decltype(zero);
    if (equal) map<bool>(out, [](C x, C y) { return x == y; }, in<C>(l), in<C>(r));
    else map<bool>(out, [](C x, C y) { return x != y; }, in<C>(l), in<C>(r));
  });
}

void eq(const Tensor& out, const Tensor& a, const Tensor& b) { equality(out, a, b, promote(a, b), true); }
void ne(const Tensor& out, const Tensor& a, const Tensor& b) { equality(out, a, b, promote(a, b), false); }
void eqScalar(const Tensor& out, const Tensor& a, const diopiScalar_t& b) {
  const Dtype type = promote(a.dtype, b);
  equality(out, a, ScalarTensor(b, type), type, true);
}
void neScalar(const Tensor& out, const Tensor& a, const diopiScalar_t& b) {
  const Dtype type = promote(a.dtype, b);
  equality(out, a, ScalarTensor(b, type), type, false);
}

#define ORDER(name, op)                                                                \
  void name(const Tensor& out, const Tensor& a, const Tensor& b) {                     \
    compareTensor(out, a, b, [](auto x, auto y) { return x op y; });                   \
  }                                                                                    \
  void name##Scalar(const Tensor& out, const Tensor& a, const diopiScalar_t& b) {      \
    compareScalar(out, a, b, [](auto x, auto y) { return x op y; });                   \
  }
ORDER(ge, >=)
ORDER(gt, >)
ORDER(le, <=)
ORDER(lt, <)

// Logical functions ask only whether an element is zero, which its conversion
// to bool tells.
void logicalAnd(const Tensor& out, const Tensor& a, const Tensor& b) {
  map<bool>(out, [](bool x, bool y) -> bool { return x & y; }, in<bool>(a), in<bool>(b));
}
void logicalOr(const Tensor& out, const Tensor& a, const Tensor& b) {
  map<bool>(out, [](bool x, bool y) -> bool { return x | y; }, in<bool>(a), in<bool>(b));
}
void logicalNot(const Tensor& out, const Tensor& a) {
  map<bool>(out, [](bool x) { return !x; }, in<bool>(a));
}

void mustBeIntegral(Dtype dtype) {
  if (!isIntegral(dtype)) unsupported(dtype);
}

template <class Op>
void bitwise(const Tensor& out, const Tensor& a, const Tensor& b, Op op) {
  mustBeIntegral(promote(a, b));
  map<int64_t>(out, op, in<int64_t>(a), in<int64_t>(b));
}

void bitwiseAnd(const Tensor& out, const Tensor& a, const Tensor& b) {
  bitwise(out, a, b, [](int64_t x, int64_t y) { return x & y; });
}
void bitwiseOr(const Tensor& out, const Tensor& a, const Tensor& b) {
  bitwise(out, a, b, [](int64_t x, int64_t y) { return x | y; });
}
void bitwiseAndScalar(const Tensor& out, const Tensor& a, const diopiScalar_t& b) {
  bitwiseAnd(out, a, ScalarTensor(b, diopi_dtype_int64));
}
void bitwiseOrScalar(const Tensor& out, const Tensor& a, const diopiScalar_t& b) {
  bitwiseOr(out, a, ScalarTensor(b, diopi_dtype_int64));
}
void bitwiseNot(const Tensor& out, const Tensor& a) {
  mustBeIntegral(a.dtype);
  if (a.dtype == diopi_dtype_bool) return logicalNot(out, a);
  map<int64_t>(out, [](int64_t x) { return ~x; }, in<int64_t>(a));
}

void isNan(const Tensor& out, const Tensor& a) {
  if (isIntegral(a.dtype)) return fillZero(out);
  visitFloatOrComplex(a.dtype, [&](auto zero) {
    using C = decltype(zero);
    map<bool>(out, [](C x) { return x != x; }, in<C>(a));
  });
}

// choose writes a where the condition holds and b elsewhere, in the dtype of
// out when the two only need moving.
void choose(const Tensor& out, const Tensor& condition, const Tensor& a, const Tensor& b) {
  if (out.dtype == a.dtype && out.dtype == b.dtype) {
    return visitSize(out.dtype, [&](auto zero) {
      using E = decltype(zero);
      Rows rows(out.shape);
      rows.add(out).add(condition).add(a).add(b);
      const Lane<bool> conditions(condition.dtype);
      rows.run([&](char* const* p, const int64_t* s, int64_t n) {
        Block<bool> block;
        for (int64_t at = 0; at < n; at += kBlock) {
          const int64_t m = std::min(kBlock, n - at);
          const bool* c = conditions.load(p[1] + at * s[1], s[1], m, block);
          for (int64_t i = 0, k = at; i < m; i++, k++) {
            *reinterpret_cast<E*>(p[0] + k * s[0]) = *reinterpret_cast<const E*>(c[i] ? p[2] + k * s[2] : p[3] + k * s[3]);
          }
        }
      }, 4);
    });
  }
  visitNumber(computeType(promote(a, b), out.dtype), [&](auto zero) {
    using C = decltype(zero);
    map<C>(out, [](bool c, C x, C y) { return c ? x : y; }, in<bool>(condition), in<C>(a), in<C>(b));
  });
}

void maskedFill(const Tensor& out, const Tensor& input, const Tensor& mask, const Tensor& value) {
  alignas(16) char one[16];
  const Tensor v(one, out.dtype, Dims());
  copy(v, value);
  choose(out, mask, v, input);
}

// Clamps: a null bound does not bind, NaN in the input or a bound is the result.
template <class C>
C clampLow(C x, C low) {
  return x != x ? x : low != low || x < low ? low : x;
}
template <class C>
C clampHigh(C x, C high) {
  return x != x ? x : high != high || x > high ? high : x;
}

void clamp(const Tensor& out, const Tensor& input, const Tensor& low, const Tensor& high, Dtype type) {
  check(low || high, "one of min and max must be given");
  visitReal(computeType(type, out.dtype), [&](auto zero) {
    using C = decltype(zero);
    if (!high) map<C>(out, [](C x, C l) { return clampLow(x, l); }, in<C>(input), in<C>(low));
    else if (!low) map<C>(out, [](C x, C h) { return clampHigh(x, h); }, in<C>(input), in<C>(high));
    else
      map<C>(out, [](C x, C l, C h) { return clampHigh(clampLow(x, l), h); }, in<C>(input), in<C>(low), in<C>(high));
  });
}

void clampTensors(const Tensor& out, const Tensor& input, const Tensor& low, const Tensor& high) {
  Dtype type = input.dtype;
  if (low) type = promote(type, low.dtype);
  if (high) type = promote(type, high.dtype);
  clamp(out, input, low, high, type);
}

void clampScalars(const Tensor& out, const Tensor& input, const diopiScalar_t* low, const diopiScalar_t* high) {
  Dtype type = input.dtype;
  if (low) type = promote(type, *low);
  if (high) type = promote(type, *high);
  const diopiScalar_t none = scalar(int64_t{0});
  const ScalarTensor l(low ? *low : none, wide(type)), h(high ? *high : none, wide(type));
  clamp(out, input, low ? static_cast<const Tensor&>(l) : Tensor(), high ? static_cast<const Tensor&>(h) : Tensor(), type);
}

}  // namespace
}  // namespace host

using namespace host;

#define COMPARISON(Name, name) \
  HOST_BINARY(Name, name)      \
  HOST_BINARY_SCALAR(Name, name##Scalar)
COMPARISON(Eq, eq)
COMPARISON(Ne, ne)
COMPARISON(Ge, ge)
COMPARISON(Gt, gt)
COMPARISON(Le, le)
COMPARISON(Lt, lt)
COMPARISON(BitwiseAnd, bitwiseAnd)
COMPARISON(BitwiseOr, bitwiseOr)
HOST_UNARY(BitwiseNot, bitwiseNot)
HOST_BINARY(LogicalAnd, logicalAnd)
HOST_BINARY(LogicalOr, logicalOr)
HOST_UNARY(LogicalNot, logicalNot)
HOST_UNARY_OUT(IsNan, isNan)

extern "C" {

diopiError_t diopiEqual(diopiContextHandle_t, bool* out, diopiConstTensorHandle_t input, diopiConstTensorHandle_t other) {
  return guard(__func__, [&] {
    const Tensor a(input), b(other);
    *out = false;
    if (a.shape != b.shape) return;
    std::unique_ptr<bool[]> same(new bool[std::max<int64_t>(1, a.numel)]);
    const Tensor result(same.get(), diopi_dtype_bool, a.shape);
    equality(result, a, b, promote(a, b), true);
    *out = std::all_of(same.get(), same.get() + a.numel, [](bool x) { return x; });
  });
}

diopiError_t diopiWhere(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t condition,
                        diopiConstTensorHandle_t input, diopiConstTensorHandle_t other) {
  return guard(__func__, [&] { choose(out, condition, input, other); });
}

diopiError_t diopiMaskedFill(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                             diopiConstTensorHandle_t mask, diopiConstTensorHandle_t value) {
  return guard(__func__, [&] { maskedFill(out, input, mask, value); });
}
diopiError_t diopiMaskedFillInp(diopiContextHandle_t, diopiTensorHandle_t input, diopiConstTensorHandle_t mask,
                                diopiConstTensorHandle_t value) {
  return guard(__func__, [&] { maskedFill(input, input, mask, value); });
}
diopiError_t diopiMaskedFillScalar(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                                   diopiConstTensorHandle_t mask, const diopiScalar_t* value) {
  return guard(__func__, [&] {
    const Tensor o(out);
    maskedFill(o, input, mask, ScalarTensor(*value, o.dtype));
  });
}
diopiError_t diopiMaskedFillInpScalar(diopiContextHandle_t, diopiTensorHandle_t input, diopiConstTensorHandle_t mask,
                                      const diopiScalar_t* value) {
  return guard(__func__, [&] {
    const Tensor o(input);
    maskedFill(o, o, mask, ScalarTensor(*value, o.dtype));
  });
}

diopiError_t diopiClamp(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                        diopiConstTensorHandle_t min, diopiConstTensorHandle_t max) {
  return guard(__func__, [&] { clampTensors(out, input, min, max); });
}
diopiError_t diopiClampInp(diopiContextHandle_t, diopiTensorHandle_t input, diopiConstTensorHandle_t min,
                           diopiConstTensorHandle_t max) {
  return guard(__func__, [&] { clampTensors(input, input, min, max); });
}
diopiError_t diopiClampScalar(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                              const diopiScalar_t* min, const diopiScalar_t* max) {
  return guard(__func__, [&] { clampScalars(out, input, min, max); });
}
diopiError_t diopiClampInpScalar(diopiContextHandle_t, diopiTensorHandle_t input, const diopiScalar_t* min,
                                 const diopiScalar_t* max) {
  return guard(__func__, [&] { clampScalars(input, input, min, max); });
}

diopiError_t diopiClampMin(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                           diopiConstTensorHandle_t min) {
  return guard(__func__, [&] { clampTensors(out, input, min, Tensor()); });
}
diopiError_t diopiClampMinInp(diopiContextHandle_t, diopiTensorHandle_t input, diopiConstTensorHandle_t min) {
  return guard(__func__, [&] { clampTensors(input, input, min, Tensor()); });
}
diopiError_t diopiClampMinScalar(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                                 const diopiScalar_t* min) {
  return guard(__func__, [&] { clampScalars(out, input, min, nullptr); });
}
diopiError_t diopiClampMinInpScalar(diopiContextHandle_t, diopiTensorHandle_t input, const diopiScalar_t* min) {
  return guard(__func__, [&] { clampScalars(input, input, min, nullptr); });
}

diopiError_t diopiClampMax(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                           diopiConstTensorHandle_t max) {
  return guard(__func__, [&] { clampTensors(out, input, Tensor(), max); });
}
diopiError_t diopiClampMaxInp(diopiContextHandle_t, diopiTensorHandle_t input, diopiConstTensorHandle_t max) {
  return guard(__func__, [&] { clampTensors(input, input, Tensor(), max); });
}
diopiError_t diopiClampMaxScalar(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                                 const diopiScalar_t* max) {
  return guard(__func__, [&] { clampScalars(out, input, nullptr, max); });
}
diopiError_t diopiClampMaxInpScalar(diopiContextHandle_t, diopiTensorHandle_t input, const diopiScalar_t* max) {
  return guard(__func__, [&] { clampScalars(input, input, nullptr, max); });
}

}
