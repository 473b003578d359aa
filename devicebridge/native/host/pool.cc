// Max and average pools over one to three spatial dimensions, with fixed windows
// or adaptive ones, and their gradients.
#include <cmath>
#include <cstring>
#include <limits>

#include "dense.h"
#include "loop.h"
#include "window.h"

namespace host {

namespace {

struct Range {
  int64_t begin, end;
};

// A Region gives, for an output position along a dimension, the inputs it reads.
class Region {
 public:
  static Region fixed(const Window& w, const Space& in, bool pads) { return Region(w, in, Space{{0, 0, 0}}, pads, false); }
  static Region adaptive(const Space& in, const Space& out) { return Region(Window{}, in, out, false, true); }

  Range range(int d, int64_t o) const {
    if (adaptive_) return {o * in_[d] / out_[d], ((o + 1) * in_[d] + out_[d] - 1) / out_[d]};
    const int64_t begin = o * window_.stride[d] - window_.padding[d];
    const int64_t reach = begin + (window_.kernel[d] - 1) * step(d) + 1;
    return {begin < 0 ? begin + (-begin + step(d) - 1) / step(d) * step(d) : begin, std::min(reach, in_[d])};
  }
  int64_t step(int d) const { return adaptive_ ? 1 : window_.dilation[d]; }
  // extent is the number of positions an average counts: those inside the
  // padded image when the padding counts.
  int64_t extent(int d, int64_t o) const {
    if (!pads_) {
      const Range r = range(d, o);
      return std::max<int64_t>(0, r.end - r.begin);
    }
    const int64_t begin = o * window_.stride[d] - window_.padding[d];
    return std::min(begin + window_.kernel[d], in_[d] + window_.padding[d]) - begin;
  }

 private:
  Region(const Window& w, const Space& in, const Space& out, bool pads, bool adaptive)
      : window_(w), in_(in), out_(out), pads_(pads), adaptive_(adaptive) {}
  Window window_;
  Space in_, out_;
  bool pads_, adaptive_;
};

// eachOutput calls f(o, d, h, w) for all outputs of a plane, o their flat index.
template <class F>
void eachOutput(const Space& out, F&& f) {
  int64_t o = 0;
  for (int64_t d = 0; d < out[0]; d++) {
    for (int64_t h = 0; h < out[1]; h++) {
      for (int64_t w = 0; w < out[2]; w++) f(o++, d, h, w);
    }
  }
}

template <class C>
bool isNan(C x) {
  return x != x;
}

void maxPool(const Tensor& out, const Tensor& indices, const Tensor& input, const Region& region, int rank) {
  const Planes x(input.shape, rank), y(out.shape, rank);
  visitReal(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    const In<C> from(input);
    Out<C> to(out);
    Out<int64_t> at(indices);
    parallelFor(x.batch * x.channels, grainFor(x.size.volume() * 8), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; plane++) {
        const C* p = from + plane * x.size.volume();
        eachOutput(y.size, [&](int64_t o, int64_t od, int64_t oh, int64_t ow) {
          const Range rd = region.range(0, od), rh = region.range(1, oh), rw = region.range(2, ow);
          C best = std::numeric_limits<C>::has_infinity ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::lowest();
          int64_t where = (rd.begin * x.size[1] + rh.begin) * x.size[2] + rw.begin;
          for (int64_t d = rd.begin; d < rd.end; d += region.step(0)) {
            for (int64_t h = rh.begin; h < rh.end; h += region.step(1)) {
              const int64_t row = (d * x.size[1] + h) * x.size[2];
              for (int64_t w = rw.begin; w < rw.end; w += region.step(2)) {
                const C v = p[row + w];
                if (v > best || isNan(v)) {
                  best = v;
                  where = row + w;
                }
              }
            }
          }
          to[plane * y.size.volume() + o] = best;
          if (at) at[plane * y.size.volume() + o] = where;
        });
      }
    });
  });
}

