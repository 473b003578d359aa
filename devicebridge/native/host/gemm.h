// Matrix products.
#ifndef OPTOOL_HOST_GEMM_H_
#define OPTOOL_HOST_GEMM_H_

#include <complex>
#include <cstdint>

namespace host {

// Matrix is a read-only view with any strides, so that a transpose costs nothing.
template <class C>
struct Matrix {
  const C* data;
  int64_t row, col;  // strides in elements
  Matrix transposed() const { return {data, col, row}; }
};

// gemm computes c = a b, or c += a b when accumulate is true, with a of m x k, b of
// k x n and c row-major with rows ldc apart. c must not overlap a or b. Sums run
// in C, in blocks of 256 terms.
template <class C>
void gemm(int64_t m, int64_t n, int64_t k, Matrix<C> a, Matrix<C> b, C* c, int64_t ldc, bool accumulate = false);

extern template void gemm(int64_t, int64_t, int64_t, Matrix<float>, Matrix<float>, float*, int64_t, bool);
extern template void gemm(int64_t, int64_t, int64_t, Matrix<double>, Matrix<double>, double*, int64_t, bool);
extern template void gemm(int64_t, int64_t, int64_t, Matrix<int64_t>, Matrix<int64_t>, int64_t*, int64_t, bool);
extern template void gemm(int64_t, int64_t, int64_t, Matrix<std::complex<float>>, Matrix<std::complex<float>>,
                          std::complex<float>*, int64_t, bool);
extern template void gemm(int64_t, int64_t, int64_t, Matrix<std::complex<double>>, Matrix<std::complex<double>>,
                          std::complex<double>*, int64_t, bool);

}  // namespace host

#endif  // OPTOOL_HOST_GEMM_H_
