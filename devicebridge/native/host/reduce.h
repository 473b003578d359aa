// Reductions over any dimensions of a tensor of any layout.
//
// A reduction is a type Op with
//   using State;                                  // trivially copyable
//   State start();
//   void add(State&, const C* x, int64_t n, int64_t first);  // elements first, first+1, ... in order
//   void merge(State&, const State& later);
// Each output's elements are cut into chunks at fixed places, so results do not
// depend on the number of threads.
#ifndef OPTOOL_HOST_REDUCE_H_
#define OPTOOL_HOST_REDUCE_H_

#include <cmath>
#include <limits>
#include <vector>

#include "loop.h"

namespace host {

// DimSet tells which dimensions are reduced.
struct DimSet {
  bool in[Dims::kMax] = {};
  bool operator[](int d) const { return in[d]; }
};

// reducedDims are the given dimensions, all if none are.
DimSet reducedDims(int rank, diopiSize_t dims);

// reducedDim is the one given, all for null.
DimSet reducedDim(int rank, const int64_t* dim);

// keepDims is out as if the reduced dimensions had been kept with size 1.
Tensor keepDims(const Tensor& out, const Tensor& input, const DimSet& dims);

// Axes walks some dimensions of a tensor, adjacent ones merged where they can be.
struct Axes {
  Dims shape, stride;  // strides in bytes
  void add(int64_t size, int64_t bytes);
  int64_t count() const { return shape.product(); }
  int64_t offset(int64_t index) const;  // in bytes, of an element in row-major order
};

// AxesWalk steps through axes from some element on.
class AxesWalk {
 public:
  AxesWalk(const Axes& axes, int64_t start);
  int64_t offset() const { return offset_; }
  // inner is how many elements the innermost axis still has.
  int64_t inner() const { return axes_.shape.n == 0 ? 1 : axes_.shape[axes_.shape.n - 1] - index_[axes_.shape.n - 1]; }
  int64_t innerStride() const { return axes_.shape.n == 0 ? 0 : axes_.stride[axes_.shape.n - 1]; }
  void advance(int64_t n);  // n <= inner()

