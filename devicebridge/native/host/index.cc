// Gather, scatter, select and fill along one dimension.
#include "index.h"

#include "elementwise.h"

namespace host {

Offsets::Offsets(const Tensor& index, int64_t size, int64_t stride, int64_t itemsize) : bytes_(index.numel), shape_(index.shape) {
  if (!isIntegral(index.dtype)) unsupported(index.dtype);
  const int64_t bytes = stride * itemsize;
  map<int64_t>(tensor(), [=](int64_t i) {
    const int64_t at = i < 0 ? i + size : i;
    if (at < 0 || at >= size) fail("index " + std::to_string(i) + " is out of range for a dimension of size " + std::to_string(size));
    return at * bytes;
  }, in<int64_t>(index));
}

void Offsets::add(const Offsets& other) {
  const Dims shape = broadcast(shape_, other.shape_);
  Offsets sum(std::vector<int64_t>(shape.product()), shape);
  map<int64_t>(sum.tensor(), [](int64_t a, int64_t b) { return a + b; }, in<int64_t>(tensor()), in<int64_t>(other.tensor()));
  *this = std::move(sum);
}

Tensor along(const Tensor& t, int d, const Dims& indexShape) {
  Tensor view = t;
  if (t.dim() == 0 || indexShape.n == 0) {  // a scalar is a vector of one element
    view.shape = indexShape;
    view.stride = Dims(indexShape.n, 0);
  } else {
    if (t.dim() != indexShape.n) fail("index and tensor differ in rank");
    for (int i = 0; i < t.dim(); i++) {
      if (i != d && indexShape[i] > t.size(i)) fail("index of shape " + text(indexShape) + " exceeds the tensor's " + text(t.shape));
    }
    view.shape = indexShape;
    view.stride[d] = 0;
  }
  view.numel = indexShape.product();
  return view;
}

void gatherAt(const Tensor& out, const Tensor& source, const Tensor& offsets) {
  check(out.dtype == source.dtype, "the result has another dtype than the tensor");
  const Converter convert = converter(out.dtype, source.dtype);
  visitSize(out.dtype, [&](auto zero) {
    using E = decltype(zero);
    Rows rows(out.shape);
    rows.add(out).add(source).add(offsets);
    rows.run([&](char* const* p, const int64_t* s, int64_t n) {
      if (s[2] == 0) return convert(p[0], s[0], p[1] + *reinterpret_cast<const int64_t*>(p[2]), s[1], n);
      for (int64_t i = 0; i < n; i++) {
        const int64_t at = *reinterpret_cast<const int64_t*>(p[2] + i * s[2]);
        *reinterpret_cast<E*>(p[0] + i * s[0]) = *reinterpret_cast<const E*>(p[1] + i * s[1] + at);
      }
    }, 4);
  });
}

namespace {

// separate runs body on parts of target, offsets and source that write to
// different elements: pieces of the longest dimension along which the target
// itself moves.
void separate(const Tensor& target, const Tensor& offsets, const Tensor& source,
              FunctionRef<void(const Tensor&, const Tensor&, const Tensor&)> body) {
  int split = -1;
  for (int d = 0; d < target.dim(); d++) {
    if (target.stride[d] != 0 && (split < 0 || target.size(d) > target.size(split))) split = d;
  }
  if (target.numel == 0) return;
  if (split < 0) return body(target, offsets, source);
  const int64_t n = target.size(split);
  parallelFor(n, grainFor(8 * target.numel / n), [&](int64_t begin, int64_t end) {
    body(target.narrow(split, begin, end - begin), offsets.narrow(split, begin, end - begin), source.narrow(split, begin, end - begin));
  });
}

template <class C, class Op>
void combineRows(const Tensor& target, const Tensor& offsets, const Tensor& source, Op op) {
  const Lane<C> lane(source.dtype);
  Rows rows(target.shape);
  rows.add(target).add(offsets).add(source);
  rows.runInOrder([&](char* const* p, const int64_t* s, int64_t n) {
    Block<C> block;
    for (int64_t at = 0; at < n; at += kBlock) {
      const int64_t m = std::min(kBlock, n - at);
      const C* x = lane.load(p[2] + at * s[2], s[2], m, block);
      for (int64_t i = 0, k = at; i < m; i++, k++) {
        C& y = *reinterpret_cast<C*>(p[0] + k * s[0] + *reinterpret_cast<const int64_t*>(p[1] + k * s[1]));
        y = op(y, x[i]);
      }
    }
  });
}

template <class E>
void assignRows(const Tensor& target, const Tensor& offsets, const Tensor& source) {
  Rows rows(target.shape);
  rows.add(target).add(offsets).add(source);
  rows.runInOrder([&](char* const* p, const int64_t* s, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
      const int64_t at = *reinterpret_cast<const int64_t*>(p[1] + i * s[1]);
      *reinterpret_cast<E*>(p[0] + i * s[0] + at) = *reinterpret_cast<const E*>(p[2] + i * s[2]);
    }
  });
}

}  // namespace

