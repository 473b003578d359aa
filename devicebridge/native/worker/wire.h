// Messages between optool and the worker: a length (uint32), the number of the
// request (uint32), then fields, all little-endian. devicebridge/wire.go is the other side.

#ifndef OPTOOL_WORKER_WIRE_H_
#define OPTOOL_WORKER_WIRE_H_

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace optool {

// Reads fields; a message that ends early is a std::runtime_error.
class Reader {
 public:
  explicit Reader(const std::vector<char>& message) : p_(message.data()), end_(p_ + message.size()) {}

  template <class T>
  T get() {
    T v;
    std::memcpy(&v, take(sizeof v), sizeof v);
    return v;
  }
  uint8_t u8() { return get<uint8_t>(); }
  uint32_t u32() { return get<uint32_t>(); }
  uint64_t u64() { return get<uint64_t>(); }
  int64_t i64() { return get<int64_t>(); }
  std::vector<int64_t> ints() {
    size_t n = u32();
    std::vector<int64_t> v(n);
    if (n > 0) std::memcpy(v.data(), take(n * sizeof(int64_t)), n * sizeof(int64_t));
    return v;
  }
  std::string text() {
    size_t n = u32();
    return std::string(take(n), n);
  }

 private:
  const char* take(size_t n) {
    if (static_cast<size_t>(end_ - p_) < n) throw std::runtime_error("message ends early");
    const char* p = p_;
    p_ += n;
    return p;
  }
  const char* p_;
  const char* end_;
};

class Writer {
 public:
  Writer() { clear(); }
  void clear() { bytes_.assign(head, 0); }

  template <class T>
  void put(T v) {
    const char* p = reinterpret_cast<const char*>(&v);
    bytes_.insert(bytes_.end(), p, p + sizeof v);
  }
  void u8(uint8_t v) { put(v); }
  void u32(uint32_t v) { put(v); }
  void u64(uint64_t v) { put(v); }
  void i64(int64_t v) { put(v); }
  void ints(const std::vector<int64_t>& v) {
    u32(static_cast<uint32_t>(v.size()));
    for (int64_t x : v) i64(x);
  }
  void text(const std::string& s) {
    u32(static_cast<uint32_t>(s.size()));
    bytes_.insert(bytes_.end(), s.begin(), s.end());
  }
  // The fields of another.
  void append(const Writer& w) { bytes_.insert(bytes_.end(), w.bytes_.begin() + head, w.bytes_.end()); }
  // The message with its length and the request's number in front.
  const std::vector<char>& message(uint32_t request) {
    uint32_t n = static_cast<uint32_t>(bytes_.size() - sizeof(uint32_t));
    std::memcpy(bytes_.data(), &n, sizeof n);
    std::memcpy(bytes_.data() + sizeof n, &request, sizeof request);
    return bytes_;
  }

 private:
  static constexpr size_t head = 2 * sizeof(uint32_t);
  std::vector<char> bytes_;
};

}  // namespace optool

#endif
