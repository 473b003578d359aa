// Random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011). Element i of a call draws block offset + i of the
// generator's seed, so results depend neither on threads nor on layout, and a
// call moves the offset past the blocks it drew.
#include <numeric>

#include "elementwise.h"

namespace host {
namespace {

class Philox {
 public:
  // Reserves blocks of a generator.
  Philox(diopiGeneratorHandle_t generator, int64_t blocks) {
    check(generator != nullptr, "a generator is wanted");
    check(diopiGeneratorGetSeedAndOffset(generator, &seed_, &offset_) == diopiSuccess, "the generator has no seed");
    check(diopiGeneratorSetSeedAndOffset(generator, seed_, offset_ + static_cast<uint64_t>(blocks)) == diopiSuccess,
          "the generator takes no offset");
  }

  struct Draw {
    uint32_t word[4];
    // 53 bits in [0, 1).
    double uniform(int half) const {
      const uint64_t bits = uint64_t{word[2 * half]} << 32 | word[2 * half + 1];
      return static_cast<double>(bits >> 11) * 0x1p-53;
    }
    uint64_t bits() const { return uint64_t{word[0]} << 32 | word[1]; }
    // Box and Muller's transform.
    double normal() const {
      return std::sqrt(-2 * std::log(1 - uniform(0))) * std::cos(6.283185307179586 * uniform(1));
    }
    // Exponentially distributed, mean 1.
    double exponential() const { return -std::log(1 - uniform(0)); }
  };

