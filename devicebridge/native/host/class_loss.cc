// Losses of classes: negative log likelihood and cross entropy, on class indices
// or on class probabilities, with their gradients.
#include <cmath>
#include <limits>

#include "dense.h"
#include "loop.h"
#include "softmax.h"
#include "sums.h"

namespace host {

namespace {

// Positions is an input [batch, classes, pixels...] or [classes].
struct Positions {
  int64_t batch = 1, classes = 1, pixels = 1;
  explicit Positions(const Dims& shape) {
    check(shape.n >= 1, "the input has no dimension of classes");
    if (shape.n > 1) batch = shape[0];
    classes = shape[shape.n > 1 ? 1 : 0];
    for (int i = 2; i < shape.n; i++) pixels *= shape[i];
  }
  int64_t count() const { return batch * pixels; }
  // base is where the first class of a position lies.
  int64_t base(int64_t position) const { return position / pixels * classes * pixels + position % pixels; }
};

// Targets are checked class indices with their weights; ignored ones weigh 0.
template <class C>
class Targets {
 public:
  Targets(const Positions& p, const Tensor& target, const In<C>& weight, int64_t ignored)
      : classes_(target), weight_(weight), ignored_(ignored) {
    check(classes_.numel == p.count(), "target has the wrong number of elements");
    check(!weight || weight.numel == p.classes, "weight wants one element per class");
    for (int64_t i = 0; i < classes_.numel; i++) {
      if (classes_[i] != ignored && (classes_[i] < 0 || classes_[i] >= p.classes)) {
        fail("target " + std::to_string(classes_[i]) + " is not one of " + std::to_string(p.classes) + " classes");
      }
    }
  }
  bool ignored(int64_t i) const { return classes_[i] == ignored_; }
  int64_t operator[](int64_t i) const { return classes_[i]; }
  C weight(int64_t i) const { return ignored(i) ? C(0) : weight_ ? weight_[classes_[i]] : C(1); }
  C total() const {
    return sumOf<C>(classes_.numel, [&](int64_t i) { return weight(i); });
  }

 private:
  const In<int64_t> classes_;
  const In<C>& weight_;
  int64_t ignored_;
};

// reduce stores term(position), a mean being divided by total.
template <class C, class F>
void reduce(const Tensor& out, int64_t count, diopiReduction_t reduction, C total, F&& term) {
  Out<C> to(out);
  if (reduction == ReductionNone) {
    check(to.numel == count, "out has the wrong number of elements");
    for (int64_t i = 0; i < count; i++) to[i] = term(i);
    return;
  }
  check(reduction == ReductionMean || reduction == ReductionSum, "reduction must be none, mean or sum");
  const C sum = sumOf<C>(count, term);
  to[0] = reduction == ReductionMean ? sum / total : sum;
}

// Upstream is the gradient that arrives at a position.
template <class C>
class Upstream {
 public:
  Upstream(const Tensor& gradOutput, diopiReduction_t reduction, C total)
      : grad_(gradOutput), each_(reduction == ReductionNone), divisor_(reduction == ReductionMean ? total : C(1)) {}
  C operator[](int64_t i) const { return each_ ? grad_[i] : grad_[0] / divisor_; }

 private:
  In<C> grad_;
  bool each_;
  C divisor_;
};

void nll(const Tensor& out, const Tensor& totalWeight, const Tensor& input, const Tensor& target, const Tensor& weight,
         diopiReduction_t reduction, int64_t ignored) {
  visitFloat(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    const Positions p(input.shape);
    const In<C> x(input), w(weight);
    const Targets<C> targets(p, target, w, ignored);
    const C total = targets.total();
    reduce<C>(out, p.count(), reduction, total, [&](int64_t i) {
      return targets.ignored(i) ? C(0) : -x[p.base(i) + targets[i] * p.pixels] * targets.weight(i);
    });
    if (!totalWeight) return;
    Out<C> sum(totalWeight);
    sum[0] = total;
  });
}

void nllBackward(const Tensor& gradInput, const Tensor& gradOutput, const Tensor& input, const Tensor& target,
                 const Tensor& weight, diopiReduction_t reduction, int64_t ignored) {
  visitFloat(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    const Positions p(input.shape);
    const In<C> w(weight);
    const Targets<C> targets(p, target, w, ignored);
    const Upstream<C> g(gradOutput, reduction, targets.total());
    Out<C> to(gradInput);
    to.zero();
    for (int64_t i = 0; i < p.count(); i++) {
      if (!targets.ignored(i)) to[p.base(i) + targets[i] * p.pixels] = -targets.weight(i) * g[i];
    }
  });
}

// CrossEntropy is the loss -sum(coefficient * log_softmax(x)) of every position,
// whose coefficients hold targets, weights and label smoothing.
template <class C>
class CrossEntropy {
 public:
  CrossEntropy(const Tensor& input, const Tensor& target, const Tensor& weight, int64_t ignored, double smoothing)
      : p_(input.shape), x_(input), weight_(weight), smoothing_(static_cast<C>(std::max(smoothing, 0.0))) {
    if (isFloating(target.dtype) && target.shape == input.shape) {
      check(!weight_ || weight_.numel == p_.classes, "weight wants one element per class");
      probabilities_ = In<C>(target);
      total_ = static_cast<C>(p_.count());
    } else {
      targets_.reset(new Targets<C>(p_, target, weight_, ignored));
      total_ = targets_->total();
    }
  }
  const Positions& positions() const { return p_; }
  C total() const { return total_; }

