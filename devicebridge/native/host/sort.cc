// Sorting along a dimension, and what rests on it.
//
// Elements become unsigned keys of the same order, NaN after everything; then
// integers are sorted: short lines by comparison, long ones by radix. Both are
// stable. Descending order sorts the complemented keys, so equal elements keep
// their order too.
#include <numeric>

#include "elementwise.h"

namespace host {
namespace {

template <class C>
struct KeyOf;

template <>
struct KeyOf<int64_t> {
  using Key = uint64_t;
  static Key of(int64_t x) { return static_cast<uint64_t>(x) ^ (uint64_t{1} << 63); }
};

template <class F, class U>
struct FloatKey {
  using Key = U;
  static Key of(F x) {
    if (x != x) return ~U{0};
    const U sign = U{1} << (8 * sizeof(U) - 1), bits = bitCast<U>(x == 0 ? F(0) : x);
    return bits & sign ? ~bits : bits | sign;
  }
};
template <>
struct KeyOf<float> : FloatKey<float, uint32_t> {};
template <>
struct KeyOf<double> : FloatKey<double, uint64_t> {};

template <class Key>
struct Entry {
  Key key;
  int64_t index;
};

template <class Key>
bool before(const Entry<Key>& a, const Entry<Key>& b) {
  return a.key < b.key || (a.key == b.key && a.index < b.index);
}

// radixSort sorts by bytes from the lowest, skipping those all keys share.
template <class Key>
void radixSort(Entry<Key>* line, int64_t n, std::vector<Entry<Key>>& scratch) {
  scratch.resize(n);
  std::vector<std::array<int64_t, 256>> counts(sizeof(Key));
  for (auto& c : counts) c.fill(0);
  for (int64_t i = 0; i < n; i++) {
    for (size_t b = 0; b < sizeof(Key); b++) counts[b][line[i].key >> (8 * b) & 255]++;
  }
  Entry<Key>*from = line, *to = scratch.data();
  for (size_t b = 0; b < sizeof(Key); b++) {
    auto& count = counts[b];
    if (count[from[0].key >> (8 * b) & 255] == n) continue;
    int64_t at = 0;
    for (int64_t& c : count) at += std::exchange(c, at);
    for (int64_t i = 0; i < n; i++) to[count[from[i].key >> (8 * b) & 255]++] = from[i];
    std::swap(from, to);
  }
  if (from != line) std::copy(from, from + n, line);
}

template <class Key>
void sortEntries(Entry<Key>* line, int64_t n, std::vector<Entry<Key>>& scratch) {
  if (n < 512) std::sort(line, line + n, before<Key>);
  else radixSort(line, n, scratch);
}

// Select says which elements of a line are wanted, in which order.
struct Select {
  int64_t count;         // the first so many
  bool descending;
  bool sorted = true;    // in order
  bool stable = true;    // equal elements in the order they had
};

template <class Key>
void select(std::vector<Entry<Key>>& line, const Select& s, std::vector<Entry<Key>>& scratch) {
  const int64_t n = static_cast<int64_t>(line.size()), k = s.count;
  if (s.stable) return sortEntries(line.data(), n, scratch);
  if (k == 0) return;
  const auto less = [](const Entry<Key>& a, const Entry<Key>& b) { return a.key < b.key; };
  if (k * 64 <= n) return std::partial_sort(line.begin(), line.begin() + k, line.end(), less);
  std::nth_element(line.begin(), line.begin() + (k - 1), line.end(), less);
  if (s.sorted) std::sort(line.begin(), line.begin() + (k - 1), less);
}

// selectLines selects from every line along a dimension and calls
// finish(line's number, entries); indices tell where an entry came from.
template <class C, class Finish>
void selectLines(const Dense<C>& x, int64_t n, int64_t inner, int64_t lines, const Select& s, Finish finish) {
  using Key = typename KeyOf<C>::Key;
  parallelFor(lines, grainFor(32 * n), [&](int64_t begin, int64_t end) {
    std::vector<Entry<Key>> line(n), scratch;
    for (int64_t l = begin; l < end; l++) {
      const C* from = x.data() + l / inner * n * inner + l % inner;
      for (int64_t i = 0; i < n; i++) {
        const Key key = KeyOf<C>::of(from[i * inner]);
        line[i] = {s.descending ? static_cast<Key>(~key) : key, i};
      }
      select(line, s, scratch);
      finish(l, line.data());
    }
  });
}

// selected writes the elements selected of each line along dim and where they were.
void selected(const Tensor& values, const Tensor& indices, const Tensor& input, int64_t dim, const Select& s) {
  if (input.numel == 0) return;
  const int d = wrapDim(dim, input.dim());
  const int64_t n = input.dim() ? input.size(d) : 1, k = input.dim() ? s.count : 1;
  check(k >= 0 && k <= n, "k exceeds the dimension");
  int64_t inner = 1;
  for (int i = d + 1; i < input.dim(); i++) inner *= input.size(i);
  visitReal(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    const Dense<C> x(input);
    std::vector<C> best(values ? values.numel : 0);
    DenseOut<int64_t> where(indices);
    selectLines<C>(x, n, inner, input.numel / n, s, [&](int64_t l, const auto* line) {
      const int64_t from = l / inner * n * inner + l % inner, to = l / inner * k * inner + l % inner;
      for (int64_t i = 0; i < k; i++) {
        if (values) best[to + i * inner] = x[from + line[i].index * inner];
        where[to + i * inner] = line[i].index;
      }
    });
    if (values) copy(values, Tensor(best.data(), dtypeOf<C>(), values.shape));
    where.commit();
  });
}

int64_t lengthOf(const Tensor& t, int64_t dim) { return t.dim() ? t.size(wrapDim(dim, t.dim())) : 1; }

// ---- unique ----

// runs numbers the groups of equal items in sorted order: order lists items,
// same(a, b) compares them. It returns the first item of each group.
template <class Same>
std::vector<int64_t> runs(const std::vector<int64_t>& order, Same same, std::vector<int64_t>& inverse, std::vector<int64_t>& counts) {
  std::vector<int64_t> first;
  inverse.resize(order.size());
  for (size_t i = 0; i < order.size(); i++) {
    if (i == 0 || !same(order[i - 1], order[i])) {
      first.push_back(order[i]);
      counts.push_back(0);
    }
    counts.back()++;
    inverse[order[i]] = static_cast<int64_t>(first.size()) - 1;
  }
  return first;
}

void give(diopiContextHandle_t ctx, diopiTensorHandle_t* out, std::vector<int64_t>& values) {
  const Dims shape{static_cast<int64_t>(values.size())};
  *out = requireTensor(ctx, shape, diopi_dtype_int64);
  copy(*out, Tensor(values.data(), diopi_dtype_int64, shape));
}

// unique finds the distinct elements, or slices along dim, in sorted order.
// Every NaN is distinct.
void unique(diopiContextHandle_t ctx, diopiTensorHandle_t* out, const Tensor& input, const int64_t* dim, const Tensor& indices,
            diopiTensorHandle_t* counts) {
  const int d = dim ? wrapDim(*dim, input.dim()) : 0;
  Tensor items = input;  // one item per index of the first dimension
  if (dim && input.dim() > 0) items = input.transpose(0, d);
  const Compact compact(items);
  const int64_t n = dim && input.dim() > 0 ? input.size(d) : input.numel;
  const int64_t width = n == 0 ? 1 : input.numel / n;
  std::vector<int64_t> order(n), inverse, count, first;
  std::iota(order.begin(), order.end(), int64_t{0});
  visitReal(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    const Dense<C> x(compact.tensor());
    const auto compare = [&](int64_t a, int64_t b) {
      for (int64_t i = 0; i < width; i++) {
        const auto ka = KeyOf<C>::of(x[a * width + i]), kb = KeyOf<C>::of(x[b * width + i]);
        if (ka != kb) return ka < kb ? -1 : 1;
      }
      return 0;
    };
    if (width == 1) {
      std::vector<Entry<typename KeyOf<C>::Key>> line(n), scratch;
      for (int64_t i = 0; i < n; i++) line[i] = {KeyOf<C>::of(x[i]), i};
      if (n > 0) sortEntries(line.data(), n, scratch);
      for (int64_t i = 0; i < n; i++) order[i] = line[i].index;
    } else {
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
    }
    first = runs(order, [&](int64_t a, int64_t b) {
      return std::equal(x.data() + a * width, x.data() + (a + 1) * width, x.data() + b * width);
    }, inverse, count);
  });

