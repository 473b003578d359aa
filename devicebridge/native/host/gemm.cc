// A blocked matrix product: panels of a and b are packed so that the innermost
// tile, MR x NR elements of c held in registers, reads both in order.
#include "gemm.h"

#include <algorithm>
#include <type_traits>

#include "dense.h"
#include "loop.h"
#include "sums.h"

// A multiply and an add of the tile may become one instruction.
#pragma GCC optimize("fp-contract=fast")

namespace host {

namespace {

constexpr int64_t kDepth = 256;  // terms per packed panel

template <class C>
struct Shape {
  typedef C Vector __attribute__((vector_size(32), aligned(32)));
  typedef C Loose __attribute__((vector_size(32), aligned(sizeof(C))));
  static constexpr int kLanes = 32 / sizeof(C);
  static constexpr int kRows = 6, kCols = 2 * kLanes;
  static constexpr int64_t kBlockRows = 16 * kRows, kBlockCols = 128 * kCols;
};

// tile adds to (or sets) rows x cols of c the product of two packed panels.
template <class C>
inline __attribute__((always_inline)) void tileBody(int64_t k, const C* a, const C* b, C* c, int64_t ldc, int64_t rows,
                                                    int64_t cols, bool accumulate) {
  using S = Shape<C>;
  using Vector = typename S::Vector;
  using Loose = typename S::Loose;
  Vector acc[S::kRows][2];
#pragma GCC unroll 6
  for (int i = 0; i < S::kRows; i++) acc[i][0] = acc[i][1] = Vector{};
  for (int64_t p = 0; p < k; p++, a += S::kRows, b += S::kCols) {
    const Vector b0 = *reinterpret_cast<const Loose*>(b), b1 = *reinterpret_cast<const Loose*>(b + S::kLanes);
#pragma GCC unroll 6
    for (int i = 0; i < S::kRows; i++) {
      acc[i][0] += a[i] * b0;
      acc[i][1] += a[i] * b1;
    }
  }
  if (rows == S::kRows && cols == S::kCols) {
#pragma GCC unroll 6
    for (int i = 0; i < S::kRows; i++) {
      Loose* to = reinterpret_cast<Loose*>(c + i * ldc);
      if (accumulate) {
        acc[i][0] += to[0];
        acc[i][1] += to[1];
      }
      to[0] = acc[i][0];
      to[1] = acc[i][1];
    }
    return;
  }
  C edge[S::kRows][S::kCols];
#pragma GCC unroll 6
  for (int i = 0; i < S::kRows; i++) {
    *reinterpret_cast<Loose*>(edge[i]) = acc[i][0];
    *reinterpret_cast<Loose*>(edge[i] + S::kLanes) = acc[i][1];
  }
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < cols; j++) c[i * ldc + j] = edge[i][j] + (accumulate ? c[i * ldc + j] : C(0));
  }
}

template <class C>
using Tile = void (*)(int64_t, const C*, const C*, C*, int64_t, int64_t, int64_t, bool);

template <class C>
void tilePlain(int64_t k, const C* a, const C* b, C* c, int64_t ldc, int64_t rows, int64_t cols, bool accumulate) {
  tileBody(k, a, b, c, ldc, rows, cols, accumulate);
}

#ifdef __x86_64__
template <class C>
__attribute__((target("avx2,fma"))) void tileFma(int64_t k, const C* a, const C* b, C* c, int64_t ldc, int64_t rows,
                                                 int64_t cols, bool accumulate) {
  tileBody(k, a, b, c, ldc, rows, cols, accumulate);
}
#endif

template <class C>
Tile<C> chooseTile() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return tileFma<C>;
#endif
  return tilePlain<C>;
}

// pack copies a width x k strip, step `across` between its lines, into columns of
// W; lines that are missing become zero.
template <int W, class C>
void pack(const C* from, int64_t across, int64_t along, int64_t width, int64_t k, C* to) {
  if (width == W && across == 1) {
    for (int64_t p = 0; p < k; p++, to += W) std::copy_n(from + p * along, W, to);
    return;
  }
  for (int64_t i = 0; i < W; i++) {
    if (i < width) {
      for (int64_t p = 0; p < k; p++) to[p * W + i] = from[i * across + p * along];
    } else {
      for (int64_t p = 0; p < k; p++) to[p * W + i] = C(0);
    }
  }
}

// plainProduct computes a product that is not worth packing, or of a type without a tile.
template <class C>
void plainProduct(int64_t m, int64_t n, int64_t k, Matrix<C> a, Matrix<C> b, C* c, int64_t ldc, bool accumulate) {
  for (int64_t i = 0; i < m; i++) {
    C* row = c + i * ldc;
    if (!accumulate) std::fill_n(row, n, C(0));
    for (int64_t p = 0; p < k; p++) {
      const C x = a.data[i * a.row + p * a.col];
      const C* from = b.data + p * b.row;
      if (b.col == 1) {
        for (int64_t j = 0; j < n; j++) row[j] += x * from[j];
      } else {
        for (int64_t j = 0; j < n; j++) row[j] += x * from[j * b.col];
      }
    }
  }
}

