// Scaled dot product attention of one head, forward and backward, for the entry
// points that differ in where queries, keys and values lie.
#ifndef OPTOOL_HOST_ATTENTION_H_
#define OPTOOL_HOST_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <limits>

#include "dense.h"
#include "gemm.h"
#include "softmax.h"

namespace host {

// Head is the attention of one head over one sequence: rows of q, k and v are
// `dim` elements with the strides given.
template <class C>
struct Head {
  const C *q, *k, *v;
  int64_t queries, keys, dim;
  int64_t qRow, kRow, vRow;
  C scale;
  // Query i sees keys lowest(i) to highest(i) - 1; the last query sits at the last key.
  bool causal = false;
  int64_t left = -1, right = -1;  // window, without a limit if negative
  const bool* mask = nullptr;     // [queries, keys], true where hidden
  int64_t maskRow = 0, maskColumn = 0;
  C slope = 0;                      // of the linear bias with distance (ALiBi)
  double dropout = 0;               // probability
  uint64_t seed = 0;                // of the dropout of this head
  const uint8_t* kept = nullptr;    // or rows of a mask, 1 where kept
  int64_t keptRow = 0;

  static constexpr int64_t kBlock = 64;  // queries at once

  int64_t lowest(int64_t i) const { return left < 0 ? 0 : std::clamp<int64_t>(i + keys - queries - left, 0, keys); }
  int64_t highest(int64_t i) const {
    int64_t end = keys;
    if (causal) end = std::min(end, i + keys - queries + 1);
    if (right >= 0) end = std::min(end, i + keys - queries + right + 1);
    return std::clamp<int64_t>(end, 0, keys);
  }
  // factor is what dropout multiplies a probability with.
  C factor(int64_t i, int64_t j) const {
    if (dropout <= 0) return 1;
    const bool keep = kept ? kept[i * keptRow + j] != 0 : keeps(seed, static_cast<uint64_t>(i * keys + j), dropout);
    return keep ? static_cast<C>(1 / (1 - dropout)) : C(0);
  }
  // keeps draws from a counter: the same number for the same seed and position
  // (the finaliser of splitmix64).
  static bool keeps(uint64_t seed, uint64_t position, double dropout) {
    uint64_t z = seed + (position + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53 >= dropout;
  }

  // probabilities fills [rows, keys] for queries from `first`; the logarithm of each
  // row's sum goes to lse if that exists. Rows that see nothing become 0.
  void probabilities(int64_t first, int64_t rows, C* p, C* lse) const {
    const C never = -std::numeric_limits<C>::infinity();
    gemm<C>(rows, keys, dim, {q + first * qRow, qRow, 1}, {k, 1, kRow}, p, keys);
    for (int64_t r = 0; r < rows; r++) {
      const int64_t i = first + r, low = lowest(i), high = highest(i);
      C* row = p + r * keys;
      bool any = false;
      for (int64_t j = 0; j < keys; j++) {
        const bool hidden = j < low || j >= high || (mask && mask[i * maskRow + j * maskColumn]);
        any = any || !hidden;
        row[j] = hidden ? never : row[j] * scale - slope * static_cast<C>(std::abs(i + keys - queries - j));
      }
      if (lse) lse[i] = any ? logSumExp<C>(row, keys).whole() : std::numeric_limits<C>::infinity();
      if (any) softmaxRow<C>(row, row, keys);
      else std::fill_n(row, keys, C(0));
    }
  }

  // forward writes [queries, dim] to out.
  void forward(C* out, int64_t outRow, C* lse) const {
    Scratch<C> p(std::min(kBlock, queries) * keys);
    for (int64_t first = 0; first < queries; first += kBlock) {
      const int64_t rows = std::min(kBlock, queries - first);
      probabilities(first, rows, p, lse);
      if (dropout > 0) {
        for (int64_t i = 0; i < rows * keys; i++) p[i] *= factor(first + i / keys, i % keys);
      }
      gemm<C>(rows, dim, keys, {p, keys, 1}, {v, vRow, 1}, out + first * outRow, outRow);
    }
  }

  // backward sets the rows of gradQ and adds to those of gradK and gradV.
  void backward(const C* grad, int64_t gradRow, C* gradQ, C* gradK, C* gradV) const {
    const int64_t block = std::min(kBlock, queries);
    Scratch<C> p(block * keys), slopes(block * keys), dropped(dropout > 0 ? block * keys : 0);
    for (int64_t first = 0; first < queries; first += kBlock) {
      const int64_t rows = std::min(kBlock, queries - first);
      probabilities(first, rows, p, nullptr);
      const Matrix<C> g{grad + first * gradRow, gradRow, 1};
      gemm<C>(rows, keys, dim, g, {v, 1, vRow}, slopes, keys);
      C* weights = p;  // what multiplied the values
      if (dropout > 0) {
        weights = dropped;
        for (int64_t i = 0; i < rows * keys; i++) {
          const C f = factor(first + i / keys, i % keys);
          dropped[i] = p[i] * f;
          slopes[i] *= f;
        }
      }
      gemm<C>(keys, dim, rows, {weights, 1, keys}, g, gradV, vRow, true);
      for (int64_t r = 0; r < rows; r++) {
        C *pr = p + r * keys, *sr = slopes + r * keys, along = 0;
        for (int64_t j = 0; j < keys; j++) along += pr[j] * sr[j];
        for (int64_t j = 0; j < keys; j++) sr[j] = pr[j] * (sr[j] - along) * scale;
      }
      gemm<C>(rows, dim, keys, {slopes, keys, 1}, {k, kRow, 1}, gradQ + first * qRow, qRow);
      gemm<C>(keys, dim, rows, {slopes, 1, keys}, {q + first * qRow, qRow, 1}, gradK, kRow, true);
    }
  }
};

}  // namespace host

#endif  // OPTOOL_HOST_ATTENTION_H_
