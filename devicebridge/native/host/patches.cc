// im2col, col2im, unfold and pad.
#include <cstring>
#include <vector>

#include "dense.h"
#include "loop.h"
#include "window.h"

namespace host {

namespace {

Window windowOf(diopiSize_t kernel, diopiSize_t stride, diopiSize_t padding, diopiSize_t dilation) {
  Window w{space(kernel, 2, 1), space(stride, 2, 1), space(padding, 2, 0), space(dilation, 2, 1)};
  w.kernel.v[0] = w.stride.v[0] = w.dilation.v[0] = 1;
  w.padding.v[0] = 0;
  return w;
}

Space outputs(const Space& in, const Window& w) {
  Space out{{1, 1, 1}};
  for (int i = 1; i < 3; i++) {
    out.v[i] = (in[i] + 2 * w.padding[i] - w.dilation[i] * (w.kernel[i] - 1) - 1) / w.stride[i] + 1;
    check(out.v[i] > 0, "the kernel is larger than the padded image");
  }
  return out;
}

// unfolded is the view of windows of a dimension, their elements in a new last one.
Tensor unfolded(const Tensor& t, int64_t dim, int64_t size, int64_t step) {
  Tensor view = t.dim() == 0 ? t.unsqueeze(0) : t;
  const int d = wrapDim(dim, view.dim());
  check(size >= 0 && step > 0 && size <= view.size(d), "size must lie between 0 and that of the dimension, step be positive");
  Dims shape = view.shape, stride = view.stride;
  shape[d] = (view.size(d) - size) / step + 1;
  stride[d] = view.stride[d] * step;
  shape.push(size);
  stride.push(view.stride[d]);
  return Tensor(view.data, view.dtype, shape, stride);
}

enum class Border { constant, reflect, replicate, circular };

Border borderOf(const char* mode) {
  if (std::strcmp(mode, "constant") == 0) return Border::constant;
  if (std::strcmp(mode, "reflect") == 0) return Border::reflect;
  if (std::strcmp(mode, "replicate") == 0) return Border::replicate;
  if (std::strcmp(mode, "circular") == 0) return Border::circular;
  fail(std::string("mode ") + mode + " is not one of constant, reflect, replicate, circular");
}

// source is the input position that a position relative to it takes, or -1. What
// negative padding takes off at the front and the end does not come around again.
int64_t source(int64_t i, int64_t n, int64_t front, int64_t end, Border border) {
  if (i >= front && i < n - end) return i;
  switch (border) {
    case Border::constant: return -1;
    case Border::replicate: return i < 0 ? 0 : n - 1;
    case Border::reflect: i = i < 0 ? -i : 2 * (n - 1) - i; break;
    case Border::circular: i += i < front ? n - front - end : front + end - n; break;
  }
  if (i < 0 || i >= n) fail("the padding is too wide for a dimension of " + std::to_string(n));
  return i;
}

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiIm2Col(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                         diopiSize_t kernel_size, diopiSize_t dilation, diopiSize_t padding, diopiSize_t stride) {
  return guard(__func__, [&] {
    const Tensor x(input);
    const Planes p(x.shape, 2);
    const Window w = windowOf(kernel_size, stride, padding, dilation);
    const Space o = outputs(p.size, w);
    visitFloat(x.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> from(x);
      Out<C> to{Tensor(out)};
      const int64_t image = p.channels * p.size.volume(), columns = p.channels * w.kernel.volume() * o.volume();
      check(to.numel == p.batch * columns, "out has the wrong number of elements");
      for (int64_t n = 0; n < p.batch; n++) {
        unfoldColumns<C>(from + n * image, p.channels, p.size, o, w, 0, o.volume(), to + n * columns);
      }
    });
  });
}

diopiError_t diopiCol2Im(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, diopiSize_t,
                         diopiSize_t kernel_size, diopiSize_t dilation, diopiSize_t padding, diopiSize_t stride) {
  return guard(__func__, [&] {
    const Tensor y(out);
    const Planes p(y.shape, 2);
    const Window w = windowOf(kernel_size, stride, padding, dilation);
    const Space o = outputs(p.size, w);
    visitFloat(y.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> from(input);
      Out<C> to(y);
      to.zero();
      const int64_t image = p.channels * p.size.volume(), columns = p.channels * w.kernel.volume() * o.volume();
      check(from.numel == p.batch * columns, "input has the wrong number of elements for this output size");
      for (int64_t n = 0; n < p.batch; n++) {
        foldColumns<C>(to + n * image, p.channels, p.size, o, w, 0, o.volume(), from + n * columns);
      }
    });
  });
}