// maxBackward adds the gradient of every output to the input it came from.
void maxBackward(const Tensor& gradInput, const Tensor& gradOutput, const Tensor& indices, int rank) {
  const Planes x(gradInput.shape, rank), y(gradOutput.shape, rank);
  check(static_cast<bool>(indices), "indices are wanted for the gradient of a max pool");
  equalShapes(indices.shape, gradOutput.shape, "indices and grad_output");
  visitFloat(gradInput.dtype, [&](auto zero) {
    using C = decltype(zero);
    const In<C> from(gradOutput);
    const In<int64_t> at(indices);
    Out<C> to(gradInput);
    to.zero();
    const int64_t pixels = x.size.volume(), outputs = y.size.volume();
    parallelFor(x.batch * x.channels, grainFor(outputs), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * outputs; i < end * outputs; i++) {
        if (at[i] < 0 || at[i] >= pixels) fail("index " + std::to_string(at[i]) + " lies outside of the plane");
        to[i / outputs * pixels + at[i]] += from[i];
      }
    });
  });
}

// average runs f(plane, output, its window, divisor) for all outputs.
template <class F>
void average(const Planes& x, const Planes& y, const Region& region, const int64_t* divisor, F&& f) {
  parallelFor(x.batch * x.channels, grainFor(x.size.volume() * 4), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; plane++) {
      eachOutput(y.size, [&](int64_t o, int64_t od, int64_t oh, int64_t ow) {
        const Range r[3] = {region.range(0, od), region.range(1, oh), region.range(2, ow)};
        const int64_t count = divisor ? *divisor : region.extent(0, od) * region.extent(1, oh) * region.extent(2, ow);
        f(plane, plane * y.size.volume() + o, r, count);
      });
    }
  });
}

void averagePool(const Tensor& out, const Tensor& input, const Region& region, const int64_t* divisor, int rank) {
  const Planes x(input.shape, rank), y(out.shape, rank);
  visitFloat(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    const In<C> from(input);
    Out<C> to(out);
    average(x, y, region, divisor, [&](int64_t plane, int64_t o, const Range* r, int64_t count) {
      C sum = 0;
      for (int64_t d = r[0].begin; d < r[0].end; d++) {
        for (int64_t h = r[1].begin; h < r[1].end; h++) {
          const C* row = from + ((plane * x.size[0] + d) * x.size[1] + h) * x.size[2];
          for (int64_t w = r[2].begin; w < r[2].end; w++) sum += row[w];
        }
      }
      const bool empty = r[0].begin >= r[0].end || r[1].begin >= r[1].end || r[2].begin >= r[2].end;
      to[o] = empty ? C(0) : sum / C(count);
    });
  });
}

void averageBackward(const Tensor& gradInput, const Tensor& gradOutput, const Region& region, const int64_t* divisor,
                     int rank) {
  const Planes x(gradInput.shape, rank), y(gradOutput.shape, rank);
  visitFloat(gradInput.dtype, [&](auto zero) {
    using C = decltype(zero);
    const In<C> from(gradOutput);
    Out<C> to(gradInput);
    to.zero();
    average(x, y, region, divisor, [&](int64_t plane, int64_t o, const Range* r, int64_t count) {
      const C share = from[o] / C(count);
      for (int64_t d = r[0].begin; d < r[0].end; d++) {
        for (int64_t h = r[1].begin; h < r[1].end; h++) {
          C* row = to + ((plane * x.size[0] + d) * x.size[1] + h) * x.size[2];
          for (int64_t w = r[2].begin; w < r[2].end; w++) row[w] += share;
        }
      }
    });
  });
}

Region fixedRegion(const Tensor& input, diopiSize_t kernel, diopiSize_t stride, diopiSize_t padding, diopiSize_t dilation,
                   bool pads, int rank) {
  const Window w{space(kernel, rank, 1), space(stride.len > 0 ? stride : kernel, rank, 1), space(padding, rank, 0),
                 space(dilation, rank, 1)};
  Window window = w;
  for (int i = 0; i < 3 - rank; i++) window.padding.v[i] = 0;
  for (int i = 0; i < 3; i++) check(w.kernel[i] > 0 && w.stride[i] > 0 && w.dilation[i] > 0, "kernel, stride and dilation must be positive");
  return Region::fixed(window, trailing(input.shape, rank), pads);
}

Region adaptiveRegion(const Tensor& input, const Tensor& output, int rank) {
  return Region::adaptive(trailing(input.shape, rank), trailing(output.shape, rank));
}

constexpr diopiSize_t kNone{nullptr, 0};

