// Losses computed element by element: mean square, smooth L1, binary cross
// entropy on probabilities and on logits, focal; with their gradients.
#include <cmath>

#include "dense.h"
#include "loop.h"
#include "sums.h"

namespace host {

namespace {

// loss reduces term(x, target, i) over all elements.
template <class C, class F>
void loss(const Tensor& out, const Dims& shape, diopiReduction_t reduction, F&& term) {
  Out<C> to(out);
  const int64_t n = shape.product();
  if (reduction == ReductionNone) {
    check(to.numel == n, "out has the wrong number of elements");
    parallelFor(n, grainFor(32), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) to[i] = term(i);
    });
    return;
  }
  check(reduction == ReductionMean || reduction == ReductionSum, "reduction must be none, mean or sum");
  const C sum = sumOf<C>(n, term);
  to[0] = reduction == ReductionMean ? sum / static_cast<C>(n) : sum;
}

// lossBackward stores slope(i) times the gradient of the loss.
template <class C, class F>
void lossBackward(const Tensor& gradInput, const Tensor& gradOutput, diopiReduction_t reduction, F&& slope) {
  Out<C> to(gradInput);
  if (reduction == ReductionNone) {
    const In<C> g(gradOutput, gradInput.shape);
    parallelFor(to.numel, grainFor(32), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) to[i] = slope(i) * g[i];
    });
    return;
  }
  check(reduction == ReductionMean || reduction == ReductionSum, "reduction must be none, mean or sum");
  if (to.numel == 0) return;
  const In<C> g(gradOutput);
  const C share = reduction == ReductionMean ? g[0] / static_cast<C>(to.numel) : g[0];
  parallelFor(to.numel, grainFor(32), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) to[i] = slope(i) * share;
  });
}

template <class C>
C sigmoid(C x) {
  return x >= 0 ? C(1) / (C(1) + std::exp(-x)) : std::exp(x) / (C(1) + std::exp(x));
}

// softplus is log(1 + exp(x)).
template <class C>
C softplus(C x) {
  return std::max(x, C(0)) + std::log1p(std::exp(-std::abs(x)));
}

// Focal is the focal loss of one logit x and its target t:
// -positive t (1-p)^gamma log p - negative (1-t) p^gamma log(1-p), p = sigmoid(x).
// The weights are alpha and 1-alpha; a negative alpha means none.
template <class C>
struct Focal {
  Focal(C alpha, C gamma) : positive(alpha < 0 ? 1 : alpha), negative(alpha < 0 ? 1 : 1 - alpha), gamma(gamma) {}
  C positive, negative, gamma;
  // One minus the probability of the target, which may lie between 0 and 1.
  static C missed(C p, C q, C t) { return (1 - t) * p + t * q; }
  static C entropy(C x, C t) { return t * softplus(-x) + (1 - t) * softplus(x); }
  C weight(C t) const { return positive * t + negative * (1 - t); }
  C value(C x, C t) const {
    return weight(t) * std::pow(missed(sigmoid(x), sigmoid(-x), t), gamma) * entropy(x, t);
  }
  C slope(C x, C t) const {
    const C p = sigmoid(x), q = sigmoid(-x), m = missed(p, q, t);
    const C growth = m > 0 ? p * q * (1 - 2 * t) / m : C(0);  // of m, relative
    return weight(t) * std::pow(m, gamma) * (gamma * growth * entropy(x, t) + (1 - t) * p - t * q);
  }
};

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiMSELoss(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                          diopiConstTensorHandle_t target, diopiReduction_t reduction) {
  return guard(__func__, [&] {
    const Tensor x(input), t(target);
    visitFloat(x.dtype, [&](auto zero) {
      using C = decltype(zero);
      const Dims shape = broadcast(x.shape, t.shape);
      const In<C> a(x, shape), b(t, shape);
      loss<C>(out, shape, reduction, [&](int64_t i) { return (a[i] - b[i]) * (a[i] - b[i]); });
    });
  });
}

diopiError_t diopiMSELossBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                                  diopiConstTensorHandle_t input, diopiConstTensorHandle_t target,
                                  diopiReduction_t reduction) {
  return guard(__func__, [&] {
    const Tensor x(input);
    visitFloat(x.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> a(x), b(Tensor(target), x.shape);
      lossBackward<C>(grad_input, grad_output, reduction, [&](int64_t i) { return C(2) * (a[i] - b[i]); });
    });
  });
}

diopiError_t diopiSmoothL1Loss(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                               diopiConstTensorHandle_t target, diopiReduction_t reduction, double beta) {
  return guard(__func__, [&] {
    const Tensor x(input), t(target);
    visitFloat(floatType(x.dtype, x.dtype), [&](auto zero) {
      using C = decltype(zero);
      const Dims shape = broadcast(x.shape, t.shape);
      const In<C> a(x, shape), b(t, shape);
      const C knee = static_cast<C>(beta);
      loss<C>(out, shape, reduction, [&](int64_t i) {
        const C d = std::abs(a[i] - b[i]);
        return d < knee ? d * d / (2 * knee) : d - knee / 2;
      });
    });
  });
}

