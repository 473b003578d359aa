// Batch normalisation, whole and in the parts that synchronised training uses.
#include <cmath>

#include "dense.h"
#include "loop.h"
#include "sums.h"

namespace host {

namespace {

// Channels is a tensor [batch, channels, pixels...].
struct Channels {
  int64_t batch = 1, count = 1, pixels = 1;
  explicit Channels(const Dims& shape) {
    check(shape.n >= 2, "batch norm wants an input of at least two dimensions");
    batch = shape[0];
    count = shape[1];
    for (int i = 2; i < shape.n; i++) pixels *= shape[i];
  }
  int64_t samples() const { return batch * pixels; }

  // sum adds up term(flat index) over a channel.
  template <class C, class F>
  C sum(int64_t channel, F&& term) const {
    if (pixels == 1) return sumOf<C>(batch, [&](int64_t b) { return term(b * count + channel); });
    C total = 0;
    for (int64_t b = 0; b < batch; b++) {
      const int64_t base = (b * count + channel) * pixels;
      total += sumOf<C>(pixels, [&](int64_t i) { return term(base + i); });
    }
    return total;
  }
  // each calls f(flat index) for all elements of a channel.
  template <class F>
  void each(int64_t channel, F&& f) const {
    for (int64_t b = 0; b < batch; b++) {
      const int64_t base = (b * count + channel) * pixels;
      for (int64_t i = 0; i < pixels; i++) f(base + i);
    }
  }
  template <class F>
  void parallel(F&& f) const {
    parallelFor(count, grainFor(samples() * 4), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; c++) f(c);
    });
  }
};

template <class C>
struct Statistics {
  C mean, variance;  // variance divided by the number of samples
};

template <class C>
Statistics<C> statistics(const Channels& ch, const C* x, int64_t c) {
  const C n = static_cast<C>(ch.samples());
  const C mean = ch.sum<C>(c, [&](int64_t i) { return x[i]; }) / n;
  const C variance = ch.sum<C>(c, [&](int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / n;
  return {mean, variance};
}

template <class C>
C inverse(C variance, double eps) {
  return C(1) / std::sqrt(variance + static_cast<C>(eps));
}

// average moves a running statistic towards a new value.
template <class C>
void average(Out<C>& running, int64_t at, C value, double momentum) {
  if (running) running[at] = static_cast<C>(1 - momentum) * running[at] + static_cast<C>(momentum) * value;
}

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiBatchNorm(diopiContextHandle_t, diopiTensorHandle_t out, diopiTensorHandle_t save_mean,
                            diopiTensorHandle_t save_invstd, diopiConstTensorHandle_t input, diopiConstTensorHandle_t weight,
                            diopiConstTensorHandle_t bias, diopiTensorHandle_t running_mean, diopiTensorHandle_t running_var,
                            bool training, double momentum, double eps) {
  return guard(__func__, [&] {
    const Tensor t(input);
    const Channels ch(t.shape);
    visitFloat(t.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> x(t), w(weight), b(bias);
      Out<C> y(out), mean(save_mean), invstd(save_invstd), runningMean(running_mean), runningVar(running_var);
      check(training || (runningMean && runningVar), "running statistics are wanted unless training");
      runningMean.load();
      runningVar.load();
      ch.parallel([&](int64_t c) {
        Statistics<C> s;
        if (training) {
          s = statistics<C>(ch, x, c);
          const C n = static_cast<C>(ch.samples());
          average(runningMean, c, s.mean, momentum);
          average(runningVar, c, s.variance * (n / (n - 1)), momentum);
        } else {
          s = {runningMean[c], runningVar[c]};
        }
        const C scale = inverse(s.variance, eps);
        if (mean) mean[c] = s.mean;
        if (invstd) invstd[c] = scale;
        const C k = scale * (w ? w[c] : C(1)), shift = b ? b[c] : C(0);
        ch.each(c, [&](int64_t i) { y[i] = (x[i] - s.mean) * k + shift; });
      });
    });
  });
}

diopiError_t diopiBatchNormBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiTensorHandle_t grad_weight,
                                    diopiTensorHandle_t grad_bias, diopiConstTensorHandle_t grad_output,
                                    diopiConstTensorHandle_t input, diopiConstTensorHandle_t weight,
                                    diopiConstTensorHandle_t running_mean, diopiConstTensorHandle_t running_var,
                                    diopiConstTensorHandle_t save_mean, diopiConstTensorHandle_t save_invstd, bool training,
                                    double eps) {
  return guard(__func__, [&] {
    const Tensor t(input);
    const Channels ch(t.shape);
    visitFloat(t.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> g(grad_output), x(t), w(weight), runningMean(running_mean), runningVar(running_var), mean(save_mean),
          invstd(save_invstd);
      check(training ? mean && invstd : runningMean && runningVar, "the statistics of the forward call are missing");
      Out<C> to(grad_input), toWeight(grad_weight), toBias(grad_bias);
      ch.parallel([&](int64_t c) {
        const C m = training ? mean[c] : runningMean[c];
        const C scale = training ? invstd[c] : inverse(runningVar[c], eps);
        const C level = ch.sum<C>(c, [&](int64_t i) { return g[i]; });
        const C along = ch.sum<C>(c, [&](int64_t i) { return g[i] * (x[i] - m); });
        if (toWeight) toWeight[c] = along * scale;
        if (toBias) toBias[c] = level;
        if (!to) return;
        const C n = static_cast<C>(ch.samples()), k = scale * (w ? w[c] : C(1));
        if (training) {
          const C slope = along * scale * scale / n, offset = level / n;
          ch.each(c, [&](int64_t i) { to[i] = (g[i] - offset - (x[i] - m) * slope) * k; });
        } else {
          ch.each(c, [&](int64_t i) { to[i] = g[i] * k; });
        }
      });
    });
  });
}