  Draw operator()(int64_t block) const {
    const uint64_t at = offset_ + static_cast<uint64_t>(block);
    uint32_t c[4] = {static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), 0, 0};
    uint32_t k0 = static_cast<uint32_t>(seed_), k1 = static_cast<uint32_t>(seed_ >> 32);
    for (int round = 0; round < 10; round++) {
      const uint64_t p = uint64_t{0xD2511F53} * c[0], q = uint64_t{0xCD9E8D57} * c[2];
      const uint32_t next[4] = {static_cast<uint32_t>(q >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(q),
                                static_cast<uint32_t>(p >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p)};
      std::copy(next, next + 4, c);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    return {{c[0], c[1], c[2], c[3]}};
  }

 private:
  uint64_t seed_ = 0, offset_ = 0;
};

// randomly sets element i to value(i, draw), as T.
template <class T, class Value>
void randomly(const Tensor& out, diopiGeneratorHandle_t generator, Value value) {
  const Philox random(generator, out.numel);
  DenseOut<T> y(out, true);
  parallelFor(out.numel, grainFor(32), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) y[i] = value(i, random(i));
  });
  y.commit();
}

void mustBeFloating(Dtype d) {
  if (!isFloating(d)) unsupported(d);
}

void uniform(const Tensor& out, double from, double to, diopiGeneratorHandle_t g) {
  mustBeFloating(out.dtype);
  visitFloat(out.dtype, [&](auto zero) {
    using C = decltype(zero);
    // The interval is open at its end, also after rounding.
    const C last = std::nextafter(C(to), C(from));
    randomly<C>(out, g, [=](int64_t, const Philox::Draw& d) {
      return std::min(C(from + (to - from) * d.uniform(0)), std::max(last, C(from)));
    });
  });
}

// normal draws around means with deviations, which broadcast to the result.
void normal(const Tensor& out, const Tensor& mean, const Tensor& deviation, diopiGeneratorHandle_t g) {
  mustBeFloating(out.dtype);
  const Dense<double> m(mean.expand(out.shape)), s(deviation.expand(out.shape));
  visitFloat(out.dtype, [&](auto zero) {
    using C = decltype(zero);
    randomly<C>(out, g, [&](int64_t i, const Philox::Draw& d) { return C(m[i] + s[i] * d.normal()); });
  });
}

void bernoulli(const Tensor& out, const Tensor& probability, diopiGeneratorHandle_t g) {
  const Dense<double> p(probability.expand(out.shape));
  for (int64_t i = 0; i < p.size(); i++) check(p[i] >= 0 && p[i] <= 1, "a probability is not between 0 and 1");
  randomly<bool>(out, g, [&](int64_t i, const Philox::Draw& d) { return d.uniform(0) < p[i]; });
}

// integers draws from [from, to); without to, up to what the dtype holds exactly.
void integers(const Tensor& out, int64_t from, const int64_t* to, diopiGeneratorHandle_t g) {
  uint64_t range;  // 0 stands for 2^64
  if (to) {
    check(from < *to, "the interval is empty");
    range = static_cast<uint64_t>(*to) - static_cast<uint64_t>(from);
  } else {
    uint64_t largest;
    switch (out.dtype) {
      case diopi_dtype_bool: largest = 1; break;
      case diopi_dtype_bfloat16: largest = uint64_t{1} << 8; break;
      case diopi_dtype_float16: largest = uint64_t{1} << 11; break;
      case diopi_dtype_float32: largest = uint64_t{1} << 24; break;
      case diopi_dtype_float64: largest = uint64_t{1} << 53; break;
      case diopi_dtype_uint64: largest = ~uint64_t{0}; break;
      default: largest = (uint64_t{1} << (8 * out.itemsize() - (out.dtype % 2 == 0 ? 1 : 0))) - 1;
    }
    range = largest - static_cast<uint64_t>(from) + 1;
  }
  randomly<int64_t>(out, g, [=](int64_t, const Philox::Draw& d) {
    return static_cast<int64_t>(static_cast<uint64_t>(from) + (range == 0 ? d.bits() : d.bits() % range));
  });
}

void permutation(const Tensor& out, int64_t n, diopiGeneratorHandle_t g) {
  check(out.numel == n, "the result does not hold n numbers");
  const Philox random(g, n);
  DenseOut<int64_t> y(out);
  std::iota(y.data(), y.data() + n, int64_t{0});
  for (int64_t i = n - 1; i > 0; i--) std::swap(y[i], y[static_cast<int64_t>(random(i).bits() % static_cast<uint64_t>(i + 1))]);
  y.commit();
}

// multinomial draws categories of each row of weights. Without replacement, the
// k with the largest weight over an exponential draw are a sample of k.
void multinomial(const Tensor& out, const Tensor& weights, int64_t samples, bool replacement, diopiGeneratorHandle_t g) {
  check(weights.dim() == 1 || weights.dim() == 2, "weights must be a vector or a matrix");
  const int64_t n = weights.size(weights.dim() - 1), rows = weights.dim() == 2 ? weights.size(0) : 1;
  check(replacement || samples <= n, "more samples than categories without replacement");
  const Dense<double> w(weights);
  DenseOut<int64_t> y(out);
  const Philox random(g, rows * (replacement ? samples : n));
  for (int64_t r = 0; r < rows; r++) {
    const double* p = w.data() + r * n;
    std::vector<double> sums(n);
    for (int64_t i = 0; i < n; i++) check(p[i] >= 0 && std::isfinite(p[i]), "a weight is negative or not finite");
    std::partial_sum(p, p + n, sums.begin());
    check(n > 0 && sums.back() > 0, "the weights sum to zero");
    if (replacement) {
      for (int64_t k = 0; k < samples; k++) {
        const double u = random(r * samples + k).uniform(0) * sums.back();
        y[r * samples + k] = std::upper_bound(sums.begin(), sums.end() - 1, u) - sums.begin();
      }
      continue;
    }
    std::vector<std::pair<double, int64_t>> order(n);
    for (int64_t i = 0; i < n; i++) order[i] = {-p[i] / (random(r * n + i).exponential() + 1e-300), i};
    std::partial_sort(order.begin(), order.begin() + samples, order.end());
    for (int64_t k = 0; k < samples; k++) y[r * samples + k] = order[k].second;
  }
  y.commit();
}

// dropout keeps elements with probability 1-p and scales them by 1/(1-p). A
// mask smaller than the input drops whole channels.
void dropout(const Tensor& out, const Tensor& mask, const Tensor& input, double p, bool train, diopiGeneratorHandle_t g) {
  check(p >= 0 && p <= 1, "p is not between 0 and 1");
  if (!train) {
    if (mask) fill(mask, scalar(int64_t{1}));
    if (out.data != input.data) copy(out, input);
    return;
  }
  check(static_cast<bool>(mask), "a mask is wanted");
  randomly<bool>(mask, g, [p](int64_t, const Philox::Draw& d) { return d.uniform(0) >= p; });
  visitFloat(input.dtype, [&](auto zero) {
    using C = decltype(zero);
    const C scale = p == 1 ? C(0) : C(1 / (1 - p));
    map<C>(out, [scale](C x, bool keep) { return keep ? x * scale : C(0); }, in<C>(input), in<bool>(mask));
  });
}

}  // namespace
}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiUniformInp(diopiContextHandle_t, diopiTensorHandle_t inout, double from, double to,
                             diopiGeneratorHandle_t generator) {
  return guard(__func__, [&] { uniform(inout, from, to, generator); });
}

