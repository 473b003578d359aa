// p-norms of vectors.
#ifndef OPTOOL_HOST_VECTOR_NORM_H_
#define OPTOOL_HOST_VECTOR_NORM_H_

#include <cstdint>

namespace host {

// vectorNorm returns (sum |x|^p)^(1/p) of n elements: the number of non-zero ones
// for p = 0, the largest magnitude for infinity, the smallest for -infinity.
template <class C>
C vectorNorm(const C* x, int64_t n, double p);

extern template float vectorNorm(const float*, int64_t, double);
extern template double vectorNorm(const double*, int64_t, double);

}  // namespace host

#endif  // OPTOOL_HOST_VECTOR_NORM_H_
