// Calls of DIOPI's functions with arguments that are known only at run time.

#ifndef OPTOOL_WORKER_FUNCTIONS_H_
#define OPTOOL_WORKER_FUNCTIONS_H_

#include "../runtime/runtime.h"

namespace optool {

// A Slot holds one argument; the function's prototype says which member.
union Slot {
  void* pointer;  // handles, arrays, strings, pointers to numbers
  int64_t integer;  // integers, bool, enumerations
  double real;
  diopiSize_t size;
};

// A Function calls a symbol of its own prototype.
struct Function {
  const char* name;
  diopiError_t (*call)(void* symbol, const Slot* args);
};

// All functions of the interface but the runtime's and those that return text,
// in the order of abi.json.
extern const Function functions[];
extern const size_t functionCount;

}  // namespace optool

#endif
