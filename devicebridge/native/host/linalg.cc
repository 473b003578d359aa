// Dense factorisations and triangular systems: cholesky, qr, triangular_solve,
// with gradients; and the distances of cdist.
#include <cmath>
#include <cstring>
#include <vector>

#include "dense.h"
#include "gemm.h"
#include "loop.h"

namespace host {

namespace {

// Square is a writable n x n matrix with any strides.
template <class C>
struct Square {
  C* data;
  int64_t row, col;
  C& operator()(int64_t i, int64_t j) const { return data[i * row + j * col]; }
};

// factor makes the lower triangle of a its Cholesky factor and clears the upper
// one; the result is 0 or the order of the first minor that is not positive.
template <class C>
int64_t factor(Square<C> a, int64_t n) {
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < j; i++) a(i, j) = 0;
  }
  for (int64_t j = 0; j < n; j++) {
    C pivot = a(j, j);
    for (int64_t k = 0; k < j; k++) pivot -= a(j, k) * a(j, k);
    if (!(pivot > 0)) return j + 1;
    a(j, j) = std::sqrt(pivot);
    for (int64_t i = j + 1; i < n; i++) {
      C sum = a(i, j);
      for (int64_t k = 0; k < j; k++) sum -= a(i, k) * a(j, k);
      a(i, j) = sum / a(j, j);
    }
  }
  return 0;
}

// solve overwrites b, n x m and dense, with the solution of a x = b.
template <class C>
void solve(Matrix<C> a, int64_t n, C* b, int64_t m, bool upper, bool unit) {
  const auto at = [&](int64_t i, int64_t j) { return a.data[i * a.row + j * a.col]; };
  for (int64_t step = 0; step < n; step++) {
    const int64_t i = upper ? n - 1 - step : step;
    C* row = b + i * m;
    for (int64_t k = upper ? i + 1 : 0; k < (upper ? n : i); k++) {
      const C factor = at(i, k);
      for (int64_t j = 0; j < m; j++) row[j] -= factor * b[k * m + j];
    }
    if (unit) continue;
    const C pivot = at(i, i);
    for (int64_t j = 0; j < m; j++) row[j] /= pivot;
  }
}

// reflect makes the QR factorisation of a dense m x n matrix: R replaces its upper
// triangle, the Householder vectors lie below, tau holds their scales.
template <class C>
std::vector<C> reflect(C* a, int64_t m, int64_t n) {
  std::vector<C> tau(std::min(m, n));
  for (int64_t k = 0; k < std::min(m, n); k++) {
    C tail = 0;
    for (int64_t i = k + 1; i < m; i++) tail = std::hypot(tail, a[i * n + k]);
    const C alpha = a[k * n + k];
    if (tail == 0) continue;  // nothing to reflect: tau is 0
    const C beta = -std::copysign(std::hypot(alpha, tail), alpha);
    tau[k] = (beta - alpha) / beta;
    for (int64_t i = k + 1; i < m; i++) a[i * n + k] /= alpha - beta;
    a[k * n + k] = beta;
    for (int64_t j = k + 1; j < n; j++) {
      C along = a[k * n + j];
      for (int64_t i = k + 1; i < m; i++) along += a[i * n + k] * a[i * n + j];
      along *= tau[k];
      a[k * n + j] -= along;
      for (int64_t i = k + 1; i < m; i++) a[i * n + j] -= along * a[i * n + k];
    }
  }
  return tau;
}

// orthogonal writes the first `columns` columns of Q.
template <class C>
void orthogonal(const C* a, const std::vector<C>& tau, int64_t m, int64_t n, C* q, int64_t columns) {
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < columns; j++) q[i * columns + j] = C(i == j);
  }
  for (int64_t k = static_cast<int64_t>(tau.size()) - 1; k >= 0; k--) {
    for (int64_t j = 0; j < columns; j++) {
      C along = q[k * columns + j];
      for (int64_t i = k + 1; i < m; i++) along += a[i * n + k] * q[i * columns + j];
      along *= tau[k];
      q[k * columns + j] -= along;
      for (int64_t i = k + 1; i < m; i++) q[i * columns + j] -= along * a[i * n + k];
    }
  }
}