// pool is the pool whose kind is given by name.
void pool(const Tensor& out, const Tensor& input, const char* mode, diopiSize_t kernel, diopiSize_t stride,
          diopiSize_t padding, diopiSize_t dilation, bool exclusive, bool adaptive, int rank) {
  const bool max = std::strcmp(mode, "max") == 0;
  check(max || std::strcmp(mode, "avg") == 0, "mode must be avg or max");
  const Region region = adaptive ? adaptiveRegion(input, out, rank)
                                 : fixedRegion(input, kernel, stride, padding, max ? dilation : kNone, !max && !exclusive, rank);
  if (max) maxPool(out, Tensor(), input, region, rank);
  else averagePool(out, input, region, nullptr, rank);
}

void poolBackward(const Tensor& gradInput, const Tensor& gradOutput, const Tensor& input, const char* mode,
                  diopiSize_t kernel, diopiSize_t stride, diopiSize_t padding, bool exclusive, bool adaptive,
                  const Tensor& indices, int rank) {
  if (std::strcmp(mode, "max") == 0) return maxBackward(gradInput, gradOutput, indices, rank);
  check(std::strcmp(mode, "avg") == 0, "mode must be avg or max");
  const Region region = adaptive ? adaptiveRegion(input, gradOutput, rank)
                                 : fixedRegion(input, kernel, stride, padding, kNone, !exclusive, rank);
  averageBackward(gradInput, gradOutput, region, nullptr, rank);
}

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

// The entry points of 1, 2 and 3 dimensions differ in name alone, but for the
// divisor that average pools of 2 and 3 take.
#define POOLS(RANK, RANK_NAME)                                                                                               \
  diopiError_t diopiMaxPool##RANK_NAME(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,        \
                                       diopiSize_t kernel_size, diopiSize_t stride, diopiSize_t padding,                     \
                                       diopiSize_t dilation, bool) {                                                         \
    return guard(__func__, [&] {                                                                                             \
      maxPool(out, Tensor(), input, fixedRegion(input, kernel_size, stride, padding, dilation, false, RANK), RANK);          \
    });                                                                                                                      \
  }                                                                                                                          \
  diopiError_t diopiMaxPool##RANK_NAME##WithIndices(diopiContextHandle_t, diopiTensorHandle_t out,                           \
                                                    diopiTensorHandle_t indices, diopiConstTensorHandle_t input,             \
                                                    diopiSize_t kernel_size, diopiSize_t stride, diopiSize_t padding,        \
                                                    diopiSize_t dilation, bool) {                                            \
    return guard(__func__, [&] {                                                                                             \
      maxPool(out, indices, input, fixedRegion(input, kernel_size, stride, padding, dilation, false, RANK), RANK);           \
    });                                                                                                                      \
  }                                                                                                                          \
  diopiError_t diopiMaxPool##RANK_NAME##Backward(                                                                            \
      diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t,  \
      diopiSize_t, diopiSize_t, diopiSize_t, diopiSize_t, bool, diopiConstTensorHandle_t indices) {                          \
    return guard(__func__, [&] { maxBackward(grad_input, grad_output, indices, RANK); });                                    \
  }                                                                                                                          \
  diopiError_t diopiAdaptiveMaxPool##RANK_NAME(diopiContextHandle_t, diopiTensorHandle_t out,                                \
                                               diopiConstTensorHandle_t input, diopiSize_t) {                                \
    return guard(__func__, [&] { maxPool(out, Tensor(), input, adaptiveRegion(input, out, RANK), RANK); });                  \
  }                                                                                                                          \
  diopiError_t diopiAdaptiveMaxPool##RANK_NAME##WithIndices(diopiContextHandle_t, diopiTensorHandle_t out,                   \
                                                            diopiTensorHandle_t indices, diopiConstTensorHandle_t input,     \
                                                            diopiSize_t) {                                                   \
    return guard(__func__, [&] { maxPool(out, indices, input, adaptiveRegion(input, out, RANK), RANK); });                   \
  }                                                                                                                          \
  diopiError_t diopiAdaptiveMaxPool##RANK_NAME##Backward(diopiContextHandle_t, diopiTensorHandle_t grad_input,               \
                                                         diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t,     \
                                                         diopiConstTensorHandle_t indices) {                                 \
    return guard(__func__, [&] { maxBackward(grad_input, grad_output, indices, RANK); });                                    \
  }                                                                                                                          \
  diopiError_t diopiAdaptiveAvgPool##RANK_NAME(diopiContextHandle_t, diopiTensorHandle_t out,                                \
                                               diopiConstTensorHandle_t input, diopiSize_t) {                                \
    return guard(__func__, [&] { averagePool(out, input, adaptiveRegion(input, out, RANK), nullptr, RANK); });               \
  }                                                                                                                          \
  diopiError_t diopiAdaptiveAvgPool##RANK_NAME##Backward(diopiContextHandle_t, diopiTensorHandle_t grad_input,               \
                                                         diopiConstTensorHandle_t grad_output,                               \
                                                         diopiConstTensorHandle_t input) {                                   \
    return guard(__func__, [&] {                                                                                             \
      averageBackward(grad_input, grad_output, adaptiveRegion(input, grad_output, RANK), nullptr, RANK);                     \
    });                                                                                                                      \
  }                                                                                                                          \
  diopiError_t diopiPool##RANK_NAME(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,           \
                                    const char* mode, diopiSize_t ksize, diopiSize_t stride, diopiSize_t padding,            \
                                    diopiSize_t dilation, const bool, const bool exclusive, const bool adaptive,             \
                                    diopiSize_t) {                                                                           \
    return guard(__func__,                                                                                                   \
                 [&] { pool(out, input, mode, ksize, stride, padding, dilation, exclusive, adaptive, RANK); });              \
  }                                                                                                                          \
  diopiError_t diopiPool##RANK_NAME##Backward(diopiContextHandle_t, diopiTensorHandle_t grad_input,                          \
                                              diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t input,          \
                                              const char* mode, diopiSize_t ksize, diopiSize_t stride, diopiSize_t padding,  \
                                              diopiSize_t, const bool, const bool exclusive, const bool adaptive,            \
                                              diopiConstTensorHandle_t indices) {                                            \
    return guard(__func__, [&] {                                                                                             \
      poolBackward(grad_input, grad_output, input, mode, ksize, stride, padding, exclusive, adaptive, indices, RANK);        \
    });                                                                                                                      \
  }