void scatterAt(const Tensor& target, const Tensor& offsets, const Tensor& source, Combine combine) {
  const Tensor at = offsets.expand(target.shape);
  Tensor from = source.expand(target.shape);
  if (combine == Combine::kAssign) {
    std::unique_ptr<char[]> converted;
    if (source.dtype != target.dtype) {
      converted.reset(new char[std::max<int64_t>(1, source.numel) * target.itemsize()]);
      const Tensor same(converted.get(), target.dtype, source.shape);
      copy(same, source);
      from = same.expand(target.shape);
    }
    return visitSize(target.dtype, [&](auto zero) {
      separate(target, at, from, [](const Tensor& t, const Tensor& o, const Tensor& s) { assignRows<decltype(zero)>(t, o, s); });
    });
  }
  visitNumber(target.dtype, [&](auto zero) {
    using C = decltype(zero);
    using U = std::conditional_t<std::is_same_v<C, int64_t>, uint64_t, C>;  // integers wrap
    check(target.dtype == dtypeOf<C>(), "the target is not an accumulator");
    separate(target, at, from, [&](const Tensor& t, const Tensor& o, const Tensor& s) {
      if (combine == Combine::kAdd) combineRows<C>(t, o, s, [](C y, C x) { return static_cast<C>(static_cast<U>(y) + static_cast<U>(x)); });
      else combineRows<C>(t, o, s, [](C y, C x) { return static_cast<C>(static_cast<U>(y) * static_cast<U>(x)); });
    });
  });
}

Accumulator::Accumulator(const Tensor& out, const Tensor& initial, Combine combine) : out_(out), work_(out) {
  Dtype dtype = out.dtype;
  if (combine != Combine::kAssign) {
    visitNumber(dtype, [&](auto zero) { dtype = dtypeOf<decltype(zero)>(); });
  }
  if (dtype != out.dtype) {
    own_.reset(new char[std::max<int64_t>(1, out.numel) * host::itemsize(dtype)]);
    work_ = Tensor(own_.get(), dtype, out.shape);
  }
  if (!initial) fillZero(work_);
  else if (initial.data != work_.data) copy(work_, initial);
}

void Accumulator::commit() {
  if (own_) copy(out_, work_);
}

namespace {

void gather(const Tensor& out, const Tensor& input, int64_t dim, const Tensor& index) {
  if (index.numel == 0) return;
  const int d = wrapDim(dim, input.dim());
  const Tensor source = along(input, d, index.shape);
  const Offsets offsets(index, input.dim() ? input.size(d) : 1, input.dim() ? input.stride[d] : 0, input.itemsize());
  gatherAt(out, source, offsets.tensor());
}

// scatterAlong combines source, which covers the index, into out along dim.
void scatterAlong(const Tensor& out, const Tensor& initial, int64_t dim, const Tensor& index, const Tensor& source, Combine combine) {
  const int d = wrapDim(dim, out.dim());
  Accumulator work(out, initial, combine);
  if (index.numel == 0) return work.commit();
  const Tensor& t = work.tensor();
  const Offsets offsets(index, t.dim() ? t.size(d) : 1, t.dim() ? t.stride[d] : 0, t.itemsize());
  Tensor from = source;
  if (source.dim() != 0) {  // the part the index covers
    if (index.dim() == 0) from = source.select(0, 0);
    for (int i = 0; i < index.dim(); i++) {
      check(index.dim() == source.dim() && index.size(i) <= source.size(i), "the index exceeds the source");
      from = from.narrow(i, 0, index.size(i));
    }
  }
  scatterAt(along(t, d, index.shape), offsets.tensor(), from, combine);
  work.commit();
}

Combine combineOf(const char* reduce) {
  const std::string name = reduce ? reduce : "";
  if (name.empty()) return Combine::kAssign;
  if (name == "add") return Combine::kAdd;
  if (name == "multiply") return Combine::kMultiply;
  fail("reduce is " + name + ", wanted add, multiply or nothing");
}

// positions is the view of t, and the shape, for a vector of indices along d:
// t with dimension d of the vector's length, standing still.
Tensor positions(const Tensor& t, int d, int64_t length) {
  Tensor view = t;
  if (t.dim() == 0) return view.unsqueeze(0).expand(Dims{length});
  view.shape[d] = length;
  view.stride[d] = 0;
  view.numel = view.shape.product();
  return view;
}

// lift gives a vector of offsets the rank of the view it is for.
Tensor lift(const Offsets& offsets, int d, int rank) {
  Tensor t = offsets.tensor();
  if (t.dim() == 0) t = t.unsqueeze(0);
  for (int i = d + 1; i < rank; i++) t = t.unsqueeze(t.dim());
  return t;
}

Offsets vectorOffsets(const Tensor& t, int d, const Tensor& index) {
  check(index.dim() <= 1, "the index must be a vector");
  return Offsets(index, t.dim() ? t.size(d) : 1, t.dim() ? t.stride[d] : 0, t.itemsize());
}

void indexSelect(const Tensor& out, const Tensor& input, int64_t dim, const Tensor& index) {
  const int d = wrapDim(dim, input.dim());
  const Offsets offsets = vectorOffsets(input, d, index);
  const Tensor source = positions(input, d, index.numel), at = lift(offsets, d, source.dim());
  if (out.dim() == 0) return gatherAt(out, input, offsets.tensor().expand(Dims{1}).select(0, 0));
  gatherAt(out, source, at.expand(out.shape));
}

// indexWrite writes values, which broadcast to the selected part, along dim.
void indexWrite(const Tensor& out, const Tensor& initial, int64_t dim, const Tensor& index, const Tensor& values, Combine combine) {
  const int d = wrapDim(dim, out.dim());
  Accumulator work(out, initial, combine);
  const Tensor& t = work.tensor();
  const Offsets offsets = vectorOffsets(t, d, index);
  const Tensor target = positions(t, d, index.numel);
  scatterAt(target, lift(offsets, d, target.dim()), values, combine);
  work.commit();
}

}  // namespace
}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiGather(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, int64_t dim,
                         diopiConstTensorHandle_t index) {
  return guard(__func__, [&] { gather(out, input, dim, index); });
}

