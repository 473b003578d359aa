// Functions that only move elements: copies, casts, concatenation, views made
// real, triangles.
#include <algorithm>

#include "elementwise.h"

namespace host {
namespace {

// mustFit checks the shape of a result.
void mustFit(const Tensor& out, const Dims& shape) {
  if (out.shape != shape) fail("the result has shape " + text(out.shape) + ", wanted " + text(shape));
}

void cat(const Tensor& out, diopiConstTensorHandle_t* tensors, int64_t count, int64_t dim) {
  if (count == 0) fail("want at least one tensor");
  const int d = wrapDim(dim, out.dim());
  int64_t at = 0;
  for (int64_t i = 0; i < count; i++) {
    const Tensor t(tensors[i]);
    if (t.dim() == 1 && t.numel == 0 && out.dim() != 1) continue;  // torch's exception: an empty vector fits anywhere
    if (t.dim() != out.dim()) fail("tensors differ in rank");
    check(at + t.size(d) <= out.size(d), "the result is too short for the tensors");
    copy(out.narrow(d, at, t.size(d)), t);
    at += t.size(d);
  }
  check(at == out.size(d), "the result is longer than the tensors");
}

void stack(const Tensor& out, diopiConstTensorHandle_t* tensors, int64_t count, int64_t dim) {
  const int d = wrapDim(dim, out.dim());
  if (out.size(d) != count) fail("the result does not hold " + std::to_string(count) + " tensors");
  for (int64_t i = 0; i < count; i++) copy(out.select(d, i), tensors[i]);
}

void split(diopiTensorHandle_t* outs, int64_t count, const Tensor& input, diopiSize_t sizes, int64_t dim) {
  const int d = wrapDim(dim, input.dim());
  check(count == sizes.len, "as many results as sizes are wanted");
  int64_t at = 0;
  for (int64_t i = 0; i < count; i++) {
    check(at + sizes.data[i] <= input.size(d), "the sizes exceed the dimension");
    copy(outs[i], input.narrow(d, at, sizes.data[i]));
    at += sizes.data[i];
  }
}

void permute(const Tensor& out, const Tensor& input, diopiSize_t dims) {
  Dims order(dims);
  for (int64_t& d : order) d = wrapDim(d, input.dim());
  copy(out, input.permute(order));
}

void transpose(const Tensor& out, const Tensor& input, int64_t a, int64_t b) {
  const int i = wrapDim(a, input.dim()), j = wrapDim(b, input.dim());
  copy(out, input.transpose(i, j));
}

void flip(const Tensor& out, const Tensor& input, diopiSize_t dims) {
  Tensor t = input;
  if (t.numel == 0) return;
  for (int64_t i = 0; i < dims.len; i++) {
    const int d = wrapDim(dims.data[i], t.dim());
    if (t.dim() == 0) continue;
    t.data += (t.size(d) - 1) * t.stride[d] * t.itemsize();
    t.stride[d] = -t.stride[d];
  }
  copy(out, t);
}

// roll moves the two parts of one dimension at a time; without dims it moves
// the flattened tensor.
void rollDim(const Tensor& out, const Tensor& input, int d, int64_t shift) {
  const int64_t n = input.size(d);
  if (n == 0) return;
  const int64_t s = ((shift % n) + n) % n;
  copy(out.narrow(d, s, n - s), input.narrow(d, 0, n - s));
  copy(out.narrow(d, 0, s), input.narrow(d, n - s, s));
}

void roll(const Tensor& out, const Tensor& input, diopiSize_t shifts, diopiSize_t dims) {
  if (input.numel == 0) return;
  const int64_t bytes = input.numel * input.itemsize();
  std::unique_ptr<char[]> now(new char[bytes]), next(new char[bytes]);
  Tensor a(now.get(), input.dtype, input.shape), b(next.get(), input.dtype, input.shape);
  copy(a, input);
  if (dims.len == 0) {
    check(shifts.len == 1, "without dims one shift is wanted");
    const Dims flat{input.numel};
    rollDim(Tensor(next.get(), input.dtype, flat), Tensor(now.get(), input.dtype, flat), 0, shifts.data[0]);
    return copy(out, b);
  }
  check(shifts.len == dims.len, "shifts and dims differ in number");
  for (int64_t i = 0; i < dims.len; i++) {
    if (input.dim() == 0) continue;
    rollDim(b, a, wrapDim(dims.data[i], input.dim()), shifts.data[i]);
    std::swap(a, b);
  }
  copy(out, a);
}

void repeat(const Tensor& out, const Tensor& input, diopiSize_t repeats) {
  check(repeats.len >= input.dim(), "fewer repeats than dimensions");
  // The result seen as [repeat, size] pairs of dimensions takes input broadcast.
  Tensor to = out, from = input;
  to.shape = to.stride = Dims();
  from.shape = from.stride = Dims();
  const int64_t extra = repeats.len - input.dim();
  mustFit(out, [&] {
    Dims shape(repeats);
    for (int i = 0; i < input.dim(); i++) shape[extra + i] *= input.size(i);
    return shape;
  }());
  for (int i = 0; i < out.dim(); i++) {
    const int64_t size = i < extra ? 1 : input.size(i - extra);
    to.shape.push(repeats.data[i]);
    to.stride.push(out.stride[i] * size);
    to.shape.push(size);
    to.stride.push(out.stride[i]);
    from.shape.push(repeats.data[i]);
    from.stride.push(0);
    from.shape.push(size);
    from.stride.push(i < extra ? 0 : input.stride[i - extra]);
  }
  copy(to, from);
}

void meshGrid(diopiTensorHandle_t* outs, diopiConstTensorHandle_t* inputs, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const Tensor out(outs[i]);
    Tensor t(inputs[i]);
    const int64_t stride = t.dim() == 0 ? 0 : t.stride[0];
    t.shape = Dims(out.dim(), 1);
    t.stride = Dims(out.dim(), 0);
    t.shape[i] = t.numel;
    t.stride[i] = stride;
    copy(out, t);
  }
}

// slice clamps its bounds as Python does; the step is positive.
Tensor slice(const Tensor& t, int64_t dim, int64_t start, int64_t end, int64_t step) {
  const int d = wrapDim(dim, t.dim());
  check(step > 0, "the step must be positive");
  const int64_t n = t.size(d);
  const auto bound = [n](int64_t x) { return std::min(std::max<int64_t>(x < 0 ? x + n : x, 0), n); };
  const int64_t from = bound(start), to = std::max(from, bound(end));
  return t.narrow(d, from, (to - from + step - 1) / step, step);
}

Tensor selected(const Tensor& t, int64_t dim, int64_t index) {
  check(t.dim() > 0, "a scalar has nothing to select from");
  const int d = wrapDim(dim, t.dim());
  const int64_t i = index < 0 ? index + t.size(d) : index;
  if (i < 0 || i >= t.size(d)) fail("index " + std::to_string(index) + " is out of range");
  return t.select(d, i);
}

// triangle copies the elements on one side of a diagonal and clears the rest.
void triangle(const Tensor& out, const Tensor& input, int64_t diagonal, bool upper) {
  const int rank = input.dim();
  check(rank >= 2, "a matrix is wanted");
  const int64_t rows = input.size(rank - 2), columns = input.size(rank - 1);
  if (out.data != input.data) copy(out, input);
  for (int64_t i = 0; i < rows; i++) {
    const int64_t edge = std::min(std::max<int64_t>(i + diagonal + (upper ? 0 : 1), 0), columns);
    const Tensor row = out.select(rank - 2, i);
    fillZero(upper ? row.narrow(rank - 2, 0, edge) : row.narrow(rank - 2, edge, columns - edge));
  }
}

void tril(const Tensor& out, const Tensor& input, int64_t diagonal) { triangle(out, input, diagonal, false); }
void triu(const Tensor& out, const Tensor& input, int64_t diagonal) { triangle(out, input, diagonal, true); }

}  // namespace
}  // namespace host

