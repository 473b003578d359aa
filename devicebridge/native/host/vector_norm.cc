// p-norms over dimensions, normalize, and the clipping of gradients by their norm.
#include "vector_norm.h"

#include <cmath>
#include <limits>
#include <vector>

#include "dense.h"
#include "loop.h"
#include "sums.h"

namespace host {

template <class C>
C vectorNorm(const C* x, int64_t n, double p) {
  if (p == 2) return std::sqrt(sumOf<C>(n, [&](int64_t i) { return x[i] * x[i]; }));
  if (p == 1) return sumOf<C>(n, [&](int64_t i) { return std::abs(x[i]); });
  if (p == 0) return sumOf<C>(n, [&](int64_t i) { return C(x[i] != 0); });
  if (std::isinf(p)) {
    C best = p > 0 ? C(0) : std::numeric_limits<C>::infinity();
    for (int64_t i = 0; i < n; i++) {
      const C v = std::abs(x[i]);
      if (v != v || (p > 0 ? v > best : v < best)) best = v;
      if (v != v) break;
    }
    return best;
  }
  const C power = static_cast<C>(p);
  return std::pow(sumOf<C>(n, [&](int64_t i) { return std::pow(std::abs(x[i]), power); }), C(1) / power);
}

template float vectorNorm(const float*, int64_t, double);
template double vectorNorm(const double*, int64_t, double);

namespace {

template <class C>
C sign(C x) {
  return static_cast<C>((x > 0) - (x < 0));
}

// addNormGradient adds g * d norm / dx to every element of a vector.
template <class C>
void addNormGradient(const C* x, int64_t n, double p, C norm, C g, C* to) {
  if (p == 0) return;
  if (p == 1) {
    for (int64_t i = 0; i < n; i++) to[i] += g * sign(x[i]);
  } else if (p == 2) {
    if (norm == 0) return;
    for (int64_t i = 0; i < n; i++) to[i] += x[i] * (g / norm);
  } else if (std::isinf(p)) {  // shared by all that attain it
    const C ties = sumOf<C>(n, [&](int64_t i) { return C(std::abs(x[i]) == norm || x[i] != x[i]); });
    for (int64_t i = 0; i < n; i++) {
      if (std::abs(x[i]) == norm || x[i] != x[i]) to[i] += g * sign(x[i]) / ties;
    }
  } else {
    const C power = static_cast<C>(p);
    if (norm == 0 && p > 1) return;
    const C scale = g / std::pow(norm, power - 1);
    for (int64_t i = 0; i < n; i++) {
      if (x[i] != 0) to[i] += sign(x[i]) * std::pow(std::abs(x[i]), power - 1) * scale;
    }
  }
}

// reduced marks the dimensions to reduce: all when none are named.
std::vector<bool> reduced(int rank, diopiSize_t dim) {
  std::vector<bool> mark(static_cast<size_t>(std::max(rank, 1)), dim.len == 0);
  for (int64_t i = 0; i < dim.len; i++) mark[wrapDim(dim.data[i], rank)] = true;
  mark.resize(static_cast<size_t>(rank));
  return mark;
}

// reducedLast permutes the reduced dimensions to the end; rows counts the rest.
Tensor reducedLast(const Tensor& t, diopiSize_t dim, int64_t& rows) {
  const std::vector<bool> mark = reduced(t.dim(), dim);
  Dims order;
  rows = 1;
  for (int pass = 0; pass < 2; pass++) {
    for (int d = 0; d < t.dim(); d++) {
      if (mark[d] != (pass == 1)) continue;
      order.push(d);
      if (pass == 0) rows *= t.size(d);
    }
  }
  return t.permute(order);
}

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiNorm(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, const diopiScalar_t* p,
                       diopiSize_t dim) {
  return guard(__func__, [&] {
    const Tensor t(input);
    int64_t rows;
    const Tensor view = reducedLast(t, dim, rows);
    visitFloat(t.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> x(view);
      Out<C> to{Tensor(out)};
      check(to.numel == rows, "out has the wrong number of elements");
      const int64_t n = rows > 0 ? x.numel / rows : 0;
      parallelFor(rows, grainFor(n * 4), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) to[i] = vectorNorm<C>(x + i * n, n, asDouble(*p));
      });
    });
  });
}