diopiError_t diopiBatchNormStats(diopiContextHandle_t, diopiTensorHandle_t mean, diopiTensorHandle_t invstd,
                                 diopiConstTensorHandle_t input, double eps) {
  return guard(__func__, [&] {
    const Tensor t(input);
    const Channels ch(t.shape);
    visitFloat(t.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> x(t);
      Out<C> toMean(mean), toInvstd(invstd);
      ch.parallel([&](int64_t c) {
        const Statistics<C> s = statistics<C>(ch, x, c);
        toMean[c] = s.mean;
        toInvstd[c] = inverse(s.variance, eps);
      });
    });
  });
}

// The statistics of several workers, each of counts[k] samples, become one.
diopiError_t diopiBatchNormGatherStatsWithCounts(diopiContextHandle_t, diopiTensorHandle_t mean, diopiTensorHandle_t invstd,
                                                 diopiConstTensorHandle_t, diopiConstTensorHandle_t mean_all,
                                                 diopiConstTensorHandle_t invstd_all, diopiTensorHandle_t running_mean,
                                                 diopiTensorHandle_t running_var, float momentum, float eps,
                                                 diopiConstTensorHandle_t counts) {
  return guard(__func__, [&] {
    const Tensor all(mean_all);
    check(all.dim() == 2, "mean_all wants a row per worker");
    const int64_t workers = all.size(0), channels = all.size(1);
    visitFloat(all.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> means(all), invstds(invstd_all), samples(counts);
      Out<C> toMean(mean), toInvstd(invstd), runningMean(running_mean), runningVar(running_var);
      runningMean.load();
      runningVar.load();
      for (int64_t c = 0; c < channels; c++) {
        C n = 0, m = 0, square = 0;  // square: sum of squared deviations
        for (int64_t k = 0; k < workers; k++) {
          const C count = samples[k], local = means[k * channels + c], scale = invstds[k * channels + c];
          const C deviation = (C(1) / (scale * scale) - static_cast<C>(eps)) * count, step = m - local;
          square += deviation + step * step * count * n / (count + n);
          m = (n * m + count * local) / (count + n);
          n += count;
        }
        toMean[c] = m;
        toInvstd[c] = inverse(square / n, eps);
        average(runningMean, c, m, momentum);
        average(runningVar, c, square / (n - 1), momentum);
      }
    });
  });
}

