// Softmax, log_softmax and the scaled, masked softmax of attention, with their
// gradients.
#include "softmax.h"

#include <cmath>
#include <limits>

#include "dense.h"
#include "loop.h"
#include "sums.h"

namespace host {

template <class C>
LogSum<C> logSumExp(const C* x, int64_t n) {
  C top = -std::numeric_limits<C>::infinity();
  for (int64_t i = 0; i < n; i++) top = x[i] > top || x[i] != x[i] ? x[i] : top;
  if (!std::isfinite(top)) return {top, 0};
  return {top, std::log(sumOf<C>(n, [&](int64_t i) { return std::exp(x[i] - top); }))};
}

template LogSum<float> logSumExp(const float*, int64_t);
template LogSum<double> logSumExp(const double*, int64_t);

template <class C>
void softmaxRow(const C* x, C* y, int64_t n) {
  C top = -std::numeric_limits<C>::infinity();
  for (int64_t i = 0; i < n; i++) top = x[i] > top || x[i] != x[i] ? x[i] : top;
  for (int64_t i = 0; i < n; i++) y[i] = std::exp(x[i] - top);
  const C sum = sumOf<C>(n, [&](int64_t i) { return y[i]; });
  for (int64_t i = 0; i < n; i++) y[i] /= sum;
}

template void softmaxRow(const float*, float*, int64_t);
template void softmaxRow(const double*, double*, int64_t);

namespace {

// rows runs f(source rows..., target row) along a dimension of dense arrays,
// through buffers where its elements are not neighbours.
template <class C, size_t K, class F>
void rows(const Around& a, const std::array<const C*, K>& from, C* to, F&& f) {
  parallelFor(a.outer * a.inner, grainFor(a.size * 16), [&](int64_t begin, int64_t end) {
    Scratch<C> buffer(a.inner > 1 ? a.size * (K + 1) : 0);
    for (int64_t row = begin; row < end; row++) {
      const int64_t base = row / a.inner * a.size * a.inner + row % a.inner;
      std::array<const C*, K> x;
      for (size_t k = 0; k < K; k++) {
        x[k] = from[k] + base;
        if (a.inner == 1) continue;
        C* copy = buffer + static_cast<int64_t>(k) * a.size;
        for (int64_t i = 0; i < a.size; i++) copy[i] = x[k][i * a.inner];
        x[k] = copy;
      }
      C* y = a.inner == 1 ? to + base : buffer + static_cast<int64_t>(K) * a.size;
      f(x, y);
      if (a.inner == 1) continue;
      for (int64_t i = 0; i < a.size; i++) to[base + i * a.inner] = y[i];
    }
  });
}

template <class F>
void forward(const Tensor& out, const Tensor& input, int64_t dim, F&& f) {
  visitFloat(out.dtype, [&](auto zero) {
    using C = decltype(zero);
    const Around a(input.shape, dim);
    const In<C> x(input);
    Out<C> y(out);
    rows<C, 1>(a, {x}, y, [&](const auto& row, C* to) { f(row[0], to, a.size); });
  });
}

template <class F>
void backward(const Tensor& gradInput, const Tensor& gradOutput, const Tensor& output, int64_t dim, F&& f) {
  visitFloat(gradInput.dtype, [&](auto zero) {
    using C = decltype(zero);
    const Around a(output.shape, dim);
    const In<C> g(gradOutput), y(output);
    Out<C> to(gradInput);
    rows<C, 2>(a, {g, y}, to, [&](const auto& row, C* target) { f(row[0], row[1], target, a.size); });
  });
}

// Hidden says which scores are left out: those that the mask names or, with a fixed
// mask, those behind the diagonal of the last two dimensions.
class Hidden {
 public:
  Hidden(const Tensor& mask, const Dims& shape, bool fixed)
      : mask_(mask, shape), fixed_(fixed), rows_(last(shape, 2)), cols_(last(shape, 1)), maskRows_(last(mask ? mask.shape : shape, 2)),
        maskCols_(last(mask ? mask.shape : shape, 1)) {}
  bool operator()(int64_t row, int64_t i) const {
    if (!fixed_) return mask_[row * cols_ + i] != 0;
    return (maskCols_ == 1 ? 0 : i) > (maskRows_ == 1 ? 0 : row % rows_);
  }