Dims batchOf(const Tensor& t) {
  check(t.dim() >= 2, "a matrix has at least two dimensions");
  return Dims(t.shape.v, t.dim() - 2);
}

// inBatch is the shape of a matrix repeated over a batch.
Dims inBatch(Dims batch, int64_t rows, int64_t columns) {
  batch.push(rows);
  batch.push(columns);
  return batch;
}

// Pairwise is the p-distance of two vectors and its derivative.
template <class C>
struct Pairwise {
  double p;
  C value(const C* a, const C* b, int64_t n) const {
    C sum = 0;
    for (int64_t k = 0; k < n; k++) {
      const C d = std::abs(a[k] - b[k]);
      if (std::isinf(p)) sum = d != d || d > sum ? d : sum;
      else sum += p == 2 ? d * d : p == 1 ? d : p == 0 ? C(d != 0) : std::pow(d, static_cast<C>(p));
    }
    return p == 2 ? std::sqrt(sum) : p == 0 || p == 1 || std::isinf(p) ? sum : std::pow(sum, C(1) / static_cast<C>(p));
  }
  // slope is d value / d a for one coordinate of difference d.
  C slope(C d, C distance) const {
    const C sign = static_cast<C>((d > 0) - (d < 0)), size = std::abs(d);
    if (p == 0) return 0;
    if (p == 1) return sign;
    if (std::isinf(p)) return size == distance ? sign : C(0);
    if (distance == 0 || (d == 0 && p < 1)) return 0;
    if (p == 2) return d / distance;
    return sign * std::pow(size / distance, static_cast<C>(p - 1));
  }
};

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiCholesky(diopiContextHandle_t, diopiTensorHandle_t out, diopiTensorHandle_t info, diopiConstTensorHandle_t mat,
                           bool upper, bool checkerror) {
  return guard(__func__, [&] {
    const Tensor a(mat);
    const int64_t batch = batchOf(a).product(), n = a.size(a.dim() - 1);
    check(a.size(a.dim() - 2) == n, "a matrix to factor must be square");
    visitFloat(a.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> from(a);
      Out<C> to{Tensor(out)};
      Out<int64_t> status(info);
      std::copy_n(static_cast<const C*>(from), from.numel, static_cast<C*>(to));
      for (int64_t b = 0; b < batch; b++) {
        const Square<C> m{to + b * n * n, upper ? 1 : n, upper ? n : 1};
        const int64_t minor = factor(m, n);
        if (status) status[b] = minor;
        if (checkerror && minor > 0) {
          fail("the leading minor of order " + std::to_string(minor) + " of matrix " + std::to_string(b) + " is not positive definite");
        }
      }
    });
  });
}

// With L the factor and P = tril(L' G), half on the diagonal, the gradient is the
// symmetric part of inv(L)' P inv(L).
diopiError_t diopiCholeskyBackward(diopiContextHandle_t, diopiTensorHandle_t grad_mat, diopiConstTensorHandle_t grad_output,
                                   diopiConstTensorHandle_t L, bool upper) {
  return guard(__func__, [&] {
    const Tensor l(L);
    const int64_t batch = batchOf(l).product(), n = l.size(l.dim() - 1);
    visitFloat(l.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> factors(l), g(grad_output);
      Out<C> to(grad_mat);
      Scratch<C> p(n * n), turned(n * n);
      for (int64_t b = 0; b < batch; b++) {
        Matrix<C> lower{factors + b * n * n, n, 1}, grad{g + b * n * n, n, 1};
        if (upper) {
          lower = lower.transposed();
          grad = grad.transposed();
        }
        gemm<C>(n, n, n, lower.transposed(), grad, p, n);
        for (int64_t i = 0; i < n; i++) {
          p[i * n + i] /= 2;
          for (int64_t j = i + 1; j < n; j++) p[i * n + j] = 0;
        }
        solve<C>(lower.transposed(), n, p, n, true, false);  // inv(L)' P
        for (int64_t i = 0; i < n; i++) {
          for (int64_t j = 0; j < n; j++) turned[i * n + j] = p[j * n + i];
        }
        solve<C>(lower.transposed(), n, turned, n, true, false);  // the transpose of the product
        for (int64_t i = 0; i < n; i++) {
          for (int64_t j = 0; j < n; j++) to[(b * n + i) * n + j] = (turned[i * n + j] + turned[j * n + i]) / 2;
        }
      }
    });
  });
}