// thinProduct computes few rows, which read b once where it lies: packing would
// cost more than the product.
template <class C>
void thinProduct(int64_t m, int64_t n, int64_t k, Matrix<C> a, Matrix<C> b, C* c, int64_t ldc, bool accumulate) {
  parallelFor(n, grainFor(k * m), [&](int64_t from, int64_t to) {
    constexpr int64_t kTerms = 64;  // added up before they join the total
    const int64_t width = to - from;
    Scratch<C> partial(b.col == 1 ? width : 0), left(k);
    C *const part = partial, *const x = left;
    for (int64_t i = 0; i < m; i++) {
      for (int64_t p = 0; p < k; p++) x[p] = a.data[i * a.row + p * a.col];
      C* row = c + i * ldc + from;
      if (!accumulate) std::fill_n(row, width, C(0));
      for (int64_t p0 = 0; b.col == 1 && p0 < k; p0 += kTerms) {
        std::fill_n(part, width, C(0));
        for (int64_t p = p0; p < std::min(k, p0 + kTerms); p++) {
          const C factor = x[p];
          const C* right = b.data + p * b.row + from;
          for (int64_t j = 0; j < width; j++) part[j] += factor * right[j];
        }
        for (int64_t j = 0; j < width; j++) row[j] += part[j];
      }
      for (int64_t j = 0; b.col != 1 && j < width; j++) {
        const C* right = b.data + (from + j) * b.col;
        row[j] += sumOf<C>(k, [x, right](int64_t p) { return x[p] * right[p]; });
      }
    }
  });
}

template <class C>
void blockedProduct(int64_t m, int64_t n, int64_t k, Matrix<C> a, Matrix<C> b, C* c, int64_t ldc, bool accumulate) {
  using S = Shape<C>;
  static const Tile<C> tile = chooseTile<C>();
  const int64_t wide = std::min(n, S::kBlockCols), depth = std::min(k, kDepth);
  const int64_t panels = (wide + S::kCols - 1) / S::kCols;
  Scratch<C> packedB(panels * S::kCols * depth);
  for (int64_t j0 = 0; j0 < n; j0 += S::kBlockCols) {
    const int64_t nb = std::min(S::kBlockCols, n - j0), strips = (nb + S::kCols - 1) / S::kCols;
    for (int64_t p0 = 0; p0 < k; p0 += kDepth) {
      const int64_t kb = std::min(kDepth, k - p0);
      parallelFor(strips, std::max<int64_t>(1, 16384 / (kb * S::kCols)), [&](int64_t from, int64_t to) {
        for (int64_t s = from; s < to; s++) {
          const int64_t j = s * S::kCols;
          pack<S::kCols>(b.data + p0 * b.row + (j0 + j) * b.col, b.col, b.row, std::min<int64_t>(S::kCols, nb - j), kb,
                         packedB + j * kb);
        }
      });
      // Tasks are blocks of rows, cut by columns too where there are few of them.
      const int64_t rowBlocks = (m + S::kBlockRows - 1) / S::kBlockRows;
      const int64_t cuts = std::min(strips, rowBlocks < 4 ? (3 + rowBlocks) / rowBlocks : 1);
      const int64_t work = std::min(m, S::kBlockRows) * kb * nb / cuts;
      parallelFor(rowBlocks * cuts, std::max<int64_t>(1, 65536 / std::max<int64_t>(work, 1)), [&](int64_t from, int64_t to) {
        Scratch<C> packedA(S::kBlockRows * kb);
        int64_t packed = -1;
        for (int64_t task = from; task < to; task++) {
          const int64_t i0 = task / cuts * S::kBlockRows, mb = std::min(S::kBlockRows, m - i0);
          if (packed != i0) {
            for (int64_t i = 0; i < mb; i += S::kRows) {
              pack<S::kRows>(a.data + (i0 + i) * a.row + p0 * a.col, a.row, a.col, std::min<int64_t>(S::kRows, mb - i), kb,
                             packedA + i * kb);
            }
            packed = i0;
          }
          const int64_t cut = task % cuts;
          for (int64_t s = strips * cut / cuts; s < strips * (cut + 1) / cuts; s++) {
            const int64_t j = s * S::kCols, cols = std::min<int64_t>(S::kCols, nb - j);
            for (int64_t i = 0; i < mb; i += S::kRows) {
              tile(kb, packedA + i * kb, packedB + j * kb, c + (i0 + i) * ldc + j0 + j, ldc,
                   std::min<int64_t>(S::kRows, mb - i), cols, accumulate || p0 > 0);
            }
          }
        }
      });
    }
  }
}

}  // namespace

template <class C>
void gemm(int64_t m, int64_t n, int64_t k, Matrix<C> a, Matrix<C> b, C* c, int64_t ldc, bool accumulate) {
  if (m == 0 || n == 0) return;
  if constexpr (std::is_floating_point_v<C>) {
    if (m <= 2 && (b.col == 1 || b.row == 1)) return thinProduct(m, n, k, a, b, c, ldc, accumulate);
    if (k > 0 && m * n * k > 512) return blockedProduct(m, n, k, a, b, c, ldc, accumulate);
  }
  plainProduct(m, n, k, a, b, c, ldc, accumulate);
}

template void gemm(int64_t, int64_t, int64_t, Matrix<float>, Matrix<float>, float*, int64_t, bool);
template void gemm(int64_t, int64_t, int64_t, Matrix<double>, Matrix<double>, double*, int64_t, bool);
template void gemm(int64_t, int64_t, int64_t, Matrix<int64_t>, Matrix<int64_t>, int64_t*, int64_t, bool);
template void gemm(int64_t, int64_t, int64_t, Matrix<complex64>, Matrix<complex64>, complex64*, int64_t, bool);
template void gemm(int64_t, int64_t, int64_t, Matrix<complex128>, Matrix<complex128>, complex128*, int64_t, bool);

}  // namespace host
