#include "library.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace optool {

namespace {

using Text = const char* (*)();

constexpr size_t nameBytes = 1024, reasonBytes = 4096;  // that a text may have

enum class Read { whole, longer, unreadable };

// Reads the text at an address that may be any: what is at it goes through a pipe, whose
// end says so where there is nothing. It is written by a bare system call, since sanitizers
// take the rest of the page, behind the text, for an overrun of write.
Read readText(const char* s, size_t most, std::string* text) {
  constexpr size_t page = 4096;  // of any machine, or a part of one
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return Read::unreadable;
  Read result = Read::longer;
  while (result == Read::longer && text->size() < most) {
    const char* at = s + text->size();
    char piece[page];
    const size_t n = std::min(page - reinterpret_cast<uintptr_t>(at) % page, most - text->size());
    if (syscall(SYS_write, ends[1], at, n) != static_cast<long>(n) ||
        read(ends[0], piece, n) != static_cast<ssize_t>(n)) {
      result = Read::unreadable;
      break;
    }
    const void* end = std::memchr(piece, 0, n);
    if (end) result = Read::whole;
    text->append(piece, end ? static_cast<size_t>(static_cast<const char*>(end) - piece) : n);
  }
  close(ends[0]);
  close(ends[1]);
  return result;
}

// What a library says about itself must not cost the run: what is wrong with it is a remark.
std::string nameOf(void* library, const char* function, std::vector<std::string>* remarks) {
  auto f = reinterpret_cast<Text>(dlsym(library, function));
  if (!f) return "";
  std::string text, problem;
  try {
    const char* s = f();
    if (!s) {
      problem = "gives no text but a null pointer";
    } else if (Read r = readText(s, nameBytes, &text); r == Read::unreadable) {
      problem = "gives an address that cannot be read";
    } else if (r == Read::longer) {
      problem = "gives a text that does not end after " + std::to_string(nameBytes) + " bytes";
    }
  } catch (...) {
    problem = "threw " + describeException();
  }
  if (problem.empty()) return text;
  remarks->push_back(std::string(function) + " " + problem);
  return "";
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
  return s.substr(0, std::min(s.find_first_of("\r\n"), reasonBytes));
}

std::string describeException() {
  if (!std::current_exception()) return "a foreign exception";  // of which C++ knows no type
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (!type) return "an exception";
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
  vendor = nameOf(operators, "diopiGetVendorName", &remarks);
  version = nameOf(operators, "diopiGetImplVersion", &remarks);
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

std::string Library::errorText(diopiError_t code, uint32_t function) const {
  std::string text = lastError();
  const bool lacking = code == diopiNoImplement || code == diopiForceFallbackToCPU || code == diopiDtypeNotSupported;
  if (lacking && text == told_ && (toldOfFailure_ || function != toldBy_)) return "";
  told_ = text;
  toldBy_ = function;
  toldOfFailure_ = !lacking;
  return text;
}

std::string Library::lastError() const {
  if (!lastError_) return "";
  const char* s = nullptr;
  try {
    s = lastError_();
  } catch (...) {
    return "diopiGetLastErrorString threw " + describeException();
  }
  std::string text;
  if (s && readText(s, reasonBytes, &text) == Read::unreadable) return "diopiGetLastErrorString gives an address that cannot be read";
  return text;
}

}  // namespace optool