diopiError_t diopiBatchNormElemt(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                                 diopiConstTensorHandle_t weight, diopiConstTensorHandle_t bias,
                                 diopiConstTensorHandle_t mean, diopiConstTensorHandle_t invstd, float) {
  return guard(__func__, [&] {
    const Tensor t(input);
    const Channels ch(t.shape);
    visitFloat(t.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> x(t), w(weight), b(bias), m(mean), scale(invstd);
      Out<C> y(out);
      ch.parallel([&](int64_t c) {
        const C k = scale[c] * (w ? w[c] : C(1)), shift = b ? b[c] : C(0), middle = m[c];
        ch.each(c, [&](int64_t i) { y[i] = (x[i] - middle) * k + shift; });
      });
    });
  });
}

diopiError_t diopiBatchNormBackwardReduce(diopiContextHandle_t, diopiTensorHandle_t sum_dy, diopiTensorHandle_t sum_dy_xmu,
                                          diopiTensorHandle_t grad_weight, diopiTensorHandle_t grad_bias,
                                          diopiConstTensorHandle_t grad_out, diopiConstTensorHandle_t input,
                                          diopiConstTensorHandle_t mean, diopiConstTensorHandle_t invstd,
                                          diopiConstTensorHandle_t, bool input_g, bool weight_g, bool bias_g) {
  return guard(__func__, [&] {
    const Tensor t(input);
    const Channels ch(t.shape);
    visitFloat(t.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> g(grad_out), x(t), m(mean), scale(invstd);
      Out<C> toSum(input_g ? sum_dy : nullptr), toAlong(input_g ? sum_dy_xmu : nullptr),
          toWeight(weight_g ? grad_weight : nullptr), toBias(bias_g ? grad_bias : nullptr);
      ch.parallel([&](int64_t c) {
        const C middle = m[c];
        const C sum = ch.sum<C>(c, [&](int64_t i) { return g[i]; });
        const C along = ch.sum<C>(c, [&](int64_t i) { return g[i] * (x[i] - middle); });
        if (toSum) toSum[c] = sum;
        if (toAlong) toAlong[c] = along;
        if (toWeight) toWeight[c] = along * scale[c];
        if (toBias) toBias[c] = sum;
      });
    });
  });
}

diopiError_t diopiBatchNormBackwardElemt(diopiContextHandle_t, diopiTensorHandle_t grad_input,
                                         diopiConstTensorHandle_t grad_out, diopiConstTensorHandle_t input,
                                         diopiConstTensorHandle_t mean, diopiConstTensorHandle_t invstd,
                                         diopiConstTensorHandle_t weight, diopiConstTensorHandle_t sum_dy,
                                         diopiConstTensorHandle_t sum_dy_xmu, diopiConstTensorHandle_t count) {
  return guard(__func__, [&] {
    const Tensor t(input);
    const Channels ch(t.shape);
    visitFloat(t.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> g(grad_out), x(t), m(mean), scale(invstd), w(weight), sum(sum_dy), along(sum_dy_xmu);
      const In<int64_t> counts(count);
      int64_t samples = 0;
      for (int64_t i = 0; i < counts.numel; i++) samples += counts[i];
      const C n = static_cast<C>(samples);
      Out<C> to(grad_input);
      ch.parallel([&](int64_t c) {
        const C k = scale[c] * (w ? w[c] : C(1)), offset = sum[c] / n, slope = along[c] / n * scale[c] * scale[c];
        const C middle = m[c];
        ch.each(c, [&](int64_t i) { to[i] = (g[i] - offset - (x[i] - middle) * slope) * k; });
      });
    });
  });
}

}  // extern "C"
