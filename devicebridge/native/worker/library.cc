#include "library.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>

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

// The mode of this thread, without the flags that computing sets.
uint64_t modeNow() {
#if defined(__x86_64__) || defined(__aarch64__)
  std::fenv_t e;
  std::fegetenv(&e);
#endif
#if defined(__x86_64__)
  return uint64_t{e.__mxcsr & ~0x3Fu} << 16 | e.__control_word;
#elif defined(__aarch64__)
  return e.__fpcr;
#else
  return static_cast<uint64_t>(std::fegetround());
#endif
}

}  // namespace

// The first line of a text that says something: a backtrace may follow it.
static std::string firstLine(const char* text) {
  std::string s = text ? text : "";
  s.erase(0, s.find_first_not_of(" \t\r\n"));
  return s.substr(0, s.find_first_of("\r\n"));
}

std::string describeException() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (!type) return "a foreign exception";
  int status = 0;
  char* name = abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
  std::string s = name ? name : type->name();
  std::free(name);
  try {
    throw;
  } catch (const std::exception& e) {
    return s + ": " + firstLine(e.what());
  } catch (const char* text) {
    return firstLine(text);
  } catch (...) {
    return s;
  }
}

FloatMode::FloatMode() : mode_(modeNow()) { std::fegetenv(&environment_); }

bool FloatMode::restore() const {
  if (modeNow() == mode_) return false;
  std::fesetenv(&environment_);
  return true;
}

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
  try {
    if (diopiError_t e = device.init ? device.init() : diopiSuccess; e != diopiSuccess) return "initLibrary returned " + std::to_string(e);
  } catch (...) {
    return "initLibrary threw " + describeException();
  }
  vendor = textOf(reinterpret_cast<Text>(dlsym(operators, "diopiGetVendorName")));
  version = textOf(reinterpret_cast<Text>(dlsym(operators, "diopiGetImplVersion")));
  lastError_ = reinterpret_cast<Text>(dlsym(operators, "diopiGetLastErrorString"));
  hasLastError = lastError_ != nullptr;
  symbols.resize(functionCount);
  for (size_t i = 0; i < functionCount; i++) symbols[i] = dlsym(operators, functions[i].name);
  floatMode = FloatMode();
  return "";
}

void Library::close() {
  if (device.finalize) device.finalize();
}

std::string Library::lastError() const { return textOf(lastError_); }

}  // namespace optool
