// Convolutions of two and three spatial dimensions, plain and transposed, and
// their gradients. All are three products over unfolded windows: the forward
// product, the gradient of the data and the gradient of the weight; a transposed
// convolution is the data gradient of a plain one.
#include <algorithm>

#include "dense.h"
#include "gemm.h"
#include "loop.h"
#include "window.h"

namespace host {

namespace {

// Conv is a plain convolution: data [batch, channels, in] to maps [batch, maps, out].
struct Conv {
  int64_t batch, channels, maps, groups;
  Space in, out;
  Window window;

  int64_t groupChannels() const { return channels / groups; }
  int64_t groupMaps() const { return maps / groups; }
  int64_t terms() const { return groupChannels() * window.kernel.volume(); }
  // Whether the windows are the data themselves.
  bool pointwise() const {
    for (int i = 0; i < 3; i++) {
      if (window.kernel[i] != 1 || window.stride[i] != 1 || window.padding[i] != 0) return false;
    }
    return true;
  }
  // Outputs whose windows are unfolded at once.
  int64_t chunk() const { return std::clamp<int64_t>((1 << 19) / std::max<int64_t>(terms(), 1), 64, 1 << 14); }
};

Conv describe(const Tensor& data, const Tensor& maps, const Tensor& weight, diopiSize_t stride, diopiSize_t padding,
              diopiSize_t dilation, int64_t groups, int rank) {
  check(weight.dim() == rank + 2, "weight has the wrong number of dimensions");
  const Planes x(data.shape, rank), y(maps.shape, rank);
  Conv c{x.batch, x.channels, y.channels, groups, x.size, y.size,
         {trailing(weight.shape, rank), space(stride, rank, 1), space(padding, rank, 0), space(dilation, rank, 1)}};
  for (int i = 0; i < 3 - rank; i++) c.window.padding.v[i] = 0;
  check(groups > 0 && c.channels % groups == 0 && c.maps % groups == 0, "channels cannot be divided into the groups");
  check(x.batch == y.batch, "input and output have different batch sizes");
  if (weight.size(0) != c.maps || weight.size(1) != c.groupChannels()) {
    fail("weight of shape " + text(weight.shape) + " does not fit " + std::to_string(c.channels) + " channels, " +
         std::to_string(c.maps) + " maps and " + std::to_string(groups) + " groups");
  }
  return c;
}

// eachGroup runs f(image and group index) for all, in parallel when there are
// enough of them or they are small; products inside then run on one thread.
template <class F>
void eachGroup(const Conv& c, F&& f) {
  const int64_t count = c.batch * c.groups, work = c.groupMaps() * c.terms() * c.out.volume();
  const auto run = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) f(i);
  };
  if (count >= 4 || work < 65536) parallelFor(count, std::max<int64_t>(1, 65536 / std::max<int64_t>(work, 1)), run);
  else run(0, count);
}

template <class C>
void forward(const Conv& c, const C* data, const C* weight, const C* bias, C* maps) {
  const int64_t n = c.out.volume(), k = c.terms(), m = c.groupMaps(), image = c.groupChannels() * c.in.volume();
  eachGroup(c, [&](int64_t at) {
    const int64_t group = at % c.groups;
    const C *x = data + at * image, *w = weight + group * m * k;
    C* y = maps + at * m * n;
    if (c.pointwise()) {
      gemm<C>(m, n, k, {w, k, 1}, {x, n, 1}, y, n);
    } else {
      const int64_t chunk = std::min(c.chunk(), n);
      Scratch<C> columns(k * chunk);
      for (int64_t from = 0; from < n; from += chunk) {
        const int64_t to = std::min(n, from + chunk);
        unfoldColumns<C>(x, c.groupChannels(), c.in, c.out, c.window, from, to, columns);
        gemm<C>(m, to - from, k, {w, k, 1}, {columns, to - from, 1}, y + from, n);
      }
    }
    if (!bias) return;
    for (int64_t i = 0; i < m; i++) {
      const C add = bias[group * m + i];
      for (int64_t j = 0; j < n; j++) y[i * n + j] += add;
    }
  });
}

