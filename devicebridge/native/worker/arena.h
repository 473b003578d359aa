// The memory that optool and the worker share: a file without a name, mapped by
// both; and the device's, where that has memory of its own. Every tensor lies
// between two guard bands, which no operator may write.

#ifndef OPTOOL_WORKER_ARENA_H_
#define OPTOOL_WORKER_ARENA_H_

#include <vector>

#include "../runtime/runtime.h"

namespace optool {

// Bytes before the first and after the last byte of every tensor.
constexpr size_t guardBytes = 1024;

// Where something was written that must not be: count bytes, the first at offset
// first from the tensor's first byte.
struct Damage {
  int64_t count = 0, first = 0;
};

// Writes the guard bands around a tensor.
void fillGuards(char* data, size_t nbytes);
// Finds and repairs what was written to them.
Damage checkGuards(char* data, size_t nbytes);

// An Arena is also the memory of tensors that operators ask for.
class Arena : public Memory {
 public:
  // fd is the shared file. Throws std::runtime_error if it cannot be mapped.
  Arena(int fd, const Device& device);

  // The addresses it has, of which a plan uses some.
  uint64_t size() const { return size_; }
  // Where in the plan's memory something lies.
  char* at(uint64_t offset) { return base_ + plan_ + offset; }
  uint64_t offsetOf(const void* p) const { return static_cast<uint64_t>(static_cast<const char*>(p) - base_ - plan_); }
  bool holds(const void* p) const { return p >= base_ && p < base_ + size_; }
  // Whether all addresses are still those of the file, and may be written.
  bool isWhole() const;

  // A new plan: its memory begins at plan in the file; what lies above top there is
  // free, and new memory is filled with fill.
  void begin(uint64_t plan, uint64_t top, unsigned char fill);
  // A tensor's memory between guard bands; nullptr if there is no more.
  char* block(size_t nbytes);

  void* allocate(diopiContext& context, diopiDevice_t where, size_t bytes) override;
  void releaseAll() override;

  struct Block {
    char* data;
    size_t nbytes;
    bool onDevice;  // which has memory of its own
  };
  // What operators asked for since releaseAll.
  const std::vector<Block>& blocks() const { return blocks_; }
  // Finds and repairs what was written to the guard bands of a block.
  Damage checkGuards(diopiContext& context, const Block& b);
  // Without, new memory is left as it is until the next plan, on a device without
  // guard bands: for measurements.
  bool filling = true;

 private:
  int fd_;
  const Device& device_;
  char* base_;
  size_t size_;  // of the mapping, more than the file has
  size_t most_;  // bytes of a plan: half of the machine's memory
  uint64_t file_ = 0, plan_ = 0, bottom_ = 0, top_ = 0;  // offsets in the file
  unsigned char fill_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace optool

#endif