 private:
  const Axes& axes_;
  int64_t index_[Dims::kMax];
  int64_t offset_ = 0;
};

// reduce runs op over the elements of each output and calls finish(output,
// state) with outputs counted in row-major order of the dimensions kept.
template <class C, class Op, class Finish>
void reduce(const Tensor& input, const DimSet& dims, Op op, Finish finish) {
  using State = typename Op::State;
  constexpr int64_t kChunk = 65536, kWidth = 32, kTile = 64;

  Axes kept, reduced;
  for (int d = 0; d < input.dim(); d++) {
    (dims[d] ? reduced : kept).add(input.size(d), input.stride[d] * input.itemsize());
  }
  const int64_t outputs = kept.count(), count = reduced.count();
  const int64_t chunks = std::max<int64_t>(1, (count + kChunk - 1) / kChunk);
  const int64_t inner = kept.shape.n == 0 ? 1 : kept.shape[kept.shape.n - 1];
  const int64_t innerStride = kept.shape.n == 0 ? 0 : kept.stride[kept.shape.n - 1];
  // Where neighbours in memory belong to different outputs, several outputs
  // are reduced together, through a transposed tile.
  const bool columns = reduced.shape.n > 0 && inner > 1 && std::abs(innerStride) < std::abs(reduced.stride[reduced.shape.n - 1]);
  const int64_t width = columns ? std::min(inner, kWidth) : 1;
  const int64_t groups = (inner + width - 1) / width;
  const Lane<C> lane(input.dtype);

  // Only outputs of several chunks need their states kept.
  std::vector<State> states(chunks > 1 ? outputs * chunks : 0, op.start());
  const int64_t units = inner == 0 ? 0 : outputs / inner * groups * chunks;
  parallelFor(units, grainFor(2 * width * std::min(count, kChunk)), [&](int64_t begin, int64_t end) {
    Block<C> block, part;
    std::unique_ptr<C[]> tile(columns ? new C[kWidth * kTile] : nullptr);
    for (int64_t u = begin; u < end; u++) {
      const int64_t chunk = u % chunks, group = u / chunks;
      const int64_t output = group / groups * inner + group % groups * width;
      const int64_t w = std::min(width, inner - group % groups * width);
      const int64_t from = chunk * kChunk, to = std::min(count, from + kChunk);
      const char* base = input.data + kept.offset(output);
      State state[kWidth];
      std::fill(state, state + w, op.start());
      AxesWalk walk(reduced, from);
      for (int64_t at = from; at < to;) {
        if (columns) {
          const int64_t rows = std::min(kTile, to - at);
          for (int64_t r = 0; r < rows; r++) {
            const C* x = lane.load(base + walk.offset(), innerStride, w, block);
            for (int64_t k = 0; k < w; k++) tile[k * kTile + r] = x[k];
            walk.advance(1);
          }
          for (int64_t k = 0; k < w; k++) op.add(state[k], &tile[k * kTile], rows, at);
          at += rows;
          continue;
        }
        const int64_t n = std::min(kBlock, to - at);
        const C* x = block.buffer();
        if (walk.inner() >= n) {
          x = lane.load(base + walk.offset(), walk.innerStride(), n, block);
          walk.advance(n);
        } else {  // short rows fill one block
          for (int64_t filled = 0; filled < n;) {
            const int64_t m = std::min(walk.inner(), n - filled);
            const C* y = lane.load(base + walk.offset(), walk.innerStride(), m, part);
            std::copy(y, y + m, block.buffer() + filled);
            filled += m;
            walk.advance(m);
          }
        }
        op.add(*state, x, n, at);
        at += n;
      }
      for (int64_t k = 0; k < w; k++) {
        if (chunks == 1) finish(output + k, state[k]);
        else states[(output + k) * chunks + chunk] = state[k];
      }
    }
  });
  if (chunks == 1) return;

  for (int64_t o = 0; o < outputs; o++) {
    State* s = &states[o * chunks];
    for (int64_t step = 1; step < chunks; step *= 2) {
      for (int64_t i = 0; i + step < chunks; i += 2 * step) op.merge(s[i], s[i + step]);
    }
    finish(o, s[0]);
  }
}

// sumBlock adds up a dense block in sixteen lanes.
template <class C, class Map>
auto sumBlock(const C* x, int64_t n, Map map) {
  using R = decltype(map(x[0]));
  constexpr int kLanes = 16;
  R lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int k = 0; k < kLanes; k++) lane[k] += map(x[i + k]);
  }
  for (int k = 0; i < n; i++, k++) lane[k] += map(x[i]);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; k++) lane[k] += lane[k + half];
  }
  return lane[0];
}

// PairwiseSum adds blocks like a binary counter, so that rounding errors grow
// with the logarithm of their number.
template <class R>
struct PairwiseSum {
  static constexpr int kLevels = 17;  // a chunk's elements, were each a block
  R level[kLevels];
  uint32_t blocks;
  void add(R block) {
    int l = 0;
    for (uint32_t i = blocks++; i & 1; i >>= 1) block += level[l++];
    level[l] = block;
  }
  R total() const {
    R sum{};
    for (int l = 0; blocks >> l; l++) {
      if (blocks >> l & 1) sum += level[l];
    }
    return sum;
  }
  static PairwiseSum of(R value) {
    PairwiseSum s;
    s.blocks = 1;
    s.level[0] = value;
    return s;
  }
};

// SumOp sums map(x).
template <class C, class Map>
struct SumOp {
  Map map;
  using R = decltype(std::declval<Map>()(std::declval<C>()));
  using State = PairwiseSum<R>;
  State start() const {
    State s;
    s.blocks = 0;
    return s;
  }
  void add(State& s, const C* x, int64_t n, int64_t) const { s.add(sumBlock(x, n, map)); }
  void merge(State& s, const State& later) const { s = State::of(s.total() + later.total()); }
};

// sumOf makes a SumOp: sumOf<float>([](float x) { return x * x; }).
template <class C, class Map>
SumOp<C, Map> sumOf(Map map) {
  return {map};
}

}  // namespace host

#endif  // OPTOOL_HOST_REDUCE_H_
