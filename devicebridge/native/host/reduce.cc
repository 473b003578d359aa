// Reductions: sums, products, extrema and where they are, norms, deviations.
#include "reduce.h"

#include "elementwise.h"

namespace host {

DimSet reducedDims(int rank, diopiSize_t dims) {
  DimSet set;
  if (dims.len == 0) std::fill(set.in, set.in + rank, true);
  for (int64_t i = 0; i < dims.len; i++) set.in[wrapDim(dims.data[i], rank)] = true;
  return set;
}

DimSet reducedDim(int rank, const int64_t* dim) { return reducedDims(rank, {dim, dim ? 1 : 0}); }

Tensor keepDims(const Tensor& out, const Tensor& input, const DimSet& dims) {
  Tensor t = out;
  Dims want = input.shape;
  for (int d = 0; d < input.dim(); d++) {
    if (dims[d]) want[d] = 1;
  }
  if (t.numel == 1 && want.product() == 1) return Tensor(t.data, t.dtype, want);  // [1] is what the kit has for all
  if (t.dim() != input.dim()) {
    for (int d = 0; d < input.dim(); d++) {
      if (dims[d] && d <= t.dim()) t = t.unsqueeze(d);
    }
  }
  if (t.shape != want) fail("the result has shape " + text(out.shape) + ", wanted " + text(want) + " or that without its reduced dimensions");
  return t;
}

void Axes::add(int64_t size, int64_t bytes) {
  if (size == 1) return;
  if (shape.n > 0 && stride[shape.n - 1] == bytes * size) {
    shape[shape.n - 1] *= size;
    stride[shape.n - 1] = bytes;
    return;
  }
  shape.push(size);
  stride.push(bytes);
}

int64_t Axes::offset(int64_t index) const {
  int64_t bytes = 0;
  for (int d = shape.n - 1; d >= 0; d--) {
    bytes += index % shape[d] * stride[d];
    index /= shape[d];
  }
  return bytes;
}

AxesWalk::AxesWalk(const Axes& axes, int64_t start) : axes_(axes) {
  for (int d = axes.shape.n - 1; d >= 0; d--) {
    index_[d] = axes.shape[d] == 0 ? 0 : start % axes.shape[d];
    start = axes.shape[d] == 0 ? 0 : start / axes.shape[d];
    offset_ += index_[d] * axes.stride[d];
  }
}

void AxesWalk::advance(int64_t n) {
  for (int d = axes_.shape.n - 1; d >= 0; d--) {
    offset_ += n * axes_.stride[d];
    index_[d] += n;
    if (index_[d] < axes_.shape[d] || d == 0) return;
    offset_ -= index_[d] * axes_.stride[d];
    index_[d] = 0;
    n = 1;
  }
}

namespace {

// reduceTo writes result(state) of every output.
template <class C, class R, class Op, class Result>
void reduceTo(const Tensor& out, const Tensor& input, const DimSet& dims, Op op, Result result) {
  const Tensor to = keepDims(out, input, dims);
  DenseOut<R> values(to, out.data == input.data);
  reduce<C>(input, dims, op, [&](int64_t o, const typename Op::State& s) { values[o] = result(s); });
  values.commit();
}

int64_t reducedCount(const Tensor& input, const DimSet& dims) {
  int64_t n = 1;
  for (int d = 0; d < input.dim(); d++) n *= dims[d] ? input.size(d) : 1;
  return n;
}

void sum(const Tensor& out, const Tensor& input, const DimSet& dims, bool mean) {
  visitNumber(out.dtype, [&](auto zero) {
    using C = decltype(zero);
    // Integers wrap, which unsigned arithmetic defines.
    using A = std::conditional_t<std::is_same_v<C, int64_t>, uint64_t, C>;
    const C n = C(reducedCount(input, dims));
    reduceTo<C, C>(out, input, dims, sumOf<C>([](C x) { return static_cast<A>(x); }),
                   [&](const PairwiseSum<A>& s) { return mean ? static_cast<C>(s.total()) / n : static_cast<C>(s.total()); });
  });
}

template <class C>
struct ProductOp {
  using State = std::conditional_t<std::is_same_v<C, int64_t>, uint64_t, C>;  // integers wrap
  State start() const { return State(1); }
  void add(State& s, const C* x, int64_t n, int64_t) const {
    for (int64_t i = 0; i < n; i++) s *= static_cast<State>(x[i]);
  }
  void merge(State& s, const State& later) const { s *= later; }
};

void product(const Tensor& out, const Tensor& input, const DimSet& dims) {
  visitNumber(out.dtype, [&](auto zero) {
    using C = decltype(zero);
    reduceTo<C, C>(out, input, dims, ProductOp<C>{}, [](auto s) { return static_cast<C>(s); });
  });
}

// AnyOp tells whether an element is (or, for all, is not) true.
struct AnyOp {
  bool wanted;
  struct State {
    bool found;
  };
  State start() const { return {false}; }
  void add(State& s, const bool* x, int64_t n, int64_t) const {
    bool found = false;
    for (int64_t i = 0; i < n; i++) found |= x[i] == wanted;
    s.found |= found;
  }
  void merge(State& s, const State& later) const { s.found |= later.found; }
};

// ExtremeOp finds the first largest (or smallest) element; NaN is beyond all.
template <class C, bool kLargest>
struct ExtremeOp {
  struct State {
    C value;
    int64_t index;
  };
  State start() const { return {C(0), -1}; }
  static bool beats(C x, C best) { return (kLargest ? x > best : x < best) || (x != x && best == best); }
  void add(State& s, const C* x, int64_t n, int64_t first) const {
    C best = s.index < 0 ? x[0] : s.value;
    int64_t at = s.index < 0 ? first : s.index;
    for (int64_t i = 0; i < n; i++) {
      if (beats(x[i], best)) best = x[i], at = first + i;
    }
    s = {best, at};
  }
  void merge(State& s, const State& later) const {
    if (later.index >= 0 && (s.index < 0 || beats(later.value, s.value))) s = later;
  }
};

// extreme writes values and, if defined, their indices along the reduced dimensions.
void extreme(const Tensor& values, const Tensor& indices, const Tensor& input, const DimSet& dims, bool largest) {
  const Tensor first = values ? values : indices;
  if (first.numel == 0) return;
  check(reducedCount(input, dims) > 0, "an empty dimension has no extreme");
  visitReal(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    const Tensor v = values ? keepDims(values, input, dims) : Tensor(), at = indices ? keepDims(indices, input, dims) : Tensor();
    std::vector<C> best(v.numel);
    std::vector<int64_t> where(at.numel);
    const auto finish = [&](int64_t o, const auto& s) {
      if (v) best[o] = s.value;
      if (at) where[o] = s.index;
    };
    if (largest) reduce<C>(input, dims, ExtremeOp<C, true>{}, finish);
    else reduce<C>(input, dims, ExtremeOp<C, false>{}, finish);
    if (v) copy(v, Tensor(best.data(), dtypeOf<C>(), v.shape));
    if (at) copy(at, Tensor(where.data(), diopi_dtype_int64, at.shape));
  });
}

// MomentsOp keeps mean and sum of squared deviations, merged by Chan's formula;
// a block's own are found in two passes.
template <class C>
struct MomentsOp {
  struct State {
    C mean, m2;
    int64_t n;
  };
  State start() const { return {C(0), C(0), 0}; }
  void add(State& s, const C* x, int64_t n, int64_t) const {
    const C mean = sumBlock(x, n, [](C v) { return v; }) / C(n);
    merge(s, {mean, sumBlock(x, n, [mean](C v) { return (v - mean) * (v - mean); }), n});
  }
  void merge(State& s, const State& o) const {
    if (o.n == 0) return;
    const C n = C(s.n + o.n), delta = o.mean - s.mean;
    s.mean = s.n == 0 ? o.mean : s.mean + delta * (C(o.n) / n);
    s.m2 += o.m2 + (s.n == 0 ? C(0) : delta * delta * (C(s.n) * (C(o.n) / n)));
    s.n += o.n;
  }
};

void deviation(const Tensor& out, const Tensor& input, const DimSet& dims, double correction) {
  visitFloat(promote(input.dtype, out.dtype), [&](auto zero) {
    using C = decltype(zero);
    reduceTo<C, C>(out, input, dims, MomentsOp<C>{}, [&](const typename MomentsOp<C>::State& s) {
      const double freedom = static_cast<double>(s.n) - correction;
      return s.n == 0 ? std::numeric_limits<C>::quiet_NaN() : std::sqrt(s.m2 / C(std::max(freedom, 0.0)));
    });
  });
}

// MagnitudeOp finds the largest or smallest absolute value; NaN beats all.
template <class C, bool kLargest>
struct MagnitudeOp {
  using State = C;
  State start() const { return kLargest ? C(0) : std::numeric_limits<C>::infinity(); }
  void add(State& s, const C* x, int64_t n, int64_t) const {
    for (int64_t i = 0; i < n; i++) merge(s, std::abs(x[i]));
  }
  void merge(State& s, const State& v) const {
    if ((kLargest ? v > s : v < s) || v != v) s = v;
  }
};

void norm(const Tensor& out, const Tensor& input, const DimSet& dims, double p) {
  visitFloat(promote(input.dtype, out.dtype), [&](auto zero) {
    using C = decltype(zero);
    const auto sumThen = [&](auto map, auto result) {
      reduceTo<C, C>(out, input, dims, sumOf<C>(map), [&](const PairwiseSum<C>& s) { return result(s.total()); });
    };
    const auto same = [](C s) { return s; };
    if (p == 2) sumThen([](C x) { return x * x; }, [](C s) { return std::sqrt(s); });
    else if (p == 1) sumThen([](C x) { return std::abs(x); }, same);
    else if (p == 0) sumThen([](C x) { return C(x != 0); }, same);
    else if (std::isinf(p) && p > 0) reduceTo<C, C>(out, input, dims, MagnitudeOp<C, true>{}, same);
    else if (std::isinf(p)) reduceTo<C, C>(out, input, dims, MagnitudeOp<C, false>{}, same);
    else {
      const C e = C(p), inverse = C(1 / p);
      sumThen([e](C x) { return std::pow(std::abs(x), e); }, [inverse](C s) { return std::pow(s, inverse); });
    }
  });
}

// cumulativeSum adds float32 up in float64: a running sum cannot be pairwise.
void cumulativeSum(const Tensor& out, const Tensor& input, int64_t dim, bool reverse) {
  visitNumber(out.dtype, [&](auto zero) {
    using C = decltype(zero);
    using A = std::conditional_t<std::is_same_v<C, float>, double, std::conditional_t<std::is_same_v<C, complex64>, complex128,
              std::conditional_t<std::is_same_v<C, int64_t>, uint64_t, C>>>;
    const int d = wrapDim(dim, input.dim());
    const Dense<C> x(input);
    DenseOut<C> y(out, out.data == input.data);
    const int64_t n = input.dim() == 0 ? 1 : input.size(d);
    int64_t inner = 1;
    for (int i = d + 1; i < input.dim(); i++) inner *= input.size(i);
    if (input.numel > 0) {
      parallelFor(input.numel / n, grainFor(2 * n), [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; line++) {
          const int64_t base = line / inner * n * inner + line % inner;
          A sum{};
          for (int64_t i = 0; i < n; i++) {
            const int64_t at = base + (reverse ? n - 1 - i : i) * inner;
            sum += static_cast<A>(x[at]);
            y[at] = static_cast<C>(sum);
          }
        }
      });
    }
    y.commit();
  });
}

}  // namespace
}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiSum(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, diopiSize_t dim) {
  return guard(__func__, [&] {
    const Tensor t(input);
    sum(out, t, reducedDims(t.dim(), dim), false);
  });
}