diopiError_t diopiUnfold(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, int64_t dim,
                         int64_t size, int64_t step) {
  return guard(__func__, [&] {
    const Tensor to(out), view = unfolded(input, dim, size, step);
    equalShapes(to.shape.n == view.shape.n ? to.shape : view.shape, view.shape, "out and the windows of input");
    copy(Tensor(to.data, to.dtype, view.shape, to.shape.n == view.shape.n ? to.stride : rowMajor(view.shape)), view);
  });
}

diopiError_t diopiUnfoldBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                                 diopiSize_t, int64_t dim, int64_t size, int64_t step) {
  return guard(__func__, [&] {
    const Tensor to(grad_input), g(grad_output);
    visitFloat(to.dtype, [&](auto zero) {
      using C = decltype(zero);
      Out<C> sums(to);
      sums.zero();
      const Tensor windows = unfolded(Tensor(static_cast<C*>(sums), dtypeOf<C>(), to.shape), dim, size, step);
      const int last = windows.dim() - 1;
      for (int64_t k = 0; k < size; k++) {  // windows overlap, their k-th elements do not
        const Tensor target = windows.select(last, k), from = g.select(g.dim() - 1, k);
        map<C>(target, [](C sum, C grad) { return sum + grad; }, in<C>(target), in<C>(from));
      }
    });
  });
}

diopiError_t diopiPad(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, diopiSize_t pad,
                      const char* mode, const double* value) {
  return guard(__func__, [&] {
    const Tensor y(out);
    Tensor x(input);
    const Border border = borderOf(mode);
    const int rank = x.dim();
    check(pad.len % 2 == 0 && pad.len / 2 <= rank, "pad wants two values for each of at most all dimensions");
    check(y.dim() == rank, "input and out have different numbers of dimensions");
    std::unique_ptr<char[]> converted;
    if (x.dtype != y.dtype) {
      converted.reset(new char[static_cast<size_t>(std::max<int64_t>(1, x.numel) * y.itemsize())]);
      const Tensor same(converted.get(), y.dtype, x.shape);
      copy(same, x);
      x = same;
    }
    std::vector<std::vector<int64_t>> from(rank);  // source offset per position, or -1
    for (int d = 0; d < rank; d++) {
      const int64_t pair = rank - 1 - d, n = x.size(d);
      const int64_t before = pair < pad.len / 2 ? pad.data[2 * pair] : 0;
      const int64_t after = pair < pad.len / 2 ? pad.data[2 * pair + 1] : 0;
      if (y.size(d) != n + before + after) {
        fail("out of shape " + text(y.shape) + " does not fit the padded input of shape " + text(x.shape));
      }
      for (int64_t i = 0; i < y.size(d); i++) {
        const int64_t at =
            source(i - before, n, std::max<int64_t>(0, -before), std::max<int64_t>(0, -after), border);
        from[d].push_back(at < 0 ? -1 : at * x.stride[d]);
      }
    }
    unsigned char constant[16] = {};
    const double fillValue = value ? *value : 0;
    copy(Tensor(constant, y.dtype, Dims()), Tensor(const_cast<double*>(&fillValue), diopi_dtype_float64, Dims()));
    if (y.numel == 0) return;
    visitSize(y.dtype, [&](auto zero) {
      using E = decltype(zero);
      E fillElement;
      std::memcpy(&fillElement, constant, sizeof(E));
      const int last = rank - 1;
      const int64_t width = rank > 0 ? y.size(last) : 1;
      parallelFor(y.numel / width, grainFor(width), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; row++) {
          int64_t rest = row, read = 0, write = 0;
          bool inside = true;
          for (int d = last - 1; d >= 0; d--) {
            const int64_t i = rest % y.size(d);
            rest /= y.size(d);
            write += i * y.stride[d];
            inside = inside && from[d][i] >= 0;
            read += from[d][i];
          }
          E* to = y.ptr<E>() + write;
          const E* source = x.ptr<E>() + read;
          if (rank == 0) {
            *to = *source;
            continue;
          }
          for (int64_t j = 0; j < width; j++) {
            to[j * y.stride[last]] = inside && from[last][j] >= 0 ? source[from[last][j]] : fillElement;
          }
        }
      });
    });
  });
}

}  // extern "C"