diopiError_t diopiSmoothL1LossBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input,
                                       diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t input,
                                       diopiConstTensorHandle_t target, diopiReduction_t reduction, double beta) {
  return guard(__func__, [&] {
    const Tensor x(input);
    visitFloat(floatType(x.dtype, x.dtype), [&](auto zero) {
      using C = decltype(zero);
      const In<C> a(x), b(Tensor(target), x.shape);
      const C knee = static_cast<C>(beta);
      lossBackward<C>(grad_input, grad_output, reduction, [&](int64_t i) {
        const C d = a[i] - b[i];
        if (d == 0) return C(0);
        return d <= -knee ? C(-1) : d >= knee ? C(1) : d / knee;
      });
    });
  });
}

// The logarithms are kept at -100 or above, as torch does.
diopiError_t diopiBCELoss(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                          diopiConstTensorHandle_t target, diopiConstTensorHandle_t weight, diopiReduction_t reduction) {
  return guard(__func__, [&] {
    const Tensor x(input);
    visitFloat(x.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> p(x), t(Tensor(target), x.shape), w(Tensor(weight), x.shape);
      loss<C>(out, x.shape, reduction, [&](int64_t i) {
        const C yes = std::max(std::log(p[i]), C(-100)), no = std::max(std::log1p(-p[i]), C(-100));
        const C value = (t[i] - 1) * no - t[i] * yes;
        return w ? value * w[i] : value;
      });
    });
  });
}

diopiError_t diopiBCELossBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                                  diopiConstTensorHandle_t input, diopiConstTensorHandle_t target,
                                  diopiConstTensorHandle_t weight, diopiReduction_t reduction) {
  return guard(__func__, [&] {
    const Tensor x(input);
    visitFloat(x.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> p(x), t(Tensor(target), x.shape), w(Tensor(weight), x.shape);
      lossBackward<C>(grad_input, grad_output, reduction, [&](int64_t i) {
        const C slope = (p[i] - t[i]) / std::max((1 - p[i]) * p[i], C(1e-12));
        return w ? slope * w[i] : slope;
      });
    });
  });
}

diopiError_t diopiBCEWithLogits(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                                diopiConstTensorHandle_t target, diopiConstTensorHandle_t weight,
                                diopiConstTensorHandle_t pos_weight, diopiReduction_t reduction) {
  return guard(__func__, [&] {
    const Tensor x(input);
    visitFloat(x.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> a(x), t(Tensor(target), x.shape), w(Tensor(weight), x.shape), p(Tensor(pos_weight), x.shape);
      loss<C>(out, x.shape, reduction, [&](int64_t i) {
        const C value = (1 - t[i]) * a[i] + ((p ? p[i] - 1 : C(0)) * t[i] + 1) * softplus(-a[i]);
        return w ? value * w[i] : value;
      });
    });
  });
}

diopiError_t diopiBCEWithLogitsBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input,
                                        diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t input,
                                        diopiConstTensorHandle_t target, diopiConstTensorHandle_t weight,
                                        diopiConstTensorHandle_t pos_weight, diopiReduction_t reduction) {
  return guard(__func__, [&] {
    const Tensor x(input);
    visitFloat(x.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> a(x), t(Tensor(target), x.shape), w(Tensor(weight), x.shape), p(Tensor(pos_weight), x.shape);
      lossBackward<C>(grad_input, grad_output, reduction, [&](int64_t i) {
        const C positive = p ? p[i] * t[i] : t[i];
        const C slope = (positive + 1 - t[i]) * sigmoid(a[i]) - positive;
        return w ? slope * w[i] : slope;
      });
    });
  });
}

diopiError_t diopiSigmoidFocalLoss(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t inputs,
                                   diopiConstTensorHandle_t targets, float alpha, float gamma, diopiReduction_t reduction) {
  return guard(__func__, [&] {
    const Tensor x(inputs);
    visitFloat(x.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> a(x), t(Tensor(targets), x.shape);
      const Focal<C> focal(alpha, gamma);
      loss<C>(out, x.shape, reduction, [&](int64_t i) { return focal.value(a[i], t[i]); });
    });
  });
}

diopiError_t diopiSigmoidFocalLossBackward(diopiContextHandle_t, diopiTensorHandle_t grad_output,
                                           diopiConstTensorHandle_t input, diopiConstTensorHandle_t target,
                                           diopiTensorHandle_t grad_input, float gamma, float alpha,
                                           diopiReduction_t reduction) {
  return guard(__func__, [&] {
    const Tensor x(input);
    visitFloat(x.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> a(x), t(Tensor(target), x.shape);
      const Focal<C> focal(alpha, gamma);
      lossBackward<C>(grad_input, grad_output, reduction, [&](int64_t i) { return focal.slope(a[i], t[i]); });
    });
  });
}

}  // extern "C"
