// Sums of many terms: 16 running sums side by side, which vectorise, folded into
// a total every 4096 terms, so that the error grows slowly with their number.
#ifndef OPTOOL_HOST_SUMS_H_
#define OPTOOL_HOST_SUMS_H_

#include <algorithm>
#include <cstdint>

namespace host {

// sumOf returns the sum of term(0) ... term(n-1).
template <class C, class F>
inline C sumOf(int64_t n, F&& term) {
  constexpr int64_t kLanes = 16, kFold = 4096;
  C total = 0;
  for (int64_t from = 0; from < n; from += kFold) {
    const int64_t to = std::min(n, from + kFold);
    C lanes[kLanes] = {};
    int64_t i = from;
    for (; i + kLanes <= to; i += kLanes) {
      for (int64_t l = 0; l < kLanes; l++) lanes[l] += term(i + l);
    }
    for (int64_t l = 0; i < to; i++, l++) lanes[l] += term(i);
    for (int64_t width = kLanes / 2; width > 0; width /= 2) {
      for (int64_t l = 0; l < width; l++) lanes[l] += lanes[l + width];
    }
    total += lanes[0];
  }
  return total;
}

// addRows adds `rows` rows of term(row, column) to `sums`, in blocks of rows.
template <class C, class F>
inline void addRows(int64_t rows, int64_t columns, C* sums, F&& term) {
  constexpr int64_t kColumns = 256, kRows = 64;
  for (int64_t c0 = 0; c0 < columns; c0 += kColumns) {
    const int64_t width = std::min(kColumns, columns - c0);
    for (int64_t r0 = 0; r0 < rows; r0 += kRows) {
      C part[kColumns] = {};
      for (int64_t r = r0; r < std::min(rows, r0 + kRows); r++) {
        for (int64_t j = 0; j < width; j++) part[j] += term(r, c0 + j);
      }
      for (int64_t j = 0; j < width; j++) sums[c0 + j] += part[j];
    }
  }
}

}  // namespace host

#endif  // OPTOOL_HOST_SUMS_H_
