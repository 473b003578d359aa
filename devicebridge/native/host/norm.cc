// Normalisations whose statistics are those of a row of consecutive elements:
// layer, group, instance and root mean square norm.
#include <cmath>

#include "dense.h"
#include "loop.h"
#include "sums.h"

namespace host {

namespace {

// A Layout cuts a tensor into rows of `length` elements that share statistics.
// Each row has `channels` stretches with a weight of their own, those of row r
// starting at (r mod cycle) * channels.
struct Layout {
  int64_t rows, length, channels, cycle;
  bool centered;  // whether the mean is taken off

  int64_t span() const { return channels > 0 ? length / channels : 0; }
  int64_t first(int64_t row) const { return row % cycle * channels; }
  int64_t weights() const { return channels * cycle; }
};

Layout layerLayout(const Dims& shape, int64_t normalized, bool centered) {
  check(normalized >= 0 && normalized <= shape.n, "more dimensions to normalize than the input has");
  Layout l{1, 1, 1, 1, centered};
  for (int i = 0; i < shape.n; i++) (i < shape.n - normalized ? l.rows : l.length) *= shape[i];
  l.channels = l.length;
  return l;
}

Layout groupLayout(const Dims& shape, int64_t groups) {
  check(shape.n >= 2 && groups > 0 && shape[1] % groups == 0, "channels cannot be divided into the groups");
  Layout l{shape[0] * groups, shape[1] / groups, shape[1] / groups, groups, true};
  for (int i = 2; i < shape.n; i++) l.length *= shape[i];
  return l;
}

Layout instanceLayout(const Dims& shape, int64_t axis) {
  check(axis >= 1 && axis <= shape.n, "axis lies outside of the input's dimensions");
  Layout l{1, 1, 1, 1, true};
  for (int i = 0; i < shape.n; i++) (i < axis ? l.rows : l.length) *= shape[i];
  l.cycle = std::max<int64_t>(1, l.rows / std::max<int64_t>(shape[0], 1));
  return l;
}

template <class C>
struct Moments {
  C mean, scale;  // scale = 1 / sqrt(variance + eps)
};

template <class C>
Moments<C> momentsOf(const C* x, const Layout& l, double eps) {
  const C n = static_cast<C>(l.length);
  const C mean = l.centered ? sumOf<C>(l.length, [&](int64_t j) { return x[j]; }) / n : C(0);
  const C square = sumOf<C>(l.length, [&](int64_t j) { return (x[j] - mean) * (x[j] - mean); });
  return {mean, C(1) / std::sqrt(square / n + static_cast<C>(eps))};
}

template <class C>
void normalizeRow(const C* x, C* y, int64_t row, const Layout& l, Moments<C> m, const C* weight, const C* bias) {
  const int64_t span = l.span(), first = l.first(row);
  if (span == 1) {
    for (int64_t j = 0; j < l.length; j++) y[j] = (x[j] - m.mean) * m.scale * (weight ? weight[first + j] : C(1));
    if (bias) {
      for (int64_t j = 0; j < l.length; j++) y[j] += bias[first + j];
    }
    return;
  }
  for (int64_t c = 0; c < l.channels; c++) {
    const C scale = m.scale * (weight ? weight[first + c] : C(1)), shift = bias ? bias[first + c] : C(0);
    for (int64_t j = c * span; j < (c + 1) * span; j++) y[j] = (x[j] - m.mean) * scale + shift;
  }
}

// forward normalizes; the statistics go to saveMean and saveScale if those exist.
void forward(const Layout& l, const Tensor& out, const Tensor& saveMean, const Tensor& saveScale, const Tensor& input,
             const Tensor& weight, const Tensor& bias, double eps) {
  visitFloat(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    const In<C> x(input), w(weight), b(bias);
    check((!w || w.numel == l.weights()) && (!b || b.numel == l.weights()), "weight or bias has the wrong number of elements");
    Out<C> y(out), mean(saveMean), scale(saveScale);
    parallelFor(l.rows, grainFor(l.length * 4), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; row++) {
        const Moments<C> m = momentsOf<C>(x + row * l.length, l, eps);
        if (mean) mean[row] = m.mean;
        if (scale) scale[row] = m.scale;
        normalizeRow<C>(x + row * l.length, y + row * l.length, row, l, m, w, b);
      }
    });
  });
}