diopiError_t diopiNormBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                               diopiConstTensorHandle_t self, diopiConstTensorHandle_t norm, diopiSize_t dim,
                               const diopiScalar_t* p) {
  return guard(__func__, [&] {
    const Tensor t(self);
    int64_t rows;
    const Tensor view = reducedLast(t, dim, rows), target = reducedLast(grad_input, dim, rows);
    visitFloat(t.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> x(view), g(grad_output), values(norm);
      check(g.numel == rows && values.numel == rows, "grad_output and norm want an element per norm");
      Out<C> to(target);
      to.zero();
      const int64_t n = rows > 0 ? x.numel / rows : 0;
      for (int64_t i = 0; i < rows; i++) addNormGradient<C>(x + i * n, n, asDouble(*p), values[i], g[i], to + i * n);
    });
  });
}

// x / max(norm, eps) along an axis.
diopiError_t diopiNormalize(diopiContextHandle_t, diopiTensorHandle_t output, diopiConstTensorHandle_t input, const float p,
                            const int64_t axis, const double eps) {
  return guard(__func__, [&] {
    const Tensor t(input);
    int64_t rows;
    const diopiSize_t dim{&axis, 1};
    const Tensor view = reducedLast(t, dim, rows), target = reducedLast(output, dim, rows);
    visitFloat(t.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> x(view);
      Out<C> to(target);
      const int64_t n = rows > 0 ? x.numel / rows : 0;
      for (int64_t i = 0; i < rows; i++) {
        const C size = std::max(vectorNorm<C>(x + i * n, n, p), static_cast<C>(eps));
        for (int64_t j = i * n; j < (i + 1) * n; j++) to[j] = x[j] / size;
      }
    });
  });
}

diopiError_t diopiNormalizeBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                                    diopiConstTensorHandle_t input, const float p, const int64_t axis, const double eps) {
  return guard(__func__, [&] {
    const Tensor t(input);
    int64_t rows;
    const diopiSize_t dim{&axis, 1};
    const Tensor view = reducedLast(t, dim, rows), grad = reducedLast(grad_output, dim, rows),
                 target = reducedLast(grad_input, dim, rows);
    visitFloat(t.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> x(view), g(grad);
      Out<C> to(target);
      const int64_t n = rows > 0 ? x.numel / rows : 0;
      for (int64_t i = 0; i < rows; i++) {
        const C *xr = x + i * n, *gr = g + i * n;
        const C norm = vectorNorm<C>(xr, n, p), size = std::max(norm, static_cast<C>(eps));
        for (int64_t j = 0; j < n; j++) to[i * n + j] = gr[j] / size;
        if (norm < static_cast<C>(eps)) continue;  // a constant divisor
        const C along = sumOf<C>(n, [&](int64_t j) { return gr[j] * xr[j]; });
        addNormGradient<C>(xr, n, p, norm, -along / (size * size), to + i * n);
      }
    });
  });
}

// Scales gradients so that the norm of all of them together is at most max_norm.
diopiError_t diopiClipGradNorm(diopiContextHandle_t, double* out, diopiTensorHandle_t* grads, int64_t num_grads,
                               double max_norm, double norm_type, bool error_if_nonfinite) {
  return guard(__func__, [&] {
    std::vector<float> parts;
    std::vector<double> wideParts;
    bool wide = false;
    for (int64_t k = 0; k < num_grads; k++) {
      const Tensor t(grads[k]);
      visitFloat(t.dtype, [&](auto zero) {
        using C = decltype(zero);
        const In<C> x(t);
        wide = wide || std::is_same_v<C, double>;
        wideParts.push_back(vectorNorm<C>(x, x.numel, norm_type));
        parts.push_back(static_cast<float>(wideParts.back()));
      });
    }
    const double total = wide ? vectorNorm<double>(wideParts.data(), num_grads, norm_type)
                              : vectorNorm<float>(parts.data(), num_grads, norm_type);
    if (out) *out = total;
    if (error_if_nonfinite && !std::isfinite(total)) fail("the total norm of the gradients is not finite");
    const double scale = std::min(1.0, max_norm / (total + 1e-6));
    for (int64_t k = 0; k < num_grads; k++) {
      const Tensor t(grads[k]);
      visitFloat(t.dtype, [&](auto zero) {
        using C = decltype(zero);
        map<C>(t, [=](C g) { return g * static_cast<C>(scale); }, in<C>(t));
      });
    }
  });
}

}  // extern "C"