using namespace host;

HOST_UNARY_OUT(CastDtype, copy)
HOST_UNARY_OUT(Expand, copy)

extern "C" {

diopiError_t diopiCopyInp(diopiContextHandle_t, diopiConstTensorHandle_t src, diopiTensorHandle_t dest) {
  return guard(__func__, [&] { copy(dest, src); });
}

diopiError_t diopiCat(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t* tensors, int64_t num_inputs,
                      int64_t dim) {
  return guard(__func__, [&] { cat(out, tensors, num_inputs, dim); });
}

diopiError_t diopiStack(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t* tensors,
                        int64_t numTensors, int64_t dim) {
  return guard(__func__, [&] { stack(out, tensors, numTensors, dim); });
}

diopiError_t diopiSplitWithSizes(diopiContextHandle_t, diopiTensorHandle_t* outs, int64_t num_outs,
                                 diopiConstTensorHandle_t input, const diopiSize_t splitSizes, int64_t dim) {
  return guard(__func__, [&] { split(outs, num_outs, input, splitSizes, dim); });
}

diopiError_t diopiPermute(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, diopiSize_t dims) {
  return guard(__func__, [&] { permute(out, input, dims); });
}

diopiError_t diopiTranspose(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, int64_t dim0,
                            int64_t dim1) {
  return guard(__func__, [&] { transpose(out, input, dim0, dim1); });
}

diopiError_t diopiFlip(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, diopiSize_t dims) {
  return guard(__func__, [&] { flip(out, input, dims); });
}

diopiError_t diopiRoll(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, diopiSize_t shifts,
                       diopiSize_t dims) {
  return guard(__func__, [&] { roll(out, input, shifts, dims); });
}

diopiError_t diopiRepeat(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                         diopiSize_t repeats_size) {
  return guard(__func__, [&] { repeat(out, input, repeats_size); });
}

diopiError_t diopiMeshGrid(diopiContextHandle_t, diopiTensorHandle_t* outs, diopiConstTensorHandle_t* inputs,
                           int64_t inputsNum) {
  return guard(__func__, [&] { meshGrid(outs, inputs, inputsNum); });
}

diopiError_t diopiSlice(diopiContextHandle_t, diopiTensorHandle_t null_out, diopiConstTensorHandle_t input, int64_t dim,
                        int64_t start, int64_t end, int64_t step) {
  return guard(__func__, [&] { copy(null_out, slice(input, dim, start, end, step)); });
}

diopiError_t diopiSliceBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                                diopiSize_t, int64_t dim, int64_t start, int64_t end, int64_t step) {
  return guard(__func__, [&] {
    const Tensor grad(grad_input);
    fillZero(grad);
    copy(slice(grad, dim, start, end, step), grad_output);
  });
}