// gradients computes those of the input, the weight and the bias; statistics that
// were not saved (no scale) are computed again with eps.
void gradients(const Layout& l, const Tensor& gradInput, const Tensor& gradWeight, const Tensor& gradBias,
               const Tensor& gradOutput, const Tensor& input, const Tensor& weight, const Tensor& saveMean,
               const Tensor& saveScale, double eps) {
  visitFloat(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    const In<C> g(gradOutput), x(input), w(weight), mean(saveMean), scale(saveScale);
    Scratch<Moments<C>> moments(l.rows);
    const int64_t span = l.span();
    {
      Out<C> to(gradInput);
      parallelFor(l.rows, grainFor(l.length * 8), [&](int64_t begin, int64_t end) {
        Scratch<C> weighted(l.length);  // gradient times weight
        for (int64_t row = begin; row < end; row++) {
          const C *xr = x + row * l.length, *gr = g + row * l.length;
          const Moments<C> m = scale ? Moments<C>{mean ? mean[row] : C(0), scale[row]} : momentsOf<C>(xr, l, eps);
          moments[row] = m;
          if (!to || l.length == 0) continue;
          const int64_t first = l.first(row);
          for (int64_t c = 0; c < l.channels; c++) {
            const C k = w ? w[first + c] : C(1);
            for (int64_t j = c * span; j < (c + 1) * span; j++) weighted[j] = gr[j] * k;
          }
          const C n = static_cast<C>(l.length);
          const C along = sumOf<C>(l.length, [&](int64_t j) { return weighted[j] * ((xr[j] - m.mean) * m.scale); }) / n;
          const C level = l.centered ? sumOf<C>(l.length, [&](int64_t j) { return weighted[j]; }) / n : C(0);
          C* tr = to + row * l.length;
          for (int64_t j = 0; j < l.length; j++) {
            tr[j] = m.scale * (weighted[j] - level - (xr[j] - m.mean) * m.scale * along);
          }
        }
      });
    }
    Out<C> toWeight(gradWeight), toBias(gradBias);
    toWeight.zero();
    toBias.zero();
    if (!toWeight && !toBias) return;
    if (span == 1 && l.cycle == 1) {
      parallelFor(l.length, grainFor(l.rows * 2), [&](int64_t begin, int64_t end) {
        if (toWeight) {
          addRows<C>(l.rows, end - begin, toWeight + begin, [&](int64_t row, int64_t j) {
            const int64_t i = row * l.length + begin + j;
            return g[i] * ((x[i] - moments[row].mean) * moments[row].scale);
          });
        }
        if (toBias) {
          addRows<C>(l.rows, end - begin, toBias + begin,
                     [&](int64_t row, int64_t j) { return g[row * l.length + begin + j]; });
        }
      });
      return;
    }
    for (int64_t row = 0; row < l.rows; row++) {
      const Moments<C> m = moments[row];
      for (int64_t c = 0; c < l.channels; c++) {
        const C *xr = x + row * l.length + c * span, *gr = g + row * l.length + c * span;
        const int64_t at = l.first(row) + c;
        if (toWeight) toWeight[at] += sumOf<C>(span, [&](int64_t j) { return gr[j] * (xr[j] - m.mean); }) * m.scale;
        if (toBias) toBias[at] += sumOf<C>(span, [&](int64_t j) { return gr[j]; });
      }
    }
  });
}

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiLayerNorm(diopiContextHandle_t, diopiTensorHandle_t out, diopiTensorHandle_t save_mean,
                            diopiTensorHandle_t save_invstd, diopiConstTensorHandle_t input, diopiConstTensorHandle_t weight,
                            diopiConstTensorHandle_t bias, diopiSize_t normalized_shape, double eps) {
  return guard(__func__, [&] {
    const Tensor x(input);
    forward(layerLayout(x.shape, normalized_shape.len, true), out, save_mean, save_invstd, x, weight, bias, eps);
  });
}

diopiError_t diopiLayerNormBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiTensorHandle_t grad_weight,
                                    diopiTensorHandle_t grad_bias, diopiConstTensorHandle_t grad_output,
                                    diopiConstTensorHandle_t input, diopiConstTensorHandle_t weight, diopiConstTensorHandle_t,
                                    diopiConstTensorHandle_t mean, diopiConstTensorHandle_t rstd,
                                    diopiSize_t normalized_shape) {
  return guard(__func__, [&] {
    const Tensor x(input);
    gradients(layerLayout(x.shape, normalized_shape.len, true), grad_input, grad_weight, grad_bias, grad_output, x, weight,
              mean, rstd, 0);
  });
}

