// Connectionist temporal classification: the probability of a label sequence over
// all alignments, by the forward-backward recursions over the sequence with blanks
// between its labels (Graves et al., 2006), in logarithms.
#include <cmath>
#include <limits>
#include <vector>

#include "dense.h"
#include "loop.h"
#include "sums.h"

namespace host {

namespace {

template <class C>
constexpr C kNever = -std::numeric_limits<C>::infinity();

// logAdd is log(exp(a) + exp(b)).
template <class C>
C logAdd(C a, C b) {
  if (a < b) std::swap(a, b);
  return b == kNever<C> ? a : a + std::log1p(std::exp(b - a));
}

// Batch is the arguments as both directions read them: log probabilities
// [time, batch, classes] or [time, classes], targets padded or concatenated.
template <class C>
struct Batch {
  In<C> logProbs;
  In<int64_t> targets, times, lengths;
  int64_t time, size, classes, blank;
  std::vector<int64_t> starts;

  Batch(const Tensor& probs, const Tensor& target, const Tensor& inputLengths, const Tensor& targetLengths, int64_t blankClass)
      : logProbs(probs), targets(target), times(inputLengths), lengths(targetLengths), blank(blankClass) {
    check(probs.dim() == 3 || probs.dim() == 2, "log_probs wants the dimensions time, batch and classes");
    time = probs.size(0);
    size = probs.dim() == 3 ? probs.size(1) : 1;
    classes = probs.size(probs.dim() - 1);
    check(times.numel == size && lengths.numel == size, "there must be one length per sequence");
    check(blank >= 0 && blank < classes, "blank is not one of the classes");
    int64_t at = 0;
    for (int64_t n = 0; n < size; n++) {
      starts.push_back(target.dim() == 2 ? n * target.size(1) : at);
      at += lengths[n];
      check(lengths[n] >= 0 && starts[n] + lengths[n] <= targets.numel, "a target length exceeds the targets");
      check(times[n] >= 0 && times[n] <= time, "an input length exceeds the time steps");
      for (int64_t i = 0; i < lengths[n]; i++) {
        const int64_t label = targets[starts[n] + i];
        check(label >= 0 && label < classes, "a target is not one of the classes");
      }
    }
  }
  // label is that at a place of the sequence with blanks.
  int64_t label(int64_t n, int64_t s) const { return s % 2 == 0 ? blank : targets[starts[n] + s / 2]; }
  int64_t states(int64_t n) const { return 2 * lengths[n] + 1; }
  C logProb(int64_t t, int64_t n, int64_t c) const { return logProbs[(t * size + n) * classes + c]; }
  // skips tells whether a path may leave out the blank before a label.
  bool skips(int64_t n, int64_t s) const { return s >= 2 && s % 2 == 1 && label(n, s) != label(n, s - 2); }
};

// alphas fills [time, width] log probabilities of being in each state; the result
// is the negative log likelihood.
template <class C>
C alphas(const Batch<C>& b, int64_t n, C* alpha, int64_t width) {
  const int64_t states = b.states(n), steps = b.times[n];
  std::fill_n(alpha, b.time * width, kNever<C>);
  if (steps == 0) return b.lengths[n] == 0 ? C(0) : -kNever<C>;
  alpha[0] = b.logProb(0, n, b.blank);
  if (states > 1) alpha[1] = b.logProb(0, n, b.label(n, 1));
  for (int64_t t = 1; t < steps; t++) {
    const C* last = alpha + (t - 1) * width;
    for (int64_t s = 0; s < states; s++) {
      C sum = last[s];
      if (s >= 1) sum = logAdd(sum, last[s - 1]);
      if (b.skips(n, s)) sum = logAdd(sum, last[s - 2]);
      alpha[t * width + s] = sum + b.logProb(t, n, b.label(n, s));
    }
  }
  const C* last = alpha + (steps - 1) * width;
  return -(states > 1 ? logAdd(last[states - 1], last[states - 2]) : last[0]);
}

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiCTCLoss(diopiContextHandle_t, diopiTensorHandle_t out, diopiTensorHandle_t neg_log_likelihood,
                          diopiTensorHandle_t log_alpha, diopiConstTensorHandle_t log_probs, diopiConstTensorHandle_t targets,
                          diopiConstTensorHandle_t input_lengths, diopiConstTensorHandle_t target_lengths, int64_t blank,
                          diopiReduction_t reduction, bool zero_infinity) {
  return guard(__func__, [&] {
    const Tensor probs(log_probs), saved(log_alpha);
    visitFloat(probs.dtype, [&](auto zero) {
      using C = decltype(zero);
      const Batch<C> b(probs, targets, input_lengths, target_lengths, blank);
      Out<C> to(out), likelihood(neg_log_likelihood), alpha(saved);
      const int64_t width = saved.size(saved.dim() - 1);
      for (int64_t n = 0; n < b.size; n++) check(b.states(n) <= width, "log_alpha is too small for the targets");
      parallelFor(b.size, grainFor(b.time * width * 32), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; n++) likelihood[n] = alphas<C>(b, n, alpha + n * b.time * width, width);
      });
      const auto term = [&](int64_t n) {
        return zero_infinity && std::isinf(likelihood[n]) ? C(0) : likelihood[n];
      };
      if (reduction == ReductionNone) {
        for (int64_t n = 0; n < b.size; n++) to[n] = term(n);
      } else if (reduction == ReductionSum) {
        to[0] = sumOf<C>(b.size, term);
      } else {
        const C sum = sumOf<C>(b.size, [&](int64_t n) { return term(n) / static_cast<C>(std::max<int64_t>(1, b.lengths[n])); });
        to[0] = sum / static_cast<C>(b.size);
      }
    });
  });
}

