// Loops over tensors of any dtype and layout.
//
// map() applies a scalar function element by element. It works in blocks: load
// converts a block of each input to the type the function computes in, the
// function runs over dense arrays (which the compiler vectorises), store
// converts the result. So a function is compiled once per type it computes in,
// not once per combination of dtypes, and blocks already in that type and dense
// are used in place.
#ifndef OPTOOL_HOST_LOOP_H_
#define OPTOOL_HOST_LOOP_H_

#include <algorithm>
#include <array>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "host.h"

namespace host {

// ---- threads ----

// FunctionRef is a callable borrowed for the duration of a call.
template <class>
class FunctionRef;
template <class R, class... A>
class FunctionRef<R(A...)> {
 public:
  template <class F>
  FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* o, A... a) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(o))(std::forward<A>(a)...);
        }) {}
  R operator()(A... a) const { return call_(object_, std::forward<A>(a)...); }

 private:
  void* object_;
  R (*call_)(void*, A...);
};

// parallelFor runs body(begin, end) over pieces of [0, n), each at least grain
// long, on all hardware threads. Nested calls run in the caller. The first
// exception of a piece is thrown to the caller.
void parallelFor(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body);

// kGrain is the number of simple operations worth handing to a thread.
constexpr int64_t kGrain = 32768;

// grainFor is the number of items that makes a grain when each costs so many operations.
inline int64_t grainFor(int64_t cost) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, cost)); }

// ---- conversion ----

// A Converter converts n elements; strides are in bytes.
using Converter = void (*)(char* dst, int64_t dstStride, const char* src, int64_t srcStride, int64_t n);
Converter converter(Dtype to, Dtype from);

// ---- rows ----

// Rows walks operands of one shape together. Dimensions are reordered so that
// the first operand is written in the order of memory, and merged where the
// layouts allow.
class Rows {
 public:
  static constexpr int kMaxOperands = 8;

  explicit Rows(const Dims& shape) : shape_(shape) {}

  // add appends an operand, broadcast to the shape.
  Rows& add(const Tensor& t);

  // run calls body(pointers, byte strides, n) for rows of n elements, in
  // parallel unless the elements are few; cost is that of an element.
  using Body = FunctionRef<void(char* const*, const int64_t*, int64_t)>;
  void run(Body body, int64_t cost = 1);

  // runInOrder runs in the calling thread; dimensions in which the first
  // operand does not move are walked in the order of the second.
  void runInOrder(Body body);

 private:
  void prepare();
  void walk(Body body, int64_t begin, int64_t end) const;
  Dims shape_;
  int operands_ = 0;
  std::array<char*, kMaxOperands> data_;
  std::array<Dims, kMaxOperands> stride_;  // bytes
};

// kBlock is the number of elements of a block.
constexpr int64_t kBlock = 512;

// Source is an operand of map, read as T.
template <class T>
struct Source {
  const Tensor& tensor;
  using Type = T;
};
template <class T>
Source<T> in(const Tensor& t) {
  return {t};
}

template <class T>
struct Block {
  alignas(64) unsigned char raw[kBlock * sizeof(T)];
  T* buffer() { return reinterpret_cast<T*>(raw); }
};

// Lane moves blocks of one operand between its storage and type T.
template <class T>
class Lane {
 public:
  explicit Lane(Dtype dtype)
      : same_(dtype == dtypeOf<T>()), load_(converter(dtypeOf<T>(), dtype)), store_(converter(dtype, dtypeOf<T>())) {}
  const T* load(const char* p, int64_t stride, int64_t n, Block<T>& block) const {
    if (same_ && stride == sizeof(T)) return reinterpret_cast<const T*>(p);
    load_(reinterpret_cast<char*>(block.buffer()), sizeof(T), p, stride, n);
    return block.buffer();
  }
  // target is where results of a block go: the tensor itself, or the buffer for store.
  T* target(char* p, int64_t stride, Block<T>& block) const {
    return same_ && stride == sizeof(T) ? reinterpret_cast<T*>(p) : block.buffer();
  }
  void store(char* p, int64_t stride, int64_t n, Block<T>& block) const {
    if (same_ && stride == sizeof(T)) return;
    store_(p, stride, reinterpret_cast<const char*>(block.buffer()), sizeof(T), n);
  }

 private:
  bool same_;
  Converter load_, store_;
};

namespace detail {
template <class R, class F, class... A, size_t... I>
void mapRows(const Tensor& out, F& f, int64_t cost, std::index_sequence<I...>, const Source<A>&... ins) {
  Rows rows(out.shape);
  rows.add(out);
  (rows.add(ins.tensor), ...);
  const Lane<R> to(out.dtype);
  const std::tuple<Lane<A>...> from(Lane<A>(ins.tensor.dtype)...);
  rows.run(
      [&](char* const* p, const int64_t* stride, int64_t n) {
        Block<R> result;
        std::tuple<Block<A>...> blocks;
        for (int64_t at = 0; at < n; at += kBlock) {
          const int64_t m = std::min(kBlock, n - at);
          const std::tuple<const A*...> x(
              std::get<I>(from).load(p[I + 1] + at * stride[I + 1], stride[I + 1], m, std::get<I>(blocks))...);
          char* dst = p[0] + at * stride[0];
          R* r = to.target(dst, stride[0], result);
          for (int64_t i = 0; i < m; i++) r[i] = f(std::get<I>(x)[i]...);
          to.store(dst, stride[0], m, result);
        }
      },
      cost);
}
}  // namespace detail

