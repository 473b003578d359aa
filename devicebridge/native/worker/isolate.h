#ifndef OPTOOL_WORKER_ISOLATE_H_
#define OPTOOL_WORKER_ISOLATE_H_

#include <cstdint>

namespace optool {

// What keeps this process, the library and what the library starts away from optool; bits of
// the byte that the worker's first answer has.
enum Isolation : uint8_t {
  ownProcesses = 1,  // a PID namespace: no other process has a number here
  ownProcfs = 2,     // a mount namespace whose /proc lists this namespace only
  filtered = 4,      // a filter of system calls (restrain.h)
};

// Where optool started this program as the first process of a PID namespace, ownNamespace forks. The
// parent stays the first process: it writes how the child ended to statusFd, as wait does, and
// ends, which ends all processes of the namespace. Faults that end a process do not end the first
// one of a namespace, so the library must not be loaded there. Returns in the child, or in this
// process if it is no first one, a set of Isolation.
uint8_t ownNamespace(int statusFd);

}  // namespace optool

#endif