POOLS(1, 1d)
POOLS(2, 2d)
POOLS(3, 3d)
#undef POOLS

diopiError_t diopiAvgPool1d(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                            diopiSize_t kernel_size, diopiSize_t stride, diopiSize_t padding, bool, bool count_include_pad) {
  return guard(__func__, [&] {
    averagePool(out, input, fixedRegion(input, kernel_size, stride, padding, kNone, count_include_pad, 1), nullptr, 1);
  });
}

diopiError_t diopiAvgPool1dBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                                    diopiConstTensorHandle_t input, diopiSize_t kernel_size, diopiSize_t stride,
                                    diopiSize_t padding, bool, bool count_include_pad) {
  return guard(__func__, [&] {
    averageBackward(grad_input, grad_output, fixedRegion(input, kernel_size, stride, padding, kNone, count_include_pad, 1),
                    nullptr, 1);
  });
}

#define AVERAGE_POOLS(RANK, RANK_NAME)                                                                                       \
  diopiError_t diopiAvgPool##RANK_NAME(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,        \
                                       diopiSize_t kernel_size, diopiSize_t stride, diopiSize_t padding, bool,               \
                                       bool count_include_pad, const int64_t* divisor_override) {                            \
    return guard(__func__, [&] {                                                                                             \
      averagePool(out, input, fixedRegion(input, kernel_size, stride, padding, kNone, count_include_pad, RANK),              \
                  divisor_override, RANK);                                                                                   \
    });                                                                                                                      \
  }                                                                                                                          \
  diopiError_t diopiAvgPool##RANK_NAME##Backward(                                                                            \
      diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,                            \
      diopiConstTensorHandle_t input, diopiSize_t kernel_size, diopiSize_t stride, diopiSize_t padding, bool,                \
      bool count_include_pad, const int64_t* divisor_override) {                                                             \
    return guard(__func__, [&] {                                                                                             \
      averageBackward(grad_input, grad_output,                                                                               \
                      fixedRegion(input, kernel_size, stride, padding, kNone, count_include_pad, RANK), divisor_override,    \
                      RANK);                                                                                                 \
    });                                                                                                                      \
  }
AVERAGE_POOLS(2, 2d)
AVERAGE_POOLS(3, 3d)
#undef AVERAGE_POOLS

}  // extern "C"