diopiError_t diopiCTCLossBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                                  diopiConstTensorHandle_t log_probs, diopiConstTensorHandle_t targets,
                                  diopiConstTensorHandle_t input_lengths, diopiConstTensorHandle_t target_lengths,
                                  diopiConstTensorHandle_t neg_log_likelihood, diopiConstTensorHandle_t log_alpha,
                                  int64_t blank, diopiReduction_t reduction, bool zero_infinity) {
  return guard(__func__, [&] {
    const Tensor probs(log_probs), saved(log_alpha);
    visitFloat(probs.dtype, [&](auto zero) {
      using C = decltype(zero);
      const Batch<C> b(probs, targets, input_lengths, target_lengths, blank);
      const In<C> g(grad_output), likelihood(neg_log_likelihood), alpha(saved);
      Out<C> to(grad_input);
      to.zero();
      const int64_t width = saved.size(saved.dim() - 1);
      parallelFor(b.size, grainFor(b.time * (width * 32 + b.classes * 8)), [&](int64_t begin, int64_t end) {
        Scratch<C> beta(width), next(width), gathered(b.classes);
        for (int64_t n = begin; n < end; n++) {
          const C loss = likelihood[n];
          if (zero_infinity && std::isinf(loss)) continue;
          C upstream = g[reduction == ReductionNone ? n : 0];
          if (reduction == ReductionMean) upstream /= static_cast<C>(std::max<int64_t>(1, b.lengths[n]) * b.size);
          const int64_t states = b.states(n), steps = b.times[n];
          for (int64_t t = steps - 1; t >= 0; t--) {
            for (int64_t s = 0; s < states; s++) {
              C sum;
              if (t == steps - 1) {
                sum = s >= states - 2 ? C(0) : kNever<C>;
              } else {
                sum = next[s];
                if (s + 1 < states) sum = logAdd(sum, next[s + 1]);
                if (s + 2 < states && b.skips(n, s + 2)) sum = logAdd(sum, next[s + 2]);
              }
              beta[s] = sum + b.logProb(t, n, b.label(n, s));
            }
            std::copy_n(static_cast<C*>(beta), states, static_cast<C*>(next));
            std::fill_n(static_cast<C*>(gathered), b.classes, kNever<C>);
            for (int64_t s = 0; s < states; s++) {
              C& sum = gathered[b.label(n, s)];
              sum = logAdd(sum, alpha[(n * b.time + t) * width + s] + beta[s]);
            }
            for (int64_t c = 0; c < b.classes; c++) {
              const C p = b.logProb(t, n, c);
              to[(t * b.size + n) * b.classes + c] = (std::exp(p) - std::exp(gathered[c] + loss - p)) * upstream;
            }
          }
        }
      });
    });
  });
}

}  // extern "C"