// dataGradient computes data from maps; bias, if any, is per channel of the data.
template <class C>
void dataGradient(const Conv& c, const C* maps, const C* weight, const C* bias, C* data) {
  const int64_t n = c.out.volume(), k = c.terms(), m = c.groupMaps(), pixels = c.in.volume();
  const int64_t image = c.groupChannels() * pixels;
  eachGroup(c, [&](int64_t at) {
    const int64_t group = at % c.groups;
    const C *y = maps + at * m * n, *w = weight + group * m * k;
    C* x = data + at * image;
    if (c.pointwise()) {
      gemm<C>(k, n, m, {w, 1, k}, {y, n, 1}, x, n);
    } else {
      std::fill_n(x, image, C(0));
      const int64_t chunk = std::min(c.chunk(), n);
      Scratch<C> columns(k * chunk);
      for (int64_t from = 0; from < n; from += chunk) {
        const int64_t to = std::min(n, from + chunk);
        gemm<C>(k, to - from, m, {w, 1, k}, {y + from, n, 1}, columns, to - from);
        foldColumns<C>(x, c.groupChannels(), c.in, c.out, c.window, from, to, columns);
      }
    }
    if (!bias) return;
    for (int64_t i = 0; i < c.groupChannels(); i++) {
      const C add = bias[group * c.groupChannels() + i];
      for (int64_t j = 0; j < pixels; j++) x[i * pixels + j] += add;
    }
  });
}

template <class C>
void weightGradient(const Conv& c, const C* data, const C* maps, C* weight) {
  const int64_t n = c.out.volume(), k = c.terms(), m = c.groupMaps(), image = c.groupChannels() * c.in.volume();
  std::fill_n(weight, c.maps * k, C(0));
  const int64_t chunk = std::min(c.chunk(), std::max<int64_t>(n, 1));
  const auto run = [&](int64_t first, int64_t last) {
    Scratch<C> columns(c.pointwise() ? 1 : k * chunk);
    for (int64_t group = first; group < last; group++) {
      for (int64_t b = 0; b < c.batch; b++) {
        const int64_t at = b * c.groups + group;
        const C *x = data + at * image, *y = maps + at * m * n;
        C* w = weight + group * m * k;
        if (c.pointwise()) {
          gemm<C>(m, k, n, {y, n, 1}, {x, 1, n}, w, k, true);
          continue;
        }
        for (int64_t from = 0; from < n; from += chunk) {
          const int64_t to = std::min(n, from + chunk);
          unfoldColumns<C>(x, c.groupChannels(), c.in, c.out, c.window, from, to, columns);
          gemm<C>(m, k, to - from, {y + from, n, 1}, {columns, 1, to - from}, w, k, true);
        }
      }
    }
  };
  if (c.groups >= 4) parallelFor(c.groups, 1, run);
  else run(0, c.groups);
}

// biasGradient sums [batch, channels, pixels] over all but the channels.
template <class C>
void biasGradient(const C* grad, int64_t batch, int64_t channels, int64_t pixels, C* to) {
  for (int64_t c = 0; c < channels; c++) {
    C sum = 0;
    for (int64_t b = 0; b < batch; b++) {
      const C* from = grad + (b * channels + c) * pixels;
      C part = 0;
      for (int64_t i = 0; i < pixels; i++) part += from[i];
      sum += part;
    }
    to[c] = sum;
  }
}

void convolution(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias, diopiSize_t stride,
                 diopiSize_t padding, diopiSize_t dilation, int64_t groups, int rank) {
  const Conv c = describe(input, out, weight, stride, padding, dilation, groups, rank);
  visitFloat(out.dtype, [&](auto zero) {
    using C = decltype(zero);
    const In<C> x(input), w(weight), b(bias);
    Out<C> y(out);
    forward<C>(c, x, w, b, y);
  });
}

void convolutionBackward(const Tensor& gradInput, const Tensor& gradWeight, const Tensor& gradBias, const Tensor& gradOutput,
                         const Tensor& input, const Tensor& weight, diopiSize_t stride, diopiSize_t padding,
                         diopiSize_t dilation, int64_t groups, int rank) {
  const Conv c = describe(input, gradOutput, weight, stride, padding, dilation, groups, rank);
  visitFloat(gradOutput.dtype, [&](auto zero) {
    using C = decltype(zero);
    const In<C> x(input), w(weight), g(gradOutput);
    if (gradInput) {
      Out<C> to(gradInput);
      dataGradient<C>(c, g, w, nullptr, to);
    }
    if (gradWeight) {
      Out<C> to(gradWeight);
      weightGradient<C>(c, x, g, to);
    }
    if (gradBias) {
      Out<C> to(gradBias);
      biasGradient<C>(g, c.batch, c.maps, c.out.volume(), to);
    }
  });
}

void transposed(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias, diopiSize_t stride,
                diopiSize_t padding, diopiSize_t dilation, int64_t groups, int rank) {
  const Conv c = describe(out, input, weight, stride, padding, dilation, groups, rank);
  visitFloat(out.dtype, [&](auto zero) {
    using C = decltype(zero);
    const In<C> x(input), w(weight), b(bias);
    Out<C> y(out);
    dataGradient<C>(c, x, w, b, y);
  });
}

