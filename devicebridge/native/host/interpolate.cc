// Resampling of images to another size: nearest, linear (1 to 3 dimensions) and
// bicubic, with their gradients. Every output is a weighted sum of inputs whose
// positions and weights are products over the dimensions.
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "dense.h"
#include "loop.h"
#include "window.h"

namespace host {

namespace {

enum class Kind { nearest, linear, cubic };

// Taps are, for every output position of a dimension, `count` inputs and weights.
template <class C>
struct Taps {
  int count;
  std::vector<int64_t> index;
  std::vector<C> weight;
};

// cubicWeights are those of Keys' kernel with a = -0.75 for the fraction t.
template <class C>
std::array<C, 4> cubicWeights(C t) {
  const C a = C(-0.75);
  const auto inner = [=](C x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto outer = [=](C x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {outer(t + 1), inner(t), inner(1 - t), outer(2 - t)};
}

template <class C>
Taps<C> taps(int64_t in, int64_t out, Kind kind, bool alignCorners) {
  check(in > 0 || out == 0, "an empty image cannot be resampled");
  if (kind == Kind::nearest) {
    const float scale = out > 0 ? static_cast<float>(in) / static_cast<float>(out) : 0;
    Taps<C> t{1, {}, std::vector<C>(out, C(1))};
    for (int64_t o = 0; o < out; o++) {
      t.index.push_back(std::min(static_cast<int64_t>(std::floor(static_cast<float>(o) * scale)), in - 1));
    }
    return t;
  }
  C scale = 0;
  if (alignCorners) scale = out > 1 ? static_cast<C>(in - 1) / static_cast<C>(out - 1) : C(0);
  else if (out > 0) scale = static_cast<C>(in) / static_cast<C>(out);
  Taps<C> t{kind == Kind::linear ? 2 : 4, {}, {}};
  for (int64_t o = 0; o < out; o++) {
    C at = alignCorners ? scale * static_cast<C>(o) : scale * (static_cast<C>(o) + C(0.5)) - C(0.5);
    if (kind == Kind::linear) {
      at = std::max(at, C(0));
      const int64_t first = std::min(static_cast<int64_t>(at), in - 1);
      const C part = std::min(std::max(at - static_cast<C>(first), C(0)), C(1));
      t.index.insert(t.index.end(), {first, std::min(first + 1, in - 1)});
      t.weight.insert(t.weight.end(), {1 - part, part});
      continue;
    }
    const C floor = std::floor(at);
    const std::array<C, 4> w = cubicWeights(at - floor);
    for (int64_t k = 0; k < 4; k++) {
      t.index.push_back(std::clamp<int64_t>(static_cast<int64_t>(floor) - 1 + k, 0, in - 1));
      t.weight.push_back(w[k]);
    }
  }
  return t;
}

// A Sampler visits the inputs of every output.
template <class C>
class Sampler {
 public:
  Sampler(const Space& in, const Space& out, int rank, Kind kind, bool alignCorners) : in_(in), out_(out) {
    for (int d = 0; d < 3; d++) taps_[d] = taps<C>(in[d], out[d], d < 3 - rank ? Kind::nearest : kind, alignCorners);
  }
  // plane calls f(output, input, weight) for all of a plane.
  template <class F>
  void plane(F&& f) const {
    const auto &td = taps_[0], &th = taps_[1], &tw = taps_[2];
    int64_t o = 0;
    for (int64_t d = 0; d < out_[0]; d++) {
      for (int64_t h = 0; h < out_[1]; h++) {
        for (int64_t w = 0; w < out_[2]; w++, o++) {
          for (int i = 0; i < td.count; i++) {
            for (int j = 0; j < th.count; j++) {
              const int64_t row = (td.index[d * td.count + i] * in_[1] + th.index[h * th.count + j]) * in_[2];
              const C outer = td.weight[d * td.count + i] * th.weight[h * th.count + j];
              for (int k = 0; k < tw.count; k++) {
                f(o, row + tw.index[w * tw.count + k], outer * tw.weight[w * tw.count + k]);
              }
            }
          }
        }
      }
    }
  }
  int64_t cost() const { return out_.volume() * taps_[0].count * taps_[1].count * taps_[2].count * 4; }

 private:
  Space in_, out_;
  std::array<Taps<C>, 3> taps_;
};

int spatialRank(const Tensor& t) {
  check(t.dim() >= 3 && t.dim() <= 5, "images to resample have 3 to 5 dimensions");
  return t.dim() - 2;
}

void resample(const Tensor& out, const Tensor& input, Kind kind, bool alignCorners) {
  const int rank = spatialRank(input);
  const Planes x(input.shape, rank), y(out.shape, rank);
  visitFloat(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    const Sampler<C> sampler(x.size, y.size, rank, kind, alignCorners);
    const In<C> from(input);
    Out<C> to(out);
    const int64_t in = x.size.volume(), outputs = y.size.volume();
    parallelFor(x.batch * x.channels, grainFor(sampler.cost()), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; p++) {
        C* target = to + p * outputs;
        const C* source = from + p * in;
        std::fill_n(target, outputs, C(0));
        sampler.plane([&](int64_t o, int64_t i, C weight) { target[o] += source[i] * weight; });
      }
    });
  });
}

void resampleBackward(const Tensor& gradInput, const Tensor& gradOutput, Kind kind, bool alignCorners) {
  const int rank = spatialRank(gradInput);
  const Planes x(gradInput.shape, rank), y(gradOutput.shape, rank);
  visitFloat(gradInput.dtype, [&](auto zero) {
    using C = decltype(zero);
    const Sampler<C> sampler(x.size, y.size, rank, kind, alignCorners);
    const In<C> from(gradOutput);
    Out<C> to(gradInput);
    to.zero();
    const int64_t in = x.size.volume(), outputs = y.size.volume();
    parallelFor(x.batch * x.channels, grainFor(sampler.cost()), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; p++) {
        C* target = to + p * in;
        const C* source = from + p * outputs;
        sampler.plane([&](int64_t o, int64_t i, C weight) { target[i] += source[o] * weight; });
      }
    });
  });
}

Kind kindOf(const char* mode, const Tensor& t) {
  static constexpr const char* kLinear[] = {"linear", "bilinear", "trilinear"};
  if (std::strcmp(mode, "bicubic") == 0 && t.dim() == 4) return Kind::cubic;
  if (std::strcmp(mode, kLinear[spatialRank(t) - 1]) == 0) return Kind::linear;
  fail(std::string("mode ") + mode + " does not fit an input of " + std::to_string(t.dim()) + " dimensions");
}

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiUpsampleNearest(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, diopiSize_t) {
  return guard(__func__, [&] { resample(out, input, Kind::nearest, false); });
}

diopiError_t diopiUpsampleNearestBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input,
                                          diopiConstTensorHandle_t grad_output, diopiSize_t, diopiSize_t) {
  return guard(__func__, [&] { resampleBackward(grad_input, grad_output, Kind::nearest, false); });
}

diopiError_t diopiUpsampleLinear(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, diopiSize_t,
                                 bool align_corners, const char* mode) {
  return guard(__func__, [&] {
    const Tensor x(input);
    resample(out, x, kindOf(mode, x), align_corners);
  });
}

diopiError_t diopiUpsampleLinearBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input,
                                         diopiConstTensorHandle_t grad_output, diopiSize_t, diopiSize_t, bool align_corners,
                                         const char* mode) {
  return guard(__func__, [&] {
    const Tensor g(grad_output);
    resampleBackward(grad_input, g, kindOf(mode, g), align_corners);
  });
}

}  // extern "C"