diopiError_t diopiSelect(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, int64_t dim,
                         int64_t index) {
  return guard(__func__, [&] { copy(out, selected(input, dim, index)); });
}

diopiError_t diopiSelectBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                                 diopiSize_t, int64_t dim, int64_t index) {
  return guard(__func__, [&] {
    const Tensor grad(grad_input);
    fillZero(grad);
    copy(selected(grad, dim, index), grad_output);
  });
}

diopiError_t diopiSliceScatter(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                               diopiConstTensorHandle_t src, int64_t dim, int64_t start, int64_t end, int64_t step) {
  return guard(__func__, [&] {
    const Tensor result(out);
    copy(result, input);
    copy(slice(result, dim, start, end, step), src);
  });
}

diopiError_t diopiSelectScatter(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                                diopiConstTensorHandle_t src, int64_t dim, int64_t index) {
  return guard(__func__, [&] {
    const Tensor result(out);
    copy(result, input);
    copy(selected(result, dim, index), src);
  });
}

diopiError_t diopiTril(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, int64_t diagonal) {
  return guard(__func__, [&] { tril(out, input, diagonal); });
}

diopiError_t diopiTriu(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, int64_t diagonal) {
  return guard(__func__, [&] { triu(out, input, diagonal); });
}

diopiError_t diopiTriuInp(diopiContextHandle_t, diopiTensorHandle_t input, int64_t diagonal) {
  return guard(__func__, [&] { triu(input, input, diagonal); });
}

}