diopiError_t diopiLinalgQR(diopiContextHandle_t, diopiConstTensorHandle_t A, const char* mode, diopiTensorHandle_t Q,
                           diopiTensorHandle_t R) {
  return guard(__func__, [&] {
    const Tensor a(A);
    const bool complete = std::strcmp(mode, "complete") == 0, rOnly = std::strcmp(mode, "r") == 0;
    check(complete || rOnly || std::strcmp(mode, "reduced") == 0, "mode must be reduced, complete or r");
    const int64_t batch = batchOf(a).product(), m = a.size(a.dim() - 2), n = a.size(a.dim() - 1);
    const int64_t rank = complete ? m : std::min(m, n);
    visitFloat(a.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> from(a);
      Out<C> r(R);
      Out<C> q(rOnly ? nullptr : Q);
      check(r.numel == batch * rank * n && (rOnly || q.numel == batch * m * rank), "Q or R has the wrong number of elements");
      Scratch<C> work(m * n);
      for (int64_t b = 0; b < batch; b++) {
        std::copy_n(from + b * m * n, m * n, static_cast<C*>(work));
        const std::vector<C> tau = reflect<C>(work, m, n);
        for (int64_t i = 0; i < rank; i++) {
          for (int64_t j = 0; j < n; j++) r[(b * rank + i) * n + j] = j >= i ? work[i * n + j] : C(0);
        }
        if (q) orthogonal<C>(work, tau, m, n, q + b * m * rank, rank);
      }
    });
  });
}

diopiError_t diopiTriangularSolve(diopiContextHandle_t, diopiTensorHandle_t out, diopiTensorHandle_t cloned_mat,
                                  diopiConstTensorHandle_t b, diopiConstTensorHandle_t mat, bool upper, bool transpose,
                                  bool unitriangular) {
  return guard(__func__, [&] {
    const Tensor right(b), a(mat);
    const Dims batch = broadcast(batchOf(right), batchOf(a));
    const int64_t n = a.size(a.dim() - 1), m = right.size(right.dim() - 1);
    check(a.size(a.dim() - 2) == n && right.size(right.dim() - 2) == n, "the matrix must be square and have a row per row of b");
    visitFloat(a.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> matrices(a, inBatch(batch, n, n)), from(right, inBatch(batch, n, m));
      Out<C> x{Tensor(out)};
      check(x.numel == from.numel, "out has the wrong number of elements");
      std::copy_n(static_cast<const C*>(from), from.numel, static_cast<C*>(x));
      for (int64_t i = 0; i < batch.product(); i++) {
        const Matrix<C> one{matrices + i * n * n, n, 1};
        solve<C>(transpose ? one.transposed() : one, n, x + i * n * m, m, upper != transpose, unitriangular);
      }
      Out<C> clone(cloned_mat);
      if (clone) std::copy_n(static_cast<const C*>(matrices), std::min(clone.numel, matrices.numel), static_cast<C*>(clone));
    });
  });
}