diopiError_t diopiMean(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, diopiSize_t dim) {
  return guard(__func__, [&] {
    const Tensor t(input), o(out);
    if (isIntegral(o.dtype)) unsupported(o.dtype);
    sum(o, t, reducedDims(t.dim(), dim), true);
  });
}

diopiError_t diopiStd(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, diopiSize_t dim,
                      const diopiScalar_t* correction) {
  return guard(__func__, [&] {
    const Tensor t(input);
    deviation(out, t, reducedDims(t.dim(), dim), correction ? asDouble(*correction) : 1);
  });
}

diopiError_t diopiProd(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, const int64_t* dim) {
  return guard(__func__, [&] {
    const Tensor t(input);
    product(out, t, reducedDim(t.dim(), dim));
  });
}

diopiError_t diopiAll(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, const int64_t* dim) {
  return guard(__func__, [&] {
    const Tensor t(input);
    reduceTo<bool, bool>(out, t, reducedDim(t.dim(), dim), AnyOp{false}, [](AnyOp::State s) { return !s.found; });
  });
}

diopiError_t diopiAny(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, const int64_t* dim) {
  return guard(__func__, [&] {
    const Tensor t(input);
    reduceTo<bool, bool>(out, t, reducedDim(t.dim(), dim), AnyOp{true}, [](AnyOp::State s) { return s.found; });
  });
}

