#include <dlfcn.h>

#include <cstdlib>
#include <new>

#include "runtime.h"

namespace optool {

std::string Device::lookUp(void* library) {
  struct Symbol {
    const char* name;
    void** function;
    bool needed;
  };
  const Symbol symbols[] = {
      {"device_malloc", reinterpret_cast<void**>(&allocate), true},
      {"device_free", reinterpret_cast<void**>(&release), true},
      {"device_memcpy_h2d_async", reinterpret_cast<void**>(&h2d), true},
      {"device_memcpy_d2h_async", reinterpret_cast<void**>(&d2h), true},
      {"device_memcpy_d2d_async", reinterpret_cast<void**>(&d2d), false},
      {"device_make_stream", reinterpret_cast<void**>(&makeStream), false},
      {"device_destroy_stream", reinterpret_cast<void**>(&destroyStream), false},
      {"device_synchronize_stream", reinterpret_cast<void**>(&synchronize), false},
      {"initLibrary", reinterpret_cast<void**>(&init), false},
      {"finalizeLibrary", reinterpret_cast<void**>(&finalize), false},
  };
  std::string have, missing;
  for (const Symbol& s : symbols) {
    *s.function = dlsym(library, s.name);
    if (s.needed) {
      std::string& list = *s.function ? have : missing;
      list += list.empty() ? s.name : std::string(", ") + s.name;
    }
  }
  if (!have.empty() && !missing.empty()) {
    return "it has " + have + " but not " + missing;
  }
  return "";
}

namespace {
constexpr size_t granule = 1024;  // as DIOPI's reference runtime rounds
}

void* PlainMemory::allocate(diopiContext&, diopiDevice_t where, size_t bytes) {
  if (bytes > SIZE_MAX - granule) return nullptr;
  size_t n = (bytes + granule - 1) / granule * granule;
  if (n == 0) n = granule;
  bool host = where == diopi_host || device_.isHostMemory();
  void* p = host ? std::aligned_alloc(granule, n) : device_.allocate(n);
  if (p != nullptr) blocks_.emplace_back(host ? diopi_host : diopi_device, p);
  return p;
}

void PlainMemory::releaseAll() {
  for (auto [where, p] : blocks_) {
    where == diopi_host ? std::free(p) : device_.release(p);
  }
  blocks_.clear();
}

}  // namespace optool
