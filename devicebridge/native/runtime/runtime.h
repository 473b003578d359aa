// The host side of DIOPI: tensors, contexts and generators behind the handles of
// diopi.h, and the device functions they stand on.
//
// Ownership: a context owns every tensor made through it, whether by the host or
// by an operator (diopiRequireTensor), until clear(); handles stay valid that long.
// A generator belongs to whoever made it. Operators free nothing.
//
// Threads: operators may call the runtime from several threads; a context locks
// where it creates.

#ifndef OPTOOL_RUNTIME_H_
#define OPTOOL_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

// What a library imports is visible; everything else here is hidden, so that a
// library's own classes of the same names are never mixed up with these.
#pragma GCC visibility push(default)
#include "../include/diopi.h"
#pragma GCC visibility pop

namespace optool {

// Bytes of one element; 0 for a dtype that has no size (complex32, unsupported).
int64_t itemSize(diopiDtype_t dtype);

// A Device is a vendor's device functions, as DIOPI's conformance kit names them
// (conform_test.h). Without an adaptor device memory is host memory.
struct Device {
  void* (*allocate)(uint64_t bytes) = nullptr;                                                         // device_malloc
  void (*release)(void* p) = nullptr;                                                                  // device_free
  diopiError_t (*h2d)(diopiStreamHandle_t, void* dst, const void* src, uint64_t bytes) = nullptr;      // device_memcpy_h2d_async
  diopiError_t (*d2h)(diopiStreamHandle_t, void* dst, const void* src, uint64_t bytes) = nullptr;      // device_memcpy_d2h_async
  diopiError_t (*d2d)(diopiStreamHandle_t, void* dst, const void* src, uint64_t bytes) = nullptr;      // device_memcpy_d2d_async
  diopiError_t (*makeStream)(diopiStreamHandle_t*) = nullptr;                                          // device_make_stream
  diopiError_t (*destroyStream)(diopiStreamHandle_t) = nullptr;                                        // device_destroy_stream
  diopiError_t (*synchronize)(diopiStreamHandle_t) = nullptr;                                          // device_synchronize_stream
  diopiError_t (*init)() = nullptr;                                                                    // initLibrary
  diopiError_t (*finalize)() = nullptr;                                                                // finalizeLibrary

  bool isHostMemory() const { return allocate == nullptr; }

  // Looks the functions up in a library opened with dlopen. A library without
  // any of the memory functions leaves host memory; one that has some of the
  // four that are needed (malloc, free, h2d, d2h) but not all is an error,
  // whose text is returned.
  std::string lookUp(void* library);
};

// A Memory hands out the memory of tensors.
class Memory {
 public:
  virtual ~Memory() = default;
  // At least bytes bytes, aligned for any vector type, nullptr if there are none.
  // Contents are not initialised.
  virtual void* allocate(diopiContext& context, diopiDevice_t where, size_t bytes) = 0;
  // Takes everything back.
  virtual void releaseAll() = 0;
};

// Plain memory of the process, or of the device where that is another.
class PlainMemory : public Memory {
 public:
  explicit PlainMemory(const Device& device) : device_(device) {}
  ~PlainMemory() override { releaseAll(); }
  void* allocate(diopiContext& context, diopiDevice_t where, size_t bytes) override;
  void releaseAll() override;

 private:
  const Device& device_;
  std::vector<std::pair<diopiDevice_t, void*>> blocks_;
};

}  // namespace optool

struct __attribute__((visibility("hidden"))) diopiTensor {
  diopiDtype_t dtype = diopi_dtype_unsupported;
  diopiDevice_t device = diopi_device;
  std::vector<int64_t> shape, stride;  // stride in elements
  int64_t numel = 0;
  size_t nbytes = 0;  // of the storage: (1 + sum((n-1)*stride)) * itemsize
  void* data = nullptr;
  // The parts of a sparse tensor (CSR); null in a dense one.
  diopiTensor* crow = nullptr;
  diopiTensor* col = nullptr;
  diopiTensor* values = nullptr;

  bool isSparse() const { return values != nullptr; }

  // Sets shape and strides, and from them numel and nbytes. Without strides it
  // is dense row-major: the running product as it is, so that dimensions left
  // of an empty one get stride 0. False if dtype has no size, a number is
  // negative or the storage is larger than can be.
  bool setLayout(diopiDtype_t type, const diopiSize_t* size, const diopiSize_t* strides);
};

struct __attribute__((visibility("hidden"))) diopiContext {
  diopiContext(const optool::Device& d, optool::Memory& m) : device(d), memory(m) {}
  ~diopiContext();
  diopiContext(const diopiContext&) = delete;
  diopiContext& operator=(const diopiContext&) = delete;

  // A tensor without memory, owned by the context.
  diopiTensor* newTensor();
  // A tensor with memory of its own; nullptr if the arguments are wrong or
  // memory is short, which code then tells apart.
  diopiTensor* requireTensor(const diopiSize_t* size, const diopiSize_t* stride, diopiDtype_t dtype, diopiDevice_t where, diopiError_t* code);
  // The stream, made at first use.
  diopiError_t getStream(diopiStreamHandle_t* out);
  // Waits for what was enqueued, if anything was.
  diopiError_t synchronize();
  // Takes all tensors and their memory back. Handles become invalid.
  void clear();
  // Gives memory and stream back, and no new ones from then on. Handles stay valid.
  void end();

  const optool::Device& device;
  optool::Memory& memory;
  // Tensors that operators asked for since the last clear.
  const std::deque<diopiTensor>& tensors() const { return tensors_; }

 private:
  std::recursive_mutex mutex_;  // the memory of a new tensor may need the stream
  std::deque<diopiTensor> tensors_;  // a deque does not move its elements
  diopiStreamHandle_t stream_ = nullptr;
  bool hasStream_ = false, ended_ = false;
};

// A random number generator. Its state is seed and offset, 8 bytes each, until a
// library sets a state of another size.
struct __attribute__((visibility("hidden"))) diopiGenerator {
  explicit diopiGenerator(diopiContext& c, uint64_t s = 0, uint64_t o = 0);
  void setSeedAndOffset(uint64_t s, uint64_t o);

  diopiContext& context;
  uint64_t seed, offset;
  std::vector<char> state;
};

#endif