  // The distinct items, back in the layout of the input.
  const int64_t m = static_cast<int64_t>(first.size());
  Dims shape = compact.tensor().shape;
  if (!dim || input.dim() == 0) shape = Dims{m};
  else shape[0] = m;
  const int64_t bytes = width * input.itemsize();
  std::unique_ptr<char[]> rows(new char[std::max<int64_t>(1, m * bytes)]);
  for (int64_t i = 0; i < m; i++) std::memcpy(rows.get() + i * bytes, compact.tensor().data + first[i] * bytes, bytes);
  Tensor result(rows.get(), input.dtype, shape);
  if (dim && input.dim() > 0) result = result.transpose(0, d);
  *out = requireTensor(ctx, result.shape, input.dtype);
  copy(*out, result);
  if (indices) copy(indices, Tensor(inverse.data(), diopi_dtype_int64, indices.shape));
  if (counts) give(ctx, counts, count);
}

}  // namespace
}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiSort(diopiContextHandle_t, diopiTensorHandle_t values, diopiTensorHandle_t indices,
                       diopiConstTensorHandle_t input, int64_t dim, bool descending, const bool*) {
  return guard(__func__, [&] {
    const Tensor t(input);
    selected(values, indices, t, dim, {lengthOf(t, dim), descending});
  });
}

diopiError_t diopiArgsort(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input, bool,
                          const int64_t* dim, bool descending) {
  return guard(__func__, [&] {
    const Tensor t(input);
    const int64_t d = dim ? *dim : -1;
    selected(Tensor(), out, t, d, {lengthOf(t, d), descending});
  });
}

diopiError_t diopiTopk(diopiContextHandle_t, diopiTensorHandle_t values, diopiTensorHandle_t indices,
                       diopiConstTensorHandle_t input, int64_t k, int64_t dim, bool largest, bool sorted) {
  return guard(__func__, [&] { selected(values, indices, input, dim, {k, largest, sorted, false}); });
}

diopiError_t diopiUnique(diopiContextHandle_t ctx, diopiTensorHandle_t* out, diopiConstTensorHandle_t input,
                         const int64_t* dim, bool, bool return_counts, diopiTensorHandle_t indices,
                         diopiTensorHandle_t* counts) {
  return guard(__func__, [&] { unique(ctx, out, input, dim, indices, return_counts ? counts : nullptr); });
}

}