diopiError_t diopiGatherBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                                 diopiConstTensorHandle_t, int64_t dim, diopiConstTensorHandle_t index) {
  return guard(__func__, [&] { scatterAlong(grad_input, Tensor(), dim, index, grad_output, Combine::kAdd); });
}

diopiError_t diopiScatter(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, int64_t dim,
                          diopiConstTensorHandle_t src, diopiConstTensorHandle_t index, const char* reduce) {
  return guard(__func__, [&] { scatterAlong(out, input, dim, index, src, combineOf(reduce)); });
}

diopiError_t diopiScatterInp(diopiContextHandle_t, diopiTensorHandle_t input, int64_t dim, diopiConstTensorHandle_t src,
                             diopiConstTensorHandle_t index, const char* reduce) {
  return guard(__func__, [&] { scatterAlong(input, input, dim, index, src, combineOf(reduce)); });
}

diopiError_t diopiScatterScalar(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, int64_t dim,
                                const diopiScalar_t* value, diopiConstTensorHandle_t index, const char* reduce) {
  return guard(__func__, [&] {
    const Tensor o(out);
    scatterAlong(o, input, dim, index, ScalarTensor(*value, o.dtype), combineOf(reduce));
  });
}

diopiError_t diopiScatterInpScalar(diopiContextHandle_t, diopiTensorHandle_t input, int64_t dim, const diopiScalar_t* value,
                                   diopiConstTensorHandle_t index, const char* reduce) {
  return guard(__func__, [&] {
    const Tensor o(input);
    scatterAlong(o, o, dim, index, ScalarTensor(*value, o.dtype), combineOf(reduce));
  });
}

diopiError_t diopiSortBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                               int64_t dim, diopiConstTensorHandle_t indices, diopiSize_t, bool) {
  return guard(__func__, [&] { scatterAlong(grad_input, Tensor(), dim, indices, grad_output, Combine::kAdd); });
}

diopiError_t diopiIndexSelect(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, int64_t dim,
                              diopiConstTensorHandle_t index) {
  return guard(__func__, [&] { indexSelect(out, input, dim, index); });
}

diopiError_t diopiIndexSelectBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad,
                                      diopiSize_t, int64_t dim, diopiConstTensorHandle_t index) {
  return guard(__func__, [&] { indexWrite(grad_input, Tensor(), dim, index, grad, Combine::kAdd); });
}

diopiError_t diopiIndexFill(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, int64_t dim,
                            diopiConstTensorHandle_t index, diopiConstTensorHandle_t value) {
  return guard(__func__, [&] { indexWrite(out, input, dim, index, value, Combine::kAssign); });
}

diopiError_t diopiIndexFillInp(diopiContextHandle_t, diopiTensorHandle_t input, int64_t dim, diopiConstTensorHandle_t index,
                               diopiConstTensorHandle_t value) {
  return guard(__func__, [&] { indexWrite(input, input, dim, index, value, Combine::kAssign); });
}

diopiError_t diopiIndexFillScalar(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, int64_t dim,
                                  diopiConstTensorHandle_t index, const diopiScalar_t* value) {
  return guard(__func__, [&] {
    const Tensor o(out);
    indexWrite(o, input, dim, index, ScalarTensor(*value, o.dtype), Combine::kAssign);
  });
}

diopiError_t diopiIndexFillInpScalar(diopiContextHandle_t, diopiTensorHandle_t input, int64_t dim,
                                     diopiConstTensorHandle_t index, const diopiScalar_t* value) {
  return guard(__func__, [&] {
    const Tensor o(input);
    indexWrite(o, o, dim, index, ScalarTensor(*value, o.dtype), Combine::kAssign);
  });
}

}
