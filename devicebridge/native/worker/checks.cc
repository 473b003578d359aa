#include "checks.h"

#include <cstring>

namespace optool {

namespace {

// Calls f(offset of the element in bytes, row-major index) for every element.
template <class F>
void forEach(const diopiTensor& t, F f) {
  if (t.numel == 0) return;
  const int64_t item = itemSize(t.dtype);
  const size_t rank = t.shape.size();
  const int64_t inner = rank ? t.shape[rank - 1] : 1, step = rank ? t.stride[rank - 1] * item : 0;
  std::vector<int64_t> at(rank, 0);
  int64_t offset = 0;
  for (int64_t index = 0; index < t.numel; index += inner) {
    for (int64_t i = 0; i < inner; i++) f(offset + i * step, index + i);
    for (size_t d = rank > 0 ? rank - 1 : 0; d-- > 0;) {
      offset += t.stride[d] * item;
      if (++at[d] < t.shape[d]) break;
      offset -= t.shape[d] * t.stride[d] * item;
      at[d] = 0;
    }
  }
}

bool rowMajor(const diopiTensor& t) {
  int64_t product = 1;
  for (size_t d = t.shape.size(); d-- > 0;) {
    if (t.shape[d] != 1 && t.stride[d] != product) return false;
    product *= t.shape[d];
  }
  return true;
}

bool hasGaps(const diopiTensor& t) { return static_cast<int64_t>(t.nbytes) > t.numel * itemSize(t.dtype); }

template <class Word>
Damage countWords(const char* data, int64_t n, unsigned char fill) {
  Word pattern;
  std::memset(&pattern, fill, sizeof pattern);
  Damage d;
  for (int64_t i = 0; i < n; i++) {
    Word w;
    std::memcpy(&w, data + i * static_cast<int64_t>(sizeof w), sizeof w);
    d.count += w == pattern;
  }
  for (; d.count > 0; d.first++) {
    if (std::memcmp(data + d.first * static_cast<int64_t>(sizeof(Word)), &pattern, sizeof pattern) == 0) break;
  }
  return d;
}

}  // namespace

uint64_t hashBytes(const char* p, size_t n) {
  // Four independent lanes of multiply and rotate, so that memory sets the pace.
  uint64_t lane[4] = {0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5};
  const size_t length = n;
  auto mix = [](uint64_t h, uint64_t w) {
    h = (h ^ w) * 0x9FB21C651E98DF25;
    return h ^ (h >> 29);
  };
  for (; n >= sizeof lane; n -= sizeof lane, p += sizeof lane) {
    for (int i = 0; i < 4; i++) {
      uint64_t w;
      std::memcpy(&w, p + i * 8, 8);
      lane[i] = mix(lane[i], w);
    }
  }
  uint64_t tail[4] = {};
  std::memcpy(tail, p, n);
  uint64_t h = length;
  for (int i = 0; i < 4; i++) h = mix(h, mix(lane[i], tail[i]));
  return h;
}

Damage countFilled(const diopiTensor& t, const char* data, unsigned char fill) {
  const int64_t item = itemSize(t.dtype);
  if (rowMajor(t)) {
    switch (item) {
      case 1:
        return countWords<uint8_t>(data, t.numel, fill);
      case 2:
        return countWords<uint16_t>(data, t.numel, fill);
      case 4:
        return countWords<uint32_t>(data, t.numel, fill);
      case 8:
        return countWords<uint64_t>(data, t.numel, fill);
    }
  }
  char pattern[16];
  std::memset(pattern, fill, sizeof pattern);
  Damage d;
  forEach(t, [&](int64_t offset, int64_t index) {
    if (std::memcmp(data + offset, pattern, static_cast<size_t>(item)) == 0 && d.count++ == 0) d.first = index;
  });
  return d;
}

Damage countDifferent(const diopiTensor& t, const char* a, const char* b) {
  Damage d;
  if (!hasGaps(t) && std::memcmp(a, b, t.nbytes) == 0) return d;
  const size_t item = static_cast<size_t>(itemSize(t.dtype));
  forEach(t, [&](int64_t offset, int64_t index) {
    if (std::memcmp(a + offset, b + offset, item) != 0 && d.count++ == 0) d.first = index;
  });
  return d;
}

Damage checkGaps(const diopiTensor& t, char* data, unsigned char fill) {
  Damage d;
  if (!hasGaps(t)) return d;
  const int64_t item = itemSize(t.dtype);
  std::vector<bool> element(t.nbytes / static_cast<size_t>(item));
  forEach(t, [&](int64_t offset, int64_t) { element[static_cast<size_t>(offset / item)] = true; });
  for (size_t i = 0; i < t.nbytes; i++) {
    if (element[i / static_cast<size_t>(item)] || static_cast<unsigned char>(data[i]) == fill) continue;
    if (d.count++ == 0) d.first = static_cast<int64_t>(i);
    data[i] = static_cast<char>(fill);
  }
  return d;
}

}  // namespace optool
