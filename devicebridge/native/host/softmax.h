// Softmax of rows, for the kernels that contain one.
#ifndef OPTOOL_HOST_SOFTMAX_H_
#define OPTOOL_HOST_SOFTMAX_H_

#include <cstdint>

namespace host {

// A LogSum is log(sum(exp(x))) of elements as their largest one and the rest, which is small and keeps its
// digits where the largest is large.
template <class C>
struct LogSum {
  C top, rest;

  C whole() const { return top + rest; }
  // logSoftmax is the logarithm of the softmax of element x.
  C logSoftmax(C x) const { return (x - top) - rest; }
};

// logSumExp returns log(sum(exp(x))) of n elements, without overflow.
template <class C>
LogSum<C> logSumExp(const C* x, int64_t n);

// softmaxRow writes exp(x) / sum(exp(x)); y may be x.
template <class C>
void softmaxRow(const C* x, C* y, int64_t n);

extern template LogSum<float> logSumExp(const float*, int64_t);
extern template LogSum<double> logSumExp(const double*, int64_t);
extern template void softmaxRow(const float*, float*, int64_t);
extern template void softmaxRow(const double*, double*, int64_t);

}  // namespace host

#endif  // OPTOOL_HOST_SOFTMAX_H_
