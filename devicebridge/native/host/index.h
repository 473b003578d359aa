// Reading and writing elements at places that indices name.
//
// Both work on a view and byte offsets: the element for a position is that of
// the view at this position, moved by the offset there. A view does not move
// (stride 0) along the dimensions that indices stand for.
#ifndef OPTOOL_HOST_INDEX_H_
#define OPTOOL_HOST_INDEX_H_

#include <vector>

#include "loop.h"

namespace host {

// Offsets holds byte offsets, one per index, of the indices' shape.
class Offsets {
 public:
  // One for each index of a tensor, along a dimension of this size and stride
  // (in elements of itemsize). Negative indices count from the end; others out
  // of range are an error.
  Offsets(const Tensor& index, int64_t size, int64_t stride, int64_t itemsize);
  Offsets(std::vector<int64_t> bytes, const Dims& shape) : bytes_(std::move(bytes)), shape_(shape) {}
  // add adds the offsets of another dimension, broadcasting both.
  void add(const Offsets& other);
  Tensor tensor() const { return Tensor(const_cast<int64_t*>(bytes_.data()), diopi_dtype_int64, shape_); }

 private:
  std::vector<int64_t> bytes_;
  Dims shape_;
};

// along is the view of t for indices of the given shape along dimension d.
Tensor along(const Tensor& t, int d, const Dims& indexShape);

// gatherAt sets out to the elements of source at offsets.
void gatherAt(const Tensor& out, const Tensor& source, const Tensor& offsets);

enum class Combine { kAssign, kAdd, kMultiply };

// scatterAt writes source to the elements of target at offsets, or combines it
// with them; of several writes to one element the last in row-major order
// stays. Its target is a view of out, whose dtype is that of out.
void scatterAt(const Tensor& target, const Tensor& offsets, const Tensor& source, Combine combine);

// Accumulator holds a copy of a tensor in the type sums of its dtype are made
// in, and writes it back at the end.
class Accumulator {
 public:
  // initial broadcasts to out; if not defined it is zero.
  Accumulator(const Tensor& out, const Tensor& initial, Combine combine);
  const Tensor& tensor() const { return work_; }
  void commit();

 private:
  Tensor out_, work_;
  std::unique_ptr<char[]> own_;
};

}  // namespace host

#endif  // OPTOOL_HOST_INDEX_H_
