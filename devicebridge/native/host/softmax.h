// Softmax of rows, for the kernels that contain one.
#ifndef OPTOOL_HOST_SOFTMAX_H_
#define OPTOOL_HOST_SOFTMAX_H_

#include <cstdint>

namespace host {

// logSumExp returns log(sum(exp(x))) of n elements, without overflow.
template <class C>
C logSumExp(const C* x, int64_t n);

// softmaxRow writes exp(x) / sum(exp(x)); y may be x.
template <class C>
void softmaxRow(const C* x, C* y, int64_t n);

extern template float logSumExp(const float*, int64_t);
extern template double logSumExp(const double*, int64_t);
extern template void softmaxRow(const float*, float*, int64_t);
extern template void softmaxRow(const double*, double*, int64_t);

}  // namespace host

#endif  // OPTOOL_HOST_SOFTMAX_H_
