#include "arena.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace optool {

namespace {

constexpr char guardByte = '\xA7';
constexpr uint64_t alignment = 256;
constexpr uint64_t fileStep = 1 << 20;

const std::array<char, guardBytes> intact = [] {
  std::array<char, guardBytes> a;
  a.fill(guardByte);
  return a;
}();

size_t pageSize() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

size_t machineMemory() { return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * pageSize(); }

uint64_t roundUp(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

// Copies the guard bands of a block of device memory with copy(stream, on the
// device, here, bytes); false if that fails.
template <class Copy>
bool copyGuards(diopiContext& context, const Arena::Block& b, const char* before, const char* after, Copy copy) {
  diopiStreamHandle_t stream = nullptr;
  return context.getStream(&stream) == diopiSuccess && copy(stream, b.data - guardBytes, before, guardBytes) == diopiSuccess &&
         copy(stream, b.data + b.nbytes, after, guardBytes) == diopiSuccess;
}

}  // namespace

void fillGuards(char* data, size_t nbytes) {
  std::memcpy(data - guardBytes, intact.data(), guardBytes);
  std::memcpy(data + nbytes, intact.data(), guardBytes);
}

Damage checkGuards(char* data, size_t nbytes) {
  Damage damage;
  for (int64_t start : {-static_cast<int64_t>(guardBytes), static_cast<int64_t>(nbytes)}) {
    if (std::memcmp(data + start, intact.data(), guardBytes) == 0) continue;
    for (size_t i = 0; i < guardBytes; i++) {
      if (data[start + static_cast<int64_t>(i)] == guardByte) continue;
      if (damage.count++ == 0) damage.first = start + static_cast<int64_t>(i);
    }
    std::memcpy(data + start, intact.data(), guardBytes);
  }
  return damage;
}

Arena::Arena(int fd, const Device& device) : fd_(fd), device_(device), most_(machineMemory() / 2) {
  // As much address space as there is; the file decides what can be touched. The page behind it cannot.
  for (size_ = size_t{1} << 38; size_ >= fileStep; size_ /= 2) {
    void* p = mmap(nullptr, size_ + pageSize(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (p != MAP_FAILED) {
      if (mprotect(static_cast<char*>(p) + size_, pageSize(), PROT_NONE) != 0) break;
      base_ = static_cast<char*>(p);
      madvise(p, size_, MADV_DONTFORK);  // a copy of this process has no business there
      return;
    }
  }
  throw std::runtime_error("the shared memory cannot be mapped");
}

bool Arena::isWhole() const {
  // The page behind the mapping keeps it from growing. Linux says EFAULT, before that, of a range that is no
  // single mapping: of one that was taken back, replaced or closed to writing in some place.
  return mremap(base_, size_, size_ + pageSize(), 0) == MAP_FAILED && errno != EFAULT;
}

void Arena::begin(uint64_t plan, uint64_t top, unsigned char fill) {
  struct stat st;
  if (fstat(fd_, &st) != 0) throw std::runtime_error("the shared memory has no size");
  file_ = static_cast<uint64_t>(st.st_size);
  if (file_ > size_ || plan > file_ || top > file_ - plan) throw std::runtime_error("the plan needs more memory than there are addresses");
  plan_ = plan;
  bottom_ = plan + top;
  fill_ = fill;
  filling = true;
  releaseAll();
}

char* Arena::block(size_t nbytes) {
  if (nbytes > most_) return nullptr;
  uint64_t start = roundUp(top_ + guardBytes, alignment), end = start + nbytes + guardBytes;
  if (end > size_ || end - plan_ > most_) return nullptr;
  if (end > file_) {
    uint64_t want = roundUp(end, fileStep);
    if (want > size_ || ftruncate(fd_, static_cast<off_t>(want)) != 0) return nullptr;
    file_ = want;
  }
  top_ = end;
  char* data = base_ + start;
  fillGuards(data, nbytes);
  if (filling) std::memset(data, fill_, nbytes);
  return data;
}

void* Arena::allocate(diopiContext& context, diopiDevice_t where, size_t bytes) {
  const bool onDevice = where == diopi_device && !device_.isHostMemory();
  char* data;
  if (onDevice) {
    if (bytes > size_) return nullptr;
    auto p = static_cast<char*>(device_.allocate(bytes + 2 * guardBytes));
    data = p ? p + guardBytes : nullptr;
  } else {
    data = block(bytes);
  }
  if (!data) return nullptr;
  blocks_.push_back({data, bytes, onDevice});
  if (onDevice && filling && !copyGuards(context, blocks_.back(), intact.data(), intact.data(), device_.h2d)) return nullptr;
  return data;
}

Damage Arena::checkGuards(diopiContext& context, const Block& b) {
  if (!b.onDevice) return optool::checkGuards(b.data, b.nbytes);
  if (!filling) return {};
  // Both bands, side by side: those of a tensor of no bytes.
  std::array<char, 2 * guardBytes> bands;
  char* middle = bands.data() + guardBytes;
  auto read = [this](diopiStreamHandle_t stream, void* onDevice, const void* here, uint64_t n) {
    return device_.d2h(stream, const_cast<void*>(here), onDevice, n);
  };
  if (!copyGuards(context, b, bands.data(), middle, read) || context.synchronize() != diopiSuccess) {
    throw std::runtime_error("device_memcpy_d2h_async fails");
  }
  Damage d = optool::checkGuards(middle, 0);
  if (d.count == 0) return d;
  if (d.first >= 0) d.first += static_cast<int64_t>(b.nbytes);
  copyGuards(context, b, intact.data(), intact.data(), device_.h2d);
  return d;
}

void Arena::releaseAll() {
  top_ = bottom_;
  for (const Block& b : blocks_) {
    if (b.onDevice) device_.release(b.data - guardBytes);
  }
  blocks_.clear();
}

}  // namespace optool