diopiError_t diopiLayerNormGB(diopiContextHandle_t, diopiTensorHandle_t out, diopiTensorHandle_t running_mean,
                              diopiTensorHandle_t running_var, diopiConstTensorHandle_t input,
                              diopiConstTensorHandle_t weight, diopiConstTensorHandle_t bias, const double eps,
                              const int64_t begin_norm_axis) {
  return guard(__func__, [&] {
    const Tensor x(input);
    forward(layerLayout(x.shape, x.dim() - begin_norm_axis, true), out, running_mean, running_var, x, weight, bias, eps);
  });
}

diopiError_t diopiLayerNormGBBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiTensorHandle_t grad_weight,
                                      diopiTensorHandle_t grad_bias, diopiConstTensorHandle_t grad_output,
                                      diopiConstTensorHandle_t input, diopiConstTensorHandle_t weight,
                                      diopiConstTensorHandle_t, diopiConstTensorHandle_t running_mean,
                                      diopiConstTensorHandle_t running_std, const int64_t begin_norm_axis) {
  return guard(__func__, [&] {
    const Tensor x(input);
    gradients(layerLayout(x.shape, x.dim() - begin_norm_axis, true), grad_input, grad_weight, grad_bias, grad_output, x,
              weight, running_mean, running_std, 0);
  });
}

diopiError_t diopiGroupNorm(diopiContextHandle_t, diopiTensorHandle_t out, diopiTensorHandle_t save_mean,
                            diopiTensorHandle_t save_invstd, diopiConstTensorHandle_t input, diopiConstTensorHandle_t weight,
                            diopiConstTensorHandle_t bias, int64_t num_groups, double eps) {
  return guard(__func__, [&] {
    const Tensor x(input);
    forward(groupLayout(x.shape, num_groups), out, save_mean, save_invstd, x, weight, bias, eps);
  });
}

diopiError_t diopiGroupNormBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiTensorHandle_t grad_weight,
                                    diopiTensorHandle_t grad_bias, diopiConstTensorHandle_t grad_output,
                                    diopiConstTensorHandle_t input, diopiConstTensorHandle_t weight,
                                    diopiConstTensorHandle_t mean, diopiConstTensorHandle_t rstd, int64_t num_groups) {
  return guard(__func__, [&] {
    const Tensor x(input);
    gradients(groupLayout(x.shape, num_groups), grad_input, grad_weight, grad_bias, grad_output, x, weight, mean, rstd, 0);
  });
}

diopiError_t diopiInstanceNorm(diopiContextHandle_t, diopiTensorHandle_t output, diopiConstTensorHandle_t input,
                               const int64_t axis, diopiConstTensorHandle_t scale, diopiConstTensorHandle_t bias,
                               const double eps) {
  return guard(__func__, [&] {
    const Tensor x(input);
    forward(instanceLayout(x.shape, axis), output, Tensor(), Tensor(), x, scale, bias, eps);
  });
}

diopiError_t diopiInstanceNormBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiTensorHandle_t grad_scale,
                                       diopiTensorHandle_t grad_bias, diopiConstTensorHandle_t grad_output,
                                       diopiConstTensorHandle_t input, diopiConstTensorHandle_t scale,
                                       diopiConstTensorHandle_t, const int64_t axis, const double eps) {
  return guard(__func__, [&] {
    const Tensor x(input);
    gradients(instanceLayout(x.shape, axis), grad_input, grad_scale, grad_bias, grad_output, x, scale, Tensor(), Tensor(), eps);
  });
}

diopiError_t diopiRMSNorm(diopiContextHandle_t, diopiTensorHandle_t out, diopiTensorHandle_t inv_rms,
                          diopiConstTensorHandle_t input, diopiSize_t normalized_shape, diopiConstTensorHandle_t weight,
                          diopiConstTensorHandle_t bias, double eps) {
  return guard(__func__, [&] {
    const Tensor x(input);
    forward(layerLayout(x.shape, normalized_shape.len, false), out, Tensor(), inv_rms, x, weight, bias, eps);
  });
}

diopiError_t diopiRMSNormBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiTensorHandle_t grad_weight,
                                  diopiTensorHandle_t grad_bias, diopiConstTensorHandle_t grad_output,
                                  diopiConstTensorHandle_t input, diopiConstTensorHandle_t weight, diopiConstTensorHandle_t,
                                  diopiConstTensorHandle_t inv_rms, diopiSize_t normalized_shape, double eps) {
  return guard(__func__, [&] {
    const Tensor x(input);
    gradients(layerLayout(x.shape, normalized_shape.len, false), grad_input, grad_weight, grad_bias, grad_output, x, weight,
              Tensor(), inv_rms, eps);
  });
}

}  // extern "C"