  // coefficients fills those of a position; false says that they are all 0.
  bool coefficients(int64_t i, C* to) const {
    const int64_t n = p_.classes;
    const C even = smoothing_ / static_cast<C>(n);
    if (targets_) {
      if (targets_->ignored(i)) return false;
      for (int64_t c = 0; c < n; c++) to[c] = even * (weight_ ? weight_[c] : C(1));
      to[(*targets_)[i]] += (1 - smoothing_) * targets_->weight(i);
    } else {
      for (int64_t c = 0; c < n; c++) {
        const C t = probabilities_[p_.base(i) + c * p_.pixels];
        to[c] = (t * (1 - smoothing_) + even) * (weight_ ? weight_[c] : C(1));
      }
    }
    return true;
  }
  // logits copies those of a position.
  void logits(int64_t i, C* to) const {
    for (int64_t c = 0; c < p_.classes; c++) to[c] = x_[p_.base(i) + c * p_.pixels];
  }

 private:
  Positions p_;
  In<C> x_, weight_, probabilities_;
  std::unique_ptr<Targets<C>> targets_;
  C smoothing_, total_;
};

void crossEntropy(const Tensor& out, const Tensor& input, const Tensor& target, const Tensor& weight,
                  diopiReduction_t reduction, int64_t ignored, double smoothing) {
  visitFloat(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    const CrossEntropy<C> ce(input, target, weight, ignored, smoothing);
    const int64_t count = ce.positions().count(), n = ce.positions().classes;
    Scratch<C> losses(count);
    parallelFor(count, grainFor(n * 16), [&](int64_t begin, int64_t end) {
      Scratch<C> x(n), k(n);
      for (int64_t i = begin; i < end; i++) {
        losses[i] = 0;
        if (!ce.coefficients(i, k)) continue;
        ce.logits(i, x);
        const LogSum<C> all = logSumExp<C>(x, n);
        losses[i] = sumOf<C>(n, [&](int64_t c) { return k[c] != 0 ? -k[c] * all.logSoftmax(x[c]) : C(0); });
      }
    });
    reduce<C>(out, count, reduction, ce.total(), [&](int64_t i) { return losses[i]; });
  });
}

void crossEntropyBackward(const Tensor& gradInput, const Tensor& gradOutput, const Tensor& input, const Tensor& target,
                          const Tensor& weight, diopiReduction_t reduction, int64_t ignored, double smoothing) {
  visitFloat(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    const CrossEntropy<C> ce(input, target, weight, ignored, smoothing);
    const Positions& p = ce.positions();
    const Upstream<C> g(gradOutput, reduction, ce.total());
    Out<C> to(gradInput);
    to.zero();
    parallelFor(p.count(), grainFor(p.classes * 16), [&](int64_t begin, int64_t end) {
      Scratch<C> x(p.classes), k(p.classes);
      for (int64_t i = begin; i < end; i++) {
        if (!ce.coefficients(i, k)) continue;
        ce.logits(i, x);
        softmaxRow<C>(x, x, p.classes);
        const C sum = sumOf<C>(p.classes, [&](int64_t c) { return k[c]; }), scale = g[i];
        for (int64_t c = 0; c < p.classes; c++) to[p.base(i) + c * p.pixels] = (x[c] * sum - k[c]) * scale;
      }
    });
  });
}

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiNLLLoss(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                          diopiConstTensorHandle_t target, diopiConstTensorHandle_t weight, diopiReduction_t reduction,
                          int64_t ignore_index) {
  return guard(__func__, [&] { nll(out, Tensor(), input, target, weight, reduction, ignore_index); });
}

diopiError_t diopiNLLLossBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                                  diopiConstTensorHandle_t input, diopiConstTensorHandle_t target,
                                  diopiConstTensorHandle_t weight, diopiReduction_t reduction, int64_t ignore_index) {
  return guard(__func__, [&] { nllBackward(grad_input, grad_output, input, target, weight, reduction, ignore_index); });
}

diopiError_t diopiNLLLossV2(diopiContextHandle_t, diopiTensorHandle_t out, diopiTensorHandle_t totalWeight,
                            diopiConstTensorHandle_t input, diopiConstTensorHandle_t target, diopiConstTensorHandle_t weight,
                            diopiReduction_t reduction, int64_t ignore_index) {
  return guard(__func__, [&] { nll(out, totalWeight, input, target, weight, reduction, ignore_index); });
}

diopiError_t diopiNLLLossV2Backward(diopiContextHandle_t, diopiTensorHandle_t grad_input,
                                    diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t input,
                                    diopiConstTensorHandle_t target, diopiConstTensorHandle_t weight, diopiConstTensorHandle_t,
                                    diopiReduction_t reduction, int64_t ignore_index) {
  return guard(__func__, [&] { nllBackward(grad_input, grad_output, input, target, weight, reduction, ignore_index); });
}

diopiError_t diopiCrossEntropyLoss(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                                   diopiConstTensorHandle_t target, diopiConstTensorHandle_t weight,
                                   diopiReduction_t reduction, int64_t ignore_index, double label_smoothing) {
  return guard(__func__, [&] { crossEntropy(out, input, target, weight, reduction, ignore_index, label_smoothing); });
}

diopiError_t diopiCrossEntropyLossBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input,
                                           diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t input,
                                           diopiConstTensorHandle_t target, diopiConstTensorHandle_t weight,
                                           diopiReduction_t reduction, int64_t ignore_index, double label_smoothing) {
  return guard(__func__, [&] {
    crossEntropyBackward(grad_input, grad_output, input, target, weight, reduction, ignore_index, label_smoothing);
  });
}

}  // extern "C"