void transposedBackward(const Tensor& gradInput, const Tensor& gradWeight, const Tensor& gradBias, const Tensor& gradOutput,
                        const Tensor& input, const Tensor& weight, diopiSize_t stride, diopiSize_t padding,
                        diopiSize_t dilation, int64_t groups, int rank) {
  const Conv c = describe(gradOutput, input, weight, stride, padding, dilation, groups, rank);
  visitFloat(gradOutput.dtype, [&](auto zero) {
    using C = decltype(zero);
    const In<C> x(input), w(weight), g(gradOutput);
    if (gradInput) {
      Out<C> to(gradInput);
      forward<C>(c, g, w, nullptr, to);
    }
    if (gradWeight) {
      Out<C> to(gradWeight);
      weightGradient<C>(c, g, x, to);
    }
    if (gradBias) {
      Out<C> to(gradBias);
      biasGradient<C>(g, c.batch, c.channels, c.in.volume(), to);
    }
  });
}

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiConvolution2d(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                                diopiConstTensorHandle_t weight, diopiConstTensorHandle_t bias, diopiSize_t stride,
                                diopiSize_t padding, diopiSize_t dilation, int64_t groups) {
  return guard(__func__, [&] { convolution(out, input, weight, bias, stride, padding, dilation, groups, 2); });
}

diopiError_t diopiConvolution3d(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                                diopiConstTensorHandle_t weight, diopiConstTensorHandle_t bias, diopiSize_t stride,
                                diopiSize_t padding, diopiSize_t dilation, int64_t groups) {
  return guard(__func__, [&] { convolution(out, input, weight, bias, stride, padding, dilation, groups, 3); });
}

diopiError_t diopiConvolution2dBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiTensorHandle_t grad_weight,
                                        diopiTensorHandle_t grad_bias, diopiConstTensorHandle_t grad_output,
                                        diopiConstTensorHandle_t input, diopiConstTensorHandle_t weight, diopiSize_t*,
                                        diopiSize_t stride, diopiSize_t padding, diopiSize_t dilation, int64_t groups) {
  return guard(__func__, [&] {
    convolutionBackward(grad_input, grad_weight, grad_bias, grad_output, input, weight, stride, padding, dilation, groups, 2);
  });
}

diopiError_t diopiConvolution3dBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiTensorHandle_t grad_weight,
                                        diopiTensorHandle_t grad_bias, diopiConstTensorHandle_t grad_output,
                                        diopiConstTensorHandle_t input, diopiConstTensorHandle_t weight, diopiSize_t*,
                                        diopiSize_t stride, diopiSize_t padding, diopiSize_t dilation, int64_t groups) {
  return guard(__func__, [&] {
    convolutionBackward(grad_input, grad_weight, grad_bias, grad_output, input, weight, stride, padding, dilation, groups, 3);
  });
}

diopiError_t diopiConvTranspose2d(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                                  diopiConstTensorHandle_t weight, diopiConstTensorHandle_t bias, diopiSize_t stride,
                                  diopiSize_t padding, diopiSize_t, int64_t groups, diopiSize_t dilation) {
  return guard(__func__, [&] { transposed(out, input, weight, bias, stride, padding, dilation, groups, 2); });
}

diopiError_t diopiConvTranspose3d(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                                  diopiConstTensorHandle_t weight, diopiConstTensorHandle_t bias, diopiSize_t stride,
                                  diopiSize_t padding, diopiSize_t, int64_t groups, diopiSize_t dilation) {
  return guard(__func__, [&] { transposed(out, input, weight, bias, stride, padding, dilation, groups, 3); });
}

diopiError_t diopiConvTranspose2dBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiTensorHandle_t grad_weight,
                                          diopiTensorHandle_t grad_bias, diopiConstTensorHandle_t grad_output,
                                          diopiConstTensorHandle_t input, diopiConstTensorHandle_t weight, diopiSize_t*,
                                          diopiSize_t stride, diopiSize_t padding, diopiSize_t dilation, diopiSize_t,
                                          int64_t groups) {
  return guard(__func__, [&] {
    transposedBackward(grad_input, grad_weight, grad_bias, grad_output, input, weight, stride, padding, dilation, groups, 2);
  });
}

diopiError_t diopiConvTranspose3dBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiTensorHandle_t grad_weight,
                                          diopiTensorHandle_t grad_bias, diopiConstTensorHandle_t grad_output,
                                          diopiConstTensorHandle_t input, diopiConstTensorHandle_t weight, diopiSize_t*,
                                          diopiSize_t stride, diopiSize_t padding, diopiSize_t dilation, diopiSize_t,
                                          int64_t groups) {
  return guard(__func__, [&] {
    transposedBackward(grad_input, grad_weight, grad_bias, grad_output, input, weight, stride, padding, dilation, groups, 3);
  });
}

}  // extern "C"
