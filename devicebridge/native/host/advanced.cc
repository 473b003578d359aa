// Indexing with several tensors, and with masks.
#include "elementwise.h"
#include "index.h"
#include "reduce.h"

namespace host {
namespace {

bool isMask(const Tensor& t) { return t.dtype == diopi_dtype_bool || t.dtype == diopi_dtype_uint8; }

// nonzero lists the places of a tensor's nonzero elements in row-major order,
// dim() indices each.
std::vector<int64_t> nonzero(const Tensor& t) {
  const Dense<bool> set(t);
  std::vector<int64_t> places;
  Dims index(t.dim(), 0);
  for (int64_t i = 0; i < t.numel; i++) {
    if (set[i]) places.insert(places.end(), index.begin(), index.end());
    for (int d = t.dim() - 1; d >= 0; d--) {
      if (++index[d] < t.size(d)) break;
      index[d] = 0;
    }
  }
  return places;
}

int64_t countNonzero(const Tensor& t) {
  const Dense<bool> set(t);
  return std::count(set.data(), set.data() + t.numel, true);
}

// Indexed is a tensor under a list of indices: a view and offsets of the shape
// the indexing yields. Null entries, and dimensions after the list, are taken
// whole; a mask stands for as many dimensions as it has.
class Indexed {
 public:
  Indexed(const Tensor& t, diopiConstTensorHandle_t* indices, int64_t count) {
    int d = 0, last = -1;
    bool adjacent = true;
    Offsets sum({0}, Dims());
    int place = -1;  // where the indices' dimensions go, counted in dimensions taken whole
    Dims whole, wholeStride;
    const auto use = [&](const Offsets& o) {
      if (place < 0) place = whole.n;
      else if (last != d - 1) adjacent = false;
      sum.add(o);
      last = d++;
    };
    const auto skip = [&] {
      whole.push(t.size(d));
      wholeStride.push(t.stride[d++]);
    };
    for (int64_t i = 0; i < count; i++) {
      const Tensor index(indices[i]);
      if (index && isMask(index)) {
        useMask(t, index, d, use);
        continue;
      }
      check(d < t.dim(), "too many indices");
      if (index) use(Offsets(index, t.size(d), t.stride[d], t.itemsize()));
      else skip();
    }
    while (d < t.dim()) skip();
    if (!adjacent || place < 0) place = 0;

    const Dims shape = sum.tensor().shape;
    view_ = t;
    view_.shape = view_.stride = Dims();
    offsets_ = std::make_unique<Offsets>(std::move(sum));
    at_ = offsets_->tensor();
    for (int i = 0; i < place; i++) {
      view_.shape.push(whole[i]);
      view_.stride.push(wholeStride[i]);
    }
    for (int64_t n : shape) {
      view_.shape.push(n);
      view_.stride.push(0);
    }
    for (int i = place; i < whole.n; i++) {
      view_.shape.push(whole[i]);
      view_.stride.push(wholeStride[i]);
      at_ = at_.unsqueeze(at_.dim());
    }
    view_.numel = view_.shape.product();
  }

  const Tensor& view() const { return view_; }
  Tensor offsets() const { return at_.expand(view_.shape); }

 private:
  template <class Use>
  static void useMask(const Tensor& t, const Tensor& mask, int d, Use use) {
    check(d + mask.dim() <= t.dim(), "the mask has more dimensions than the tensor");
    for (int i = 0; i < mask.dim(); i++) check(mask.size(i) == t.size(d + i), "mask and tensor differ in shape");
    std::vector<int64_t> places = nonzero(mask);
    const int rank = mask.dim();
    if (rank == 0) fail("a mask without dimensions is not supported as an index");
    const int64_t n = static_cast<int64_t>(places.size()) / rank;
    for (int i = 0; i < rank; i++) {
      const Tensor column(places.data() + i, diopi_dtype_int64, Dims{n}, Dims{rank});
      use(Offsets(column, t.size(d + i), t.stride[d + i], t.itemsize()));
    }
  }

