// What the elementwise families share: the type to compute in, scalars as
// operands, and entry points in pairs.
#ifndef OPTOOL_HOST_ELEMENTWISE_H_
#define OPTOOL_HOST_ELEMENTWISE_H_

#include <cmath>

#include "loop.h"

namespace host {

// computeType is promoted, the dtype torch would compute in, unless that is
// integral and the caller wants a floating-point result.
inline Dtype computeType(Dtype promoted, Dtype out) {
  return isIntegral(promoted) && (isFloating(out) || isComplex(out)) ? out : promoted;
}

// ScalarTensor is a scalar argument as an operand of rank 0.
class ScalarTensor {
 public:
  ScalarTensor(const diopiScalar_t& s, Dtype dtype) : tensor_(raw_, dtype, Dims()) { fill(tensor_, s); }
  ScalarTensor(const ScalarTensor&) = delete;
  operator const Tensor&() const { return tensor_; }

 private:
  alignas(16) char raw_[16];
  Tensor tensor_;
};

// wide is the dtype that holds a value of d without the rounding of half types.
inline Dtype wide(Dtype d) {
  return d == diopi_dtype_float16 || d == diopi_dtype_bfloat16 ? diopi_dtype_float32 : d;
}

}  // namespace host

// HOST_UNARY defines diopiName and diopiNameInp by a call apply(out, input).
#define HOST_UNARY_OUT(Name, apply)                                                                              \
  extern "C" diopiError_t diopi##Name(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input) { \
    return host::guard(__func__, [&] { apply(host::Tensor(out), host::Tensor(input)); });                        \
  }
#define HOST_UNARY(Name, apply)                                                                     \
  HOST_UNARY_OUT(Name, apply)                                                                       \
  extern "C" diopiError_t diopi##Name##Inp(diopiContextHandle_t, diopiTensorHandle_t input) {       \
    return host::guard(__func__, [&] { apply(host::Tensor(input), host::Tensor(input)); });         \
  }

// HOST_BINARY defines diopiName(out, input, other) and diopiNameInp by apply(out, input, other).
#define HOST_BINARY_OUT(Name, apply)                                                                            \
  extern "C" diopiError_t diopi##Name(diopiContextHandle_t, diopiTensorHandle_t out,                            \
                                      diopiConstTensorHandle_t input, diopiConstTensorHandle_t other) {         \
    return host::guard(__func__, [&] { apply(host::Tensor(out), host::Tensor(input), host::Tensor(other)); });  \
  }
#define HOST_BINARY(Name, apply)                                                                                  \
  HOST_BINARY_OUT(Name, apply)                                                                                    \
  extern "C" diopiError_t diopi##Name##Inp(diopiContextHandle_t, diopiTensorHandle_t input,                       \
                                           diopiConstTensorHandle_t other) {                                      \
    return host::guard(__func__, [&] { apply(host::Tensor(input), host::Tensor(input), host::Tensor(other)); });  \
  }

// HOST_BINARY_SCALAR defines diopiNameScalar and diopiNameInpScalar by apply(out, input, scalar).
#define HOST_BINARY_SCALAR(Name, apply)                                                                        \
  extern "C" diopiError_t diopi##Name##Scalar(diopiContextHandle_t, diopiTensorHandle_t out,                   \
                                              diopiConstTensorHandle_t input, const diopiScalar_t* other) {    \
    return host::guard(__func__, [&] { apply(host::Tensor(out), host::Tensor(input), *other); });              \
  }                                                                                                            \
  extern "C" diopiError_t diopi##Name##InpScalar(diopiContextHandle_t, diopiTensorHandle_t input,              \
                                                 const diopiScalar_t* other) {                                 \
    return host::guard(__func__, [&] { apply(host::Tensor(input), host::Tensor(input), *other); });            \
  }

#endif  // OPTOOL_HOST_ELEMENTWISE_H_