diopiError_t diopiNormal(diopiContextHandle_t, diopiTensorHandle_t out, double mean, double std,
                         diopiGeneratorHandle_t generator) {
  return guard(__func__, [&] {
    normal(out, ScalarTensor(scalar(mean), diopi_dtype_float64), ScalarTensor(scalar(std), diopi_dtype_float64), generator);
  });
}

diopiError_t diopiNormalInp(diopiContextHandle_t, diopiTensorHandle_t inout, double mean, double std,
                            diopiGeneratorHandle_t generator) {
  return guard(__func__, [&] {
    normal(inout, ScalarTensor(scalar(mean), diopi_dtype_float64), ScalarTensor(scalar(std), diopi_dtype_float64), generator);
  });
}

diopiError_t diopiNormalTensor(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t mean,
                               diopiConstTensorHandle_t std, diopiGeneratorHandle_t generator) {
  return guard(__func__, [&] { normal(out, mean, std, generator); });
}

diopiError_t diopiNormalTensorScalar(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t mean, double std,
                                     diopiGeneratorHandle_t generator) {
  return guard(__func__, [&] { normal(out, mean, ScalarTensor(scalar(std), diopi_dtype_float64), generator); });
}

diopiError_t diopiNormalScalarTensor(diopiContextHandle_t, diopiTensorHandle_t out, double mean, diopiConstTensorHandle_t std,
                                     diopiGeneratorHandle_t generator) {
  return guard(__func__, [&] { normal(out, ScalarTensor(scalar(mean), diopi_dtype_float64), std, generator); });
}

diopiError_t diopiBernoulli(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                            diopiGeneratorHandle_t generator) {
  return guard(__func__, [&] { bernoulli(out, input, generator); });
}

diopiError_t diopiBernoulliInp(diopiContextHandle_t, diopiTensorHandle_t inout, diopiGeneratorHandle_t generator) {
  return guard(__func__, [&] { bernoulli(inout, inout, generator); });
}

diopiError_t diopiBernoulliScalar(diopiContextHandle_t, diopiTensorHandle_t out, double p, diopiGeneratorHandle_t generator) {
  return guard(__func__, [&] { bernoulli(out, ScalarTensor(scalar(p), diopi_dtype_float64), generator); });
}

diopiError_t diopiRandomInp(diopiContextHandle_t, diopiTensorHandle_t inout, int64_t from, const int64_t* to,
                            diopiGeneratorHandle_t generator) {
  return guard(__func__, [&] { integers(inout, from, to, generator); });
}

diopiError_t diopiRandperm(diopiContextHandle_t, diopiTensorHandle_t out, int64_t n, diopiGeneratorHandle_t generator) {
  return guard(__func__, [&] { permutation(out, n, generator); });
}

diopiError_t diopiMultinomial(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                              int64_t num_samples, bool replacement, diopiGeneratorHandle_t generator) {
  return guard(__func__, [&] { multinomial(out, input, num_samples, replacement, generator); });
}

diopiError_t diopiDropout(diopiContextHandle_t, diopiTensorHandle_t out, diopiTensorHandle_t mask,
                          diopiConstTensorHandle_t input, double p, bool train, diopiGeneratorHandle_t generator) {
  return guard(__func__, [&] { dropout(out, mask, input, p, train, generator); });
}

diopiError_t diopiDropoutInp(diopiContextHandle_t, diopiTensorHandle_t input, diopiTensorHandle_t mask, double p, bool train,
                             diopiGeneratorHandle_t generator) {
  return guard(__func__, [&] { dropout(input, mask, input, p, train, generator); });
}

}
