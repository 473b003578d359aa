// The device library and its adaptor.

#ifndef OPTOOL_WORKER_LIBRARY_H_
#define OPTOOL_WORKER_LIBRARY_H_

#include <string>
#include <vector>

#include "functions.h"

namespace optool {

struct Library {
  // Opens the library, and the adaptor unless its path is empty, and starts the
  // device. Returns what went wrong, or "".
  std::string open(const std::string& path, const std::string& adaptor);
  // Ends the device. The libraries stay loaded: their threads may still run.
  void close();
  // diopiGetLastErrorString, "" if there is none.
  std::string lastError() const;

  Device device;
  std::string vendor, version;
  bool hasLastError = false;
  std::vector<void*> symbols;  // by index in functions; null if not exported

 private:
  const char* (*lastError_)() = nullptr;
};

}  // namespace optool

#endif