// With x the solution of op(A) x = b, grad_b solves op(A)' grad_b = grad_x and the
// gradient of A is the triangle of -grad_b x' (transposed for a transposed A).
diopiError_t diopiTriangularSolveBackward(diopiContextHandle_t, diopiTensorHandle_t grad_b, diopiTensorHandle_t grad_mat,
                                          diopiConstTensorHandle_t grad_x, diopiConstTensorHandle_t grad_cloned_mat,
                                          diopiConstTensorHandle_t x, diopiConstTensorHandle_t b, diopiConstTensorHandle_t mat,
                                          bool upper, bool transpose, bool unitriangular) {
  return guard(__func__, [&] {
    const Tensor right(b), a(mat), gradX(grad_x);
    const Dims batch = broadcast(batchOf(right), batchOf(a));
    const int64_t count = batch.product(), n = a.size(a.dim() - 1), m = right.size(right.dim() - 1);
    const Dims square = inBatch(batch, n, n), wide = inBatch(batch, n, m);
    visitFloat(a.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> matrices(a, square), solution(Tensor(x), wide), grad(gradX, wide), clone(Tensor(grad_cloned_mat), square);
      Scratch<C> toB(count * n * m), toA(count * n * n);
      std::fill_n(static_cast<C*>(toB), count * n * m, C(0));
      if (grad) std::copy_n(static_cast<const C*>(grad), count * n * m, static_cast<C*>(toB));
      for (int64_t i = 0; i < count; i++) {
        const Matrix<C> one{matrices + i * n * n, n, 1}, answer{solution + i * n * m, m, 1};
        C* gb = toB + i * n * m;
        solve<C>(transpose ? one : one.transposed(), n, gb, m, upper == transpose, unitriangular);
        const Matrix<C> gradB{gb, m, 1};
        C* ga = toA + i * n * n;
        if (transpose) gemm<C>(n, n, m, answer, gradB.transposed(), ga, n);
        else gemm<C>(n, n, m, gradB, answer.transposed(), ga, n);
        for (int64_t r = 0; r < n; r++) {
          for (int64_t c = 0; c < n; c++) {
            const bool inside = upper ? c >= r + unitriangular : r >= c + unitriangular;
            ga[r * n + c] = (inside ? -ga[r * n + c] : C(0)) + (clone ? clone[(i * n + r) * n + c] : C(0));
          }
        }
      }
      if (const Tensor t(grad_b); t) {
        Out<C> to(t);
        sumTo<C>(to, t.shape, toB, wide);
      }
      if (const Tensor t(grad_mat); t) {
        Out<C> to(t);
        sumTo<C>(to, t.shape, toA, square);
      }
    });
  });
}

diopiError_t diopiCdist(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input1,
                        diopiConstTensorHandle_t input2, double p, const int64_t*) {
  return guard(__func__, [&] {
    const Tensor a(input1), b(input2);
    const Dims batch = broadcast(batchOf(a), batchOf(b));
    const int64_t rows = a.size(a.dim() - 2), columns = b.size(b.dim() - 2), n = a.size(a.dim() - 1);
    check(b.size(b.dim() - 1) == n, "the points have different numbers of coordinates");
    visitFloat(a.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> x(a, inBatch(batch, rows, n)), y(b, inBatch(batch, columns, n));
      Out<C> to{Tensor(out)};
      check(to.numel == batch.product() * rows * columns, "out has the wrong number of elements");
      const Pairwise<C> pairwise{p};
      parallelFor(batch.product() * rows, grainFor(columns * n * 4), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
          for (int64_t j = 0; j < columns; j++) {
            to[i * columns + j] = pairwise.value(x + i * n, y + (i / rows * columns + j) * n, n);
          }
        }
      });
    });
  });
}

diopiError_t diopiCdistBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                                diopiConstTensorHandle_t input1, diopiConstTensorHandle_t input2, double p,
                                diopiConstTensorHandle_t cdist) {
  return guard(__func__, [&] {
    const Tensor a(input1), b(input2), to(grad_input);
    const Dims batch = broadcast(batchOf(a), batchOf(b));
    const int64_t rows = a.size(a.dim() - 2), columns = b.size(b.dim() - 2), n = a.size(a.dim() - 1);
    visitFloat(a.dtype, [&](auto zero) {
      using C = decltype(zero);
      const Dims full = inBatch(batch, rows, n);
      const In<C> x(a, full), y(b, inBatch(batch, columns, n)), g(grad_output), distance(cdist);
      Scratch<C> all(full.product());
      std::fill_n(static_cast<C*>(all), full.product(), C(0));
      const Pairwise<C> pairwise{p};
      parallelFor(batch.product() * rows, grainFor(columns * n * 8), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
          for (int64_t j = 0; j < columns; j++) {
            const C *u = x + i * n, *v = y + (i / rows * columns + j) * n;
            const C grad = g[i * columns + j], d = distance[i * columns + j];
            for (int64_t k = 0; k < n; k++) all[i * n + k] += grad * pairwise.slope(u[k] - v[k], d);
          }
        }
      });
      Out<C> target(to);
      sumTo<C>(target, to.shape, all, full);
    });
  });
}

}  // extern "C"
