// Operands as dense row-major arrays of the type to compute in. A kernel written
// on In and Out is right for every layout and every dtype: a tensor that is dense
// and of that type is used where it lies, any other goes through a buffer.
#ifndef OPTOOL_HOST_DENSE_H_
#define OPTOOL_HOST_DENSE_H_

#include <algorithm>
#include <memory>

#include "loop.h"

namespace host {

// In is what a kernel reads.
template <class C>
class In {
 public:
  In() = default;
  // An undefined tensor gives an In that is not defined.
  explicit In(const Tensor& t) : shape(t.shape), numel(t.numel), defined_(static_cast<bool>(t)) {
    if (!defined_) return;
    if (t.dtype == dtypeOf<C>() && t.contiguous()) {
      data_ = t.ptr<C>();
      return;
    }
    buffer_.reset(new C[static_cast<size_t>(numel > 0 ? numel : 1)]);
    data_ = buffer_.get();
    copy(Tensor(buffer_.get(), dtypeOf<C>(), shape), t);
  }
  explicit In(diopiConstTensorHandle_t handle) : In(Tensor(handle)) {}
  // The elements of t, broadcast to a shape.
  In(const Tensor& t, const Dims& to) : In(t ? t.expand(to) : t) {}

  explicit operator bool() const { return defined_; }
  operator const C*() const { return data_; }

  Dims shape;
  int64_t numel = 0;

 private:
  bool defined_ = false;
  const C* data_ = nullptr;
  std::unique_ptr<C[]> buffer_;
};

// Out is what a kernel writes: every element, unless zero() or load() went
// before. What went to a buffer is stored when the Out dies.
template <class C>
class Out {
 public:
  Out() = default;
  explicit Out(const Tensor& t) : shape(t.shape), numel(t.numel), tensor_(t) {
    if (!t) return;
    if (t.dtype == dtypeOf<C>() && t.contiguous()) {
      data_ = t.ptr<C>();
      return;
    }
    converter(t.dtype, dtypeOf<C>());  // refuses here what could not be stored at the end
    buffer_.reset(new C[static_cast<size_t>(numel > 0 ? numel : 1)]);
    data_ = buffer_.get();
  }
  explicit Out(diopiTensorHandle_t handle) : Out(Tensor(handle)) {}
  Out(const Out&) = delete;
  Out& operator=(const Out&) = delete;
  ~Out() {
    if (buffer_) copy(tensor_, Tensor(buffer_.get(), dtypeOf<C>(), shape));
  }

  explicit operator bool() const { return static_cast<bool>(tensor_); }
  operator C*() const { return data_; }

  // zero sets all elements to 0.
  void zero() {
    if (*this) std::fill_n(data_, numel, C(0));
  }
  // load reads what the tensor holds.
  void load() {
    if (buffer_) copy(Tensor(buffer_.get(), dtypeOf<C>(), shape), tensor_);
  }

  Dims shape;
  int64_t numel = 0;

 private:
  Tensor tensor_;
  C* data_ = nullptr;
  std::unique_ptr<C[]> buffer_;
};

// Scratch is an uninitialised array.
template <class C>
class Scratch {
 public:
  explicit Scratch(int64_t n) : data_(new C[static_cast<size_t>(n > 0 ? n : 1)]) {}
  operator C*() const { return data_.get(); }

 private:
  std::unique_ptr<C[]> data_;
};

// Around is a shape cut at a dimension: [outer, size, inner].
struct Around {
  int64_t outer = 1, size = 1, inner = 1;
  Around(const Dims& shape, int64_t dim) {
    if (shape.n == 0) return;
    const int d = wrapDim(dim, shape.n);
    for (int i = 0; i < shape.n; i++) (i < d ? outer : i == d ? size : inner) *= shape[i];
  }
};

// sumTo adds up dense `from` over the dimensions along which `to` was broadcast.
template <class C>
void sumTo(C* to, const Dims& shape, const C* from, const Dims& fromShape) {
  const Tensor target = Tensor(to, dtypeOf<C>(), shape).expand(fromShape);
  std::fill_n(to, shape.product(), C(0));
  const int64_t n = fromShape.product(), last = fromShape.n ? fromShape[fromShape.n - 1] : 1;
  if (n == 0) return;
  const int64_t step = fromShape.n ? target.stride[fromShape.n - 1] : 0;
  for (int64_t row = 0; row < n / last; row++) {
    int64_t offset = 0, rest = row;
    for (int d = fromShape.n - 2; d >= 0; d--) {
      offset += rest % fromShape[d] * target.stride[d];
      rest /= fromShape[d];
    }
    for (int64_t j = 0; j < last; j++) to[offset + j * step] += from[row * last + j];
  }
}

// equalShapes checks that two arguments agree.
inline void equalShapes(const Dims& a, const Dims& b, const char* what) {
  if (a != b) fail(std::string(what) + " have shapes " + text(a) + " and " + text(b));
}

}  // namespace host

#endif  // OPTOOL_HOST_DENSE_H_