// map sets out[i] = f(ins[i]...), the result computed as R. Inputs broadcast.
// An input may be out itself.
template <class R, class F, class... A>
void map(const Tensor& out, F f, Source<A>... ins) {
  detail::mapRows<R>(out, f, 4, std::index_sequence_for<A...>{}, ins...);
}

// mapCostly is map for functions of many operations (exp, pow): more threads.
template <class R, class F, class... A>
void mapCostly(const Tensor& out, F f, Source<A>... ins) {
  detail::mapRows<R>(out, f, 32, std::index_sequence_for<A...>{}, ins...);
}

namespace detail {
template <class C, size_t K, size_t... I, size_t... O, class F>
void updateRows(F& f, std::index_sequence<I...>, std::index_sequence<O...>, const std::array<Tensor, sizeof...(I)>& t) {
  Rows rows(t[0].shape);
  (rows.add(t[I]), ...);
  const std::array<Lane<C>, sizeof...(I)> lanes{Lane<C>(t[I].dtype)...};
  rows.run(
      [&](char* const* p, const int64_t* stride, int64_t n) {
        Block<C> blocks[sizeof...(I)];
        for (int64_t at = 0; at < n; at += kBlock) {
          const int64_t m = std::min(kBlock, n - at);
          // Blocks in place are both read and written there.
          C* const x[] = {const_cast<C*>(lanes[I].load(p[I] + at * stride[I], stride[I], m, blocks[I]))...};
          for (int64_t i = 0; i < m; i++) f(x[I][i]...);
          (lanes[O].store(p[O] + at * stride[O], stride[O], m, blocks[O]), ...);
        }
      },
      16);
}
}  // namespace detail

// update calls f(C&, ...) with the elements of all tensors and stores those of
// the first K. All have, or broadcast to, the shape of the first.
template <class C, size_t K, class F, class... T>
void update(F f, const T&... tensors) {
  detail::updateRows<C, K>(f, std::index_sequence_for<T...>{}, std::make_index_sequence<K>{},
                           std::array<Tensor, sizeof...(T)>{tensors...});
}

// ---- dense access ----

// Dense reads a whole tensor as a dense row-major array of T, without a copy if
// it is one already.
template <class T>
class Dense {
 public:
  Dense() = default;
  explicit Dense(const Tensor& t) : size_(t.numel) {
    if (t.dtype == dtypeOf<T>() && t.contiguous()) {
      data_ = t.ptr<const T>();
      return;
    }
    own_.reset(new unsigned char[std::max<int64_t>(1, t.numel) * sizeof(T)]);
    data_ = reinterpret_cast<const T*>(own_.get());
    copy(Tensor(own_.get(), dtypeOf<T>(), t.shape), t);
  }
  const T* data() const { return data_; }
  int64_t size() const { return size_; }
  const T& operator[](int64_t i) const { return data_[i]; }

 private:
  const T* data_ = nullptr;
  int64_t size_ = 0;
  std::unique_ptr<unsigned char[]> own_;
};

// DenseOut is a dense row-major array of T whose contents commit() writes to a
// tensor; it is the tensor's memory if that is dense and of type T. Its
// contents are undefined at first. It must not be in place where a kernel still
// reads an input that may be the same tensor: say so with alias.
template <class T>
class DenseOut {
 public:
  explicit DenseOut(const Tensor& t, bool alias = false) : tensor_(t) {
    if (!alias && t.dtype == dtypeOf<T>() && t.contiguous()) {
      data_ = t.ptr<T>();
      return;
    }
    own_.reset(new unsigned char[std::max<int64_t>(1, t.numel) * sizeof(T)]);
    data_ = reinterpret_cast<T*>(own_.get());
  }
  T* data() { return data_; }
  T& operator[](int64_t i) { return data_[i]; }
  void commit() {
    if (own_) copy(tensor_, Tensor(data_, dtypeOf<T>(), tensor_.shape));
  }

 private:
  Tensor tensor_;
  T* data_ = nullptr;
  std::unique_ptr<unsigned char[]> own_;
};

// Compact is a tensor made dense and row-major in its own dtype, without a copy
// if it is that already.
class Compact {
 public:
  explicit Compact(const Tensor& t) : tensor_(t) {
    if (t.contiguous()) return;
    own_.reset(new char[std::max<int64_t>(1, t.numel) * t.itemsize()]);
    tensor_ = Tensor(own_.get(), t.dtype, t.shape);
    copy(tensor_, t);
  }
  const Tensor& tensor() const { return tensor_; }

 private:
  Tensor tensor_;
  std::unique_ptr<char[]> own_;
};

}  // namespace host

#endif  // OPTOOL_HOST_LOOP_H_
