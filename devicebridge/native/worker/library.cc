#include "library.h"

#include <dlfcn.h>

namespace optool {

namespace {

using Text = const char* (*)();

std::string textOf(Text f) {
  const char* s = nullptr;
  try {
    s = f ? f() : nullptr;
  } catch (...) {  // what a library says about itself must not cost the answer
  }
  return s ? s : "";
}

void* openOrExplain(const std::string& path, int scope, std::string* problem) {
  // Lazily: functions of other runtimes that are missing matter only when called.
  void* handle = nullptr;
  try {
    handle = dlopen(path.c_str(), RTLD_LAZY | scope);
  } catch (...) {
    *problem = "an exception came out of its initialisation";
    return nullptr;
  }
  if (!handle) {
    const char* e = dlerror();
    *problem = e ? e : "dlopen gives no reason";
  }
  return handle;
}

}  // namespace

std::string Library::open(const std::string& path, const std::string& adaptor) {
  std::string problem;
  void* vendorFunctions = nullptr;
  if (!adaptor.empty()) {
    vendorFunctions = openOrExplain(adaptor, RTLD_GLOBAL, &problem);
    if (!vendorFunctions) return "adaptor: " + problem;
  }
  void* operators = openOrExplain(path, RTLD_LOCAL, &problem);
  if (!operators) return problem;
  problem = device.lookUp(vendorFunctions ? vendorFunctions : operators);
  if (!problem.empty()) return "device functions: " + problem;
  if (vendorFunctions && device.isHostMemory()) return "adaptor: it has none of device_malloc, device_free, device_memcpy_h2d_async, device_memcpy_d2h_async";
  if (device.init) {
    if (diopiError_t e = device.init(); e != diopiSuccess) return "initLibrary returned " + std::to_string(e);
  }
  vendor = textOf(reinterpret_cast<Text>(dlsym(operators, "diopiGetVendorName")));
  version = textOf(reinterpret_cast<Text>(dlsym(operators, "diopiGetImplVersion")));
  lastError_ = reinterpret_cast<Text>(dlsym(operators, "diopiGetLastErrorString"));
  hasLastError = lastError_ != nullptr;
  symbols.resize(functionCount);
  for (size_t i = 0; i < functionCount; i++) symbols[i] = dlsym(operators, functions[i].name);
  return "";
}

void Library::close() {
  if (device.finalize) device.finalize();
}

std::string Library::lastError() const { return textOf(lastError_); }

}  // namespace optool
