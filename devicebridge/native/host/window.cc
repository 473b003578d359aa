#include "window.h"

#include <algorithm>

#include "loop.h"

namespace host {

Space space(diopiSize_t values, int rank, int64_t fill) {
  Space s{{fill, fill, fill}};
  if (values.len <= 0 || !values.data) return s;
  check(values.len == 1 || values.len == rank, "kernel, stride, padding and dilation want one value per spatial dimension");
  for (int i = 0; i < rank; i++) s.v[3 - rank + i] = values.data[values.len == 1 ? 0 : i];
  return s;
}

Space trailing(const Dims& shape, int rank) {
  Space s{{1, 1, 1}};
  for (int i = 0; i < rank; i++) s.v[3 - rank + i] = shape[shape.n - rank + i];
  return s;
}

Planes::Planes(const Dims& shape, int rank) : batch(1), channels(1), size{{1, 1, 1}} {
  if (shape.n != rank + 1 && shape.n != rank + 2) fail("a tensor of shape " + text(shape) + " has the wrong number of dimensions");
  size = trailing(shape, rank);
  channels = shape[shape.n - rank - 1];
  if (shape.n == rank + 2) batch = shape[0];
}

namespace {

// eachRun calls f(row, column, count, image offset, step) for every run of outputs
// along the width; the offset is -1 where the window lies in the padding, and
// runs are cut so that all of one lies inside or outside.
template <class F>
void eachRun(int64_t channels, const Space& in, const Space& out, const Window& w, int64_t from, int64_t to, F&& f) {
  const int64_t rows = channels * w.kernel.volume(), width = out[2];
  parallelFor(channels, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, (to - from) * w.kernel.volume())), [&](int64_t c0, int64_t c1) {
    for (int64_t row = c0 * w.kernel.volume(); row < c1 * w.kernel.volume() && row < rows; row++) {
      int64_t rest = row;
      const int64_t kw = rest % w.kernel[2];
      rest /= w.kernel[2];
      const int64_t kh = rest % w.kernel[1];
      rest /= w.kernel[1];
      const int64_t kd = rest % w.kernel[0], channel = rest / w.kernel[0];
      for (int64_t at = from; at < to;) {
        const int64_t ow = at % width, oh = at / width % out[1], od = at / width / out[1];
        const int64_t count = std::min(width - ow, to - at);
        const int64_t d = od * w.stride[0] - w.padding[0] + kd * w.dilation[0];
        const int64_t h = oh * w.stride[1] - w.padding[1] + kh * w.dilation[1];
        const int64_t shift = kw * w.dilation[2] - w.padding[2];  // image column of output 0
        if (d < 0 || d >= in[0] || h < 0 || h >= in[1]) {
          f(row, at - from, count, int64_t(-1), int64_t(0));
        } else {
          // Outputs lo..hi-1 read columns inside the image.
          const int64_t s = w.stride[2];
          const int64_t first = shift >= 0 ? 0 : (-shift + s - 1) / s;
          const int64_t last = in[2] - 1 - shift < 0 ? 0 : (in[2] - 1 - shift) / s + 1;
          const int64_t lo = std::clamp(first, ow, ow + count), hi = std::clamp(last, lo, ow + count);
          const int64_t base = ((channel * in[0] + d) * in[1] + h) * in[2] + shift;
          if (lo > ow) f(row, at - from, lo - ow, int64_t(-1), int64_t(0));
          if (hi > lo) f(row, at - from + lo - ow, hi - lo, base + lo * s, s);
          if (ow + count > hi) f(row, at - from + hi - ow, ow + count - hi, int64_t(-1), int64_t(0));
        }
        at += count;
      }
    }
  });
}

}  // namespace

template <class C>
void unfoldColumns(const C* x, int64_t channels, const Space& in, const Space& out, const Window& w, int64_t from, int64_t to,
                   C* columns) {
  const int64_t ld = to - from;
  eachRun(channels, in, out, w, from, to, [&](int64_t row, int64_t column, int64_t count, int64_t offset, int64_t step) {
    C* dst = columns + row * ld + column;
    if (offset < 0) std::fill_n(dst, count, C(0));
    else if (step == 1) std::copy_n(x + offset, count, dst);
    else for (int64_t i = 0; i < count; i++) dst[i] = x[offset + i * step];
  });
}

template <class C>
void foldColumns(C* x, int64_t channels, const Space& in, const Space& out, const Window& w, int64_t from, int64_t to,
                 const C* columns) {
  const int64_t ld = to - from;
  eachRun(channels, in, out, w, from, to, [&](int64_t row, int64_t column, int64_t count, int64_t offset, int64_t step) {
    if (offset < 0) return;
    const C* src = columns + row * ld + column;
    for (int64_t i = 0; i < count; i++) x[offset + i * step] += src[i];
  });
}

template void unfoldColumns(const float*, int64_t, const Space&, const Space&, const Window&, int64_t, int64_t, float*);
template void unfoldColumns(const double*, int64_t, const Space&, const Space&, const Window&, int64_t, int64_t, double*);
template void foldColumns(float*, int64_t, const Space&, const Space&, const Window&, int64_t, int64_t, const float*);
template void foldColumns(double*, int64_t, const Space&, const Space&, const Window&, int64_t, int64_t, const double*);

}  // namespace host