  Tensor view_, at_;
  std::unique_ptr<Offsets> offsets_;
};

void indexPut(const Tensor& out, const Tensor& initial, const Tensor& values, diopiConstTensorHandle_t* indices, int64_t count,
              bool accumulate) {
  const Combine combine = accumulate ? Combine::kAdd : Combine::kAssign;
  Accumulator work(out, initial, combine);
  const Indexed at(work.tensor(), indices, count);
  scatterAt(at.view(), at.offsets(), values, combine);
  work.commit();
}

// maskedWalk calls body with a byte offset into t, expanded to shape, for each
// element of the mask that is set, in order.
template <class Body>
void maskedWalk(const Tensor& t, const Tensor& mask, const Dims& shape, Body body) {
  const Dense<bool> set(mask.expand(shape));
  const Tensor view = t.expand(shape);
  Axes axes;
  for (int d = 0; d < view.dim(); d++) axes.add(view.size(d), view.stride[d] * view.itemsize());
  const int64_t n = view.numel;
  if (n == 0) return;
  AxesWalk walk(axes, 0);
  for (int64_t i = 0; i < n; i++, walk.advance(1)) {
    if (set[i]) body(walk.offset());
  }
}

void maskedSelect(diopiContextHandle_t ctx, diopiTensorHandle_t* out, const Tensor& input, const Tensor& mask) {
  const Dims shape = broadcast(input.shape, mask.shape);
  *out = requireTensor(ctx, Dims{countNonzero(mask.expand(shape))}, input.dtype);
  const Tensor to(*out);
  visitSize(input.dtype, [&](auto zero) {
    using E = decltype(zero);
    E* y = to.ptr<E>();
    maskedWalk(input, mask, shape, [&](int64_t at) { *y++ = *reinterpret_cast<const E*>(input.data + at); });
  });
}

void maskedSelectBackward(const Tensor& gradInput, const Tensor& gradOutput, const Tensor& mask) {
  const Dims shape = broadcast(gradInput.shape, mask.shape);
  Accumulator work(gradInput, Tensor(), Combine::kAdd);
  visitNumber(gradInput.dtype, [&](auto zero) {
    using C = decltype(zero);
    const Dense<C> grad(gradOutput);
    int64_t next = 0;
    maskedWalk(work.tensor(), mask, shape, [&](int64_t at) {
      check(next < grad.size(), "fewer gradients than elements of the mask that are set");
      *reinterpret_cast<C*>(work.tensor().data + at) += grad[next++];
    });
  });
  work.commit();
}

void maskedScatter(const Tensor& out, const Tensor& input, const Tensor& mask, const Tensor& source) {
  check(out.dtype == source.dtype, "source and result differ in dtype");
  const Compact from(source);
  if (out.data != input.data) copy(out, input);
  visitSize(out.dtype, [&](auto zero) {
    using E = decltype(zero);
    const E* x = from.tensor().ptr<const E>();
    int64_t next = 0;
    maskedWalk(out, mask, out.shape, [&](int64_t at) {
      check(next < source.numel, "source has fewer elements than the mask sets");
      *reinterpret_cast<E*>(out.data + at) = x[next++];
    });
  });
}

void oneHot(const Tensor& out, const Tensor& input) {
  const int last = out.dim() - 1;
  check(last == input.dim(), "the result needs one dimension more than the input");
  const Dense<int64_t> classes(input);
  const int64_t n = out.size(last);
  DenseOut<int64_t> y(out, true);
  std::fill(y.data(), y.data() + out.numel, 0);
  for (int64_t i = 0; i < classes.size(); i++) {
    if (classes[i] < 0 || classes[i] >= n) fail("class " + std::to_string(classes[i]) + " is not below " + std::to_string(n));
    y[i * n + classes[i]] = 1;
  }
  y.commit();
}

}  // namespace
}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiIndex(diopiContextHandle_t ctx, diopiTensorHandle_t* out, diopiConstTensorHandle_t input,
                        diopiConstTensorHandle_t* indices, int64_t nums) {
  return guard(__func__, [&] {
    const Tensor t(input);
    const Indexed at(t, indices, nums);
    *out = requireTensor(ctx, at.view().shape, t.dtype);
    gatherAt(*out, at.view(), at.offsets());
  });
}

diopiError_t diopiIndexBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiTensorHandle_t,
                                diopiConstTensorHandle_t* indices, int64_t nums, diopiConstTensorHandle_t grad_output) {
  return guard(__func__, [&] { indexPut(grad_input, Tensor(), grad_output, indices, nums, true); });
}

diopiError_t diopiIndexPut(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                           diopiConstTensorHandle_t values, diopiConstTensorHandle_t* indices, int64_t indices_counts,
                           bool accumulate) {
  return guard(__func__, [&] { indexPut(out, input, values, indices, indices_counts, accumulate); });
}

diopiError_t diopiIndexPutInp(diopiContextHandle_t, diopiTensorHandle_t input, diopiConstTensorHandle_t values,
                              diopiConstTensorHandle_t* indices, int64_t indices_counts, bool accumulate) {
  return guard(__func__, [&] { indexPut(input, input, values, indices, indices_counts, accumulate); });
}

diopiError_t diopiNonzero(diopiContextHandle_t ctx, diopiTensorHandle_t* out, diopiConstTensorHandle_t input) {
  return guard(__func__, [&] {
    const Tensor t(input);
    const Dims shape{countNonzero(t), t.dim()};
    *out = requireTensor(ctx, shape, diopi_dtype_int64);
    std::vector<int64_t> places = nonzero(t);
    copy(*out, Tensor(places.data(), diopi_dtype_int64, shape));
  });
}

diopiError_t diopiMaskedSelect(diopiContextHandle_t ctx, diopiTensorHandle_t* out, diopiConstTensorHandle_t input,
                               diopiConstTensorHandle_t mask) {
  return guard(__func__, [&] { maskedSelect(ctx, out, input, mask); });
}

diopiError_t diopiMaskedSelectBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input,
                                       diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t,
                                       diopiConstTensorHandle_t mask) {
  return guard(__func__, [&] { maskedSelectBackward(grad_input, grad_output, mask); });
}

diopiError_t diopiMaskedScatter(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                                diopiConstTensorHandle_t mask, diopiConstTensorHandle_t source) {
  return guard(__func__, [&] { maskedScatter(out, input, mask, source); });
}

diopiError_t diopiOneHot(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, int64_t) {
  return guard(__func__, [&] { oneHot(out, input); });
}

}