 private:
  In<uint8_t> mask_;
  // The k-th size from the end.
  static int64_t last(const Dims& d, int64_t k) { return d.n < k ? 1 : d[d.n - k]; }
  bool fixed_;
  int64_t rows_, cols_, maskRows_, maskCols_;
};

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiSoftmax(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, int64_t dim) {
  return guard(__func__, [&] {
    forward(out, input, dim, [](const auto* x, auto* y, int64_t n) { softmaxRow(x, y, n); });
  });
}

diopiError_t diopiLogSoftmax(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, int64_t dim) {
  return guard(__func__, [&] {
    forward(out, input, dim, [](const auto* x, auto* y, int64_t n) {
      const auto all = logSumExp(x, n);
      for (int64_t i = 0; i < n; i++) y[i] = all.logSoftmax(x[i]);
    });
  });
}

diopiError_t diopiSoftmaxBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                                  diopiConstTensorHandle_t output, int64_t dim) {
  return guard(__func__, [&] {
    backward(grad_input, grad_output, output, dim, [](const auto* g, const auto* y, auto* to, int64_t n) {
      using C = std::remove_reference_t<decltype(*to)>;
      const C along = sumOf<C>(n, [&](int64_t i) { return g[i] * y[i]; });
      for (int64_t i = 0; i < n; i++) to[i] = (g[i] - along) * y[i];
    });
  });
}

diopiError_t diopiLogSoftmaxBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input,
                                     diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t output, int64_t dim) {
  return guard(__func__, [&] {
    backward(grad_input, grad_output, output, dim, [](const auto* g, const auto* y, auto* to, int64_t n) {
      using C = std::remove_reference_t<decltype(*to)>;
      const C sum = sumOf<C>(n, [&](int64_t i) { return g[i]; });
      for (int64_t i = 0; i < n; i++) to[i] = g[i] - std::exp(y[i]) * sum;
    });
  });
}

// The softmax over the last dimension of input * scale, with -10000 where the mask
// is set; with fixed_triu_mask what lies above the diagonal of a matrix of
// the mask's last two sizes is hidden, whatever the mask holds.
diopiError_t diopiScaledMaskedSoftmax(diopiContextHandle_t, diopiTensorHandle_t output, diopiConstTensorHandle_t input,
                                      diopiConstTensorHandle_t mask, double scale, bool fixed_triu_mask) {
  return guard(__func__, [&] {
    const Tensor x(input), m(mask);
    visitFloat(x.dtype, [&](auto zero) {
      using C = decltype(zero);
      const Around a(x.shape, -1);
      const In<C> from(x);
      const Hidden hidden(m, x.shape, fixed_triu_mask);
      Out<C> to{Tensor(output)};
      parallelFor(a.outer, grainFor(a.size * 16), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; row++) {
          C* y = to + row * a.size;
          for (int64_t i = 0; i < a.size; i++) {
            y[i] = hidden(row, i) ? C(-10000) : from[row * a.size + i] * static_cast<C>(scale);
          }
          softmaxRow<C>(y, y, a.size);
        }
      });
    });
  });
}

diopiError_t diopiScaledMaskedSoftmaxBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input,
                                              diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t output,
                                              diopiConstTensorHandle_t mask, double scale, bool fixed_triu_mask) {
  return guard(__func__, [&] {
    const Tensor y(output), m(mask);
    visitFloat(y.dtype, [&](auto zero) {
      using C = decltype(zero);
      const Around a(y.shape, -1);
      const In<C> g(grad_output), from(y);
      const Hidden hidden(m, y.shape, fixed_triu_mask);
      Out<C> to(grad_input);
      parallelFor(a.outer, grainFor(a.size * 8), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; row++) {
          const int64_t at = row * a.size;
          const C along = sumOf<C>(a.size, [&](int64_t i) { return g[at + i] * from[at + i]; });
          for (int64_t i = 0; i < a.size; i++) {
            to[at + i] = hidden(row, i) ? C(0) : (g[at + i] - along) * from[at + i] * static_cast<C>(scale);
          }
        }
      });
    });
  });
}

}  // extern "C"