diopiError_t diopiMax(diopiContextHandle_t, diopiTensorHandle_t max, diopiTensorHandle_t max_indices,
                      diopiConstTensorHandle_t input, int64_t dim) {
  return guard(__func__, [&] {
    const Tensor t(input);
    extreme(max, max_indices, t, reducedDim(t.dim(), &dim), true);
  });
}

diopiError_t diopiMin(diopiContextHandle_t, diopiTensorHandle_t min, diopiTensorHandle_t min_indices,
                      diopiConstTensorHandle_t input, int64_t dim) {
  return guard(__func__, [&] {
    const Tensor t(input);
    extreme(min, min_indices, t, reducedDim(t.dim(), &dim), false);
  });
}

diopiError_t diopiMaxAll(diopiContextHandle_t, diopiTensorHandle_t max, diopiConstTensorHandle_t input) {
  return guard(__func__, [&] {
    const Tensor t(input);
    extreme(max, Tensor(), t, reducedDim(t.dim(), nullptr), true);
  });
}

diopiError_t diopiMinAll(diopiContextHandle_t, diopiTensorHandle_t min, diopiConstTensorHandle_t input) {
  return guard(__func__, [&] {
    const Tensor t(input);
    extreme(min, Tensor(), t, reducedDim(t.dim(), nullptr), false);
  });
}

