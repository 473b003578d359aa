// The device library and its adaptor.

#ifndef OPTOOL_WORKER_LIBRARY_H_
#define OPTOOL_WORKER_LIBRARY_H_

#include <cfenv>
#include <cstdint>
#include <string>
#include <vector>

#include "functions.h"
#include "process.h"

namespace optool {

// What is being thrown, for people: its type as it is written in C++, and its text.
// To be called where it is caught.
std::string describeException();

// A FloatMode is how floating point computes in a thread: rounding, what becomes of
// subnormal numbers, precision. Whoever changes it changes what its caller computes.
class FloatMode {
 public:
  FloatMode();  // the mode of this thread now
  // Sets the thread to it; true if it was another.
  bool restore() const;

 private:
  std::fenv_t environment_;
  uint64_t mode_;
};

struct Library {
  // Opens the library, and the adaptor unless its path is empty, and starts the
  // device. Returns what went wrong, or "".
  std::string open(const std::string& path, const std::string& adaptor);
  // Ends the device. The libraries stay loaded: their threads may still run.
  void close();
  // What diopiGetLastErrorString says of a code that a function returned, "" if it says nothing. A library keeps the text
  // of its last failure: a call that is merely not implemented does not get that.
  std::string errorText(diopiError_t code, uint32_t function) const;

  Device device;
  std::string vendor, version;
  std::vector<std::string> remarks;  // what is wrong with what it says about itself
  bool hasLastError = false;
  std::vector<void*> symbols;  // by index in functions; null if not exported
  FloatMode floatMode;         // once it was loaded: its constructors may set one
  Process process;             // once the worker is ready

 private:
  std::string lastError() const;

  const char* (*lastError_)() = nullptr;
  mutable std::string told_;            // the last text of a function
  mutable uint32_t toldBy_ = ~0u;       // and which it was
  mutable bool toldOfFailure_ = false;  // not of a function that is not implemented
};

}  // namespace optool

#endif