diopiError_t diopiAmax(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t self, diopiSize_t dim, bool) {
  return guard(__func__, [&] {
    const Tensor t(self);
    extreme(out, Tensor(), t, reducedDims(t.dim(), dim), true);
  });
}

diopiError_t diopiArgmax(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, const int64_t* dim,
                         bool) {
  return guard(__func__, [&] {
    const Tensor t(input);
    extreme(Tensor(), out, t, reducedDim(t.dim(), dim), true);
  });
}

diopiError_t diopiArgmin(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, const int64_t* dim,
                         bool) {
  return guard(__func__, [&] {
    const Tensor t(input);
    extreme(Tensor(), out, t, reducedDim(t.dim(), dim), false);
  });
}

diopiError_t diopiLinalgVecNorm(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                                diopiScalar_t* ord, diopiSize_t dim, bool) {
  return guard(__func__, [&] {
    const Tensor t(input);
    norm(out, t, reducedDims(t.dim(), dim), ord ? asDouble(*ord) : 2);
  });
}

diopiError_t diopiForeachnormScalar(diopiContextHandle_t, diopiTensorHandle_t* outs, diopiConstTensorHandle_t* inputs,
                                    int64_t inputSize, const diopiScalar_t* ord) {
  return guard(__func__, [&] {
    for (int64_t i = 0; i < inputSize; i++) {
      const Tensor t(inputs[i]);
      norm(outs[i], t, reducedDim(t.dim(), nullptr), asDouble(*ord));
    }
  });
}

diopiError_t diopiCumsum(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, int64_t dim) {
  return guard(__func__, [&] { cumulativeSum(out, input, dim, false); });
}

diopiError_t diopiCumsumBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output,
                                 int64_t dim) {
  return guard(__func__, [&] { cumulativeSum(grad_input, grad_output, dim, true); });
}

}
